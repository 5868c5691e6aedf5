// SPDX-License-Identifier: Apache-2.0
/* A context that allotd makes to be measured: who waits for it, and whose room it takes. */
#include "ledger_fixture.h"

static enum ledger_result context(struct world *w, struct program *p, unsigned flags)
{
	return ledger_need_context(w->l, p->p, 0, flags, p, w->now, &w->g);
}

static void no_program(struct world *w, uint64_t total_gib)
{
	world_init_1(w, total_gib);
	sample(w, NULL, 0, 0); /* NVML has said what the card has */
}

static void a24_the_first_context_waits_for_its_cost(void **state)
{
	struct program small, ample, failing;
	struct ledger_job_spec spec = spec_of(3, 0, 300 * MIB);
	struct ledger_job *j;
	struct world w;

	(void)state;
	no_program(&w, 16);
	assert_true(ledger_probe_begin(w.l, 0, w.now));
	assert_false(ledger_probe_begin(w.l, 0, w.now)); /* one is enough */
	start(&w, &small, job_of(&w, 1, 0, 300 * MIB), 100);
	start(&w, &ample, job_of(&w, 2, 0, 8 * GIB), 101);
	spec.may_wait = false;
	assert_int_equal(ledger_admit(w.l, &spec, NULL, w.now, &j, w.text), LEDGER_ADMITTED);
	start(&w, &failing, j, 102);
	assert_int_equal(context(&w, &small, 0), LEDGER_WAIT);
	/* --when-full fail is about room */
	assert_int_equal(context(&w, &failing, 0), LEDGER_WAIT);
	assert_non_null(strstr(w.g.text, "being measured"));
	/* nor does it keep a job from its place */
	spec = spec_of(4, GIB, 0);
	spec.admit_deadline_ns = w.now;
	assert_int_equal(ledger_admit(w.l, &spec, NULL, w.now, &j, w.text), LEDGER_ADMITTED);
	/* who has room for any context need not know; who may not wait is answered as without */
	assert_int_equal(context(&w, &ample, 0), LEDGER_OK);
	assert_int_equal(context(&w, &failing, LEDGER_NO_WAIT), LEDGER_OK);
	assert_int_equal(ledger_context_done(w.l, failing.p, 0, false, NULL, w.now, NULL), 0);
	w.now += 5 * S;
	nothing_due(&w);
	assert_true(ledger_deadline_ns(w.l, w.now) > w.now);
	ledger_probe_measured(w.l, 0, 520 * MIB, w.now);
	answer_of(&w, &small, LEDGER_OVER_LIMIT);
	answer_of(&w, &failing, LEDGER_OVER_LIMIT);
	assert_int_equal(ledger_gpu_context_bytes(w.l, 0), 520 * MIB);
	assert_false(ledger_probe_begin(w.l, 0, w.now)); /* it is known */
	ledger_probe_end(w.l, 0, w.now);
	assert_int_equal(gpu_figures(&w, 0).passing_bytes, 0);
	world_fini(&w);
}

static void a24_a_probe_that_fails_leaves_things_as_they_were(void **state)
{
	struct program a;
	struct world w;

	(void)state;
	for (int late = 0; late < 2; late++) {
		no_program(&w, 16);
		assert_true(ledger_probe_begin(w.l, 0, w.now));
		start(&w, &a, job_of(&w, 1, 0, 300 * MIB), 100);
		assert_int_equal(context(&w, &a, 0), LEDGER_WAIT);
		nothing_due(&w);
		if (late) { /* nobody says that it failed */
			w.now += LEDGER_PROBE_NS - MS;
			nothing_due(&w);
			w.now += MS;
		} else {
			ledger_probe_failed(w.l, 0, w.now);
		}
		answer_of(&w, &a, LEDGER_OK); /* by the estimate; measured, and undone */
		ledger_probe_end(w.l, 0, w.now);
		assert_int_equal(ledger_gpu_context_bytes(w.l, 0), 0);
		world_fini(&w);
	}
}

static void a5_its_room_is_taken_from_nobody_for_good(void **state)
{
	struct ledger_job_spec spec = spec_of(2, 8 * GIB, 0);
	struct program a;
	struct ledger_job *j;
	struct world w;

	(void)state;
	no_program(&w, 16);
	assert_true(ledger_probe_begin(w.l, 0, w.now));
	/* the whole card may be promised meanwhile */
	start(&w, &a, job_of(&w, 1, 8 * GIB, 0), 100);
	spec.admit_deadline_ns = w.now;
	assert_int_equal(ledger_admit(w.l, &spec, NULL, w.now, &j, w.text), LEDGER_ADMITTED);
	assert_int_equal(view_of(&w, j).total_bytes, 16 * GIB);
	/* what lies there is given to nobody until it is gone */
	assert_int_equal(take(&w, &a, 8 * GIB), LEDGER_OK);
	start(&w, &a, j, 101);
	assert_int_equal(take_on(&w, &a, 0, 8 * GIB, LEDGER_NO_WAIT), LEDGER_FULL);
	assert_int_equal(take(&w, &a, 8 * GIB), LEDGER_WAIT);
	ledger_probe_measured(w.l, 0, 520 * MIB, w.now);
	nothing_due(&w);
	ledger_probe_end(w.l, 0, w.now);
	answer_of(&w, &a, LEDGER_OK);
	world_fini(&w);
}

static void e18_a_probe_is_no_stranger(void **state)
{
	struct ledger_sample s = { .total_bytes = 16 * GIB,
				   .used_bytes = 520 * MIB,
				   .memory_known = true,
				   .processes_known = true,
				   .own_bytes = 520 * MIB };
	struct world w;

	(void)state;
	no_program(&w, 16);
	assert_true(ledger_probe_begin(w.l, 0, w.now));
	for (int i = 0; i < 3; i++) {
		ledger_sample_begin(w.l, 0, ++w.now);
		ledger_sample(w.l, 0, &s, ++w.now);
		assert_int_equal(gpu_figures(&w, 0).unmanaged_bytes, 0);
	}
	/* one that nobody listed is */
	s.used_bytes += GIB;
	for (int i = 0; i < 2; i++) {
		ledger_sample_begin(w.l, 0, ++w.now);
		ledger_sample(w.l, 0, &s, ++w.now);
	}
	assert_true(gpu_figures(&w, 0).unmanaged_bytes >= GIB - LEDGER_PROBE_BYTES + 520 * MIB);
	ledger_probe_end(w.l, 0, w.now);
	world_fini(&w);
}

static void a24_no_probe_without_room(void **state)
{
	struct program a;
	struct world w;

	(void)state;
	world_init_1(&w, 16);
	assert_false(ledger_probe_begin(w.l, 0, w.now)); /* NVML has not spoken yet */
	sample(&w, NULL, 0, 0);
	start(&w, &a, job_of(&w, 1, 16 * GIB, 0), 100);
	assert_int_equal(take(&w, &a, 16 * GIB - 600 * MIB), LEDGER_OK);
	assert_false(ledger_probe_begin(w.l, 0, w.now));
	give(&w, &a, 0, GIB);
	ledger_returned(w.l, a.p, w.now);
	ledger_give_back(w.l, a.p, 0, a.slot[0].credit, w.now);
	a.slot[0].credit = 0;
	ledger_gpu_lost(w.l, 0, true, w.now);
	assert_false(ledger_probe_begin(w.l, 0, w.now));
	ledger_gpu_lost(w.l, 0, false, w.now);
	assert_true(ledger_probe_begin(w.l, 0, w.now));
	ledger_probe_end(w.l, 0, w.now);
	world_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a24_the_first_context_waits_for_its_cost),
		cmocka_unit_test(a24_a_probe_that_fails_leaves_things_as_they_were),
		cmocka_unit_test(a5_its_room_is_taken_from_nobody_for_good),
		cmocka_unit_test(e18_a_probe_is_no_stranger),
		cmocka_unit_test(a24_no_probe_without_room),
	};

	return cmocka_run_group_tests_name("ledger_probe", tests, NULL, NULL);
}
