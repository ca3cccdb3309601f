/*
 * blast_private.h - the state of BLAST, shared by blast.c (the header, time, peers, sessions, short messages),
 * blast_send.c (long messages, kept for the peer and sent again) and blast_receive.c (fragments become messages).
 */
#ifndef XK_BLAST_PRIVATE_H
#define XK_BLAST_PRIVATE_H

#include <sys/queue.h>

#include "protocols/ticket.h"
#include "xkernel/bytes.h"
#include "xkernel/event.h"
#include "xkernel/header.h"
#include "xkernel/protocol.h"
#include "xkernel/support/retransmit.h"

#define BLAST_DROPS(D)                                                                                                 \
	D(BLAST_BAD_WIDTH, "bad_width")                                                                                \
	D(BLAST_BAD_OP, "bad_op")                                                                                      \
	D(BLAST_BAD_COUNT, "bad_count")                                                                                \
	D(BLAST_BAD_MASK, "bad_mask")                                                                                  \
	D(BLAST_INCONSISTENT, "inconsistent") /* a fragment that does not fit the others of its message */             \
	D(BLAST_DUPLICATE, "duplicate")                                                                                \
	D(BLAST_UNKNOWN, "unknown") /* a retransmitted fragment that no session awaits */                              \
	D(BLAST_EVICTED, "evicted")                                                                                    \
	D(BLAST_GAVE_UP, "gave_up")                                                                                    \
	D(BLAST_NACK_UNKNOWN, "nack_unknown") /* for a message that is not kept */                                     \
	D(BLAST_NACK_STRANGE, "nack_strange") /* not from the message's peer, or not about such a message */           \
	D(BLAST_NACK_EARLY, "nack_early") /* too soon after another, or missing only what earlier ones have named */   \
	D(BLAST_NACK_SPENT, "nack_spent") /* what is missing was sent again as often as allowed */                     \
	D(BLAST_NACK_PACED, "nack_paced") /* too much was sent again to its host just now */                           \
	D(BLAST_NO_SLOT, "no_slot")                                                                                    \
	D(BLAST_REPEAT_SPENT, "repeat_spent") /* pushed before, and too much was sent again */
XK_DROPS(blast, BLAST_DROPS);

#define BLAST_COUNTERS(C)                                                                                              \
	C(BLAST_LONG_OUT, "long_out") /* messages, as long_in */                                                       \
	C(BLAST_LONG_IN, "long_in")                                                                                    \
	C(BLAST_NACKS_OUT, "nacks_out")                                                                                \
	C(BLAST_NACKS_IN, "nacks_in")                                                                                  \
	C(BLAST_RETRANSMITTED, "retransmitted") /* fragments */                                                        \
	C(BLAST_RELEASED, "released")           /* copies, by ticket */                                                \
	C(BLAST_EXPIRED, "expired")                                                                                    \
	C(BLAST_UNSENT, "unsent")       /* fragments that the protocol below would not take */                         \
	C(BLAST_WITHHELD, "withheld")   /* fragments that were asked for too often or too fast */                      \
	C(BLAST_DISPLACED, "displaced") /* copies, by another message */                                               \
	C(BLAST_UNKEPT, "unkept")       /* messages that were sent once */
XK_COUNTERS(blast, BLAST_COUNTERS);

enum blast_op { BLAST_SEND = 1, BLAST_NACK, BLAST_RETRANSMIT };

enum {
	BLAST_FRAGMENTS = 64,                              /* of a message: the bits of the mask */
	BLAST_FRAGMENT_MAX = XK_MSG_MAX / BLAST_FRAGMENTS, /* bytes; so no message is too long */
	BLAST_FINISHED = 16,                               /* whole messages that a session remembers */
};

#define BLAST_HEADER(F)                                                                                                \
	F(32, protocol, .kind = XK_NAMES_SESSION, .print = XK_PRINT_HEX, .is_upper = true,                             \
	  .help = "the protocol above")                                                                                \
	F(32, sequence, .rare = UINT32_MAX, .is_part = true, .help = "number of a long message; 0: a short one")       \
	F(32, length, .kind = XK_LENGTH, .covers = XK_COVERS_PAYLOAD)                                                  \
	F(16, fragments, .rare = UINT16_MAX, .help = "number in a long message")                                       \
	F(8, op, .usual = BLAST_SEND, .rare = UINT8_MAX,                                                               \
	  .values = XK_VALUES({ BLAST_SEND, "send" }, { BLAST_NACK, "nack" }, { BLAST_RETRANSMIT, "retransmit" }))     \
	F(8, width, .kind = XK_FIXED, .usual = BLAST_FRAGMENTS, .help = "bits of the mask")                            \
	F(64, mask, .rare = UINT64_MAX, .print = XK_PRINT_HEX,                                                         \
	  .help = "the bit of this fragment; in a NACK, those of all that have arrived")
XK_HEADER(blast, BLAST_HEADER);

enum { BLAST_HEADER_LEN = XK_HEADER_LEN(blast) };

/*
 * An entry of a list in order of time, the soonest first. Fragments do not move an entry: its handler compares the time
 * at which it is really due, and if that is later, sets it again.
 */
struct blast_due {
	TAILQ_ENTRY(blast_due) link;
	uint64_t at_ns; /* BLAST_NEVER: it is in no list */
};

#define BLAST_NEVER UINT64_MAX

TAILQ_HEAD(blast_dues, blast_due);

/* Freed objects, for reuse: never more than were in use at one time. */
struct blast_spare {
	struct blast_spare *next;
};

/* The bytes and frames that may be sent again: each frame also costs the headers of the protocols below. */
struct blast_credit {
	int64_t bytes, frames;
	bool has_sent; /* of a session: something was sent for the first time */
};

/*
 * A confirmed host: an upper has opened a session to it, or it has named the number of a message sent to it. All other
 * hosts share `strangers`, since their addresses may be forged.
 */
struct blast_peer {
	struct xk_binding binding;
	struct xk_retired retired;
	struct xk_semaphore slots; /* its share of those in struct blast */
	/* under the lock */
	unsigned references;                            /* of sessions */
	TAILQ_ENTRY(blast_peer) holder;                 /* in the protocol's holders, while it has copies */
	TAILQ_HEAD(blast_copy_ages, blast_copy) copies; /* oldest first */
	unsigned copy_count;
	uint64_t paid_ns; /* when the pace next allows a fragment to be sent again */
};

struct blast {
	struct xk_protocol protocol; /* first */
	/* settings */
	uint64_t outstanding, outstanding_peer, keep_ns, give_up_ns;
	uint64_t nack_ns, nack_min_ns, nack_max_ns, nacks;
	uint64_t message_max, fragment_max, peer_message_max, peer_fragment_max;

	struct xk_map peers; /* confirmed ones; changes under the lock */
	struct blast_peer strangers;
	struct xk_semaphore slots; /* for messages that are kept */

	struct xk_lock lock; /* protects the fields below, and those marked so of sessions, copies and partials */
	struct xk_event event;
	uint64_t event_ns; /* when the event is due; UINT64_MAX: never */
	struct blast_dues copies, partials;
	_Atomic(struct blast_spare *) spare_copies, spare_partials; /* added to without the lock */
	TAILQ_HEAD(blast_holders, blast_peer) holders;              /* peers that have copies */
	LIST_HEAD(blast_bucket, blast_copy) * buckets;              /* of the copies, by sequence */
	uint32_t bucket_mask;
	TAILQ_HEAD(blast_partial_ages, blast_partial) ages; /* oldest first */
	uint32_t partial_count, fragment_count;
};

struct blast_session {
	struct xk_session session;         /* first */
	uint32_t number;                   /* of the protocol above */
	_Atomic(struct blast_peer *) peer; /* changes at most once, under the lock, from `strangers` */
	/* under the lock */
	uint32_t sequence;                                  /* of the next long message; 0: no number was drawn yet */
	struct blast_credit credits[2];                     /* of the current half minute, and the one before */
	uint64_t half_ns;                                   /* when the current one began */
	struct xk_estimate answer_ns;                       /* from the last frame to its NACK, at the sender */
	struct xk_estimate spacing_ns;                      /* from one fragment to the next */
	struct xk_estimate round_trip_ns;                   /* from a NACK to what it brings */
	TAILQ_HEAD(blast_partials, blast_partial) partials; /* oldest first */
	uint32_t partial_count, fragment_count;
	uint32_t finished[BLAST_FINISHED]; /* sequences of whole messages, in a ring; 0: none yet */
	unsigned finished_next;
};

/* A message that the peer may ask for again. Fields without "under the lock" do not change. */
struct blast_copy {
	struct blast_due due;          /* under the lock; in the protocol's copies */
	LIST_ENTRY(blast_copy) bucket; /* under the lock */
	TAILQ_ENTRY(blast_copy) age;   /* in the holder's copies; under the lock */
	struct blast_session *session; /* with a reference */
	struct blast_peer *holder;     /* whose slot it has; NULL: none, and it is never listed */
	uint64_t born_ns, early_ns;    /* under the lock: first frame; NACKs before that come too soon */
	_Atomic uint64_t last_ns;      /* last frame */
	uint64_t arrived;              /* under the lock: the fragments that NACKs have named */
	struct blast_credit left;      /* under the lock: what may still be sent again */
	uint32_t sequence;
	unsigned count;                 /* fragments */
	bool listed;                    /* under the lock: in lists and bucket, which is one of the references */
	_Atomic unsigned references;    /* the last one to give one back frees it */
	_Atomic unsigned sent;          /* fragments, for the first time */
	struct xk_kept kept;            /* the whole message */
	uint8_t again[BLAST_FRAGMENTS]; /* under the lock: how often each fragment was sent again */
};

/* An incomplete message. All of it is under the lock. */
struct blast_partial {
	struct blast_due due;                 /* in the protocol's partials */
	TAILQ_ENTRY(blast_partial) age, peer; /* in the protocol's ages, in the session's partials */
	struct blast_partial *next;           /* in the list of evicted messages */
	struct blast_session *session;        /* with a reference */
	uint64_t mask;                        /* the fragments that have arrived */
	uint64_t born_ns, last_ns, nacked_ns;
	uint64_t until_ns; /* when fragments count as missing */
	uint32_t sequence;
	uint32_t length, last_length; /* of all fragments but the last, and of that; 0: not known */
	unsigned count, received;
	unsigned silences;                         /* waits in a row that brought nothing new */
	unsigned credit;                           /* NACKs that the bytes received so far still allow */
	struct xk_msg *fragments[BLAST_FRAGMENTS]; /* only the first `count` are set */
};

/* The most bytes of a message in one frame. */
static inline uint32_t
blast_fragment(const struct blast_session *s)
{
	return atomic_load_explicit(&s->session.sends.whole, memory_order_relaxed);
}

static inline struct blast *
blast_of(const struct blast_session *s)
{
	return (struct blast *)s->session.protocol;
}

static inline bool
blast_session_is_confirmed(const struct blast_session *s)
{
	return atomic_load_explicit(&s->peer, memory_order_relaxed) != &blast_of(s)->strangers;
}

/* ---- blast.c ---- */

/* Pushes the header h onto m, which is taken. Returns the message, or NULL if there is no buffer. */
static inline struct xk_msg *
blast_header_push(const struct blast_header *h, struct xk_msg *m)
{
	uint8_t *p = xk_msg_push(&m, BLAST_HEADER_LEN);

	if (xk_unlikely(p == NULL)) {
		xk_msg_free(m);
		return NULL;
	}
	blast_store(p, h);
	return m;
}

/* Returns uninitialized memory of `size` bytes, the same in all calls for a list. NULL: none. The lock is held. */
void *blast_spare_take(_Atomic(struct blast_spare *) *spares, size_t size);

/* Gives that memory back. Any context. */
void blast_spare_give(_Atomic(struct blast_spare *) *spares, void *object);

/* Puts due into dues, or moves it within them, to be handled at at_ns. The lock is held. */
void blast_due_set(struct blast *blast, struct blast_dues *dues, struct blast_due *due, uint64_t at_ns);

/* Takes due out of dues, unless it is in no list. The lock is held. */
void blast_due_remove(struct blast_dues *dues, struct blast_due *due);

/* Adds a sample, at most nack_max. The lock is held. */
void blast_estimate_add(const struct blast *blast, struct xk_estimate *estimate, uint64_t sample_ns);

/* Returns a bound that samples rarely exceed (first_ns: there is none), within nack_min and nack_max. */
uint64_t blast_estimate_bound(const struct blast *blast, const struct xk_estimate *estimate, uint64_t first_ns);

/* Moves s to its confirmed peer; confirms: makes one if there is none. No lock is held. */
void blast_session_join(struct blast_session *s, bool confirms);

/* ---- blast_send.c; no lock is held ---- */

/* A divide: sends m, which is longer than a frame, in fragments. */
int blast_divide(struct xk_session *session, struct xk_msg *m);

/* Frees the copy `number` of s: no peer will ask for it again. */
void blast_send_release(struct blast_session *s, uint64_t number);

/* Ends the copy that is due first. Returns false if none is due at now_ns. */
bool blast_send_expire(struct blast *blast, uint64_t now_ns);

/* Handles the NACK m, whose header was h, that came up lls. Takes m. */
void blast_again(struct blast *blast, struct xk_session *lls, struct xk_msg *m, const struct blast_header *h);

/* ---- blast_receive.c; no lock is held ---- */

void blast_receive_fini(struct blast *blast);

/* Adds the fragment m, whose header was h, to its message, and pops what is whole. Takes m. */
void blast_receive_fragment(struct blast_session *s, struct xk_session *lls, struct xk_msg *m,
			    const struct blast_header *h);

/* Sends a NACK for the message that is due first, or gives it up. Returns false if none is due at now_ns. */
bool blast_receive_expire(struct blast *blast, uint64_t now_ns);

#endif
