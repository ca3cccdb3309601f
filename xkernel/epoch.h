/*
 * epoch.h - when what somebody may still be reading can be given back.
 *
 * A message is carried up without taking a lock or a reference: what the Map tool resolves stays valid until
 * its shepherd's turn ends. Who takes an object out of every map retires it; it is freed once every shepherd
 * that was running then has ended its turn or has parked. A shepherd that parks keeps references on the
 * sessions it is popping through (upi.h) and on nothing else: what it resolved before, it resolves again.
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
 * Calls release(retired) when nobody can be reading it any more, from any shepherd; release must not wait.
 * The object must already be out of reach (unbound from its maps). Any context; never waits.
 */
void xk_retire(struct xk_kernel *kernel, struct xk_retired *retired, void (*release)(struct xk_retired *retired));

#endif
