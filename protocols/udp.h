/*
 * udp.h - UDP's header length and the ports that it chooses.
 *
 * Participants: the top of each stack is a port, 1 to 65535
 */
#ifndef XK_UDP_H
#define XK_UDP_H

enum {
	XK_UDP_HEADER_LEN = 8,
	XK_UDP_ANONYMOUS_FIRST = 49152, /* ports chosen if none is given (RFC 6335, 6) */
	XK_UDP_ANONYMOUS_LAST = 65535,
};

#endif
