/*
 * driver.c - the driver: takes frames from the ports and carries them (IPP) or gives them to the pool (regular).
 *
 * A turn is: at most XK_BURST frames, then the shepherds that are runnable after them (or become so later: in the next turn,
 * so that they cannot prolong this one), then due events; at its end what was pushed is sent, and what nobody reads any more
 * is released. With nothing to do the driver polls on or sleeps, by policy. Where the input queue is full it takes no frames,
 * so that overload drops early, in the device.
 *
 * The loop runs on a detachable stack, and any of the calls that carry something may return on another thread, the
 * stack having left the driver meanwhile: after each the loop looks whose it is. All state is in struct xk_driver. A
 * stack is one driver's for good, so the state is the same one when it comes back.
 *
 * Several drivers do all of this side by side, each with its own lanes, stacks and sleep. What there is one of, the first
 * serves: the wheel, so that events fire in one order and a sleeper is woken for them by at most one call.
 */
#include <sched.h>

#include "xkernel/engine/engine.h"

enum {
	DRIVER_CONTROL_NS = 1000 * 1000, /* while polling, signals and control are looked at this often */
	DRIVER_STUCK_NS = 50 * 1000,     /* a full device is tried again after this */
	DRIVER_FRESH_NS = 100 * 1000,    /* while messages come, how old the clock's last reading may be, about */
};
#define DRIVER_STALLED_NS (1000 * 1000 * 1000ull)
#define DRIVER_NOT_BUSY UINT64_MAX

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

	shepherd->next = NULL;
	xk_spin_lock(&driver->lock);
	*driver->run_last = shepherd;
	driver->run_last = &shepherd->next;
	atomic_fetch_add_explicit(&driver->runnable, 1, memory_order_seq_cst);
	xk_spin_unlock(&driver->lock);
	xk_driver_wake(driver);
}

static struct xk_shepherd *
driver_take_shepherd(struct xk_driver *driver)
{
	struct xk_shepherd *shepherd;

	xk_spin_lock(&driver->lock);
	shepherd = driver->run_first;
	if (shepherd != NULL) {
		driver->run_first = shepherd->next;
		if (driver->run_first == NULL)
			driver->run_last = &driver->run_first;
		atomic_fetch_sub_explicit(&driver->runnable, 1, memory_order_relaxed);
	}
	xk_spin_unlock(&driver->lock);
	return shepherd;
}

static unsigned
driver_runnable(struct xk_driver *driver)
{
	return atomic_load_explicit(&driver->runnable, memory_order_seq_cst);
}

static void
driver_give_up(struct xk_runner *runner, void *argument)
{
	struct xk_shepherd *shepherd = argument;

	(void)runner;
	shepherd->in_loop = true;
	xk_shepherd_give(shepherd);
}

/*
 * Goes on with a shepherd, if there is one. `self`, on which the driver's loop was, is free then; where the driver takes it
 * again before others do, the loop goes on here.
 */
__attribute__((noinline)) static void
driver_resume(struct xk_shepherd *self)
{
	struct xk_shepherd *shepherd = driver_take_shepherd(self->driver);

	if (shepherd == NULL)
		return;
	atomic_fetch_sub_explicit(&self->kernel->busy, 1, memory_order_release);
	xk_reader_bring_back(&shepherd->reader, &self->driver->runner.shepherd.reader);
	xk_shepherd_switch(self->runner, self, shepherd, false, driver_give_up, self);
}

/* ---- what a turn carries ---- */

static void
driver_carry(struct xk_shepherd *self, struct xk_port *port, struct xk_msg *m)
{
	struct xk_kernel *kernel = self->kernel;

	self->load = XK_LOAD_MESSAGE;
	self->head.popped = NULL;
	if (xk_likely(!atomic_load_explicit(&kernel->budgeted, memory_order_relaxed))) {
		xk_deliver(port, m);
	} else {
		self->charged = false;
		self->started_ns = xk_clock(kernel, self->runner);
		xk_deliver(port, m);
		xk_shepherd_charge(self, false);
	}
	if (xk_unlikely(self->head.kept != NULL))
		xk_shepherd_is_out(self);
}

/* The next due event. False: none is left. */
__attribute__((noinline)) static bool
driver_fire(struct xk_shepherd *self)
{
	struct xk_driver *driver = self->driver;
	struct xk_wheel *wheel = self->kernel->wheel;
	struct xk_event *event = xk_wheel_take(wheel, driver->now_ns / 1000);

	if (event == NULL) {
		driver->events_due = false;
		return false;
	}
	self->load = XK_LOAD_EVENT;
	xk_shepherd_is_out(self);
	event->handler(event, event->argument);
	xk_shepherd_is_out(self);
	xk_wheel_fired(wheel, event);
	if (xk_on_driver(self))
		driver->events_due = xk_wheel_is_due(wheel, driver->now_ns);
	return true;
}

/* ---- taking frames ---- */

static void
driver_number(struct xk_kernel *kernel, struct xk_msg *m)
{
	m->id = atomic_fetch_add_explicit(&kernel->message_id, 1, memory_order_relaxed) + 1;
	m->flags |= XK_MSG_TRACED;
}

__attribute__((noinline)) static void
driver_number_all(struct xk_driver *driver, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		driver_number(driver->kernel, driver->burst[i]);
}

/* Takes a burst from the first port that has one, beginning after the port that had the last. */
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
		driver_number_all(driver, taken);
	return taken;
}

/* Takes a burst for the pool, as far as its queue has room. Apart, as what only regular mode does. */
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

/* Takes a burst and, in regular mode, gives it to the pool. Whether there was anything. */
static inline bool
driver_take(struct xk_driver *driver, struct xk_kernel *kernel, enum xk_mode mode)
{
	if (xk_unlikely(driver->port == NULL || atomic_load_explicit(&driver->paused, memory_order_acquire)))
		return false;
	if (mode == XK_REGULAR)
		return driver_take_for_pool(driver) > 0;
	driver->count = driver_receive(driver, kernel, XK_BURST);
	return driver->count > 0;
}

/*
 * All input threads wait on behalf of what they carry, and more is queued: said once, then once a second, by whichever
 * driver is the first to see it.
 */
__attribute__((noinline)) static void
driver_look_for_stall(struct xk_driver *driver)
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
	/* Another driver's turn may have begun later. */
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

static bool
driver_is_stuck(const struct xk_driver *driver)
{
	for (struct xk_port *port = driver->ports; port != NULL; port = port->beside)
		if (atomic_load_explicit(&port->transmit->stuck, memory_order_relaxed))
			return true;
	return false;
}

static bool
driver_serves_wheel(const struct xk_driver *driver)
{
	return driver->index == 0;
}

static uint64_t
driver_deadline(const struct xk_driver *driver)
{
	const struct xk_kernel *kernel = driver->kernel;
	uint64_t deadline_ns = UINT64_MAX;

	if (kernel->mode == XK_IPP && driver_serves_wheel(driver))
		deadline_ns = xk_wheel_next_ns(kernel->wheel);
	else if (kernel->mode == XK_REGULAR && atomic_load_explicit(&kernel->pool.queued, memory_order_relaxed) > 0)
		deadline_ns = driver->now_ns + DRIVER_STALLED_NS;
	if (driver_is_stuck(driver) && deadline_ns > driver->now_ns + DRIVER_STUCK_NS)
		deadline_ns = driver->now_ns + DRIVER_STUCK_NS;
	if (driver->poll_until_ns > driver->now_ns && deadline_ns > driver->poll_until_ns)
		deadline_ns = driver->poll_until_ns;
	return deadline_ns;
}

/*
 * Whether something came up that the driver, now marked as sleeping, would not be woken for. full: the input queue was,
 * so the ports do not wake it; the pool does, but only from a queue that is full still.
 */
static bool
driver_must_stay(struct xk_driver *driver, uint64_t deadline_ns, bool full)
{
	/* A platform's own threads take turns: nobody else has done anything, and a frame that came has called wake. */
	if (driver->platform->threads != NULL && !full)
		return driver_runnable(driver) > 0 || atomic_load_explicit(&driver->halted, memory_order_relaxed);
	return driver_runnable(driver) > 0 || atomic_load_explicit(&driver->halted, memory_order_seq_cst) ||
	       driver_deadline(driver) < deadline_ns || driver_take(driver, driver->kernel, driver->kernel->mode) ||
	       (full && xk_pool_room(&driver->kernel->pool, driver) > 0);
}

/* A driver that sleeps reads nothing, so that the others can reclaim. */
static void
driver_rest(struct xk_driver *driver, uint64_t deadline_ns)
{
	xk_bump(&driver->sleeps, 1);
	xk_reader_leave(&driver->runner.shepherd.reader);
	driver->platform->ops->sleep(driver->platform, deadline_ns);
	xk_reader_enter(&driver->runner.shepherd.reader);
}

__attribute__((noinline)) static void
driver_sleep(struct xk_driver *driver)
{
	struct xk_kernel *kernel = driver->kernel;
	bool full = kernel->mode == XK_REGULAR && xk_pool_room(&kernel->pool, driver) == 0;
	/* Frames that it may not take must not wake it: who lets it take them again does. */
	bool deaf = full || atomic_load_explicit(&driver->paused, memory_order_acquire);
	uint64_t deadline_ns;

	for (struct xk_port *port = driver->ports; port != NULL; port = port->beside) {
		xk_transmit_release(port);
		if (!deaf)
			port->ops->arm(port);
	}
	deadline_ns = driver_deadline(driver);
	atomic_exchange_explicit(&driver->sleeping, 1, memory_order_seq_cst);
	if (!driver_must_stay(driver, deadline_ns, full))
		driver_rest(driver, deadline_ns);
	atomic_store_explicit(&driver->sleeping, 0, memory_order_seq_cst);
	for (struct xk_port *port = driver->ports; port != NULL; port = port->beside) {
		if (!deaf)
			port->ops->disarm(port);
		xk_transmit_acquire(port);
	}
}

static bool
driver_polls(const struct xk_driver *driver)
{
	const struct xk_kernel_config *config = &driver->kernel->config;

	if (driver->platform->virtual_time)
		return false;
	if (driver->now_ns < driver->poll_until_ns)
		return true;
	switch (config->driver) {
	case XK_DRIVER_POLL:
		return true;
	case XK_DRIVER_ADAPTIVE:
		return driver->now_ns - driver->busy_ns < config->adaptive_ns;
	default:
		return false;
	}
}

/* Now and then, and in a single turn, which ends with what it has then. */
__attribute__((noinline)) static void
driver_serve_control(struct xk_driver *driver)
{
	driver->control_ns = driver->now_ns + DRIVER_CONTROL_NS;
	if (driver->takes_turn)
		atomic_store_explicit(&driver->halted, true, memory_order_relaxed);
	if (driver->platform->ops->poll_control != NULL)
		driver->platform->ops->poll_control(driver->platform);
}

/* What a sleep would serve too; a driver that is never idle serves it as well. */
static void
driver_poll_control(struct xk_driver *driver)
{
	if (xk_unlikely(driver->now_ns >= driver->control_ns))
		driver_serve_control(driver);
}

/* Others poll on this core, or threads of the kernel, which may have the same one, have something to do. */
static bool
driver_is_in_the_way(const struct xk_driver *driver)
{
	const struct xk_kernel *kernel = driver->kernel;

	return kernel->config.yields || atomic_load_explicit(&kernel->busy, memory_order_relaxed) > 0 ||
	       atomic_load_explicit(&kernel->applications, memory_order_relaxed) !=
		       atomic_load_explicit(&kernel->applications_blocked, memory_order_relaxed);
}

/* Others go first; what they send meanwhile need not wait for this driver. */
static void
driver_give_way(struct xk_driver *driver)
{
	for (struct xk_port *port = driver->ports; port != NULL; port = port->beside)
		xk_transmit_release(port);
	sched_yield();
	for (struct xk_port *port = driver->ports; port != NULL; port = port->beside)
		xk_transmit_acquire(port);
}

__attribute__((noinline)) static void
driver_idle(struct xk_driver *driver)
{
	if (atomic_load_explicit(&driver->halted, memory_order_relaxed))
		return;
	if (!driver_polls(driver))
		driver_sleep(driver);
	else if (driver_is_in_the_way(driver))
		driver_give_way(driver);
}

/* ---- the loop ---- */

static void
driver_end_turn(struct xk_driver *driver, struct xk_kernel *kernel)
{
	for (struct xk_port *port = driver->ports; port != NULL; port = port->beside)
		xk_transmit_flush(port);
	xk_reader_pass(&driver->runner.shepherd.reader);
	if (xk_unlikely(atomic_load_explicit(&kernel->epochs.retired, memory_order_relaxed) > 0))
		xk_epochs_reclaim(&kernel->epochs);
}

/* A kernel that stops ends a driver when nobody needs it any more. */
static bool
driver_is_done(struct xk_driver *driver)
{
	return atomic_load_explicit(&driver->halted, memory_order_relaxed) &&
	       (!atomic_load_explicit(&driver->kernel->stopping, memory_order_relaxed) || driver_runnable(driver) == 0);
}

/*
 * Reading the clock takes as long as a protocol takes for a message, or two. While every turn has messages it is read after as
 * many as were quick together before: twice as many each time, up to what one turn may carry, and one when they took longer.
 * What the clock decides is looked at: control, and in IPP mode events (in regular mode others fire them).
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
	driver_poll_control(driver);
	if (kernel->mode == XK_IPP && driver_serves_wheel(driver) && xk_wheel_is_due(kernel->wheel, driver->now_ns))
		driver->events_due = true;
}

/* A turn without a message that is the driver's to carry. */
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
	driver->resumes_left = driver_runnable(driver);
	if (driver->kernel->mode == XK_REGULAR)
		driver_look_for_stall(driver);
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

	driver_end_turn(driver, kernel);
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

void
xk_driver_take_turn(struct xk_driver *driver)
{
	driver->takes_turn = true;
	driver->clock_left = 0; /* the clock is read */
	driver->control_ns = 0;
	/* Of the turns before, what they did must not be taken for this one's, on a clock that stands. */
	driver->busy_ns = DRIVER_NOT_BUSY;
}

uint64_t
xk_driver_next_ns(struct xk_driver *driver)
{
	bool spins = driver->poll_until_ns > driver->now_ns;

	if (driver->busy_ns != DRIVER_NOT_BUSY || spins || driver_runnable(driver) > 0)
		return 0;
	return driver_deadline(driver);
}

/* The rest of the burst. False: self has left the driver, and this is the business of whoever is the driver now. */
static inline bool
driver_carry_burst(struct xk_shepherd *self, struct xk_driver *driver)
{
	while (driver->next < driver->count) {
		driver_carry(self, driver->port, driver->burst[driver->next++]);
		if (xk_unlikely(!xk_on_driver(self)))
			return false;
	}
	driver->next = driver->count = 0;
	driver->resumes_left = driver_runnable(driver);
	return true;
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
		} else if (driver_is_done(driver)) {
			return;
		} else {
			driver_turn(driver);
		}
	}
}
