/*
 * base.h - what every other header stands on: assertions, hints, and the error convention.
 *
 * Errors: set-up and control functions return 0 or -errno; constructors return NULL. demux and pop
 * return nothing, since their caller could do nothing about it: they pass a message on, store it, or
 * drop it under a name (upi.h, xk_drop).
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

/* The object of type TYPE whose MEMBER is at POINTER. */
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

/* A function off the usual way, apart from it, so that the usual way saves no registers for its sake. */
#define XK_APART __attribute__((noinline))

#define XK_ARRAY_LENGTH(a) (sizeof(a) / sizeof((a)[0]))

/* Prints what failed and where, then aborts. Never returns. Any context. */
__attribute__((noreturn, cold)) void xk_assert_failed(const char *what, const char *file, int line);

/* For our own mistakes only; what a packet, a file or an option says is never asserted. On in release. */
#define xk_assert(condition) (xk_likely(condition) ? (void)0 : xk_assert_failed(#condition, __FILE__, __LINE__))

/* As xk_assert, for checks on the way of every message: compiled in debug builds only. */
#ifdef XK_DEBUG
#define xk_debug_assert(condition) xk_assert(condition)
#else
#define xk_debug_assert(condition) ((void)sizeof(condition))
#endif

#endif
