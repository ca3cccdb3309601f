/*
 * ip_forward.c - datagrams that are not for this host go on to where they belong; see ip.c.
 *
 * Spec:      RFC 1812 (5.2, 5.3), 3927 (7), 1624 (the checksum is changed, not computed anew), 2644
 * Rules:     Nothing goes on that came to everybody on its link, or is for everybody, for a group, or for addresses that
 *            are nobody's; nor from such sources. The time to live is counted down; fragments are not put together;
 *            what is too long for the next link is fragmented, or (DF) refused. Options go on as they are, unread, the
 *            copied ones with every fragment; except that whoever wants to choose the route is refused.
 * Faults:    network unreachable, time exceeded and fragmentation needed are told here, host unreachable when ARP has
 *            given up (ip_fault.c).
 * Memory:    nothing waits here: in ARP few messages per neighbour do, and in the port its ring.
 * Not done:  redirects are not sent, source routes not followed, sources not checked against the link they come from
 */
#include <errno.h>
#include <string.h>

#include "protocols/ip/ip_private.h"

/* A datagram on its way through this host, its header taken off. */
struct ip_transit {
	struct ip *ip;
	uint8_t header[XK_IP_HEADER_MAX];
	size_t header_len;
	uint32_t destination;
	uint32_t hop, mtu; /* the next host, and what the link to it takes */
	uint16_t fragment;
};

/* ---- options ---- */

/* Leaves the options that every fragment has (RFC 791, 3.1). */
static void
ip_forward_keep_copied(struct ip_transit *t)
{
	size_t keep = IP_HEADER_LEN, len;

	for (size_t at = IP_HEADER_LEN; (len = ip_option_len(t->header, t->header_len, at)) != 0; at += len)
		if ((t->header[at] & IP_OPTION_COPIED) != 0) {
			memmove(t->header + keep, t->header + at, len);
			keep += len;
		}
	while (keep % 4 != 0)
		t->header[keep++] = IP_OPTION_END;
	t->header_len = keep;
	t->header[IP_VERSION] = (uint8_t)(0x40 | keep / 4);
}

/* ---- whether ---- */

static unsigned
ip_forward_refuse(const struct ip_transit *t, const struct xk_msg *m, enum xk_fault fault, unsigned why)
{
	struct xk_ip_trouble trouble = {
		.fault = fault,
		.mtu = t->mtu,
		.header = t->header,
		.header_len = t->header_len,
		.m = m,
	};

	ip_fault_send(t->ip, &trouble);
	return why;
}

/* Addresses of 169.254/16 mean something on one link only, whatever routes say (RFC 3927, 7). */
static bool
ip_forward_is_link_local(uint32_t host)
{
	return host >> 16 == 0xa9fe;
}

/* Whether t may go on at all. 0, or the reason to drop it. */
static unsigned
ip_forward_check(const struct ip_transit *t, const struct xk_msg *m)
{
	uint32_t destination = t->destination, source = xk_get32(t->header + IP_SOURCE);
	unsigned why = ip_session_check_source(t->ip, source);

	if (why != 0)
		return why;
	if (t->header[IP_TTL] == 0)
		return IP_DROP_TTL_ZERO;
	if (destination >> 24 == 127)
		return IP_DROP_MARTIAN;
	if (destination >> 24 == 0 || ip_session_is_to_all(t->ip, destination) || (m->flags & XK_MSG_TO_ALL) != 0 ||
	    ip_forward_is_link_local(destination) || ip_forward_is_link_local(source))
		return IP_DROP_NOT_FORWARDED;
	if (ip_options_have_source_route(t->header, t->header_len))
		return IP_DROP_SOURCE_ROUTE;
	/* its end is where no datagram has one, and must not overflow when its pieces are numbered */
	if ((size_t)(t->fragment & IP_OFFSET) * 8 + xk_msg_len(m) > IP_REASSEMBLY_MAX)
		return IP_DROP_REASSEMBLY + IP_REASSEMBLY_TOO_LONG;
	return 0;
}

/* Where t goes, and whether it can. 0, or the reason to drop it, of which its sender has been told. */
static unsigned
ip_forward_route(struct ip_transit *t, const struct xk_msg *m)
{
	unsigned index = 0;

	if (t->header[IP_TTL] <= 1)
		return ip_forward_refuse(t, m, XK_FAULT_HOPS, IP_DROP_EXPIRED);
	if (ip_session_next_hop(t->ip, t->destination, &t->hop, &index) != 0)
		return ip_forward_refuse(t, m, XK_FAULT_NETWORK, IP_DROP_NO_ROUTE);
	t->mtu = t->ip->interface[index].max_packet;
	if (xk_msg_len(m) + t->header_len > t->mtu && (t->fragment & IP_DONT_FRAGMENT) != 0)
		return ip_forward_refuse(t, m, XK_FAULT_TOO_BIG, IP_DROP_DONT_FRAGMENT);
	return 0;
}

/* ---- on it goes ---- */

/* Changes the checksum as one word of the header changes (RFC 1624, equation 3). */
static void
ip_forward_count_down(uint8_t *header)
{
	uint32_t sum = (uint16_t)~xk_get16(header + IP_CHECKSUM);

	sum += (uint16_t)~xk_get16(header + IP_TTL);
	header[IP_TTL]--;
	sum += xk_get16(header + IP_TTL);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	xk_put16(header + IP_CHECKSUM, (uint16_t)~sum);
}

static int
ip_forward_push(const struct ip_transit *t, struct xk_session *lls, struct xk_msg *m)
{
	uint8_t *p = xk_msg_push(&m, t->header_len);

	if (p == NULL) {
		xk_drop(&t->ip->protocol, m, XK_DROP_NO_BUFFER);
		return -ENOBUFS;
	}
	memcpy(p, t->header, t->header_len);
	return xk_push(lls, m);
}

/* One piece of t, whose fields it writes. */
static int
ip_forward_piece(struct ip_transit *t, struct xk_session *lls, struct xk_msg *m, uint16_t fragment)
{
	xk_put16(t->header + IP_LENGTH, (uint16_t)(xk_msg_len(m) + t->header_len));
	xk_put16(t->header + IP_FRAGMENT, fragment);
	xk_put16(t->header + IP_CHECKSUM, 0);
	xk_checksum_store(t->header + IP_CHECKSUM, xk_checksum_finish(xk_sum(0, t->header, t->header_len)));
	return ip_forward_push(t, lls, m);
}

static void
ip_forward_pieces(struct ip_transit *t, struct xk_session *lls, struct xk_msg *m)
{
	uint16_t fragment = t->fragment;

	xk_count(&t->ip->protocol, IP_COUNT_FORWARD_FRAGMENTED);
	while (xk_msg_len(m) + t->header_len > t->mtu) {
		size_t chunk = (t->mtu - t->header_len) & ~(size_t)7;
		struct xk_msg *front = xk_msg_split(&m, chunk);

		if (front == NULL) {
			xk_drop(&t->ip->protocol, m, XK_DROP_NO_BUFFER);
			return;
		}
		if (ip_forward_piece(t, lls, front, fragment | IP_MORE) != 0) {
			xk_drop(&t->ip->protocol, m, IP_DROP_UNSENT);
			return;
		}
		if ((t->fragment & IP_OFFSET) == (fragment & IP_OFFSET))
			ip_forward_keep_copied(t);
		fragment += (uint16_t)(chunk / 8);
	}
	ip_forward_piece(t, lls, m, fragment);
}

static void
ip_forward_send(struct ip_transit *t, struct xk_msg *m)
{
	struct xk_protocol *self = &t->ip->protocol;
	struct xk_participants below = { .remote.depth = 0 };
	struct xk_session *lls;

	xk_participant_push(&below.remote, t->hop);
	xk_participant_push(&below.local, XK_VNET_LAZY);
	if (xk_open(self, self, xk_lower(self, 0), &below, &lls) != 0) {
		xk_drop(self, m, XK_DROP_NO_MEMORY);
		return;
	}
	m->flags &= XK_MSG_TRACED; /* what the port has verified was of what came */
	xk_count(self, IP_COUNT_FORWARDED);
	ip_forward_count_down(t->header);
	if (xk_msg_len(m) + t->header_len <= t->mtu)
		ip_forward_push(t, lls, m);
	else
		ip_forward_pieces(t, lls, m);
	xk_close(lls);
}

void
ip_forward(struct ip *ip, struct xk_msg *m, const uint8_t *header, size_t header_len)
{
	struct ip_transit t = { .ip = ip, .header_len = header_len };
	unsigned why;

	memcpy(t.header, header, header_len);
	t.destination = xk_get32(header + IP_DESTINATION);
	t.fragment = xk_get16(header + IP_FRAGMENT);
	why = ip_forward_check(&t, m);
	if (why == 0)
		why = ip_forward_route(&t, m);
	if (why == 0)
		ip_forward_send(&t, m);
	else
		xk_drop(&ip->protocol, m, why);
}
