/*
 * ip_reassembly.h - puts fragments of IP datagrams together again, against hostile senders; for ip.c.
 *
 * A table of incomplete datagrams. It takes no lock, reads no clock and frees no message: the caller serialises calls,
 * calls ip_reassembly_tick regularly, and frees the discarded messages afterwards, without its lock. Only
 * ip_reassembly_init allocates memory.
 *
 * The rules:
 * - A fragment that is wrong by itself is discarded alone: empty, not the last and no multiple of 8 long, a first one
 *   without the 8 bytes of a transport header, or ending beyond what a datagram can hold.
 * - An exact duplicate (same range, same bytes, same "more") is ignored. Any other overlap, two different ends, or
 *   data beyond the end refuse the whole datagram (as RFC 5722 does for IPv6): its pieces are discarded, and so is
 *   whatever comes later, until the datagram's time is up.
 * - The time begins with the first fragment and is never extended (RFC 1122, 3.3.2).
 * - Datagrams and memory are bounded, in all and per source; the oldest datagram makes room. A datagram that needs more
 *   than its source's share by itself is refused. A fragment counts with the whole length of every buffer it lies in.
 */
#ifndef XK_IP_REASSEMBLY_H
#define XK_IP_REASSEMBLY_H

#include "xkernel/msg.h"

enum {
	IP_REASSEMBLY_TICKS = 16,    /* ticks of a datagram's time; it gets at most one tick more */
	IP_REASSEMBLY_MAX = 65515,   /* payload of the longest datagram */
	IP_REASSEMBLY_FIRST_MIN = 8, /* what the first fragment must hold */
	IP_REASSEMBLY_BUFFER = XK_MSG_HEADROOM + XK_MSG_SEGMENT, /* a fragment counts at least so many bytes */
	IP_REASSEMBLY_BYTES_MIN = 2 * IP_REASSEMBLY_BUFFER,      /* a datagram of two fragments */
};

enum ip_reassembly_reason {
	IP_REASSEMBLY_DUPLICATE,
	IP_REASSEMBLY_OVERLAP,      /* refuses the datagram */
	IP_REASSEMBLY_INCONSISTENT, /* two ends, or data beyond the end: refuses the datagram */
	IP_REASSEMBLY_TOO_MANY,     /* one datagram would exceed its source's share: refuses it */
	IP_REASSEMBLY_REFUSED,      /* its datagram was refused before */
	IP_REASSEMBLY_BAD_FRAGMENT, /* empty, or neither last nor a multiple of 8 */
	IP_REASSEMBLY_TOO_LONG,     /* ends beyond the longest datagram */
	IP_REASSEMBLY_TINY,         /* a first fragment without a transport header */
	IP_REASSEMBLY_EVICTED,      /* made room for a younger datagram */
	IP_REASSEMBLY_TIMED_OUT,
	IP_REASSEMBLY_REASONS
};

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

/* Messages to be freed, by reason, linked by their link. Begins zeroed; calls add to it. */
struct ip_reassembly_discarded {
	struct xk_msg *first[IP_REASSEMBLY_REASONS];
	bool some; /* there are any */
};

struct ip_reassembly_piece {
	struct ip_reassembly_piece *next;
	struct xk_msg *m;
	uint32_t start, end;
	uint32_t pinned; /* bytes of buffers */
};

struct ip_reassembly_datagram {
	struct ip_reassembly_piece *first, *last; /* in order, apart from each other */
	uint32_t source, destination;
	uint16_t id;
	uint8_t protocol;
	bool refused;
	uint32_t bytes;  /* in the pieces */
	uint32_t pinned; /* bytes of their buffers */
	uint32_t end;    /* of the datagram; 0: the last fragment has not come */
	uint32_t born;   /* tick */
};

struct ip_reassembly {
	struct ip_reassembly_limits limits;
	uint64_t least_bytes;                   /* of its two limits */
	struct ip_reassembly_datagram **by_age; /* the first `datagrams`, oldest first; the others are free */
	uint32_t datagrams, fragments, pinned;  /* in the table; bytes of buffers */
	uint32_t tick;
	struct ip_reassembly_piece *free_pieces;
	uint32_t used_pieces; /* that were ever taken from all_pieces */
	struct ip_reassembly_piece *all_pieces;
	struct ip_reassembly_datagram *all_datagrams;
};

/* Makes an empty table; every limit is at least 1. Returns 0 or -ENOMEM. */
int ip_reassembly_init(struct ip_reassembly *table, const struct ip_reassembly_limits *limits);

/* Frees the table and every message in it. */
void ip_reassembly_fini(struct ip_reassembly *table);

/*
 * Adds fragment m, its header taken off, to its datagram. Takes m. Returns the datagram if this completes it, else
 * NULL. Messages that have become useless (m may be one) are added to discarded.
 */
struct xk_msg *ip_reassembly_add(struct ip_reassembly *table, const struct ip_reassembly_fragment *fragment,
				 struct xk_msg *m, struct ip_reassembly_discarded *discarded);

/* Counts a tick and discards datagrams whose time is up. Returns false if the table is empty, and needs no ticks. */
bool ip_reassembly_tick(struct ip_reassembly *table, struct ip_reassembly_discarded *discarded);

#endif
