/*
 * arp_private.h - the state of ARP, for arp.c and a test that looks into its table.
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
	bool is_to_tell;    /* it is told when the timer fires, whatever is known then */
	bool is_polled;     /* the next request goes to link alone */
	bool is_doubted;    /* link replaced another unasked: no packet prolongs expires_ns */
	unsigned tries;
	unsigned waiters; /* shepherds; they keep the entry from being replaced */
	uint64_t round;   /* number of askings: waiters of an older one have failed */
	struct xk_semaphore answered;
	struct xk_event timer;
	struct arp_queue queue;
	unsigned queued;
};

struct arp {
	struct xk_protocol protocol; /* first */
	uint64_t entry_count, queue_max, age_ns, timeout_ns, tries, verify_gap_ns;
	uint64_t link;
	struct xk_session *broadcast;
	xk_event_handler *timeout;       /* of entries */
	struct xk_arp_follower follower; /* changed is NULL: none */
	struct xk_lock lock;             /* protects the fields below */
	struct xk_network network;
	struct arp_entry *entries;
	LIST_HEAD(arp_bucket, arp_entry) * buckets; /* of ASKING and KNOWN entries */
	unsigned bucket_mask;
	uint64_t seed;          /* of the hash, because strangers choose the hosts; 0: none yet */
	unsigned used_count;    /* of `entries`: later ones were never used */
	uint64_t waiting_count; /* messages in all queues */
	TAILQ_HEAD(arp_by_use, arp_entry) lists[ARP_STATES]; /* least recently used first */
	uint64_t asking_count;
};

#endif
