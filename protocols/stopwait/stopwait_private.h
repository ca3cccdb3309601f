/*
 * stopwait_private.h - the state of a session, for stopwait.c and its tests.
 */
#ifndef XK_STOPWAIT_PRIVATE_H
#define XK_STOPWAIT_PRIVATE_H

#include "protocols/budget.h"
#include "xkernel/header.h"
#include "xkernel/protocol.h"
#include "xkernel/support/alarm.h"
#include "xkernel/support/retransmit.h"
#include "xkernel/support/share.h"

enum stopwait_kind { STOPWAIT_CALL = 1, STOPWAIT_WELCOME, STOPWAIT_DATA, STOPWAIT_ACK, STOPWAIT_GONE };

#define STOPWAIT_HEADER(F)                                                                                             \
	F(16, source, .kind = XK_NAMES_SESSION, .end = XK_END_REMOTE, .help = "port")                                  \
	F(16, destination, .kind = XK_NAMES_SESSION, .end = XK_END_LOCAL, .help = "port")                              \
	F(16, length, .kind = XK_LENGTH, .covers = XK_COVERS_MESSAGE)                                                  \
	F(16, checksum, .kind = XK_CHECKSUM, .print = XK_PRINT_HEX, .covers = XK_COVERS_MESSAGE)                       \
	F(16, kind, .values = stopwait_kinds)                                                                          \
	F(32, sequence)                                                                                                \
	F(64, from, .kind = XK_NAMES_SESSION, .print = XK_PRINT_HEX, .help = "the sender's end")                       \
	F(64, to, .kind = XK_NAMES_SESSION, .print = XK_PRINT_HEX, .help = "the receiver's end")
XK_HEADER(stopwait, STOPWAIT_HEADER);

enum { STOPWAIT_HEADER_LEN = XK_HEADER_LEN(stopwait) };

/* One end. */
struct stopwait_session {
	struct xk_session session;
	uint64_t id;              /* of this end */
	struct xk_share *share;   /* the host's, of buffers */
	bool passive;             /* made by a CALL */
	struct xk_binding caller; /* in `callers`, if passive */
	struct xk_alarm alarm;    /* set while messages are queued */

	struct xk_lock lock; /* protects the fields below */
	uint64_t peer;       /* the other end; 0: no WELCOME yet */
	bool known;          /* to the hlp */
	int error;           /* of a push; 0: not dead */
	/* sending: the first of the queue is in flight */
	struct xk_msg *first, **last;
	unsigned count;
	uint32_t sequence;       /* of the first */
	struct xk_retry retry;   /* of the first */
	struct xk_budget budget; /* of retransmissions */
	/* receiving */
	uint32_t expected;
	bool delivering; /* `expected` is being delivered */
};

#endif
