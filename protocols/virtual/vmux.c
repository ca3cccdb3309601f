/*
 * vmux.c - opens each session by the first of several ways that leads to the host: the link for a neighbour, IP
 * otherwise. A virtual protocol, without a header.
 *
 * Participants: those of the protocols below, which must all take the same
 * Sessions:     those of the protocol below that opened them: VMUX lends them (XK_LENDS), and has none. Messages by any
 *               way cross one edge, from the upper to VMUX, and only its marks count. A message costs nothing here: no
 *               call, no session, no map.
 * Opening:      asks the lowers in the order of the graph. -ENETUNREACH and -EOPNOTSUPP mean that the host is on no
 *               network of that lower, and the next is asked; any other result is final. The original went on after
 *               every failure, but then IP would ask ARP again for a silent neighbour, and an address that is taken
 *               could become another's.
 * Enabling:     all lowers, or none: messages come up by any of them
 * Control:      the first lower answers for the protocol; sessions are those of the lowers
 * Not done:     changing the way of an open session: open again
 * Graph:        vmux -> vnet; vmux -> ip
 */
#include <errno.h>

#include "xkernel/support/lowers.h"

#define VMUX_COUNTERS(C)                                                                                               \
	C(VMUX_FIRST, "first")     /* sessions opened by the first lower */                                            \
	C(VMUX_LATER, "later")     /* ... by another */                                                                \
	C(VMUX_NOWHERE, "nowhere") /* opens to which no lower led */
XK_COUNTERS(vmux, VMUX_COUNTERS);

/* ---- opening and enabling ---- */

static bool
vmux_passes_over(int err)
{
	return err == -ENETUNREACH || err == -EOPNOTSUPP;
}

static int
vmux_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	  struct xk_participants *participants, struct xk_session **session)
{
	int err = -ENETUNREACH;

	for (unsigned i = 0; i < self->lower_count && vmux_passes_over(err); i++) {
		struct xk_participants copy = *participants;

		err = xk_open(hlp_receive, hlp_type, xk_lower(self, i), &copy, session);
		if (err == 0)
			xk_count(self, i == 0 ? VMUX_FIRST : VMUX_LATER);
	}
	if (vmux_passes_over(err))
		xk_count(self, VMUX_NOWHERE);
	return err;
}

static int
vmux_open_enable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		 struct xk_participants *participants)
{
	return xk_enable_lowers(self, 1, hlp_receive, hlp_type, participants);
}

static int
vmux_open_disable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		  struct xk_participants *participants)
{
	return xk_disable_lowers(self, 1, self->lower_count, hlp_receive, hlp_type, participants);
}

/* ---- tables ---- */

static const struct xk_protocol_ops vmux_ops = {
	.open = vmux_open,
	.open_enable = vmux_open_enable,
	.open_disable = vmux_open_disable,
};

const struct xk_protocol_type xk_type_vmux = {
	.name = "vmux",
	.help = "Opens each session by the first lower that leads to the host. No header, no cost per message.",
	.ops = &vmux_ops,
	.size = sizeof(struct xk_protocol),
	.offers = XK_ASYNC,
	.flags = XK_VIRTUAL | XK_REPEATS | XK_LENDS,
	.lowers = XK_ROLES({ "way", XK_ASYNC, NULL, "a way to hosts; the first that leads to the host is used" }),
	.counters = vmux_counters,
};
