/*
 * memory.c - the platform in memory: clocks, sleep, construction. The buffers are in memory_buffer.c, the ports in
 * memory_port.c.
 */
#include <limits.h>
#include <stdlib.h>
#include <time.h>

#include "platform/sim/memory_private.h"

enum { MEMORY_CLOCK_SPAN_NS = 5 * 1000 * 1000 }; /* time over which the processor's counter is calibrated */

/* ---- time ---- */

static uint64_t
memory_now_ns(struct xk_platform *platform)
{
	struct memory_platform *self = memory_of(platform);

	if (self->clock == XK_MEMORY_REAL)
		return clock_now_ns(&self->counter);
	return atomic_load_explicit(&self->virtual_ns, memory_order_acquire);
}

/* Waits on the real clock for a wake-up, which it consumes, or until deadline_ns. */
static void
memory_wait(struct memory_platform *self, uint64_t deadline_ns)
{
	struct timespec deadline = { .tv_sec = (time_t)(deadline_ns / 1000000000),
				     .tv_nsec = (long)(deadline_ns % 1000000000) };
	int error = 0;

	pthread_mutex_lock(&self->lock);
	while (!self->woken && error == 0) {
		if (deadline_ns == UINT64_MAX)
			error = pthread_cond_wait(&self->changed, &self->lock);
		else
			error = pthread_cond_timedwait(&self->changed, &self->lock, &deadline);
	}
	self->woken = false;
	pthread_mutex_unlock(&self->lock);
}

static bool
memory_take_wake(struct memory_platform *self)
{
	bool woken;

	pthread_mutex_lock(&self->lock);
	woken = self->woken;
	self->woken = false;
	pthread_mutex_unlock(&self->lock);
	return woken;
}

static void
memory_advance_until(struct memory_platform *self, uint64_t ns)
{
	if (ns > atomic_load_explicit(&self->virtual_ns, memory_order_relaxed))
		atomic_store_explicit(&self->virtual_ns, ns, memory_order_release);
}

static void
memory_sleep(struct xk_platform *platform, uint64_t deadline_ns)
{
	struct memory_platform *self = memory_of(platform);

	if (self->clock == XK_MEMORY_REAL) {
		memory_wait(self, deadline_ns);
		return;
	}
	if (memory_take_wake(self))
		return;
	if (deadline_ns != UINT64_MAX && deadline_ns <= self->until_ns) {
		memory_advance_until(self, deadline_ns);
		return;
	}
	if (self->until_ns != UINT64_MAX)
		memory_advance_until(self, self->until_ns);
	if (self->idle != NULL)
		self->idle(self->idle_context);
	else
		memory_wait(self, UINT64_MAX);
}

void
memory_wake(struct xk_platform *platform)
{
	struct memory_platform *self = memory_of(platform);

	pthread_mutex_lock(&self->lock);
	self->woken = true;
	pthread_cond_signal(&self->changed);
	pthread_mutex_unlock(&self->lock);
}

void
xk_memory_advance(struct xk_platform *platform, uint64_t ns)
{
	struct memory_platform *self = memory_of(platform);

	xk_assert(self->clock == XK_MEMORY_VIRTUAL);
	atomic_fetch_add_explicit(&self->virtual_ns, ns, memory_order_release);
}

void
xk_memory_run_until(struct xk_platform *platform, uint64_t until_ns)
{
	memory_of(platform)->until_ns = until_ns;
}

void
xk_memory_on_idle(struct xk_platform *platform, void (*idle)(void *context), void *context)
{
	memory_of(platform)->idle = idle;
	memory_of(platform)->idle_context = context;
}

/* Advances virtual time, or spins on a real clock. */
static void
memory_work(struct xk_platform *platform, uint64_t work_ns)
{
	uint64_t until_ns = memory_now_ns(platform) + work_ns;

	if (platform->virtual_time)
		xk_memory_advance(platform, work_ns);
	while (memory_now_ns(platform) < until_ns)
		continue;
}

/* ---- the platform ---- */

static void
memory_driver_begin(struct xk_platform *platform)
{
	struct memory_platform *self = memory_of(platform);
	const void *nobody = NULL;

	if (self->recycles)
		atomic_compare_exchange_strong_explicit(&self->thread, &nobody, __builtin_thread_pointer(),
							memory_order_acquire, memory_order_relaxed);
}

/*
 * Lets another driver be the next whose segments are kept. If a thread other than the driver's ends the driver, they
 * stay with the driver's thread: no two threads use them, and all others allocate.
 */
static void
memory_driver_end(struct xk_platform *platform)
{
	struct memory_platform *self = memory_of(platform);

	if (memory_is_mine(self))
		atomic_store_explicit(&self->thread, NULL, memory_order_release);
}

static const struct xk_platform_ops memory_platform_ops = {
	.now_ns = memory_now_ns,
	.buffer_new = memory_buffer_new,
	.is_short = memory_buffers_are_short,
	.buffers = memory_buffers,
	.buffer_view = memory_buffer_view,
	.buffer_hold = memory_buffer_hold,
	.buffer_let_go = memory_buffer_let_go,
	.buffer_lend = memory_buffer_lend,
	.buffer_free = memory_buffer_free,
	.buffers_out = memory_buffers_out,
	.each_out = memory_each_out,
	.sleep = memory_sleep,
	.wake = memory_wake,
	.driver_begin = memory_driver_begin,
	.driver_end = memory_driver_end,
	.work = memory_work,
};

void
memory_platform_init(struct memory_platform *self, enum xk_memory_clock clock)
{
	pthread_condattr_t attributes;

	self->platform.ops = &memory_platform_ops;
	self->clock = clock;
	self->platform.virtual_time = clock == XK_MEMORY_VIRTUAL;
	self->until_ns = UINT64_MAX;
	self->recycles = MEMORY_RECYCLES;
	self->kept = &self->own_kept;
	memory_buffers_limit(self, UINT_MAX);
	pthread_mutex_init(&self->lock, NULL);
	pthread_mutex_init(&self->list_lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&self->changed, &attributes);
	pthread_condattr_destroy(&attributes);
}

void
memory_platform_fini(struct memory_platform *self)
{
	memory_buffer_free_kept(&self->own_kept);
	pthread_cond_destroy(&self->changed);
	pthread_mutex_destroy(&self->lock);
	pthread_mutex_destroy(&self->list_lock);
}

struct xk_platform *
xk_memory_platform_new(enum xk_memory_clock clock)
{
	struct memory_platform *self = calloc(1, sizeof(*self));

	if (self == NULL)
		return NULL;
	memory_platform_init(self, clock);
	return &self->platform;
}

void
xk_memory_platform_free(struct xk_platform *platform)
{
	struct memory_platform *self = memory_of(platform);

	memory_platform_fini(self);
	free(self);
}

void
xk_memory_platform_limit(struct xk_platform *platform, unsigned count)
{
	memory_buffers_limit(memory_of(platform), count);
}

void
xk_memory_platform_recycle(struct xk_platform *platform, bool recycles)
{
	memory_of(platform)->recycles = recycles;
}

void
xk_memory_platform_calibrate(struct xk_platform *platform)
{
	struct memory_platform *self = memory_of(platform);
	struct clock_pair before;

	if (self->clock == XK_MEMORY_VIRTUAL)
		return;
	clock_read(&before);
	clock_calibrate(&self->counter, &before, MEMORY_CLOCK_SPAN_NS);
}
