/*
 * vnet.c - hosts by their IPv4 addresses, over one link or several: a virtual protocol, without a header.
 *
 * Participants: vnet.h. Opening a host that is on none of the networks fails with -ENETUNREACH: VNET does not route.
 *               The setting `onlink` adds one host to a link's network.
 * Sessions:     A passive session, caused by a frame, stands on the link's session (virtual.h), so messages come up
 *               without a map. It always answers the station that its frames come from. Its host is unknown:
 *               get_participants gives XK_ANY. Opened sessions are one per neighbour and upper; messages come up them
 *               only if their type is not enabled.
 * Following:    ARP reports changes of a neighbour's link address to opened sessions. A session that moves keeps the
 *               link's session that it was opened on, because a push may be under way there, and pushes on another
 *               one (`moved`), with a lock and a reference for each push. Once ARP doubts an address, the next push
 *               triggers a query and still uses the old address. Idle sessions send no queries. ARP gets the advice
 *               that the peer does not answer (xk_unanswered), except from passive sessions, whose host is unknown.
 * Not done:     multicast
 * Graph:        vnet -> eth; vnet -> arp; and once more for each further interface (address2, ...)
 */
#include "protocols/virtual/vnet.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "protocols/arp/arp.h"
#include "protocols/eth.h"
#include "xkernel/support/lowers.h"
#include "xkernel/support/virtual.h"
#include "xkernel/trace.h"

enum { VNET_LINK, VNET_RESOLVER, VNET_ROLES };

enum {
	VNET_BUCKETS_MAX = 4096,
	VNET_TRIES = 1000, /* to follow an address that keeps changing; then the next push asks */
};

LIST_HEAD(vnet_bucket, vnet_session);

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
	unsigned interface_count;
	struct xk_vnet_interface interfaces[XK_VNET_INTERFACES];
	_Atomic bool is_unused[XK_VNET_INTERFACES]; /* its address is being probed, or is another station's */
	struct xk_lock lock;                        /* protects the buckets; taken before a session's lock */
	unsigned bucket_mask;
	struct vnet_bucket *buckets; /* opened sessions, by host: several uppers may open the same host */
};

/* Passive sessions are in the table (xkernel/table.h), opened ones in a bucket. */
struct vnet_session {
	struct xk_session session; /* marked: lazy, moved, stale, has_left or no address; lls is NULL if lazy */
	unsigned interface;        /* index */
	_Atomic uint64_t host;     /* the neighbour; XK_ANY: passive, and not opened since */
	LIST_ENTRY(vnet_session) same_bucket;
	struct xk_lock lock;      /* protects the fields below; link and is_stale are read without it */
	struct xk_session *moved; /* receives pushes instead of lls; a reference. NULL: lls does */
	_Atomic uint64_t link;    /* the link address that pushes go to */
	_Atomic bool is_stale;    /* the next push asks for the address */
	bool has_left;            /* messages that come up the session below go to another session */
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

/* Opens the link's session to link address `link`. Returns 0 or -errno. */
static int
vnet_open_link(struct vnet *vnet, unsigned interface, struct xk_protocol *hlp_type, uint64_t link,
	       struct xk_session **lls)
{
	struct xk_participants participants = { .remote = { 1, { link } } };

	return xk_open(&vnet->protocol, hlp_type, vnet_link(vnet, interface), &participants, lls);
}

/* Returns the link address that lls (NULL: none) leads to; 0: it knows none. */
static uint64_t
vnet_link_of(struct xk_session *lls)
{
	uint64_t link = 0;

	return lls == NULL || xk_control(lls, XK_GET_PEER_LINK, &link, sizeof(link)) < 0 ? 0 : link;
}

/* `how` is the interface's index (unsigned), or NULL to take it from the session below. */
static int
vnet_setup(struct xk_session *session, const void *how)
{
	struct vnet_session *s = (struct vnet_session *)session;
	const struct vnet *vnet = (const struct vnet *)session->protocol;

	if (how != NULL)
		s->interface = *(const unsigned *)how;
	else
		while (s->interface + 1 < vnet->interface_count &&
		       vnet->protocol.lowers[s->interface * VNET_ROLES + VNET_LINK] != session->lls->up)
			s->interface++;
	xk_lock_init(&s->lock, session->protocol);
	s->link = vnet_link_of(session->lls);
	s->host = XK_ANY;
	xk_session_mark(session, vnet->is_unused[s->interface]);
	session->sends.is_path = true;
	return 0;
}

/*
 * Makes a session on lls (NULL: none), bound nowhere. Takes the caller's reference on lls. Returns NULL if no memory.
 */
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

/* Directs messages that come up lls to s, unless another session already receives them. */
static void
vnet_session_stand(struct xk_session *s, struct xk_session *lls)
{
	struct xk_session *expected = NULL;

	atomic_compare_exchange_strong_explicit(&lls->above, &expected, s, memory_order_release, memory_order_relaxed);
}

/* Updates the mark that sends pushes through vnet_push_marked, and keeps paths out. The session's lock is held. */
static void
vnet_set_marked(struct vnet_session *s)
{
	const struct vnet *vnet = (const struct vnet *)s->session.protocol;

	xk_session_mark(&s->session, s->session.lls == NULL || s->moved != NULL || s->is_stale || s->has_left ||
					     vnet->is_unused[s->interface]);
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
 * Makes s push on `to` (NULL: on lls), whose address is link, and receive what comes up there if `stands`. Takes the
 * caller's reference on `to`. Returns the former `moved`, for the caller to close.
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
	s->has_left = !stands;
	vnet_set_marked(s);
	xk_unlock(&s->lock);
	return before;
}

static struct vnet_bucket *
vnet_bucket(struct vnet *vnet, uint64_t host)
{
	return &vnet->buckets[host * UINT64_C(0x9e3779b97f4a7c15) >> 32 & vnet->bucket_mask];
}

/* Adds s to the opened sessions of host. VNET's lock is held. */
static void
vnet_add(struct vnet *vnet, struct vnet_session *s, uint64_t host)
{
	s->host = host;
	LIST_INSERT_HEAD(vnet_bucket(vnet, host), s, same_bucket);
}

/*
 * Returns the first live opened session of host and hlp_type (NULL: any), after the session `after` (NULL: of all),
 * with a reference for the caller. Returns NULL if there is none. VNET's lock is held.
 */
static struct vnet_session *
vnet_find(struct vnet *vnet, unsigned interface, uint64_t host, const struct xk_protocol *hlp_type,
	  struct vnet_session *after)
{
	struct vnet_session *s = after != NULL ? LIST_NEXT(after, same_bucket) : LIST_FIRST(vnet_bucket(vnet, host));

	while (s != NULL && (s->host != host || s->interface != interface ||
			     (hlp_type != NULL && s->session.hlp_type != hlp_type) || !xk_duplicate(&s->session)))
		s = LIST_NEXT(s, same_bucket);
	return s;
}

/*
 * A concurrent push goes to lls, which stays until the push has ended. Whoever handles a message that came up before may
 * still ask where it is from.
 */
static void
vnet_close(struct xk_session *session)
{
	struct vnet_session *s = (struct vnet_session *)session;
	struct vnet *vnet = (struct vnet *)session->protocol;

	if (session->lls == NULL)
		return;
	xk_lock(&vnet->lock);
	if (s->host != XK_ANY)
		LIST_REMOVE(s, same_bucket);
	xk_unlock(&vnet->lock);
	xk_close(vnet_replace(s, NULL, vnet_link_of(session->lls), false));
}

/* ---- following a neighbour; no lock is held across calls of ARP or the link ---- */

/*
 * Makes s push to another link address. It leaves lls and the table, because frames from the old address must not be
 * answered at the new one. Returns 0 or -errno.
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

/* Makes s, which the caller references, push to the address that ARP knows, or else ask at its next push. */
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

/* Makes the sessions of host follow it: ARP has another link address of host, or doubts the one it had. */
static void
vnet_changed(const struct xk_arp_follower *follower, uint32_t host)
{
	struct vnet *vnet = (struct vnet *)follower->protocol;
	struct vnet_session *s = NULL, *before;

	do {
		before = s; /* stays in its bucket until it is released */
		xk_lock(&vnet->lock);
		s = vnet_find(vnet, follower->interface, host, NULL, before);
		xk_unlock(&vnet->lock);
		if (before != NULL)
			xk_session_release(&before->session);
		if (s != NULL)
			vnet_follow(vnet, s);
	} while (s != NULL);
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

/* ---- the own addresses ---- */

static void
vnet_mark(void *session, void *context)
{
	struct vnet_session *s = session;

	xk_lock(&s->lock);
	vnet_set_marked(s);
	xk_unlock(&s->lock);
}

/* Lets sessions send from the interface's address, or not, as ARP says. */
static void
vnet_used(const struct xk_arp_user *user, bool is_used)
{
	struct vnet *vnet = (struct vnet *)user->protocol;
	struct vnet_session *s;

	vnet->is_unused[user->interface] = !is_used;
	if (vnet->buckets == NULL) /* in init */
		return;
	xk_map_for_each(&vnet->protocol.table.sessions, vnet_mark, NULL);
	xk_lock(&vnet->lock);
	for (unsigned i = 0; i <= vnet->bucket_mask; i++)
		for (s = LIST_FIRST(&vnet->buckets[i]); s != NULL; s = LIST_NEXT(s, same_bucket))
			vnet_mark(s, NULL);
	xk_unlock(&vnet->lock);
}

/* ---- init and fini ---- */

/* Returns whether the interface's setting `onlink` names no host, after a trace. */
static bool
vnet_refuses_onlink(struct vnet *vnet, unsigned index)
{
	const struct xk_network *network = &vnet->addresses[index];
	uint32_t onlink = vnet->onlink[index], mask = (uint32_t)(UINT64_MAX << (32 - network->bits));
	const char *refusal = xk_host_refusal(onlink, ((onlink ^ network->host) & mask) == 0 ? network->bits : 32);
	char host[16];

	if (refusal != NULL)
		xk_trace(&vnet->protocol, XK_TRACE_NONE, "onlink%.*s=%s is %s; it names one host, such as a gateway",
			 index > 0, &"1234"[index], xk_host_print(onlink, host), refusal);
	return refusal != NULL;
}

static int
vnet_interface_init(struct vnet *vnet, unsigned index)
{
	struct xk_network *network = &vnet->addresses[index];
	struct xk_vnet_interface *interface = &vnet->interfaces[index];
	struct xk_arp_follower follower = { &vnet->protocol, index, vnet_changed };
	struct xk_arp_user user = { &vnet->protocol, index, vnet_used };
	uint32_t max_packet, offloads, onlink = vnet->onlink[index];
	int err;

	if (network->bits == 0 || !xk_arp_is_neighbour(network, network->host)) {
		xk_trace(&vnet->protocol, XK_TRACE_NONE,
			 "interface %u has no address: give it one, such as --set %s.address%.*s=10.77.0.1/24",
			 index + 1, vnet->protocol.name, index > 0, &"1234"[index]);
		return -EADDRNOTAVAIL;
	}
	if (onlink != 0 && vnet_refuses_onlink(vnet, index))
		return -EINVAL;
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
		.onlink = onlink,
	};
	interface->broadcast = network->bits >= 31 ? 0 : network->host | ~interface->mask;
	xk_arp_set_onlink(vnet_resolver(vnet, index), onlink);
	xk_arp_set_follower(vnet_resolver(vnet, index), &follower);
	xk_arp_set_user(vnet_resolver(vnet, index), &user);
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

/* Opens a session to host, last known at `link`: shared with the same hlps, or new. Returns 0 or -errno. */
static int
vnet_open_host(struct vnet *vnet, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type, unsigned interface,
	       uint64_t host, uint64_t link, struct xk_session **session)
{
	struct xk_session *lls, *new;
	struct vnet_session *s;
	int err;

	xk_lock(&vnet->lock);
	s = vnet_find(vnet, interface, host, hlp_type, NULL);
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
		s = vnet_find(vnet, interface, host, hlp_type, NULL);
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
	return err;
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
	unsigned first = 0, count = 1, interface = 0;
	enum xk_vnet_kind kind;
	int err;

	if (is_lazy)
		local = xk_participant_pop(&participants->local);
	if (!is_station && (host == 0 || host > UINT32_MAX))
		return -EINVAL;
	if (local == XK_ANY)
		count = vnet->interface_count;
	else
		while (first < vnet->interface_count && vnet->interfaces[first].host != local)
			first++;
	if (first == vnet->interface_count)
		return -EADDRNOTAVAIL;
	if (is_station)
		return vnet_open_station(vnet, hlp_receive, hlp_type, first, host & ~XK_VNET_STATION, session);

	if (xk_vnet_kind(vnet->interfaces, vnet->interface_count, (uint32_t)host, &interface) == XK_VNET_MINE) {
		xk_count(self, VNET_TO_SELF);
		return -EADDRNOTAVAIL;
	}
	kind = xk_vnet_kind(&vnet->interfaces[first], count, (uint32_t)host, &interface);
	interface += first;
	if (kind == XK_VNET_ELSEWHERE)
		return -ENETUNREACH;
	if (kind == XK_VNET_BROADCAST) {
		host = UINT32_MAX;
	} else if (is_lazy) {
		*session = vnet_session_new(vnet, hlp_receive, hlp_type, interface, NULL);
		if (*session == NULL)
			return -ENOMEM;
		((struct vnet_session *)*session)->host = host;
		xk_session_mark(*session, true);
		return 0;
	} else {
		err = xk_arp_resolve(vnet_resolver(vnet, interface), (uint32_t)host, &link);
		if (err != 0)
			return err;
	}
	return vnet_open_host(vnet, hlp_receive, hlp_type, interface, host, link, session);
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

/* Sends a message that has waited for the link address, or drops it if the link opens no session. */
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

/* Tells the protocol above that no station answers for the host. xk_control_protocol would go on to the lowers. */
static void
vnet_unsent(const struct xk_arp_output *output)
{
	struct xk_protocol *hlp = output->hlp_receive;

	if (hlp->ops->control != NULL)
		hlp->ops->control(hlp, XK_VNET_UNSENT, output->m, sizeof(*output->m));
}

/* Pushes on a session that is marked. */
XK_APART static int
vnet_push_marked(struct vnet_session *s, struct xk_msg *m)
{
	struct vnet *vnet = (struct vnet *)s->session.protocol;
	struct xk_session *moved;
	int status;

	if (vnet->is_unused[s->interface]) {
		xk_drop(&vnet->protocol, m, VNET_DROP_NO_ADDRESS);
		return -EADDRNOTAVAIL;
	}
	if (s->session.lls == NULL) {
		struct xk_arp_output output = {
			.host = (uint32_t)s->host,
			.m = m,
			.send = vnet_send,
			.unsent = vnet_unsent,
			.owner = &vnet->protocol,
			.hlp_receive = xk_hlp_receive(&s->session),
			.hlp_type = s->session.hlp_type,
			.interface = s->interface,
		};

		return xk_arp_output(vnet_resolver(vnet, s->interface), &output);
	}
	if (s->is_stale)
		vnet_ask(vnet, s);
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

/* ---- control ---- */

/* XK_PORT_CHANGED */
static int
vnet_links_changed(struct vnet *vnet)
{
	uint32_t max_packet;

	for (unsigned i = 0; i < vnet->interface_count; i++)
		if (xk_control_protocol(vnet_link(vnet, i), XK_GET_MAX_PACKET, &max_packet, sizeof(max_packet)) >= 0)
			vnet->interfaces[i].max_packet = max_packet;
	return 0;
}

/* XK_VNET_FOLLOW: an upper has opened the passive session s for host. */
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

/* XK_VNET_LEADS_TO */
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

/* XK_VNET_DOUBT: host may also be a neighbour on another interface. */
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
	uint64_t mine = interface->host, peer = s->host, link = s->link, asked;

	switch (op) {
	case XK_VNET_FOLLOW:
	case XK_VNET_LEADS_TO:
	case XK_VNET_DOUBT:
		if (len < sizeof(asked))
			return -EMSGSIZE;
		memcpy(&asked, buffer, sizeof(asked));
		if (op == XK_VNET_LEADS_TO)
			return vnet_leads_to(vnet, s, asked);
		return op == XK_VNET_FOLLOW ? vnet_follow_opened(vnet, s, asked) : vnet_doubt(vnet, s, asked);
	case XK_UNANSWERED:
		if (peer < UINT32_MAX)
			xk_arp_unanswered(vnet_resolver(vnet, s->interface), (uint32_t)peer, link);
		return 0;
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
	struct vnet *vnet = (struct vnet *)self;
	uint64_t host = vnet->interfaces[0].host;

	switch (op) {
	case XK_PORT_CHANGED:
		return vnet_links_changed(vnet);
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
	.find = xk_virtual_find,
	.control = vnet_control,
	.passive_key = vnet_passive_key,
	.passive_key_of = vnet_passive_key_of,
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
