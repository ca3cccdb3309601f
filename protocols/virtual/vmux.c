/*
 * vmux.c - the first of several ways to a host that leads there, chosen when a session is opened: the link itself where the
 * host is a neighbour, IP elsewhere. A virtual protocol, without a header, and without any part in messages.
 *
 * Participants: those of the protocols below, which must all take the same
 * Sessions:     are those of the protocol below that took them: VMUX lends them (XK_LENDS), and has none. Messages cross one
 *               edge, that from the upper to VMUX, whichever way they come; its marks count, and there are none below. So a
 *               message costs nothing here: no call, no session, no map.
 * Opening:      each lower is asked in the order of the graph. One that says that the host is not on any network of its own
 *               (-ENETUNREACH, -EOPNOTSUPP) is passed over; what any other says is the answer. In the original every failure
 *               was passed over; but a neighbour that does not answer ARP is asked for in vain a second time through IP, and
 *               an address that is somebody's already must not become another's.
 * Enabling:     all lowers, or none: messages come up by any of them.
 * Control:      of the protocol, the first lower answers; of sessions, VMUX is not asked
 * Drops:        none
 * Counters:     first, later (sessions opened by the first lower, by another), nowhere (no lower led there)
 * Not done:     another way when the one that was chosen does not lead there any more: open anew
 * Graph:        vmux -> vnet; vmux -> ip
 */
#include <errno.h>

#include "xkernel/protocol.h"

enum vmux_counter { VMUX_FIRST, VMUX_LATER, VMUX_NOWHERE };

/* ---- opening ---- */

static bool
vmux_passes_over(int status)
{
	return status == -ENETUNREACH || status == -EOPNOTSUPP;
}

static int
vmux_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	  struct xk_participants *participants, struct xk_session **session)
{
	int status = -ENETUNREACH;

	for (unsigned i = 0; i < self->lower_count && vmux_passes_over(status); i++) {
		struct xk_participants copy = *participants;

		status = xk_open(hlp_receive, hlp_type, xk_lower(self, i), &copy, session);
		if (status == 0)
			xk_count(self, i == 0 ? VMUX_FIRST : VMUX_LATER);
	}
	if (vmux_passes_over(status))
		xk_count(self, VMUX_NOWHERE);
	return status;
}

/* ---- enabling ---- */

/* Takes back what the first `count` lowers were told. 0, or what one of them said. */
static int
vmux_disable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	     const struct xk_participants *participants, unsigned count)
{
	int status = 0;

	for (unsigned i = 0; i < count; i++) {
		struct xk_participants copy = *participants;
		int answer = xk_open_disable(hlp_receive, hlp_type, xk_lower(self, i), &copy);

		status = status == 0 ? answer : status;
	}
	return status;
}

static int
vmux_open_enable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		 struct xk_participants *participants)
{
	for (unsigned i = 0; i < self->lower_count; i++) {
		struct xk_participants copy = *participants;
		int status = xk_open_enable(hlp_receive, hlp_type, xk_lower(self, i), &copy);

		if (status != 0) {
			vmux_disable(self, hlp_receive, hlp_type, participants, i);
			return status;
		}
	}
	return 0;
}

static int
vmux_open_disable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		  struct xk_participants *participants)
{
	return vmux_disable(self, hlp_receive, hlp_type, participants, self->lower_count);
}

/* ---- tables ---- */

static const struct xk_protocol_ops vmux_ops = {
	.open = vmux_open,
	.open_enable = vmux_open_enable,
	.open_disable = vmux_open_disable,
};

static const struct xk_role vmux_lowers[] = {
	{ "way", XK_ASYNC, NULL, "a way to hosts; the first that leads to one is taken" },
	{ NULL, 0, NULL, NULL },
};

static const char *const vmux_counters[] = { "first", "later", "nowhere", NULL };

const struct xk_protocol_type xk_type_vmux = {
	.name = "vmux",
	.help = "Chooses, when a session is opened, the first lower that leads to the host. No header, no cost per "
		"message.",
	.ops = &vmux_ops,
	.size = sizeof(struct xk_protocol),
	.offers = XK_ASYNC,
	.flags = XK_VIRTUAL | XK_REPEATS | XK_LENDS,
	.lowers = vmux_lowers,
	.counters = vmux_counters,
};
