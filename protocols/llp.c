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
#include "xkernel/bytes.h"
#include "xkernel/path.h"
#include "xkernel/ports.h"

enum llp_drop { LLP_BAD_LENGTH = XK_DROP_OWN, LLP_TOO_BIG };

/* ---- the header ---- */

enum { LLP_SOURCE = 0, LLP_DESTINATION = 2, LLP_LENGTH = 4, LLP_HEADER_LEN = 6, LLP_LONGEST = 65535 };

static const struct xk_field llp_fields[] = {
	{ .name = "source", .bits = 16, .kind = XK_NAMES_SESSION, .help = "endpoint" },
	{ .name = "destination", .bits = 16, .kind = XK_NAMES_SESSION, .help = "endpoint" },
	{ .name = "length", .bits = 16, .kind = XK_LENGTH, .covers = XK_COVERS_MESSAGE },
	{ .name = NULL },
};

/* Takes the header off m, and cuts off what follows its length. Returns false if the length is wrong. */
static inline bool
llp_header_pop(struct xk_msg *m)
{
	size_t length = xk_get16(m->data + LLP_LENGTH);

	if (xk_unlikely(length < LLP_HEADER_LEN || length > xk_msg_len(m)))
		return false;
	xk_msg_truncate(m, length);
	xk_msg_pop_in_place(m, LLP_HEADER_LEN);
	return true;
}

/* ---- state ---- */

struct llp {
	struct xk_protocol protocol; /* first */
	struct xk_ports endpoints;   /* to choose from */
};

struct llp_session {
	struct xk_session session; /* first */
	uint32_t max_packet;
	uint8_t header[LLP_HEADER_LEN]; /* of sent messages, but for the length */
};

/* Endpoints are those of arriving messages: source << 16 | destination. */
static inline uint32_t
llp_endpoints(uint64_t local, uint64_t remote)
{
	return (uint32_t)(remote << 16 | local);
}

/* Returns the key of these endpoints at the station of lls, or, if that knows no station, on lls alone. */
static struct xk_key
llp_key(struct xk_session *lls, uint32_t endpoints)
{
	uint64_t station;

	if (xk_control(lls, XK_GET_PEER_LINK, &station, sizeof(station)) == sizeof(station))
		return (struct xk_key){ station, endpoints };
	return (struct xk_key){ (uintptr_t)lls, (uint64_t)1 << 32 | endpoints };
}

static struct xk_key
llp_key_of(struct xk_protocol *self, struct xk_session *lls, uint32_t local, void *how)
{
	uint32_t *endpoints = how;

	*endpoints = llp_endpoints(local, *endpoints >> 16);
	return llp_key(lls, *endpoints);
}

/* ---- opening ---- */

static int
llp_init(struct xk_protocol *self)
{
	struct xk_participants anybody = { .remote.depth = 0 };

	xk_ports_init(&((struct llp *)self)->endpoints, XK_PORTS_FIRST, XK_PORTS_LAST, 0);
	return xk_open_enable(self, self, xk_lower(self, 0), &anybody);
}

static int
llp_setup(struct xk_session *session, const void *how)
{
	struct llp_session *s = (struct llp_session *)session;
	const uint32_t *endpoints = how;
	uint32_t below;
	int err = xk_control(session->lls, XK_GET_MAX_PACKET, &below, sizeof(below));

	if (err < 0 || below < LLP_HEADER_LEN)
		return err < 0 ? err : -EMSGSIZE;
	xk_put16(s->header + LLP_SOURCE, (uint16_t)*endpoints);
	xk_put16(s->header + LLP_DESTINATION, (uint16_t)(*endpoints >> 16));
	s->max_packet = (below < LLP_LONGEST ? below : LLP_LONGEST) - LLP_HEADER_LEN;
	return 0;
}

static int
llp_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	 struct xk_participants *participants, struct xk_session **session)
{
	uint64_t remote = xk_participant_pop(&participants->remote), local = xk_participant_pop(&participants->local);
	uint32_t endpoints = llp_endpoints(0, remote);
	struct xk_opening opening = { hlp_receive, hlp_type, NULL, local, false, llp_key_of, &endpoints };
	int err;

	if (!xk_is_port(remote) || (!xk_is_port(local) && local != XK_ANY))
		return -EINVAL;
	err = xk_open(self, self, xk_lower(self, 0), participants, &opening.lls); /* may wait */
	return err != 0 ? err : xk_ports_open(self, &((struct llp *)self)->endpoints, &opening, session);
}

static struct xk_key
llp_passive_key_of(const struct xk_session *s)
{
	return xk_table_number_key(xk_get16(((const struct llp_session *)s)->header + LLP_SOURCE));
}

/* ---- down and up ---- */

static int
llp_push(struct xk_session *session, struct xk_msg *m)
{
	const struct llp_session *s = (const struct llp_session *)session;

	if (xk_unlikely(xk_msg_len(m) > s->max_packet)) {
		xk_drop(session->protocol, m, LLP_TOO_BIG);
		return -EMSGSIZE;
	}
	m = xk_push_header(session, m, LLP_HEADER_LEN);
	if (xk_unlikely(m == NULL))
		return -ENOBUFS;
	memcpy(m->data, s->header, LLP_LENGTH);
	xk_put16(m->data + LLP_LENGTH, (uint16_t)xk_msg_len(m));
	return xk_push(session->lls, m);
}

static void
llp_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	uint32_t endpoints = xk_get32(m->data + LLP_SOURCE);
	struct xk_key key = llp_key(lls, endpoints);
	struct xk_session *s;

	if (xk_unlikely(!llp_header_pop(m))) {
		xk_drop(self, m, LLP_BAD_LENGTH);
		return;
	}
	s = xk_table_find(self, key);
	if (xk_likely(s != NULL) ||
	    (s = xk_table_accept(self, key, xk_table_number_key((uint16_t)endpoints), lls, &endpoints, m)) != NULL)
		xk_pop(s, lls, m, NULL);
}

/* ---- asking ---- */

static struct xk_session *
llp_find(struct xk_protocol *self, struct xk_session *lls, const uint8_t *p)
{
	return xk_table_find(self, llp_key(lls, xk_get32(p + LLP_SOURCE)));
}

static void
llp_path(struct xk_session *session, struct xk_path_layer *layer)
{
	const struct llp_session *s = (const struct llp_session *)session;

	layer->header = s->header;
	layer->longest = s->max_packet;
}

static int
llp_session_control(struct xk_session *session, int op, void *buffer, size_t len)
{
	const struct llp_session *s = (const struct llp_session *)session;

	return op != XK_GET_MAX_PACKET ? -ENOTSUP : xk_answer(buffer, len, &s->max_packet, sizeof(s->max_packet));
}

static int
llp_get_participants(struct xk_session *session, struct xk_participants *p)
{
	const uint8_t *header = ((const struct llp_session *)session)->header;

	if (!xk_participant_push(&p->remote, xk_get16(header + LLP_DESTINATION)))
		return -E2BIG;
	return xk_participant_push(&p->local, xk_get16(header + LLP_SOURCE)) ? 0 : -E2BIG;
}

/* ---- tables ---- */

static const struct xk_session_ops llp_session_ops = {
	.size = sizeof(struct llp_session),
	.setup = llp_setup,
	.push = llp_push,
	.pop = xk_pop_through,
	.control = llp_session_control,
	.path = llp_path,
	.get_participants = llp_get_participants,
};

static const struct xk_protocol_ops llp_ops = {
	.init = llp_init,
	.open = llp_open,
	.passive_key = xk_ports_passive_key,
	.passive_key_of = llp_passive_key_of,
	.demux = llp_demux,
	.find = llp_find,
};

static const struct xk_role llp_lowers[] = {
	{ "link", XK_ASYNC, NULL, "carries messages to stations: vnet" },
	{ NULL, 0, NULL, NULL },
};

static const struct xk_number_on llp_numbers[] = { { "eth", 0x6008 }, { NULL, 0 } };
static const char *const llp_drops[] = { "bad_length", "too_big", NULL };

const struct xk_protocol_type xk_type_llp = {
	.name = "llp",
	.help = "The Low-Latency Protocol: datagrams between endpoints of neighbours, in raw Ethernet frames.",
	.ops = &llp_ops,
	.session_ops = &llp_session_ops,
	.header = LLP_HEADER_LEN,
	.fields = llp_fields,
	.size = sizeof(struct llp),
	.offers = XK_ASYNC,
	.lowers = llp_lowers,
	.numbers = llp_numbers,
	.drops = llp_drops,
	.session_max = 1024,
};
