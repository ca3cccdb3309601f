/*
 * control.h - the xk_control operations that protocols add to the framework's own
 * (upi.h): which protocol answers, and what the buffer holds. A protocol that does not know an
 * operation passes it to the one below, so that layers in between do not matter.
 *
 * Control is for questions with a plain answer and for simple orders. Neighbours with a richer
 * interface use a table of functions (`neighbour_ops` in protocol.h; arp.h, bidctl.h, ip.h).
 */
#ifndef XK_PROTOCOLS_CONTROL_H
#define XK_PROTOCOLS_CONTROL_H

#include "xkernel/upi.h"

enum xk_protocol_control_op {
	/* BLAST, session: uint64_t, the number of a copy that BLAST need not keep (ticket.h). */
	XK_RELEASE = XK_CONTROL_OWN,

	/* VNET, protocol: struct xk_vnet_interface[], at most XK_VNET_INTERFACES (vnet.h). */
	XK_VNET_GET_INTERFACES,
	/* VNET, session: struct xk_vnet_interface, the one that the session sends through. */
	XK_VNET_GET_INTERFACE,
	/*
	 * VNET, session: uint64_t, a neighbour. If a frame caused the session and an upper has opened
	 * it for that neighbour, the session follows the neighbour's link address from here on, as if
	 * it had been opened actively; later messages from the old address get sessions of their own.
	 * No effect on other sessions, or if it follows already. Never waits.
	 */
	XK_VNET_FOLLOW,
	/*
	 * The protocol above VNET, called by VNET: struct xk_msg, as it was pushed on a lazy session
	 * whose neighbour's link address could not be found. Stays VNET's, which drops it afterwards.
	 */
	XK_VNET_UNSENT,
	/*
	 * VNET, session: uint64_t, a host. Returns 1: pushes on the session go to ARP's link
	 * address of that neighbour; 0: they go elsewhere; -ENOENT: ARP has no address;
	 * -ENETUNREACH: the host is no neighbour on this interface. Never waits.
	 */
	XK_VNET_LEADS_TO,
	/*
	 * VNET, session: uint64_t, a host from which a message came up the session. If ARP knows
	 * that neighbour by another link address, makes ARP ask again. Returns 0. Never waits.
	 */
	XK_VNET_DOUBT,

	/* CHAN, an actively opened channel: uint64_t, nanoseconds, at least 1000; for calls that begin later */
	XK_CHAN_SET_DEADLINE,
	XK_CHAN_GET_DEADLINE, /* the same channel: uint64_t */
	/* the same channel: no buffer; ends the running call with -ECANCELED; the server may have executed it */
	XK_CHAN_ABORT,

	XK_AM_REGISTER,       /* AM, protocol: struct xk_am_registration (am.h) */
	XK_AM_SET_TAG,        /* AM, session: uint64_t, what the session shows to its peer; before its first push */
	XK_AM_GET_WAITING,    /* AM, session: uint32_t, number of requests that wait for answers to others */
	XK_AM_GET_UNANSWERED, /* AM, session: uint32_t, number of unanswered requests */

	XK_GM_GET_TOKENS, /* GM, session: uint32_t, number of messages that may be pushed */

	XK_REGION_REGISTER,   /* GM, AM, protocol: struct xk_region (region.h) */
	XK_REGION_UNREGISTER, /* GM, AM, protocol: struct xk_region */

	XK_POST_BUFFERS, /* GM, BIP, session: struct xk_post (post.h) */
};

/* Returns the address of the peer of session lls: its host, or else its link address; 0: neither is known. */
static inline uint64_t
xk_peer_address(struct xk_session *lls)
{
	uint64_t address;

	if (xk_control(lls, XK_GET_PEER_HOST, &address, sizeof(address)) == sizeof(address) ||
	    xk_control(lls, XK_GET_PEER_LINK, &address, sizeof(address)) == sizeof(address))
		return address;
	return 0;
}

#endif
