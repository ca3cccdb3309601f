/*
 * blasttest.h - how a program drives blasttest: messages of one size, and the number that arrive whole.
 */
#ifndef XK_BLASTTEST_H
#define XK_BLASTTEST_H

#include "xkernel/protocol.h"

enum {
	XK_BLASTTEST_MIN = 20,      /* bytes of a message: its header */
	XK_BLASTTEST_MAX = 1 << 20, /* the protocol below may allow less */
	XK_BLASTTEST_WINDOW = 256,  /* limit of messages whose answers are awaited */
};

extern const struct xk_protocol_type xk_type_blasttest;

struct xk_blasttest_result {
	int error; /* 0; -EMSGSIZE; -ECANCELED: the kernel stopped; or the error of opening the session */
	/* sent = answered + lost; unsent ones count as sent and lost */
	uint64_t sent, answered, lost, unsent;
	uint64_t whole;                               /* messages that arrived whole, by the server's last answer */
	uint64_t rtt_min_ns, rtt_max_ns, rtt_mean_ns; /* from the push of a message to its answer; 0: no answer */
};

/* A run: `count` messages of `size` bytes, at most `window` of them unanswered. */
struct xk_blasttest_run {
	uint32_t host;
	uint32_t size, window;
	uint64_t count, timeout_ns;
	/* Called by the client's shepherd; must not wait. */
	void (*finished)(void *argument, const struct xk_blasttest_result *result);
	void *argument;
};

/* Starts a run. Any thread, also before the kernel runs; never waits. Returns 0, -EBUSY or -EINVAL. */
int xk_blasttest_start(struct xk_protocol *blasttest, const struct xk_blasttest_run *run);

#endif
