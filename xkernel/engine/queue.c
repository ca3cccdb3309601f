/*
 * queue.c - queues of work for drivers, and for threads of the pool.
 *
 * The pool's work goes to an idle thread, which is woken for it. If there is none, the work is queued, and a thread
 * that has finished takes it without a switch (Björkman 1994, 4.2).
 */
#include <errno.h>
#include <stdlib.h>

#include "xkernel/engine/engine.h"

/* ---- drivers ---- */

void
xk_driver_wake(struct xk_driver *driver)
{
	if (atomic_load_explicit(&driver->sleeping, memory_order_seq_cst) != 0 &&
	    atomic_exchange_explicit(&driver->sleeping, 0, memory_order_seq_cst) != 0)
		driver->platform->ops->wake(driver->platform);
}

void
xk_driver_run(struct xk_shepherd *shepherd)
{
	struct xk_driver *driver = shepherd->driver;
	const struct xk_shepherd *self = xk_self();

	if (self != NULL && self->runner == &driver->runner) {
		xk_run_put(&driver->own, shepherd);
		driver->own_runnable++;
	} else {
		xk_spin_lock(&driver->lock);
		xk_run_put(&driver->others, shepherd);
		atomic_fetch_add_explicit(&driver->runnable, 1, memory_order_seq_cst);
		xk_spin_unlock(&driver->lock);
	}
	xk_driver_wake(driver);
}

/* ---- the pool ---- */

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

/* Returns the ring index of message number `by`, counted from the first as 0. */
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

/* Takes a shepherd or else a message, if any. Sets *kick to the drivers that wait for room. Under the lock. */
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

bool
xk_pool_take(struct xk_runner *runner, struct xk_work *work)
{
	struct xk_kernel *kernel = runner->kernel;
	struct xk_pool *pool = &kernel->pool;
	uint32_t kick = 0;
	bool found, ends;

	xk_spin_lock(&pool->lock);
	*work = pool_take(pool, &kick);
	found = work->shepherd != NULL || work->m != NULL;
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
		*work = runner->given;
		runner->given = (struct xk_work){ .m = NULL };
	}
	return true;
}

void
xk_pool_end(struct xk_kernel *kernel)
{
	struct xk_pool *pool = &kernel->pool;
	struct xk_runner *picked = NULL;

	xk_spin_lock(&pool->lock);
	pool->ends = true;
	while (pool_pick_idle(pool, &picked) != NULL)
		continue;
	xk_spin_unlock(&pool->lock);
	pool_wake(kernel, picked);
}
