/*
 * icmp.h - ICMP's echoes, for the protocols above it.
 *
 * Participants: the top of the local stack is an identifier, 0 to 65535; a missing one is chosen. The rest of both
 *               stacks is IP's.
 * Messages:     a sequence number (2 bytes), then the data. A pushed message is sent as an echo request; messages that
 *               come up are echo replies.
 */
#ifndef XK_ICMP_H
#define XK_ICMP_H

enum {
	XK_ICMP_SEQUENCE_LEN = 2,
};

#endif
