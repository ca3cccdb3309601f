/*
 * stopwait_private.h - the state of a session, for stopwait.c and its tests.
 */
#ifndef XK_STOPWAIT_PRIVATE_H
#define XK_STOPWAIT_PRIVATE_H

#include "protocols/budget.h"
#include "xkernel/event.h"
#include "xkernel/protocol.h"
#include "xkernel/share.h"

enum stopwait_kind { STOPWAIT_CALL = 1, STOPWAIT_WELCOME, STOPWAIT_DATA, STOPWAIT_ACK, STOPWAIT_GONE };

enum { STOPWAIT_HEADER_LEN = 30 };

/* One end. */
struct stopwait_session {
	struct xk_session session;
	uint64_t id;    /* of this end */
	uint32_t ports; /* as in arriving frames: source << 16 | destination */
	uint32_t max_packet;
	struct xk_share *share;   /* the host's, of buffers */
	bool passive;             /* made by a CALL */
	struct xk_binding caller; /* in `callers`, if passive */
	struct xk_event timer;    /* holds a reference on the session while pending */

	struct xk_lock lock; /* protects the fields below */
	uint64_t peer;       /* the other end; 0: no WELCOME yet */
	bool known;          /* to the hlp */
	bool timing;         /* the timer is pending, or its handler will check again */
	int error;           /* of a push; 0: not dead */
	/* sending: the first of the queue is under way; `timing` is set while there is one */
	struct xk_msg *first, **last;
	unsigned count;
	uint32_t sequence; /* of the first */
	unsigned tries;    /* its retransmissions */
	uint64_t timeout_ns, due_ns;
	struct xk_budget budget; /* of retransmissions */
	/* receiving */
	uint32_t expected;
	bool delivering; /* `expected` is on its way up */
};

#endif
