/*
 * echo_rig.h - the far end of a port in the echo benchmarks: makes requests of many peers, checks the echoes and times
 * them. What is measured lies between its functions receive and transmit.
 *
 * First comes one request of every peer, in order, each echo checked to the last bit; then a warm-up; then the rounds
 * that count, of peers chosen uniformly at random, each echo checked for its length, addresses and ports. A message in
 * pieces is one request, and its echo the same pieces in the same order.
 */
#ifndef ECHO_RIG_H
#define ECHO_RIG_H

#include "tools/batches.h"
#include "tools/bench/echo_frame.h"
#include "xkernel/msg.h"

enum { ECHO_RIG_BURST = 32, ECHO_RIG_WARM_UP = 4096 };

struct echo_rig {
	/* set by the caller */
	struct xk_platform *platform;
	uint32_t first;                  /* the first peer's number, ... */
	uint32_t sessions;               /* ... and how many there are: 1 to ECHO_FRAME_MAX_PEERS */
	uint32_t burst;                  /* requests at a time: 1 to ECHO_RIG_BURST; fewer if their pieces do not fit */
	uint64_t rounds;                 /* that count; at least 1 */
	bool neighbours;                 /* each peer has a link address of its own */
	bool alone;                      /* nothing is there that would echo: requests come back as they are */
	void (*counting)(void *context); /* the rounds that count begin; may be NULL */
	void (*finished)(void *context); /* all rounds are over, or something is wrong; may be NULL */
	void *context;

	/* the outcome */
	bool done;
	const char *wrong; /* NULL: nothing */
	uint64_t wrong_round;

	/* private, but for the times in batches */
	struct echo_frames frames;
	uint64_t random;
	uint64_t made;                    /* requests */
	uint32_t pending[ECHO_RIG_BURST]; /* peers whose echoes are awaited, oldest first */
	uint32_t pending_count, pending_first;
	uint32_t piece;        /* of the oldest of them: which comes next */
	uint64_t sum;          /* of those that have come */
	struct xk_msg *spares; /* buffers of echoes, for the next requests; freed at the end */
	uint32_t silent;       /* times asked for requests since an echo came */
	struct batches batches;
};

/* Prepares a run; the caller's part has been filled in. size: message bytes, at most ECHO_FRAME_MAX_MESSAGE. */
void echo_rig_init(struct echo_rig *rig, const struct echo_end *server, uint32_t size);

/* As xk_port_ops.receive and transmit; context is the rig. Takes every frame. */
unsigned echo_rig_receive(void *context, struct xk_msg **frames, unsigned max);
unsigned echo_rig_transmit(void *context, struct xk_msg **frames, unsigned count);

/* Runs a rig that is alone, on its own. */
void echo_rig_alone(struct echo_rig *rig);

/* Returns what the rig itself costs per round with the same settings, measured by a run of its own. */
double echo_rig_cost_ns(const struct echo_rig *like, uint32_t size);

#endif
