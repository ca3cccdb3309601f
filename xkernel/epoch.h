/*
 * epoch.h - frees memory once no shepherd can still be reading it (xk_retire, in services.h).
 *
 * Messages are carried up without locks or references: an object that the Map tool resolved stays valid until the
 * shepherd's turn ends. An object removed from every map is retired, and freed once every shepherd that was running
 * then has ended its turn or parked. A parking shepherd keeps references on the sessions it is popping through (upi.h)
 * and on nothing else: it resolves other objects again.
 *
 * Quiescent-state-based reclamation: McKenney and Slingwine, "Read-Copy Update" (1998).
 */
#ifndef XK_EPOCH_H
#define XK_EPOCH_H

#include "xkernel/base.h"

struct xk_kernel;

/* Part of an object that can be retired. */
struct xk_retired {
	struct xk_retired *next;
	uint64_t epoch;
	void (*release)(struct xk_retired *retired);
};

/* ---- for the engine ---- */

/* A domain: its readers, and the objects retired and not yet released. */
struct xk_epochs {
	_Atomic uint64_t now;
	_Atomic unsigned retired;
	/* Called from time to time while retired objects pile up: the reclaiming driver may be asleep. Any context. */
	void (*wake)(void *argument);
	void *argument;
	_Atomic uint32_t reclaiming, retired_lock, readers_lock;
	struct xk_retired *first, **last; /* retired objects, in the order of their epochs */
	struct xk_reader *readers;
};

/*
 * A reader. A driver is one, whatever stack it is on: code in it reads under the driver's epoch. A stack that leaves
 * the driver takes that epoch along and keeps it, even if it returns, until it has stopped reading.
 */
struct xk_reader {
	_Atomic uint64_t since; /* epoch since which it may be reading; 0: it reads nothing, or in its driver's epoch */
	struct xk_epochs *epochs;
	struct xk_reader *next;
};

void xk_epochs_init(struct xk_epochs *epochs, void (*wake)(void *argument), void *argument);
/* As xk_retire. */
void xk_epochs_retire(struct xk_epochs *epochs, struct xk_retired *retired,
		      void (*release)(struct xk_retired *retired));
/* Releases what no reader can reach, unless another thread does. A driver between messages, or when nothing runs. */
void xk_epochs_reclaim(struct xk_epochs *epochs);
/* Releases all retired objects. When nothing runs. */
void xk_epochs_drain(struct xk_epochs *epochs);

/* Add a reader that does not read yet, a driver after all its stacks; remove one that has stopped. Any context. */
void xk_reader_add(struct xk_epochs *epochs, struct xk_reader *reader);
void xk_reader_remove(struct xk_reader *reader);
/* Begins to read: the reader may use what is bound from here on, until it leaves. */
void xk_reader_enter(struct xk_reader *reader);
void xk_reader_leave(struct xk_reader *reader);
/* Keeps the stack's reader reading while the stack leaves its driver. */
void xk_reader_take_along(struct xk_reader *reader, const struct xk_reader *driver);

/* Moves the reader into the current epoch, once per turn: it no longer uses what it resolved before. */
static inline void
xk_reader_pass(struct xk_reader *reader)
{
	uint64_t now = atomic_load_explicit(&reader->epochs->now, memory_order_acquire);

	atomic_store_explicit(&reader->since, now, memory_order_release);
}

#endif
