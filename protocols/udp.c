/*
 * udp.c - unreliable datagrams between ports, with a checksum, over IP. udp_session.c opens and enables.
 *
 * Spec:         RFC 768, 1122 (4.1); 8-byte header
 * Participants: the top of each stack is a port, 1 to 65535; what is below it goes on to IP. Opening needs the remote
 *               one; without a local one a port from 49152 on is chosen. Enabling needs the local one, and no host.
 * Sessions:     one per (local port, remote port, session below). Opening one that exists fails with -EADDRINUSE, as
 *               does a port that another upper has enabled. A stranger's first datagram to an enabled port makes a
 *               session; its checksum is verified before anything is remembered.
 * Checksum:     generated unless the setting says no, by the port where it can; always verified, except that a
 *               checksum of zero says that there is none. Both ends' hosts are asked of the session below when a
 *               session is made.
 * Broadcast:    a session that broadcasts come up answers to their sender, from the interface's own address.
 * Control:      XK_GET_MAX_PACKET, XK_GET_OPT_PACKET; the session below answers the others. From below: XK_FAULT
 * Settings:     checksum, seed (of the ports that are chosen)
 * Faults:       what comes intact to a port that nobody has opened or enabled is refused (XK_FAULT_PORT): ICMP tells its
 *               sender. What the network says of a datagram is told to the protocol above its session.
 * Drops:        bad_length, bad_checksum, too_big (pushed)
 * Not done:     multicast
 * Graph:        udp -> ip
 */
#include <errno.h>
#include <string.h>

#include "protocols/ip.h"
#include "protocols/udp_private.h"
#include "xkernel/bytes.h"
#include "xkernel/checksum.h"

enum udp_drop {
	UDP_DROP_BAD_LENGTH = XK_DROP_OWN,
	UDP_DROP_BAD_CHECKSUM,
	UDP_DROP_TOO_BIG,
};

static const char *const udp_drops[] = { "bad_length", "bad_checksum", "too_big", NULL };

/* ---- the header ---- */

enum {
	UDP_SOURCE = 0,
	UDP_DESTINATION = 2,
	UDP_LENGTH = 4,
	UDP_CHECKSUM = 6,
};

struct udp_header {
	uint32_t ports; /* source << 16 | destination, as the key has them */
	uint16_t length;
	uint16_t checksum; /* 0: the sender has not computed it */
	uint64_t sum;      /* of the header's 8 bytes */
};

static inline uint16_t
udp_source(struct udp_header h)
{
	return (uint16_t)(h.ports >> 16);
}

static inline uint16_t
udp_destination(struct udp_header h)
{
	return (uint16_t)h.ports;
}

static inline struct udp_header
udp_header_load(const uint8_t *p)
{
	return (struct udp_header){ .ports = xk_get32(p + UDP_SOURCE),
				    .length = xk_get16(p + UDP_LENGTH),
				    .checksum = xk_get16(p + UDP_CHECKSUM),
				    .sum = xk_sum_load32(p) + xk_sum_load32(p + 4) };
}

/* Checks and takes off the header, and what does not belong to the datagram. 0, or the reason to drop *m. */
static inline unsigned
udp_header_pop(struct udp_header *h, struct xk_msg **m)
{
	const uint8_t *p = xk_msg_peek(m, XK_UDP_HEADER_LEN);

	if (xk_unlikely(p == NULL))
		return xk_msg_len(*m) < XK_UDP_HEADER_LEN ? XK_DROP_SHORT : XK_DROP_NO_BUFFER;
	*h = udp_header_load(p);
	if (xk_unlikely(h->length < XK_UDP_HEADER_LEN || h->length > xk_msg_len(*m)))
		return UDP_DROP_BAD_LENGTH;
	if (xk_unlikely(h->length < xk_msg_len(*m)))
		xk_msg_truncate(*m, h->length);
	xk_msg_pop(m, XK_UDP_HEADER_LEN);
	return 0;
}

/* A length as it is summed. */
static inline uint64_t
udp_sum_of_length(size_t length)
{
	return __builtin_bswap16((uint16_t)length);
}

/* Whether m need not be summed up. */
static inline bool
udp_is_good_unseen(struct udp_header h, const struct xk_msg *m)
{
	return h.checksum == 0 || (m->flags & XK_MSG_UDP_SUM_GOOD) != 0;
}

/* Whether the header, and the payload that sums up to payload_sum, are what was sent. */
static inline bool
udp_sums_up(struct udp_header h, uint64_t payload_sum, uint64_t pseudo_sum)
{
	return xk_sum_is_intact(pseudo_sum + udp_sum_of_length(h.length) + h.sum + payload_sum);
}

/* Whether the header and payload m are what was sent. */
static inline bool
udp_is_intact(struct udp_header h, const struct xk_msg *m, uint64_t pseudo_sum)
{
	return udp_is_good_unseen(h, m) || udp_sums_up(h, xk_msg_sum(m), pseudo_sum);
}

/* ---- init and fini ---- */

static void
udp_fini(struct xk_protocol *self)
{
	struct udp *udp = (struct udp *)self;

	xk_enable_fini(&udp->enables);
	xk_map_fini(&udp->sessions);
}

static int
udp_init(struct xk_protocol *self)
{
	struct udp *udp = (struct udp *)self;
	struct xk_participants anybody = { 0 };
	int err;

	if (udp->seed == 0)
		udp->seed = xk_random(self);
	atomic_store_explicit(&udp->next_anonymous, (uint32_t)udp->seed, memory_order_relaxed);
	err = xk_map_init(&udp->sessions, self->kernel, 16);
	if (err != 0)
		return err;
	err = xk_map_init(&udp->enables, self->kernel, 8);
	if (err != 0) {
		xk_map_fini(&udp->sessions);
		return err;
	}
	err = xk_open_enable(self, self, xk_lower(self, 0), &anybody);
	if (err != 0)
		udp_fini(self);
	return err;
}

/* ---- down ---- */

/* The checksum to store over a message whose payload sums up to payload_sum; `length` counts header and payload. */
static inline uint16_t
udp_checksum(const struct udp_session *s, uint64_t payload_sum, size_t length)
{
	uint16_t checksum =
		xk_checksum_finish(s->push_sum + xk_sum_load32(s->ports) + 2 * udp_sum_of_length(length) + payload_sum);

	return checksum == 0 ? 0xffff : checksum; /* 0 would say that there is none */
}

/* Whether a payload that fitted into one frame when s was made still does: the path may have become shorter. */
static bool
udp_is_whole(const struct udp_session *s, size_t len)
{
	uint32_t whole_max;

	return xk_control(s->session.lls, XK_GET_OPT_PACKET, &whole_max, sizeof(whole_max)) >= 0 &&
	       len + XK_UDP_HEADER_LEN <= whole_max;
}

/* What goes into the header's checksum field. */
static inline uint16_t
udp_checksum_field(const struct udp_session *s, const struct xk_msg *payload)
{
	size_t length = xk_msg_len(payload) + XK_UDP_HEADER_LEN;

	if (!s->checksum)
		return 0;
	if (xk_unlikely(xk_msg_len(payload) <= s->offload_max && s->offload_max != 0) &&
	    udp_is_whole(s, xk_msg_len(payload)))
		return xk_sum_fold(s->push_sum + udp_sum_of_length(length));
	return udp_checksum(s, xk_msg_sum(payload), length);
}

static inline void
udp_header_store(uint8_t *p, const struct udp_session *s, size_t length, uint16_t checksum)
{
	memcpy(p, s->ports, sizeof(s->ports));
	xk_put16(p + UDP_LENGTH, (uint16_t)length);
	xk_checksum_store(p + UDP_CHECKSUM, checksum);
}

/* Any message. */
__attribute__((noinline)) static int
udp_push_any(struct xk_session *session, struct xk_msg *m)
{
	struct udp_session *s = (struct udp_session *)session;
	size_t length = xk_msg_len(m) + XK_UDP_HEADER_LEN;
	uint16_t checksum;
	uint8_t *p;

	if (xk_unlikely(xk_msg_len(m) > s->max_packet)) {
		xk_drop(session->protocol, m, UDP_DROP_TOO_BIG);
		return -EMSGSIZE;
	}
	checksum = udp_checksum_field(s, m);
	p = xk_msg_push(&m, XK_UDP_HEADER_LEN);
	if (xk_unlikely(p == NULL)) {
		xk_drop(session->protocol, m, XK_DROP_NO_BUFFER);
		return -ENOBUFS;
	}
	udp_header_store(p, s, length, checksum);
	return xk_push(session->lls, m);
}

/* A short message with room in front of it: that way has no call, and saves no registers. */
static int
udp_push(struct xk_session *session, struct xk_msg *m)
{
	struct udp_session *s = (struct udp_session *)session;
	size_t length = xk_msg_len(m) + XK_UDP_HEADER_LEN;
	uint16_t checksum;

	if (xk_unlikely(xk_msg_len(m) >= s->short_end || m->next != NULL || !xk_msg_has_room(m, XK_UDP_HEADER_LEN)))
		return udp_push_any(session, m);
	checksum = udp_checksum(s, xk_sum_short(m->data, m->len), length);
	udp_header_store(xk_msg_push_in_place(m, XK_UDP_HEADER_LEN), s, length, checksum);
	return xk_push(session->lls, m);
}

/* ---- up ---- */

/* A session for the stranger of h, which came up lls with m. 0, or the reason to drop m. */
static unsigned
udp_open_passively(struct udp *udp, struct xk_session *lls, struct udp_header h, struct udp_session **session)
{
	const struct xk_enable *enable = xk_map_resolve(&udp->enables, udp_enable_key(udp_destination(h)));
	struct udp_session *s;
	int err;

	if (enable == NULL || !xk_duplicate(lls))
		return XK_DROP_NO_SESSION;
	err = udp_session_new(udp, enable->hlp_receive, enable->hlp_type, lls, &s);
	if (err != 0)
		return err == -ENOMEM ? XK_DROP_NO_MEMORY : XK_DROP_NO_SESSION;
	udp_session_set_ports(s, udp_destination(h), udp_source(h));
	err = xk_session_bind(&s->session, &udp->sessions, udp_key(h.ports, lls));
	if (err != 0) {
		xk_close(&s->session);
		if (err != -EEXIST)
			return XK_DROP_NO_MEMORY;
		/* another shepherd's, if it is left */
		*session = xk_map_resolve(&udp->sessions, udp_key(h.ports, lls));
		return *session != NULL ? 0 : XK_DROP_NO_SESSION;
	}
	if (xk_session_announce(&s->session) != 0)
		return XK_DROP_REFUSED;
	*session = s;
	return 0;
}

/* As udp_find_session, for the first datagram of a stranger: nothing is remembered, or said, of one that is not intact. */
static unsigned
udp_find_stranger(struct udp *udp, struct xk_session *lls, struct udp_header h, const struct xk_msg *m,
		  struct udp_session **session)
{
	struct udp_hosts hosts;

	if (udp_ask_hosts(lls, &hosts) != 0)
		return XK_DROP_NO_SESSION;
	if (!udp_is_intact(h, m, udp_pop_sum(&hosts)))
		return UDP_DROP_BAD_CHECKSUM;
	if (xk_map_resolve(&udp->enables, udp_enable_key(udp_destination(h))) == NULL) {
		xk_ip_refuse(lls, XK_FAULT_PORT, m, XK_UDP_HEADER_LEN);
		return XK_DROP_NO_SESSION;
	}
	return udp_open_passively(udp, lls, h, session);
}

/* The session of h, whose message m, header included, is intact. 0, or the reason to drop m. */
static inline unsigned
udp_find_session(struct udp *udp, struct xk_session *lls, struct udp_header h, const struct xk_msg *m,
		 struct udp_session **session)
{
	struct udp_session *s = xk_map_resolve(&udp->sessions, udp_key(h.ports, lls));

	if (xk_unlikely(s == NULL))
		return udp_find_stranger(udp, lls, h, m, session);
	*session = s;
	return udp_is_intact(h, m, s->pop_sum) ? 0 : UDP_DROP_BAD_CHECKSUM;
}

/* Any datagram. */
__attribute__((noinline)) static void
udp_demux_any(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct udp_session *s;
	struct udp_header h;
	unsigned why = udp_header_pop(&h, &m);

	if (xk_likely(why == 0))
		why = udp_find_session((struct udp *)self, lls, h, m, &s);
	if (xk_unlikely(why != 0)) {
		xk_drop(self, m, why);
		return;
	}
	xk_pop(&s->session, lls, m, NULL);
}

/* Whether m, whose header h is still on it, is a short datagram of s in one piece, and nothing is wrong with it. */
static inline bool
udp_is_usual(const struct udp_session *s, const struct xk_msg *m, struct udp_header h)
{
	const uint8_t *payload = m->data + XK_UDP_HEADER_LEN;
	size_t len = (size_t)m->len - XK_UDP_HEADER_LEN;

	return h.length == m->len && m->next == NULL &&
	       (udp_is_good_unseen(h, m) || udp_sums_up(h, xk_sum_short(payload, len), s->pop_sum));
}

/* Usually one more of the session that had the last: that way, of a short one, has no call, and saves no registers. */
static void
udp_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	if (xk_likely((size_t)m->len - XK_UDP_HEADER_LEN < XK_SUM_SHORT)) {
		struct xk_key key = udp_key(xk_get32(m->data + UDP_SOURCE), lls);
		struct udp_session *s = xk_map_resolved_last(&((struct udp *)self)->sessions, key);

		if (xk_likely(s != NULL) && xk_likely(udp_is_usual(s, m, udp_header_load(m->data)))) {
			xk_msg_pop_in_place(m, XK_UDP_HEADER_LEN);
			xk_pop(&s->session, lls, m, NULL);
			return;
		}
	}
	udp_demux_any(self, lls, m);
}

/* ---- asking ---- */

/* The answer of the layer below, `got` bytes of it in below, less what the header takes. */
static int
udp_answer_less_header(void *buffer, size_t len, int got, uint32_t below)
{
	if (got < 0)
		return got;
	if (below < XK_UDP_HEADER_LEN)
		return -EMSGSIZE;
	below -= XK_UDP_HEADER_LEN;
	return xk_answer(buffer, len, &below, sizeof(below));
}

static int
udp_session_control(struct xk_session *session, int op, void *buffer, size_t len)
{
	const struct udp_session *s = (const struct udp_session *)session;
	uint32_t below = 0;
	int got;

	if (op == XK_GET_MAX_PACKET)
		return xk_answer(buffer, len, &s->max_packet, sizeof(s->max_packet));
	if (op != XK_GET_OPT_PACKET)
		return -ENOTSUP;
	got = xk_control(session->lls, op, &below, sizeof(below));
	return udp_answer_less_header(buffer, len, got, below);
}

/* Somebody says what became of a datagram: whose was it? 0, or -ENOENT: nobody's. */
static int
udp_fault(struct udp *udp, struct xk_fault_report *report)
{
	struct udp_session *s;
	uint16_t local, remote;

	if (report->len < XK_UDP_HEADER_LEN)
		return -ENOENT;
	local = xk_get16(report->begin + UDP_SOURCE);
	remote = xk_get16(report->begin + UDP_DESTINATION);
	s = xk_map_resolve(&udp->sessions, udp_key(udp_ports(local, remote), report->session));
	if (s == NULL)
		return -ENOENT;
	report->begin += XK_UDP_HEADER_LEN;
	report->len -= XK_UDP_HEADER_LEN;
	xk_fault_tell(&s->session, report);
	return 0;
}

static int
udp_control(struct xk_protocol *self, int op, void *buffer, size_t len)
{
	uint32_t below = 0;
	int got;

	if (op == XK_FAULT)
		return udp_fault((struct udp *)self, buffer);
	if (op != XK_GET_MAX_PACKET && op != XK_GET_OPT_PACKET)
		return -ENOTSUP;
	got = xk_control_protocol(xk_lower(self, 0), op, &below, sizeof(below));
	return udp_answer_less_header(buffer, len, got, below);
}

static int
udp_get_participants(struct xk_session *session, struct xk_participants *participants)
{
	const struct udp_session *s = (const struct udp_session *)session;

	if (!xk_participant_push(&participants->remote, s->remote) ||
	    !xk_participant_push(&participants->local, s->local))
		return -E2BIG;
	return 0;
}

/* ---- tables ---- */

const struct xk_session_ops udp_session_ops = {
	.push = udp_push,
	.pop = xk_pop_through,
	.control = udp_session_control,
	.get_participants = udp_get_participants,
};

static const struct xk_protocol_ops udp_ops = {
	.init = udp_init,
	.fini = udp_fini,
	.open = udp_open,
	.open_enable = udp_open_enable,
	.open_disable = udp_open_disable,
	.demux = udp_demux,
	.control = udp_control,
};

static const struct xk_role udp_lowers[] = {
	{ "network", XK_ASYNC, NULL, "takes a 32-bit host and answers for both ends' hosts; normally ip" },
	{ NULL, 0, NULL, NULL },
};

static const struct xk_setting udp_settings[] = {
	{ "checksum", XK_SETTING_BOOL, offsetof(struct udp, checksum), "yes", "checksum what is sent", 0, 0 },
	{ "seed", XK_SETTING_UINT, offsetof(struct udp, seed), "0", "where anonymous ports begin; 0: at random", 0, 0 },
	{ NULL, 0, 0, NULL, NULL, 0, 0 },
};

static const struct xk_number_on udp_numbers[] = { { "ip", 17 }, { "bid", 17 }, { NULL, 0 } };

const struct xk_protocol_type xk_type_udp = {
	.name = "udp",
	.help = "Unreliable datagrams between ports, with a checksum.",
	.ops = &udp_ops,
	.session_ops = &udp_session_ops,
	.size = sizeof(struct udp),
	.offers = XK_ASYNC,
	.lowers = udp_lowers,
	.numbers = udp_numbers,
	.settings = udp_settings,
	.drops = udp_drops,
	.session_max = 8192,
};
