/*
 * ip.c - IPv4 datagrams of up to 65,515 bytes between hosts, with routes, fragmentation and reassembly.
 *
 * Spec:         RFC 791, 1122 (3.2), 6864; 20-byte header
 * Participants: the top of each stack is a 32-bit host. Opening needs the remote one; the local one defaults to the
 *               address of the route's interface. Enabling takes no hosts.
 * Sessions:     one per (upper's number, remote host, local host), shared by opens of the same upper. Opening may wait
 *               (ARP). A stranger's first datagram makes a session that answers where it came from, without a query;
 *               the same host's datagrams through another session below get a session of their own. A session that
 *               an upper opened accepts its peer's datagrams from every session below.
 * Broadcast:    may be opened, and received. A session that receives broadcasts sends from the interface's own
 *               address to their sender.
 * Fragments:    are sent without copying. Arriving ones wait (ip_reassembly.h), each in a whole buffer: size the pool
 *               for reassembly_bytes.
 * Identification: odd and counted per session for whole datagrams; even for fragmented ones: a secret function of
 *               addresses and protocol, plus a count that few others share (RFC 7739, 5.4). Thus no host can predict
 *               another's numbers, or infer its traffic, from its own, and the numbers of fragmented datagrams do not
 *               repeat within 32,768 of them, even if the session was closed meanwhile.
 * Control:      XK_GET_MAX_PACKET, XK_GET_OPT_PACKET, XK_GET_MY_HOST, XK_GET_PEER_HOST; ip.h; from below XK_VNET_UNSENT
 * Not done:     options of our own, multicast, redirects
 * Graph:        ip -> vnet, or any protocol that takes a neighbour's 32-bit host and has XK_VNET_GET_INTERFACES
 */
#include "protocols/ip/ip.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocols/ip/ip_private.h"
#include "xkernel/path.h"
#include "xkernel/siphash.h"
#include "xkernel/trace.h"

static const char *const ip_drops[] = {
	"bad_version",    "bad_header",    "bad_options",      "bad_length",   "bad_checksum",
	"bad_flags",      "ttl_zero",      "bad_source",       "martian",      "not_mine",
	"link_broadcast", "too_big",       "unsent",           "expired",      "no_route",
	"dont_fragment",  "not_forwarded", "source_route",     "duplicate",    "overlap",
	"inconsistent",   "too_many",      "refused_datagram", "bad_fragment", "too_long",
	"tiny",           "evicted",       "timed_out",        NULL,
};
static_assert(XK_ARRAY_LENGTH(ip_drops) == IP_DROP_REASSEMBLY - XK_DROP_OWN + IP_REASSEMBLY_REASONS + 1,
	      "a name for each reason");

static const char *const ip_counters[] = { "fragmented",   "reassembled",    "forwarded", "forward_fragmented",
					   "path_lowered", "path_forgotten", "unquoted",  NULL };
static_assert(XK_ARRAY_LENGTH(ip_counters) == IP_COUNT_UNQUOTED + 2, "a name for each counter");

/* ---- routes ---- */

/* Adds a route, which errors quote as `text`. Returns 0 or -errno. */
static int
ip_route_add(struct ip *ip, struct ip_route route, const char *text)
{
	struct ip_route *at = ip->route, *end = at + ip->routes;
	unsigned index;
	enum xk_vnet_kind kind = ip_kind(ip, route.gateway, &index);
	const char *wrong;
	int err = -EINVAL;

	while (at < end && (at->mask > route.mask || (at->mask == route.mask && at->network != route.network)))
		at++;
	if ((route.network & ~route.mask) != 0) {
		wrong = "has bits set behind its prefix";
	} else if (kind == XK_VNET_ELSEWHERE) {
		wrong = "has a gateway on none of our networks: if it is on the link all the same, name it in "
			"vnet.onlink";
	} else if (kind != XK_VNET_ON_LINK) {
		wrong = "has a gateway that is an address of ours, or all hosts'";
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

/* Makes the routes of the settings. Returns 0, or after a trace -EINVAL, -E2BIG or -EEXIST. */
static int
ip_make_routes(struct ip *ip)
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
ip_next_hop(const struct ip *ip, uint32_t remote, uint32_t *hop, unsigned *index)
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
ip_is_to_all(const struct ip *ip, uint32_t host)
{
	unsigned index;
	enum xk_vnet_kind kind = ip_kind(ip, host, &index);

	if (kind == XK_VNET_ON_LINK) /* the network itself: the old broadcast address */
		return ip->interface[index].broadcast != 0 &&
		       host == (ip->interface[index].host & ip->interface[index].mask);
	return kind == XK_VNET_BROADCAST || host >= UINT32_C(0xe0000000);
}

unsigned
ip_check_source(const struct ip *ip, uint32_t source)
{
	unsigned index;

	if (source >> 24 == 127)
		return IP_DROP_MARTIAN;
	if (source >> 24 == 0 || ip_is_to_all(ip, source) || ip_kind(ip, source, &index) == XK_VNET_MINE)
		return IP_DROP_BAD_SOURCE;
	return 0;
}

/* Checks that a datagram without a session is for us and for an enabled protocol. Returns 0, or the drop reason. */
static unsigned
ip_check_stranger(struct ip *ip, struct ip_header h)
{
	unsigned why = ip_check_source(ip, h.source), index;
	enum xk_vnet_kind kind = ip_kind(ip, h.destination, &index);

	if (h.destination >> 24 == 127)
		return IP_DROP_MARTIAN;
	if (why != 0)
		return why;
	if (kind != XK_VNET_MINE && kind != XK_VNET_BROADCAST)
		return IP_DROP_NOT_MINE;
	return xk_table_enabled(&ip->protocol, xk_table_number_key(h.protocol)) == NULL ? XK_DROP_NO_SESSION : 0;
}

/* ---- init and fini ---- */

static void
ip_drop_discarded(struct ip *ip, const struct ip_reassembly_discarded *discarded)
{
	for (unsigned reason = 0; reason < IP_REASSEMBLY_REASONS; reason++) {
		struct xk_msg *next;

		for (struct xk_msg *m = discarded->first[reason]; m != NULL; m = next) {
			next = m->link;
			if (reason == IP_REASSEMBLY_TIMED_OUT)
				ip_fault_refuse(&ip->protocol, NULL, XK_FAULT_REASSEMBLY, m, 0);
			xk_drop(&ip->protocol, m, IP_DROP_REASSEMBLY + reason);
		}
	}
}

/* Counts the waiting fragments' buffers as kept (xk_keep). Under the lock, after each change of the table. */
static void
ip_count_reassembly(struct ip *ip)
{
	uint32_t kept = ip->reassembly.pinned / IP_REASSEMBLY_BUFFER;

	if (kept > ip->kept)
		xk_keep(&ip->protocol, kept - ip->kept);
	else if (kept < ip->kept)
		xk_unkeep(&ip->protocol, ip->kept - kept);
	ip->kept = kept;
}

static void
ip_tick(struct xk_event *event, void *argument)
{
	struct ip *ip = argument;
	struct ip_reassembly_discarded discarded = { .some = false };

	xk_lock(&ip->lock);
	ip->ticking = ip_reassembly_tick(&ip->reassembly, &discarded);
	ip_count_reassembly(ip);
	if (ip->ticking)
		xk_event_schedule(&ip->tick, ip->timeout_ns / 1000 / IP_REASSEMBLY_TICKS);
	xk_unlock(&ip->lock);
	if (xk_unlikely(discarded.some))
		ip_drop_discarded(ip, &discarded);
}

static void
ip_fini(struct xk_protocol *self)
{
	struct ip *ip = (struct ip *)self;

	xk_event_cancel(&ip->tick);
	xk_event_cancel(&ip->path_tick);
	free(ip->path);
	ip_reassembly_fini(&ip->reassembly);
	ip_count_reassembly(ip);
}

static int
ip_init(struct xk_protocol *self)
{
	struct ip *ip = (struct ip *)self;
	struct xk_protocol *below = xk_lower(self, 0);
	struct xk_participants anybody = { 0 };
	int err, got = xk_control_protocol(below, XK_VNET_GET_INTERFACES, ip->interface, sizeof(ip->interface));

	if (got < (int)sizeof(ip->interface[0])) {
		xk_trace(self, XK_TRACE_NONE, "%s below has no addresses for this host", below->name);
		return got < 0 ? got : -EADDRNOTAVAIL;
	}
	ip->interfaces = (unsigned)got / (unsigned)sizeof(ip->interface[0]);
	ip->key[0] = ip->seed != 0 ? ip->seed : xk_random(self);
	ip->key[1] = ~ip->key[0]; /* 64 secret bits are enough */
	xk_lock_init(&ip->lock, self);
	xk_event_init(&ip->tick, self->kernel, ip_tick, ip);
	xk_event_init(&ip->path_tick, self->kernel, ip_fault_tick, ip);
	ip->path = calloc(ip->pmtu_entries, sizeof(*ip->path));
	err = ip->path == NULL ? -ENOMEM : ip_make_routes(ip);
	if (err == 0)
		err = ip_reassembly_init(&ip->reassembly, &ip->limits);
	if (err == 0)
		err = xk_open_enable(self, self, below, &anybody);
	if (err != 0)
		ip_fini(self);
	return err;
}

/* ---- sessions ---- */

/* The addresses and protocol of a session's datagrams, and whether an upper opened it. */
struct ip_session_how {
	uint32_t remote, destination;
	uint8_t protocol;
	bool opened;
};

static int
ip_setup(struct xk_session *session, const void *argument)
{
	const struct ip_session_how *how = argument;
	struct ip_session *s = (struct ip_session *)session;
	struct ip *ip = (struct ip *)session->protocol;
	unsigned index = 0;
	uint64_t hash = siphash(ip->key, (uint64_t)how->remote << 32 | how->destination, how->protocol);
	int err;

	s->remote = how->remote;
	s->destination = s->local = how->destination;
	if (ip_kind(ip, how->destination, &index) != XK_VNET_MINE) { /* a broadcast */
		ip_kind(ip, how->remote, &index);
		s->local = ip->interface[index].host;
	}
	err = ip_fault_set_longest(ip, s);
	if (err != 0)
		return err;
	s->whole_flags = ip->pmtu ? IP_DONT_FRAGMENT : 0;
	atomic_store_explicit(&s->any_lls, how->opened, memory_order_relaxed);
	atomic_store_explicit(&s->id, (uint16_t)hash | 1, memory_order_relaxed);
	s->fragment_first = (uint16_t)(hash >> 16) & 0xfffe;
	s->fragment_count = (uint16_t)(hash >> 32) % IP_FRAGMENT_COUNTS;
	ip_header_prepare(s->header, (uint8_t)ip->ttl, how->protocol, s->local, s->remote);
	s->sum = ip_header_sum(s->header);
	xk_put16(s->header + IP_FRAGMENT, s->whole_flags); /* for paths: ip_header_store adds it itself */
	return 0;
}

static int
ip_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
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
	err = ip_next_hop(ip, how.remote, &next, &index);
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

/* Returns whether s (NULL: no) accepts datagrams that come up lls. */
static inline bool
ip_session_hears(const struct xk_session *s, const struct xk_session *lls)
{
	return xk_likely(s != NULL) && (xk_likely(s->lls == lls) ||
					atomic_load_explicit(&((struct ip_session *)s)->any_lls, memory_order_relaxed));
}

/* Drops m, telling its sender, or forwards it. If its header was valid, it lies in front. Takes m. */
static void
ip_undelivered(struct ip *ip, struct xk_msg *m, unsigned why)
{
	if (ip->forward && why == IP_DROP_NOT_MINE) {
		ip_forward(ip, m, m->data - IP_HEADER_LEN, IP_HEADER_LEN);
		return;
	}
	if (why == XK_DROP_NO_SESSION)
		ip_fault_refuse(&ip->protocol, NULL, XK_FAULT_PROTOCOL, m, 0);
	xk_drop(&ip->protocol, m, why);
}

/*
 * Finds the session of m, which came up lls, or accepts one. `first`, the session found by addresses alone, does not
 * hear lls. The header lies in front of m. Returns NULL if m could not be delivered; m was then taken.
 */
static struct xk_session *
ip_find_session(struct ip *ip, struct xk_session *lls, struct xk_msg *m, const struct xk_session *first)
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
	why = ip_check_stranger(ip, h);
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

/* ---- down ---- */

/* Pushes a message longer than whole_max. */
XK_APART static int
ip_push_long(struct xk_session *session, struct xk_msg *m, uint32_t whole_max)
{
	struct ip_session *s = (struct ip_session *)session;
	struct ip *ip = (struct ip *)session->protocol;
	struct ip_transit t = { ip, .header_len = IP_HEADER_LEN, .mtu = whole_max + IP_HEADER_LEN, .sum = s->sum };

	if (xk_msg_len(m) > XK_IP_MAX_PACKET) {
		xk_drop(session->protocol, m, IP_DROP_TOO_BIG);
		return -EMSGSIZE;
	}
	memcpy(t.header, s->header, IP_HEADER_LEN);
	t.id = (uint16_t)(s->fragment_first + 2 * atomic_fetch_add_explicit(&ip->fragment_counts[s->fragment_count], 1,
									    memory_order_relaxed));
	xk_count(session->protocol, IP_COUNT_FRAGMENTED);
	return ip_forward_fragments(&t, session->lls, m, 0);
}

static int
ip_push(struct xk_session *session, struct xk_msg *m)
{
	struct ip_session *s = (struct ip_session *)session;
	uint32_t whole_max = atomic_load_explicit(&s->whole_max, memory_order_relaxed);
	uint16_t id;

	if (xk_unlikely(xk_msg_len(m) > whole_max))
		return ip_push_long(session, m, whole_max);
	m = xk_push_header(session, m, IP_HEADER_LEN);
	if (xk_unlikely(m == NULL))
		return -ENOBUFS;
	/* two shepherds may get the same number: only fragments are identified by it */
	id = atomic_load_explicit(&s->id, memory_order_relaxed);
	atomic_store_explicit(&s->id, (uint16_t)(id + 2), memory_order_relaxed);
	ip_header_store(m->data, s->header, s->sum, xk_msg_len(m), id, s->whole_flags);
	return xk_push(session->lls, m);
}

/* ---- up ---- */

/* Limits reassembly to the buffers that the host has left; as at any other limit, the oldest datagram makes room. */
static void
ip_limit_reassembly(struct ip *ip)
{
	uint64_t bytes = (uint64_t)xk_keep_limit(&ip->protocol) * IP_REASSEMBLY_BUFFER;

	ip->reassembly.limits.bytes = bytes < ip->limits.bytes ? bytes : ip->limits.bytes;
	ip->reassembly.least_bytes = ip->reassembly.limits.bytes < ip->limits.source_bytes ? ip->reassembly.limits.bytes
											   : ip->limits.source_bytes;
}

/* Takes fragment m, whose header lies in front. Returns the datagram if m completes it, else NULL. */
static struct xk_msg *
ip_reassemble(struct ip *ip, struct xk_msg *m)
{
	struct ip_header h = ip_header_load(m->data - IP_HEADER_LEN);
	struct ip_reassembly_discarded discarded = { .some = false };
	struct ip_reassembly_fragment fragment = { h.source, h.destination, (uint32_t)(h.fragment & IP_OFFSET) * 8,
						   h.id,     h.protocol,    (h.fragment & IP_MORE) != 0 };
	unsigned why = 0;

	/* no memory for fragments of datagrams that would not be delivered */
	if ((h.fragment & IP_RESERVED) != 0)
		why = IP_DROP_BAD_FLAGS;
	else if (xk_table_find(&ip->protocol, ip_key(h.protocol, h.source, h.destination, NULL)) == NULL)
		why = ip_check_stranger(ip, h);
	if (why != 0) {
		ip_undelivered(ip, m, why);
		return NULL;
	}
	xk_trace(&ip->protocol, XK_TRACE_MESSAGES, "fragment of datagram %04x: %zu bytes from %u on%s", h.id,
		 xk_msg_len(m), fragment.offset, fragment.more ? "" : ", the last");
	xk_lock(&ip->lock);
	ip_limit_reassembly(ip);
	m = ip_reassembly_add(&ip->reassembly, &fragment, m, &discarded);
	ip_count_reassembly(ip);
	if (!ip->ticking && ip->reassembly.datagrams > 0) {
		ip->ticking = true;
		xk_event_schedule(&ip->tick, ip->timeout_ns / 1000 / IP_REASSEMBLY_TICKS);
	}
	xk_unlock(&ip->lock);
	if (xk_unlikely(discarded.some))
		ip_drop_discarded(ip, &discarded);
	if (m == NULL)
		return NULL;
	xk_count(&ip->protocol, IP_COUNT_REASSEMBLED);
	xk_trace(&ip->protocol, XK_TRACE_MESSAGES, "datagram %04x is whole: %zu bytes", h.id, xk_msg_len(m));
	return m;
}

/* Delivers m, whose header lies in front, to a session other than the last one found. Takes m. */
XK_APART static void
ip_deliver(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	const uint8_t *p = m->data - IP_HEADER_LEN;
	struct xk_session *s = xk_table_lookup(self, (struct xk_key){ xk_get64(p + IP_SOURCE), p[IP_PROTOCOL] });

	if (!ip_session_hears(s, lls))
		s = ip_find_session((struct ip *)self, lls, m, s);
	if (s != NULL)
		xk_pop(s, lls, m, NULL);
}

/* Demultiplexes m where ip_demux cannot. `why` is the result of ip_header_check. Takes m. */
XK_APART static void
ip_demux_other(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m, unsigned why)
{
	struct ip *ip = (struct ip *)self;
	const uint8_t *p;
	unsigned index;

	if (why == IP_HAS_OPTIONS) {
		m = ip_options_take_off(ip, m);
		if (m == NULL)
			return;
		why = 0;
	}
	p = m->data;
	if (why == 0) {
		xk_msg_truncate(m, xk_get16(p + IP_LENGTH)); /* the link may have padded it */
		xk_msg_pop_in_place(m, IP_HEADER_LEN);
		/* a link broadcast must carry an IP broadcast (RFC 1122, 3.3.6) */
		if ((m->flags & XK_MSG_TO_ALL) != 0 &&
		    ip_kind(ip, xk_get32(p + IP_DESTINATION), &index) == XK_VNET_MINE)
			why = IP_DROP_LINK_BROADCAST;
	}
	if (why != 0)
		ip_undelivered(ip, m, why);
	else if (!ip_header_is_special(p) || (m = ip_reassemble(ip, m)) != NULL)
		ip_deliver(self, lls, m);
}

/* Saves no registers: code that makes calls is apart. A session's addresses were checked when it was made. */
static void
ip_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	const uint8_t *p = m->data;
	size_t length = xk_get16(p + IP_LENGTH);
	unsigned why = ip_header_check(p, length, m);
	struct xk_session *s;

	if (xk_unlikely(why != 0 || ip_header_is_special(p) || (m->flags & XK_MSG_TO_ALL) != 0 ||
			(length != xk_msg_len(m) && m->next != NULL))) {
		ip_demux_other(self, lls, m, why);
		return;
	}
	if (xk_unlikely(length != xk_msg_len(m)))
		xk_msg_cut_in_place(m, length);
	xk_msg_pop_in_place(m, IP_HEADER_LEN);
	s = xk_table_last(self, (struct xk_key){ xk_get64(p + IP_SOURCE), p[IP_PROTOCOL] });
	if (xk_likely(ip_session_hears(s, lls)))
		xk_pop(s, lls, m, NULL);
	else
		ip_deliver(self, lls, m);
}

/* ---- asking ---- */

/* Answers the questions that protocol and sessions share. */
static int
ip_answer(int op, void *buffer, size_t len, uint32_t whole_max, uint64_t host)
{
	uint32_t longest = op == XK_GET_OPT_PACKET ? whole_max : XK_IP_MAX_PACKET;

	if (op == XK_GET_MAX_PACKET || op == XK_GET_OPT_PACKET)
		return xk_answer(buffer, len, &longest, sizeof(longest));
	return op == XK_GET_MY_HOST ? xk_answer(buffer, len, &host, sizeof(host)) : -ENOTSUP;
}

static int
ip_session_control(struct xk_session *session, int op, void *buffer, size_t len)
{
	struct ip_session *s = (struct ip_session *)session;
	uint64_t host = op == XK_GET_PEER_HOST ? s->remote : s->destination;

	if (op == XK_GET_PEER_HOST || op == XK_IP_GET_DESTINATION)
		return xk_answer(buffer, len, &host, sizeof(host));
	return ip_answer(op, buffer, len, atomic_load_explicit(&s->whole_max, memory_order_relaxed), s->local);
}

static void
ip_link_visit(void *object, void *context)
{
	ip_fault_set_longest(context, object);
}

/* XK_PORT_CHANGED. If a link no longer carries datagrams, the port drops them as too long. */
static int
ip_links_changed(struct ip *ip)
{
	struct xk_vnet_interface now[XK_VNET_INTERFACES];

	if (xk_control_protocol(xk_lower(&ip->protocol, 0), XK_VNET_GET_INTERFACES, now, sizeof(now)) < 0)
		return 0;
	for (unsigned i = 0; i < ip->interfaces; i++)
		ip->interface[i].max_packet = now[i].max_packet;
	xk_map_for_each(&ip->protocol.table.sessions, ip_link_visit, ip);
	return 0;
}

static int
ip_control(struct xk_protocol *self, int op, void *buffer, size_t len)
{
	struct ip *ip = (struct ip *)self;
	const struct xk_vnet_interface *first = &ip->interface[0];

	if (op == XK_VNET_UNSENT)
		return ip_fault_unsent(ip, buffer);
	if (op == XK_PORT_CHANGED)
		return ip_links_changed(ip);
	return ip_answer(op, buffer, len, first->max_packet - IP_HEADER_LEN, first->host);
}

static int
ip_get_participants(struct xk_session *session, struct xk_participants *p)
{
	const struct ip_session *s = (const struct ip_session *)session;

	return xk_participant_push(&p->remote, s->remote) && xk_participant_push(&p->local, s->local) ? 0 : -E2BIG;
}

/* ---- paths ---- */

/* No path leads to a session with a key of its own lls: it would outlast the open that makes another session hear lls. */
static struct xk_session *
ip_find(struct xk_protocol *self, struct xk_session *lls, const uint8_t *p)
{
	struct xk_session *s = xk_table_find(self, (struct xk_key){ xk_get64(p + IP_SOURCE), p[IP_PROTOCOL] });

	return ip_session_hears(s, lls) ? s : NULL;
}

static void
ip_path(struct xk_session *session, struct xk_path_layer *layer)
{
	struct ip_session *s = (struct ip_session *)session;

	layer->header = s->header;
	layer->counter = &s->id;
	layer->counter_at = IP_ID;
	layer->counter_step = 2;
	layer->whole = &s->whole_max;
}

/* ---- tables ---- */

static const struct xk_session_ops ip_session_ops = {
	.size = sizeof(struct ip_session),
	.setup = ip_setup,
	.push = ip_push,
	.pop = xk_pop_through,
	.control = ip_session_control,
	.path = ip_path,
	.get_participants = ip_get_participants,
};

static const struct xk_protocol_ops ip_ops = {
	.init = ip_init,
	.fini = ip_fini,
	.open = ip_open,
	.demux = ip_demux,
	.find = ip_find,
	.control = ip_control,
};

static const struct xk_role ip_lowers[] = {
	{ "network", XK_ASYNC, NULL, "carries datagrams to neighbours; normally vnet" },
	{ NULL, 0, NULL, NULL },
};

static const struct xk_setting ip_settings[] = {
	{ "ttl", XK_SETTING_UINT, offsetof(struct ip, ttl), "64", "time to live of datagrams sent", 1, 255 },
	{ "routes", XK_SETTING_STRING, offsetof(struct ip, routes_text), NULL,
	  "network/bits=gateway,...: the longest prefix wins", 0, 0 },
	{ "gateway", XK_SETTING_HOST, offsetof(struct ip, gateway), NULL, "short for routes=\"0.0.0.0/0=gateway\"", 0,
	  0 },
	{ "seed", XK_SETTING_UINT, offsetof(struct ip, seed), "0", "seed of identifications; 0: random", 0, 0 },
	{ "reassembly_timeout", XK_SETTING_TIME, offsetof(struct ip, timeout_ns), "30s",
	  "longest time from the first fragment to the last (checked 16 times in it)", 1000000,
	  UINT64_C(3600000000000) },
	{ "reassembly_datagrams", XK_SETTING_UINT, offsetof(struct ip, limits.datagrams), "64",
	  "maximum number of incomplete datagrams", 1, 1024 },
	{ "reassembly_bytes", XK_SETTING_UINT, offsetof(struct ip, limits.bytes), "2097152",
	  "limit of bytes of buffers with waiting fragments; a fragment counts with its whole buffer (2 KiB and more)",
	  IP_REASSEMBLY_BYTES_MIN, 1 << 30 },
	{ "reassembly_source_datagrams", XK_SETTING_UINT, offsetof(struct ip, limits.source_datagrams), "16",
	  "maximum number of incomplete datagrams from one host", 1, 1024 },
	{ "reassembly_source_bytes", XK_SETTING_UINT, offsetof(struct ip, limits.source_bytes), "524288",
	  "limit of such bytes from one host; the longest datagram in pieces of 576 bytes takes 258,944",
	  IP_REASSEMBLY_BYTES_MIN, 1 << 30 },
	{ "forward", XK_SETTING_BOOL, offsetof(struct ip, forward), "no",
	  "whether to forward datagrams for other hosts, as a router does", 0, 0 },
	{ "pmtu", XK_SETTING_BOOL, offsetof(struct ip, pmtu), "no",
	  "whether to discover the MTU of paths: whole datagrams are sent with \"do not fragment\"", 0, 0 },
	{ "pmtu_timeout", XK_SETTING_TIME, offsetof(struct ip, pmtu_timeout_ns), "600s",
	  "time to believe in an MTU below that of the link", 1000000, UINT64_C(86400000000000) },
	{ "pmtu_entries", XK_SETTING_UINT, offsetof(struct ip, pmtu_entries), "64",
	  "maximum number of hosts for which that is remembered", 1, 65536 },
	{ "pmtu_min", XK_SETTING_UINT, offsetof(struct ip, pmtu_min), "552",
	  "least MTU of a path that is believed; smaller ones are raised to this", IP_MTU_MIN, 65535 },
	{ NULL, 0, 0, NULL, NULL, 0, 0 },
};

static const struct xk_field_value ip_flag_names[] = {
	{ 4, "reserved" }, { 2, "dont_fragment" }, { 1, "more" }, { 0, NULL }
};

static const struct xk_field_value ip_protocol_names[] = { { 1, "ICMP" }, { 6, "TCP" }, { 17, "UDP" }, { 0, NULL } };

static const struct xk_field ip_fields[] = {
	{ .name = "version", .bits = 4, .kind = XK_FIXED, .usual = 4 },
	{ .name = "header_length",
	  .bits = 4,
	  .usual = 5,
	  .rare = 0xf,
	  .help = "in words of 4 bytes; above 5: options" },
	{ .name = "service", .bits = 8, .print = XK_PRINT_HEX, .help = "ignored" },
	{ .name = "length", .bits = 16, .kind = XK_LENGTH, .covers = XK_COVERS_MESSAGE },
	{ .name = "identification", .bits = 16, .print = XK_PRINT_HEX },
	{ .name = "flags", .bits = 3, .rare = 5, .is_bits = true, .values = ip_flag_names },
	{ .name = "offset",
	  .bits = 13,
	  .rare = IP_OFFSET,
	  .is_part = true,
	  .help = "of a fragment, in units of 8 bytes" },
	{ .name = "ttl", .bits = 8, .kind = XK_VARIES },
	{ .name = "protocol", .bits = 8, .kind = XK_NAMES_SESSION, .is_upper = true, .values = ip_protocol_names },
	{ .name = "checksum", .bits = 16, .kind = XK_CHECKSUM, .print = XK_PRINT_HEX, .covers = XK_COVERS_HEADER },
	{ .name = "source", .bits = 32, .kind = XK_NAMES_SESSION, .print = XK_PRINT_HOST },
	{ .name = "destination", .bits = 32, .kind = XK_NAMES_SESSION, .print = XK_PRINT_HOST },
	{ .name = NULL },
};

static const struct xk_number_on ip_numbers[] = { { "eth", 0x0800 }, { NULL, 0 } };

const struct xk_protocol_type xk_type_ip = {
	.name = "ip",
	.help = "IPv4 datagrams of up to 65,515 bytes between hosts: routes, fragmentation, reassembly.",
	.ops = &ip_ops,
	.session_ops = &ip_session_ops,
	.header = IP_HEADER_LEN,
	.gather = IP_HEADER_LEN + IP_QUOTED,
	.fields = ip_fields,
	.size = sizeof(struct ip),
	.offers = XK_ASYNC,
	.lowers = ip_lowers,
	.numbers = ip_numbers,
	.number_max = 255,
	.settings = ip_settings,
	.drops = ip_drops,
	.counters = ip_counters,
	.session_max = 8192,
	.neighbour_ops = &ip_fault_ops,
};
