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
	struct xk_alarm *alarm = argument;
	struct xk_session *session = alarm->session; /* the handler may retire an alarm without one */

	(void)event;
	xk_lock(alarm->lock);
	alarm_store(alarm, XK_NEVER);
	alarm->handler(alarm, xk_now_ns(alarm->lock->owner));
	if (session != NULL)
		xk_session_release(session);
}

void
xk_alarm_init(struct xk_alarm *alarm, struct xk_session *session, struct xk_lock *lock, xk_alarm_handler *handler)
{
	alarm_store(alarm, XK_NEVER);
	alarm->lock = lock;
	alarm->handler = handler;
	alarm->session = session;
	xk_event_init(&alarm->event, lock->owner->kernel, alarm_fire, alarm);
}

bool
xk_alarm_set_sooner(struct xk_alarm *alarm, uint64_t at_ns)
{
	uint64_t now_ns = xk_now_ns(alarm->lock->owner);

	if (xk_alarm_is_set(alarm)) {
		if (xk_event_cancel(&alarm->event) != XK_EVENT_CANCELLED)
			return true; /* the handler has not had the lock yet, so it will look */
	} else if (alarm->session != NULL && !xk_duplicate(alarm->session)) {
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
	return alarm->session != NULL;
}

void
xk_alarm_cancel(struct xk_alarm *alarm)
{
	bool stopped;

	xk_lock(alarm->lock);
	stopped = xk_alarm_stop(alarm);
	xk_unlock(alarm->lock);
	if (stopped)
		xk_session_release(alarm->session);
}
