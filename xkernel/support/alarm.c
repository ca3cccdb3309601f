/* alarm.c - alarms: events that hold their sessions. */
#include "xkernel/support/alarm.h"

#include "xkernel/upi.h"

static void
alarm_store(struct xk_alarm *alarm, uint64_t at_ns)
{
	atomic_store_explicit(&alarm->at_ns, at_ns, memory_order_relaxed);
}

static void
alarm_fire(struct xk_event *event, void *argument)
{
	struct xk_alarm *alarm = xk_container_of(event, struct xk_alarm, event);

	xk_lock(alarm->lock);
	alarm_store(alarm, XK_NEVER);
	alarm->handler(alarm, xk_now_ns(alarm->lock->owner));
	if (argument != NULL) /* otherwise the handler may have retired the alarm */
		xk_session_release(argument);
}

void
xk_alarm_init(struct xk_alarm *alarm, struct xk_session *session, struct xk_lock *lock, xk_alarm_handler *handler)
{
	alarm_store(alarm, XK_NEVER);
	alarm->lock = lock;
	alarm->handler = handler;
	xk_event_init(&alarm->event, lock->owner->kernel, alarm_fire, session);
}

bool
xk_alarm_set_sooner(struct xk_alarm *alarm, uint64_t at_ns)
{
	uint64_t now_ns = xk_now_ns(alarm->lock->owner);

	if (xk_alarm_is_set(alarm)) {
		if (xk_event_cancel(&alarm->event) != XK_EVENT_CANCELLED)
			return true; /* the handler has not taken the lock yet, so it will see the change */
	} else if (alarm->event.argument != NULL && !xk_duplicate(alarm->event.argument)) {
		return false;
	}
	alarm_store(alarm, at_ns);
	xk_event_schedule(&alarm->event, at_ns <= now_ns ? 0 : xk_us_of_ns(at_ns - now_ns));
	return true;
}

bool
xk_alarm_stop(struct xk_alarm *alarm)
{
	if (!xk_alarm_is_set(alarm) || xk_event_cancel(&alarm->event) != XK_EVENT_CANCELLED)
		return false;
	alarm_store(alarm, XK_NEVER);
	return alarm->event.argument != NULL;
}

void
xk_alarm_cancel(struct xk_alarm *alarm)
{
	bool stopped;

	xk_lock(alarm->lock);
	stopped = xk_alarm_stop(alarm);
	xk_unlock(alarm->lock);
	if (stopped)
		xk_session_release(alarm->event.argument);
}
