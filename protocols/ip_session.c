/*
 * ip_session.c - how IP's sessions come to be: opened by an upper, shared, or by a stranger's datagram; see ip.c.
 */
#include "protocols/ip_private.h"

#include <errno.h>

#include "protocols/ip.h"

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

static void
ip_session_prepare(struct ip_session *s, struct ip *ip, uint8_t protocol, uint32_t remote, uint32_t destination,
		   uint32_t max_packet)
{
	uint32_t whole_max = max_packet - IP_HEADER_LEN;

	s->remote = remote;
	s->destination = destination;
	s->local = ip_session_local_for(ip, remote, destination);
	s->link_max = whole_max < XK_IP_MAX_PACKET ? whole_max : XK_IP_MAX_PACKET;
	s->whole_flags = ip->pmtu ? IP_DONT_FRAGMENT : 0;
	atomic_store_explicit(&s->whole_max, ip_fault_whole_max(ip, s), memory_order_relaxed);
	atomic_store_explicit(&s->id, ip_session_first_id(ip, remote, destination), memory_order_relaxed);
	ip_header_prepare(s->header, (uint8_t)ip->ttl, protocol, s->local, remote);
	s->sum = ip_header_sum(s->header);
}

/* A session over lls, in no map yet; takes the reference on lls, also on failure. 0 or -errno. */
static int
ip_session_new(struct ip *ip, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type, struct xk_session *lls,
	       uint8_t protocol, uint32_t remote, uint32_t destination, struct xk_session **session)
{
	uint32_t max_packet;
	int got = xk_control(lls, XK_GET_MAX_PACKET, &max_packet, sizeof(max_packet));
	struct xk_session *s;

	if (got < (int)sizeof(max_packet) || max_packet < IP_MTU_MIN) {
		xk_close(lls);
		return got < 0 ? got : -EMSGSIZE;
	}
	s = xk_session_new(&ip->protocol, &ip_session_ops, sizeof(struct ip_session), hlp_receive, hlp_type, lls);
	if (s == NULL) {
		xk_close(lls);
		return -ENOMEM;
	}
	ip_session_prepare((struct ip_session *)s, ip, protocol, remote, destination, max_packet);
	*session = s;
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
	uint8_t protocol;
	uint32_t remote, local, hop;
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
	wanted->protocol = (uint8_t)number;
	wanted->remote = (uint32_t)remote;
	err = ip_session_next_hop(ip, wanted->remote, &wanted->hop, &index);
	if (err != 0)
		return err;
	wanted->local = local == XK_ANY ? ip->interface[index].host : (uint32_t)local;
	return ip_kind(ip, wanted->local, &own) == XK_VNET_MINE ? 0 : -EADDRNOTAVAIL;
}

/*
 * A reference on the session that exists under key. One that was learned is opened now: what it stands on goes where the
 * next hop is, not only where its datagrams came from. Who opens it lazily wants no more than to answer there. 0; -ENOENT: there is none; -EADDRINUSE: it is another upper's.
 */
static int
ip_session_share(struct ip *ip, const struct ip_session_wanted *wanted, struct xk_key key,
		 struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type, struct xk_session **session)
{
	int err = xk_session_share(&ip->sessions, key, hlp_receive, hlp_type, session);
	uint64_t hop = wanted->hop;

	if (err == 0 && !wanted->lazy &&
	    !atomic_exchange_explicit(&((struct ip_session *)*session)->any_lls, true, memory_order_relaxed))
		xk_control((*session)->lls, XK_VNET_FOLLOW, &hop, sizeof(hop));
	return err;
}

/* Opens below, which may wait unless it is to be lazy, and binds a new session under key. 0 or -errno; -EEXIST: somebody was faster. */
static int
ip_session_open_new(struct ip *ip, const struct ip_session_wanted *wanted, struct xk_key key,
		    struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type, struct xk_session **session)
{
	struct xk_protocol *self = &ip->protocol;
	struct xk_participants below = { 0 };
	struct xk_session *lls, *s;
	int err;

	xk_participant_push(&below.remote, wanted->hop);
	if (wanted->lazy)
		xk_participant_push(&below.local, XK_VNET_LAZY);
	err = xk_open(self, self, xk_lower(self, 0), &below, &lls);
	if (err != 0)
		return err;
	err = ip_session_new(ip, hlp_receive, hlp_type, lls, wanted->protocol, wanted->remote, wanted->local, &s);
	if (err != 0)
		return err;
	atomic_store_explicit(&((struct ip_session *)s)->any_lls, true, memory_order_relaxed);
	err = xk_session_bind(s, &ip->sessions, key);
	if (err != 0) {
		xk_close(s);
		return err;
	}
	*session = s;
	return 0;
}

int
ip_session_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		struct xk_participants *participants, struct xk_session **session)
{
	struct ip *ip = (struct ip *)self;
	struct ip_session_wanted wanted;
	struct xk_key key;
	int err = ip_session_check_wanted(self, hlp_type, participants, &wanted);

	if (err != 0)
		return err;
	key = ip_key(wanted.protocol, wanted.remote, wanted.local, NULL);
	err = ip_session_share(ip, &wanted, key, hlp_receive, hlp_type, session);
	if (err != -ENOENT)
		return err;
	err = ip_session_open_new(ip, &wanted, key, hlp_receive, hlp_type, session);
	if (err != -EEXIST)
		return err;
	err = ip_session_share(ip, &wanted, key, hlp_receive, hlp_type, session);
	return err == -ENOENT ? -EAGAIN : err;
}

/* The passive key of hlp_type; participants may not choose hosts. 0 or -errno. */
static int
ip_session_enable_key(struct xk_protocol *self, struct xk_protocol *hlp_type, struct xk_participants *participants,
		      struct xk_key *key)
{
	uint32_t number;
	int err = xk_number(self, hlp_type, &number);

	if (err != 0)
		return err;
	if (xk_participant_pop(&participants->remote) != XK_ANY || xk_participant_pop(&participants->local) != XK_ANY)
		return -EOPNOTSUPP;
	*key = ip_enable_key((uint8_t)number);
	return 0;
}

int
ip_session_open_enable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		       struct xk_participants *participants)
{
	struct xk_key key;
	int err = ip_session_enable_key(self, hlp_type, participants, &key);

	return err != 0 ? err : xk_enable_add(&((struct ip *)self)->enables, key, hlp_receive, hlp_type);
}

/* Whether somebody is still willing to have session s. */
static bool
ip_session_is_wanted(struct xk_session *s, void *context)
{
	struct ip *ip = context;

	return xk_map_resolve(&ip->enables, ip_enable_key(((struct ip_session *)s)->header[IP_PROTOCOL])) != NULL;
}

int
ip_session_open_disable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
			struct xk_participants *participants)
{
	struct ip *ip = (struct ip *)self;
	struct xk_key key;
	int err = ip_session_enable_key(self, hlp_type, participants, &key);

	if (err == 0)
		err = xk_enable_remove(&ip->enables, key, hlp_receive, hlp_type);
	if (err == 0)
		xk_session_uncache(self, ip_session_is_wanted, ip);
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

/* A session for the stranger of h, over the session below that was heard. 0, or the reason to drop the datagram. */
static unsigned
ip_session_open_passively(struct ip *ip, struct xk_session *lls, struct ip_header h, struct xk_key key,
			  struct xk_session **session)
{
	const struct xk_enable *enable = xk_map_resolve(&ip->enables, ip_enable_key(h.protocol));
	struct xk_session *s;
	int err;

	if (enable == NULL || !xk_duplicate(lls))
		return XK_DROP_NO_SESSION;
	err = ip_session_new(ip, enable->hlp_receive, enable->hlp_type, lls, h.protocol, h.source, h.destination, &s);
	if (err != 0)
		return err == -ENOMEM ? XK_DROP_NO_MEMORY : XK_DROP_NO_SESSION;
	err = xk_session_bind(s, &ip->sessions, key);
	if (err != 0) {
		xk_close(s);
		if (err != -EEXIST)
			return XK_DROP_NO_MEMORY;
		*session = xk_map_resolve(&ip->sessions, key); /* another shepherd's, if it is left */
		return *session != NULL ? 0 : XK_DROP_NO_SESSION;
	}
	if (xk_session_announce(s) != 0)
		return XK_DROP_REFUSED;
	*session = s;
	return 0;
}

unsigned
ip_session_find(struct ip *ip, struct xk_session *lls, struct ip_header h, const struct xk_session *first,
		struct xk_session **session)
{
	struct xk_key key = ip_key(h.protocol, h.source, h.destination, lls);
	unsigned why;

	*session = xk_map_resolve(&ip->sessions, key);
	if (*session != NULL)
		return 0;
	why = ip_session_check_addresses(ip, h);
	if (why != 0)
		return why;
	if (first == NULL)
		key = ip_key(h.protocol, h.source, h.destination, NULL);
	return ip_session_open_passively(ip, lls, h, key, session);
}
