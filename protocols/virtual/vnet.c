/*
 * vnet.c - hosts by their IPv4 addresses, over one link or several: a virtual protocol, without a header.
 *
 * Participants: vnet.h. Opening a host that is on none of the networks fails with -ENETUNREACH: VNET does not route.
 *               The setting `onlink` adds one host to a link's network.
 * Sessions:     A passive session, caused by a frame, stands on the link's session (virtual.h), so messages come up
 *               without a map. It always answers the station that its frames come from. Its host is unknown:
 *               get_participants gives XK_ANY. Opened sessions are one per neighbour and upper; messages come up them
 *               only if their type is not enabled.
 * Following:    Opened sessions follow their neighbour in ARP (arp.h). A session that moves keeps the link's session
 *               that it was opened on, because a push may be in progress there, and pushes on another one (`moved`),
 *               with a lock and a reference for each push. Once ARP doubts an address, the next push triggers a query
 *               and still uses the old address. Idle sessions send no queries. A peer that does not answer is reported
 *               to ARP (xk_unanswered), except by passive sessions, whose host is unknown.
 * Not done:     multicast
 * Graph:        vnet -> eth; vnet -> arp; and once more for each further interface (address2, ...)
 */
#include "protocols/virtual/vnet.h"

#include <errno.h>

#include "protocols/arp/arp.h"
#include "protocols/eth.h"
#include "xkernel/support/fault.h"
#include "xkernel/support/virtual.h"
#include "xkernel/trace.h"

enum { VNET_LINK, VNET_RESOLVER, VNET_ROLES };

#define VNET_COUNTERS(C)                                                                                               \
	C(VNET_TO_SELF, "to_self") /* opens to an own address, refused: an outgoing shepherd never turns upward */     \
	C(VNET_MOVED, "moved")     /* sessions that moved to another link address */
XK_COUNTERS(vnet, VNET_COUNTERS);

#define VNET_DROPS(D) D(VNET_DROP_NO_ADDRESS, "no_address") /* the interface's must not be used (RFC 5227) */
XK_DROPS(vnet, VNET_DROPS);

struct vnet {
	struct xk_protocol protocol;
	struct xk_network addresses[XK_VNET_INTERFACES];
	uint32_t onlink[XK_VNET_INTERFACES]; /* 0: none */
	struct xk_vnet_interfaces interfaces;
	_Atomic bool is_unused[XK_VNET_INTERFACES]; /* its address is being probed, or is another station's */
};

/* In the table, unless it is lazy: passive sessions by the one below, opened ones by host. */
struct vnet_session {
	struct xk_session session; /* marked: lazy, moved, stale, has_left or no address; lls is NULL if lazy */
	unsigned interface;        /* index */
	_Atomic uint64_t host;     /* the neighbour; XK_ANY: passive, and not opened since */
	struct xk_binding by_host; /* of a passive session that was opened */
	struct xk_arp_follower follower;
	struct xk_lock lock;      /* protects the fields below */
	struct xk_session *moved; /* receives pushes instead of lls; a reference. NULL: lls does */
	bool has_left;            /* messages that come up the session below go to another session */
};

/* The parameters of a new session. */
struct vnet_how {
	unsigned interface;
	uint64_t host;
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

static struct xk_key
vnet_key(unsigned interface, uint64_t host, const struct xk_protocol *hlp_type)
{
	return (struct xk_key){ (uint64_t)interface << 32 | host, (uintptr_t)hlp_type };
}

static bool
vnet_is_neighbour(const struct vnet *vnet, unsigned interface, uint64_t host)
{
	unsigned index;

	return host <= UINT32_MAX &&
	       xk_vnet_kind(&vnet->interfaces.list[interface], 1, (uint32_t)host, &index) == XK_VNET_ON_LINK;
}

/* ---- sessions ---- */

/* Opens the link's session to link address `link`. Returns 0 or -errno. */
static int
vnet_open_link(struct vnet *vnet, unsigned interface, struct xk_protocol *hlp_type, uint64_t link,
	       struct xk_session **lls)
{
	struct xk_participants participants = { .remote = { 1, { link } } };

	return xk_open(&vnet->protocol, hlp_type, vnet_link(vnet, interface), &participants, lls);
}

/*
 * Directs messages that come up lls to the opened session s, unless another session receives them already, or a passive
 * one may: its type is enabled. Returns whether it directs them.
 */
static bool
vnet_session_stand(struct xk_session *s, struct xk_session *lls)
{
	struct xk_session *expected = NULL;

	if (xk_table_enabled(s->protocol, xk_virtual_passive_key(s->hlp_type)) != NULL)
		return false;
	atomic_compare_exchange_strong_explicit(&lls->above, &expected, s, memory_order_release, memory_order_relaxed);
	return true;
}

/* Returns whether the next push asks for the address: ARP doubts it, or has not been asked for it. */
static bool
vnet_is_stale(const struct vnet_session *s)
{
	return s->host < UINT32_MAX && s->session.lls != NULL && s->follower.neighbour == NULL;
}

/* Returns whether pushes must go through vnet_push_marked, and paths must not lead here. */
static bool
vnet_is_special(const struct vnet_session *s)
{
	const struct vnet *vnet = (const struct vnet *)s->session.protocol;

	return s->session.lls == NULL || s->moved != NULL || vnet_is_stale(s) || s->has_left ||
	       vnet->is_unused[s->interface];
}

/* Updates the mark. The session's lock is held. */
static void
vnet_set_marked(struct vnet_session *s)
{
	xk_session_mark(&s->session, vnet_is_special(s));
}

/* how: struct vnet_how; NULL: the session is passive, and its interface is that of the session below. */
static int
vnet_setup(struct xk_session *session, const void *how)
{
	const struct vnet *vnet = (const struct vnet *)session->protocol;
	struct vnet_session *s = (struct vnet_session *)session;
	const struct vnet_how *opened = how;
	uint64_t link = 0;

	s->host = opened != NULL ? opened->host : XK_ANY;
	if (opened != NULL)
		s->interface = opened->interface;
	else
		while (s->interface + 1 < vnet->interfaces.count &&
		       vnet->protocol.lowers[s->interface * VNET_ROLES + VNET_LINK] != session->lls->up)
			s->interface++;
	xk_lock_init(&s->lock, session->protocol);
	s->follower.session = session;
	if (session->lls != NULL)
		xk_control(session->lls, XK_GET_PEER_LINK, &link);
	s->follower.link = link;
	vnet_set_marked(s);
	session->sends.is_path = true;
	if (opened != NULL && session->lls != NULL)
		vnet_session_stand(session, session->lls);
	return 0;
}

/*
 * Marks a session that can be found, or not. What opens one calls this after binding it, although setup has set the
 * mark: vnet_used reaches only bound sessions. The fences let one of the two see what the other has done.
 */
static void
vnet_mark(void *session, void *context)
{
	struct vnet_session *s = session;

	atomic_thread_fence(memory_order_seq_cst);
	xk_lock(&s->lock);
	vnet_set_marked(s);
	xk_unlock(&s->lock);
}

/*
 * Takes s off the sessions that it pushes on, and makes it push on `to` (NULL: on lls), whose address is link. Takes
 * the caller's reference on `to`. Returns the former `moved`, for the caller to close.
 */
static struct xk_session *
vnet_replace(struct vnet_session *s, struct xk_session *to, uint64_t link, bool is_closed)
{
	struct xk_session *session = &s->session, *before;

	xk_lock(&s->lock);
	before = s->moved;
	xk_session_leave(session, session->lls);
	if (before != NULL)
		xk_session_leave(session, before);
	s->has_left = is_closed || !vnet_session_stand(session, to != NULL ? to : session->lls);
	s->moved = to;
	s->follower.link = link;
	vnet_set_marked(s);
	xk_unlock(&s->lock);
	return before;
}

/*
 * A concurrent push goes to lls, which stays until the push has ended. The handler of an earlier message may still ask
 * where it is from.
 */
static void
vnet_close(struct xk_session *session)
{
	struct vnet_session *s = (struct vnet_session *)session;
	struct xk_protocol *arp = vnet_resolver((struct vnet *)session->protocol, s->interface);

	if (session->lls == NULL)
		return;
	xk_arp_ops(arp)->unfollow(arp, &s->follower);
	xk_map_unbind(&session->protocol->table.sessions, &s->by_host);
	xk_close(vnet_replace(s, NULL, s->follower.link, true));
}

/* ---- following a neighbour; no lock is held across calls of ARP or the link ---- */

/*
 * Makes a session push to another link address. A passive one leaves the table, because frames from the old address
 * must not be answered at the new one.
 */
static int
vnet_moved(struct xk_arp_follower *follower, uint64_t link)
{
	struct vnet_session *s = xk_container_of(follower, struct vnet_session, follower);
	struct xk_session *session = &s->session, *lls;
	struct vnet *vnet = (struct vnet *)session->protocol;
	int err = vnet_open_link(vnet, s->interface, session->hlp_type, link, &lls);

	if (err != 0)
		return err;
	if (session->binding.key.b == 0)
		xk_map_unbind(session->map, &session->binding);
	if (lls == session->lls) {
		xk_close(lls);
		lls = NULL;
	}
	xk_close(vnet_replace(s, lls, link, false));
	xk_count(&vnet->protocol, VNET_MOVED);
	xk_trace(&vnet->protocol, XK_TRACE_EVENTS, "%08x is at %012llx now", (uint32_t)s->host,
		 (unsigned long long)link);
	return 0;
}

static void
vnet_doubted(struct xk_arp_follower *follower)
{
	vnet_mark(xk_container_of(follower, struct vnet_session, follower), NULL);
}

/* Makes s follow its neighbour, or ask at its next push. If it `asks` now, any context. */
static void
vnet_follow(struct vnet *vnet, struct vnet_session *s, bool asks)
{
	struct xk_protocol *arp = vnet_resolver(vnet, s->interface);

	xk_arp_ops(arp)->follow(arp, &s->follower, (uint32_t)s->host, asks);
	vnet_mark(s, NULL);
}

/*
 * Lets sessions send from the interface's address, or not, as ARP decides. Sessions that are not in the table are
 * marked.
 */
static void
vnet_used(const struct xk_arp_user *user, bool is_used)
{
	((struct vnet *)user->protocol)->is_unused[user->interface] = !is_used;
	atomic_thread_fence(memory_order_seq_cst); /* see vnet_mark */
	xk_map_for_each(&user->protocol->table.sessions, vnet_mark, NULL);
}

/* ---- opening ---- */

/* Opens a session to host, last known at `link`: shared with the same hlps, or new. Returns 0 or -errno. */
static int
vnet_open_host(struct vnet *vnet, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	       const struct vnet_how *how, uint64_t link, struct xk_session **session)
{
	struct xk_key key = vnet_key(how->interface, how->host, hlp_type);
	int err = xk_table_share(&vnet->protocol, key, hlp_receive, hlp_type, session);
	struct xk_session *lls;

	if (err == -ENOENT) {
		err = vnet_open_link(vnet, how->interface, hlp_type, link, &lls);
		if (err == 0)
			err = xk_table_open(&vnet->protocol, key, hlp_receive, hlp_type, lls, how, session);
	}
	if (err != 0)
		return err;
	if (link == XK_ETH_BROADCAST)
		vnet_mark(*session, NULL);
	else
		vnet_follow(vnet, (struct vnet_session *)*session, false);
	return 0;
}

/* Opens the passive session of the station at link address `link`. Returns 0 or -errno. */
static int
vnet_open_station(struct vnet *vnet, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type, unsigned interface,
		  uint64_t link, struct xk_session **session)
{
	struct xk_session *lls;
	int err = vnet_open_link(vnet, interface, hlp_type, link, &lls);

	if (err != 0)
		return err;
	err = xk_virtual_open_on(&vnet->protocol, hlp_receive, lls, session);
	xk_close(lls);
	if (err == 0)
		vnet_mark(*session, NULL);
	return err;
}

/* Opens a session that asks ARP at each push, bound nowhere. Returns 0 or -ENOMEM. */
static int
vnet_open_lazily(struct vnet *vnet, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		 const struct vnet_how *how, struct xk_session **session)
{
	*session = xk_session_new(&vnet->protocol, vnet->protocol.type->session_ops, hlp_receive, hlp_type, NULL);
	return *session == NULL ? -ENOMEM : vnet_setup(*session, how);
}

static int
vnet_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	  struct xk_participants *participants, struct xk_session **session)
{
	struct vnet *vnet = (struct vnet *)self;
	uint64_t host = xk_participant_pop(&participants->remote);
	uint64_t local = xk_participant_pop(&participants->local), link = XK_ETH_BROADCAST;
	bool is_station = host != XK_ANY && (host & XK_VNET_STATION) != 0;
	bool is_lazy = !is_station && local == XK_VNET_LAZY;
	struct vnet_how how = { .host = host };
	unsigned first = 0, count = 1;
	struct xk_protocol *arp;
	enum xk_vnet_kind kind;
	int err = 0;

	if (is_lazy)
		local = xk_participant_pop(&participants->local);
	if (!is_station && (host == 0 || host > UINT32_MAX))
		return -EINVAL;
	if (local == XK_ANY)
		count = vnet->interfaces.count;
	else
		while (first < vnet->interfaces.count && vnet->interfaces.list[first].host != local)
			first++;
	if (first == vnet->interfaces.count)
		return -EADDRNOTAVAIL;
	if (is_station)
		return vnet_open_station(vnet, hlp_receive, hlp_type, first, host & ~XK_VNET_STATION, session);

	if (xk_vnet_kind(vnet->interfaces.list, vnet->interfaces.count, (uint32_t)host, &how.interface) ==
	    XK_VNET_MINE) {
		xk_count(self, VNET_TO_SELF);
		return -EADDRNOTAVAIL;
	}
	kind = xk_vnet_kind(&vnet->interfaces.list[first], count, (uint32_t)host, &how.interface);
	how.interface += first;
	if (kind == XK_VNET_ELSEWHERE)
		return -ENETUNREACH;
	if (kind == XK_VNET_BROADCAST)
		how.host = UINT32_MAX;
	else if (is_lazy)
		return vnet_open_lazily(vnet, hlp_receive, hlp_type, &how, session);
	else {
		arp = vnet_resolver(vnet, how.interface);
		err = xk_arp_ops(arp)->resolve(arp, (uint32_t)host, &link);
	}
	return err != 0 ? err : vnet_open_host(vnet, hlp_receive, hlp_type, &how, link, session);
}

/* A frame of a new station. */
static int
vnet_open_done(struct xk_protocol *self, struct xk_protocol *llp, struct xk_session *lls, struct xk_protocol *hlp_type)
{
	int err = xk_virtual_open_done(self, llp, lls, hlp_type);
	struct xk_session *s = xk_session_above(lls);

	if (err == 0 && s != NULL)
		vnet_mark(s, NULL);
	return err;
}

/* ---- enabling, for all neighbours, whatever the participants ---- */

static int
vnet_open_enable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		 struct xk_participants *participants)
{
	*participants = (struct xk_participants){ .remote.depth = 0 };
	return xk_virtual_open_enable(self, hlp_receive, hlp_type, participants);
}

static int
vnet_open_disable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		  struct xk_participants *participants)
{
	*participants = (struct xk_participants){ .remote.depth = 0 };
	return xk_virtual_open_disable(self, hlp_receive, hlp_type, participants);
}

/* ---- down ---- */

/* Sends a message that has waited for the link address, or drops it if the link opens no session. */
static void
vnet_send(const struct xk_arp_user *user, const struct xk_arp_output *output, uint64_t link)
{
	struct xk_session *lls;

	if (vnet_open_link((struct vnet *)user->protocol, user->interface, output->hlp_type, link, &lls) != 0) {
		xk_drop(user->protocol, output->m, XK_DROP_NO_SESSION);
		return;
	}
	xk_push(lls, output->m);
	xk_close(lls);
}

/* Tells the protocol above that no station answers for the host. */
static void
vnet_unsent(const struct xk_arp_user *user, const struct xk_arp_output *output)
{
	struct xk_protocol *hlp = output->hlp_receive;
	struct xk_msg *m = output->m;
	struct xk_fault_report report = { XK_FAULT_HOST, .begin = m->data, .len = m->len, .m = m };

	report.from = ((const struct vnet *)user->protocol)->interfaces.list[user->interface].host;
	if (hlp->ops->fault != NULL)
		hlp->ops->fault(hlp, &report);
}

/* Pushes on a session that is marked. */
XK_APART static int
vnet_push_marked(struct vnet_session *s, struct xk_msg *m)
{
	struct vnet *vnet = (struct vnet *)s->session.protocol;
	struct xk_protocol *arp = vnet_resolver(vnet, s->interface);
	struct xk_session *moved;
	int status;

	if (vnet->is_unused[s->interface]) {
		xk_drop(&vnet->protocol, m, VNET_DROP_NO_ADDRESS);
		return -EADDRNOTAVAIL;
	}
	if (s->session.lls == NULL) {
		struct xk_arp_output output = { m, xk_hlp_receive(&s->session), s->session.hlp_type };

		return xk_arp_ops(arp)->output(arp, (uint32_t)s->host, &output);
	}
	if (vnet_is_stale(s))
		vnet_follow(vnet, s, true);
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

/* ---- init ---- */

/* Returns whether the interface's setting `onlink` names no host, after a trace. */
static bool
vnet_refuses_onlink(struct vnet *vnet, unsigned index)
{
	const struct xk_network *network = &vnet->addresses[index];
	uint32_t onlink = vnet->onlink[index];
	bool is_inside = ((onlink ^ network->host) & vnet->interfaces.list[index].mask) == 0;
	const char *refusal = onlink == 0 ? NULL : xk_host_refusal(onlink, is_inside ? network->bits : 32);
	char host[16];

	if (refusal != NULL)
		xk_trace(&vnet->protocol, XK_TRACE_NONE, "onlink%.*s=%s is %s; it names one host, such as a gateway",
			 index > 0, &"1234"[index], xk_host_print(onlink, host), refusal);
	return refusal != NULL;
}

/* Asks the link for its longest message, which changes with the link. Returns 0 or -errno. */
static int
vnet_link_changed(struct vnet *vnet, unsigned index)
{
	uint32_t max_packet;
	int err = xk_control_protocol(vnet_link(vnet, index), XK_GET_MAX_PACKET, &max_packet);

	if (err >= 0)
		vnet->interfaces.list[index].max_packet = max_packet;
	return err < 0 ? err : 0;
}

static int
vnet_interface_init(struct vnet *vnet, unsigned index)
{
	struct xk_network *network = &vnet->addresses[index];
	struct xk_vnet_interface *interface = &vnet->interfaces.list[index];
	struct xk_protocol *link = vnet_link(vnet, index), *arp = vnet_resolver(vnet, index);
	struct xk_arp_user user = {
		&vnet->protocol, index, vnet_used, vnet_moved, vnet_doubted, vnet_send, vnet_unsent
	};
	int err;

	if (network->bits == 0) {
		xk_trace(&vnet->protocol, XK_TRACE_NONE,
			 "interface %u has no address: give it one, such as --set %s.address%.*s=10.77.0.1/24",
			 index + 1, vnet->protocol.name, index > 0, &"1234"[index]);
		return -EADDRNOTAVAIL;
	}
	interface->host = network->host;
	interface->mask = (uint32_t)(UINT64_MAX << (32 - network->bits));
	interface->broadcast = network->bits >= 31 ? 0 : network->host | ~interface->mask;
	interface->index = index;
	interface->onlink = vnet->onlink[index];
	if (vnet_refuses_onlink(vnet, index))
		return -EINVAL;
	err = vnet_link_changed(vnet, index);
	if (err < 0)
		return err;
	xk_control_protocol(link, XK_GET_OFFLOADS, &interface->offloads); /* 0: none */
	xk_arp_ops(arp)->set_user(arp, &user, interface->onlink);
	return xk_arp_ops(arp)->set_address(arp, network);
}

static int
vnet_init(struct xk_protocol *self)
{
	struct vnet *vnet = (struct vnet *)self;
	int err = 0;

	vnet->interfaces.count = self->lower_count / VNET_ROLES;
	if (vnet->interfaces.count > XK_VNET_INTERFACES) {
		xk_trace(self, XK_TRACE_NONE, "%u interfaces, at most %d are possible", vnet->interfaces.count,
			 XK_VNET_INTERFACES);
		return -EINVAL;
	}
	for (unsigned i = 0; i < vnet->interfaces.count && err == 0; i++)
		err = vnet_interface_init(vnet, i);
	return err;
}

/* ---- control ---- */

/* An upper has opened the passive session s for host. */
static int
vnet_follow_opened(struct vnet *vnet, struct vnet_session *s, uint64_t host)
{
	uint64_t unknown = XK_ANY;

	if (s->session.lls == NULL || !vnet_is_neighbour(vnet, s->interface, host) ||
	    !atomic_compare_exchange_strong(&s->host, &unknown, host))
		return 0;
	/* later opens of host share s, unless another session is host's already */
	xk_map_bind(&vnet->protocol.table.sessions, &s->by_host, vnet_key(s->interface, host, s->session.hlp_type), s);
	vnet_follow(vnet, s, true);
	return 0;
}

static int
vnet_leads_to(struct vnet *vnet, struct vnet_session *s, uint64_t host)
{
	struct xk_protocol *arp = vnet_resolver(vnet, s->interface);
	uint64_t link;

	if (s->session.lls == NULL || !vnet_is_neighbour(vnet, s->interface, host))
		return -ENETUNREACH;
	link = xk_arp_ops(arp)->known(arp, (uint32_t)host);
	return link == 0 ? -ENOENT : link == s->follower.link;
}

/* host may also be a neighbour on another interface. */
static int
vnet_doubt(struct vnet *vnet, struct vnet_session *s, uint64_t host)
{
	struct xk_protocol *arp;
	unsigned interface;

	if (host <= UINT32_MAX && xk_vnet_kind(vnet->interfaces.list, vnet->interfaces.count, (uint32_t)host,
					       &interface) == XK_VNET_ON_LINK) {
		arp = vnet_resolver(vnet, interface);
		xk_arp_ops(arp)->doubt(arp, (uint32_t)host, interface == s->interface ? s->follower.link : 0);
	}
	return 0;
}

static int
vnet_session_control(struct xk_session *session, int op, void *argument)
{
	struct vnet_session *s = (struct vnet_session *)session;
	struct vnet *vnet = (struct vnet *)session->protocol;
	const struct xk_vnet_interface *interface = &vnet->interfaces.list[s->interface];
	struct xk_protocol *arp = vnet_resolver(vnet, s->interface);
	uint64_t peer = s->host, *address = argument;

	switch (op) {
	case XK_VNET_FOLLOW:
		return vnet_follow_opened(vnet, s, *address);
	case XK_VNET_LEADS_TO:
		return vnet_leads_to(vnet, s, *address);
	case XK_VNET_DOUBT:
		return vnet_doubt(vnet, s, *address);
	case XK_UNANSWERED:
		if (peer < UINT32_MAX)
			xk_arp_ops(arp)->unanswered(arp, (uint32_t)peer, s->follower.link);
		return 0;
	case XK_VNET_GET_INTERFACE:
		memcpy(argument, interface, sizeof(*interface));
		return 0;
	case XK_GET_PEER_LINK:
		if (session->lls == NULL)
			return -ENOTSUP;
		*address = s->follower.link;
		return 0;
	case XK_GET_MY_HOST:
		*address = interface->host;
		return 0;
	case XK_GET_PEER_HOST:
		if (peer == XK_ANY)
			return -ENOTSUP;
		*address = peer;
		return 0;
	default:
		if (session->lls != NULL)
			return -ENOTSUP;
		return xk_control_protocol_op(vnet_link(vnet, s->interface), op, argument);
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
	xk_participant_push(&participants->local,
			    ((struct vnet *)session->protocol)->interfaces.list[s->interface].host);
	return 0;
}

static int
vnet_control(struct xk_protocol *self, int op, void *argument)
{
	const struct vnet *vnet = (const struct vnet *)self;

	switch (op) {
	case XK_VNET_GET_INTERFACES:
		memcpy(argument, &vnet->interfaces, sizeof(vnet->interfaces));
		return 0;
	case XK_GET_MY_HOST:
		*(uint64_t *)argument = vnet->interfaces.list[0].host;
		return 0;
	default:
		return -ENOTSUP;
	}
}

static void
vnet_port_changed(struct xk_protocol *self)
{
	struct vnet *vnet = (struct vnet *)self;

	for (unsigned i = 0; i < vnet->interfaces.count; i++)
		vnet_link_changed(vnet, i);
}

/* ---- promises ---- */

static const char *
vnet_session_promise(struct xk_session *session, bool at_rest)
{
	const struct vnet_session *s = (const struct vnet_session *)session;

	(void)at_rest;
	return vnet_is_special(s) && !xk_session_marked(session)
		       ? "a session sends to its neighbour's old address, or from one that must not be used"
		       : NULL;
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
	.promise = vnet_session_promise,
};

static const struct xk_protocol_ops vnet_ops = {
	.init = vnet_init,
	.open = vnet_open,
	.open_enable = vnet_open_enable,
	.open_disable = vnet_open_disable,
	.open_done = vnet_open_done,
	.close_done = xk_virtual_close_done,
	.demux = xk_virtual_demux,
	.find = xk_virtual_find,
	.control = vnet_control,
	.port_changed = vnet_port_changed,
};

static const struct xk_role vnet_lowers[] = {
	{ "link", XK_ASYNC, NULL, "carries frames between stations" },
	{ "resolver", XK_CONTROL, "arp", "resolves neighbours' link addresses" },
	{ NULL, 0, NULL, NULL },
};

static const struct xk_setting vnet_settings[] = {
	XK_SETTING(ADDRESS, struct vnet, addresses[0], "address", "this host's address on the first link"),
	XK_SETTING(ADDRESS, struct vnet, addresses[1], "address2", "this host's address on the second link"),
	XK_SETTING(ADDRESS, struct vnet, addresses[2], "address3", "this host's address on the third link"),
	XK_SETTING(ADDRESS, struct vnet, addresses[3], "address4", "this host's address on the fourth link"),
	XK_SETTING(HOST, struct vnet, onlink[0], "onlink",
		   "a host on the first link outside the address's network, such as a gateway"),
	XK_SETTING(HOST, struct vnet, onlink[1], "onlink2", "such a host on the second link"),
	XK_SETTING(HOST, struct vnet, onlink[2], "onlink3", "such a host on the third link"),
	XK_SETTING(HOST, struct vnet, onlink[3], "onlink4", "such a host on the fourth link"),
	{ .name = NULL },
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
	.drops = vnet_drops,
	.counters = vnet_counters,
	.session_max = 256,
};
