/*
 * wheel.h - the event wheel (event.c): the engine's side of event.h.
 */
#ifndef XK_WHEEL_H
#define XK_WHEEL_H

#include "xkernel/event.h"

/* What a wheel needs to know of the world. */
struct xk_wheel_host {
	uint64_t (*now_us)(void *argument); /* the clock, read now */
	/* Something is due earlier than xk_wheel_next_ns said before. Any context; never waits. */
	void (*kick)(void *argument);
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

/* The first part of every wheel, which every turn reads. */
struct xk_wheel_front {
	_Atomic uint64_t next_ns; /* nothing is due before; written under the wheel's lock */
};

/*
 * Returns when something may be due, at the earliest; UINT64_MAX: nothing is scheduled, or nothing that the clock will
 * reach. One load; any context. Exact to a slot of the wheel after xk_wheel_take. A cancelled event leaves it unchanged, so
 * that scheduling the next one need not wake anybody. Ordered (seq_cst) with xk_event_schedule, which stores it before it
 * kicks.
 */
static inline uint64_t
xk_wheel_next_ns(const struct xk_wheel *wheel)
{
	return atomic_load_explicit(&((const struct xk_wheel_front *)wheel)->next_ns, memory_order_seq_cst);
}

/* Returns whether something may be due. False if nothing is scheduled, even at the end of time. */
static inline bool
xk_wheel_is_due(const struct xk_wheel *wheel, uint64_t now_ns)
{
	uint64_t next_ns = xk_wheel_next_ns(wheel);

	return xk_unlikely(next_ns <= now_ns) && next_ns != UINT64_MAX;
}

/*
 * Returns one event that is due at now_us and is FIRING from now on; NULL: none is due. Afterwards xk_wheel_next_ns says
 * when to ask again. What is scheduled after a take is due at now_us + 1 at the earliest: a handler cannot prolong the turn.
 */
struct xk_event *xk_wheel_take(struct xk_wheel *wheel, uint64_t now_us);

/* The handler of event has returned, in this turn of its shepherd: what it retired is still there. */
void xk_wheel_fired(struct xk_wheel *wheel, struct xk_event *event);

#endif
