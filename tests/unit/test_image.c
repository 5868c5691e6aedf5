// SPDX-License-Identifier: Apache-2.0
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/size.h"
#include "shim/image.h"
#include "shim/image_text.h"

static void text_says_what_its_variables_take(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} rows[] = {
		{ "", 0 },
		{ ".version 8.0\n.target sm_90\n", 0 },
		{ ".global .b8 a[10];", 10 },
		{ ".visible .global .align 16 .b8 a[1073741824];", GIB },
		{ ".weak .global .u64 a;", 8 },
		{ ".global .align 8 .v4 .f32 a[3];", 48 },
		{ ".global .s16 a[2][3];", 12 },
		{ ".global .attribute(.managed) .b32 a[2];", 8 },
		{ ".global .b32 a[4] = {1, 2, 3, 4};", 16 },
		{ ".global .b64 a[2] = {f, g+8}; .global .b8 b;", 17 },
		{ ".global .b8 a[0x10];", 16 },
		{ ".global .b8 a[8U];", 8 },
		{ ".extern .global .b8 a[100];", 0 },
		{ ".extern .shared .b8 a[];", 0 },
		{ ".const .b8 a[100];", 0 },
		{ "// .global .b8 a[10];\n", 0 },
		{ "/* .global .b8 a[10]; * / */ .global .b8 b;", 1 },
		{ ".entry f() { .local .b8 d[64]; ld.global.u32 %r1, [%rd1]; .reg .b64 %rd<4>; }",
		  0 },
		{ ".func (.param .b32 r) g (.param .b64 p) { ret; } .global .b8 a[3];", 3 },
		{ ".global .b8 a[18446744073709551615]; .global .b64 b[9223372036854775807];",
		  UINT64_MAX },
		{ ".global .b8 a[99999999999999999999999];", UINT64_MAX },
		{ ".global .b8 a_name_that_is_much_longer_than_any_word_of_ours[5];", 5 },
		{ ".global .b8 a[3", 0 },
		{ ".version 6.0\n.target sm_50\n.address_size 64\n.visible .global .b32 big[4];",
		  16 },
		{ ".func f (.param .b64 .ptr .global .align 8 p);", 0 },
		{ ".file 1 \"x.cu\"\n.global .b32 a;", 4 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (image_text_bytes(rows[i].text, strlen(rows[i].text)) != rows[i].bytes)
			fail_msg("%s: %ju", rows[i].text,
				 (uintmax_t)image_text_bytes(rows[i].text, strlen(rows[i].text)));
}

/* a cubin: header, three sections, their names */
struct cubin {
	Elf64_Ehdr head;
	Elf64_Shdr section[4];
	char names[64];
};

static void make_cubin(struct cubin *c, uint64_t bytes)
{
	*c = (struct cubin){
		.head = { .e_ident = ELFMAG,
			  .e_machine = 190,
			  .e_shoff = offsetof(struct cubin, section),
			  .e_shentsize = sizeof(Elf64_Shdr),
			  .e_shnum = 4,
			  .e_shstrndx = 3 },
		.section = { { .sh_size = 0 },
			     { .sh_name = 1,
			       .sh_type = SHT_NOBITS,
			       .sh_flags = SHF_ALLOC | SHF_WRITE,
			       .sh_size = bytes },
			     { .sh_name = 12, .sh_flags = SHF_ALLOC, .sh_size = 8 * GIB },
			     { .sh_name = 1, .sh_offset = offsetof(struct cubin, names) } },
	};
	c->head.e_ident[EI_CLASS] = ELFCLASS64;
	memcpy(c->names, "\0.nv.global\0.text.f", 19);
}

static void a_cubin_says_it_in_its_sections(void **state)
{
	struct cubin c;

	(void)state;
	make_cubin(&c, 3 * GIB);
	assert_int_equal(image_bytes(&c), 3 * GIB);
	make_cubin(&c, MIB - 1);
	assert_int_equal(image_bytes(&c), 0);
	make_cubin(&c, 3 * GIB);
	c.head.e_machine = EM_X86_64;
	assert_int_equal(image_bytes(&c), 0);
	/* lies: of places that are not there */
	make_cubin(&c, 3 * GIB);
	c.head.e_shoff = UINT64_MAX - 10;
	assert_int_equal(image_bytes(&c), 0);
	make_cubin(&c, 3 * GIB);
	c.section[3].sh_offset = (uint64_t)1 << 60;
	assert_int_equal(image_bytes(&c), 0);
	make_cubin(&c, 3 * GIB);
	c.head.e_shnum = UINT16_MAX;
	assert_true(image_bytes(&c) >= 3 * GIB);
}

static void a_fat_binary_is_its_largest_part(void **state)
{
	struct {
		struct {
			uint32_t magic;
			uint16_t version, header;
			uint64_t bytes;
		} head;
		struct {
			uint16_t kind, version;
			uint32_t header;
			uint64_t bytes;
			uint32_t compressed, options[5];
			uint64_t flags, zero, plain;
		} part[1];
		struct cubin cubin;
		uint64_t text_part[8];
		char text[64];
	} f = { .head = { 0xBA55ED50, 1, 16, 0 },
		.part[0] = { .kind = 2, .version = 0x101, .header = 64, .bytes = sizeof(f.cubin) },
		.text = ".global .b8 a[2097152];" };
	struct {
		uint32_t magic, version;
		const void *data;
	} wrapper = { 0x466243B1, 1, &f };

	(void)state;
	f.head.bytes = sizeof(f) - sizeof(f.head);
	f.text_part[0] = 1 | 0x101 << 16 | (uint64_t)64 << 32;
	f.text_part[1] = sizeof(f.text);
	make_cubin(&f.cubin, 5 * MIB);
	assert_int_equal(image_bytes(&f), 5 * MIB);
	assert_int_equal(image_bytes(&wrapper), 5 * MIB);
	f.part[0].flags = 0x2000; /* compressed: only the text is left */
	assert_int_equal(image_bytes(&f), 2 * MIB);
	f.part[0].bytes = UINT64_MAX;
	assert_int_equal(image_bytes(&f), 0);
	wrapper.data = (void *)16;
	assert_int_equal(image_bytes(&wrapper), 0);
}

static void what_cannot_be_read_is_nothing(void **state)
{
	static const char text[] = ".global .b8 a[4194304];";
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *two =
		mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *end = two + page - (sizeof(text) - 1), path[] = "/tmp/allot-image.XXXXXX";
	int fd = mkstemp(path);

	(void)state;
	assert_true(two != MAP_FAILED && fd >= 0);
	assert_int_equal(munmap(two + page, page), 0);
	memcpy(end, text, sizeof(text) - 1); /* no NUL, and nothing behind */
	assert_int_equal(image_bytes(end), 4 * MIB);
	assert_int_equal(image_bytes(NULL), 0);
	assert_int_equal(image_bytes((void *)8), 0);
	assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
	assert_int_equal(image_file_bytes(path), 4 * MIB);
	assert_int_equal(image_file_bytes("/tmp"), 0);
	assert_int_equal(image_file_bytes("/dev/zero"), 0);
	assert_int_equal(image_file_bytes(NULL), 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(image_file_bytes(path), 0);
	(void)close(fd);
	(void)munmap(two, page);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_says_what_its_variables_take),
		cmocka_unit_test(a_cubin_says_it_in_its_sections),
		cmocka_unit_test(a_fat_binary_is_its_largest_part),
		cmocka_unit_test(what_cannot_be_read_is_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
