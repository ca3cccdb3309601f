/*
 * udp.h - UDP's header length.
 *
 * Participants: the top of each stack is a port, 1 to 65535
 */
#ifndef XK_UDP_H
#define XK_UDP_H

enum { XK_UDP_HEADER_LEN = 8 };

#endif
