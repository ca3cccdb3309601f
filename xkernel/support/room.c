/* room.c - see room.h. */
#include "xkernel/support/room.h"

#include <errno.h>

#include "xkernel/protocol.h"

/* Returns the session on which the protocol above s, past virtual ones, has its messages. */
static struct xk_session *
room_top(struct xk_session *s)
{
	struct xk_session *above;

	while ((xk_hlp_receive(s)->type->flags & XK_VIRTUAL) != 0 && (above = xk_session_above(s)) != NULL)
		s = above;
	return s;
}

void
xk_room_init(struct xk_room *room, struct xk_protocol *owner, uint64_t limit)
{
	room->limit = limit;
	xk_semaphore_init(&room->free, owner, 0);
}

int
xk_room_await(struct xk_room *room, struct xk_session *s, uint64_t timeout_us, struct xk_lock *lock, const int *error)
{
	int err = *error;

	if (err == 0 && room->used >= room->limit && xk_hlp_receive(room_top(s))->ops->room != NULL) {
		room->is_refused = true;
		return -EAGAIN;
	}
	while (err == 0 && room->used >= room->limit) {
		room->waiting++;
		xk_unlock(lock);
		err = xk_semaphore_wait(&room->free, timeout_us);
		xk_lock(lock);
		if (err != 0) /* else, what has woken it has counted it out */
			room->waiting -= room->waiting > 0;
		else
			err = *error;
	}
	return err;
}

void
xk_room_wake(struct xk_room *room)
{
	for (; room->waiting > 0; room->waiting--)
		xk_semaphore_signal(&room->free);
}

bool
xk_room_give(struct xk_room *room, uint64_t bytes)
{
	bool is_told;

	xk_assert(bytes <= room->used);
	room->used -= bytes;
	if (room->used > room->limit - room->limit / 4)
		return false;
	xk_room_wake(room);
	is_told = room->is_refused;
	room->is_refused = false;
	return is_told;
}

void
xk_room_notify(struct xk_session *s)
{
	struct xk_protocol *hlp;

	s = room_top(s);
	hlp = xk_hlp_receive(s);
	if (hlp->ops->room != NULL)
		hlp->ops->room(hlp, s);
}
