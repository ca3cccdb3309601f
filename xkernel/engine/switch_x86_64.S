/* switch_x86_64.S - the entry point of stacks, and the thread's shepherd; the switch between them is in stack.h. */
#if defined(__x86_64__)

	.text

/* Entry point of a prepared stack: pops an argument and a function, and calls the function, which never returns. */
	.globl	xk_context_start
	.hidden	xk_context_start
	.type	xk_context_start, @function
	.p2align 4
xk_context_start:
	.cfi_startproc
	.cfi_undefined %rip
	popq	%rdi
	popq	%rax
	callq	*%rax
	ud2
	.cfi_endproc
	.size	xk_context_start, . - xk_context_start

/*
 * The shepherd that runs on this thread (process.h). It is defined here because xk_self() names it only in assembly: a
 * compiler that sees the whole program would remove a variable of C as unused.
 */
	.section .tbss, "awT", @nobits
	.globl	xk_self_running
	.type	xk_self_running, @object
	.size	xk_self_running, 8
	.p2align 3
xk_self_running:
	.zero	8

#endif

	.section .note.GNU-stack, "", %progbits
