/*
 * arp_private.h - the state of ARP, shared by arp.c (packets and questions) and arp_table.c (the table of hosts).
 */
#ifndef XK_ARP_PRIVATE_H
#define XK_ARP_PRIVATE_H

#include <sys/queue.h>

#include "protocols/arp/arp.h"
#include "xkernel/event.h"
#include "xkernel/upi.h"

enum {
	ARP_QUEUES = 4, /* messages that wait in all, per entry of the table */
	ARP_NS_PER_US = 1000,
};

enum {
	ARP_COUNT_REQUESTS_IN,
	ARP_COUNT_REPLIES_IN,
	ARP_COUNT_OTHERS,
	ARP_COUNT_REQUESTS_OUT,
	ARP_COUNT_REPLIES_OUT,
	ARP_COUNT_LEARNED,
	ARP_COUNT_REPLACED,
	ARP_COUNT_UNREACHABLE,
	ARP_COUNT_POLLS,
	ARP_COUNT_MOVED,
	ARP_COUNT_LOST,
};

enum {
	ARP_DROP_BAD_HARDWARE = XK_DROP_OWN,
	ARP_DROP_BAD_PROTOCOL,
	ARP_DROP_BAD_LENGTH,
	ARP_DROP_BAD_OPERATION,
	ARP_DROP_BAD_SENDER,
	ARP_DROP_BAD_ADDRESS,
	ARP_DROP_CONFLICT,
	ARP_DROP_UNASKED,
	ARP_DROP_QUEUE_FULL,
	ARP_DROP_UNRESOLVED,
	ARP_DROP_TABLE_FULL,
};

enum arp_state {
	ARP_FREE,   /* not in the table */
	ARP_ASKING, /* its timer runs */
	ARP_KNOWN,  /* its timer runs if it is followed */
	ARP_FAILED, /* not in the table; those who waited are still leaving */
};

/* Messages that wait for one host, and the host that the follower must be told of when the lock is no longer held. */
struct arp_queue {
	STAILQ_HEAD(arp_queue_waiting, arp_waiting) waiting;
	unsigned count;
	uint32_t changed; /* 0: none */
};

#define ARP_QUEUE_INITIALIZER(queue)                                                                                   \
	{                                                                                                              \
		.waiting = STAILQ_HEAD_INITIALIZER((queue).waiting)                                                    \
	}

struct arp_waiting {
	STAILQ_ENTRY(arp_waiting) next;
	struct xk_arp_output output;
};

/* Entries stay until fini: a timer or a waiter that comes late finds one in another state, never none. */
struct arp_entry {
	struct arp_entry *next; /* in its bucket */
	TAILQ_ENTRY(arp_entry) by_use;
	struct arp *arp;
	enum arp_state state;
	uint32_t host;
	uint64_t link; /* 0: none was ever known; of one that is asked for again, the last */
	uint64_t expires_ns;
	bool is_followed, is_to_tell; /* the follower is to be told, at the latest when the timer fires; then at once */
	bool is_polled;               /* the next request goes to link alone */
	bool is_doubted;              /* link came unasked in place of another: until expires_ns, whoever confirms it */
	unsigned tries;
	unsigned waiters; /* they keep the entry from being replaced */
	uint64_t round;   /* counts askings: those who wait for an older one have failed */
	struct xk_semaphore answered;
	struct xk_event timer;
	struct arp_queue queue;
};

struct arp {
	struct xk_protocol protocol;
	uint64_t entry_count, queue_max, age_ns, timeout_ns, tries;
	uint64_t link;
	struct xk_session *broadcast;
	struct xk_arp_follower follower; /* changed is NULL: nobody */
	struct xk_lock lock;             /* protects what follows */
	struct xk_network network;
	struct arp_entry *entries;
	struct arp_entry **buckets;
	unsigned bucket_mask;
	uint64_t seed;          /* of the hash: strangers choose the hosts; 0: none yet */
	unsigned used_count;    /* of entries, the first so many; the others were never used */
	uint64_t waiting_count; /* messages in all queues */
	xk_event_handler *timeout;
	TAILQ_HEAD(arp_by_use, arp_entry)
	by_use, asking; /* used longest ago first, free ones before all; those ASKING */
	uint64_t asking_count;
};

/* ---- arp_table.c; all but init and fini with arp->lock held, so none of them waits, sends or drops ---- */

/* Makes an empty table of arp->entry_count entries, whose timers call timeout. 0, or -ENOMEM: call arp_table_fini. */
int arp_table_init(struct arp *arp, xk_event_handler *timeout);

/* Frees the table and the messages that wait in it. Nothing runs any more. */
void arp_table_fini(struct arp *arp);

/* The entry of host, ASKING or KNOWN (perhaps too old: arp_table_is_known), or NULL. */
struct arp_entry *arp_table_find(struct arp *arp, uint32_t host);

/* Whether e's link address is believed now. */
bool arp_table_is_known(struct arp *arp, const struct arp_entry *e);

/* Notes that e is used: others make room first. */
void arp_table_use(struct arp *arp, struct arp_entry *e);

/*
 * Finds or makes the entry of host, ASKING or KNOWN. *asks: the caller must send the request when the lock is no longer
 * held. *queue: the messages that waited in an entry that was replaced. NULL: none can be replaced.
 */
struct arp_entry *arp_table_get(struct arp *arp, uint32_t host, bool *asks, struct arp_queue *queue);

/*
 * Makes an entry for a stranger's host, which has none; it does not replace a host that this one asks for.
 * arp_table_learn follows. *queue: the messages that waited in an entry that was replaced. NULL: none may be replaced.
 */
struct arp_entry *arp_table_add(struct arp *arp, uint32_t host, struct arp_queue *queue);

/* Makes e known, or confirms it. *queue: the messages that have waited for that, to be sent. */
void arp_table_learn(struct arp *arp, struct arp_entry *e, uint64_t link, struct arp_queue *queue);

/*
 * Queues output in e, which is ASKING. *oldest: a message that makes room for it, to be dropped, or NULL. 0, or the
 * reason to drop output itself.
 */
unsigned arp_table_wait(struct arp *arp, struct arp_entry *e, const struct xk_arp_output *output,
			struct xk_msg **oldest);

/* Sets e to ASKING; the caller sends the request. */
void arp_table_ask(struct arp *arp, struct arp_entry *e);

/* Lets the timer of e, which has just become ASKING, send the request: to the link address that it had, if any. */
void arp_table_poll(struct arp_entry *e);

/* Follows e, ASKING or KNOWN, until the follower is told of its host: at once, by the timer, if it is KNOWN and now. */
void arp_table_follow(struct arp *arp, struct arp_entry *e, bool now);

/* For the timer of e, which is KNOWN, perhaps a late one of an earlier host's: whether the follower is to be told. */
bool arp_table_expire(struct arp *arp, struct arp_entry *e);

/* Ends the asking for e without an answer. *queue: the messages that have waited for one, to be dropped. */
void arp_table_give_up(struct arp *arp, struct arp_entry *e, struct arp_queue *queue);

#endif
