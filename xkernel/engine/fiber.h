/*
 * fiber.h - what a platform's own threads are made of (platform.h, struct xk_thread_ops): stacks that take turns on one
 * thread of the operating system. For platforms; protocols do not include it.
 *
 * A fiber runs code of the kernel, which may be on a detachable stack when it waits: xk_fiber_rest leaves whatever
 * stack is running, and remembers who xk_self is.
 */
#ifndef XK_FIBER_H
#define XK_FIBER_H

#include "xkernel/engine/stack.h"

struct xk_shepherd;

struct xk_fiber {
	struct xk_context stack;   /* its own, on which it begins */
	struct xk_context resting; /* where it goes on: on its own stack or on a shepherd's */
	struct xk_context *to;     /* who runs it, while it runs */
	struct xk_shepherd *self;  /* what xk_self answers on it */
};

/* A fiber that will begin with body(argument) on a stack of at least size bytes; body never returns. 0 or -ENOMEM. */
int xk_fiber_init(struct xk_fiber *fiber, size_t size, void (*body)(void *argument), void *argument);

/* It does not run, and nobody will go on with it. */
void xk_fiber_fini(struct xk_fiber *fiber);

/* Goes on with fiber until that rests. from is where the caller rests meanwhile; it runs on no fiber. */
void xk_fiber_run(struct xk_fiber *fiber, struct xk_context *from);

/* Back to who runs the fiber, until xk_fiber_run goes on with it. On the fiber. */
void xk_fiber_rest(struct xk_fiber *fiber);

/* Makes context stand for the running thread's own stack, when that is a fiber (as xk_context_adopt does). */
void xk_fiber_adopt(const struct xk_fiber *fiber, struct xk_context *context);

#endif
