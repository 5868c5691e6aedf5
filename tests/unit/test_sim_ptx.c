// SPDX-License-Identifier: Apache-2.0
/* What the simulator reads of PTX. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "sim/cuda/ptx.h"

#define HEAD ".version 8.0\n.target sm_90a, debug\n.address_size 64\n"

static const struct ptx_entry *entry(const struct ptx_image *image, const char *name)
{
	for (unsigned i = 0; i < image->entry_count; i++) {
		if (!strcmp(image->entries[i].name, name))
			return &image->entries[i];
	}
	return NULL;
}

static void declarations_are_found_whatever_stands_between(void **unused)
{
	static const char text[] =
		"// made by hand\n" HEAD ".file 1 \"dir with .entry nothing/x.cu\"\n"
		".extern .func  (.param .b32 func_retval0) vprintf\n(\n.param .b64 "
		"vprintf_param_0,\n"
		".param .b64 vprintf_param_1\n)\n;\n"
		".extern .shared .align 16 .b8 dynamic[];\n"
		".visible .global .align 4 .u32 word = 42;\n"
		".global .align 8 .u64 table[3] = {generic(word), generic(helper)+8, -2};\n"
		".const .align 4 .f32 half = 0f3F000000;\n"
		".global .attribute(.managed) .align 4 .u32 shared_word;\n"
		".func (.reg .u32 r) helper(.reg .u32 a)\n{\n add.u32 r, a, 1; ret;\n}\n"
		".visible .entry /* .entry fake */ first(\n"
		" .param .u64 .ptr .global .align 16 first_a,\n .param .align 4 .b8 first_b[12],\n"
		" .param .u8 first_c,\n .param .f64 first_d)\n"
		".maxntid 64, 2, 1 .minnctapersm 2\n{\n"
		" .shared .align 4 .b8 tile[128];\n .reg .pred %p<2>;\n"
		" .loc 1 3 4 ; not an instruction }\n"
		"$L__BB0_1: @!%p1 bra $L__BB0_1;\n"
		" { .param .b64 p0; st.param.b64 [p0], %rd1;\n"
		" prototype_0 : .callprototype (.param .b32 _) _ (.param .b64 _);\n"
		" call (r0), %rd2, (p0), prototype_0; }\n"
		" mov.b64 %rd1, {%r1, %r2};\n ret;\n}\n"
		".section .debug_info\n{\n.b32 100\n}\n"
		".entry second() { ret; }";
	struct ptx_image image;
	const struct ptx_entry *first;
	int64_t values[3];

	(void)unused;
	assert_int_equal(ptx_image_read(text, &image), 0);
	assert_false(image.opaque);
	assert_int_equal(image.ptx_version, 80);
	assert_int_equal(image.target, 90);
	assert_int_equal(image.entry_count, 2);
	assert_non_null(entry(&image, "second"));
	first = entry(&image, "first");
	assert_non_null(first);
	assert_int_equal(first->param_count, 4);
	assert_int_equal(first->params[1].offset, 8);
	assert_int_equal(first->params[1].size, 12);
	assert_int_equal(first->params[2].offset, 20);
	assert_int_equal(first->params[3].offset, 24);
	assert_int_equal(first->param_bytes, 32);
	assert_int_equal(first->max_threads, 128);
	assert_int_equal(first->shared_bytes, 128);
	assert_int_equal(image.global_count, 4);
	assert_int_equal(image.globals[0].initial[0], 42);
	memcpy(values, image.globals[1].initial, sizeof(values));
	assert_int_equal(values[1], 0); /* addresses count as 0 */
	assert_int_equal(values[2], -2);
	assert_int_equal(image.globals[2].initial[3], 0x3f);
	assert_int_equal(image.const_bytes, 4);
	assert_true(image.globals[3].managed);
	assert_null(image.globals[3].initial);
	ptx_image_fini(&image);
}

static void what_is_wrong_is_told_apart(void **unused)
{
	static const struct {
		const char *text;
		int result;
	} cases[] = {
		{ "", -ENOEXEC },
		{ "no image", -ENOEXEC },
		{ "\1\2\3\4", -ENOEXEC },
		{ ".target sm_90\n", -ENOEXEC },
		{ ".version 9.1\n.target sm_90\n", -EPROTONOSUPPORT },
		{ ".version 8.0\n", -EBADMSG },
		{ ".version 8.0\n.target compute_90\n", -EBADMSG },
		{ HEAD ".entry f() { nonsense.u32 a; }", -EBADMSG },
		{ HEAD ".entry f() { ret;", -EBADMSG },
		{ HEAD ".entry f() { ret }", -EBADMSG },
		{ HEAD ".entry f(.param .u64 a { ret; }", -EBADMSG },
		{ HEAD ".entry f(.param .b8 a[99999]) { ret; }", -EBADMSG },
		{ HEAD ".global .u32 a[2] = {1, 2, 3};", -EBADMSG },
		{ HEAD "}", -EBADMSG },
		{ HEAD, 0 },
		{ HEAD ".entry f() ; .entry f() { ret; }", 0 },
	};
	char elf[64] = "\177ELF\2\1\1";
	struct ptx_image image;

	(void)unused;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int r = ptx_image_read(cases[i].text, &image);

		if (r != cases[i].result)
			fail_msg("'%s': %d", cases[i].text, r);
		if (r == 0)
			ptx_image_fini(&image);
	}
	elf[18] = (char)190;
	assert_int_equal(ptx_image_read(elf, &image), 0);
	assert_true(image.opaque);
	ptx_image_fini(&image);
}

/* no prefix of a good text may be read beyond its end (the sanitizers look) */
static void cut_texts_are_survived(void **unused)
{
	char text[16384];
	struct ptx_image image;
	FILE *in = fopen(KERNELS_PTX, "re");
	size_t len;

	(void)unused;
	assert_non_null(in);
	len = fread(text, 1, sizeof(text) - 1, in);
	fclose(in);
	text[len] = '\0';
	assert_int_equal(ptx_image_read(text, &image), 0);
	assert_int_equal(image.entry_count, 6);
	ptx_image_fini(&image);
	for (size_t cut = 0; cut < len; cut += 7) {
		char saved = text[cut];

		text[cut] = '\0';
		if (ptx_image_read(text, &image) == 0)
			ptx_image_fini(&image);
		text[cut] = saved;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(declarations_are_found_whatever_stands_between),
		cmocka_unit_test(what_is_wrong_is_told_apart),
		cmocka_unit_test(cut_texts_are_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
