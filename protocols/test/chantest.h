/*
 * chantest.h - how a program drives chantest's client.
 */
#ifndef XK_CHANTEST_H
#define XK_CHANTEST_H

#include "xkernel/protocol.h"

enum { XK_CHANTEST_MAX = 1 << 19, XK_CHANTEST_CHANNELS = 4096 };

extern const struct xk_protocol_type xk_type_chantest;

/* How a run ended. */
struct xk_chantest_result {
	/*
	 * 0; -ETIMEDOUT: the server was silent for too long; -EMSGSIZE: messages of this size cannot be sent by this
	 * graph; -ECANCELED: the kernel was stopped; -EAGAIN: there are not so many shepherds; or what opening a
	 * channel said last.
	 */
	int error;
	uint64_t rounds;     /* replies that came back right, warm-up not counted */
	uint64_t failed;     /* calls that ended with an error */
	uint64_t bad;        /* replies whose length or contents were wrong */
	uint64_t reopened;   /* channels that were opened again because the server had been booted again */
	uint32_t max_packet; /* what a channel can send at most, 0 if it did not come to that */
};

/*
 * A run: `channels` shepherds, each of which calls on a channel of its own, one call after the other, until `rounds`
 * replies have come in all. The callbacks are called by those shepherds: they must not wait and not call chantest.
 * All of them get `argument`; record and failed are never called after finished, nor two of them at once.
 */
struct xk_chantest_run {
	uint32_t host;                                              /* the server */
	uint32_t size;                                              /* bytes of a message, 0 to XK_CHANTEST_MAX */
	unsigned channels;                                          /* 1 to XK_CHANTEST_CHANNELS */
	uint64_t warm_up;                                           /* rounds that are neither recorded nor counted */
	uint64_t rounds;                                            /* at least 1 */
	void (*record)(void *argument, uint64_t rtt_ns);            /* each counted call; may be NULL */
	void (*failed)(void *argument, int error, uint64_t rtt_ns); /* each call that failed; may be NULL */
	void (*finished)(void *argument, const struct xk_chantest_result *result);
	void *argument;
};

/*
 * Starts a run on a started kernel. Main thread. 0; -EBUSY: a run is under way; -EINVAL: an impossible run; -EAGAIN: no
 * shepherd could be started; -ENOMEM.
 */
int xk_chantest_start(struct xk_protocol *chantest, const struct xk_chantest_run *run);

#endif
