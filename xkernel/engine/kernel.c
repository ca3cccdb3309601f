/*
 * kernel.c - makes, starts, runs, reconfigures, stops and frees a host, and starts application code. kernel_graph.c
 * fills it with ports and protocols; kernel_time.c serves its clock and events.
 */
#include "xkernel/kernel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "xkernel/engine/engine.h"
#include "xkernel/trace.h"

enum {
	KERNEL_STACKS = 64,
	KERNEL_ADAPTIVE_NS = 50 * 1000,
	/* naps of XK_KERNEL_NAP_NS: */
	KERNEL_QUIET_NAPS = 20000,  /* two seconds */
	KERNEL_PAUSE_NAPS = 100000, /* ten: a virtual machine may take its core from a driver for seconds */
};

/* ---- making ---- */

static void
kernel_init_driver(struct xk_kernel *kernel, struct xk_driver *driver, struct xk_platform *platform, int core)
{
	driver->loop = xk_driver_loop;
	driver->kernel = kernel;
	driver->platform = platform;
	driver->index = kernel->driver_count++;
	driver->core = core;
	driver->own.last = &driver->own.first;
	driver->others.last = &driver->others.first;
	driver->clock_interval = 1;
	driver->runner.kernel = kernel;
	driver->runner.kind = XK_RUN_DRIVER;
	driver->runner.shepherd.driver = driver;
}

static void
kernel_wake(void *kernel)
{
	xk_driver_wake(&((struct xk_kernel *)kernel)->driver);
}

struct xk_kernel *
xk_kernel_new(const struct xk_kernel_config *config)
{
	struct xk_kernel *kernel;

	if (config->platform == NULL || config->stacks == 1)
		return NULL;
	kernel = aligned_alloc(_Alignof(struct xk_kernel), sizeof(*kernel));
	if (kernel == NULL)
		return NULL;
	memset(kernel, 0, sizeof(*kernel));
	kernel->config = *config;
	kernel->config.name = strdup(config->name == NULL ? "kernel" : config->name);
	if (kernel->config.threads == 0)
		kernel->config.threads = 1;
	if (kernel->config.stacks == 0)
		kernel->config.stacks = KERNEL_STACKS;
	if (kernel->config.adaptive_ns == 0)
		kernel->config.adaptive_ns = KERNEL_ADAPTIVE_NS;
	kernel->platform = config->platform;
	kernel->mode = config->mode;
	xk_pool_init(&kernel->pool);
	atomic_init(&kernel->events, NULL);
	kernel_init_driver(kernel, &kernel->driver, kernel->platform, kernel->config.core);
	xk_epochs_init(&kernel->epochs, kernel_wake, kernel);
	atomic_init(&kernel->seeds, xk_kernel_random(kernel));
	if (kernel->config.name == NULL || xk_pool_prepare(&kernel->pool, kernel->mode, 1) != 0 ||
	    xk_events_init(kernel) != 0 || xk_stacks_init(&kernel->driver) != 0) {
		xk_kernel_free(kernel);
		return NULL;
	}
	return kernel;
}

/* ---- more drivers ---- */

int
xk_kernel_add_driver(struct xk_kernel *kernel, struct xk_platform *platform, int core)
{
	struct xk_driver *last = xk_kernel_driver(kernel, kernel->driver_count - 1), *driver;

	xk_assert(kernel->ports == NULL && kernel->protocols == NULL && !kernel->started);
	if (platform->virtual_time || kernel->platform->virtual_time || platform->threads != NULL ||
	    kernel->platform->threads != NULL)
		return -EINVAL;
	if (kernel->driver_count == XK_DRIVERS)
		return -ENOSPC;
	driver = aligned_alloc(_Alignof(struct xk_driver), sizeof(*driver));
	if (driver == NULL)
		return -ENOMEM;
	memset(driver, 0, sizeof(*driver));
	kernel_init_driver(kernel, driver, platform, core);
	last->next_driver = driver;
	/* After a failure the kernel can only be freed, and frees the driver with it. */
	if (xk_stacks_init(driver) != 0 || xk_pool_prepare(&kernel->pool, kernel->mode, kernel->driver_count) != 0)
		return -ENOMEM;
	return (int)driver->index;
}

unsigned
xk_kernel_drivers(const struct xk_kernel *kernel)
{
	return kernel->driver_count;
}

/* ---- running its drivers ---- */

static void
kernel_drive(struct xk_driver *driver)
{
	struct xk_runner *runner = &driver->runner;
	struct xk_shepherd *first;

	xk_runner_begin(runner);
	first = xk_shepherd_take(driver, false);
	xk_assert(first != NULL);
	for (struct xk_port *port = driver->ports; port != NULL; port = port->beside)
		xk_transmit_acquire(port);
	xk_reader_enter(&runner->shepherd.reader);
	xk_shepherd_switch(runner, NULL, first, false, NULL, NULL);
	xk_reader_leave(&runner->shepherd.reader);
	for (struct xk_port *port = driver->ports; port != NULL; port = port->beside) {
		xk_transmit_flush(port);
		xk_transmit_release(port);
	}
	xk_runner_end(runner);
}

static void
kernel_driver_thread(struct xk_runner *runner)
{
	kernel_drive(xk_container_of(runner, struct xk_driver, runner));
}

/* Halts `first` and the drivers after it. */
static void
kernel_halt_drivers(struct xk_driver *first)
{
	for (struct xk_driver *driver = first; driver != NULL; driver = driver->next_driver) {
		atomic_store_explicit(&driver->halted, true, memory_order_seq_cst);
		xk_driver_wake(driver);
	}
}

/* Halts `first` and the drivers after it, and ends their threads. */
static void
kernel_end_drivers(struct xk_driver *first)
{
	kernel_halt_drivers(first);
	for (struct xk_driver *driver = first; driver != NULL; driver = driver->next_driver) {
		if (driver->started)
			xk_runner_join(&driver->runner);
		driver->started = false;
		atomic_store_explicit(&driver->halted, false, memory_order_relaxed);
	}
}

/* Starts `first` and the drivers after it on threads of their own. Returns 0, or -EAGAIN and none runs. */
static int
kernel_start_drivers(struct xk_driver *first)
{
	for (struct xk_driver *driver = first; driver != NULL; driver = driver->next_driver) {
		driver->started = true;
		if (xk_runner_start(driver->kernel, &driver->runner, XK_RUN_DRIVER, false, kernel_driver_thread) == 0)
			continue;
		driver->started = false;
		kernel_end_drivers(first);
		return -EAGAIN;
	}
	return 0;
}

/* ---- turns ---- */

/* Makes the calling thread the driver's, between turns: the driver's stack rests in its loop. */
static void
kernel_begin_turns(struct xk_driver *driver)
{
	struct xk_runner *runner = &driver->runner;
	bool goes_on = atomic_load_explicit(&driver->takes_turns, memory_order_relaxed);
	struct xk_shepherd *first;

	if (goes_on) /* on another thread so far */
		xk_runner_end(runner);
	runner->uncounted = true;
	xk_runner_begin(runner);
	atomic_store_explicit(&driver->turner, pthread_self(), memory_order_relaxed);
	if (goes_on)
		return;
	for (struct xk_port *port = driver->ports; port != NULL; port = port->beside)
		xk_transmit_acquire(port);
	atomic_store_explicit(&driver->takes_turns, true, memory_order_relaxed);
	atomic_store_explicit(&driver->halted, true, memory_order_relaxed);
	xk_reader_enter(&runner->shepherd.reader);
	first = xk_shepherd_take(driver, false);
	xk_assert(first != NULL);
	xk_shepherd_switch(runner, NULL, first, false, NULL, NULL);
}

/* Ends a kernel's turns, if it takes some. */
static void
kernel_end_turns(struct xk_kernel *kernel)
{
	struct xk_driver *driver = &kernel->driver;
	struct xk_runner *runner = &driver->runner;

	if (!atomic_load_explicit(&driver->takes_turns, memory_order_relaxed))
		return;
	kernel_begin_turns(driver);
	atomic_store_explicit(&driver->takes_turns, false, memory_order_relaxed);
	xk_shepherd_switch(runner, NULL, driver->resting, false, NULL, NULL);
	xk_reader_leave(&runner->shepherd.reader);
	for (struct xk_port *port = driver->ports; port != NULL; port = port->beside) {
		xk_transmit_flush(port);
		xk_transmit_release(port);
	}
	xk_runner_end(runner);
	runner->uncounted = false;
	atomic_store_explicit(&driver->halted, false, memory_order_relaxed);
}

uint64_t
xk_kernel_turn(struct xk_kernel *kernel)
{
	struct xk_driver *driver = &kernel->driver;

	xk_assert(xk_self() == NULL && kernel->mode == XK_IPP);
	if (xk_unlikely(!xk_driver_turns_here(driver))) {
		xk_assert(!kernel->started && kernel->driver_count == 1 && kernel->platform->threads == NULL);
		kernel_begin_turns(driver);
	}
	xk_shepherd_switch(&driver->runner, NULL, driver->resting, false, NULL, NULL);
	for (struct xk_port *port = driver->ports; port != NULL; port = port->beside)
		xk_transmit_flush(port);
	xk_self_set(NULL);
	return xk_driver_next_ns(driver);
}

/* ---- until halted ---- */

void
xk_kernel_run(struct xk_kernel *kernel)
{
	int result;

	xk_assert(!kernel->started && kernel->mode == XK_IPP);
	kernel_end_turns(kernel);
	result = kernel_start_drivers(kernel->driver.next_driver);
	xk_assert(result == 0);
	kernel_drive(&kernel->driver);
	kernel_end_drivers(&kernel->driver);
}

void
xk_kernel_halt(struct xk_kernel *kernel)
{
	kernel_halt_drivers(&kernel->driver);
}

/* Makes the drivers take no frames, or take them again. */
static void
kernel_pause(struct xk_kernel *kernel, bool paused)
{
	for (struct xk_driver *driver = &kernel->driver; driver != NULL; driver = driver->next_driver) {
		atomic_store_explicit(&driver->has_paused, false, memory_order_relaxed);
		atomic_store_explicit(&driver->paused, paused, memory_order_release);
	}
}

/* ---- starting, reconfiguring and stopping ---- */

int
xk_kernel_start(struct xk_kernel *kernel)
{
	kernel_end_turns(kernel);
	kernel_pause(kernel, false);
	atomic_store_explicit(&kernel->stopping, false, memory_order_relaxed);
	kernel->started = true;
	if (xk_pool_resize(kernel, kernel->config.threads) != 0)
		goto fail;
	kernel->events_end = false;
	if (xk_events_need(kernel) != 0)
		goto fail;
	if (kernel_start_drivers(&kernel->driver) != 0)
		goto fail_events;
	return 0;

fail_events:
	xk_events_end(kernel);
fail:
	xk_pool_resize(kernel, 0);
	kernel->started = false;
	return -EAGAIN;
}

/*
 * Returns whether nothing is queued or in progress and, if parked_too, no shepherd is parked and no application thread
 * is left.
 */
static bool
kernel_is_quiet(struct xk_kernel *kernel, bool parked_too)
{
	/* A shepherd between parked and busy is among the waiters until it runs: check them first. */
	if ((parked_too && xk_waiters_left(kernel)) || atomic_load_explicit(&kernel->busy, memory_order_acquire) != 0)
		return false;
	return !parked_too || (atomic_load_explicit(&kernel->parked, memory_order_acquire) == 0 &&
			       atomic_load_explicit(&kernel->applications, memory_order_acquire) == 0);
}

/* Waits until the kernel is quiet. Returns false after this many naps. */
static bool
kernel_wait_quiet(struct xk_kernel *kernel, bool parked_too, unsigned naps)
{
	for (unsigned napped = 0; napped < naps; napped++) {
		if (kernel_is_quiet(kernel, parked_too))
			return true;
		xk_thread_nap(kernel, XK_KERNEL_NAP_NS);
	}
	return false;
}

/* Wakes the drivers that have not paused yet, and returns their number. */
static unsigned
kernel_unpaused(struct xk_kernel *kernel)
{
	unsigned count = 0;

	for (struct xk_driver *driver = &kernel->driver; driver != NULL; driver = driver->next_driver) {
		if (atomic_load_explicit(&driver->has_paused, memory_order_acquire))
			continue;
		xk_driver_wake(driver);
		count++;
	}
	return count;
}

/* Waits until the drivers have paused and nothing is in progress. If that takes too long, reports what is left. */
static bool
kernel_wait_paused(struct xk_kernel *kernel)
{
	for (unsigned napped = 0; napped < KERNEL_PAUSE_NAPS && kernel_unpaused(kernel) > 0; napped++)
		xk_thread_nap(kernel, XK_KERNEL_NAP_NS);
	if (kernel_unpaused(kernel) == 0 && kernel_wait_quiet(kernel, false, KERNEL_PAUSE_NAPS))
		return true;
	xk_trace_kernel(kernel, "does not pause: %u drivers are in a turn, %u messages or shepherds are in progress",
			kernel_unpaused(kernel), atomic_load_explicit(&kernel->busy, memory_order_relaxed));
	return false;
}

enum xk_mode
xk_kernel_mode(const struct xk_kernel *kernel)
{
	return kernel->mode;
}

int
xk_kernel_reconfigure(struct xk_kernel *kernel, enum xk_mode mode, unsigned threads)
{
	int result = -EBUSY;

	kernel_pause(kernel, true);
	if (xk_pool_prepare(&kernel->pool, mode, kernel->driver_count) != 0) {
		result = -ENOMEM;
	} else if (!kernel->started || kernel_wait_paused(kernel)) {
		kernel->mode = mode;
		kernel->config.threads = threads == 0 ? 1 : threads;
		result = kernel->started ? xk_pool_resize(kernel, kernel->config.threads) : 0;
		if (kernel->started && result == 0)
			result = xk_events_need(kernel);
	}
	kernel_pause(kernel, false);
	if (kernel->started)
		xk_events_nudge(kernel);
	/* Paused drivers sleep without arming their ports: wake them in any case. */
	for (struct xk_driver *driver = &kernel->driver; driver != NULL; driver = driver->next_driver) {
		atomic_exchange_explicit(&driver->sleeping, 0, memory_order_seq_cst);
		driver->platform->ops->wake(driver->platform);
	}
	return result;
}

void
xk_kernel_stop(struct xk_kernel *kernel)
{
	if (!kernel->started)
		return;
	kernel_pause(kernel, true);
	xk_parked_report(kernel);
	atomic_store_explicit(&kernel->stopping, true, memory_order_seq_cst);
	xk_waiters_cancel(kernel);
	for (bool is_reported = false; !kernel_wait_quiet(kernel, true, KERNEL_QUIET_NAPS); is_reported = true)
		if (!is_reported)
			xk_parked_report_left(kernel);
	xk_events_end(kernel);
	kernel_end_drivers(&kernel->driver);
	xk_pool_resize(kernel, 0);
	kernel->started = false;
}

/* Unwinds the waiters of a kernel that was run, not started, on this thread, driver by driver. */
static void
kernel_unwind(struct xk_kernel *kernel)
{
	if (kernel_is_quiet(kernel, true))
		return;
	kernel_pause(kernel, true);
	xk_parked_report(kernel);
	xk_waiters_cancel(kernel);
	while (!kernel_is_quiet(kernel, true)) {
		for (struct xk_driver *driver = &kernel->driver; driver != NULL; driver = driver->next_driver) {
			atomic_store_explicit(&driver->halted, true, memory_order_relaxed);
			kernel_drive(driver);
		}
	}
}

/* ---- application code ---- */

static void
kernel_application_thread(struct xk_runner *runner)
{
	struct xk_kernel *kernel = runner->kernel;
	struct xk_shepherd *self = &runner->shepherd;

	xk_runner_begin(runner);
	self->load = XK_LOAD_APPLICATION;
	xk_reader_enter(&self->reader);
	self->application(self->argument);
	xk_shepherd_is_out(self);
	xk_reader_leave(&self->reader);
	xk_runner_end(runner);
	free(runner);
	atomic_fetch_sub_explicit(&kernel->applications, 1, memory_order_release);
}

/* Returns the driver of the next application: they take turns. */
static struct xk_driver *
kernel_driver_to_start(struct xk_kernel *kernel)
{
	unsigned turn = atomic_fetch_add_explicit(&kernel->next_to_start, 1, memory_order_relaxed);

	return xk_kernel_driver(kernel, turn % kernel->driver_count);
}

int
xk_application_start(struct xk_kernel *kernel, const char *name, void (*fn)(void *argument), void *argument)
{
	struct xk_driver *driver = kernel_driver_to_start(kernel);
	struct xk_runner *runner = calloc(1, sizeof(*runner));

	(void)name;
	if (runner == NULL)
		return -EAGAIN;
	runner->shepherd.application = fn;
	runner->shepherd.argument = argument;
	runner->shepherd.driver = driver;
	atomic_fetch_add_explicit(&kernel->applications, 1, memory_order_relaxed);
	if (xk_runner_start(kernel, runner, XK_RUN_APPLICATION, true, kernel_application_thread) == 0)
		return 0;
	atomic_fetch_sub_explicit(&kernel->applications, 1, memory_order_relaxed);
	free(runner);
	return -EAGAIN;
}

int
xk_thread_start(struct xk_kernel *kernel, const char *name, void (*fn)(void *argument), void *argument)
{
	struct xk_driver *driver;
	struct xk_shepherd *shepherd;

	if (kernel->mode == XK_REGULAR)
		return xk_application_start(kernel, name, fn, argument);
	driver = kernel_driver_to_start(kernel);
	shepherd = xk_shepherd_take(driver, true);
	for (driver = &kernel->driver; shepherd == NULL && driver != NULL; driver = driver->next_driver)
		shepherd = xk_shepherd_take(driver, true);
	if (shepherd == NULL)
		return -EAGAIN;
	shepherd->application = fn;
	shepherd->argument = argument;
	shepherd->load = XK_LOAD_APPLICATION;
	atomic_fetch_add_explicit(&kernel->busy, 1, memory_order_relaxed);
	xk_pool_run(kernel, shepherd);
	return 0;
}

/* ---- the end ---- */

void
xk_kernel_free(struct xk_kernel *kernel)
{
	if (kernel == NULL)
		return;
	xk_kernel_stop(kernel);
	kernel_end_turns(kernel);
	atomic_store_explicit(&kernel->stopping, true, memory_order_seq_cst);
	kernel_unwind(kernel);
	xk_kernel_fini_protocols(kernel->initialized, NULL);
	xk_epochs_drain(&kernel->epochs);
	if (kernel->protocols != NULL)
		xk_reached_note(kernel);
	xk_kernel_free_graph(kernel);
	xk_stacks_fini(kernel);
	for (struct xk_driver *driver = kernel->driver.next_driver, *next; driver != NULL; driver = next) {
		next = driver->next_driver;
		free(driver);
	}
	xk_pool_fini(&kernel->pool);
	xk_events_fini(kernel);
	free((void *)kernel->config.name);
	free(kernel);
}
