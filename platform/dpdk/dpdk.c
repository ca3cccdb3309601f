/*
 * dpdk.c - the platform: start, stop, threads, and sleep, which is one libevent loop.
 *
 * A sleep that a frame ends costs one system call, epoll_wait. Every descriptor in the loop is edge-triggered, so none
 * has to be drained: an event descriptor reports each write, and the timer is set again instead of read. The timer is
 * set only if a deadline is earlier than its current time: firing too early costs only one more short sleep.
 */
#include <rte_lcore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "platform/dpdk/dpdk_private.h"

enum {
	DPDK_SLEEP_MIN_NS = 1000,      /* going to sleep takes longer */
	DPDK_STARVED_NS = 1000 * 1000, /* sleep without buffers to receive into */
};

uint64_t
dpdk_now_ns(struct xk_platform *platform)
{
	return clock_now_ns(&((struct dpdk_platform *)platform)->clock);
}

/* ---- sleep ---- */

/* Makes the loop return by deadline_ns. Returns false if that has passed. */
static bool
dpdk_set_timer(struct dpdk_platform *self, uint64_t deadline_ns)
{
	uint64_t now_ns = clock_now_ns(&self->clock), delay_ns = deadline_ns - now_ns;
	struct itimerspec when = { 0 };

	if (deadline_ns < now_ns + DPDK_SLEEP_MIN_NS)
		return false;
	if (deadline_ns >= self->timer_ns)
		return true;
	when.it_value.tv_sec = (time_t)(delay_ns / 1000000000);
	when.it_value.tv_nsec = (long)(delay_ns % 1000000000);
	if (timerfd_settime(self->timer_fd, 0, &when, NULL) != 0)
		return false;
	self->timer_ns = deadline_ns;
	return true;
}

static void
dpdk_sleep(struct xk_platform *platform, uint64_t deadline_ns)
{
	struct dpdk_platform *self = (struct dpdk_platform *)platform;
	int flags = EVLOOP_ONCE;

	/* Buffers that return wake no driver for the frames that wait in a device. */
	if (xk_unlikely(self->is_starved)) {
		uint64_t soon_ns = clock_now_ns(&self->clock) + DPDK_STARVED_NS;

		deadline_ns = deadline_ns < soon_ns ? deadline_ns : soon_ns;
	}
	if (deadline_ns != UINT64_MAX && !dpdk_set_timer(self, deadline_ns))
		flags = EVLOOP_NONBLOCK;
	event_base_loop(self->events, flags);
}

static void
dpdk_poll_control(struct xk_platform *platform)
{
	event_base_loop(((struct dpdk_platform *)platform)->events, EVLOOP_NONBLOCK);
}

void
dpdk_wake(struct xk_platform *platform)
{
	eventfd_write(((struct dpdk_platform *)platform)->wake_fd, 1);
}

static void
dpdk_woken(evutil_socket_t fd, short what, void *argument)
{
	(void)fd;
	(void)what;
	(void)argument;
}

static void
dpdk_timer_fired(evutil_socket_t fd, short what, void *argument)
{
	struct dpdk_platform *self = argument;

	(void)fd;
	(void)what;
	self->timer_ns = UINT64_MAX;
}

/* ---- threads ---- */

/* Represents the caches of buffers, which new threads inherit from ended ones. */
static const char dpdk_caches;

/*
 * Registers the thread, which gives it a cache of buffers; without one, it is only slower. At most half of the pool may
 * be in caches, so that devices always find buffers to receive into: they refill only after receiving. DPDK assigns the
 * lowest free number, and a cache belongs to its number.
 */
static void
dpdk_thread_begin(struct xk_platform *platform)
{
	const struct rte_mempool *pool = dpdk_owner_of(platform)->pool;

	if (rte_lcore_id() == LCORE_ID_ANY && rte_thread_register() == 0 &&
	    rte_lcore_id() >= pool->size / 2 / DPDK_BUFFER_CACHE_MAX)
		rte_thread_unregister();
	dpdk_after(&dpdk_caches);
}

static void
dpdk_thread_end(struct xk_platform *platform)
{
	(void)platform;
	dpdk_before(&dpdk_caches);
	if (rte_lcore_id() != LCORE_ID_ANY && rte_lcore_id() != rte_get_main_lcore())
		rte_thread_unregister();
}

/* ---- starting and stopping ---- */

static const struct xk_platform_ops dpdk_ops = {
	.now_ns = dpdk_now_ns,
	.buffer_new = dpdk_buffer_new,
	.is_short = dpdk_buffers_are_short,
	.buffers = dpdk_buffers,
	.buffer_view = dpdk_buffer_view,
	.buffer_hold = dpdk_buffer_hold,
	.buffer_let_go = dpdk_buffer_let_go,
	.buffer_lend = dpdk_buffer_lend,
	.lendable_new = dpdk_lendable_new,
	.lendable_free = dpdk_lendable_free,
	.buffer_free = dpdk_buffer_free,
	.buffers_out = dpdk_buffers_out,
	.sleep = dpdk_sleep,
	.wake = dpdk_wake,
	.poll_control = dpdk_poll_control,
	.thread_begin = dpdk_thread_begin,
	.thread_end = dpdk_thread_end,
};

static struct event_base *
dpdk_events_new(void)
{
	struct event_config *config = event_config_new();
	struct event_base *events = NULL;

	if (config == NULL)
		return NULL;
	event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK | EVENT_BASE_FLAG_NO_CACHE_TIME);
	event_config_require_features(config, EV_FEATURE_ET);
	events = event_base_new_with_config(config);
	event_config_free(config);
	return events;
}

static struct event *
dpdk_watch(struct event_base *events, int fd, event_callback_fn callback, void *argument)
{
	struct event *event = event_new(events, fd, EV_READ | EV_ET | EV_PERSIST, callback, argument);

	if (event != NULL && event_add(event, NULL) != 0) {
		event_free(event);
		return NULL;
	}
	return event;
}

static int
dpdk_sleep_init(struct dpdk_platform *self)
{
	self->timer_ns = UINT64_MAX;
	self->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	self->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	self->events = dpdk_events_new();
	if (self->wake_fd < 0 || self->timer_fd < 0 || self->events == NULL)
		return -ENOMEM;
	self->wake_event = dpdk_watch(self->events, self->wake_fd, dpdk_woken, NULL);
	self->timer_event = dpdk_watch(self->events, self->timer_fd, dpdk_timer_fired, self);
	return self->wake_event == NULL || self->timer_event == NULL ? -ENOMEM : 0;
}

/* Returns a platform without a pool, or NULL and why without memory or descriptors. */
static struct dpdk_platform *
dpdk_platform_new(char *why, size_t size)
{
	struct dpdk_platform *self = calloc(1, sizeof(*self));

	if (self == NULL) {
		snprintf(why, size, "no memory");
		return NULL;
	}
	self->base.ops = &dpdk_ops;
	self->owner = self;
	self->wake_fd = self->timer_fd = -1;
	if (dpdk_sleep_init(self) == 0)
		return self;
	snprintf(why, size, "no descriptors left to sleep on: see `ulimit -n`");
	xk_dpdk_stop(&self->base);
	return NULL;
}

int
xk_dpdk_start(const struct xk_dpdk_config *config, struct xk_platform **platform, char *why, size_t size)
{
	struct dpdk_platform *self;
	int error = dpdk_eal_check_files(why, size);

	if (error != 0)
		return error;
	self = dpdk_platform_new(why, size);
	if (self == NULL)
		return -ENOMEM;
	error = dpdk_eal_start(config, &self->clock, why, size);
	if (error != 0)
		goto fail;
	self->pool = dpdk_buffer_pool_new(config->buffers != 0 ? config->buffers : XK_DPDK_BUFFERS, why, size);
	error = -ENOMEM;
	if (self->pool == NULL)
		goto fail;
	*platform = &self->base;
	return 0;
fail:
	xk_dpdk_stop(&self->base);
	return error;
}

int
xk_dpdk_start_beside(struct xk_platform *first, struct xk_platform **platform, char *why, size_t size)
{
	struct dpdk_platform *owner = dpdk_owner_of(first), *self = dpdk_platform_new(why, size);

	if (self == NULL)
		return -ENOMEM;
	self->clock = owner->clock;
	self->owner = owner;
	self->pool = owner->pool;
	*platform = &self->base;
	return 0;
}

void
xk_dpdk_stop(struct xk_platform *platform)
{
	struct dpdk_platform *self = (struct dpdk_platform *)platform;

	if (self == NULL)
		return;
	if (self->wake_event != NULL)
		event_free(self->wake_event);
	if (self->timer_event != NULL)
		event_free(self->timer_event);
	if (self->events != NULL)
		event_base_free(self->events);
	if (self->wake_fd >= 0)
		close(self->wake_fd);
	if (self->timer_fd >= 0)
		close(self->timer_fd);
	for (unsigned i = 0; i < self->left_count; i++)
		rte_mempool_free(self->left[i]);
	if (self->owner == self)
		rte_mempool_free(self->pool);
	free(self);
}

struct event_base *
xk_dpdk_event_base(struct xk_platform *platform)
{
	return ((struct dpdk_platform *)platform)->events;
}
