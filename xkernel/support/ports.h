/*
 * ports.h - local numbers of sessions (ports, endpoints), named by the opener or chosen for it, and enables by such a
 * number, of protocols whose header names both ends (XK_END_REMOTE, XK_END_LOCAL: 16 bits each).
 *
 *	.open = xk_ports_open,
 *	.passive_key = xk_ports_passive_key,
 *	.passive_key_of = xk_ports_passive_key_of,
 *	.fault = xk_ports_fault,
 *
 * init calls xk_ports_init.
 *
 * Participants: the top of each stack is a number, 1 to 65535; the rest is for the protocol below. Opening needs the
 * remote number, and chooses a local one if none is given. Enabling needs the local one.
 *
 * Numbers are chosen in turn, so each is reused as late as possible. A secret seed gives each peer an offset of its own
 * (RFC 6056, 3.3.3), so no host can infer another host's numbers from those that it sees.
 */
#ifndef XK_PORTS_H
#define XK_PORTS_H

#include <stdatomic.h>

#include "xkernel/protocol.h"

enum { XK_PORTS_FIRST = 49152, XK_PORTS_LAST = UINT16_MAX }; /* the usual range to choose from (RFC 6335, 6) */

/* Returns whether a participant's address is a port: 1 to 65535. */
static inline bool
xk_is_port(uint64_t address)
{
	return address > 0 && address <= UINT16_MAX;
}

/*
 * Sets the range that self chooses numbers from, `last` included, and the secret seed (0: the first choice is `first`,
 * for any peer). Enables self on its first lower, for all participants. In init. Returns as xk_open_enable.
 */
int xk_ports_init(struct xk_protocol *self, uint32_t first, uint32_t last, uint64_t seed);

/*
 * An `open`: makes a session with a local number that no other session to the same peer has. May wait, as the open
 * below does. Returns as xk_ports_open_below and xk_ports_open_on.
 */
int xk_ports_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		  struct xk_participants *participants, struct xk_session **session);

/* The arguments of an open in two steps. */
struct xk_opening {
	struct xk_protocol *hlp_receive, *hlp_type;
	uint8_t *p;      /* a header as the session will receive it, zero in the fields of the ends */
	const void *how; /* for setup */
	bool shares;     /* share a session with this local number, if the same hlps have opened it */
	/* filled in by xk_ports_open_below, like the remote number in p */
	uint64_t local;         /* XK_ANY: choose */
	struct xk_session *lls; /* the caller's reference, which xk_ports_open_on takes */
};

/* Takes the numbers from participants, and opens the session below. May wait. -EINVAL (no port), or as xk_open. */
int xk_ports_open_below(struct xk_protocol *self, struct xk_participants *participants, struct xk_opening *opening);

/*
 * Opens a session, whose key is that of the header p (xk_receive_key), with a local number, stored in p, that no other
 * session to the same peer has. A chosen number is also not enabled; a specified one may be, by hlp_receive. Any
 * shepherd; never waits. Takes opening->lls, also on failure. Returns
 *	0
 *	-EADDRINUSE	the specified number is taken, or, if one is to be chosen, all are
 *	-errno		as xk_table_add
 */
int xk_ports_open_on(struct xk_protocol *self, const struct xk_opening *opening, struct xk_session **session);

/*
 * A `passive_key`: the local port on top of the stack, for all peers. -EINVAL: no port; -EOPNOTSUPP: the stack has more
 * below it.
 */
int xk_ports_passive_key(struct xk_protocol *self, struct xk_protocol *hlp_type, struct xk_participants *participants,
			 struct xk_key *key);

/*
 * A `key`: the ports and the station of lls, so that messages may come up any session from that station. If lls knows
 * no station: the ports and lls.
 */
struct xk_key xk_ports_station_key(struct xk_protocol *self, struct xk_session *lls, const uint8_t *p);

/*
 * Stores the ends of header p, exchanged, in the `sends` of s. For the `setup` of a type without the flag XK_BY_FIELDS,
 * whose headers are longer. Never waits.
 */
void xk_ports_setup(struct xk_session *s, const uint8_t *p);

/* A `passive_key_of`, for sessions whose `sends` names their ends. */
struct xk_key xk_ports_passive_key_of(const struct xk_session *s);

/* A `fault`: passes the report on to the protocol above the session that sent the message (fault.h). */
int xk_ports_fault(struct xk_protocol *self, struct xk_fault_report *report);

#endif
