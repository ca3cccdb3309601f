/*
 * transmit.c - sends frames to devices, in the order in which they were pushed, unless both device and queue are full.
 *
 * A driver collects the frames pushed in its context and sends them once per turn, without atomics: it holds the
 * transmit of its own lanes as long as it is awake. Other threads, and drivers without a lane of the device, put frames
 * into a bounded queue and drain it if transmit is free; the driver's next frames follow them there. Each holder checks
 * the queue again after releasing transmit, so that no frame is left behind. The lane's driver, which is woken for this,
 * tries again to send frames that a full device did not take.
 */
#include <errno.h>
#include <sched.h>

#include "xkernel/engine/engine.h"

enum {
	TRANSMIT_THREAD_NAP_NS = 50 * 1000, /* first nap of a thread that finds the queue full; doubles each time */
	TRANSMIT_THREAD_TRIES = 8,          /* 13 ms in all */
};

static bool
transmit_try_hold(struct xk_transmit *transmit)
{
	return atomic_exchange_explicit(&transmit->held, 1, memory_order_seq_cst) == 0;
}

static bool
transmit_is_wanted(struct xk_transmit *transmit)
{
	return atomic_load_explicit(&transmit->wanted, memory_order_seq_cst);
}

/* For threads other than the owning driver, to which they yield: a steady stream of pushes would starve it. */
static bool
transmit_try_help(struct xk_transmit *transmit)
{
	return !transmit_is_wanted(transmit) && transmit_try_hold(transmit);
}

/* Returns whether frames wait in the queue. */
static bool
transmit_is_behind(struct xk_transmit *transmit)
{
	return atomic_load_explicit(&transmit->queued, memory_order_seq_cst) > 0;
}

/* Sends what the device takes of the batch; the rest moves to its front. */
static inline void
transmit_send_batch(struct xk_port *port)
{
	struct xk_transmit *transmit = port->transmit;
	unsigned sent = port->ops->transmit(port, transmit->batch, transmit->count);

	xk_debug_assert(sent <= transmit->count);
	xk_bump(&port->frames_out, sent);
	transmit->count -= sent;
	for (unsigned i = 0; xk_unlikely(i < transmit->count); i++)
		transmit->batch[i] = transmit->batch[sent + i];
}

/* Moves frames from the queue to the end of the batch, as many as fit. Holding transmit. */
__attribute__((noinline)) static void
transmit_collect(struct xk_transmit *transmit)
{
	xk_spin_lock(&transmit->lock);
	while (transmit->count < XK_ARRAY_LENGTH(transmit->batch) &&
	       atomic_load_explicit(&transmit->queued, memory_order_relaxed) > 0) {
		struct xk_msg *m = transmit->first;

		transmit->first = m->link;
		if (transmit->first == NULL)
			transmit->last = &transmit->first;
		transmit->batch[transmit->count++] = m;
		atomic_fetch_sub_explicit(&transmit->queued, 1, memory_order_seq_cst);
	}
	xk_spin_unlock(&transmit->lock);
}

/* Also sends what others have queued. Not inlined: sending only the driver's own frames must save few registers. */
__attribute__((noinline)) static void
transmit_send_queued(struct xk_port *port)
{
	struct xk_transmit *transmit = port->transmit;

	do {
		transmit_collect(transmit);
		if (transmit->count == 0)
			return;
		transmit_send_batch(port);
		/* A device that has not taken everything is full; the rest waits for the next turn. */
	} while (transmit_is_behind(transmit) && transmit->count == 0 && !transmit_is_wanted(transmit));
}

void
xk_transmit_send(struct xk_port *port)
{
	struct xk_transmit *transmit = port->transmit;

	if (xk_unlikely(transmit_is_behind(transmit))) {
		transmit_send_queued(port);
		return;
	}
	transmit_send_batch(port);
	if (xk_unlikely(transmit_is_behind(transmit) && transmit->count == 0 && !transmit_is_wanted(transmit)))
		transmit_send_queued(port);
}

void
xk_transmit_acquire(struct xk_port *port)
{
	struct xk_transmit *transmit = port->transmit;

	if (transmit_try_hold(transmit))
		return;
	atomic_store_explicit(&transmit->wanted, true, memory_order_seq_cst);
	while (!transmit_try_hold(transmit))
		sched_yield();
	atomic_store_explicit(&transmit->wanted, false, memory_order_seq_cst);
}

void
xk_transmit_release(struct xk_port *port)
{
	struct xk_transmit *transmit = port->transmit;
	bool stuck;

	do {
		stuck = transmit->count > 0;
		atomic_store_explicit(&transmit->stuck, stuck, memory_order_relaxed);
		atomic_store_explicit(&transmit->held, 0, memory_order_seq_cst);
		if (stuck || !transmit_is_behind(transmit) || !transmit_try_help(transmit))
			break;
		xk_transmit_flush(port);
	} while (true);
	if (stuck)
		xk_driver_wake(transmit->driver);
}

static bool
transmit_enqueue(struct xk_transmit *transmit, struct xk_msg *m)
{
	unsigned queued;
	bool room;

	xk_spin_lock(&transmit->lock);
	queued = atomic_load_explicit(&transmit->queued, memory_order_relaxed);
	room = queued < XK_TRANSMIT_QUEUE;
	if (room) {
		m->link = NULL;
		*transmit->last = m;
		transmit->last = &m->link;
		atomic_store_explicit(&transmit->queued, queued + 1, memory_order_seq_cst);
	}
	xk_spin_unlock(&transmit->lock);
	return room;
}

/* Drains the queue now or, if transmit is held, makes its driver do so. */
static void
transmit_drain(struct xk_port *port)
{
	if (transmit_try_help(port->transmit)) {
		xk_transmit_flush(port);
		xk_transmit_release(port);
	} else {
		xk_driver_wake(port->transmit->driver);
	}
}

static bool
transmit_is_full(const struct xk_transmit *transmit)
{
	return transmit->count == XK_ARRAY_LENGTH(transmit->batch);
}

/* Sends m after what is queued. Holding transmit. Returns false if the device is full: m is still the caller's. */
static inline bool
transmit_send_after(struct xk_port *port, struct xk_msg *m)
{
	struct xk_transmit *transmit = port->transmit;

	if (xk_unlikely(transmit_is_behind(transmit) || transmit_is_full(transmit)))
		xk_transmit_flush(port);
	if (xk_unlikely(transmit_is_behind(transmit) || transmit_is_full(transmit)))
		return false;
	transmit->batch[transmit->count++] = m;
	xk_transmit_send(port);
	return true;
}

/* Sends m if transmit is free and the queue is empty. Returns false if not: m is still the caller's. */
static bool
transmit_at_once(struct xk_port *port, struct xk_msg *m)
{
	struct xk_transmit *transmit = port->transmit;
	bool sends;

	if (atomic_load_explicit(&transmit->held, memory_order_relaxed) != 0 || transmit_is_behind(transmit) ||
	    !transmit_try_help(transmit))
		return false;
	sends = transmit_send_after(port, m);
	xk_transmit_release(port);
	return sends;
}

/* Sends m at once, or through the queue. Not in a driver. */
static int
transmit_queue(struct xk_port *port, struct xk_protocol *owner, struct xk_msg *m)
{
	struct xk_transmit *transmit = port->transmit;

	if (transmit_at_once(port, m))
		return 0;
	for (unsigned tries = 0; !transmit_enqueue(transmit, m); tries++) {
		if (owner->implicit == XK_IMPLICIT_FAIL || tries == TRANSMIT_THREAD_TRIES)
			return -ENOBUFS;
		if (transmit_try_help(transmit)) {
			xk_transmit_flush(port);
			xk_transmit_release(port);
		}
		if (atomic_load_explicit(&transmit->queued, memory_order_relaxed) == XK_TRANSMIT_QUEUE)
			xk_thread_nap(owner->kernel, (uint64_t)TRANSMIT_THREAD_NAP_NS << tries);
	}
	transmit_drain(port);
	return 0;
}

/* Hands self off, so that it can wait on a thread. Returns false if it may not, or if it is still on the driver. */
static bool
transmit_leave_driver(struct xk_protocol *owner, struct xk_shepherd *self)
{
	return owner->implicit != XK_IMPLICIT_FAIL && self->head.locks == 0 && owner->kernel->mode == XK_IPP &&
	       xk_shepherd_handoff(self, XK_HANDOFF_IMPLICIT, NULL) && !xk_on_driver(self);
}

/* Sends m from a driver without a lane of the device: through another's queue or, if that is full, on a thread. */
static int
transmit_beside(struct xk_port *port, struct xk_protocol *owner, struct xk_msg *m, struct xk_shepherd *self)
{
	if (!transmit_enqueue(port->transmit, m)) {
		transmit_drain(port);
		if (transmit_leave_driver(owner, self))
			return transmit_queue(port, owner, m);
		if (!transmit_enqueue(port->transmit, m))
			return -ENOBUFS;
	}
	transmit_drain(port);
	return 0;
}

/*
 * Sends m if the caller is not the driver that owns port's lane, if the driver's batch is full, or if frames are queued:
 * those were pushed before m, perhaps in the same conversation. On failure m is still the caller's.
 *
 * A driver whose batch stays full spins if the graph says so, then hands off and waits on a thread. In a kernel without
 * threads, the shepherd returns to the driver, which has tried once more by then.
 */
static int
transmit_otherwise(struct xk_port *port, struct xk_protocol *owner, struct xk_msg *m)
{
	struct xk_transmit *transmit = port->transmit;
	struct xk_shepherd *self = xk_self();

	if (self == NULL || self->runner != port->runner) {
		struct xk_port *lane = port->lanes[self == NULL ? 0 : self->driver->index];

		if (lane != NULL)
			port = lane;
		transmit = port->transmit;
		if (self == NULL || !xk_on_driver(self))
			return transmit_queue(port, owner, m);
		if (self->runner != port->runner)
			return transmit_beside(port, owner, m, self);
	}
	if (transmit_is_behind(transmit))
		xk_transmit_flush(port);
	if (transmit_is_behind(transmit) && transmit_enqueue(transmit, m)) /* the device is full */
		return 0;
	if (transmit_is_full(transmit))
		transmit_send_batch(port);
	if (transmit_is_full(transmit) && owner->implicit == XK_IMPLICIT_SPIN && !port->platform->virtual_time) {
		uint64_t until_ns = xk_clock(owner->kernel, self->runner) + owner->spin_ns;

		do
			transmit_send_batch(port);
		while (transmit_is_full(transmit) && xk_clock(owner->kernel, self->runner) < until_ns);
	}
	if (transmit_is_full(transmit) && transmit_leave_driver(owner, self))
		return transmit_queue(port, owner, m);
	if (transmit_is_full(transmit))
		return -ENOBUFS;
	transmit->batch[transmit->count++] = m;
	return 0;
}

__attribute__((noinline)) static int
transmit_or_drop(struct xk_port *port, struct xk_protocol *owner, struct xk_msg *m, unsigned full)
{
	int status;

	if (xk_self() == NULL && xk_driver_turns_here(port->transmit->driver) && transmit_send_after(port, m))
		return 0;
	status = transmit_otherwise(port, owner, m);
	if (status != 0)
		xk_drop(owner, m, full);
	return status;
}

int
xk_port_transmit(struct xk_port *port, struct xk_protocol *owner, struct xk_msg *m, unsigned full)
{
	return xk_likely(xk_transmit_add(port, m)) ? 0 : transmit_or_drop(port, owner, m, full);
}

void
xk_transmit_free(struct xk_port *port)
{
	struct xk_transmit *transmit = port->transmit;
	unsigned unsent = 0;

	do {
		unsent += transmit->count;
		for (unsigned i = 0; i < transmit->count; i++)
			xk_msg_free(transmit->batch[i]);
		transmit->count = 0;
		transmit_collect(transmit);
	} while (transmit->count > 0);
	if (unsent > 0)
		xk_trace_kernel(transmit->driver->kernel, "%s: %u frames were not sent before the end: unsent",
				port->name, unsent);
}
