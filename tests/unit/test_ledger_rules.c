// SPDX-License-Identifier: Apache-2.0
/* wall, promise, burst, credit, waiting, circles, nesting: one case a rule of policy/ledger.h */
#include "ledger_fixture.h"

static void a1_a2_counters_never_wrap(void **state)
{
	struct program a;
	struct ledger_job *j;
	struct world w;

	(void)state;
	world_init_1(&w, 10);
	j = job_of(&w, 1, 0, 2 * GIB);
	start(&w, &a, j, 100);
	for (int i = 0; i < 10000; i++) {
		assert_int_equal(take(&w, &a, 3 * MIB), LEDGER_OK);
		give(&w, &a, 0, 3 * MIB);
	}
	assert_int_equal(figures(&w, &a).held_bytes, 0);
	/* a tenant scribbles: its credit is never believed beyond what it was granted */
	a.slot[0].credit = UINT64_MAX;
	assert_int_equal(figures(&w, &a).held_bytes, 0);
	assert_int_equal(view_of(&w, j).free_bytes, 2 * GIB);
	assert_int_equal(take_on(&w, &a, 0, UINT64_MAX, 0), LEDGER_OK); /* its own lie */
	assert_int_equal(ledger_need(w.l, a.p, 0, UINT64_MAX, 0, NULL, w.now, &w.g),
			 LEDGER_OVER_LIMIT);
	ledger_give_back(w.l, a.p, 0, UINT64_MAX, w.now);
	assert_int_equal(figures(&w, &a).granted_bytes, 0);
	world_fini(&w);
}

static void a3_two_processes_share_one_wall(void **state)
{
	struct program a, b;
	struct ledger_job *j;
	struct world w;

	(void)state;
	world_init_1(&w, 100);
	j = job_of(&w, 7, 20 * GIB, 20 * GIB);
	start(&w, &a, j, 100);
	start(&w, &b, j, 101);
	assert_int_equal(take(&w, &a, 12 * GIB), LEDGER_OK);
	assert_int_equal(take(&w, &b, 7 * GIB), LEDGER_OK);
	assert_int_equal(take(&w, &b, 2 * GIB), LEDGER_OVER_LIMIT);
	assert_int_equal(w.g.used_bytes, 19 * GIB);
	assert_int_equal(w.g.limit_bytes, 20 * GIB);
	assert_non_null(strstr(w.g.text, "pid 100 holds 12.0 GiB"));
	/* credit lies with a: it is called back before anybody is refused */
	assert_int_equal(take(&w, &b, 1 * GIB), LEDGER_OK);
	assert_int_equal(a.slot[0].credit, 0);
	assert_int_equal(take(&w, &a, 1), LEDGER_OVER_LIMIT);
	give(&w, &b, 0, GIB);
	assert_int_equal(take(&w, &a, GIB), LEDGER_OK);
	world_fini(&w);
}

static void a5_the_whole_card_can_be_had(void **state)
{
	struct program a;
	struct world w;

	(void)state;
	world_init_1(&w, 24);
	start(&w, &a, job_of(&w, 1, 0, 48 * GIB), 100);
	assert_int_equal(take(&w, &a, 24 * GIB), LEDGER_OK);
	assert_int_equal(take(&w, &a, 1), LEDGER_OVER_LIMIT);
	assert_int_equal(w.g.limit_bytes, 24 * GIB);
	world_fini(&w);
}

static void a20_inside_a_promise_nobody_waits(void **state)
{
	struct program a, b;
	struct world w;

	(void)state;
	world_init_1(&w, 10);
	start(&w, &a, job_of(&w, 1, 4 * GIB, 4 * GIB), 100);
	start(&w, &b, job_of(&w, 2, 0, 0), 101);
	/* a burst takes what nobody was promised, and no more */
	assert_int_equal(take(&w, &b, 6 * GIB), LEDGER_OK);
	assert_int_equal(take(&w, &b, MIB), LEDGER_WAIT);
	assert_non_null(strstr(w.g.text, "GPU 0 is full"));
	assert_int_equal(take(&w, &a, 4 * GIB), LEDGER_OK);
	nothing_due(&w);
	give(&w, &a, 0, 4 * GIB);
	nothing_due(&w); /* still promised to a */
	give(&w, &b, 0, GIB);
	answer_of(&w, &b, LEDGER_OK);
	world_fini(&w);
}

static void a9_unmanaged_memory_is_not_given_away(void **state)
{
	struct program a, *all[] = { &a };
	struct world w;

	(void)state;
	world_init_1(&w, 10);
	start(&w, &a, job_of(&w, 1, 8 * GIB, 8 * GIB), 100);
	sample(&w, all, 1, 5 * GIB);
	assert_int_equal(gpu_figures(&w, 0).allocatable_bytes, 5 * GIB);
	assert_int_equal(take(&w, &a, 5 * GIB), LEDGER_OK);
	/* inside its request, but strangers took the room */
	assert_int_equal(take(&w, &a, GIB), LEDGER_WAIT);
	assert_non_null(strstr(w.g.text, "programs outside allot hold 5.0 GiB"));
	/* no circle: it waits for the strangers, not for itself */
	w.now += 5 * S;
	nothing_due(&w);
	sample(&w, all, 1, 0);
	answer_of(&w, &a, LEDGER_OK);
	world_fini(&w);
}

static void k1_the_second_waits_and_goes_on(void **state)
{
	struct program a, b;
	struct world w;

	(void)state;
	world_init_1(&w, 9);
	start(&w, &a, job_of(&w, 1, 0, 0), 100);
	start(&w, &b, job_of(&w, 2, 0, 0), 101);
	assert_int_equal(take(&w, &a, 6 * GIB), LEDGER_OK);
	assert_int_equal(take(&w, &b, 6 * GIB), LEDGER_WAIT);
	assert_true(a.slot[0].wanted && b.slot[0].wanted);
	assert_int_equal(a.slot[0].credit, 0);
	w.now += 10 * S;
	nothing_due(&w);
	give(&w, &a, 0, 6 * GIB);
	answer_of(&w, &b, LEDGER_OK);
	assert_int_equal(w.g.waited_ns, 10 * S);
	assert_false(a.slot[0].wanted || b.slot[0].wanted);
	world_fini(&w);
}

static void k1_waiting_is_bounded(void **state)
{
	struct ledger_job_spec spec = spec_of(2, 0, 0);
	struct program a, b, c;
	struct ledger_job *j;
	struct world w;

	(void)state;
	world_init_1(&w, 10);
	start(&w, &a, job_of(&w, 1, 0, 0), 100);
	spec.when_full_ns = 3 * S;
	assert_int_equal(ledger_admit(w.l, &spec, NULL, w.now, &j, NULL), LEDGER_ADMITTED);
	start(&w, &b, j, 101);
	spec.id = 3;
	spec.may_wait = false;
	assert_int_equal(ledger_admit(w.l, &spec, NULL, w.now, &j, NULL), LEDGER_ADMITTED);
	start(&w, &c, j, 102);
	assert_int_equal(take(&w, &a, 8 * GIB), LEDGER_OK);
	assert_int_equal(take(&w, &b, 4 * GIB), LEDGER_WAIT);
	/* --when-full fail, and captures: at once */
	assert_int_equal(take(&w, &c, 4 * GIB), LEDGER_FULL);
	assert_int_equal(take_on(&w, &a, 0, 4 * GIB, LEDGER_NO_WAIT), LEDGER_OVER_LIMIT);
	assert_int_equal(take_on(&w, &b, 0, 4 * GIB, LEDGER_NO_WAIT), LEDGER_FULL);
	/* and what fits passes, though others wait */
	assert_int_equal(take(&w, &c, GIB), LEDGER_OK);
	assert_int_equal(take_on(&w, &b, 0, GIB, LEDGER_NO_WAIT), LEDGER_OK);
	w.now += 3 * S - 1;
	nothing_due(&w);
	w.now += 1;
	assert_true(ledger_deadline_ns(w.l, w.now) <= w.now);
	answer_of(&w, &b, LEDGER_FULL);
	assert_non_null(strstr(w.g.text, "job 1 (test) holds 8.0 GiB"));
	assert_false(a.slot[0].wanted);
	world_fini(&w);
}

static void k1_the_order_is_strict(void **state)
{
	struct program holder, batch, first, second, latency;
	struct ledger_job_spec spec = spec_of(5, 0, 0);
	struct ledger_job *j;
	struct world w;

	(void)state;
	world_init_1(&w, 10);
	start(&w, &holder, job_of(&w, 1, 0, 0), 100);
	start(&w, &first, job_of(&w, 2, 0, 0), 101);
	start(&w, &second, job_of(&w, 3, 0, 0), 102);
	spec.job_class = LEDGER_CLASS_BATCH;
	assert_int_equal(ledger_admit(w.l, &spec, NULL, w.now, &j, NULL), LEDGER_ADMITTED);
	start(&w, &batch, j, 103);
	spec.id = 6;
	spec.job_class = LEDGER_CLASS_LATENCY;
	assert_int_equal(ledger_admit(w.l, &spec, NULL, w.now, &j, NULL), LEDGER_ADMITTED);
	start(&w, &latency, j, 104);
	assert_int_equal(take(&w, &holder, 9 * GIB + 512 * MIB), LEDGER_OK);
	assert_int_equal(take(&w, &batch, GIB), LEDGER_WAIT);
	assert_int_equal(take(&w, &first, 4 * GIB), LEDGER_WAIT);
	/* it would fit, but not before the first */
	assert_int_equal(take(&w, &second, 256 * MIB), LEDGER_WAIT);
	assert_int_equal(take(&w, &latency, 2 * GIB), LEDGER_WAIT);
	give(&w, &holder, 0, 2 * GIB);
	answer_of(&w, &latency, LEDGER_OK);
	nothing_due(&w);
	give(&w, &holder, 0, 4 * GIB);
	answer_of(&w, &first, LEDGER_OK);
	answer_of(&w, &second, LEDGER_OK);
	nothing_due(&w);
	give(&w, &holder, 0, GIB);
	answer_of(&w, &batch, LEDGER_OK);
	world_fini(&w);
}

static void k1_a_refused_waiter_lets_the_next_through(void **state)
{
	struct program holder, first, second;
	struct ledger_job *j;
	uint64_t ticket;
	struct world w;

	(void)state;
	world_init_1(&w, 10);
	start(&w, &holder, job_of(&w, 1, 0, 0), 100);
	j = job_of(&w, 2, 0, 6 * GIB);
	start(&w, &first, j, 101);
	start(&w, &second, job_of(&w, 3, 0, 0), 102);
	assert_int_equal(take(&w, &holder, 9 * GIB), LEDGER_OK);
	assert_int_equal(take(&w, &first, 5 * GIB), LEDGER_WAIT);
	assert_int_equal(take(&w, &second, GIB), LEDGER_WAIT);
	/* its limit falls below what it asked */
	assert_int_equal(
		ledger_job_set(w.l, j,
			       &(struct ledger_job_change){ .has_limit = true, .limit.bytes = GIB },
			       w.now, NULL),
		0);
	answer_of(&w, &first, LEDGER_OVER_LIMIT);
	answer_of(&w, &second, LEDGER_OK);
	/* and by a cancelled one */
	assert_int_equal(take(&w, &first, GIB), LEDGER_WAIT);
	ticket = w.g.ticket;
	assert_true(ledger_cancel(w.l, ticket, w.now));
	assert_false(ledger_cancel(w.l, ticket, w.now));
	nothing_due(&w);
	assert_false(holder.slot[0].wanted);
	world_fini(&w);
}

static void k1_a_circle_is_broken(void **state)
{
	struct program a, b;
	struct world w;

	(void)state;
	world_init_1(&w, 10);
	start(&w, &a, job_of(&w, 1, 0, 0), 100);
	start(&w, &b, job_of(&w, 2, 0, 0), 101);
	assert_int_equal(take(&w, &a, 5 * GIB), LEDGER_OK);
	assert_int_equal(take(&w, &b, 4 * GIB), LEDGER_OK);
	assert_int_equal(take(&w, &a, 3 * GIB), LEDGER_WAIT);
	w.now += 10 * S; /* b works: no circle */
	nothing_due(&w);
	assert_int_equal(take(&w, &b, 3 * GIB), LEDGER_WAIT);
	w.now += S - 1;
	nothing_due(&w);
	assert_int_equal(ledger_deadline_ns(w.l, w.now), w.now + 1);
	w.now += 1;
	answer_of(&w, &b, LEDGER_CIRCLE);
	assert_non_null(strstr(w.g.text, "waited for each other"));
	w.now += 5 * S; /* b is at work again */
	nothing_due(&w);
	give(&w, &b, 0, 4 * GIB);
	answer_of(&w, &a, LEDGER_OK);
	world_fini(&w);
}

static void k1_a_promise_to_an_idle_job_is_no_circle(void **state)
{
	struct program b;
	struct world w;

	(void)state;
	world_init_1(&w, 10);
	(void)job_of(&w, 1, 6 * GIB, 6 * GIB); /* admitted, holds nothing yet */
	start(&w, &b, job_of(&w, 2, 0, 0), 101);
	assert_int_equal(take(&w, &b, 5 * GIB), LEDGER_WAIT);
	w.now += 20 * S;
	nothing_due(&w);
	w.now += 40 * S;
	answer_of(&w, &b, LEDGER_FULL);
	assert_non_null(strstr(w.g.text, "promised 6.0 GiB"));
	world_fini(&w);
}

static void k1_a_circle_over_two_gpus_is_broken(void **state)
{
	struct ledger_job_spec spec = spec_of(1, 0, 0);
	struct ledger_job *j[2];
	struct program a, b;
	struct world w;

	(void)state;
	world_init(&w, 2, (const uint64_t[]){ 10, 10 });
	spec.n_gpus = 2;
	assert_int_equal(ledger_admit(w.l, &spec, NULL, w.now, &j[0], NULL), LEDGER_ADMITTED);
	spec.id = 2;
	assert_int_equal(ledger_admit(w.l, &spec, NULL, w.now, &j[1], NULL), LEDGER_ADMITTED);
	start(&w, &a, j[0], 100);
	start(&w, &b, j[1], 101);
	assert_int_equal(take_on(&w, &a, 0, 8 * GIB, 0), LEDGER_OK);
	assert_int_equal(take_on(&w, &b, 1, 8 * GIB, 0), LEDGER_OK);
	assert_int_equal(take_on(&w, &a, 1, 4 * GIB, 0), LEDGER_WAIT);
	w.now += 10 * S;
	nothing_due(&w);
	assert_int_equal(take_on(&w, &b, 0, 4 * GIB, 0), LEDGER_WAIT);
	w.now += S;
	answer_of(&w, &b, LEDGER_CIRCLE);
	nothing_due(&w);
	world_fini(&w);
}

static void k1_hope_on_another_gpu_is_no_circle(void **state)
{
	struct ledger_job_spec spec = spec_of(1, 0, 0);
	struct program prog[3];
	struct ledger_job *j;
	struct world w;

	(void)state;
	world_init(&w, 2, (const uint64_t[]){ 10, 10 });
	spec.n_gpus = 2;
	for (unsigned i = 0; i < 3; i++) {
		spec.id = i + 1;
		assert_int_equal(ledger_admit(w.l, &spec, NULL, w.now, &j, NULL), LEDGER_ADMITTED);
		start(&w, &prog[i], j, 100 + (int)i);
	}
	/* b waits for a, a waits for c on the other card, c works */
	assert_int_equal(take_on(&w, &prog[0], 0, 8 * GIB, 0), LEDGER_OK);
	assert_int_equal(take_on(&w, &prog[2], 1, 8 * GIB, 0), LEDGER_OK);
	assert_int_equal(take_on(&w, &prog[0], 1, 4 * GIB, 0), LEDGER_WAIT);
	assert_int_equal(take_on(&w, &prog[1], 0, 4 * GIB, 0), LEDGER_WAIT);
	w.now += 10 * S;
	nothing_due(&w);
	/* c waits too: a circle, but not before the other card was quiet for a second */
	assert_int_equal(take_on(&w, &prog[2], 0, 4 * GIB, 0), LEDGER_WAIT);
	w.now += S / 2;
	give(&w, &prog[2], 1, GIB);
	w.now += S / 2;
	nothing_due(&w);
	w.now += S / 2;
	answer_of(&w, &prog[2], LEDGER_CIRCLE);
	world_fini(&w);
}

static void a_fitting_ask_is_granted_at_the_end_of_its_wait(void **state)
{
	struct ledger_job_spec spec = spec_of(3, 0, 0);
	struct program a, b, c;
	struct ledger_job *j;
	struct world w;

	(void)state;
	world_init_1(&w, 10);
	start(&w, &a, job_of(&w, 1, 0, 0), 100);
	start(&w, &b, job_of(&w, 2, 0, 0), 101);
	spec.when_full_ns = 5 * S;
	assert_int_equal(ledger_admit(w.l, &spec, NULL, w.now, &j, NULL), LEDGER_ADMITTED);
	start(&w, &c, j, 102);
	assert_int_equal(take(&w, &a, 8 * GIB), LEDGER_OK);
	assert_int_equal(take(&w, &b, 4 * GIB), LEDGER_WAIT);
	assert_int_equal(take(&w, &c, GIB), LEDGER_WAIT); /* only for its turn */
	w.now += 5 * S;
	answer_of(&w, &c, LEDGER_OK);
	world_fini(&w);
}

static void b7_credit_never_makes_anybody_wait(void **state)
{
	struct program a, b;
	struct world w;

	(void)state;
	world_init_1(&w, 10);
	start(&w, &a, job_of(&w, 1, 0, 0), 100);
	start(&w, &b, job_of(&w, 2, 0, 0), 101);
	assert_int_equal(take(&w, &a, 9 * GIB), LEDGER_OK);
	assert_true(w.g.credit_bytes > 0 && w.g.credit_bytes <= LEDGER_CREDIT_BYTES);
	give(&w, &a, 0, 9 * GIB); /* all of it lies in a's word, no message was sent */
	assert_true(a.slot[0].credit >= 9 * GIB);
	assert_int_equal(gpu_figures(&w, 0).held_bytes, 0);
	assert_int_equal(gpu_figures(&w, 0).grantable_bytes, 10 * GIB);
	assert_int_equal(take(&w, &b, 10 * GIB), LEDGER_OK);
	assert_int_equal(w.g.credit_bytes, 0);
	assert_int_equal(a.slot[0].credit, 0);
	world_fini(&w);
}

static void credit_shrinks_towards_the_wall(void **state)
{
	static const struct {
		uint64_t limit, ask, credit;
	} rows[] = {
		{ 32 * GIB, 1 * GIB, 64 * MIB }, /* plenty left */
		{ 2 * GIB, 1 * GIB, 16 * MIB },  /* 1/64 of 1 GiB */
		{ GIB, GIB - 64 * MIB, MIB },    { GIB, GIB - 32 * MIB, 0 }, { GIB, GIB, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct program a;
		struct world w;

		world_init_1(&w, 64);
		start(&w, &a, job_of(&w, 1, rows[i].limit, rows[i].limit), 100);
		assert_int_equal(take(&w, &a, rows[i].ask), LEDGER_OK);
		assert_int_equal(w.g.credit_bytes, rows[i].credit);
		assert_int_equal(a.slot[0].credit, rows[i].credit);
		assert_int_equal(w.g.used_bytes, rows[i].ask);
		assert_int_equal(a.slot[0].granted, rows[i].ask + rows[i].credit);
		world_fini(&w);
	}
}

static void a_nested_job_lives_inside(void **state)
{
	struct program outer, inner, other;
	struct ledger_job *parent, *child;
	struct ledger_job_spec spec = spec_of(2, 4 * GIB, 50 * GIB);
	struct world w;

	(void)state;
	world_init_1(&w, 100);
	parent = job_of(&w, 1, 10 * GIB, 10 * GIB);
	spec.parent = parent;
	assert_int_equal(ledger_admit(w.l, &spec, NULL, w.now, &child, NULL), LEDGER_ADMITTED);
	start(&w, &outer, parent, 100);
	start(&w, &inner, child, 101);
	start(&w, &other, job_of(&w, 3, 0, 0), 102);
	/* nothing more was promised on the card */
	assert_int_equal(gpu_figures(&w, 0).requested_bytes, 10 * GIB);
	/* the nested limit cannot raise the outer one */
	assert_int_equal(take(&w, &inner, 11 * GIB), LEDGER_OVER_LIMIT);
	assert_non_null(strstr(w.g.text, "job 1 (test) around it"));
	assert_int_equal(w.g.limit_bytes, 10 * GIB);
	/* what was promised inside stays free inside */
	assert_int_equal(take(&w, &outer, 6 * GIB), LEDGER_OK);
	assert_int_equal(take(&w, &outer, GIB), LEDGER_WAIT);
	/* and that wait is no one else's affair */
	assert_int_equal(take(&w, &other, 80 * GIB), LEDGER_OK);
	assert_int_equal(take(&w, &inner, 4 * GIB), LEDGER_OK);
	assert_int_equal(view_of(&w, parent).used_bytes, 10 * GIB);
	assert_int_equal(view_of(&w, child).free_bytes, 0);
	give(&w, &inner, 0, 4 * GIB);
	nothing_due(&w);
	ledger_process_dead(w.l, inner.p, w.now);
	ledger_job_end(w.l, child, w.now);
	answer_of(&w, &outer, LEDGER_OK);
	assert_int_equal(ledger_job_free(w.l, parent, w.now), -EBUSY);
	world_fini(&w);
}

static void a_lost_gpu_gives_nothing(void **state)
{
	struct program a;
	struct world w;

	(void)state;
	world_init_1(&w, 10);
	start(&w, &a, job_of(&w, 1, 0, 0), 100);
	ledger_gpu_lost(w.l, 0, true, w.now);
	assert_int_equal(take(&w, &a, GIB), LEDGER_WAIT);
	assert_non_null(strstr(w.g.text, "does not answer"));
	w.now += 10 * S;
	nothing_due(&w);
	ledger_gpu_lost(w.l, 0, false, w.now);
	answer_of(&w, &a, LEDGER_OK);
	assert_int_equal(take_on(&w, &a, 1, GIB, 0), LEDGER_NO_LEASE);
	world_fini(&w);
}

static void a_peer_cannot_make_us_keep_without_bound(void **state)
{
	struct program a, b;
	unsigned i;
	struct world w;

	(void)state;
	world_init_1(&w, 10);
	start(&w, &a, job_of(&w, 1, 0, 0), 100);
	start(&w, &b, job_of(&w, 2, 0, 0), 101);
	assert_int_equal(take(&w, &b, 10 * GIB), LEDGER_OK);
	for (i = 0; i < LEDGER_MAX_TICKETS; i++)
		assert_int_equal(take(&w, &a, 1), LEDGER_WAIT);
	assert_int_equal(take(&w, &a, 1), LEDGER_FULL);
	ledger_process_dead(w.l, a.p, w.now);
	assert_int_equal(gpu_figures(&w, 0).waiting, 0);
	event_of(&w, LEDGER_EVENT_GONE); /* it never held anything */
	nothing_due(&w);
	world_fini(&w);
}

static void a_reserve_is_changed_while_jobs_run(void **state)
{
	struct ledger_job_spec spec = spec_of(3, 4 * GIB, 4 * GIB);
	struct program a, b;
	struct ledger_job *late;
	struct world w;

	(void)state;
	world_init_1(&w, 10);
	start(&w, &a, job_of(&w, 1, 4 * GIB, 4 * GIB), 100);
	start(&w, &b, job_of(&w, 2, 0, 0), 101);
	assert_int_equal(take(&w, &a, 2 * GIB), LEDGER_OK);
	/* more is kept back than is free: what was promised stays promised, nobody else bursts */
	ledger_gpu_set_reserve(w.l, 0, 6 * GIB, w.now);
	assert_int_equal(gpu_figures(&w, 0).allocatable_bytes, 4 * GIB);
	assert_int_equal(take(&w, &a, 2 * GIB), LEDGER_OK);
	assert_int_equal(take(&w, &b, GIB), LEDGER_WAIT);
	assert_int_equal(ledger_admit(w.l, &spec, NULL, w.now, &late, w.text), LEDGER_WAITS);
	nothing_due(&w);
	/* less: who waited for memory goes on, and who waited for a place has it */
	ledger_gpu_set_reserve(w.l, 0, GIB, w.now);
	answer_of(&w, &b, LEDGER_OK);
	assert_ptr_equal(event_of(&w, LEDGER_EVENT_ADMITTED).job, late);
	/* below what is promised: nothing wraps */
	ledger_gpu_set_reserve(w.l, 0, 11 * GIB, w.now);
	assert_int_equal(gpu_figures(&w, 0).allocatable_bytes, 0);
	assert_int_equal(gpu_figures(&w, 0).grantable_bytes, 0);
	ledger_gpu_set_reserve(w.l, 7, GIB, w.now); /* no such GPU */
	world_fini(&w);
}

static void samples_come_as_often_as_configured(void **state)
{
	struct world w;

	(void)state;
	world_init_1(&w, 10);
	(void)job_of(&w, 1, GIB, GIB);
	sample(&w, NULL, 0, 0);
	assert_int_equal(ledger_sample_due_ns(w.l, 0, w.now), w.now + LEDGER_SAMPLE_NS);
	ledger_set_sample_ns(w.l, 5 * S);
	assert_int_equal(ledger_sample_due_ns(w.l, 0, w.now), w.now + 5 * S);
	world_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a1_a2_counters_never_wrap),
		cmocka_unit_test(a3_two_processes_share_one_wall),
		cmocka_unit_test(a5_the_whole_card_can_be_had),
		cmocka_unit_test(a20_inside_a_promise_nobody_waits),
		cmocka_unit_test(a9_unmanaged_memory_is_not_given_away),
		cmocka_unit_test(k1_the_second_waits_and_goes_on),
		cmocka_unit_test(k1_waiting_is_bounded),
		cmocka_unit_test(k1_the_order_is_strict),
		cmocka_unit_test(k1_a_refused_waiter_lets_the_next_through),
		cmocka_unit_test(k1_a_circle_is_broken),
		cmocka_unit_test(k1_a_promise_to_an_idle_job_is_no_circle),
		cmocka_unit_test(k1_a_circle_over_two_gpus_is_broken),
		cmocka_unit_test(k1_hope_on_another_gpu_is_no_circle),
		cmocka_unit_test(a_fitting_ask_is_granted_at_the_end_of_its_wait),
		cmocka_unit_test(b7_credit_never_makes_anybody_wait),
		cmocka_unit_test(credit_shrinks_towards_the_wall),
		cmocka_unit_test(a_nested_job_lives_inside),
		cmocka_unit_test(a_lost_gpu_gives_nothing),
		cmocka_unit_test(a_reserve_is_changed_while_jobs_run),
		cmocka_unit_test(samples_come_as_often_as_configured),
		cmocka_unit_test(a_peer_cannot_make_us_keep_without_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
