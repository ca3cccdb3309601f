/*
 * udptest.h - how a program drives udptest's client.
 */
#ifndef XK_UDPTEST_H
#define XK_UDPTEST_H

#include "xkernel/protocol.h"

enum { XK_UDPTEST_PORT = 2001, XK_UDPTEST_MAX = 65507 /* the longest datagram of UDP over IP */ };

extern const struct xk_protocol_type xk_type_udptest;

/* How a run ended. */
struct xk_udptest_result {
	/*
	 * 0; -ETIMEDOUT: the server was silent for too long; -EMSGSIZE: the graph cannot send messages of this size;
	 * -ECANCELED: the kernel stopped; or the error of the last attempt to open the session.
	 */
	int error;
	uint64_t rounds;     /* correct echoes */
	uint64_t lost;       /* requests without an echo in time */
	uint64_t late;       /* always 0: late echoes are counted as drops */
	uint64_t bad;        /* echoes of wrong length or contents */
	uint32_t max_packet; /* longest message of the session; 0: it was not opened */
};

/*
 * A run: one request at a time, sent when the previous echo arrives, until `rounds` correct echoes have arrived. The
 * thread that carries the message (perhaps a driver) calls the callbacks: they must not wait, nor call udptest. They
 * get `argument`, and are never called concurrently, nor record or lost after finished.
 */
struct xk_udptest_run {
	uint32_t host;                                    /* the server */
	uint16_t port;                                    /* 0: XK_UDPTEST_PORT */
	uint32_t size;                                    /* bytes of a message, 1 to XK_UDPTEST_MAX */
	uint64_t rounds;                                  /* at least 1 */
	void (*record)(void *argument, uint64_t rtt_ns);  /* each round trip; may be NULL */
	void (*lost)(void *argument, uint64_t waited_ns); /* each loss; may be NULL */
	void (*finished)(void *argument, const struct xk_udptest_result *result);
	void *argument;
};

/*
 * Starts a run on a started kernel. The session stays open between runs. Main thread. Returns 0; -EBUSY: a run is in
 * progress; -EINVAL: an impossible run; -EAGAIN: no shepherd could be started.
 */
int xk_udptest_start(struct xk_protocol *udptest, const struct xk_udptest_run *run);

/* Closes the session, if there is one. Any shepherd; never waits. Returns 0; -EBUSY: a run is in progress. */
int xk_udptest_close(struct xk_protocol *udptest);

#endif
