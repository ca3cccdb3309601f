/*
 * blasttest.h - how a program drives blasttest: messages of a size, and how many of them have come whole.
 */
#ifndef XK_BLASTTEST_H
#define XK_BLASTTEST_H

#include "xkernel/protocol.h"

enum {
	XK_BLASTTEST_MIN = 20,      /* bytes of a message: its header */
	XK_BLASTTEST_MAX = 1 << 20, /* the protocol below bounds it besides */
	XK_BLASTTEST_WINDOW = 256,  /* messages whose answers are awaited, at most */
};

extern const struct xk_protocol_type xk_type_blasttest;

struct xk_blasttest_result {
	int error; /* 0; -EMSGSIZE; -ECANCELED: the kernel was stopped; or that of opening the session */
	/* sent = answered + lost, when it is over; unsent are among the sent, and lost */
	uint64_t sent, answered, lost, unsent;
	uint64_t whole;                               /* messages that have come whole, by the server's last answer */
	uint64_t rtt_min_ns, rtt_max_ns, rtt_mean_ns; /* from the push of a message to its answer; 0 without any */
};

/* `count` messages of `size` bytes, at most `window` of them under way. */
struct xk_blasttest_run {
	uint32_t host;
	uint32_t size, window;
	uint64_t count, timeout_ns;
	/* Called by the client's shepherd; must not wait. */
	void (*finished)(void *argument, const struct xk_blasttest_result *result);
	void *argument;
};

/*
 * Starts a run. Any thread, also before the kernel runs; never waits. Returns 0; -EBUSY: a run is under way; -EINVAL:
 * an impossible run.
 */
int xk_blasttest_start(struct xk_protocol *blasttest, const struct xk_blasttest_run *run);

#endif
