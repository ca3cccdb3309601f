/*
 * bidctl_private.h - the state of BIDCTL, shared by bidctl.c (messages, time, questions from above) and bidctl_peer.c
 * (tables of hosts, and what is computed with a key).
 */
#ifndef XK_BIDCTL_PRIVATE_H
#define XK_BIDCTL_PRIVATE_H

#include <sys/queue.h>

#include "protocols/bid/bidctl.h"
#include "xkernel/event.h"

enum bidctl_drop {
	BIDCTL_BAD_CHECKSUM = XK_DROP_OWN,
	BIDCTL_BAD_FLAGS, /* or tags that do not go with them */
	BIDCTL_BAD_BOOT,  /* none */
	BIDCTL_BAD_HOST,  /* no single host, this one, or not the one that the session below knows */
	BIDCTL_STALE,     /* an answer to a former boot of this host */
	BIDCTL_UNASKED,   /* an answer to no question, or a second one */
	BIDCTL_FULL,      /* a stranger's answer, while all `peers` are in use */
	BIDCTL_ENDED,     /* an answer as a boot that has ended */
	BIDCTL_REBOOTING, /* an answer as one boot more than can be remembered */
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
	BIDCTL_FORGOTTEN,   /* told as lost, because not used for long */
	BIDCTL_UNREACHABLE, /* asked in vain */
	BIDCTL_LIMITED,     /* questions that were not asked */
	BIDCTL_REPLACED,    /* strangers that lost their place */
	BIDCTL_TOO_MANY,    /* peers that found no room */
	BIDCTL_UNSENT,
	BIDCTL_ASKED_BACK, /* responses_out that were questions, too */
};

enum {
	BIDCTL_WAYS = 4, /* places that a stranger may have */
	/* ended boots that are remembered: of each host in any case, of one host at most, and of all hosts at most */
	BIDCTL_ENDED_FEW = 4,
	BIDCTL_ENDED_MAX = 1024,
	BIDCTL_ENDED_ALL = 16384,
};

/* A shepherd that waits for a host's boot id. On its stack; the lock is held while it is woken, and when it goes. */
struct bidctl_waiter {
	SLIST_ENTRY(bidctl_waiter) next;
	struct xk_semaphore semaphore;
	bool done;
	uint64_t boot; /* 0: there is none */
};

/* A confirmed boot of a host that another one has followed. */
struct bidctl_ended {
	struct bidctl_ended *next;
	uint64_t boot;
	uint64_t until_ns; /* when it may be confirmed again */
};

/*
 * A host that somebody here has opened, or that has sent a message, and that has answered or is being asked. Only its
 * timer's handler takes it out of the table and frees it, when nobody else is at it (holds).
 */
struct bidctl_peer {
	SLIST_ENTRY(bidctl_peer) next; /* in its bucket */
	struct bidctl *bidctl;
	uint32_t host;
	uint32_t uses;
	uint32_t holds; /* shepherds that look at it again when they next have the lock */
	uint8_t tries;
	bool asking;    /* there is a question that `tag` belongs to */
	bool suspected; /* the timer asks: the host has said to everybody that it has booted */
	bool telling;   /* a shepherd is telling the watchers, and goes on until told is boot */
	bool pending;   /* the timer is pending, or its handler is about to look */
	uint64_t told;  /* the boot id that all watchers know; 0: none */
	uint64_t way;   /* by which its latest answer came (bidctl_way); 0: only its address is known */
	uint64_t last;  /* the boot id that was confirmed last, kept when the host is lost; 0: none */
	uint64_t lost_ns;
	struct bidctl_ended *ended; /* latest first */
	uint32_t ended_count;
	uint64_t asked_ns;
	uint64_t due_ns;
	struct xk_event timer;
	union { /* first the one, then the other */
		struct {
			uint64_t boot; /* confirmed; 0: none */
			uint64_t tag;
			SLIST_HEAD(bidctl_waiters, bidctl_waiter) waiters;
		};
		struct xk_retired retired;
	};
};

/* A host that is no peer, but was asked. Their table has a fixed size, so that strangers take no memory. */
struct bidctl_stranger {
	uint32_t host; /* 0: none */
	uint64_t tag;
	uint64_t asked_ns;
};

/* A message to be sent when the lock is no longer held. */
struct bidctl_output {
	uint32_t host;           /* 0: nothing is to be sent; UINT32_MAX: to everybody */
	uint64_t boot;           /* that the host is known by; 0: not known */
	uint64_t request, reply; /* tags of a question and of the question that is answered; 0: none */
};

struct bidctl {
	struct xk_protocol protocol; /* first */
	/* settings */
	uint64_t peer_max, stranger_count, stranger_rate, retries;
	uint64_t timeout_ns, timeout_max_ns, interval_ns, keepalive_ns, lifetime_ns, broadcast_wait_ns;
	bool broadcast;

	uint64_t secret, key[2]; /* drawn at boot, for its ids and for tags that are not remembered */
	struct xk_event boot;
	struct xk_bidctl_watcher *watchers; /* latest first; does not change after init */
	xk_event_handler *timeout;          /* of peers */
	uint64_t seed;                      /* of the hash, because strangers choose the hosts */

	struct xk_lock lock; /* over what follows */
	SLIST_HEAD(bidctl_bucket, bidctl_peer) * buckets;
	uint32_t bucket_mask, way_mask;
	uint64_t peer_count, ended_count;
	struct bidctl_stranger *strangers; /* sets of BIDCTL_WAYS */
	uint64_t strangers_ns;             /* until when the questions asked so far have used up their rate */
};

/* ---- bidctl_peer.c; with the lock held, except init and fini ---- */

/* Makes empty tables. Returns 0 or -ENOMEM; call bidctl_peer_fini in any case. */
int bidctl_peer_init(struct bidctl *b, xk_event_handler *timeout);
/* Frees everything; nothing runs any more. */
void bidctl_peer_fini(struct bidctl *b);

/* Returns the host's peer. NULL: there is none. */
struct bidctl_peer *bidctl_peer_find(struct bidctl *b, uint32_t host);
/* Finds or makes the host's peer. NULL: there are too many (counted), or there is no memory. */
struct bidctl_peer *bidctl_peer_get(struct bidctl *b, uint32_t host);
/* Takes a peer that nothing holds out of the table and retires it. For the timer's handler. */
void bidctl_peer_forget(struct bidctl_peer *peer);

/* Sets the timer to delay_ns from now. */
void bidctl_peer_schedule(struct bidctl_peer *peer, uint64_t delay_ns);
/* Sets the timer, unless something is or will be asked: to ask whether the host is still there, or to forget it. */
void bidctl_peer_rest(struct bidctl_peer *peer);
/* Asks a new question, or the pending one once more; then the next time comes after twice the time. */
void bidctl_peer_ask(struct bidctl_peer *peer, struct bidctl_output *output);

/* Makes boot the peer's last one. Returns 0, or BIDCTL_ENDED or BIDCTL_REBOOTING if it must not be confirmed now. */
unsigned bidctl_peer_become(struct bidctl_peer *peer, uint64_t boot);
/* Returns how many ns an unused peer must still be remembered because a boot of it has ended, or may have. */
uint64_t bidctl_peer_remembers(struct bidctl_peer *peer);

/* Sets *output to a question to host, which is no peer and has sent a message, unless it was asked too often. */
void bidctl_stranger_heard(struct bidctl *b, uint32_t host, struct bidctl_output *output);
/* Takes a stranger's answer. False: it was not asked with that tag. Otherwise it is a stranger no more. */
bool bidctl_stranger_answers(struct bidctl *b, uint32_t host, uint64_t tag);

/* ---- bidctl_peer.c: what is computed; any context ---- */

/* As xk_bidctl_own. */
uint64_t bidctl_own(struct xk_protocol *self, uint32_t host);
/* Returns the tag of a question to host, asked so many periods ago when it had said that it is this boot; never 0. */
uint64_t bidctl_tag(const struct bidctl *b, uint32_t host, uint64_t boot, unsigned periods_ago);
/* Returns SipHash-2-4 of two words, lowest byte first. */
uint64_t bidctl_tag_hash(const uint64_t key[2], uint64_t first, uint64_t second);

#endif
