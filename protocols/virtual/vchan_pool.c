/*
 * vchan_pool.c - VCHAN's pools: which channels there are, who has one, and who waits for one; see vchan.c.
 */
#include <errno.h>
#include <stdlib.h>

#include "protocols/virtual/vchan_private.h"

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

void
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

struct vchan_pool *
vchan_find(struct vchan *vchan, const struct xk_protocol *hlp_receive, const struct xk_protocol *hlp_type,
	   const struct xk_participants *participants)
{
	for (struct vchan_pool *pool = *vchan_bucket(vchan, participants); pool != NULL; pool = pool->next)
		if (xk_hlp_receive(&pool->session) == hlp_receive && pool->session.hlp_type == hlp_type &&
		    xk_participants_equal(&pool->participants, participants) && xk_duplicate(&pool->session))
			return pool;
	return NULL;
}

struct vchan_pool *
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

void
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

void
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

int
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

/* ---- taking a channel ---- */

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

int
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

int
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

/* ---- giving it back ---- */

void
vchan_release(struct vchan_pool *pool, struct vchan_channel *channel, int status)
{
	if (status == -ECONNRESET)
		vchan_end(pool);
	if (vchan_has_ended(pool))
		vchan_close_channel(channel);
	else
		vchan_give_back(pool, channel);
}
