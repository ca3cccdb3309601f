/*
 * stack.h - detachable stacks, on which shepherds run in IPP mode, and the switch between them.
 *
 * A context is a stack at rest: its saved stack pointer, and what sanitizers and valgrind need to know of it. A switch
 * saves only the callee-saved registers, makes no system call and costs a few nanoseconds. Floating-point control words
 * are not saved: protocols do not change them. The switch itself is below and in switch_aarch64.S.
 *
 * After a switch the code may run on another thread of the operating system. Code that uses thread-locals is therefore
 * in functions of separately compiled files.
 */
#ifndef XK_STACK_H
#define XK_STACK_H

#include "xkernel/base.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define XK_CONTEXT_ASAN
#endif
#if __has_feature(thread_sanitizer)
#define XK_CONTEXT_TSAN
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) && !defined(XK_CONTEXT_ASAN)
#define XK_CONTEXT_ASAN
#endif
#if defined(__SANITIZE_THREAD__) && !defined(XK_CONTEXT_TSAN)
#define XK_CONTEXT_TSAN
#endif

struct xk_context {
	void *saved;        /* stack pointer while at rest; first, for the assembly */
	const void *bottom; /* lowest address of the stack, above its guard page */
	size_t size;
	void (*entry)(void *argument); /* of the last prepare */
	void *argument;
	void *fake;  /* AddressSanitizer's, while at rest */
	void *fiber; /* ThreadSanitizer's */
	unsigned valgrind_id;
	bool mapped;     /* made by xk_context_map; false: a thread's own stack */
	bool registered; /* valgrind_id is valid */
};

/* Maps a stack of at least size bytes with a guard page below it. 0 or -ENOMEM. Prepare it before switching to it. */
int xk_context_map(struct xk_context *context, size_t size);

/* Unmaps a stack that does not run and will not run again. */
void xk_context_unmap(struct xk_context *context);

/*
 * Makes the next switch to the mapped context call entry(argument) on an empty stack. entry never returns. May be
 * called again to abandon what the context was doing, while it does not run.
 */
void xk_context_prepare(struct xk_context *context, void (*entry)(void *argument), void *argument);

/* Makes context stand for the calling thread's own stack, to switch away from and back to. */
void xk_context_adopt(struct xk_context *context);
/* Undoes xk_context_adopt. On the thread's own stack. */
void xk_context_disown(struct xk_context *context);

#ifdef __x86_64__

/*
 * The bare switch. Not for callers. A stack at rest has rbp on top, then the address at which it continues; the
 * compiler saves what else it needs. The switch is inlined and ends in a jump, because a processor predicts that a
 * return goes back to the last call, and after a switch the last call was on the other stack: each return that crosses
 * it costs a misprediction, 5 ns. A debugger that stops between these instructions does not see the caller.
 */
__attribute__((always_inline)) static inline void
xk_context_swap(struct xk_context *from, struct xk_context *to)
{
	__asm__ volatile("subq $128, %%rsp\n\t" /* the red zone, which a leaf function may use */
			 "leaq 1f(%%rip), %%rax\n\t"
			 "pushq %%rax\n\t"
			 "pushq %%rbp\n\t"
			 "movq %%rsp, (%%rdi)\n\t"
			 "movq (%%rsi), %%rsp\n\t"
			 "popq %%rbp\n\t"
			 "popq %%rax\n\t"
			 "jmp *%%rax\n"
			 "1:\taddq $128, %%rsp"
			 : "+D"(from), "+S"(to)
			 :
			 : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0",
			   "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
			   "xmm12", "xmm13", "xmm14", "xmm15", "memory", "cc");
}

#else
void xk_context_swap(struct xk_context *from, struct xk_context *to);
#endif

#if defined(XK_CONTEXT_ASAN) || defined(XK_CONTEXT_TSAN)

void xk_context_switch(struct xk_context *from, struct xk_context *to);
__attribute__((noreturn)) void xk_context_leave(struct xk_context *from, struct xk_context *to);

#else

/*
 * Saves the running stack in `from` and continues with `to`. Returns when something switches to `from` again, perhaps
 * on another thread. Nothing may switch to `from` before this has left it: publish it afterwards, from the code that
 * continues on `to`.
 */
static inline void
xk_context_switch(struct xk_context *from, struct xk_context *to)
{
	xk_context_swap(from, to);
}

/* Switches to `to` and abandons the mapped context `from`, which may be prepared or unmapped as soon as `to` runs. */
__attribute__((noreturn)) static inline void
xk_context_leave(struct xk_context *from, struct xk_context *to)
{
	xk_context_swap(from, to);
	__builtin_unreachable();
}

#endif
#endif
