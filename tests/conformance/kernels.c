// SPDX-License-Identifier: Apache-2.0
#include "conform.h"

/* PTX, so that one text serves every card; grid-stride loops, any launch shape covers all n. */
#define GRID_STRIDE                                                           \
	"mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;\n" \
	"mad.lo.u32 %r4, %r1, %r2, %r3; cvt.u64.u32 %rd3, %r4;\n"             \
	"mov.u32 %r5, %nctaid.x; mul.lo.u32 %r5, %r5, %r2; cvt.u64.u32 %rd4, %r5;\n"

#define REGISTERS ".reg .pred %p<3>; .reg .b32 %r<10>; .reg .f32 %f<6>; .reg .b64 %rd<14>;\n"

const char kernels_ptx[] =
	".version 7.0\n"
	".target sm_70\n"
	".address_size 64\n"
	".visible .global .align 4 .u32 allot_word = 42;\n"
	".visible .global .align 8 .b8 allot_block[4096];\n"
	".visible .const .align 4 .u32 allot_constant = 7;\n"

	".visible .entry allot_fill_u32(.param .u64 ptr, .param .u32 value, .param .u64 n)\n"
	"{\n" REGISTERS "ld.param.u64 %rd1, [ptr]; ld.param.u32 %r6, [value];\n"
	"ld.param.u64 %rd2, [n];\n" GRID_STRIDE "F_LOOP: setp.ge.u64 %p1, %rd3, %rd2;\n"
	"@%p1 bra F_END;\n"
	"shl.b64 %rd5, %rd3, 2; add.u64 %rd6, %rd1, %rd5; st.global.u32 [%rd6], %r6;\n"
	"add.u64 %rd3, %rd3, %rd4; bra F_LOOP;\n"
	"F_END: ret;\n}\n"

	".visible .entry allot_add_u32(.param .u64 ptr, .param .u32 value, .param .u64 n)\n"
	"{\n" REGISTERS "ld.param.u64 %rd1, [ptr]; ld.param.u32 %r6, [value];\n"
	"ld.param.u64 %rd2, [n];\n" GRID_STRIDE "A_LOOP: setp.ge.u64 %p1, %rd3, %rd2;\n"
	"@%p1 bra A_END;\n"
	"shl.b64 %rd5, %rd3, 2; add.u64 %rd6, %rd1, %rd5; ld.global.u32 %r7, [%rd6];\n"
	"add.u32 %r7, %r7, %r6; st.global.u32 [%rd6], %r7;\n"
	"add.u64 %rd3, %rd3, %rd4; bra A_LOOP;\n"
	"A_END: ret;\n}\n"

	".visible .entry allot_saxpy_f32(.param .u64 y, .param .u64 x, .param .f32 a,"
	" .param .u64 n)\n"
	"{\n" REGISTERS "ld.param.u64 %rd1, [y]; ld.param.u64 %rd7, [x]; ld.param.f32 %f1, [a];\n"
	"ld.param.u64 %rd2, [n];\n" GRID_STRIDE "S_LOOP: setp.ge.u64 %p1, %rd3, %rd2;\n"
	"@%p1 bra S_END;\n"
	"shl.b64 %rd5, %rd3, 2; add.u64 %rd6, %rd1, %rd5; add.u64 %rd8, %rd7, %rd5;\n"
	"ld.global.f32 %f2, [%rd6]; ld.global.f32 %f3, [%rd8];\n"
	"fma.rn.f32 %f2, %f1, %f3, %f2; st.global.f32 [%rd6], %f2;\n"
	"add.u64 %rd3, %rd3, %rd4; bra S_LOOP;\n"
	"S_END: ret;\n}\n"

	".visible .entry allot_sum_u64(.param .u64 in, .param .u64 n, .param .u64 out)\n"
	"{\n" REGISTERS "ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [n];\n"
	"ld.param.u64 %rd7, [out];\n" GRID_STRIDE "setp.ne.u64 %p1, %rd3, 0; @%p1 bra U_END;\n"
	"mov.u64 %rd8, 0;\n"
	"U_LOOP: setp.eq.u64 %p1, %rd2, 0; @%p1 bra U_STORE;\n"
	"ld.global.u64 %rd9, [%rd1]; add.u64 %rd8, %rd8, %rd9;\n"
	"add.u64 %rd1, %rd1, 8; sub.u64 %rd2, %rd2, 1; bra U_LOOP;\n"
	"U_STORE: st.global.u64 [%rd7], %rd8;\n"
	"U_END: ret;\n}\n"

	".visible .entry allot_spin_ns(.param .u64 ns)\n"
	"{\n" REGISTERS "ld.param.u64 %rd1, [ns]; mov.u64 %rd2, %globaltimer;\n"
	"N_LOOP: mov.u64 %rd3, %globaltimer; sub.u64 %rd4, %rd3, %rd2;\n"
	"setp.lt.u64 %p1, %rd4, %rd1; @%p1 bra N_LOOP;\n"
	"ret;\n}\n"

	".visible .entry allot_empty()\n"
	"{\nret;\n}\n";
