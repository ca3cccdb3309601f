/*
 * tcptest.h - how a program drives tcptest's client.
 */
#ifndef XK_TCPTEST_H
#define XK_TCPTEST_H

#include "xkernel/protocol.h"

enum {
	XK_TCPTEST_PORT = 5001,
	XK_TCPTEST_MAX = XK_MSG_MAX, /* of a message */
	XK_TCPTEST_CONNECTIONS = 4096
};

/* What a connection carries; these numbers are in its request. */
enum xk_tcptest_flow { XK_TCPTEST_SEND = 1, XK_TCPTEST_RECEIVE, XK_TCPTEST_BOTH, XK_TCPTEST_ECHO };

extern const struct xk_protocol_type xk_type_tcptest;

/* How a run ended. */
struct xk_tcptest_result {
	/*
	 * 0; -ETIMEDOUT: the server was silent for too long; -EBADMSG: it sent wrong bytes; -ECONNRESET: a connection
	 * ended early; -ECANCELED: the kernel stopped; -EAGAIN: too few shepherds; or the error of the last attempt to
	 * open a connection.
	 */
	int error;
	uint64_t rounds;     /* messages that were echoed, sent (XK_TCPTEST_SEND) or received */
	uint64_t failed;     /* connections */
	uint64_t bad;        /* received bytes that are not those of the pattern */
	uint32_t max_packet; /* longest message of a connection; 0: none was opened */
};

/*
 * A run: `connections` shepherds, each of which carries its share of `rounds` messages on one connection, or, if
 * is_short, each on a connection of its own. The callbacks must not wait, nor call tcptest. They get `argument`, and
 * are never called concurrently, nor record after finished.
 */
struct xk_tcptest_run {
	uint32_t host; /* the server */
	enum xk_tcptest_flow flow;
	bool is_short;
	uint32_t size;        /* bytes of a message, 1 to XK_TCPTEST_MAX */
	unsigned connections; /* 1 to XK_TCPTEST_CONNECTIONS */
	uint64_t rounds;      /* at least 1 */
	/*
	 * Each message, with the time of its round trip; if it is short, with that of its connection; in a stream, with
	 * the time since the one before. May be NULL.
	 */
	void (*record)(void *argument, uint64_t ns);
	void (*finished)(void *argument, const struct xk_tcptest_result *result);
	void *argument;
};

/*
 * Starts a run on a started kernel. Main thread. Returns 0; -EBUSY: a run is in progress; -EINVAL: an impossible run;
 * -EAGAIN: no shepherd could be started.
 */
int xk_tcptest_start(struct xk_protocol *tcptest, const struct xk_tcptest_run *run);

#endif
