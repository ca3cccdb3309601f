/*
 * ip_private.h - IP's header and state, for ip.c, ip_forward.c (forwarding, options) and ip_fault.c (faults, path
 * MTUs).
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
#include "xkernel/receive.h"

/* ---- the header ---- */

#define IP_DROPS(D)                                                                                                    \
	D(IP_DROP_BAD_VERSION, "bad_version")                                                                          \
	D(IP_DROP_BAD_HEADER, "bad_header")                                                                            \
	D(IP_DROP_BAD_OPTIONS, "bad_options")                                                                          \
	D(IP_DROP_BAD_FLAGS, "bad_flags")                                                                              \
	D(IP_DROP_TTL_ZERO, "ttl_zero")                                                                                \
	D(IP_DROP_BAD_SOURCE, "bad_source")                                                                            \
	D(IP_DROP_MARTIAN, "martian")                                                                                  \
	D(IP_DROP_NOT_MINE, "not_mine")                                                                                \
	D(IP_DROP_LINK_BROADCAST, "link_broadcast")                                                                    \
	D(IP_DROP_UNSENT, "unsent")                                                                                    \
	D(IP_DROP_EXPIRED, "expired")                                                                                  \
	D(IP_DROP_NO_ROUTE, "no_route")                                                                                \
	D(IP_DROP_DONT_FRAGMENT, "dont_fragment")                                                                      \
	D(IP_DROP_NOT_FORWARDED, "not_forwarded")                                                                      \
	D(IP_DROP_SOURCE_ROUTE, "source_route")

enum ip_drop {
	IP_DROPS_BEFORE = XK_DROP_OWN - 1,
	IP_DROPS(XK_NAMED_CONSTANT) IP_DROP_REASSEMBLY,              /* and on: enum ip_reassembly_reason */
	IP_HAS_OPTIONS = IP_DROP_REASSEMBLY + IP_REASSEMBLY_REASONS, /* not a reason: ip_options_take_off */
};

#define IP_COUNTERS(C)                                                                                                 \
	C(IP_COUNT_FRAGMENTED, "fragmented")                                                                           \
	C(IP_COUNT_REASSEMBLED, "reassembled")                                                                         \
	C(IP_COUNT_FORWARDED, "forwarded")                                                                             \
	C(IP_COUNT_FORWARD_FRAGMENTED, "forward_fragmented")                                                           \
	C(IP_COUNT_PMTU_LOWERED, "path_lowered")                                                                       \
	C(IP_COUNT_PMTU_FORGOTTEN, "path_forgotten")                                                                   \
	C(IP_COUNT_UNQUOTED, "unquoted")
XK_COUNTERS(ip, IP_COUNTERS);

enum { IP_FLAG_RESERVED = 4, IP_FLAG_DONT_FRAGMENT = 2, IP_FLAG_MORE = 1 };

#define IP_HEADER(F)                                                                                                   \
	F(4, version, .kind = XK_FIXED, .usual = 4)                                                                    \
	F(4, header_length, .usual = 5, .rare = 0xf, .help = "in words of 4 bytes; above 5: options")                  \
	F(8, service, .print = XK_PRINT_HEX, .help = "ignored")                                                        \
	F(16, length, .kind = XK_LENGTH, .covers = XK_COVERS_MESSAGE)                                                  \
	F(16, identification, .print = XK_PRINT_HEX, .step = 2)                                                        \
	F(3, flags, .rare = IP_FLAG_RESERVED | IP_FLAG_MORE, .is_bits = true,                                          \
	  .values = XK_VALUES({ IP_FLAG_RESERVED, "reserved" }, { IP_FLAG_DONT_FRAGMENT, "dont_fragment" },            \
			      { IP_FLAG_MORE, "more" }))                                                               \
	F(13, offset, .rare = IP_OFFSET, .is_part = true, .help = "of a fragment, in units of 8 bytes")                \
	F(8, ttl)                                                                                                      \
	F(8, protocol, .kind = XK_NAMES_SESSION, .is_upper = true,                                                     \
	  .values = XK_VALUES({ 1, "ICMP" }, { 6, "TCP" }, { 17, "UDP" }))                                             \
	F(16, checksum, .kind = XK_CHECKSUM, .print = XK_PRINT_HEX, .covers = XK_COVERS_HEADER)                        \
	F(32, source, .kind = XK_NAMES_SESSION, .end = XK_END_REMOTE, .print = XK_PRINT_HOST)                          \
	F(32, destination, .kind = XK_NAMES_SESSION, .end = XK_END_LOCAL, .print = XK_PRINT_HOST)
XK_HEADER(ip, IP_HEADER);

#define IP_ROUTE(F) F(8, pointer, .help = "where the next host belongs")
#define IP_HOP(F) F(32, host, .print = XK_PRINT_HOST)
#define IP_TIMES(F)                                                                                                    \
	F(8, pointer, .help = "where the next host belongs")                                                           \
	F(4, overflow, .help = "hosts without room")                                                                   \
	F(4, form, .help = "with or without addresses")
#define IP_TIME(F) F(32, word)
#define IP_ALERT(F) F(16, value)
#define IP_OPTIONS(O, R)                                                                                               \
	R(7, record_route, IP_ROUTE, IP_HOP)                                                                           \
	R(68, timestamp, IP_TIMES, IP_TIME)                                                                            \
	R(131, loose_source_route, IP_ROUTE, IP_HOP, .drop = IP_DROP_SOURCE_ROUTE, .help = "refused")                  \
	R(137, strict_source_route, IP_ROUTE, IP_HOP, .drop = IP_DROP_SOURCE_ROUTE, .help = "refused")                 \
	O(148, router_alert, IP_ALERT, .help = "RFC 2113")
XK_OPTIONS(ip, IP_OPTIONS, header_length, 4, IP_DROP_BAD_OPTIONS);

enum {
	IP_HEADER_LEN = XK_HEADER_LEN(ip),
	IP_FRAGMENT_COUNTS = 1024,
	IP_QUOTED = 8,   /* bytes behind the header that identify a datagram to its sender (RFC 792) */
	IP_MTU_MIN = 68, /* RFC 791, 3.2 */
};

/* Flags and offset in 16 bits. */
enum {
	IP_FRAGMENT = XK_OFFSET(ip, flags),
	IP_RESERVED = IP_FLAG_RESERVED << 13,
	IP_MORE = IP_FLAG_MORE << 13,
	IP_OFFSET = 0x1fff,
};

/* Checks the first byte of the header at p. Returns 0, the reason to drop the datagram, or IP_HAS_OPTIONS. */
static inline unsigned
ip_version_check(const uint8_t *p)
{
	uint8_t words = XK_GET(ip, header_length, p);

	if (XK_GET(ip, version, p) != 4)
		return IP_DROP_BAD_VERSION;
	if (words < IP_HEADER_LEN / 4)
		return IP_DROP_BAD_HEADER;
	return words != IP_HEADER_LEN / 4 ? (unsigned)IP_HAS_OPTIONS : (unsigned)XK_DROP_NONE;
}

/* ---- state ---- */

enum { IP_ROUTES = 256 /* at most */ };

struct ip_route {
	uint32_t network, mask, gateway;
};

/* The known MTU of the path to a host. */
struct ip_pmtu {
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
	/* fragmented datagrams sent, by hash of the session's key */
	_Atomic uint16_t fragment_counts[IP_FRAGMENT_COUNTS];

	struct xk_lock lock; /* protects what follows */
	struct ip_reassembly reassembly;
	uint32_t kept; /* its buffers that xk_keep counts */
	struct xk_event tick;
	bool ticking; /* tick is scheduled, or its handler has yet to look at the table */
	struct ip_pmtu *path;
	uint32_t paths, path_now; /* entries in use; ticks counted */
	struct xk_event path_tick;
};

/* Its sends.whole is the longest payload that the path carries in one piece, as far as known: at most link_max. */
struct ip_session {
	struct xk_session session;
	uint32_t remote;
	uint32_t destination;    /* of arriving datagrams */
	uint32_t link_max;       /* longest payload that the session below carries in one piece */
	uint16_t fragment_first; /* of fragmented datagrams, plus twice fragment_counts[fragment_count]: even */
	uint16_t fragment_count;
};

/*
 * Returns a session's key. lls is NULL for the first session of these three, which the fields name (receive.h), and
 * part of the key for a later one that was learned through another session below. Addresses of objects leave the top
 * byte free.
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

/* Forgets old path MTUs; the handler of path_tick. */
xk_event_handler ip_fault_tick;

/*
 * Reports the fault to the sender of the quoted datagram, if a protocol does that. The caller has set `fault`, `mtu`
 * and every field from `header` on.
 */
void ip_fault_send(struct ip *ip, struct xk_ip_trouble *trouble);

/* As struct xk_ip_ops. */
void ip_fault_refuse(struct xk_protocol *self, const struct xk_session *session, enum xk_fault fault,
		     const struct xk_msg *m, size_t popped);

/*
 * A fault of VNET's: notifies the sender of the datagram, whose next hop has no link address, unless this host sent it.
 */
int ip_fault_unsent(struct xk_protocol *self, struct xk_fault_report *report);

/*
 * Sets link_max and sends.whole of s, a new session or one whose link has changed. Returns 0, or -EMSGSIZE: the link
 * carries no datagrams; or the error of the session below.
 */
int ip_fault_set_longest(struct ip *ip, struct ip_session *s);

extern const struct xk_ip_ops ip_fault_ops;

#endif
