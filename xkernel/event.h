/*
 * event.h - the Event tool: something to be done later, cancellable; cheap enough for one per call.
 *
 * Times are microseconds. An event is the caller's memory (usually inside a session) and fires once per
 * schedule. Its handler runs as a shepherd of its own: on a detachable stack in the driver (IPP) or on the
 * event thread (regular); it may wait. Scheduling and cancelling are O(1), take the wheel's own short lock
 * and never wait; any context.
 *
 * Cancelling races with firing, so it has three answers. Who gets XK_EVENT_RUNNING must not free what the
 * handler uses; the usual idiom is that a pending event holds a reference on its session, which the handler
 * (or the canceller that gets XK_EVENT_CANCELLED) gives back. An event's memory is given back with xk_retire
 * (epoch.h), by its handler at the earliest. A handler that waits must own a reference on what holds the event.
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
	XK_EVENT_FINISHED,  /* it was not pending: never scheduled, or its handler has returned */
	XK_EVENT_RUNNING,   /* its handler runs; it can ask xk_event_is_cancelled */
	XK_EVENT_CANCELLED, /* it will not fire; if it was scheduled by its handler, that may still run */
};

struct xk_event {
	struct xk_event *next, **at; /* in a slot of the wheel */
	uint64_t due_us;
	struct xk_wheel *wheel;
	xk_event_handler *handler;
	void *argument;
	uint16_t slot;
	uint8_t state;          /* enum xk_event_state, under the wheel's lock */
	_Atomic bool cancelled; /* asked for while its handler ran */
	uint32_t running;       /* handlers under way: one that waits may be overtaken by the next; under the lock */
};

/* Prepares an event that a shepherd of kernel will handle. Call once, before anything else. */
void xk_event_init(struct xk_event *event, struct xk_kernel *kernel, xk_event_handler *handler, void *argument);

/* A while in whole microseconds, not shorter than it is. */
static inline uint64_t
xk_us_of_ns(uint64_t ns)
{
	return (ns + 999) / 1000;
}

/*
 * Fires after delay_us at the earliest, counted from the microsecond that has begun; a pending event is moved. An event
 * may schedule itself from its handler. Delay 0: at the next turn.
 */
void xk_event_schedule(struct xk_event *event, uint64_t delay_us);

/* Takes a pending event out; tells which of the three it was. Any context; never waits. */
enum xk_event_cancelled xk_event_cancel(struct xk_event *event);

/* For the handler: whether somebody cancelled the event while it runs. */
static inline bool
xk_event_is_cancelled(const struct xk_event *event)
{
	return atomic_load_explicit(&event->cancelled, memory_order_acquire);
}

#endif
