// SPDX-License-Identifier: Apache-2.0
/* what a job waits for: the sentence, and the figures behind it */
#include "ledger_fixture.h"

static struct ledger_job *waiting(struct world *w, struct ledger_job_spec spec, const char *name)
{
	struct ledger_job *j = NULL;

	spec.name = name;
	assert_int_equal(ledger_admit(w->l, &spec, NULL, w->now, &j, w->text), LEDGER_WAITS);
	return j;
}

static struct ledger_wait why(struct world *w, const struct ledger_job *j, uint64_t since_ns)
{
	struct ledger_wait wait;

	assert_true(ledger_job_wait(w->l, j, 0, since_ns, w->now, &wait));
	return wait;
}

static void place_behind_one_large_job(void **state)
{
	struct ledger_job *waits;
	struct ledger_wait wait;
	struct world w;

	(void)state;
	world_init_1(&w, 80);
	(void)job_of(&w, 1, 50 * GIB, 50 * GIB);
	(void)job_of(&w, 2, 10 * GIB, 10 * GIB);
	waits = waiting(&w, spec_of(3, 30 * GIB, 30 * GIB), "late");
	w.now += 12 * S;
	wait = why(&w, waits, w.now - 12 * S);
	assert_string_equal(wait.sentence,
			    "job 3 (late) has waited 12s for 30.0 GiB of GPU 0, where 20.0 GiB can "
			    "be promised: it starts when job 1 (test), which holds 0 B and was "
			    "promised 50.0 GiB, or job 2 (test), which holds 0 B and was promised "
			    "10.0 GiB, ends");
	assert_int_equal(wait.kind, LEDGER_WAITS_FOR_PLACE);
	assert_int_equal(wait.position, 1);
	assert_int_equal(wait.waiting, 1);
	assert_int_equal(wait.needed_bytes, 30 * GIB);
	assert_int_equal(wait.free_bytes, 20 * GIB);
	assert_int_equal(wait.allocatable_bytes, 80 * GIB);
	assert_int_equal(wait.n_holders, 2);
	assert_int_equal(wait.holders[0].id, 1);
	assert_int_equal(wait.holders[0].request_bytes, 50 * GIB);
	assert_int_equal(wait.holders[1].id, 2);
	assert_int_equal(wait.deadline_ns, LEDGER_NEVER);
	assert_false(ledger_job_wait(w.l, waits, 1, 0, w.now, &wait));
	world_fini(&w);
}

static void place_behind_several_that_must_all_end(void **state)
{
	struct ledger_job *waits;
	struct ledger_wait wait;
	struct world w;

	(void)state;
	world_init_1(&w, 80);
	(void)job_of(&w, 1, 40 * GIB, 40 * GIB);
	(void)job_of(&w, 2, 30 * GIB, 30 * GIB);
	waits = waiting(&w, spec_of(3, 70 * GIB, 70 * GIB), "late");
	wait = why(&w, waits, 0);
	assert_non_null(strstr(wait.sentence,
			       "job 3 (late) waits for 70.0 GiB of GPU 0, where 10.0 "
			       "GiB can be promised: it starts when job 1"));
	assert_non_null(strstr(wait.sentence, ", and job 2"));
	assert_non_null(strstr(wait.sentence, ", have ended"));
	world_fini(&w);
}

static void place_in_a_line(void **state)
{
	struct ledger_job *first, *second;
	struct ledger_wait wait;
	struct world w;

	(void)state;
	world_init_1(&w, 80);
	(void)job_of(&w, 1, 60 * GIB, 60 * GIB);
	first = waiting(&w, spec_of(2, 50 * GIB, 50 * GIB), "first");
	second = waiting(&w, spec_of(3, 10 * GIB, 10 * GIB), "second");
	assert_int_equal(why(&w, first, 0).position, 1);
	wait = why(&w, second, 0);
	assert_int_equal(wait.position, 2);
	assert_int_equal(wait.waiting, 2);
	assert_int_equal(wait.before_id, 2);
	assert_string_equal(wait.sentence,
			    "job 3 (second) waits for 10.0 GiB of GPU 0, which has "
			    "room: it starts after job 2 (first), which waits before "
			    "it");
	world_fini(&w);
}

static void place_taken_by_programs_outside(void **state)
{
	struct ledger_job *waits;
	struct ledger_wait wait;
	struct world w;

	(void)state;
	world_init_1(&w, 80);
	sample(&w, NULL, 0, 60 * GIB);
	sample(&w, NULL, 0, 60 * GIB);
	waits = waiting(&w, spec_of(1, 30 * GIB, 30 * GIB), "late");
	wait = why(&w, waits, 0);
	assert_non_null(strstr(wait.sentence, "programs outside allot have ended"));
	assert_int_equal(wait.unmanaged_bytes, 60 * GIB);
	assert_int_equal(wait.n_holders, 1);
	assert_int_equal(wait.holders[0].id, 0);
	assert_int_equal(wait.holders[0].held_bytes, 60 * GIB);
	world_fini(&w);
}

static void place_on_a_lost_gpu(void **state)
{
	struct ledger_job *waits;
	struct world w;

	(void)state;
	world_init_1(&w, 80);
	ledger_gpu_lost(w.l, 0, true, w.now);
	waits = waiting(&w, spec_of(1, 30 * GIB, 30 * GIB), "late");
	assert_non_null(strstr(why(&w, waits, 0).sentence, "does not answer"));
	world_fini(&w);
}

static void place_inside_another_job(void **state)
{
	struct ledger_job *outer, *waits;
	struct ledger_job_spec spec;
	struct ledger_wait wait;
	struct world w;

	(void)state;
	world_init_1(&w, 80);
	outer = job_of(&w, 1, 20 * GIB, 20 * GIB);
	spec = spec_of(2, 15 * GIB, 15 * GIB);
	spec.parent = outer;
	assert_int_equal(ledger_admit(w.l, &spec, NULL, w.now, &waits, w.text), LEDGER_ADMITTED);
	spec = spec_of(3, 10 * GIB, 10 * GIB);
	spec.parent = outer;
	waits = waiting(&w, spec, "inner");
	wait = why(&w, waits, 0);
	assert_non_null(strstr(wait.sentence, "GPU 0 inside job 1 (test)"));
	assert_int_equal(wait.n_holders, 1); /* who is inside with it, not the whole card */
	assert_int_equal(wait.holders[0].id, 2);
	assert_int_equal(wait.allocatable_bytes, 20 * GIB);
	world_fini(&w);
}

static void k10_each_card_has_its_own_reason(void **state)
{
	static const uint64_t cards[] = { 40, 80, 20 };
	struct ledger_job *waits;
	struct ledger_job_spec spec;
	struct ledger_wait wait;
	struct world w;

	(void)state;
	world_init(&w, 3, cards);
	spec = spec_of(1, 35 * GIB, 0);
	spec.n_listed = 1; /* GPU 0 */
	assert_int_equal(ledger_admit(w.l, &spec, NULL, w.now, &waits, w.text), LEDGER_ADMITTED);
	spec = spec_of(2, 60 * GIB, 0);
	spec.n_listed = 1;
	spec.listed[0] = 1;
	assert_int_equal(ledger_admit(w.l, &spec, NULL, w.now, &waits, w.text), LEDGER_ADMITTED);
	/* 45 GiB are free in sum, on no card 30; the third is too small for ever */
	waits = waiting(&w, spec_of(3, 30 * GIB, 0), "late");
	wait = why(&w, waits, 0);
	assert_int_equal(wait.gpu, 1);
	assert_int_equal(wait.free_bytes, 20 * GIB);
	assert_true(ledger_job_wait(w.l, waits, 1, 0, w.now, &wait));
	assert_int_equal(wait.gpu, 0);
	assert_int_equal(wait.free_bytes, 5 * GIB);
	assert_int_equal(wait.holders[0].id, 1);
	assert_non_null(
		strstr(wait.sentence, "for 30.0 GiB of GPU 0, where 5.0 GiB can be promised"));
	assert_false(ledger_job_wait(w.l, waits, 2, 0, w.now, &wait));
	world_fini(&w);
}

static void place_on_several_tells_of_what_is_missing(void **state)
{
	static const uint64_t cards[] = { 80, 80, 40, 40 };
	struct ledger_gpu_figures f;
	struct ledger_job *waits;
	struct ledger_job_spec spec;
	struct ledger_wait wait;
	unsigned n = 0;
	struct ledger_why said;
	struct world w;

	(void)state;
	world_init(&w, 4, cards);
	ledger_gpu_lost(w.l, 2, true, w.now);
	spec = spec_of(1, 20 * GIB, 0);
	spec.n_gpus = 4;
	waits = waiting(&w, spec, "wide");
	/* not of the cards with room, on which nobody waits before it */
	wait = why(&w, waits, 0);
	assert_int_equal(wait.gpu, 2);
	assert_false(wait.is_one_of_all);
	assert_string_equal(wait.sentence,
			    "job 1 (wide) waits for 20.0 GiB of GPU 2 (and of 3 more), which does "
			    "not answer: it starts when the GPU is back");
	assert_false(ledger_job_wait(w.l, waits, 1, 0, w.now, &wait));
	ledger_job_why(w.l, waits, w.now, &said);
	assert_string_equal(said.text, "GPU 2 does not answer");
	/* two are missing, and the job is one */
	ledger_gpu_lost(w.l, 3, true, w.now);
	assert_int_equal(why(&w, waits, 0).gpu, 2);
	assert_true(ledger_job_wait(w.l, waits, 1, 0, w.now, &wait));
	assert_int_equal(wait.gpu, 3);
	assert_true(wait.is_one_of_all);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(ledger_gpu_figures(w.l, i, &f), 0);
		assert_int_equal(f.waiting, 1);
		n += f.waiting_first;
	}
	assert_int_equal(n, 1);
	world_fini(&w);
}

static void who_is_before_it_waits_for_the_same(void **state)
{
	static const uint64_t cards[] = { 80, 80 };
	struct ledger_job *other, *wide;
	struct ledger_job_spec spec;
	struct world w;

	(void)state;
	world_init(&w, 2, cards);
	(void)job_of(&w, 1, 70 * GIB, 0);
	spec = spec_of(2, 70 * GIB, 0);
	spec.n_listed = 1;
	spec.listed[0] = 1;
	assert_int_equal(ledger_admit(w.l, &spec, NULL, w.now, &other, w.text), LEDGER_ADMITTED);
	spec = spec_of(3, 50 * GIB, 0);
	spec.n_listed = 1; /* GPU 0 */
	(void)waiting(&w, spec, "first");
	spec = spec_of(4, 60 * GIB, 0);
	spec.n_listed = 1;
	spec.listed[0] = 1;
	(void)waiting(&w, spec, "other");
	spec = spec_of(5, 5 * GIB, 0);
	spec.n_gpus = 2;
	wide = waiting(&w, spec, "wide");
	assert_non_null(strstr(why(&w, wide, 0).sentence,
			       "it starts after job 3 (first), which waits before it"));
	world_fini(&w);
}

static void an_allocation_on_a_full_card(void **state)
{
	struct ledger_job *a, *b;
	struct program pa, pb;
	struct ledger_wait wait;
	struct world w;

	(void)state;
	world_init_1(&w, 80);
	a = job_of(&w, 1, 10 * GIB, 0);
	b = job_of(&w, 2, 10 * GIB, 0);
	start(&w, &pa, a, 11);
	start(&w, &pb, b, 22);
	assert_int_equal(take(&w, &pa, 60 * GIB), LEDGER_OK);
	assert_int_equal(take(&w, &pb, 15 * GIB), LEDGER_OK);
	assert_int_equal(take(&w, &pb, 8 * GIB), LEDGER_WAIT);
	w.now += 5 * S;
	wait = why(&w, b, 0);
	assert_int_equal(wait.kind, LEDGER_WAITS_FOR_MEMORY);
	assert_int_equal(wait.pid, 22);
	assert_int_equal(wait.needed_bytes, 8 * GIB);
	assert_int_equal(wait.free_bytes, 5 * GIB);
	assert_int_equal(w.now - wait.since_ns, 5 * S);
	assert_false(wait.is_circle);
	assert_string_equal(wait.sentence,
			    "job 2 (test), process 22, has waited 5s for 8.0 GiB of GPU 0, which "
			    "has 5.0 GiB left for it: it goes on when memory comes back; job 1 "
			    "(test) holds 60.0 GiB (promised 10.0 GiB); refused in 55s");
	assert_false(ledger_job_wait(w.l, a, 0, 0, w.now, &wait)); /* it does not wait */
	/* each ask that waits is one thing */
	assert_int_equal(take(&w, &pb, 9 * GIB), LEDGER_WAIT);
	assert_true(ledger_job_wait(w.l, b, 1, 0, w.now, &wait));
	assert_int_equal(wait.needed_bytes, 9 * GIB);
	assert_int_equal(wait.position, 2);
	assert_int_equal(wait.before_id, 2);
	assert_false(ledger_job_wait(w.l, b, 2, 0, w.now, &wait));
	world_fini(&w);
}

static void all_who_hold_something_wait(void **state)
{
	struct ledger_job *a, *b;
	struct program pa, pb;
	struct world w;

	(void)state;
	world_init_1(&w, 80);
	a = job_of(&w, 1, 0, 0);
	b = job_of(&w, 2, 0, 0);
	start(&w, &pa, a, 11);
	start(&w, &pb, b, 22);
	assert_int_equal(take(&w, &pa, 40 * GIB), LEDGER_OK);
	assert_int_equal(take(&w, &pb, 39 * GIB), LEDGER_OK);
	assert_int_equal(take(&w, &pa, 8 * GIB), LEDGER_WAIT);
	assert_false(why(&w, a, 0).is_circle);
	assert_int_equal(take(&w, &pb, 8 * GIB), LEDGER_WAIT);
	assert_true(why(&w, a, 0).is_circle);
	assert_non_null(
		strstr(why(&w, b, 0).sentence, "those who hold memory wait for each other"));
	world_fini(&w);
}

static void a_circle_over_two_gpus(void **state)
{
	static const uint64_t cards[] = { 80, 80 };
	struct program pa, pb;
	struct ledger_job *j[2];
	struct ledger_job_spec spec;
	struct world w;

	(void)state;
	world_init(&w, 2, cards);
	for (unsigned i = 0; i < 2; i++) {
		spec = spec_of(i + 1, 0, 0);
		spec.n_gpus = 2;
		assert_int_equal(ledger_admit(w.l, &spec, NULL, w.now, &j[i], w.text),
				 LEDGER_ADMITTED);
	}
	start(&w, &pa, j[0], 11);
	start(&w, &pb, j[1], 22);
	/* each holds one card and waits for the other: on no card do all wait who hold it */
	assert_int_equal(take_on(&w, &pa, 0, 78 * GIB, 0), LEDGER_OK);
	assert_int_equal(take_on(&w, &pb, 1, 78 * GIB, 0), LEDGER_OK);
	assert_int_equal(take_on(&w, &pa, 1, 40 * GIB, 0), LEDGER_WAIT);
	assert_false(why(&w, j[0], 0).is_circle); /* the other works */
	assert_int_equal(take_on(&w, &pb, 0, 40 * GIB, 0), LEDGER_WAIT);
	assert_true(why(&w, j[0], 0).is_circle);
	assert_true(why(&w, j[1], 0).is_circle);
	world_fini(&w);
}

static void many_holders_are_counted_and_the_largest_named(void **state)
{
	struct ledger_job *waits;
	struct ledger_wait wait;
	struct world w;

	(void)state;
	world_init_1(&w, 400);
	for (unsigned i = 1; i <= 40; i++) {
		struct ledger_job_spec spec = spec_of(i, i % 10 * GIB / 2 + GIB, 0);
		struct ledger_job *j;

		spec.name = "a-name-as-long-as-a-name-can-be-so-that-the-sentence-is-full-up-X";
		assert_int_equal(ledger_admit(w.l, &spec, NULL, w.now, &j, w.text),
				 LEDGER_ADMITTED);
	}
	waits = waiting(&w, spec_of(99, 390 * GIB, 0), "late");
	wait = why(&w, waits, 0);
	assert_int_equal(wait.n_holders, 40);
	for (unsigned i = 1; i < LEDGER_WAIT_HOLDERS; i++)
		assert_true(wait.holders[i].request_bytes <= wait.holders[i - 1].request_bytes);
	assert_int_equal(wait.holders[0].request_bytes, 9 * GIB / 2 + GIB);
	assert_true(strlen(wait.sentence) < LEDGER_SENTENCE_MAX);
	world_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(place_behind_one_large_job),
		cmocka_unit_test(place_behind_several_that_must_all_end),
		cmocka_unit_test(place_in_a_line),
		cmocka_unit_test(place_taken_by_programs_outside),
		cmocka_unit_test(place_on_a_lost_gpu),
		cmocka_unit_test(place_inside_another_job),
		cmocka_unit_test(k10_each_card_has_its_own_reason),
		cmocka_unit_test(place_on_several_tells_of_what_is_missing),
		cmocka_unit_test(who_is_before_it_waits_for_the_same),
		cmocka_unit_test(an_allocation_on_a_full_card),
		cmocka_unit_test(all_who_hold_something_wait),
		cmocka_unit_test(a_circle_over_two_gpus),
		cmocka_unit_test(many_holders_are_counted_and_the_largest_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
