/*
 * vnet.c - hosts by their IPv4 addresses, over one link or several: a virtual protocol, without a header.
 *
 * Participants: (remote, local). The top of the remote stack is a neighbour's IPv4 address or a broadcast address, the
 *               top of the local stack, if any, the address of an interface; vnet.h has XK_VNET_LAZY and
 *               XK_VNET_STATION. A host on none of the networks is -ENETUNREACH: VNET does not route.
 * Sessions:     A session that a frame has caused stands on the link's session (virtual.h), so that a message comes up
 *               without a map. It always answers the station that its frames come from, and its host is not known:
 *               get_participants gives XK_ANY. Opened sessions are one per neighbour and upper. Messages come up them
 *               only where nobody has enabled their type.
 * Following:    ARP tells opened sessions when their neighbour's link address changes. Such a session keeps the link's
 *               session that it began with, so that a push under way there is not disturbed, and pushes on another one
 *               (`moved`), with a lock and a reference for each push. Once ARP doubts an address, the next push
 *               triggers a query and still uses the old address. Idle sessions send no queries.
 * Faults:       XK_VNET_UNSENT tells the protocol above that no link address was found for a message on a lazy session.
 * Not done:     multicast
 * Graph:        vnet -> eth; vnet -> arp; and once more for each further interface (address2, ...)
 */
#include "protocols/virtual/vnet.h"

#include <errno.h>
#include <stdlib.h>

#include "protocols/arp/arp.h"
#include "protocols/eth.h"
#include "xkernel/lowers.h"
#include "xkernel/trace.h"
#include "xkernel/virtual.h"

enum { VNET_LINK, VNET_RESOLVER, VNET_ROLES };

enum {
	VNET_BUCKETS_MAX = 4096,
	VNET_FOUND = 16,   /* sessions with one host that are moved together */
	VNET_TRIES = 1000, /* to follow an address that keeps changing; then the next push asks */
};

enum vnet_counter {
	VNET_TO_SELF, /* opens to an own address, refused: an outgoing shepherd never turns upward */
	VNET_MOVED,   /* sessions that moved to another link address */
};

static const char *const vnet_counters[] = { "to_self", "moved", NULL };

struct vnet {
	struct xk_protocol protocol;
	struct xk_network addresses[XK_VNET_INTERFACES];
	unsigned interface_count;
	struct xk_vnet_interface interfaces[XK_VNET_INTERFACES];
	struct xk_lock lock; /* protects the buckets; taken before a session's lock */
	unsigned bucket_mask;
	struct vnet_session **buckets; /* opened sessions, by host: several uppers may have opened the same */
};

/* The table (xkernel/table.h) has the sessions that frames have caused, the buckets have those that were opened. */
struct vnet_session {
	struct xk_session session; /* marked: a push must look at moved and is_stale */
	unsigned interface;        /* index */
	_Atomic uint64_t host;     /* the neighbour; XK_ANY: a frame has caused the session, and nobody has opened it */
	struct vnet_session *next; /* in its bucket */
	struct xk_lock lock;       /* protects what follows; link and is_stale are read without it */
	struct xk_session *moved;  /* receives pushes instead of lls; a reference. NULL: lls does */
	_Atomic uint64_t link;     /* the link address that pushes go to */
	_Atomic bool is_stale;     /* the next push asks for the address */
};

static inline struct xk_protocol *
vnet_link(const struct vnet *vnet, unsigned interface)
{
	return xk_lower(&vnet->protocol, interface * VNET_ROLES + VNET_LINK);
}

static inline struct xk_protocol *
vnet_resolver(const struct vnet *vnet, unsigned interface)
{
	return xk_lower(&vnet->protocol, interface * VNET_ROLES + VNET_RESOLVER);
}

static bool
vnet_is_enabled(struct vnet *vnet, const struct xk_protocol *hlp_type)
{
	return xk_table_enabled(&vnet->protocol, xk_virtual_passive_key(hlp_type)) != NULL;
}

static bool
vnet_is_neighbour(const struct vnet *vnet, unsigned interface, uint64_t host)
{
	unsigned index;

	return host <= UINT32_MAX &&
	       xk_vnet_kind(&vnet->interfaces[interface], 1, (uint32_t)host, &index) == XK_VNET_ON_LINK;
}

/* ---- sessions ---- */

/* Opens the link's session to link address `link`, with a reference for the caller. 0 or -errno. */
static int
vnet_open_link(struct vnet *vnet, unsigned interface, struct xk_protocol *hlp_type, uint64_t link,
	       struct xk_session **lls)
{
	struct xk_participants participants = { .remote.depth = 0 };

	xk_participant_push(&participants.remote, link);
	return xk_open(&vnet->protocol, hlp_type, vnet_link(vnet, interface), &participants, lls);
}

/* how: the index of the interface (unsigned); NULL: that of the session below. */
static int
vnet_setup(struct xk_session *session, const void *how)
{
	struct vnet_session *s = (struct vnet_session *)session;
	const struct vnet *vnet = (const struct vnet *)session->protocol;
	uint64_t link = 0;

	if (how != NULL)
		s->interface = *(const unsigned *)how;
	else
		while (s->interface + 1 < vnet->interface_count &&
		       vnet->protocol.lowers[s->interface * VNET_ROLES + VNET_LINK] != session->lls->up)
			s->interface++;
	xk_lock_init(&s->lock, session->protocol);
	if (session->lls != NULL && xk_control(session->lls, XK_GET_PEER_LINK, &link, sizeof(link)) < 0)
		link = 0;
	s->link = link;
	s->host = XK_ANY;
	return 0;
}

/* Makes a session on lls (NULL: none), in no table. Takes the caller's reference on lls. NULL: no memory. */
static struct xk_session *
vnet_session_new(struct vnet *vnet, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type, unsigned interface,
		 struct xk_session *lls)
{
	struct xk_session *s =
		xk_session_new(&vnet->protocol, vnet->protocol.type->session_ops, hlp_receive, hlp_type, lls);

	if (s == NULL)
		xk_close(lls);
	else
		vnet_setup(s, &interface);
	return s;
}

/* Directs messages that come up lls to s, unless another session stands there. */
static void
vnet_session_stand(struct xk_session *s, struct xk_session *lls)
{
	struct xk_session *expected = NULL;

	atomic_compare_exchange_strong_explicit(&lls->above, &expected, s, memory_order_release, memory_order_relaxed);
}

/* Tells pushes, which take no lock, whether to look at moved and is_stale. Under the session's lock. */
static void
vnet_set_marked(struct vnet_session *s)
{
	xk_session_mark(&s->session, s->moved != NULL || s->is_stale);
}

static void
vnet_set_stale(struct vnet_session *s, bool is_stale)
{
	xk_lock(&s->lock);
	s->is_stale = is_stale;
	vnet_set_marked(s);
	xk_unlock(&s->lock);
}

/*
 * Makes s push on `to` (NULL: on lls), whose address is link, and if `stands`, receive what comes up there. Takes the
 * caller's reference on `to`; returns what s has pushed on instead of lls, for the caller to close.
 */
static struct xk_session *
vnet_replace(struct vnet_session *s, struct xk_session *to, uint64_t link, bool stands)
{
	struct xk_session *session = &s->session, *before;

	xk_lock(&s->lock);
	before = s->moved;
	xk_session_leave(session, session->lls);
	if (before != NULL)
		xk_session_leave(session, before);
	if (stands)
		vnet_session_stand(session, to != NULL ? to : session->lls);
	s->moved = to;
	s->link = link;
	vnet_set_marked(s);
	xk_unlock(&s->lock);
	return before;
}

static struct vnet_session **
vnet_bucket(struct vnet *vnet, uint64_t host)
{
	return &vnet->buckets[host * UINT64_C(0x9e3779b97f4a7c15) >> 32 & vnet->bucket_mask];
}

/* Adds s to the opened sessions of host. Under vnet's lock. */
static void
vnet_add(struct vnet *vnet, struct vnet_session *s, uint64_t host)
{
	struct vnet_session **bucket = vnet_bucket(vnet, host);

	s->host = host;
	s->next = *bucket;
	*bucket = s;
}

/* A concurrent push goes to lls, which stays until the push has ended. */
static void
vnet_close(struct xk_session *session)
{
	struct vnet_session *s = (struct vnet_session *)session;
	struct vnet *vnet = (struct vnet *)session->protocol;

	if (session->lls == NULL) /* a lazy one, which is in no table */
		return;
	xk_lock(&vnet->lock);
	if (s->host != XK_ANY) {
		struct vnet_session **at = vnet_bucket(vnet, s->host);

		while (*at != s)
			at = &(*at)->next;
		*at = s->next;
	}
	xk_unlock(&vnet->lock);
	xk_close(vnet_replace(s, NULL, 0, false));
}

/* ---- following a neighbour; no lock is held across a call of ARP or of the link ---- */

/*
 * Makes s push to another link address. It leaves lls and the table: whatever else comes from the old address must not
 * be answered elsewhere. 0 or -errno.
 */
static int
vnet_move(struct vnet *vnet, struct vnet_session *s, uint64_t link)
{
	struct xk_session *session = &s->session, *lls;
	int err = vnet_open_link(vnet, s->interface, session->hlp_type, link, &lls);

	if (err != 0)
		return err;
	if (session->map != NULL)
		xk_map_unbind(session->map, &session->binding);
	if (lls == session->lls) {
		xk_close(lls);
		lls = NULL;
	}
	xk_close(vnet_replace(s, lls, link, !vnet_is_enabled(vnet, session->hlp_type)));
	xk_count(&vnet->protocol, VNET_MOVED);
	xk_trace(&vnet->protocol, XK_TRACE_EVENTS, "%08x is at %012llx now", (uint32_t)s->host,
		 (unsigned long long)link);
	return 0;
}

/* Makes s, on which the caller has a reference, push to the address that ARP knows, or ask at its next push. */
static void
vnet_follow(struct vnet *vnet, struct vnet_session *s)
{
	for (unsigned i = 0; i < VNET_TRIES; i++) {
		uint64_t link = s->link, known = link;

		if (xk_arp_follow(vnet_resolver(vnet, s->interface), (uint32_t)s->host, &known) != 0)
			break;
		if (known == link)
			return;
		if (vnet_move(vnet, s, known) != 0)
			break;
	}
	vnet_set_stale(s, true);
}

/*
 * Finds the live opened sessions of host, of all types, skipping the first `skip`; takes a reference on each. Returns
 * how many: at most VNET_FOUND.
 */
static unsigned
vnet_find_followers(struct vnet *vnet, unsigned interface, uint64_t host, unsigned skip, struct vnet_session **found)
{
	unsigned count = 0;

	xk_lock(&vnet->lock);
	for (struct vnet_session *s = *vnet_bucket(vnet, host); s != NULL && count < VNET_FOUND; s = s->next) {
		if (s->host != host || s->interface != interface)
			continue;
		if (skip > 0)
			skip--;
		else if (xk_duplicate(&s->session))
			found[count++] = s;
	}
	xk_unlock(&vnet->lock);
	return count;
}

/* Called by ARP when host has another link address, or its address is not known any more. */
static void
vnet_changed(const struct xk_arp_follower *follower, uint32_t host)
{
	struct vnet *vnet = (struct vnet *)follower->protocol;
	struct vnet_session *found[VNET_FOUND];
	unsigned count, done = 0;

	do {
		count = vnet_find_followers(vnet, follower->interface, host, done, found);
		for (unsigned i = 0; i < count; i++) {
			vnet_follow(vnet, found[i]);
			xk_session_release(&found[i]->session);
		}
		done += count;
	} while (count == VNET_FOUND);
}

/* Asks ARP where the neighbour of s is. Any context. */
static void
vnet_ask(struct vnet *vnet, struct vnet_session *s)
{
	int err;

	vnet_set_stale(s, false);
	err = xk_arp_ask(vnet_resolver(vnet, s->interface), (uint32_t)s->host, s->link);
	if (err != 0 && err != -EINPROGRESS)
		vnet_set_stale(s, true);
}

/* ---- init and fini ---- */

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
	int err;

	if (!vnet_is_host_address(network)) {
		xk_trace(&vnet->protocol, XK_TRACE_NONE, "interface %u has no address, or one of no host", index + 1);
		return -EADDRNOTAVAIL;
	}
	err = xk_control_protocol(vnet_link(vnet, index), XK_GET_MAX_PACKET, &max_packet, sizeof(max_packet));
	if (err < 0)
		return err;
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
	xk_arp_set_follower(vnet_resolver(vnet, index), &follower);
	return xk_arp_set_address(vnet_resolver(vnet, index), network);
}

static int
vnet_init(struct xk_protocol *self)
{
	struct vnet *vnet = (struct vnet *)self;
	unsigned buckets = 1;

	vnet->interface_count = self->lower_count / VNET_ROLES;
	if (vnet->interface_count > XK_VNET_INTERFACES) {
		xk_trace(self, XK_TRACE_NONE, "%u interfaces, at most %d are possible", vnet->interface_count,
			 XK_VNET_INTERFACES);
		return -EINVAL;
	}
	xk_lock_init(&vnet->lock, self);
	for (unsigned i = 0; i < vnet->interface_count; i++) {
		int err = vnet_interface_init(vnet, i);

		if (err != 0)
			return err;
	}
	while (buckets < self->session_max && buckets < VNET_BUCKETS_MAX)
		buckets *= 2;
	vnet->bucket_mask = buckets - 1;
	vnet->buckets = calloc(buckets, sizeof(*vnet->buckets));
	return vnet->buckets != NULL ? 0 : -ENOMEM;
}

static void
vnet_fini(struct xk_protocol *self)
{
	free(((struct vnet *)self)->buckets);
}

/* ---- opening ---- */

/* Finds the live opened session of hlp_type with host, and takes a reference on it. Or NULL. Under vnet's lock. */
static struct vnet_session *
vnet_find_opened(struct vnet *vnet, unsigned interface, uint64_t host, const struct xk_protocol *hlp_type)
{
	for (struct vnet_session *s = *vnet_bucket(vnet, host); s != NULL; s = s->next)
		if (s->host == host && s->interface == interface && s->session.hlp_type == hlp_type &&
		    xk_duplicate(&s->session))
			return s;
	return NULL;
}

/* Opens a session to host, which is or was just at `link`: shared with the same hlps, or new. 0 or -errno. */
static int
vnet_open_host(struct vnet *vnet, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type, unsigned interface,
	       uint64_t host, uint64_t link, struct xk_session **session)
{
	struct xk_session *lls, *new;
	struct vnet_session *s;
	int err;

	xk_lock(&vnet->lock);
	s = vnet_find_opened(vnet, interface, host, hlp_type);
	xk_unlock(&vnet->lock);
	if (s == NULL) {
		err = vnet_open_link(vnet, interface, hlp_type, link, &lls);
		if (err != 0)
			return err;
		new = vnet_session_new(vnet, hlp_receive, hlp_type, interface, lls);
		if (new == NULL)
			return -ENOMEM;
		if (!vnet_is_enabled(vnet, hlp_type))
			vnet_session_stand(new, lls);
		xk_lock(&vnet->lock);
		s = vnet_find_opened(vnet, interface, host, hlp_type);
		if (s == NULL) {
			s = (struct vnet_session *)new;
			vnet_add(vnet, s, host);
		}
		xk_unlock(&vnet->lock);
		if (&s->session != new) /* another shepherd was faster */
			xk_close(new);
	}
	if (xk_hlp_receive(&s->session) != hlp_receive) {
		xk_close(&s->session);
		return -EADDRINUSE;
	}
	if (link != XK_ETH_BROADCAST)
		vnet_follow(vnet, s);
	*session = &s->session;
	return 0;
}

/* Makes a session as XK_VNET_LAZY asks for. 0 or -ENOMEM. */
static int
vnet_open_lazy(struct vnet *vnet, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type, unsigned interface,
	       uint64_t host, struct xk_session **session)
{
	struct xk_session *s = vnet_session_new(vnet, hlp_receive, hlp_type, interface, NULL);

	if (s == NULL)
		return -ENOMEM;
	((struct vnet_session *)s)->host = host;
	xk_session_mark(s, true);
	*session = s;
	return 0;
}

/* Returns the interface with address `local` (XK_ANY: the first), or the number of interfaces if there is none. */
static unsigned
vnet_interface_at(const struct vnet *vnet, uint64_t local)
{
	unsigned i = 0;

	while (i < vnet->interface_count && local != XK_ANY && vnet->interfaces[i].host != local)
		i++;
	return i;
}

/* Opens the session that a frame from link address `link` has caused, or would cause. 0 or -errno. */
static int
vnet_open_station(struct vnet *vnet, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type, uint64_t link,
		  uint64_t local, struct xk_session **session)
{
	unsigned interface = vnet_interface_at(vnet, local);
	struct xk_session *lls;
	int err = -EADDRNOTAVAIL;

	if (interface < vnet->interface_count)
		err = vnet_open_link(vnet, interface, hlp_type, link, &lls);
	if (err != 0)
		return err;
	err = xk_virtual_open_on(&vnet->protocol, hlp_receive, lls, session);
	xk_close(lls);
	return err;
}

/* Chooses the interface that host is reached through; `local`, if given, is that interface's address. 0 or -errno. */
static int
vnet_choose(struct vnet *vnet, uint64_t host, uint64_t local, unsigned *interface, enum xk_vnet_kind *kind)
{
	unsigned first = vnet_interface_at(vnet, local), count = local == XK_ANY ? vnet->interface_count : 1;

	if (host == 0 || host > UINT32_MAX)
		return -EINVAL;
	if (first == vnet->interface_count)
		return -EADDRNOTAVAIL;
	*kind = xk_vnet_kind(vnet->interfaces, vnet->interface_count, (uint32_t)host, interface);
	if (*kind == XK_VNET_MINE) {
		xk_count(&vnet->protocol, VNET_TO_SELF);
		return -EADDRNOTAVAIL;
	}
	*kind = xk_vnet_kind(&vnet->interfaces[first], count, (uint32_t)host, interface);
	*interface += first;
	return *kind == XK_VNET_ELSEWHERE ? -ENETUNREACH : 0;
}

static int
vnet_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	  struct xk_participants *participants, struct xk_session **session)
{
	struct vnet *vnet = (struct vnet *)self;
	uint64_t host = xk_participant_pop(&participants->remote);
	uint64_t local = xk_participant_pop(&participants->local);
	bool is_lazy = local == XK_VNET_LAZY;
	uint64_t link = XK_ETH_BROADCAST;
	enum xk_vnet_kind kind;
	unsigned interface = 0;
	int err;

	if (host != XK_ANY && (host & XK_VNET_STATION))
		return vnet_open_station(vnet, hlp_receive, hlp_type, host & ~XK_VNET_STATION, local, session);
	if (is_lazy)
		local = xk_participant_pop(&participants->local);
	err = vnet_choose(vnet, host, local, &interface, &kind);
	if (err != 0)
		return err;
	if (kind == XK_VNET_BROADCAST)
		host = UINT32_MAX;
	else if (is_lazy)
		return vnet_open_lazy(vnet, hlp_receive, hlp_type, interface, host, session);
	else
		err = xk_arp_resolve(vnet_resolver(vnet, interface), (uint32_t)host, &link);
	return err != 0 ? err : vnet_open_host(vnet, hlp_receive, hlp_type, interface, host, link, session);
}

/* ---- enabling ---- */

/* Enables for all neighbours, whatever the participants. */
static int
vnet_passive_key(struct xk_protocol *self, struct xk_protocol *hlp_type, struct xk_participants *participants,
		 struct xk_key *key)
{
	*key = xk_virtual_passive_key(hlp_type);
	return 0;
}

static struct xk_key
vnet_passive_key_of(const struct xk_session *s)
{
	return xk_virtual_passive_key(s->hlp_type);
}

static int
vnet_open_enable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		 struct xk_participants *participants)
{
	struct xk_participants anybody = { .remote.depth = 0 };
	int err = xk_table_enable(self, hlp_receive, hlp_type, participants);

	if (err != 0)
		return err;
	err = xk_enable_lowers(self, VNET_ROLES, self, hlp_type, &anybody);
	if (err != 0)
		xk_table_disable(self, hlp_receive, hlp_type, participants);
	return err;
}

static int
vnet_open_disable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		  struct xk_participants *participants)
{
	struct xk_participants anybody = { .remote.depth = 0 };
	int err = xk_table_disable(self, hlp_receive, hlp_type, participants);

	if (err == 0)
		xk_disable_lowers(self, VNET_ROLES, self->lower_count, self, hlp_type, &anybody);
	return err;
}

/* ---- down ---- */

/* Sends a message that has waited for the link address; drops it if the link gives no session. */
static void
vnet_send(const struct xk_arp_output *output, uint64_t link)
{
	struct vnet *vnet = (struct vnet *)output->owner;
	struct xk_session *lls;

	if (vnet_open_link(vnet, output->interface, output->hlp_type, link, &lls) != 0) {
		xk_drop(output->owner, output->m, XK_DROP_NO_SESSION);
		return;
	}
	xk_push(lls, output->m);
	xk_close(lls);
}

/* Tells the protocol above that nobody answers for the address; xk_control_protocol would ask others, too. */
static void
vnet_unsent(const struct xk_arp_output *output)
{
	struct xk_protocol *hlp = output->hlp_receive;

	if (hlp->ops->control != NULL)
		hlp->ops->control(hlp, XK_VNET_UNSENT, output->m, sizeof(*output->m));
}

static int
vnet_push_lazy(struct vnet_session *s, struct xk_msg *m)
{
	struct xk_protocol *self = s->session.protocol;
	struct xk_arp_output output = {
		.host = (uint32_t)s->host,
		.m = m,
		.send = vnet_send,
		.unsent = vnet_unsent,
		.owner = self,
		.hlp_receive = xk_hlp_receive(&s->session),
		.hlp_type = s->session.hlp_type,
		.interface = s->interface,
	};

	return xk_arp_output(vnet_resolver((struct vnet *)self, s->interface), &output);
}

/* Pushes on a session that is lazy, stale or has moved off lls. */
XK_APART static int
vnet_push_marked(struct vnet_session *s, struct xk_msg *m)
{
	struct xk_session *moved;
	int status;

	if (s->session.lls == NULL)
		return vnet_push_lazy(s, m);
	if (s->is_stale)
		vnet_ask((struct vnet *)s->session.protocol, s);
	xk_lock(&s->lock);
	moved = s->moved;
	if (moved != NULL && !xk_duplicate(moved))
		moved = NULL;
	xk_unlock(&s->lock);
	if (moved == NULL)
		return xk_push(s->session.lls, m);
	status = xk_push(moved, m);
	xk_close(moved);
	return status;
}

static int
vnet_push(struct xk_session *session, struct xk_msg *m)
{
	if (xk_unlikely(xk_session_marked(session)))
		return vnet_push_marked((struct vnet_session *)session, m);
	return xk_push(session->lls, m);
}

/* ---- asking ---- */

/* Answers XK_VNET_FOLLOW: an upper has opened s, which a frame has caused, for host. */
static int
vnet_follow_opened(struct vnet *vnet, struct vnet_session *s, uint64_t host)
{
	bool follows;

	if (s->session.lls == NULL || !vnet_is_neighbour(vnet, s->interface, host))
		return 0;
	xk_lock(&vnet->lock);
	follows = s->host == XK_ANY;
	if (follows)
		vnet_add(vnet, s, host);
	xk_unlock(&vnet->lock);
	if (follows)
		vnet_ask(vnet, s);
	return 0;
}

/* Answers XK_VNET_LEADS_TO: whether messages pushed on s go where ARP knows host. */
static int
vnet_leads_to(struct vnet *vnet, struct vnet_session *s, uint64_t host)
{
	uint64_t link;
	int err;

	if (s->session.lls == NULL || !vnet_is_neighbour(vnet, s->interface, host))
		return -ENETUNREACH;
	err = xk_arp_lookup(vnet_resolver(vnet, s->interface), (uint32_t)host, &link);
	return err != 0 ? err : link == s->link;
}

/* Answers XK_VNET_DOUBT: host may be a neighbour on another interface, too. */
static int
vnet_doubt(struct vnet *vnet, struct vnet_session *s, uint64_t host)
{
	unsigned interface;

	if (host <= UINT32_MAX &&
	    xk_vnet_kind(vnet->interfaces, vnet->interface_count, (uint32_t)host, &interface) == XK_VNET_ON_LINK)
		xk_arp_doubt(vnet_resolver(vnet, interface), (uint32_t)host, interface == s->interface ? s->link : 0);
	return 0;
}

static int
vnet_session_control(struct xk_session *session, int op, void *buffer, size_t len)
{
	struct vnet_session *s = (struct vnet_session *)session;
	struct vnet *vnet = (struct vnet *)session->protocol;
	const struct xk_vnet_interface *interface = &vnet->interfaces[s->interface];
	uint64_t mine = interface->host, peer = s->host, link = s->link;

	switch (op) {
	case XK_VNET_FOLLOW:
		return len < sizeof(uint64_t) ? -EMSGSIZE : vnet_follow_opened(vnet, s, *(uint64_t *)buffer);
	case XK_VNET_LEADS_TO:
		return len < sizeof(uint64_t) ? -EMSGSIZE : vnet_leads_to(vnet, s, *(uint64_t *)buffer);
	case XK_VNET_DOUBT:
		return len < sizeof(uint64_t) ? -EMSGSIZE : vnet_doubt(vnet, s, *(uint64_t *)buffer);
	case XK_VNET_GET_INTERFACE:
		return xk_answer(buffer, len, interface, sizeof(*interface));
	case XK_GET_PEER_LINK:
		return session->lls == NULL ? -ENOTSUP : xk_answer(buffer, len, &link, sizeof(link));
	case XK_GET_MY_HOST:
		return xk_answer(buffer, len, &mine, sizeof(mine));
	case XK_GET_PEER_HOST:
		return peer == XK_ANY ? -ENOTSUP : xk_answer(buffer, len, &peer, sizeof(peer));
	default:
		if (session->lls != NULL)
			return -ENOTSUP;
		return xk_control_protocol(vnet_link(vnet, s->interface), op, buffer, len);
	}
}

/* Replaces the link's addresses by VNET's. */
static int
vnet_get_participants(struct xk_session *session, struct xk_participants *participants)
{
	struct vnet_session *s = (struct vnet_session *)session;

	xk_participant_pop(&participants->remote);
	xk_participant_pop(&participants->local);
	xk_participant_push(&participants->remote, s->host);
	xk_participant_push(&participants->local, ((struct vnet *)session->protocol)->interfaces[s->interface].host);
	return 0;
}

static int
vnet_control(struct xk_protocol *self, int op, void *buffer, size_t len)
{
	const struct vnet *vnet = (const struct vnet *)self;
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
	.size = sizeof(struct vnet_session),
	.setup = vnet_setup,
	.push = vnet_push,
	.pop = xk_pop_through,
	.close = vnet_close,
	.control = vnet_session_control,
	.get_participants = vnet_get_participants,
};

static const struct xk_protocol_ops vnet_ops = {
	.init = vnet_init,
	.fini = vnet_fini,
	.open = vnet_open,
	.open_enable = vnet_open_enable,
	.open_disable = vnet_open_disable,
	.open_done = xk_virtual_open_done,
	.close_done = xk_virtual_close_done,
	.demux = xk_virtual_demux,
	.control = vnet_control,
	.passive_key = vnet_passive_key,
	.passive_key_of = vnet_passive_key_of,
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

const struct xk_protocol_type xk_type_vnet = {
	.name = "vnet",
	.help = "Virtual network: hosts by their IPv4 addresses, over one link or several. No header.",
	.ops = &vnet_ops,
	.session_ops = &vnet_session_ops,
	.size = sizeof(struct vnet),
	.offers = XK_ASYNC,
	.flags = XK_VIRTUAL | XK_REPEATS,
	.lowers = vnet_lowers,
	.settings = vnet_settings,
	.counters = vnet_counters,
	.session_max = 256,
};
