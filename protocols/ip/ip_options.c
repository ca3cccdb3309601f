/*
 * ip_options.c - the options of a header (RFC 791, 3.1), which few have; see ip.c.
 *
 * Those of a datagram for this host are looked at as far as they may hurt: what is malformed is dropped, and so is who
 * wants to choose the route (RFC 7126, 4.3 and 4.4). The others are passed over, also those that nobody knows (RFC 1122,
 * 3.2.1.8). The rest of IP does not see them: the datagram gets a header without options, which is what a fault quotes.
 */
#include "protocols/ip/ip_private.h"

enum { IP_OPTION_LOOSE = 131, IP_OPTION_STRICT = 137 };

static bool
ip_option_is_malformed(const uint8_t *header, size_t header_len, size_t at)
{
	return at + 1 >= header_len || header[at + 1] < 2 || header[at + 1] > header_len - at;
}

size_t
ip_option_len(const uint8_t *header, size_t header_len, size_t at)
{
	if (at >= header_len || header[at] == IP_OPTION_END)
		return 0;
	if (header[at] == IP_OPTION_NOP)
		return 1;
	return ip_option_is_malformed(header, header_len, at) ? header_len - at : header[at + 1];
}

bool
ip_options_have_source_route(const uint8_t *header, size_t header_len)
{
	size_t len;

	for (size_t at = IP_HEADER_LEN; (len = ip_option_len(header, header_len, at)) != 0; at += len)
		if (header[at] == IP_OPTION_LOOSE || header[at] == IP_OPTION_STRICT)
			return true;
	return false;
}

static bool
ip_options_are_malformed(const uint8_t *header, size_t header_len)
{
	size_t len;

	for (size_t at = IP_HEADER_LEN; (len = ip_option_len(header, header_len, at)) != 0; at += len)
		if (header[at] != IP_OPTION_NOP && ip_option_is_malformed(header, header_len, at))
			return true;
	return false;
}

/* Checks the header of *m, header_len long, as ip_header_pop does a shorter one. 0, or the reason to drop *m. */
static unsigned
ip_options_check(struct xk_msg **m, size_t header_len, const uint8_t **header)
{
	size_t len = xk_msg_len(*m), want = header_len + IP_QUOTED, total;
	const uint8_t *p = xk_msg_peek(m, len < header_len || len > want ? want : len);

	if (len < header_len)
		return XK_DROP_SHORT;
	if (p == NULL)
		return XK_DROP_NO_BUFFER;
	total = xk_get16(p + IP_LENGTH);
	if (total < header_len || total > xk_msg_len(*m))
		return IP_DROP_BAD_LENGTH;
	if (!xk_sum_is_intact(xk_sum(0, p, header_len)))
		return IP_DROP_BAD_CHECKSUM;
	xk_msg_truncate(*m, total);
	*header = p;
	return 0;
}

/* Puts a header without options in place of the one that *m has, and what is quoted behind it. 0, or the reason to drop *m. */
static unsigned
ip_options_replace(struct xk_msg **m, const uint8_t *header, size_t header_len)
{
	uint8_t base[IP_HEADER_LEN], *p;
	size_t len;

	memcpy(base, header, sizeof(base));
	base[IP_VERSION] = IP_VERSION_4_NO_OPTIONS;
	xk_put16(base + IP_LENGTH, (uint16_t)(xk_msg_len(*m) - header_len + IP_HEADER_LEN));
	xk_put16(base + IP_CHECKSUM, 0);
	xk_checksum_store(base + IP_CHECKSUM, xk_checksum_finish(ip_header_sum(base)));
	xk_msg_pop(m, header_len);
	p = xk_msg_push(m, IP_HEADER_LEN);
	if (p == NULL)
		return XK_DROP_NO_BUFFER;
	memcpy(p, base, sizeof(base));
	len = xk_msg_len(*m) < IP_HEADER_LEN + IP_QUOTED ? xk_msg_len(*m) : IP_HEADER_LEN + IP_QUOTED;
	return xk_msg_peek(m, len) == NULL ? XK_DROP_NO_BUFFER : 0;
}

/* Of a datagram for us: takes the options off. 0, or the reason to drop *m. */
static unsigned
ip_options_judge(struct xk_msg **m, const uint8_t *header, size_t header_len)
{
	if (ip_options_are_malformed(header, header_len))
		return IP_DROP_BAD_OPTIONS;
	if (ip_options_have_source_route(header, header_len))
		return IP_DROP_SOURCE_ROUTE;
	return ip_options_replace(m, header, header_len);
}

struct xk_msg *
ip_options_take_off(struct ip *ip, struct xk_msg *m)
{
	size_t header_len = (size_t)(m->data[IP_VERSION] & 0xf) * 4;
	const uint8_t *header = NULL;
	enum xk_vnet_kind kind;
	unsigned index, why = ip_options_check(&m, header_len, &header);

	if (why == 0) {
		kind = ip_kind(ip, xk_get32(header + IP_DESTINATION), &index);
		if (ip->forward && kind != XK_VNET_MINE && kind != XK_VNET_BROADCAST) {
			xk_msg_pop(&m, header_len);
			ip_forward(ip, m, header, header_len);
			return NULL;
		}
		why = ip_options_judge(&m, header, header_len);
	}
	if (why == 0)
		return m;
	xk_drop(&ip->protocol, m, why);
	return NULL;
}
