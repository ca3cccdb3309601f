/*
 * processor.c - a host's single processor: schedules its threads and accounts for their time.
 *
 * The driver has priority, like an interrupt: a frame that arrives while a thread works preempts it, the driver runs,
 * and the thread then resumes its work. The driver itself is not preempted. Other threads run in the order in which
 * they became ready, until they wait.
 *
 * A thread owes time for its actions (sending a frame, being switched to). It pays when it waits, works or is resumed;
 * until then its clock is ahead by the debt. Payment lets the driver run, so it never happens where the engine holds
 * anything that the driver may need. Only the driver pays at once, because nothing preempts it.
 */
#include <errno.h>
#include <stdlib.h>

#include "platform/sim/sim_private.h"

#if defined(XK_CONTEXT_ASAN) || defined(XK_CONTEXT_TSAN)
enum { SIM_STACK = 512 * 1024 };
#else
enum { SIM_STACK = 128 * 1024 };
#endif

void
sim_host_ready(struct xk_sim_host *host)
{
	struct xk_sim *sim = host->sim;

	if (host->queued || (sim->running != NULL && sim->running->host == host))
		return;
	host->queued = true;
	host->ready_next = NULL;
	*sim->ready_last = host;
	sim->ready_last = &host->ready_next;
}

/* ---- scheduling ---- */

static void
processor_queue(struct sim_processor *processor, struct sim_thread *thread)
{
	thread->next = NULL;
	*processor->ready_last = thread;
	processor->ready_last = &thread->next;
}

static void
processor_queue_first(struct sim_processor *processor, struct sim_thread *thread)
{
	thread->next = processor->ready_first;
	if (thread->next == NULL)
		processor->ready_last = &thread->next;
	processor->ready_first = thread;
}

/* Makes a thread the next to run: the driver, or a preempted thread. */
static void
processor_put_back(struct sim_processor *processor, struct sim_thread *thread)
{
	if (thread->driver)
		processor->driver_ready = true;
	else
		processor_queue_first(processor, thread);
}

/* Ends or interrupts the work for a thread. */
static void
processor_stop_work(struct xk_sim_host *host)
{
	struct sim_processor *processor = &host->processor;

	host->counts.busy_ns += host->sim->now_ns - processor->busy_since_ns;
	sim_timer_cancel(host->sim, &processor->busy_timer);
	processor->busy = NULL;
}

static void
processor_busy_fire(struct sim_timer *timer)
{
	struct sim_processor *processor = xk_container_of(timer, struct sim_processor, busy_timer);
	struct xk_sim_host *host = xk_container_of(processor, struct xk_sim_host, processor);
	struct sim_thread *thread = processor->busy;

	processor_stop_work(host);
	thread->owed_ns = 0;
	processor_put_back(processor, thread);
	sim_host_ready(host);
}

/* Makes a thread ready to run. The driver preempts a working thread. */
static void
processor_make_ready(struct sim_thread *thread)
{
	struct xk_sim_host *host = thread->host;
	struct sim_processor *processor = &host->processor;
	struct sim_thread *busy = processor->busy;

	thread->waiting = false;
	if (!thread->driver) {
		processor_queue(processor, thread);
	} else {
		processor->driver_ready = true;
		if (busy != NULL && !busy->driver) {
			busy->owed_ns = processor->busy_timer.at_ns - host->sim->now_ns;
			processor_stop_work(host);
			processor_queue_first(processor, busy);
		}
	}
	sim_host_ready(host);
}

/* Ends a thread's wait, and charges the thread for the resumption. */
static void
processor_end_wait(struct sim_thread *thread)
{
	const struct xk_sim_costs *costs = &thread->host->config.costs;

	thread->switches++;
	if (thread->driver) {
		thread->host->counts.driver_wakes++;
		thread->owed_ns += costs->interrupt_ns;
	} else {
		thread->host->counts.thread_switches++;
		thread->owed_ns += costs->thread_switch_ns;
	}
	processor_make_ready(thread);
}

/* An alarm stays set if something else ends the wait, because the next wait often has the same deadline. */
static void
processor_alarm_fire(struct sim_timer *timer)
{
	struct sim_thread *thread = xk_container_of(timer, struct sim_thread, alarm);

	if (thread->waiting)
		processor_end_wait(thread);
}

static struct sim_thread *
processor_pick(struct sim_processor *processor)
{
	struct sim_thread *thread = processor->ready_first;

	if (processor->driver_ready) {
		processor->driver_ready = false;
		return processor->driver;
	}
	if (thread == NULL)
		return NULL;
	processor->ready_first = thread->next;
	if (processor->ready_first == NULL)
		processor->ready_last = &processor->ready_first;
	return thread;
}

/* Keeps the processor busy for the time that the thread owes. Returns false if it owes nothing. */
static bool
processor_pay_debt(struct xk_sim_host *host, struct sim_thread *thread)
{
	struct sim_processor *processor = &host->processor;
	struct xk_sim *sim = host->sim;

	if (processor->frozen)
		thread->owed_ns = 0;
	if (thread->owed_ns == 0)
		return false;
	xk_assert(sim_timer_set(sim, &processor->busy_timer, sim->now_ns + thread->owed_ns) == 0);
	processor->busy = thread;
	processor->busy_since_ns = sim->now_ns;
	return true;
}

static void
thread_free(struct sim_thread *thread)
{
	struct sim_thread **at = &thread->host->processor.threads;

	while (*at != thread)
		at = &(*at)->all_next;
	*at = thread->all_next;
	sim_timer_cancel(thread->host->sim, &thread->alarm);
	xk_fiber_fini(&thread->fiber);
	free(thread);
}

void
sim_processor_run(struct xk_sim_host *host)
{
	struct sim_processor *processor = &host->processor;
	struct xk_sim *sim = host->sim;
	struct sim_thread *thread;

	while (processor->busy == NULL && (thread = processor_pick(processor)) != NULL) {
		if (processor_pay_debt(host, thread))
			return;
		sim->running = thread;
		xk_fiber_run(&thread->fiber, &sim->own);
		sim->running = NULL;
		if (thread->ended && thread->detached)
			thread_free(thread);
	}
}

/* ---- operations of a running thread ---- */

/*
 * Pays the time that the thread owes. If nothing else can happen in that time, the clock simply advances; otherwise the
 * thread leaves the processor, which is busy for that time before the thread resumes.
 */
static void
thread_pay(struct sim_thread *thread)
{
	struct xk_sim_host *host = thread->host;
	struct sim_processor *processor = &host->processor;
	struct xk_sim *sim = host->sim;
	uint64_t until_ns = sim->now_ns + thread->owed_ns;

	if (thread->owed_ns == 0)
		return;
	if ((thread->driver || !processor->driver_ready) && sim_is_quiet_until(sim, until_ns) && !processor->frozen) {
		host->counts.busy_ns += thread->owed_ns;
		thread->owed_ns = 0;
		sim->now_ns = until_ns;
		sim_count_step(sim);
		return;
	}
	processor_put_back(processor, thread);
	xk_fiber_rest(&thread->fiber);
}

static void
thread_wait(struct sim_thread *thread, uint64_t deadline_ns)
{
	struct xk_sim *sim = thread->host->sim;

	thread->waiting = true;
	if (deadline_ns == UINT64_MAX)
		sim_timer_cancel(sim, &thread->alarm);
	else if (thread->alarm.place == 0 || thread->alarm.at_ns != deadline_ns)
		xk_assert(sim_timer_set(sim, &thread->alarm, deadline_ns) == 0);
	xk_fiber_rest(&thread->fiber);
}

void
sim_processor_charge(struct xk_sim_host *host, uint64_t ns)
{
	struct sim_thread *thread = host->sim->running;

	if (thread == NULL || ns == 0)
		return;
	thread->owed_ns += ns;
	if (thread->driver)
		thread_pay(thread);
}

void
sim_processor_freeze(struct xk_sim_host *host)
{
	struct sim_processor *processor = &host->processor;
	struct sim_thread *busy = processor->busy;

	processor->frozen = true;
	if (busy != NULL) {
		processor_stop_work(host);
		processor_put_back(processor, busy);
	}
	/* Time stands still for a frozen host, so timed waits would never end. */
	for (struct sim_thread *thread = processor->threads; thread != NULL; thread = thread->all_next)
		if (thread->waiting && thread->alarm.place != 0)
			processor_end_wait(thread);
}

void
sim_processor_init(struct sim_processor *processor)
{
	*processor = (struct sim_processor){ .busy_timer = { .fire = processor_busy_fire,
							     .host = xk_container_of(processor, struct xk_sim_host,
										     processor) } };
	processor->ready_last = &processor->ready_first;
}

/* ---- operations of the platform ---- */

uint64_t
sim_platform_now_ns(struct xk_platform *platform)
{
	struct xk_sim *sim = sim_host_of(platform)->sim;

	return sim->now_ns + (sim->running == NULL ? 0 : sim->running->owed_ns);
}

void
sim_platform_sleep(struct xk_platform *platform, uint64_t deadline_ns)
{
	struct xk_sim_host *host = sim_host_of(platform);
	struct sim_thread *driver = host->processor.driver;

	thread_pay(driver);
	if (!host->processor.woken)
		thread_wait(driver, deadline_ns);
	host->processor.woken = false;
}

void
sim_platform_wake(struct xk_platform *platform)
{
	struct xk_sim_host *host = sim_host_of(platform);
	struct sim_thread *driver = host->processor.driver;

	host->processor.woken = true;
	if (driver != NULL && driver->waiting)
		processor_end_wait(driver);
}

void
sim_platform_work(struct xk_platform *platform, uint64_t work_ns)
{
	struct xk_sim_host *host = sim_host_of(platform);
	struct sim_thread *thread = host->sim->running;

	if (thread == NULL)
		return;
	thread->owed_ns += work_ns;
	thread_pay(thread);
}

void
sim_platform_stack_switched(struct xk_platform *platform)
{
	struct xk_sim_host *host = sim_host_of(platform);

	sim_processor_charge(host, host->config.costs.stack_switch_ns);
}

/* ---- threads ---- */

static void
thread_main(void *argument)
{
	struct sim_thread *thread = argument;

	thread->body(thread->argument);
	thread->ended = true;
	xk_fiber_rest(&thread->fiber);
	xk_assert(!"an ended thread does not run");
}

static int
thread_start(struct xk_platform *platform, void (*body)(void *argument), void *argument, bool driver, bool detached,
	     void **name)
{
	struct xk_sim_host *host = sim_host_of(platform);
	struct sim_thread *thread = calloc(1, sizeof(*thread));

	if (thread == NULL)
		return -EAGAIN;
	thread->host = host;
	thread->body = body;
	thread->argument = argument;
	thread->driver = driver;
	thread->detached = detached;
	thread->alarm = (struct sim_timer){ .fire = processor_alarm_fire, .host = host };
	if (xk_fiber_init(&thread->fiber, SIM_STACK, thread_main, thread) != 0) {
		free(thread);
		return -EAGAIN;
	}
	thread->all_next = host->processor.threads;
	host->processor.threads = thread;
	if (driver)
		host->processor.driver = thread;
	*name = thread;
	processor_make_ready(thread);
	return 0;
}

static void
thread_nap(struct xk_platform *platform, uint64_t nap_ns)
{
	struct xk_sim_host *host = sim_host_of(platform);
	struct xk_sim *sim = host->sim;
	struct sim_thread *thread = sim->running;
	bool frozen = host->processor.frozen;

	if (thread != NULL && frozen) {
		processor_queue(&host->processor, thread);
		xk_fiber_rest(&thread->fiber);
	} else if (thread != NULL) {
		thread_pay(thread);
		thread_wait(thread, sim->now_ns + nap_ns);
	} else if (!frozen && !sim->stepping) {
		xk_sim_run(sim, sim->now_ns + nap_ns);
	} else {
		/*
		 * No time can pass within a step in which a host crashes or its boot fails: its threads run without
		 * taking time.
		 */
		sim_processor_freeze(host);
		sim_processor_run(host);
		host->processor.frozen = frozen;
	}
}

static void
thread_join(struct xk_platform *platform, void *name)
{
	struct sim_thread *thread = name;

	while (!thread->ended)
		thread_nap(platform, 1000);
	if (thread->driver)
		thread->host->processor.driver = NULL;
	thread_free(thread);
}

static void
thread_adopt(struct xk_platform *platform, struct xk_context *context)
{
	xk_fiber_adopt(&sim_host_of(platform)->sim->running->fiber, context);
}

static bool
thread_lacks_token(void *token)
{
	return ((const struct xk_token *)token)->posted == 0;
}

/*
 * Waits for a post. The thread that runs the world waits by running it, and must not wait without a deadline for a post
 * that never comes. Any other thread whose deadline has passed lets a ready thread run first.
 */
static void
thread_wait_for(struct xk_platform *platform, struct xk_token *token, uint64_t deadline_ns)
{
	struct xk_sim *sim = sim_host_of(platform)->sim;
	struct sim_thread *thread = sim->running;

	if (thread != NULL)
		thread_pay(thread);
	if (thread != NULL && deadline_ns <= sim->now_ns) {
		if (thread->host->processor.ready_first != NULL) {
			processor_end_wait(thread);
			xk_fiber_rest(&thread->fiber);
		}
	} else if (token->posted == 0 && thread != NULL) {
		token->waiter = thread;
		thread_wait(thread, deadline_ns);
		token->waiter = NULL;
	} else if (token->posted == 0) {
		bool posted = xk_sim_run_while(sim, deadline_ns, thread_lacks_token, token);

		xk_assert(posted || deadline_ns != UINT64_MAX);
	}
	if (token->posted > 0)
		token->posted--;
}

static void
thread_post(struct xk_platform *platform, struct xk_token *token)
{
	struct sim_thread *thread = token->waiter;

	(void)platform;
	token->posted++;
	if (thread != NULL && thread->waiting)
		processor_end_wait(thread);
}

static uint64_t
thread_switches(struct xk_platform *platform, const void *name)
{
	const struct sim_thread *thread = name;

	(void)platform;
	return thread->switches;
}

const struct xk_thread_ops sim_thread_ops = {
	.start = thread_start,
	.join = thread_join,
	.adopt = thread_adopt,
	.wait = thread_wait_for,
	.post = thread_post,
	.nap = thread_nap,
	.switches = thread_switches,
};
