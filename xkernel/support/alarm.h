/*
 * alarm.h - a session's timer: an event that holds its session while it is set. One alarm serves everything that a
 * session waits for: the handler checks what is due and sets the alarm again.
 *
 *	xk_alarm_init(&s->alarm, &s->session, &s->lock, gm_expire);	in the session's setup
 *
 *	xk_lock(&s->lock);
 *	s->due_ns = now_ns + timeout_ns;
 *	if (!xk_alarm_set(&s->alarm, s->due_ns))
 *		...						s is closed, so nothing may wait
 *	xk_unlock(&s->lock);
 *
 *	static void
 *	gm_expire(struct xk_alarm *alarm, uint64_t now_ns)		the lock is held
 *	{
 *		struct gm_session *s = xk_container_of(alarm, struct gm_session, alarm);
 *		bool late = now_ns >= s->due_ns;
 *
 *		...
 *		xk_alarm_set(&s->alarm, s->due_ns);
 *		xk_unlock(&s->lock);
 *		if (late)
 *			xk_push(s->session.lls, copy);
 *	}
 *
 * Setting and stopping never race with the handler, because all three hold the session's lock. A handler that is about
 * to run waits for the lock and then sees every change, so no caller needs to know whether the alarm is firing already.
 */
#ifndef XK_ALARM_H
#define XK_ALARM_H

#include <stdatomic.h>

#include "xkernel/event.h"
#include "xkernel/process.h"

struct xk_alarm;
struct xk_session;

#define XK_NEVER UINT64_MAX

/*
 * Handles what is due at now_ns. Runs as a shepherd of its own, with a reference on the session, which is released
 * after it returns. The lock is held on entry; the handler releases it before it pushes or waits. The alarm is not set
 * any more: the handler sets it for what is due next, if anything, which then cannot fail. It may run early, and find
 * nothing due.
 */
typedef void xk_alarm_handler(struct xk_alarm *alarm, uint64_t now_ns);

struct xk_alarm {
	_Atomic uint64_t at_ns; /* when it fires; XK_NEVER: it is not set. Changed under the lock */
	struct xk_lock *lock;
	xk_alarm_handler *handler;
	struct xk_event event; /* its argument: the session; NULL: the alarm holds nothing */
};

/*
 * Prepares an alarm inside `session`, which it holds while it is set, or (NULL) inside memory that the protocol frees
 * only in the handler, by xk_retire. `lock` protects it and names the protocol. Once, before anything else.
 */
void xk_alarm_init(struct xk_alarm *alarm, struct xk_session *session, struct xk_lock *lock, xk_alarm_handler *handler);

/* Returns whether the alarm is set, or its handler is about to take the lock. Any context. */
static inline bool
xk_alarm_is_set(const struct xk_alarm *alarm)
{
	return atomic_load_explicit(&alarm->at_ns, memory_order_relaxed) != XK_NEVER;
}

/*
 * Returns whether the handler will run at at_ns or earlier (XK_NEVER: at any time), or runs now and has yet to set the
 * alarm. For promises (upi.h), because it takes no lock.
 */
static inline bool
xk_alarm_covers(const struct xk_alarm *alarm, uint64_t at_ns)
{
	return alarm->event.running > 0 || (alarm->event.state == XK_EVENT_PENDING && xk_alarm_is_set(alarm) &&
					    atomic_load_explicit(&alarm->at_ns, memory_order_relaxed) <= at_ns);
}

/* The slow half of xk_alarm_set. Not for callers. */
bool xk_alarm_set_sooner(struct xk_alarm *alarm, uint64_t at_ns);

/*
 * Makes the handler run at at_ns or earlier; XK_NEVER changes nothing. Returns false, and sets nothing, if the session
 * is closed. The alarm is never moved to a later time: an occasional early call costs less than moving it with each
 * message. The lock is held; never waits.
 */
static inline bool
xk_alarm_set(struct xk_alarm *alarm, uint64_t at_ns)
{
	return xk_likely(at_ns >= atomic_load_explicit(&alarm->at_ns, memory_order_relaxed)) ||
	       xk_alarm_set_sooner(alarm, at_ns);
}

/*
 * Stops the alarm, unless its handler is already waiting for the lock. Returns true if the caller must release the
 * session, without the lock. The lock is held; never waits.
 */
bool xk_alarm_stop(struct xk_alarm *alarm);

/* Stops the alarm and releases the session. The lock is not held; may wait for it. */
void xk_alarm_cancel(struct xk_alarm *alarm);

#endif
