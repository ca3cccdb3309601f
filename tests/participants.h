/* participants.h - whom tests open_enable for. */
#ifndef TESTS_PARTICIPANTS_H
#define TESTS_PARTICIPANTS_H

#include "xkernel/participants.h"

static inline struct xk_participants
at_port(uint64_t port)
{
	return (struct xk_participants){ .local = { 1, { port } } };
}

/* Where the protocol below has no numbers of its own. */
static inline struct xk_participants
anybody(void)
{
	return (struct xk_participants){ .remote.depth = 0 };
}

#endif
