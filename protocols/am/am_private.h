/*
 * am_private.h - AM's state, for its parts and its tests. am.c has the protocol.
 */
#ifndef XK_AM_PRIVATE_H
#define XK_AM_PRIVATE_H

#include <sys/queue.h>

#include "protocols/am/am.h"
#include "protocols/budget.h"
#include "protocols/estimate.h"
#include "xkernel/bytes.h"
#include "xkernel/event.h"
#include "xkernel/share.h"

enum am_kind {
	AM_CALL = 1,
	AM_COOKIE,
	AM_WELCOME,
	AM_REQUEST,
	AM_STORE,
	AM_REPLY,
	AM_ACK,
	AM_REFUSED,
	AM_TAKEN,
	AM_GONE
};

enum am_drop {
	AM_BAD_KIND = XK_DROP_OWN,
	AM_BAD_HANDLER,
	AM_TO_ALL,
	AM_NO_HANDLER,
	AM_STALE, /* of or for another session, or not awaited */
	AM_DUPLICATE,
	AM_NO_CREDIT, /* beyond what the peer may have under way */
	AM_GAP,       /* the end of a store, of which something is missing */
	AM_BAD_REGION,
	AM_OUT_OF_BOUNDS,
	AM_BAD_TAG,
	AM_TOO_MANY, /* sessions of strangers, or of one */
	AM_REPEATED, /* an answer was asked for too often */
	/* of what is to be sent */
	AM_TOO_LONG,
	AM_QUEUE_FULL,
	AM_BAD_REQUEST,
	AM_CLOSED,
	AM_GAVE_UP,
	AM_PEER_GONE,
	AM_UNDELIVERED, /* refused by the peer */
	AM_NO_ROOM,     /* too many buffers are kept for the message's host */
};

/* replies: run; acks, refusals: received; acked: sent; expired: replies that nobody has taken; left: handoffs */
enum am_counter {
	AM_ACCEPTED,
	AM_REQUESTS,
	AM_STORES,
	AM_REPLIES,
	AM_ACKS,
	AM_ACKED,
	AM_RETRANSMITTED,
	AM_REPLIED_AGAIN,
	AM_RETURNED,
	AM_EXPIRED,
	AM_UNSENT,
	AM_LEFT,
	AM_UNKEPT,   /* replies without room to be kept: they are sent once */
	AM_WITHHELD, /* retransmissions of requests that the budget did not allow */
};

enum {
	AM_HEADER_LEN = 32,
	AM_CALL_LEN = 12,  /* bytes after a CALL's header */
	AM_STORE_LEN = 20, /* bytes after a STORE's header */
	AM_SLOTS = 64,

	AM_SHORT = 256, /* bytes of a message that is copied to be sent */
	AM_BUCKETS = 64,
	AM_AGAIN_TIMES = 3,     /* limit of the bytes of repeated replies, in those of first ones */
	AM_AGAIN_MAX = 1 << 16, /* and of what is left of it */
};

struct am_header {
	enum am_kind kind;
	unsigned count;   /* of words */
	unsigned handler; /* CALL: the endpoint; WELCOME: credits; REFUSED, GONE: the reason */
	uint32_t sequence;
	uint32_t oldest; /* REQUEST, STORE, TAKEN: the sender's oldest unanswered request */
	uint32_t length;
	uint64_t to, from; /* sessions; CALL: to is the cookie; COOKIE: from is */
	struct {
		uint16_t name, credits; /* of the caller's endpoint */
		uint64_t tag;
	} call;
};

/* After the header of a STORE: the part of a region, and which bytes of it these are. */
struct am_store {
	struct xk_region_part part;
	uint32_t offset;
	uint32_t before; /* messages of the same store that were sent before */
};

enum am_reason { AM_R_NO_ENDPOINT = 1, AM_R_TAG, AM_R_FORGOTTEN, AM_R_NO_HANDLER, AM_R_REGION, AM_R_END };

struct am_endpoint_state {
	struct am_endpoint_state *next;
	uint16_t name;
	struct xk_am_endpoint endpoint;
	struct xk_am_handler handlers[XK_AM_HANDLERS];
};

TAILQ_HEAD(am_sessions, am_session);

struct am {
	struct xk_protocol protocol; /* first */
	/* settings */
	uint64_t outstanding, queue, credits, port, timeout_ns, timeout_min_ns, timeout_max_ns, patience_ns,
		peer_sessions, kept_max, kept_peer_max;

	struct am_endpoint_state *endpoints; /* change only before the kernel runs */
	struct xk_regions regions;
	struct xk_shares shares;                /* of hosts, in the buffers kept for them */
	uint64_t secret[2];                     /* of cookies */
	struct xk_lock lock;                    /* protects the fields below; taken after a session's */
	struct am_sessions passive[AM_BUCKETS]; /* by address, the oldest first */
	unsigned passive_count;
};

/* A request under way, headers in front; m NULL: answered. */
struct am_request {
	struct xk_msg *m;
	uint64_t begun_ns, due_ns, timeout_ns;
	bool again; /* it was sent more than once */
};

enum am_progress { AM_NEVER, AM_RUNNING, AM_KEPT /* the reply */, AM_DONE, AM_NOT_DONE /* refused */ };

/* A request of the peer's. */
struct am_served {
	uint32_t sequence;
	enum am_progress progress;
	unsigned reason;   /* why it was not done */
	struct xk_msg *m;  /* the reply, headers in front */
	uint64_t until_ns; /* kept */
};

struct am_session {
	struct xk_session session; /* first */
	uint64_t number;           /* its own */
	uint64_t address;          /* of the peer, as far as it is known */
	uint64_t called;           /* of a passive one: what the peer's is; 0: active */
	uint16_t local, remote;    /* endpoints */
	uint32_t max_packet, fragment;
	const struct am_endpoint_state *endpoint; /* the local one; NULL: nothing is registered for it */
	struct xk_share *share;                   /* the host's, of buffers */
	TAILQ_ENTRY(am_session) of_address;
	struct xk_event timer;

	struct xk_lock lock; /* protects the fields below */
	_Atomic bool timing; /* the timer is pending, or its handler will check again; it holds a reference */
	bool over;           /* a passive one that is */
	uint64_t timer_ns;
	uint64_t peer; /* the peer's number; 0: not known yet */
	uint64_t tag;
	/* calling */
	uint64_t cookie; /* 0: none yet */
	bool calling;
	uint64_t call_due_ns, call_timeout_ns, called_ns;
	/* requesting: sequences from oldest to next are under way */
	uint32_t oldest, next;
	uint32_t credits; /* the peer's */
	struct am_request requests[AM_SLOTS];
	struct xk_msg *first, **last; /* requests that wait, headers in front */
	unsigned waiting;
	uint64_t timeout_ns;
	struct xk_estimate round_trip_us;
	struct xk_budget budget; /* of retransmitted requests */
	/* serving */
	uint32_t served_oldest; /* the peer has had the answers to all before */
	struct am_served served[AM_SLOTS];
	uint32_t again; /* bytes of replies that may be repeated */
};

static inline struct am *
am_of(const struct am_session *s)
{
	return (struct am *)s->session.protocol;
}

/* Returns whether sequence a is before b. */
static inline bool
am_before(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0;
}

/* ---- am.c ---- */

void am_header_store(uint8_t *p, const struct am_header *h);

/* Returns the handler that the header at p names. */

unsigned am_header_handler(const uint8_t *p);

/* Sets what depends on when and by whom the message is sent. */
void am_header_complete(uint8_t *p, uint32_t sequence, uint32_t oldest, uint64_t to, uint64_t from);

/* Sends a message without payload on s or, before there is a session, on lls. No lock is held. */
void am_send_header(struct xk_protocol *self, struct xk_session *lls, const struct am_header *h);

/* Sends what waits, or calls the peer first. No lock is held. */
void am_go_on(struct am_session *s);

/* Makes the timer fire at at_ns or before. Returns false if s is being closed. The lock of s is held. */
bool am_arm(struct am_session *s, uint64_t at_ns);

/* Returns the status of a request that comes back for this reason, an enum am_reason. */
int am_status_of(unsigned reason);

/*
 * Ends the conversation with the peer's session: requests come back with the status. An active session begins another with
 * its next request; a passive one is over. The shepherd has a reference on s, or pops through it. No lock is held.
 */
void am_end(struct am_session *s, int status);

/* ---- am_send.c ---- */

int am_push(struct xk_session *session, struct xk_msg *m);

/* Put words, or a header, before *m. Return false without a buffer; *m stays the caller's. */
bool am_put_words(struct xk_msg **m, const uint32_t *words, unsigned count);
bool am_put_header(struct xk_msg **m, enum am_kind kind, unsigned number, unsigned count);

void am_store_load(const uint8_t *p, struct am_store *store);

/* Returns a message like m, whose header is in its first segment, to be sent for s. NULL: no buffer. */
struct xk_msg *am_packet(const struct am_session *s, struct xk_msg *m, uint32_t sequence, uint32_t oldest);

/* Sends as many waiting requests as there are credits for. No lock is held. */
void am_transmit(struct am_session *s);

/* Takes an answer: REPLY, ACK or REFUSED. No lock is held. */
void am_pop_answer(struct am_session *s, struct xk_msg *m, const struct am_header *h);

/*
 * Takes due requests: stores in *late copies to send again, in *given_up those that are given up (both by `link`). Returns
 * when the next is due, or UINT64_MAX. The lock is held.
 */
uint64_t am_requests_due(struct am_session *s, uint64_t now_ns, struct xk_msg **late, struct xk_msg **given_up);

/* Removes all requests, by `link`. The lock is held. */
struct xk_msg *am_requests_take(struct am_session *s);

/* Gives requests back to the endpoint, by `link`. Takes them. No lock is held. */
void am_return(struct am_session *s, struct xk_msg *list, int status);

/* ---- am_receive.c ---- */

/* Takes REQUEST or STORE m. No lock is held. */
void am_pop_request(struct am_session *s, struct xk_msg *m, const struct am_header *h);

/* Takes TAKEN m. */
void am_pop_taken(struct am_session *s, struct xk_msg *m, const struct am_header *h);

/* Takes REPLY m, whose request was under way. No lock is held. */
void am_pop_reply(struct am_session *s, struct xk_msg *m, const struct am_header *h);

/* Frees replies that were kept long enough. Returns when the next is due, or UINT64_MAX. The lock is held. */
uint64_t am_served_due(struct am_session *s, uint64_t now_ns);

/* Forgets all that was served, before a conversation. The lock is held. */
void am_served_clear(struct am_session *s);

#endif
