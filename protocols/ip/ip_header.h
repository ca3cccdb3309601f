/*
 * ip_header.h - the only place that knows where things are in an IPv4 header; for IP's own files.
 */
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
	IP_HAS_OPTIONS = IP_DROP_REASSEMBLY + IP_REASSEMBLY_REASONS, /* no reason: see ip_options.c */
};

enum {
	IP_VERSION = 0, /* and header length */
	IP_LENGTH = 2,
	IP_ID = 4,
	IP_FRAGMENT = 6,
	IP_TTL = 8,
	IP_PROTOCOL = 9,
	IP_CHECKSUM = 10,
	IP_SOURCE = 12,
	IP_DESTINATION = 16,
	IP_HEADER_LEN = 20,
	IP_QUOTED = 8, /* bytes behind the header by which a sender knows its datagram (RFC 792) */

	IP_VERSION_4_NO_OPTIONS = 0x45,

	IP_RESERVED = 0x8000, /* in IP_FRAGMENT */
	IP_DONT_FRAGMENT = 0x4000,
	IP_MORE = 0x2000,
	IP_OFFSET = 0x1fff, /* in units of 8 bytes */

	IP_MTU_MIN = 68, /* RFC 791, 3.2 */
};

struct ip_header {
	uint32_t source, destination;
	uint16_t id, fragment; /* fragment: flags and offset */
	uint8_t protocol;
};

/* The sum of all 20 bytes, not folded. */
static inline uint64_t
ip_header_sum(const uint8_t *p)
{
	return xk_sum_load32(p) + xk_sum_load32(p + 4) + xk_sum_load32(p + 8) + xk_sum_load32(p + 12) +
	       xk_sum_load32(p + 16);
}

/* Why a header that begins with this byte is none of ours, or IP_HAS_OPTIONS. */
static inline unsigned
ip_header_why(uint8_t first)
{
	if (first >> 4 != 4)
		return IP_DROP_BAD_VERSION;
	return (first & 0xf) < IP_HEADER_LEN / 4 ? IP_DROP_BAD_HEADER : IP_HAS_OPTIONS;
}

/* Whether m's header, at p, is what was sent. */
static inline bool
ip_header_is_intact(const uint8_t *p, const struct xk_msg *m)
{
	return (m->flags & XK_MSG_NETWORK_SUM_GOOD) != 0 || xk_sum_is_intact(ip_header_sum(p));
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
 * Checks and takes off the header of m, which lies in one piece, and what the link has padded. 0: the header lies in front of
 * m; the reason to drop m; or IP_HAS_OPTIONS: m is as it was, and nothing of it but the first byte has been looked at.
 */
static inline unsigned
ip_header_pop(struct xk_msg *m)
{
	const uint8_t *p = m->data;
	size_t length = xk_get16(p + IP_LENGTH);

	if (xk_unlikely(p[IP_VERSION] != IP_VERSION_4_NO_OPTIONS))
		return ip_header_why(p[IP_VERSION]);
	if (xk_unlikely(length != xk_msg_len(m)) && (length < IP_HEADER_LEN || length > xk_msg_len(m)))
		return IP_DROP_BAD_LENGTH;
	if (xk_unlikely(!ip_header_is_intact(p, m)))
		return IP_DROP_BAD_CHECKSUM;
	if (xk_unlikely(length != xk_msg_len(m)))
		xk_msg_truncate(m, length);
	xk_msg_pop_in_place(m, IP_HEADER_LEN);
	return 0;
}

/* Whether the header at p is that of no whole datagram, or not even a proper one: one test for what is rare. */
static inline bool
ip_header_is_special(const uint8_t *p)
{
	return (xk_get16(p + IP_FRAGMENT) & (IP_RESERVED | IP_MORE | IP_OFFSET)) != 0;
}

/* What is the same in every header of a session; the rest is zero. */
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

/* Stores the header that was prepared, and whose sum is `sum`, for a datagram or fragment. */
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
