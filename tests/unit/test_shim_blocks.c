// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/rand.h"
#include "in_child.h"
#include "shim/blocks.h"

static struct block *enter(uint32_t kind, uint64_t key, uint64_t bytes, void *ctx)
{
	struct block *b = blocks_reserve();

	assert_non_null(b);
	b->kind = kind;
	b->key = key;
	b->ctx = ctx;
	b->charge = (struct charge){ .slot = 0, .bytes = bytes };
	return blocks_insert(b);
}

static void take_finds_what_was_inserted(void **state)
{
	struct block *b;

	(void)state;
	assert_null(blocks_take(BLOCK_LINEAR, 0x7f0000000000));
	assert_null(enter(BLOCK_LINEAR, 0x7f0000000000, 512, NULL));
	assert_null(blocks_take(BLOCK_ARRAY, 0x7f0000000000)); /* another kind, same number */
	b = blocks_take(BLOCK_LINEAR, 0x7f0000000000);
	assert_non_null(b);
	assert_int_equal(b->charge.bytes, 512);
	blocks_discard(b);
	assert_null(blocks_take(BLOCK_LINEAR, 0x7f0000000000));
}

/* field row A1: a record that died behind our back is handed out, its charge does not pile up */
static void a_key_seen_again_hands_out_the_dead_record(void **state)
{
	struct block *dead, *b;

	(void)state;
	assert_null(enter(BLOCK_LINEAR, 0x1000, 11, NULL));
	dead = enter(BLOCK_LINEAR, 0x1000, 22, NULL);
	assert_non_null(dead);
	assert_int_equal(dead->charge.bytes, 11);
	blocks_discard(dead);
	b = blocks_take(BLOCK_LINEAR, 0x1000);
	assert_int_equal(b->charge.bytes, 22);
	blocks_discard(b);
	assert_null(blocks_take(BLOCK_LINEAR, 0x1000));
}

static void a_context_takes_its_records_along(void **state)
{
	int one, two;
	struct block *list, *next;
	unsigned n = 0;

	(void)state;
	for (uint64_t i = 1; i <= 1000; i++)
		assert_null(enter(BLOCK_LINEAR, i << 21, i, i % 3 ? (void *)&one : (void *)&two));
	for (list = blocks_take_context(&two); list; list = next, n++) {
		next = list->next;
		assert_ptr_equal(list->ctx, &two);
		blocks_discard(list);
	}
	assert_int_equal(n, 333);
	assert_null(blocks_take_context(NULL)); /* records without a context belong to none */
	for (uint64_t i = 1; i <= 1000; i++) {
		struct block *b = blocks_take(BLOCK_LINEAR, i << 21);

		assert_int_equal(b != NULL, i % 3 != 0);
		blocks_discard(b);
	}
}

static void visit_double(struct block *b, void *arg)
{
	b->count += *(uint64_t *)arg;
}

static void visiting_changes_in_place(void **state)
{
	uint64_t step = 7;
	struct block *b;

	(void)state;
	assert_false(blocks_visit(BLOCK_HANDLE, 5, visit_double, &step));
	assert_null(enter(BLOCK_HANDLE, 5, 0, NULL));
	assert_true(blocks_visit(BLOCK_HANDLE, 5, visit_double, &step));
	assert_true(blocks_visit(BLOCK_HANDLE, 5, visit_double, &step));
	b = blocks_take(BLOCK_HANDLE, 5);
	assert_int_equal(b->count, 14);
	blocks_discard(b);
}

static void many_collide_and_all_are_found(void **state)
{
	enum { N = 200000 };

	(void)state;
	for (uint64_t i = 1; i <= N; i++)
		assert_null(enter(BLOCK_LINEAR, i * 512, i, NULL));
	for (uint64_t i = N; i >= 1; i--) {
		struct block *b = blocks_take(BLOCK_LINEAR, i * 512);

		assert_non_null(b);
		assert_int_equal(b->charge.bytes, i);
		blocks_discard(b);
	}
}

/* threads that allocate and free, also each other's: every record is found once */
#define THREADS 4
#define ROUNDS  20000
static _Atomic uint64_t live_bytes;

static void *churn(void *arg)
{
	struct rand_state r = { .s = (uintptr_t)arg };
	uint64_t base = (uint64_t)(uintptr_t)arg << 40;

	for (unsigned i = 0; i < ROUNDS; i++) {
		uint64_t key = base + (rand_below(&r, 64) << 21);
		struct block *b = blocks_reserve(), *dead;

		b->kind = BLOCK_LINEAR;
		b->key = key;
		b->charge = (struct charge){ .slot = 0, .bytes = 1 + rand_below(&r, 1000) };
		atomic_fetch_add(&live_bytes, b->charge.bytes);
		dead = blocks_insert(b);
		if (dead) {
			atomic_fetch_sub(&live_bytes, dead->charge.bytes);
			blocks_discard(dead);
		}
		/* free somebody's: own or a neighbour's */
		key = ((uint64_t)(1 + rand_below(&r, THREADS)) << 40) + (rand_below(&r, 64) << 21);
		b = blocks_take(BLOCK_LINEAR, key);
		if (b) {
			atomic_fetch_sub(&live_bytes, b->charge.bytes);
			blocks_discard(b);
		}
	}
	return NULL;
}

static void threads_agree_on_the_sum(void **state)
{
	pthread_t t[THREADS];

	(void)state;
	atomic_store(&live_bytes, 0);
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, churn, (void *)(i + 1)), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	for (uint64_t th = 1; th <= THREADS; th++)
		for (uint64_t k = 0; k < 64; k++) {
			struct block *b = blocks_take(BLOCK_LINEAR, (th << 40) + (k << 21));

			if (b)
				atomic_fetch_sub(&live_bytes, b->charge.bytes);
			blocks_discard(b);
		}
	assert_int_equal(atomic_load(&live_bytes), 0);
}

static void child_of_fork(void)
{
	CHILD_CHECK(!blocks_take(BLOCK_LINEAR, 0xabc000));
	CHILD_CHECK(!enter(BLOCK_LINEAR, 0xabc000, 1, NULL));
	CHILD_CHECK(blocks_take(BLOCK_LINEAR, 0xabc000));
}

static void a_forked_child_starts_empty(void **state)
{
	struct block *b;

	(void)state;
	assert_null(enter(BLOCK_LINEAR, 0xabc000, 99, NULL));
	assert_int_equal(run_in_child(child_of_fork), 0);
	b = blocks_take(BLOCK_LINEAR, 0xabc000);
	assert_int_equal(b->charge.bytes, 99);
	blocks_discard(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(take_finds_what_was_inserted),
		cmocka_unit_test(a_key_seen_again_hands_out_the_dead_record),
		cmocka_unit_test(a_context_takes_its_records_along),
		cmocka_unit_test(visiting_changes_in_place),
		cmocka_unit_test(many_collide_and_all_are_found),
		cmocka_unit_test(a_forked_child_starts_empty),
		cmocka_unit_test(threads_agree_on_the_sum),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
