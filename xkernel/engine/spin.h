/* spin.h - short locks: held for a bounded few instructions, never across a call that may wait. Any context. */
#ifndef XK_SPIN_H
#define XK_SPIN_H

#include "xkernel/base.h"

/* The slow half of xk_spin_lock. Not for callers. */
void xk_spin_wait(_Atomic uint32_t *lock);

static inline void
xk_spin_lock(_Atomic uint32_t *lock)
{
	if (xk_unlikely(atomic_exchange_explicit(lock, 1, memory_order_acquire) != 0))
		xk_spin_wait(lock);
}

static inline void
xk_spin_unlock(_Atomic uint32_t *lock)
{
	atomic_store_explicit(lock, 0, memory_order_release);
}

#endif
