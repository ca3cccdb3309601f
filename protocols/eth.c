/*
 * eth.c - frames between stations of one link.
 *
 * Spec:         Ethernet II; 14-byte header: destination, source, type (1536 and up)
 * Participants: (remote, local); the top of each stack is a link address (eth.h). The local one may be missing. A
 *               session with ff:ff:ff:ff:ff:ff broadcasts. The upper's number is the type.
 * Sessions:     one per (peer, type), shared by opens of the same hlps. A broadcast comes up the session of its sender.
 * Control:      XK_GET_PEER_LINK; the port answers the others
 * Not done:     multicast, 802.3 with LLC, VLAN tags, padding (port.c)
 * Graph:        eth -> port
 */
#include "protocols/eth.h"

#include <errno.h>

#include "xkernel/bytes.h"
#include "xkernel/path.h"
#include "xkernel/protocol.h"

enum { ETH_DESTINATION = 0, ETH_SOURCE = 6, ETH_TYPE = 12, ETH_TYPE_MIN = 1536, ETH_TYPE_MAX = 0xffff };

enum eth_drop { ETH_DROP_NOT_MINE = XK_DROP_OWN, ETH_DROP_BAD_TYPE, ETH_DROP_BAD_SOURCE };
static const char *const eth_drops[] = { "not_mine", "bad_type", "bad_source", NULL };

enum eth_counter { ETH_COUNT_TO_SELF }; /* opens to our own address, refused: a push never turns upward */
static const char *const eth_counters[] = { "to_self", NULL };

/* ---- the header ---- */

/* Source and type are adjacent: one word of both names the session. */
struct eth_header {
	uint64_t destination;
	uint64_t flow; /* source << 16 | type */
};

static inline uint64_t
eth_source(struct eth_header h)
{
	return h.flow >> 16;
}

static inline uint32_t
eth_type(struct eth_header h)
{
	return h.flow & 0xffff;
}

static const struct xk_field_value eth_types[] = { { 0x0800, "IPv4" }, { 0x0806, "ARP" }, { 0, NULL } };

static const struct xk_field eth_fields[] = {
	{ .name = "destination", .bits = 48, .kind = XK_FIXED, .print = XK_PRINT_LINK, .help = "us, or everybody" },
	{ .name = "source", .bits = 48, .kind = XK_NAMES_SESSION, .print = XK_PRINT_LINK },
	{ .name = "type",
	  .bits = 16,
	  .kind = XK_NAMES_SESSION,
	  .print = XK_PRINT_HEX,
	  .is_upper = true,
	  .values = eth_types,
	  .help = "the protocol above" },
	{ .name = NULL },
};

struct eth {
	struct xk_protocol protocol;
	struct xk_session *down;
	uint64_t address;
};

struct eth_session {
	struct xk_session session;
	uint64_t peer;
	uint8_t header[XK_ETH_HEADER_LEN]; /* of sent frames */
};

/* Takes the header off m. Returns 0, or the reason to drop m. */
static inline unsigned
eth_header_pop(const struct eth *eth, struct eth_header *h, struct xk_msg *m)
{
	h->destination = xk_get64(m->data + ETH_DESTINATION) >> 16;
	h->flow = xk_get64(m->data + ETH_SOURCE);
	xk_msg_pop_in_place(m, XK_ETH_HEADER_LEN);
	if (xk_likely(h->destination == eth->address))
		return 0;
	m->flags |= XK_MSG_TO_ALL;
	return h->destination == XK_ETH_BROADCAST ? 0 : ETH_DROP_NOT_MINE;
}

/* Checks the fields that all frames of a session share. Returns 0, or the reason to drop the first. */
static unsigned
eth_header_check(const struct eth *eth, struct eth_header h)
{
	if (eth_type(h) < ETH_TYPE_MIN)
		return ETH_DROP_BAD_TYPE;
	return eth_source(h) == eth->address || eth_source(h) == 0 || xk_eth_is_group(eth_source(h))
		       ? ETH_DROP_BAD_SOURCE
		       : 0;
}

/* ---- opening ---- */

static int
eth_init(struct xk_protocol *self)
{
	struct eth *eth = (struct eth *)self;
	struct xk_participants nobody = { .remote.depth = 0 };
	int err = xk_control_protocol(xk_lower(self, 0), XK_GET_LINK_ADDRESS, &eth->address, sizeof(eth->address));

	return err < 0 ? err : xk_open(self, self, xk_lower(self, 0), &nobody, &eth->down);
}

static void
eth_fini(struct xk_protocol *self)
{
	xk_close(((struct eth *)self)->down);
}

static int
eth_setup(struct xk_session *session, const void *how)
{
	struct eth_session *s = (struct eth_session *)session;
	const struct eth_header *h = how;

	s->peer = eth_source(*h);
	xk_put48(s->header + ETH_DESTINATION, s->peer);
	xk_put48(s->header + ETH_SOURCE, ((struct eth *)session->protocol)->address);
	xk_put16(s->header + ETH_TYPE, (uint16_t)eth_type(*h));
	return 0;
}

static int
eth_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	 struct xk_participants *participants, struct xk_session **session)
{
	struct eth *eth = (struct eth *)self;
	uint64_t peer = xk_participant_pop(&participants->remote), local = xk_participant_pop(&participants->local);
	struct eth_header h = { .destination = 0 };
	uint32_t type;
	int err = xk_number(self, hlp_type, &type);

	if (err != 0)
		return err;
	if (type < ETH_TYPE_MIN || peer == 0 || peer > XK_ETH_BROADCAST ||
	    (xk_eth_is_group(peer) && peer != XK_ETH_BROADCAST))
		return -EINVAL;
	if (peer == eth->address)
		xk_count(self, ETH_COUNT_TO_SELF);
	if (peer == eth->address || (local != XK_ANY && local != eth->address))
		return -EADDRNOTAVAIL;
	h.flow = peer << 16 | type;
	if (!xk_duplicate(eth->down))
		return -ENOMEM;
	/* a broadcasting session receives no frames: its key differs */
	return xk_table_open(self, (struct xk_key){ h.flow, peer == XK_ETH_BROADCAST }, hlp_receive, hlp_type,
			     eth->down, &h, session);
}

/* ---- down and up ---- */

static int
eth_push(struct xk_session *session, struct xk_msg *m)
{
	m = xk_push_header(session, m, XK_ETH_HEADER_LEN);
	if (xk_unlikely(m == NULL))
		return -ENOBUFS;
	memcpy(m->data, ((struct eth_session *)session)->header, XK_ETH_HEADER_LEN);
	return xk_push(session->lls, m);
}

/* Finds the session of m, whose header was h, or accepts a new one. Takes m. */
XK_APART static void
eth_demux_other(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m, struct eth_header h)
{
	struct xk_key key = { h.flow, 0 };
	struct xk_session *s = xk_table_lookup(self, key);
	unsigned why = s != NULL ? 0 : eth_header_check((struct eth *)self, h);

	if (why != 0)
		xk_drop(self, m, why);
	else if (s != NULL || (s = xk_table_accept(self, key, xk_table_number_key(eth_type(h)), lls, &h, m)) != NULL)
		xk_pop(s, lls, m, NULL);
}

static void
eth_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct eth_header h;
	unsigned why = eth_header_pop((struct eth *)self, &h, m);
	struct xk_session *s = xk_table_last(self, (struct xk_key){ h.flow, 0 });

	if (xk_unlikely(why != 0))
		xk_drop(self, m, why);
	else if (xk_unlikely(s == NULL))
		eth_demux_other(self, lls, m, h);
	else
		xk_pop(s, lls, m, NULL);
}

static struct xk_session *
eth_find(struct xk_protocol *self, struct xk_session *lls, const uint8_t *p)
{
	bool is_mine = xk_get64(p + ETH_DESTINATION) >> 16 == ((struct eth *)self)->address;

	return is_mine ? xk_table_find(self, (struct xk_key){ xk_get64(p + ETH_SOURCE), 0 }) : NULL;
}

static void
eth_path(struct xk_session *s, struct xk_path_layer *layer)
{
	layer->header = ((struct eth_session *)s)->header;
}

/* ---- asking ---- */

static int
eth_session_control(struct xk_session *session, int op, void *buffer, size_t len)
{
	const struct eth_session *s = (struct eth_session *)session;

	return op != XK_GET_PEER_LINK ? -ENOTSUP : xk_answer(buffer, len, &s->peer, sizeof(s->peer));
}

static int
eth_get_participants(struct xk_session *session, struct xk_participants *participants)
{
	const struct eth *eth = (struct eth *)session->protocol;
	bool fits = xk_participant_push(&participants->remote, ((struct eth_session *)session)->peer) &&
		    xk_participant_push(&participants->local, eth->address);

	return fits ? 0 : -E2BIG;
}

/* ---- tables ---- */

static const struct xk_session_ops eth_session_ops = {
	.size = sizeof(struct eth_session),
	.setup = eth_setup,
	.push = eth_push,
	.pop = xk_pop_through,
	.control = eth_session_control,
	.path = eth_path,
	.get_participants = eth_get_participants,
};

static const struct xk_protocol_ops eth_ops = {
	.init = eth_init,
	.fini = eth_fini,
	.open = eth_open,
	.demux = eth_demux,
	.find = eth_find,
};

static const struct xk_role eth_lowers[] = {
	{ "port", XK_ASYNC, NULL, "carries frames" },
	{ NULL, 0, NULL, NULL },
};

const struct xk_protocol_type xk_type_eth = {
	.name = "eth",
	.help = "Ethernet: frames between stations of one link.",
	.ops = &eth_ops,
	.session_ops = &eth_session_ops,
	.header = XK_ETH_HEADER_LEN,
	.fields = eth_fields,
	.size = sizeof(struct eth),
	.offers = XK_ASYNC,
	.lowers = eth_lowers,
	.number_max = ETH_TYPE_MAX,
	.drops = eth_drops,
	.counters = eth_counters,
	.session_max = 256,
};
