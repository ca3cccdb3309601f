/*
 * meter.c - counts and times messages as they cross edges, while xk_kernel_count_edges asks for it.
 *
 * Time is exclusive: a shepherd is in one protocol at a time, the one that it crossed into last and has not returned
 * from. The time counts at the edge and in the direction by which it came in. Clock reads cost more than all the rest,
 * so only one of XK_METER_EACH outermost crossings is timed, together with all crossings inside it.
 */
#include "xkernel/engine/engine.h"

/* Adds the time since the last turn to where self was; from here on, time counts at ns (NULL: nowhere). */
static void
meter_turn(struct xk_shepherd *self, _Atomic uint64_t *ns)
{
	struct xk_meter *meter = &self->meter;
	uint64_t now_ns = xk_clock(self->kernel, self->runner);

	if (meter->ns != NULL && now_ns > meter->since_ns)
		atomic_fetch_add_explicit(meter->ns, now_ns - meter->since_ns, memory_order_relaxed);
	meter->ns = ns;
	meter->since_ns = now_ns;
}

void
xk_meter_enter(struct xk_edge *edge, enum xk_direction direction, struct xk_meter_left *left)
{
	struct xk_edge_count *count = &edge->counts[direction];
	uint64_t before = atomic_fetch_add_explicit(&count->messages, 1, memory_order_relaxed);
	struct xk_shepherd *self = xk_self();
	bool is_timed;

	left->self = self;
	left->ns = NULL;
	if (self == NULL)
		return;
	left->ns = self->meter.ns;
	is_timed = self->meter.depth++ == 0 ? before % XK_METER_EACH == 0 : left->ns != NULL;
	if (!is_timed)
		return;
	xk_tally(&count->timed);
	meter_turn(self, &count->ns);
}

void
xk_meter_leave(const struct xk_meter_left *left)
{
	struct xk_shepherd *self = left->self;

	if (left->shown != NULL)
		xk_trace_returned(left->shown, left->direction);
	if (self == NULL)
		return;
	self->meter.depth--;
	if (self->meter.ns != NULL)
		meter_turn(self, left->ns);
}

void
xk_meter_stop(struct xk_shepherd *self)
{
	meter_turn(self, self->meter.ns);
}

void
xk_meter_go(struct xk_shepherd *self)
{
	self->meter.since_ns = xk_clock(self->kernel, self->runner);
}
