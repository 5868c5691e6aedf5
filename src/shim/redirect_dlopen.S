/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dlopen(name, flags): let redirect_dlopen choose the name, then jump to the next dlopen with our
 * caller's return address still in place. dlopen looks at it: whose RPATH, which namespace,
 * $ORIGIN of whom. redirect_dlopen returns two pointers: the name and the function to jump to.
 */
#ifdef __CET__
#include <cet.h>
#endif

	.text
	.p2align 4
	.globl dlopen
	.type dlopen, %function
dlopen:
	.cfi_startproc
#if defined(__x86_64__)
	endbr64
	subq $24, %rsp
	.cfi_adjust_cfa_offset 24
	movq %rsi, 8(%rsp)
	call redirect_dlopen
	movq 8(%rsp), %rsi
	addq $24, %rsp
	.cfi_adjust_cfa_offset -24
	movq %rax, %rdi
	jmp *%rdx
#elif defined(__aarch64__)
	hint 34
	stp x29, x30, [sp, -32]!
	.cfi_def_cfa_offset 32
	.cfi_offset x29, -32
	.cfi_offset x30, -24
	mov x29, sp
	str x1, [sp, 16]
	bl redirect_dlopen
	mov x16, x1
	ldr x1, [sp, 16]
	ldp x29, x30, [sp], 32
	.cfi_restore x30
	.cfi_restore x29
	.cfi_def_cfa_offset 0
	br x16
#else
#error "redirect_dlopen: x86-64 and aarch64 only"
#endif
	.cfi_endproc
	.size dlopen, . - dlopen
	.section .note.GNU-stack, "", %progbits
