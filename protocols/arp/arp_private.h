/*
 * arp_private.h - the state of ARP, for arp.c, arp_own.c (the own address) and a test that looks into its table.
 */
#ifndef XK_ARP_PRIVATE_H
#define XK_ARP_PRIVATE_H

#include "protocols/arp/arp.h"
#include "xkernel/event.h"

#define ARP_COUNTERS(C)                                                                                                \
	C(ARP_COUNT_REQUESTS_IN, "requests_in")                                                                        \
	C(ARP_COUNT_REPLIES_IN, "replies_in")                                                                          \
	C(ARP_COUNT_OTHERS, "others") /* requests for others */                                                        \
	C(ARP_COUNT_REQUESTS_OUT, "requests_out")                                                                      \
	C(ARP_COUNT_REPLIES_OUT, "replies_out")                                                                        \
	C(ARP_COUNT_LEARNED, "learned")         /* entries made from requests to this host */                          \
	C(ARP_COUNT_REPLACED, "replaced")       /* entries that made room */                                           \
	C(ARP_COUNT_UNREACHABLE, "unreachable") /* hosts that did not answer */                                        \
	C(ARP_COUNT_POLLS, "polls")             /* requests to one station */                                          \
	C(ARP_COUNT_MOVED, "moved")             /* followed hosts, to another link address */                          \
	C(ARP_COUNT_LOST, "lost")               /* followed hosts that did not answer */                               \
	C(ARP_COUNT_FOREIGN, "foreign")         /* requests to this host from outside its network */                   \
	C(ARP_COUNT_VERIFIED, "verified")       /* addresses asked for again because their hosts do not answer */      \
	C(ARP_COUNT_PROBES, "probes")                                                                                  \
	C(ARP_COUNT_ANNOUNCEMENTS, "announcements")                                                                    \
	C(ARP_COUNT_DEFENDED, "defended") /* announcements because another station claims our address */               \
	C(ARP_COUNT_LEFT, "left")         /* addresses left because another station uses them */
XK_COUNTERS(arp, ARP_COUNTERS);

enum arp_state {
	ARP_FREE,   /* not in the table */
	ARP_ASKING, /* its timer runs */
	ARP_KNOWN,  /* its timer runs if it has followers */
	ARP_STATES,
};

/* A shepherd that waits for a link address. */
struct arp_waiter {
	LIST_ENTRY(arp_waiter) next;
	struct xk_semaphore answered;
	bool is_over;
	uint64_t link; /* the answer; 0: there is none */
};

/* A message that waits for a link address. */
struct arp_waiting {
	STAILQ_ENTRY(arp_waiting) next;
	struct xk_arp_output output;
};

STAILQ_HEAD(arp_queue, arp_waiting);

/* Stays until fini: a late timer may find it in another state, or with another host. */
struct xk_neighbour {
	struct xk_binding binding; /* under its host, unless FREE */
	TAILQ_ENTRY(xk_neighbour) by_use;
	struct arp *arp;
	enum arp_state state;
	uint32_t host;
	uint64_t link; /* the last one known; 0: none */
	uint64_t expires_ns;
	uint64_t verify_ns; /* the earliest time to verify link on advice */
	bool is_doubted;    /* link replaced another without a query: no packet prolongs expires_ns */
	int tries;          /* requests to all since it is ASKING; -1: before that, the timer asks the station `link` */
	struct xk_event timer;
	LIST_HEAD(arp_followers, xk_arp_follower) followers;
	LIST_HEAD(arp_waiters, arp_waiter) waiters; /* keep it from being replaced */
	struct arp_queue queue;
	unsigned queued;
};

/* The reaction if another station uses the own address (RFC 5227, 2.4). */
enum arp_policy {
	ARP_DEFEND, /* (c) keep it */
	ARP_ONCE,   /* (b) defend it, and leave it at the next conflict within 10 s */
	ARP_LEAVE,  /* (a) leave it */
};

struct arp {
	struct xk_protocol protocol; /* first */
	uint64_t entry_max, queue_max, age_ns, timeout_ns, tries, verify_gap_ns, announcements;
	bool probe;
	uint64_t link;
	struct xk_session *broadcast;
	struct xk_arp_user user;
	uint32_t onlink; /* a neighbour beside those of the network; 0: none */
	enum arp_policy policy;
	struct xk_event own;           /* the next probe or announcement */
	struct xk_lock lock;           /* protects the fields below */
	struct xk_network network;     /* its host is 0 while the address must not be used */
	struct xk_network wanted;      /* the address that was set */
	unsigned sent;                 /* probes or announcements sent in this phase */
	uint64_t defend_ns;            /* the earliest time of the next defence */
	uint64_t warn_ns, warn_gap_ns; /* ... warning; the gap doubles up to an hour */
	struct xk_map hosts;           /* of ASKING and KNOWN neighbours */
	TAILQ_HEAD(arp_neighbours, xk_neighbour) lists[ARP_STATES]; /* least recently used first */
	uint64_t entry_count, asking_count, waiting_count; /* of all neighbours, ASKING ones, messages in all queues */
};

/* ---- arp_own.c, which takes the lock ---- */

/* The handler of `own`. Does what is due: probes, begins to use the address, or announces it. */
void arp_own_tick(struct xk_event *event, void *arp);

/* ARP's set_address: begins to use network's address, or to probe it. */
int arp_own_set(struct xk_protocol *self, const struct xk_network *network);

/* Announces an address in use again: stations may have missed it. */
void arp_own_announce(struct arp *arp);

/*
 * Defends or leaves the address if a packet with these hosts, of the station `link`, claims it. Returns whether it
 * does. At most one defence in 10 s, and few warnings.
 */
bool arp_own_is_claimed(struct arp *arp, uint64_t link, uint32_t sender, uint32_t target, bool is_request);

/* ---- arp.c ---- */

/* Broadcasts a request for the own address from `sender` (0: a probe), and counts it. */
void arp_own_send(struct arp *arp, uint32_t sender, unsigned counter);

#endif
