/*
 * participants.h - the participants of a conversation: the address stacks given to open.
 *
 * There is one stack for the remote participant and one for the local one. The caller pushes addresses from the lowest
 * protocol's upward (for UDP: the host, then the port). Each protocol pops its own part and passes the rest down with
 * open. A missing local part means "any" (or "choose one"), and so does XK_ANY. xk_get_participants builds the same
 * stacks: each protocol pushes its part onto those from below.
 */
#ifndef XK_PARTICIPANTS_H
#define XK_PARTICIPANTS_H

#include <string.h>

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

/* Pushes address. Returns false if the stack is full. */
static inline bool
xk_participant_push(struct xk_participant *p, uint64_t address)
{
	if (p->depth == XK_PARTICIPANT_DEPTH)
		return false;
	p->address[p->depth++] = address;
	return true;
}

/* Pops the top address, or returns XK_ANY if nothing is left. */
static inline uint64_t
xk_participant_pop(struct xk_participant *p)
{
	return p->depth == 0 ? XK_ANY : p->address[--p->depth];
}

static inline bool
xk_participant_equal(const struct xk_participant *a, const struct xk_participant *b)
{
	return a->depth == b->depth && memcmp(a->address, b->address, a->depth * sizeof(a->address[0])) == 0;
}

static inline uint64_t
xk_hash_mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 32;
}

/* Returns whether both are the same literally: XK_ANY equals only itself. */
static inline bool
xk_participants_equal(const struct xk_participants *a, const struct xk_participants *b)
{
	return xk_participant_equal(&a->remote, &b->remote) && xk_participant_equal(&a->local, &b->local);
}

/* Returns the same hash for equal participants. With a secret seed, strangers cannot choose colliding ones. */
static inline uint64_t
xk_participants_hash(const struct xk_participants *p, uint64_t seed)
{
	uint64_t hash = seed;

	for (unsigned i = 0; i < p->remote.depth; i++)
		hash = xk_hash_mix(hash, p->remote.address[i]);
	for (unsigned i = 0; i < p->local.depth; i++)
		hash = xk_hash_mix(hash, p->local.address[i]);
	return hash;
}

#endif
