/* spin.c - short locks. Who holds one does a bounded few things; who waits for one gives the core away soon. */
#include <sched.h>

#include "xkernel/engine.h"

enum { SPIN_TRIES = 64 };

void
xk_spin_lock(_Atomic uint32_t *lock)
{
	for (unsigned tries = 1; atomic_exchange_explicit(lock, 1, memory_order_acquire) != 0; tries++)
		if (tries % SPIN_TRIES == 0)
			sched_yield();
}

void
xk_spin_unlock(_Atomic uint32_t *lock)
{
	atomic_store_explicit(lock, 0, memory_order_release);
}
