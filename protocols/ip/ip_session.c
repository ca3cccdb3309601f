/*
 * ip_session.c - how IP's sessions come to be: opened by an upper, shared, or by a stranger's datagram; see ip.c.
 */
#include "protocols/ip/ip_private.h"

#include <errno.h>

#include "protocols/ip/ip.h"

/* The address to send from, where `destination` is what datagrams of the session bear. */
static uint32_t
ip_session_local_for(const struct ip *ip, uint32_t remote, uint32_t destination)
{
	unsigned index = 0;

	if (ip_kind(ip, destination, &index) == XK_VNET_MINE)
		return destination;
	ip_kind(ip, remote, &index);
	return ip->interface[index].host;
}

/*
 * The first number of a session's datagrams; not to be guessed from another session's: after one multiplication alone, the
 * difference of two would follow from the difference of their hosts.
 */
static uint16_t
ip_session_first_id(const struct ip *ip, uint32_t remote, uint32_t destination)
{
	uint64_t mixed = ip->seed ^ ((uint64_t)remote << 32 | destination);

	mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
	return (uint16_t)(mixed >> 48) | 1;
}

/* What makes a session: what its datagrams bear, and whether an upper has opened it. */
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
	int got = xk_control(session->lls, XK_GET_MAX_PACKET, &max_packet, sizeof(max_packet));

	if (got < (int)sizeof(max_packet) || max_packet < IP_MTU_MIN)
		return got < 0 ? got : -EMSGSIZE;
	s->remote = how->remote;
	s->destination = how->destination;
	s->local = ip_session_local_for(ip, how->remote, how->destination);
	s->link_max = max_packet - IP_HEADER_LEN < XK_IP_MAX_PACKET ? max_packet - IP_HEADER_LEN : XK_IP_MAX_PACKET;
	s->whole_flags = ip->pmtu ? IP_DONT_FRAGMENT : 0;
	atomic_store_explicit(&s->any_lls, how->opened, memory_order_relaxed);
	atomic_store_explicit(&s->whole_max, ip_fault_whole_max(ip, s), memory_order_relaxed);
	atomic_store_explicit(&s->id, ip_session_first_id(ip, how->remote, how->destination), memory_order_relaxed);
	ip_header_prepare(s->header, (uint8_t)ip->ttl, how->protocol, s->local, how->remote);
	s->sum = ip_header_sum(s->header);
	return 0;
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
	if (!ip_routes_find(&ip->routes, remote, hop))
		return -ENETUNREACH;
	ip_kind(ip, *hop, index);
	return 0;
}

/* What xk_open is asked for, checked. */
struct ip_session_wanted {
	struct ip_session_how how;
	uint32_t hop;
	bool lazy;
};

static int
ip_session_check_wanted(struct xk_protocol *self, struct xk_protocol *hlp_type, struct xk_participants *participants,
			struct ip_session_wanted *wanted)
{
	const struct ip *ip = (const struct ip *)self;
	uint64_t remote = xk_participant_pop(&participants->remote), local = xk_participant_pop(&participants->local);
	uint32_t number;
	unsigned index = 0, own;
	int err = xk_number(self, hlp_type, &number);

	if (err != 0)
		return err;
	wanted->lazy = local == XK_IP_LAZY;
	if (wanted->lazy)
		local = xk_participant_pop(&participants->local);
	if (remote > UINT32_MAX || (local > UINT32_MAX && local != XK_ANY))
		return -EINVAL;
	err = ip_session_next_hop(ip, (uint32_t)remote, &wanted->hop, &index);
	if (err != 0)
		return err;
	wanted->how =
		(struct ip_session_how){ .remote = (uint32_t)remote,
					 .destination = local == XK_ANY ? ip->interface[index].host : (uint32_t)local,
					 .protocol = (uint8_t)number,
					 .opened = true };
	return ip_kind(ip, wanted->how.destination, &own) == XK_VNET_MINE ? 0 : -EADDRNOTAVAIL;
}

/* The session below that leads to the next hop; may wait unless it is to be lazy. 0 or -errno. */
static int
ip_session_open_below(struct xk_protocol *self, const struct ip_session_wanted *wanted, struct xk_session **lls)
{
	struct xk_participants below = { 0 };

	xk_participant_push(&below.remote, wanted->hop);
	if (wanted->lazy)
		xk_participant_push(&below.local, XK_VNET_LAZY);
	return xk_open(self, self, xk_lower(self, 0), &below, lls);
}

/*
 * s was learned: what it stands on goes where the next hop is from now on, not only where its datagrams came from. Who opens it
 * lazily wants no more than to answer there.
 */
static void
ip_session_opened(struct ip_session *s, const struct ip_session_wanted *wanted)
{
	uint64_t hop = wanted->hop;

	if (!wanted->lazy && !atomic_exchange_explicit(&s->any_lls, true, memory_order_relaxed))
		xk_control(s->session.lls, XK_VNET_FOLLOW, &hop, sizeof(hop));
}

int
ip_session_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		struct xk_participants *participants, struct xk_session **session)
{
	struct ip_session_wanted wanted;
	struct xk_session *lls;
	struct xk_key key;
	int err = ip_session_check_wanted(self, hlp_type, participants, &wanted);

	if (err != 0)
		return err;
	key = ip_key(wanted.how.protocol, wanted.how.remote, wanted.how.destination, NULL);
	err = xk_table_share(self, key, hlp_receive, hlp_type, session);
	if (err == -ENOENT) {
		err = ip_session_open_below(self, &wanted, &lls);
		if (err == 0)
			err = xk_table_open(self, key, hlp_receive, hlp_type, lls, &wanted.how, session);
	}
	if (err == 0)
		ip_session_opened((struct ip_session *)*session, &wanted);
	return err;
}

bool
ip_session_is_to_all(const struct ip *ip, uint32_t host)
{
	unsigned index;
	enum xk_vnet_kind kind = ip_kind(ip, host, &index);

	if (kind == XK_VNET_ON_LINK) /* the network itself: the broadcast address of old */
		return ip->interface[index].broadcast != 0 && (host & ~ip->interface[index].mask) == 0;
	return kind == XK_VNET_BROADCAST || host >= UINT32_C(0xe0000000);
}

unsigned
ip_session_check_source(const struct ip *ip, uint32_t source)
{
	unsigned index;

	if (source >> 24 == 127)
		return IP_DROP_MARTIAN;
	if (source >> 24 == 0 || ip_session_is_to_all(ip, source))
		return IP_DROP_BAD_SOURCE;
	return ip_kind(ip, source, &index) == XK_VNET_MINE ? IP_DROP_BAD_SOURCE : 0;
}

unsigned
ip_session_check_addresses(const struct ip *ip, struct ip_header h)
{
	unsigned why = ip_session_check_source(ip, h.source), index;
	enum xk_vnet_kind kind;

	if (h.destination >> 24 == 127)
		return IP_DROP_MARTIAN;
	if (why != 0)
		return why;
	kind = ip_kind(ip, h.destination, &index);
	return kind == XK_VNET_MINE || kind == XK_VNET_BROADCAST ? 0 : IP_DROP_NOT_MINE;
}

struct xk_session *
ip_session_find(struct ip *ip, struct xk_session *lls, struct xk_msg *m, const struct xk_session *first)
{
	struct ip_header h = ip_header_load(m->data - IP_HEADER_LEN);
	struct xk_key key = ip_key(h.protocol, h.source, h.destination, lls);
	struct ip_session_how how = { h.source, h.destination, h.protocol, false };
	struct xk_session *s = xk_table_find(&ip->protocol, key);
	unsigned why;

	if (s != NULL)
		return s;
	why = ip_session_check_addresses(ip, h);
	if (why == 0 && xk_table_enabled(&ip->protocol, xk_table_number_key(h.protocol)) == NULL)
		why = XK_DROP_NO_SESSION;
	if (why != 0) {
		ip_undelivered(ip, m, why);
		return NULL;
	}
	if (first == NULL)
		key = ip_key(h.protocol, h.source, h.destination, NULL);
	return xk_table_accept(&ip->protocol, key, xk_table_number_key(h.protocol), lls, &how, m);
}
