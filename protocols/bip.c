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
#include <string.h>

#include "protocols/post.h"
#include "xkernel/bytes.h"
#include "xkernel/path.h"
#include "xkernel/ports.h"

enum bip_drop { BIP_BAD_LENGTH = XK_DROP_OWN, BIP_UNPOSTED, BIP_TOO_BIG };

enum { BIP_SHORT = 256 /* bytes of the longest message that needs no buffer */ };

/* ---- the header ---- */

enum { BIP_SOURCE = 0, BIP_DESTINATION = 2, BIP_LENGTH = 4, BIP_HEADER_LEN = 8 };

static const struct xk_field bip_fields[] = {
	{ .name = "source", .bits = 16, .kind = XK_NAMES_SESSION, .help = "port" },
	{ .name = "destination", .bits = 16, .kind = XK_NAMES_SESSION, .help = "port" },
	{ .name = "length", .bits = 32, .kind = XK_LENGTH, .covers = XK_COVERS_MESSAGE },
	{ .name = NULL },
};

/* Takes the header off m, and cuts off what follows its length. Returns false if the length is wrong. */
static bool
bip_header_pop(struct xk_msg *m)
{
	size_t length = xk_get32(m->data + BIP_LENGTH);

	if (length < BIP_HEADER_LEN || length > xk_msg_len(m))
		return false;
	xk_msg_truncate(m, length);
	xk_msg_pop_in_place(m, BIP_HEADER_LEN);
	return true;
}

/* ---- state ---- */

struct bip {
	struct xk_protocol protocol; /* first */
	uint64_t buffers;            /* setting */
	struct xk_ports ports;
};

struct bip_session {
	struct xk_session session;      /* first */
	uint32_t ports;                 /* of arriving messages: source << 16 | destination */
	uint8_t header[BIP_HEADER_LEN]; /* of messages pushed, but for the length */
	uint32_t max_packet;
	struct xk_posted posted;
};

/* Returns the key of these ports at the station of lls, or, if that knows no station, on lls alone. */
static struct xk_key
bip_key(struct xk_session *lls, uint32_t ports)
{
	uint64_t station;

	if (xk_control(lls, XK_GET_PEER_LINK, &station, sizeof(station)) == sizeof(station))
		return (struct xk_key){ station, ports };
	return (struct xk_key){ (uintptr_t)lls, UINT64_C(1) << 32 | ports };
}

static struct xk_key
bip_key_of(struct xk_protocol *self, struct xk_session *lls, uint32_t local, void *how)
{
	uint32_t *ports = how;

	*ports = (*ports & ~UINT32_C(0xffff)) | local;
	return bip_key(lls, *ports);
}

/* ---- opening ---- */

static int
bip_init(struct xk_protocol *self)
{
	struct xk_participants anybody = { .remote.depth = 0 };

	xk_ports_init(&((struct bip *)self)->ports, XK_PORTS_FIRST, XK_PORTS_LAST, 0);
	return xk_open_enable(self, self, xk_lower(self, 0), &anybody);
}

static int
bip_setup(struct xk_session *session, const void *how)
{
	struct bip_session *s = (struct bip_session *)session;
	uint32_t below;
	int err = xk_control(session->lls, XK_GET_MAX_PACKET, &below, sizeof(below));

	if (err < 0 || below < BIP_HEADER_LEN)
		return err < 0 ? err : -EMSGSIZE;
	s->ports = *(const uint32_t *)how;
	xk_put16(s->header + BIP_SOURCE, (uint16_t)s->ports);
	xk_put16(s->header + BIP_DESTINATION, (uint16_t)(s->ports >> 16));
	s->max_packet = below - BIP_HEADER_LEN;
	xk_posted_add(&s->posted, XK_POSTED_OWN, (uint32_t)((struct bip *)session->protocol)->buffers);
	return 0;
}

static int
bip_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	 struct xk_participants *participants, struct xk_session **session)
{
	uint64_t remote = xk_participant_pop(&participants->remote), local = xk_participant_pop(&participants->local);
	uint32_t ports = (uint32_t)remote << 16;
	struct xk_opening opening = { hlp_receive, hlp_type, NULL, local, true, bip_key_of, &ports };
	int err;

	if (!xk_is_port(remote) || (!xk_is_port(local) && local != XK_ANY))
		return -EINVAL;
	err = xk_open(self, self, xk_lower(self, 0), participants, &opening.lls); /* may wait */
	return err != 0 ? err : xk_ports_open(self, &((struct bip *)self)->ports, &opening, session);
}

static struct xk_key
bip_passive_key_of(const struct xk_session *session)
{
	return xk_table_number_key((uint16_t)((const struct bip_session *)session)->ports);
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
bip_push(struct xk_session *session, struct xk_msg *m)
{
	const struct bip_session *s = (const struct bip_session *)session;

	if (xk_msg_len(m) > s->max_packet) {
		xk_drop(session->protocol, m, BIP_TOO_BIG);
		return -EMSGSIZE;
	}
	if (xk_msg_len(m) <= BIP_SHORT && !xk_msg_has_room(m, BIP_HEADER_LEN))
		m = bip_copy(session->protocol, m);
	m = xk_push_header(session, m, BIP_HEADER_LEN);
	if (m == NULL)
		return -ENOBUFS;
	memcpy(m->data, s->header, BIP_HEADER_LEN);
	xk_put32(m->data + BIP_LENGTH, (uint32_t)xk_msg_len(m));
	return xk_push(session->lls, m);
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

static void
bip_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	uint32_t ports = xk_get32(m->data + BIP_SOURCE);
	struct xk_key key = bip_key(lls, ports);
	struct xk_session *s;

	if (!bip_header_pop(m)) {
		xk_drop(self, m, BIP_BAD_LENGTH);
		return;
	}
	s = xk_table_find(self, key);
	if (s == NULL)
		s = xk_table_accept(self, key, xk_table_number_key((uint16_t)ports), lls, &ports, m);
	if (s != NULL)
		xk_pop(s, lls, m, NULL);
}

/* ---- paths ---- */

static struct xk_session *
bip_find(struct xk_protocol *self, struct xk_session *lls, const uint8_t *p)
{
	return xk_table_find(self, bip_key(lls, xk_get32(p + BIP_SOURCE)));
}

static void
bip_path(struct xk_session *session, struct xk_path_layer *layer)
{
	const struct bip_session *s = (const struct bip_session *)session;

	layer->header = s->header;
	layer->longest = s->max_packet;
}

/* Long messages go the layers' way, because bip_pop finds them a buffer. */
static bool
bip_path_pop(struct xk_session *session, struct xk_msg *m, const uint8_t *p, uint64_t state)
{
	return xk_msg_len(m) - (size_t)(p - m->data) <= BIP_HEADER_LEN + BIP_SHORT;
}

/* The header needs nothing but its length. */
static bool
bip_path_push(struct xk_session *session, struct xk_msg *m, uint8_t *p)
{
	return true;
}

/* ---- asking ---- */

static int
bip_control(struct xk_session *session, int op, void *buffer, size_t len)
{
	struct bip_session *s = (struct bip_session *)session;

	if (op == XK_POST_BUFFERS)
		return xk_posted_control(&s->posted, buffer, len);
	return op != XK_GET_MAX_PACKET ? -ENOTSUP : xk_answer(buffer, len, &s->max_packet, sizeof(s->max_packet));
}

static int
bip_get_participants(struct xk_session *session, struct xk_participants *participants)
{
	uint32_t ports = ((const struct bip_session *)session)->ports;

	if (!xk_participant_push(&participants->remote, ports >> 16) ||
	    !xk_participant_push(&participants->local, ports & UINT16_MAX))
		return -E2BIG;
	return 0;
}

/* ---- tables ---- */

static const struct xk_session_ops bip_session_ops = {
	.size = sizeof(struct bip_session),
	.setup = bip_setup,
	.push = bip_push,
	.pop = bip_pop,
	.control = bip_control,
	.path = bip_path,
	.path_pop = bip_path_pop,
	.path_push = bip_path_push,
	.get_participants = bip_get_participants,
};

static const struct xk_protocol_ops bip_ops = {
	.init = bip_init,
	.open = bip_open,
	.passive_key = xk_ports_passive_key,
	.passive_key_of = bip_passive_key_of,
	.demux = bip_demux,
	.find = bip_find,
};

static const struct xk_role bip_lowers[] = {
	{ "network", XK_ASYNC, NULL, "carries messages to hosts: vnet, blast, ip" },
	{ NULL, 0, NULL, NULL },
};

static const struct xk_setting bip_settings[] = {
	{ "buffers", XK_SETTING_UINT, offsetof(struct bip, buffers), "0",
	  "buffers of each session that are posted again by themselves", 0, XK_POSTED_MAX },
	{ NULL, 0, 0, NULL, NULL, 0, 0 },
};

static const struct xk_number_on bip_numbers[] = { { "blast", 0x3008 }, { "eth", 0x3008 }, { "ip", 207 }, { NULL, 0 } };
static const char *const bip_drops[] = { "bad_length", "unposted", "too_big", NULL };

const struct xk_protocol_type xk_type_bip = {
	.name = "bip",
	.help = "Basic messages between ports, without flow control or recovery: long ones need a posted buffer.",
	.ops = &bip_ops,
	.session_ops = &bip_session_ops,
	.header = BIP_HEADER_LEN,
	.fields = bip_fields,
	.size = sizeof(struct bip),
	.offers = XK_ASYNC,
	.lowers = bip_lowers,
	.numbers = bip_numbers,
	.settings = bip_settings,
	.drops = bip_drops,
	.session_max = 1024,
};
