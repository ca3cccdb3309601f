/*
 * pool.c - the threads behind the drivers.
 *
 * In regular mode they are the input threads, which carry each message from the start. In IPP mode they continue with
 * shepherds that have left a driver. Both kinds of work exist at once while the mode changes.
 *
 * Work goes to an idle thread, which is woken for it. If there is none, the work is queued, and a thread that has
 * finished takes it without a switch (Björkman 1994, 4.2).
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

/* ---- the queue ---- */

void
xk_pool_init(struct xk_pool *pool)
{
	pool->runnable.last = &pool->runnable.first;
	pthread_mutex_init(&pool->runners_mutex, NULL);
}

int
xk_pool_prepare(struct xk_pool *pool, enum xk_mode mode, unsigned drivers)
{
	/* Drivers check for room before they take a burst; others may have used all but one slot since. */
	unsigned slots = XK_INPUT_QUEUE + (drivers - 1) * XK_BURST;
	struct xk_work *inputs;

	if (mode != XK_REGULAR || pool->input_slots >= slots)
		return 0;
	inputs = calloc(slots, sizeof(*inputs));
	if (inputs == NULL)
		return -ENOMEM;
	xk_assert(pool->input_count == 0);
	free(pool->inputs);
	pool->inputs = inputs;
	pool->input_slots = slots;
	pool->input_first = 0;
	return 0;
}

void
xk_pool_fini(struct xk_pool *pool)
{
	free(pool->inputs);
	pthread_mutex_destroy(&pool->runners_mutex);
}

/* Moves an idle thread to the list *picked (by idle_next) and returns it, or NULL. Under the lock. */
static struct xk_runner *
pool_pick_idle(struct xk_pool *pool, struct xk_runner **picked)
{
	struct xk_runner *runner = pool->idle;

	if (runner == NULL)
		return NULL;
	pool->idle = runner->idle_next;
	runner->idle_next = *picked;
	*picked = runner;
	return runner;
}

static void
pool_wake(struct xk_kernel *kernel, struct xk_runner *picked)
{
	while (picked != NULL) {
		struct xk_runner *next = picked->idle_next;

		xk_token_post(kernel, &picked->token);
		picked = next;
	}
}

unsigned
xk_pool_room(struct xk_pool *pool, const struct xk_driver *driver)
{
	uint32_t bit = UINT32_C(1) << driver->index;
	unsigned room;

	xk_spin_lock(&pool->lock);
	room = pool->input_count < XK_INPUT_QUEUE ? XK_INPUT_QUEUE - pool->input_count : 0;
	pool->want_room = room == 0 ? pool->want_room | bit : pool->want_room & ~bit;
	xk_spin_unlock(&pool->lock);
	return room;
}

/* Returns the index of the ring's message number `by`, the first being 0. */
static unsigned
pool_input_after(const struct xk_pool *pool, unsigned by)
{
	unsigned index = pool->input_first + by;

	return index < pool->input_slots ? index : index - pool->input_slots;
}

void
xk_pool_put(struct xk_kernel *kernel, struct xk_port *port, struct xk_msg *const *burst, unsigned count)
{
	struct xk_pool *pool = &kernel->pool;
	struct xk_runner *picked = NULL;

	atomic_fetch_add_explicit(&kernel->busy, count, memory_order_relaxed);
	xk_spin_lock(&pool->lock);
	for (unsigned i = 0; i < count; i++) {
		struct xk_work work = { .m = burst[i], .port = port };
		struct xk_runner *runner = pool_pick_idle(pool, &picked);

		if (runner != NULL) {
			runner->given = work;
			continue;
		}
		xk_assert(pool->input_count < pool->input_slots);
		pool->inputs[pool_input_after(pool, pool->input_count++)] = work;
		atomic_fetch_add_explicit(&pool->queued, 1, memory_order_relaxed);
	}
	xk_spin_unlock(&pool->lock);
	pool_wake(kernel, picked);
}

void
xk_pool_run(struct xk_kernel *kernel, struct xk_shepherd *shepherd)
{
	struct xk_pool *pool = &kernel->pool;
	struct xk_runner *picked = NULL, *runner;
	bool served;

	xk_spin_lock(&pool->lock);
	served = pool->threads > 0;
	runner = pool_pick_idle(pool, &picked);
	if (runner != NULL) {
		runner->given.shepherd = shepherd;
	} else if (served) {
		xk_run_put(&pool->runnable, shepherd);
		atomic_fetch_add_explicit(&pool->queued, 1, memory_order_seq_cst);
	}
	xk_spin_unlock(&pool->lock);
	pool_wake(kernel, picked);
	if (!served)
		xk_driver_run(shepherd);
}

/* Takes a shepherd or else a message, if any. Sets *kick to the drivers that wait for the room. Under the lock. */
static struct xk_work
pool_take(struct xk_pool *pool, uint32_t *kick)
{
	struct xk_work work = { .shepherd = xk_run_pick(&pool->runnable) };

	if (work.shepherd == NULL && pool->input_count > 0) {
		work = pool->inputs[pool->input_first];
		pool->input_first = pool_input_after(pool, 1);
		pool->input_count--;
		if (pool->want_room != 0 && pool->input_count <= XK_INPUT_QUEUE / 2) {
			*kick = pool->want_room;
			pool->want_room = 0;
		}
	} else if (work.shepherd == NULL) {
		return work;
	}
	atomic_fetch_sub_explicit(&pool->queued, 1, memory_order_relaxed);
	return work;
}

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
	struct xk_kernel *kernel = runner->kernel;
	struct xk_pool *pool = &kernel->pool;
	struct xk_work work;
	uint32_t kick = 0;
	bool found, ends;

	xk_spin_lock(&pool->lock);
	work = pool_take(pool, &kick);
	found = work.shepherd != NULL || work.m != NULL;
	ends = pool->ends;
	if (!found && !ends) {
		runner->idle_next = pool->idle;
		pool->idle = runner;
	}
	xk_spin_unlock(&pool->lock);

	for (struct xk_driver *driver = &kernel->driver; kick != 0 && driver != NULL; driver = driver->next_driver)
		if (kick & UINT32_C(1) << driver->index)
			xk_driver_wake(driver);
	if (!found) {
		if (ends)
			return false;
		xk_token_wait(kernel, &runner->token, UINT64_MAX);
		work = runner->given;
		runner->given = (struct xk_work){ .m = NULL };
	}
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
	struct xk_runner *picked = NULL, *next;

	xk_spin_lock(&pool->lock);
	pool->ends = true;
	while (pool_pick_idle(pool, &picked) != NULL)
		continue;
	xk_spin_unlock(&pool->lock);
	pool_wake(kernel, picked);
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
