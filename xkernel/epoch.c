/*
 * epoch.c - quiescent states. Each reader publishes the epoch since which it may be reading. Retiring an object starts
 * a new epoch; the object is released when every active reader has passed into that epoch or a later one.
 *
 * Passing into the next epoch needs no fence: a reader that sees the new epoch also sees what was unbound before it,
 * and until then the reclaimer sees the older epoch. Only a reader that begins to read needs a sequentially consistent
 * exchange: either the reclaimer sees it reading, or it sees what was unbound before.
 *
 * A stack that leaves a driver takes the driver's epoch along before the driver passes, and keeps it until it parks,
 * ends or, back on the driver, is between two turns. The reclaimer checks each reader once, a driver before its stacks:
 * if the driver has passed, its older epoch is on the stack by then. Drivers come first in the list because they are
 * added after all stacks, at its front.
 */
#include "xkernel/epoch.h"

#include "xkernel/engine/spin.h"

/* A sleeping driver is woken each time other threads have retired this many objects. */
enum { EPOCH_WAKE_EVERY = 64 };

void
xk_epochs_init(struct xk_epochs *epochs, void (*wake)(void *argument), void *argument)
{
	*epochs = (struct xk_epochs){ .now = 1, .wake = wake, .argument = argument };
	epochs->last = &epochs->first;
}

/* ---- readers ---- */

void
xk_reader_add(struct xk_epochs *epochs, struct xk_reader *reader)
{
	reader->epochs = epochs;
	xk_spin_lock(&epochs->readers_lock);
	reader->next = epochs->readers;
	epochs->readers = reader;
	xk_spin_unlock(&epochs->readers_lock);
}

void
xk_reader_remove(struct xk_reader *reader)
{
	struct xk_epochs *epochs = reader->epochs;
	struct xk_reader **at = &epochs->readers;

	xk_spin_lock(&epochs->readers_lock);
	while (*at != reader)
		at = &(*at)->next;
	*at = reader->next;
	xk_spin_unlock(&epochs->readers_lock);
}

void
xk_reader_enter(struct xk_reader *reader)
{
	uint64_t now = atomic_load_explicit(&reader->epochs->now, memory_order_acquire);

	atomic_exchange_explicit(&reader->since, now, memory_order_seq_cst);
}

void
xk_reader_leave(struct xk_reader *reader)
{
	atomic_store_explicit(&reader->since, 0, memory_order_release);
}

void
xk_reader_take_along(struct xk_reader *reader, const struct xk_reader *driver)
{
	/* A stack that has come back to its driver still has the epoch of the first time. */
	if (atomic_load_explicit(&reader->since, memory_order_relaxed) == 0)
		atomic_store_explicit(&reader->since, atomic_load_explicit(&driver->since, memory_order_relaxed),
				      memory_order_relaxed);
}

/* ---- retiring ---- */

void
xk_epochs_retire(struct xk_epochs *epochs, struct xk_retired *retired, void (*release)(struct xk_retired *retired))
{
	unsigned waiting;

	retired->release = release;
	retired->next = NULL;
	xk_spin_lock(&epochs->retired_lock);
	retired->epoch = atomic_fetch_add_explicit(&epochs->now, 1, memory_order_seq_cst) + 1;
	*epochs->last = retired;
	epochs->last = &retired->next;
	waiting = atomic_fetch_add_explicit(&epochs->retired, 1, memory_order_relaxed) + 1;
	xk_spin_unlock(&epochs->retired_lock);
	if (waiting % EPOCH_WAKE_EVERY == 0)
		epochs->wake(epochs->argument);
}

/* ---- reclaiming ---- */

/* Returns the oldest epoch in which a reader may be reading. */
static uint64_t
epoch_oldest(struct xk_epochs *epochs)
{
	uint64_t oldest = UINT64_MAX;

	xk_spin_lock(&epochs->readers_lock);
	for (struct xk_reader *reader = epochs->readers; reader != NULL; reader = reader->next) {
		uint64_t since = atomic_load_explicit(&reader->since, memory_order_seq_cst);

		if (since != 0 && since < oldest)
			oldest = since;
	}
	xk_spin_unlock(&epochs->readers_lock);
	return oldest;
}

/* Takes the objects that were retired up to epoch off the list. */
static struct xk_retired *
epoch_take(struct xk_epochs *epochs, uint64_t epoch)
{
	struct xk_retired *first, *rest, **end;
	unsigned count = 0;

	xk_spin_lock(&epochs->retired_lock);
	first = epochs->first;
	for (end = &epochs->first; *end != NULL && (*end)->epoch <= epoch; end = &(*end)->next)
		count++;
	rest = *end;
	*end = NULL;
	epochs->first = rest;
	if (rest == NULL)
		epochs->last = &epochs->first;
	atomic_fetch_sub_explicit(&epochs->retired, count, memory_order_relaxed);
	xk_spin_unlock(&epochs->retired_lock);
	return count > 0 ? first : NULL;
}

/* Returns whether there was an object to release. */
static bool
epoch_release(struct xk_epochs *epochs, uint64_t epoch)
{
	struct xk_retired *retired = epoch_take(epochs, epoch);
	bool any = retired != NULL;

	while (retired != NULL) {
		struct xk_retired *next = retired->next;

		retired->release(retired);
		retired = next;
	}
	return any;
}

void
xk_epochs_reclaim(struct xk_epochs *epochs)
{
	if (atomic_exchange_explicit(&epochs->reclaiming, 1, memory_order_acquire) != 0)
		return;
	epoch_release(epochs, epoch_oldest(epochs));
	atomic_store_explicit(&epochs->reclaiming, 0, memory_order_release);
}

void
xk_epochs_drain(struct xk_epochs *epochs)
{
	while (epoch_release(epochs, UINT64_MAX))
		continue;
}
