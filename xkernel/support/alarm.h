/*
 * alarm.h - a session's timer: an event that holds its session while it is set. All that a session waits for shares one:
 * its handler looks at what is due, and sets it again.
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
 * Setting and stopping cannot race with the handler, since all of them hold the session's lock: an alarm that is set will
 * run the handler, which then sees what was changed before. So neither needs to know whether it fires already.
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
 * Does what is due at now_ns. Runs as a shepherd of its own, with the lock, which it gives back before it pushes or waits,
 * and with a reference on the session, which is given back after it returns. The alarm is not set any more: the handler
 * sets it to what is due next, if anything is. It may come early, or find nothing due.
 */
typedef void xk_alarm_handler(struct xk_alarm *alarm, uint64_t now_ns);

struct xk_alarm {
	_Atomic uint64_t at_ns; /* when it fires; XK_NEVER: it is not set. Changed under the lock */
	struct xk_lock *lock;
	xk_alarm_handler *handler;
	struct xk_event event; /* its argument: the session; NULL: the alarm holds nothing */
};

/*
 * Prepares an alarm that lies in what `lock`, of the protocol that owns it, protects: in a session, which it holds while
 * it is set, or (NULL) in memory that the protocol frees only in the handler, by xk_retire. Once, before anything else.
 */
void xk_alarm_init(struct xk_alarm *alarm, struct xk_session *session, struct xk_lock *lock, xk_alarm_handler *handler);

/* Returns whether the alarm is set, or its handler is about to take the lock. Any context. */
static inline bool
xk_alarm_is_set(const struct xk_alarm *alarm)
{
	return atomic_load_explicit(&alarm->at_ns, memory_order_relaxed) != XK_NEVER;
}

/* xk_alarm_set, for a time that is earlier than the alarm's. */
bool xk_alarm_set_sooner(struct xk_alarm *alarm, uint64_t at_ns);

/*
 * Lets the handler run at at_ns or before; XK_NEVER: no sooner than it will anyhow. Returns false if the session is closed:
 * then it does not run. So messages seldom move the alarm: it fires too early rather than being moved by each of them. The
 * lock is held; never waits.
 */
static inline bool
xk_alarm_set(struct xk_alarm *alarm, uint64_t at_ns)
{
	return xk_likely(at_ns >= atomic_load_explicit(&alarm->at_ns, memory_order_relaxed)) ||
	       xk_alarm_set_sooner(alarm, at_ns);
}

/*
 * Stops the alarm, if its handler does not run yet. Returns true if the caller must release the session, without the lock.
 * The lock is held; never waits.
 */
bool xk_alarm_stop(struct xk_alarm *alarm);

/* As xk_alarm_stop, for who does not hold the lock, and releases the session. May wait for the lock. */
void xk_alarm_cancel(struct xk_alarm *alarm);

#endif
