/*
 * pool.c - the threads behind the drivers.
 *
 * In regular mode they are the input threads, which carry each message from the start. In IPP mode they continue with
 * shepherds that have left a driver. Both kinds of work exist at once while the mode changes. queue.c has the work.
 */
#include <errno.h>
#include <stdlib.h>

#include "xkernel/engine/engine.h"

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
