/*
 * ip_reassembly.h - reassembly of IP datagrams, safe against hostile senders; for ip.c.
 *
 * A table of incomplete datagrams. It takes no lock, reads no clock and frees no message: the caller serializes calls,
 * calls ip_reassembly_tick regularly, and frees the discarded messages afterwards, without its lock. Only
 * ip_reassembly_init allocates memory.
 *
 * - A fragment that is invalid by itself is discarded alone: empty, no multiple of 8 bytes but not the last, a first
 *   one of less than 8 bytes, or ending beyond the longest datagram.
 * - An exact duplicate (same range, bytes and "more") is ignored. Any other overlap, a second end, or data beyond the
 *   end refuses the datagram (as RFC 5722 does for IPv6): its pieces and all later ones are discarded until its time
 *   is up.
 * - The time begins with the first fragment and is never extended (RFC 1122, 3.3.2).
 * - Datagrams and memory are bounded, in all and per source; the oldest datagram makes room. A datagram that alone
 *   exceeds its source's share is refused. A fragment counts with the whole length of each of its buffers.
 */
#ifndef XK_IP_REASSEMBLY_H
#define XK_IP_REASSEMBLY_H

#include <sys/queue.h>

#include "xkernel/header.h"
#include "xkernel/msg.h"

enum {
	IP_REASSEMBLY_TICKS = 16,    /* a datagram's time, in ticks; up to one tick is added */
	IP_REASSEMBLY_MAX = 65515,   /* payload of the longest datagram */
	IP_REASSEMBLY_FIRST_MIN = 8, /* bytes that the first fragment must hold */
	IP_REASSEMBLY_BUFFER = XK_MSG_HEADROOM + XK_MSG_SEGMENT, /* bytes that a fragment counts at least */
	IP_REASSEMBLY_BYTES_MIN = 2 * IP_REASSEMBLY_BUFFER,      /* a datagram of two fragments */
};

#define IP_REASSEMBLY_WHY(D)                                                                                           \
	D(IP_REASSEMBLY_DUPLICATE, "duplicate")                                                                        \
	D(IP_REASSEMBLY_OVERLAP, "overlap")           /* refuses the datagram */                                       \
	D(IP_REASSEMBLY_INCONSISTENT, "inconsistent") /* two ends, or data beyond the end: refuses the datagram */     \
	D(IP_REASSEMBLY_TOO_MANY, "too_many")         /* one datagram would exceed its source's share: refuses it */   \
	D(IP_REASSEMBLY_REFUSED, "refused_datagram")  /* its datagram was refused before */                            \
	D(IP_REASSEMBLY_BAD_FRAGMENT, "bad_fragment") /* empty, or neither last nor a multiple of 8 */                 \
	D(IP_REASSEMBLY_TOO_LONG, "too_long")         /* ends beyond the longest datagram */                           \
	D(IP_REASSEMBLY_TINY, "tiny")                 /* a first fragment without a transport header */                \
	D(IP_REASSEMBLY_EVICTED, "evicted")           /* made room for a younger datagram */                           \
	D(IP_REASSEMBLY_TIMED_OUT, "timed_out")
enum ip_reassembly_reason { IP_REASSEMBLY_WHY(XK_NAMED_CONSTANT) IP_REASSEMBLY_REASONS };

/* A fragment, as its header describes it. */
struct ip_reassembly_fragment {
	uint32_t source, destination;
	uint32_t offset; /* bytes */
	uint16_t id;
	uint8_t protocol;
	bool more;
};

struct ip_reassembly_limits {
	uint64_t datagrams, bytes;               /* in the table; bytes of buffers */
	uint64_t source_datagrams, source_bytes; /* of one source address */
};

struct ip_reassembly_datagram {
	TAILQ_ENTRY(ip_reassembly_datagram) in_list;
	struct xk_msg *first, *last;        /* pieces in order, without overlaps, linked by their link */
	struct ip_reassembly_fragment name; /* offset and `more`: of the fragment that came first */
	bool refused;
	uint32_t bytes;  /* in the pieces */
	uint32_t pinned; /* bytes of their buffers */
	uint32_t end;    /* of the datagram; 0: the last fragment has not come */
	uint32_t born;   /* tick */
};

TAILQ_HEAD(ip_reassembly_datagrams, ip_reassembly_datagram);

struct ip_reassembly {
	struct ip_reassembly_limits limits;
	struct ip_reassembly_datagrams by_age, free; /* by_age: oldest first */
	uint32_t datagrams, pinned;                  /* in the table; pinned: bytes of buffers */
	uint32_t tick;
	struct ip_reassembly_datagram *all_datagrams;
};

/* Makes an empty table; every limit is at least 1. Returns 0 or -ENOMEM. */
int ip_reassembly_init(struct ip_reassembly *table, const struct ip_reassembly_limits *limits);

/* Frees the table and every message in it. */
void ip_reassembly_fini(struct ip_reassembly *table);

/*
 * Adds fragment m, without its header, to its datagram. Takes m. Returns the datagram if m completes it, else NULL.
 * Prepends useless messages (perhaps m) to *discarded, by their links.
 */
struct xk_msg *ip_reassembly_add(struct ip_reassembly *table, const struct ip_reassembly_fragment *fragment,
				 struct xk_msg *m, struct xk_msg **discarded);

/* Counts a tick and discards datagrams whose time is up. Returns false if the table is empty: it needs no ticks. */
bool ip_reassembly_tick(struct ip_reassembly *table, struct xk_msg **discarded);

/* As a protocol's promise (upi.h), of what is in the table. */
const char *ip_reassembly_promise(const struct ip_reassembly *table, bool at_rest);

/* Removes a message from *discarded, which has some, and stores why it was discarded. It is the caller's. */
struct xk_msg *ip_reassembly_next_discarded(struct xk_msg **discarded, enum ip_reassembly_reason *why);

#endif
