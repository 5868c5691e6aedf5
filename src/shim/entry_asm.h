/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHIM_ENTRY_ASM_H
#define SHIM_ENTRY_ASM_H

/*
 * For the assembler: one table line -> exported entry, lazy stub, real_ pointer (see entry.h).
 *
 * The includer says ENTRY_BEGIN, then includes its table with the macros set to ENTRY_PASS(sym) or
 * ENTRY_HOOK(sym), then ENTRY_END. entry_slot counts the lines. A line costs one indirect jump
 * for the host: no argument is looked at, none is moved. ENTRY_GATED(sym) is for what
 * entry_lib.gate must be asked about at each call: its entry is the lazy stub, always.
 */

/* clang-format off */
#ifdef __CET__
#include <cet.h> /* the note that says: all our targets of indirect jumps are marked */
#endif

#define ENTRY_BEGIN \
	.set entry_slot, 0; \
	.pushsection .data.entry_real, "aw", %progbits; \
	.p2align 6; \
	.globl entry_real; \
	.hidden entry_real; \
	.type entry_real, %object; \
	entry_real: .popsection

#define ENTRY_END \
	.pushsection .data.entry_real, "aw", %progbits; \
	.size entry_real, . - entry_real; \
	.popsection; \
	.section .note.GNU-stack, "", %progbits

#define ENTRY_REAL(sym) \
	.pushsection .data.entry_real, "aw", %progbits; \
	.globl real_##sym; \
	.hidden real_##sym; \
	.type real_##sym, %object; \
	real_##sym: ENTRY_WORD lazy_##sym; \
	.size real_##sym, 8; \
	.popsection; \
	.set entry_slot, entry_slot + 1

#define ENTRY_EXPORT(sym, body) \
	.pushsection .text, "ax", %progbits; \
	.p2align 4; \
	.globl sym; \
	.type sym, %function; \
	sym: .cfi_startproc; \
	body; \
	.cfi_endproc; \
	.size sym, . - sym; \
	.popsection

#if defined(__x86_64__)

#define ENTRY_WORD .quad
#define ENTRY_ASK(sym) endbr64; jmp lazy_##sym
#define ENTRY_JUMP(sym) endbr64; jmp *real_##sym(%rip)
#define ENTRY_LAZY(sym) \
	.pushsection .text, "ax", %progbits; \
	.p2align 4; \
	.type lazy_##sym, %function; \
	lazy_##sym: .cfi_startproc; \
	endbr64; \
	pushq $entry_slot; \
	.cfi_adjust_cfa_offset 8; \
	jmp entry_lazy; \
	.cfi_endproc; \
	.size lazy_##sym, . - lazy_##sym; \
	.popsection

#elif defined(__aarch64__)

/* hint 34: "bti c", a no-op where there is none; x16, x17 may be changed between functions */
#define ENTRY_WORD .xword
#define ENTRY_ASK(sym) hint 34; b lazy_##sym
#define ENTRY_JUMP(sym) hint 34; adrp x16, real_##sym; ldr x16, [x16, :lo12:real_##sym]; br x16
#define ENTRY_LAZY(sym) \
	.pushsection .text, "ax", %progbits; \
	.p2align 4; \
	.type lazy_##sym, %function; \
	lazy_##sym: .cfi_startproc; \
	hint 34; \
	mov w16, entry_slot; \
	b entry_lazy; \
	.cfi_endproc; \
	.size lazy_##sym, . - lazy_##sym; \
	.popsection

#else
#error "entry stubs: x86-64 and aarch64 only"
#endif

#define ENTRY_HOOK(sym) ENTRY_LAZY(sym); ENTRY_REAL(sym)
#define ENTRY_PASS(sym) ENTRY_EXPORT(sym, ENTRY_JUMP(sym)); ENTRY_HOOK(sym)
#define ENTRY_GATED(sym) ENTRY_EXPORT(sym, ENTRY_ASK(sym)); ENTRY_HOOK(sym)

#endif
