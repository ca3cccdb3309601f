/*
 * fuzz_headers.c - each protocol's header loader against a simple model from RFCs and top comments, on random bytes, in
 * any segments, with few buffers. They must agree on the drop reason, on every field, and on the rest of the message.
 *
 * An input: the loader; where the message is split into segments (two bytes); what is known about it (flags of its
 * checksums, and the number of buffers left); the message.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "platform/sim/memory.h"
#include "protocols/arp/arp.c"
#include "protocols/bid/bid.c"
#include "protocols/bid/bidctl.c"
#include "protocols/blast/blast.c"
#include "protocols/chan/chan.c"
#include "protocols/eth.c"
#include "protocols/ip/ip_private.h"
#include "protocols/marshal.c"
#include "protocols/papers/am.c"
#include "protocols/papers/gm.c"
#include "protocols/select.c"
#include "protocols/stopwait/stopwait.c"
#include "protocols/tcp/tcp_private.h"
#include "protocols/udp.c"
#include "tests/fuzz/fuzz.h"

extern const struct xk_protocol_type xk_type_ip, xk_type_bidctl, xk_type_tcp;

enum headers_which {
	HEADERS_ETH,
	HEADERS_ARP,
	HEADERS_IP,
	HEADERS_UDP,
	HEADERS_STOPWAIT,
	HEADERS_BID,
	HEADERS_BIDCTL,
	HEADERS_BLAST,
	HEADERS_CHAN,
	HEADERS_SELECT,
	HEADERS_AM,
	HEADERS_MARSHAL,
	HEADERS_GM,
	HEADERS_TCP,
	HEADERS_COUNT
};

static_assert((unsigned)HEADERS_IP == FUZZ_HEADERS_IP && (unsigned)HEADERS_TCP == FUZZ_HEADERS_TCP,
	      "test_fuzz_headers.c makes inputs for these");

enum {
	HEADERS_CHOICES = 4,
	HEADERS_MAX = 4096,
	HEADERS_DROPS = 64,
	HEADERS_IP_GOOD = 1 << 0,
	HEADERS_UDP_GOOD = 1 << 1
};

struct headers {
	struct xk_platform *platform;
	const uint8_t *bytes; /* the message's */
	size_t len;
	bool limited; /* a header that straddles segments may find no buffer */
	unsigned known;
	struct xk_msg *m;
};

/* ---- the message ---- */

static struct xk_msg *
headers_segment(struct headers *h, size_t from, size_t to)
{
	struct xk_msg *m = xk_memory_frame(h->platform, to - from);

	FUZZ_CHECK(m != NULL);
	if (to > from)
		memcpy(m->data, h->bytes + from, to - from);
	return m;
}

static void
headers_make(struct headers *h, size_t first, size_t second, unsigned buffers)
{
	first = first < h->len ? first : h->len;
	second = first + second < h->len ? first + second : h->len;
	h->m = headers_segment(h, 0, first);
	if (first < h->len)
		xk_msg_join(h->m, headers_segment(h, first, second));
	if (second < h->len)
		xk_msg_join(h->m, headers_segment(h, second, h->len));
	if (h->known & HEADERS_IP_GOOD)
		h->m->flags |= XK_MSG_NETWORK_SUM_GOOD;
	if (h->known & HEADERS_UDP_GOOD)
		h->m->flags |= XK_MSG_TRANSPORT_SUM_GOOD;
	h->limited = buffers < 8;
	if (h->limited)
		xk_memory_platform_limit(h->platform, h->platform->ops->buffers_out(h->platform) + buffers);
}

/* Checks that the rest is bytes [from, to). */
static void
headers_check_left(const struct headers *h, size_t from, size_t to)
{
	uint8_t left[HEADERS_MAX];

	FUZZ_CHECK(xk_msg_len(h->m) == to - from);
	FUZZ_CHECK(xk_msg_copy_out(h->m, 0, left, to - from));
	FUZZ_CHECK(memcmp(left, h->bytes + from, to - from) == 0);
}

/* Checks that the loader's drop reason, `why`, is `expected`. Returns true if the message is not dropped. */
static bool
headers_agree(unsigned why, unsigned expected)
{
	FUZZ_CHECK(why == expected);
	return why == XK_DROP_NONE;
}

/* Gathers the header of a type, as the framework does before demux. Returns false if the message is gone. */
static bool
headers_gather(struct headers *h, const struct xk_protocol_type *type)
{
	_Atomic uint64_t drops[HEADERS_DROPS] = { 0 };
	struct xk_protocol self = { .type = type, .drops = drops };
	int err = xk_header_gather(&self, &h->m);

	FUZZ_CHECK((err == -EBADMSG) == (h->len < type->header));
	if (err == 0) {
		FUZZ_CHECK(h->m->len >= type->header && memcmp(h->m->data, h->bytes, type->header) == 0);
		return true;
	}
	h->m = NULL;
	FUZZ_CHECK(err == -EBADMSG || (err == -ENOBUFS && h->limited));
	FUZZ_CHECK(atomic_load(&drops[err == -EBADMSG ? XK_DROP_SHORT : XK_DROP_NO_BUFFER]) == 1);
	return false;
}

/* Returns the sum of the bytes as 16-bit numbers (RFC 1071); 0xffff: a checksum in them is right. */
static uint32_t
headers_sum(uint32_t sum, const uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		sum += i % 2 == 0 ? (uint32_t)p[i] << 8 : p[i];
	while (sum >> 16 != 0)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

static uint64_t
headers_number(const uint8_t *p, unsigned len)
{
	uint64_t number = 0;

	while (len-- > 0)
		number = number << 8 | *p++;
	return number;
}

/* ---- Ethernet ---- */

static unsigned
headers_eth_expected(const uint8_t *p)
{
	if (headers_number(p, 6) != FUZZ_LINK && headers_number(p, 6) != UINT64_C(0xffffffffffff))
		return ETH_DROP_NOT_MINE;
	if (headers_number(p + 12, 2) < 0x600)
		return ETH_DROP_BAD_TYPE;
	if (p[6] & 1 || headers_number(p + 6, 6) == 0 || headers_number(p + 6, 6) == FUZZ_LINK)
		return ETH_DROP_BAD_SOURCE;
	return XK_DROP_NONE;
}

static void
headers_eth(struct headers *h)
{
	struct eth eth = { .protocol.type = &xk_type_eth, .address = FUZZ_LINK };
	struct xk_format *format = &eth.protocol.format;
	struct eth_header header = eth_load(h->m->data);
	struct xk_key passive;
	unsigned why;

	xk_format_init(format, &xk_type_eth);
	xk_header_usual(&eth.protocol, "destination", FUZZ_LINK);
	FUZZ_CHECK(xk_format_is_usual(format, format, h->m->data) ==
		   (headers_number(h->bytes, 6) == FUZZ_LINK && (h->bytes[6] & 1) == 0));
	xk_msg_pop_in_place(h->m, XK_ETH_HEADER_LEN);
	why = eth_validate(&eth.protocol, NULL, h->m, &passive);
	FUZZ_CHECK(((h->m->flags & XK_MSG_TO_ALL) != 0) == (headers_number(h->bytes, 6) == UINT64_C(0xffffffffffff)));
	if (!headers_agree(why, headers_eth_expected(h->bytes)))
		return;
	FUZZ_CHECK(header.destination == headers_number(h->bytes, 6));
	FUZZ_CHECK(header.source == headers_number(h->bytes + 6, 6));
	FUZZ_CHECK(header.type == headers_number(h->bytes + 12, 2));
}

/* ---- ARP (RFC 826) ---- */

static unsigned
headers_arp_expected(const uint8_t *p)
{
	if (headers_number(p, 2) != 1)
		return ARP_DROP_BAD_HARDWARE;
	if (headers_number(p + 2, 2) != 0x0800)
		return ARP_DROP_BAD_PROTOCOL;
	if (p[4] != 6 || p[5] != 4)
		return XK_DROP_BAD_LENGTH;
	return p[6] != 0 || p[7] < 1 || p[7] > 2 ? ARP_DROP_BAD_OPERATION : (unsigned)XK_DROP_NONE;
}

static void
headers_arp(struct headers *h)
{
	struct arp_header packet = arp_load(h->m->data);

	if (!headers_agree(arp_header_check(&packet), headers_arp_expected(h->bytes)))
		return;
	FUZZ_CHECK(packet.operation == h->bytes[7]);
	FUZZ_CHECK(packet.sender_link == headers_number(h->bytes + 8, 6));
	FUZZ_CHECK(packet.sender_host == headers_number(h->bytes + 14, 4));
	FUZZ_CHECK(packet.target_link == headers_number(h->bytes + 18, 6));
	FUZZ_CHECK(packet.target_host == headers_number(h->bytes + 24, 4));
}

/* ---- IP (RFC 791) ---- */

static unsigned
headers_ip_expected(const struct headers *h, const uint8_t *p)
{
	if (p[0] >> 4 != 4)
		return IP_DROP_BAD_VERSION;
	if (p[0] != 0x45)
		return p[0] < 0x45 ? IP_DROP_BAD_HEADER : IP_HAS_OPTIONS;
	if (headers_number(p + 2, 2) < 20 || headers_number(p + 2, 2) > h->len)
		return XK_DROP_BAD_LENGTH;
	if (!(h->known & HEADERS_IP_GOOD) && headers_sum(0, p, 20) != 0xffff)
		return XK_DROP_BAD_CHECKSUM;
	return XK_DROP_NONE;
}

/* Returns the reason to drop a datagram with these options (RFC 791, 3.1; RFC 7126, 4.3, 4.4; RFC 2113). */
static unsigned
headers_ip_options_expected(const uint8_t *p, size_t len)
{
	size_t option;

	for (; len > 0 && p[0] != 0; p += option, len -= option) {
		option = p[0] == 1 ? 1 : len > 1 ? p[1] : 0;
		if (option > len || option < (p[0] == 1 ? 1 : 2))
			return IP_DROP_BAD_OPTIONS;
		if ((p[0] == 7 || p[0] == 131 || p[0] == 137) && option % 4 != 3) /* a pointer, and addresses */
			return IP_DROP_BAD_OPTIONS;
		if (p[0] == 68 && (option < 4 || option % 4 != 0)) /* a pointer, flags, and time stamps */
			return IP_DROP_BAD_OPTIONS;
		if (p[0] == 148 && option != 4)
			return IP_DROP_BAD_OPTIONS;
		if (p[0] == 131 || p[0] == 137)
			return IP_DROP_SOURCE_ROUTE;
	}
	return XK_DROP_NONE;
}

static void
headers_ip_options(const struct headers *h)
{
	size_t len = 4 * (size_t)(h->bytes[0] & 15) - 20, got = xk_options_len(&ip_option_list, h->bytes, h->len - 20);

	FUZZ_CHECK(got == (len <= h->len - 20 ? len : SIZE_MAX));
	if (got != SIZE_MAX)
		FUZZ_CHECK(xk_options_check(&ip_option_list, h->bytes + 20, len) ==
			   headers_ip_options_expected(h->bytes + 20, len));
}

static void
headers_ip(struct headers *h)
{
	struct xk_protocol ip = { .type = &xk_type_ip };
	const uint8_t *p = h->bytes;
	struct ip_header header;
	unsigned why;

	xk_format_init(&ip.format, ip.type);
	FUZZ_CHECK(xk_format_is_usual(&ip.format, &ip.format, h->m->data) ==
		   (p[0] == 0x45 && (p[6] & 0xbf) == 0 && p[7] == 0));
	why = ip_version_check(h->m->data);
	if (why == XK_DROP_NONE)
		why = xk_receive_check(&ip.format, h->m);
	if (why == IP_HAS_OPTIONS)
		headers_ip_options(h);
	if (!headers_agree(why, headers_ip_expected(h, p)))
		return;
	xk_msg_pop_in_place(h->m, IP_HEADER_LEN);
	header = ip_load(h->m->data - IP_HEADER_LEN);
	FUZZ_CHECK(header.identification == headers_number(p + 4, 2));
	FUZZ_CHECK((uint64_t)(header.flags << 13 | header.offset) == headers_number(p + 6, 2));
	FUZZ_CHECK(header.protocol == p[9]);
	FUZZ_CHECK(header.source == headers_number(p + 12, 4) && header.destination == headers_number(p + 16, 4));
	headers_check_left(h, 20, headers_number(p + 2, 2));
}

/* ---- UDP (RFC 768), from 10.77.0.16 ---- */

static unsigned
headers_udp_expected(const uint8_t *p, size_t len)
{
	return headers_number(p + 4, 2) < 8 || headers_number(p + 4, 2) > len ? XK_DROP_BAD_LENGTH
									      : (unsigned)XK_DROP_NONE;
}

static bool
headers_udp_intact(const struct headers *h, size_t length)
{
	uint8_t pseudo[12] = { 10, 77, 0, 16, 10, 77, 0, 2, 0, 17 };

	pseudo[10] = h->bytes[4];
	pseudo[11] = h->bytes[5];
	return h->known & HEADERS_UDP_GOOD || headers_number(h->bytes + 6, 2) == 0 ||
	       headers_sum(headers_sum(0, pseudo, sizeof(pseudo)), h->bytes, length) == 0xffff;
}

static void
headers_udp(struct headers *h)
{
	struct xk_protocol udp = { .type = &xk_type_udp };
	const uint64_t pseudo = xk_sum_of32(FUZZ_PEER_HOST) + xk_sum_of32(FUZZ_HOST) + xk_sum_of16(17);
	uint64_t sum;
	size_t length;

	xk_format_init(&udp.format, udp.type);
	if (!headers_agree(xk_receive_check(&udp.format, h->m), headers_udp_expected(h->bytes, h->len)))
		return;
	xk_msg_pop_in_place(h->m, XK_UDP_HEADER_LEN);
	length = headers_number(h->bytes + 4, 2);
	headers_check_left(h, 8, length);
	sum = xk_receive_sum_headers(&udp.format, h->m, pseudo);
	FUZZ_CHECK((sum == 0 || xk_sum_is_intact(sum + xk_msg_sum(h->m))) == headers_udp_intact(h, length));
}

/* ---- stopwait ---- */

static unsigned
headers_stopwait_expected(const uint8_t *p, size_t len)
{
	size_t length, kind;

	length = headers_number(p + 4, 2);
	if (length < 30 || length > len)
		return XK_DROP_BAD_LENGTH;
	if (headers_sum(0, p, length) != 0xffff)
		return XK_DROP_BAD_CHECKSUM;
	kind = headers_number(p + 8, 2);
	if (kind < 1 || kind > 5 || headers_number(p + 14, 8) == 0)
		return STOPWAIT_BAD_KIND;
	if ((headers_number(p + 22, 8) == 0) != (kind == STOPWAIT_CALL))
		return STOPWAIT_BAD_KIND;
	return kind != STOPWAIT_DATA && length != 30 ? XK_DROP_BAD_LENGTH : (unsigned)XK_DROP_NONE;
}

static void
headers_stopwait(struct headers *h)
{
	struct stopwait_header header;
	const uint8_t *p = h->bytes;

	if (!headers_agree(stopwait_header_pop(&header, h->m), headers_stopwait_expected(p, h->len)))
		return;
	FUZZ_CHECK(header.source == headers_number(p, 2) && header.destination == headers_number(p + 2, 2));
	FUZZ_CHECK(header.kind == headers_number(p + 8, 2) && header.sequence == headers_number(p + 10, 4));
	FUZZ_CHECK(header.from == headers_number(p + 14, 8) && header.to == headers_number(p + 22, 8));
	headers_check_left(h, 30, headers_number(p + 4, 2));
}

/* ---- BID and BIDCTL ---- */

/* Returns true for the address of a single host: not 0/8 or 224/3. */
static bool
headers_is_host(const uint8_t *p)
{
	return p[0] != 0 && p[0] < 224;
}

static void
headers_bid(struct headers *h)
{
	struct bid_header header = bid_load(h->m->data);
	const uint8_t *p = h->bytes;

	FUZZ_CHECK(header.protocol == headers_number(p, 4) && header.source_host == headers_number(p + 4, 4));
	FUZZ_CHECK(XK_GET_SPAN(bid, protocol, source_host, p) == headers_number(p, 8));
	FUZZ_CHECK(xk_bidctl_is_host(header.source_host) == headers_is_host(p + 4));
	FUZZ_CHECK(header.source_boot == headers_number(p + 8, 8));
	FUZZ_CHECK(header.destination_boot == headers_number(p + 16, 8));
}

static unsigned
headers_bidctl_expected(const uint8_t *p)
{
	uint64_t flags;

	if (headers_sum(0, p, 40) % 0xffff != 0) /* only zeros have a sum of 0, and they have no flags */
		return XK_DROP_BAD_CHECKSUM;
	flags = headers_number(p, 2);
	if ((flags < 1 || flags > 4) || (headers_number(p + 24, 8) != 0) != (flags == 1 || flags == 3) ||
	    (headers_number(p + 32, 8) != 0) != (flags == 2 || flags == 3))
		return BIDCTL_BAD_FLAGS;
	if (headers_number(p + 8, 8) == 0 || ((flags == 2 || flags == 3) && headers_number(p + 16, 8) == 0))
		return BIDCTL_BAD_BOOT;
	return headers_is_host(p + 4) ? (unsigned)XK_DROP_NONE : BIDCTL_BAD_HOST;
}

static void
headers_bidctl(struct headers *h)
{
	struct bidctl_header header = bidctl_load(h->m->data);
	const uint8_t *p = h->bytes;

	if (!headers_agree(bidctl_header_check(&header, h->m->data), headers_bidctl_expected(p)))
		return;
	FUZZ_CHECK(header.flags == headers_number(p, 2) && header.source_host == headers_number(p + 4, 4));
	FUZZ_CHECK(header.source_boot == headers_number(p + 8, 8));
	FUZZ_CHECK(header.destination_boot == headers_number(p + 16, 8));
	FUZZ_CHECK(header.request == headers_number(p + 24, 8) && header.reply == headers_number(p + 32, 8));
}

/* ---- CHAN ---- */

/*
 * Returns true for flags in use: from a client a request, a probe, an ack of either kind; from a server a reply, the
 * same, an error.
 */
static bool
headers_chan_flags(uint64_t flags)
{
	bool client = flags & 1;

	switch (flags & ~UINT64_C(1)) {
	case 0:
	case 2:
	case 2 | 4:
	case 4:
	case 8:
		return true;
	case 16:
	case 16 | 2:
	case 16 | 2 | 4:
		return !client;
	default:
		return false;
	}
}

static unsigned
headers_chan_expected(const uint8_t *p, size_t len)
{
	uint64_t flags, status, length;

	flags = headers_number(p + 4, 2);
	status = headers_number(p + 6, 2);
	length = headers_number(p + 16, 4);
	if (20 + length > len)
		return XK_DROP_BAD_LENGTH;
	if (!headers_chan_flags(flags))
		return CHAN_BAD_FLAGS;
	if ((flags & 3) != 3 && ((status != 0) != (flags >= 16) || status > 4095)) /* a request may have any age */
		return CHAN_BAD_FLAGS;
	return length == 0 || (flags & (2 | 16)) == 2 ? (unsigned)XK_DROP_NONE : XK_DROP_BAD_LENGTH;
}

static void
headers_chan(struct headers *h)
{
	struct chan_header header;
	const uint8_t *p = h->bytes;

	if (!headers_agree(chan_header_pop(&header, h->m), headers_chan_expected(p, h->len)))
		return;
	FUZZ_CHECK(header.channel == headers_number(p, 4) && header.flags == headers_number(p + 4, 2));
	FUZZ_CHECK(header.status == headers_number(p + 6, 2));
	FUZZ_CHECK(header.status == headers_number(p + 6, 2) && header.number == headers_number(p + 8, 4));
	FUZZ_CHECK(header.sequence == headers_number(p + 12, 4));
	headers_check_left(h, 20, 20 + headers_number(p + 16, 4));
}

/* ---- SELECT: calls and replies ---- */

static unsigned
headers_select_expected(const uint8_t *p, bool is_reply)
{
	uint64_t status;

	status = headers_number(p + 4, 4);
	if (!is_reply)
		return status == 0 ? (unsigned)XK_DROP_NONE : SELECT_BAD_STATUS;
	return (status >= 1 && status <= 4) || (status >= 257 && status <= 256 + 4095) ? (unsigned)XK_DROP_NONE
										       : SELECT_BAD_STATUS;
}

static void
headers_select(struct headers *h)
{
	bool is_reply = (h->known & 4) != 0;
	struct select_header header;
	const uint8_t *p = h->bytes;

	if (!headers_agree(select_header_pop(&header, h->m, is_reply), headers_select_expected(p, is_reply)))
		return;
	FUZZ_CHECK(header.procedure == headers_number(p, 4) && header.status == headers_number(p + 4, 4));
	FUZZ_CHECK(select_error_of(header.status) <= 0);
	FUZZ_CHECK((select_error_of(header.status) == 0) == (header.status == SELECT_OK));
	headers_check_left(h, 8, h->len);
}

/* ---- MARSHAL ---- */

static void
headers_marshal(struct headers *h)
{
	const uint8_t *p = h->bytes;
	struct marshal_header header;
	unsigned expected = XK_DROP_NONE;

	if (p[0] > 1)
		expected = MARSHAL_BAD_ORDER;
	else if (p[1] != 1 && p[1] != 2 && p[1] != 4 && p[1] != 8)
		expected = MARSHAL_BAD_WIDTH;
	if (!headers_agree(marshal_header_pop(&header, h->m), expected))
		return;
	FUZZ_CHECK(header.order == p[0] && header.width == p[1]);
	headers_check_left(h, 2, h->len);
}

/* ---- Active Messages ---- */

static unsigned
headers_am_expected(const uint8_t *p, size_t len)
{
	/* kinds 1 to 10: minimum length, whether it is exact, first and last handler */
	static const struct {
		unsigned least, all, first, last;
	} kinds[] = { { 12, 1, 1, 65535 }, { 0, 1, 0, 0 }, { 0, 1, 1, 64 }, { 0, 0, 0, 255 }, { 20, 0, 0, 255 },
		      { 0, 0, 0, 255 },    { 0, 1, 0, 0 }, { 0, 1, 1, 5 },  { 0, 1, 0, 0 },   { 0, 1, 1, 5 } };
	uint64_t length = headers_number(p + 12, 4), handler = headers_number(p + 2, 2), least;
	unsigned kind = p[0] - 1u;

	if (kind >= 10 || headers_number(p + 24, 8) == 0)
		return AM_BAD_KIND;
	least = kinds[kind].least + 4u * p[1];
	if (p[1] > (kinds[kind].all ? 0 : 8) || 32 + length > len || length < least ||
	    (kinds[kind].all && length != least))
		return XK_DROP_BAD_LENGTH;
	if ((kind == 3 || kind == 4) && handler == 0xffff)
		return XK_DROP_NONE;
	return handler < kinds[kind].first || handler > kinds[kind].last ? AM_BAD_HANDLER : (unsigned)XK_DROP_NONE;
}

static void
headers_am(struct headers *h)
{
	struct am_header header;
	const uint8_t *p = h->bytes;

	if (!headers_agree(am_header_pop(&header, h->m), headers_am_expected(p, h->len)))
		return;
	FUZZ_CHECK(header.kind == p[0] && header.words == p[1] && header.handler == headers_number(p + 2, 2));
	FUZZ_CHECK(header.sequence == headers_number(p + 4, 4) && header.oldest == headers_number(p + 8, 4));
	FUZZ_CHECK(header.to == headers_number(p + 16, 8) && header.from == headers_number(p + 24, 8));
	headers_check_left(h, 32, 32 + headers_number(p + 12, 4));
}

/* ---- BLAST ---- */

static unsigned
headers_bits(const uint8_t *mask)
{
	unsigned count = 0;

	for (unsigned bit = 0; bit < 64; bit++)
		count += mask[7 - bit / 8] >> bit % 8 & 1;
	return count;
}

/* Of a long message of `fragments`. */
static unsigned
headers_blast_expected_long(const uint8_t *p, size_t fragments)
{
	size_t length = headers_number(p + 8, 4), bits = headers_bits(p + 16);

	if (fragments < 2 || fragments > 64)
		return BLAST_BAD_COUNT;
	for (unsigned bit = (unsigned)fragments; bit < 64; bit++)
		if (p[23 - bit / 8] >> bit % 8 & 1)
			return BLAST_BAD_MASK;
	if (p[14] == BLAST_NACK ? bits == 0 || bits == fragments : bits != 1)
		return BLAST_BAD_MASK;
	if (p[14] == BLAST_NACK)
		return length != 0 ? XK_DROP_BAD_LENGTH : (unsigned)XK_DROP_NONE;
	return length < 1 || length > 16384 ? XK_DROP_BAD_LENGTH : (unsigned)XK_DROP_NONE;
}

static unsigned
headers_blast_expected(const uint8_t *p, size_t len)
{
	size_t fragments;
	unsigned why;

	if (p[15] != 64)
		return BLAST_BAD_WIDTH;
	if (p[14] < 1 || p[14] > 3 || (headers_number(p + 4, 4) == 0 && p[14] != BLAST_SEND))
		return BLAST_BAD_OP;
	fragments = headers_number(p + 12, 2);
	if (headers_number(p + 4, 4) != 0)
		why = headers_blast_expected_long(p, fragments);
	else
		why = fragments != 0 ? BLAST_BAD_COUNT : headers_bits(p + 16) != 0 ? BLAST_BAD_MASK : XK_DROP_NONE;
	if (why != XK_DROP_NONE)
		return why;
	return headers_number(p + 8, 4) > len - 24 ? XK_DROP_BAD_LENGTH : (unsigned)XK_DROP_NONE;
}

static void
headers_blast(struct headers *h)
{
	struct blast_header header = blast_load(h->m->data);
	const uint8_t *p = h->bytes;
	struct xk_format format;
	unsigned why;

	xk_format_init(&format, &xk_type_blast);
	why = xk_format_is_usual(&format, &format, p) ? 0 : blast_header_check(&header);
	if (why == 0 && !blast_header_pop(h->m, header.length))
		why = XK_DROP_BAD_LENGTH;
	if (!headers_agree(why, headers_blast_expected(p, h->len)))
		return;
	FUZZ_CHECK(header.protocol == headers_number(p, 4) && header.sequence == headers_number(p + 4, 4));
	FUZZ_CHECK(header.fragments == headers_number(p + 12, 2) && header.mask == headers_number(p + 16, 8));
	FUZZ_CHECK(header.length == headers_number(p + 8, 4) && header.op == p[14]);
	headers_check_left(h, 24, 24 + header.length);
}

/* ---- GM ---- */

static unsigned
headers_gm_expected(const uint8_t *p, size_t len)
{
	uint64_t kind = headers_number(p + 4, 2), length = headers_number(p + 6, 2), total = headers_number(p + 8, 4);
	uint64_t offset = headers_number(p + 12, 4), number = headers_number(p + 24, 8);
	uint64_t previous = headers_number(p + 32, 8);

	if (kind < 1 || kind > 6 || headers_number(p + 16, 8) == 0 || number >> 62 != 0)
		return GM_BAD_KIND;
	if (number == 0 || (kind == GM_DATAGRAM ? previous > number : previous >= number))
		return GM_BAD_KIND;
	if (length > len - 40 || length > 4096)
		return XK_DROP_BAD_LENGTH;
	if (kind == GM_DATA || kind == GM_DATAGRAM)
		return offset + length > total ? XK_DROP_BAD_LENGTH : (unsigned)XK_DROP_NONE;
	return kind != GM_DEPOSIT && length != 0 ? XK_DROP_BAD_LENGTH : (unsigned)XK_DROP_NONE;
}

static void
headers_gm(struct headers *h)
{
	struct gm_header header;
	const uint8_t *p = h->bytes;

	if (!headers_agree(gm_header_pop(&header, h->m), headers_gm_expected(p, h->len)))
		return;
	FUZZ_CHECK(header.source == headers_number(p, 2) && header.destination == headers_number(p + 2, 2));
	FUZZ_CHECK(header.kind == headers_number(p + 4, 2));
	FUZZ_CHECK(header.length == headers_number(p + 6, 2) && header.total == headers_number(p + 8, 4));
	FUZZ_CHECK(header.offset == headers_number(p + 12, 4) && header.begin == headers_number(p + 16, 8));
	FUZZ_CHECK(header.number == headers_number(p + 24, 8) && header.previous == headers_number(p + 32, 8));
	headers_check_left(h, 40, 40 + header.length);
}

/* ---- TCP (RFC 9293), from 10.77.0.16 ---- */

/* Returns true if each option up to the first end has a length that its kind may have. */
static bool
headers_tcp_is_listed(const uint8_t *p, size_t len)
{
	static const uint8_t lens[] = { [2] = 4, [3] = 3, [4] = 2, [8] = 10 };

	while (len > 0 && p[0] != 0) {
		size_t option = p[0] == 1 ? 1 : len > 1 ? p[1] : 0;

		if (option > len || option < (p[0] == 1 ? 1 : 2))
			return false;
		if (p[0] < sizeof(lens) && lens[p[0]] != 0 && option != lens[p[0]])
			return false;
		if (p[0] == 5 && option != 10 && option != 18 && option != 26 && option != 34)
			return false;
		p += option;
		len -= option;
	}
	return true;
}

/* Returns where the last option of this kind lies, among len bytes that are listed; NULL: nowhere. */
static const uint8_t *
headers_tcp_option(const uint8_t *p, size_t len, uint8_t kind)
{
	const uint8_t *found = NULL;

	for (size_t at = 0; at < len && p[at] != 0; at += p[at] == 1 ? 1 : p[at + 1])
		if (p[at] == kind)
			found = p + at;
	return found;
}

/* Checks the ranges: those of all options, as far as there is room. */
static void
headers_tcp_check_ranges(const struct tcp_options *options, const uint8_t *p, size_t len)
{
	unsigned count = 0;

	for (size_t at = 0; at < len && p[at] != 0; at += p[at] == 1 ? 1 : p[at + 1])
		for (size_t range = 2; p[at] == 5 && range < p[at + 1] && count < 4; range += 8, count++)
			FUZZ_CHECK(options->sacks[count].begin == headers_number(p + at + range, 4) &&
				   options->sacks[count].end == headers_number(p + at + range + 4, 4));
	FUZZ_CHECK(options->sack_count == count);
}

static void
headers_tcp_check_options(const struct tcp_options *options, const uint8_t *p, size_t len)
{
	const uint8_t *mss = headers_tcp_option(p, len, 2), *scale = headers_tcp_option(p, len, 3);
	const uint8_t *stamp = headers_tcp_option(p, len, 8);

	FUZZ_CHECK(options->mss == (mss == NULL ? 0 : headers_number(mss + 2, 2)));
	FUZZ_CHECK(options->has_scale == (scale != NULL) &&
		   options->has_sack_permitted == (headers_tcp_option(p, len, 4) != NULL));
	FUZZ_CHECK(scale == NULL || options->scale == (scale[2] < 14 ? scale[2] : 14));
	FUZZ_CHECK(options->has_stamp == (stamp != NULL));
	FUZZ_CHECK(stamp == NULL || options->stamp == headers_number(stamp + 2, 4));
	FUZZ_CHECK(stamp == NULL || options->echo == headers_number(stamp + 6, 4));
	FUZZ_CHECK(options->has_mss == (mss != NULL));
	headers_tcp_check_ranges(options, p, len);
}

static unsigned
headers_tcp_expected(const uint8_t *p, size_t len)
{
	size_t offset = 4 * (size_t)(p[12] >> 4);

	if (offset < 20 || offset > len)
		return TCP_BAD_OFFSET;
	return headers_tcp_is_listed(p + 20, offset - 20) ? (unsigned)XK_DROP_NONE : TCP_BAD_OPTIONS;
}

static void
headers_tcp(struct headers *h)
{
	struct xk_protocol tcp = { .type = &xk_type_tcp };
	uint8_t pseudo[12] = { 10, 77, 0, 16, 10, 77, 0, 2, 0, 6, (uint8_t)(h->len >> 8), (uint8_t)h->len };
	const uint64_t pseudo_sum = xk_sum_of32(FUZZ_PEER_HOST) + xk_sum_of32(FUZZ_HOST) + xk_sum_of16(6);
	size_t offset = 4 * (size_t)(h->bytes[12] >> 4);
	const uint8_t *p = h->bytes;
	struct tcp_segment segment;
	uint64_t sum;
	bool is_intact;

	xk_format_init(&tcp.format, tcp.type);
	FUZZ_CHECK(xk_receive_check(&tcp.format, h->m) == XK_DROP_NONE);
	xk_msg_pop_in_place(h->m, 20);
	sum = xk_receive_sum_headers(&tcp.format, h->m, pseudo_sum);
	is_intact = h->known & HEADERS_UDP_GOOD || headers_sum(headers_sum(0, pseudo, 12), p, h->len) == 0xffff;
	FUZZ_CHECK((sum == 0 || xk_sum_is_intact(sum + xk_msg_sum(h->m))) == is_intact);
	if (!headers_agree(tcp_segment_read(&segment, h->m), headers_tcp_expected(p, h->len)))
		return;
	FUZZ_CHECK(segment.sequence == headers_number(p + 4, 4) && segment.acknowledgement == headers_number(p + 8, 4));
	FUZZ_CHECK(segment.flags == p[13] && segment.window == headers_number(p + 14, 2));
	FUZZ_CHECK(segment.len == h->len - offset);
	FUZZ_CHECK(segment.end == (uint32_t)(segment.sequence + segment.len + (p[13] & 1) + (p[13] >> 1 & 1)));
	headers_tcp_check_options(&segment.options, p + 20, offset - 20);
	headers_check_left(h, offset, h->len);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct {
		const struct xk_protocol_type *type;
		void (*load)(struct headers *h);
	} loaders[HEADERS_COUNT] = {
		{ &xk_type_eth, headers_eth },
		{ &xk_type_arp, headers_arp },
		{ &xk_type_ip, headers_ip },
		{ &xk_type_udp, headers_udp },
		{ &xk_type_stopwait, headers_stopwait },
		{ &xk_type_bid, headers_bid },
		{ &xk_type_bidctl, headers_bidctl },
		{ &xk_type_blast, headers_blast },
		{ &xk_type_chan, headers_chan },
		{ &xk_type_select, headers_select },
		{ &xk_type_am, headers_am },
		{ &xk_type_marshal, headers_marshal },
		{ &xk_type_gm, headers_gm },
		{ &xk_type_tcp, headers_tcp },
	};
	unsigned which;
	struct headers h = { .bytes = data + HEADERS_CHOICES, .len = size - HEADERS_CHOICES };

	if (size < HEADERS_CHOICES || h.len > HEADERS_MAX)
		return 0;
	h.platform = xk_memory_platform_new(XK_MEMORY_VIRTUAL);
	FUZZ_CHECK(h.platform != NULL);
	h.known = data[3];
	headers_make(&h, data[1], data[2], data[3] >> 4);
	which = data[0] % HEADERS_COUNT;
	if (headers_gather(&h, loaders[which].type))
		loaders[which].load(&h);
	xk_msg_free(h.m);
	FUZZ_CHECK(h.platform->ops->buffers_out(h.platform) == 0);
	xk_memory_platform_free(h.platform);
	return 0;
}
