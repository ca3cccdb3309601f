/*
 * udp.c - unreliable datagrams between ports, with a checksum, over IP.
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
#include "protocols/udp.h"

#include <errno.h>
#include <string.h>

#include "protocols/ip/ip.h"
#include "xkernel/bytes.h"
#include "xkernel/checksum.h"
#include "xkernel/platform.h"
#include "xkernel/protocol.h"

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

	UDP_NUMBER = 17, /* on IP, and so in the pseudo-header */
	UDP_LONGEST = 65535,
};

static const struct xk_field udp_fields[] = {
	{ .name = "source", .bits = 16, .kind = XK_NAMES_SESSION, .help = "port" },
	{ .name = "destination", .bits = 16, .kind = XK_NAMES_SESSION, .help = "port" },
	{ .name = "length", .bits = 16, .kind = XK_LENGTH, .covers = XK_COVERS_MESSAGE },
	{ .name = "checksum",
	  .bits = 16,
	  .kind = XK_CHECKSUM,
	  .print = XK_PRINT_HEX,
	  .covers = XK_COVERS_PSEUDO,
	  .help = "0: the sender has not computed it" },
	{ .name = NULL },
};

struct udp_header {
	uint32_t ports; /* source << 16 | destination, as the key has them */
	uint16_t length;
};

static inline struct udp_header
udp_header_load(const uint8_t *p)
{
	return (struct udp_header){ xk_get32(p + UDP_SOURCE), xk_get16(p + UDP_LENGTH) };
}

/* Takes the header h off m, and what does not belong to the datagram. 0, or the reason to drop m. */
static inline unsigned
udp_header_pop(struct udp_header h, struct xk_msg *m)
{
	if (xk_unlikely(h.length != xk_msg_len(m))) {
		if (h.length < XK_UDP_HEADER_LEN || h.length > xk_msg_len(m))
			return UDP_DROP_BAD_LENGTH;
		xk_msg_truncate(m, h.length);
	}
	xk_msg_pop_in_place(m, XK_UDP_HEADER_LEN);
	return 0;
}

static inline void
udp_header_store(uint8_t *p, const uint8_t *ports, size_t length, uint16_t checksum)
{
	memcpy(p, ports, 4);
	xk_put16(p + UDP_LENGTH, (uint16_t)length);
	xk_checksum_store(p + UDP_CHECKSUM, checksum);
}

/* Whether payload m, in front of which its header lies, is what was sent. */
static inline bool
udp_is_intact(const struct xk_msg *m, uint64_t pseudo_sum)
{
	const uint8_t *p = m->data - XK_UDP_HEADER_LEN;

	if (xk_get16(p + UDP_CHECKSUM) == 0 || (m->flags & XK_MSG_TRANSPORT_SUM_GOOD) != 0)
		return true;
	pseudo_sum += xk_sum_load16(p + UDP_LENGTH);
	return xk_sum_is_intact(pseudo_sum + xk_sum_load32(p) + xk_sum_load32(p + 4) + xk_msg_sum(m));
}

/* The sum of the pseudo-header without its length. */
static uint64_t
udp_pseudo_sum(uint64_t source, uint64_t destination)
{
	uint8_t pseudo[12] = { [9] = UDP_NUMBER };

	xk_put32(pseudo, (uint32_t)source);
	xk_put32(pseudo + 4, (uint32_t)destination);
	return xk_sum(0, pseudo, sizeof(pseudo));
}

/* ---- state ---- */

struct udp {
	struct xk_protocol protocol;
	bool checksum; /* settings */
	uint64_t seed;

	_Atomic uint32_t next_anonymous;
};

struct udp_session {
	struct xk_session session;
	uint32_t ports; /* as in what arrives */
	bool checksum;
	uint32_t max_packet;  /* longest message */
	uint32_t offload_max; /* longest message that the port computes the checksum of */
	uint8_t ports_out[4]; /* as in the header of what is sent */
	uint64_t push_sum;    /* of the pseudo-header of what is sent */
	uint64_t pop_sum;     /* ... of what arrives */
};

static inline struct xk_key
udp_key(uint32_t ports, const struct xk_session *lls)
{
	return (struct xk_key){ (uintptr_t)lls, ports };
}

/* The two ports as in what arrives. */
static inline uint32_t
udp_ports(uint64_t local, uint64_t remote)
{
	return (uint32_t)(remote << 16 | local);
}

/* ---- init and fini ---- */

static int
udp_init(struct xk_protocol *self)
{
	struct udp *udp = (struct udp *)self;
	struct xk_participants anybody = { 0 };

	if (udp->seed == 0)
		udp->seed = xk_random(self);
	atomic_store_explicit(&udp->next_anonymous, (uint32_t)udp->seed, memory_order_relaxed);
	return xk_open_enable(self, self, xk_lower(self, 0), &anybody);
}

/* ---- sessions ---- */

/* The hosts of a session below, as in the pseudo-headers of both directions. */
struct udp_hosts {
	uint64_t local, remote;
	uint64_t destination; /* of what arrives: local, or a broadcast address */
};

static int
udp_ask_hosts(struct xk_session *lls, struct udp_hosts *hosts)
{
	int err = xk_control(lls, XK_GET_MY_HOST, &hosts->local, sizeof(hosts->local));

	if (err >= 0)
		err = xk_control(lls, XK_GET_PEER_HOST, &hosts->remote, sizeof(hosts->remote));
	if (err < 0)
		return err;
	if (xk_control(lls, XK_IP_GET_DESTINATION, &hosts->destination, sizeof(hosts->destination)) < 0)
		hosts->destination = hosts->local;
	return 0;
}

/* How long a message of s may be. 0 or -errno. */
static int
udp_ask_lengths(struct udp_session *s, struct xk_session *lls)
{
	uint32_t max_packet, whole_max, offloads = 0;
	int err = xk_control(lls, XK_GET_MAX_PACKET, &max_packet, sizeof(max_packet));

	if (err >= 0 && max_packet < XK_UDP_HEADER_LEN)
		err = -EMSGSIZE;
	if (err < 0)
		return err;
	s->max_packet = (max_packet < UDP_LONGEST ? max_packet : UDP_LONGEST) - XK_UDP_HEADER_LEN;
	/* a port sums up what one frame holds */
	if (xk_control(lls, XK_GET_OFFLOADS, &offloads, sizeof(offloads)) >= 0 &&
	    (offloads & XK_OFFLOAD_UDP_SUM) != 0 &&
	    xk_control(lls, XK_GET_OPT_PACKET, &whole_max, sizeof(whole_max)) >= 0 && whole_max > XK_UDP_HEADER_LEN)
		s->offload_max = whole_max - XK_UDP_HEADER_LEN;
	return 0;
}

static int
udp_setup(struct xk_session *session, const void *ports)
{
	struct udp_session *s = (struct udp_session *)session;
	struct udp_hosts hosts;
	int err = udp_ask_hosts(session->lls, &hosts);

	if (err == 0)
		err = udp_ask_lengths(s, session->lls);
	if (err != 0)
		return err;
	s->ports = *(const uint32_t *)ports;
	s->checksum = ((struct udp *)session->protocol)->checksum;
	xk_put16(s->ports_out, (uint16_t)s->ports);
	xk_put16(s->ports_out + 2, (uint16_t)(s->ports >> 16));
	s->push_sum = udp_pseudo_sum(hosts.local, hosts.remote);
	s->pop_sum = udp_pseudo_sum(hosts.remote, hosts.destination);
	return 0;
}

/* ---- opening ---- */

static bool
udp_is_port(uint64_t port)
{
	return port > 0 && port <= UINT16_MAX;
}

/* A session between two ports, over lls, which stays the caller's. 0 or -errno. */
static int
udp_open_between(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		 uint32_t ports, struct xk_session *lls, struct xk_session **session)
{
	const struct xk_enable *enable = xk_table_enabled(self, xk_table_number_key((uint16_t)ports));
	int err;

	if (enable != NULL && enable->hlp_receive != hlp_receive)
		return -EADDRINUSE;
	if (!xk_duplicate(lls))
		return -ENOMEM;
	err = xk_table_add(self, udp_key(ports, lls), hlp_receive, hlp_type, lls, &ports, session);
	return err == -EEXIST ? -EADDRINUSE : err;
}

/* The same from a port that nobody uses towards this peer, and nobody has enabled. */
static int
udp_open_anonymous(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		   uint64_t remote, struct xk_session *lls, struct xk_session **session)
{
	enum { UDP_PORTS = XK_UDP_ANONYMOUS_LAST - XK_UDP_ANONYMOUS_FIRST + 1 };
	struct udp *udp = (struct udp *)self;
	int err = -EADDRINUSE;

	for (unsigned tries = 0; err == -EADDRINUSE && tries < UDP_PORTS; tries++) {
		uint32_t next = atomic_fetch_add_explicit(&udp->next_anonymous, 1, memory_order_relaxed);
		uint16_t local = (uint16_t)(XK_UDP_ANONYMOUS_FIRST + next % UDP_PORTS);

		if (xk_table_enabled(self, xk_table_number_key(local)) == NULL)
			err = udp_open_between(self, hlp_receive, hlp_type, udp_ports(local, remote), lls, session);
	}
	return err;
}

static int
udp_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	 struct xk_participants *participants, struct xk_session **session)
{
	uint64_t remote = xk_participant_pop(&participants->remote), local = xk_participant_pop(&participants->local);
	struct xk_session *lls;
	int err;

	if (!udp_is_port(remote) || (!udp_is_port(local) && local != XK_ANY))
		return -EINVAL;
	err = xk_open(self, self, xk_lower(self, 0), participants, &lls);
	if (err != 0)
		return err;
	if (local == XK_ANY)
		err = udp_open_anonymous(self, hlp_receive, hlp_type, remote, lls, session);
	else
		err = udp_open_between(self, hlp_receive, hlp_type, udp_ports(local, remote), lls, session);
	xk_close(lls);
	return err;
}

/* A port of ours is enabled for any host. */
static int
udp_passive_key(struct xk_protocol *self, struct xk_protocol *hlp_type, struct xk_participants *participants,
		struct xk_key *key)
{
	uint64_t local = xk_participant_pop(&participants->local);

	if (!udp_is_port(local))
		return -EINVAL;
	if (xk_participant_pop(&participants->local) != XK_ANY || xk_participant_pop(&participants->remote) != XK_ANY)
		return -EOPNOTSUPP;
	*key = xk_table_number_key((uint32_t)local);
	return 0;
}

static struct xk_key
udp_passive_key_of(const struct xk_session *s)
{
	return xk_table_number_key((uint16_t)((const struct udp_session *)s)->ports);
}

/* ---- down ---- */

/* The checksum of a payload that sums up to sum; length counts header and payload. */
static inline uint16_t
udp_checksum(const struct udp_session *s, uint64_t sum, size_t length)
{
	uint16_t checksum =
		xk_checksum_finish(s->push_sum + xk_sum_load32(s->ports_out) + 2 * xk_sum_of16((uint16_t)length) + sum);

	return checksum == 0 ? 0xffff : checksum; /* 0 would say that there is none */
}

/* Whether the port computes the checksum of a payload: the path may have become shorter since s was made. */
static bool
udp_is_offloaded(const struct udp_session *s, size_t len)
{
	uint32_t whole_max;

	return len <= s->offload_max &&
	       xk_control(s->session.lls, XK_GET_OPT_PACKET, &whole_max, sizeof(whole_max)) >= 0 &&
	       len + XK_UDP_HEADER_LEN <= whole_max;
}

/* A message that nobody computes the checksum of, or perhaps the port. */
XK_APART static int
udp_push_unsummed(struct udp_session *s, struct xk_msg *m)
{
	bool offloaded = s->checksum && udp_is_offloaded(s, xk_msg_len(m));
	uint64_t sum = offloaded || !s->checksum ? 0 : xk_msg_sum(m);
	uint16_t checksum = 0;

	m = xk_push_header(&s->session, m, XK_UDP_HEADER_LEN);
	if (m == NULL)
		return -ENOBUFS;
	if (offloaded)
		checksum = xk_sum_fold(s->push_sum + xk_sum_of16((uint16_t)xk_msg_len(m)));
	else if (s->checksum)
		checksum = udp_checksum(s, sum, xk_msg_len(m));
	udp_header_store(m->data, s->ports_out, xk_msg_len(m), checksum);
	return xk_push(s->session.lls, m);
}

static int
udp_push(struct xk_session *session, struct xk_msg *m)
{
	struct udp_session *s = (struct udp_session *)session;
	uint64_t sum;

	if (xk_unlikely(xk_msg_len(m) > s->max_packet)) {
		xk_drop(session->protocol, m, UDP_DROP_TOO_BIG);
		return -EMSGSIZE;
	}
	if (xk_unlikely(!s->checksum || s->offload_max != 0))
		return udp_push_unsummed(s, m);
	sum = xk_msg_sum(m);
	m = xk_push_header(session, m, XK_UDP_HEADER_LEN);
	if (xk_unlikely(m == NULL))
		return -ENOBUFS;
	udp_header_store(m->data, s->ports_out, xk_msg_len(m), udp_checksum(s, sum, xk_msg_len(m)));
	return xk_push(session->lls, m);
}

/* ---- up ---- */

/*
 * A session for the stranger who has sent m, in front of which its header lies. NULL: m was dropped. Nothing is remembered, or
 * said, of what is not intact.
 */
XK_APART static struct xk_session *
udp_accept(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct udp_header h = udp_header_load(m->data - XK_UDP_HEADER_LEN);
	struct xk_key port = xk_table_number_key((uint16_t)h.ports);
	unsigned why = XK_DROP_NO_SESSION;
	struct udp_hosts hosts;

	if (udp_ask_hosts(lls, &hosts) == 0) {
		if (!udp_is_intact(m, udp_pseudo_sum(hosts.remote, hosts.destination)))
			why = UDP_DROP_BAD_CHECKSUM;
		else if (xk_table_enabled(self, port) == NULL)
			xk_ip_refuse(lls, XK_FAULT_PORT, m, XK_UDP_HEADER_LEN);
		else
			return xk_table_accept(self, udp_key(h.ports, lls), port, lls, &h.ports, m);
	}
	xk_drop(self, m, why);
	return NULL;
}

static void
udp_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct udp_header h = udp_header_load(m->data);
	unsigned why = udp_header_pop(h, m);
	struct xk_session *s;

	if (xk_unlikely(why != 0)) {
		xk_drop(self, m, why);
		return;
	}
	s = xk_table_find(self, udp_key(h.ports, lls));
	if (xk_unlikely(s == NULL) && (s = udp_accept(self, lls, m)) == NULL)
		return;
	if (xk_unlikely(!udp_is_intact(m, ((struct udp_session *)s)->pop_sum)))
		xk_drop(self, m, UDP_DROP_BAD_CHECKSUM);
	else
		xk_pop(s, lls, m, NULL);
}

/* ---- asking ---- */

static int
udp_session_control(struct xk_session *session, int op, void *buffer, size_t len)
{
	const struct udp_session *s = (const struct udp_session *)session;

	return op != XK_GET_MAX_PACKET ? -ENOTSUP : xk_answer(buffer, len, &s->max_packet, sizeof(s->max_packet));
}

/* Somebody says what became of a datagram: whose was it? 0, or -ENOENT: nobody's. */
static int
udp_fault(struct xk_protocol *self, struct xk_fault_report *report)
{
	struct xk_session *s;
	uint32_t ports;

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

static int
udp_control(struct xk_protocol *self, int op, void *buffer, size_t len)
{
	return op == XK_FAULT ? udp_fault(self, buffer) : -ENOTSUP;
}

static int
udp_get_participants(struct xk_session *session, struct xk_participants *participants)
{
	uint32_t ports = ((const struct udp_session *)session)->ports;

	if (!xk_participant_push(&participants->remote, ports >> 16) ||
	    !xk_participant_push(&participants->local, (uint16_t)ports))
		return -E2BIG;
	return 0;
}

/* ---- tables ---- */

static const struct xk_session_ops udp_session_ops = {
	.size = sizeof(struct udp_session),
	.setup = udp_setup,
	.push = udp_push,
	.pop = xk_pop_through,
	.control = udp_session_control,
	.get_participants = udp_get_participants,
};

static const struct xk_protocol_ops udp_ops = {
	.init = udp_init,
	.open = udp_open,
	.passive_key = udp_passive_key,
	.passive_key_of = udp_passive_key_of,
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
