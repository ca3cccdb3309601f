/*
 * asp.c - "a simple protocol", the example of docs/writing-a-protocol.md: datagrams between ports, without a checksum.
 *
 * Spec:         the x-kernel tutorial's ASP; a 6-byte header: source port, destination port, length (header included)
 * Participants: the top of each stack is a port, 1 to 65535; the rest is for the protocol below. Opening needs the
 *               remote port; a missing local one is chosen from 49152 on. Enabling needs the local port.
 * Sessions:     one per (local port, remote port, session below)
 * Drops:        bad_length, too_big (pushed)
 * Counters:     opened (sessions)
 * Not done:     checksum
 * Graph:        asp -> ip, or anything else that carries messages to hosts
 */
#include "xkernel/receive.h"
#include "xkernel/support/ports.h"

#define ASP_COUNTERS(C) C(ASP_OPENED, "opened")
XK_COUNTERS(asp, ASP_COUNTERS);

#define ASP_HEADER(F)                                                                                                  \
	F(16, source, .kind = XK_NAMES_SESSION, .end = XK_END_REMOTE, .help = "port")                                  \
	F(16, destination, .kind = XK_NAMES_SESSION, .end = XK_END_LOCAL, .help = "port")                              \
	F(16, length, .kind = XK_LENGTH, .covers = XK_COVERS_MESSAGE)
XK_HEADER(asp, ASP_HEADER);
XK_FIELDS(asp, ASP_HEADER);
XK_MESSAGES(asp, ASP_HEADER);

static int
asp_init(struct xk_protocol *self)
{
	return xk_ports_init(self, XK_PORTS_FIRST, XK_PORTS_LAST, 0);
}

/* `how` is the header of a message that the session will receive. */
static int
asp_setup(struct xk_session *s, const void *how)
{
	xk_count(s->protocol, ASP_OPENED);
	return 0;
}

static const struct xk_session_ops asp_session_ops = {
	.setup = asp_setup,
	.push = asp_send,
	.pop = xk_pop_through,
};

static const struct xk_protocol_ops asp_ops = {
	.init = asp_init,
	.open = xk_ports_open,
	.passive_key = xk_ports_passive_key,
	.passive_key_of = xk_ports_passive_key_of,
	.demux = asp_receive,
};

const struct xk_protocol_type xk_type_asp = {
	.name = "asp",
	.help = "Datagrams between ports, without a checksum: the example of the documentation.",
	.ops = &asp_ops,
	.session_ops = &asp_session_ops,
	.header = XK_HEADER_LEN(asp),
	.fields = asp_fields,
	.size = sizeof(struct xk_protocol),
	.offers = XK_ASYNC,
	.flags = XK_BY_FIELDS,
	.lowers = XK_ROLES({ "network", XK_ASYNC, NULL, "carries messages to hosts; normally ip" }),
	.numbers = XK_NUMBERS({ "ip", 253 }),
	.counters = asp_counters,
	.session_max = 256,
};
