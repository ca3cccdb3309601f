/*
 * bip.c - basic messages between ports of hosts: no flow control, no recovery, no handshake.
 *
 * Promise:      that of the protocol below. A long message for which no buffer is posted is lost.
 * Spec:         after BIP 0.99 as Chen and Watson describe it, "User Level Communication on Alpha Linux Systems": up to
 *               256 bytes are sent and received by copy, longer messages by reference into a buffer that the receiver
 *               has posted. Our own 8-byte header: source, destination, length (header included)
 * Participants: the top of each stack is a port, 1 to 65535; the rest is for the protocol below. Opening needs the
 *               remote port, and chooses a local one from 49152 on if none is given. Enabling needs the local port.
 * Sessions:     one per (station, local port, remote port), whatever session below messages come up
 * Buffers:      xk_post (post.h), for long messages on a session; besides, each session has `buffers` that hold one of
 *               any length each and are posted again when the protocol above has returned from a message
 * Drops:        bad_length, unposted, too_big (pushed)
 * Not done:     fragmentation (of a frame's length, unless blast or ip is below), checksum; sessions that follow a peer to
 *               another link address: it needs new ones
 * Graph:        bip -> vnet, bip -> blast, bip -> ip
 */
#include "protocols/post.h"
#include "xkernel/receive.h"
#include "xkernel/support/ports.h"

#define BIP_DROPS(D) D(BIP_UNPOSTED, "unposted")
XK_DROPS(bip, BIP_DROPS);

enum { BIP_SHORT = 256 /* bytes of the longest message that needs no buffer */ };

#define BIP_HEADER(F)                                                                                                  \
	F(16, source, .kind = XK_NAMES_SESSION, .end = XK_END_REMOTE, .help = "port")                                  \
	F(16, destination, .kind = XK_NAMES_SESSION, .end = XK_END_LOCAL, .help = "port")                              \
	F(32, length, .kind = XK_LENGTH, .covers = XK_COVERS_MESSAGE)
XK_HEADER(bip, BIP_HEADER);
XK_FIELDS(bip, BIP_HEADER);
XK_MESSAGES(bip, BIP_HEADER);

struct bip {
	struct xk_protocol protocol; /* first */
	uint64_t buffers;            /* setting */
};

struct bip_session {
	struct xk_session session; /* first */
	struct xk_posted posted;
};

static int
bip_init(struct xk_protocol *self)
{
	return xk_ports_init(self, XK_PORTS_FIRST, XK_PORTS_LAST, 0);
}

static int
bip_setup(struct xk_session *session, const void *how)
{
	xk_posted_add(&((struct bip_session *)session)->posted, XK_POSTED_OWN,
		      (uint32_t)((struct bip *)session->protocol)->buffers);
	return 0;
}

/* ---- down ---- */

/* Copies m, which is short, so that header and payload are one segment. Returns m itself without a buffer. Takes m. */
static struct xk_msg *
bip_copy(struct xk_protocol *self, struct xk_msg *m)
{
	struct xk_msg *copy = xk_msg_new(xk_platform_of(self), xk_msg_len(m));

	if (copy == NULL)
		return m;
	xk_msg_copy_out(m, 0, copy->data, xk_msg_len(m));
	xk_msg_free(m);
	return copy;
}

static int
bip_push(struct xk_session *s, struct xk_msg *m)
{
	if (xk_msg_len(m) <= BIP_SHORT && !xk_msg_has_room(m, XK_HEADER_LEN(bip)))
		m = bip_copy(s->protocol, m);
	return bip_send(s, m);
}

/* ---- up ---- */

static void
bip_pop(struct xk_session *session, struct xk_session *lls, struct xk_msg *m, const void *hdr)
{
	struct bip_session *s = (struct bip_session *)session;
	bool is_short = xk_msg_len(m) <= BIP_SHORT;
	int class = is_short ? 0 : xk_posted_take(&s->posted, xk_msg_len(m));

	if (class < 0) {
		xk_drop(session->protocol, m, BIP_UNPOSTED);
		return;
	}
	xk_demux(session, m);
	if (!is_short && class == XK_POSTED_OWN)
		xk_posted_add(&s->posted, XK_POSTED_OWN, 1);
}

/* ---- asking ---- */

static int
bip_control(struct xk_session *session, int op, void *argument)
{
	return op != XK_POST_BUFFERS ? -ENOTSUP : xk_posted_control(&((struct bip_session *)session)->posted, argument);
}

/* ---- tables ---- */

static const struct xk_session_ops bip_session_ops = {
	.size = sizeof(struct bip_session),
	.setup = bip_setup,
	.push = bip_push,
	.pop = bip_pop,
	.control = bip_control,
};

static const struct xk_protocol_ops bip_ops = {
	.init = bip_init,
	.open = xk_ports_open,
	.passive_key = xk_ports_passive_key,
	.passive_key_of = xk_ports_passive_key_of,
	.demux = bip_receive,
	.key = xk_ports_station_key,
};

static const struct xk_setting bip_settings[] = {
	XK_SETTING(UINT, struct bip, buffers, "buffers", "buffers of each session that are posted again by themselves",
		   .initial = "0", .max = XK_POSTED_MAX),
	{ .name = NULL },
};

const struct xk_protocol_type xk_type_bip = {
	.name = "bip",
	.help = "Basic messages between ports, without flow control or recovery: long ones need a posted buffer.",
	.ops = &bip_ops,
	.session_ops = &bip_session_ops,
	.header = XK_HEADER_LEN(bip),
	.fields = bip_fields,
	.size = sizeof(struct bip),
	.offers = XK_ASYNC,
	.flags = XK_BY_FIELDS,
	.lowers = XK_ROLES({ "network", XK_ASYNC, NULL, "carries messages to hosts: vnet, blast, ip" }),
	.numbers = XK_NUMBERS({ "blast", 0x3008 }, { "eth", 0x3008 }, { "ip", 207 }),
	.settings = bip_settings,
	.drops = bip_drops,
	.session_max = 1024,
};
