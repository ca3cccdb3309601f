/*
 * epoch.c - quiescent states. Each shepherd says since which epoch it may be reading; retiring starts a new epoch, and
 * what was retired is released when every shepherd that reads has passed into that epoch or a later one.
 *
 * A driver is one reader, whatever stack it is on: its own shepherd says since when. Passing from one epoch into the next
 * needs no fence: who sees the new one sees what was unbound before it, and whoever looks meanwhile sees the older. Only
 * who begins to read (a thread's shepherd, a driver that has slept) enters with a sequentially consistent exchange: who
 * reclaims either sees it reading, or it sees what was unbound before.
 *
 * A stack that leaves a driver says the driver's epoch itself, before the driver passes. So who reclaims looks at drivers
 * first: where it finds that one has passed, it finds on the stack what that took along. A stack that comes back still
 * reading (where there are no threads) says it by the driver again, before it stops saying so itself: so who reclaims
 * looks at drivers last, too.
 *
 * The drivers reclaim at the end of their turns, one at a time (or the main thread when nothing runs). One that sleeps
 * reads nothing, and holds nobody up.
 */
#include "xkernel/engine/engine.h"

/* A driver that sleeps for long is woken now and then, so that what others retire meanwhile stays bounded. */
enum { EPOCH_WAKE_EVERY = 64 };

void
xk_epoch_enter(struct xk_shepherd *self)
{
	uint64_t now = atomic_load_explicit(&self->kernel->epoch, memory_order_acquire);

	atomic_exchange_explicit(&self->epoch, now, memory_order_seq_cst);
}

void
xk_epoch_leave(struct xk_shepherd *self)
{
	atomic_store_explicit(&self->epoch, 0, memory_order_release);
}

void
xk_epoch_take_along(struct xk_shepherd *self)
{
	uint64_t since = atomic_load_explicit(&self->driver->runner.shepherd.epoch, memory_order_relaxed);

	atomic_store_explicit(&self->epoch, since, memory_order_relaxed);
}

void
xk_epoch_bring_back(struct xk_shepherd *self)
{
	_Atomic uint64_t *drivers = &self->driver->runner.shepherd.epoch;
	uint64_t since = atomic_load_explicit(&self->epoch, memory_order_relaxed);

	if (since == 0)
		return;
	if (since < atomic_load_explicit(drivers, memory_order_relaxed))
		atomic_store_explicit(drivers, since, memory_order_relaxed);
	xk_epoch_leave(self);
}

void
xk_retire(struct xk_kernel *kernel, struct xk_retired *retired, void (*release)(struct xk_retired *retired))
{
	unsigned waiting;

	retired->release = release;
	retired->next = NULL;
	xk_spin_lock(&kernel->retired_lock);
	retired->epoch = atomic_fetch_add_explicit(&kernel->epoch, 1, memory_order_seq_cst) + 1;
	*kernel->retired_last = retired;
	kernel->retired_last = &retired->next;
	waiting = atomic_fetch_add_explicit(&kernel->retired, 1, memory_order_relaxed) + 1;
	xk_spin_unlock(&kernel->retired_lock);
	if (waiting % EPOCH_WAKE_EVERY == 0)
		xk_driver_wake(&kernel->driver);
}

static void
epoch_look(uint64_t *oldest, const struct xk_shepherd *shepherd)
{
	uint64_t epoch = atomic_load_explicit(&shepherd->epoch, memory_order_seq_cst);

	if (epoch != 0 && epoch < *oldest)
		*oldest = epoch;
}

static void
epoch_look_at_drivers(uint64_t *oldest, struct xk_kernel *kernel)
{
	for (struct xk_driver *driver = &kernel->driver; driver != NULL; driver = driver->next_driver)
		epoch_look(oldest, &driver->runner.shepherd);
}

/* The oldest epoch that some shepherd may be reading in. */
static uint64_t
epoch_oldest(struct xk_kernel *kernel)
{
	uint64_t oldest = UINT64_MAX;

	epoch_look_at_drivers(&oldest, kernel);
	xk_spin_lock(&kernel->shepherds_lock);
	for (struct xk_shepherd *s = kernel->shepherds; s != NULL; s = s->all_next)
		epoch_look(&oldest, s);
	xk_spin_unlock(&kernel->shepherds_lock);
	epoch_look_at_drivers(&oldest, kernel);
	return oldest;
}

/* Takes off the list what was retired up to epoch; it is in the order of its epochs. */
static struct xk_retired *
epoch_take(struct xk_kernel *kernel, uint64_t epoch)
{
	struct xk_retired *first, **end;
	unsigned count = 0;

	xk_spin_lock(&kernel->retired_lock);
	first = kernel->retired_first;
	for (end = &kernel->retired_first; *end != NULL && (*end)->epoch <= epoch; end = &(*end)->next)
		count++;
	if (count == 0) {
		first = NULL;
	} else {
		struct xk_retired *rest = *end;

		*end = NULL;
		kernel->retired_first = rest;
		if (rest == NULL)
			kernel->retired_last = &kernel->retired_first;
		atomic_fetch_sub_explicit(&kernel->retired, count, memory_order_relaxed);
	}
	xk_spin_unlock(&kernel->retired_lock);
	return first;
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
xk_epoch_reclaim(struct xk_kernel *kernel)
{
	if (atomic_exchange_explicit(&kernel->reclaiming, 1, memory_order_acquire) != 0)
		return;
	epoch_release(epoch_take(kernel, epoch_oldest(kernel)));
	atomic_store_explicit(&kernel->reclaiming, 0, memory_order_release);
}

void
xk_epoch_drain(struct xk_kernel *kernel)
{
	struct xk_retired *all;

	while ((all = epoch_take(kernel, UINT64_MAX)) != NULL)
		epoch_release(all);
}
