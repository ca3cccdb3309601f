/*
 * driver.c - takes frames from the ports and carries them (IPP) or gives them to the pool (regular).
 *
 * A turn takes at most XK_BURST frames, then resumes the shepherds that are runnable by then (those that become
 * runnable later wait for the next turn and cannot prolong this one), then fires due events. At its end it sends the
 * frames that were pushed and releases retired objects without readers. An idle driver polls or sleeps, by policy.
 * While the input queue is full it takes no frames: overload drops early, in the device.
 *
 * The loop runs on a detachable stack. Every call that carries something may return on another thread because the stack
 * has left the driver meanwhile; the loop checks after each. All state is in struct xk_driver: a stack belongs to one
 * driver for good, so it finds the same state when it comes back.
 *
 * Several drivers run side by side, each with its own lanes, stacks and sleep. The first also serves the only wheel:
 * events fire in one order, and at most one call wakes a sleeper for them.
 */
#include <sched.h>

#include "xkernel/engine/engine.h"

enum {
	DRIVER_CONTROL_NS = 1000 * 1000, /* between two checks of signals and control while polling */
	DRIVER_STUCK_NS = 50 * 1000,     /* before a full device is tried again */
	DRIVER_FRESH_NS = 100 * 1000,    /* approximate age of the last clock reading while messages come */
	DRIVER_POLLS = 8,                /* polls of the ports in an idle turn; a poll costs less than a turn */
};
#define DRIVER_STALLED_NS (1000 * 1000 * 1000ull)
#define DRIVER_NOT_BUSY UINT64_MAX

/* Counts the runnable shepherds. The driver's thread only, like the functions below. */
static unsigned
driver_runnable(struct xk_driver *driver)
{
	return driver->own_runnable + atomic_load_explicit(&driver->runnable, memory_order_seq_cst);
}

/* Makes this turn resume all shepherds that are runnable now; there are some. */
__attribute__((noinline)) static void
driver_plan_resumes(struct xk_driver *driver)
{
	if (atomic_load_explicit(&driver->runnable, memory_order_relaxed) > 0) {
		xk_spin_lock(&driver->lock);
		xk_run_append(&driver->own, &driver->others);
		driver->own_runnable += atomic_exchange_explicit(&driver->runnable, 0, memory_order_relaxed);
		xk_spin_unlock(&driver->lock);
	}
	driver->resumes_left = driver->own_runnable;
}

static void
driver_give_up(struct xk_runner *runner, void *argument)
{
	struct xk_shepherd *shepherd = argument;

	(void)runner;
	shepherd->in_loop = true;
	xk_shepherd_give(shepherd, false);
}

/*
 * Continues with the next runnable shepherd, which must exist. This frees `self`, which was running the driver's loop;
 * if the driver takes that stack again before others do, the loop continues here.
 */
__attribute__((noinline)) static void
driver_resume(struct xk_shepherd *self)
{
	struct xk_driver *driver = self->driver;
	struct xk_shepherd *shepherd = xk_run_pick(&driver->own);

	driver->own_runnable--;
	atomic_fetch_sub_explicit(&self->kernel->busy, 1, memory_order_release);
	xk_shepherd_switch(self->runner, self, shepherd, false, driver_give_up, self);
}

/* ---- messages and events of a turn ---- */

static void
driver_carry(struct xk_shepherd *self, struct xk_driver *driver, unsigned index)
{
	struct xk_kernel *kernel = self->kernel;
	struct xk_port *port = driver->port;
	struct xk_msg *m = driver->burst[index];

	self->load = XK_LOAD_MESSAGE;
	self->head.popped = NULL;
	if (xk_likely(!atomic_load_explicit(&kernel->budgeted, memory_order_relaxed))) {
		if (driver->expects)
			xk_path_deliver_expected(port, m, driver->places[index]);
		else
			xk_deliver(port, m);
	} else {
		self->charged = false;
		self->started_ns = xk_clock(kernel, self->runner);
		xk_deliver(port, m);
		xk_shepherd_charge(self, false);
	}
	xk_debug_let_go(self);
	if (xk_unlikely(self->head.kept != NULL))
		xk_shepherd_is_out(self);
}

/* Fires the next due event, if there is one. */
__attribute__((noinline)) static void
driver_fire(struct xk_shepherd *self)
{
	struct xk_driver *driver = self->driver;
	struct xk_wheel *wheel = self->kernel->wheel;
	struct xk_event *event = xk_wheel_take(wheel, driver->now_ns / 1000);

	if (event == NULL) {
		driver->events_due = false;
		return;
	}
	self->load = XK_LOAD_EVENT;
	xk_shepherd_is_out(self);
	event->handler(event, event->argument);
	xk_debug_let_go(self);
	xk_shepherd_is_out(self);
	xk_wheel_fired(wheel, event);
	if (xk_on_driver(self))
		driver->events_due = xk_wheel_is_due(wheel, driver->now_ns);
}

/* ---- taking frames ---- */

/* Numbers a burst's messages for the trace. */
__attribute__((noinline)) static void
driver_number(struct xk_driver *driver, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		struct xk_msg *m = driver->burst[i];

		m->id = atomic_fetch_add_explicit(&driver->kernel->message_id, 1, memory_order_relaxed) + 1;
		m->flags |= XK_MSG_TRACED;
		xk_trace_taken(driver->kernel, m);
	}
}

/* Takes a burst from the first port that has one, beginning after the port of the last burst. Returns its length. */
static inline unsigned
driver_receive(struct xk_driver *driver, struct xk_kernel *kernel, unsigned room)
{
	struct xk_port *port = driver->port;
	unsigned taken;

	do {
		port = port->around;
		taken = port->ops->receive(port, driver->burst, room);
	} while (taken == 0 && port != driver->port);
	driver->port = port;
	if (taken == 0)
		return 0;
	xk_bump(&port->frames_in, taken);
	if (xk_unlikely(atomic_load_explicit(&kernel->traced, memory_order_relaxed)))
		driver_number(driver, taken);
	return taken;
}

/* Gives the pool a burst, as far as its queue has room. Not inlined: only regular mode does this. */
__attribute__((noinline)) static unsigned
driver_take_for_pool(struct xk_driver *driver)
{
	struct xk_kernel *kernel = driver->kernel;
	unsigned room = xk_pool_room(&kernel->pool, driver), count;

	if (room == 0)
		return 0;
	count = driver_receive(driver, kernel, room < XK_BURST ? room : XK_BURST);
	if (count > 0)
		xk_pool_put(kernel, driver->port, driver->burst, count);
	return count;
}

/* Takes a burst and, in regular mode, gives it to the pool. Returns whether there was one. */
static inline bool
driver_take(struct xk_driver *driver, struct xk_kernel *kernel, enum xk_mode mode)
{
	if (xk_unlikely(driver->port == NULL || atomic_load_explicit(&driver->paused, memory_order_acquire)))
		return false;
	if (mode == XK_REGULAR)
		return driver_take_for_pool(driver) > 0;
	driver->count = driver_receive(driver, kernel, XK_BURST);
	driver->expects = driver->count > 1 && driver->port->paths != NULL &&
			  atomic_load_explicit(&driver->port->unsampled, memory_order_relaxed) == 0 &&
			  xk_path_expect(driver->port, driver->burst, driver->count, driver->places);
	return driver->count > 0;
}

/*
 * Reports that all input threads wait in the middle of a message while more are queued. The first driver to see this
 * notes the time. Any driver that sees it a second later reports it, and again each second.
 */
__attribute__((noinline)) static void
driver_check_stall(struct xk_driver *driver)
{
	struct xk_kernel *kernel = driver->kernel;
	struct xk_pool *pool = &kernel->pool;
	uint64_t since_ns = atomic_load_explicit(&pool->stalled_ns, memory_order_relaxed), now_ns = driver->now_ns;
	bool stalled = pool->threads > 0 &&
		       atomic_load_explicit(&pool->blocked, memory_order_relaxed) >= pool->threads &&
		       atomic_load_explicit(&pool->queued, memory_order_relaxed) > 0;

	if (!stalled) {
		if (since_ns != 0)
			atomic_store_explicit(&pool->stalled_ns, 0, memory_order_relaxed);
		return;
	}
	/* Another driver, whose turn began later, may have written since_ns. */
	if (since_ns != 0 && (now_ns < since_ns || now_ns - since_ns < DRIVER_STALLED_NS))
		return;
	if (!atomic_compare_exchange_strong_explicit(&pool->stalled_ns, &since_ns, now_ns, memory_order_relaxed,
						     memory_order_relaxed) ||
	    since_ns == 0)
		return;
	xk_tally(&kernel->stalled);
	xk_trace_kernel(kernel, "stalled: all %u input threads wait and messages are queued; raise --threads",
			pool->threads);
}

/* ---- waiting ---- */

/* Returns the time by which the driver must be awake again. */
static uint64_t
driver_deadline(const struct xk_driver *driver)
{
	const struct xk_kernel *kernel = driver->kernel;
	uint64_t deadline_ns = UINT64_MAX;

	if (kernel->mode == XK_IPP && driver->index == 0)
		deadline_ns = xk_wheel_next_ns(kernel->wheel);
	else if (kernel->mode == XK_REGULAR && atomic_load_explicit(&kernel->pool.queued, memory_order_relaxed) > 0)
		deadline_ns = driver->now_ns + DRIVER_STALLED_NS;
	for (struct xk_port *port = driver->ports; port != NULL; port = port->beside)
		if (atomic_load_explicit(&port->transmit->stuck, memory_order_relaxed) &&
		    deadline_ns > driver->now_ns + DRIVER_STUCK_NS)
			deadline_ns = driver->now_ns + DRIVER_STUCK_NS;
	if (driver->poll_until_ns > driver->now_ns && deadline_ns > driver->poll_until_ns)
		deadline_ns = driver->poll_until_ns;
	return deadline_ns;
}

/*
 * Returns whether work came before the driver was marked as sleeping: nothing will wake it for that. full: the input
 * queue was full, so the ports do not wake the driver; the pool does, but only if the queue is still full.
 */
static bool
driver_must_stay(struct xk_driver *driver, uint64_t deadline_ns, bool full)
{
	/* A platform's own threads take turns: no other ran since the last check, and an arriving frame calls wake. */
	if (driver->platform->threads != NULL && !full)
		return driver_runnable(driver) > 0 || atomic_load_explicit(&driver->halted, memory_order_relaxed);
	return driver_runnable(driver) > 0 || atomic_load_explicit(&driver->halted, memory_order_seq_cst) ||
	       driver_deadline(driver) < deadline_ns || driver_take(driver, driver->kernel, driver->kernel->mode) ||
	       (full && xk_pool_room(&driver->kernel->pool, driver) > 0);
}

__attribute__((noinline)) static void
driver_sleep(struct xk_driver *driver)
{
	struct xk_kernel *kernel = driver->kernel;
	bool full = kernel->mode == XK_REGULAR && xk_pool_room(&kernel->pool, driver) == 0;
	/* Frames that it may not take must not wake it. It is woken when it may take them again. */
	bool ignores_ports = full || atomic_load_explicit(&driver->paused, memory_order_acquire);
	uint64_t deadline_ns;

	for (struct xk_port *port = driver->ports; port != NULL; port = port->beside) {
		xk_transmit_release(port);
		if (!ignores_ports)
			port->ops->arm(port);
	}
	deadline_ns = driver_deadline(driver);
	atomic_exchange_explicit(&driver->sleeping, 1, memory_order_seq_cst);
	if (!driver_must_stay(driver, deadline_ns, full)) {
		xk_bump(&driver->sleeps, 1);
		/* A sleeping driver reads nothing, nor does its stack, so that others can reclaim. */
		xk_reader_leave(&xk_self()->reader);
		xk_reader_leave(&driver->runner.shepherd.reader);
		atomic_store_explicit(&driver->runner.rests, true, memory_order_relaxed);
		driver->platform->ops->sleep(driver->platform, deadline_ns);
		atomic_store_explicit(&driver->runner.rests, false, memory_order_relaxed);
		xk_reader_enter(&driver->runner.shepherd.reader);
	}
	atomic_store_explicit(&driver->sleeping, 0, memory_order_seq_cst);
	for (struct xk_port *port = driver->ports; port != NULL; port = port->beside) {
		if (!ignores_ports)
			port->ops->disarm(port);
		xk_transmit_acquire(port);
	}
}

/* Polls signals and control, as a sleep would. */
__attribute__((noinline)) static void
driver_serve_control(struct xk_driver *driver)
{
	driver->control_ns = driver->now_ns + DRIVER_CONTROL_NS;
	if (driver->platform->ops->poll_control != NULL)
		driver->platform->ops->poll_control(driver->platform);
}

/* Sleeps or, while the driver is to poll, yields the core if others may need it, or polls the ports some more. */
__attribute__((noinline)) static void
driver_idle(struct xk_driver *driver)
{
	struct xk_kernel *kernel = driver->kernel;
	const struct xk_kernel_config *config = &kernel->config;
	bool polls = config->driver == XK_DRIVER_POLL || driver->now_ns < driver->poll_until_ns ||
		     (config->driver == XK_DRIVER_ADAPTIVE && driver->now_ns - driver->busy_ns < config->adaptive_ns);

	if (atomic_load_explicit(&driver->halted, memory_order_relaxed))
		return;
	if (!polls || driver->platform->virtual_time) {
		driver_sleep(driver);
		return;
	}
	/* Other programs poll on this core, or threads of this kernel work: release transmit for their frames. */
	if (config->yields || atomic_load_explicit(&kernel->busy, memory_order_relaxed) > 0 ||
	    atomic_load_explicit(&kernel->applications, memory_order_relaxed) !=
		    atomic_load_explicit(&kernel->applications_blocked, memory_order_relaxed)) {
		for (struct xk_port *port = driver->ports; port != NULL; port = port->beside)
			xk_transmit_release(port);
		sched_yield();
		for (struct xk_port *port = driver->ports; port != NULL; port = port->beside)
			xk_transmit_acquire(port);
		return;
	}
	if (atomic_load_explicit(&driver->takes_turns, memory_order_relaxed))
		return;
	for (unsigned polled = 1; polled < DRIVER_POLLS && driver_runnable(driver) == 0; polled++)
		if (driver_take(driver, kernel, kernel->mode)) {
			driver->busy_ns = driver->now_ns;
			return;
		}
}

/* ---- the loop ---- */

/*
 * Reads the clock, and checks what depends on it: control and, in IPP mode, events (in regular mode a thread fires
 * them).
 *
 * A reading costs as much as one or two messages cost a protocol. While every turn has messages, the interval between
 * readings therefore doubles, up to a burst, and falls back to one message once an interval takes DRIVER_FRESH_NS.
 */
static void
driver_read_clock(struct xk_driver *driver, struct xk_kernel *kernel)
{
	uint64_t before_ns = driver->now_ns;

	driver->now_ns = xk_clock(kernel, &driver->runner);
	if (driver->now_ns - before_ns >= DRIVER_FRESH_NS || kernel->platform->virtual_time)
		driver->clock_interval = 1;
	else if (driver->clock_interval < XK_BURST)
		driver->clock_interval *= 2;
	driver->clock_left = driver->clock_interval;
	if (xk_unlikely(driver->now_ns >= driver->control_ns))
		driver_serve_control(driver);
	if (kernel->mode == XK_IPP && driver->index == 0 && xk_wheel_is_due(kernel->wheel, driver->now_ns))
		driver->events_due = true;
}

/* Runs the rest of a turn in which the driver itself has no message to carry. */
__attribute__((noinline)) static void
driver_turn_without(struct xk_driver *driver, bool worked)
{
	if (driver->clock_left < driver->clock_interval) {
		driver_read_clock(driver, driver->kernel);
		driver->busy_ns = driver->now_ns;
	}
	driver->clock_left = 0;
	if (!worked && atomic_load_explicit(&driver->paused, memory_order_acquire))
		atomic_store_explicit(&driver->has_paused, true, memory_order_release);
	if (driver_runnable(driver) > 0)
		driver_plan_resumes(driver);
	if (driver->kernel->mode == XK_REGULAR)
		driver_check_stall(driver);
	if (worked || driver->resumes_left > 0 || driver->events_due)
		driver->busy_ns = driver->now_ns;
	else
		driver_idle(driver);
}

static void
driver_turn(struct xk_driver *driver)
{
	struct xk_kernel *kernel = driver->kernel;
	bool worked;

	/* the end of the previous turn */
	for (struct xk_port *port = driver->ports; port != NULL; port = port->beside)
		xk_transmit_flush(port);
	xk_reader_pass(&driver->runner.shepherd.reader);
	if (xk_unlikely(atomic_load_explicit(&kernel->epochs.retired, memory_order_relaxed) > 0)) {
		xk_reader_leave(&xk_self()->reader); /* the stack may have come back from a handoff */
		xk_epochs_reclaim(&kernel->epochs);
	}

	xk_bump(&driver->turns, 1);
	if (driver->clock_left <= 0)
		driver_read_clock(driver, kernel);
	worked = driver_take(driver, kernel, kernel->mode);
	if (xk_unlikely(driver->count == 0)) {
		driver_turn_without(driver, worked);
		return;
	}
	driver->clock_left -= (int)driver->count;
	driver->busy_ns = driver->now_ns;
}

uint64_t
xk_driver_next_ns(struct xk_driver *driver)
{
	bool spins = driver->poll_until_ns > driver->now_ns;

	if (driver->busy_ns != DRIVER_NOT_BUSY || spins || driver_runnable(driver) > 0)
		return 0;
	return driver_deadline(driver);
}

/* Carries the rest of the burst. Returns false if self has left the driver; its next stack then carries the rest. */
static inline bool
driver_carry_burst(struct xk_shepherd *self, struct xk_driver *driver)
{
	while (driver->next < driver->count) {
		driver_carry(self, driver, driver->next++);
		if (xk_unlikely(!xk_on_driver(self)))
			return false;
	}
	driver->next = driver->count = 0;
	if (driver_runnable(driver) > 0)
		driver_plan_resumes(driver);
	return true;
}

/*
 * Returns whether the driver is halted; between a program's turns it rests here. A stopping kernel's driver resumes all
 * shepherds first.
 */
static inline bool
driver_is_to_end(struct xk_shepherd *self, struct xk_driver *driver)
{
	if (xk_likely(!atomic_load_explicit(&driver->halted, memory_order_relaxed)) ||
	    (driver_runnable(driver) > 0 && atomic_load_explicit(&driver->kernel->stopping, memory_order_relaxed)))
		return false;
	if (!atomic_load_explicit(&driver->takes_turns, memory_order_relaxed))
		return true;
	driver->resting = self;
	xk_shepherd_switch(self->runner, self, NULL, false, NULL, NULL);
	/* If the clock stands still, an earlier turn's busy_ns would seem to be this turn's. */
	driver->busy_ns = DRIVER_NOT_BUSY;
	return !atomic_load_explicit(&driver->takes_turns, memory_order_relaxed);
}

void
xk_driver_loop(struct xk_shepherd *self)
{
	struct xk_driver *driver = self->driver;
	bool stays = true;

	while (stays) {
		if (driver->count > 0) {
			stays = driver_carry_burst(self, driver);
		} else if (driver->resumes_left > 0) {
			driver->resumes_left--;
			driver_resume(self);
		} else if (driver->events_due) {
			driver_fire(self);
			stays = xk_on_driver(self);
		} else if (!driver_is_to_end(self, driver)) {
			driver_turn(driver);
		} else {
			return;
		}
	}
}
