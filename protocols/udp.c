/*
 * udp.c - unreliable datagrams between ports, with a checksum, over IP.
 *
 * Spec:         RFC 768, 1122 (4.1); 8-byte header
 * Participants: the top of each stack is a port, 1 to 65535; the rest is IP's. Opening needs the remote port; a missing
 *               local one is chosen from 49152 on. Enabling needs the local port, and no host.
 * Sessions:     one per (local port, remote port, session below). Opening an existing one, or a port that another upper
 *               has enabled, fails with -EADDRINUSE. A stranger's first datagram to an enabled port makes one, after
 *               its checksum was verified; a session of broadcasts answers from the interface's own address.
 * Checksum:     generated unless the setting `checksum` is no, by the port if it can; verified unless it is zero (none)
 * Control:      XK_GET_MAX_PACKET, XK_GET_OPT_PACKET; the session below answers the others
 * Faults:       an intact datagram to an unknown port is refused (XK_FAULT_PORT); reports go to their session's upper
 * Not done:     multicast
 * Graph:        udp -> ip
 */
#include "protocols/udp.h"

#include "protocols/ip/ip.h"
#include "protocols/paths.h"
#include "xkernel/receive.h"
#include "xkernel/support/ports.h"

XK_HEADER(udp, UDP_HEADER);
XK_FIELDS(udp, UDP_HEADER);
XK_MESSAGES(udp, UDP_HEADER);
static_assert(XK_HEADER_LEN(udp) == XK_UDP_HEADER_LEN, "as in udp.h");

struct udp {
	struct xk_protocol protocol;
	bool checksum; /* settings */
	uint64_t seed;
};

static int
udp_init(struct xk_protocol *self)
{
	const struct udp *udp = (const struct udp *)self;

	return xk_ports_init(self, XK_PORTS_FIRST, XK_PORTS_LAST, udp->seed != 0 ? udp->seed : xk_random(self));
}

static int
udp_setup(struct xk_session *s, const void *how)
{
	if (!((const struct udp *)s->protocol)->checksum)
		s->sends.sums = s->sends.offloads = false;
	return 0;
}

static void
udp_refused(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	xk_ip_refuse(lls, XK_FAULT_PORT, m, XK_UDP_HEADER_LEN);
}

/* ---- tables ---- */

static const struct xk_session_ops udp_session_ops = {
	.setup = udp_setup,
	.push = udp_send,
	.pop = xk_pop_through,
};

static const struct xk_protocol_ops udp_ops = {
	.init = udp_init,
	.open = xk_ports_open,
	.passive_key = xk_ports_passive_key,
	.passive_key_of = xk_ports_passive_key_of,
	.demux = udp_receive,
	.refused = udp_refused,
	.fault = xk_ports_fault,
};

static const struct xk_setting udp_settings[] = {
	XK_SETTING(BOOL, struct udp, checksum, "checksum", "whether to checksum sent messages", .initial = "yes"),
	XK_SETTING(UINT, struct udp, seed, "seed", "key of the anonymous ports; 0: random", .initial = "0"),
	{ .name = NULL },
};

const struct xk_protocol_type xk_type_udp = {
	.name = "udp",
	.help = "Unreliable datagrams between ports, with a checksum.",
	.ops = &udp_ops,
	.session_ops = &udp_session_ops,
	.header = XK_HEADER_LEN(udp),
	.fields = udp_fields,
	.size = sizeof(struct udp),
	.offers = XK_ASYNC,
	.flags = XK_BY_FIELDS,
	.lowers = XK_ROLES({ "network", XK_ASYNC, NULL,
			     "carries datagrams to 32-bit hosts, and answers for both ends' hosts; normally ip" }),
	.numbers = XK_NUMBERS({ "ip", XK_UDP_NUMBER }, { "bid", XK_UDP_NUMBER }),
	.settings = udp_settings,
	.session_max = 8192,
	.path_code = &xk_path_udp,
};
