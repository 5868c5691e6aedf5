/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where every lazy stub goes with its slot: keep whatever can carry an argument, ask
 * entry_resolve(slot) for the function, restore, jump there. The stack arguments and the return
 * address stay where they are, so the function sees exactly its caller's call.
 */
#ifdef __CET__
#include <cet.h>
#endif

	.text
	.p2align 4
	.globl entry_lazy
	.hidden entry_lazy
	.type entry_lazy, %function
entry_lazy:
	.cfi_startproc
#if defined(__x86_64__)
	/* here: slot at (%rsp), return address at 8(%rsp), so %rsp is a multiple of 16 */
	.cfi_def_cfa_offset 16
	subq $208, %rsp
	.cfi_adjust_cfa_offset 208
	movaps %xmm0, (%rsp)
	movaps %xmm1, 16(%rsp)
	movaps %xmm2, 32(%rsp)
	movaps %xmm3, 48(%rsp)
	movaps %xmm4, 64(%rsp)
	movaps %xmm5, 80(%rsp)
	movaps %xmm6, 96(%rsp)
	movaps %xmm7, 112(%rsp)
	movq %rdi, 128(%rsp)
	movq %rsi, 136(%rsp)
	movq %rdx, 144(%rsp)
	movq %rcx, 152(%rsp)
	movq %r8, 160(%rsp)
	movq %r9, 168(%rsp)
	movq %rax, 176(%rsp) /* number of vector registers of a variadic call */
	movq %r10, 184(%rsp) /* static chain */
	movl 208(%rsp), %edi
	call entry_resolve
	movq %rax, %r11
	movq 184(%rsp), %r10
	movq 176(%rsp), %rax
	movq 168(%rsp), %r9
	movq 160(%rsp), %r8
	movq 152(%rsp), %rcx
	movq 144(%rsp), %rdx
	movq 136(%rsp), %rsi
	movq 128(%rsp), %rdi
	movaps 112(%rsp), %xmm7
	movaps 96(%rsp), %xmm6
	movaps 80(%rsp), %xmm5
	movaps 64(%rsp), %xmm4
	movaps 48(%rsp), %xmm3
	movaps 32(%rsp), %xmm2
	movaps 16(%rsp), %xmm1
	movaps (%rsp), %xmm0
	addq $216, %rsp
	.cfi_adjust_cfa_offset -216
	jmp *%r11
#elif defined(__aarch64__)
	/* here: slot in w16 */
	stp x29, x30, [sp, -224]!
	.cfi_def_cfa_offset 224
	.cfi_offset x29, -224
	.cfi_offset x30, -216
	mov x29, sp
	stp x0, x1, [sp, 16]
	stp x2, x3, [sp, 32]
	stp x4, x5, [sp, 48]
	stp x6, x7, [sp, 64]
	str x8, [sp, 80] /* address of a structure to be returned */
	stp q0, q1, [sp, 96]
	stp q2, q3, [sp, 128]
	stp q4, q5, [sp, 160]
	stp q6, q7, [sp, 192]
	mov w0, w16
	bl entry_resolve
	mov x16, x0
	ldp q6, q7, [sp, 192]
	ldp q4, q5, [sp, 160]
	ldp q2, q3, [sp, 128]
	ldp q0, q1, [sp, 96]
	ldr x8, [sp, 80]
	ldp x6, x7, [sp, 64]
	ldp x4, x5, [sp, 48]
	ldp x2, x3, [sp, 32]
	ldp x0, x1, [sp, 16]
	ldp x29, x30, [sp], 224
	.cfi_restore x30
	.cfi_restore x29
	.cfi_def_cfa_offset 0
	br x16
#else
#error "entry_lazy: x86-64 and aarch64 only"
#endif
	.cfi_endproc
	.size entry_lazy, . - entry_lazy
	.section .note.GNU-stack, "", %progbits
