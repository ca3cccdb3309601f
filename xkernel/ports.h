/*
 * ports.h - local numbers of sessions (ports, endpoints, identifiers), named by the opener or chosen for it, and
 * enables by such a number.
 *
 *	struct xk_ports ports;				of the protocol
 *	xk_ports_init(&asp->ports, XK_PORTS_FIRST, XK_PORTS_LAST, xk_random(self));
 *	...
 *	struct xk_opening opening = { hlp_receive, hlp_type, lls, local, false, asp_key_of, &how };
 *	return xk_ports_open(self, &asp->ports, &opening, session);
 *
 * Numbers are chosen in turn, so each returns as late as possible. A secret seed gives each peer an offset of its own
 * (RFC 6056, 3.3.3), so no host can tell from the numbers that it sees which ones another host is given.
 */
#ifndef XK_PORTS_H
#define XK_PORTS_H

#include <stdatomic.h>

#include "xkernel/protocol.h"

enum { XK_PORTS_FIRST = 49152, XK_PORTS_LAST = UINT16_MAX }; /* the usual range to choose from (RFC 6335, 6) */

/* A protocol's numbers to choose from. */
struct xk_ports {
	uint32_t first, count;
	uint64_t seed;           /* key of the peers' offsets; 0: all offsets are 0 */
	_Atomic uint32_t chosen; /* how many so far */
};

/* The arguments of an open. */
struct xk_opening {
	struct xk_protocol *hlp_receive, *hlp_type;
	struct xk_session *lls; /* the caller's reference, which the open takes */
	uint64_t local;         /* XK_ANY: choose */
	bool shares;            /* a session with this local number that the same hlps have opened is shared */
	/* Returns the key of a session on lls with this local number, and notes the number in `how`. */
	struct xk_key (*key)(struct xk_protocol *self, struct xk_session *lls, uint32_t local, void *how);
	void *how; /* for setup */
};

/* Returns whether a participant's address is a port: 1 to 65535. */
static inline bool
xk_is_port(uint64_t address)
{
	return address > 0 && address <= UINT16_MAX;
}

/* Sets the range to choose from, `last` included, and the secret seed. 0: the first choice is `first`, for any peer. */
static inline void
xk_ports_init(struct xk_ports *ports, uint32_t first, uint32_t last, uint64_t seed)
{
	ports->first = first;
	ports->count = last - first + 1;
	ports->seed = seed;
	atomic_store_explicit(&ports->chosen, 0, memory_order_relaxed);
}

/*
 * Opens a session with a local number that no other session to the same peer has. A chosen number is not enabled
 * either; a named one may be, by hlp_receive. Any shepherd; never waits. Takes opening->lls, also on failure. Returns
 *	0
 *	-EADDRINUSE	the named number is taken, or, if one is to be chosen, all are
 *	-errno		as xk_table_add
 */
int xk_ports_open(struct xk_protocol *self, struct xk_ports *ports, const struct xk_opening *opening,
		  struct xk_session **session);

/*
 * A passive_key: the local port on top of the stack, for all peers. -EINVAL: no port; -EOPNOTSUPP: the stack has more
 * below it.
 */
int xk_ports_passive_key(struct xk_protocol *self, struct xk_protocol *hlp_type, struct xk_participants *participants,
			 struct xk_key *key);

#endif
