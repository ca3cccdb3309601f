/*
 * vchan.c - many calls at a time on one session: a pool of channels, each of which takes one. A virtual protocol of the RPC
 * realm, without a header.
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
#include <stdlib.h>

#include "protocols/chan.h"

enum vchan_drop { VCHAN_BUSY = XK_DROP_OWN, VCHAN_LATE, VCHAN_UNOPENED, VCHAN_RESET };

enum vchan_counter { VCHAN_OPENED, VCHAN_WAITED };

enum { VCHAN_BUCKETS = 64 };

struct vchan {
	struct xk_protocol protocol;
	uint64_t channels, opened, waiting, wait_ns;
	uint64_t seed;
	struct xk_lock lock; /* of what follows; before that of a pool */
	struct vchan_pool *buckets[VCHAN_BUCKETS];
};

struct vchan_channel {
	struct vchan_pool *pool;
	struct vchan_channel *next; /* idle: in the list */
	struct xk_session *session;
	uint64_t deadline_ns;  /* that it was told; 0: nothing */
	struct xk_call call;   /* while a call without waiting is under way ... */
	struct xk_call *users; /* ... and whom to tell */
};

/* A caller, which waits. */
struct vchan_waiter {
	struct vchan_waiter *next;
	struct xk_semaphore answered;
	bool has_turn;                 /* it is answered: */
	struct vchan_channel *channel; /* with this; NULL: it is to open one, or (pool ended) gets none */
};

/* lls is the first channel's session, with a reference of its own: for questions. */
struct vchan_pool {
	struct xk_session session;
	struct vchan_pool *next; /* in its bucket */
	struct xk_participants participants;
	struct xk_lock lock;        /* of what follows */
	struct vchan_channel *idle; /* the one used last first */
	struct vchan_waiter *first, **last;
	unsigned waiting;
	unsigned count; /* channels, those being opened included */
	uint64_t deadline_ns;
	bool ended;
};

static inline struct vchan *
vchan_of(const struct vchan_pool *pool)
{
	return xk_container_of(pool->session.protocol, struct vchan, protocol);
}

static inline struct vchan_pool *
vchan_pool_of(struct xk_session *s)
{
	return xk_container_of(s, struct vchan_pool, session);
}

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

/* ---- who waits; the pool's lock is held ---- */

static void
vchan_enqueue(struct vchan_pool *pool, struct vchan_waiter *waiter)
{
	waiter->next = NULL;
	*pool->last = waiter;
	pool->last = &waiter->next;
	pool->waiting++;
}

static void
vchan_unqueue(struct vchan_pool *pool, struct vchan_waiter *waiter)
{
	struct vchan_waiter **at = &pool->first;

	while (*at != waiter)
		at = &(*at)->next;
	*at = waiter->next;
	if (pool->last == &waiter->next)
		pool->last = at;
	pool->waiting--;
}

/* Answers the first one. The lock is held until it is told, since it may be gone right after. */
static void
vchan_answer(struct vchan_pool *pool, struct vchan_channel *channel)
{
	struct vchan_waiter *waiter = pool->first;

	vchan_unqueue(pool, waiter);
	waiter->has_turn = true;
	waiter->channel = channel;
	xk_semaphore_signal(&waiter->answered);
}

/* ---- channels ---- */

/* channel is idle. It goes to who waits, if somebody does. */
static void
vchan_give_back(struct vchan_pool *pool, struct vchan_channel *channel)
{
	xk_lock(&pool->lock);
	if (pool->first != NULL) {
		vchan_answer(pool, channel);
	} else {
		channel->next = pool->idle;
		pool->idle = channel;
	}
	xk_unlock(&pool->lock);
}

/* There may be another channel in place of one that could not be opened; whoever waits may try. */
static void
vchan_give_back_none(struct vchan_pool *pool)
{
	xk_lock(&pool->lock);
	if (pool->first != NULL)
		vchan_answer(pool, NULL);
	else
		pool->count--;
	xk_unlock(&pool->lock);
}

/* A channel that is counted already. May wait. 0 or -errno. */
static int
vchan_open_channel(struct vchan_pool *pool, struct vchan_channel **channel)
{
	struct xk_protocol *self = pool->session.protocol;
	struct xk_participants participants = pool->participants;
	struct vchan_channel *c = calloc(1, sizeof(*c));
	int status = -ENOMEM;

	if (c != NULL)
		status = xk_open(self, pool->session.hlp_type, xk_lower(self, 0), &participants, &c->session);
	if (status != 0) {
		free(c);
		return status;
	}
	c->pool = pool;
	atomic_store_explicit(&c->session->hls, &pool->session, memory_order_release);
	xk_count(self, VCHAN_OPENED);
	*channel = c;
	return 0;
}

static void
vchan_close_channel(struct vchan_channel *channel)
{
	atomic_store_explicit(&channel->session->hls, NULL, memory_order_release);
	xk_close(channel->session);
	free(channel);
}

static void
vchan_close_idle(struct vchan_pool *pool)
{
	struct vchan_channel *idle;

	xk_lock(&pool->lock);
	idle = pool->idle;
	pool->idle = NULL;
	xk_unlock(&pool->lock);
	while (idle != NULL) {
		struct vchan_channel *next = idle->next;

		vchan_close_channel(idle);
		idle = next;
	}
}

/* ---- pools ---- */

static struct vchan_pool **
vchan_bucket(struct vchan *vchan, const struct xk_participants *participants)
{
	return &vchan->buckets[xk_participants_hash(participants, vchan->seed) % VCHAN_BUCKETS];
}

/* The pool for these, with a reference for the caller; NULL: there is none, or it is being closed. The lock is held. */
static struct vchan_pool *
vchan_find(struct vchan *vchan, const struct xk_protocol *hlp_receive, const struct xk_protocol *hlp_type,
	   const struct xk_participants *participants)
{
	for (struct vchan_pool *pool = *vchan_bucket(vchan, participants); pool != NULL; pool = pool->next)
		if (xk_hlp_receive(&pool->session) == hlp_receive && pool->session.hlp_type == hlp_type &&
		    xk_participants_equal(&pool->participants, participants) && xk_duplicate(&pool->session))
			return pool;
	return NULL;
}

/* Nobody finds the pool any more. */
static void
vchan_hide(struct vchan_pool *pool)
{
	struct vchan *vchan = vchan_of(pool);
	struct vchan_pool **at = vchan_bucket(vchan, &pool->participants);

	xk_lock(&vchan->lock);
	while (*at != NULL && *at != pool)
		at = &(*at)->next;
	if (*at != NULL)
		*at = pool->next;
	xk_unlock(&vchan->lock);
}

/* The host is another one, or none. */
static void
vchan_end(struct vchan_pool *pool)
{
	xk_lock(&pool->lock);
	pool->ended = true;
	while (pool->first != NULL)
		vchan_answer(pool, NULL);
	xk_unlock(&pool->lock);
	vchan_hide(pool);
	vchan_close_idle(pool);
}

static bool
vchan_has_ended(struct vchan_pool *pool)
{
	bool ended;

	xk_lock(&pool->lock);
	ended = pool->ended;
	xk_unlock(&pool->lock);
	return ended;
}

/* After a call: the channel may be used again, unless its call says that it may not. */
static void
vchan_release(struct vchan_pool *pool, struct vchan_channel *channel, int status)
{
	if (status == -ECONNRESET)
		vchan_end(pool);
	if (vchan_has_ended(pool))
		vchan_close_channel(channel);
	else
		vchan_give_back(pool, channel);
}

static void
vchan_close(struct xk_session *s)
{
	vchan_hide(vchan_pool_of(s));
	vchan_close_idle(vchan_pool_of(s));
}

static void
vchan_close_done(struct xk_protocol *self, struct xk_session *session)
{
	struct xk_session *s = atomic_load_explicit(&session->hls, memory_order_acquire);

	if (s == NULL || !xk_duplicate(s))
		return;
	vchan_end(vchan_pool_of(s));
	xk_close_done(s);
	xk_session_release(s);
}

/* ---- opening ---- */

static const struct xk_session_ops vchan_session_ops;

/* The first channels of a pool. 0 or -errno. */
static int
vchan_open_first(struct vchan_pool *pool)
{
	struct vchan *vchan = vchan_of(pool);

	for (uint64_t i = 0; i < vchan->opened; i++) {
		struct vchan_channel *channel;
		int status = vchan_open_channel(pool, &channel);

		if (status != 0)
			return status;
		if (pool->session.lls == NULL && xk_duplicate(channel->session))
			pool->session.lls = channel->session;
		pool->count++;
		vchan_give_back(pool, channel);
	}
	return 0;
}

/* A pool that nobody finds yet. 0 or -errno. May wait. */
static int
vchan_make(struct vchan *vchan, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	   const struct xk_participants *participants, struct vchan_pool **made)
{
	struct xk_session *s = xk_session_new(&vchan->protocol, &vchan_session_ops, sizeof(struct vchan_pool),
					      hlp_receive, hlp_type, NULL);
	struct vchan_pool *pool;
	int status;

	if (s == NULL)
		return -ENOMEM;
	pool = vchan_pool_of(s);
	xk_lock_init(&pool->lock, &vchan->protocol);
	pool->last = &pool->first;
	pool->participants = *participants;
	status = vchan_open_first(pool);
	if (status != 0)
		xk_close(s);
	else
		*made = pool;
	return status;
}

/* pool is found from now on, unless somebody was faster: theirs. Takes the caller's reference, and gives one. */
static struct vchan_pool *
vchan_publish(struct vchan *vchan, struct vchan_pool *pool)
{
	struct vchan_pool **bucket = vchan_bucket(vchan, &pool->participants), *other;

	xk_lock(&vchan->lock);
	other = vchan_find(vchan, xk_hlp_receive(&pool->session), pool->session.hlp_type, &pool->participants);
	if (other == NULL) {
		pool->next = *bucket;
		*bucket = pool;
	}
	xk_unlock(&vchan->lock);
	if (other == NULL)
		return pool;
	xk_close(&pool->session);
	return other;
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

/* Channels of a pool call; who is called has channels of its own. */
static int
vchan_call_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m, struct xk_msg **reply)
{
	xk_drop(self, m, XK_DROP_UNEXPECTED);
	return -EOPNOTSUPP;
}

/* ---- calls ---- */

/* Under the pool's lock. 0: *channel is idle, or NULL: the caller is to open one; -EAGAIN: neither. */
static int
vchan_choose(struct vchan_pool *pool, struct vchan_channel **channel)
{
	*channel = pool->idle;
	if (pool->ended)
		return -ECONNRESET;
	if (*channel != NULL) {
		pool->idle = (*channel)->next;
		return 0;
	}
	if (pool->count >= vchan_of(pool)->channels)
		return -EAGAIN;
	pool->count++;
	return 0;
}

/* The caller has waited, or could not: what it has got. 0 or -errno. */
static int
vchan_collect(struct vchan_pool *pool, struct vchan_waiter *waiter, int woken, struct vchan_channel **channel)
{
	int status = 0;

	xk_lock(&pool->lock);
	if (!waiter->has_turn) {
		vchan_unqueue(pool, waiter);
		status = woken;
	} else if (pool->ended && waiter->channel == NULL) {
		status = -ECONNRESET;
	}
	xk_unlock(&pool->lock);
	*channel = waiter->channel;
	return status;
}

/* As vchan_choose, waiting for it. */
static int
vchan_wait(struct vchan_pool *pool, struct vchan_channel **channel)
{
	struct vchan *vchan = vchan_of(pool);
	struct vchan_waiter waiter = { .channel = NULL };
	int status;

	xk_semaphore_init(&waiter.answered, &vchan->protocol, 0);
	xk_lock(&pool->lock);
	status = vchan_choose(pool, channel);
	if (status == -EAGAIN && pool->waiting >= vchan->waiting)
		status = -EBUSY;
	if (status == -EAGAIN)
		vchan_enqueue(pool, &waiter);
	xk_unlock(&pool->lock);
	if (status != -EAGAIN)
		return status;
	xk_count(&vchan->protocol, VCHAN_WAITED);
	return vchan_collect(pool, &waiter, xk_semaphore_wait(&waiter.answered, vchan->wait_ns / 1000), channel);
}

/* A channel for a call, opened if need be. 0; otherwise *why is the reason to drop the message. */
static int
vchan_take(struct vchan_pool *pool, struct vchan_channel **channel, unsigned *why)
{
	int status = vchan_wait(pool, channel);

	*why = status == -EBUSY ? VCHAN_BUSY : status == -ECONNRESET ? VCHAN_RESET : VCHAN_LATE;
	if (status != 0 || *channel != NULL)
		return status;
	status = vchan_open_channel(pool, channel);
	if (status != 0) {
		*why = VCHAN_UNOPENED;
		vchan_give_back_none(pool);
	} else if (vchan_has_ended(pool)) {
		vchan_close_channel(*channel); /* it may be to another boot of the host */
		*why = VCHAN_RESET;
		status = -ECONNRESET;
	}
	return status;
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

/* The channel is free again before its user is told, who may want to call again. */
static void
vchan_done(struct xk_call *call, int status, struct xk_msg *reply)
{
	struct vchan_channel *channel = xk_container_of(call, struct vchan_channel, call);
	struct vchan_pool *pool = channel->pool;
	struct xk_call *users = channel->users;

	vchan_release(pool, channel, status);
	users->done(users, status, reply);
	xk_session_release(&pool->session);
}

/* An idle channel, for a call that may not wait. 0 or -errno. */
static int
vchan_take_idle(struct vchan_pool *pool, struct vchan_channel **channel)
{
	int status = 0;

	xk_lock(&pool->lock);
	*channel = pool->idle;
	if (pool->ended)
		status = -ECONNRESET;
	else if (*channel == NULL)
		status = -EBUSY;
	else
		pool->idle = (*channel)->next;
	xk_unlock(&pool->lock);
	return status;
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
	status = xk_call_async(channel->session, m, &channel->call);
	if (status != 0) {
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
	.call = vchan_call,
	.call_async = vchan_call_async,
	.close = vchan_close,
	.control = vchan_session_control,
};

static const struct xk_protocol_ops vchan_ops = {
	.init = vchan_init,
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
	.size = sizeof(struct vchan),
	.offers = XK_RPC,
	.flags = XK_VIRTUAL | XK_LENDS,
	.lowers = vchan_lowers,
	.settings = vchan_settings,
	.drops = vchan_drops,
	.counters = vchan_counters,
};
