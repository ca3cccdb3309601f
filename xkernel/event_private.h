/* event_private.h - the event wheel (event.c): the engine's side of event.h. */
#ifndef XK_EVENT_PRIVATE_H
#define XK_EVENT_PRIVATE_H

#include "xkernel/event.h"

/* Callbacks of a wheel. */
struct xk_wheel_host {
	uint64_t (*now_us)(void *argument); /* reads the clock */
	/* Called when something is due earlier than xk_wheel_next_ns returned before. Any context; never waits. */
	void (*kick)(void *argument);
	/* Returns which of `count` events that are due now is the first, from 0. May be NULL: the one scheduled first. */
	unsigned (*first)(void *argument, unsigned count);
	void *argument;
};

/* Makes a wheel whose time begins now. NULL: no memory. */
struct xk_wheel *xk_wheel_new(const struct xk_wheel_host *host);
void xk_wheel_free(struct xk_wheel *wheel);

/* As xk_event_init. */
static inline void
xk_wheel_prepare(struct xk_wheel *wheel, struct xk_event *event, xk_event_handler *handler, void *argument)
{
	*event = (struct xk_event){ .wheel = wheel, .handler = handler, .argument = argument };
}

/* The first part of every wheel, read by every turn. */
struct xk_wheel_front {
	_Atomic uint64_t next_ns; /* nothing is due before; written under the wheel's lock */
};

/*
 * Returns the earliest time at which something may be due. UINT64_MAX: nothing is scheduled, or nothing that the clock
 * will reach. One load; any context. Exact to a slot of the wheel after xk_wheel_take. Cancelling an event leaves it
 * unchanged, so that scheduling the next one wakes no thread. Ordered (seq_cst) with xk_event_schedule, which stores it
 * before it kicks.
 */
static inline uint64_t
xk_wheel_next_ns(const struct xk_wheel *wheel)
{
	return atomic_load_explicit(&((const struct xk_wheel_front *)wheel)->next_ns, memory_order_seq_cst);
}

/* Returns whether something may be due; false at any now_ns if nothing is scheduled. */
static inline bool
xk_wheel_is_due(const struct xk_wheel *wheel, uint64_t now_ns)
{
	uint64_t next_ns = xk_wheel_next_ns(wheel);

	return xk_unlikely(next_ns <= now_ns) && next_ns != UINT64_MAX;
}

/*
 * Returns one event that is due at now_us and marks it FIRING. NULL: none is due. Afterwards xk_wheel_next_ns returns
 * the time of the next call. Events scheduled after a take are due at now_us + 1 at the earliest: a handler cannot
 * prolong the turn.
 */
struct xk_event *xk_wheel_take(struct xk_wheel *wheel, uint64_t now_us);

/* Notes that event's handler has returned. Called in the handler's epoch: memory that it retired still exists. */
void xk_wheel_fired(struct xk_wheel *wheel, struct xk_event *event);

#endif
