/*
 * kernel_time.c - the clock, and the thread that runs event handlers in regular mode (in IPP mode the first driver
 * does). While a handler waits, another thread takes over.
 */
#include <errno.h>
#include <stdlib.h>

#include "xkernel/engine/engine.h"

enum { KERNEL_EVENT_THREADS = 64 /* limit, and so also of handlers that wait at once */ };

/* ---- the clock and the wheel ---- */

static uint64_t
kernel_now_us(void *kernel)
{
	struct xk_platform *platform = ((struct xk_kernel *)kernel)->platform;

	return platform->ops->now_ns(platform) / 1000;
}

void
xk_events_nudge(struct xk_kernel *kernel)
{
	if (!atomic_exchange_explicit(&kernel->events_kicked, true, memory_order_seq_cst))
		xk_token_post(kernel, &kernel->events_token);
}

static void
kernel_kick(void *argument)
{
	struct xk_kernel *kernel = argument;

	if (kernel->mode == XK_IPP)
		xk_driver_wake(&kernel->driver);
	else
		xk_events_nudge(kernel);
}

static unsigned
kernel_event_first(void *argument, unsigned count)
{
	struct xk_platform *platform = ((struct xk_kernel *)argument)->platform;

	return platform->ops->event_first(platform, count);
}

int
xk_events_init(struct xk_kernel *kernel)
{
	const struct xk_wheel_host host = { .now_us = kernel_now_us,
					    .kick = kernel_kick,
					    .first = kernel->platform->ops->event_first == NULL ? NULL
												: kernel_event_first,
					    .argument = kernel };

	pthread_mutex_init(&kernel->events_mutex, NULL);
	xk_token_init(&kernel->events_token);
	kernel->wheel = xk_wheel_new(&host);
	return kernel->wheel == NULL ? -ENOMEM : 0;
}

void
xk_events_fini(struct xk_kernel *kernel)
{
	xk_wheel_free(kernel->wheel);
	xk_token_fini(&kernel->events_token);
	pthread_mutex_destroy(&kernel->events_mutex);
}

/* ---- the event thread of regular mode ---- */

/*
 * Fires the events that are due now, unless another thread takes over because a handler waited. Those that come due
 * meanwhile belong to the next turn: a handler that works and schedules itself again must not keep others waiting.
 */
static void
kernel_fire(struct xk_runner *runner)
{
	struct xk_kernel *kernel = runner->kernel;
	struct xk_shepherd *self = &runner->shepherd;
	uint64_t now_us = kernel_now_us(kernel);
	struct xk_event *event;

	while (kernel->mode == XK_REGULAR && kernel->events == runner &&
	       (event = xk_wheel_take(kernel->wheel, now_us)) != NULL) {
		self->load = XK_LOAD_EVENT;
		xk_bump(&runner->carried, 1);
		xk_reader_enter(&self->reader);
		event->handler(event, event->argument);
		xk_debug_let_go(self);
		xk_shepherd_is_out(self);
		xk_wheel_fired(kernel->wheel, event);
		xk_reader_leave(&self->reader);
	}
}

static int kernel_start_events(struct xk_kernel *kernel);

int
xk_events_stand_in(struct xk_shepherd *self)
{
	struct xk_kernel *kernel = self->kernel;
	int result = 0;

	pthread_mutex_lock(&kernel->events_mutex);
	if (kernel->events == self->runner && !kernel->events_end)
		result = kernel_start_events(kernel);
	pthread_mutex_unlock(&kernel->events_mutex);
	return result;
}

static void
kernel_events_thread(struct xk_runner *runner)
{
	struct xk_kernel *kernel = runner->kernel;
	uint64_t next_ns;

	xk_runner_begin(runner);
	for (;;) {
		/* Whatever happened before an earlier kick is seen below; a later one posts the token. */
		atomic_exchange_explicit(&kernel->events_kicked, false, memory_order_seq_cst);
		if (kernel->events != runner || kernel->events_end)
			break;
		kernel_fire(runner);
		next_ns = kernel->mode == XK_REGULAR ? xk_wheel_next_ns(kernel->wheel) : UINT64_MAX;
		/* if something is due already, this returns at once, but lets ready threads run first */
		if (kernel->events == runner && (!kernel->events_kicked || next_ns / 1000 <= kernel_now_us(kernel)))
			xk_token_wait(kernel, &kernel->events_token, next_ns);
	}
	pthread_mutex_lock(&kernel->events_mutex);
	if (kernel->events == runner)
		kernel->events = NULL;
	pthread_mutex_unlock(&kernel->events_mutex);
	xk_runner_end(runner);
	free(runner);
	atomic_fetch_sub_explicit(&kernel->event_threads, 1, memory_order_release);
}

/* Starts a thread and makes it the event thread. Under the mutex. 0 or -EAGAIN. */
static int
kernel_start_events(struct xk_kernel *kernel)
{
	struct xk_runner *before = kernel->events, *runner;

	if (kernel->event_threads >= KERNEL_EVENT_THREADS)
		return -EAGAIN;
	runner = calloc(1, sizeof(*runner));
	if (runner == NULL)
		return -EAGAIN;
	runner->number = atomic_fetch_add_explicit(&kernel->event_threads, 1, memory_order_relaxed) + 1;
	kernel->events = runner;
	if (xk_runner_start(kernel, runner, XK_RUN_EVENTS, true, kernel_events_thread) == 0)
		return 0;
	kernel->events = before;
	atomic_fetch_sub_explicit(&kernel->event_threads, 1, memory_order_relaxed);
	free(runner);
	return -EAGAIN;
}

int
xk_events_need(struct xk_kernel *kernel)
{
	int result = 0;

	pthread_mutex_lock(&kernel->events_mutex);
	if (kernel->mode == XK_REGULAR && kernel->events == NULL)
		result = kernel_start_events(kernel);
	pthread_mutex_unlock(&kernel->events_mutex);
	return result;
}

void
xk_events_end(struct xk_kernel *kernel)
{
	pthread_mutex_lock(&kernel->events_mutex);
	kernel->events_end = true;
	pthread_mutex_unlock(&kernel->events_mutex);
	xk_events_nudge(kernel);
	while (atomic_load_explicit(&kernel->event_threads, memory_order_acquire) > 0)
		xk_thread_nap(kernel, XK_KERNEL_NAP_NS);
}
