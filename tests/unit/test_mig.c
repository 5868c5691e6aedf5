// SPDX-License-Identifier: Apache-2.0
/* An instance's memory among the processes that NVML gives no figure for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/size.h"
#include "daemon/mig.h"

#define N 4

static void divide(uint64_t total, const uint64_t held[N], const uint64_t expected[N], unsigned n)
{
	struct mig_part parts[N] = { 0 };

	for (unsigned i = 0; i < n; i++)
		parts[i].held_bytes = held[i];
	mig_divide(total, parts, n);
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(parts[i].bytes, expected[i]);
}

static void one_alone_has_all(void **state)
{
	(void)state;
	divide(700, (uint64_t[N]){ 0 }, (uint64_t[N]){ 700 }, 1);
	divide(700, (uint64_t[N]){ 900 }, (uint64_t[N]){ 700 }, 1);
	divide(0, (uint64_t[N]){ 900 }, (uint64_t[N]){ 0 }, 1);
}

static void what_is_more_than_held_is_shared(void **state)
{
	(void)state;
	divide(700, (uint64_t[N]){ 100, 400 }, (uint64_t[N]){ 200, 500 }, 2);
	divide(101, (uint64_t[N]){ 0, 0, 0 }, (uint64_t[N]){ 33, 33, 35 }, 3);
}

static void what_is_less_is_in_proportion(void **state)
{
	(void)state;
	divide(50, (uint64_t[N]){ 100, 300 }, (uint64_t[N]){ 12, 38 }, 2);
	divide(64 * TIB, (uint64_t[N]){ 64 * TIB, 64 * TIB }, (uint64_t[N]){ 32 * TIB, 32 * TIB },
	       2);
}

static void nothing_is_lost_or_made(void **state)
{
	uint64_t seed = 7;

	(void)state;
	for (int round = 0; round < 10000; round++) {
		struct mig_part parts[N];
		uint64_t total, sum = 0;
		unsigned n = 1 + (unsigned)round % N;

		for (unsigned i = 0; i < n; i++) {
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			parts[i].held_bytes = seed >> (round % 64);
		}
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		total = seed >> (round % 40);
		mig_divide(total, parts, n);
		for (unsigned i = 0; i < n; i++)
			sum += parts[i].bytes;
		assert_int_equal(sum, total);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_alone_has_all),
		cmocka_unit_test(what_is_more_than_held_is_shared),
		cmocka_unit_test(what_is_less_is_in_proportion),
		cmocka_unit_test(nothing_is_lost_or_made),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
