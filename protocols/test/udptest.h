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
	 * 0; -ETIMEDOUT: the server was silent for too long; -EMSGSIZE: this graph cannot send messages of this size;
	 * -ECANCELED: the kernel was stopped; or the error of the last attempt to open the session.
	 */
	int error;
	uint64_t rounds;     /* echoes that came back right, warm-up not counted */
	uint64_t lost;       /* requests whose echo did not come in time */
	uint64_t late;       /* 0: echoes that come late are counted as drops */
	uint64_t bad;        /* echoes whose length or contents were wrong */
	uint32_t max_packet; /* the most that the session can send; 0: it was not opened */
};

/*
 * A run: one request at a time, each the answer to the echo before it, until `rounds` echoes have come back. Whoever
 * carries the message (the driver too) calls the callbacks: they must not wait, nor call udptest. All of them get
 * `argument`; they are never called at once, nor record or lost after finished.
 */
struct xk_udptest_run {
	uint32_t host;                                    /* the server */
	uint16_t port;                                    /* 0: XK_UDPTEST_PORT */
	uint32_t size;                                    /* bytes of a message, 1 to XK_UDPTEST_MAX */
	uint64_t warm_up;                                 /* rounds that are neither recorded nor counted */
	uint64_t rounds;                                  /* at least 1 */
	void (*record)(void *argument, uint64_t rtt_ns);  /* each counted round trip; may be NULL */
	void (*lost)(void *argument, uint64_t waited_ns); /* each loss; may be NULL */
	void (*finished)(void *argument, const struct xk_udptest_result *result);
	void *argument;
};

/*
 * Starts a run on a started kernel. The session to a server stays open from one run to the next. Main thread.
 * 0; -EBUSY: a run is under way; -EINVAL: an impossible run; -EAGAIN: no shepherd could be started.
 */
int xk_udptest_start(struct xk_protocol *udptest, const struct xk_udptest_run *run);

/* Closes the session to the server, if there is one. Any shepherd; never waits. 0; -EBUSY: a run is under way. */
int xk_udptest_close(struct xk_protocol *udptest);

#endif
