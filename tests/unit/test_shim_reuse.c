// SPDX-License-Identifier: Apache-2.0
/* What a stream may take again from a pool. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/size.h"
#include "shim/reuse.h"

#define POOL(n)   ((struct pool *)(uintptr_t)(0x1000 * (n)))
#define STREAM(n) ((CUstream)(uintptr_t)(0x100 * (n)))
#define LARGE     (64 * MIB)

static void what_was_given_back_on_a_stream_is_there_for_it(void **state)
{
	(void)state;
	assert_false(reuse_any());
	reuse_made(POOL(1), 0x7000, LARGE, STREAM(1), false);
	assert_true(reuse_any());
	assert_false(reuse_may_take(POOL(1), LARGE, STREAM(1), false));
	reuse_freed(0x7000, STREAM(2), false); /* on another stream than it was made on */
	assert_true(reuse_may_take(POOL(1), LARGE, STREAM(2), false));
	assert_false(reuse_may_take(POOL(1), LARGE + 1, STREAM(2), false));
	assert_false(reuse_may_take(POOL(1), LARGE, STREAM(1), false));
	assert_false(reuse_may_take(POOL(2), LARGE, STREAM(2), false));
	/* a small one may have been cut out of it */
	reuse_made(POOL(1), 0x7000, MIB, STREAM(2), false);
	assert_false(reuse_may_take(POOL(1), LARGE, STREAM(2), false));
	assert_true(reuse_may_take(POOL(1), LARGE - MIB, STREAM(2), false));
	/* taken */
	reuse_made(POOL(1), 0x8000, LARGE - MIB, STREAM(2), false);
	assert_false(reuse_may_take(POOL(1), 1, STREAM(2), false));
	reuse_forget(0x8000);
	assert_false(reuse_any());
}

static void small_ones_are_not_remembered(void **state)
{
	(void)state;
	reuse_made(POOL(1), 0x7000, REUSE_MIN_BYTES, STREAM(1), false);
	reuse_freed(0x7000, STREAM(1), false);
	assert_false(reuse_any());
}

static void what_ends_takes_its_places_along(void **state)
{
	(void)state;
	for (unsigned i = 1; i <= 3; i++) {
		reuse_made(POOL(i), 0x7000 * i, LARGE, STREAM(1), false);
		reuse_freed(0x7000 * i, STREAM(1), false);
	}
	reuse_pool_gone(POOL(2));
	assert_true(reuse_may_take(POOL(1), LARGE, STREAM(1), false));
	assert_false(reuse_may_take(POOL(2), LARGE, STREAM(1), false));
	reuse_stream_gone(STREAM(1));
	assert_false(reuse_may_take(POOL(1), LARGE, STREAM(1), false));
	assert_false(reuse_may_take(POOL(3), LARGE, STREAM(1), false));
	assert_false(reuse_any());
}

static void *on_another_thread(void *arg)
{
	*(bool *)arg = reuse_may_take(POOL(1), LARGE, NULL, true);
	return arg;
}

static void each_thread_has_a_default_stream_of_its_own(void **state)
{
	bool may = true;
	pthread_t id;

	(void)state;
	reuse_made(POOL(1), 0x7000, LARGE, NULL, true);
	reuse_freed(0x7000, CU_STREAM_PER_THREAD, false);
	assert_true(reuse_may_take(POOL(1), LARGE, NULL, true));
	assert_false(reuse_may_take(POOL(1), LARGE, NULL, false));
	assert_int_equal(pthread_create(&id, NULL, on_another_thread, &may), 0);
	assert_int_equal(pthread_join(id, NULL), 0);
	assert_false(may);
	reuse_pool_gone(POOL(1));
}

static void more_than_there_is_room_for_forgets_the_oldest(void **state)
{
	(void)state;
	for (unsigned i = 1; i <= 100; i++) {
		reuse_made(POOL(1), 0x7000 * i, LARGE, STREAM(i), false);
		reuse_freed(0x7000 * i, STREAM(i), false);
	}
	assert_true(reuse_may_take(POOL(1), LARGE, STREAM(100), false));
	assert_false(reuse_may_take(POOL(1), LARGE, STREAM(1), false));
	reuse_pool_gone(POOL(1));
	assert_false(reuse_any());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_given_back_on_a_stream_is_there_for_it),
		cmocka_unit_test(small_ones_are_not_remembered),
		cmocka_unit_test(what_ends_takes_its_places_along),
		cmocka_unit_test(each_thread_has_a_default_stream_of_its_own),
		cmocka_unit_test(more_than_there_is_room_for_forgets_the_oldest),
	};

	return cmocka_run_group_tests_name("shim_reuse", tests, NULL, NULL);
}
