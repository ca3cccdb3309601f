/* ip_header.h - the layout of an IPv4 header, and its checks; for IP's own files. */
#ifndef XK_IP_HEADER_H
#define XK_IP_HEADER_H

#include <string.h>

#include "protocols/ip/ip_reassembly.h"
#include "xkernel/bytes.h"
#include "xkernel/checksum.h"
#include "xkernel/upi.h"

enum ip_drop {
	IP_DROP_BAD_VERSION = XK_DROP_OWN,
	IP_DROP_BAD_HEADER,
	IP_DROP_BAD_OPTIONS,
	IP_DROP_BAD_LENGTH,
	IP_DROP_BAD_CHECKSUM,
	IP_DROP_BAD_FLAGS,
	IP_DROP_TTL_ZERO,
	IP_DROP_BAD_SOURCE,
	IP_DROP_MARTIAN,
	IP_DROP_NOT_MINE,
	IP_DROP_LINK_BROADCAST,
	IP_DROP_TOO_BIG,
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
	IP_QUOTED = 8,   /* bytes behind the header by which a sender recognises its datagram (RFC 792) */
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
	uint64_t addresses = xk_get64(p + IP_SOURCE); /* in one word, as the key has them */

	return (struct ip_header){ .source = (uint32_t)(addresses >> 32),
				   .destination = (uint32_t)addresses,
				   .id = xk_get16(p + IP_ID),
				   .fragment = xk_get16(p + IP_FRAGMENT),
				   .protocol = p[IP_PROTOCOL] };
}

/*
 * Checks the header of m at p, which lies in one piece and says that m is `length` long. Returns 0; the reason to drop
 * m; or IP_HAS_OPTIONS, and has looked at the first byte only.
 */
static inline unsigned
ip_header_check(const uint8_t *p, size_t length, const struct xk_msg *m)
{
	if (xk_unlikely(p[IP_VERSION] != IP_VERSION_4_NO_OPTIONS)) {
		if (p[IP_VERSION] >> 4 != 4)
			return IP_DROP_BAD_VERSION;
		return (p[IP_VERSION] & 0xf) < IP_HEADER_LEN / 4 ? IP_DROP_BAD_HEADER : IP_HAS_OPTIONS;
	}
	if (xk_unlikely(length != xk_msg_len(m)) && (length < IP_HEADER_LEN || length > xk_msg_len(m)))
		return IP_DROP_BAD_LENGTH;
	if ((m->flags & XK_MSG_IP_SUM_GOOD) == 0 && xk_unlikely(!xk_sum_is_intact(ip_header_sum(p))))
		return IP_DROP_BAD_CHECKSUM;
	return 0;
}

/* Takes the link's padding and the header, which is right, off m. The header stays in front of m. */
static inline void
ip_header_pop(struct xk_msg *m)
{
	xk_msg_truncate(m, xk_get16(m->data + IP_LENGTH));
	xk_msg_pop_in_place(m, IP_HEADER_LEN);
}

/* Tells whether the header at p is a fragment's, or has flags that none may have: one test for what is rare. */
static inline bool
ip_header_is_special(const uint8_t *p)
{
	return (xk_get16(p + IP_FRAGMENT) & (IP_RESERVED | IP_MORE | IP_OFFSET)) != 0;
}

/* Stores what all headers of a session have in common, and zeros for the rest. */
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
	sum += (uint64_t)__builtin_bswap16((uint16_t)length) + __builtin_bswap16(id) + __builtin_bswap16(fragment);
	xk_checksum_store(p + IP_CHECKSUM, xk_checksum_finish(sum));
}

#endif
