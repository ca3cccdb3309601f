/*
 * udp.c - unreliable datagrams between ports, with a checksum, over IP.
 *
 * Spec:         RFC 768, 1122 (4.1); 8-byte header
 * Participants: the top of each stack is a port, 1 to 65535; the rest is IP's. Opening needs the remote port; a missing
 *               local one is chosen from 49152 on. Enabling needs the local port, and no host.
 * Sessions:     one per (local port, remote port, session below). Opening an existing one, or a port that another upper
 *               has enabled, fails with -EADDRINUSE. A stranger's first datagram to an enabled port makes one, after
 *               its checksum was verified; a session of broadcasts answers from the interface's own address.
 * Checksum:     generated unless the setting says no, by the port if it can; verified unless it is zero (none)
 * Control:      XK_GET_MAX_PACKET, XK_GET_OPT_PACKET; the session below answers the others. From below: XK_FAULT
 * Faults:       an intact datagram to an unknown port is refused (XK_FAULT_PORT); reports go to their session's upper
 * Not done:     multicast
 * Graph:        udp -> ip
 */
#include "protocols/udp.h"

#include <errno.h>
#include <string.h>

#include "protocols/ip/ip.h"
#include "xkernel/bytes.h"
#include "xkernel/checksum.h"
#include "xkernel/path.h"
#include "xkernel/platform.h"
#include "xkernel/ports.h"
#include "xkernel/protocol.h"
#include "xkernel/trace.h"

enum udp_drop {
	UDP_DROP_BAD_LENGTH = XK_DROP_OWN,
	UDP_DROP_BAD_CHECKSUM,
	UDP_DROP_TOO_BIG,  /* pushed */
	UDP_DROP_UNSUMMED, /* the sender left the checksum to a device that does not exist */
};
static const char *const udp_drops[] = { "bad_length", "bad_checksum", "too_big", "unsummed", NULL };

/* ---- the header ---- */

enum { UDP_SOURCE = 0, UDP_DESTINATION = 2, UDP_LENGTH = 4, UDP_CHECKSUM = 6 };
enum { UDP_NUMBER = 17 /* on IP, and so in the pseudo-header */, UDP_LONGEST = 65535 };

static const struct xk_field udp_fields[] = {
	{ .name = "source", .bits = 16, .kind = XK_NAMES_SESSION, .help = "port" },
	{ .name = "destination", .bits = 16, .kind = XK_NAMES_SESSION, .help = "port" },
	{ .name = "length", .bits = 16, .kind = XK_LENGTH, .covers = XK_COVERS_MESSAGE },
	{ .name = "checksum",
	  .bits = 16,
	  .kind = XK_CHECKSUM,
	  .print = XK_PRINT_HEX,
	  .covers = XK_COVERS_PSEUDO,
	  .drop = UDP_DROP_BAD_CHECKSUM,
	  .left = UDP_DROP_UNSUMMED,
	  .help = "0: none" },
	{ .name = NULL },
};

/* Checks m's length and cuts off padding. Returns 0, or the reason to drop m. */
static inline unsigned
udp_header_trim(struct xk_msg *m)
{
	size_t length = xk_get16(m->data + UDP_LENGTH);

	if (length < XK_UDP_HEADER_LEN || length > xk_msg_len(m))
		return UDP_DROP_BAD_LENGTH;
	xk_msg_truncate(m, length);
	return 0;
}

/* Returns the sum of the headers of payload m; 0: no checksum, or the port verified it. */
static inline uint64_t
udp_sum_headers(const struct xk_msg *m, uint64_t pseudo_sum)
{
	const uint8_t *p = m->data - XK_UDP_HEADER_LEN;

	if (xk_get16(p + UDP_CHECKSUM) == 0 || (m->flags & XK_MSG_TRANSPORT_SUM_GOOD) != 0)
		return 0;
	return pseudo_sum + xk_sum_load32(p) + xk_sum_load32(p + 4) + xk_sum_load16(p + UDP_LENGTH);
}

/* Returns whether payload m, with its header in front, is intact. */
static bool
udp_is_intact(const struct xk_msg *m, uint64_t pseudo_sum)
{
	uint64_t sum = udp_sum_headers(m, pseudo_sum);

	return sum == 0 || xk_sum_is_intact(sum + xk_msg_sum(m));
}

/* Returns the sum of the pseudo-header without its length. */
static uint64_t
udp_pseudo_sum(uint64_t source, uint64_t destination)
{
	return xk_sum_of32((uint32_t)source) + xk_sum_of32((uint32_t)destination) + xk_sum_of16(UDP_NUMBER);
}

struct udp {
	struct xk_protocol protocol;
	bool checksum; /* settings */
	uint64_t seed;

	struct xk_ports ports;
	_Atomic bool has_told; /* the user was told how to get checksums computed */
};

struct udp_session {
	struct xk_session session;
	uint32_t usual_end;  /* messages shorter than this fit, and are summed here */
	uint32_t max_packet; /* longest message */
	bool offloads;       /* the port computes checksums of messages that fit into one frame */
	uint8_t header[8];   /* of sent messages, but for length and checksum */
	uint64_t push_sum;   /* of the pseudo-header of sent messages, without its length */
	uint64_t pop_sum;    /* ... of arriving ones */
};

/* `ports` is source << 16 | destination of arriving messages. */
static inline struct xk_key
udp_key(uint32_t ports, const struct xk_session *lls)
{
	return (struct xk_key){ (uintptr_t)lls, ports };
}

static inline uint32_t
udp_ports(uint64_t local, uint64_t remote)
{
	return (uint32_t)(remote << 16 | local);
}

/* Returns the reason to drop payload m, whose checksum is wrong. */
static unsigned
udp_why_bad(struct udp *udp, const struct xk_msg *m, uint64_t pseudo_sum)
{
	if (!xk_sum_is_left(pseudo_sum + xk_sum_of16((uint16_t)(xk_msg_len(m) + XK_UDP_HEADER_LEN)),
			    m->data - XK_UDP_HEADER_LEN + UDP_CHECKSUM))
		return UDP_DROP_BAD_CHECKSUM;
	if (!atomic_exchange_explicit(&udp->has_told, true, memory_order_relaxed))
		xk_trace(&udp->protocol, XK_TRACE_NONE,
			 "datagrams arrive whose sender left the checksum to a device that does not exist, and are "
			 "dropped (unsummed): `ethtool -K NAME tx off` at the sender's end");
	return UDP_DROP_UNSUMMED;
}

/* ---- opening ---- */

static int
udp_init(struct xk_protocol *self)
{
	struct udp *udp = (struct udp *)self;
	struct xk_participants anybody = { 0 };

	if (udp->seed == 0)
		udp->seed = xk_random(self);
	xk_ports_init(&udp->ports, XK_PORTS_FIRST, XK_PORTS_LAST, udp->seed);
	return xk_open_enable(self, self, xk_lower(self, 0), &anybody);
}

/* Stores the sums of lls's pseudo-headers in both directions, without lengths. Returns 0 or -errno. */
static int
udp_ask_sums(struct xk_session *lls, uint64_t *push_sum, uint64_t *pop_sum)
{
	uint64_t local, remote, destination;
	int err = xk_control(lls, XK_GET_MY_HOST, &local, sizeof(local));

	if (err >= 0)
		err = xk_control(lls, XK_GET_PEER_HOST, &remote, sizeof(remote));
	if (err < 0)
		return err;
	if (xk_control(lls, XK_IP_GET_DESTINATION, &destination, sizeof(destination)) < 0)
		destination = local;
	*push_sum = udp_pseudo_sum(local, remote);
	*pop_sum = udp_pseudo_sum(remote, destination);
	return 0;
}

static int
udp_setup(struct xk_session *session, const void *how)
{
	const uint32_t *ports = how; /* of arriving messages */
	struct udp_session *s = (struct udp_session *)session;
	bool checksum = ((struct udp *)session->protocol)->checksum;
	uint32_t max_packet = 0, offloads = 0;
	int err = udp_ask_sums(session->lls, &s->push_sum, &s->pop_sum);

	if (err == 0)
		err = xk_control(session->lls, XK_GET_MAX_PACKET, &max_packet, sizeof(max_packet));
	if (err < 0 || max_packet < XK_UDP_HEADER_LEN)
		return err < 0 ? err : -EMSGSIZE;
	xk_put16(s->header, (uint16_t)*ports);
	xk_put16(s->header + 2, (uint16_t)(*ports >> 16));
	s->max_packet = (max_packet < UDP_LONGEST ? max_packet : UDP_LONGEST) - XK_UDP_HEADER_LEN;
	if (checksum && xk_control(session->lls, XK_GET_OFFLOADS, &offloads, sizeof(offloads)) >= 0)
		s->offloads = (offloads & XK_OFFLOAD_UDP_SUM) != 0;
	s->usual_end = checksum && !s->offloads ? s->max_packet + 1 : 0;
	return 0;
}

static struct xk_key
udp_key_of(struct xk_protocol *self, struct xk_session *lls, uint32_t local, void *how)
{
	uint32_t *ports = how;

	*ports = udp_ports(local, *ports >> 16);
	return udp_key(*ports, lls);
}

static int
udp_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	 struct xk_participants *participants, struct xk_session **session)
{
	uint64_t remote = xk_participant_pop(&participants->remote), local = xk_participant_pop(&participants->local);
	uint32_t ports = udp_ports(0, remote);
	struct xk_opening opening = { hlp_receive, hlp_type, NULL, local, false, udp_key_of, &ports };
	int err;

	if (!xk_is_port(remote) || (!xk_is_port(local) && local != XK_ANY))
		return -EINVAL;
	err = xk_open(self, self, xk_lower(self, 0), participants, &opening.lls);
	return err != 0 ? err : xk_ports_open(self, &((struct udp *)self)->ports, &opening, session);
}

static struct xk_key
udp_passive_key_of(const struct xk_session *s)
{
	return xk_table_number_key(xk_get16(((const struct udp_session *)s)->header));
}

/* ---- down ---- */

/* Sends m with a checksum computed here, or begun here and finished by the port (offloaded), or without one. */
__attribute__((always_inline)) static inline int
udp_send(struct xk_session *session, struct xk_msg *m, bool summed, bool offloaded)
{
	const struct udp_session *s = (struct udp_session *)session;
	uint64_t sum = summed ? xk_msg_sum(m) : 0;
	uint16_t length, checksum = 0;

	m = xk_push_header(session, m, XK_UDP_HEADER_LEN);
	if (xk_unlikely(m == NULL))
		return -ENOBUFS;
	length = (uint16_t)xk_msg_len(m);
	if (summed) {
		sum += s->push_sum + xk_sum_load32(s->header) + 2 * xk_sum_of16(length);
		checksum = xk_checksum_finish(sum);
		if (checksum == 0) /* 0 means no checksum */
			checksum = 0xffff;
	} else if (offloaded) {
		checksum = xk_sum_fold(s->push_sum + xk_sum_of16(length));
	}
	memcpy(m->data, s->header, UDP_LENGTH);
	xk_put16(m->data + UDP_LENGTH, length);
	xk_checksum_store(m->data + UDP_CHECKSUM, checksum);
	return xk_push(session->lls, m);
}

/* Pushes a message that is too long, or whose checksum is not computed here, or may not be. */
XK_APART static int
udp_push_other(struct xk_session *session, struct xk_msg *m)
{
	const struct udp_session *s = (struct udp_session *)session;
	uint32_t whole_max;
	bool offloaded;

	if (xk_msg_len(m) > s->max_packet) {
		xk_drop(session->protocol, m, UDP_DROP_TOO_BIG);
		return -EMSGSIZE;
	}
	/* asked each time, because the path's MTU may change */
	offloaded = s->offloads && xk_control(session->lls, XK_GET_OPT_PACKET, &whole_max, sizeof(whole_max)) >= 0 &&
		    xk_msg_len(m) + XK_UDP_HEADER_LEN <= whole_max;
	return udp_send(session, m, s->offloads && !offloaded, offloaded);
}

static int
udp_push(struct xk_session *session, struct xk_msg *m)
{
	if (xk_unlikely(xk_msg_len(m) >= ((struct udp_session *)session)->usual_end))
		return udp_push_other(session, m);
	return udp_send(session, m, true, false);
}

/* ---- up ---- */

/* Delivers m if its payload sums up; sum is that of both headers. Takes m. */
XK_APART static void
udp_pop_summed(struct xk_session *s, struct xk_session *lls, struct xk_msg *m, uint64_t sum)
{
	if (xk_sum_is_intact(sum + xk_msg_sum_segments(m)))
		xk_pop(s, lls, m, NULL);
	else
		xk_drop(s->protocol, m, udp_why_bad((struct udp *)s->protocol, m, ((struct udp_session *)s)->pop_sum));
}

/* Delivers datagram m, which has no padding, to s if it is intact. Takes m. */
__attribute__((always_inline)) static inline void
udp_deliver(struct xk_session *s, struct xk_session *lls, struct xk_msg *m)
{
	uint64_t sum;

	xk_msg_pop_in_place(m, XK_UDP_HEADER_LEN);
	sum = udp_sum_headers(m, ((struct udp_session *)s)->pop_sum);
	if (sum == 0 ||
	    (xk_msg_len(m) < XK_SUM_SHORT && m->next == NULL && xk_sum_is_intact(sum + xk_sum_short(m->data, m->len))))
		xk_pop(s, lls, m, NULL);
	else
		udp_pop_summed(s, lls, m, sum);
}

/*
 * Demultiplexes a datagram that has padding, or does not belong to the last session found. A stranger's datagram has no
 * effect unless it is intact. Takes m.
 */
XK_APART static void
udp_demux_other(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	uint32_t ports = xk_get32(m->data + UDP_SOURCE);
	struct xk_key key = udp_key(ports, lls), port = xk_table_number_key((uint16_t)ports);
	struct xk_session *s = xk_table_lookup(self, key);
	unsigned why = udp_header_trim(m);
	uint64_t push_sum, pop_sum;

	if (why == 0 && s != NULL) {
		udp_deliver(s, lls, m);
		return;
	}
	if (why == 0) /* a datagram of bad length is traced whole */
		xk_msg_pop_in_place(m, XK_UDP_HEADER_LEN);
	if (why == 0 && udp_ask_sums(lls, &push_sum, &pop_sum) != 0)
		why = XK_DROP_NO_SESSION;
	if (why == 0 && !udp_is_intact(m, pop_sum))
		why = udp_why_bad((struct udp *)self, m, pop_sum);
	if (why == 0 && xk_table_enabled(self, port) == NULL) {
		xk_ip_refuse(lls, XK_FAULT_PORT, m, XK_UDP_HEADER_LEN);
		why = XK_DROP_NO_SESSION;
	}
	if (why != 0)
		xk_drop(self, m, why);
	else if ((s = xk_table_accept(self, key, port, lls, &ports, m)) != NULL)
		xk_pop(s, lls, m, NULL);
}

static struct xk_session *
udp_find(struct xk_protocol *self, struct xk_session *lls, const uint8_t *p)
{
	return xk_table_find(self, udp_key(xk_get32(p + UDP_SOURCE), lls));
}

/* Saves no registers: code that makes calls is apart. */
static void
udp_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct xk_session *s = xk_table_last(self, udp_key(xk_get32(m->data + UDP_SOURCE), lls));

	if (xk_likely(s != NULL && xk_get16(m->data + UDP_LENGTH) == xk_msg_len(m)))
		udp_deliver(s, lls, m);
	else
		udp_demux_other(self, lls, m);
}

/* ---- asking ---- */

static int
udp_session_control(struct xk_session *session, int op, void *buffer, size_t len)
{
	const struct udp_session *s = (const struct udp_session *)session;

	return op != XK_GET_MAX_PACKET ? -ENOTSUP : xk_answer(buffer, len, &s->max_packet, sizeof(s->max_packet));
}

static int
udp_control(struct xk_protocol *self, int op, void *buffer, size_t len)
{
	struct xk_fault_report *report = buffer;
	struct xk_session *s;
	uint32_t ports;

	if (op != XK_FAULT)
		return -ENOTSUP;
	if (report->len < XK_UDP_HEADER_LEN)
		return -ENOENT;
	ports = udp_ports(xk_get16(report->begin + UDP_SOURCE), xk_get16(report->begin + UDP_DESTINATION));
	s = xk_table_find(self, udp_key(ports, report->session));
	if (s == NULL)
		return -ENOENT;
	report->begin += XK_UDP_HEADER_LEN;
	report->len -= XK_UDP_HEADER_LEN;
	xk_fault_tell(s, report);
	return 0;
}

static void
udp_path(struct xk_session *session, struct xk_path_layer *layer)
{
	const struct udp_session *s = (const struct udp_session *)session;

	layer->header = s->header;
	layer->push_sum = s->push_sum;
	layer->pop_sum = s->pop_sum;
	layer->no_sum = !((struct udp *)session->protocol)->checksum;
	layer->offloads = s->offloads;
	layer->longest = s->max_packet;
}

static int
udp_get_participants(struct xk_session *session, struct xk_participants *p)
{
	const uint8_t *ports = ((const struct udp_session *)session)->header;

	if (!xk_participant_push(&p->remote, xk_get16(ports + 2)))
		return -E2BIG;
	return xk_participant_push(&p->local, xk_get16(ports)) ? 0 : -E2BIG;
}

/* ---- tables ---- */

static const struct xk_session_ops udp_session_ops = {
	.size = sizeof(struct udp_session),
	.setup = udp_setup,
	.push = udp_push,
	.pop = xk_pop_through,
	.control = udp_session_control,
	.path = udp_path,
	.get_participants = udp_get_participants,
};

static const struct xk_protocol_ops udp_ops = {
	.init = udp_init,
	.open = udp_open,
	.passive_key = xk_ports_passive_key,
	.passive_key_of = udp_passive_key_of,
	.demux = udp_demux,
	.find = udp_find,
	.control = udp_control,
};

static const struct xk_role udp_lowers[] = {
	{ "network", XK_ASYNC, NULL,
	  "carries datagrams to 32-bit hosts, and answers for both ends' hosts; normally ip" },
	{ NULL, 0, NULL, NULL },
};

static const struct xk_setting udp_settings[] = {
	{ "checksum", XK_SETTING_BOOL, offsetof(struct udp, checksum), "yes", "whether to checksum sent messages", 0,
	  0 },
	{ "seed", XK_SETTING_UINT, offsetof(struct udp, seed), "0", "key of the anonymous ports; 0: random", 0, 0 },
	{ NULL, 0, 0, NULL, NULL, 0, 0 },
};

static const struct xk_number_on udp_numbers[] = { { "ip", 17 }, { "bid", 17 }, { NULL, 0 } };

const struct xk_protocol_type xk_type_udp = {
	.name = "udp",
	.help = "Unreliable datagrams between ports, with a checksum.",
	.ops = &udp_ops,
	.session_ops = &udp_session_ops,
	.header = XK_UDP_HEADER_LEN,
	.fields = udp_fields,
	.size = sizeof(struct udp),
	.offers = XK_ASYNC,
	.lowers = udp_lowers,
	.numbers = udp_numbers,
	.settings = udp_settings,
	.drops = udp_drops,
	.session_max = 8192,
};
