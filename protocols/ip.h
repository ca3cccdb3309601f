/*
 * ip.h - what other protocols need to know of IP. ip.c has the rest.
 *
 * Participants: the top of each stack is an IPv4 host (10.77.0.2 is 0x0a4d0002)
 */
#ifndef XK_IP_H
#define XK_IP_H

#include "xkernel/upi.h"

enum xk_ip_control {
	/*
	 * Session: uint64_t, the destination that arriving datagrams of it bear. It is XK_GET_MY_HOST, except for a
	 * session that others' broadcasts come up: that one sends from the interface's own address.
	 */
	XK_IP_GET_DESTINATION = 400,
};

enum {
	XK_IP_MAX_PACKET = 65515, /* payload of the longest datagram */
};

#endif
