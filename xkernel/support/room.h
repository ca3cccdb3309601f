/*
 * room.h - the room of a session that keeps pushed messages: until they are acknowledged, say. A push finds room as long
 * as less than the limit is kept, so the last message may exceed it, and a message of any length is pushed whole.
 *
 * Without room, a push waits, as a shepherd, until there is some. If the protocol above has the operation `room`
 * (upi.h), its push fails with -EAGAIN instead, and the operation is called once there is room again. It can ask before
 * by XK_GET_ROOM.
 *
 *	xk_room_init(&c->room, self, limit);		in the session's setup
 *
 *	xk_lock(&c->lock);
 *	err = xk_room_take(&c->room, s, bytes, timeout_us, &c->lock, &c->error);	in push
 *
 *	told = xk_room_give(&c->room, bytes);		acknowledged
 *	xk_unlock(&c->lock);
 *	if (told)
 *		xk_room_notify(s);
 *
 * The session's lock protects it.
 */
#ifndef XK_ROOM_H
#define XK_ROOM_H

#include "xkernel/upi.h"

struct xk_room {
	uint64_t limit, used; /* bytes */
	uint32_t waiting;     /* shepherds */
	bool is_refused;      /* a push was: the protocol above is to be told */
	struct xk_semaphore free;
};

void xk_room_init(struct xk_room *room, struct xk_protocol *owner, uint64_t limit);

/* Returns how many bytes a push finds room for; more are taken as well, unless it is 0. */
static inline uint64_t
xk_room_left(const struct xk_room *room)
{
	return room->used < room->limit ? room->limit - room->used : 0;
}

/* The slow half of xk_room_take. Not for callers. */
int xk_room_await(struct xk_room *room, struct xk_session *s, uint64_t timeout_us, struct xk_lock *lock,
		  const int *error);

/*
 * Takes room for bytes that are pushed on s. The lock is held, and released meanwhile if the shepherd waits. error: of
 * the session, set when it ends. Returns 0; -EAGAIN: see above; -ETIMEDOUT: no room in time; *error; or
 * xk_semaphore_wait's error.
 */
static inline int
xk_room_take(struct xk_room *room, struct xk_session *s, uint64_t bytes, uint64_t timeout_us, struct xk_lock *lock,
	     const int *error)
{
	int err = xk_likely(room->used < room->limit) ? *error : xk_room_await(room, s, timeout_us, lock, error);

	if (err == 0)
		room->used += bytes;
	return err;
}

/* Wakes the shepherds that wait: there is room, or the session has ended. The lock is held; never waits. */
void xk_room_wake(struct xk_room *room);

/*
 * Gives bytes back, and wakes shepherds that wait once a quarter of the limit is free. Returns whether the caller must
 * call xk_room_notify, without the lock. The lock is held; never waits.
 */
bool xk_room_give(struct xk_room *room, uint64_t bytes);

/* Calls the operation `room` of the protocol above s, past virtual ones. A shepherd; holds no lock. */
void xk_room_notify(struct xk_session *s);

#endif
