/*
 * eth.c - frames between stations of one link.
 *
 * Spec:         Ethernet II; 14-byte header: destination, source, type (1536 and up)
 * Participants: (remote, local); the top of each stack is a link address (eth.h). The local one may be missing; a
 *               remote of ff:ff:ff:ff:ff:ff gives a session that sends to everybody. The upper's number is the type.
 * Sessions:     one per (peer, type). Opening one again by the same hlps gives the same session. What everybody is sent
 *               comes up the session of its sender.
 * Control:      XK_GET_LINK_ADDRESS, XK_GET_PEER_LINK; the port answers the others
 * Drops:        not_mine (another station's, or a multicast), bad_type (an 802.3 length), bad_source (a group, zero, or
 *               this station itself)
 * Counters:     to_self (opens to the own address, refused: an outgoing shepherd never turns upward)
 * Not done:     multicast, 802.3 with LLC, VLAN tags, padding (port.c)
 * Graph:        eth -> port
 */
#include "protocols/eth.h"

#include <errno.h>

#include "xkernel/bytes.h"
#include "xkernel/protocol.h"

enum { ETH_DESTINATION = 0, ETH_SOURCE = 6, ETH_TYPE = 12, ETH_TYPE_MIN = 1536, ETH_TYPE_MAX = 0xffff };

enum { ETH_DROP_NOT_MINE = XK_DROP_OWN, ETH_DROP_BAD_TYPE, ETH_DROP_BAD_SOURCE };

enum { ETH_COUNT_TO_SELF };

/* ---- the header ---- */

/* Source and type lie side by side; one word of both names the session. */
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

static inline struct eth_header
eth_header_load(const uint8_t *p)
{
	return (struct eth_header){ xk_get64(p + ETH_DESTINATION) >> 16, xk_get64(p + ETH_SOURCE) };
}

static void
eth_header_store(uint8_t *p, uint64_t destination, uint64_t source, uint32_t type)
{
	xk_put48(p + ETH_DESTINATION, destination);
	xk_put48(p + ETH_SOURCE, source);
	xk_put16(p + ETH_TYPE, (uint16_t)type);
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

/* ---- state ---- */

struct eth {
	struct xk_protocol protocol;
	struct xk_session *down;
	uint64_t address;
};

struct eth_session {
	struct xk_session session;
	uint64_t peer;
	uint8_t header[XK_ETH_HEADER_LEN]; /* as it is sent */
};

static inline struct eth *
eth_of(struct xk_protocol *self)
{
	return xk_container_of(self, struct eth, protocol);
}

static inline struct eth_session *
eth_session_of(struct xk_session *s)
{
	return xk_container_of(s, struct eth_session, session);
}

static inline struct xk_key
eth_key(uint64_t flow)
{
	return (struct xk_key){ flow, 0 };
}

static int
eth_setup(struct xk_session *s, const void *how)
{
	const struct eth_header *h = how;

	eth_session_of(s)->peer = eth_source(*h);
	eth_header_store(eth_session_of(s)->header, eth_source(*h), eth_of(s->protocol)->address, eth_type(*h));
	return 0;
}

/* Takes the header off m. 0, or the reason to drop m. */
static inline unsigned
eth_header_pop(const struct eth *eth, struct eth_header *h, struct xk_msg *m)
{
	*h = eth_header_load(m->data);
	xk_msg_pop_in_place(m, XK_ETH_HEADER_LEN);
	if (xk_likely(h->destination == eth->address))
		return 0;
	m->flags |= XK_MSG_TO_ALL;
	return h->destination == XK_ETH_BROADCAST ? 0 : ETH_DROP_NOT_MINE;
}

/* Whether a session may come to be of h: what it says every later frame of the session says too. 0, or the reason to drop. */
static unsigned
eth_header_check(const struct eth *eth, struct eth_header h)
{
	if (eth_type(h) < ETH_TYPE_MIN)
		return ETH_DROP_BAD_TYPE;
	if (eth_source(h) == eth->address || eth_source(h) == 0 || xk_eth_is_group(eth_source(h)))
		return ETH_DROP_BAD_SOURCE;
	return 0;
}

/* ---- init and fini ---- */

static int
eth_init(struct xk_protocol *self)
{
	struct eth *eth = eth_of(self);
	struct xk_participants nobody = { .remote.depth = 0 };
	int err = xk_control_protocol(xk_lower(self, 0), XK_GET_LINK_ADDRESS, &eth->address, sizeof(eth->address));

	return err < 0 ? err : xk_open(self, self, xk_lower(self, 0), &nobody, &eth->down);
}

static void
eth_fini(struct xk_protocol *self)
{
	xk_close(eth_of(self)->down);
}

/* ---- opening ---- */

static int
eth_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	 struct xk_participants *participants, struct xk_session **session)
{
	struct eth *eth = eth_of(self);
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
	return xk_table_open(self, eth_key(h.flow), hlp_receive, hlp_type, eth->down, &h, session);
}

/* ---- down ---- */

static int
eth_push(struct xk_session *s, struct xk_msg *m)
{
	m = xk_push_header(s, m, XK_ETH_HEADER_LEN);
	if (xk_unlikely(m == NULL))
		return -ENOBUFS;
	memcpy(m->data, eth_session_of(s)->header, XK_ETH_HEADER_LEN);
	return xk_push(s->lls, m);
}

/* ---- up ---- */

/* A session for frame m, whose header was h, from a new peer, of a type that somebody has enabled. NULL: m was dropped. */
XK_APART static struct xk_session *
eth_accept(struct eth *eth, struct eth_header h, struct xk_msg *m)
{
	unsigned why = eth_header_check(eth, h);

	if (why == 0)
		return xk_table_accept(&eth->protocol, eth_key(h.flow), xk_table_number_key(eth_type(h)), eth->down, &h,
				       m);
	xk_drop(&eth->protocol, m, why);
	return NULL;
}

static void
eth_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct eth *eth = eth_of(self);
	struct xk_session *s = NULL;
	struct eth_header h;
	unsigned why = eth_header_pop(eth, &h, m);

	if (xk_unlikely(why != 0)) {
		xk_drop(self, m, why);
		return;
	}
	if (xk_likely(!xk_eth_is_group(eth_source(h)))) /* a session with everybody must not hear it */
		s = xk_table_find(self, eth_key(h.flow));
	if (xk_unlikely(s == NULL) && (s = eth_accept(eth, h, m)) == NULL)
		return;
	xk_pop(s, lls, m, NULL);
}

/* ---- asking ---- */

static int
eth_session_control(struct xk_session *s, int op, void *buffer, size_t len)
{
	if (op == XK_GET_PEER_LINK)
		return xk_answer(buffer, len, &eth_session_of(s)->peer, sizeof(uint64_t));
	if (op == XK_GET_LINK_ADDRESS)
		return xk_answer(buffer, len, &eth_of(s->protocol)->address, sizeof(uint64_t));
	return -ENOTSUP;
}

static int
eth_get_participants(struct xk_session *s, struct xk_participants *participants)
{
	if (!xk_participant_push(&participants->remote, eth_session_of(s)->peer) ||
	    !xk_participant_push(&participants->local, eth_of(s->protocol)->address))
		return -ENOSPC;
	return 0;
}

static int
eth_control(struct xk_protocol *self, int op, void *buffer, size_t len)
{
	if (op == XK_GET_LINK_ADDRESS)
		return xk_answer(buffer, len, &eth_of(self)->address, sizeof(uint64_t));
	return -ENOTSUP;
}

static const struct xk_session_ops eth_session_ops = {
	.size = sizeof(struct eth_session),
	.setup = eth_setup,
	.push = eth_push,
	.pop = xk_pop_through,
	.control = eth_session_control,
	.get_participants = eth_get_participants,
};

static const struct xk_protocol_ops eth_ops = {
	.init = eth_init,
	.fini = eth_fini,
	.open = eth_open,
	.demux = eth_demux,
	.control = eth_control,
};

static const struct xk_role eth_lowers[] = {
	{ "port", XK_ASYNC, NULL, "carries frames" },
	{ NULL, 0, NULL, NULL },
};

static const char *const eth_drops[] = { "not_mine", "bad_type", "bad_source", NULL };
static const char *const eth_counters[] = { "to_self", NULL };

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
