/*
 * vnet.h - what can be asked of VNET: its interfaces, and which host is where. vnet.c has the rest.
 *
 * Participants: the top of the remote stack is the IPv4 host that the frame goes to (a neighbour, or a broadcast
 *               address); the top of the local stack is the address of the interface, or missing
 */
#ifndef VNET_H
#define VNET_H

#include "protocols/control.h"
#include "xkernel/protocol.h"

enum {
	XK_VNET_INTERFACES = 4, /* at most */
};

/*
 * Pushed above the local address (or alone) when opening: the session does not ask for the link address when it is
 * opened but when it is used, so that open never waits. For what a stranger's frame starts (forwarding, errors).
 * Messages wait in ARP, few per host. Such a session only sends: what the neighbour sends comes up an ordinary one.
 */
#define XK_VNET_LAZY (UINT64_C(1) << 32)

/*
 * In place of the remote host, with a link address below it: the session that a frame from there has caused, or would. It
 * answers there; it asks nobody, never waits and never follows. The local address says which interface, if there are
 * several. For what has to go where a message came from, by another session than that one's.
 */
#define XK_VNET_STATION (UINT64_C(1) << 48)

/*
 * Whose link address: a session that was opened goes to the one that ARP knows, and follows when that changes; it does not
 * follow what frames say. One that a frame has caused answers where that frame came from, and never follows: if the
 * neighbour sends from elsewhere, that is another session.
 */

/* In the machine's byte order. */
struct xk_vnet_interface {
	uint32_t host;       /* our address there */
	uint32_t mask;       /* of the network */
	uint32_t broadcast;  /* of the network; 0: it has none (/31, /32) */
	uint32_t max_packet; /* longest message through it */
	unsigned offloads;   /* enum xk_port_offload */
	unsigned index;      /* in the order of the graph */
};

enum xk_vnet_kind {
	XK_VNET_ELSEWHERE, /* on none of our networks: needs a route */
	XK_VNET_MINE,      /* an address of ours */
	XK_VNET_BROADCAST, /* everybody on a network of ours */
	XK_VNET_ON_LINK,   /* a neighbour */
};

/*
 * What host is, seen from `count` interfaces (from XK_VNET_GET_INTERFACES, asked once); *index is the interface unless
 * it is elsewhere. 255.255.255.255 is everybody on the first one. Any context.
 */
static inline enum xk_vnet_kind
xk_vnet_kind(const struct xk_vnet_interface *interfaces, unsigned count, uint32_t host, unsigned *index)
{
	enum xk_vnet_kind kind = XK_VNET_ELSEWHERE;

	for (unsigned i = 0; i < count; i++) {
		const struct xk_vnet_interface *interface = &interfaces[i];
		bool on_link = ((host ^ interface->host) & interface->mask) == 0;

		if (host == interface->host) {
			*index = i;
			return XK_VNET_MINE;
		}
		if (kind != XK_VNET_ELSEWHERE || (!on_link && host != UINT32_MAX))
			continue;
		*index = i;
		kind = host == UINT32_MAX || (host == interface->broadcast && host != 0) ? XK_VNET_BROADCAST
											 : XK_VNET_ON_LINK;
	}
	return kind;
}

#endif
