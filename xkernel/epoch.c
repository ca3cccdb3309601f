/*
 * epoch.c - quiescent states. Each reader publishes the epoch since which it may be reading. Retiring an object
 * starts a new epoch; the object is released when every active reader has passed into that epoch or a later one.
 *
 * Passing into the next epoch needs no fence: a reader that sees the new epoch also sees what was unbound before
 * it, and until then the reclaimer sees the older epoch. Only a reader that begins to read needs a sequentially
 * consistent exchange: either the reclaimer sees it reading, or it sees what was unbound before.
 *
 * A stack that leaves a driver stores the driver's epoch itself before the driver passes. So the
 * reclaimer looks at the drivers first, and finds on the stack what a driver that has passed does not
 * show any more. A stack that returns while still reading (possible without threads) makes its driver
 * show the epoch before it clears its own. So the reclaimer looks at the drivers last, too.
 */
#include "xkernel/epoch.h"

#include "xkernel/engine/spin.h"

/* Retired objects between wakes of a sleeping driver, which bound what others retire meanwhile. */
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
	uint64_t since = atomic_load_explicit(&driver->since, memory_order_relaxed);

	atomic_store_explicit(&reader->since, since, memory_order_relaxed);
}

void
xk_reader_bring_back(struct xk_reader *reader, struct xk_reader *driver)
{
	uint64_t since = atomic_load_explicit(&reader->since, memory_order_relaxed);

	if (since == 0)
		return;
	if (since < atomic_load_explicit(&driver->since, memory_order_relaxed))
		atomic_store_explicit(&driver->since, since, memory_order_relaxed);
	xk_reader_leave(reader);
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

static void
epoch_look(uint64_t *oldest, const struct xk_reader *reader, bool drivers_only)
{
	for (; reader != NULL; reader = reader->next) {
		uint64_t since;

		if (drivers_only && !reader->is_driver)
			continue;
		since = atomic_load_explicit(&reader->since, memory_order_seq_cst);
		if (since != 0 && since < *oldest)
			*oldest = since;
	}
}

/* Returns the oldest epoch in which a reader may be reading. */
static uint64_t
epoch_oldest(struct xk_epochs *epochs)
{
	uint64_t oldest = UINT64_MAX;

	xk_spin_lock(&epochs->readers_lock);
	epoch_look(&oldest, epochs->readers, true);
	epoch_look(&oldest, epochs->readers, false);
	epoch_look(&oldest, epochs->readers, true);
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

static void
epoch_release(struct xk_retired *retired)
{
	while (retired != NULL) {
		struct xk_retired *next = retired->next;

		retired->release(retired);
		retired = next;
	}
}

void
xk_epochs_reclaim(struct xk_epochs *epochs)
{
	if (atomic_exchange_explicit(&epochs->reclaiming, 1, memory_order_acquire) != 0)
		return;
	epoch_release(epoch_take(epochs, epoch_oldest(epochs)));
	atomic_store_explicit(&epochs->reclaiming, 0, memory_order_release);
}

void
xk_epochs_drain(struct xk_epochs *epochs)
{
	struct xk_retired *all;

	while ((all = epoch_take(epochs, UINT64_MAX)) != NULL)
		epoch_release(all);
}
