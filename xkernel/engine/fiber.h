/*
 * fiber.h - fibers, with which platforms make their own threads (platform.h, struct xk_thread_ops): stacks that take
 * turns on one thread of the operating system. For platforms; protocols do not include it.
 *
 * A fiber runs code of the kernel, which may be on a detachable stack when it waits. xk_fiber_rest therefore leaves
 * whatever stack is running, and saves what xk_self returns.
 */
#ifndef XK_FIBER_H
#define XK_FIBER_H

#include "xkernel/engine/stack.h"

struct xk_shepherd;

struct xk_fiber {
	struct xk_context stack;  /* its own, on which it begins */
	struct xk_context *at;    /* where it continues: its own stack or a shepherd's */
	struct xk_context *to;    /* the context that runs it, while it runs */
	struct xk_shepherd *self; /* what xk_self returns on it */
};

/* Makes a fiber that begins with body(argument) on a stack of at least size bytes. body never returns. 0 or -ENOMEM. */
int xk_fiber_init(struct xk_fiber *fiber, size_t size, void (*body)(void *argument), void *argument);

/* Frees a fiber that does not run and will not run again. */
void xk_fiber_fini(struct xk_fiber *fiber);

/* Runs fiber until it rests. The caller, which is on no fiber, rests in `from` meanwhile. */
void xk_fiber_run(struct xk_fiber *fiber, struct xk_context *from);

/* Returns to the caller of xk_fiber_run, until that is called again. On the fiber. */
void xk_fiber_rest(struct xk_fiber *fiber);

/* Makes context stand for the running thread's own stack, as xk_context_adopt does, if the thread is a fiber. */
void xk_fiber_adopt(const struct xk_fiber *fiber, struct xk_context *context);

#endif
