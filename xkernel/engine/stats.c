/* stats.c - gathers a kernel's counts from its threads, ports, and the operating system. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "xkernel/engine/engine.h"
#include "xkernel/protocol.h"

#define STATS_COUNT(name) #name, offsetof(struct xk_kernel_stats, name)
#define STATS_HANDOFFS(reason) offsetof(struct xk_kernel_stats, handoffs) + (reason) * sizeof(uint64_t)

const struct xk_kernel_count xk_kernel_counts[] = {
	{ STATS_COUNT(turns) },
	{ STATS_COUNT(frames) },
	{ STATS_COUNT(by_path) },
	{ STATS_COUNT(clock_reads) },
	{ STATS_COUNT(stack_switches) },
	{ STATS_COUNT(sleeps) },
	{ STATS_COUNT(locks) },
	{ "handoffs_explicit", STATS_HANDOFFS(XK_HANDOFF_EXPLICIT) },
	{ "handoffs_implicit", STATS_HANDOFFS(XK_HANDOFF_IMPLICIT) },
	{ "handoffs_time", STATS_HANDOFFS(XK_HANDOFF_TIME) },
	{ STATS_COUNT(handoffs_event) },
	{ STATS_COUNT(fallbacks) },
	{ STATS_COUNT(no_stack) },
	{ STATS_COUNT(parks) },
	{ STATS_COUNT(resumes_thread) },
	{ STATS_COUNT(resumes_driver) },
	{ STATS_COUNT(overruns) },
	{ STATS_COUNT(overtaken) },
	{ STATS_COUNT(stalled) },
	{ STATS_COUNT(foreign_waits) },
	{ STATS_COUNT(driver_switches) },
	{ STATS_COUNT(thread_switches) },
	{ NULL, 0 },
};

/* Returns the context switches of a thread, which may not have begun or may have ended. */
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

static void
stats_add_driver(struct xk_kernel_stats *stats, struct xk_driver *driver)
{
	stats_add_runner(stats, &driver->runner);
	stats->driver_switches += stats_load(&driver->ended_switches) + stats_switches_of(&driver->runner);
	stats->turns += stats_load(&driver->turns);
	for (struct xk_port *port = driver->ports; port != NULL; port = port->beside) {
		stats->frames += stats_load(&port->frames_in);
		if (port->paths != NULL)
			stats->by_path += xk_paths_taken(port);
	}
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

void
xk_kernel_stats(struct xk_kernel *kernel, struct xk_kernel_stats *stats)
{
	memset(stats, 0, sizeof(*stats));
	stats->stalled = stats_load(&kernel->stalled);
	stats->foreign_waits = stats_load(&kernel->foreign_waits);
	stats->stacks_parked = atomic_load_explicit(&kernel->parked, memory_order_relaxed);
	for (struct xk_driver *driver = &kernel->driver; driver != NULL; driver = driver->next_driver)
		stats_add_driver(stats, driver);
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
xk_kernel_driver_stats(struct xk_kernel *kernel, unsigned index, struct xk_kernel_stats *stats)
{
	struct xk_driver *driver = xk_kernel_driver(kernel, index);

	xk_assert(driver != NULL);
	memset(stats, 0, sizeof(*stats));
	stats_add_driver(stats, driver);
}

/* ---- progress of threads ---- */

static void
stats_see(struct xk_runner *runner, uint64_t progress,
	  void (*see)(void *context, int tid, uint64_t progress, bool rests), void *context)
{
	int tid = atomic_load_explicit(&runner->tid, memory_order_acquire);

	if (tid != 0)
		see(context, tid, progress, atomic_load_explicit(&runner->rests, memory_order_relaxed));
}

void
xk_kernel_each_thread(struct xk_kernel *kernel, void (*see)(void *context, int tid, uint64_t progress, bool rests),
		      void *context)
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

/* ---- counts that tests have reached ---- */

#if defined(XK_DEBUG)

static void
reached_print(FILE *stream, const char *type, const char *name, uint64_t count)
{
	if (count != 0)
		fprintf(stream, "%s.%s\n", type, name);
}

void
xk_reached_note(struct xk_kernel *kernel)
{
	const char *path = getenv("XK_COUNTERS_FILE");
	struct xk_kernel_stats stats;
	char *text = NULL;
	size_t len = 0;
	FILE *stream = path == NULL ? NULL : open_memstream(&text, &len);
	int file;

	if (stream == NULL)
		return;
	xk_kernel_stats(kernel, &stats);
	for (const struct xk_kernel_count *count = xk_kernel_counts; count->name != NULL; count++)
		reached_print(stream, "kernel", count->name, *(uint64_t *)((char *)&stats + count->offset));
	for (const struct xk_protocol *p = kernel->protocols; p != NULL; p = p->next) {
		const struct xk_protocol_type *type = p->type;

		/* A test's fake may have the name of the type it stands for. */
		if (xk_protocol_type_find(type->name) != type)
			continue;
		for (unsigned i = XK_DROP_NONE + 1; i < xk_drop_count(type); i++)
			reached_print(stream, type->name, xk_drop_name(type, i), p->drops[i]);
		for (unsigned i = 0; type->counters != NULL && type->counters[i] != NULL; i++)
			reached_print(stream, type->name, type->counters[i], xk_counter(p, i));
	}
	fclose(stream);
	/* One write, so that many processes can share the file. */
	file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	if (file < 0 || write(file, text, len) != (ssize_t)len)
		fprintf(stderr, "XK_COUNTERS_FILE %s cannot be written: %s\n", path, xk_error(errno));
	if (file >= 0)
		close(file);
	free(text);
}

#endif
