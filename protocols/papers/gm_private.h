/*
 * gm_private.h - GM's state, for its parts and its tests. gm.c has the protocol.
 */
#ifndef XK_GM_PRIVATE_H
#define XK_GM_PRIVATE_H

#include <sys/queue.h>

#include "protocols/bid/bidctl.h"
#include "protocols/budget.h"
#include "protocols/papers/gm.h"
#include "protocols/post.h"
#include "xkernel/protocol.h"
#include "xkernel/support/alarm.h"
#include "xkernel/support/ports.h"
#include "xkernel/support/retransmit.h"
#include "xkernel/support/share.h"

/* A DATAGRAM is sent once. Those up to that kind are packets of the sender's, the others answers. */
enum gm_kind { GM_DATA = 1, GM_DEPOSIT, GM_DATAGRAM, GM_ACK, GM_RESET, GM_CREDIT };

#define GM_DROPS(D)                                                                                                    \
	D(GM_BAD_KIND, "bad_kind")                                                                                     \
	D(GM_STALE, "stale") /* of or for a former boot or session */                                                  \
	D(GM_DUPLICATE, "duplicate")                                                                                   \
	D(GM_GAP, "gap")           /* something before it is missing */                                                \
	D(GM_BAD_ACK, "bad_ack")   /* names no packet in flight; RESET too */                                          \
	D(GM_UNPOSTED, "unposted") /* no buffer is posted */                                                           \
	D(GM_NO_ROOM, "no_room")   /* too many buffers are kept for the message's host; also drops pushed messages */  \
	D(GM_TOO_LONG, "too_long")                                                                                     \
	D(GM_TOO_MANY, "too_many")         /* sessions of one host */                                                  \
	D(GM_INCONSISTENT, "inconsistent") /* a fragment that does not follow the one before */                        \
	D(GM_ABANDONED, "abandoned")       /* the rest of a message never came */                                      \
	D(GM_BAD_REGION, "bad_region")                                                                                 \
	D(GM_OUT_OF_BOUNDS, "out_of_bounds")                                                                           \
	/* of pushed messages */                                                                                       \
	D(GM_NO_TOKEN, "no_token")                                                                                     \
	D(GM_GAVE_UP, "gave_up")                                                                                       \
	D(GM_PEER_GONE, "peer_gone")                                                                                   \
	D(GM_WAS_RESET, "was_reset")                                                                                   \
	D(GM_CLOSED, "closed")
XK_DROPS(gm, GM_DROPS);

#define GM_COUNTERS(C)                                                                                                 \
	C(GM_ACCEPTED, "accepted")                                                                                     \
	C(GM_RETRANSMITTED, "retransmitted") /* time-outs */                                                           \
	C(GM_RESETS, "resets")               /* sent */                                                                \
	C(GM_DEPOSITED, "deposited")                                                                                   \
	C(GM_UNRELIABLE, "unreliable") /* datagrams sent */                                                            \
	C(GM_SKIPPED, "skipped")       /* gaps between those that came */                                              \
	C(GM_RESTORED, "restored")                                                                                     \
	C(GM_WITHHELD, "withheld") /* retransmissions of packets that the budget did not allow */
XK_COUNTERS(gm, GM_COUNTERS);

enum gm_reason { GM_R_STALE = 1, GM_R_REFUSED, GM_R_INCONSISTENT, GM_R_REGION, GM_R_BOUNDS, GM_R_TOO_LONG };

enum gm_small { GM_REFERENCE, GM_COPY, GM_NOT_RELIABLE };

#define GM_HEADER(F)                                                                                                   \
	F(16, source, .kind = XK_NAMES_SESSION, .end = XK_END_REMOTE, .help = "port")                                  \
	F(16, destination, .kind = XK_NAMES_SESSION, .end = XK_END_LOCAL, .help = "port")                              \
	F(1, patient, .help = "the acknowledgement may wait")                                                          \
	F(15, kind, .values = gm_kinds)                                                                                \
	F(16, length, .kind = XK_LENGTH, .covers = XK_COVERS_PAYLOAD)                                                  \
	F(32, total, .help = "bytes of the message; in a DEPOSIT, the region")                                         \
	F(32, offset, .help = "of the payload in the message or region; in a RESET, the reason")                       \
	F(64, begin, .help = "number of the sender's session")                                                         \
	F(64, number,                                                                                                  \
	  .help = "of the packet, or of the one that is answered; in a DATAGRAM, of the message among the session's")  \
	F(64, previous,                                                                                                \
	  .help = "number of the packet before; 0: it was acknowledged; in a DATAGRAM, not 0: asks for a CREDIT")
XK_HEADER(gm, GM_HEADER);

enum {
	GM_HEADER_LEN = XK_HEADER_LEN(gm),
	GM_FRAGMENT_MAX = 4096,
	GM_SMALL = 256, /* bytes of the longest message that the setting `small` concerns */
	GM_TOKENS_MAX = 64,
};

struct gm {
	struct xk_protocol protocol; /* first */
	/* settings */
	struct xk_timeouts timeouts;
	uint64_t tokens, window, longest, buffers, patience_ns, ack_delay_ns;
	uint64_t held_max, peer_sessions;
	bool reliable, flow;

	enum gm_small small;
	struct xk_bidctl_watcher watcher;
	_Atomic uint64_t number; /* of the latest packet or session: higher than all before, in this boot */
	struct xk_shares shares; /* of hosts, in the buffers kept for them */
	struct xk_map peers;     /* struct gm_peer by host */
	struct xk_lock lock;     /* protects the peers; taken after a session's */
	struct xk_regions regions;
};

TAILQ_HEAD(gm_sessions, gm_session);

/* A boot of a host: kept while it has sessions, or packets up to `floor` must be refused. */
struct gm_peer {
	struct xk_binding binding; /* by host */
	uint64_t boot;
	uint64_t floor;              /* no packet up to this number is accepted for a session that was forgotten */
	bool lost;                   /* BIDCTL does not know it any more */
	struct gm_sessions sessions; /* the oldest first */
	unsigned passive;            /* those among them that strangers have created */
	struct xk_retired retired;
};

/* A message in flight. */
struct gm_slot {
	struct xk_msg *m;
	struct xk_gm_send *send;
	uint64_t number;   /* of its first packet; those of the others follow */
	uint64_t position; /* of its first packet among all of the session */
	uint32_t count;    /* of packets */
	uint32_t buffers;  /* that m holds */
	uint32_t region, place;
};

struct gm_session {
	struct xk_session session; /* first */
	struct gm_peer *peer;
	struct xk_share *share; /* the host's, of buffers */
	TAILQ_ENTRY(gm_session) of_peer;
	uint64_t boot;  /* of the peer */
	uint64_t begin; /* its own number: less than those of its packets, more than those of earlier sessions */
	uint32_t fragment;
	bool passive;
	bool notified;           /* notified of the peer's reboot; under the protocol's lock */
	struct xk_posted posted; /* buffers for arriving messages */
	_Atomic bool known;      /* to the hlp */
	struct xk_alarm alarm;

	struct xk_lock lock; /* protects the fields below */
	int error;           /* of a push; 0: not over */
	/* sending: positions count packets; acked <= next <= sent <= end */
	struct gm_slot slots[GM_TOKENS_MAX]; /* a ring */
	unsigned first, count;
	uint64_t acked, next, sent, end, last_number;
	uint64_t window;
	struct xk_retry retry;        /* of the oldest packet */
	uint64_t datagrams, credited; /* numbers of the last one that was sent, and up to which their tokens are back */
	uint64_t refused_ns;          /* when there was no token first since the last credit; 0: there was one */
	uint64_t timed, timed_ns;     /* the packet whose acknowledgement is timed; timed_ns 0: none */
	struct xk_round_trip round_trip;
	struct xk_budget budget; /* of retransmitted packets */
	/* receiving: the user has had all up to `taken`; up to `arrived` all is here */
	uint64_t taken, acked_to;             /* acked_to: what the last acknowledgement was of */
	uint64_t asked, ack_due_ns;           /* asked: the last packet that was not patient */
	uint64_t last_datagram;               /* number of the last datagram that was accepted */
	_Atomic uint64_t peer_begin, arrived; /* read without the lock */
	bool begun;                           /* a packet was accepted */
	bool delivering;
	struct xk_msg *ready, **ready_end; /* whole messages */
	struct xk_msg *partial;
	uint32_t partial_total;
	uint32_t partial_fragment; /* bytes of each fragment; the last may be shorter */
	uint32_t partial_room;     /* buffers taken for the incomplete message */
	int partial_class;
	uint64_t partial_ns; /* of its last fragment */
};

static inline struct gm *
gm_of(const struct gm_session *s)
{
	return (struct gm *)s->session.protocol;
}

/* Returns a header that s sends, to be completed. */
static inline struct gm_header
gm_header_of(const struct gm_session *s, enum gm_kind kind)
{
	return (struct gm_header){ .source = XK_GET(gm, source, s->session.sends.header),
				   .destination = XK_GET(gm, destination, s->session.sends.header),
				   .kind = (uint16_t)kind,
				   .begin = s->begin };
}

/* ---- gm.c ---- */

/* Writes header h to the place for it at the beginning of m, for this boot of the peer alone. */
void gm_header_store(struct xk_msg *m, const struct gm_header *h, uint64_t boot);

/* Puts header h before m. NULL: no buffer; m was freed. Takes m. */
struct xk_msg *gm_frame(const struct gm_header *h, uint64_t boot, struct xk_msg *m);

/* Answers h, which came from this boot up lls, with a RESET. No lock is held. */
void gm_reset(struct xk_protocol *self, struct xk_session *lls, uint64_t boot, const struct gm_header *h,
	      enum gm_reason reason);

/* Stops the timer if nothing waits for it. True: the caller gives back its reference. The lock of s is held. */
bool gm_disarm(struct gm_session *s);

/*
 * Ends s: messages in flight are dropped for the reason why, and their senders notified with err. The shepherd has a
 * reference on s, or pops through it. No lock is held.
 */
void gm_end(struct gm_session *s, unsigned why, int err);

/* ---- gm_send.c ---- */

int gm_push(struct xk_session *session, struct xk_msg *m);

/* Takes ACK, RESET or CREDIT m. No lock is held. */
void gm_pop_answer(struct gm_session *s, struct xk_msg *m, const struct gm_header *h);

/*
 * Returns how many more messages may be pushed. Kept messages are bounded without flow control, too. The lock is held.
 */
static inline uint32_t
gm_tokens(const struct gm_session *s)
{
	uint64_t under_way = s->count + (s->datagrams - s->credited);
	uint64_t all = gm_of(s)->flow ? gm_of(s)->tokens : GM_TOKENS_MAX;

	return (uint32_t)(under_way < all ? all - under_way : 0);
}

/* The message in flight at index i, the oldest being 0. */
static inline struct gm_slot *
gm_slot(struct gm_session *s, unsigned i)
{
	return &s->slots[(s->first + i) % GM_TOKENS_MAX];
}

/*
 * Prepares the retransmission of the oldest packets, if it is due. Returns whether s is to be given up. The lock is
 * held.
 */
bool gm_send_late(struct gm_session *s, uint64_t now_ns);

/* Sends as many packets as the window allows. No lock is held. */
void gm_transmit(struct gm_session *s);

/* ---- gm_receive.c ---- */

/* Takes DATA, DEPOSIT or DATAGRAM m. No lock is held. */
void gm_pop_packet(struct gm_session *s, struct xk_msg *m, const struct gm_header *h);

/* Acknowledges packets whose delay is over. No lock is held. */
void gm_acknowledge_late(struct gm_session *s, uint64_t now_ns);

/* Drops an incomplete message for that reason. The lock is held. */
void gm_receive_abandon(struct gm_session *s, unsigned why);

/* Drops all that has arrived. The lock is held. */
void gm_receive_clear(struct gm_session *s);

#endif
