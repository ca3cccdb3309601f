/*
 * vnet.c - hosts by their IPv4 addresses, over one link or several: a virtual protocol, without a header.
 *
 * Participants: (remote, local); the top of the remote stack is a neighbour's IPv4 address, the one the frame goes to,
 *               or a broadcast address; the top of the local stack, if any, the address of one of the interfaces. With
 *               XK_VNET_LAZY (vnet.h) the neighbour is asked for when something is pushed. A host on no network here is
 *               -ENETUNREACH: VNET does not route.
 *               A session that a neighbour's frame has caused knows its link address only: get_participants gives
 *               XK_ANY for the remote.
 * Sessions:     each holds a reference on a session of the link, which holds none on it. A session that a frame has
 *               caused stands on the link's session (virtual.h), so that a message comes up without a map and without a
 *               change. It always answers to where its frames come from, and is kept as `sessions` says. Opened
 *               sessions are one per neighbour and upper; ARP tells them when the neighbour's link address changes.
 *               Messages come up them only where nobody has enabled their type.
 * Following:    (vnet_follow.c) a session whose neighbour has moved keeps the link's session that it began with, so
 *               that a push under way there is not disturbed. It pushes on another one (`moved`) and takes a lock and a
 *               reference for each push. Once ARP doubts an address, the next push triggers a query and still uses the
 *               old address. Idle sessions send no queries.
 * Control:      XK_VNET_GET_INTERFACES, XK_VNET_GET_INTERFACE (vnet.h), XK_GET_MY_HOST, XK_GET_PEER_HOST (of sessions
 *               that were opened actively); the link answers the others
 * Settings:     address, address2, address3, address4: one per interface
 * Drops:        none of its own; no_session: nobody wants the neighbour's message
 * Counters:     to_self (opens to an own address, refused: an outgoing shepherd never turns upward), moved (sessions to
 *               another link address)
 * Faults:       the protocol above is told with XK_VNET_UNSENT if no link address could be had for a message on a lazy
 *               session
 * Not done:     multicast
 * Graph:        vnet -> eth; vnet -> arp; and once more for each further interface (address2, ...)
 */
#include <errno.h>
#include <stdlib.h>

#include "protocols/eth.h"
#include "protocols/virtual/vnet_private.h"
#include "xkernel/trace.h"

enum { VNET_BUCKETS_MAX = 4096 };

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
	struct xk_arp_follower follower = { &vnet->protocol, index, vnet_follow_changed };
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
	xk_arp_set_follower(vnet_resolver(vnet, index), &follower);
	return xk_arp_set_address(vnet_resolver(vnet, index), network);
}

static void
vnet_fini(struct xk_protocol *self)
{
	free(vnet_of(self)->buckets);
}

static int
vnet_buckets_init(struct vnet *vnet)
{
	unsigned buckets = 1;

	while (buckets < vnet->protocol.session_max && buckets < VNET_BUCKETS_MAX)
		buckets *= 2;
	vnet->bucket_mask = buckets - 1;
	vnet->buckets = calloc(buckets, sizeof(struct vnet_session *));
	return vnet->buckets != NULL ? 0 : -ENOMEM;
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
	return status != 0 ? status : vnet_buckets_init(vnet);
}

/* ---- opening ---- */

/* Returns the interface with address `local` (XK_ANY: the first), or the number of interfaces if there is none. */
static unsigned
vnet_interface_at(const struct vnet *vnet, uint64_t local)
{
	unsigned i = 0;

	while (i < vnet->interface_count && local != XK_ANY && vnet->interfaces[i].host != local)
		i++;
	return i;
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
	if (*kind != XK_VNET_MINE)
		*kind = xk_vnet_kind(&vnet->interfaces[first], count, (uint32_t)host, interface);
	*interface += first;
	return *kind == XK_VNET_ELSEWHERE ? -ENETUNREACH : *kind == XK_VNET_MINE ? -EADDRNOTAVAIL : 0;
}

/* Opens the session that a frame from link address `link` has caused, or would cause. 0 or -errno. */
static int
vnet_open_station(struct vnet *vnet, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type, uint64_t link,
		  uint64_t local, struct xk_session **session)
{
	unsigned interface = vnet_interface_at(vnet, local);
	struct xk_session *lls;
	int status = -EADDRNOTAVAIL;

	if (interface < vnet->interface_count)
		status = vnet_session_open_link(vnet, interface, hlp_type, link, &lls);
	if (status != 0)
		return status;
	status = xk_virtual_open_on(&vnet->protocol, hlp_receive, lls, session);
	xk_close(lls);
	return status;
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
	int status;

	if (host != XK_ANY && (host & XK_VNET_STATION))
		return vnet_open_station(vnet, hlp_receive, hlp_type, host & ~XK_VNET_STATION, local, session);
	status = vnet_choose(vnet, host, lazy ? xk_participant_pop(&participants->local) : local, &interface, &kind);
	if (kind == XK_VNET_MINE)
		xk_count(self, VNET_COUNT_TO_SELF);
	if (status != 0)
		return status;
	if (kind == XK_VNET_ON_LINK && lazy)
		return vnet_session_open_lazy(vnet, hlp_receive, hlp_type, interface, (uint32_t)host, session);
	if (kind == XK_VNET_ON_LINK)
		status = xk_arp_resolve(vnet_resolver(vnet, interface), (uint32_t)host, &link);
	if (status != 0)
		return status;
	return vnet_session_open(vnet, hlp_receive, hlp_type, interface, kind == XK_VNET_BROADCAST ? UINT32_MAX : host,
				 link, session);
}

/* ---- enabling ---- */

/* Any participants: the type is enabled for all neighbours. */
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
	int status = xk_table_enable(self, hlp_receive, hlp_type, participants);

	if (status != 0)
		return status;
	status = vnet_enable_links(vnet_of(self), hlp_type);
	if (status != 0)
		xk_table_disable(self, hlp_receive, hlp_type, participants);
	return status;
}

static int
vnet_open_disable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		  struct xk_participants *participants)
{
	struct vnet *vnet = vnet_of(self);
	int status = xk_table_disable(self, hlp_receive, hlp_type, participants);

	if (status == 0)
		vnet_disable_links(vnet, hlp_type, vnet->interface_count);
	return status;
}

/* ---- down ---- */

/* Sends a message that has waited for the link address; drops it if the link gives no session. */
static void
vnet_send(const struct xk_arp_output *output, uint64_t link)
{
	struct vnet *vnet = vnet_of(output->owner);
	struct xk_session *lls;

	if (vnet_session_open_link(vnet, output->interface, output->hlp_type, link, &lls) != 0) {
		xk_drop(output->owner, output->m, XK_DROP_NO_SESSION);
		return;
	}
	xk_push(lls, output->m);
	xk_close(lls);
}

/* Tells the protocol above alone (xk_control_protocol would ask others, too) that nobody answers for the address. */
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

/* A push on a session that is lazy, stale or not on lls any more. */
XK_APART static int
vnet_push_watched(struct xk_session *s, struct xk_msg *m)
{
	struct vnet_session *vs = vnet_session_of(s);
	struct xk_session *moved;
	bool is_stale;
	int status;

	if (s->lls == NULL)
		return vnet_lazy_push(s, m);
	xk_lock(&vs->lock);
	is_stale = vs->is_stale;
	xk_unlock(&vs->lock);
	if (is_stale)
		vnet_follow_ask(vnet_of(s->protocol), vs);
	moved = vnet_follow_take(vs);
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

/* ---- asking ---- */

static int
vnet_answer_link(struct vnet_session *vs, void *buffer, size_t len)
{
	uint64_t link = vnet_follow_link(vs);

	return xk_answer(buffer, len, &link, sizeof(link));
}

/* Answers XK_VNET_LEADS_TO: whether messages pushed on s go where ARP knows host. */
static int
vnet_leads_to(struct vnet *vnet, struct xk_session *s, const uint64_t *host)
{
	struct vnet_session *vs = vnet_session_of(s);
	unsigned interface = vs->interface;
	uint64_t link;
	int status;

	if (s->lls == NULL || *host > UINT32_MAX ||
	    xk_vnet_kind(&vnet->interfaces[interface], 1, (uint32_t)*host, &(unsigned){ 0 }) != XK_VNET_ON_LINK)
		return -ENETUNREACH;
	status = xk_arp_lookup(vnet_resolver(vnet, interface), (uint32_t)*host, &link);
	return status != 0 ? status : link == vnet_follow_link(vs);
}

static int
vnet_doubt(struct vnet *vnet, struct xk_session *s, const uint64_t *host)
{
	struct vnet_session *vs = vnet_session_of(s);
	unsigned interface;

	if (*host <= UINT32_MAX &&
	    xk_vnet_kind(vnet->interfaces, vnet->interface_count, (uint32_t)*host, &interface) == XK_VNET_ON_LINK)
		xk_arp_doubt(vnet_resolver(vnet, interface), (uint32_t)*host,
			     interface == vs->interface ? vnet_follow_link(vs) : 0);
	return 0;
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
		return len < sizeof(uint64_t) ? -EMSGSIZE : vnet_follow_opened(vnet, s, buffer);
	case XK_VNET_LEADS_TO:
		return len < sizeof(uint64_t) ? -EMSGSIZE : vnet_leads_to(vnet, s, buffer);
	case XK_VNET_DOUBT:
		return len < sizeof(uint64_t) ? -EMSGSIZE : vnet_doubt(vnet, s, buffer);
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

/* Replaces the link's addresses by VNET's. */
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
	.size = sizeof(struct vnet_session),
	.setup = vnet_session_setup,
	.push = vnet_push,
	.pop = xk_pop_through,
	.close = vnet_session_close,
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

static const char *const vnet_counters[] = { "to_self", "moved", NULL };

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
