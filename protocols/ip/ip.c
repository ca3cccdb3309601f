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
 * Control:      XK_GET_MAX_PACKET, XK_GET_OPT_PACKET, XK_GET_MY_HOST, XK_GET_PEER_HOST; ip.h
 * Not done:     options of our own, multicast, redirects
 * Graph:        ip -> vnet, or any protocol that takes a neighbour's 32-bit host and has XK_VNET_GET_INTERFACES
 */
#include "protocols/ip/ip.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocols/ip/ip_private.h"
#include "xkernel/siphash.h"
#include "xkernel/trace.h"

static const char *const ip_drops[] = { IP_DROPS(XK_NAMED_TEXT) IP_REASSEMBLY_WHY(XK_NAMED_TEXT) NULL };

XK_FIELDS(ip, IP_HEADER);
XK_MESSAGES(ip, IP_HEADER);

/* ---- routes ---- */

/* Adds a route, which errors quote as `text`. Returns 0 or -errno. */
static int
ip_route_add(struct ip *ip, struct xk_network to, uint32_t gateway, const char *text)
{
	struct ip_route route = { to.host, (uint32_t)(UINT64_MAX << (32 - to.bits)), gateway };
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
	char text[64], network[19], gateway[16], end;
	struct xk_network to;
	uint32_t host;
	size_t len;
	int err = 0;

	for (; err == 0 && *next != '\0'; next += len + (next[len] == ',')) {
		len = strcspn(next, ",");
		snprintf(text, sizeof(text), "%.*s", (int)len, next);
		if (sscanf(text, "%18[0-9./]=%15[0-9.]%c", network, gateway, &end) != 2 ||
		    !xk_network_parse(network, &to) || !xk_host_parse(gateway, &host)) {
			xk_trace(&ip->protocol, XK_TRACE_NONE,
				 "route '%s' is not network/bits=gateway, as in 10.1.0.0/16=10.77.0.1", text);
			return -EINVAL;
		}
		err = ip_route_add(ip, to, host, text);
	}
	if (err == 0 && ip->gateway != 0)
		err = ip_route_add(ip, (struct xk_network){ 0, 0 }, ip->gateway, "0.0.0.0/0");
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

/* ---- init and fini ---- */

static void
ip_drop_discarded(struct ip *ip, struct xk_msg *discarded)
{
	enum ip_reassembly_reason why;

	while (discarded != NULL) {
		struct xk_msg *m = ip_reassembly_next_discarded(&discarded, &why);

		if (why == IP_REASSEMBLY_TIMED_OUT)
			ip_fault_refuse(&ip->protocol, NULL, XK_FAULT_REASSEMBLY, m, 0);
		xk_drop(&ip->protocol, m, IP_DROP_REASSEMBLY + why);
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
	struct xk_msg *discarded = NULL;

	xk_lock(&ip->lock);
	ip->ticking = ip_reassembly_tick(&ip->reassembly, &discarded);
	ip_count_reassembly(ip);
	if (ip->ticking)
		xk_event_schedule(&ip->tick, ip->timeout_ns / 1000 / IP_REASSEMBLY_TICKS);
	xk_unlock(&ip->lock);
	ip_drop_discarded(ip, discarded);
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
	struct xk_vnet_interfaces own = { .count = 0 };
	int err = xk_control_protocol(below, XK_VNET_GET_INTERFACES, &own);

	if (own.count == 0) {
		xk_trace(self, XK_TRACE_NONE, "%s below has no addresses for this host", below->name);
		return err != 0 ? err : -EADDRNOTAVAIL;
	}
	ip->interfaces = own.count;
	memcpy(ip->interface, own.list, sizeof(own.list));
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

/*
 * `how` is a header such as the session will receive; without a version, it is no message's, but an upper's that opens.
 */
static int
ip_setup(struct xk_session *session, const void *how)
{
	const struct ip_header h = ip_load(how);
	struct ip_session *s = (struct ip_session *)session;
	struct ip *ip = (struct ip *)session->protocol;
	struct xk_sends *sends = &session->sends;
	uint32_t local;
	unsigned index = 0;
	uint64_t hash = siphash(ip->key, (uint64_t)h.source << 32 | h.destination, h.protocol);
	int err;

	s->remote = h.source;
	s->destination = local = h.destination;
	if (ip_kind(ip, h.destination, &index) != XK_VNET_MINE) { /* a broadcast */
		ip_kind(ip, h.source, &index);
		local = ip->interface[index].host;
	}
	err = ip_fault_set_longest(ip, s);
	if (err != 0)
		return err;
	sends->longest = XK_IP_MAX_PACKET;
	sends->adapts = true;
	atomic_store_explicit(&sends->from_any, h.version == 0, memory_order_relaxed);
	atomic_store_explicit(&sends->number, (uint16_t)hash | 1, memory_order_relaxed);
	s->fragment_first = (uint16_t)(hash >> 16) & 0xfffe;
	s->fragment_count = (uint16_t)(hash >> 32) % IP_FRAGMENT_COUNTS;
	XK_PUT(ip, flags, sends->header, ip->pmtu ? IP_FLAG_DONT_FRAGMENT : 0);
	XK_PUT(ip, ttl, sends->header, ip->ttl);
	XK_PUT(ip, source, sends->header, local);
	/* a key of its own lls: a path would outlast the open that makes another session receive from that one */
	sends->is_path = xk_table_find(&ip->protocol, ip_key(h.protocol, h.source, h.destination, NULL)) == NULL;
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
	uint8_t received[IP_HEADER_LEN] = { 0 }; /* as from the remote host, but without a version */
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
	err = ip_next_hop(ip, (uint32_t)remote, &next, &index);
	if (err != 0)
		return err;
	hop = next;
	if (local == XK_ANY)
		local = ip->interface[index].host;
	if (ip_kind(ip, (uint32_t)local, &own) != XK_VNET_MINE)
		return -EADDRNOTAVAIL;
	XK_PUT(ip, protocol, received, number);
	XK_PUT(ip, source, received, remote);
	XK_PUT(ip, destination, received, local);
	key = ip_key((uint8_t)number, (uint32_t)remote, (uint32_t)local, NULL);
	err = xk_table_share(self, key, hlp_receive, hlp_type, session);
	if (err == -ENOENT) {
		xk_participant_push(&below.remote, hop);
		if (lazy)
			xk_participant_push(&below.local, XK_VNET_LAZY);
		err = xk_open(self, self, xk_lower(self, 0), &below, &lls); /* may wait unless lazy */
		if (err == 0)
			err = xk_table_open(self, key, hlp_receive, hlp_type, lls, received, session);
	}
	/*
	 * A learned session stands on one that leads where its datagrams came from. Once opened it follows the next
	 * hop, unless the open is lazy: that one only answers.
	 */
	if (err == 0 && !lazy && !atomic_exchange_explicit(&(*session)->sends.from_any, true, memory_order_relaxed))
		xk_control((*session)->lls, XK_VNET_FOLLOW, &hop);
	return err;
}

/* Forwards datagrams for others, if the host does. */
static unsigned
ip_validate(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m, struct xk_key *passive)
{
	struct ip *ip = (struct ip *)self;
	const uint8_t *p = m->data - IP_HEADER_LEN;
	uint32_t destination = XK_GET(ip, destination, p);
	unsigned why = ip_check_source(ip, XK_GET(ip, source, p)), index;
	enum xk_vnet_kind kind = ip_kind(ip, destination, &index);

	if (destination >> 24 == 127)
		return IP_DROP_MARTIAN;
	if (why != 0 || kind == XK_VNET_MINE || kind == XK_VNET_BROADCAST)
		return why;
	if (!ip->forward)
		return IP_DROP_NOT_MINE;
	ip_forward(ip, m, p, IP_HEADER_LEN);
	return XK_DROP_TAKEN;
}

static void
ip_refused(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	ip_fault_refuse(self, NULL, XK_FAULT_PROTOCOL, m, 0);
}

/*
 * Returns the key of the first session of these addresses; or of one that belongs to lls alone, if there is one or the
 * first does not accept what comes up lls.
 */
static struct xk_key
ip_key_of(struct xk_protocol *self, struct xk_session *lls, const uint8_t *p)
{
	const struct ip_header h = ip_load(p);
	struct xk_key first = ip_key(h.protocol, h.source, h.destination, NULL);
	struct xk_key own = ip_key(h.protocol, h.source, h.destination, lls);
	const struct xk_session *s = xk_table_find(self, first);

	if (xk_receive_is_from(s, lls))
		return first;
	return s != NULL || xk_table_find(self, own) != NULL ? own : first;
}

/* ---- down ---- */

static int
ip_divide(struct xk_session *session, struct xk_msg *m)
{
	struct ip_session *s = (struct ip_session *)session;
	struct ip *ip = (struct ip *)session->protocol;
	struct ip_transit t = { ip, .header_len = IP_HEADER_LEN };

	t.mtu = atomic_load_explicit(&session->sends.whole, memory_order_relaxed) + IP_HEADER_LEN;
	memcpy(t.header, session->sends.header, IP_HEADER_LEN);
	xk_put16(t.header + IP_FRAGMENT, 0);
	t.sum = xk_header_sum(t.header, IP_HEADER_LEN);
	t.id = (uint16_t)(s->fragment_first + 2 * atomic_fetch_add_explicit(&ip->fragment_counts[s->fragment_count], 1,
									    memory_order_relaxed));
	xk_count(session->protocol, IP_COUNT_FRAGMENTED);
	return ip_forward_fragments(&t, session->lls, m, 0);
}

/* ---- up ---- */

/* Keeps fragment m, whose header lies in front of it, or pops the datagram that it completes. Takes m. */
static void
ip_reassemble(struct ip *ip, struct xk_session *lls, struct xk_msg *m)
{
	struct ip_header h = ip_load(m->data - IP_HEADER_LEN);
	struct xk_msg *discarded = NULL;
	struct ip_reassembly_fragment fragment = { h.source,         h.destination, (uint32_t)h.offset * 8,
						   h.identification, h.protocol,    (h.flags & IP_FLAG_MORE) != 0 };
	struct xk_session *s = xk_table_find(&ip->protocol, ip_key(h.protocol, h.source, h.destination, NULL));
	uint64_t left;

	if ((h.flags & IP_FLAG_RESERVED) != 0) {
		xk_drop(&ip->protocol, m, IP_DROP_BAD_FLAGS);
		return;
	}
	/* no memory for fragments of datagrams that would not be delivered */
	if (s == NULL && !xk_receive_accept(&ip->protocol, lls, m))
		return;
	xk_trace(&ip->protocol, XK_TRACE_MESSAGES, "fragment of datagram %04x: %zu bytes from %u on%s",
		 h.identification, xk_msg_len(m), fragment.offset, fragment.more ? "" : ", the last");
	left = (uint64_t)xk_keep_limit(&ip->protocol) * IP_REASSEMBLY_BUFFER;
	xk_lock(&ip->lock);
	/* not more than the host has left; as at any other limit, the oldest datagram makes room */
	ip->reassembly.limits.bytes = left < ip->limits.bytes ? left : ip->limits.bytes;
	m = ip_reassembly_add(&ip->reassembly, &fragment, m, &discarded);
	ip_count_reassembly(ip);
	if (!ip->ticking && ip->reassembly.datagrams > 0) {
		ip->ticking = true;
		xk_event_schedule(&ip->tick, ip->timeout_ns / 1000 / IP_REASSEMBLY_TICKS);
	}
	xk_unlock(&ip->lock);
	if (xk_unlikely(discarded != NULL))
		ip_drop_discarded(ip, discarded);
	if (m == NULL)
		return;
	xk_count(&ip->protocol, IP_COUNT_REASSEMBLED);
	xk_trace(&ip->protocol, XK_TRACE_MESSAGES, "datagram %04x is whole: %zu bytes", h.identification,
		 xk_msg_len(m));
	if (xk_receive_is_from(s, lls))
		xk_pop(s, lls, m, NULL);
	else
		xk_receive_checked(&ip->protocol, lls, m);
}

/* Handles options, fragments and link broadcasts, and what is no version 4. Takes m. */
static void
ip_slow_path(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	const struct xk_format format = XK_KNOWN_FORMAT(ip, self);
	struct ip *ip = (struct ip *)self;
	const uint8_t *p;
	unsigned why = ip_version_check(m->data), index;

	if (why == IP_HAS_OPTIONS) {
		m = ip_options_take_off(ip, m);
		if (m == NULL)
			return;
		why = 0;
	}
	if (why == 0)
		why = xk_receive_check(&format, m);
	p = m->data;
	/* a link broadcast must carry an IP broadcast (RFC 1122, 3.3.6) */
	if (why == 0 && (m->flags & XK_MSG_TO_ALL) != 0 &&
	    ip_kind(ip, XK_GET(ip, destination, p), &index) == XK_VNET_MINE)
		why = IP_DROP_LINK_BROADCAST;
	if (why != 0) {
		xk_drop(self, m, why);
		return;
	}
	xk_msg_pop_in_place(m, IP_HEADER_LEN);
	if (xk_format_is_usual(&format, &self->format, p))
		xk_receive_checked(self, lls, m);
	else
		ip_reassemble(ip, lls, m);
}

/* ---- asking ---- */

static int
ip_session_control(struct xk_session *session, int op, void *argument)
{
	if (op != XK_GET_DESTINATION)
		return -ENOTSUP;
	*(uint64_t *)argument = ((const struct ip_session *)session)->destination;
	return 0;
}

static void
ip_link_visit(void *object, void *context)
{
	ip_fault_set_longest(context, object);
}

/* If a link no longer carries datagrams, the port drops them as too long. */
static void
ip_port_changed(struct xk_protocol *self)
{
	struct ip *ip = (struct ip *)self;
	struct xk_vnet_interfaces now;

	if (xk_control_protocol(xk_lower(self, 0), XK_VNET_GET_INTERFACES, &now) != 0)
		return;
	for (unsigned i = 0; i < ip->interfaces; i++)
		ip->interface[i].max_packet = now.list[i].max_packet;
	xk_map_for_each(&self->table.sessions, ip_link_visit, ip);
}

static int
ip_control(struct xk_protocol *self, int op, void *argument)
{
	const struct xk_vnet_interface *first = &((const struct ip *)self)->interface[0];

	switch (op) {
	case XK_GET_OPT_PACKET:
		*(uint32_t *)argument = first->max_packet - IP_HEADER_LEN;
		return 0;
	case XK_GET_MAX_PACKET:
		*(uint32_t *)argument = XK_IP_MAX_PACKET;
		return 0;
	case XK_GET_MY_HOST:
		*(uint64_t *)argument = first->host;
		return 0;
	default:
		return -ENOTSUP;
	}
}

/* ---- promises ---- */

static const char *
ip_promise(struct xk_protocol *self, bool at_rest)
{
	const struct ip *ip = (const struct ip *)self;

	if (ip->reassembly.datagrams > 0 && !xk_event_is_awaited(&ip->tick))
		return "a datagram is incomplete without a timer";
	if (ip->kept != ip->reassembly.pinned / IP_REASSEMBLY_BUFFER)
		return "the buffers of fragments are not counted as kept";
	return ip_reassembly_promise(&ip->reassembly, at_rest);
}

/* ---- tables ---- */

static const struct xk_session_ops ip_session_ops = {
	.size = sizeof(struct ip_session),
	.setup = ip_setup,
	.push = ip_send,
	.divide = ip_divide,
	.pop = xk_pop_through,
	.control = ip_session_control,
};

static const struct xk_protocol_ops ip_ops = {
	.init = ip_init,
	.fini = ip_fini,
	.open = ip_open,
	.demux = ip_receive,
	.key = ip_key_of,
	.slow_path = ip_slow_path,
	.validate = ip_validate,
	.refused = ip_refused,
	.control = ip_control,
	.fault = ip_fault_unsent,
	.port_changed = ip_port_changed,
	.promise = ip_promise,
};

static const struct xk_setting ip_settings[] = {
	XK_SETTING(UINT, struct ip, ttl, "ttl", "time to live of datagrams sent", .initial = "64", .min = 1,
		   .max = 255),
	XK_SETTING(STRING, struct ip, routes_text, "routes", "network/bits=gateway,...: the longest prefix wins"),
	XK_SETTING(HOST, struct ip, gateway, "gateway", "short for routes=\"0.0.0.0/0=gateway\""),
	XK_SETTING(UINT, struct ip, seed, "seed", "seed of identifications; 0: random", .initial = "0"),
	XK_SETTING(TIME, struct ip, timeout_ns, "reassembly_timeout",
		   "longest time from the first fragment to the last (checked 16 times in it)", .initial = "30s",
		   .min = 1000000, .max = UINT64_C(3600000000000)),
	XK_SETTING(UINT, struct ip, limits.datagrams, "reassembly_datagrams", "maximum number of incomplete datagrams",
		   .initial = "64", .min = 1, .max = 1024),
	XK_SETTING(UINT, struct ip, limits.bytes, "reassembly_bytes",
		   "limit of bytes of buffers with waiting fragments; a fragment counts with its whole buffer (2 KiB "
		   "and more)",
		   .initial = "2097152", .min = IP_REASSEMBLY_BYTES_MIN, .max = 1 << 30),
	XK_SETTING(UINT, struct ip, limits.source_datagrams, "reassembly_source_datagrams",
		   "maximum number of incomplete datagrams from one host", .initial = "16", .min = 1, .max = 1024),
	XK_SETTING(UINT, struct ip, limits.source_bytes, "reassembly_source_bytes",
		   "limit of such bytes from one host; the longest datagram in pieces of 576 bytes takes 258,944",
		   .initial = "524288", .min = IP_REASSEMBLY_BYTES_MIN, .max = 1 << 30),
	XK_SETTING(BOOL, struct ip, forward, "forward",
		   "whether to forward datagrams for other hosts, as a router does", .initial = "no"),
	XK_SETTING(BOOL, struct ip, pmtu, "pmtu",
		   "whether to discover path MTUs: whole datagrams are sent with \"do not fragment\"", .initial = "no"),
	XK_SETTING(TIME, struct ip, pmtu_timeout_ns, "pmtu_timeout", "lifetime of a path MTU below the link's",
		   .initial = "600s", .min = 1000000, .max = UINT64_C(86400000000000)),
	XK_SETTING(UINT, struct ip, pmtu_entries, "pmtu_entries",
		   "maximum number of hosts whose path MTU is remembered", .initial = "64", .min = 1, .max = 65536),
	XK_SETTING(UINT, struct ip, pmtu_min, "pmtu_min", "least path MTU accepted; smaller ones are raised to this",
		   .initial = "552", .min = IP_MTU_MIN, .max = 65535),
	{ .name = NULL },
};

const struct xk_protocol_type xk_type_ip = {
	.name = "ip",
	.help = "IPv4 datagrams of up to 65,515 bytes between hosts: routes, fragmentation, reassembly.",
	.ops = &ip_ops,
	.session_ops = &ip_session_ops,
	.header = IP_HEADER_LEN,
	.gather = IP_HEADER_LEN + IP_QUOTED,
	.fields = ip_fields,
	.options = &ip_option_list,
	.size = sizeof(struct ip),
	.offers = XK_ASYNC,
	.flags = XK_BY_FIELDS,
	.lowers = XK_ROLES({ "network", XK_ASYNC, NULL, "carries datagrams to neighbours; normally vnet" }),
	.numbers = XK_NUMBERS({ "eth", 0x0800 }),
	.number_max = 255,
	.settings = ip_settings,
	.drops = ip_drops,
	.counters = ip_counters,
	.session_max = 8192,
	.neighbour_ops = &ip_fault_ops,
};
