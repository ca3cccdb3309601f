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
	 * 0; -ETIMEDOUT: the server was silent for too long; -EMSGSIZE: this graph cannot send messages of this size;
	 * -ECANCELED: the kernel was stopped; -EAGAIN: there are not so many shepherds; or the error of the last
	 * attempt to open a channel.
	 */
	int error;
	uint64_t rounds;     /* replies that came back right, warm-up not counted */
	uint64_t failed;     /* calls that ended with an error */
	uint64_t bad;        /* replies whose length or contents were wrong */
	uint64_t reopened;   /* channels that were opened again, since the server was rebooted */
	uint32_t max_packet; /* the most that a channel can send; 0: none was opened */
};

/*
 * A run: `channels` shepherds, each of which calls on a channel of its own, one call after the other, until `rounds`
 * replies have come in all. Those shepherds call the callbacks, which must not wait, nor call chantest. All of them get
 * `argument`; they are never called at once, nor record or failed after finished.
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
