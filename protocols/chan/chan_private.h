/*
 * chan_private.h - the state of CHAN, shared by chan.c (the header, and which end is meant), chan_peer.c (what is known
 * of a host), chan_share.c (how clients share a server's channels), chan_client.c and chan_server.c (the two ends of a
 * channel).
 */
#ifndef XK_CHAN_PRIVATE_H
#define XK_CHAN_PRIVATE_H

#include <errno.h>

#include "protocols/bid/bidctl.h"
#include "protocols/chan/chan.h"
#include "protocols/ticket.h"
#include "xkernel/event.h"
#include "xkernel/protocol.h"

enum chan_drop {
	CHAN_BAD_LENGTH = XK_DROP_OWN,
	CHAN_BAD_FLAGS,
	CHAN_STALE,
	CHAN_DUPLICATE,
	CHAN_BUSY,
	CHAN_UNASKED,
	CHAN_TOO_MANY,
	CHAN_TOO_BIG,
	CHAN_CLOSED,
	CHAN_OLD_BOOT,
	CHAN_TOO_SOON,
};

enum chan_counter {
	CHAN_CALLED,
	CHAN_RETRANSMITTED,
	CHAN_PROBED,
	CHAN_TIMED_OUT,
	CHAN_WAS_RESET,
	CHAN_EXECUTED,
	CHAN_FAILED,
	CHAN_REPEATED,
	CHAN_ACKED,
	CHAN_ASKED,
	CHAN_REJECTED,
	CHAN_ABANDONED,
	CHAN_SUPPRESSED,
	CHAN_UNSAVED,
	CHAN_GIVEN_UP,
	CHAN_FORGOTTEN,
	CHAN_WITHHELD,
	CHAN_EVICTED,
};

enum chan_flags {
	CHAN_FROM_CLIENT = 1,
	CHAN_USER_MSG = 2,
	CHAN_ACK_REQUESTED = 4,
	CHAN_NEGATIVE_ACK = 8,
	CHAN_ERROR = 16,
};

enum {
	CHAN_HEADER_LEN = 20,
	CHAN_SHORT = 64,         /* messages up to this are copied to be kept; longer ones are shared */
	CHAN_STATUS_MAX = 4095,  /* error numbers are less */
	CHAN_MAY_WAIT = 1 << 16, /* not in the header: chan_send may wait for room below */
	CHAN_AGAIN = 1 << 17,    /* not in the header: the message was sent before */
	CHAN_UNASKED_MAX = 3,    /* repeats of a message before the timer only asks */
	CHAN_REPEATS_MAX = 8,    /* repeats of a message, by timers and questions together */
	CHAN_REPEATED_BYTES = 3, /* bytes that may be sent again to a host, for each that was sent for the first time */
};

struct chan_header {
	uint32_t channel, number; /* number: of the protocol above */
	uint32_t sequence;
	uint16_t flags, status; /* status: an error, or of a request its age */
};

/* A node in the tree of those who hold a server's channels: the root, a station, a network or a host (chan_share.c). */
struct chan_holder {
	struct chan_holder *above;      /* NULL: the root, or a host that is not in the tree */
	struct chan_holder *below;      /* the first child */
	struct chan_holder *next, **at; /* among its siblings */
	struct chan_holder *most;       /* the child that had the most, which was most_was; NULL: not known */
	uint64_t most_was;
	unsigned ends, memories; /* channels held, and channels remembered */
	unsigned hosts;          /* hosts that hold any */
	_Atomic uint64_t saved;  /* of a network: bytes of buffers of its long replies */
	/* of a station or network */
	struct xk_binding binding;
	struct xk_retired retired;
};

/* A channel that made room for another one: no request up to `sequence` is run again. */
struct chan_memory {
	uint32_t number, channel, sequence;
	uint32_t until_ms;
};

struct chan {
	struct xk_protocol protocol; /* first */
	/* settings */
	uint64_t timeout_ns, timeout_min_ns, timeout_max_ns, deadline_ns, silence_ns, lifetime_ns;
	uint64_t retries, channels, hosts, peer_channels, saved_max, peer_saved_max, idle_max;

	struct xk_bidctl_watcher watcher;
	_Atomic uint64_t saved; /* bytes of buffers of long replies */

	struct xk_lock lock;        /* over what follows, and over what peers have in lists */
	struct xk_map peers;        /* host: struct chan_peer */
	struct xk_map groups;       /* address and parent: struct chan_holder, a station or network */
	struct chan_holder holders; /* the root */
	struct xk_event forget;     /* drops what need not be remembered any more */
	bool forgetting;            /* that event is pending */
	uint32_t next_channel;
	uint64_t changes; /* that BIDCTL has told of: an answer holds if they are the same before and after */
	unsigned idle_count;
};

/* The number of a channel that nobody has open, what its next call goes on from, and before when it is not used again. */
struct chan_idle {
	struct chan_idle *next;
	uint32_t number, channel, sequence;
	uint64_t rests_ns; /* 0: its last call was answered, and the server has done with it */
};

/* A list of ends, oldest first. */
struct chan_ends {
	struct chan_end *first, **last;
};

/* A host. */
struct chan_peer {
	struct xk_binding binding;
	struct xk_retired retired;
	struct chan *chan;
	uint32_t host;
	unsigned references; /* ends that point here */
	uint64_t boot;       /* that all of this is of; 0: not known */
	struct chan_ends clients, servers;
	struct chan_holder holder;
	struct chan_memory *memories; /* holder.memories of them, in any order; room for memory_max */
	unsigned memory_max;
	struct chan_idle *idle, **idle_last; /* those that rest come last, in the order in which they were closed */
	_Atomic uint64_t saved;              /* bytes of buffers of long replies */
	_Atomic uint64_t first;              /* bytes of messages sent for the first time */
	/* under the chan's lock: bytes repeated in this minute, when it began, and `first` at that time */
	uint64_t repeated, minute_ns, first_before;
};

/* A message that may have to be sent again. */
struct chan_copy {
	struct xk_msg *m; /* NULL: a short one, in bytes */
	uint32_t len;
	uint8_t bytes[CHAN_SHORT];
};

/* What both ends of a channel have: sessions of two kinds in one table (chan_key). */
struct chan_end {
	struct xk_session session; /* first */
	struct chan_peer *peer;
	struct chan_end *next, **at; /* in the peer's list; at NULL: in none */
	uint32_t channel, number;
	bool is_server;
	uint64_t boot;         /* of the peer: for which it sends; 0: not known */
	struct xk_event timer; /* pending, it holds a reference on the session */

	struct xk_lock lock; /* over what follows */
	uint8_t state;
	bool timing;   /* the timer is pending, or its handler will look again */
	bool disabled; /* the peer that it was made with is no more */
	bool copied;   /* copy is the message of `sequence`, and may be asked for */
	bool asked;    /* it was asked for since it was sent, while somebody below was at it */
	uint32_t sequence;
	uint32_t max_packet, opt_packet;
	unsigned tries;           /* time-outs and, at a client, negative acks of this message */
	unsigned repeats;         /* how often the message itself was sent again */
	uint32_t srtt_us, dev_us; /* of the round trip: smoothed, and its mean deviation; 0: not measured */
	uint64_t timeout_ns;      /* after which it is sent again; twice that the next time */
	uint64_t due_ns;          /* when */
	uint64_t fires_ns;        /* when the timer will, about */
	uint64_t sent_ns;         /* when the message was sent last */
	struct chan_copy copy;
	struct xk_ticket ticket;
};

enum chan_client_state { CHAN_FREE, CHAN_WAIT, CHAN_ENDED };

struct chan_client {
	struct chan_end end; /* first */
	struct xk_semaphore ended;
	uint64_t deadline_ns; /* what a call may take */
	/* under the end's lock: the call */
	struct xk_call *call; /* NULL: a shepherd waits for it */
	uint64_t begun_ns, ends_ns, heard_ns;
	bool acked;        /* the server has it */
	bool gave_up;      /* the call given_up had no answer */
	uint32_t given_up; /* its sequence number */
	int status;        /* CHAN_ENDED: for the shepherd */
	struct xk_msg *reply;
};

enum chan_server_state { CHAN_IDLE, CHAN_EXECUTE, CHAN_REPLIED };

struct chan_server {
	struct chan_end end; /* first */
	/* under the end's lock */
	uint64_t heard_ns;
	uint32_t newer;  /* while a request is executed: the sequence number of a newer one */
	uint16_t status; /* of the reply; not 0: it is an error */
	bool has_newer;
};

static inline struct chan *
chan_of(const struct chan_end *end)
{
	return (struct chan *)end->session.protocol;
}

/* Sessions are aligned, so that the last bit of lls's address says which of the two ends of a channel is meant. */
static inline struct xk_key
chan_key(const struct xk_session *lls, uint32_t number, uint32_t channel, bool is_server)
{
	return (struct xk_key){ (uintptr_t)lls | is_server, (uint64_t)number << 32 | channel };
}

/*
 * A handler's failure as the caller gets it: what might be taken for CHAN's own is told apart, above all what says that the
 * call was not run.
 */
static inline unsigned
chan_status_of_handler(int status)
{
	switch (status) {
	case -ETIMEDOUT:
	case -ECONNRESET:
	case -ECONNREFUSED:
	case -EBUSY:
	case -ECANCELED:
	case -EMSGSIZE:
	case -ENOBUFS:
		return EREMOTEIO;
	default:
		return status < 0 && status >= -CHAN_STATUS_MAX ? (unsigned)-status : EREMOTEIO;
	}
}

/* ---- ages: how long ago the call of a request that is sent again has begun ---- */

enum { CHAN_AGE_BITS = 11, CHAN_AGE_MAX = (1 << CHAN_AGE_BITS) - 1, CHAN_AGE_POWERS = 31 };

/* As it is sent: microseconds in the lower bits, times two to the power of the upper ones; no less than it is. */
static inline uint16_t
chan_age_pack(uint64_t ns)
{
	uint64_t us = ns / 1000 + 1;
	unsigned power = 0;

	for (; us > CHAN_AGE_MAX && power < CHAN_AGE_POWERS; power++)
		us = (us + 1) / 2;
	return (uint16_t)(power << CHAN_AGE_BITS | (us < CHAN_AGE_MAX ? us : CHAN_AGE_MAX));
}

static inline uint64_t
chan_age_ns(uint16_t age)
{
	return ((uint64_t)(age & CHAN_AGE_MAX) << (age >> CHAN_AGE_BITS)) * 1000;
}

/* ---- lists of ends; the chan's lock is held ---- */

static inline void
chan_ends_add(struct chan_ends *ends, struct chan_end *e)
{
	e->next = NULL;
	e->at = ends->last;
	*e->at = e;
	ends->last = &e->next;
}

static inline void
chan_ends_remove(struct chan_ends *ends, struct chan_end *e)
{
	*e->at = e->next;
	if (e->next != NULL)
		e->next->at = e->at;
	else
		ends->last = e->at;
	e->at = NULL;
}

/* ---- copies ---- */

/* Where the buffer goes on far enough, what lies behind the message is copied too: so many bytes are no call. */
static inline void
chan_copy_short(struct chan_copy *copy, const struct xk_msg *m, size_t len)
{
	if (xk_likely(m->next == NULL && m->ceiling - m->data >= CHAN_SHORT))
		memcpy(copy->bytes, m->data, CHAN_SHORT);
	else
		xk_msg_copy_first(m, copy->bytes, len);
}

/* Remembers m, which stays the caller's. False: no buffer. */
static inline bool
chan_copy_take(struct chan_copy *copy, const struct xk_msg *m)
{
	size_t len = xk_msg_len(m);

	copy->len = (uint32_t)len;
	copy->m = NULL;
	if (xk_likely(len <= CHAN_SHORT)) {
		chan_copy_short(copy, m, len);
		return true;
	}
	copy->m = xk_msg_reference(m);
	return copy->m != NULL;
}

/* What m keeps from others: its buffers, however little is in them. */
static inline uint64_t
chan_copy_cost(const struct xk_msg *m)
{
	uint64_t cost = 0;

	for (; m != NULL; m = m->next)
		cost += m->len < XK_MSG_SEGMENT ? XK_MSG_SEGMENT : m->len;
	return cost;
}

/* The message once more. NULL: no buffer. */
static inline struct xk_msg *
chan_copy_give(const struct xk_protocol *self, const struct chan_copy *copy)
{
	return copy->m != NULL ? xk_msg_reference(copy->m) : xk_msg_from(xk_platform_of(self), copy->bytes, copy->len);
}

/* What is kept below for e, if anything, is the caller's to release, without the lock, which is held. */
static inline void
chan_ticket_take(struct chan_end *e, struct xk_ticket *ticket)
{
	ticket->keeper = NULL;
	if (xk_likely(e->ticket.keeper == NULL))
		return;
	*ticket = e->ticket;
	e->ticket.keeper = NULL;
}

/* ---- chan.c ---- */

/*
 * Sends m, which is taken, as what e says of its call or reply `sequence`; whoever keeps a copy of it is remembered. Waits
 * only if flags say so (CHAN_MAY_WAIT): a message of a peer must not make it.
 */
void chan_send(struct chan_end *e, struct xk_msg *m, uint32_t sequence, unsigned flags, unsigned status);

/* Answers h, which has come up lls, about sequence, by a header alone. */
void chan_answer(struct xk_protocol *self, struct xk_session *lls, const struct chan_header *h, uint32_t sequence,
		 unsigned flags, unsigned status);

/*
 * Makes a session that is new an end, puts it among those of its host, and binds it. A server's end says so, and which
 * channel it is. 0; -EEXIST: somebody was faster; or as chan_peer_join. After an error it can be closed.
 */
int chan_end_init(struct chan_end *e, xk_event_handler *expire, uint32_t number, uint64_t boot);

/* Whoever keeps a copy of the message still tries to send it by itself. The lock is held. */
bool chan_end_is_being_sent(const struct chan_end *e, uint64_t now_ns);

/*
 * The other end asks for the message: whether it may be left to who sends it already. Once: what has arrived below may be
 * lost above. The lock is held.
 */
bool chan_end_may_wait(struct chan_end *e, uint64_t now_ns);

/*
 * The other end asks for the message sooner after it was sent than an honest one would: it is not sent again, so that little
 * questions do not draw much. The lock is held.
 */
bool chan_end_is_too_soon(const struct chan_end *e, uint64_t now_ns);

/*
 * Returns whether the message may be sent again, and counts it as sent: at most `most` times, and within what is
 * allowed for its host. False: a header alone may be sent instead. The lock is held; never waits.
 */
bool chan_end_may_repeat(struct chan_end *e, unsigned most, uint64_t now_ns);

/* The message goes down once more, or for the first time. The lock is held. */
static inline void
chan_end_is_sent(struct chan_end *e, uint64_t now_ns)
{
	e->sent_ns = now_ns;
	e->asked = false;
}

/* Notes that copy has a new message, which is sent for the first time. The lock is held. */
static inline void
chan_end_is_new(struct chan_end *e, uint64_t now_ns)
{
	_Atomic uint64_t *first = &e->peer->first;

	e->tries = 0;
	e->repeats = 0;
	chan_end_is_sent(e, now_ns);
	/* not a read-modify-write: of two additions at a time one may be lost, and then less is repeated */
	atomic_store_explicit(first, atomic_load_explicit(first, memory_order_relaxed) + e->copy.len + CHAN_HEADER_LEN,
			      memory_order_relaxed);
}

/* The round trip took so long. The lock is held. */
void chan_end_measure(struct chan_end *e, uint64_t sample_ns);

/* The message is sent again: when it will be the next time. The lock is held. */
void chan_end_back_off(struct chan_end *e, uint64_t now_ns);

/* The slow half of chan_end_wake; not for callers. */
bool chan_end_wake_sooner(struct chan_end *e, uint64_t at_ns, uint64_t now_ns);

/* The timer will fire at at_ns or before. False: the session is closed. The lock is held. */
static inline bool
chan_end_wake(struct chan_end *e, uint64_t at_ns, uint64_t now_ns)
{
	return xk_likely(e->timing && at_ns >= e->fires_ns) || chan_end_wake_sooner(e, at_ns, now_ns);
}

/* For the timer's handler: it will fire again at at_ns, with a reference of its own. The lock is held. */
void chan_end_wake_again(struct chan_end *e, uint64_t at_ns, uint64_t now_ns);

int chan_end_push(struct xk_session *session, struct xk_msg *m);

/* ---- chan_peer.c ---- */

/*
 * Puts e among the ends of its host, the one that its session below speaks with. A client's end gets a channel that is
 * idle, with its sequence number, or else a new one. A server's end is for the request after e's sequence, of the
 * peer's boot `boot` (0: not known), and may take the place of another one. Returns 0; -ENOBUFS: there are too many
 * servers' ends; -ESTALE: that boot is over; -EALREADY: the request may have been run; or -errno.
 */
int chan_peer_join(struct chan_end *e, uint64_t boot);

/* Takes e out of the list of its host's ends, which must contain it. The chan's lock is held. */
void chan_peer_unlink(struct chan_end *e);

/* Frees the peer if it has no ends and nothing is remembered of it. The chan's lock is held. */
void chan_peer_free_unused(struct chan_peer *peer);

/* Takes e out; the number of a client's channel is kept, and rests if the server may still be at its last call. */
void chan_peer_leave(struct chan_end *e);

/* Counts a long reply that would be kept, and costs so much. False: there are too many. */
bool chan_peer_save(struct chan_peer *peer, uint64_t cost);
void chan_peer_unsave(struct chan_peer *peer, uint64_t cost);

/*
 * Counts so many bytes as sent again to the peer. False: they must not be, since in a minute they are at most three
 * times the bytes sent for the first time. Never waits: returns false also if the chan's lock is taken.
 */
bool chan_peer_may_repeat(struct chan_peer *peer, uint64_t bytes, uint64_t now_ns);

void chan_peer_changed(const struct xk_bidctl_watcher *watcher, enum xk_bidctl_change change,
		       const struct xk_bidctl_peer *changed);
/* 0 or -errno; and the end of it, when all ends are closed. */
int chan_peer_init(struct chan *chan);
void chan_peer_fini(struct chan *chan);

/* ---- chan_share.c; the chan's lock is held ---- */

/* Gives the peer its place in the tree, behind that station (0: not known), unless it has one. Returns 0 or -ENOMEM. */
int chan_share_join(struct chan_peer *peer, uint64_t station);

/* Takes the peer, which has no channels and no memories, out of the tree. */
void chan_share_leave(struct chan_peer *peer);

/* Counts one channel more of the peer (ends 1), or one less (ends -1). */
void chan_share_add(struct chan_peer *peer, int ends);

/*
 * Makes room for a channel of peer, unless there is some. *evicted lists ends that were disabled and taken out of their
 * lists, each with a reference, also after an error; the caller passes them to chan_server_disable without the lock,
 * and releases them. Returns 0; -ENOBUFS: nobody has more than its share, or nothing may go; or -ENOMEM.
 */
int chan_share_admit(struct chan_peer *peer, struct chan_end **evicted);

/* Returns what is remembered of the channel of e, which is not among its host's ends. NULL: nothing. */
struct chan_memory *chan_share_recall(const struct chan_peer *peer, const struct chan_end *e);

/* Forgets a memory of the peer; pointers to others become invalid. */
void chan_share_drop(struct chan_peer *peer, struct chan_memory *memory);

/* Forgets all memories of the peer. */
void chan_share_forget(struct chan_peer *peer);

/* Handles the timer of what is remembered. The lock is not held. */
void chan_share_expire(struct xk_event *event, void *argument);

/* ---- chan_client.c ---- */

int chan_client_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		     struct xk_participants *participants, struct xk_session **session);

/* The server may still be at the last call, or may yet get it. The lock is held. */
static inline bool
chan_client_is_in_doubt(const struct chan_client *c)
{
	return c->gave_up && c->given_up == c->end.sequence;
}

/* The peer is another one, or none: the call ends, and there will be no other. A reference is held. */
void chan_client_disable(struct chan_client *c);

/* ---- chan_server.c ---- */

/*
 * The end for a client's message m, whose header was h, which has come up lls to a channel without one. NULL: m was
 * dropped, and what is to be said of it has been said.
 */
struct xk_session *chan_server_accept(struct chan *chan, struct xk_session *lls, struct xk_msg *m,
				      const struct chan_header *h);

/* The client is another one: nothing of this end survives. A reference is held. */
void chan_server_disable(struct chan_server *s);

#endif
