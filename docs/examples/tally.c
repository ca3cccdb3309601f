/*
 * tally.c - counts messages and bytes, and drops long messages: an example of docs/writing-a-protocol.md.
 *
 * Participants: those of the protocol below
 * Control:      the protocol below answers
 * Settings:     longest (bytes of a message at this edge; 0: unlimited)
 * Drops:        too_long
 * Counters:     up, down (messages), bytes_up, bytes_down
 * Not done:     calls (RPC); `longest` in XK_GET_MAX_PACKET
 * Graph:        udptest -> tally -> udp, or any other edge
 */
#include "xkernel/support/virtual.h"

#define TALLY_DROPS(D) D(TALLY_DROP_TOO_LONG, "too_long")
XK_DROPS(tally, TALLY_DROPS);

#define TALLY_COUNTERS(C)                                                                                              \
	C(TALLY_UP, "up") C(TALLY_DOWN, "down") C(TALLY_BYTES_UP, "bytes_up") C(TALLY_BYTES_DOWN, "bytes_down")
XK_COUNTERS(tally, TALLY_COUNTERS);

struct tally {
	struct xk_protocol protocol; /* first */
	uint64_t longest;
};

/* Counts m and passes it on, or drops it. Takes m. Returns what xk_push does; 0 upward. */
static int
tally_carry(struct xk_session *session, struct xk_msg *m, enum xk_direction direction)
{
	struct xk_protocol *self = session->protocol;
	struct tally *t = (struct tally *)self;
	size_t len = xk_msg_len(m);

	if (t->longest != 0 && len > t->longest) {
		xk_drop(self, m, TALLY_DROP_TOO_LONG);
		return direction == XK_DOWN ? -EMSGSIZE : 0;
	}
	xk_count(self, direction == XK_UP ? TALLY_UP : TALLY_DOWN);
	xk_count_by(self, direction == XK_UP ? TALLY_BYTES_UP : TALLY_BYTES_DOWN, len);
	return xk_virtual_pass(session, m, direction);
}

/* ---- tables ---- */

XK_VIRTUAL_SESSION_OPS(tally, .pop_is_last = true);

static const struct xk_protocol_ops tally_ops = { XK_VIRTUAL_OPS };

static const struct xk_setting tally_settings[] = {
	XK_SETTING(UINT, struct tally, longest, "longest", "bytes of a message; longer ones are dropped; 0: any"),
	{ .name = NULL },
};

const struct xk_protocol_type xk_type_tally = {
	.name = "tally",
	.help = "Counts messages and bytes, and drops long messages: an example of the documentation.",
	.ops = &tally_ops,
	.session_ops = &tally_session_ops,
	.size = sizeof(struct tally),
	.offers = XK_ASYNC,
	.flags = XK_VIRTUAL,
	.lowers = XK_ROLES({ "lower", XK_ASYNC, NULL, "carries the messages" }),
	.settings = tally_settings,
	.drops = tally_drops,
	.counters = tally_counters,
	.session_max = 256,
};
