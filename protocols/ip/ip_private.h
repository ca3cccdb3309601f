/*
 * ip_private.h - IP's header and state, for ip.c, ip_forward.c (forwarding, options) and ip_fault.c (faults, paths).
 */
#ifndef XK_IP_PRIVATE_H
#define XK_IP_PRIVATE_H

#include "protocols/ip/ip.h"
#include "protocols/ip/ip_reassembly.h"
#include "protocols/virtual/vnet.h"
#include "xkernel/bytes.h"
#include "xkernel/checksum.h"
#include "xkernel/event.h"
#include "xkernel/protocol.h"

/* ---- the header ---- */

enum ip_drop {
	IP_DROP_BAD_VERSION = XK_DROP_OWN,
	IP_DROP_BAD_HEADER,
	IP_DROP_BAD_OPTIONS,
	IP_DROP_BAD_FLAGS,
	IP_DROP_TTL_ZERO,
	IP_DROP_BAD_SOURCE,
	IP_DROP_MARTIAN,
	IP_DROP_NOT_MINE,
	IP_DROP_LINK_BROADCAST,
	IP_DROP_UNSENT,
	IP_DROP_EXPIRED,
	IP_DROP_NO_ROUTE,
	IP_DROP_DONT_FRAGMENT,
	IP_DROP_NOT_FORWARDED,
	IP_DROP_SOURCE_ROUTE,
	IP_DROP_REASSEMBLY,                                          /* and on: enum ip_reassembly_reason */
	IP_HAS_OPTIONS = IP_DROP_REASSEMBLY + IP_REASSEMBLY_REASONS, /* not a reason: ip_options_take_off */
};

enum { IP_VERSION = 0 /* and header length */, IP_LENGTH = 2, IP_ID = 4, IP_FRAGMENT = 6, IP_TTL = 8, IP_PROTOCOL = 9 };
enum { IP_CHECKSUM = 10, IP_SOURCE = 12, IP_DESTINATION = 16, IP_HEADER_LEN = 20 };

/* In IP_FRAGMENT; the offset is in units of 8 bytes. */
enum { IP_RESERVED = 0x8000, IP_DONT_FRAGMENT = 0x4000, IP_MORE = 0x2000, IP_OFFSET = 0x1fff };

enum {
	IP_VERSION_4_NO_OPTIONS = 0x45,
	IP_FRAGMENT_COUNTS = 1024,
	IP_QUOTED = 8,   /* bytes behind the header that identify a datagram to its sender (RFC 792) */
	IP_MTU_MIN = 68, /* RFC 791, 3.2 */
};

struct ip_header {
	uint32_t source, destination;
	uint16_t id, fragment; /* fragment: flags and offset */
	uint8_t protocol;
};

/* Returns the sum of all 20 bytes, not folded. */
static inline uint64_t
ip_header_sum(const uint8_t *p)
{
	return xk_sum_load32(p) + xk_sum_load32(p + 4) + xk_sum_load32(p + 8) + xk_sum_load32(p + 12) +
	       xk_sum_load32(p + 16);
}

static inline struct ip_header
ip_header_load(const uint8_t *p)
{
	uint64_t addresses = xk_get64(p + IP_SOURCE); /* in one word, as in the key */

	return (struct ip_header){ .source = (uint32_t)(addresses >> 32),
				   .destination = (uint32_t)addresses,
				   .id = xk_get16(p + IP_ID),
				   .fragment = xk_get16(p + IP_FRAGMENT),
				   .protocol = p[IP_PROTOCOL] };
}

/* Checks the first byte of the header at p. Returns 0, the reason to drop the datagram, or IP_HAS_OPTIONS. */
static inline unsigned
ip_version_check(const uint8_t *p)
{
	if (p[IP_VERSION] >> 4 != 4)
		return IP_DROP_BAD_VERSION;
	if ((p[IP_VERSION] & 0xf) < IP_HEADER_LEN / 4)
		return IP_DROP_BAD_HEADER;
	return p[IP_VERSION] != IP_VERSION_4_NO_OPTIONS ? (unsigned)IP_HAS_OPTIONS : (unsigned)XK_DROP_NONE;
}

/* Returns whether the header at p is a fragment's or has invalid flags: one test for both rare cases. */
static inline bool
ip_header_is_special(const uint8_t *p)
{
	return (xk_get16(p + IP_FRAGMENT) & (IP_RESERVED | IP_MORE | IP_OFFSET)) != 0;
}

/* Stores the constant fields of a session's headers, and zeros for the rest. */
static inline void
ip_header_prepare(uint8_t *p, uint8_t ttl, uint8_t protocol, uint32_t source, uint32_t destination)
{
	memset(p, 0, IP_HEADER_LEN);
	p[IP_VERSION] = IP_VERSION_4_NO_OPTIONS;
	p[IP_TTL] = ttl;
	p[IP_PROTOCOL] = protocol;
	xk_put32(p + IP_SOURCE, source);
	xk_put32(p + IP_DESTINATION, destination);
}

/* Stores the prepared header, whose sum is `sum`, for a datagram or fragment. */
static inline void
ip_header_store(uint8_t *p, const uint8_t *prepared, uint64_t sum, size_t length, uint16_t id, uint16_t fragment)
{
	memcpy(p, prepared, IP_HEADER_LEN);
	xk_put16(p + IP_LENGTH, (uint16_t)length);
	xk_put16(p + IP_ID, id);
	xk_put16(p + IP_FRAGMENT, fragment);
	sum += xk_sum_of16((uint16_t)length) + xk_sum_of16(id) + xk_sum_of16(fragment);
	xk_checksum_store(p + IP_CHECKSUM, xk_checksum_finish(sum));
}

/* ---- state ---- */

enum { IP_ROUTES = 256 /* at most */ };

struct ip_route {
	uint32_t network, mask, gateway;
};

/* The known MTU of the path to a host. */
struct ip_path {
	uint32_t host, mtu, born; /* mtu 0: free; born: in ticks */
};

struct ip {
	struct xk_protocol protocol;
	/* settings */
	uint64_t ttl, seed, timeout_ns;
	const char *routes_text;
	uint32_t gateway;
	struct ip_reassembly_limits limits;
	bool forward, pmtu;
	uint64_t pmtu_timeout_ns, pmtu_entries, pmtu_min;

	struct xk_ip_errors errors; /* send is NULL: none set */
	struct xk_vnet_interface interface[XK_VNET_INTERFACES];
	unsigned interfaces;
	struct ip_route route[IP_ROUTES]; /* longest prefix first */
	unsigned routes;
	uint64_t key[2]; /* of identifications: secret */
	_Atomic uint16_t
		fragment_counts[IP_FRAGMENT_COUNTS]; /* fragmented datagrams sent, by hash of the session's key */

	struct xk_lock lock; /* protects what follows */
	struct ip_reassembly reassembly;
	uint32_t kept; /* its buffers that xk_keep counts */
	struct xk_event tick;
	bool ticking; /* tick is scheduled, or its handler has yet to look at the table */
	struct ip_path *path;
	uint32_t paths, path_now; /* entries in use; ticks counted */
	struct xk_event path_tick;
};

enum ip_counter {
	IP_COUNT_FRAGMENTED,
	IP_COUNT_REASSEMBLED,
	IP_COUNT_FORWARDED,
	IP_COUNT_FORWARD_FRAGMENTED,
	IP_COUNT_PATH_LOWERED,
	IP_COUNT_PATH_FORGOTTEN,
	IP_COUNT_UNQUOTED,
};

/* Its sends.whole is the longest payload that the path carries in one piece, as far as known: at most link_max. */
struct ip_session {
	struct xk_session session;
	uint32_t remote;
	uint32_t destination;    /* of arriving datagrams */
	uint32_t local;          /* the address it sends from */
	uint32_t link_max;       /* longest payload that the session below carries in one piece */
	uint16_t fragment_first; /* of fragmented datagrams, plus twice fragment_counts[fragment_count]: even */
	uint16_t fragment_count;
};

/*
 * Returns a session's key. lls is NULL for the first session of these three, which the fields name (receive.h), and part
 * of the key for a later one that was learned through another session below. Addresses of objects leave the top byte free.
 */
static inline struct xk_key
ip_key(uint8_t protocol, uint32_t remote, uint32_t local, const struct xk_session *lls)
{
	return (struct xk_key){ __builtin_bswap64((uint64_t)remote << 32 | local),
				(uint64_t)(uintptr_t)lls << 8 | protocol };
}

/* Classifies host as seen from our interfaces (vnet.h). */
static inline enum xk_vnet_kind
ip_kind(const struct ip *ip, uint32_t host, unsigned *index)
{
	return xk_vnet_kind(ip->interface, ip->interfaces, host, index);
}

/* Finds the neighbour that datagrams for remote go to, and its interface. Returns 0, -EINVAL or -ENETUNREACH. */
int ip_next_hop(const struct ip *ip, uint32_t remote, uint32_t *hop, unsigned *index);

/* Returns whether host is a broadcast address of our networks, old or new, or a group. */
bool ip_is_to_all(const struct ip *ip, uint32_t host);

/* Checks that a datagram may come from source. Returns 0, or the reason to drop it. */
unsigned ip_check_source(const struct ip *ip, uint32_t source);

/* ---- ip_forward.c ---- */

/* A datagram being forwarded or fragmented, its header apart. */
struct ip_transit {
	struct ip *ip;
	uint8_t header[XK_IP_HEADER_MAX];
	size_t header_len;
	uint32_t mtu; /* of the next link, or of the path */
	uint64_t sum; /* of the fragments' header without length, identification, fragment and checksum */
	uint16_t id;
};

/* Pushes m on lls in fragments, beginning with this offset and flags. Takes m. Returns as xk_push. */
int ip_forward_fragments(struct ip_transit *t, struct xk_session *lls, struct xk_msg *m, uint16_t fragment);

/* Forwards or drops m, whose header was taken off. Takes m. */
void ip_forward(struct ip *ip, struct xk_msg *m, const uint8_t *header, size_t header_len);

/*
 * Replaces the header of m by one without options, followed by the quoted bytes in one piece. Returns m, or NULL if it
 * was forwarded or dropped. Takes m.
 */
struct xk_msg *ip_options_take_off(struct ip *ip, struct xk_msg *m);

/* ---- ip_fault.c ---- */

/* Forgets old paths; the handler of path_tick. */
xk_event_handler ip_fault_tick;

/* Has the sender of the quoted datagram told, if a protocol does that. fault, mtu, header and on are set. */
void ip_fault_send(struct ip *ip, struct xk_ip_trouble *trouble);

/* As struct xk_ip_ops. */
void ip_fault_refuse(struct xk_protocol *self, const struct xk_session *session, enum xk_fault fault,
		     const struct xk_msg *m, size_t popped);

/* As the control operation XK_VNET_UNSENT (vnet.h). */
int ip_fault_unsent(struct ip *ip, const struct xk_msg *m);

/*
 * Sets link_max and sends.whole of s, a new session or one whose link has changed. Returns 0, or -EMSGSIZE: the link
 * carries no datagrams; or the error of the session below.
 */
int ip_fault_set_longest(struct ip *ip, struct ip_session *s);

extern const struct xk_ip_ops ip_fault_ops;

#endif
