/*
 * vchan.c - many calls at a time on one session: a pool of channels, each of which takes one. A virtual protocol of the RPC
 * realm, without a header. vchan_pool.c has the pools.
 *
 * Participants: those of the protocol below
 * Sessions:     One pool for the same participants of the same hlps. It begins with `opened` channels, and opens another when
 *               a caller finds none idle, up to `channels`. Then callers wait, in the order of their coming, at most `waiting`
 *               of them, each for at most `wait`. The channel that was used last is used next.
 *               Who is called has no pool: VCHAN lends it the channels' own sessions (XK_LENDS), which cost nothing here.
 * Calls:        xk_call waits for a channel where it must; xk_call_async takes one that is idle, and never waits: -EBUSY.
 * Failure:      what the channel says; -EBUSY: too many wait, or nobody may; -ETIMEDOUT: no channel became free in time.
 *               A channel that says -ECONNRESET, or that the protocol below closes, is to a host that has been booted again
 *               or is lost: so are all, and the pool ends with it. Calls that wait, and any later, get -ECONNRESET, as on a
 *               channel alone, until somebody opens anew: nobody's call gets to another boot of the host unnoticed.
 * Control:      XK_CHAN_SET_DEADLINE (of each channel's next calls); XK_CHAN_ABORT is refused: which call is not said. The
 *               first channel answers the others.
 * Settings:     channels, opened, waiting, wait
 * Drops:        busy, late (no channel became free in time), unopened (there was to be another channel, and could not), reset
 *               (the pool has ended), unexpected (a call from below on a channel of a pool)
 * Counters:     opened (channels), waited (calls)
 * Not done:     closing channels that are idle for long
 * Graph:        select -> vchan; vchan -> chan
 */
#include <errno.h>

#include "protocols/chan/chan.h"
#include "protocols/virtual/vchan_private.h"

static int
vchan_init(struct xk_protocol *self)
{
	struct vchan *vchan = xk_container_of(self, struct vchan, protocol);

	if (vchan->opened > vchan->channels)
		return -EINVAL;
	vchan->seed = xk_random(self);
	xk_lock_init(&vchan->lock, self);
	return 0;
}

/* ---- opening ---- */

/* A pool that nobody finds yet. 0 or -errno. May wait. */
static int
vchan_make(struct vchan *vchan, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	   const struct xk_participants *participants, struct vchan_pool **made)
{
	struct xk_protocol *self = &vchan->protocol;
	struct xk_session *s = xk_session_new(self, self->type->session_ops, hlp_receive, hlp_type, NULL);
	struct vchan_pool *pool;
	int status;

	if (s == NULL)
		return -ENOMEM;
	pool = vchan_pool_of(s);
	xk_lock_init(&pool->lock, self);
	pool->last = &pool->first;
	pool->participants = *participants;
	status = vchan_open_first(pool);
	if (status != 0)
		xk_close(s);
	else
		*made = pool;
	return status;
}

static int
vchan_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	   struct xk_participants *participants, struct xk_session **session)
{
	struct vchan *vchan = xk_container_of(self, struct vchan, protocol);
	struct vchan_pool *pool;
	int status = 0;

	xk_lock(&vchan->lock);
	pool = vchan_find(vchan, hlp_receive, hlp_type, participants);
	xk_unlock(&vchan->lock);
	if (pool == NULL) {
		status = vchan_make(vchan, hlp_receive, hlp_type, participants, &pool);
		if (status == 0)
			pool = vchan_publish(vchan, pool);
	}
	if (status == 0)
		*session = &pool->session;
	return status;
}

static int
vchan_open_enable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		  struct xk_participants *participants)
{
	return xk_open_enable(hlp_receive, hlp_type, xk_lower(self, 0), participants);
}

static int
vchan_open_disable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		   struct xk_participants *participants)
{
	return xk_open_disable(hlp_receive, hlp_type, xk_lower(self, 0), participants);
}

/* ---- closing ---- */

static void
vchan_close(struct xk_session *s)
{
	vchan_hide(vchan_pool_of(s));
	vchan_close_idle(vchan_pool_of(s));
}

static void
vchan_close_done(struct xk_protocol *self, struct xk_session *session)
{
	struct xk_session *s = atomic_load_explicit(&session->above, memory_order_acquire);

	if (s == NULL || !xk_duplicate(s))
		return;
	vchan_end(vchan_pool_of(s));
	xk_close_done(s);
	xk_session_release(s);
}

/* ---- calls ---- */

/* Channels of a pool call; who is called has channels of its own. */
static int
vchan_call_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m, struct xk_msg **reply)
{
	xk_drop(self, m, XK_DROP_UNEXPECTED);
	return -EOPNOTSUPP;
}

/* What the pool was told, the channel is. */
static void
vchan_set_deadline(struct vchan_pool *pool, struct vchan_channel *channel)
{
	uint64_t deadline_ns;

	xk_lock(&pool->lock);
	deadline_ns = pool->deadline_ns;
	xk_unlock(&pool->lock);
	if (deadline_ns != channel->deadline_ns)
		xk_control(channel->session, XK_CHAN_SET_DEADLINE, &deadline_ns, sizeof(deadline_ns));
	channel->deadline_ns = deadline_ns;
}

static int
vchan_call(struct xk_session *s, struct xk_msg *m, struct xk_msg **reply)
{
	struct vchan_pool *pool = vchan_pool_of(s);
	struct vchan_channel *channel;
	unsigned why;
	int status = vchan_take(pool, &channel, &why);

	if (status != 0) {
		xk_drop(s->protocol, m, why);
		return status;
	}
	vchan_set_deadline(pool, channel);
	status = xk_call(channel->session, m, reply);
	vchan_release(pool, channel, status);
	return status;
}

static void
vchan_list(struct vchan *vchan, struct vchan_channel *channel)
{
	xk_lock(&vchan->lock);
	channel->next = vchan->called;
	channel->at = &vchan->called;
	if (channel->next != NULL)
		channel->next->at = &channel->next;
	vchan->called = channel;
	xk_unlock(&vchan->lock);
}

static void
vchan_unlist(struct vchan *vchan, struct vchan_channel *channel)
{
	xk_lock(&vchan->lock);
	*channel->at = channel->next;
	if (channel->next != NULL)
		channel->next->at = channel->at;
	xk_unlock(&vchan->lock);
}

/* Those who called without waiting are not told when the kernel ends, and neither is VCHAN. */
static void
vchan_fini(struct xk_protocol *self)
{
	struct vchan *vchan = xk_container_of(self, struct vchan, protocol);

	while (vchan->called != NULL) {
		struct vchan_channel *channel = vchan->called;
		struct vchan_pool *pool = channel->pool;

		vchan->called = channel->next;
		vchan_release(pool, channel, 0);
		xk_session_release(&pool->session);
	}
}

/* The channel is free again before its user is told, who may want to call again. */
static void
vchan_done(struct xk_call *call, int status, struct xk_msg *reply)
{
	struct vchan_channel *channel = xk_container_of(call, struct vchan_channel, call);
	struct vchan_pool *pool = channel->pool;
	struct xk_call *users = channel->users;

	vchan_unlist(vchan_of(pool), channel);
	vchan_release(pool, channel, status);
	xk_call_done(users, status, reply);
	xk_session_release(&pool->session);
}

static int
vchan_call_async(struct xk_session *s, struct xk_msg *m, struct xk_call *call)
{
	struct vchan_pool *pool = vchan_pool_of(s);
	struct vchan_channel *channel;
	int status = xk_duplicate(s) ? 0 : -ECONNRESET;

	if (status == 0) {
		status = vchan_take_idle(pool, &channel);
		if (status != 0)
			xk_session_release(s);
	}
	if (status != 0) {
		xk_drop(s->protocol, m, status == -EBUSY ? VCHAN_BUSY : VCHAN_RESET);
		return status;
	}
	vchan_set_deadline(pool, channel);
	channel->users = call;
	channel->call.done = vchan_done;
	vchan_list(vchan_of(pool), channel);
	status = xk_call_async(channel->session, m, &channel->call);
	if (status != 0) {
		vchan_unlist(vchan_of(pool), channel);
		vchan_release(pool, channel, status);
		xk_session_release(s);
	}
	return status;
}

/* ---- asking ---- */

static int
vchan_session_control(struct xk_session *s, int op, void *buffer, size_t len)
{
	struct vchan_pool *pool = vchan_pool_of(s);
	int status;

	if (op == XK_CHAN_ABORT)
		return -EOPNOTSUPP;
	if (op != XK_CHAN_SET_DEADLINE)
		return -ENOTSUP;
	status = xk_control(s->lls, op, buffer, len);
	if (status < 0)
		return status;
	xk_lock(&pool->lock);
	memcpy(&pool->deadline_ns, buffer, sizeof(pool->deadline_ns));
	xk_unlock(&pool->lock);
	return status;
}

/* ---- tables ---- */

static const struct xk_session_ops vchan_session_ops = {
	.size = sizeof(struct vchan_pool),
	.call = vchan_call,
	.call_async = vchan_call_async,
	.close = vchan_close,
	.control = vchan_session_control,
};

static const struct xk_protocol_ops vchan_ops = {
	.init = vchan_init,
	.fini = vchan_fini,
	.open = vchan_open,
	.open_enable = vchan_open_enable,
	.open_disable = vchan_open_disable,
	.close_done = vchan_close_done,
	.call_demux = vchan_call_demux,
};

static const struct xk_role vchan_lowers[] = {
	{ "channels", XK_RPC, NULL, "each session takes one call at a time: chan" },
	{ NULL, 0, NULL, NULL },
};

static const struct xk_setting vchan_settings[] = {
	{ "channels", XK_SETTING_UINT, offsetof(struct vchan, channels), "8", "channels of a pool, at most", 1, 65536 },
	{ "opened", XK_SETTING_UINT, offsetof(struct vchan, opened), "1", "of these, opened with the pool", 1, 65536 },
	{ "waiting", XK_SETTING_UINT, offsetof(struct vchan, waiting), "64", "callers that wait for one, at most", 0,
	  65536 },
	{ "wait", XK_SETTING_TIME, offsetof(struct vchan, wait_ns), "10s", "how long one waits", 1000,
	  UINT64_C(3600000000000) },
	{ NULL, 0, 0, NULL, NULL, 0, 0 },
};

static const char *const vchan_drops[] = { "busy", "late", "unopened", "reset", NULL };
static const char *const vchan_counters[] = { "opened", "waited", NULL };

const struct xk_protocol_type xk_type_vchan = {
	.name = "vchan",
	.help = "Many calls at a time on one session, by a pool of channels. No header.",
	.ops = &vchan_ops,
	.session_ops = &vchan_session_ops,
	.size = sizeof(struct vchan),
	.offers = XK_RPC,
	.flags = XK_VIRTUAL | XK_LENDS,
	.lowers = vchan_lowers,
	.settings = vchan_settings,
	.drops = vchan_drops,
	.counters = vchan_counters,
};
