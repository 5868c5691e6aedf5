// SPDX-License-Identifier: Apache-2.0
/*
 * One library's imports are replaced, and nobody else's.  Arguments: the library linked as drivers
 * are (slots stay writable), and linked with everything read-only after relocation.
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>

#include "shim/elf_import.h"

static char **paths;
static char other[] = "another";

typedef const char *ask_fn(const char *name);

static char *answer(const char *name)
{
	(void)name;
	return other;
}

static void *replace(void *map)
{
	return (void *)(uintptr_t)elf_import_replace(map, "getenv", (void *)answer);
}

static void replaced(const char *path)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	struct link_map *map = NULL;
	ask_fn *by_call, *by_pointer;
	pthread_t threads[8];
	void *n;

	assert_non_null(library);
	assert_int_equal(dlinfo(library, RTLD_DI_LINKMAP, &map), 0);
	by_call = (ask_fn *)dlsym(library, "ask_by_call");
	by_pointer = (ask_fn *)dlsym(library, "ask_by_pointer");
	setenv("ALLOT_TEST_WORD", "the environment's", 1);
	assert_string_equal(by_call("ALLOT_TEST_WORD"), "the environment's");
	assert_int_equal(elf_import_replace(map, "no_such_name", (void *)answer), 0);
	assert_int_equal(elf_import_replace(map, "ask_by_call", (void *)answer), 0);
	for (int i = 0; i < 8; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, replace, map), 0);
	for (int i = 0; i < 8; i++) {
		assert_int_equal(pthread_join(threads[i], &n), 0);
		assert_int_equal((uintptr_t)n, 2);
	}
	assert_string_equal(by_call("ALLOT_TEST_WORD"), other);
	assert_string_equal(by_pointer("ALLOT_TEST_WORD"), other);
	assert_string_equal(getenv("ALLOT_TEST_WORD"), "the environment's");
	assert_int_equal(dlclose(library), 0);
}

static void slots_that_stay_writable(void **state)
{
	(void)state;
	replaced(paths[1]);
}

static void slots_that_are_read_only(void **state)
{
	(void)state;
	replaced(paths[2]);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slots_that_stay_writable),
		cmocka_unit_test(slots_that_are_read_only),
	};

	if (argc != 3)
		return 2;
	paths = argv;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
