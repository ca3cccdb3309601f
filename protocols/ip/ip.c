/*
 * ip.c - IPv4 datagrams of up to 65,515 bytes between hosts, with routes, fragmentation and reassembly.
 *
 * Spec:         RFC 791, 1122 (3.2), 6864; 20-byte header
 * Participants: the top of each stack is a 32-bit host. Opening needs the remote one; the local one is the interface's
 *               that the route leads to, unless it is given. Enabling takes no hosts.
 * Sessions:     one per (upper's number, remote host, local host), shared by whoever of the same upper opens it again.
 *               Opening may wait (ARP for the neighbour). A stranger's first datagram makes a session that answers to
 *               where the datagram came from (the learned link address) without asking anybody; if the same host is
 *               heard through another session below, it gets another session of its own. A session that was opened
 *               by an upper takes its peer's datagrams wherever they come up, and a learned one becomes such a session
 *               when it is opened.
 * Broadcast:    may be opened, and received; a session that broadcasts come up sends from the interface's own address,
 *               to the host that they came from.
 * Fragments:    a datagram longer than the session below takes is sent in fragments, without copying. Arriving ones
 *               are put together in any order (ip_reassembly.h has the rules) and go up once, on the shepherd that
 *               brought the last of them. A fragment that waits holds its whole buffer: size the pool for
 *               reassembly_bytes.
 * Identification: whole datagrams take odd numbers, counted per session; fragmented ones even numbers, counted per
 *               instance, so that what a fragment's peer must tell apart never repeats within 32,768 datagrams.
 * Forwarding:   only with `forward`: ip_forward.c has the rules.
 * Faults:       what is not delivered or forwarded is told to its sender by whoever has asked to do that (ICMP, with
 *               XK_IP_SET_ERRORS); what others say of our datagrams is checked, told to the upper, and with `pmtu` lowers
 *               what goes in one piece to that host: ip_fault.c.
 * Control:      XK_GET_MAX_PACKET, XK_GET_OPT_PACKET, XK_GET_MY_HOST, XK_GET_PEER_HOST; XK_IP_GET_DESTINATION,
 *               XK_IP_SET_ERRORS, XK_IP_REFUSE, XK_IP_FAULT (ip.h); from below XK_VNET_UNSENT
 * Settings:     ttl; routes, gateway; seed (of identifications); reassembly_timeout, reassembly_datagrams,
 *               reassembly_bytes, reassembly_source_datagrams, reassembly_source_bytes; forward; pmtu, pmtu_timeout,
 *               pmtu_entries, pmtu_min
 * Drops:        bad_version, bad_header (a length below 20), bad_options (malformed), bad_length, bad_checksum, bad_flags,
 *               bad_source (our own address, a broadcast, a multicast, 0/8), martian (127/8), not_mine, link_broadcast
 *               (for us alone, but sent to everybody on the link), too_big (pushed), unsent (the rest of a datagram, after
 *               a fragment that could not be sent); source_route (an option); of what is to be forwarded ttl_zero, expired,
 *               no_route, dont_fragment, not_forwarded; of fragments duplicate, overlap, inconsistent, too_many, refused_datagram,
 *               bad_fragment, too_long, tiny, evicted, timed_out (ip_reassembly.h)
 * Counters:     fragmented (datagrams sent in fragments), reassembled, forwarded, forward_fragmented (forwarded in
 *               fragments), path_lowered, path_forgotten, unquoted (the sender was not told, as the header was gone)
 * Options:      of what comes to us they are passed over, except that malformed ones and source routes are refused:
 *               ip_options.c.
 * Not done:     options of our own, multicast, redirects
 * Graph:        ip -> vnet, or whatever takes a neighbour's 32-bit host as the top of the remote stack and has
 *               XK_VNET_GET_INTERFACES
 */
#include "protocols/ip/ip.h"

#include <errno.h>
#include <string.h>

#include "protocols/ip/ip_private.h"
#include "xkernel/trace.h"

static const char *const ip_drops[] = { "bad_version",
					"bad_header",
					"bad_options",
					"bad_length",
					"bad_checksum",
					"bad_flags",
					"ttl_zero",
					"bad_source",
					"martian",
					"not_mine",
					"link_broadcast",
					"too_big",
					"unsent",
					"expired",
					"no_route",
					"dont_fragment",
					"not_forwarded",
					"source_route",
					"duplicate",
					"overlap",
					"inconsistent",
					"too_many",
					"refused_datagram",
					"bad_fragment",
					"too_long",
					"tiny",
					"evicted",
					"timed_out",
					NULL };

static_assert(XK_ARRAY_LENGTH(ip_drops) == IP_DROP_REASSEMBLY - XK_DROP_OWN + IP_REASSEMBLY_REASONS + 1,
	      "a name for each reason");

static const char *const ip_counters[] = { "fragmented",   "reassembled",    "forwarded", "forward_fragmented",
					   "path_lowered", "path_forgotten", "unquoted",  NULL };

static_assert(XK_ARRAY_LENGTH(ip_counters) == IP_COUNT_UNQUOTED + 2, "a name for each counter");

/* ---- init and fini ---- */

static void
ip_drop_discarded(struct ip *ip, const struct ip_reassembly_discarded *discarded)
{
	for (unsigned reason = 0; reason < IP_REASSEMBLY_REASONS; reason++) {
		struct xk_msg *next;

		for (struct xk_msg *m = discarded->first[reason]; m != NULL; m = next) {
			next = m->link;
			if (reason == IP_REASSEMBLY_TIMED_OUT)
				ip_fault_send_of(ip, XK_FAULT_REASSEMBLY, m);
			xk_drop(&ip->protocol, m, IP_DROP_REASSEMBLY + reason);
		}
	}
}

static void
ip_schedule_tick(struct ip *ip)
{
	xk_event_schedule(&ip->tick, ip->timeout_ns / 1000 / IP_REASSEMBLY_TICKS);
}

static void
ip_tick(struct xk_event *event, void *argument)
{
	struct ip *ip = argument;
	struct ip_reassembly_discarded discarded = { .some = false };

	(void)event;
	xk_lock(&ip->lock);
	ip->ticking = ip_reassembly_tick(&ip->reassembly, &discarded);
	if (ip->ticking)
		ip_schedule_tick(ip);
	xk_unlock(&ip->lock);
	if (xk_unlikely(discarded.some))
		ip_drop_discarded(ip, &discarded);
}

/* Which addresses are ours. */
static int
ip_ask_interfaces(struct ip *ip)
{
	int got = xk_control_protocol(xk_lower(&ip->protocol, 0), XK_VNET_GET_INTERFACES, ip->interface,
				      sizeof(ip->interface));

	if (got < (int)sizeof(ip->interface[0])) {
		xk_trace(&ip->protocol, XK_TRACE_NONE, "%s below has no addresses for this host",
			 xk_lower(&ip->protocol, 0)->name);
		return got < 0 ? got : -EADDRNOTAVAIL;
	}
	ip->interfaces = (unsigned)got / (unsigned)sizeof(ip->interface[0]);
	return 0;
}

/* Every gateway must be a neighbour. */
static int
ip_make_routes(struct ip *ip)
{
	char why[160] = "", host[16];
	unsigned index;
	int err = ip_routes_parse(&ip->routes, ip->routes_text, why, sizeof(why));

	if (err == 0 && ip->gateway != 0)
		err = ip_routes_add(&ip->routes, (struct ip_route){ 0, 0, ip->gateway });
	if (err != 0) {
		xk_trace(&ip->protocol, XK_TRACE_NONE, "%s",
			 why[0] != '\0' ? why : "gateway: there is a default route in `routes` already");
		return err;
	}
	for (unsigned i = 0; i < ip->routes.count; i++) {
		if (ip_kind(ip, ip->routes.route[i].gateway, &index) == XK_VNET_ON_LINK)
			continue;
		xk_trace(&ip->protocol, XK_TRACE_NONE, "gateway %s is no neighbour on any network of ours",
			 xk_host_print(ip->routes.route[i].gateway, host));
		return -EINVAL;
	}
	return 0;
}

static int
ip_make_reassembly(struct ip *ip)
{
	struct ip_reassembly_limits limits = { (uint32_t)ip->datagrams, (uint32_t)ip->bytes,
					       (uint32_t)ip->source_datagrams, (uint32_t)ip->source_bytes };

	return ip_reassembly_init(&ip->reassembly, &limits);
}

static void
ip_make_seed(struct ip *ip)
{
	if (ip->seed == 0)
		ip->seed = xk_random(&ip->protocol);
	atomic_store_explicit(&ip->fragment_id, (uint16_t)(ip->seed & ~UINT64_C(1)), memory_order_relaxed);
}

static void
ip_fini(struct xk_protocol *self)
{
	struct ip *ip = (struct ip *)self;

	xk_event_cancel(&ip->tick);
	ip_fault_fini(ip);
	ip_reassembly_fini(&ip->reassembly);
	ip_routes_fini(&ip->routes);
}

static int
ip_init(struct xk_protocol *self)
{
	struct ip *ip = (struct ip *)self;
	struct xk_participants anybody = { 0 };
	int err;

	xk_lock_init(&ip->lock, self);
	xk_event_init(&ip->tick, self->kernel, ip_tick, ip);
	ip_fault_prepare(ip);
	ip_make_seed(ip);
	if ((err = ip_ask_interfaces(ip)) != 0 || (err = ip_make_routes(ip)) != 0 ||
	    (err = ip_make_reassembly(ip)) != 0 || (err = ip_fault_init(ip)) != 0 ||
	    (err = xk_open_enable(self, self, xk_lower(self, 0), &anybody)) != 0)
		ip_fini(self);
	return err;
}

/* ---- down ---- */

static inline int
ip_send(struct ip_session *s, struct xk_msg *m, uint16_t id, uint16_t fragment)
{
	m = xk_push_header(&s->session, m, IP_HEADER_LEN);
	if (xk_unlikely(m == NULL))
		return -ENOBUFS;
	ip_header_store(m->data, s->header, s->sum, xk_msg_len(m), id, fragment);
	return xk_push(s->session.lls, m);
}

static int
ip_push_fragments(struct ip_session *s, struct xk_msg *m, uint32_t whole_max)
{
	struct xk_protocol *self = s->session.protocol;
	uint16_t id = atomic_fetch_add_explicit(&((struct ip *)self)->fragment_id, 2, memory_order_relaxed);
	size_t chunk = whole_max & ~(size_t)7;
	uint16_t offset = 0;

	xk_count(self, IP_COUNT_FRAGMENTED);
	while (xk_msg_len(m) > whole_max) {
		struct xk_msg *front = xk_msg_split(&m, chunk);
		int err;

		if (front == NULL) {
			xk_drop(self, m, XK_DROP_NO_BUFFER);
			return -ENOBUFS;
		}
		err = ip_send(s, front, id, offset | IP_MORE);
		if (err != 0) {
			/* without that one nobody can use the rest */
			xk_drop(self, m, IP_DROP_UNSENT);
			return err;
		}
		offset += (uint16_t)(chunk / 8);
	}
	return ip_send(s, m, id, offset);
}

/* A message longer than whole_max. */
__attribute__((noinline)) static int
ip_push_long(struct ip_session *s, struct xk_msg *m, uint32_t whole_max)
{
	if (xk_msg_len(m) <= XK_IP_MAX_PACKET)
		return ip_push_fragments(s, m, whole_max);
	xk_drop(s->session.protocol, m, IP_DROP_TOO_BIG);
	return -EMSGSIZE;
}

static int
ip_push(struct xk_session *session, struct xk_msg *m)
{
	struct ip_session *s = (struct ip_session *)session;
	uint32_t whole_max = atomic_load_explicit(&s->whole_max, memory_order_relaxed);
	uint16_t id;

	if (xk_unlikely(xk_msg_len(m) > whole_max))
		return ip_push_long(s, m, whole_max);
	/* two shepherds may get the same number: only what is fragmented is put together by it */
	id = atomic_load_explicit(&s->id, memory_order_relaxed);
	atomic_store_explicit(&s->id, (uint16_t)(id + 2), memory_order_relaxed);
	return ip_send(s, m, id, s->whole_flags);
}

/* ---- up ---- */

/* The session of m, whose header is at p, or NULL: m is gone. A session's addresses were checked when it came to be. */
static inline struct xk_session *
ip_find_session(struct ip *ip, struct xk_session *lls, struct xk_msg *m, const uint8_t *p)
{
	struct xk_key key = { xk_get64(p + IP_SOURCE), p[IP_PROTOCOL] };
	struct xk_session *s = xk_table_find(&ip->protocol, key);

	if (xk_likely(s != NULL) && (xk_likely(s->lls == lls) ||
				     atomic_load_explicit(&((struct ip_session *)s)->any_lls, memory_order_relaxed)))
		return s;
	return ip_session_find(ip, lls, m, s);
}

/* Whether a fragment is worth a place in the table. 0, or the reason to drop it. */
static unsigned
ip_check_fragment(struct ip *ip, struct ip_header h)
{
	struct xk_key key = ip_key(h.protocol, h.source, h.destination, NULL);
	unsigned why;

	if ((h.fragment & IP_RESERVED) != 0)
		return IP_DROP_BAD_FLAGS;
	if (xk_table_find(&ip->protocol, key) != NULL)
		return 0;
	why = ip_session_check_addresses(ip, h);
	if (why == 0 && xk_table_enabled(&ip->protocol, xk_table_number_key(h.protocol)) == NULL)
		why = XK_DROP_NO_SESSION;
	return why;
}

void
ip_undelivered(struct ip *ip, struct xk_msg *m, unsigned why)
{
	if (ip->forward && why == IP_DROP_NOT_MINE) {
		ip_forward(ip, m, m->data - IP_HEADER_LEN, IP_HEADER_LEN);
		return;
	}
	if (why == XK_DROP_NO_SESSION &&
	    xk_table_enabled(&ip->protocol, xk_table_number_key((m->data - IP_HEADER_LEN)[IP_PROTOCOL])) == NULL)
		ip_fault_send_of(ip, XK_FAULT_PROTOCOL, m);
	xk_drop(&ip->protocol, m, why);
}

/* Takes fragment m, whose header lies in front. The datagram, if this makes it whole, or NULL. */
XK_APART static struct xk_msg *
ip_reassemble(struct ip *ip, struct xk_msg *m)
{
	struct ip_header h = ip_header_load(m->data - IP_HEADER_LEN);
	struct ip_reassembly_discarded discarded = { .some = false };
	struct ip_reassembly_fragment fragment = { h.source, h.destination, (uint32_t)(h.fragment & IP_OFFSET) * 8,
						   h.id,     h.protocol,    (h.fragment & IP_MORE) != 0 };
	unsigned why = ip_check_fragment(ip, h);

	if (why != 0) {
		ip_undelivered(ip, m, why);
		return NULL;
	}
	xk_trace(&ip->protocol, XK_TRACE_MESSAGES, "fragment of datagram %04x: %zu bytes from %u on%s", h.id,
		 xk_msg_len(m), fragment.offset, fragment.more ? "" : ", the last");
	xk_lock(&ip->lock);
	m = ip_reassembly_add(&ip->reassembly, &fragment, m, &discarded);
	if (!ip->ticking && ip->reassembly.datagrams > 0) {
		ip->ticking = true;
		ip_schedule_tick(ip);
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

/* What came to everybody on the link must be for everybody (RFC 1122, 3.3.6). 0, or the reason to drop it. */
XK_APART static unsigned
ip_check_to_all(const struct ip *ip, uint32_t destination)
{
	unsigned index;

	return ip_kind(ip, destination, &index) == XK_VNET_MINE ? IP_DROP_LINK_BROADCAST : 0;
}

static void
ip_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct ip *ip = (struct ip *)self;
	const uint8_t *p = m->data;
	struct xk_session *s;
	unsigned why = ip_header_pop(m);

	if (xk_unlikely(why == IP_HAS_OPTIONS)) {
		m = ip_options_take_off(ip, m);
		if (m != NULL)
			ip_demux(self, lls, m);
		return;
	}
	if (xk_unlikely((m->flags & XK_MSG_TO_ALL) != 0) && why == 0)
		why = ip_check_to_all(ip, xk_get32(p + IP_DESTINATION));
	if (xk_unlikely(why != 0)) {
		ip_undelivered(ip, m, why);
		return;
	}
	if (xk_unlikely(ip_header_is_special(p))) {
		m = ip_reassemble(ip, m);
		if (m == NULL)
			return;
		p = m->data - IP_HEADER_LEN;
	}
	s = ip_find_session(ip, lls, m, p);
	if (xk_likely(s != NULL))
		xk_pop(s, lls, m, NULL);
}

/* ---- asking ---- */

static int
ip_answer_host(void *buffer, size_t len, uint64_t host)
{
	return xk_answer(buffer, len, &host, sizeof(host));
}

static int
ip_session_control(struct xk_session *session, int op, void *buffer, size_t len)
{
	struct ip_session *s = (struct ip_session *)session;
	uint32_t max_packet = XK_IP_MAX_PACKET, whole_max = atomic_load_explicit(&s->whole_max, memory_order_relaxed);

	switch (op) {
	case XK_GET_MAX_PACKET:
		return xk_answer(buffer, len, &max_packet, sizeof(max_packet));
	case XK_GET_OPT_PACKET:
		return xk_answer(buffer, len, &whole_max, sizeof(whole_max));
	case XK_GET_MY_HOST:
		return ip_answer_host(buffer, len, s->local);
	case XK_GET_PEER_HOST:
		return ip_answer_host(buffer, len, s->remote);
	case XK_IP_GET_DESTINATION:
		return ip_answer_host(buffer, len, s->destination);
	case XK_IP_REFUSE:
		return len < sizeof(struct xk_ip_refusal) ? -EMSGSIZE : ip_fault_refuse(s, buffer);
	default:
		return -ENOTSUP;
	}
}

/* Before anything runs. */
static int
ip_set_errors(struct ip *ip, const void *errors, size_t len)
{
	if (len < sizeof(ip->errors))
		return -EMSGSIZE;
	if (ip->errors.protocol != NULL)
		return -EADDRINUSE;
	memcpy(&ip->errors, errors, sizeof(ip->errors));
	return 0;
}

static int
ip_control(struct xk_protocol *self, int op, void *buffer, size_t len)
{
	struct ip *ip = (struct ip *)self;
	uint32_t max_packet = XK_IP_MAX_PACKET;

	switch (op) {
	case XK_GET_MAX_PACKET:
		return xk_answer(buffer, len, &max_packet, sizeof(max_packet));
	case XK_GET_OPT_PACKET:
		max_packet = ip->interface[0].max_packet - IP_HEADER_LEN;
		return xk_answer(buffer, len, &max_packet, sizeof(max_packet));
	case XK_GET_MY_HOST:
		return ip_answer_host(buffer, len, ip->interface[0].host);
	case XK_IP_SET_ERRORS:
		return ip_set_errors(ip, buffer, len);
	case XK_IP_FAULT:
		return len < sizeof(struct xk_ip_fault) ? -EMSGSIZE : ip_fault_receive(ip, buffer);
	case XK_VNET_UNSENT:
		return ip_fault_unsent(ip, buffer);
	default:
		return -ENOTSUP;
	}
}

static int
ip_get_participants(struct xk_session *session, struct xk_participants *participants)
{
	const struct ip_session *s = (const struct ip_session *)session;

	if (!xk_participant_push(&participants->remote, s->remote) ||
	    !xk_participant_push(&participants->local, s->local))
		return -E2BIG;
	return 0;
}

/* ---- tables ---- */

static const struct xk_session_ops ip_session_ops = {
	.size = sizeof(struct ip_session),
	.setup = ip_session_setup,
	.push = ip_push,
	.pop = xk_pop_through,
	.control = ip_session_control,
	.get_participants = ip_get_participants,
};

static const struct xk_protocol_ops ip_ops = {
	.init = ip_init,
	.fini = ip_fini,
	.open = ip_session_open,
	.demux = ip_demux,
	.control = ip_control,
};

static const struct xk_role ip_lowers[] = {
	{ "network", XK_ASYNC, NULL, "takes a neighbour's host; normally vnet" },
	{ NULL, 0, NULL, NULL },
};

static const struct xk_setting ip_settings[] = {
	{ "ttl", XK_SETTING_UINT, offsetof(struct ip, ttl), "64", "time to live of datagrams sent", 1, 255 },
	{ "routes", XK_SETTING_STRING, offsetof(struct ip, routes_text), NULL,
	  "network/bits=gateway,...: the longest prefix wins", 0, 0 },
	{ "gateway", XK_SETTING_HOST, offsetof(struct ip, gateway), NULL, "short for routes=\"0.0.0.0/0=gateway\"", 0,
	  0 },
	{ "seed", XK_SETTING_UINT, offsetof(struct ip, seed), "0", "where identifications begin; 0: at random", 0, 0 },
	{ "reassembly_timeout", XK_SETTING_TIME, offsetof(struct ip, timeout_ns), "30s",
	  "for a datagram to become whole, from its first fragment on (checked 16 times in it)", 1000000,
	  UINT64_C(3600000000000) },
	{ "reassembly_datagrams", XK_SETTING_UINT, offsetof(struct ip, datagrams), "64",
	  "datagrams being put together, at most", 1, 1024 },
	{ "reassembly_bytes", XK_SETTING_UINT, offsetof(struct ip, bytes), "2097152",
	  "bytes of buffers that hold waiting fragments, in all; a fragment counts with its whole buffer (2 KiB and "
	  "more)",
	  IP_REASSEMBLY_BYTES_MIN, 1 << 30 },
	{ "reassembly_source_datagrams", XK_SETTING_UINT, offsetof(struct ip, source_datagrams), "16",
	  "datagrams being put together from one host", 1, 1024 },
	{ "reassembly_source_bytes", XK_SETTING_UINT, offsetof(struct ip, source_bytes), "524288",
	  "the same of one host; the longest datagram in pieces of 576 bytes takes 258,944", IP_REASSEMBLY_BYTES_MIN,
	  1 << 30 },
	{ "forward", XK_SETTING_BOOL, offsetof(struct ip, forward), "no",
	  "whether datagrams for others are passed on, as a router does", 0, 0 },
	{ "pmtu", XK_SETTING_BOOL, offsetof(struct ip, pmtu), "no",
	  "whether to find out what the path to a host takes: whole datagrams say that they must not be fragmented", 0,
	  0 },
	{ "pmtu_timeout", XK_SETTING_TIME, offsetof(struct ip, pmtu_timeout_ns), "600s",
	  "how long it is believed that a path takes less than the link", 1000000, UINT64_C(86400000000000) },
	{ "pmtu_entries", XK_SETTING_UINT, offsetof(struct ip, pmtu_entries), "64", "hosts for which that is known", 1,
	  65536 },
	{ "pmtu_min", XK_SETTING_UINT, offsetof(struct ip, pmtu_min), "552",
	  "less than this is not believed of a path: it is taken for this", IP_MTU_MIN, 65535 },
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
	  .kind = XK_VARIES,
	  .usual = 5,
	  .help = "in words of 4 bytes; above 5: options" },
	{ .name = "service", .bits = 8, .kind = XK_VARIES, .print = XK_PRINT_HEX, .help = "not looked at" },
	{ .name = "length", .bits = 16, .kind = XK_LENGTH, .covers = XK_COVERS_MESSAGE },
	{ .name = "identification", .bits = 16, .kind = XK_VARIES, .print = XK_PRINT_HEX },
	{ .name = "flags", .bits = 3, .kind = XK_VARIES, .is_bits = true, .values = ip_flag_names },
	{ .name = "offset",
	  .bits = 13,
	  .kind = XK_VARIES,
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
};
