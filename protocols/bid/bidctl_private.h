/*
 * bidctl_private.h - the state of BIDCTL, shared by bidctl.c (telling, time, questions from above), bidctl_message.c
 * (what is sent, what arrives), bidctl_peer.c (what is known of which host) and bidctl_tag.c (boot ids, and tags that
 * need not be remembered).
 */
#ifndef XK_BIDCTL_PRIVATE_H
#define XK_BIDCTL_PRIVATE_H

#include "protocols/bid/bidctl.h"
#include "xkernel/event.h"

enum bidctl_drop {
	BIDCTL_BAD_CHECKSUM = XK_DROP_OWN,
	BIDCTL_BAD_FLAGS,
	BIDCTL_BAD_BOOT,
	BIDCTL_BAD_HOST,
	BIDCTL_STALE,
	BIDCTL_UNASKED,
	BIDCTL_FULL,
	BIDCTL_ENDED,
	BIDCTL_REBOOTING,
};

enum bidctl_counter {
	BIDCTL_QUERIES_IN,
	BIDCTL_QUERIES_OUT,
	BIDCTL_RESPONSES_IN,
	BIDCTL_RESPONSES_OUT,
	BIDCTL_BROADCASTS_IN,
	BIDCTL_BROADCASTS_OUT,
	BIDCTL_RETRIES,
	BIDCTL_KEEPALIVES,
	BIDCTL_FIRST_CONTACTS,
	BIDCTL_REBOOTS,
	BIDCTL_LOSSES,
	BIDCTL_FORGOTTEN,
	BIDCTL_UNREACHABLE,
	BIDCTL_LIMITED,
	BIDCTL_REPLACED,
	BIDCTL_TOO_MANY,
	BIDCTL_UNSENT,
	BIDCTL_ASKED_BACK,
};

enum {
	BIDCTL_WAYS = 4, /* places that a stranger's host may have */
	BIDCTL_NS_PER_S = 1000000000,
	BIDCTL_BURST_NS = 100000000, /* what strangers are asked in this time may be asked at once */
	/* ended boots that are remembered: of each host in any case, of one host at most, and of all hosts at most */
	BIDCTL_ENDED_FEW = 4,
	BIDCTL_ENDED_MAX = 1024,
	BIDCTL_ENDED_ALL = 16384,
};

enum { BIDCTL_QUERY = 1, BIDCTL_RESPONSE = 2, BIDCTL_BCAST = 4 };

enum { BIDCTL_HEADER_LEN = 40 };

/* A shepherd that waits for a host's boot id. On its stack; the lock is held while it is woken, and when it goes. */
struct bidctl_waiter {
	struct bidctl_waiter *next;
	struct xk_semaphore semaphore;
	bool done;
	int status;
	uint64_t boot;
};

/* A confirmed boot of a host that another one has followed. */
struct bidctl_ended {
	uint64_t boot;
	uint64_t until_ns; /* when it may be confirmed again */
};

/*
 * A host that somebody here has opened, or has had a message of, and that has answered, or is being asked. Its timer's
 * handler alone takes it out of the table and gives it back, when nobody else is at it (holds).
 */
struct bidctl_peer {
	struct bidctl_peer *next; /* in its bucket */
	struct bidctl *bidctl;
	uint32_t host;
	uint32_t uses;
	uint32_t holds; /* shepherds that look at it again when they have the lock the next time */
	uint8_t tries;
	bool asking;    /* there is a question that `tag` belongs to */
	bool suspected; /* the timer asks: the host has said to everybody that it has booted */
	bool telling;   /* a shepherd is telling the watchers, and goes on until told is boot */
	bool pending;   /* the timer is pending, or its handler is about to look */
	uint64_t told;  /* the boot id that all watchers know; 0: none */
	uint64_t way;   /* by which its latest answer came (bidctl_way); 0: only its address is known */
	uint64_t last;  /* the boot id that was confirmed last, kept when the host is lost; 0: none */
	uint64_t lost_ns;
	struct bidctl_ended *ended; /* oldest first */
	uint32_t ended_count, ended_room;
	uint64_t asked_ns;
	uint64_t due_ns;
	struct xk_event timer;
	union { /* first the one, then the other */
		struct {
			uint64_t boot; /* confirmed; 0: none */
			uint64_t tag;
			struct bidctl_waiter *waiters;
		};
		struct xk_retired retired;
	};
};

/* A host that is no peer, but was asked. Such a table has a fixed size, so strangers take no memory. */
struct bidctl_stranger {
	uint32_t host; /* 0: none */
	uint64_t tag;
	uint64_t asked_ns;
};

/*
 * A message to be sent when the lock is no longer held: a question (tag 0: none), an answer to another way than the
 * question's (answers 0: none), or both.
 */
struct bidctl_question {
	uint32_t host;
	uint64_t boot; /* that the host is known by */
	uint64_t tag;
	uint64_t answers; /* the tag of its own question, which this answers at the same time; 0: none */
};

struct bidctl {
	struct xk_protocol protocol; /* first */
	/* settings */
	uint64_t peer_max, stranger_count, stranger_rate, retries;
	uint64_t timeout_ns, timeout_max_ns, interval_ns, keepalive_ns, lifetime_ns, broadcast_wait_ns;
	bool broadcast;

	uint64_t secret; /* drawn at boot; hashed into all ids that this boot tells */
	struct xk_event boot;
	struct xk_bidctl_watcher *watchers; /* who came last is first; does not change after init */
	xk_event_handler *timeout;          /* of peers */
	uint64_t seed;                      /* of the hash: strangers choose the hosts */
	uint64_t key[2];                    /* drawn at boot, for its ids and for tags that are not remembered */

	struct xk_lock lock; /* over what follows */
	struct bidctl_peer **buckets;
	uint32_t bucket_mask, way_mask;
	uint64_t peer_count, ended_count;
	struct bidctl_stranger *strangers; /* sets of BIDCTL_WAYS */
	uint64_t strangers_ns;             /* until when the questions asked so far have used up their rate */
};

static inline struct bidctl *
bidctl_of(struct xk_protocol *self)
{
	return xk_container_of(self, struct bidctl, protocol);
}

/* Whether it may be a single host's address. */
static inline bool
bidctl_is_host(uint32_t host)
{
	return host >> 24 != 0 && host >> 28 < 0xe;
}

/* ---- bidctl_message.c; the lock is not held ---- */

extern const struct xk_field bidctl_fields[];

/* Sends the question, the answer or both, in one message, to where the host is. Does nothing if it is neither. */
void bidctl_send_question(struct bidctl *b, const struct bidctl_question *question);
/* Says to everybody that this host has booted. */
void bidctl_send_broadcast(struct bidctl *b);
/* xk_bidctl_heard; where *boot is 0, xk_bidctl_known. */
int bidctl_hear(struct xk_protocol *self, uint32_t host, uint64_t *boot, struct xk_session *lls);
/* As struct xk_protocol_ops says. */
void bidctl_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m);

/* ---- bidctl.c ---- */

/*
 * All watchers are told what has changed; then who waits goes on, unless the host is being asked again. The lock is held
 * on both ends, and not in between.
 */
void bidctl_tell(struct bidctl_peer *peer);

/* ---- bidctl_peer.c; all but init and fini with the lock held, so none of them waits or sends ---- */

/* Empty tables. 0 or -ENOMEM; bidctl_peer_fini in any case. */
int bidctl_peer_init(struct bidctl *b, xk_event_handler *timeout);
/* When nothing runs any more. */
void bidctl_peer_fini(struct bidctl *b);

struct bidctl_peer *bidctl_peer_find(struct bidctl *b, uint32_t host);
/* The host's peer, made where there is none; NULL: there are too many (counted), or no memory. */
struct bidctl_peer *bidctl_peer_get(struct bidctl *b, uint32_t host);
/* Out of the table, and freed when nobody can be reading it. For the timer's handler; nothing holds the peer. */
void bidctl_peer_forget(struct bidctl_peer *peer);

/* The timer looks in delay_ns, neither before nor after. */
void bidctl_peer_schedule(struct bidctl_peer *peer, uint64_t delay_ns);
/* ... when nothing is being asked: to ask whether it is still there, or to forget it. */
void bidctl_peer_rest(struct bidctl_peer *peer);
/* A new question. */
void bidctl_peer_ask(struct bidctl_peer *peer, struct bidctl_question *question);
/* The same question once more; the next time after twice the time. */
void bidctl_peer_ask_again(struct bidctl_peer *peer, struct bidctl_question *question);
/* Who waits gets the boot id that is told, or hears that there is none. */
void bidctl_peer_wake(struct bidctl_peer *peer);

/*
 * Makes boot the peer's last one. Returns 0, or BIDCTL_ENDED or BIDCTL_REBOOTING if it must not be confirmed now. The
 * lock is held.
 */
unsigned bidctl_peer_become(struct bidctl_peer *peer, uint64_t boot);
/*
 * Returns how many ns an unused peer must still be remembered because a boot of it has ended, or may have. The lock is
 * held.
 */
uint64_t bidctl_peer_remembers(struct bidctl_peer *peer);

/* The host, which is no peer, has sent a message: *question may be something. */
void bidctl_stranger_heard(struct bidctl *b, uint32_t host, struct bidctl_question *question);
/* It answers. False: it was not asked with that tag. Otherwise it is a stranger no more. */
bool bidctl_stranger_answers(struct bidctl *b, uint32_t host, uint64_t tag);

/* ---- bidctl_tag.c; any context ---- */

/* Draws the key. */
void bidctl_tag_init(struct bidctl *b);
/* xk_bidctl_own. */
uint64_t bidctl_own(struct xk_protocol *self, uint32_t host);
/* The tag of a question to host, which says that it is this boot; never 0. */
uint64_t bidctl_tag_make(const struct bidctl *b, uint32_t host, uint64_t boot);
/* Whether host was asked with that tag, not long ago, when it had said that it is this boot. */
bool bidctl_tag_is_good(const struct bidctl *b, uint32_t host, uint64_t boot, uint64_t tag);
/* SipHash-2-4 of two words, lowest byte first. */
uint64_t bidctl_tag_hash(const uint64_t key[2], uint64_t first, uint64_t second);

#endif
