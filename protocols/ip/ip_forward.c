/*
 * ip_forward.c - forwards datagrams for other hosts, and handles options. See ip.c.
 *
 * Spec:      RFC 1812 (5.2, 5.3), 3927 (7), 1624 (the checksum is updated, not recomputed), 2644
 * Forwarding: excludes link broadcasts, datagrams to broadcast or group addresses, and those to or from addresses that
 *            no host has. Decrements the time to live; does not reassemble; fragments datagrams that are too long for
 *            the next link, or refuses them (DF). Passes options on unchanged, copied ones with every fragment.
 * Options:   malformed ones and source routes are refused (RFC 791, 3.1; RFC 7126, 4.3 and 4.4), others of a datagram
 *            for this host ignored (RFC 1122, 3.2.1.8). The rest of IP, and quotes, see a header without options.
 * Faults:    network unreachable, time exceeded and fragmentation needed are reported here; others in ip_fault.c
 * Not done:  redirects, source routes, checking sources against the link they come from
 */
#include <errno.h>
#include <string.h>

#include "protocols/ip/ip_private.h"

/* ---- options ---- */

enum { IP_OPTION_COPIED = 0x80 /* of an option's kind */ };

struct xk_msg *
ip_options_take_off(struct ip *ip, struct xk_msg *m)
{
	size_t len = xk_msg_len(m), options = xk_options_len(&ip_option_list, m->data, len - IP_HEADER_LEN);
	size_t header_len = IP_HEADER_LEN + options, want = header_len + IP_QUOTED, total = 0;
	const uint8_t *header = options == SIZE_MAX ? NULL : xk_msg_peek(&m, len < want ? len : want);
	uint8_t base[IP_HEADER_LEN], *p;
	unsigned why, index;
	enum xk_vnet_kind kind;

	if (header == NULL)
		why = options == SIZE_MAX ? XK_DROP_SHORT : XK_DROP_NO_BUFFER;
	else if ((total = XK_GET(ip, length, header)) < header_len || total > len)
		why = XK_DROP_BAD_LENGTH;
	else if (!xk_sum_is_intact(xk_sum(0, header, header_len)))
		why = XK_DROP_BAD_CHECKSUM;
	else
		why = xk_options_check(&ip_option_list, header + IP_HEADER_LEN, options);
	if (why != 0)
		goto drop;
	xk_msg_truncate(m, total);
	kind = ip_kind(ip, XK_GET(ip, destination, header), &index);
	if (ip->forward && kind != XK_VNET_MINE && kind != XK_VNET_BROADCAST) {
		xk_msg_pop(&m, header_len);
		ip_forward(ip, m, header, header_len);
		return NULL;
	}
	memcpy(base, header, sizeof(base));
	XK_PUT(ip, header_length, base, IP_HEADER_LEN / 4);
	XK_PUT(ip, length, base, total - header_len + IP_HEADER_LEN);
	XK_PUT(ip, checksum, base, 0);
	xk_checksum_store(base + XK_OFFSET(ip, checksum), xk_checksum_finish(xk_header_sum(base, IP_HEADER_LEN)));
	xk_msg_pop(&m, header_len);
	p = xk_msg_push(&m, IP_HEADER_LEN);
	if (p != NULL) {
		memcpy(p, base, sizeof(base));
		want = IP_HEADER_LEN + IP_QUOTED;
		if (xk_msg_peek(&m, xk_msg_len(m) < want ? xk_msg_len(m) : want) != NULL)
			return m;
	}
	why = XK_DROP_NO_BUFFER;
drop:
	xk_drop(&ip->protocol, m, why);
	return NULL;
}

/* ---- forwarding ---- */

/* Keeps only the options that every fragment has (RFC 791, 3.1). */
static void
ip_forward_keep_copied(struct ip_transit *t)
{
	size_t keep = IP_HEADER_LEN, len;

	for (size_t at = keep; (len = xk_option_len(t->header + at, t->header_len - at)) != 0; at += len)
		if ((t->header[at] & IP_OPTION_COPIED) != 0) {
			memmove(t->header + keep, t->header + at, len);
			keep += len;
		}
	while (keep % 4 != 0)
		t->header[keep++] = XK_OPTION_END;
	t->header_len = keep;
	XK_PUT(ip, header_length, t->header, keep / 4);
}

/* Checks whether t may be forwarded at all. Returns 0, or the reason to drop it. */
static unsigned
ip_forward_check(const struct ip_transit *t, const struct xk_msg *m)
{
	uint32_t destination = XK_GET(ip, destination, t->header), source = XK_GET(ip, source, t->header);
	size_t offset = XK_GET(ip, offset, t->header) * (size_t)8;
	unsigned why = ip_check_source(t->ip, source);

	if (why != 0)
		return why;
	if (XK_GET(ip, ttl, t->header) == 0)
		return IP_DROP_TTL_ZERO;
	if (destination >> 24 == 127)
		return IP_DROP_MARTIAN;
	/* addresses of 169.254/16 are valid on one link only (RFC 3927, 7) */
	if (destination >> 24 == 0 || ip_is_to_all(t->ip, destination) || (m->flags & XK_MSG_TO_ALL) != 0 ||
	    destination >> 16 == 0xa9fe || source >> 16 == 0xa9fe)
		return IP_DROP_NOT_FORWARDED;
	/* its end must be possible, and must not overflow when its pieces are numbered */
	return offset + xk_msg_len(m) > IP_REASSEMBLY_MAX ? IP_DROP_REASSEMBLY + IP_REASSEMBLY_TOO_LONG : 0;
}

/* Finds t's next hop. Returns 0, or the reason to drop it, after its sender was notified. */
static unsigned
ip_forward_route(struct ip_transit *t, const struct xk_msg *m, uint32_t *hop)
{
	struct xk_ip_trouble trouble = { .header = t->header, .header_len = t->header_len, .m = m };
	unsigned index = 0, why;

	if (XK_GET(ip, ttl, t->header) <= 1) {
		trouble.fault = XK_FAULT_HOPS;
		why = IP_DROP_EXPIRED;
	} else if (ip_next_hop(t->ip, XK_GET(ip, destination, t->header), hop, &index) != 0) {
		trouble.fault = XK_FAULT_NETWORK;
		why = IP_DROP_NO_ROUTE;
	} else {
		t->mtu = trouble.mtu = t->ip->interface[index].max_packet;
		if (xk_msg_len(m) + t->header_len <= t->mtu ||
		    (XK_GET(ip, flags, t->header) & IP_FLAG_DONT_FRAGMENT) == 0)
			return 0;
		trouble.fault = XK_FAULT_TOO_BIG;
		why = IP_DROP_DONT_FRAGMENT;
	}
	ip_fault_send(t->ip, &trouble);
	return why;
}

/* Decrements the time to live, and updates the checksum (RFC 1624, equation 3). */
static void
ip_forward_count_down(uint8_t *header)
{
	uint32_t sum = (uint16_t)~XK_GET(ip, checksum, header);
	uint8_t *word = header + XK_OFFSET(ip, ttl); /* with the protocol */

	sum += (uint16_t)~xk_get16(word);
	word[0]--;
	sum += xk_get16(word);
	XK_PUT(ip, checksum, header, xk_checksum_finish(sum));
}

/* Pushes m with t's header, as a fragment or the rest of one. Takes m. */
static inline int
ip_forward_push(const struct ip_transit *t, struct xk_session *lls, struct xk_msg *m, uint16_t fragment)
{
	uint8_t *p = xk_msg_push(&m, t->header_len);
	uint16_t length = (uint16_t)xk_msg_len(m);

	if (xk_unlikely(p == NULL)) {
		xk_drop(&t->ip->protocol, m, XK_DROP_NO_BUFFER);
		return -ENOBUFS;
	}
	memcpy(p, t->header, IP_HEADER_LEN);
	XK_PUT(ip, length, p, length);
	XK_PUT(ip, identification, p, t->id);
	xk_put16(p + IP_FRAGMENT, fragment);
	xk_checksum_store(p + XK_OFFSET(ip, checksum), xk_checksum_finish(t->sum + xk_sum_of16(length) +
									  xk_sum_of16(t->id) + xk_sum_of16(fragment)));
	if (t->header_len > IP_HEADER_LEN)
		memcpy(p + IP_HEADER_LEN, t->header + IP_HEADER_LEN, t->header_len - IP_HEADER_LEN);
	return xk_push(lls, m);
}

int
ip_forward_fragments(struct ip_transit *t, struct xk_session *lls, struct xk_msg *m, uint16_t fragment)
{
	bool is_first = true;

	while (xk_msg_len(m) + t->header_len > t->mtu) {
		size_t chunk = (t->mtu - t->header_len) & ~(size_t)7;
		struct xk_msg *front = xk_msg_split(&m, chunk);
		int err = front == NULL ? -ENOBUFS : ip_forward_push(t, lls, front, fragment | IP_MORE);

		if (err != 0) { /* the rest is useless without that fragment */
			xk_drop(&t->ip->protocol, m, front == NULL ? (unsigned)XK_DROP_NO_BUFFER : IP_DROP_UNSENT);
			return err;
		}
		fragment += (uint16_t)(chunk / 8);
		if (is_first && t->header_len > IP_HEADER_LEN) {
			ip_forward_keep_copied(t);
			t->sum = xk_sum(0, t->header, t->header_len);
		}
		is_first = false;
	}
	return ip_forward_push(t, lls, m, fragment);
}

void
ip_forward(struct ip *ip, struct xk_msg *m, const uint8_t *header, size_t header_len)
{
	struct xk_protocol *self = &ip->protocol;
	struct ip_transit t = { .ip = ip, .header_len = header_len };
	struct xk_participants below = { .remote.depth = 0 };
	struct xk_session *lls;
	uint32_t hop = 0;
	uint16_t fragment;
	unsigned why;
	uint8_t *p;

	memcpy(t.header, header, header_len);
	why = ip_forward_check(&t, m);
	if (why == 0)
		why = ip_forward_route(&t, m, &hop);
	if (why == 0) {
		xk_participant_push(&below.remote, hop);
		xk_participant_push(&below.local, XK_VNET_LAZY);
		if (xk_open(self, self, xk_lower(self, 0), &below, &lls) != 0)
			why = XK_DROP_NO_MEMORY;
	}
	if (why != 0) {
		xk_drop(self, m, why);
		return;
	}
	m->flags &= XK_MSG_TRACED; /* the port verified the old header */
	xk_count(self, IP_COUNT_FORWARDED);
	ip_forward_count_down(t.header);
	if (xk_msg_len(m) + t.header_len <= t.mtu) {
		p = xk_msg_push(&m, t.header_len);
		if (p != NULL) {
			memcpy(p, t.header, t.header_len);
			xk_push(lls, m);
		} else {
			xk_drop(self, m, XK_DROP_NO_BUFFER);
		}
	} else {
		xk_count(self, IP_COUNT_FORWARD_FRAGMENTED);
		fragment = xk_get16(t.header + IP_FRAGMENT);
		t.id = XK_GET(ip, identification, t.header);
		XK_PUT(ip, length, t.header, 0);
		XK_PUT(ip, identification, t.header, 0);
		xk_put16(t.header + IP_FRAGMENT, 0);
		XK_PUT(ip, checksum, t.header, 0);
		t.sum = xk_sum(0, t.header, t.header_len);
		ip_forward_fragments(&t, lls, m, fragment);
	}
	xk_close(lls);
}
