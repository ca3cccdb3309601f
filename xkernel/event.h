/*
 * event.h - the Event tool: timers that can be cancelled, cheap enough for one per call.
 *
 * Times are microseconds. An event is the caller's memory, usually inside a session, and fires once per schedule. Its
 * handler runs as a shepherd of its own, on a detachable stack in the driver (IPP) or on the event thread (regular),
 * and may wait. Scheduling and cancelling are O(1), take the wheel's own short lock and never wait; any context.
 *
 * Cancelling races with firing, so it has three results. After XK_EVENT_RUNNING the caller must not free what the
 * handler uses. Usually a pending event holds a reference on its session, which the handler releases, or the caller
 * that gets XK_EVENT_CANCELLED. An event's memory is freed by xk_retire, in its handler at the earliest. A handler that
 * waits must hold a reference on what contains the event.
 *
 * Timing wheels: Varghese and Lauck (1987).
 */
#ifndef XK_EVENT_H
#define XK_EVENT_H

#include "xkernel/base.h"

struct xk_kernel;
struct xk_wheel;
struct xk_event;

typedef void xk_event_handler(struct xk_event *event, void *argument);

enum xk_event_state { XK_EVENT_IDLE, XK_EVENT_PENDING, XK_EVENT_FIRING };

enum xk_event_cancelled {
	XK_EVENT_FINISHED,  /* was not pending: never scheduled, or its handler has returned */
	XK_EVENT_RUNNING,   /* the handler runs */
	XK_EVENT_CANCELLED, /* will not fire; a handler that scheduled it may still be running */
};

struct xk_event {
	struct xk_event *next, **at; /* links in a slot of the wheel */
	uint64_t due_us;
	struct xk_wheel *wheel;
	xk_event_handler *handler;
	void *argument;
	uint16_t slot;
	uint8_t state;    /* enum xk_event_state, under the wheel's lock */
	uint32_t running; /* number of running handlers, under the lock: the next may overtake one that waits */
};

/* Converts nanoseconds to microseconds, rounding up. */
static inline uint64_t
xk_us_of_ns(uint64_t ns)
{
	return (ns + 999) / 1000;
}

/*
 * Schedules the event to fire after at least delay_us, from the start of the current microsecond; 0: at the next turn.
 * Moves a pending event. A handler may schedule its own event.
 */
void xk_event_schedule(struct xk_event *event, uint64_t delay_us);

/* Cancels the event if it is pending, and returns which of the three cases it was. */
enum xk_event_cancelled xk_event_cancel(struct xk_event *event);

/* Returns whether the event will fire, or its handler runs. For promises (upi.h), because it takes no lock. */
static inline bool
xk_event_is_awaited(const struct xk_event *event)
{
	return event->state == XK_EVENT_PENDING || event->running > 0;
}

#endif
