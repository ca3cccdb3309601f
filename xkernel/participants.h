/*
 * participants.h - who takes part in a conversation: the address stacks given to open.
 *
 * There is one stack for the remote participant and one for the local one. The caller pushes addresses from
 * the lowest protocol's upward (for UDP: the host, then the port); each protocol pops its own part and passes
 * the rest down with open. A missing local part means "any" (or "choose one"), and so does XK_ANY.
 * xk_get_participants builds the same stacks back, each protocol pushing its own part on what lies below.
 */
#ifndef XK_PARTICIPANTS_H
#define XK_PARTICIPANTS_H

#include "xkernel/base.h"

enum { XK_PARTICIPANT_DEPTH = 8 };

#define XK_ANY UINT64_MAX

/* Addresses are numbers in the machine's order: an IPv4 host 10.77.0.2 is 0x0a4d0002, a link address 48 bits. */
struct xk_participant {
	unsigned depth;
	uint64_t address[XK_PARTICIPANT_DEPTH];
};

struct xk_participants {
	struct xk_participant remote, local;
};

/* Puts address on top. False: the stack is full. */
static inline bool
xk_participant_push(struct xk_participant *p, uint64_t address)
{
	if (p->depth == XK_PARTICIPANT_DEPTH)
		return false;
	p->address[p->depth++] = address;
	return true;
}

/* Takes the top off; XK_ANY where nothing is left. */
static inline uint64_t
xk_participant_pop(struct xk_participant *p)
{
	return p->depth == 0 ? XK_ANY : p->address[--p->depth];
}

#endif
