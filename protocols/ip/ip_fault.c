/*
 * ip_fault.c - faults: notifies senders of datagrams that end here, takes reports on our own datagrams, and keeps path
 * MTUs. See ip.c.
 *
 * A report is accepted only if it quotes a datagram that we may have sent: a session must have its addresses and
 * protocol, and the upper must know the conversation (udp: the ports). A report of a smaller MTU must also quote a
 * datagram that forbade fragmentation, was longer than the reported MTU, could be sent on the session, and had one of
 * the identifications last sent to that host. No MTU below `pmtu_min` is accepted; few hosts are remembered, and for a
 * limited time (RFC 1191, 5927).
 */
#include <errno.h>
#include <string.h>

#include "protocols/ip/ip_private.h"
#include "xkernel/trace.h"

enum {
	IP_FAULT_IDS = 4096, /* identifications that a session accepts as recently sent */
	IP_PMTU_TICKS = 16,  /* a path's time, in ticks; up to one tick is added */
};

/* ---- datagrams of others ---- */

static int
ip_fault_set_errors(struct xk_protocol *self, const struct xk_ip_errors *errors)
{
	struct ip *ip = (struct ip *)self;

	if (ip->errors.protocol != NULL)
		return -EADDRINUSE;
	ip->errors = *errors;
	return 0;
}

/* Datagrams whose source is no single host were dropped before. */
void
ip_fault_send(struct ip *ip, struct xk_ip_trouble *trouble)
{
	const uint8_t *header = trouble->header;
	uint32_t destination = XK_GET(ip, destination, header);
	unsigned index;

	if (ip->errors.send == NULL)
		return;
	trouble->source = XK_GET(ip, source, header);
	trouble->protocol = XK_GET(ip, protocol, header);
	trouble->local = ip_kind(ip, destination, &index) == XK_VNET_MINE ? destination : 0;
	trouble->is_to_all = ip_is_to_all(ip, destination) || (trouble->m->flags & XK_MSG_TO_ALL) != 0;
	trouble->is_later_part = XK_GET(ip, offset, header) != 0;
	ip->errors.send(ip->errors.protocol, trouble);
}

/* The header lies in front of m, unless a protocol has overwritten it or freed its segment. */
void
ip_fault_refuse(struct xk_protocol *self, const struct xk_session *session, enum xk_fault fault, const struct xk_msg *m,
		size_t popped)
{
	const struct ip_session *s = (struct ip_session *)session;
	struct ip *ip = (struct ip *)self;
	const uint8_t *p = m->data - popped - IP_HEADER_LEN;
	struct xk_ip_trouble trouble = { .fault = fault, .header = p, .header_len = IP_HEADER_LEN, .m = m };

	trouble.begin = p + IP_HEADER_LEN;
	trouble.begin_len = popped;
	if (ip->errors.send == NULL)
		return;
	if ((size_t)(m->data - m->floor) < popped + IP_HEADER_LEN || ip_version_check(p) != 0 ||
	    !xk_sum_is_intact(xk_header_sum(p, IP_HEADER_LEN)) ||
	    (s != NULL && (XK_GET(ip, source, p) != s->remote || XK_GET(ip, destination, p) != s->destination ||
			   XK_GET(ip, protocol, p) != XK_GET(ip, protocol, s->session.sends.header))))
		xk_count(&ip->protocol, IP_COUNT_UNQUOTED);
	else
		ip_fault_send(ip, &trouble);
}

int
ip_fault_unsent(struct xk_protocol *self, struct xk_fault_report *report)
{
	struct ip *ip = (struct ip *)self;
	const struct xk_msg *m = report->m;
	struct xk_ip_trouble trouble = { XK_FAULT_HOST, .header = report->begin, .m = m };
	size_t options = SIZE_MAX;
	unsigned index;

	if (report->len >= IP_HEADER_LEN)
		options = xk_options_len(&ip_option_list, report->begin, report->len - IP_HEADER_LEN);
	trouble.header_len = trouble.skip = IP_HEADER_LEN + options;
	if (m != NULL && options != SIZE_MAX && ip_kind(ip, XK_GET(ip, source, report->begin), &index) != XK_VNET_MINE)
		ip_fault_send(ip, &trouble);
	return 0;
}

/* ---- paths ---- */

/* Returns the entry of host, or NULL. The table is small, and not used by messages. */
static struct ip_pmtu *
ip_pmtu_find(const struct ip *ip, uint32_t host)
{
	for (struct ip_pmtu *path = ip->path; path < ip->path + ip->pmtu_entries; path++)
		if (path->mtu != 0 && path->host == host)
			return path;
	return NULL;
}

/* Returns the longest payload that s sends in one piece on a path of this MTU; 0: the link's. */
static uint32_t
ip_pmtu_payload(const struct ip_session *s, uint32_t mtu)
{
	return mtu == 0 || mtu - IP_HEADER_LEN > s->link_max ? s->link_max : mtu - IP_HEADER_LEN;
}

int
ip_fault_set_longest(struct ip *ip, struct ip_session *s)
{
	const struct ip_pmtu *path;
	uint32_t mtu, max_packet;
	int got = xk_control(s->session.lls, XK_GET_MAX_PACKET, &max_packet);

	if (got < 0 || max_packet < IP_MTU_MIN)
		return got < 0 ? got : -EMSGSIZE;
	s->link_max = max_packet - IP_HEADER_LEN < XK_IP_MAX_PACKET ? max_packet - IP_HEADER_LEN : XK_IP_MAX_PACKET;
	xk_lock(&ip->lock);
	path = ip->paths == 0 ? NULL : ip_pmtu_find(ip, s->remote);
	mtu = path == NULL ? 0 : path->mtu;
	xk_unlock(&ip->lock);
	atomic_store_explicit(&s->session.sends.whole, ip_pmtu_payload(s, mtu), memory_order_relaxed);
	return 0;
}

static void
ip_pmtu_visit(void *object, void *context)
{
	struct ip_session *s = object;
	const struct ip_pmtu *path = context;

	if (s->remote == path->host)
		atomic_store_explicit(&s->session.sends.whole, ip_pmtu_payload(s, path->mtu), memory_order_relaxed);
}

/* Sets the path MTU of all sessions with host; 0: the link's again. */
static void
ip_pmtu_apply(struct ip *ip, uint32_t host, uint32_t mtu)
{
	struct ip_pmtu path = { .host = host, .mtu = mtu };

	xk_count(&ip->protocol, mtu != 0 ? IP_COUNT_PMTU_LOWERED : IP_COUNT_PMTU_FORGOTTEN);
	xk_trace(&ip->protocol, XK_TRACE_EVENTS, "path to %08x takes %u", host, mtu);
	xk_map_for_each(&ip->protocol.table.sessions, ip_pmtu_visit, &path);
}

void
ip_fault_tick(struct xk_event *event, void *argument)
{
	struct ip *ip = argument;
	struct ip_pmtu *end = ip->path + ip->pmtu_entries;

	xk_lock(&ip->lock);
	ip->path_now++;
	for (struct ip_pmtu *path = ip->path; path < end; path++) {
		uint32_t host = path->host;

		if (path->mtu == 0 || ip->path_now - path->born <= IP_PMTU_TICKS)
			continue;
		path->mtu = 0;
		ip->paths--;
		xk_unlock(&ip->lock);
		ip_pmtu_apply(ip, host, 0);
		xk_lock(&ip->lock);
	}
	if (ip->paths > 0)
		xk_event_schedule(event, ip->pmtu_timeout_ns / 1000 / IP_PMTU_TICKS);
	xk_unlock(&ip->lock);
}

static void
ip_pmtu_lower(struct ip *ip, uint32_t host, uint32_t mtu)
{
	struct ip_pmtu forgotten = { .mtu = 0 }, *path;

	xk_lock(&ip->lock);
	path = ip_pmtu_find(ip, host);
	if (path == NULL) { /* a free entry, or else the oldest */
		path = ip->path;
		for (struct ip_pmtu *p = path; p < ip->path + ip->pmtu_entries && path->mtu != 0; p++)
			if (p->mtu == 0 || ip->path_now - p->born > ip->path_now - path->born)
				path = p;
		forgotten = *path;
		if (ip->paths == 0)
			xk_event_schedule(&ip->path_tick, ip->pmtu_timeout_ns / 1000 / IP_PMTU_TICKS);
		ip->paths += path->mtu == 0;
	}
	*path = (struct ip_pmtu){ host, mtu, ip->path_now };
	xk_unlock(&ip->lock);
	if (forgotten.mtu != 0)
		ip_pmtu_apply(ip, forgotten.host, 0);
	ip_pmtu_apply(ip, host, mtu);
}

/* Returns the greatest common MTU below `length`, for routers that do not report theirs (RFC 1191, 7). */
static uint32_t
ip_pmtu_plateau(uint32_t length)
{
	static const uint32_t plateaus[] = { 65535, 32000, 17914, 8166, 4352, 2002, 1492, 1006, 508, 296, IP_MTU_MIN };
	unsigned i = 0;

	while (plateaus[i] >= length && plateaus[i] != IP_MTU_MIN)
		i++;
	return plateaus[i];
}

/* ---- datagrams of ours ---- */

/* Returns the path's MTU if s may have sent the datagram of header h and it was too long; otherwise 0. */
static uint32_t
ip_fault_new_mtu(const struct ip_session *s, struct ip_header h, uint32_t reported)
{
	const struct ip *ip = (struct ip *)s->session.protocol;
	uint32_t whole_max = atomic_load_explicit(&s->session.sends.whole, memory_order_relaxed);
	uint16_t since = atomic_load_explicit(&s->session.sends.number, memory_order_relaxed) - h.identification;
	uint32_t mtu = reported == 0 ? ip_pmtu_plateau(h.length) : reported;

	if (!ip->pmtu || (h.flags & (IP_FLAG_DONT_FRAGMENT | IP_FLAG_MORE)) != IP_FLAG_DONT_FRAGMENT)
		return 0;
	if (since % 2 != 0 || since == 0 || since / 2 > IP_FAULT_IDS || mtu >= h.length ||
	    h.length > s->link_max + IP_HEADER_LEN)
		return 0;
	if (mtu < ip->pmtu_min)
		mtu = (uint32_t)ip->pmtu_min;
	/* a smaller MTU reported since stays */
	return mtu - IP_HEADER_LEN < whole_max ? mtu : whole_max + IP_HEADER_LEN;
}

static int
ip_fault_report(struct xk_protocol *self, const struct xk_ip_fault *fault)
{
	const uint8_t *p = fault->quote;
	struct xk_fault_report report = { .fault = fault->fault, .mtu = fault->mtu, .from = fault->from };
	uint32_t mtu = 0, whole = 0, was = 0;
	struct ip_session *s;
	struct ip_header h;

	/* our datagrams have no options, and a report quotes as much of the first fragment as RFC 792 demands */
	if (fault->len < IP_HEADER_LEN + IP_QUOTED || ip_version_check(p) != 0)
		return -ENOENT;
	h = ip_load(p);
	if (h.length < IP_HEADER_LEN || h.offset != 0)
		return -ENOENT;
	s = (struct ip_session *)xk_table_find(self, ip_key(h.protocol, h.destination, h.source, NULL));
	if (s == NULL)
		return -ENOENT;
	if (fault->fault == XK_FAULT_TOO_BIG && (mtu = ip_fault_new_mtu(s, h, fault->mtu)) == 0)
		return -ENOENT;
	report.begin = p + IP_HEADER_LEN;
	report.len = fault->len - IP_HEADER_LEN;
	if (mtu != 0) { /* the protocol above may send again at once: less, then */
		whole = mtu - IP_HEADER_LEN;
		was = atomic_exchange_explicit(&s->session.sends.whole, whole, memory_order_relaxed);
	}
	if (xk_fault_notify(&s->session, &report) == -ENOENT) {
		if (mtu != 0)
			atomic_compare_exchange_strong(&s->session.sends.whole, &whole, was);
		return -ENOENT;
	}
	if (whole < was)
		ip_pmtu_lower((struct ip *)self, s->remote, mtu);
	return 0;
}

const struct xk_ip_ops ip_fault_ops = { ip_fault_set_errors, ip_fault_report, ip_fault_refuse };
