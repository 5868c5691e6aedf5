// SPDX-License-Identifier: Apache-2.0
/* Calls beyond the limit: how many, in whose turn, and how each turn ends. */
#include "ledger_fixture.h"

#define PIECE (32 * MIB)
#define BOUND LEDGER_OVERDRAFT_BYTES

static enum ledger_result turn(struct world *w, struct program *a, uint64_t bytes, unsigned flags)
{
	enum ledger_result r = ledger_need_overdraft(w->l, a->p, 0, bytes, flags, a, w->now, &w->g);

	assert_int_equal(r, w->g.result);
	assert_null(ledger_check(w->l));
	return r;
}

static void done(struct world *w, struct program *a, uint64_t kept)
{
	ledger_overdraft_done(w->l, a->p, 0, kept, w->now);
	assert_null(ledger_check(w->l));
}

/* the answer of a wait, which takes nothing of its own */
static void turn_of(struct world *w, struct program *a, enum ledger_result result)
{
	struct ledger_event e = event_of(w, LEDGER_EVENT_ANSWER);

	assert_ptr_equal(e.cookie, a);
	assert_int_equal(e.grant.result, result);
	w->g = e.grant;
}

/* a job at its limit of 1 GiB, with four processes */
static struct ledger_job *at_limit(struct world *w, struct program a[4])
{
	struct ledger_job *j;

	world_init_1(w, 16);
	j = job_of(w, 1, 0, GIB);
	for (int i = 0; i < 4; i++) {
		start(w, &a[i], j, 100 + i);
		assert_int_equal(take_on(w, &a[i], 0, 256 * MIB, LEDGER_NO_WAIT), LEDGER_OK);
	}
	assert_int_equal(take_on(w, &a[0], 0, MIB, LEDGER_NO_WAIT), LEDGER_OVER_LIMIT);
	return j;
}

static void a1_turns_of_a_job_are_bounded_and_in_order(void **state)
{
	struct program a[4];
	struct world w;

	(void)state;
	(void)at_limit(&w, a);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(turn(&w, &a[i], PIECE, 0), LEDGER_OK);
		assert_int_equal(w.g.bytes, PIECE);
	}
	assert_int_equal(gpu_figures(&w, 0).passing_bytes, 3 * PIECE);
	assert_int_equal(turn(&w, &a[3], PIECE, LEDGER_NO_WAIT), LEDGER_OVER_LIMIT);
	assert_true(w.g.text[0] != '\0');
	assert_int_equal(turn(&w, &a[3], PIECE, 0), LEDGER_WAIT);
	/* one a process, behind the others */
	assert_int_equal(turn(&w, &a[0], PIECE, 0), LEDGER_WAIT);
	nothing_due(&w);
	done(&w, &a[0], 0);
	turn_of(&w, &a[3], LEDGER_OK);
	nothing_due(&w);
	done(&w, &a[1], 0);
	turn_of(&w, &a[0], LEDGER_OK);
	done(&w, &a[0], 0);
	done(&w, &a[2], 0);
	done(&w, &a[3], 0);
	assert_int_equal(gpu_figures(&w, 0).passing_bytes, 0);
	world_fini(&w);
}

static void a1_an_overdraft_is_no_part_of_what_a_job_holds(void **state)
{
	struct program a[4];
	struct ledger_job *j;
	struct world w;

	(void)state;
	j = at_limit(&w, a);
	assert_int_equal(turn(&w, &a[0], PIECE, 0), LEDGER_OK);
	assert_int_equal(view_of(&w, j).free_bytes, 0);
	assert_int_equal(view_of(&w, j).used_bytes, GIB);
	/* room that a sibling makes is there for whoever asks, and not for the overdraft */
	give(&w, &a[1], 0, 64 * MIB);
	assert_int_equal(view_of(&w, j).free_bytes, 64 * MIB);
	assert_int_equal(take(&w, &a[2], 64 * MIB), LEDGER_OK);
	assert_int_equal(take_on(&w, &a[2], 0, MIB, LEDGER_NO_WAIT), LEDGER_OVER_LIMIT);
	done(&w, &a[0], 0);
	assert_int_equal(view_of(&w, j).used_bytes, GIB);
	world_fini(&w);
}

static void a3_what_a_call_took_is_expected_while_it_is_under_way(void **state)
{
	struct program a[4], *all[] = { &a[0], &a[1], &a[2], &a[3] };
	struct world w;

	(void)state;
	(void)at_limit(&w, a);
	ledger_sample_begin(w.l, 0, w.now);
	assert_int_equal(turn(&w, &a[0], PIECE, 0), LEDGER_OK);
	a[0].slot[0].driver = PIECE; /* the call grew the pool, and that is being undone */
	sample_end(&w, 0, 0, all, 4, 0);
	assert_int_equal(figures(&w, &a[0]).overhead_bytes, 0);
	/* also when it is over before the figure comes in */
	ledger_sample_begin(w.l, 0, w.now);
	done(&w, &a[0], 0);
	sample_end(&w, 0, 0, all, 4, 0);
	assert_int_equal(figures(&w, &a[0]).overhead_bytes, 0);
	/* what could not be undone is the driver's, and the next turn counts it */
	assert_int_equal(turn(&w, &a[0], PIECE, 0), LEDGER_OK);
	done(&w, &a[0], PIECE);
	assert_int_equal(figures(&w, &a[0]).overhead_bytes, PIECE);
	assert_int_equal(turn(&w, &a[1], BOUND, LEDGER_NO_WAIT), LEDGER_OVER_LIMIT);
	assert_int_equal(turn(&w, &a[1], BOUND - PIECE, LEDGER_NO_WAIT), LEDGER_OK);
	done(&w, &a[1], 0);
	world_fini(&w);
}

static void a5_on_a_full_card_a_turn_takes_what_there_is(void **state)
{
	struct program a[4], b;
	struct ledger_job *j;
	struct world w;

	(void)state;
	(void)at_limit(&w, a);
	j = job_of(&w, 2, 15 * GIB, 0);
	start(&w, &b, j, 200);
	assert_int_equal(take_on(&w, &b, 0, 15 * GIB - 40 * MIB, LEDGER_NO_WAIT), LEDGER_OK);
	ledger_give_back(w.l, b.p, 0, b.slot[0].credit, w.now); /* none is left lying about */
	b.slot[0].credit = 0;
	assert_int_equal(turn(&w, &a[0], PIECE, 0), LEDGER_OK);
	assert_int_equal(w.g.bytes, PIECE);
	assert_int_equal(turn(&w, &a[1], PIECE, 0), LEDGER_OK);
	assert_int_equal(w.g.bytes, 8 * MIB);
	assert_int_equal(turn(&w, &a[2], PIECE, 0), LEDGER_OK);
	assert_int_equal(w.g.bytes, 0);
	/* the neighbour's promise waits for them to be over, and no longer */
	assert_int_equal(take(&w, &b, 40 * MIB), LEDGER_WAIT);
	nothing_due(&w);
	for (int i = 0; i < 3; i++)
		done(&w, &a[i], 0);
	answer_of(&w, &b, LEDGER_OK);
	/* as does one whose job fails when the card is full: the card is not */
	give(&w, &b, 0, 40 * MIB);
	assert_int_equal(ledger_job_set(w.l, j,
					&(struct ledger_job_change){ .has_when_full = true }, w.now,
					NULL),
			 0);
	ledger_give_back(w.l, b.p, 0, b.slot[0].credit, w.now);
	b.slot[0].credit = 0;
	assert_int_equal(gpu_figures(&w, 0).held_bytes, 16 * GIB - 40 * MIB);
	assert_int_equal(turn(&w, &a[0], PIECE, 0), LEDGER_OK);
	assert_int_equal(take(&w, &b, 40 * MIB), LEDGER_WAIT);
	assert_int_equal(take_on(&w, &b, 0, 40 * MIB, LEDGER_NO_WAIT), LEDGER_FULL);
	done(&w, &a[0], 0);
	answer_of(&w, &b, LEDGER_OK);
	world_fini(&w);
}

static void e2_a_holder_that_stands_still_holds_nobody_up_for_longer_than_a_second(void **state)
{
	struct program a[4];
	struct world w;

	(void)state;
	(void)at_limit(&w, a);
	/* one that is stopped leaves room for two more */
	assert_int_equal(turn(&w, &a[0], PIECE, 0), LEDGER_OK);
	assert_int_equal(turn(&w, &a[1], PIECE, 0), LEDGER_OK);
	assert_int_equal(turn(&w, &a[2], PIECE, 0), LEDGER_OK);
	assert_int_equal(turn(&w, &a[3], PIECE, 0), LEDGER_WAIT);
	w.now += LEDGER_TURN_NS - MS;
	nothing_due(&w);
	assert_int_equal(ledger_deadline_ns(w.l, w.now), w.now + MS);
	/* the line moves: patience begins anew */
	done(&w, &a[1], 0);
	turn_of(&w, &a[3], LEDGER_OK);
	assert_int_equal(turn(&w, &a[1], PIECE, 0), LEDGER_WAIT);
	w.now += LEDGER_TURN_NS - MS;
	nothing_due(&w);
	w.now += MS;
	turn_of(&w, &a[1], LEDGER_OVER_LIMIT);
	assert_int_equal(w.g.bytes, 0);
	nothing_due(&w);
	world_fini(&w);
}

/* every way in which a holder can be gone; a sample begun after that ends the turn */
enum end { END_DEAD, END_DETACHED, END_CONNECTION, END_FREED, END_REPLACED, END_COUNT };

static void end_holder(struct world *w, struct ledger_job *j, struct program *a,
		       struct program *fresh, enum end how)
{
	switch (how) {
	case END_DEAD:
		ledger_process_dead(w->l, a->p, w->now);
		break;
	case END_DETACHED:
		ledger_process_detach(w->l, a->p, w->now);
		break;
	case END_CONNECTION:
		ledger_overdraft_lost(w->l, a->p, 0, w->now);
		break;
	case END_FREED:
		ledger_process_free(w->l, a->p, w->now);
		break;
	case END_REPLACED:
		start(w, fresh, j, 100);
		ledger_process_replaced(w->l, a->p, fresh->p, w->now);
		break;
	case END_COUNT:
		fail();
	}
	assert_null(ledger_check(w->l));
}

static void e1_a_holder_that_is_gone_gives_its_turn_back(void **state)
{
	(void)state;
	for (enum end how = 0; how < END_COUNT; how++) {
		struct program a[4], fresh, *rest[] = { &a[1], &a[2], &a[3] };
		struct ledger_job *j;
		struct world w;

		j = at_limit(&w, a);
		for (int i = 0; i < 3; i++)
			assert_int_equal(turn(&w, &a[i], PIECE, 0), LEDGER_OK);
		assert_int_equal(turn(&w, &a[3], PIECE, 0), LEDGER_WAIT);
		/* a sample that began before tells nothing about what the call still did */
		ledger_sample_begin(w.l, 0, w.now);
		w.now += MS;
		end_holder(&w, j, &a[0], &fresh, how);
		if (how != END_FREED) {
			struct ledger_event e;

			sample_end(&w, 0, 0, rest, 3, 0);
			assert_false(ledger_poll(w.l, w.now, &e));
			assert_int_equal(gpu_figures(&w, 0).passing_bytes, 3 * PIECE);
			sample(&w, rest, 3, 0);
		}
		assert_int_equal(gpu_figures(&w, 0).passing_bytes, 2 * PIECE);
		turn_of(&w, &a[3], LEDGER_OK);
		/* what the late holder says is not heard */
		if (how == END_CONNECTION)
			done(&w, &a[0], PIECE);
		assert_int_equal(gpu_figures(&w, 0).passing_bytes, 3 * PIECE);
		for (int i = 1; i < 4; i++)
			done(&w, &a[i], 0);
		assert_int_equal(gpu_figures(&w, 0).passing_bytes, 0);
		world_fini(&w);
	}
}

static void e1_without_nvml_an_orphan_ends_after_a_second(void **state)
{
	struct program a[4];
	struct world w;

	(void)state;
	(void)at_limit(&w, a);
	assert_int_equal(turn(&w, &a[0], BOUND, 0), LEDGER_OK);
	assert_int_equal(turn(&w, &a[1], PIECE, 0), LEDGER_WAIT);
	ledger_process_dead(w.l, a[0].p, w.now);
	assert_true(ledger_deadline_ns(w.l, w.now) <= w.now + LEDGER_SETTLE_NS);
	w.now += LEDGER_SETTLE_NS;
	turn_of(&w, &a[1], LEDGER_OK);
	world_fini(&w);
}

static void e1_a_waiter_that_is_gone_leaves_the_line(void **state)
{
	struct program a[4];
	struct world w;

	(void)state;
	(void)at_limit(&w, a);
	assert_int_equal(turn(&w, &a[0], BOUND, 0), LEDGER_OK);
	assert_int_equal(turn(&w, &a[1], BOUND, 0), LEDGER_WAIT);
	assert_int_equal(turn(&w, &a[2], PIECE, 0), LEDGER_WAIT);
	assert_true(ledger_cancel(w.l, w.g.ticket, w.now));
	assert_int_equal(turn(&w, &a[3], PIECE, 0), LEDGER_WAIT);
	ledger_process_dead(w.l, a[1].p, w.now);
	done(&w, &a[0], 0);
	turn_of(&w, &a[3], LEDGER_OK);
	nothing_due(&w);
	/* an answer that nobody heard is taken back */
	assert_int_equal(turn(&w, &a[0], BOUND, 0), LEDGER_WAIT);
	done(&w, &a[3], 0);
	(void)ledger_deadline_ns(w.l, w.now);
	ledger_process_detach(w.l, a[0].p, w.now);
	nothing_due(&w);
	assert_int_equal(gpu_figures(&w, 0).passing_bytes, 0);
	world_fini(&w);
}

static void a9_a_nested_job_takes_its_turn_in_the_outer_one_too(void **state)
{
	struct ledger_job_spec spec;
	struct ledger_job *outer, *inner;
	struct program a, b;
	struct world w;

	(void)state;
	world_init_1(&w, 16);
	outer = job_of(&w, 1, 0, GIB);
	spec = spec_of(2, 0, 0);
	spec.parent = outer;
	assert_int_equal(ledger_admit(w.l, &spec, NULL, w.now, &inner, w.text), LEDGER_ADMITTED);
	start(&w, &a, outer, 100);
	start(&w, &b, inner, 101);
	assert_int_equal(turn(&w, &b, BOUND, 0), LEDGER_OK);
	assert_int_equal(turn(&w, &a, PIECE, LEDGER_NO_WAIT), LEDGER_OVER_LIMIT);
	assert_int_equal(turn(&w, &a, PIECE, 0), LEDGER_WAIT);
	done(&w, &b, 0);
	turn_of(&w, &a, LEDGER_OK);
	world_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a1_turns_of_a_job_are_bounded_and_in_order),
		cmocka_unit_test(a1_an_overdraft_is_no_part_of_what_a_job_holds),
		cmocka_unit_test(a3_what_a_call_took_is_expected_while_it_is_under_way),
		cmocka_unit_test(a5_on_a_full_card_a_turn_takes_what_there_is),
		cmocka_unit_test(
			e2_a_holder_that_stands_still_holds_nobody_up_for_longer_than_a_second),
		cmocka_unit_test(e1_a_holder_that_is_gone_gives_its_turn_back),
		cmocka_unit_test(e1_without_nvml_an_orphan_ends_after_a_second),
		cmocka_unit_test(e1_a_waiter_that_is_gone_leaves_the_line),
		cmocka_unit_test(a9_a_nested_job_takes_its_turn_in_the_outer_one_too),
	};

	return cmocka_run_group_tests_name("ledger_overdraft", tests, NULL, NULL);
}
