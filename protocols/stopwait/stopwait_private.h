/*
 * stopwait_private.h - the state of stopwait, shared by stopwait.c (what two ends say to each other) and stopwait_session.c
 * (how ends come to be, and which of them is meant).
 */
#ifndef XK_STOPWAIT_PRIVATE_H
#define XK_STOPWAIT_PRIVATE_H

#include "xkernel/event.h"
#include "xkernel/protocol.h"

enum stopwait_drop {
	STOPWAIT_BAD_LENGTH = XK_DROP_OWN,
	STOPWAIT_BAD_CHECKSUM,
	STOPWAIT_BAD_KIND,
	STOPWAIT_STALE,
	STOPWAIT_DUPLICATE,
	STOPWAIT_BAD_SEQUENCE,
	STOPWAIT_TOO_MANY,
	STOPWAIT_TOO_BIG,
	STOPWAIT_QUEUE_FULL,
	STOPWAIT_GAVE_UP,
	STOPWAIT_PEER_GONE,
	STOPWAIT_CLOSED,
};

enum stopwait_counter { STOPWAIT_CALLED, STOPWAIT_ACCEPTED, STOPWAIT_RETRANSMITTED, STOPWAIT_GONE_SENT };

enum stopwait_kind { STOPWAIT_CALL = 1, STOPWAIT_WELCOME, STOPWAIT_DATA, STOPWAIT_ACK, STOPWAIT_GONE };

enum {
	STOPWAIT_HEADER_LEN = 30,
	STOPWAIT_LONGEST = 65535, /* what the length field can say */
	STOPWAIT_ANONYMOUS_FIRST = 49152,
};

struct stopwait_header {
	uint32_t ports; /* source << 16 | destination */
	enum stopwait_kind kind;
	uint32_t sequence;
	uint64_t from, to; /* identifiers of ends; 0: none */
};

struct stopwait {
	struct xk_protocol protocol; /* first */
	/* settings */
	uint64_t queue, retries, timeout_ns, timeout_max_ns;

	/* self->table has sessions by (own identifier, ports): how all but a CALL finds its session */
	struct xk_map callers; /* (the caller's identifier, ports): the session that a CALL has made */
	_Atomic uint32_t next_anonymous;
};

/* One end. */
struct stopwait_session {
	struct xk_session session; /* first */
	uint64_t id;               /* of this end */
	uint32_t ports;            /* as in what arrives */
	uint32_t max_packet;
	bool passive;             /* a CALL has made it */
	struct xk_binding caller; /* then: in callers */
	struct xk_event timer;    /* pending, it holds a reference on the session */

	struct xk_lock lock; /* over what follows */
	uint64_t peer;       /* the other end; 0: has not answered yet */
	bool known;          /* to the hlp */
	bool timing;         /* the timer is pending, or its handler will look again */
	int error;           /* what a push gets; 0: not dead */
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

static inline struct stopwait *
stopwait_of(struct stopwait_session *s)
{
	return (struct stopwait *)s->session.protocol;
}

/* ---- the queue of what was pushed; the lock is held ---- */

static inline void
stopwait_enqueue(struct stopwait_session *s, struct xk_msg *m)
{
	m->link = NULL;
	*s->last = m;
	s->last = &m->link;
	s->count++;
}

/* The first; there is one. */
static inline struct xk_msg *
stopwait_dequeue(struct stopwait_session *s)
{
	struct xk_msg *m = s->first;

	s->first = m->link;
	if (--s->count == 0)
		s->last = &s->first;
	return m;
}

static inline void
stopwait_drop_all(struct stopwait_session *s, unsigned why)
{
	while (s->count > 0)
		xk_drop(s->session.protocol, stopwait_dequeue(s), why);
}

/* ---- stopwait.c ---- */

xk_event_handler stopwait_expire;

/* ---- stopwait_session.c: what struct xk_protocol_ops and struct xk_session_ops say ---- */

int stopwait_session_init(struct xk_protocol *self);
void stopwait_session_fini(struct xk_protocol *self);
int stopwait_session_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
			  struct xk_participants *participants, struct xk_session **session);
int stopwait_session_passive_key(struct xk_protocol *self, struct xk_protocol *hlp_type,
				 struct xk_participants *participants, struct xk_key *key);
struct xk_key stopwait_session_passive_key_of(const struct xk_session *session);
int stopwait_session_setup(struct xk_session *session, const void *how);
void stopwait_session_close(struct xk_session *session);
int stopwait_session_control(struct xk_session *session, int op, void *buffer, size_t len);
int stopwait_session_get_participants(struct xk_session *session, struct xk_participants *participants);

/*
 * The end that h, which came up lls, is for; where a stranger calls a port that somebody has enabled, a new one. 0, or the
 * reason to drop the message.
 */
unsigned stopwait_session_find(struct xk_protocol *self, struct xk_session *lls, const struct stopwait_header *h,
			       struct xk_session **session);

#endif
