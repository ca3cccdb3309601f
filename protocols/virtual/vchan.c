/*
 * vchan.c - concurrent calls on one session, by a pool of channels, each of which takes one call at a time. A virtual
 * protocol of the RPC realm, without a header.
 *
 * Participants: those of the protocol below
 * Sessions:     A pool is shared by opens with the same participants and hlps. It opens another channel when a caller
 *               finds none idle, up to `channels`; further callers wait in order of arrival. The channel used last is
 *               used next. Servers have no pool: VCHAN lends them the channels' own sessions (XK_LENDS).
 * Calls:        xk_call waits for a channel if it must; xk_call_async takes an idle one, or fails with -EBUSY.
 * Failure:      the channel's errors; -EBUSY: too many callers wait; -ETIMEDOUT: no channel became free in time. When
 *               a channel returns -ECONNRESET, or the protocol below closes it, the host has rebooted or is lost, and
 *               the whole pool ends. Its calls fail with -ECONNRESET until the user opens anew: no call reaches
 *               another boot of the host unnoticed.
 * Control:      XK_CHAN_SET_DEADLINE is for all channels; XK_CHAN_ABORT is refused, because it names no call; the
 *               first channel answers the others
 * Not done:     closing channels that are idle for long
 * Graph:        select -> vchan; vchan -> chan
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "protocols/chan/chan.h"
#include "xkernel/protocol.h"

#define VCHAN_DROPS(D) D(VCHAN_BUSY, "busy") D(VCHAN_LATE, "late") D(VCHAN_UNOPENED, "unopened") D(VCHAN_RESET, "reset")
XK_DROPS(vchan, VCHAN_DROPS);

#define VCHAN_COUNTERS(C) C(VCHAN_OPENED, "opened") C(VCHAN_WAITED, "waited")
XK_COUNTERS(vchan, VCHAN_COUNTERS);

enum { VCHAN_BUCKETS = 64 };

LIST_HEAD(vchan_pools, vchan_pool);
LIST_HEAD(vchan_channels, vchan_channel);
TAILQ_HEAD(vchan_waiters, vchan_waiter);

struct vchan {
	struct xk_protocol protocol;
	uint64_t channels, opened, waiting, wait_ns; /* settings */
	uint64_t seed;
	struct xk_lock lock; /* protects the fields below */
	struct vchan_pools buckets[VCHAN_BUCKETS];
	struct vchan_channels called; /* channels with asynchronous calls */
};

struct vchan_channel {
	struct vchan_pool *pool;
	LIST_ENTRY(vchan_channel) beside; /* in its pool's idle ones, or in `called` */
	struct xk_session *session;
	uint64_t deadline_ns;        /* of its next calls; 0: its own */
	struct xk_call call, *users; /* during an asynchronous call: ours, and the user's */
};

/* A caller that waits for a channel. */
struct vchan_waiter {
	TAILQ_ENTRY(vchan_waiter) beside;
	struct xk_semaphore answered;
	bool is_answered;
	struct vchan_channel *channel; /* the answer; NULL: open one, unless the pool has ended */
};

/* lls is the first channel's session, with a reference of its own, for control operations. */
struct vchan_pool {
	struct xk_session session;
	LIST_ENTRY(vchan_pool) beside; /* in its bucket, if it is listed; under VCHAN's lock */
	bool listed;
	struct xk_participants participants;
	struct xk_lock lock;        /* protects the fields below */
	struct vchan_channels idle; /* latest used first */
	struct vchan_waiters waiters;
	unsigned waiting;             /* waiters */
	unsigned count;               /* channels, including those that are being opened */
	_Atomic bool ended;           /* becomes true under VCHAN's lock, and stays so */
	_Atomic uint64_t deadline_ns; /* for the next calls; 0: the channels' own */
};

static struct vchan *
vchan_of(const struct vchan_pool *pool)
{
	return (struct vchan *)pool->session.protocol;
}

/* ---- channels ---- */

/* Opens a channel, which the pool has counted. May wait. Returns 0 or -errno. */
static int
vchan_open_channel(struct vchan_pool *pool, struct vchan_channel **channel)
{
	struct xk_protocol *self = pool->session.protocol;
	struct xk_participants participants = pool->participants;
	struct vchan_channel *c = calloc(1, sizeof(*c));
	int err = -ENOMEM;

	if (c != NULL)
		err = xk_open(self, pool->session.hlp_type, xk_lower(self, 0), &participants, &c->session);
	if (err != 0) {
		free(c);
		return err;
	}
	c->pool = pool;
	atomic_store_explicit(&c->session->above, &pool->session, memory_order_release);
	xk_count(self, VCHAN_OPENED);
	*channel = c;
	return 0;
}

static void
vchan_close_channel(struct vchan_channel *channel)
{
	atomic_store_explicit(&channel->session->above, NULL, memory_order_release);
	xk_close(channel->session);
	free(channel);
}

/* Answers the first waiter. The lock is held, because a waiter that is answered may be gone. */
static void
vchan_answer(struct vchan_pool *pool, struct vchan_channel *channel)
{
	struct vchan_waiter *waiter = TAILQ_FIRST(&pool->waiters);

	TAILQ_REMOVE(&pool->waiters, waiter, beside);
	pool->waiting--;
	waiter->is_answered = true;
	waiter->channel = channel;
	xk_semaphore_signal(&waiter->answered);
}

/* Ends the pool: it hands out no more channels. Channels with calls are closed when these are over. */
static void
vchan_end(struct vchan_pool *pool)
{
	struct vchan *vchan = vchan_of(pool);
	struct vchan_channel *channel;

	xk_lock(&vchan->lock);
	if (pool->listed)
		LIST_REMOVE(pool, beside);
	pool->listed = false;
	pool->ended = true;
	xk_unlock(&vchan->lock);
	xk_lock(&pool->lock);
	while (pool->waiting > 0)
		vchan_answer(pool, NULL);
	while ((channel = LIST_FIRST(&pool->idle)) != NULL) {
		LIST_REMOVE(channel, beside);
		xk_unlock(&pool->lock);
		vchan_close_channel(channel);
		xk_lock(&pool->lock);
	}
	xk_unlock(&pool->lock);
}

/*
 * Gives a channel to the first waiter, or else makes it idle. status is the result of its last call. A channel that
 * could not be opened is NULL: the waiter then opens one in its place.
 */
static void
vchan_give_back(struct vchan_pool *pool, struct vchan_channel *channel, int status)
{
	bool ended;

	if (xk_unlikely(status == -ECONNRESET))
		vchan_end(pool);
	xk_lock(&pool->lock);
	ended = pool->ended;
	if (xk_unlikely(!ended && pool->waiting > 0))
		vchan_answer(pool, channel);
	else if (xk_unlikely(channel == NULL))
		pool->count--;
	else if (xk_likely(!ended))
		LIST_INSERT_HEAD(&pool->idle, channel, beside);
	xk_unlock(&pool->lock);
	if (xk_unlikely(ended && channel != NULL))
		vchan_close_channel(channel);
}

/*
 * Waits for a channel. The lock is held, and released while waiting. Returns 0 and a channel, or NULL to open one, or
 * returns -errno.
 */
XK_APART static int
vchan_wait(struct vchan_pool *pool, struct vchan_channel **channel)
{
	struct vchan *vchan = vchan_of(pool);
	struct vchan_waiter waiter = { .is_answered = false };
	int err;

	xk_semaphore_init(&waiter.answered, &vchan->protocol, 0);
	TAILQ_INSERT_TAIL(&pool->waiters, &waiter, beside);
	pool->waiting++;
	xk_unlock(&pool->lock);
	xk_count(&vchan->protocol, VCHAN_WAITED);
	err = xk_semaphore_wait(&waiter.answered, vchan->wait_ns / 1000);
	xk_lock(&pool->lock);
	if (waiter.is_answered) {
		err = pool->ended && waiter.channel == NULL ? -ECONNRESET : 0;
	} else {
		TAILQ_REMOVE(&pool->waiters, &waiter, beside);
		pool->waiting--;
	}
	*channel = waiter.channel;
	return err;
}

/*
 * Gets a channel for a call with m: an idle one or, if the caller may wait, another. Returns 0, or -errno: m was then
 * dropped.
 */
static int
vchan_take(struct vchan_pool *pool, bool may_wait, struct xk_msg *m, struct vchan_channel **channel)
{
	struct vchan *vchan = vchan_of(pool);
	uint64_t deadline_ns;
	unsigned why;
	int err = 0;

	xk_lock(&pool->lock);
	*channel = LIST_FIRST(&pool->idle);
	if (xk_unlikely(pool->ended)) {
		err = -ECONNRESET;
	} else if (xk_likely(*channel != NULL)) {
		LIST_REMOVE(*channel, beside);
	} else if (may_wait && pool->count < vchan->channels) {
		pool->count++;
	} else if (!may_wait || pool->waiting >= vchan->waiting) {
		err = -EBUSY;
	} else {
		err = vchan_wait(pool, channel);
	}
	xk_unlock(&pool->lock);
	why = err == -EBUSY ? VCHAN_BUSY : err == -ECONNRESET ? VCHAN_RESET : VCHAN_LATE;
	if (xk_unlikely(err == 0 && *channel == NULL)) {
		err = vchan_open_channel(pool, channel);
		if (err != 0) {
			why = VCHAN_UNOPENED;
			vchan_give_back(pool, NULL, 0);
		} else if (atomic_load_explicit(&pool->ended, memory_order_relaxed)) {
			why = VCHAN_RESET; /* the channel may lead to another boot of the host */
			err = -ECONNRESET;
			vchan_close_channel(*channel);
		}
	}
	if (xk_unlikely(err != 0)) {
		xk_drop(&vchan->protocol, m, why);
		return err;
	}
	deadline_ns = atomic_load_explicit(&pool->deadline_ns, memory_order_relaxed);
	if (xk_unlikely(deadline_ns != (*channel)->deadline_ns))
		xk_control((*channel)->session, XK_CHAN_SET_DEADLINE, &deadline_ns);
	(*channel)->deadline_ns = deadline_ns;
	return 0;
}

/* ---- pools ---- */

/* Returns the pool for these, with a reference for the caller, or NULL. VCHAN's lock is held. */
static struct vchan_pool *
vchan_find(const struct vchan_pools *bucket, const struct xk_protocol *hlp_receive, const struct xk_protocol *hlp_type,
	   const struct xk_participants *participants)
{
	struct vchan_pool *pool;

	for (pool = LIST_FIRST(bucket); pool != NULL; pool = LIST_NEXT(pool, beside))
		if (xk_hlp_receive(&pool->session) == hlp_receive && pool->session.hlp_type == hlp_type &&
		    xk_participants_equal(&pool->participants, participants) && xk_duplicate(&pool->session))
			return pool;
	return NULL;
}

static int
vchan_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	   struct xk_participants *participants, struct xk_session **session)
{
	struct vchan *vchan = (struct vchan *)self;
	struct vchan_pools *bucket = &vchan->buckets[xk_participants_hash(participants, vchan->seed) % VCHAN_BUCKETS];
	struct vchan_pool *pool, *made;
	struct xk_session *s;

	xk_lock(&vchan->lock);
	pool = vchan_find(bucket, hlp_receive, hlp_type, participants);
	xk_unlock(&vchan->lock);
	if (pool != NULL) {
		*session = &pool->session;
		return 0;
	}
	s = xk_session_new(self, self->type->session_ops, hlp_receive, hlp_type, NULL);
	if (s == NULL)
		return -ENOMEM;
	made = (struct vchan_pool *)s;
	xk_lock_init(&made->lock, self);
	TAILQ_INIT(&made->waiters);
	made->participants = *participants;
	for (; made->count < vchan->opened; made->count++) {
		struct vchan_channel *channel;
		int err = vchan_open_channel(made, &channel);

		if (err != 0) {
			xk_close(s);
			return err;
		}
		if (s->lls == NULL && xk_duplicate(channel->session))
			s->lls = channel->session;
		vchan_give_back(made, channel, 0);
	}
	xk_lock(&vchan->lock);
	pool = vchan_find(bucket, hlp_receive, hlp_type, participants); /* another shepherd may have been faster */
	made->listed = pool == NULL && !made->ended;
	if (made->listed)
		LIST_INSERT_HEAD(bucket, made, beside);
	xk_unlock(&vchan->lock);
	if (pool != NULL)
		xk_close(s);
	*session = pool != NULL ? &pool->session : s;
	return 0;
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

static void
vchan_close(struct xk_session *s)
{
	vchan_end((struct vchan_pool *)s);
}

static void
vchan_close_done(struct xk_protocol *self, struct xk_session *session)
{
	struct xk_session *s = xk_session_above(session);

	if (s == NULL || !xk_duplicate(s))
		return;
	vchan_end((struct vchan_pool *)s);
	xk_close_done(s);
	xk_session_release(s);
}

/* ---- calls ---- */

/* A pool's channels only call; channels that are called are lent to the protocol above. */
static int
vchan_call_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m, struct xk_msg **reply)
{
	xk_drop(self, m, XK_DROP_UNEXPECTED);
	return -EOPNOTSUPP;
}

static int
vchan_call(struct xk_session *s, struct xk_msg *m, struct xk_msg **reply)
{
	struct vchan_pool *pool = (struct vchan_pool *)s;
	struct vchan_channel *channel;
	int status = vchan_take(pool, true, m, &channel);

	if (status != 0)
		return status;
	status = xk_call(channel->session, m, reply);
	vchan_give_back(pool, channel, status);
	return status;
}

/* Ends an asynchronous call. Frees the channel before it notifies the user, who may call again. */
static void
vchan_call_over(struct vchan_channel *channel, int status)
{
	struct vchan *vchan = vchan_of(channel->pool);

	xk_lock(&vchan->lock);
	LIST_REMOVE(channel, beside);
	xk_unlock(&vchan->lock);
	vchan_give_back(channel->pool, channel, status);
}

static void
vchan_done(struct xk_call *call, int status, struct xk_msg *reply)
{
	struct vchan_channel *channel = xk_container_of(call, struct vchan_channel, call);
	struct xk_session *s = &channel->pool->session;
	struct xk_call *users = channel->users;

	vchan_call_over(channel, status);
	xk_call_done(users, status, reply);
	xk_session_release(s);
}

static int
vchan_call_async(struct xk_session *s, struct xk_msg *m, struct xk_call *call)
{
	struct vchan *vchan = (struct vchan *)s->protocol;
	struct vchan_channel *channel;
	int status;

	if (!xk_duplicate(s)) {
		xk_drop(s->protocol, m, VCHAN_RESET);
		return -ECONNRESET;
	}
	status = vchan_take((struct vchan_pool *)s, false, m, &channel);
	if (status == 0) {
		channel->users = call;
		channel->call.done = vchan_done;
		xk_lock(&vchan->lock);
		LIST_INSERT_HEAD(&vchan->called, channel, beside);
		xk_unlock(&vchan->lock);
		status = xk_call_async(channel->session, m, &channel->call);
		if (status != 0)
			vchan_call_over(channel, status);
	}
	if (status != 0)
		xk_session_release(s);
	return status;
}

/* ---- init, fini and control ---- */

static int
vchan_init(struct xk_protocol *self)
{
	struct vchan *vchan = (struct vchan *)self;

	if (vchan->opened > vchan->channels)
		return -EINVAL;
	vchan->seed = xk_random(self);
	xk_lock_init(&vchan->lock, self);
	return 0;
}

/* The kernel ends without ending asynchronous calls. */
static void
vchan_fini(struct xk_protocol *self)
{
	struct vchan *vchan = (struct vchan *)self;
	struct vchan_channel *channel;

	while ((channel = LIST_FIRST(&vchan->called)) != NULL) {
		struct xk_session *s = &channel->pool->session;

		vchan_call_over(channel, 0);
		xk_session_release(s);
	}
}

static int
vchan_session_control(struct xk_session *s, int op, void *argument)
{
	struct vchan_pool *pool = (struct vchan_pool *)s;
	const uint64_t *deadline_ns = argument;
	int status;

	if (op == XK_CHAN_ABORT)
		return -EOPNOTSUPP;
	if (op != XK_CHAN_SET_DEADLINE)
		return -ENOTSUP;
	status = xk_control(s->lls, XK_CHAN_SET_DEADLINE, deadline_ns);
	if (status == 0)
		atomic_store_explicit(&pool->deadline_ns, *deadline_ns, memory_order_relaxed);
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

static const struct xk_setting vchan_settings[] = {
	XK_SETTING(UINT, struct vchan, channels, "channels", "maximum number of channels in a pool", .initial = "8",
		   .min = 1, .max = 65536),
	XK_SETTING(UINT, struct vchan, opened, "opened", "channels opened with the pool", .initial = "1", .min = 1,
		   .max = 65536),
	XK_SETTING(UINT, struct vchan, waiting, "waiting", "maximum number of callers waiting for a channel",
		   .initial = "64", .max = 65536),
	XK_SETTING(TIME, struct vchan, wait_ns, "wait", "longest wait of a caller", .initial = "10s", .min = 1000,
		   .max = UINT64_C(3600000000000)),
	{ .name = NULL },
};

const struct xk_protocol_type xk_type_vchan = {
	.name = "vchan",
	.help = "Concurrent calls on one session, by a pool of channels. No header.",
	.ops = &vchan_ops,
	.session_ops = &vchan_session_ops,
	.size = sizeof(struct vchan),
	.offers = XK_RPC,
	.flags = XK_VIRTUAL | XK_LENDS,
	.lowers = XK_ROLES({ "channels", XK_RPC, NULL, "its sessions take one call at a time: chan" }),
	.settings = vchan_settings,
	.drops = vchan_drops,
	.counters = vchan_counters,
};
