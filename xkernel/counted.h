/*
 * counted.h - counts each thread's atomic read-modify-writes in debug builds, so that tests can check that a path has
 * none. For base.h; redefines operations of stdatomic.h for all code that is compiled with XK_DEBUG.
 */
#ifndef XK_COUNTED_H
#define XK_COUNTED_H

#include <stdatomic.h>

/* Counts one for the running shepherd's thread; ignores foreign threads. Any context. */
void xk_count_atomic(void);

#undef atomic_exchange_explicit
#undef atomic_fetch_add_explicit
#undef atomic_fetch_sub_explicit
#undef atomic_fetch_or_explicit
#undef atomic_fetch_and_explicit
#undef atomic_compare_exchange_strong_explicit
#undef atomic_compare_exchange_weak_explicit

#if defined(__clang__)
#define XK_COUNTED(operation) __c11_atomic_##operation
#define XK_COUNTED_EXCHANGE __c11_atomic_exchange
#define XK_COUNTED_SWAP(object, expected, value, is_weak, success, failure)                                            \
	(is_weak ? __c11_atomic_compare_exchange_weak(object, expected, value, success, failure)                       \
		 : __c11_atomic_compare_exchange_strong(object, expected, value, success, failure))
#else
#define XK_COUNTED(operation) __atomic_##operation
#define XK_COUNTED_EXCHANGE __atomic_exchange_n
#define XK_COUNTED_SWAP(object, expected, value, is_weak, success, failure)                                            \
	__atomic_compare_exchange_n(object, expected, value, is_weak, success, failure)
#endif

#define atomic_exchange_explicit(object, value, order) (xk_count_atomic(), XK_COUNTED_EXCHANGE(object, value, order))
#define atomic_fetch_add_explicit(object, value, order) (xk_count_atomic(), XK_COUNTED(fetch_add)(object, value, order))
#define atomic_fetch_sub_explicit(object, value, order) (xk_count_atomic(), XK_COUNTED(fetch_sub)(object, value, order))
#define atomic_fetch_or_explicit(object, value, order) (xk_count_atomic(), XK_COUNTED(fetch_or)(object, value, order))
#define atomic_fetch_and_explicit(object, value, order) (xk_count_atomic(), XK_COUNTED(fetch_and)(object, value, order))
#define atomic_compare_exchange_strong_explicit(object, expected, value, success, failure)                             \
	(xk_count_atomic(), XK_COUNTED_SWAP(object, expected, value, 0, success, failure))
#define atomic_compare_exchange_weak_explicit(object, expected, value, success, failure)                               \
	(xk_count_atomic(), XK_COUNTED_SWAP(object, expected, value, 1, success, failure))

#endif
