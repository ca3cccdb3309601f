/*
 * asp.c - "a simple protocol", the example of docs/writing-a-protocol.md: datagrams between ports, without a checksum.
 *
 * Spec:         the x-kernel tutorial's ASP; a 6-byte header: source port, destination port, length (header included)
 * Participants: the top of each stack is a port, 1 to 65535; the rest is for the protocol below. Opening needs the
 *               remote port; a missing local one is chosen from 49152 on. Enabling needs the local port.
 * Sessions:     one per (local port, remote port, session below)
 * Drops:        bad_length, too_big (pushed)
 * Counters:     opened (sessions opened by strangers' messages)
 * Not done:     checksum
 * Graph:        asp -> ip, or anything else that carries messages to hosts
 */
#include "xkernel/bytes.h"
#include "xkernel/ports.h"

enum asp_drop { ASP_DROP_BAD_LENGTH = XK_DROP_OWN, ASP_DROP_TOO_BIG };
enum asp_counter { ASP_OPENED };

/* ---- the header ---- */

enum { ASP_SOURCE = 0, ASP_DESTINATION = 2, ASP_LENGTH = 4, ASP_HEADER_LEN = 6, ASP_LONGEST = 65535 };

static const struct xk_field asp_fields[] = {
	{ .name = "source", .bits = 16, .kind = XK_NAMES_SESSION, .help = "port" },
	{ .name = "destination", .bits = 16, .kind = XK_NAMES_SESSION, .help = "port" },
	{ .name = "length", .bits = 16, .kind = XK_LENGTH, .covers = XK_COVERS_MESSAGE },
	{ .name = NULL },
};

struct asp_header {
	uint16_t source, destination, length;
};

static struct asp_header
asp_header_load(const uint8_t *p)
{
	return (struct asp_header){ xk_get16(p + ASP_SOURCE), xk_get16(p + ASP_DESTINATION), xk_get16(p + ASP_LENGTH) };
}

static void
asp_header_store(uint8_t *p, struct asp_header h)
{
	xk_put16(p + ASP_SOURCE, h.source);
	xk_put16(p + ASP_DESTINATION, h.destination);
	xk_put16(p + ASP_LENGTH, h.length);
}

/* ---- state ---- */

struct asp {
	struct xk_protocol protocol; /* first */
	struct xk_ports ports;       /* to choose from */
};

struct asp_session {
	struct xk_session session; /* first */
	uint16_t local, remote;
	uint32_t max_packet;
};

static struct xk_key
asp_key(uint16_t local, uint16_t remote, const struct xk_session *lls)
{
	return (struct xk_key){ (uintptr_t)lls, (uint32_t)local << 16 | remote };
}

/* As asp_key, of a header whose destination is still to be set to `local`. */
static struct xk_key
asp_key_of(struct xk_protocol *self, struct xk_session *lls, uint32_t local, void *how)
{
	struct asp_header *h = how;

	h->destination = (uint16_t)local;
	return asp_key(h->destination, h->source, lls);
}

/* `how` is a header such as the session will receive. */
static int
asp_setup(struct xk_session *session, const void *how)
{
	struct asp_session *s = (struct asp_session *)session;
	const struct asp_header *h = how;
	uint32_t below;
	int err = xk_control(session->lls, XK_GET_MAX_PACKET, &below, sizeof(below));

	if (err < 0 || below < ASP_HEADER_LEN)
		return err < 0 ? err : -EMSGSIZE;
	s->local = h->destination;
	s->remote = h->source;
	s->max_packet = (below < ASP_LONGEST ? below : ASP_LONGEST) - ASP_HEADER_LEN;
	return 0;
}

/* ---- opening ---- */

static int
asp_init(struct xk_protocol *self)
{
	struct xk_participants anybody = { .remote.depth = 0 };

	xk_ports_init(&((struct asp *)self)->ports, XK_PORTS_FIRST, XK_PORTS_LAST, 0);
	return xk_open_enable(self, self, xk_lower(self, 0), &anybody);
}

static int
asp_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	 struct xk_participants *participants, struct xk_session **session)
{
	uint64_t remote = xk_participant_pop(&participants->remote), local = xk_participant_pop(&participants->local);
	struct asp_header h = { .source = (uint16_t)remote };
	struct xk_opening opening = {
		.hlp_receive = hlp_receive, .hlp_type = hlp_type, .local = local, .key = asp_key_of, .how = &h
	};
	int err;

	if (!xk_is_port(remote) || (!xk_is_port(local) && local != XK_ANY))
		return -EINVAL;
	err = xk_open(self, self, xk_lower(self, 0), participants, &opening.lls); /* may wait */
	return err != 0 ? err : xk_ports_open(self, &((struct asp *)self)->ports, &opening, session);
}

static struct xk_key
asp_passive_key_of(const struct xk_session *session)
{
	return xk_table_number_key(((const struct asp_session *)session)->local);
}

/* ---- down and up ---- */

static int
asp_push(struct xk_session *session, struct xk_msg *m)
{
	struct asp_session *s = (struct asp_session *)session;

	if (xk_msg_len(m) > s->max_packet) {
		xk_drop(session->protocol, m, ASP_DROP_TOO_BIG);
		return -EMSGSIZE;
	}
	m = xk_push_header(session, m, ASP_HEADER_LEN);
	if (m == NULL)
		return -ENOBUFS;
	asp_header_store(m->data, (struct asp_header){ s->local, s->remote, (uint16_t)xk_msg_len(m) });
	return xk_push(session->lls, m);
}

static void
asp_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct asp_header h = asp_header_load(m->data);
	struct xk_key key = asp_key(h.destination, h.source, lls);
	struct xk_session *s;

	if (h.length < ASP_HEADER_LEN || h.length > xk_msg_len(m)) {
		xk_drop(self, m, ASP_DROP_BAD_LENGTH);
		return;
	}
	xk_msg_truncate(m, h.length);
	xk_msg_pop_in_place(m, ASP_HEADER_LEN);
	s = xk_table_find(self, key);
	if (s == NULL) {
		s = xk_table_accept(self, key, xk_table_number_key(h.destination), lls, &h, m);
		if (s == NULL)
			return;
		xk_count(self, ASP_OPENED);
	}
	xk_pop(s, lls, m, NULL);
}

/* ---- asking ---- */

static int
asp_session_control(struct xk_session *session, int op, void *buffer, size_t len)
{
	const struct asp_session *s = (const struct asp_session *)session;

	return op != XK_GET_MAX_PACKET ? -ENOTSUP : xk_answer(buffer, len, &s->max_packet, sizeof(s->max_packet));
}

static int
asp_get_participants(struct xk_session *session, struct xk_participants *p)
{
	const struct asp_session *s = (const struct asp_session *)session;

	return xk_participant_push(&p->remote, s->remote) && xk_participant_push(&p->local, s->local) ? 0 : -E2BIG;
}

/* ---- tables ---- */

static const struct xk_session_ops asp_session_ops = {
	.size = sizeof(struct asp_session),
	.setup = asp_setup,
	.push = asp_push,
	.pop = xk_pop_through,
	.control = asp_session_control,
	.get_participants = asp_get_participants,
};

static const struct xk_protocol_ops asp_ops = {
	.init = asp_init,
	.open = asp_open,
	.passive_key = xk_ports_passive_key,
	.passive_key_of = asp_passive_key_of,
	.demux = asp_demux,
};

static const struct xk_role asp_lowers[] = {
	{ "network", XK_ASYNC, NULL, "carries messages to hosts; normally ip" },
	{ NULL, 0, NULL, NULL },
};
static const struct xk_number_on asp_numbers[] = { { "ip", 253 }, { NULL, 0 } };
static const char *const asp_drops[] = { "bad_length", "too_big", NULL };
static const char *const asp_counters[] = { "opened", NULL };

const struct xk_protocol_type xk_type_asp = {
	.name = "asp",
	.help = "Datagrams between ports, without a checksum: the example of the documentation.",
	.ops = &asp_ops,
	.session_ops = &asp_session_ops,
	.header = ASP_HEADER_LEN,
	.fields = asp_fields,
	.size = sizeof(struct asp),
	.offers = XK_ASYNC,
	.lowers = asp_lowers,
	.numbers = asp_numbers,
	.drops = asp_drops,
	.counters = asp_counters,
	.session_max = 256,
};
