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
	 * 0; -ETIMEDOUT: the server was silent for too long; -EMSGSIZE: the graph cannot send messages of this size;
	 * -ECANCELED: the kernel stopped; -EAGAIN: too few shepherds; or the error of the last attempt to open a
	 * channel.
	 */
	int error;
	uint64_t rounds;     /* correct replies */
	uint64_t failed;     /* calls that ended with an error */
	uint64_t bad;        /* replies of wrong length or contents */
	uint64_t reopened;   /* channels opened again after a reboot of the server */
	uint32_t max_packet; /* longest message of a channel; 0: none was opened */
};

/*
 * A run: `channels` shepherds, each of which makes calls on its own channel, one after another, until `rounds` correct
 * replies have arrived in all. These shepherds call the callbacks, which must not wait, nor call chantest. They get
 * `argument`, and are never called concurrently, nor record or failed after finished.
 */
struct xk_chantest_run {
	uint32_t host;                                              /* the server */
	uint32_t size;                                              /* bytes of a message, 0 to XK_CHANTEST_MAX */
	unsigned channels;                                          /* 1 to XK_CHANTEST_CHANNELS */
	uint64_t rounds;                                            /* at least 1 */
	void (*record)(void *argument, uint64_t rtt_ns);            /* each correct reply; may be NULL */
	void (*failed)(void *argument, int error, uint64_t rtt_ns); /* each failed call; may be NULL */
	void (*finished)(void *argument, const struct xk_chantest_result *result);
	void *argument;
};

/*
 * Starts a run on a started kernel. Main thread. Returns 0; -EBUSY: a run is in progress; -EINVAL: an impossible run;
 * -EAGAIN: no shepherd could be started; -ENOMEM.
 */
int xk_chantest_start(struct xk_protocol *chantest, const struct xk_chantest_run *run);

#endif
