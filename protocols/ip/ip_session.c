/* ip_session.c - IP's sessions, and their addresses and routes; see ip.c. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocols/ip/ip_private.h"
#include "xkernel/trace.h"

/* ---- routes ---- */

/* Adds a route, which errors quote as `text`. Returns 0 or -errno. */
static int
ip_route_add(struct ip *ip, struct ip_route route, const char *text)
{
	struct ip_route *at = ip->route, *end = at + ip->routes;
	const char *wrong;
	unsigned index;
	int err = -EINVAL;

	while (at < end && (at->mask > route.mask || (at->mask == route.mask && at->network != route.network)))
		at++;
	if ((route.network & ~route.mask) != 0) {
		wrong = "has bits set behind its prefix";
	} else if (ip_kind(ip, route.gateway, &index) != XK_VNET_ON_LINK) {
		wrong = "has a gateway that is no neighbour on any network of ours";
	} else if (at < end && at->mask == route.mask) {
		wrong = "is for a network that has a route already";
		err = -EEXIST;
	} else if (ip->routes == IP_ROUTES) {
		wrong = "is one too many";
		err = -E2BIG;
	} else {
		memmove(at + 1, at, (size_t)(end - at) * sizeof(*at));
		*at = route;
		ip->routes++;
		return 0;
	}
	xk_trace(&ip->protocol, XK_TRACE_NONE, "route '%s' %s", text, wrong);
	return err;
}

int
ip_session_make_routes(struct ip *ip)
{
	const char *next = ip->routes_text != NULL ? ip->routes_text : "";
	char text[64], network[16], bits[3], gateway[16], end;
	size_t len;
	int err = 0;

	for (; err == 0 && *next != '\0'; next += len + (next[len] == ',')) {
		struct ip_route route;

		len = strcspn(next, ",");
		snprintf(text, sizeof(text), "%.*s", (int)len, next);
		if (sscanf(text, "%15[0-9.]/%2[0-9]=%15[0-9.]%c", network, bits, gateway, &end) != 3 ||
		    atoi(bits) > 32 || !xk_host_parse(network, &route.network) ||
		    !xk_host_parse(gateway, &route.gateway)) {
			xk_trace(&ip->protocol, XK_TRACE_NONE,
				 "route '%s' is not network/bits=gateway, as in 10.1.0.0/16=10.77.0.1", text);
			return -EINVAL;
		}
		route.mask = atoi(bits) == 0 ? 0 : UINT32_MAX << (32 - atoi(bits));
		err = ip_route_add(ip, route, text);
	}
	if (err == 0 && ip->gateway != 0)
		err = ip_route_add(ip, (struct ip_route){ 0, 0, ip->gateway }, "0.0.0.0/0");
	return err;
}

int
ip_session_next_hop(const struct ip *ip, uint32_t remote, uint32_t *hop, unsigned *index)
{
	enum xk_vnet_kind kind = ip_kind(ip, remote, index);

	*hop = remote;
	if (kind == XK_VNET_BROADCAST || kind == XK_VNET_ON_LINK)
		return 0;
	/* to itself, "this network", loopback, multicast and reserved addresses */
	if (kind == XK_VNET_MINE || remote >> 24 == 0 || remote >> 24 == 127 || remote >= UINT32_C(0xe0000000))
		return -EINVAL;
	for (const struct ip_route *route = ip->route; route < ip->route + ip->routes; route++)
		if ((remote & route->mask) == route->network) {
			*hop = route->gateway;
			ip_kind(ip, *hop, index);
			return 0;
		}
	return -ENETUNREACH;
}

/* ---- addresses ---- */

bool
ip_session_is_to_all(const struct ip *ip, uint32_t host)
{
	unsigned index;
	enum xk_vnet_kind kind = ip_kind(ip, host, &index);

	if (kind == XK_VNET_ON_LINK) /* the network itself: the old broadcast address */
		return ip->interface[index].broadcast != 0 && (host & ~ip->interface[index].mask) == 0;
	return kind == XK_VNET_BROADCAST || host >= UINT32_C(0xe0000000);
}

unsigned
ip_session_check_source(const struct ip *ip, uint32_t source)
{
	unsigned index;

	if (source >> 24 == 127)
		return IP_DROP_MARTIAN;
	if (source >> 24 == 0 || ip_session_is_to_all(ip, source) || ip_kind(ip, source, &index) == XK_VNET_MINE)
		return IP_DROP_BAD_SOURCE;
	return 0;
}

unsigned
ip_session_check_stranger(struct ip *ip, struct ip_header h)
{
	unsigned why = ip_session_check_source(ip, h.source), index;
	enum xk_vnet_kind kind = ip_kind(ip, h.destination, &index);

	if (h.destination >> 24 == 127)
		return IP_DROP_MARTIAN;
	if (why != 0)
		return why;
	if (kind != XK_VNET_MINE && kind != XK_VNET_BROADCAST)
		return IP_DROP_NOT_MINE;
	return xk_table_enabled(&ip->protocol, xk_table_number_key(h.protocol)) == NULL ? XK_DROP_NO_SESSION : 0;
}

/* ---- sessions ---- */

/* The addresses and protocol of a session's datagrams, and whether an upper opened it. */
struct ip_session_how {
	uint32_t remote, destination;
	uint8_t protocol;
	bool opened;
};

int
ip_session_setup(struct xk_session *session, const void *argument)
{
	const struct ip_session_how *how = argument;
	struct ip_session *s = (struct ip_session *)session;
	struct ip *ip = (struct ip *)session->protocol;
	uint32_t max_packet;
	unsigned index = 0;
	uint64_t mixed = ip->seed ^ ((uint64_t)how->remote << 32 | how->destination);
	int got = xk_control(session->lls, XK_GET_MAX_PACKET, &max_packet, sizeof(max_packet));

	if (got < (int)sizeof(max_packet) || max_packet < IP_MTU_MIN)
		return got < 0 ? got : -EMSGSIZE;
	s->remote = how->remote;
	s->destination = s->local = how->destination;
	if (ip_kind(ip, how->destination, &index) != XK_VNET_MINE) { /* a broadcast */
		ip_kind(ip, how->remote, &index);
		s->local = ip->interface[index].host;
	}
	s->link_max = max_packet - IP_HEADER_LEN < XK_IP_MAX_PACKET ? max_packet - IP_HEADER_LEN : XK_IP_MAX_PACKET;
	s->whole_flags = ip->pmtu ? IP_DONT_FRAGMENT : 0;
	atomic_store_explicit(&s->any_lls, how->opened, memory_order_relaxed);
	atomic_store_explicit(&s->whole_max, ip_fault_whole_max(ip, s), memory_order_relaxed);
	/* two rounds: after one, the hosts would tell the difference of two sessions' numbers */
	mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
	atomic_store_explicit(&s->id, (uint16_t)(mixed >> 48) | 1, memory_order_relaxed);
	ip_header_prepare(s->header, (uint8_t)ip->ttl, how->protocol, s->local, s->remote);
	s->sum = ip_header_sum(s->header);
	return 0;
}

int
ip_session_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		struct xk_participants *participants, struct xk_session **session)
{
	const struct ip *ip = (const struct ip *)self;
	uint64_t remote = xk_participant_pop(&participants->remote), local = xk_participant_pop(&participants->local);
	bool lazy = local == XK_IP_LAZY;
	struct xk_participants below = { .remote.depth = 0 };
	struct ip_session_how how = { .remote = (uint32_t)remote, .opened = true };
	struct xk_session *lls;
	struct xk_key key;
	uint32_t number, next;
	uint64_t hop;
	unsigned index = 0, own;
	int err = xk_number(self, hlp_type, &number);

	if (err != 0)
		return err;
	if (lazy)
		local = xk_participant_pop(&participants->local);
	if (remote > UINT32_MAX || (local > UINT32_MAX && local != XK_ANY))
		return -EINVAL;
	err = ip_session_next_hop(ip, how.remote, &next, &index);
	if (err != 0)
		return err;
	hop = next;
	how.destination = local == XK_ANY ? ip->interface[index].host : (uint32_t)local;
	how.protocol = (uint8_t)number;
	if (ip_kind(ip, how.destination, &own) != XK_VNET_MINE)
		return -EADDRNOTAVAIL;
	key = ip_key(how.protocol, how.remote, how.destination, NULL);
	err = xk_table_share(self, key, hlp_receive, hlp_type, session);
	if (err == -ENOENT) {
		xk_participant_push(&below.remote, hop);
		if (lazy)
			xk_participant_push(&below.local, XK_VNET_LAZY);
		err = xk_open(self, self, xk_lower(self, 0), &below, &lls); /* may wait unless lazy */
		if (err == 0)
			err = xk_table_open(self, key, hlp_receive, hlp_type, lls, &how, session);
	}
	/*
	 * A learned session stands on one that leads where its datagrams came from. Once opened it follows the next
	 * hop, unless the open is lazy: that one only answers.
	 */
	if (err == 0 && !lazy &&
	    !atomic_exchange_explicit(&((struct ip_session *)*session)->any_lls, true, memory_order_relaxed))
		xk_control((*session)->lls, XK_VNET_FOLLOW, &hop, sizeof(hop));
	return err;
}

struct xk_session *
ip_session_find(struct ip *ip, struct xk_session *lls, struct xk_msg *m, const struct xk_session *first)
{
	struct xk_protocol *self = &ip->protocol;
	struct ip_header h = ip_header_load(m->data - IP_HEADER_LEN);
	struct xk_key first_key = ip_key(h.protocol, h.source, h.destination, NULL);
	struct xk_key own_key = ip_key(h.protocol, h.source, h.destination, lls);
	struct xk_key number = xk_table_number_key(h.protocol);
	struct ip_session_how how = { h.source, h.destination, h.protocol, false };
	struct xk_session *s = xk_table_find(self, own_key);
	unsigned why;

	if (s != NULL)
		return s;
	why = ip_session_check_stranger(ip, h);
	if (why != 0) {
		ip_undelivered(ip, m, why);
		return NULL;
	}
	s = xk_table_accept(self, first == NULL ? first_key : own_key, number, lls, &how, m);
	/* another shepherd was faster, with a datagram that came up another session below */
	if (s != NULL && !ip_session_hears(s, lls))
		s = xk_table_accept(self, own_key, number, lls, &how, m);
	return s;
}
