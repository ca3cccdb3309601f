/*
 * echo_rig.h - the far end of a port in the echo benchmarks: creates requests of many peers, checks the echoes and
 * times them. The measurement covers the work between its functions receive and transmit.
 *
 * First comes one request from every peer, in order, with every bit of each echo checked; then a warm-up; then the
 * counted rounds, from peers chosen uniformly at random, each echo checked for its length, addresses and ports. A
 * message in pieces is one request, and its echo has the same pieces in the same order.
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
	uint32_t first;                  /* number of the first peer, ... */
	uint32_t sessions;               /* ... and count of peers: 1 to ECHO_FRAME_MAX_PEERS */
	uint32_t burst;                  /* requests at a time: 1 to ECHO_RIG_BURST; fewer if their pieces do not fit */
	uint64_t rounds;                 /* counted ones; at least 1 */
	bool neighbours;                 /* each peer has its own link address */
	bool alone;                      /* there is no server: requests come back unchanged */
	void (*counting)(void *context); /* called when the counted rounds begin; may be NULL */
	void (*finished)(void *context); /* called after the last round or an error; may be NULL */
	void *context;

	/* the outcome */
	bool done;
	const char *wrong; /* NULL: nothing */
	uint64_t wrong_round;

	/* private, except for the times in batches */
	struct echo_frames frames;
	uint64_t random;
	uint64_t made;                    /* number of requests */
	uint32_t pending[ECHO_RIG_BURST]; /* peers whose echoes are awaited, oldest first */
	uint32_t pending_count, pending_first;
	uint32_t piece;        /* number of the next piece of the oldest of them */
	uint64_t sum;          /* checksum of the pieces received so far */
	struct xk_msg *spares; /* buffers of echoes, for the next requests; freed at the end */
	uint32_t silent;       /* number of calls for requests since the last echo */
	struct batches batches;
};

/* Prepares a run; the caller's part is already set. size: message bytes, at most ECHO_FRAME_MAX_MESSAGE. */
void echo_rig_init(struct echo_rig *rig, const struct echo_end *server, uint32_t size);

/* Implement xk_port_ops.receive and transmit; context is the rig. transmit takes every frame. */
unsigned echo_rig_receive(void *context, struct xk_msg **frames, unsigned max);
unsigned echo_rig_transmit(void *context, struct xk_msg **frames, unsigned count);

/* Runs a rig that is alone. */
void echo_rig_alone(struct echo_rig *rig);

/* Returns the rig's own cost per round with the same settings, measured by a separate run. */
double echo_rig_cost_ns(const struct echo_rig *like, uint32_t size);

#endif
