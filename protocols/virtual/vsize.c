/*
 * vsize.c - messages by their size: each goes the first of several ways that takes it in one piece; what is too long
 * for all of them goes the last, which fragments (BLAST). A virtual protocol, without a header.
 *
 * Participants: those of the protocols below, which must all take the same
 * Ways:         the lowers, in the order of the graph. What a way takes is its setting `cutoff`, `cutoff2`, ... or else
 *               what its session says when it is opened (XK_GET_OPT_PACKET); the last takes the rest. A message may
 *               arrive by any of them.
 * Sessions:     an active open opens all ways. A message of a new peer makes a session on the way by which it came
 *               (virtual.h), which sends by that way whatever it takes. The first message that is too long opens a
 *               longer way, to where that first message came from: to the host by its address if the session below
 *               knows it (IP), else to its link address (VNET). That asks nobody and never waits, because a stranger's
 *               message may have caused it. A session stands on all of its ways.
 * Enables:      as in virtual.h, on all ways or none
 * Control:      XK_GET_MAX_PACKET: the longest way's, which is opened for it; XK_GET_OPT_PACKET: what the first way
 *               takes. The session's first way answers the others.
 * Drops:        no_session; no_way (the longer way could not be opened; the push says why)
 * Counters:     long (messages sent by another way than the session's first), opened (ways, after the session was)
 * Not done:     asking again what a way takes, after a change of the path (what is a little too long is fragmented by
 *               IP)
 * Graph:        vsize -> vmux; vsize -> blast; blast -> vmux
 */
#include <errno.h>

#include "protocols/virtual/vnet.h"
#include "xkernel/trace.h"
#include "xkernel/virtual.h"

enum { VSIZE_NO_WAY = XK_DROP_OWN };

enum vsize_counter { VSIZE_LONG, VSIZE_OPENED };

enum { VSIZE_WAYS = 4 };

struct vsize {
	struct xk_protocol protocol;
	uint64_t cutoffs[VSIZE_WAYS - 1]; /* settings; 0: as the way says */
};

struct vsize_session {
	struct xk_session session;                     /* lls is the first way */
	uint32_t takes;                                /* length of the longest message that lls takes */
	uint32_t first;                                /* index of lls among the ways */
	_Atomic(struct xk_session *) ways[VSIZE_WAYS]; /* references; NULL: not opened yet */
};

static inline struct vsize *
vsize_of(struct xk_protocol *self)
{
	return xk_container_of(self, struct vsize, protocol);
}

static inline struct vsize_session *
vsize_session_of(struct xk_session *s)
{
	return xk_container_of(s, struct vsize_session, session);
}

static inline struct xk_session *
vsize_get_way(struct vsize_session *vs, unsigned i)
{
	return atomic_load_explicit(&vs->ways[i], memory_order_acquire);
}

static int
vsize_init(struct xk_protocol *self)
{
	if (self->lower_count <= VSIZE_WAYS)
		return 0;
	xk_trace(self, XK_TRACE_NONE, "%u ways, at most %d are possible", self->lower_count, VSIZE_WAYS);
	return -EINVAL;
}

/* ---- ways ---- */

/* Returns the length of the longest message that way i takes; the last takes everything. */
static uint32_t
vsize_ask_takes(struct vsize *vsize, unsigned i, struct xk_session *way)
{
	uint32_t takes;

	if (i + 1 == vsize->protocol.lower_count)
		return UINT32_MAX;
	if (vsize->cutoffs[i] != 0)
		return (uint32_t)vsize->cutoffs[i];
	return xk_control(way, XK_GET_OPT_PACKET, &takes, sizeof(takes)) < 0 ? 0 : takes;
}

static unsigned
vsize_way_index(const struct xk_protocol *self, const struct xk_session *lls)
{
	unsigned i = 0;

	while (i + 1 < self->lower_count && self->lowers[i] != lls->up)
		i++;
	return i;
}

/* Sets way i of vs, unless it has one already. Takes the caller's reference on way. */
static void
vsize_set_way(struct vsize_session *vs, unsigned i, struct xk_session *way)
{
	struct xk_session *none = NULL;

	if (!atomic_compare_exchange_strong_explicit(&vs->ways[i], &none, way, memory_order_acq_rel,
						     memory_order_relaxed))
		xk_close(way);
}

/* Directs messages that come up way to s, unless another session stands there that is not being closed. */
static void
vsize_stand(struct xk_session *s, struct xk_session *way)
{
	struct xk_session *other = atomic_load_explicit(&way->above, memory_order_acquire);

	if (other != NULL && xk_duplicate(other)) {
		xk_session_release(other);
		return;
	}
	atomic_compare_exchange_strong_explicit(&way->above, &other, s, memory_order_release, memory_order_relaxed);
}

static void
vsize_leave(struct xk_session *s, struct xk_session *way)
{
	struct xk_session *expected = s;

	atomic_compare_exchange_strong_explicit(&way->above, &expected, NULL, memory_order_release,
						memory_order_relaxed);
}

/* ---- sessions ---- */

static int
vsize_session_setup(struct xk_session *s, const void *how)
{
	struct vsize_session *vs = vsize_session_of(s);

	vs->first = vsize_way_index(s->protocol, s->lls);
	vs->takes = vsize_ask_takes(vsize_of(s->protocol), vs->first, s->lls);
	atomic_init(&vs->ways[vs->first], s->lls);
	return 0;
}

static void
vsize_session_close(struct xk_session *s)
{
	struct vsize_session *vs = vsize_session_of(s);

	for (unsigned i = 0; i < VSIZE_WAYS; i++) {
		struct xk_session *way = vsize_get_way(vs, i);

		if (way == NULL)
			continue;
		vsize_leave(s, way);
		if (way != s->lls)
			xk_close(way);
	}
}

/* ---- opening ---- */

static void
vsize_close_ways(struct xk_session **ways, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		xk_close(ways[i]);
}

static int
vsize_open_ways(struct xk_protocol *self, struct xk_protocol *hlp_type, const struct xk_participants *participants,
		struct xk_session **ways)
{
	for (unsigned i = 0; i < self->lower_count; i++) {
		struct xk_participants copy = *participants;
		int status = xk_open(self, hlp_type, xk_lower(self, i), &copy, &ways[i]);

		if (status != 0) {
			vsize_close_ways(ways, i);
			return status;
		}
	}
	return 0;
}

static int
vsize_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	   struct xk_participants *participants, struct xk_session **session)
{
	struct xk_session *ways[VSIZE_WAYS];
	int status = vsize_open_ways(self, hlp_type, participants, ways);

	if (status != 0)
		return status;
	status = xk_virtual_open_on(self, hlp_receive, ways[0], session);
	if (status != 0) {
		vsize_close_ways(ways, self->lower_count);
		return status;
	}
	for (unsigned i = 1; i < self->lower_count; i++) {
		vsize_stand(*session, ways[i]);
		vsize_set_way(vsize_session_of(*session), i, ways[i]);
	}
	xk_close(ways[0]);
	return 0;
}

/* ---- enabling ---- */

/* Takes back the open_enable from the first `count` ways. 0, or what one of them said. */
static int
vsize_disable_ways(struct xk_protocol *self, struct xk_protocol *hlp_type, const struct xk_participants *participants,
		   unsigned count)
{
	int status = 0;

	for (unsigned i = 0; i < count; i++) {
		struct xk_participants copy = *participants;
		int answer = xk_open_disable(self, hlp_type, xk_lower(self, i), &copy);

		status = status == 0 ? answer : status;
	}
	return status;
}

static int
vsize_enable_ways(struct xk_protocol *self, struct xk_protocol *hlp_type, const struct xk_participants *participants)
{
	for (unsigned i = 0; i < self->lower_count; i++) {
		struct xk_participants copy = *participants;
		int status = xk_open_enable(self, hlp_type, xk_lower(self, i), &copy);

		if (status != 0) {
			vsize_disable_ways(self, hlp_type, participants, i);
			return status;
		}
	}
	return 0;
}

static int
vsize_open_enable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		  struct xk_participants *participants)
{
	struct xk_map *enables = &self->table.enables;
	int status = xk_enable_add(enables, xk_virtual_passive_key(hlp_type), hlp_receive, hlp_type);

	if (status != 0)
		return status;
	status = vsize_enable_ways(self, hlp_type, participants);
	if (status != 0)
		xk_enable_remove(enables, xk_virtual_passive_key(hlp_type), hlp_receive, hlp_type);
	return status;
}

static bool
vsize_is_of_another(struct xk_session *s, void *hlp_type)
{
	return s->hlp_type != hlp_type;
}

/*
 * Asks the protocols below first, because only they know these participants. Idle sessions go with each open_enable
 * that is taken back, also where others remain: which of the enables has caused a session is not known here.
 */
static int
vsize_open_disable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		   struct xk_participants *participants)
{
	const struct xk_enable *enable = xk_table_enabled(self, xk_virtual_passive_key(hlp_type));
	int status;

	if (enable == NULL || enable->hlp_receive != hlp_receive)
		return -ENOENT;
	status = vsize_disable_ways(self, hlp_type, participants, self->lower_count);
	if (status == 0)
		status =
			xk_enable_remove(&self->table.enables, xk_virtual_passive_key(hlp_type), hlp_receive, hlp_type);
	if (status == 0)
		xk_session_uncache(self, vsize_is_of_another, hlp_type);
	return status;
}

/* ---- a longer way, for a session that a message has caused ---- */

/* Names the peer of lls so that an open asks nobody and does not wait. 0 or -errno. */
static int
vsize_find_peer(struct xk_session *lls, struct xk_participants *participants)
{
	uint64_t peer, me;

	*participants = (struct xk_participants){ .remote.depth = 0 };
	if (xk_control(lls, XK_GET_MY_HOST, &me, sizeof(me)) > 0)
		xk_participant_push(&participants->local, me);
	if (xk_control(lls, XK_GET_PEER_HOST, &peer, sizeof(peer)) > 0)
		xk_participant_push(&participants->local, XK_VNET_LAZY);
	else if (xk_control(lls, XK_GET_PEER_LINK, &peer, sizeof(peer)) > 0)
		peer |= XK_VNET_STATION;
	else
		return -EHOSTUNREACH;
	xk_participant_push(&participants->remote, peer);
	return 0;
}

static int
vsize_open_way(struct vsize_session *vs, unsigned i)
{
	struct xk_protocol *self = vs->session.protocol;
	struct xk_participants participants;
	struct xk_session *way;
	int status = vsize_find_peer(vs->session.lls, &participants);

	if (status == 0)
		status = xk_open(self, vs->session.hlp_type, xk_lower(self, i), &participants, &way);
	if (status != 0)
		return status;
	xk_count(self, VSIZE_OPENED);
	vsize_stand(&vs->session, way);
	vsize_set_way(vs, i, way);
	return 0;
}

/* Gives way i of vs, opening it if need be; it stays as long as vs. 0 or -errno. */
static int
vsize_need_way(struct vsize_session *vs, unsigned i, struct xk_session **way)
{
	int status = 0;

	*way = vsize_get_way(vs, i);
	if (*way != NULL)
		return 0;
	if (!xk_duplicate(&vs->session))
		return -ECONNRESET; /* being closed: nobody would close the way */
	status = vsize_open_way(vs, i);
	*way = vsize_get_way(vs, i);
	xk_session_release(&vs->session);
	return status;
}

/* ---- down ---- */

/* A message that is too long for the first way. */
XK_APART static int
vsize_push_long(struct vsize_session *vs, struct xk_msg *m)
{
	struct xk_protocol *self = vs->session.protocol;
	struct xk_session *way = vsize_get_way(vs, vs->first);
	int status = 0;

	for (unsigned i = vs->first + 1; i < self->lower_count; i++) {
		status = vsize_need_way(vs, i, &way);
		if (status != 0 || xk_msg_len(m) <= vsize_ask_takes(vsize_of(self), i, way))
			break;
	}
	if (status != 0) {
		xk_drop(self, m, VSIZE_NO_WAY);
		return status;
	}
	xk_count(self, VSIZE_LONG);
	return xk_push(way, m);
}

static int
vsize_push(struct xk_session *s, struct xk_msg *m)
{
	struct vsize_session *vs = vsize_session_of(s);

	if (xk_unlikely(xk_msg_len(m) > vs->takes))
		return vsize_push_long(vs, m);
	return xk_push(s->lls, m);
}

/* ---- asking ---- */

static int
vsize_session_control(struct xk_session *s, int op, void *buffer, size_t len)
{
	struct vsize_session *vs = vsize_session_of(s);
	struct xk_session *way;
	int status;

	if (op == XK_GET_OPT_PACKET && vs->takes != UINT32_MAX)
		return xk_answer(buffer, len, &vs->takes, sizeof(vs->takes));
	if (op != XK_GET_MAX_PACKET)
		return -ENOTSUP;
	status = vsize_need_way(vs, s->protocol->lower_count - 1, &way);
	return status != 0 ? status : xk_control(way, op, buffer, len);
}

/* ---- tables ---- */

static const struct xk_session_ops vsize_session_ops = {
	.size = sizeof(struct vsize_session),
	.setup = vsize_session_setup,
	.push = vsize_push,
	.pop = xk_pop_through,
	.close = vsize_session_close,
	.control = vsize_session_control,
};

static const struct xk_protocol_ops vsize_ops = {
	.init = vsize_init,
	.open = vsize_open,
	.open_enable = vsize_open_enable,
	.open_disable = vsize_open_disable,
	.open_done = xk_virtual_open_done,
	.close_done = xk_virtual_close_done,
	.demux = xk_virtual_demux,
};

static const struct xk_role vsize_lowers[] = {
	{ "way", XK_ASYNC, NULL, "takes messages up to a size; the last takes the rest" },
	{ NULL, 0, NULL, NULL },
};

#define VSIZE_CUTOFF(name, index)                                                                                      \
	{                                                                                                              \
		name, XK_SETTING_UINT, offsetof(struct vsize, cutoffs[index]), NULL,                                   \
			"longest message that takes this way; 0: what the way can send in one piece", 0, XK_MSG_MAX    \
	}

static const struct xk_setting vsize_settings[] = {
	VSIZE_CUTOFF("cutoff", 0),
	VSIZE_CUTOFF("cutoff2", 1),
	VSIZE_CUTOFF("cutoff3", 2),
	{ NULL, 0, 0, NULL, NULL, 0, 0 },
};

static const char *const vsize_drops[] = { "no_way", NULL };
static const char *const vsize_counters[] = { "long", "opened", NULL };

const struct xk_protocol_type xk_type_vsize = {
	.name = "vsize",
	.help = "Sends each message by the first of its lowers that takes it in one piece, the rest by the last. No "
		"header.",
	.ops = &vsize_ops,
	.session_ops = &vsize_session_ops,
	.size = sizeof(struct vsize),
	.offers = XK_ASYNC,
	.flags = XK_VIRTUAL | XK_REPEATS,
	.lowers = vsize_lowers,
	.settings = vsize_settings,
	.drops = vsize_drops,
	.counters = vsize_counters,
	.session_max = 256,
};
