/*
 * pool.c - the threads behind the drivers.
 *
 * In regular mode they are the input threads, which carry each message from the start. In IPP mode they continue with
 * shepherds that have left a driver. Both kinds of work exist at once while the mode changes. queue.c has the work.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "xkernel/engine/engine.h"

/* ---- threads ---- */

/* Returns the driver whose core and platform a runner uses. Threads of the pool go to the drivers in turn. */
static struct xk_driver *
runner_driver(const struct xk_runner *runner)
{
	struct xk_kernel *kernel = runner->kernel;
	struct xk_driver *driver = &kernel->driver;

	if (runner->kind == XK_RUN_DRIVER)
		return xk_container_of(runner, struct xk_driver, runner);
	if (runner->kind != XK_RUN_POOL)
		return driver;
	for (unsigned i = (runner->number - 1) % kernel->driver_count; i > 0; i--)
		driver = driver->next_driver;
	return driver;
}

/* Returns whether the kernel started the thread; the one that called xk_kernel_run is the program's. */
static bool
runner_is_ours(const struct xk_runner *runner)
{
	return runner->kind != XK_RUN_DRIVER || runner_driver(runner)->started;
}

void
xk_runner_begin(struct xk_runner *runner)
{
	struct xk_driver *driver = runner_driver(runner);
	struct xk_platform *platform = driver->platform;

	runner->shepherd.kernel = runner->kernel;
	runner->shepherd.runner = runner;
	runner->shepherd.head.taken = &runner->locks;
	runner->shepherd.head.lane = runner->kind == XK_RUN_DRIVER ? driver->index + 1 : 0;
	if (runner->shepherd.driver == NULL)
		runner->shepherd.driver = driver;
	if (platform->threads != NULL)
		platform->threads->adopt(platform, &runner->own);
	else
		xk_context_adopt(&runner->own);
	xk_reader_add(&runner->kernel->epochs, &runner->shepherd.reader);
	xk_self_set(&runner->shepherd);
	if (driver->core >= 0 && platform->threads == NULL) {
		cpu_set_t set;

		CPU_ZERO(&set);
		CPU_SET((unsigned)driver->core, &set);
		sched_setaffinity(0, sizeof(set), &set);
	}
	if (runner_is_ours(runner) && platform->ops->thread_begin != NULL)
		platform->ops->thread_begin(platform);
	if (runner->kind == XK_RUN_DRIVER && platform->ops->driver_begin != NULL)
		platform->ops->driver_begin(platform);
	if (runner->uncounted)
		return;
	atomic_store_explicit(&runner->switches_before, xk_runner_switches(runner), memory_order_relaxed);
	atomic_store_explicit(&runner->tid, (int)syscall(SYS_gettid), memory_order_release);
}

void
xk_runner_end(struct xk_runner *runner)
{
	struct xk_kernel *kernel = runner->kernel;
	struct xk_driver *driver = runner_driver(runner);
	struct xk_platform *platform = driver->platform;
	bool drives = runner->kind == XK_RUN_DRIVER;

	if (drives && platform->ops->driver_end != NULL)
		platform->ops->driver_end(platform);
	if (runner_is_ours(runner) && platform->ops->thread_end != NULL)
		platform->ops->thread_end(platform);
	/* The counts of a runner that is freed next move to the kernel; a driver's remain. */
	if (!runner->uncounted)
		atomic_fetch_add_explicit(drives ? &driver->ended_switches : &kernel->ended_switches,
					  xk_runner_switches(runner) - runner->switches_before, memory_order_relaxed);
	if (!drives) {
		atomic_fetch_add_explicit(&kernel->ended_stack_switches, runner->stack_switches, memory_order_relaxed);
		atomic_fetch_add_explicit(&kernel->ended_locks, runner->locks, memory_order_relaxed);
		atomic_fetch_add_explicit(&kernel->ended_clock_reads, runner->clock_reads, memory_order_relaxed);
	}
	atomic_store_explicit(&runner->tid, 0, memory_order_release);
	xk_self_set(NULL);
	xk_reader_remove(&runner->shepherd.reader);
	xk_context_disown(&runner->own);
}

/* ---- their work ---- */

static void
pool_do(struct xk_runner *runner, const struct xk_work *work)
{
	struct xk_shepherd *own = &runner->shepherd, *left = work->shepherd;

	xk_bump(&runner->carried, 1);
	if (left != NULL) {
		if (atomic_load_explicit(&left->reader.since, memory_order_relaxed) == 0)
			xk_reader_enter(&left->reader);
		xk_shepherd_switch(runner, NULL, left, false, NULL, NULL);
	} else {
		own->driver = work->port->transmit->driver;
		xk_reader_enter(&own->reader);
		xk_deliver(work->port, work->m);
		if (xk_unlikely(own->head.locks != 0))
			xk_lock_refuse_end(own);
		xk_shepherd_is_out(own);
		xk_assert(own->head.holds == NULL);
		xk_reader_leave(&own->reader);
	}
	atomic_fetch_sub_explicit(&runner->kernel->busy, 1, memory_order_release);
}

/* Does one piece of work; waits for it if there is none. Returns false if the thread is to end. */
static bool
pool_work(struct xk_runner *runner)
{
	struct xk_work work;

	if (!xk_pool_take(runner, &work))
		return false;
	if (work.shepherd != NULL || work.m != NULL)
		pool_do(runner, &work);
	return true;
}

static void
pool_thread(struct xk_runner *runner)
{
	xk_runner_begin(runner);
	while (pool_work(runner))
		continue;
	xk_runner_end(runner);
}

static void
pool_end_threads(struct xk_kernel *kernel)
{
	struct xk_pool *pool = &kernel->pool;
	struct xk_runner *next;

	xk_pool_end(kernel);
	for (struct xk_runner *runner = pool->runners; runner != NULL; runner = runner->all_next)
		xk_runner_join(runner);
	pthread_mutex_lock(&pool->runners_mutex);
	next = pool->runners;
	pool->runners = NULL;
	pthread_mutex_unlock(&pool->runners_mutex);
	xk_spin_lock(&pool->lock);
	pool->threads = 0;
	pool->ends = false;
	xk_spin_unlock(&pool->lock);
	while (next != NULL) {
		struct xk_runner *runner = next;

		next = runner->all_next;
		xk_token_fini(&runner->token);
		free(runner);
	}
}

int
xk_pool_resize(struct xk_kernel *kernel, unsigned count)
{
	struct xk_pool *pool = &kernel->pool;

	if (pool->threads > count)
		pool_end_threads(kernel);
	while (pool->threads < count) {
		struct xk_runner *runner = calloc(1, sizeof(*runner));

		if (runner == NULL)
			return -EAGAIN;
		xk_token_init(&runner->token);
		runner->number = pool->threads + 1;
		if (xk_runner_start(kernel, runner, XK_RUN_POOL, false, pool_thread) != 0) {
			xk_token_fini(&runner->token);
			free(runner);
			return -EAGAIN;
		}
		pthread_mutex_lock(&pool->runners_mutex);
		runner->all_next = pool->runners;
		pool->runners = runner;
		pthread_mutex_unlock(&pool->runners_mutex);
		xk_spin_lock(&pool->lock);
		pool->threads++;
		xk_spin_unlock(&pool->lock);
	}
	return 0;
}
