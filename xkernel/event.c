/*
 * event.c - the event wheel: thirteen levels of 32 slots, from one microsecond up to all 64 bits of time.
 *
 * An event lies in the level of the highest group of five bits in which its due time differs from base_us, in the slot
 * that those bits name. So all events of a level are due before those of coarser ones, the earliest slot is the lowest
 * bit of the lowest level, and base_us may advance to the start of that slot without moving any event. When time
 * reaches a coarse slot, its events move to finer ones, in order and a few at a time, so that the lock is held for a
 * bounded time. Events of one due time always share a slot, in the order of their scheduling.
 */
#include "xkernel/event.h"

#include <stdlib.h>

#include "xkernel/engine/spin.h"
#include "xkernel/event_private.h"

enum {
	EVENT_BITS = 5,
	EVENT_SLOTS = 1 << EVENT_BITS,
	EVENT_LEVELS = 13,
	EVENT_NO_SLOT = EVENT_LEVELS * EVENT_SLOTS,
	EVENT_CASCADED = 32, /* limit of events that move while the lock is held */
};

static_assert(EVENT_LEVELS * EVENT_BITS >= 64, "every due time has a level");

struct event_slot {
	struct xk_event *first, **last;
};

struct xk_wheel {
	struct xk_wheel_front front; /* first */
	_Atomic uint32_t lock;
	struct xk_wheel_host host;
	uint32_t levels;   /* bits of the occupied ones */
	uint64_t base_us;  /* no event is due earlier */
	uint64_t floor_us; /* no event will be scheduled earlier */
	unsigned cascaded; /* the slot that is moving to finer ones; base_us is then just before it */
	uint64_t occupied[EVENT_LEVELS];
	struct event_slot slots[EVENT_LEVELS * EVENT_SLOTS];
};

struct xk_wheel *
xk_wheel_new(const struct xk_wheel_host *host)
{
	struct xk_wheel *wheel = calloc(1, sizeof(*wheel));

	if (wheel == NULL)
		return NULL;
	atomic_init(&wheel->front.next_ns, UINT64_MAX);
	wheel->host = *host;
	wheel->base_us = wheel->floor_us = host->now_us(host->argument);
	wheel->cascaded = EVENT_NO_SLOT;
	for (unsigned i = 0; i < EVENT_LEVELS * EVENT_SLOTS; i++)
		wheel->slots[i].last = &wheel->slots[i].first;
	return wheel;
}

void
xk_wheel_free(struct xk_wheel *wheel)
{
	free(wheel);
}

/* ---- slots; under the lock ---- */

static void
event_link(struct xk_wheel *wheel, struct xk_event *event, uint64_t base_us)
{
	unsigned level = (63 - (unsigned)__builtin_clzll((event->due_us ^ base_us) | 1)) / EVENT_BITS;
	unsigned index = event->due_us >> level * EVENT_BITS & (EVENT_SLOTS - 1);
	struct event_slot *slot = &wheel->slots[level * EVENT_SLOTS + index];

	event->slot = (uint16_t)(level * EVENT_SLOTS + index);
	event->next = NULL;
	event->at = slot->last;
	*slot->last = event;
	slot->last = &event->next;
	wheel->occupied[level] |= UINT64_C(1) << index;
	wheel->levels |= 1U << level;
}

static void
event_unlink(struct xk_wheel *wheel, struct xk_event *event)
{
	struct event_slot *slot = &wheel->slots[event->slot];
	unsigned level = event->slot / EVENT_SLOTS;

	*event->at = event->next;
	if (event->next != NULL)
		event->next->at = event->at;
	else
		slot->last = event->at;
	if (slot->first != NULL)
		return;
	wheel->occupied[level] &= ~(UINT64_C(1) << event->slot % EVENT_SLOTS);
	if (wheel->occupied[level] == 0)
		wheel->levels &= ~(1U << level);
}

static unsigned
event_first_slot(const struct xk_wheel *wheel)
{
	unsigned level;

	if (wheel->cascaded != EVENT_NO_SLOT || wheel->levels == 0)
		return wheel->cascaded;
	level = (unsigned)__builtin_ctz(wheel->levels);
	return level * EVENT_SLOTS + (unsigned)__builtin_ctzll(wheel->occupied[level]);
}

/* Returns the time at which slot begins; UINT64_MAX for no slot. */
static uint64_t
event_slot_start(const struct xk_wheel *wheel, unsigned slot)
{
	unsigned shift = slot / EVENT_SLOTS * EVENT_BITS, above = shift + EVENT_BITS;
	uint64_t group = above < 64 ? wheel->base_us >> above << above : 0;

	return slot == EVENT_NO_SLOT ? UINT64_MAX : group | (uint64_t)(slot % EVENT_SLOTS) << shift;
}

/*
 * Returns a time before which nothing is due: the start of the first slot or, if one event is alone there, that event's
 * own due time, so that a driver does not wake only to move it.
 */
static uint64_t
event_next_us(const struct xk_wheel *wheel)
{
	unsigned slot = event_first_slot(wheel);
	const struct xk_event *event;

	if (slot == EVENT_NO_SLOT)
		return UINT64_MAX;
	event = wheel->slots[slot].first;
	return event != NULL && event->next == NULL ? event->due_us : event_slot_start(wheel, slot);
}

static uint64_t
event_ns(uint64_t us)
{
	return us <= UINT64_MAX / 1000 ? us * 1000 : UINT64_MAX;
}

static uint64_t
event_known_ns(const struct xk_wheel *wheel)
{
	return atomic_load_explicit(&wheel->front.next_ns, memory_order_relaxed);
}

/* Stores the time of the next check. Returns whether that is earlier than before. */
static bool
event_publish(struct xk_wheel *wheel, uint64_t next_us)
{
	uint64_t was_ns = event_known_ns(wheel), next_ns = event_ns(next_us);

	if (next_ns != was_ns)
		atomic_store_explicit(&wheel->front.next_ns, next_ns, memory_order_seq_cst);
	return next_ns < was_ns;
}

/* ---- taking what is due ---- */

/* Moves a few events of the slot that time has reached to finer slots. */
static void
event_cascade(struct xk_wheel *wheel)
{
	unsigned slot = wheel->cascaded;
	uint64_t start_us = event_slot_start(wheel, slot);
	struct xk_event *event;

	for (unsigned i = 0; i < EVENT_CASCADED; i++) {
		event = wheel->slots[slot].first;
		if (event == NULL) {
			wheel->base_us = start_us;
			wheel->cascaded = EVENT_NO_SLOT;
			return;
		}
		event_unlink(wheel, event);
		event_link(wheel, event, start_us);
	}
}

/* Returns the event that is to fire first, of those in a slot, which are due at one time. */
static struct xk_event *
event_first(const struct xk_wheel *wheel, unsigned slot)
{
	struct xk_event *event = wheel->slots[slot].first;
	unsigned count = 0, first;

	if (xk_likely(event->next == NULL || wheel->host.first == NULL))
		return event;
	for (const struct xk_event *e = event; e != NULL; e = e->next)
		count++;
	first = wheel->host.first(wheel->host.argument, count);
	while (first-- > 0)
		event = event->next;
	return event;
}

/* Does one step towards the next due event, which it stores. Returns whether more steps are needed. */
static bool
event_step(struct xk_wheel *wheel, uint64_t now_us, struct xk_event **event)
{
	unsigned slot = event_first_slot(wheel);
	uint64_t start_us = event_slot_start(wheel, slot);

	if (wheel->floor_us <= now_us)
		wheel->floor_us = now_us + 1;
	if (wheel->cascaded != EVENT_NO_SLOT) {
		event_cascade(wheel);
		return true;
	}
	if (start_us > now_us) {
		if (wheel->base_us < now_us)
			wheel->base_us = now_us;
		return false;
	}
	if (slot >= EVENT_SLOTS) {
		/* Until the slot is empty, other events that are due in it must still queue behind its events. */
		wheel->cascaded = slot;
		wheel->base_us = start_us - 1;
		return true;
	}
	wheel->base_us = start_us;
	*event = event_first(wheel, slot);
	event_unlink(wheel, *event);
	(*event)->state = XK_EVENT_FIRING;
	(*event)->running++;
	return false;
}

struct xk_event *
xk_wheel_take(struct xk_wheel *wheel, uint64_t now_us)
{
	struct xk_event *event = NULL;
	bool more;

	do {
		xk_spin_lock(&wheel->lock);
		more = event_step(wheel, now_us, &event);
		event_publish(wheel, event_next_us(wheel));
		xk_spin_unlock(&wheel->lock);
	} while (more);
	return event;
}

void
xk_wheel_fired(struct xk_wheel *wheel, struct xk_event *event)
{
	xk_spin_lock(&wheel->lock);
	event->running--;
	if (event->state == XK_EVENT_FIRING && event->running == 0)
		event->state = XK_EVENT_IDLE;
	xk_spin_unlock(&wheel->lock);
}

/* ---- scheduling and cancelling ---- */

void
xk_event_schedule(struct xk_event *event, uint64_t delay_us)
{
	struct xk_wheel *wheel = event->wheel; /* the event may have fired and be gone once it is scheduled */
	uint64_t now_us = wheel->host.now_us(wheel->host.argument);
	/* UINT64_MAX means that nothing is scheduled. */
	uint64_t due_us = delay_us < UINT64_MAX - 1 - now_us ? now_us + delay_us : UINT64_MAX - 1;
	uint64_t known_ns;
	bool earlier;

	xk_spin_lock(&wheel->lock);
	known_ns = event_known_ns(wheel);
	if (event->state == XK_EVENT_PENDING)
		event_unlink(wheel, event);
	event->state = XK_EVENT_PENDING;
	/* A base near the present gives the event the finest slot. */
	if (wheel->base_us < now_us && now_us < event_slot_start(wheel, event_first_slot(wheel)))
		wheel->base_us = now_us;
	if (due_us < wheel->floor_us)
		due_us = wheel->floor_us;
	if (due_us < wheel->base_us)
		due_us = wheel->base_us;
	event->due_us = due_us;
	event_link(wheel, event, wheel->base_us);
	earlier = event_ns(due_us) < known_ns && event_publish(wheel, due_us);
	xk_spin_unlock(&wheel->lock);
	if (earlier)
		wheel->host.kick(wheel->host.argument);
}

enum xk_event_cancelled
xk_event_cancel(struct xk_event *event)
{
	struct xk_wheel *wheel = event->wheel;
	enum xk_event_cancelled answer = XK_EVENT_FINISHED;

	xk_spin_lock(&wheel->lock);
	if (event->running > 0)
		answer = XK_EVENT_RUNNING;
	if (event->state == XK_EVENT_PENDING) {
		event_unlink(wheel, event);
		event->state = event->running > 0 ? XK_EVENT_FIRING : XK_EVENT_IDLE;
		answer = XK_EVENT_CANCELLED;
	}
	xk_spin_unlock(&wheel->lock);
	return answer;
}
