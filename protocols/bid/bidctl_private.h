/*
 * bidctl_private.h - the state of BIDCTL, for bidctl.c and tests that look into it.
 */
#ifndef XK_BIDCTL_PRIVATE_H
#define XK_BIDCTL_PRIVATE_H

#include <sys/queue.h>

#include "protocols/bid/bidctl.h"
#include "xkernel/event.h"
#include "xkernel/support/alarm.h"
#include "xkernel/support/retransmit.h"

#define BIDCTL_DROPS(D)                                                                                                \
	D(BIDCTL_BAD_FLAGS, "bad_flags") /* or tags that contradict them */                                            \
	D(BIDCTL_BAD_BOOT, "bad_boot")   /* none */                                                                    \
	D(BIDCTL_BAD_HOST, "bad_host")   /* no single host, this one, or not the one that the session below knows */   \
	D(BIDCTL_STALE, "stale")         /* an answer to a former boot of this host */                                 \
	D(BIDCTL_UNASKED, "unasked")     /* an answer to no question, or a second one */                               \
	D(BIDCTL_FULL, "full")           /* a stranger's answer, while all `peers` are in use */                       \
	D(BIDCTL_ENDED, "ended")         /* an answer as a boot that has ended */                                      \
	D(BIDCTL_REBOOTING, "rebooting") /* an answer as one boot more than can be remembered */
XK_DROPS(bidctl, BIDCTL_DROPS);

enum {
	BIDCTL_WAYS = 4, /* places of a stranger in its table */
	/* ended boots that are remembered: of each host in any case, of one host at most, and of all hosts at most */
	BIDCTL_ENDED_FEW = 4,
	BIDCTL_ENDED_MAX = 1024,
	BIDCTL_ENDED_ALL = 16384,
};

/* A confirmed boot of a host that another one has followed. */
struct bidctl_ended {
	struct bidctl_ended *next;
	uint64_t boot;
	uint64_t until_ns; /* when it may be confirmed again */
};

/* A host that has answered, or that is asked because it was opened. Only its timer's handler frees it. */
struct bidctl_peer {
	SLIST_ENTRY(bidctl_peer) next; /* in its bucket */
	struct bidctl *bidctl;
	uint32_t host;
	uint32_t uses;
	uint32_t holds;    /* shepherds that use it again when they next have the lock */
	bool asking;       /* a query with `tag` is pending */
	bool paid;         /* by a message in its name: the question may be repeated once */
	bool suspected;    /* the host has announced a boot; the timer asks */
	bool notifying;    /* a shepherd is notifying the watchers, until `notified` equals `boot` */
	uint64_t notified; /* the boot id that all watchers know; 0: none */
	uint64_t origin;   /* origin of its latest answer (bidctl_origin); 0: only its address is known */
	uint64_t last;     /* the boot id that was confirmed last, kept when the host is lost; 0: none */
	uint64_t lost_ns;
	struct bidctl_ended *ended; /* latest first */
	uint32_t ended_count;
	struct xk_retry retry; /* of the question; due_ns is also when a peer without one is checked */
	struct xk_alarm alarm;
	union { /* the first until it is retired */
		struct {
			uint64_t boot; /* confirmed; 0: none */
			uint64_t tag;
			SLIST_HEAD(bidctl_waiters, bidctl_waiter) waiters; /* each has a hold */
		};
		struct xk_retired retired;
	};
};

/* A host that was asked because of its message, but is no peer. */
struct bidctl_stranger {
	uint32_t host; /* 0: none */
	uint64_t tag;
	uint64_t asked_ns;
};

struct bidctl {
	struct xk_protocol protocol; /* first */
	/* settings */
	uint64_t peer_max, stranger_count, stranger_rate, retries;
	uint64_t timeout_ns, timeout_max_ns, interval_ns, keepalive_ns, lifetime_ns, broadcast_wait_ns;
	bool broadcast;

	uint64_t secret, key[2]; /* drawn at boot, for its ids and computed tags */
	struct xk_event boot;
	struct xk_bidctl_watcher *watchers; /* latest first; does not change after init */
	uint64_t seed;                      /* of the hash, because strangers choose the hosts */

	struct xk_lock lock; /* protects the fields below */
	SLIST_HEAD(bidctl_bucket, bidctl_peer) * buckets;
	uint32_t bucket_mask, set_mask;
	uint64_t peer_count, ended_count;
	struct bidctl_stranger *strangers; /* sets of BIDCTL_WAYS: a fixed size, so strangers take no memory */
	uint64_t strangers_ns;             /* when the rate of questions to strangers allows the next one */
};

/* For tests too; the lock is held. */
struct bidctl_peer *bidctl_peer_find(struct bidctl *b, uint32_t host);
struct bidctl_peer *bidctl_peer_get(struct bidctl *b, uint32_t host);
unsigned bidctl_peer_become(struct bidctl_peer *peer, uint64_t boot);
uint64_t bidctl_peer_remembers(struct bidctl_peer *peer);

#endif
