/*
 * blast_private.h - the state of BLAST, shared by blast.c (the header, time, short messages), blast_session.c (sessions
 * and peers), blast_send.c (long messages, kept for the peer), blast_again.c (what is sent again of them) and
 * blast_receive.c (fragments become messages).
 */
#ifndef XK_BLAST_PRIVATE_H
#define XK_BLAST_PRIVATE_H

#include "protocols/ticket.h"
#include "xkernel/event.h"
#include "xkernel/protocol.h"

enum blast_drop {
	BLAST_BAD_WIDTH = XK_DROP_OWN,
	BLAST_BAD_OP,
	BLAST_BAD_COUNT,
	BLAST_BAD_MASK,
	BLAST_BAD_LENGTH,
	BLAST_INCONSISTENT,
	BLAST_DUPLICATE,
	BLAST_UNKNOWN,
	BLAST_EVICTED,
	BLAST_GAVE_UP,
	BLAST_NACK_UNKNOWN,
	BLAST_NACK_STRANGE,
	BLAST_NACK_EARLY,
	BLAST_NACK_SPENT,
	BLAST_NACK_PACED,
	BLAST_TOO_BIG,
	BLAST_NO_SLOT,
	BLAST_REPEAT_SPENT,
};

enum blast_counter {
	BLAST_LONG_OUT,
	BLAST_LONG_IN,
	BLAST_NACKS_OUT,
	BLAST_NACKS_IN,
	BLAST_RETRANSMITTED,
	BLAST_RELEASED,
	BLAST_EXPIRED,
	BLAST_UNSENT,
	BLAST_WITHHELD,
	BLAST_DISPLACED,
	BLAST_UNKEPT,
};

enum blast_op { BLAST_SEND = 1, BLAST_NACK, BLAST_RETRANSMIT };

enum {
	BLAST_HEADER_LEN = 24,
	BLAST_FRAGMENTS = 64,                              /* of a message: the bits of the mask */
	BLAST_FRAGMENT_MAX = XK_MSG_MAX / BLAST_FRAGMENTS, /* bytes; so no message is too long */
	BLAST_FINISHED = 16,                               /* messages of a session that are remembered */
	BLAST_AGAIN = 3,                                   /* a message is sent again at most so many times over */
	BLAST_FRAGMENT_AGAIN = 16,                         /* and each fragment at most so often */
	BLAST_NACK_BYTES = 64,                             /* bytes of a stranger's fragment that allow one NACK more */
};

struct blast_header {
	uint32_t protocol, sequence, length;
	unsigned fragments;
	enum blast_op op;
	uint64_t mask;
};

/* ---- a list; its head is a link, too ---- */

struct blast_link {
	struct blast_link *previous, *next;
};

static inline void
blast_list_init(struct blast_link *head)
{
	head->previous = head->next = head;
}

static inline bool
blast_list_is_empty(const struct blast_link *head)
{
	return head->next == head;
}

static inline void
blast_list_insert_after(struct blast_link *at, struct blast_link *link)
{
	link->previous = at;
	link->next = at->next;
	at->next->previous = link;
	at->next = link;
}

static inline void
blast_list_append(struct blast_link *head, struct blast_link *link)
{
	blast_list_insert_after(head->previous, link);
}

static inline void
blast_list_remove(struct blast_link *link)
{
	link->previous->next = link->next;
	link->next->previous = link->previous;
}

/* What is due, soonest first. */
struct blast_due {
	struct blast_link link;
	uint64_t at_ns;
};

/* ---- what a path is like: mean and mean deviation (Jacobson 1988) ---- */

struct blast_estimate {
	uint32_t mean_ns, deviation_ns; /* mean 0: nothing was measured yet */
};

/* ---- what may be sent again ---- */

/* Bytes alone would not do: each frame has headers of the protocols below. */
struct blast_credit {
	uint64_t bytes, frames;
};

/* What was sent in half a minute, for the first time and again. */
struct blast_half {
	struct blast_credit first, again;
};

/* ---- state ---- */

/*
 * A confirmed host: an upper has opened a session to it, or it has named the number of a message that went to it. All
 * other hosts share `strangers`, since their addresses may be forged.
 */
struct blast_peer {
	struct xk_binding binding;
	struct xk_retired retired;
	struct xk_semaphore slots; /* its share of those in struct blast */
	/* under the lock */
	unsigned references;      /* of sessions */
	struct blast_link holder; /* in the protocol's holders, while it has copies */
	struct blast_link copies; /* oldest first */
	unsigned copy_count;
	uint64_t paid_ns; /* until when its pace is used up by what was sent again */
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

	struct xk_lock lock; /* over what follows, and over what sessions, copies and partials say is under it */
	struct xk_event event;
	uint64_t event_ns;           /* when the event is due; UINT64_MAX: never */
	struct blast_link copies;    /* by what is due */
	struct blast_link holders;   /* peers that have copies */
	struct blast_copy **buckets; /* of the copies, by sequence */
	uint32_t bucket_mask;
	struct blast_link partials; /* by what is due */
	struct blast_link ages;     /* the same, oldest first */
	uint32_t partial_count, fragment_count;
};

struct blast_session {
	struct xk_session session;         /* first */
	uint32_t number;                   /* of the protocol above */
	uint32_t fragment_size;            /* the most bytes of a message in one frame */
	_Atomic(struct blast_peer *) peer; /* changes at most once, under the lock, from `strangers` */
	/* under the lock */
	uint32_t sequence;                /* of the next long message; 0: no number was drawn yet */
	struct blast_half halves[2];      /* the current half minute, and the one before */
	uint64_t half_ns;                 /* when the current one began */
	struct blast_estimate answer;     /* from the last frame to its NACK, at the sender */
	struct blast_estimate spacing;    /* from one fragment to the next */
	struct blast_estimate round_trip; /* from a NACK to what it brings */
	struct blast_link partials;       /* oldest first */
	uint32_t partial_count, fragment_count;
	uint32_t finished[BLAST_FINISHED]; /* sequences of whole messages, in a ring; 0: none yet */
	unsigned finished_next;
};

/* A message that the peer may ask for again. What has no "under the lock" does not change. */
struct blast_copy {
	struct blast_due due;                /* under the lock; listed in the protocol's copies */
	struct blast_copy *next;             /* in its bucket; under the lock */
	struct blast_session *session;       /* with a reference */
	struct blast_peer *holder;           /* whose slot it has; NULL: none, and it is never listed */
	struct blast_link age;               /* in the holder's copies; under the lock */
	uint64_t born_ns, last_ns, early_ns; /* under the lock: first and last frame; NACKs before that come too soon */
	uint64_t arrived;                    /* under the lock: the fragments that NACKs have named */
	struct blast_credit left;            /* under the lock: what may still be sent again */
	uint8_t again[BLAST_FRAGMENTS];      /* under the lock: how often each fragment was sent again */
	uint32_t sequence;
	unsigned count;
	bool listed;                 /* under the lock: in list and bucket, which is one of the references */
	_Atomic unsigned references; /* the last one to give one back frees it */
	_Atomic unsigned sent;       /* fragments, for the first time */
	struct xk_msg *fragments[];
};

/* A message of which something is missing. All of it is under the lock. */
struct blast_partial {
	struct blast_due due;
	struct blast_link age, peer;   /* in the protocol's ages, in the session's partials */
	struct blast_partial *next;    /* of those that have been taken out */
	struct blast_session *session; /* with a reference */
	uint64_t mask;                 /* what is there */
	uint64_t born_ns, last_ns, nacked_ns;
	uint32_t sequence;
	uint32_t length, last_length; /* of all fragments but the last, and of that; 0: not known */
	unsigned count, received;
	unsigned silences; /* times that nothing new has come, in a row */
	unsigned credit;   /* NACKs that a stranger has paid for with the bytes it sent */
	struct xk_msg *fragments[];
};

static inline struct blast *
blast_of(const struct blast_session *s)
{
	return (struct blast *)s->session.protocol;
}

static inline struct xk_key
blast_key(const struct xk_session *lls, uint32_t number)
{
	return (struct xk_key){ (uintptr_t)lls, number };
}

/* ---- blast.c ---- */

/* The fields of the header at p. */
struct blast_header blast_header_load(const uint8_t *p);

/* Puts the header h before *m. False: there was no buffer. */
bool blast_header_push(const struct blast_header *h, struct xk_msg **m);

/* due lies in the list `head` for at_ns from now on; it was in none. The lock is held. */
void blast_due_add(struct blast *blast, struct blast_link *head, struct blast_due *due, uint64_t at_ns);

/* A sample, at most nack_max. The lock is held. */
void blast_estimate_add(const struct blast *blast, struct blast_estimate *estimate, uint64_t sample_ns);

/* What is hardly ever exceeded, within nack_min and nack_max; first_ns where nothing was measured. */
uint64_t blast_estimate_bound(const struct blast *blast, const struct blast_estimate *estimate, uint64_t first_ns);

/* ---- blast_session.c; no lock is held ---- */

/* As struct xk_protocol_ops says. blast_open may wait. */
int blast_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	       struct xk_participants *participants, struct xk_session **session);
int blast_open_enable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		      struct xk_participants *participants);
int blast_open_disable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		       struct xk_participants *participants);

/* As struct xk_session_ops says. *number is a uint32_t: of the protocol above. */
int blast_session_setup(struct xk_session *session, const void *number);
void blast_session_close(struct xk_session *session);

/* Confirms the peer of s. Without memory it stays a stranger. No lock is held. */
void blast_session_confirm(struct blast_session *s);

static inline bool
blast_session_is_confirmed(const struct blast_session *s)
{
	return atomic_load_explicit(&s->peer, memory_order_relaxed) != &blast_of(s)->strangers;
}

void blast_peer_init(struct blast *blast, struct blast_peer *peer);

/*
 * What a frame holds of a message, where the protocol below has answered `got` to how long a packet may be, and said
 * `below`. 0 or -errno.
 */
int blast_fragment_size(int got, uint32_t below, uint32_t *size);

/* ---- blast_send.c ---- */

int blast_send_init(struct blast *blast);
void blast_send_fini(struct blast *blast);

/* Sends a message that is longer than a fragment, and keeps it. Takes m; as xk_push. */
int blast_send(struct blast_session *s, struct xk_msg *m);

/* Nobody will ask for the message number of s again. */
void blast_send_release(struct blast_session *s, uint64_t number);

/* Ends the first copy if its time is over at now_ns. False: it is not, or there is none. */
bool blast_send_expire(struct blast *blast, uint64_t now_ns);

/* Returns the copy with this number. NULL: there is none. The lock is held. */
struct blast_copy *blast_send_find(const struct blast *blast, uint64_t sequence);

/* Notes that the last frame of a listed copy went at now_ns. The lock is held. */
void blast_send_keep(struct blast *blast, struct blast_copy *copy, uint64_t now_ns);

/* Sends fragment i. Returns 0 or -errno. No lock is held. */
int blast_send_fragment(struct blast_copy *copy, unsigned i, enum blast_op op);

/* Gives one reference back. No lock is held. */
void blast_copy_release(struct blast_copy *copy);

/* ---- blast_again.c ---- */

/* Counts bytes and frames that are sent on s for the first time at now_ns. The lock is held. */
void blast_again_count_first(struct blast_session *s, uint64_t bytes, unsigned frames, uint64_t now_ns);

/*
 * Counts a message that was pushed before as sent again. Returns 0; -EAGAIN if this session has lately sent nothing for
 * the first time (its peer may have moved here), so that the message must count as new; or -ENOBUFS if too much was
 * sent again. No lock is held.
 */
int blast_again_count(struct blast_session *s, size_t len, unsigned frames);

/* Handles the NACK m, whose header is at p, that came up lls. Takes m. */
void blast_again(struct blast *blast, struct xk_session *lls, struct xk_msg *m, const uint8_t *p);

/* ---- blast_receive.c ---- */

void blast_receive_init(struct blast *blast);
void blast_receive_fini(struct blast *blast);

/* Adds the fragment m, whose header is at p, to its message. Takes m. */
void blast_receive(struct blast_session *s, struct xk_msg *m, const uint8_t *p);

/* Asks for what is missing of the first message, or gives it up, if that is due at now_ns. False: it is not. */
bool blast_receive_expire(struct blast *blast, uint64_t now_ns);

#endif
