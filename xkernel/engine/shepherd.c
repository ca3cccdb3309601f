/*
 * shepherd.c - detachable stacks: taking and giving them, switching, handing off, parking, resuming.
 *
 * The rule behind all of this: a stack becomes visible to others, who may continue on it, only after its thread has
 * switched off it. Every switch may therefore carry an action, which the code switched to performs first.
 *
 * A stack starts in shepherd_main. While it is the driver's, shepherd_main runs the driver's loop, which carries
 * messages. After a handoff the message's end unwinds into the same loop, which sees that the stack has left the driver
 * and returns; shepherd_main then gives the stack back. A driver that resumes a parked shepherd gives up the stack it
 * was on, and the resumed one, once unwound, runs the driver's loop. The driver keeps no state on a stack, so any of
 * them will do.
 */
#include <errno.h>
#include <stdlib.h>

#include "xkernel/engine/engine.h"

#if defined(XK_CONTEXT_ASAN) || defined(XK_CONTEXT_TSAN)
enum { SHEPHERD_STACK = 512 * 1024 };
#else
enum { SHEPHERD_STACK = 128 * 1024 };
#endif

/* A stack that ends on the driver's thread is the driver's last: otherwise the driver would continue on it. */
static void
shepherd_give_after(struct xk_runner *runner, void *argument)
{
	xk_shepherd_give(argument, runner->kind == XK_RUN_DRIVER);
}

static void
shepherd_main(void *argument)
{
	struct xk_shepherd *self = argument;

	xk_shepherd_arrive();
	if (self->application != NULL)
		self->application(self->argument);
	self->application = NULL;
	xk_shepherd_is_out(self);
	if (self->head.locks != 0)
		xk_lock_refuse_end(self);
	if (xk_on_driver(self))
		self->driver->loop(self);
	if (self->head.locks != 0)
		xk_lock_refuse_end(self);
	xk_assert(self->head.holds == NULL && self->head.kept == NULL);
	xk_shepherd_switch(self->runner, self, NULL, true, shepherd_give_after, self);
	xk_assert(!"a stack was continued after it was given back");
}

int
xk_stacks_init(struct xk_driver *driver)
{
	struct xk_kernel *kernel = driver->kernel;
	unsigned count = kernel->config.stacks;

	for (unsigned i = 0; i < count; i++) {
		struct xk_shepherd *shepherd = calloc(1, sizeof(*shepherd));

		if (shepherd == NULL || xk_context_map(&shepherd->context, SHEPHERD_STACK) != 0) {
			free(shepherd);
			return -1;
		}
		shepherd->kernel = kernel;
		shepherd->driver = driver;
		shepherd->head.turn_ns = driver->platform->virtual_time ? NULL : &driver->now_ns;
		shepherd->detachable = true;
		shepherd->number = driver->index * count + count - i;
		xk_reader_add(&kernel->epochs, &shepherd->reader);
		shepherd->next = driver->stacks_free;
		driver->stacks_free = shepherd;
	}
	return 0;
}

void
xk_stacks_fini(struct xk_kernel *kernel)
{
	for (struct xk_reader *reader = kernel->epochs.readers, *next; reader != NULL; reader = next) {
		struct xk_shepherd *s = xk_container_of(reader, struct xk_shepherd, reader);

		next = reader->next;
		if (!s->detachable)
			continue;
		xk_context_unmap(&s->context);
		free(s);
	}
	kernel->epochs.readers = NULL;
}

struct xk_shepherd *
xk_shepherd_take(struct xk_driver *driver, bool spare)
{
	struct xk_shepherd *shepherd;

	xk_spin_lock(&driver->stacks_lock);
	shepherd = driver->stacks_free;
	if (shepherd != NULL && spare && !driver->has_stack && shepherd->next == NULL)
		shepherd = NULL;
	if (shepherd != NULL) {
		driver->stacks_free = shepherd->next;
		driver->has_stack |= !spare;
	}
	xk_spin_unlock(&driver->stacks_lock);
	if (shepherd == NULL)
		return NULL;
	if (!shepherd->in_loop || spare) {
		shepherd->head.holds = NULL;
		shepherd->head.popped = NULL;
		shepherd->charged = false;
		shepherd->load = XK_LOAD_MESSAGE;
		xk_context_prepare(&shepherd->context, shepherd_main, shepherd);
	}
	shepherd->in_loop = false;
	return shepherd;
}

void
xk_shepherd_give(struct xk_shepherd *shepherd, bool driver_ends)
{
	struct xk_driver *driver = shepherd->driver;

	xk_reader_leave(&shepherd->reader);
	shepherd->runner = NULL;
	xk_spin_lock(&driver->stacks_lock);
	shepherd->next = driver->stacks_free;
	driver->stacks_free = shepherd;
	if (driver_ends)
		driver->has_stack = false;
	xk_spin_unlock(&driver->stacks_lock);
}

/* Charges spent_ns to a budget plus *credit_ns, and keeps up to carry_ns as credit. False: it was too much. */
static bool
shepherd_spend(uint64_t budget_ns, uint64_t carry_ns, uint64_t *credit_ns, uint64_t spent_ns)
{
	uint64_t allowed_ns = budget_ns + *credit_ns;

	if (spent_ns > allowed_ns) {
		*credit_ns = 0;
		return false;
	}
	*credit_ns = allowed_ns - spent_ns < carry_ns ? allowed_ns - spent_ns : carry_ns;
	return true;
}

void
xk_shepherd_charge(struct xk_shepherd *self, bool caught)
{
	struct xk_kernel *kernel = self->kernel;
	struct xk_driver *driver = self->driver;
	uint64_t spent_ns;

	if (kernel->budget_ns == 0 || self->load != XK_LOAD_MESSAGE || self->charged || !xk_on_driver(self))
		return;
	self->charged = true;
	spent_ns = xk_clock(kernel, self->runner) - self->started_ns;
	if (!shepherd_spend(kernel->budget_ns, kernel->carry_ns, &driver->credit_ns, spent_ns) && !caught)
		xk_bump(&driver->overruns, 1);
}

/* Returns whether the message has used up the graph's budget and the driver's credit. */
static bool
shepherd_is_over(struct xk_shepherd *self)
{
	uint64_t allowed_ns = self->kernel->budget_ns + self->driver->credit_ns;

	return xk_clock(self->kernel, self->runner) - self->started_ns > allowed_ns;
}

/* Switches to other; the meter is stopped until self continues. */
static inline void
shepherd_switch_away(struct xk_shepherd *self, struct xk_shepherd *other, void (*after)(struct xk_runner *, void *),
		     void *argument)
{
	bool is_timed = self->meter.ns != NULL;

	if (xk_unlikely(is_timed))
		xk_meter_stop(self);
	xk_shepherd_switch(self->runner, self, other, false, after, argument);
	if (xk_unlikely(is_timed))
		xk_meter_go(self);
}

/* Lets the driver continue on another stack. No other thread sees `self` until `after` has run there. */
static inline void
shepherd_leave_driver(struct xk_shepherd *self, struct xk_shepherd *other, void (*after)(struct xk_runner *, void *),
		      void *argument)
{
	struct xk_driver *driver = self->driver;
	struct xk_platform *platform = driver->platform;

	if (xk_unlikely(self->head.locks != 0))
		xk_lock_refuse("leaves the driver");
	for (struct xk_port *port = driver->ports; port != NULL; port = port->beside)
		xk_transmit_flush(port);
	if (platform->ops->stack_switched != NULL)
		platform->ops->stack_switched(platform);
	xk_reader_take_along(&self->reader, &driver->runner.shepherd.reader);
	shepherd_switch_away(self, other, after, argument);
}

static void
shepherd_publish(struct xk_runner *runner, void *argument)
{
	xk_pool_run(runner->kernel, argument);
}

/* Returns whether the session's next message may overtake self's: no session that it is in keeps order. */
static bool
shepherd_may_be_overtaken(const struct xk_shepherd *self)
{
	for (const struct xk_hold *hold = self->head.holds; hold != NULL; hold = hold->below)
		if (hold->session->order != NULL)
			return false;
	return self->head.popped != NULL;
}

/* Counts and traces a handoff: at edge or, if that is NULL, at the edge above the session that self is in. */
static void
shepherd_count(struct xk_shepherd *self, enum xk_handoff_reason reason, struct xk_edge *edge)
{
	struct xk_driver *driver = self->driver;

	if (edge == NULL && self->head.popped != NULL)
		edge = self->head.popped->up;
	xk_tally(&driver->handoffs[reason]);
	if (edge != NULL)
		xk_tally(&edge->handoffs[reason]);
	if (self->load != XK_LOAD_MESSAGE)
		xk_tally(&driver->handoffs_event);
	else if (shepherd_may_be_overtaken(self))
		xk_tally(&driver->overtaken);
	if (xk_unlikely(atomic_load_explicit(&self->kernel->traced, memory_order_relaxed)))
		xk_trace_handoff(self, reason, edge);
}

/* Takes a stack for the driver of a shepherd that leaves it. NULL: there is none. */
static struct xk_shepherd *
shepherd_take_other(struct xk_driver *driver)
{
	struct xk_platform *platform = driver->platform;

	if (platform->ops->stack_is_refused != NULL && platform->ops->stack_is_refused(platform))
		return NULL;
	return xk_shepherd_take(driver, false);
}

bool
xk_shepherd_handoff(struct xk_shepherd *self, enum xk_handoff_reason reason, struct xk_edge *edge)
{
	struct xk_shepherd *other = shepherd_take_other(self->driver);

	if (other == NULL) {
		xk_tally(&self->driver->fallbacks);
		return false;
	}
	atomic_fetch_add_explicit(&self->kernel->busy, 1, memory_order_relaxed);
	xk_shepherd_charge(self, reason == XK_HANDOFF_TIME);
	shepherd_leave_driver(self, other, shepherd_publish, self);
	shepherd_count(self, reason, edge);
	return true;
}

/* Takes references on the sessions that self is popping through, because a waiting shepherd leaves its epoch. */
static void
shepherd_keep_holds(struct xk_shepherd *self)
{
	for (struct xk_hold *hold = self->head.holds; hold != NULL && !hold->referenced; hold = hold->below)
		xk_hold_keep(hold);
	xk_kept_renew(&self->head);
}

void
xk_shepherd_block(struct xk_shepherd *self)
{
	if (xk_unlikely(self->meter.ns != NULL))
		xk_meter_stop(self);
	shepherd_keep_holds(self);
	xk_reader_leave(&self->reader);
}

void
xk_shepherd_unblock(struct xk_shepherd *self)
{
	xk_reader_enter(&self->reader);
	if (xk_unlikely(self->meter.ns != NULL))
		xk_meter_go(self);
}

bool
xk_shepherd_park(struct xk_shepherd *self, void (*after)(struct xk_runner *runner, void *argument), void *argument)
{
	struct xk_driver *driver = self->driver;
	struct xk_shepherd *other = NULL;

	if (xk_on_driver(self)) {
		other = shepherd_take_other(driver);
		if (other == NULL) {
			xk_tally(&driver->no_stack);
			return false;
		}
		/* The message may return with the rest of its budget; if nothing is left, it is charged here. */
		if (self->kernel->budget_ns != 0 && self->load == XK_LOAD_MESSAGE && !self->charged &&
		    shepherd_is_over(self))
			xk_shepherd_charge(self, false);
	}
	shepherd_keep_holds(self);
	xk_tally(&driver->parks);
	if (other == NULL) {
		shepherd_switch_away(self, NULL, after, argument);
	} else {
		shepherd_leave_driver(self, other, after, argument);
		shepherd_count(self, XK_HANDOFF_IMPLICIT, NULL);
	}
	return true;
}

void
xk_shepherd_resume(struct xk_shepherd *shepherd, bool by_driver)
{
	struct xk_kernel *kernel = shepherd->kernel;

	atomic_fetch_add_explicit(&kernel->busy, 1, memory_order_relaxed);
	atomic_fetch_sub_explicit(&kernel->parked, 1, memory_order_relaxed);
	if (by_driver) {
		xk_tally(&shepherd->driver->resumes_driver);
		xk_driver_run(shepherd);
	} else {
		xk_tally(&shepherd->driver->resumes_thread);
		xk_pool_run(kernel, shepherd);
	}
}

bool
xk_handoff(struct xk_protocol *self)
{
	struct xk_shepherd *shepherd = xk_self();

	if (shepherd == NULL || !xk_on_driver(shepherd) || self->kernel->mode != XK_IPP)
		return false;
	return xk_shepherd_handoff(shepherd, XK_HANDOFF_EXPLICIT, NULL);
}

void
xk_checkpoint(struct xk_protocol *self)
{
	struct xk_kernel *kernel = self->kernel;
	struct xk_shepherd *shepherd = xk_self();

	if (shepherd == NULL)
		return;
	/* Application code that holds nothing passes into the current epoch. */
	if (shepherd->load == XK_LOAD_APPLICATION && shepherd->head.holds == NULL) {
		xk_kept_renew(&shepherd->head);
		if (!xk_on_driver(shepherd)) {
			xk_reader_enter(&shepherd->reader);
		} else {
			xk_reader_leave(&shepherd->reader);
			xk_reader_pass(&shepherd->driver->runner.shepherd.reader);
		}
	}
	if (kernel->budget_ns == 0 || !xk_on_driver(shepherd) || shepherd->charged || shepherd->load != XK_LOAD_MESSAGE)
		return;
	if (shepherd_is_over(shepherd))
		xk_shepherd_handoff(shepherd, XK_HANDOFF_TIME, NULL);
}

/* Hands self off if the watched edge that it crosses demands that, or if its budget is used up. */
static void
shepherd_cross(struct xk_shepherd *self, struct xk_edge *edge, unsigned watch)
{
	struct xk_kernel *kernel = self->kernel;
	uint64_t spent_ns;
	bool over;

	if (!xk_on_driver(self) || kernel->mode != XK_IPP)
		return;
	if (watch & XK_WATCH_EXPLICIT) {
		xk_shepherd_handoff(self, XK_HANDOFF_EXPLICIT, edge);
		return;
	}
	if (!(watch & XK_WATCH_BUDGET) || self->charged || self->load != XK_LOAD_MESSAGE)
		return;
	if (edge->budget_ns != 0) {
		spent_ns = xk_clock(kernel, self->runner) - self->started_ns;
		over = !shepherd_spend(edge->budget_ns, edge->carry_ns, &edge->credit_ns[self->driver->index],
				       spent_ns);
	} else {
		over = shepherd_is_over(self);
	}
	if (over)
		xk_shepherd_handoff(self, XK_HANDOFF_TIME, edge);
}

void
xk_cross(struct xk_session *s, struct xk_msg *m, enum xk_direction direction, struct xk_meter_left *left)
{
	struct xk_edge *edge = s->up;
	unsigned watch = atomic_load_explicit(&edge->watch, memory_order_relaxed);

	if (direction == XK_UP && watch & (XK_WATCH_EXPLICIT | XK_WATCH_BUDGET))
		shepherd_cross(xk_self(), edge, watch);
	if (watch & (XK_WATCH_TRACE | XK_WATCH_SINK))
		xk_trace_crossing(s, m, direction);
	if (watch & XK_WATCH_OWNER && direction == XK_UP)
		xk_msg_cross(m, s->protocol, edge->upper, XK_UP);
	else if (watch & XK_WATCH_OWNER)
		xk_msg_cross(m, edge->upper, s->protocol, XK_DOWN);
	left->self = NULL;
	left->shown = watch & XK_WATCH_SINK ? edge : NULL;
	left->direction = direction;
	if (watch & XK_WATCH_COUNT)
		xk_meter_enter(edge, direction, left);
}

/* A message too short for its header is traced and counted as crossing, then dropped. */
void
xk_demux_slow(struct xk_session *s, struct xk_msg *m)
{
	struct xk_protocol *self = xk_hlp_receive(s);
	struct xk_meter_left left = { .self = NULL };

	if (xk_edge_watched(s->up, XK_WATCH_ANY))
		xk_cross(s, m, XK_UP, &left);
	if (xk_header_gather(self, &m) == 0)
		self->ops->demux(self, s, m);
	xk_meter_leave(&left);
}

int
xk_push_slow(struct xk_session *s, struct xk_msg *m)
{
	struct xk_meter_left left;
	int result;

	xk_cross(s, m, XK_DOWN, &left);
	result = s->ops->push(s, m);
	xk_meter_leave(&left);
	return result;
}

int
xk_call_demux_slow(struct xk_session *s, struct xk_msg *m, struct xk_msg **reply)
{
	struct xk_protocol *hlp = xk_hlp_receive(s);
	struct xk_meter_left left = { .self = NULL };
	int result = -EOPNOTSUPP;

	if (xk_edge_watched(s->up, XK_WATCH_ANY))
		xk_cross(s, m, XK_UP, &left);
	if (hlp->ops->call_demux == NULL)
		xk_drop(hlp, m, XK_DROP_UNEXPECTED);
	else if ((result = xk_header_gather(hlp, &m)) == 0)
		result = hlp->ops->call_demux(hlp, s, m, reply);
	if (result == 0) {
		xk_msg_disown(*reply);
		if (*reply != NULL && xk_edge_watched(s->up, XK_WATCH_SINK))
			xk_trace_replied(s, *reply, XK_DOWN);
	}
	xk_meter_leave(&left);
	return result;
}
