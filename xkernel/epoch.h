/*
 * epoch.h - when memory that somebody may still be reading can be freed.
 *
 * A message is carried up without taking a lock or a reference: what the Map tool resolves stays valid until its shepherd's
 * turn ends. An object that has been taken out of every map is retired; it is freed once every shepherd that was running
 * then has ended its turn or has parked. A shepherd that parks keeps references on the sessions it is popping through
 * (upi.h) and on nothing else: what it resolved before, it resolves again.
 *
 * Quiescent-state-based reclamation; see McKenney and Slingwine, "Read-Copy Update" (1998).
 */
#ifndef XK_EPOCH_H
#define XK_EPOCH_H

#include "xkernel/base.h"

struct xk_kernel;

/* Lies inside what is retired. */
struct xk_retired {
	struct xk_retired *next;
	uint64_t epoch;
	void (*release)(struct xk_retired *retired);
};

/*
 * Calls release(retired) when nobody can be reading it any more, from any shepherd of kernel; release must not wait. The
 * object must already be out of reach (unbound from its maps). Any context; never waits.
 */
void xk_retire(struct xk_kernel *kernel, struct xk_retired *retired, void (*release)(struct xk_retired *retired));

/* ---- for the engine ---- */

/* A domain: its readers, and what was retired and not yet released. */
struct xk_epochs {
	_Atomic uint64_t now;
	_Atomic unsigned retired;
	/* Called now and then while retired objects pile up: a reader that reclaims may be asleep. Any context. */
	void (*wake)(void *argument);
	void *argument;
	_Atomic uint32_t reclaiming, retired_lock, readers_lock;
	struct xk_retired *first, **last; /* retired, in the order of their epochs */
	struct xk_reader *readers;
};

/*
 * One that reads. A driver is one reader, whatever stack it is on: what runs in it reads under the driver's epoch. A stack
 * that leaves the driver takes that epoch along, and brings it back if it returns still reading.
 */
struct xk_reader {
	_Atomic uint64_t since; /* it may have been reading since this epoch; 0: it reads nothing, or as its driver */
	struct xk_epochs *epochs;
	struct xk_reader *next;
	bool is_driver; /* others take its epoch along */
};

void xk_epochs_init(struct xk_epochs *epochs, void (*wake)(void *argument), void *argument);
/* As xk_retire. */
void xk_epochs_retire(struct xk_epochs *epochs, struct xk_retired *retired,
		      void (*release)(struct xk_retired *retired));
/* Releases what nobody can be reading, unless another thread is doing so. A driver between messages; or when nothing runs. */
void xk_epochs_reclaim(struct xk_epochs *epochs);
/* Releases everything that is retired. When nothing runs. */
void xk_epochs_drain(struct xk_epochs *epochs);

/* Adds a reader that does not read yet, or removes one that does not read any more. Any context. */
void xk_reader_add(struct xk_epochs *epochs, struct xk_reader *reader);
void xk_reader_remove(struct xk_reader *reader);
/* The reader may read from now on what is bound now. */
void xk_reader_enter(struct xk_reader *reader);
/* The reader reads nothing until it enters again. */
void xk_reader_leave(struct xk_reader *reader);
/* The stack's reader is about to leave its driver, and reads on. */
void xk_reader_take_along(struct xk_reader *reader, const struct xk_reader *driver);
/* The driver is about to go on with the stack, whose reader may have been reading since before. */
void xk_reader_bring_back(struct xk_reader *reader, struct xk_reader *driver);

/* The reader holds nothing that it has resolved, and goes on reading: once per turn. */
static inline void
xk_reader_pass(struct xk_reader *reader)
{
	uint64_t now = atomic_load_explicit(&reader->epochs->now, memory_order_acquire);

	atomic_store_explicit(&reader->since, now, memory_order_release);
}

#endif
