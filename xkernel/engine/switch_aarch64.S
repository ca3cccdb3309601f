/*
 * switch_aarch64.S - the switch between two stacks (stack.h), AAPCS64.
 *
 * A stack at rest has on top: x29 x30 x19-x28 d8-d15; x30 is the address at which it continues. The call frame
 * information is the same before and after the stack pointer changes, so a debugger can unwind at every instruction.
 */
#if defined(__aarch64__)

	.text

/* void xk_context_swap(struct xk_context *from (x0), struct xk_context *to (x1)): both begin with the saved sp. */
	.globl	xk_context_swap
	.type	xk_context_swap, %function
	.p2align 4
xk_context_swap:
	.cfi_startproc
	stp	x29, x30, [sp, #-160]!
	.cfi_adjust_cfa_offset 160
	.cfi_rel_offset x29, 0
	.cfi_rel_offset x30, 8
	stp	x19, x20, [sp, #16]
	.cfi_rel_offset x19, 16
	.cfi_rel_offset x20, 24
	stp	x21, x22, [sp, #32]
	.cfi_rel_offset x21, 32
	.cfi_rel_offset x22, 40
	stp	x23, x24, [sp, #48]
	.cfi_rel_offset x23, 48
	.cfi_rel_offset x24, 56
	stp	x25, x26, [sp, #64]
	.cfi_rel_offset x25, 64
	.cfi_rel_offset x26, 72
	stp	x27, x28, [sp, #80]
	.cfi_rel_offset x27, 80
	.cfi_rel_offset x28, 88
	stp	d8, d9, [sp, #96]
	stp	d10, d11, [sp, #112]
	stp	d12, d13, [sp, #128]
	stp	d14, d15, [sp, #144]
	mov	x9, sp
	str	x9, [x0]
	ldr	x9, [x1]
	mov	sp, x9
	ldp	d14, d15, [sp, #144]
	ldp	d12, d13, [sp, #128]
	ldp	d10, d11, [sp, #112]
	ldp	d8, d9, [sp, #96]
	ldp	x27, x28, [sp, #80]
	ldp	x25, x26, [sp, #64]
	ldp	x23, x24, [sp, #48]
	ldp	x21, x22, [sp, #32]
	ldp	x19, x20, [sp, #16]
	ldp	x29, x30, [sp], #160
	.cfi_adjust_cfa_offset -160
	.cfi_restore x19
	.cfi_restore x20
	.cfi_restore x21
	.cfi_restore x22
	.cfi_restore x23
	.cfi_restore x24
	.cfi_restore x25
	.cfi_restore x26
	.cfi_restore x27
	.cfi_restore x28
	.cfi_restore x29
	.cfi_restore x30
	ret
	.cfi_endproc
	.size	xk_context_swap, . - xk_context_swap

/* Entry point of a prepared stack: calls x19(x20), which never returns. Frame pointer and return address are zero. */
	.globl	xk_context_start
	.hidden	xk_context_start
	.type	xk_context_start, %function
	.p2align 4
xk_context_start:
	.cfi_startproc
	.cfi_undefined x30
	mov	x29, xzr
	mov	x30, xzr
	mov	x0, x20
	blr	x19
	brk	#1
	.cfi_endproc
	.size	xk_context_start, . - xk_context_start

#endif

	.section .note.GNU-stack, "", %progbits
