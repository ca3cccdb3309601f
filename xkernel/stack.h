/*
 * stack.h - detachable stacks: what shepherds run on in IPP mode, and the switch between them.
 *
 * A context is a stack at rest: its saved stack pointer, and what sanitizers and valgrind have to be told at each
 * switch. A switch saves the callee-saved registers only and costs a few nanoseconds; no system call. Floating-point
 * control words are not saved: protocols do not change them.
 * The switch itself is in switch_x86_64.S and switch_aarch64.S. After a switch the code may run on another thread of
 * the operating system: whatever touches thread-locals stands in functions of separately compiled files.
 */
#ifndef XK_STACK_H
#define XK_STACK_H

#include "xkernel/base.h"

struct xk_context {
	void *saved;		/* stack pointer while at rest */
	const void *bottom;	/* lowest address of the stack, above its guard page */
	size_t size;
	void *fake;		/* AddressSanitizer's */
	void *fiber;		/* ThreadSanitizer's */
	unsigned valgrind_id;
	bool mapped;		/* made by xk_context_map; false: a thread's own stack */
};

/* Maps a stack of at least size bytes with a guard page below it. 0 or -ENOMEM. */
int xk_context_map(struct xk_context *context, size_t size);

/* Unmaps it. Nobody runs on it. */
void xk_context_unmap(struct xk_context *context);

/*
 * Makes entry(argument) what the next switch to the mapped context begins with, on an empty stack. entry never
 * returns. May be called again when the context is no longer needed as it stands.
 */
void xk_context_prepare(struct xk_context *context, void (*entry)(void *argument), void *argument);

/* Makes context stand for the calling thread's own stack, to switch away from and back to. */
void xk_context_adopt(struct xk_context *context);
/* Gives back what adopt took; the thread runs on its own stack. */
void xk_context_disown(struct xk_context *context);

/*
 * Saves the running stack in `from` and goes on with `to`; returns when somebody switches to `from` again, perhaps on
 * another thread. Nobody else may switch to `from` before this has left it: who is to find it is told afterwards, by
 * the code that `to` goes on with.
 */
void xk_context_switch(struct xk_context *from, struct xk_context *to);

#endif
