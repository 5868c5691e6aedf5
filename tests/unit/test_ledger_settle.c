// SPDX-License-Identifier: Apache-2.0
/* contexts, samples, overhead and drift, death, lost connections, restart */
#include "ledger_fixture.h"

static uint64_t need_context(struct world *w, struct program *prog)
{
	assert_int_equal(ledger_need_context(w->l, prog->p, 0, 0, prog, w->now, &w->g), LEDGER_OK);
	return w->g.bytes;
}

static void context_made(struct world *w, struct program *prog, uint64_t cost)
{
	struct ledger_settled unused;

	prog->slot[0].driver += cost;
	assert_int_equal(ledger_context_done(w->l, prog->p, 0, true, prog, w->now, &unused), 1);
}

static void a7_a25_a_context_is_charged_as_measured(void **state)
{
	struct program a, b, *all[] = { &a, &b };
	struct ledger_settled s;
	struct ledger_event e;
	struct ledger_job *j;
	struct world w;

	(void)state;
	world_init_1(&w, 100);
	j = job_of(&w, 1, 0, 20 * GIB);
	start(&w, &a, j, 100);
	start(&w, &b, j, 101);
	assert_int_equal(need_context(&w, &a), LEDGER_CONTEXT_BYTES);
	assert_int_equal(view_of(&w, j).free_bytes, 20 * GIB - 512 * MIB);
	context_made(&w, &a, 518 * MIB);
	assert_true(ledger_sample_due_ns(w.l, 0, w.now) <= w.now + LEDGER_SAMPLE_URGENT_NS);
	nothing_due(&w);
	sample(&w, all, 2, 0);
	e = event_of(&w, LEDGER_EVENT_SETTLED);
	assert_ptr_equal(e.cookie, &a);
	assert_true(e.settled.keep);
	assert_int_equal(e.settled.cost_bytes, 518 * MIB);
	assert_int_equal(e.settled.used_bytes, 518 * MIB);
	assert_int_equal(ledger_gpu_context_bytes(w.l, 0), 518 * MIB);
	assert_int_equal(view_of(&w, j).free_bytes, 20 * GIB - 518 * MIB);
	/* the second is reserved by what the first one cost; the driver refuses it: all comes back
	 */
	assert_int_equal(need_context(&w, &b), 518 * MIB);
	assert_int_equal(ledger_context_done(w.l, b.p, 0, false, NULL, w.now, &s), 0);
	assert_int_equal(s.cost_bytes, 0);
	assert_int_equal(view_of(&w, j).free_bytes, 20 * GIB - 518 * MIB);
	assert_int_equal(ledger_context_done(w.l, b.p, 0, true, NULL, w.now, &s), -EINVAL);
	world_fini(&w);
}

static void a24_a_limit_below_a_context(void **state)
{
	struct ledger_gpu_spec spec = { .total_bytes = 100 * GIB, .context_bytes = 518 * MIB };
	struct program a;
	struct world w = { .now = S };

	(void)state;
	w.l = ledger_new(&word_ops);
	assert_int_equal(ledger_gpu_add(w.l, &spec), 0);
	start(&w, &a, job_of(&w, 1, 0, 100 * MIB), 100);
	assert_int_equal(ledger_need_context(w.l, a.p, 0, 0, NULL, w.now, &w.g), LEDGER_OVER_LIMIT);
	assert_non_null(strstr(w.g.text, "a context costs 518.0 MiB on this GPU"));
	world_fini(&w);
}

static void a24_a_context_far_over_the_limit_is_undone(void **state)
{
	struct program a, *all[] = { &a };
	struct ledger_event e;
	struct world w;

	(void)state;
	world_init_1(&w, 100);
	start(&w, &a, job_of(&w, 1, 0, 200 * MIB), 100);
	assert_int_equal(need_context(&w, &a), 200 * MIB); /* not known yet: what is left */
	context_made(&w, &a, 518 * MIB);
	sample(&w, all, 1, 0);
	e = event_of(&w, LEDGER_EVENT_SETTLED);
	assert_false(e.settled.keep);
	assert_int_equal(e.settled.cost_bytes, 518 * MIB);
	/* undone: two samples later nothing is left of it */
	a.slot[0].driver = 0;
	sample(&w, all, 1, 0);
	sample(&w, all, 1, 0);
	assert_int_equal(figures(&w, &a).held_bytes, 0);
	/* known now: refused at once */
	assert_int_equal(ledger_need_context(w.l, a.p, 0, 0, NULL, w.now, &w.g), LEDGER_OVER_LIMIT);
	/* up to 128 MiB over is borne */
	start(&w, &a, job_of(&w, 2, 0, 518 * MIB), 101);
	(void)need_context(&w, &a);
	context_made(&w, &a, 600 * MIB);
	sample(&w, all, 1, 0);
	assert_true(event_of(&w, LEDGER_EVENT_SETTLED).settled.keep);
	world_fini(&w);
}

static void an_estimate_stays_when_nvml_is_silent(void **state)
{
	struct program a;
	struct ledger_event e;
	struct world w;

	(void)state;
	world_init_1(&w, 100);
	start(&w, &a, job_of(&w, 1, 0, 0), 100);
	(void)need_context(&w, &a);
	context_made(&w, &a, 518 * MIB);
	w.now += LEDGER_SETTLE_NS - 1;
	nothing_due(&w);
	assert_int_equal(ledger_deadline_ns(w.l, w.now), w.now + 1);
	w.now += 1;
	e = event_of(&w, LEDGER_EVENT_SETTLED);
	assert_true(e.settled.keep);
	assert_int_equal(e.settled.cost_bytes, LEDGER_CONTEXT_BYTES);
	assert_int_equal(figures(&w, &a).overhead_bytes, LEDGER_CONTEXT_BYTES);
	/* a process that NVML never listed is not taken for one that holds nothing */
	a.slot[0].driver = 0;
	sample(&w, (struct program *[]){ &a }, 1, 0);
	sample(&w, (struct program *[]){ &a }, 1, 0);
	assert_int_equal(figures(&w, &a).overhead_bytes, LEDGER_CONTEXT_BYTES);
	world_fini(&w);
}

static void a5_what_came_and_went_under_a_look_is_no_overhead(void **state)
{
	struct program a, *all[] = { &a };
	struct world w;

	(void)state;
	world_init_1(&w, 100);
	start(&w, &a, job_of(&w, 1, 0, 4 * GIB), 100);
	assert_int_equal(take(&w, &a, GIB), LEDGER_OK);
	a.slot[0].driver = 500 * MIB;
	sample(&w, all, 1, 0);
	/* from its credit, so that allotd hears nothing; NVML is read while it is there */
	give(&w, &a, 0, GIB);
	for (int i = 0; i < 3; i++) {
		uint64_t driver = a.slot[0].driver;

		w.now += LEDGER_STEADY_NS;
		ledger_sample_begin(w.l, 0, w.now);
		assert_int_equal(take(&w, &a, GIB), LEDGER_OK);
		give(&w, &a, 0, GIB);
		a.slot[0].driver += GIB;
		sample_end(&w, 0, 0, all, 1, 0);
		a.slot[0].driver = driver;
		assert_int_equal(figures(&w, &a).overhead_bytes, 500 * MIB);
	}
	sample(&w, all, 1, 0);
	assert_int_equal(figures(&w, &a).overhead_bytes, 500 * MIB);
	world_fini(&w);
}

static void a13_managed_memory_hides_no_overhead(void **state)
{
	struct program a, *all[] = { &a };
	struct world w;

	(void)state;
	world_init_1(&w, 100);
	start(&w, &a, job_of(&w, 1, 0, 4 * GIB), 100);
	a.slot[0].driver = 500 * MIB; /* beyond what it holds: the context */
	sample(&w, all, 1, 0);
	assert_int_equal(figures(&w, &a).overhead_bytes, 500 * MIB);
	/* NVML goes on to show the context alone */
	assert_int_equal(take(&w, &a, 2 * GIB), LEDGER_OK);
	a.slot[0].managed = 2 * GIB;
	for (int i = 0; i < 4; i++) {
		w.now += LEDGER_STEADY_NS;
		sample(&w, all, 1, 0);
		assert_int_equal(figures(&w, &a).overhead_bytes, 500 * MIB);
		assert_int_equal(figures(&w, &a).drift_bytes, 0);
	}
	assert_int_equal(take(&w, &a, 2 * GIB - 400 * MIB), LEDGER_OVER_LIMIT);
	/* it lies on the card: that is nobody else's */
	assert_int_equal(gpu_figures(&w, 0).unmanaged_bytes, 0);
	/* a program that claims more than it holds harms itself alone */
	a.slot[0].managed = UINT64_MAX;
	w.now += LEDGER_STEADY_NS;
	sample(&w, all, 1, 0);
	assert_true(figures(&w, &a).overhead_bytes <= 500 * MIB + LEDGER_CREDIT_BYTES);
	/* dead: nothing of it stays */
	ledger_process_dead(w.l, a.p, w.now);
	a.slot[0].driver = 0;
	w.now += MS;
	sample(&w, NULL, 0, 0);
	assert_int_equal(gpu_figures(&w, 0).held_bytes, 0);
	world_fini(&w);
}

static void a7_late_growth_is_charged_at_once_and_shrinks_after_two(void **state)
{
	struct program a, *all[] = { &a };
	struct world w;

	(void)state;
	world_init_1(&w, 100);
	start(&w, &a, job_of(&w, 1, 0, 0), 100);
	assert_int_equal(take(&w, &a, GIB), LEDGER_OK);
	a.slot[0].driver = 600 * MIB;
	sample(&w, all, 1, 0);
	assert_int_equal(figures(&w, &a).overhead_bytes, 600 * MIB);
	assert_int_equal(figures(&w, &a).drift_bytes, 0);
	a.slot[0].driver = 500 * MIB;
	sample(&w, all, 1, 0);
	assert_int_equal(figures(&w, &a).overhead_bytes, 600 * MIB);
	assert_int_equal(figures(&w, &a).drift_bytes, -(int64_t)(100 * MIB));
	/* what is held may still be on its way to the driver: not before it stood still */
	sample(&w, all, 1, 0);
	assert_int_equal(figures(&w, &a).overhead_bytes, 600 * MIB);
	w.now += LEDGER_STEADY_NS;
	a.moving = GIB; /* a call of the driver that takes its time */
	sample(&w, all, 1, 0);
	assert_int_equal(figures(&w, &a).overhead_bytes, 600 * MIB);
	a.moving = 0;
	sample(&w, all, 1, 0);
	assert_int_equal(figures(&w, &a).overhead_bytes, 500 * MIB);
	/* not believed: an allocation came in between */
	a.slot[0].driver = 100 * MIB;
	for (int i = 0; i < 4; i++) {
		ledger_sample_begin(w.l, 0, w.now);
		assert_int_equal(take(&w, &a, 200 * MIB), LEDGER_OK);
		w.now += MS;
		sample_end(&w, 0, 0, all, 1, 0);
		assert_int_equal(figures(&w, &a).overhead_bytes, 500 * MIB);
	}
	/* nor when it took from its credit, unseen */
	assert_true(a.slot[0].credit >= MIB);
	ledger_sample_begin(w.l, 0, w.now);
	assert_int_equal(take(&w, &a, MIB), LEDGER_OK);
	a.slot[0].driver = 520 * MIB;
	sample_end(&w, 0, 0, all, 1, 0);
	assert_int_equal(figures(&w, &a).overhead_bytes, 500 * MIB);
	/* but growth beyond all that was granted is certain, however busy the program */
	a.slot[0].driver = 2 * GIB;
	ledger_sample_begin(w.l, 0, w.now);
	assert_int_equal(take(&w, &a, 200 * MIB), LEDGER_OK);
	sample_end(&w, 0, 0, all, 1, 0);
	assert_true(figures(&w, &a).overhead_bytes > GIB);
	assert_true(figures(&w, &a).overhead_bytes <= 2 * GIB);
	world_fini(&w);
}

/* a busy program is never seen between two calls */
static void a5_an_overhead_shrinks_under_calls_to_what_it_may_be_at_most(void **state)
{
	struct program a, *all[] = { &a };
	struct world w;

	(void)state;
	world_init_1(&w, 100);
	start(&w, &a, job_of(&w, 1, 0, 0), 100);
	assert_int_equal(take(&w, &a, GIB), LEDGER_OK);
	a.slot[0].driver = 1000 * MIB; /* two contexts, one of which goes */
	sample(&w, all, 1, 0);
	a.slot[0].driver = 500 * MIB;
	a.moving = 100 * MIB; /* some call always has taken so much */
	for (int i = 0; i < 40; i++) {
		uint64_t before = figures(&w, &a).overhead_bytes;

		/* what is held changes while NVML looks */
		w.now += 10 * MS;
		ledger_sample_begin(w.l, 0, w.now);
		a.slot[0].live -= 100 * MIB;
		a.slot[0].credit += 100 * MIB;
		a.slot[0].returned += 100 * MIB;
		sample_end(&w, 0, 0, all, 1, 0);
		a.slot[0].live += 100 * MIB;
		a.slot[0].credit -= 100 * MIB;
		assert_true(figures(&w, &a).overhead_bytes <= before);
		assert_true(figures(&w, &a).overhead_bytes >= 500 * MIB);
		if (i < 10)
			assert_int_equal(figures(&w, &a).overhead_bytes, 1000 * MIB);
	}
	assert_true(figures(&w, &a).overhead_bytes <= 700 * MIB);
	/* a call that took all of it is no smaller driver */
	a.moving = GIB;
	a.slot[0].live = 0;
	for (int i = 0; i < 40; i++)
		sample(&w, all, 1, 0);
	assert_true(figures(&w, &a).overhead_bytes >= 500 * MIB);
	a.slot[0].live = GIB;
	a.moving = 0;
	world_fini(&w);
}

static void a4_drift_is_shown_never_acted_upon(void **state)
{
	struct program a, *all[] = { &a };
	struct world w;

	(void)state;
	world_init_1(&w, 100);
	start(&w, &a, job_of(&w, 1, 0, 10 * GIB), 100);
	assert_int_equal(take(&w, &a, 9 * GIB), LEDGER_OK);
	a.slot[0].live = 6 * GIB; /* 3 GiB went without a word */
	for (int i = 0; i < 5; i++)
		sample(&w, all, 1, 0);
	assert_int_equal(figures(&w, &a).drift_bytes, -(int64_t)(3 * GIB));
	assert_int_equal(gpu_figures(&w, 0).drift_bytes, -(int64_t)(3 * GIB));
	assert_int_equal(figures(&w, &a).held_bytes, 9 * GIB);
	world_fini(&w);
}

static void a24_who_would_be_refused_waits_for_the_figure(void **state)
{
	struct program a, b, *all[] = { &a, &b };
	struct ledger_job *j;
	struct world w;

	(void)state;
	world_init_1(&w, 100);
	j = job_of(&w, 1, 0, 2 * GIB);
	start(&w, &a, j, 100);
	start(&w, &b, j, 101);
	(void)need_context(&w, &a); /* 512 MiB by estimate, 300 in truth */
	assert_int_equal(take(&w, &b, 1600 * MIB), LEDGER_WAIT);
	assert_int_equal(take_on(&w, &b, 0, 1600 * MIB, LEDGER_NO_WAIT), LEDGER_OVER_LIMIT);
	assert_int_equal(take(&w, &b, 3 * GIB),
			 LEDGER_WAIT); /* cannot be right, but is told then */
	context_made(&w, &a, 300 * MIB);
	nothing_due(&w);
	sample(&w, all, 2, 0);
	event_of(&w, LEDGER_EVENT_SETTLED);
	answer_of(&w, &b, LEDGER_OK);
	answer_of(&w, &b, LEDGER_OVER_LIMIT);
	/* all is settled: at once */
	assert_int_equal(take(&w, &b, GIB), LEDGER_OVER_LIMIT);
	/* unsettled without end: a second */
	ledger_settle(w.l, a.p, 0, w.now);
	assert_int_equal(take(&w, &b, GIB), LEDGER_WAIT);
	w.now += LEDGER_SETTLE_NS;
	answer_of(&w, &b, LEDGER_OVER_LIMIT);
	world_fini(&w);
}

static void a6_two_contexts_at_once(void **state)
{
	struct program a, *all[] = { &a };
	struct world w;

	(void)state;
	world_init_1(&w, 100);
	start(&w, &a, job_of(&w, 1, 0, 0), 100);
	(void)need_context(&w, &a);
	(void)need_context(&w, &a);
	assert_int_equal(figures(&w, &a).pending_bytes, GIB);
	context_made(&w, &a, 300 * MIB);
	sample(&w, all, 1, 0); /* the other one is half made: not yet */
	nothing_due(&w);
	context_made(&w, &a, 300 * MIB);
	sample(&w, all, 1, 0);
	event_of(&w, LEDGER_EVENT_SETTLED);
	assert_int_equal(event_of(&w, LEDGER_EVENT_SETTLED).settled.cost_bytes, 300 * MIB);
	assert_int_equal(figures(&w, &a).held_bytes, 600 * MIB);
	assert_int_equal(figures(&w, &a).pending_bytes, 0);
	world_fini(&w);
}

/* another thread has charged what the driver has not taken yet: a context is not cheap for that */
static void a3_a_context_measured_beside_an_allocation(void **state)
{
	struct program a, *all[] = { &a };
	struct world w;

	(void)state;
	world_init_1(&w, 100);
	start(&w, &a, job_of(&w, 1, 0, 0), 100);
	(void)need_context(&w, &a);
	context_made(&w, &a, 500 * MIB);
	sample(&w, all, 1, 0);
	event_of(&w, LEDGER_EVENT_SETTLED);
	(void)need_context(&w, &a);
	assert_int_equal(take(&w, &a, 400 * MIB), LEDGER_OK);
	a.slot[0].live = 0; /* … on its way */
	context_made(&w, &a, 500 * MIB);
	for (int i = 0; i < 3; i++) {
		sample(&w, all, 1, 0);
		nothing_due(&w);
	}
	assert_int_equal(figures(&w, &a).held_bytes, 1400 * MIB);
	a.slot[0].live = 400 * MIB;
	sample(&w, all, 1, 0);
	assert_int_equal(event_of(&w, LEDGER_EVENT_SETTLED).settled.cost_bytes, 500 * MIB);
	assert_int_equal(figures(&w, &a).held_bytes, 1400 * MIB);
	world_fini(&w);
}

/* a program's start: the first context, when the cost is known, is answered at once and measured */
static void a_context_of_known_cost_keeps_nobody_waiting(void **state)
{
	struct program a, b, *all[] = { &a, &b };
	struct ledger_settled settled = { 0 };
	struct world w;

	(void)state;
	world_init_1(&w, 100);
	start(&w, &a, job_of(&w, 1, 0, 0), 100);
	(void)need_context(&w, &a);
	context_made(&w, &a, 500 * MIB);
	sample(&w, all, 1, 0);
	event_of(&w, LEDGER_EVENT_SETTLED);
	start(&w, &b, job_of(&w, 2, 0, 0), 101);
	assert_int_equal(need_context(&w, &b), 500 * MIB);
	b.slot[0].driver = 600 * MIB; /* it turns out larger, all the same */
	assert_int_equal(ledger_context_done(w.l, b.p, 0, true, &b, w.now, &settled), 0);
	assert_true(settled.keep);
	assert_int_equal(figures(&w, &b).held_bytes, 500 * MIB);
	sample(&w, all, 2, 0);
	sample(&w, all, 2, 0);
	assert_int_equal(figures(&w, &b).held_bytes, 600 * MIB);
	world_fini(&w);
}

/* nobody knows the cost yet, and the last of four would be made where it cannot fit */
static void a24_who_starts_beside_the_first_waits_for_its_cost(void **state)
{
	struct program p[4], *all[] = { &p[0], &p[1], &p[2], &p[3] };
	struct ledger_job *j;
	struct world w;

	(void)state;
	world_init_1(&w, 100);
	j = job_of(&w, 1, 0, 1600 * MIB);
	for (int i = 0; i < 4; i++)
		start(&w, &p[i], j, 100 + i);
	for (int i = 0; i < 3; i++)
		assert_int_equal(need_context(&w, &p[i]), LEDGER_CONTEXT_BYTES);
	assert_int_equal(ledger_need_context(w.l, p[3].p, 0, 0, &p[3], w.now, &w.g), LEDGER_WAIT);
	for (int i = 0; i < 3; i++)
		context_made(&w, &p[i], 300 * MIB);
	sample(&w, all, 4, 0);
	for (int i = 0; i < 3; i++)
		event_of(&w, LEDGER_EVENT_SETTLED);
	answer_of(&w, &p[3], LEDGER_OK);
	assert_int_equal(w.g.bytes, 300 * MIB);
	world_fini(&w);
}

static void k6_the_dead_hold_until_nvml_shows_them_gone(void **state)
{
	struct program a, b, *all[] = { &a, &b };
	struct world w;

	(void)state;
	world_init_1(&w, 10);
	start(&w, &a, job_of(&w, 1, 0, 0), 100);
	start(&w, &b, job_of(&w, 2, 0, 0), 101);
	assert_int_equal(take(&w, &a, 8 * GIB), LEDGER_OK);
	a.slot[0].driver = 500 * MIB;
	sample(&w, all, 2, 0);
	assert_int_equal(take(&w, &b, 8 * GIB), LEDGER_WAIT);
	ledger_sample_begin(w.l, 0, w.now);
	w.now += MS;
	ledger_process_dead(w.l, a.p, w.now);
	nothing_due(&w);
	/* that look began before the death: an empty figure in it proves nothing */
	sample_end(&w, 0, 0, NULL, 0, 0);
	nothing_due(&w);
	assert_true(ledger_sample_due_ns(w.l, 0, w.now) <= w.now + 10 * MS);
	sample(&w, all, 2, 0);
	nothing_due(&w);
	assert_int_equal(figures(&w, &a).state, LEDGER_DYING);
	w.now += 10 * S; /* and it is no circle either */
	nothing_due(&w);
	a.slot[0].live = a.slot[0].driver = 0;
	sample(&w, all, 2, 0);
	answer_of(&w, &b, LEDGER_OK);
	assert_ptr_equal(event_of(&w, LEDGER_EVENT_GONE).process, a.p);
	ledger_process_free(w.l, a.p, w.now);
	assert_int_equal(gpu_figures(&w, 0).held_bytes, 8 * GIB);
	world_fini(&w);
}

static void k6_a_card_without_process_figures(void **state)
{
	struct ledger_sample s = { .memory_known = true, .total_bytes = 10 * GIB };
	struct program a;
	struct world w;

	(void)state;
	world_init_1(&w, 10);
	start(&w, &a, job_of(&w, 1, 0, 0), 100);
	assert_int_equal(take(&w, &a, 8 * GIB), LEDGER_OK);
	ledger_process_dead(w.l, a.p, w.now);
	ledger_sample_begin(w.l, 0, w.now);
	ledger_sample(w.l, 0, &s, w.now);
	event_of(&w, LEDGER_EVENT_GONE);
	assert_int_equal(gpu_figures(&w, 0).held_bytes, 0);
	world_fini(&w);
}

static void e_detached_is_charged_at_nvmls_figure(void **state)
{
	struct program a, *all[] = { &a };
	struct world w;

	(void)state;
	world_init_1(&w, 10);
	start(&w, &a, job_of(&w, 1, 0, 0), 100);
	assert_int_equal(take(&w, &a, 6 * GIB), LEDGER_OK);
	a.slot[0].driver = 500 * MIB;
	sample(&w, all, 1, 0);
	ledger_process_detach(w.l, a.p, w.now);
	assert_int_equal(figures(&w, &a).held_bytes, 6 * GIB + 500 * MIB);
	assert_int_equal(a.slot[0].credit, 0);
	/* it was exec: the memory is gone; one look is not enough */
	a.slot[0].live = a.slot[0].driver = 0;
	sample(&w, all, 1, 0);
	assert_int_equal(figures(&w, &a).held_bytes, 6 * GIB + 500 * MIB);
	sample(&w, all, 1, 0);
	assert_int_equal(figures(&w, &a).held_bytes, 0);
	world_fini(&w);
}

static void e_detached_and_back(void **state)
{
	struct program a, *all[] = { &a };
	struct ledger_job *j;
	struct world w;

	(void)state;
	world_init_1(&w, 10);
	j = job_of(&w, 1, 0, 8 * GIB);
	start(&w, &a, j, 100);
	assert_int_equal(take(&w, &a, 6 * GIB), LEDGER_OK);
	ledger_process_detach(w.l, a.p, w.now);
	assert_int_equal(ledger_need(w.l, a.p, 0, 1, 0, NULL, w.now, &w.g), LEDGER_NO_LEASE);
	sample(&w, all, 1, 0);
	sample(&w, all, 1, 0);
	give(&w, &a, 0, 2 * GIB); /* closefrom: the program lives on and frees */
	ledger_process_attach(w.l, a.p, w.now);
	assert_int_equal(figures(&w, &a).held_bytes, 4 * GIB);
	assert_int_equal(view_of(&w, j).free_bytes, 4 * GIB);
	assert_int_equal(take(&w, &a, 4 * GIB), LEDGER_OK);
	world_fini(&w);
}

static void e_exec_cannot_shed_a_charge(void **state)
{
	struct program a, b, *fresh[] = { &b };
	struct ledger_job *j;
	struct world w;

	(void)state;
	world_init_1(&w, 10);
	j = job_of(&w, 1, 0, 8 * GIB);
	start(&w, &a, j, 100);
	assert_int_equal(take(&w, &a, 6 * GIB), LEDGER_OK);
	ledger_process_detach(w.l, a.p, w.now);
	start(&w, &b, j, 100);
	ledger_process_replaced(w.l, a.p, b.p, w.now);
	/* it said that it is a new program: only NVML can say that the old memory is gone */
	assert_int_equal(view_of(&w, j).free_bytes, 2 * GIB);
	assert_int_equal(take(&w, &b, 4 * GIB), LEDGER_WAIT);
	sample(&w, fresh, 1, 0);
	nothing_due(&w);
	sample(&w, fresh, 1, 0);
	answer_of(&w, &b, LEDGER_OK);
	assert_int_equal(view_of(&w, j).free_bytes, 4 * GIB);
	world_fini(&w);
}

static void restart_ends_at_the_same_figures(void **state)
{
	uint64_t claim[LEDGER_MAX_SLOTS] = { 7 * GIB };
	struct ledger_job_spec spec = spec_of(9, 4 * GIB, 10 * GIB);
	struct program a = { .slot[0] = { .credit = GIB, .live = 6 * GIB, .driver = 500 * MIB } };
	struct program *all[] = { &a };
	struct ledger_job *j;
	struct world w;

	(void)state;
	world_init_1(&w, 20);
	spec.n_listed = 1;
	assert_int_equal(ledger_job_restore(w.l, &spec, NULL, w.now, &j), 0);
	assert_int_equal(ledger_view_restore(j, 0, 0), 0);
	assert_int_equal(ledger_process_restore(w.l, j, 100, &a, claim, w.now, &a.p), 0);
	assert_int_equal(figures(&w, &a).state, LEDGER_DETACHED);
	ledger_process_attach(w.l, a.p, w.now);
	/* the overhead is not known yet: a refusal waits for it */
	sample(&w, all, 1, 0);
	sample(&w, all, 1, 0);
	assert_int_equal(figures(&w, &a).held_bytes, 6 * GIB + 500 * MIB);
	assert_int_equal(view_of(&w, j).free_bytes, 10 * GIB - 6 * GIB - 500 * MIB);
	world_fini(&w);
}

static void restart_counts_a_context_before_nvml_speaks(void **state)
{
	struct ledger_gpu_spec gpu = { .total_bytes = 20 * GIB, .context_bytes = 500 * MIB };
	uint64_t claim[LEDGER_MAX_SLOTS] = { GIB };
	struct ledger_job_spec spec = spec_of(9, 0, 10 * GIB);
	struct program a = { .slot[0] = { .live = GIB, .wanted = true } }, *all[] = { &a };
	struct world w = { .now = S };
	struct ledger_job *j;

	(void)state;
	w.l = ledger_new(&word_ops);
	assert_int_equal(ledger_gpu_add(w.l, &gpu), 0);
	spec.n_listed = 1;
	assert_int_equal(ledger_job_restore(w.l, &spec, NULL, w.now, &j), 0);
	assert_int_equal(ledger_process_restore(w.l, j, 100, &a, claim, w.now, &a.p), 0);
	assert_false(a.slot[0].wanted);
	assert_int_equal(gpu_figures(&w, 0).grantable_bytes, 19 * GIB - 500 * MIB);
	/* it lost its memory while allotd was away, and never came back */
	a.slot[0].live = 0;
	sample(&w, all, 1, 0);
	sample(&w, all, 1, 0);
	assert_int_equal(gpu_figures(&w, 0).held_bytes, 0);
	world_fini(&w);
}

static void restart_a_false_claim_is_cut(void **state)
{
	static const struct {
		uint64_t claim, live, held;
	} rows[] = {
		{ UINT64_MAX, 2 * GIB, 2 * GIB }, /* too much: at most the limit, then NVML */
		{ 0, 2 * GIB, 2 * GIB },          /* too little: NVML shows the rest */
		{ 5 * GIB, 2 * GIB, 2 * GIB },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t claim[LEDGER_MAX_SLOTS] = { rows[i].claim };
		struct ledger_job_spec spec = spec_of(9, 0, 10 * GIB);
		struct program a = { .slot[0].live = rows[i].live }, *all[] = { &a };
		struct ledger_job *j;
		struct world w;

		world_init_1(&w, 20);
		spec.n_listed = 1;
		assert_int_equal(ledger_job_restore(w.l, &spec, NULL, w.now, &j), 0);
		assert_int_equal(ledger_process_restore(w.l, j, 100, &a, claim, w.now, &a.p), 0);
		assert_true(figures(&w, &a).held_bytes <= 10 * GIB);
		ledger_process_attach(w.l, a.p, w.now);
		for (int k = 0; k < 3; k++)
			sample(&w, all, 1, 0);
		assert_int_equal(figures(&w, &a).held_bytes, rows[i].held);
		world_fini(&w);
	}
}

/* a storm of restarts found it: the credit that lay in the page was more than what was granted */
static void restart_returns_come_before_the_cut(void **state)
{
	uint64_t claim[LEDGER_MAX_SLOTS] = { 3 * GIB };
	struct ledger_job_spec spec = spec_of(9, 0, 10 * GIB);
	struct program a = { .slot[0].live = 3 * GIB }, *all[] = { &a };
	struct ledger_job *j;
	struct world w;

	(void)state;
	world_init_1(&w, 20);
	spec.n_listed = 1;
	assert_int_equal(ledger_job_restore(w.l, &spec, NULL, w.now, &j), 0);
	assert_int_equal(ledger_process_restore(w.l, j, 100, &a, claim, w.now, &a.p), 0);
	give(&w, &a, 0, 2 * GIB); /* its shim has not come back, and frees */
	for (int k = 0; k < 3; k++)
		sample(&w, all, 1, 0);
	ledger_process_attach(w.l, a.p, w.now);
	assert_true(a.slot[0].credit <= figures(&w, &a).granted_bytes);
	assert_int_equal(figures(&w, &a).held_bytes, GIB);
	world_fini(&w);
}

static void strangers_count_once_two_samples_agree(void **state)
{
	struct ledger_sample s = { .memory_known = true,
				   .processes_known = true,
				   .total_bytes = 10 * GIB,
				   .used_bytes = 3 * GIB };
	struct world w;

	(void)state;
	world_init_1(&w, 10);
	ledger_sample(w.l, 0, &s, w.now); /* used, but nobody is listed for it */
	assert_int_equal(gpu_figures(&w, 0).unmanaged_bytes, 0);
	s.used_bytes = 2 * GIB;
	ledger_sample(w.l, 0, &s, w.now);
	assert_int_equal(gpu_figures(&w, 0).unmanaged_bytes, 2 * GIB);
	s.unmanaged_bytes = 1 * GIB; /* one of them is listed now */
	ledger_sample(w.l, 0, &s, w.now);
	assert_int_equal(gpu_figures(&w, 0).unmanaged_bytes, 2 * GIB);
	s.processes_known = s.memory_known = false; /* NVML is silent: the last word stands */
	ledger_sample(w.l, 0, &s, w.now);
	assert_int_equal(gpu_figures(&w, 0).unmanaged_bytes, 2 * GIB);
	world_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a7_a25_a_context_is_charged_as_measured),
		cmocka_unit_test(a24_a_limit_below_a_context),
		cmocka_unit_test(a24_a_context_far_over_the_limit_is_undone),
		cmocka_unit_test(an_estimate_stays_when_nvml_is_silent),
		cmocka_unit_test(a5_what_came_and_went_under_a_look_is_no_overhead),
		cmocka_unit_test(a13_managed_memory_hides_no_overhead),
		cmocka_unit_test(a7_late_growth_is_charged_at_once_and_shrinks_after_two),
		cmocka_unit_test(a5_an_overhead_shrinks_under_calls_to_what_it_may_be_at_most),
		cmocka_unit_test(a4_drift_is_shown_never_acted_upon),
		cmocka_unit_test(a24_who_would_be_refused_waits_for_the_figure),
		cmocka_unit_test(a6_two_contexts_at_once),
		cmocka_unit_test(a3_a_context_measured_beside_an_allocation),
		cmocka_unit_test(a_context_of_known_cost_keeps_nobody_waiting),
		cmocka_unit_test(a24_who_starts_beside_the_first_waits_for_its_cost),
		cmocka_unit_test(k6_the_dead_hold_until_nvml_shows_them_gone),
		cmocka_unit_test(k6_a_card_without_process_figures),
		cmocka_unit_test(e_detached_is_charged_at_nvmls_figure),
		cmocka_unit_test(e_detached_and_back),
		cmocka_unit_test(e_exec_cannot_shed_a_charge),
		cmocka_unit_test(restart_ends_at_the_same_figures),
		cmocka_unit_test(restart_counts_a_context_before_nvml_speaks),
		cmocka_unit_test(restart_a_false_claim_is_cut),
		cmocka_unit_test(restart_returns_come_before_the_cut),
		cmocka_unit_test(strangers_count_once_two_samples_agree),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
