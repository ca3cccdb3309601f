/*
 * vnet.h - the participants of VNET, its interfaces, and what can be asked of it.
 *
 * Participants: the top of the remote stack is the IPv4 host that frames go to (a neighbour, or a broadcast address);
 *               the top of the local stack is the address of an interface, or missing.
 * Link address: an opened session sends to the address that ARP knows, and follows its changes; frames do not change
 *               it. A passive session, caused by a frame, answers where that frame came from and never follows: if the
 *               neighbour sends from elsewhere, that is another session.
 */
#ifndef VNET_H
#define VNET_H

#include "xkernel/protocol.h"

enum {
	XK_VNET_INTERFACES = 4, /* at most */
};

/*
 * Pushed above the local address (or alone) when opening: the session resolves the link address at each push, so open
 * never waits. For what a stranger's frame starts (forwarding, errors). ARP queues few messages per host. Such a
 * session only sends; the neighbour's messages come up a passive one.
 */
#define XK_VNET_LAZY (UINT64_C(1) << 32)

/*
 * Added to a link address, in place of the remote host: opens the passive session of that station, which sends no
 * query, never waits and never follows. The local address chooses among several interfaces. For answers that must go
 * where a message came from, by another session than the one it came up.
 */
#define XK_VNET_STATION (UINT64_C(1) << 48)

/* In the machine's byte order. */
struct xk_vnet_interface {
	uint32_t host;               /* our address there */
	uint32_t mask;               /* of the network */
	uint32_t broadcast;          /* of the network; 0: it has none (/31, /32) */
	_Atomic uint32_t max_packet; /* longest message through it; changes with the link */
	unsigned offloads;           /* enum xk_port_offload */
	unsigned index;              /* in the order of the graph */
	uint32_t onlink;             /* a neighbour outside the network; 0: none */
};

struct xk_vnet_interfaces {
	unsigned count;
	struct xk_vnet_interface list[XK_VNET_INTERFACES];
};

XK_CONTROL_OP(XK_VNET_GET_INTERFACES, 101, struct xk_vnet_interfaces); /* protocol */
XK_CONTROL_OP(XK_VNET_GET_INTERFACE, 102, struct xk_vnet_interface);   /* session: the one that it sends through */
/*
 * Session: a neighbour. If a frame caused the session and an upper has opened it for that neighbour, the session
 * follows the neighbour's link address from here on, as if it had been opened actively; later messages from the old
 * address get sessions of their own. No effect on other sessions, or if it follows already. Never waits.
 */
XK_CONTROL_OP(XK_VNET_FOLLOW, 103, const uint64_t);
/*
 * Session: a host. Returns 1: pushes on the session go to ARP's link address of that neighbour; 0: they go elsewhere;
 * -ENOENT: ARP has no address; -ENETUNREACH: the host is no neighbour on this interface. Never waits.
 */
XK_CONTROL_OP(XK_VNET_LEADS_TO, 105, const uint64_t);
/*
 * Session: a host from which a message came up the session. If ARP knows that neighbour by another link address, makes
 * ARP ask again. Never waits.
 */
XK_CONTROL_OP(XK_VNET_DOUBT, 106, const uint64_t);

enum xk_vnet_kind {
	XK_VNET_ELSEWHERE, /* on none of our networks: needs a route */
	XK_VNET_MINE,      /* an address of ours */
	XK_VNET_BROADCAST, /* all hosts of a network of ours */
	XK_VNET_ON_LINK,   /* a neighbour */
};

/*
 * Returns the kind of host, seen from `count` interfaces (of XK_VNET_GET_INTERFACES), and sets *index to its interface
 * unless it is elsewhere. 255.255.255.255 is a broadcast on the first interface; an interface's `onlink` is on it, even
 * if in another's network. Any context.
 */
static inline enum xk_vnet_kind
xk_vnet_kind(const struct xk_vnet_interface *interfaces, unsigned count, uint32_t host, unsigned *index)
{
	enum xk_vnet_kind kind = XK_VNET_ELSEWHERE;

	for (unsigned i = 0; i < count; i++) {
		const struct xk_vnet_interface *interface = &interfaces[i];
		bool is_named = host == interface->onlink && host != 0;
		bool on_link = ((host ^ interface->host) & interface->mask) == 0;

		if (host == interface->host) {
			*index = i;
			return XK_VNET_MINE;
		}
		if (!is_named && (kind != XK_VNET_ELSEWHERE || (!on_link && host != UINT32_MAX)))
			continue;
		*index = i;
		kind = host == UINT32_MAX || (host == interface->broadcast && host != 0) ? XK_VNET_BROADCAST
											 : XK_VNET_ON_LINK;
	}
	return kind;
}

#endif
