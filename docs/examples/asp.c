/*
 * asp.c - "a simple protocol", the example of docs/writing-a-protocol.md: datagrams between 16-bit ports, without a
 * checksum, over anything that carries messages to hosts.
 *
 * Spec:         the x-kernel tutorial's ASP; a 6-byte header: source port, destination port, length (header included)
 * Participants: the top of each stack is a port, 0 to 65535; what is below it goes on to the protocol below. Opening
 *               needs the remote one; without a local one a port from 49152 on is chosen. Enabling needs the local one.
 * Sessions:     one per (local port, remote port, session below)
 * Control:      XK_GET_MAX_PACKET, XK_GET_OPT_PACKET
 * Drops:        bad_length, too_big
 * Counters:     opened (sessions that a stranger's message has opened)
 * Not done:     checksum; refusing an active open from a port that another protocol has enabled
 * Graph:        asp -> ip
 */
#include <errno.h>
#include <string.h>

#include "xkernel/bytes.h"
#include "xkernel/protocol.h"

enum asp_drop { ASP_DROP_BAD_LENGTH = XK_DROP_OWN, ASP_DROP_TOO_BIG };
enum asp_counter { ASP_OPENED };

/* ---- the header ---- */

enum {
	ASP_SOURCE = 0,
	ASP_DESTINATION = 2,
	ASP_LENGTH = 4,
	ASP_HEADER_LEN = 6,

	ASP_LONGEST = 65535, /* what the length field can say */
};

struct asp_header {
	uint16_t source, destination;
};

/* Takes the header off *m, checks it, and cuts off what is not the message's. 0, or the reason to drop *m. */
static unsigned
asp_header_pop(struct asp_header *h, struct xk_msg **m)
{
	const uint8_t *p = xk_msg_pop(m, ASP_HEADER_LEN);
	size_t length;

	if (p == NULL)
		return xk_msg_len(*m) < ASP_HEADER_LEN ? XK_DROP_SHORT : XK_DROP_NO_BUFFER;
	h->source = xk_get16(p + ASP_SOURCE);
	h->destination = xk_get16(p + ASP_DESTINATION);
	length = xk_get16(p + ASP_LENGTH);
	if (length < ASP_HEADER_LEN || length - ASP_HEADER_LEN > xk_msg_len(*m))
		return ASP_DROP_BAD_LENGTH;
	xk_msg_truncate(*m, length - ASP_HEADER_LEN);
	return 0;
}

static void
asp_header_store(uint8_t *p, uint16_t source, uint16_t destination, size_t length)
{
	xk_put16(p + ASP_SOURCE, source);
	xk_put16(p + ASP_DESTINATION, destination);
	xk_put16(p + ASP_LENGTH, (uint16_t)length);
}

/* ---- state ---- */

enum { ASP_ANONYMOUS_FIRST = 49152, ASP_ANONYMOUS_COUNT = 65536 - ASP_ANONYMOUS_FIRST };

struct asp {
	struct xk_protocol protocol; /* first */
	struct xk_map sessions;      /* (local, remote, lls): struct asp_session */
	struct xk_map enables;       /* local: struct xk_enable */
	_Atomic uint32_t next_anonymous;
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

static struct xk_key
asp_enable_key(uint16_t local)
{
	return (struct xk_key){ local, 0 };
}

/* ---- init and fini ---- */

static void
asp_fini(struct xk_protocol *self)
{
	struct asp *asp = (struct asp *)self;

	xk_enable_fini(&asp->enables);
	xk_map_fini(&asp->sessions);
}

static int
asp_init(struct xk_protocol *self)
{
	struct asp *asp = (struct asp *)self;
	struct xk_participants anybody = { .remote.depth = 0 };
	int err = xk_map_init(&asp->sessions, self->kernel, 64);

	if (err != 0)
		return err;
	err = xk_map_init(&asp->enables, self->kernel, 8);
	if (err != 0) {
		xk_map_fini(&asp->sessions);
		return err;
	}
	err = xk_open_enable(self, self, xk_lower(self, 0), &anybody);
	if (err != 0)
		asp_fini(self);
	return err;
}

/* ---- opening and closing ---- */

static const struct xk_session_ops asp_session_ops;

/* A session over lls, in no map yet; takes the reference on lls, also on failure. 0 or -errno. */
static int
asp_session_new(struct asp *asp, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type, struct xk_session *lls,
		struct asp_session **session)
{
	struct asp_session *s = (struct asp_session *)xk_session_new(
		&asp->protocol, &asp_session_ops, sizeof(struct asp_session), hlp_receive, hlp_type, lls);
	uint32_t below;
	int err;

	if (s == NULL) {
		xk_close(lls);
		return -ENOMEM;
	}
	err = xk_control(lls, XK_GET_MAX_PACKET, &below, sizeof(below));
	if (err >= 0 && below < ASP_HEADER_LEN)
		err = -EMSGSIZE;
	if (err < 0) {
		xk_close(&s->session);
		return err;
	}
	s->max_packet = (below < ASP_LONGEST ? below : ASP_LONGEST) - ASP_HEADER_LEN;
	*session = s;
	return 0;
}

static int
asp_bind(struct asp *asp, struct asp_session *s, uint16_t local, uint16_t remote)
{
	int err;

	s->local = local;
	s->remote = remote;
	err = xk_session_bind(&s->session, &asp->sessions, asp_key(local, remote, s->session.lls));
	return err == -EEXIST ? -EADDRINUSE : err;
}

/* To a port that nobody uses towards this peer, and nobody has enabled. */
static int
asp_bind_anonymous(struct asp *asp, struct asp_session *s, uint16_t remote)
{
	int err = -EADDRINUSE;

	for (unsigned tries = 0; err == -EADDRINUSE && tries < ASP_ANONYMOUS_COUNT; tries++) {
		uint32_t next = atomic_fetch_add_explicit(&asp->next_anonymous, 1, memory_order_relaxed);
		uint16_t local = (uint16_t)(ASP_ANONYMOUS_FIRST + next % ASP_ANONYMOUS_COUNT);

		if (xk_map_resolve(&asp->enables, asp_enable_key(local)) == NULL)
			err = asp_bind(asp, s, local, remote);
	}
	return err;
}

static int
asp_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	 struct xk_participants *participants, struct xk_session **session)
{
	struct asp *asp = (struct asp *)self;
	uint64_t remote = xk_participant_pop(&participants->remote), local = xk_participant_pop(&participants->local);
	struct xk_session *lls;
	struct asp_session *s;
	int err;

	if (remote > UINT16_MAX || (local > UINT16_MAX && local != XK_ANY))
		return -EINVAL;
	err = xk_open(self, self, xk_lower(self, 0), participants, &lls); /* may wait */
	if (err == 0)
		err = asp_session_new(asp, hlp_receive, hlp_type, lls, &s);
	if (err != 0)
		return err;
	if (local == XK_ANY)
		err = asp_bind_anonymous(asp, s, (uint16_t)remote);
	else
		err = asp_bind(asp, s, (uint16_t)local, (uint16_t)remote);
	if (err != 0) {
		xk_close(&s->session);
		return err;
	}
	*session = &s->session;
	return 0;
}

/* What a passive open is remembered by: a port of ours, towards everybody. 0 or -errno. */
static int
asp_enable_key_of(struct xk_participants *participants, struct xk_key *key)
{
	uint64_t local = xk_participant_pop(&participants->local);

	if (local > UINT16_MAX)
		return -EINVAL;
	if (participants->local.depth != 0 || participants->remote.depth != 0)
		return -EOPNOTSUPP;
	*key = asp_enable_key((uint16_t)local);
	return 0;
}

static int
asp_open_enable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		struct xk_participants *participants)
{
	struct xk_key key;
	int err = asp_enable_key_of(participants, &key);

	return err != 0 ? err : xk_enable_add(&((struct asp *)self)->enables, key, hlp_receive, hlp_type);
}

/* Whether somebody is still willing to have session s. */
static bool
asp_is_wanted(struct xk_session *s, void *context)
{
	struct asp *asp = context;

	return xk_map_resolve(&asp->enables, asp_enable_key(((struct asp_session *)s)->local)) != NULL;
}

static int
asp_open_disable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		 struct xk_participants *participants)
{
	struct asp *asp = (struct asp *)self;
	struct xk_key key;
	int err = asp_enable_key_of(participants, &key);

	if (err == 0)
		err = xk_enable_remove(&asp->enables, key, hlp_receive, hlp_type);
	if (err == 0)
		xk_session_uncache(self, asp_is_wanted, asp);
	return err;
}

/* ---- down ---- */

static int
asp_push(struct xk_session *session, struct xk_msg *m)
{
	struct asp_session *s = (struct asp_session *)session;
	size_t length = xk_msg_len(m) + ASP_HEADER_LEN;
	uint8_t *p;

	if (xk_msg_len(m) > s->max_packet) {
		xk_drop(session->protocol, m, ASP_DROP_TOO_BIG);
		return -EMSGSIZE;
	}
	p = xk_msg_push(&m, ASP_HEADER_LEN);
	if (p == NULL) {
		xk_drop(session->protocol, m, XK_DROP_NO_BUFFER);
		return -ENOBUFS;
	}
	asp_header_store(p, s->local, s->remote, length);
	return xk_push(session->lls, m);
}

/* ---- up ---- */

/* A session for a stranger, who has sent h up lls. 0, or the reason to drop the message. */
static unsigned
asp_open_passively(struct asp *asp, struct xk_session *lls, struct asp_header h, struct asp_session **session)
{
	const struct xk_enable *enable = xk_map_resolve(&asp->enables, asp_enable_key(h.destination));
	struct asp_session *s;
	int err;

	if (enable == NULL || !xk_duplicate(lls))
		return XK_DROP_NO_SESSION;
	if (asp_session_new(asp, enable->hlp_receive, enable->hlp_type, lls, &s) != 0)
		return XK_DROP_NO_MEMORY;
	err = asp_bind(asp, s, h.destination, h.source);
	if (err != 0) {
		xk_close(&s->session);
		/* -EADDRINUSE: another shepherd has done it meanwhile */
		*session = xk_map_resolve(&asp->sessions, asp_key(h.destination, h.source, lls));
		return *session != NULL ? 0 : XK_DROP_NO_MEMORY;
	}
	if (xk_session_announce(&s->session) != 0)
		return XK_DROP_REFUSED;
	xk_count(&asp->protocol, ASP_OPENED);
	*session = s;
	return 0;
}

static void
asp_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct asp *asp = (struct asp *)self;
	struct asp_session *s = NULL;
	struct asp_header h;
	unsigned why = asp_header_pop(&h, &m);

	if (why == 0)
		s = xk_map_resolve(&asp->sessions, asp_key(h.destination, h.source, lls));
	if (why == 0 && s == NULL)
		why = asp_open_passively(asp, lls, h, &s);
	if (why != 0)
		xk_drop(self, m, why);
	else
		xk_pop(&s->session, lls, m, NULL);
}

static void
asp_pop(struct xk_session *s, struct xk_session *lls, struct xk_msg *m, const void *hdr)
{
	xk_demux(s, m);
}

/* ---- asking ---- */

static int
asp_session_control(struct xk_session *session, int op, void *buffer, size_t len)
{
	uint32_t answer = ((struct asp_session *)session)->max_packet;
	int err;

	if (op != XK_GET_MAX_PACKET && op != XK_GET_OPT_PACKET)
		return -ENOTSUP; /* the session below is asked */
	if (len < sizeof(answer))
		return -EMSGSIZE;
	if (op == XK_GET_OPT_PACKET) {
		err = xk_control(session->lls, op, &answer, sizeof(answer));
		if (err < 0)
			return err;
		answer -= ASP_HEADER_LEN;
	}
	memcpy(buffer, &answer, sizeof(answer));
	return sizeof(answer);
}

static int
asp_get_participants(struct xk_session *session, struct xk_participants *participants)
{
	const struct asp_session *s = (const struct asp_session *)session;

	if (!xk_participant_push(&participants->remote, s->remote) ||
	    !xk_participant_push(&participants->local, s->local))
		return -E2BIG;
	return 0;
}

/* ---- tables ---- */

static const struct xk_session_ops asp_session_ops = {
	.push = asp_push,
	.pop = asp_pop,
	.control = asp_session_control,
	.get_participants = asp_get_participants,
};

static const struct xk_protocol_ops asp_ops = {
	.init = asp_init,
	.fini = asp_fini,
	.open = asp_open,
	.open_enable = asp_open_enable,
	.open_disable = asp_open_disable,
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
	.size = sizeof(struct asp),
	.offers = XK_ASYNC,
	.lowers = asp_lowers,
	.numbers = asp_numbers,
	.drops = asp_drops,
	.counters = asp_counters,
	.session_max = 256,
};
