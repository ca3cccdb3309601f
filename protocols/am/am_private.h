/*
 * am_private.h - the state of Active Messages, shared by am.c (the header, handlers, answers) and am_request.c (sessions and
 * their requests).
 */
#ifndef XK_AM_PRIVATE_H
#define XK_AM_PRIVATE_H

#include "protocols/am/am.h"
#include "xkernel/event.h"

enum am_drop {
	AM_BAD_KIND = XK_DROP_OWN,
	AM_BAD_LENGTH,
	AM_BAD_HANDLER,
	AM_TO_ALL,
	AM_NO_HANDLER,
	AM_STALE,
	AM_QUEUE_FULL,
	AM_BAD_REQUEST,
	AM_CLOSED,
	AM_TOO_LONG,
};

enum am_counter { AM_REQUESTS, AM_REPLIES, AM_ACKS, AM_ACKED, AM_UNSENT, AM_LOST, AM_LEFT };

enum {
	AM_OUTSTANDING_MAX = 64,
	AM_REPLY_TIMES = 3, /* a reply is at most this many times its request; not over BID */
};

struct am {
	struct xk_protocol protocol;
	uint64_t outstanding, queue, timeout_ns;
	struct xk_am_handler handlers[XK_AM_HANDLERS];
};

/* A request that was sent. */
struct am_request {
	uint32_t sequence;
	bool unanswered;
	uint64_t due_ns;
};

struct am_session {
	struct xk_session session;
	uint64_t number;
	struct xk_event timer; /* pending, it holds a reference on the session */
	struct xk_lock lock;   /* of what follows */
	bool timing;           /* the timer is pending, or its handler will look again */
	uint32_t sequence;     /* of the next request */
	unsigned unanswered;
	struct xk_msg *first, **last; /* requests that wait, headers in front */
	unsigned waiting;
	struct am_request requests[AM_OUTSTANDING_MAX]; /* as many as may be unanswered are in use */
};

static inline struct am *
am_of(struct xk_protocol *self)
{
	return xk_container_of(self, struct am, protocol);
}

static inline struct am_session *
am_session_of(struct xk_session *s)
{
	return xk_container_of(s, struct am_session, session);
}

static inline struct xk_key
am_key(uint64_t number)
{
	return (struct xk_key){ number, 0 };
}

/* ---- the header ---- */

enum {
	AM_AT_KIND = 0,
	AM_AT_ZERO = 1,
	AM_AT_HANDLER = 2,
	AM_AT_SEQUENCE = 4,
	AM_AT_LENGTH = 8,
	AM_AT_SESSION = 12,
	AM_HEADER_LEN = 20,
};

enum am_kind { AM_REQUEST = 1, AM_REPLY, AM_ACK };

struct am_header {
	enum am_kind kind;
	unsigned handler;
	uint32_t sequence;
	uint64_t session;
};

/* ---- am.c ---- */

/* Puts the header h before *m. False: no buffer, and *m is unchanged. */
bool am_header_push(struct xk_msg **m, const struct am_header *h);

/* ---- am_request.c; the lock is not held ---- */

/* As struct xk_protocol_ops and xk_session_ops say. am_open may wait. */
int am_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	    struct xk_participants *participants, struct xk_session **session);
int am_setup(struct xk_session *s, const void *how);
void am_close(struct xk_session *s);
int am_push(struct xk_session *s, struct xk_msg *m);

/* The request of that sequence is answered; *others_wait for room. False: there is no such request that is unanswered. */
bool am_answered(struct am_session *as, uint32_t sequence, bool *others_wait);
/* Sends what waits, as far as there is room for it. */
void am_send_waiting(struct am_session *as);

#endif
