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

#include "xkernel/protocol.h"
#include "xkernel/receive.h"

enum { ETH_TYPE_MIN = 1536, ETH_TYPE_MAX = 0xffff };

#define ETH_DROPS(D)                                                                                                   \
	D(ETH_DROP_NOT_MINE, "not_mine")                                                                               \
	D(ETH_DROP_BAD_TYPE, "bad_type")                                                                               \
	D(ETH_DROP_BAD_SOURCE, "bad_source")
XK_DROPS(eth, ETH_DROPS);

#define ETH_COUNTERS(C)                                                                                                \
	C(ETH_COUNT_TO_SELF, "to_self") /* opens to our own address, refused: a push never turns upward */
XK_COUNTERS(eth, ETH_COUNTERS);

XK_HEADER(eth, ETH_HEADER);
XK_FIELDS(eth, ETH_HEADER);
XK_MESSAGES(eth, ETH_HEADER);
static_assert(XK_HEADER_LEN(eth) == XK_ETH_HEADER_LEN, "as in eth.h");

struct eth {
	struct xk_protocol protocol;
	struct xk_session *down;
	uint64_t address;
};

/* ---- opening ---- */

static int
eth_init(struct xk_protocol *self)
{
	struct eth *eth = (struct eth *)self;
	struct xk_participants nobody = { .remote.depth = 0 };
	int err = xk_control_protocol(xk_lower(self, 0), XK_GET_LINK_ADDRESS, &eth->address);

	if (err < 0)
		return err;
	xk_header_usual(self, "destination", eth->address);
	return xk_open(self, self, xk_lower(self, 0), &nobody, &eth->down);
}

static void
eth_fini(struct xk_protocol *self)
{
	xk_close(((struct eth *)self)->down);
}

static int
eth_setup(struct xk_session *s, const void *how)
{
	XK_PUT(eth, source, s->sends.header, ((struct eth *)s->protocol)->address);
	return 0;
}

static int
eth_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	 struct xk_participants *participants, struct xk_session **session)
{
	struct eth *eth = (struct eth *)self;
	uint64_t peer = xk_participant_pop(&participants->remote), local = xk_participant_pop(&participants->local);
	uint8_t received[XK_ETH_HEADER_LEN]; /* from the peer */
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
	if (!xk_duplicate(eth->down))
		return -ENOMEM;
	eth_store(received, &(struct eth_header){ eth->address, peer, (uint16_t)type });
	return xk_table_open(self, xk_receive_key(self, eth->down, received), hlp_receive, hlp_type, eth->down,
			     received, session);
}

/* Checks a stranger's frame, a broadcast, and a frame for another station. */
static unsigned
eth_validate(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m, struct xk_key *passive)
{
	const struct eth *eth = (struct eth *)self;
	struct eth_header h = eth_load(m->data - XK_ETH_HEADER_LEN);

	if (h.destination == XK_ETH_BROADCAST)
		m->flags |= XK_MSG_TO_ALL;
	else if (h.destination != eth->address)
		return ETH_DROP_NOT_MINE;
	if (h.type < ETH_TYPE_MIN)
		return ETH_DROP_BAD_TYPE;
	return h.source == eth->address || h.source == 0 || xk_eth_is_group(h.source) ? ETH_DROP_BAD_SOURCE : 0;
}

/* ---- tables ---- */

static const struct xk_session_ops eth_session_ops = {
	.setup = eth_setup,
	.push = eth_send,
	.pop = xk_pop_through,
};

static const struct xk_protocol_ops eth_ops = {
	.init = eth_init,
	.fini = eth_fini,
	.open = eth_open,
	.demux = eth_receive,
	.validate = eth_validate,
};

const struct xk_protocol_type xk_type_eth = {
	.name = "eth",
	.help = "Ethernet: frames between stations of one link.",
	.ops = &eth_ops,
	.session_ops = &eth_session_ops,
	.header = XK_HEADER_LEN(eth),
	.fields = eth_fields,
	.size = sizeof(struct eth),
	.offers = XK_ASYNC,
	.flags = XK_BY_FIELDS,
	.lowers = XK_ROLES({ "port", XK_ASYNC, NULL, "carries frames" }),
	.number_max = ETH_TYPE_MAX,
	.drops = eth_drops,
	.counters = eth_counters,
	.session_max = 256,
};
