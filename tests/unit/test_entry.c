// SPDX-License-Identifier: Apache-2.0
/* In one process and in order: no driver yet, still none, then it is there. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "shim/entry.h"

#define ABSENT -801
#define AWAY   -3

enum {
#define TEST_PASS(sym) SLOT_##sym,
#define TEST_HOOK(sym) SLOT_##sym,
#include "test_entry.def"
	SLOT_COUNT
};

double entry_test_sum(int a, int b, int c, int d, int e, int f, int g, double h, double i);
int entry_test_absent(void);
int entry_test_retry(void);
extern int (*real_entry_test_hooked)(int n);

static const char *folder, *build_folder;
static unsigned searches, loads;

static int absent(void)
{
	return ABSENT;
}

static int away(void)
{
	return AWAY;
}

static int refused_twice(int error)
{
	return error;
}

static void *no_driver(unsigned slot, int error)
{
	assert_true(slot < SLOT_COUNT);
	assert_true(refused_twice(error) < 0);
	return (void *)away;
}

static const char *name(unsigned slot)
{
	static const char *const names[] = {
#define TEST_PASS(sym) #sym,
#define TEST_HOOK(sym) #sym,
#include "test_entry.def"
	};

	return names[slot];
}

static void loaded(void)
{
	/* everything is set when we are told, and a call from here is a call of the driver */
	assert_int_equal(real_entry_test_hooked(1), 2);
	loads++;
}

const struct entry_lib entry_lib = {
	.soname = "test_entry_driver.so",
	.count = SLOT_COUNT,
	.retry = SLOT_entry_test_retry,
	.name = name,
	.missing = (void *)absent,
	.no_driver = no_driver,
	.loaded = loaded,
};

const char *shim_driver_dir(void)
{
	searches++;
	assert_int_equal(entry_load(), -EALREADY); /* whoever comes back from here is turned away */
	return folder;
}

static void test_no_driver(void **state)
{
	(void)state;
	folder = "/no/such/folder";
	errno = 77;
	assert_false(entry_is_loaded());
	assert_int_equal(entry_test_absent(), AWAY);
	assert_int_equal(searches, 1);
	assert_int_equal(real_entry_test_hooked(1), AWAY);
	assert_int_equal(searches, 1); /* not for everything anew */
	assert_int_equal(entry_test_retry(), AWAY);
	assert_int_equal(searches, 2);
	assert_int_equal(entry_load(), -ENOENT);
	assert_false(entry_has(SLOT_entry_test_sum));
	assert_int_equal(errno, 77);
	assert_int_equal(loads, 0);
}

static void test_driver_comes(void **state)
{
	(void)state;
	folder = build_folder;
	assert_int_equal(entry_test_absent(), AWAY);
	assert_int_equal(entry_test_retry(), 5);
	assert_int_equal(loads, 1);
	assert_true(entry_is_loaded());
	assert_int_equal(entry_load(), 0);
	assert_int_equal(entry_test_absent(), ABSENT);
	assert_int_equal(real_entry_test_hooked(3), 4);
	assert_true(entry_test_sum(1, 2, 3, 4, 5, 6, 7, 0.5, 0.5) == 7654321.25);
	assert_true(entry_has(SLOT_entry_test_sum));
	assert_false(entry_has(SLOT_entry_test_absent));
	assert_int_equal(errno, 77);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_driver),
		cmocka_unit_test(test_driver_comes),
	};

	if (argc != 2)
		return 2;
	build_folder = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
