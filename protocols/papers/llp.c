/*
 * llp.c - the Low-Latency Protocol: datagrams between endpoints of two stations of one link, without IP.
 *
 * Promise:      none: messages may be lost, duplicated or reordered, and are as intact as the frames are
 * Spec:         Bjorndalen, Anshus, Vinter and Larsen, "The Latency of User-to-User, Kernel-to-Kernel and
 *               Interrupt-to-Interrupt Level Communication" (2000): raw Ethernet frames of type 0x6008 "with only a few
 *               addressing headers added". Here these are 6 bytes: source, destination, length (header included).
 * Participants: the top of each stack is an endpoint, 1 to 65535; the rest is for the protocol below. Opening needs the
 *               remote endpoint; a missing local one is chosen from 49152 on. Enabling needs the local one.
 * Sessions:     one per (station, local endpoint, remote endpoint), whatever session below messages come up
 * Drops:        bad_length, too_big (pushed)
 * Not done:     fragmentation, checksum; sessions that follow a peer to another link address: it needs new ones
 * Graph:        llp -> vnet, which asks ARP for stations by their hosts' addresses
 */
#include "xkernel/receive.h"
#include "xkernel/support/ports.h"

#define LLP_HEADER(F)                                                                                                  \
	F(16, source, .kind = XK_NAMES_SESSION, .end = XK_END_REMOTE, .help = "endpoint")                              \
	F(16, destination, .kind = XK_NAMES_SESSION, .end = XK_END_LOCAL, .help = "endpoint")                          \
	F(16, length, .kind = XK_LENGTH, .covers = XK_COVERS_MESSAGE)
XK_HEADER(llp, LLP_HEADER);
XK_FIELDS(llp, LLP_HEADER);
XK_MESSAGES(llp, LLP_HEADER);

static int
llp_init(struct xk_protocol *self)
{
	return xk_ports_init(self, XK_PORTS_FIRST, XK_PORTS_LAST, 0);
}

/* ---- tables ---- */

static const struct xk_session_ops llp_session_ops = {
	.push = llp_send,
	.pop = xk_pop_through,
};

static const struct xk_protocol_ops llp_ops = {
	.init = llp_init,
	.open = xk_ports_open,
	.passive_key = xk_ports_passive_key,
	.passive_key_of = xk_ports_passive_key_of,
	.demux = llp_receive,
	.key = xk_ports_station_key,
};

const struct xk_protocol_type xk_type_llp = {
	.name = "llp",
	.help = "The Low-Latency Protocol: datagrams between endpoints of neighbours, in raw Ethernet frames.",
	.ops = &llp_ops,
	.session_ops = &llp_session_ops,
	.header = XK_HEADER_LEN(llp),
	.fields = llp_fields,
	.size = sizeof(struct xk_protocol),
	.offers = XK_ASYNC,
	.flags = XK_BY_FIELDS,
	.lowers = XK_ROLES({ "link", XK_ASYNC, NULL, "carries messages to stations: vnet" }),
	.numbers = XK_NUMBERS({ "eth", 0x6008 }),
	.session_max = 1024,
};
