/*
 * stopwait_private.h - what stopwait's tests share with it.
 */
#ifndef XK_STOPWAIT_PRIVATE_H
#define XK_STOPWAIT_PRIVATE_H

#include "xkernel/event.h"
#include "xkernel/protocol.h"

enum stopwait_kind { STOPWAIT_CALL = 1, STOPWAIT_WELCOME, STOPWAIT_DATA, STOPWAIT_ACK, STOPWAIT_GONE };

enum { STOPWAIT_HEADER_LEN = 30, STOPWAIT_ANONYMOUS_FIRST = 49152 };

/* One end. */
struct stopwait_session {
	struct xk_session session;
	uint64_t id;    /* of this end */
	uint32_t ports; /* as in what arrives */
	uint32_t max_packet;
	bool passive;             /* a CALL has made it */
	struct xk_binding caller; /* then: in callers */
	struct xk_event timer;    /* pending, it holds a reference on the session */

	struct xk_lock lock; /* over what follows */
	uint64_t peer;       /* the other end; 0: has not answered yet */
	bool known;          /* to the hlp */
	bool timing;         /* the timer is pending, or its handler will look again */
	int error;           /* of a push; 0: not dead */
	/* sending: the first of the queue is under way, and as long as there is one, `timing` */
	struct xk_msg *first, **last;
	unsigned count;
	uint32_t sequence; /* of the first */
	unsigned tries;    /* how often it was sent again */
	uint64_t timeout_ns, due_ns;
	/* receiving */
	uint32_t expected;
	bool delivering; /* that one is on its way up */
};

#endif
