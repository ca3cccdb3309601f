/*
 * icmp.h - what other protocols need to know of ICMP: echoes. icmp.c has the rest.
 *
 * Participants: the top of the local stack is an identifier, 0 to 65535, or missing: one is chosen; below it, as on the
 *               remote stack, is what IP takes.
 * Messages:     a sequence number (2 bytes), then the data: what is pushed goes as an echo request, what comes up is an
 *               echo reply.
 */
#ifndef XK_ICMP_H
#define XK_ICMP_H

enum {
	XK_ICMP_SEQUENCE_LEN = 2,
};

#endif
