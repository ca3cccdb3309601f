/*
 * stats.c - a kernel's counts, gathered from where they are kept: each thread's own, the kernel's, the ports', and the
 * operating system's of voluntary context switches.
 */
#include <string.h>

#include "xkernel/engine/engine.h"

/* Of a thread that may not have begun or may have ended. */
static uint64_t
stats_switches_of(const struct xk_runner *runner)
{
	if (atomic_load_explicit(&runner->tid, memory_order_acquire) == 0)
		return 0;
	return xk_runner_switches(runner) - atomic_load_explicit(&runner->switches_before, memory_order_relaxed);
}

static uint64_t
stats_load(_Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

static void
stats_add_runner(struct xk_kernel_stats *stats, struct xk_runner *runner)
{
	stats->stack_switches += stats_load(&runner->stack_switches);
	stats->locks += stats_load(&runner->locks);
	stats->clock_reads += stats_load(&runner->clock_reads);
}

static uint64_t
stats_frames(const struct xk_driver *driver)
{
	uint64_t frames = 0;

	for (struct xk_port *port = driver->ports; port != NULL; port = port->beside)
		frames += stats_load(&port->frames_in);
	return frames;
}

static void
stats_add_driver(struct xk_kernel_stats *stats, struct xk_driver *driver)
{
	stats_add_runner(stats, &driver->runner);
	stats->driver_switches += stats_load(&driver->ended_switches) + stats_switches_of(&driver->runner);
	stats->turns += stats_load(&driver->turns);
	stats->frames += stats_frames(driver);
	stats->sleeps += stats_load(&driver->sleeps);
	stats->overruns += stats_load(&driver->overruns);
	for (unsigned i = 0; i < XK_HANDOFF_REASONS; i++)
		stats->handoffs[i] += stats_load(&driver->handoffs[i]);
	stats->handoffs_event += stats_load(&driver->handoffs_event);
	stats->fallbacks += stats_load(&driver->fallbacks);
	stats->no_stack += stats_load(&driver->no_stack);
	stats->parks += stats_load(&driver->parks);
	stats->resumes_thread += stats_load(&driver->resumes_thread);
	stats->resumes_driver += stats_load(&driver->resumes_driver);
	stats->overtaken += stats_load(&driver->overtaken);
}

static void
stats_add_threads(struct xk_kernel_stats *stats, struct xk_kernel *kernel)
{
	stats->stack_switches += stats_load(&kernel->ended_stack_switches);
	stats->locks += stats_load(&kernel->ended_locks);
	stats->clock_reads += stats_load(&kernel->ended_clock_reads);
	stats->thread_switches += stats_load(&kernel->ended_switches);
	pthread_mutex_lock(&kernel->events_mutex);
	if (kernel->events != NULL)
		stats->thread_switches += stats_switches_of(kernel->events);
	pthread_mutex_unlock(&kernel->events_mutex);
	pthread_mutex_lock(&kernel->pool.runners_mutex);
	for (struct xk_runner *runner = kernel->pool.runners; runner != NULL; runner = runner->all_next) {
		stats_add_runner(stats, runner);
		stats->thread_switches += stats_switches_of(runner);
	}
	pthread_mutex_unlock(&kernel->pool.runners_mutex);
}

void
xk_kernel_stats(struct xk_kernel *kernel, struct xk_kernel_stats *stats)
{
	memset(stats, 0, sizeof(*stats));
	for (struct xk_driver *driver = &kernel->driver; driver != NULL; driver = driver->next_driver)
		stats_add_driver(stats, driver);
	stats_add_threads(stats, kernel);
	stats->stalled = stats_load(&kernel->stalled);
	stats->foreign_waits = stats_load(&kernel->foreign_waits);
	stats->stacks_parked = atomic_load_explicit(&kernel->parked, memory_order_relaxed);
}

void
xk_kernel_driver_stats(struct xk_kernel *kernel, unsigned index, struct xk_kernel_stats *stats)
{
	struct xk_driver *driver = &kernel->driver;

	while (driver->index != index) {
		driver = driver->next_driver;
		xk_assert(driver != NULL);
	}
	memset(stats, 0, sizeof(*stats));
	stats_add_driver(stats, driver);
}

/* ---- progress of threads ---- */

static void
stats_see(struct xk_runner *runner, uint64_t progress, void (*see)(void *context, int tid, uint64_t progress),
	  void *context)
{
	int tid = atomic_load_explicit(&runner->tid, memory_order_acquire);

	if (tid != 0)
		see(context, tid, progress);
}

void
xk_kernel_each_thread(struct xk_kernel *kernel, void (*see)(void *context, int tid, uint64_t progress), void *context)
{
	for (struct xk_driver *driver = &kernel->driver; driver != NULL; driver = driver->next_driver)
		stats_see(&driver->runner, atomic_load_explicit(&driver->turns, memory_order_relaxed), see, context);
	pthread_mutex_lock(&kernel->pool.runners_mutex);
	for (struct xk_runner *runner = kernel->pool.runners; runner != NULL; runner = runner->all_next)
		stats_see(runner, atomic_load_explicit(&runner->carried, memory_order_relaxed), see, context);
	pthread_mutex_unlock(&kernel->pool.runners_mutex);
	pthread_mutex_lock(&kernel->events_mutex);
	if (kernel->events != NULL)
		stats_see(kernel->events, atomic_load_explicit(&kernel->events->carried, memory_order_relaxed), see,
			  context);
	pthread_mutex_unlock(&kernel->events_mutex);
}
