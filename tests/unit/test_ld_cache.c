// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shim/ld_cache.h"

#if defined(__x86_64__)
#define LIB64 0x0303
#else
#define LIB64 0x0a03
#endif
#define LIB32 0x0803 /* x32 */

#define EXTENSION ((uint64_t)1 << 62)

/* a cache under construction: header, entries, strings, extensions */
struct maker {
	unsigned char bytes[4096];
	size_t entries_at, strings_at, end;
	uint32_t n;
};

static void put32(struct maker *m, size_t at, uint32_t value)
{
	memcpy(m->bytes + at, &value, sizeof(value));
}

static uint32_t put_string(struct maker *m, const char *text)
{
	size_t at = m->end;

	memcpy(m->bytes + at, text, strlen(text) + 1);
	m->end += strlen(text) + 1;
	return (uint32_t)at;
}

static void begin(struct maker *m, uint32_t n)
{
	memset(m, 0, sizeof(*m));
	memcpy(m->bytes, "glibc-ld.so.cache1.1", 20);
	m->bytes[28] = 2; /* little endian */
	put32(m, 20, n);
	m->entries_at = 48;
	m->strings_at = m->end = 48 + 24 * (size_t)n;
}

static void add(struct maker *m, uint32_t flags, const char *key, const char *value, uint64_t hwcap)
{
	size_t at = m->entries_at + 24 * (size_t)m->n++;

	put32(m, at, flags);
	put32(m, at + 4, put_string(m, key));
	put32(m, at + 8, put_string(m, value));
	memcpy(m->bytes + at + 16, &hwcap, sizeof(hwcap));
}

static void add_hwcaps(struct maker *m, const char *first, const char *second)
{
	uint32_t names[2] = { put_string(m, first), put_string(m, second) };
	size_t at;

	m->end = (m->end + 3) & ~(size_t)3;
	at = m->end;
	put32(m, 32, (uint32_t)at);
	put32(m, at, 0xeaa42174u);
	put32(m, at + 4, 1);
	put32(m, at + 8, 1);
	put32(m, at + 16, (uint32_t)at + 24);
	put32(m, at + 20, 8);
	put32(m, at + 24, names[0]);
	put32(m, at + 28, names[1]);
	m->end = at + 32;
}

static const char *find(const struct maker *m, const char *name, const char *const *hwcaps,
			unsigned skip)
{
	/* of exactly its size on the heap, so that a sanitizer sees a step outside */
	void *copy = malloc(m->end);
	const char *path = NULL;
	static char found[64];
	int result;

	assert_non_null(copy);
	memcpy(copy, m->bytes, m->end);
	result = ld_cache_find(copy, m->end, name, hwcaps, skip, &path);
	if (result == 0)
		(void)snprintf(found, sizeof(found), "%s", path);
	else
		(void)snprintf(found, sizeof(found), "%d", result);
	free(copy);
	return found;
}

static void test_plain(void **state)
{
	struct maker m;

	(void)state;
	begin(&m, 4);
	add(&m, LIB64, "libcuda.so.1", "/a/libcuda.so.1", 0);
	add(&m, LIB32, "libcuda.so.1", "/x32/libcuda.so.1", 0);
	add(&m, LIB64, "libcuda.so", "/a/libcuda.so", 0);
	add(&m, LIB64, "libcuda.so.1", "/b/libcuda.so.1", 0);
	assert_string_equal(find(&m, "libcuda.so.1", NULL, 0), "/a/libcuda.so.1");
	assert_string_equal(find(&m, "libcuda.so.1", NULL, 1), "/b/libcuda.so.1");
	assert_string_equal(find(&m, "libcuda.so.1", NULL, 2), "-2");
	assert_string_equal(find(&m, "libcuda.so", NULL, 0), "/a/libcuda.so");
	assert_string_equal(find(&m, "libcuda", NULL, 0), "-2");
}

static void test_hwcaps(void **state)
{
	const char *const v3[] = { "x86-64-v3", "x86-64-v2", NULL }, *const none[] = { NULL };
	struct maker m;

	(void)state;
	begin(&m, 5);
	add(&m, LIB64, "libcuda.so.1", "/plain", 0);
	add(&m, LIB64, "libcuda.so.1", "/v2", EXTENSION | 0);
	add(&m, LIB64, "libcuda.so.1", "/v3", EXTENSION | (uint64_t)3 << 32 | 1);
	add(&m, LIB64, "libcuda.so.1", "/beyond", EXTENSION | 2);
	add(&m, LIB64, "libcuda.so.1", "/legacy", (uint64_t)1 << 63 | 1);
	add_hwcaps(&m, "x86-64-v2", "x86-64-v3");
	assert_string_equal(find(&m, "libcuda.so.1", v3, 0), "/v3");
	assert_string_equal(find(&m, "libcuda.so.1", v3, 1), "/v2");
	assert_string_equal(find(&m, "libcuda.so.1", v3, 2), "/plain");
	assert_string_equal(find(&m, "libcuda.so.1", v3, 3), "-2");
	assert_string_equal(find(&m, "libcuda.so.1", none, 0), "/plain");
	assert_string_equal(find(&m, "libcuda.so.1", none, 1), "-2");
}

static void test_behind_the_old_form(void **state)
{
	struct maker m, both;

	(void)state;
	begin(&m, 1);
	add(&m, LIB64, "libcuda.so.1", "/new", 0);
	memset(&both, 0, sizeof(both));
	memcpy(both.bytes, "ld.so-1.7.0", 11);
	put32(&both, 12, 3); /* 16 + 36 bytes, and 4 to be aligned */
	memcpy(both.bytes + 56, m.bytes, m.end);
	both.end = 56 + m.end;
	assert_string_equal(find(&both, "libcuda.so.1", NULL, 0), "/new");
	put32(&both, 12, 0xffffffff);
	assert_string_equal(find(&both, "libcuda.so.1", NULL, 0), "-22");
}

static void test_damaged(void **state)
{
	struct maker m, bad;

	(void)state;
	begin(&m, 1);
	add(&m, LIB64, "libcuda.so.1", "/a/libcuda.so.1", 0);
	add_hwcaps(&m, "x86-64-v2", "x86-64-v3");
	bad = m;
	bad.bytes[0] = 'x';
	assert_string_equal(find(&bad, "libcuda.so.1", NULL, 0), "-22");
	bad = m;
	bad.bytes[28] = 3; /* the other byte order */
	assert_string_equal(find(&bad, "libcuda.so.1", NULL, 0), "-22");
	bad = m;
	put32(&bad, 20, 0xffffffff); /* entries beyond the end */
	assert_string_equal(find(&bad, "libcuda.so.1", NULL, 0), "-22");
	bad = m;
	put32(&bad, 48 + 8, 0x7fffffff); /* a path beyond it */
	assert_string_equal(find(&bad, "libcuda.so.1", NULL, 0), "-2");
	/* every shorter file: an answer, and not from outside (sanitizers look) */
	for (bad = m; bad.end > 0; bad.end--)
		assert_string_not_equal(find(&bad, "libcuda.so", NULL, 0), "/a/libcuda.so.1");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain),
		cmocka_unit_test(test_hwcaps),
		cmocka_unit_test(test_behind_the_old_form),
		cmocka_unit_test(test_damaged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
