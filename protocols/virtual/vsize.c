/*
 * vsize.c - sends each message by the first of several ways that carries it in one piece; the last way, which fragments
 * (BLAST), carries the rest. A virtual protocol, without a header.
 *
 * Participants: those of the protocols below, which must all take the same
 * Ways:         the lowers, in the order of the graph. The longest message of a way is its setting `cutoff`,
 *               `cutoff2`, ..., or else its session's XK_GET_OPT_PACKET. A message may arrive by any way.
 * Sessions:     an active open opens all ways, and a session stands on all of its ways. A message of a new peer makes
 *               a session on the way by which it came (virtual.h). The first pushed message that is too long for that
 *               way opens a longer one to the same peer: by the host's address if the session below knows it (IP),
 *               else by its link address (VNET). That sends no query and never waits, because a stranger's message
 *               may have caused it.
 * Enables:      as in virtual.h, on all ways or none
 * Control:      XK_GET_MAX_PACKET: that of the last way, which is opened for it; XK_GET_OPT_PACKET: the longest message
 *               of the first way, which answers the other operations
 * Not done:     asking a way again after its path changed (IP fragments messages that are a little too long)
 * Graph:        vsize -> vmux; vsize -> blast; blast -> vmux
 */
#include <errno.h>

#include "protocols/virtual/vnet.h"
#include "xkernel/support/virtual.h"
#include "xkernel/trace.h"

#define VSIZE_DROPS(D) D(VSIZE_NO_WAY, "no_way") /* a longer way could not be opened; the push returns the reason */
XK_DROPS(vsize, VSIZE_DROPS);

#define VSIZE_COUNTERS(C)                                                                                              \
	C(VSIZE_LONG, "long")     /* messages sent by another way than the session's first */                          \
	C(VSIZE_OPENED, "opened") /* ways, after the session was */
XK_COUNTERS(vsize, VSIZE_COUNTERS);

enum { VSIZE_WAYS = 4 };

struct vsize {
	struct xk_protocol protocol;
	uint64_t cutoffs[VSIZE_WAYS - 1]; /* settings; 0: the way's XK_GET_OPT_PACKET */
};

struct vsize_session {
	struct xk_session session;                     /* lls is the first way */
	uint32_t takes;                                /* length of the longest message that lls takes */
	uint32_t first;                                /* index of lls among the ways */
	_Atomic(struct xk_session *) ways[VSIZE_WAYS]; /* references; NULL: not opened yet */
};

static inline struct xk_session *
vsize_way(struct vsize_session *s, unsigned i)
{
	return atomic_load_explicit(&s->ways[i], memory_order_acquire);
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
vsize_ask_takes(const struct xk_protocol *self, unsigned i, struct xk_session *way)
{
	const struct vsize *vsize = (const struct vsize *)self;
	uint32_t takes;

	if (i + 1 == self->lower_count)
		return UINT32_MAX;
	if (vsize->cutoffs[i] != 0)
		return (uint32_t)vsize->cutoffs[i];
	return xk_control(way, XK_GET_OPT_PACKET, &takes) < 0 ? 0 : takes;
}

/*
 * Sets way i of s, unless there is one already. Messages that come up it go to s, unless another session stands there
 * that is not being closed. Takes the caller's reference on way.
 */
static void
vsize_add_way(struct vsize_session *s, unsigned i, struct xk_session *way)
{
	struct xk_session *other = xk_session_above(way), *none = NULL;

	if (other != NULL && xk_duplicate(other))
		xk_session_release(other);
	else
		atomic_compare_exchange_strong_explicit(&way->above, &other, &s->session, memory_order_release,
							memory_order_relaxed);
	if (!atomic_compare_exchange_strong_explicit(&s->ways[i], &none, way, memory_order_acq_rel,
						     memory_order_relaxed))
		xk_close(way);
}

/* ---- sessions ---- */

static int
vsize_setup(struct xk_session *session, const void *how)
{
	struct vsize_session *s = (struct vsize_session *)session;
	const struct xk_protocol *self = session->protocol;

	while (s->first + 1 < self->lower_count && self->lowers[s->first] != session->lls->up)
		s->first++;
	s->takes = vsize_ask_takes(self, s->first, session->lls);
	atomic_init(&s->ways[s->first], session->lls);
	return 0;
}

static void
vsize_close(struct xk_session *session)
{
	struct vsize_session *s = (struct vsize_session *)session;

	for (unsigned i = 0; i < VSIZE_WAYS; i++) {
		struct xk_session *way = vsize_way(s, i);

		if (way == NULL)
			continue;
		xk_session_leave(session, way);
		if (way != session->lls)
			xk_close(way);
	}
}

/* ---- opening ---- */

static int
vsize_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	   struct xk_participants *participants, struct xk_session **session)
{
	struct xk_session *ways[VSIZE_WAYS] = { NULL };
	int err = 0;

	for (unsigned i = 0; i < self->lower_count && err == 0; i++) {
		struct xk_participants copy = *participants;

		err = xk_open(self, hlp_type, xk_lower(self, i), &copy, &ways[i]);
	}
	if (err == 0)
		err = xk_virtual_open_on(self, hlp_receive, ways[0], session);
	for (unsigned i = 1; i < self->lower_count && err == 0; i++) {
		vsize_add_way((struct vsize_session *)*session, i, ways[i]);
		ways[i] = NULL;
	}
	for (unsigned i = 0; i < VSIZE_WAYS; i++)
		xk_close(ways[i]);
	return err;
}

/* ---- longer ways, for passively opened sessions ---- */

/* Opens way i of s to the peer of lls, without a query or waiting. Returns 0 or -errno. */
static int
vsize_open_way(struct vsize_session *s, unsigned i)
{
	struct xk_session *lls = s->session.lls, *way;
	struct xk_protocol *self = s->session.protocol;
	struct xk_participants participants = { .remote.depth = 0 };
	uint64_t peer, me;
	int err;

	if (xk_control(lls, XK_GET_MY_HOST, &me) == 0)
		xk_participant_push(&participants.local, me);
	if (xk_control(lls, XK_GET_PEER_HOST, &peer) == 0)
		xk_participant_push(&participants.local, XK_VNET_LAZY);
	else if (xk_control(lls, XK_GET_PEER_LINK, &peer) == 0)
		peer |= XK_VNET_STATION;
	else
		return -EHOSTUNREACH;
	xk_participant_push(&participants.remote, peer);
	err = xk_open(self, s->session.hlp_type, xk_lower(self, i), &participants, &way);
	if (err != 0)
		return err;
	xk_count(self, VSIZE_OPENED);
	vsize_add_way(s, i, way);
	return 0;
}

/* Finds or opens way i of s, which stays as long as s. Returns 0 or -errno. */
static int
vsize_need_way(struct vsize_session *s, unsigned i, struct xk_session **way)
{
	int err;

	*way = vsize_way(s, i);
	if (*way != NULL)
		return 0;
	if (!xk_duplicate(&s->session))
		return -ECONNRESET; /* s is being closed, and would not close the way */
	err = vsize_open_way(s, i);
	*way = vsize_way(s, i);
	xk_session_release(&s->session);
	return err;
}

/* ---- down ---- */

/* Sends a message that is too long for the first way. */
XK_APART static int
vsize_push_long(struct vsize_session *s, struct xk_msg *m)
{
	struct xk_protocol *self = s->session.protocol;
	struct xk_session *way = vsize_way(s, s->first);
	int err = 0;

	for (unsigned i = s->first + 1; i < self->lower_count; i++) {
		err = vsize_need_way(s, i, &way);
		if (err != 0 || xk_msg_len(m) <= vsize_ask_takes(self, i, way))
			break;
	}
	if (err != 0) {
		xk_drop(self, m, VSIZE_NO_WAY);
		return err;
	}
	xk_count(self, VSIZE_LONG);
	return xk_push(way, m);
}

static int
vsize_push(struct xk_session *session, struct xk_msg *m)
{
	struct vsize_session *s = (struct vsize_session *)session;

	if (xk_unlikely(xk_msg_len(m) > s->takes))
		return vsize_push_long(s, m);
	return xk_push(session->lls, m);
}

/* ---- asking ---- */

static int
vsize_session_control(struct xk_session *session, int op, void *argument)
{
	struct vsize_session *s = (struct vsize_session *)session;
	struct xk_session *way;
	int err;

	if (op == XK_GET_OPT_PACKET && s->takes != UINT32_MAX) {
		*(uint32_t *)argument = s->takes;
		return 0;
	}
	if (op != XK_GET_MAX_PACKET)
		return -ENOTSUP;
	err = vsize_need_way(s, session->protocol->lower_count - 1, &way);
	return err != 0 ? err : xk_control_op(way, op, argument);
}

/* ---- tables ---- */

static const struct xk_session_ops vsize_session_ops = {
	.size = sizeof(struct vsize_session),
	.setup = vsize_setup,
	.push = vsize_push,
	.pop = xk_pop_through,
	.close = vsize_close,
	.control = vsize_session_control,
};

static const struct xk_protocol_ops vsize_ops = {
	.init = vsize_init,
	.open = vsize_open,
	.open_enable = xk_virtual_open_enable,
	.open_disable = xk_virtual_open_disable,
	.open_done = xk_virtual_open_done,
	.close_done = xk_virtual_close_done,
	.demux = xk_virtual_demux,
};

#define VSIZE_CUTOFF(name, index)                                                                                      \
	XK_SETTING(UINT, struct vsize, cutoffs[index], name,                                                           \
		   "longest message on this way; 0: the longest that it sends in one piece", .max = XK_MSG_MAX)

static const struct xk_setting vsize_settings[] = {
	VSIZE_CUTOFF("cutoff", 0),
	VSIZE_CUTOFF("cutoff2", 1),
	VSIZE_CUTOFF("cutoff3", 2),
	{ .name = NULL },
};

const struct xk_protocol_type xk_type_vsize = {
	.name = "vsize",
	.help = "Sends each message by the first lower that carries it in one piece, or else by the last. No header.",
	.ops = &vsize_ops,
	.session_ops = &vsize_session_ops,
	.size = sizeof(struct vsize),
	.offers = XK_ASYNC,
	.flags = XK_VIRTUAL | XK_REPEATS,
	.lowers = XK_ROLES({ "way", XK_ASYNC, NULL, "carries messages up to a size; the last carries the rest" }),
	.settings = vsize_settings,
	.drops = vsize_drops,
	.counters = vsize_counters,
	.session_max = 256,
};
