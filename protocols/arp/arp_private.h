/*
 * arp_private.h - the state of ARP, for arp.c, arp_own.c (the own address) and a test that looks into its table.
 */
#ifndef XK_ARP_PRIVATE_H
#define XK_ARP_PRIVATE_H

#include <sys/queue.h>

#include "protocols/arp/arp.h"
#include "xkernel/event.h"

enum arp_state {
	ARP_FREE,   /* not in the table, although waiters may still be leaving */
	ARP_ASKING, /* its timer runs */
	ARP_KNOWN,  /* its timer runs if it is followed */
	ARP_STATES,
};

struct arp_waiting {
	STAILQ_ENTRY(arp_waiting) next;
	struct xk_arp_output output;
};

STAILQ_HEAD(arp_queue, arp_waiting);

/* Entries stay until fini: a late timer or waiter may find one in another state, never none. */
struct arp_entry {
	LIST_ENTRY(arp_entry) bucket;
	TAILQ_ENTRY(arp_entry) by_use;
	struct arp *arp;
	enum arp_state state;
	uint32_t host;
	uint64_t link; /* the last one known; 0: none */
	uint64_t expires_ns;
	uint64_t verify_ns; /* the earliest time to verify link on advice */
	bool is_followed;   /* the follower is told when the timer fires, at the latest */
	bool is_to_tell;    /* the follower is told when the timer fires, whatever is known then */
	bool is_polled;     /* the next request goes to link alone */
	bool is_doubted;    /* link replaced another without a query: no packet prolongs expires_ns */
	unsigned tries;
	unsigned waiters; /* shepherds; they keep the entry from being replaced */
	uint64_t round;   /* number of askings: waiters of an older one have failed */
	struct xk_semaphore answered;
	struct xk_event timer;
	struct arp_queue queue;
	unsigned queued;
};

/* The own address. */
enum arp_phase {
	ARP_NONE, /* there is none */
	ARP_PROBING,
	ARP_USED,
};

/* What to do if another station uses the own address (RFC 5227, 2.4). */
enum arp_policy {
	ARP_DEFEND, /* (c) keep it */
	ARP_ONCE,   /* (b) defend it, and leave it at the next conflict within 10 s */
	ARP_LEAVE,  /* (a) leave it */
};

struct arp {
	struct xk_protocol protocol; /* first */
	uint64_t entry_count, queue_max, age_ns, timeout_ns, tries, verify_gap_ns;
	uint64_t link;
	struct xk_session *broadcast;
	xk_event_handler *timeout;       /* of entries */
	struct xk_arp_follower follower; /* changed is NULL: none */
	struct xk_arp_user user;         /* used is NULL: none */
	uint32_t onlink;                 /* a neighbour beside those of the network; 0: none */
	uint64_t announcements;
	bool probe;
	const char *conflict_text;
	enum arp_policy policy;
	struct xk_event own;       /* the next probe or announcement */
	struct xk_lock lock;       /* protects the fields below */
	struct xk_network network; /* its host is 0 while the address must not be used */
	struct xk_network wanted;  /* the address that was set */
	enum arp_phase phase;
	unsigned said;                 /* probes or announcements sent in this phase */
	uint64_t defend_ns;            /* the earliest time of the next defence */
	uint64_t warn_ns, warn_gap_ns; /* the earliest time of the next warning; the gap doubles up to an hour */
	struct arp_entry *entries;
	LIST_HEAD(arp_bucket, arp_entry) * buckets; /* of ASKING and KNOWN entries */
	unsigned bucket_mask;
	uint64_t seed;          /* of the hash, because strangers choose the hosts; 0: none yet */
	unsigned used_count;    /* of `entries`: later ones were never used */
	uint64_t waiting_count; /* messages in all queues */
	TAILQ_HEAD(arp_by_use, arp_entry) lists[ARP_STATES]; /* least recently used first */
	uint64_t asking_count;
};

/* ---- work for after the lock ---- */

/* Broadcasts about the own address. */
enum arp_says { ARP_SAYS_NOTHING, ARP_SAYS_PROBE, ARP_SAYS_ANNOUNCEMENT, ARP_SAYS_DEFENCE };

struct arp_todo {
	struct arp_queue queue; /* messages to be sent to link, or dropped */
	uint64_t link;          /* 0: drop them */
	struct xk_msg *oldest;  /* dropped to make room in a queue; NULL: none */
	uint32_t changed;       /* the host that the follower is told of; 0: none */
	uint32_t own, asked;    /* asked: the host to be asked for; 0: none */
	uint64_t station;       /* the only one to be asked; 0: broadcast */
	bool probes;            /* before it says anything else */
	enum arp_says says;
	bool is_used, is_unused; /* the user is told that the own address may be used, or not */
	bool leaves;             /* in the warning: the address is left */
	uint64_t claimant;       /* the station that the warning names; 0: no warning */
};

/* ---- arp_own.c; the lock is held, except by arp_own_init and arp_own_warn ---- */

/* Reads the settings. Returns 0, or -EINVAL after a trace. */
int arp_own_init(struct arp *arp, xk_event_handler *tick);

/* Begins to use network's address, or to probe it. */
void arp_own_set(struct arp *arp, const struct xk_network *network, struct arp_todo *todo);

/* Announces an address in use again: stations may have missed it. */
void arp_own_announce(struct arp *arp);

/* Does what is due. */
void arp_own_tick(struct arp *arp, struct arp_todo *todo);

/* Returns whether a packet with these hosts, from another station, claims the own address. */
bool arp_own_is_claimed(const struct arp *arp, uint32_t sender, uint32_t target, bool is_request);

/* Defends or leaves the address, which the station `link` claims. At most one defence in 10 s, and few warnings. */
void arp_own_conflict(struct arp *arp, uint64_t link, struct arp_todo *todo);

/* Prints the warning of todo. */
void arp_own_warn(struct arp *arp, const struct arp_todo *todo);

#endif
