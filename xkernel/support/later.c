/*
 * later.c - see later.h. Each waiting message has its own event, so that a shepherd of its own carries it on and no
 * message delays another.
 *
 * If messages stay in order, an event that fires takes the oldest one, whichever one it was scheduled for. So each
 * message still waits between the shortest and the longest delay drawn, even if threads reach the wheel in another
 * order than the list.
 */
#include "xkernel/support/later.h"

#include <errno.h>
#include <stdlib.h>

#include "xkernel/engine/engine.h"

struct xk_later_message {
	struct xk_event event;
	struct xk_retired retired;
	struct xk_later *later;
	struct xk_later_message *next, **at; /* in the list of its direction, oldest first */
	enum xk_direction direction;
	uint64_t overtakers; /* 1 more than have still to pass; 0: it waits for its event */
	struct later_content {
		struct xk_msg *m;
		struct xk_hold hold; /* on the session */
	} content;
};

void
xk_later_init(struct xk_later *later, struct xk_protocol *owner, uint64_t max, bool ordered, unsigned full,
	      unsigned unsent)
{
	*later = (struct xk_later){ .owner = owner, .max = max, .ordered = ordered, .full = full, .unsent = unsent };
	xk_lock_init(&later->lock, owner);
	for (unsigned direction = 0; direction < XK_DIRECTIONS; direction++)
		later->last[direction] = &later->first[direction];
}

/* Under the lock. */
static void
later_remove(struct xk_later *later, struct xk_later_message *waiting)
{
	*waiting->at = waiting->next;
	if (waiting->next != NULL)
		waiting->next->at = waiting->at;
	else
		later->last[waiting->direction] = waiting->at;
	later->count--;
}

static void
later_release(struct xk_retired *retired)
{
	free(xk_container_of(retired, struct xk_later_message, retired));
}

/* Carries a message on, which is no longer in the store. */
static void
later_carry(struct xk_later *later, struct xk_later_message *waiting, struct later_content *content)
{
	struct xk_session *s = content->hold.session;

	if (waiting->direction == XK_UP)
		xk_pop(s, s->lls, content->m, waiting);
	else if (xk_push(s->lls, content->m) != 0)
		xk_count(later->owner, later->unsent);
	xk_hold_release(&content->hold);
	xk_retire(later->owner->kernel, &waiting->retired, later_release);
}

static void
later_go_on(struct xk_event *event, void *argument)
{
	struct xk_later_message *fired = argument;
	struct xk_later *later = fired->later;
	struct later_content content;

	xk_lock(&later->lock);
	/* Swaps contents, so that `fired` gets the oldest and those in between move up. */
	for (struct xk_later_message *w = later->first[fired->direction]; later->ordered && w != fired; w = w->next) {
		content = w->content;
		w->content = w->next->content;
		w->next->content = content;
	}
	content = fired->content;
	later_remove(later, fired);
	xk_unlock(&later->lock);
	later_carry(later, fired, &content);
}

/* Takes a message out that no more others are to overtake; NULL: there is none, or its event fires already. */
static struct xk_later_message *
later_take_overtaken(struct xk_later *later, enum xk_direction direction)
{
	struct xk_later_message *w;

	xk_lock(&later->lock);
	for (w = later->first[direction]; w != NULL; w = w->next)
		if (w->overtakers == 1 && xk_event_cancel(&w->event) == XK_EVENT_CANCELLED)
			break;
	if (w != NULL)
		later_remove(later, w);
	xk_unlock(&later->lock);
	return w;
}

void
xk_later_passed(struct xk_later *later, enum xk_direction direction)
{
	struct xk_later_message *overtaken;

	xk_lock(&later->lock);
	for (struct xk_later_message *w = later->first[direction]; w != NULL; w = w->next)
		w->overtakers -= w->overtakers > 1;
	xk_unlock(&later->lock);
	while ((overtaken = later_take_overtaken(later, direction)) != NULL) {
		struct later_content content = overtaken->content;

		later_carry(later, overtaken, &content);
	}
}

int
xk_later_hold(struct xk_later *later, struct xk_session *s, struct xk_msg *m, enum xk_direction direction,
	      uint64_t delay_ns, uint64_t overtakers)
{
	struct xk_later_message *waiting = calloc(1, sizeof(*waiting));
	bool room;

	if (waiting == NULL) {
		xk_drop(later->owner, m, XK_DROP_NO_MEMORY);
		return -ENOBUFS;
	}
	xk_msg_unannotate(m, XK_OF_PUSH);
	waiting->later = later;
	waiting->direction = direction;
	waiting->overtakers = overtakers == 0 ? 0 : overtakers + 1;
	waiting->content = (struct later_content){ m, { .session = s } };
	xk_event_init(&waiting->event, later->owner->kernel, later_go_on, waiting);
	xk_lock(&later->lock);
	room = later->count < later->max;
	if (room) {
		xk_hold_keep(&waiting->content.hold);
		waiting->at = later->last[direction];
		*waiting->at = waiting;
		later->last[direction] = &waiting->next;
		later->count++;
	}
	xk_unlock(&later->lock);
	if (!room) {
		free(waiting);
		xk_drop(later->owner, m, later->full);
		return -ENOBUFS;
	}
	xk_event_schedule(&waiting->event, delay_ns / 1000 + (delay_ns % 1000 != 0));
	return 0;
}

void
xk_later_fini(struct xk_later *later)
{
	struct xk_later_message *waiting;

	for (unsigned direction = 0; direction < XK_DIRECTIONS; direction++)
		while ((waiting = later->first[direction]) != NULL) {
			later_remove(later, waiting);
			xk_event_cancel(&waiting->event);
			xk_msg_free(waiting->content.m);
			xk_hold_release(&waiting->content.hold);
			free(waiting);
		}
}
