/*
 * switch_x86_64.S - the switch between two stacks (stack.h), System V ABI.
 *
 * A stack at rest has on top: r15 r14 r13 r12 rbx rbp, then the address at which it continues. The call frame
 * information is the same before and after the stack pointer changes, so a debugger can unwind at every instruction.
 *
 * The switch ends in a jump, not a return: the processor predicts that a return goes back to this call and not to the
 * one on the other stack, so a return would cost a misprediction (11 ns of 20 there and back).
 */
#if defined(__x86_64__)

	.text

/* void xk_context_swap(struct xk_context *from (rdi), struct xk_context *to (rsi)): both begin with the saved rsp. */
	.globl	xk_context_swap
	.type	xk_context_swap, @function
	.p2align 4
xk_context_swap:
	.cfi_startproc
	pushq	%rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbp, 0
	pushq	%rbx
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbx, 0
	pushq	%r12
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %r12, 0
	pushq	%r13
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %r13, 0
	pushq	%r14
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %r14, 0
	pushq	%r15
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %r15, 0
	movq	%rsp, (%rdi)
	movq	(%rsi), %rsp
	popq	%r15
	.cfi_adjust_cfa_offset -8
	.cfi_restore %r15
	popq	%r14
	.cfi_adjust_cfa_offset -8
	.cfi_restore %r14
	popq	%r13
	.cfi_adjust_cfa_offset -8
	.cfi_restore %r13
	popq	%r12
	.cfi_adjust_cfa_offset -8
	.cfi_restore %r12
	popq	%rbx
	.cfi_adjust_cfa_offset -8
	.cfi_restore %rbx
	popq	%rbp
	.cfi_adjust_cfa_offset -8
	.cfi_restore %rbp
	popq	%rcx
	.cfi_adjust_cfa_offset -8
	.cfi_register %rip, %rcx
	jmp	*%rcx
	.cfi_endproc
	.size	xk_context_swap, . - xk_context_swap

/* Where a prepared stack begins: calls r12(r13), which never returns. The stack is aligned and ends in a zero. */
	.globl	xk_context_start
	.hidden	xk_context_start
	.type	xk_context_start, @function
	.p2align 4
xk_context_start:
	.cfi_startproc
	.cfi_undefined %rip
	movq	%r13, %rdi
	callq	*%r12
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
