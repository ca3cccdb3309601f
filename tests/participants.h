/* participants.h - participants for tests' open_enable. */
#ifndef TESTS_PARTICIPANTS_H
#define TESTS_PARTICIPANTS_H

#include "xkernel/participants.h"

static inline struct xk_participants
at_port(uint64_t port)
{
	return (struct xk_participants){ .local = { 1, { port } } };
}

/* For protocols without ports. */
static inline struct xk_participants
anybody(void)
{
	return (struct xk_participants){ .remote.depth = 0 };
}

#endif
