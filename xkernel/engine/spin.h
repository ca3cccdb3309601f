/* spin.h - short locks: held for a bounded few instructions, never across a call that may wait. Any context. */
#ifndef XK_SPIN_H
#define XK_SPIN_H

#include "xkernel/base.h"

void xk_spin_lock(_Atomic uint32_t *lock);
void xk_spin_unlock(_Atomic uint32_t *lock);

#endif
