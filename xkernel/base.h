/*
 * base.h - the base of all headers: assertions, hints, and the error convention.
 *
 * Errors: set-up and control functions return 0 or -errno; constructors return NULL. demux and pop return nothing,
 * because their caller could do nothing about an error: they pass a message on, store it, or drop it under a name
 * (xk_drop in upi.h).
 */
#ifndef XK_BASE_H
#define XK_BASE_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef XK_DEBUG
#include "xkernel/counted.h"
#endif

#define xk_likely(x) __builtin_expect(!!(x), 1)
#define xk_unlikely(x) __builtin_expect(!!(x), 0)

/* Returns the object of this type whose member is at pointer. */
#define xk_container_of(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

/* Returns the address of its caller's code, for error messages; 0: unknown. One instruction. */
__attribute__((always_inline)) static inline uintptr_t
xk_here(void)
{
	uintptr_t here = 0;

#if defined(__x86_64__)
	__asm__("leaq 0(%%rip), %0" : "=r"(here));
#elif defined(__aarch64__)
	__asm__("adr %0, ." : "=r"(here));
#endif
	return here;
}

/* Marks a function off the fast path: not inlined, so that the fast path saves no registers for it. */
#define XK_APART __attribute__((noinline))

#define XK_ARRAY_LENGTH(a) (sizeof(a) / sizeof((a)[0]))

/* The direction of a message through the graph: to the protocol above or below. Names are "up" and "down". */
enum xk_direction { XK_UP, XK_DOWN, XK_DIRECTIONS };
extern const char *const xk_direction_names[XK_DIRECTIONS];

/*
 * Returns the text of an error (errno or -errno), with the limit that may have caused it. Goes at the end of a message
 * that names the operation and its object. Any thread, but errors unknown to the C library share one buffer.
 */
const char *xk_error(int error);

/* Prints what failed and where, then aborts. Never returns. Any context. */
__attribute__((noreturn, cold)) void xk_assert_failed(const char *what, const char *file, int line);

/* Aborts unless condition holds, in release builds too. For mistakes in programs, not packets, files or options. */
#define xk_assert(condition) (xk_likely(condition) ? (void)0 : xk_assert_failed(#condition, __FILE__, __LINE__))

#ifdef XK_DEBUG
enum { XK_IS_DEBUG = 1 };
#else
enum { XK_IS_DEBUG = 0 };
#endif

/* As xk_assert, in debug builds only: for checks made on every message. */
#define xk_debug_assert(condition) (XK_IS_DEBUG ? xk_assert(condition) : (void)0)

#endif
