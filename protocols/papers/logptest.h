/*
 * logptest.h - how a program drives logptest's client.
 */
#ifndef XK_LOGPTEST_H
#define XK_LOGPTEST_H

#include "xkernel/protocol.h"

enum {
	XK_LOGPTEST_MIN = 8,         /* bytes of a message */
	XK_LOGPTEST_MAX = 65507,     /* the longest datagram of UDP over IP */
	XK_LOGPTEST_BATCHES = 1000,  /* of a run */
	XK_LOGPTEST_MESSAGES = 1024, /* of a batch, in each direction */
};

extern const struct xk_protocol_type xk_type_logptest;

/*
 * A batch: the client sends `sends` messages; the server answers the first `first` times, and the last `last` times. It
 * is over when all have been sent and all answers have come. {1, 0, 1} is a round trip, {64, 0, 1} a stream to the
 * server, {1, 64, 0} one from it, {64, 64, 1} both at once.
 */
struct xk_logptest_loop {
	uint32_t sends, first, last;
	uint64_t send_work_ns;    /* the client computes for so long after each message that it sends, but the last */
	uint64_t receive_work_ns; /* ... and after each answer, but the last */
};

/* The ends that copy the bytes of messages from their memory to buffers, or back. */
enum xk_logptest_copies {
	XK_LOGPTEST_SENDER, /* the receiver leaves them in the buffers */
	XK_LOGPTEST_NOBODY, /* the sender lends them (xk_msg_lend) */
	XK_LOGPTEST_BOTH,
	XK_LOGPTEST_COPIES,
};

/* The figures of a batch, from before its first push, or the medians of a run. */
struct xk_logptest_times {
	uint64_t sent_ns;     /* until its last message was given to the device */
	uint64_t answered_ns; /* until its last answer */
	/*
	 * For how long the client really computed: the spin ends with a reading of the clock. Of a run, measured before
	 * it.
	 */
	uint64_t send_work_ns, receive_work_ns;
};

/* How a run ended. */
struct xk_logptest_result {
	/*
	 * 0; -ETIMEDOUT: the server was silent for too long; -EMSGSIZE: the graph cannot send messages of this size;
	 * -ECANCELED: the kernel stopped; or the error of the last attempt to open the session.
	 */
	int error;
	uint64_t rounds, lost; /* batches that came to their end, and others */
	uint32_t max_packet;   /* longest message of the session; 0: it was not opened */
	struct xk_logptest_times times;
};

/* A run: `rounds` batches, one after another. The callbacks are as in udptest.h. */
struct xk_logptest_run {
	uint32_t host; /* the server */
	uint32_t size; /* bytes of a message */
	uint64_t rounds;
	struct xk_logptest_loop loop;
	enum xk_logptest_copies copies;
	void (*record)(void *argument, uint64_t answered_ns); /* each batch; may be NULL */
	void (*lost)(void *argument, uint64_t waited_ns);     /* each loss; may be NULL */
	void (*finished)(void *argument, const struct xk_logptest_result *result);
	void *argument;
};

/*
 * Starts a run on a started kernel. Main thread. Returns 0; -EBUSY: a run is in progress; -EINVAL: an impossible run;
 * -EAGAIN: no shepherd could be started.
 */
int xk_logptest_start(struct xk_protocol *logptest, const struct xk_logptest_run *run);

#endif
