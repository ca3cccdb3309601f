/*
 * null.c - passes all messages on: a virtual protocol, for any edge of a graph. It shows the cost of a layer, and the
 * least code that a layer needs.
 *
 * Participants: those of the protocol below
 * Control:      the protocol below answers
 * Not done:     calls (RPC)
 * Graph:        udptest -> null -> udp, or any other edge
 */
#include "xkernel/support/virtual.h"

static int
null_push(struct xk_session *s, struct xk_msg *m)
{
	return xk_push(s->lls, m);
}

static const struct xk_session_ops null_session_ops = {
	.push = null_push,
	.pop = xk_pop_through,
	.close = xk_virtual_session_close,
};

static const struct xk_protocol_ops null_ops = { XK_VIRTUAL_OPS };

const struct xk_protocol_type xk_type_null = {
	.name = "null",
	.help = "Passes all messages on. No header; for any edge.",
	.ops = &null_ops,
	.session_ops = &null_session_ops,
	.size = sizeof(struct xk_protocol),
	.offers = XK_ASYNC,
	.flags = XK_VIRTUAL,
	.lowers = XK_ROLES({ "lower", XK_ASYNC, NULL, "carries the messages" }),
	.session_max = 256,
};
