/*
 * control.h - every xk_control operation that a protocol adds to the framework's own (upi.h): who answers, on what, and what
 * the buffer holds. An operation that a protocol does not know goes to the one below, so that layers in between are no
 * obstacle.
 *
 * Control is for questions with a plain answer, and for orders that need no other. Neighbours with more to say to each
 * other have a table of functions (`neighbour_ops` in protocol.h; arp.h, bidctl.h).
 */
#ifndef XK_PROTOCOLS_CONTROL_H
#define XK_PROTOCOLS_CONTROL_H

#include "xkernel/upi.h"

enum xk_protocol_control_op {
	/* BLAST, session: uint64_t, the number of a copy that it need not keep (ticket.h). */
	XK_RELEASE = XK_CONTROL_OWN,

	/* VNET, protocol: struct xk_vnet_interface[], at most XK_VNET_INTERFACES (vnet.h). */
	XK_VNET_GET_INTERFACES,
	/* VNET, session: struct xk_vnet_interface, the one it sends through. */
	XK_VNET_GET_INTERFACE,
	/*
	 * VNET, session: uint64_t, a neighbour. A session that a frame has caused, and that an upper has opened for that
	 * neighbour, follows the neighbour's link address from now on, as if it had been opened so; other messages from its old
	 * address get sessions of their own. Does nothing to other sessions, or if it follows already. Never waits.
	 */
	XK_VNET_FOLLOW,
	/*
	 * The protocol above VNET, called by VNET: struct xk_msg, as it was pushed on a lazy session, for which the neighbour's
	 * link address could not be found. It stays VNET's, which drops it afterwards.
	 */
	XK_VNET_UNSENT,
	/*
	 * VNET, session: uint64_t, a host. Returns 1: what is pushed here goes to the link address that ARP has for that
	 * neighbour; 0: it goes elsewhere; -ENOENT: ARP has none; -ENETUNREACH: the host is no neighbour on this interface.
	 * Never waits.
	 */
	XK_VNET_LEADS_TO,
	/*
	 * VNET, session: uint64_t, a host, from which a message has come up here. If it is a neighbour that ARP knows by
	 * another link address, ARP asks for it again. Returns 0. Never waits.
	 */
	XK_VNET_DOUBT,

	/*
	 * IP, session: uint64_t, the destination that arriving datagrams of it bear. It is XK_GET_MY_HOST, except for a
	 * session of broadcasts: that one sends from the interface's own address.
	 */
	XK_IP_GET_DESTINATION,
	XK_IP_SET_ERRORS, /* IP, protocol: struct xk_ip_errors, who tells senders of faults. Before the kernel runs. */
	XK_IP_REFUSE,     /* IP, session: struct xk_ip_refusal, of a datagram that came up it */
	XK_IP_FAULT,      /* IP, protocol: struct xk_ip_fault, what a host says of a datagram that we may have sent */

	/* CHAN, a channel that was opened actively: uint64_t, nanoseconds, at least 1000: for calls that begin from now on. */
	XK_CHAN_SET_DEADLINE,
	XK_CHAN_GET_DEADLINE, /* the same: uint64_t */
	XK_CHAN_ABORT, /* the same: no buffer; the call under way ends with -ECANCELED; the server may have run it */

	XK_AM_REGISTER,       /* AM, protocol: struct xk_am_registration (am.h) */
	XK_AM_GET_WAITING,    /* AM, session: uint32_t, requests that wait for others to be answered */
	XK_AM_GET_UNANSWERED, /* AM, session: uint32_t, requests whose answer is to come */
};

#endif
