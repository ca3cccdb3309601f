/*
 * driver.c - the driver: takes frames from the ports and carries them (IPP) or gives them to the pool (regular).
 *
 * A turn is: at most XK_BURST frames, then the shepherds that were runnable when the turn began, then due events; at
 * its end what was pushed is sent, and what nobody reads any more is released. With nothing to do the driver polls on
 * or sleeps, by policy. Where the input queue is full it takes no frames, so that overload drops early, in the device.
 *
 * The loop runs on a detachable stack, and any of the calls that carry something may return on another thread, the
 * stack having left the driver meanwhile: after each the loop looks whose it is. All state is in struct xk_driver.
 */
#include <sched.h>

#include "xkernel/engine.h"

enum {
	DRIVER_CONTROL_NS = 1000 * 1000, /* while polling, signals and control are looked at this often */
	DRIVER_STUCK_NS = 50 * 1000,     /* a full device is tried again after this */
};
#define DRIVER_STALLED_NS (1000 * 1000 * 1000ull)

void
xk_driver_wake(struct xk_kernel *kernel)
{
	struct xk_driver *driver = &kernel->driver;

	if (atomic_load_explicit(&driver->sleeping, memory_order_seq_cst) != 0 &&
	    atomic_exchange_explicit(&driver->sleeping, 0, memory_order_seq_cst) != 0)
		kernel->platform->ops->wake(kernel->platform);
}

void
xk_driver_run(struct xk_kernel *kernel, struct xk_shepherd *shepherd)
{
	struct xk_driver *driver = &kernel->driver;

	shepherd->next = NULL;
	xk_spin_lock(&driver->lock);
	*driver->run_last = shepherd;
	driver->run_last = &shepherd->next;
	atomic_fetch_add_explicit(&driver->runnable, 1, memory_order_seq_cst);
	xk_spin_unlock(&driver->lock);
	xk_driver_wake(kernel);
}

static struct xk_shepherd *
driver_take_shepherd(struct xk_kernel *kernel)
{
	struct xk_driver *driver = &kernel->driver;
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
driver_runnable(struct xk_kernel *kernel)
{
	return atomic_load_explicit(&kernel->driver.runnable, memory_order_seq_cst);
}

static void
driver_give_up(struct xk_runner *runner, void *argument)
{
	(void)runner;
	xk_shepherd_give(argument);
}

/* Goes on with a shepherd; `self`, on which the driver's loop was, is given up. Returns only if there is none. */
static void
driver_resume(struct xk_shepherd *self)
{
	struct xk_kernel *kernel = self->kernel;
	struct xk_shepherd *shepherd = driver_take_shepherd(kernel);

	if (shepherd == NULL)
		return;
	atomic_fetch_sub_explicit(&kernel->busy, 1, memory_order_release);
	atomic_store_explicit(&shepherd->epoch, atomic_load_explicit(&self->epoch, memory_order_relaxed),
			      memory_order_relaxed);
	xk_shepherd_switch(self->runner, self, shepherd, true, driver_give_up, self);
}

/* ---- what a turn carries ---- */

static void
driver_carry(struct xk_shepherd *self, struct xk_port *port, struct xk_msg *m)
{
	struct xk_kernel *kernel = self->kernel;

	self->load = XK_LOAD_MESSAGE;
	if (xk_likely(!atomic_load_explicit(&kernel->budgeted, memory_order_relaxed))) {
		xk_deliver(port, m);
		return;
	}
	self->charged = false;
	self->started_ns = xk_clock(kernel, self->runner);
	xk_deliver(port, m);
	xk_shepherd_charge(self, false);
}

/* The next due event. False: none is left. */
static bool
driver_fire(struct xk_shepherd *self)
{
	struct xk_kernel *kernel = self->kernel;
	struct xk_event *event = xk_wheel_take(kernel->wheel, kernel->driver.now_ns / 1000);

	if (event == NULL) {
		kernel->driver.events_due = false;
		return false;
	}
	self->load = XK_LOAD_EVENT;
	event->handler(event, event->argument);
	xk_wheel_fired(kernel->wheel, event);
	if (xk_on_driver(self))
		kernel->driver.events_due = xk_wheel_next_us(kernel->wheel) <= kernel->driver.now_ns / 1000;
	return true;
}

/* ---- taking frames ---- */

static void
driver_number(struct xk_kernel *kernel, struct xk_msg *m)
{
	m->id = atomic_fetch_add_explicit(&kernel->message_id, 1, memory_order_relaxed) + 1;
	m->flags |= XK_MSG_TRACED;
}

static void
driver_number_all(struct xk_kernel *kernel, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		driver_number(kernel, kernel->driver.burst[i]);
}

/* Takes a burst from the first port that has one, beginning after the port that had the last. */
static unsigned
driver_receive(struct xk_kernel *kernel, unsigned room)
{
	struct xk_driver *driver = &kernel->driver;
	struct xk_port *first = driver->port, *port = first;
	unsigned taken;

	do {
		port = port->around;
		taken = port->ops->receive(port, driver->burst, room);
	} while (taken == 0 && port != first);
	driver->port = port;
	if (taken == 0)
		return 0;
	xk_bump(&port->frames_in, taken);
	if (xk_unlikely(atomic_load_explicit(&kernel->traced, memory_order_relaxed)))
		driver_number_all(kernel, taken);
	return taken;
}

/* Takes a burst for the pool, as far as its queue has room. */
static unsigned
driver_take_for_pool(struct xk_kernel *kernel)
{
	unsigned room = xk_pool_room(&kernel->pool), count;

	if (room == 0)
		return 0;
	count = driver_receive(kernel, room < XK_BURST ? room : XK_BURST);
	if (count > 0)
		xk_pool_put(kernel, kernel->driver.port, kernel->driver.burst, count);
	return count;
}

/* Takes a burst and, in regular mode, gives it to the pool. Whether there was anything. */
static bool
driver_take(struct xk_kernel *kernel)
{
	struct xk_driver *driver = &kernel->driver;

	if (xk_unlikely(driver->port == NULL || atomic_load_explicit(&driver->paused, memory_order_acquire)))
		return false;
	if (kernel->mode == XK_REGULAR)
		return driver_take_for_pool(kernel) > 0;
	driver->next = 0;
	driver->count = driver_receive(kernel, XK_BURST);
	return driver->count > 0;
}

/* All input threads wait on behalf of what they carry, and more is queued: said once, then once a second. */
static void
driver_look_for_stall(struct xk_kernel *kernel)
{
	struct xk_driver *driver = &kernel->driver;
	struct xk_pool *pool = &kernel->pool;
	bool stalled = pool->threads > 0 &&
		       atomic_load_explicit(&pool->blocked, memory_order_relaxed) >= pool->threads &&
		       atomic_load_explicit(&pool->queued, memory_order_relaxed) > 0;

	if (!stalled) {
		driver->stalled_ns = 0;
	} else if (driver->stalled_ns == 0) {
		driver->stalled_ns = driver->now_ns;
	} else if (driver->now_ns - driver->stalled_ns >= DRIVER_STALLED_NS) {
		driver->stalled_ns = driver->now_ns;
		xk_tally(&kernel->stalled);
		xk_trace_kernel(kernel, "stalled: all %u input threads wait and messages are queued; raise --threads",
				pool->threads);
	}
}

/* ---- waiting ---- */

static bool
driver_is_stuck(struct xk_kernel *kernel)
{
	for (struct xk_port *port = kernel->ports; port != NULL; port = port->next)
		if (atomic_load_explicit(&port->transmit->stuck, memory_order_relaxed))
			return true;
	return false;
}

static uint64_t
driver_deadline(struct xk_kernel *kernel)
{
	struct xk_driver *driver = &kernel->driver;
	uint64_t deadline_ns = UINT64_MAX, next_us;

	if (kernel->mode == XK_IPP) {
		next_us = xk_wheel_next_us(kernel->wheel);
		deadline_ns = next_us < UINT64_MAX / 1000 ? next_us * 1000 : UINT64_MAX;
	} else if (atomic_load_explicit(&kernel->pool.queued, memory_order_relaxed) > 0) {
		deadline_ns = driver->now_ns + DRIVER_STALLED_NS;
	}
	if (driver_is_stuck(kernel) && deadline_ns > driver->now_ns + DRIVER_STUCK_NS)
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
driver_must_stay(struct xk_kernel *kernel, uint64_t deadline_ns, bool full)
{
	struct xk_driver *driver = &kernel->driver;

	/* A platform's own threads take turns: nobody else has done anything, and a frame that came has called wake. */
	if (kernel->platform->threads != NULL && !full)
		return driver_runnable(kernel) > 0 || atomic_load_explicit(&driver->halted, memory_order_relaxed);
	return driver_runnable(kernel) > 0 || atomic_load_explicit(&driver->halted, memory_order_seq_cst) ||
	       driver_deadline(kernel) < deadline_ns || driver_take(kernel) ||
	       (full && xk_pool_room(&kernel->pool) > 0);
}

static void
driver_sleep(struct xk_shepherd *self)
{
	struct xk_kernel *kernel = self->kernel;
	struct xk_driver *driver = &kernel->driver;
	bool full = kernel->mode == XK_REGULAR && xk_pool_room(&kernel->pool) == 0;
	/* Frames that it may not take must not wake it: who lets it take them again does. */
	bool deaf = full || atomic_load_explicit(&driver->paused, memory_order_acquire);
	uint64_t deadline_ns;

	for (struct xk_port *port = kernel->ports; port != NULL; port = port->next) {
		xk_transmit_release(port);
		if (!deaf)
			port->ops->arm(port);
	}
	deadline_ns = driver_deadline(kernel);
	atomic_exchange_explicit(&driver->sleeping, 1, memory_order_seq_cst);
	if (!driver_must_stay(kernel, deadline_ns, full)) {
		xk_bump(&driver->sleeps, 1);
		kernel->platform->ops->sleep(kernel->platform, deadline_ns);
	}
	atomic_store_explicit(&driver->sleeping, 0, memory_order_seq_cst);
	for (struct xk_port *port = kernel->ports; port != NULL; port = port->next) {
		if (!deaf)
			port->ops->disarm(port);
		xk_transmit_acquire(port);
	}
}

static bool
driver_polls(struct xk_kernel *kernel)
{
	struct xk_driver *driver = &kernel->driver;

	if (kernel->platform->virtual_time)
		return false;
	if (driver->now_ns < driver->poll_until_ns)
		return true;
	switch (kernel->config.driver) {
	case XK_DRIVER_POLL:
		return true;
	case XK_DRIVER_ADAPTIVE:
		return driver->now_ns - driver->busy_ns < kernel->config.adaptive_ns;
	default:
		return false;
	}
}

/* What a sleep would serve too; a driver that is never idle serves it as well. */
static void
driver_poll_control(struct xk_kernel *kernel)
{
	struct xk_driver *driver = &kernel->driver;

	if (driver->now_ns < driver->control_ns || kernel->platform->ops->poll_control == NULL)
		return;
	driver->control_ns = driver->now_ns + DRIVER_CONTROL_NS;
	kernel->platform->ops->poll_control(kernel->platform);
}

static void
driver_idle(struct xk_shepherd *self)
{
	struct xk_kernel *kernel = self->kernel;

	if (!driver_polls(kernel))
		driver_sleep(self);
	else if (kernel->config.yields)
		sched_yield();
}

/* ---- the loop ---- */

static void
driver_end_turn(struct xk_shepherd *self)
{
	struct xk_kernel *kernel = self->kernel;

	for (struct xk_port *port = kernel->ports; port != NULL; port = port->next)
		xk_transmit_flush(port);
	xk_epoch_pass(self);
	if (xk_unlikely(atomic_load_explicit(&kernel->retired, memory_order_relaxed) > 0))
		xk_epoch_reclaim(kernel);
}

/* A kernel that stops ends the driver when nobody needs it any more. */
static bool
driver_is_done(struct xk_kernel *kernel)
{
	if (atomic_load_explicit(&kernel->driver.halted, memory_order_relaxed))
		return !atomic_load_explicit(&kernel->stopping, memory_order_relaxed) || driver_runnable(kernel) == 0;
	return atomic_load_explicit(&kernel->stopping, memory_order_relaxed) && !kernel->driver.started &&
	       atomic_load_explicit(&kernel->busy, memory_order_acquire) == 0 &&
	       atomic_load_explicit(&kernel->parked, memory_order_acquire) == 0;
}

static void
driver_turn(struct xk_shepherd *self)
{
	struct xk_kernel *kernel = self->kernel;
	struct xk_driver *driver = &kernel->driver;
	bool worked;

	driver_end_turn(self);
	xk_bump(&driver->turns, 1);
	driver->now_ns = xk_clock(kernel, self->runner);
	driver_poll_control(kernel);
	worked = driver_take(kernel);
	if (!worked && xk_unlikely(atomic_load_explicit(&driver->paused, memory_order_acquire)))
		atomic_store_explicit(&driver->has_paused, true, memory_order_release);
	driver->resumes_left = driver_runnable(kernel);
	if (kernel->mode == XK_IPP)
		driver->events_due = xk_wheel_next_us(kernel->wheel) <= driver->now_ns / 1000;
	else
		driver_look_for_stall(kernel);
	if (worked || driver->resumes_left > 0 || driver->events_due) {
		driver->busy_ns = driver->now_ns;
		return;
	}
	driver_idle(self);
}

void
xk_driver_loop(struct xk_shepherd *self)
{
	struct xk_driver *driver = &self->kernel->driver;

	while (xk_on_driver(self)) {
		if (driver->next < driver->count) {
			driver_carry(self, driver->port, driver->burst[driver->next++]);
		} else if (driver->resumes_left > 0) {
			driver->resumes_left--;
			driver_resume(self);
		} else if (driver->events_due) {
			driver_fire(self);
		} else if (driver_is_done(self->kernel)) {
			return;
		} else {
			driver_turn(self);
		}
	}
}
