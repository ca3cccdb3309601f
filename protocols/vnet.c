/*
 * vnet.c - hosts by their IPv4 addresses, over one link or several: a virtual protocol, without a header.
 *
 * Participants: (remote, local); the top of the remote stack is a neighbour's IPv4 address, the one the frame goes to,
 *               or a broadcast address; the top of the local stack, if any, the address of one of the interfaces. With
 *               XK_VNET_LAZY (vnet.h) the neighbour is asked for when something is pushed. A host on no network here is
 *               -ENETUNREACH: VNET does not route.
 *               A session that a neighbour's frame has caused knows its link address only: what get_participants gives
 *               for the remote is XK_ANY.
 * Sessions:     each holds a reference on a session of the link, which holds none on it. What frames have caused stands
 *               on that session, which knows it (hls), so that a message comes up without a map and without a change; it
 *               answers to where its frames come from, always. It is kept as `sessions` says. What was opened is one per
 *               neighbour, and is told by ARP when the neighbour's link address changes; messages come up it only where
 *               nobody has enabled their type.
 * Following:    a session whose neighbour has moved keeps the session of the link that it began with, so that a push
 *               under way there is not disturbed, and pushes on another one (`moved`), of which each push takes a
 *               reference: only that costs a lock. When ARP does not believe the address any more, the next push asks
 *               it to make sure, and goes where the last one went meanwhile. So who is silent asks nothing.
 * Control:      XK_VNET_GET_INTERFACES, XK_VNET_GET_INTERFACE (vnet.h), XK_GET_MY_HOST, XK_GET_PEER_HOST (of sessions
 *               that were opened actively); the link answers the others
 * Settings:     address, address2, address3, address4: one per interface
 * Drops:        none of its own; no_session: nobody wants what the neighbour has sent
 * Counters:     to_self (opens to an own address, refused: an outgoing shepherd never turns upward), moved (sessions to
 *               another link address)
 * Faults:       of a message on a lazy session that no link address could be had for, the protocol above is told with
 *               XK_VNET_UNSENT
 * Not done:     multicast
 * Graph:        vnet -> eth; vnet -> arp; and once more for each further interface (address2, ...)
 */
#include "protocols/vnet.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "protocols/arp.h"
#include "protocols/eth.h"
#include "xkernel/trace.h"

enum { VNET_LINK, VNET_RESOLVER, VNET_ROLES };

enum { VNET_COUNT_TO_SELF, VNET_COUNT_MOVED };

/* So many changes of a neighbour's address may come in between before a session leaves it to its next push. */
enum { VNET_TRIES = 1000 };

enum { VNET_BUCKETS_MAX = 4096, VNET_FOUND = 16 /* sessions with one host that are looked at together */ };

struct vnet {
	struct xk_protocol protocol;
	struct xk_network addresses[XK_VNET_INTERFACES];
	unsigned interface_count;
	struct xk_vnet_interface interfaces[XK_VNET_INTERFACES];
	struct xk_map active;  /* the link's session: vnet_session that a frame has caused */
	struct xk_map passive; /* hlp_type: xk_enable */
	struct xk_lock lock;   /* of what follows; before that of a session */
	unsigned bucket_mask;
	struct vnet_session **buckets; /* what has been opened, by its host */
};

/* binding.watched says that a push must look at what is under the lock. */
struct vnet_session {
	struct xk_session session;
	unsigned interface;        /* index */
	_Atomic uint64_t host;     /* the neighbour; XK_ANY: a frame has caused it, and nobody has opened it */
	struct vnet_session *next; /* in its bucket */
	struct xk_lock lock;       /* of what follows */
	struct xk_session *moved;  /* pushes go there, and it has a reference on it; NULL: to lls */
	uint64_t link;             /* the address of either */
	bool is_stale;             /* the next push asks for the address */
};

static inline struct vnet *
vnet_of(struct xk_protocol *self)
{
	return xk_container_of(self, struct vnet, protocol);
}

static inline struct vnet_session *
vnet_session_of(struct xk_session *s)
{
	return xk_container_of(s, struct vnet_session, session);
}

static uint64_t
vnet_host(const struct vnet_session *vs)
{
	return atomic_load_explicit(&vs->host, memory_order_relaxed);
}

static void
vnet_set_host(struct vnet_session *vs, uint64_t host)
{
	atomic_store_explicit(&vs->host, host, memory_order_relaxed);
}

static struct xk_key
vnet_active_key(const struct xk_session *lls)
{
	return (struct xk_key){ (uintptr_t)lls, 0 };
}

static struct xk_key
vnet_passive_key(const struct xk_protocol *hlp_type)
{
	return (struct xk_key){ (uintptr_t)hlp_type, 0 };
}

static struct xk_protocol *
vnet_link(struct vnet *vnet, unsigned interface)
{
	return xk_lower(&vnet->protocol, interface * VNET_ROLES + VNET_LINK);
}

static struct xk_protocol *
vnet_resolver(struct vnet *vnet, unsigned interface)
{
	return xk_lower(&vnet->protocol, interface * VNET_ROLES + VNET_RESOLVER);
}

/* ---- init and fini ---- */

static void vnet_changed(const struct xk_arp_follower *follower, uint32_t host);

static bool
vnet_is_host_address(const struct xk_network *network)
{
	uint32_t rest;

	if (network->bits == 0 || network->bits > 32 || network->host == 0 || network->host >> 28 >= 0xe)
		return false;
	rest = (uint32_t)((UINT64_C(1) << (32 - network->bits)) - 1);
	return network->bits >= 31 || ((network->host & rest) != 0 && (network->host & rest) != rest);
}

static int
vnet_interface_init(struct vnet *vnet, unsigned index)
{
	struct xk_network *network = &vnet->addresses[index];
	struct xk_vnet_interface *interface = &vnet->interfaces[index];
	struct xk_arp_follower follower = { &vnet->protocol, index, vnet_changed };
	uint32_t max_packet, offloads;
	int status;

	if (!vnet_is_host_address(network)) {
		xk_trace(&vnet->protocol, XK_TRACE_NONE, "interface %u has no address, or one of no host", index + 1);
		return -EADDRNOTAVAIL;
	}
	status = xk_control_protocol(vnet_link(vnet, index), XK_GET_MAX_PACKET, &max_packet, sizeof(max_packet));
	if (status < 0)
		return status;
	if (xk_control_protocol(vnet_link(vnet, index), XK_GET_OFFLOADS, &offloads, sizeof(offloads)) < 0)
		offloads = 0;
	*interface = (struct xk_vnet_interface){
		.host = network->host,
		.mask = (uint32_t)(UINT64_MAX << (32 - network->bits)),
		.max_packet = max_packet,
		.offloads = offloads,
		.index = index,
	};
	interface->broadcast = network->bits >= 31 ? 0 : network->host | ~interface->mask;
	status = xk_control_protocol(vnet_resolver(vnet, index), XK_ARP_SET_ADDRESS, network, sizeof(*network));
	if (status >= 0)
		status = xk_control_protocol(vnet_resolver(vnet, index), XK_ARP_SET_FOLLOWER, &follower,
					     sizeof(follower));
	return status < 0 ? status : 0;
}

static void
vnet_fini(struct xk_protocol *self)
{
	struct vnet *vnet = vnet_of(self);

	xk_enable_fini(&vnet->passive);
	xk_map_fini(&vnet->active);
	free(vnet->buckets);
}

static int
vnet_tables_init(struct vnet *vnet)
{
	unsigned buckets = 1;
	int status = xk_map_init(&vnet->active, vnet->protocol.kernel, vnet->protocol.session_max);

	if (status != 0)
		return status;
	status = xk_map_init(&vnet->passive, vnet->protocol.kernel, 8);
	while (buckets < vnet->protocol.session_max && buckets < VNET_BUCKETS_MAX)
		buckets *= 2;
	vnet->bucket_mask = buckets - 1;
	vnet->buckets = status == 0 ? calloc(buckets, sizeof(struct vnet_session *)) : NULL;
	if (vnet->buckets != NULL)
		return 0;
	if (status == 0)
		xk_enable_fini(&vnet->passive);
	xk_map_fini(&vnet->active);
	return status != 0 ? status : -ENOMEM;
}

static int
vnet_init(struct xk_protocol *self)
{
	struct vnet *vnet = vnet_of(self);
	int status = 0;

	vnet->interface_count = self->lower_count / VNET_ROLES;
	if (vnet->interface_count == 0 || vnet->interface_count > XK_VNET_INTERFACES) {
		xk_trace(self, XK_TRACE_NONE, "%u interfaces, at most %d are possible", vnet->interface_count,
			 XK_VNET_INTERFACES);
		return -EINVAL;
	}
	xk_lock_init(&vnet->lock, self);
	for (unsigned i = 0; i < vnet->interface_count && status == 0; i++)
		status = vnet_interface_init(vnet, i);
	return status != 0 ? status : vnet_tables_init(vnet);
}

/* ---- sessions ---- */

static const struct xk_session_ops vnet_session_ops, vnet_lazy_ops;

/* The session of the link to link address `link`, with the caller's reference. */
static int
vnet_open_link(struct vnet *vnet, unsigned interface, struct xk_protocol *hlp_type, uint64_t link,
	       struct xk_session **lls)
{
	struct xk_participants participants = { .remote.depth = 0 };

	xk_participant_push(&participants.remote, link);
	return xk_open(&vnet->protocol, hlp_type, vnet_link(vnet, interface), &participants, lls);
}

/* A session on lls (with a reference of its own on it) that nobody finds yet, with the caller's reference. */
static struct xk_session *
vnet_session_new(struct vnet *vnet, struct xk_protocol *hlp_receive, struct xk_session *lls, unsigned interface)
{
	struct vnet_session *vs;
	struct xk_session *s;

	if (!xk_duplicate(lls))
		return NULL;
	s = xk_session_new(&vnet->protocol, &vnet_session_ops, sizeof(struct vnet_session), hlp_receive, lls->hlp_type,
			   lls);
	if (s == NULL) {
		xk_close(lls);
		return NULL;
	}
	vs = vnet_session_of(s);
	vs->interface = interface;
	xk_lock_init(&vs->lock, &vnet->protocol);
	if (xk_control(lls, XK_GET_PEER_LINK, &vs->link, sizeof(vs->link)) < 0)
		vs->link = 0;
	vnet_set_host(vs, XK_ANY);
	return s;
}

/* Messages that come up lls go to s, unless another session stands there. */
static void
vnet_stand(struct xk_session *s, struct xk_session *lls)
{
	struct xk_session *expected = NULL;

	atomic_compare_exchange_strong_explicit(&lls->hls, &expected, s, memory_order_release, memory_order_relaxed);
}

static void
vnet_leave(struct xk_session *s, struct xk_session *lls)
{
	struct xk_session *expected = s;

	atomic_compare_exchange_strong_explicit(&lls->hls, &expected, NULL, memory_order_release, memory_order_relaxed);
}

/* ---- what was opened, by its host ---- */

static struct vnet_session **
vnet_bucket(struct vnet *vnet, uint64_t host)
{
	return &vnet->buckets[host * UINT64_C(0x9e3779b97f4a7c15) >> 32 & vnet->bucket_mask];
}

/* The live session of hlp_type with host, with a reference for the caller. Under the lock. */
static struct xk_session *
vnet_find_opened(struct vnet *vnet, unsigned interface, uint64_t host, const struct xk_protocol *hlp_type)
{
	for (struct vnet_session *vs = *vnet_bucket(vnet, host); vs != NULL; vs = vs->next)
		if (vnet_host(vs) == host && vs->interface == interface && vs->session.hlp_type == hlp_type &&
		    xk_duplicate(&vs->session))
			return &vs->session;
	return NULL;
}

/* Live sessions with host, of whatever type, after `skip` others, with a reference of its own on each. How many. */
static unsigned
vnet_find_followers(struct vnet *vnet, unsigned interface, uint64_t host, unsigned skip, struct xk_session **found)
{
	unsigned count = 0;

	xk_lock(&vnet->lock);
	for (struct vnet_session *vs = *vnet_bucket(vnet, host); vs != NULL && count < VNET_FOUND; vs = vs->next) {
		if (vnet_host(vs) != host || vs->interface != interface)
			continue;
		if (skip > 0)
			skip--;
		else if (xk_duplicate(&vs->session))
			found[count++] = &vs->session;
	}
	xk_unlock(&vnet->lock);
	return count;
}

/* s becomes that of host. Under the lock. */
static void
vnet_follower_add(struct vnet *vnet, struct vnet_session *vs, uint64_t host)
{
	struct vnet_session **bucket = vnet_bucket(vnet, host);

	vnet_set_host(vs, host);
	vs->next = *bucket;
	*bucket = vs;
}

static void
vnet_follower_remove(struct vnet *vnet, struct vnet_session *vs)
{
	xk_lock(&vnet->lock);
	if (vnet_host(vs) != XK_ANY) {
		struct vnet_session **at = vnet_bucket(vnet, vnet_host(vs));

		while (*at != vs)
			at = &(*at)->next;
		*at = vs->next;
	}
	xk_unlock(&vnet->lock);
}

/* ---- following a neighbour ---- */

/* Under the session's lock. */
static void
vnet_set_watched(struct vnet_session *vs)
{
	atomic_store_explicit(&vs->session.binding.watched, vs->moved != NULL || vs->is_stale, memory_order_relaxed);
}

/* What s pushes on instead of lls, with the caller's reference; NULL: lls itself. Any context. */
static struct xk_session *
vnet_take_moved(struct vnet_session *vs)
{
	struct xk_session *lls;

	xk_lock(&vs->lock);
	lls = vs->moved;
	if (lls != NULL && !xk_duplicate(lls))
		lls = NULL;
	xk_unlock(&vs->lock);
	return lls;
}

/*
 * s pushes on `to` from now on, which link is the address of; takes the caller's reference. NULL: on lls. stands: messages
 * come up s, too. The other one, to be closed by the caller.
 */
static struct xk_session *
vnet_replace(struct xk_session *s, struct xk_session *to, uint64_t link, bool stands)
{
	struct vnet_session *vs = vnet_session_of(s);
	struct xk_session *before;

	xk_lock(&vs->lock);
	before = vs->moved;
	vnet_leave(s, s->lls);
	if (before != NULL)
		vnet_leave(s, before);
	if (stands)
		vnet_stand(s, to != NULL ? to : s->lls);
	vs->moved = to;
	vs->link = link;
	vnet_set_watched(vs);
	xk_unlock(&vs->lock);
	return before;
}

static bool
vnet_is_enabled(struct vnet *vnet, const struct xk_protocol *hlp_type)
{
	return xk_map_resolve(&vnet->passive, vnet_passive_key(hlp_type)) != NULL;
}

/*
 * s goes to another link address. If it stands on lls it does so no more: what else comes from there must not be answered
 * elsewhere. 0 or -errno.
 */
static int
vnet_move(struct vnet *vnet, struct xk_session *s, uint64_t link)
{
	struct xk_session *lls;
	int status = vnet_open_link(vnet, vnet_session_of(s)->interface, s->hlp_type, link, &lls);

	if (status != 0)
		return status;
	if (s->map != NULL)
		xk_map_unbind(s->map, &s->binding);
	if (lls == s->lls) {
		xk_close(lls);
		lls = NULL;
	}
	xk_close(vnet_replace(s, lls, link, !vnet_is_enabled(vnet, s->hlp_type)));
	xk_count(&vnet->protocol, VNET_COUNT_MOVED);
	xk_trace(&vnet->protocol, XK_TRACE_EVENTS, "%08x is at %012llx now", (uint32_t)vnet_host(vnet_session_of(s)),
		 (unsigned long long)link);
	return 0;
}

static uint64_t
vnet_link_of(struct vnet_session *vs)
{
	uint64_t link;

	xk_lock(&vs->lock);
	link = vs->link;
	xk_unlock(&vs->lock);
	return link;
}

static void
vnet_set_stale(struct vnet_session *vs, bool is_stale)
{
	xk_lock(&vs->lock);
	vs->is_stale = is_stale;
	vnet_set_watched(vs);
	xk_unlock(&vs->lock);
}

/* Whether s, on which the caller has a reference, goes where ARP says now. Others may be at the same: the last one looks. */
static bool
vnet_follow_now(struct vnet *vnet, struct xk_session *s)
{
	struct vnet_session *vs = vnet_session_of(s);

	for (unsigned i = 0; i < VNET_TRIES; i++) {
		uint64_t link = vnet_link_of(vs), known = link;

		if (xk_arp_follow(vnet_resolver(vnet, vs->interface), (uint32_t)vnet_host(vs), &known) != 0)
			return false;
		if (known == link)
			return true;
		if (vnet_move(vnet, s, known) != 0)
			return false;
	}
	return false;
}

static void
vnet_follow(struct vnet *vnet, struct xk_session *s)
{
	if (!vnet_follow_now(vnet, s))
		vnet_set_stale(vnet_session_of(s), true);
}

/* ARP knows host by another link address, or does not know it any more. */
static void
vnet_changed(const struct xk_arp_follower *follower, uint32_t host)
{
	struct vnet *vnet = vnet_of(follower->protocol);
	struct xk_session *found[VNET_FOUND];
	unsigned count, done = 0;

	do {
		count = vnet_find_followers(vnet, follower->interface, host, done, found);
		for (unsigned i = 0; i < count; i++) {
			vnet_follow(vnet, found[i]);
			xk_session_release(found[i]);
		}
		done += count;
	} while (count == VNET_FOUND);
}

/* A push has come upon what ARP does not believe any more. Any context. */
static void
vnet_ask(struct vnet *vnet, struct vnet_session *vs)
{
	struct xk_protocol *arp = vnet_resolver(vnet, vs->interface);
	int status;

	vnet_set_stale(vs, false);
	status = xk_arp_ask(arp, (uint32_t)vnet_host(vs), vnet_link_of(vs));
	if (status != 0 && status != -EINPROGRESS)
		vnet_set_stale(vs, true);
}

/* ---- how sessions come to be ---- */

/* Of what two upper protocols have opened, the caller's reference on s if it is hlp_receive's. 0 or -EADDRINUSE. */
static int
vnet_session_share(struct xk_session *s, const struct xk_protocol *hlp_receive, struct xk_session **session)
{
	if (xk_hlp_receive(s) != hlp_receive) {
		xk_close(s);
		return -EADDRINUSE;
	}
	*session = s;
	return 0;
}

/* s, which has just been made, becomes that of host, unless somebody was faster: as vnet_session_share. Takes s. */
static int
vnet_session_publish(struct vnet *vnet, struct xk_session *s, uint64_t host, struct xk_session **session)
{
	struct vnet_session *vs = vnet_session_of(s);
	struct xk_protocol *hlp_receive = xk_hlp_receive(s);
	struct xk_session *other;

	xk_lock(&vnet->lock);
	other = vnet_find_opened(vnet, vs->interface, host, s->hlp_type);
	if (other == NULL)
		vnet_follower_add(vnet, vs, host);
	xk_unlock(&vnet->lock);
	if (other == NULL) {
		*session = s;
		return 0;
	}
	xk_close(s);
	return vnet_session_share(other, hlp_receive, session);
}

/* A session with host, which is at `link`. 0 or -errno. */
static int
vnet_session_make(struct vnet *vnet, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type, unsigned interface,
		  uint64_t host, uint64_t link, struct xk_session **session)
{
	struct xk_session *lls, *s;
	int status = vnet_open_link(vnet, interface, hlp_type, link, &lls);

	if (status != 0)
		return status;
	s = vnet_session_new(vnet, hlp_receive, lls, interface);
	if (s != NULL && !vnet_is_enabled(vnet, hlp_type))
		vnet_stand(s, lls);
	xk_close(lls);
	return s == NULL ? -ENOMEM : vnet_session_publish(vnet, s, host, session);
}

/* The session with host, which is at `link` or was a moment ago, made or with one more reference. 0 or -errno. */
static int
vnet_open_to(struct vnet *vnet, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type, unsigned interface,
	     uint64_t host, uint64_t link, struct xk_session **session)
{
	struct xk_session *s;
	int status;

	xk_lock(&vnet->lock);
	s = vnet_find_opened(vnet, interface, host, hlp_type);
	xk_unlock(&vnet->lock);
	if (s != NULL)
		status = vnet_session_share(s, hlp_receive, session);
	else
		status = vnet_session_make(vnet, hlp_receive, hlp_type, interface, host, link, session);
	if (status == 0 && link != XK_ETH_BROADCAST)
		vnet_follow(vnet, *session);
	return status;
}

static int
vnet_open_lazy(struct vnet *vnet, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type, unsigned interface,
	       uint32_t host, struct xk_session **session)
{
	struct xk_session *s = xk_session_new(&vnet->protocol, &vnet_lazy_ops, sizeof(struct vnet_session), hlp_receive,
					      hlp_type, NULL);

	if (s == NULL)
		return -ENOMEM;
	vnet_session_of(s)->interface = interface;
	vnet_set_host(vnet_session_of(s), host);
	*session = s;
	return 0;
}

/* Who pushes on a session that is closed meanwhile pushes on lls, which is kept as long. */
static void
vnet_close(struct xk_session *s)
{
	vnet_follower_remove(vnet_of(s->protocol), vnet_session_of(s));
	xk_close(vnet_replace(s, NULL, 0, false));
}

/* ---- opening ---- */

/* Which of the interfaces (that of address `local` alone, if it is given) host is reached through. */
static int
vnet_choose(struct vnet *vnet, uint64_t host, uint64_t local, unsigned *interface, enum xk_vnet_kind *kind)
{
	unsigned first = 0, count = vnet->interface_count;

	if (host == 0 || host > UINT32_MAX)
		return -EINVAL;
	if (local != XK_ANY) {
		while (first < count && vnet->interfaces[first].host != local)
			first++;
		if (first == count)
			return -EADDRNOTAVAIL;
		count = 1;
	}
	*kind = xk_vnet_kind(vnet->interfaces, vnet->interface_count, (uint32_t)host, interface);
	if (*kind != XK_VNET_MINE)
		*kind = xk_vnet_kind(&vnet->interfaces[first], count, (uint32_t)host, interface);
	*interface += first;
	return *kind == XK_VNET_ELSEWHERE ? -ENETUNREACH : *kind == XK_VNET_MINE ? -EADDRNOTAVAIL : 0;
}

static int
vnet_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	  struct xk_participants *participants, struct xk_session **session)
{
	struct vnet *vnet = vnet_of(self);
	uint64_t host = xk_participant_pop(&participants->remote);
	uint64_t local = xk_participant_pop(&participants->local);
	uint64_t link = XK_ETH_BROADCAST;
	enum xk_vnet_kind kind = XK_VNET_ELSEWHERE;
	unsigned interface = 0;
	bool lazy = local == XK_VNET_LAZY;
	int status =
		vnet_choose(vnet, host, lazy ? xk_participant_pop(&participants->local) : local, &interface, &kind);

	if (kind == XK_VNET_MINE)
		xk_count(self, VNET_COUNT_TO_SELF);
	if (status != 0)
		return status;
	if (kind == XK_VNET_ON_LINK && lazy)
		return vnet_open_lazy(vnet, hlp_receive, hlp_type, interface, (uint32_t)host, session);
	if (kind == XK_VNET_ON_LINK)
		status = xk_arp_resolve(vnet_resolver(vnet, interface), (uint32_t)host, &link);
	if (status != 0)
		return status;
	return vnet_open_to(vnet, hlp_receive, hlp_type, interface, kind == XK_VNET_BROADCAST ? UINT32_MAX : host, link,
			    session);
}

/* Takes back an open_enable from the first `count` links. */
static void
vnet_disable_links(struct vnet *vnet, struct xk_protocol *hlp_type, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		struct xk_participants anybody = { .remote.depth = 0 };

		xk_open_disable(&vnet->protocol, hlp_type, vnet_link(vnet, i), &anybody);
	}
}

static int
vnet_enable_links(struct vnet *vnet, struct xk_protocol *hlp_type)
{
	for (unsigned i = 0; i < vnet->interface_count; i++) {
		struct xk_participants anybody = { .remote.depth = 0 };
		int status = xk_open_enable(&vnet->protocol, hlp_type, vnet_link(vnet, i), &anybody);

		if (status != 0) {
			vnet_disable_links(vnet, hlp_type, i);
			return status;
		}
	}
	return 0;
}

static int
vnet_open_enable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		 struct xk_participants *participants)
{
	struct vnet *vnet = vnet_of(self);
	int status = xk_enable_add(&vnet->passive, vnet_passive_key(hlp_type), hlp_receive, hlp_type);

	if (status != 0)
		return status;
	status = vnet_enable_links(vnet, hlp_type);
	if (status != 0)
		xk_enable_remove(&vnet->passive, vnet_passive_key(hlp_type), hlp_receive, hlp_type);
	return status;
}

static bool
vnet_is_of_another(struct xk_session *s, void *hlp_type)
{
	return s->hlp_type != hlp_type;
}

static int
vnet_open_disable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		  struct xk_participants *participants)
{
	struct vnet *vnet = vnet_of(self);
	int status = xk_enable_remove(&vnet->passive, vnet_passive_key(hlp_type), hlp_receive, hlp_type);

	if (status != 0)
		return status;
	if (xk_map_resolve(&vnet->passive, vnet_passive_key(hlp_type)) == NULL)
		xk_session_uncache(self, vnet_is_of_another, hlp_type);
	vnet_disable_links(vnet, hlp_type, vnet->interface_count);
	return 0;
}

static unsigned
vnet_interface_of(struct vnet *vnet, const struct xk_protocol *link)
{
	unsigned i = 0;

	while (i + 1 < vnet->interface_count && vnet_link(vnet, i) != link)
		i++;
	return i;
}

/* A session on lls, which a frame has caused: the link address is known, so nothing waits. 0 or -errno. */
static int
vnet_accept(struct vnet *vnet, struct xk_session *lls)
{
	const struct xk_enable *enable = xk_map_resolve(&vnet->passive, vnet_passive_key(lls->hlp_type));
	struct xk_session *s;
	int status;

	if (enable == NULL)
		return -ENOENT;
	s = vnet_session_new(vnet, enable->hlp_receive, lls, vnet_interface_of(vnet, lls->protocol));
	if (s == NULL)
		return -ENOMEM;
	status = xk_session_bind(s, &vnet->active, vnet_active_key(lls));
	if (status != 0) {
		xk_close(s);
		return status == -EEXIST ? 0 : status;
	}
	atomic_store_explicit(&lls->hls, s, memory_order_release);
	return xk_session_announce(s);
}

static int
vnet_open_done(struct xk_protocol *self, struct xk_protocol *llp, struct xk_session *session,
	       struct xk_protocol *hlp_type)
{
	return vnet_accept(vnet_of(self), session);
}

/* hls is read on every message's way while sessions come and go; it is valid as long as what a map resolves. */
static inline struct xk_session *
vnet_standing_on(struct xk_session *lls)
{
	return atomic_load_explicit(&lls->hls, memory_order_acquire);
}

static void
vnet_close_done(struct xk_protocol *self, struct xk_session *session)
{
	struct xk_session *s = vnet_standing_on(session);

	if (s != NULL)
		xk_close_done(s);
}

/* ---- down ---- */

/* Something has changed since s was opened. Apart, so that a push without that saves no registers. */
__attribute__((noinline)) static int
vnet_push_watched(struct xk_session *s, struct xk_msg *m)
{
	struct vnet_session *vs = vnet_session_of(s);
	struct xk_session *moved;
	bool is_stale;
	int status;

	xk_lock(&vs->lock);
	is_stale = vs->is_stale;
	xk_unlock(&vs->lock);
	if (is_stale)
		vnet_ask(vnet_of(s->protocol), vs);
	moved = vnet_take_moved(vs);
	if (moved == NULL)
		return xk_push(s->lls, m);
	status = xk_push(moved, m);
	xk_close(moved);
	return status;
}

static int
vnet_push(struct xk_session *s, struct xk_msg *m)
{
	if (xk_unlikely(atomic_load_explicit(&s->binding.watched, memory_order_relaxed)))
		return vnet_push_watched(s, m);
	return xk_push(s->lls, m);
}

/* ARP has found the link address. Without a session of the link the message ends here. */
static void
vnet_send(const struct xk_arp_output *output, uint64_t link)
{
	struct vnet *vnet = vnet_of(output->owner);
	struct xk_session *lls;

	if (vnet_open_link(vnet, output->interface, output->hlp_type, link, &lls) != 0) {
		xk_drop(output->owner, output->m, XK_DROP_NO_SESSION);
		return;
	}
	xk_push(lls, output->m);
	xk_close(lls);
}

/* Nobody has answered for the neighbour's address. Not xk_control_protocol: that would ask those below. */
static void
vnet_unsent(const struct xk_arp_output *output)
{
	struct xk_protocol *hlp = output->hlp_receive;

	if (hlp->ops->control != NULL)
		hlp->ops->control(hlp, XK_VNET_UNSENT, output->m, sizeof(*output->m));
}

static int
vnet_lazy_push(struct xk_session *s, struct xk_msg *m)
{
	struct vnet *vnet = vnet_of(s->protocol);
	struct vnet_session *vs = vnet_session_of(s);
	struct xk_arp_output output = {
		.host = (uint32_t)vnet_host(vs),
		.m = m,
		.send = vnet_send,
		.unsent = vnet_unsent,
		.owner = s->protocol,
		.hlp_receive = xk_hlp_receive(s),
		.hlp_type = s->hlp_type,
		.interface = vs->interface,
	};

	return xk_arp_output(vnet_resolver(vnet, vs->interface), &output);
}

/* ---- up ---- */

/*
 * Usually a session stands on lls. It does not yet, or no more, where VNET's session was closed and the link's was not.
 */
static struct xk_session *
vnet_find_session(struct xk_protocol *self, struct xk_session *lls)
{
	struct xk_session *s = vnet_standing_on(lls);

	if (xk_likely(s != NULL))
		return s;
	if (vnet_accept(vnet_of(self), lls) != 0)
		return NULL;
	return xk_map_resolve(&vnet_of(self)->active, vnet_active_key(lls));
}

static void
vnet_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct xk_session *s = vnet_find_session(self, lls);

	if (xk_unlikely(s == NULL))
		xk_drop(self, m, XK_DROP_NO_SESSION);
	else
		xk_pop(s, lls, m, NULL);
}

/* ---- asking ---- */

/* An upper has opened s, which a frame has caused, for `host`. */
static int
vnet_opened(struct vnet *vnet, struct xk_session *s, const uint64_t *host)
{
	struct vnet_session *vs = vnet_session_of(s);
	unsigned interface = vs->interface;
	bool follows;

	if (s->lls == NULL ||
	    xk_vnet_kind(&vnet->interfaces[interface], 1, (uint32_t)*host, &(unsigned){ 0 }) != XK_VNET_ON_LINK)
		return 0;
	xk_lock(&vnet->lock);
	follows = vnet_host(vs) == XK_ANY;
	if (follows)
		vnet_follower_add(vnet, vs, *host);
	xk_unlock(&vnet->lock);
	if (follows)
		vnet_ask(vnet, vs);
	return 0;
}

static int
vnet_answer_link(struct vnet_session *vs, void *buffer, size_t len)
{
	uint64_t link = vnet_link_of(vs);

	return xk_answer(buffer, len, &link, sizeof(link));
}

static int
vnet_session_control(struct xk_session *s, int op, void *buffer, size_t len)
{
	struct vnet *vnet = vnet_of(s->protocol);
	struct vnet_session *vs = vnet_session_of(s);
	const struct xk_vnet_interface *interface = &vnet->interfaces[vs->interface];
	uint64_t host = interface->host, peer = vnet_host(vs);

	switch (op) {
	case XK_VNET_FOLLOW:
		return len < sizeof(uint64_t) ? -EMSGSIZE : vnet_opened(vnet, s, buffer);
	case XK_VNET_GET_INTERFACE:
		return xk_answer(buffer, len, interface, sizeof(*interface));
	case XK_GET_PEER_LINK:
		return s->lls == NULL ? -ENOTSUP : vnet_answer_link(vs, buffer, len);
	case XK_GET_MY_HOST:
		return xk_answer(buffer, len, &host, sizeof(host));
	case XK_GET_PEER_HOST:
		return peer == XK_ANY ? -ENOTSUP : xk_answer(buffer, len, &peer, sizeof(peer));
	default:
		if (s->lls != NULL)
			return -ENOTSUP;
		return xk_control_protocol(vnet_link(vnet, vs->interface), op, buffer, len);
	}
}

/* The link has put its addresses there; VNET's take their place. */
static int
vnet_get_participants(struct xk_session *s, struct xk_participants *participants)
{
	struct vnet_session *vs = vnet_session_of(s);

	xk_participant_pop(&participants->remote);
	xk_participant_pop(&participants->local);
	xk_participant_push(&participants->remote, vnet_host(vs));
	xk_participant_push(&participants->local, vnet_of(s->protocol)->interfaces[vs->interface].host);
	return 0;
}

static int
vnet_control(struct xk_protocol *self, int op, void *buffer, size_t len)
{
	struct vnet *vnet = vnet_of(self);
	uint64_t host = vnet->interfaces[0].host;

	switch (op) {
	case XK_VNET_GET_INTERFACES:
		return xk_answer(buffer, len, vnet->interfaces, vnet->interface_count * sizeof(vnet->interfaces[0]));
	case XK_GET_MY_HOST:
		return xk_answer(buffer, len, &host, sizeof(host));
	default:
		return -ENOTSUP;
	}
}

/* ---- tables ---- */

static const struct xk_session_ops vnet_session_ops = {
	.push = vnet_push,
	.pop = xk_pop_through,
	.close = vnet_close,
	.control = vnet_session_control,
	.get_participants = vnet_get_participants,
};

static const struct xk_session_ops vnet_lazy_ops = {
	.push = vnet_lazy_push,
	.control = vnet_session_control,
	.get_participants = vnet_get_participants,
};

static const struct xk_protocol_ops vnet_ops = {
	.init = vnet_init,
	.fini = vnet_fini,
	.open = vnet_open,
	.open_enable = vnet_open_enable,
	.open_disable = vnet_open_disable,
	.open_done = vnet_open_done,
	.close_done = vnet_close_done,
	.demux = vnet_demux,
	.control = vnet_control,
};

static const struct xk_role vnet_lowers[] = {
	{ "link", XK_ASYNC, NULL, "carries frames between stations" },
	{ "resolver", XK_CONTROL, "arp", "knows the link addresses of neighbours" },
	{ NULL, 0, NULL, NULL },
};

#define VNET_ADDRESS(i) offsetof(struct vnet, addresses[i])

static const struct xk_setting vnet_settings[] = {
	{ "address", XK_SETTING_NETWORK, VNET_ADDRESS(0), NULL, "this host's address on the first link", 0, 0 },
	{ "address2", XK_SETTING_NETWORK, VNET_ADDRESS(1), NULL, "... on the second link", 0, 0 },
	{ "address3", XK_SETTING_NETWORK, VNET_ADDRESS(2), NULL, "... on the third link", 0, 0 },
	{ "address4", XK_SETTING_NETWORK, VNET_ADDRESS(3), NULL, "... on the fourth link", 0, 0 },
	{ NULL, 0, 0, NULL, NULL, 0, 0 },
};

static const char *const vnet_counters[] = { "to_self", "moved", NULL };

const struct xk_protocol_type xk_type_vnet = {
	.name = "vnet",
	.help = "Virtual network: hosts by their IPv4 addresses, over one link or several. No header.",
	.ops = &vnet_ops,
	.size = sizeof(struct vnet),
	.offers = XK_ASYNC,
	.flags = XK_VIRTUAL | XK_REPEATS,
	.lowers = vnet_lowers,
	.settings = vnet_settings,
	.counters = vnet_counters,
	.session_max = 256,
};
