/*
 * am_private.h - AM's state, for its parts and its tests. am.c has the protocol.
 */
#ifndef XK_AM_PRIVATE_H
#define XK_AM_PRIVATE_H

#include <sys/queue.h>

#include "protocols/budget.h"
#include "protocols/papers/am.h"
#include "xkernel/bytes.h"
#include "xkernel/header.h"
#include "xkernel/support/alarm.h"
#include "xkernel/support/retransmit.h"
#include "xkernel/support/share.h"

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

#define AM_DROPS(D)                                                                                                    \
	D(AM_BAD_KIND, "bad_kind")                                                                                     \
	D(AM_BAD_HANDLER, "bad_handler")                                                                               \
	D(AM_TO_ALL, "to_all")                                                                                         \
	D(AM_NO_HANDLER, "no_handler")                                                                                 \
	D(AM_STALE, "stale") /* of or for another session, or not awaited */                                           \
	D(AM_DUPLICATE, "duplicate")                                                                                   \
	D(AM_NO_CREDIT, "no_credit") /* more than the peer may have in flight */                                       \
	D(AM_GAP, "gap")             /* the end of a store, of which something is missing */                           \
	D(AM_BAD_REGION, "bad_region")                                                                                 \
	D(AM_OUT_OF_BOUNDS, "out_of_bounds")                                                                           \
	D(AM_BAD_TAG, "bad_tag")                                                                                       \
	D(AM_TOO_MANY, "too_many") /* sessions of strangers, or of one */                                              \
	D(AM_REPEATED, "repeated") /* an answer was requested too often */                                             \
	/* of messages to be sent */                                                                                   \
	D(AM_TOO_LONG, "too_long")                                                                                     \
	D(AM_QUEUE_FULL, "queue_full")                                                                                 \
	D(AM_BAD_REQUEST, "bad_request")                                                                               \
	D(AM_CLOSED, "closed")                                                                                         \
	D(AM_GAVE_UP, "gave_up")                                                                                       \
	D(AM_PEER_GONE, "peer_gone")                                                                                   \
	D(AM_UNDELIVERED, "undelivered") /* refused by the peer */                                                     \
	D(AM_NO_ROOM, "no_room")         /* too many buffers are kept for the message's host */
XK_DROPS(am, AM_DROPS);

#define AM_COUNTERS(C)                                                                                                 \
	C(AM_ACCEPTED, "accepted")                                                                                     \
	C(AM_REQUESTS, "requests")                                                                                     \
	C(AM_STORES, "stores")                                                                                         \
	C(AM_REPLIES, "replies") /* run */                                                                             \
	C(AM_ACKS, "acks")       /* received, and refusals */                                                          \
	C(AM_ACKED, "acked")     /* sent */                                                                            \
	C(AM_RETRANSMITTED, "retransmitted")                                                                           \
	C(AM_REPLIED_AGAIN, "replied_again")                                                                           \
	C(AM_RETURNED, "returned")                                                                                     \
	C(AM_EXPIRED, "expired") /* replies that were never acknowledged */                                            \
	C(AM_UNSENT, "unsent")                                                                                         \
	C(AM_LEFT, "left")         /* handoffs */                                                                      \
	C(AM_UNKEPT, "unkept")     /* replies without room to be kept: they are sent once */                           \
	C(AM_WITHHELD, "withheld") /* retransmissions of requests that the budget did not allow */
XK_COUNTERS(am, AM_COUNTERS);

#define AM_HEADER(F)                                                                                                   \
	F(8, kind, .values = am_kinds)                                                                                 \
	F(8, words, .help = "how many, 4 bytes each, come before the other bytes")                                     \
	F(16, handler,                                                                                                 \
	  .help = "number, below 256; 65535: none; in a CALL, the endpoint; in a WELCOME, credits; in REFUSED and "    \
		  "GONE, the reason")                                                                                  \
	F(32, sequence, .help = "of the request, or of the one that is answered")                                      \
	F(32, oldest, .help = "request of the sender's that is not answered")                                          \
	F(32, length, .kind = XK_LENGTH, .covers = XK_COVERS_PAYLOAD)                                                  \
	F(64, to, .kind = XK_NAMES_SESSION, .print = XK_PRINT_HEX,                                                     \
	  .help = "the receiver's session; in a CALL, the cookie")                                                     \
	F(64, from, .kind = XK_NAMES_SESSION, .print = XK_PRINT_HEX, .help = "the sender's session; in a COOKIE, that")
XK_HEADER(am, AM_HEADER);

/* After the header of a CALL: the caller's endpoint. */
#define AM_CALL_HEADER(F) F(16, name) F(16, credits) F(64, tag)
XK_HEADER(am_call, AM_CALL_HEADER);

/* After the header of a STORE: the part of a region, which bytes of it these are, and how many messages came before. */
#define AM_STORE_HEADER(F) F(32, region) F(32, place) F(32, total) F(32, offset) F(32, before)
XK_HEADER(am_store, AM_STORE_HEADER);

enum {
	AM_HEADER_LEN = XK_HEADER_LEN(am),
	AM_CALL_LEN = XK_HEADER_LEN(am_call),
	AM_STORE_LEN = XK_HEADER_LEN(am_store),
	AM_SLOTS = 64,

	AM_SHORT = 256, /* bytes of a message that is copied to be sent */
	AM_BUCKETS = 64,
	AM_AGAIN_TIMES = 3,     /* limit of the bytes of repeated replies, in those of first ones */
	AM_AGAIN_MAX = 1 << 16, /* and of what is left of it */
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
	struct xk_timeouts timeouts;
	uint64_t outstanding, queue, credits, port, patience_ns, peer_sessions, kept_max;

	struct am_endpoint_state *endpoints; /* change only before the kernel runs */
	struct xk_regions regions;
	struct xk_shares shares;                /* of hosts, in the buffers kept for them */
	uint64_t secret[2];                     /* of cookies */
	struct xk_lock lock;                    /* protects the fields below; taken after a session's */
	struct am_sessions passive[AM_BUCKETS]; /* by address, the oldest first */
	unsigned passive_count;
};

/* A request in flight, headers in front; m NULL: answered. */
struct am_request {
	struct xk_msg *m;
	struct xk_retry retry;
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
	uint64_t address;          /* of the peer, as far as known */
	uint64_t called;           /* of a passive one: what the peer's is; 0: active */
	uint16_t local, remote;    /* endpoints */
	uint32_t fragment;
	const struct am_endpoint_state *endpoint; /* the local one; NULL: nothing is registered for it */
	struct xk_share *share;                   /* the host's, of buffers */
	TAILQ_ENTRY(am_session) of_address;
	struct xk_alarm alarm;

	struct xk_lock lock; /* protects the fields below */
	bool over;           /* a passive one that is */
	uint64_t peer;       /* the peer's number; 0: not known yet */
	uint64_t tag;
	/* calling */
	uint64_t cookie; /* 0: none yet */
	bool calling;
	struct xk_retry call;
	/* requesting: sequences from oldest to next are in flight */
	uint32_t oldest, next;
	uint32_t credits; /* the peer's */
	struct am_request requests[AM_SLOTS];
	struct xk_msg *first, **last; /* requests that wait, headers in front */
	unsigned waiting;
	struct xk_round_trip round_trip;
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

/* Sends a message with no more than a header, and of a CALL (NULL: it is none) what follows that. No lock is held. */
void am_send_header(struct xk_protocol *self, struct xk_session *lls, const struct am_header *h,
		    const struct am_call_header *call);

/* Sends waiting requests, or calls the peer first. No lock is held. */
void am_go_on(struct am_session *s);

/* Returns the status of a request that is returned for this reason, an enum am_reason. */
int am_status_of(unsigned reason);

/*
 * Ends the conversation with the peer's session: requests are returned with the status. An active session begins
 * another with its next request; a passive one is over. The shepherd has a reference on s, or pops through it. No lock
 * is held.
 */
void am_end(struct am_session *s, int status);

/* ---- am_send.c ---- */

int am_push(struct xk_session *session, struct xk_msg *m);

/* Put words, or a header, before *m. Return false without a buffer; *m stays the caller's. */
bool am_put_words(struct xk_msg **m, const uint32_t *words, unsigned count);
bool am_put_header(struct xk_msg **m, enum am_kind kind, unsigned number, unsigned count);

/* Returns a message like m, whose header is in its first segment, to be sent for s. NULL: no buffer. */
struct xk_msg *am_packet(const struct am_session *s, struct xk_msg *m, uint32_t sequence, uint32_t oldest);

/* Sends as many waiting requests as there are credits for. No lock is held. */
void am_transmit(struct am_session *s);

/* Takes an answer: REPLY, ACK or REFUSED. No lock is held. */
void am_pop_answer(struct am_session *s, struct xk_msg *m, const struct am_header *h);

/*
 * Takes due requests: stores in *late copies to send again, in *given_up those that are given up (both by `link`).
 * Returns when the next is due, or UINT64_MAX. The lock is held.
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

/* Takes REPLY m, whose request was in flight. No lock is held. */
void am_pop_reply(struct am_session *s, struct xk_msg *m, const struct am_header *h);

/* Frees replies that were kept long enough. Returns when the next is due, or UINT64_MAX. The lock is held. */
uint64_t am_served_due(struct am_session *s, uint64_t now_ns);

/* Forgets all that was served, before a conversation. The lock is held. */
void am_served_clear(struct am_session *s);

#endif
