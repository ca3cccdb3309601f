/* spin.c - short locks. Holders do a bounded few things; waiters soon yield the core. */
#include <sched.h>

#include "xkernel/engine/spin.h"

enum { SPIN_TRIES = 64 };

/* Not inlined: taking a free lock must save no registers. */
__attribute__((noinline)) static void
spin_wait(_Atomic uint32_t *lock)
{
	for (unsigned tries = 1; atomic_exchange_explicit(lock, 1, memory_order_acquire) != 0; tries++)
		if (tries % SPIN_TRIES == 0)
			sched_yield();
}

void
xk_spin_lock(_Atomic uint32_t *lock)
{
	if (xk_unlikely(atomic_exchange_explicit(lock, 1, memory_order_acquire) != 0))
		spin_wait(lock);
}

void
xk_spin_unlock(_Atomic uint32_t *lock)
{
	atomic_store_explicit(lock, 0, memory_order_release);
}
