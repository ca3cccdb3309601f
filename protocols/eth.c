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
#include "xkernel/trace.h"

enum { ETH_DESTINATION = 0, ETH_SOURCE = 6, ETH_TYPE = 12, ETH_TYPE_MIN = 1536, ETH_TYPE_MAX = 0xffff };

enum { ETH_DROP_NOT_MINE = XK_DROP_OWN, ETH_DROP_BAD_TYPE, ETH_DROP_BAD_SOURCE };

enum { ETH_COUNT_TO_SELF };

/* So many openers and closers may come in between before an opener gives up. */
enum { ETH_TRIES = 1000 };

/* Source and type lie side by side; one word of both names the session. */
struct eth_header {
	uint64_t destination;
	uint64_t flow; /* source << 16 | type */
};

static inline uint64_t
eth_source(const struct eth_header *h)
{
	return h->flow >> 16;
}

static inline uint32_t
eth_type(const struct eth_header *h)
{
	return h->flow & 0xffff;
}

struct eth {
	struct xk_protocol protocol;
	struct xk_session *down;
	uint64_t address;
	struct xk_map active;  /* peer, type: eth_session */
	struct xk_map passive; /* type: xk_enable */
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
eth_flow_key(uint64_t flow)
{
	return (struct xk_key){ flow, 0 };
}

static struct xk_key
eth_active_key(uint64_t peer, uint32_t type)
{
	return eth_flow_key(peer << 16 | type);
}

static struct xk_key
eth_passive_key(uint32_t type)
{
	return (struct xk_key){ 0, type };
}

static inline void
eth_header_load(struct eth_header *h, const uint8_t *p)
{
	h->destination = xk_get64(p + ETH_DESTINATION) >> 16;
	h->flow = xk_get64(p + ETH_SOURCE);
}

/* Strips the header, and checks what a session's key does not say. 0, or the reason to drop *m. */
static inline unsigned
eth_header_pop(const struct eth *eth, struct eth_header *h, struct xk_msg **m)
{
	const uint8_t *p = xk_msg_pop(m, XK_ETH_HEADER_LEN);

	if (xk_unlikely(p == NULL))
		return xk_msg_len(*m) < XK_ETH_HEADER_LEN ? XK_DROP_SHORT : XK_DROP_NO_BUFFER;
	eth_header_load(h, p);
	if (xk_unlikely(h->destination != eth->address)) {
		if (h->destination != XK_ETH_BROADCAST)
			return ETH_DROP_NOT_MINE;
		(*m)->flags |= XK_MSG_TO_ALL;
	}
	if (xk_unlikely(xk_eth_is_group(eth_source(h)))) /* a broadcast session must not hear it */
		return eth_type(h) < ETH_TYPE_MIN ? ETH_DROP_BAD_TYPE : ETH_DROP_BAD_SOURCE;
	return XK_DROP_NONE;
}

/* The rest of the checks, for the first frame of a session: every later one says the same. */
static unsigned
eth_header_check(const struct eth *eth, const struct eth_header *h)
{
	if (eth_type(h) < ETH_TYPE_MIN)
		return ETH_DROP_BAD_TYPE;
	if (eth_source(h) == eth->address || eth_source(h) == 0)
		return ETH_DROP_BAD_SOURCE;
	return XK_DROP_NONE;
}

static void
eth_header_store(uint8_t *p, uint64_t destination, uint64_t source, uint32_t type)
{
	xk_put48(p + ETH_DESTINATION, destination);
	xk_put48(p + ETH_SOURCE, source);
	xk_put16(p + ETH_TYPE, (uint16_t)type);
}

static void
eth_fini(struct xk_protocol *self)
{
	struct eth *eth = eth_of(self);

	xk_close(eth->down);
	xk_enable_fini(&eth->passive);
	xk_map_fini(&eth->active);
}

static int
eth_init(struct xk_protocol *self)
{
	struct eth *eth = eth_of(self);
	struct xk_participants nobody = { .remote.depth = 0 };
	int status = xk_map_init(&eth->active, self->kernel, self->session_max);

	if (status != 0)
		return status;
	status = xk_map_init(&eth->passive, self->kernel, 8);
	if (status != 0)
		goto fail_passive;
	status = xk_control_protocol(xk_lower(self, 0), XK_GET_LINK_ADDRESS, &eth->address, sizeof(eth->address));
	if (status < 0)
		goto fail_down;
	status = xk_open(self, self, xk_lower(self, 0), &nobody, &eth->down);
	if (status != 0)
		goto fail_down;
	return 0;
fail_down:
	xk_enable_fini(&eth->passive);
fail_passive:
	xk_map_fini(&eth->active);
	return status;
}

static const struct xk_session_ops eth_session_ops;

/* A session that is in the map, with the caller's reference. 0; -EEXIST: another one is; -ENOMEM. */
static int
eth_session_make(struct eth *eth, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type, uint64_t peer,
		 uint32_t type, struct xk_session **session)
{
	struct xk_session *s;
	int status;

	if (!xk_duplicate(eth->down))
		return -ENOMEM;
	s = xk_session_new(&eth->protocol, &eth_session_ops, sizeof(struct eth_session), hlp_receive, hlp_type,
			   eth->down);
	if (s == NULL) {
		xk_close(eth->down);
		return -ENOMEM;
	}
	eth_session_of(s)->peer = peer;
	eth_header_store(eth_session_of(s)->header, peer, eth->address, type);
	status = xk_session_bind(s, &eth->active, eth_active_key(peer, type));
	if (status != 0) {
		xk_close(s);
		return status;
	}
	*session = s;
	return 0;
}

/*
 * The session to peer, made or (if the same hlps have it already, or a frame of the peer's has caused it) one more
 * reference on it.
 */
static int
eth_session_get(struct eth *eth, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type, uint64_t peer,
		uint32_t type, struct xk_session **session)
{
	for (unsigned i = 0; i < ETH_TRIES; i++) {
		int status = xk_session_share(&eth->active, eth_active_key(peer, type), hlp_receive, hlp_type, session);

		if (status == -ENOENT)
			status = eth_session_make(eth, hlp_receive, hlp_type, peer, type, session);
		if (status != -EEXIST)
			return status;
	}
	return -EADDRINUSE;
}

static int
eth_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	 struct xk_participants *participants, struct xk_session **session)
{
	struct eth *eth = eth_of(self);
	uint64_t peer = xk_participant_pop(&participants->remote);
	uint64_t local = xk_participant_pop(&participants->local);
	uint32_t type;
	int status = xk_number(self, hlp_type, &type);

	if (status != 0)
		return status;
	if (type < ETH_TYPE_MIN || peer == 0 || peer > XK_ETH_BROADCAST ||
	    (xk_eth_is_group(peer) && peer != XK_ETH_BROADCAST))
		return -EINVAL;
	if (local != XK_ANY && local != eth->address)
		return -EADDRNOTAVAIL;
	if (peer == eth->address) {
		xk_count(self, ETH_COUNT_TO_SELF);
		return -EADDRNOTAVAIL;
	}
	return eth_session_get(eth, hlp_receive, hlp_type, peer, type, session);
}

static int
eth_open_enable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		struct xk_participants *participants)
{
	uint32_t type;
	int status = xk_number(self, hlp_type, &type);

	if (status != 0)
		return status;
	return xk_enable_add(&eth_of(self)->passive, eth_passive_key(type), hlp_receive, hlp_type);
}

static bool
eth_is_of_another(struct xk_session *s, void *hlp_type)
{
	return s->hlp_type != hlp_type;
}

static int
eth_open_disable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		 struct xk_participants *participants)
{
	struct eth *eth = eth_of(self);
	uint32_t type;
	int status = xk_number(self, hlp_type, &type);

	if (status == 0)
		status = xk_enable_remove(&eth->passive, eth_passive_key(type), hlp_receive, hlp_type);
	if (status == 0 && xk_map_resolve(&eth->passive, eth_passive_key(type)) == NULL)
		xk_session_uncache(self, eth_is_of_another, hlp_type);
	return status;
}

static int
eth_push(struct xk_session *s, struct xk_msg *m)
{
	if (xk_unlikely(!xk_msg_has_room(m, XK_ETH_HEADER_LEN)))
		return xk_push_again(s, m);
	memcpy(xk_msg_push_in_place(m, XK_ETH_HEADER_LEN), eth_session_of(s)->header, XK_ETH_HEADER_LEN);
	return xk_push(s->lls, m);
}

/* A frame from a new peer, of a type that somebody has enabled. 0 and the session, or the reason to drop the frame. */
static unsigned
eth_accept(struct eth *eth, const struct eth_header *h, struct xk_session **session)
{
	unsigned why = eth_header_check(eth, h);
	const struct xk_enable *enable;
	struct xk_session *s;
	int status;

	if (why != XK_DROP_NONE)
		return why;
	enable = xk_map_resolve(&eth->passive, eth_passive_key(eth_type(h)));
	if (enable == NULL)
		return XK_DROP_NO_SESSION;
	status = eth_session_make(eth, enable->hlp_receive, enable->hlp_type, eth_source(h), eth_type(h), &s);
	if (status == -EEXIST) { /* another shepherd was first */
		*session = xk_map_resolve(&eth->active, eth_active_key(eth_source(h), eth_type(h)));
		return *session != NULL ? XK_DROP_NONE : XK_DROP_NO_SESSION;
	}
	if (status != 0)
		return XK_DROP_NO_MEMORY;
	xk_trace(&eth->protocol, XK_TRACE_EVENTS, "session with %012llx, type %04x", (unsigned long long)eth_source(h),
		 eth_type(h));
	if (xk_session_announce(s) != 0)
		return XK_DROP_REFUSED;
	*session = s;
	return XK_DROP_NONE;
}

/* Any frame. */
__attribute__((noinline)) static void
eth_demux_any(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct eth *eth = eth_of(self);
	struct xk_session *s;
	struct eth_header h;
	unsigned why = eth_header_pop(eth, &h, &m);

	if (xk_unlikely(why != XK_DROP_NONE)) {
		xk_drop(self, m, why);
		return;
	}
	s = xk_map_resolve(&eth->active, eth_flow_key(h.flow));
	if (xk_unlikely(s == NULL)) {
		why = eth_accept(eth, &h, &s);
		if (why != XK_DROP_NONE) {
			xk_drop(self, m, why);
			return;
		}
	}
	xk_pop(s, lls, m, NULL);
}

/* Usually one more frame to this station of the session that had the last: that way has no call, and saves no registers. */
static void
eth_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct eth *eth = eth_of(self);
	struct xk_session *s;
	struct eth_header h;

	if (xk_likely(m->len >= XK_ETH_HEADER_LEN)) {
		eth_header_load(&h, m->data);
		s = xk_map_resolved_last(&eth->active, eth_flow_key(h.flow));
		if (xk_likely(s != NULL && h.destination == eth->address && !xk_eth_is_group(eth_source(&h)))) {
			xk_msg_pop_in_place(m, XK_ETH_HEADER_LEN);
			xk_pop(s, lls, m, NULL);
			return;
		}
	}
	eth_demux_any(self, lls, m);
}

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
	.push = eth_push,
	.pop = xk_pop_through,
	.control = eth_session_control,
	.get_participants = eth_get_participants,
};

static const struct xk_protocol_ops eth_ops = {
	.init = eth_init,
	.fini = eth_fini,
	.open = eth_open,
	.open_enable = eth_open_enable,
	.open_disable = eth_open_disable,
	.demux = eth_demux,
	.control = eth_control,
};

static const struct xk_role eth_lowers[] = {
	{ "port", XK_ASYNC, NULL, "carries frames" },
	{ NULL, 0, NULL, NULL },
};

/* 0x3000 and up: the x-kernel's own protocols; the others are assigned. */
static const char *const eth_drops[] = { "not_mine", "bad_type", "bad_source", NULL };
static const char *const eth_counters[] = { "to_self", NULL };

const struct xk_protocol_type xk_type_eth = {
	.name = "eth",
	.help = "Ethernet: frames between stations of one link.",
	.ops = &eth_ops,
	.session_ops = &eth_session_ops,
	.size = sizeof(struct eth),
	.offers = XK_ASYNC,
	.lowers = eth_lowers,
	.number_max = ETH_TYPE_MAX,
	.drops = eth_drops,
	.counters = eth_counters,
	.session_max = 256,
};
