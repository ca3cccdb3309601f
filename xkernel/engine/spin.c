/* spin.c - short locks: see spin.h. Waiters soon yield the core. */
#include <sched.h>

#include "xkernel/engine/spin.h"

enum { SPIN_TRIES = 64 };

void
xk_spin_wait(_Atomic uint32_t *lock)
{
	for (unsigned tries = 1; atomic_exchange_explicit(lock, 1, memory_order_acquire) != 0; tries++)
		if (tries % SPIN_TRIES == 0)
			sched_yield();
}
