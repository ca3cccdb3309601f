/*
 * ip_fault.c - what goes wrong with datagrams, in both directions: those of others that end here, whose senders are to be
 * told, and ours, of which others say that they ended there; see ip.c.
 *
 * Whom others' words may hurt: a quote is believed only as far as it is a datagram that we may have sent. A session of
 * ours must have its addresses and protocol, and the upper must know the conversation (udp: the ports). That a path takes
 * less than was thought must besides be about a datagram that said not to be fragmented, was longer than what they say
 * the link takes and no longer than what we send, and had one of the identifications that were sent to that host last.
 * Nothing below `pmtu_min` is believed, few hosts are remembered, and each for a while only (RFC 1191, 5927).
 */
#include <errno.h>
#include <string.h>

#include "protocols/ip/ip_private.h"
#include "xkernel/trace.h"

enum {
	IP_FAULT_IDS = 4096, /* so many datagrams later a session still knows what it sent */
};

/* ---- others' datagrams ---- */

/* Sources that are no single host's have been dropped before. */
void
ip_fault_send(struct ip *ip, struct xk_ip_trouble *trouble)
{
	const uint8_t *header = trouble->header;
	uint32_t destination = xk_get32(header + IP_DESTINATION);
	unsigned index;

	if (ip->errors.send == NULL)
		return;
	trouble->source = xk_get32(header + IP_SOURCE);
	trouble->protocol = header[IP_PROTOCOL];
	trouble->local = ip_kind(ip, destination, &index) == XK_VNET_MINE ? destination : 0;
	trouble->is_to_all = ip_session_is_to_all(ip, destination) || (trouble->m->flags & XK_MSG_TO_ALL) != 0;
	trouble->is_later_part = (xk_get16(header + IP_FRAGMENT) & IP_OFFSET) != 0;
	ip->errors.send(ip->errors.protocol, trouble);
}

/*
 * The header that was taken off m, and `popped` bytes after it: they lie in front of what is left, unless somebody has
 * put something there or given that segment back. NULL: it is no header of a datagram from source to destination.
 */
static const uint8_t *
ip_fault_header(const struct xk_msg *m, size_t popped)
{
	const uint8_t *p = m->data - popped - IP_HEADER_LEN;

	if ((size_t)(m->data - m->floor) < popped + IP_HEADER_LEN)
		return NULL;
	return p[IP_VERSION] == IP_VERSION_4_NO_OPTIONS && xk_sum_is_intact(ip_header_sum(p)) ? p : NULL;
}

static void
ip_fault_send_quoting(struct ip *ip, enum xk_fault fault, const struct xk_msg *m, const uint8_t *header, size_t popped)
{
	struct xk_ip_trouble trouble = {
		.fault = fault,
		.header = header,
		.header_len = IP_HEADER_LEN,
		.begin = header + IP_HEADER_LEN,
		.begin_len = popped,
		.m = m,
	};

	if (header == NULL)
		xk_count(&ip->protocol, IP_COUNT_UNQUOTED);
	else
		ip_fault_send(ip, &trouble);
}

void
ip_fault_send_of(struct ip *ip, enum xk_fault fault, const struct xk_msg *m)
{
	if (ip->errors.send != NULL)
		ip_fault_send_quoting(ip, fault, m, ip_fault_header(m, 0), 0);
}

int
ip_fault_refuse(struct ip_session *s, const struct xk_ip_refusal *refusal)
{
	struct ip *ip = (struct ip *)s->session.protocol;
	const uint8_t *p;

	if (ip->errors.send == NULL)
		return 0;
	p = ip_fault_header(refusal->m, refusal->popped);
	if (p != NULL && (xk_get32(p + IP_SOURCE) != s->remote || xk_get32(p + IP_DESTINATION) != s->destination ||
			  p[IP_PROTOCOL] != s->header[IP_PROTOCOL]))
		p = NULL;
	ip_fault_send_quoting(ip, refusal->fault, refusal->m, p, refusal->popped);
	return 0;
}

/* A neighbour does not answer for its address: if m is another host's datagram, that one is told. */
int
ip_fault_unsent(struct ip *ip, const struct xk_msg *m)
{
	struct xk_ip_trouble trouble = { .fault = XK_FAULT_HOST, .header = m->data, .m = m };
	unsigned index;

	if (m->len < IP_HEADER_LEN)
		return 0;
	trouble.header_len = trouble.skip = (size_t)(m->data[IP_VERSION] & 0xf) * 4;
	if (trouble.header_len < IP_HEADER_LEN || trouble.header_len > m->len ||
	    ip_kind(ip, xk_get32(m->data + IP_SOURCE), &index) == XK_VNET_MINE)
		return 0;
	ip_fault_send(ip, &trouble);
	return 0;
}

/* ---- paths ---- */

/* A change of what is known of the path to a host, for every session with it. */
struct ip_fault_path {
	uint32_t host, mtu; /* mtu 0: as much as the link takes */
};

static uint32_t
ip_fault_whole_of(const struct ip_session *s, uint32_t mtu)
{
	uint32_t whole = mtu - IP_HEADER_LEN;

	return mtu == 0 || whole > s->link_max ? s->link_max : whole;
}

uint32_t
ip_fault_whole_max(struct ip *ip, const struct ip_session *s)
{
	uint32_t mtu;

	if (!ip->pmtu)
		return s->link_max;
	xk_lock(&ip->lock);
	mtu = ip_paths_find(&ip->paths, s->remote);
	xk_unlock(&ip->lock);
	return ip_fault_whole_of(s, mtu);
}

static void
ip_fault_visit(void *object, void *context)
{
	struct ip_session *s = object;
	const struct ip_fault_path *path = context;

	if (s->remote == path->host)
		atomic_store_explicit(&s->whole_max, ip_fault_whole_of(s, path->mtu), memory_order_relaxed);
}

static void
ip_fault_apply(struct ip *ip, uint32_t host, uint32_t mtu)
{
	struct ip_fault_path path = { host, mtu };

	if (host == 0)
		return;
	xk_count(&ip->protocol, mtu != 0 ? IP_COUNT_PATH_LOWERED : IP_COUNT_PATH_FORGOTTEN);
	xk_trace(&ip->protocol, XK_TRACE_EVENTS, "path to %08x takes %u", host, mtu);
	xk_map_for_each(&ip->protocol.table.sessions, ip_fault_visit, &path);
}

static void
ip_fault_schedule(struct ip *ip)
{
	xk_event_schedule(&ip->path_tick, ip->pmtu_timeout_ns / 1000 / IP_PATH_TICKS);
}

static void
ip_fault_tick(struct xk_event *event, void *argument)
{
	struct ip *ip = argument;
	uint32_t host, step = 1;

	(void)event;
	do {
		xk_lock(&ip->lock);
		ip->paths.tick += step;
		step = 0;
		host = ip_paths_forget(&ip->paths);
		ip->path_ticking = ip->paths.count > 0;
		if (host == 0 && ip->path_ticking)
			ip_fault_schedule(ip);
		xk_unlock(&ip->lock);
		ip_fault_apply(ip, host, 0);
	} while (host != 0);
}

static void
ip_fault_lower(struct ip *ip, uint32_t host, uint32_t mtu)
{
	uint32_t forgotten;

	xk_lock(&ip->lock);
	forgotten = ip_paths_set(&ip->paths, host, mtu);
	if (!ip->path_ticking)
		ip_fault_schedule(ip);
	ip->path_ticking = true;
	xk_unlock(&ip->lock);
	ip_fault_apply(ip, forgotten, 0);
	ip_fault_apply(ip, host, mtu);
}

/* ---- our datagrams ---- */

/* What is quoted, as far as its header says. */
struct ip_fault_quote {
	struct ip_header h;
	uint32_t length;
	const uint8_t *payload;
	size_t payload_len;
};

/* False: it is nothing that we send (no options), or shows less than RFC 792 wants of the beginning of a datagram. */
static bool
ip_fault_parse(struct ip_fault_quote *q, const struct xk_ip_fault *fault)
{
	const uint8_t *p = fault->quote;

	if (fault->len < IP_HEADER_LEN + IP_QUOTED || p[IP_VERSION] != IP_VERSION_4_NO_OPTIONS)
		return false;
	q->h.source = xk_get32(p + IP_SOURCE);
	q->h.destination = xk_get32(p + IP_DESTINATION);
	q->h.id = xk_get16(p + IP_ID);
	q->h.fragment = xk_get16(p + IP_FRAGMENT);
	q->h.protocol = p[IP_PROTOCOL];
	q->length = xk_get16(p + IP_LENGTH);
	q->payload = p + IP_HEADER_LEN;
	q->payload_len = fault->len - IP_HEADER_LEN;
	return q->length >= IP_HEADER_LEN && (q->h.fragment & IP_OFFSET) == 0;
}

/* What the path takes, if it takes less than s thought and the quote can be s's; 0: it is not to be believed. */
static uint32_t
ip_fault_new_mtu(const struct ip *ip, const struct ip_session *s, const struct ip_fault_quote *q, uint32_t said)
{
	uint32_t whole_max = atomic_load_explicit(&s->whole_max, memory_order_relaxed);
	uint16_t since = atomic_load_explicit(&s->id, memory_order_relaxed) - q->h.id;
	uint32_t mtu = said == 0 ? ip_path_plateau(q->length) : said;

	if (!ip->pmtu || (q->h.fragment & (IP_DONT_FRAGMENT | IP_MORE)) != IP_DONT_FRAGMENT)
		return 0;
	if (since % 2 != 0 || since == 0 || since / 2 > IP_FAULT_IDS)
		return 0;
	if (mtu >= q->length || q->length > s->link_max + IP_HEADER_LEN)
		return 0;
	if (mtu < ip->pmtu_min)
		mtu = (uint32_t)ip->pmtu_min;
	/* less was heard since that datagram was sent: that stays */
	return mtu - IP_HEADER_LEN < whole_max ? mtu : whole_max + IP_HEADER_LEN;
}

int
ip_fault_receive(struct ip *ip, const struct xk_ip_fault *fault)
{
	struct ip_fault_quote q = { .length = 0 };
	struct xk_fault_report report = { .fault = fault->fault, .mtu = fault->mtu, .from = fault->from };
	struct ip_session *s;
	uint32_t mtu = 0;

	if (!ip_fault_parse(&q, fault))
		return -ENOENT;
	s = (struct ip_session *)xk_table_find(&ip->protocol, ip_key(q.h.protocol, q.h.destination, q.h.source, NULL));
	if (s == NULL)
		return -ENOENT;
	if (fault->fault == XK_FAULT_TOO_BIG && (mtu = ip_fault_new_mtu(ip, s, &q, fault->mtu)) == 0)
		return -ENOENT;
	report.begin = q.payload;
	report.len = q.payload_len;
	if (xk_fault_tell(&s->session, &report) == -ENOENT)
		return -ENOENT;
	if (mtu != 0 && mtu - IP_HEADER_LEN < atomic_load_explicit(&s->whole_max, memory_order_relaxed))
		ip_fault_lower(ip, s->remote, mtu);
	return 0;
}

/* ---- life ---- */

void
ip_fault_prepare(struct ip *ip)
{
	xk_event_init(&ip->path_tick, ip->protocol.kernel, ip_fault_tick, ip);
}

int
ip_fault_init(struct ip *ip)
{
	return ip_paths_init(&ip->paths, (uint32_t)ip->pmtu_entries);
}

void
ip_fault_fini(struct ip *ip)
{
	xk_event_cancel(&ip->path_tick);
	ip_paths_fini(&ip->paths);
}
