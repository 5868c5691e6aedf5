// SPDX-License-Identifier: Apache-2.0
/* admission, placement, changes of a job, and what programs see */
#include "ledger_fixture.h"

static enum ledger_admission admit(struct world *w, struct ledger_job_spec *spec,
				   struct ledger_job **ret)
{
	*ret = NULL;
	return ledger_admit(w->l, spec, ret, w->now, ret, w->text);
}

static void k2_reserved_not_measured(void **state)
{
	struct ledger_job *j[128];
	unsigned admitted = 0;
	struct world w;

	(void)state;
	world_init_1(&w, 80);
	/* 128 jobs at once, before any has allocated anything */
	for (unsigned i = 0; i < 128; i++) {
		struct ledger_job_spec spec = spec_of(i + 1, 10 * GIB, 10 * GIB);

		admitted += admit(&w, &spec, &j[i]) == LEDGER_ADMITTED;
	}
	assert_int_equal(admitted, 8);
	assert_int_equal(gpu_figures(&w, 0).waiting, 120);
	assert_int_equal(gpu_figures(&w, 0).grantable_bytes, 0);
	for (unsigned i = 0; i < 120; i++) {
		struct ledger_event e;

		ledger_job_end(w.l, j[i], w.now);
		e = event_of(&w, LEDGER_EVENT_ADMITTED);
		assert_ptr_equal(e.job, j[i + 8]); /* in the order of age */
		nothing_due(&w);
	}
	world_fini(&w);
}

static void k4_integer_bytes(void **state)
{
	static const struct {
		uint64_t total, request;
		unsigned fit;
	} rows[] = {
		{ 46068 * MIB, 46068 * MIB / 4, 4 },
		{ 46068 * MIB, 46068 * MIB / 4 + 1, 3 },
		{ 46068 * MIB, 46068 * MIB, 1 },
		{ 46068 * MIB, 46068 * MIB / 2 + 1, 1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ledger_gpu_spec gpu = { .total_bytes = rows[i].total };
		struct world w = { .now = S };
		struct ledger_job *j;
		unsigned fit = 0;

		w.l = ledger_new(&word_ops);
		assert_int_equal(ledger_gpu_add(w.l, &gpu), 0);
		for (unsigned k = 0; k < 6; k++) {
			struct ledger_job_spec spec = spec_of(k + 1, rows[i].request, 0);

			fit += admit(&w, &spec, &j) == LEDGER_ADMITTED;
		}
		assert_int_equal(fit, rows[i].fit);
		world_fini(&w);
	}
}

static void k5_k9_sixteen_halves_on_eight_cards(void **state)
{
	static const uint64_t eight[] = { 80, 80, 80, 80, 80, 80, 80, 80 };
	unsigned on[8] = { 0 }, gpus[LEDGER_MAX_SLOTS];
	struct ledger_job *j;
	struct world w;

	(void)state;
	world_init(&w, 8, eight);
	for (unsigned i = 0; i < 16; i++) {
		assert_int_equal(ledger_job_slots(job_of(&w, i + 1, 40 * GIB, 40 * GIB), gpus), 1);
		on[gpus[0]]++;
	}
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(on[i], 2);
	struct ledger_job_spec spec = spec_of(17, 1, 0);
	assert_int_equal(admit(&w, &spec, &j), LEDGER_WAITS);
	world_fini(&w);
}

static void k3_jobs_without_a_request_are_spread(void **state)
{
	unsigned gpus[LEDGER_MAX_SLOTS];
	struct world w;

	(void)state;
	world_init(&w, 3, (const uint64_t[]){ 80, 80, 80 });
	for (unsigned i = 0; i < 6; i++) {
		assert_int_equal(ledger_job_slots(job_of(&w, i + 1, 0, 0), gpus), 1);
		assert_int_equal(gpus[0], i % 3);
	}
	world_fini(&w);
}

static void k10_capacity_is_per_card(void **state)
{
	struct ledger_job_spec spec = spec_of(3, 30 * GIB, 0);
	struct ledger_job *j, *waits;
	struct ledger_why why;
	struct world w;

	(void)state;
	world_init(&w, 3, (const uint64_t[]){ 48, 24, 4 });
	(void)job_of(&w, 1, 24 * GIB, 0); /* picks the 48 */
	(void)job_of(&w, 2, 24 * GIB, 0); /* both have 24 left */
	/* 28 GiB are free in sum, no card has 30 */
	assert_int_equal(admit(&w, &spec, &waits), LEDGER_WAITS);
	assert_non_null(strstr(w.text, "needs 30.0 GiB"));
	assert_non_null(strstr(w.text, "GPU 0 has "));
	assert_non_null(strstr(w.text, "job 1 (test) holds 0 B, promised 24.0 GiB"));
	ledger_job_why(w.l, waits, w.now, &why);
	assert_int_equal(why.position, 1);
	assert_int_equal(why.needed_bytes, 30 * GIB);
	/* it may only ever go to GPU 0, so it holds nobody up elsewhere */
	spec = spec_of(4, 4 * GIB, 0);
	assert_int_equal(admit(&w, &spec, &j), LEDGER_ADMITTED);
	spec = spec_of(5, 50 * GIB, 0);
	assert_int_equal(admit(&w, &spec, &j), LEDGER_NEVER_FITS);
	assert_string_equal(w.text, "50.0 GiB asked for, the largest GPU can ever give 48.0 GiB");
	world_fini(&w);
}

static void k3_head_of_the_line_first(void **state)
{
	struct ledger_job_spec big = spec_of(2, 8 * GIB, 0), small = spec_of(3, GIB, 0);
	struct ledger_job *first, *j_big, *j_small, *j_latency, *j_free;
	struct world w;

	(void)state;
	world_init_1(&w, 10);
	first = job_of(&w, 1, 6 * GIB, 0);
	assert_int_equal(admit(&w, &big, &j_big), LEDGER_WAITS);
	/* it would fit, but would keep the big one waiting for ever */
	assert_int_equal(admit(&w, &small, &j_small), LEDGER_WAITS);
	/* a better class goes first, and who wants no promise harms nobody */
	small.id = 4;
	small.job_class = LEDGER_CLASS_LATENCY;
	assert_int_equal(admit(&w, &small, &j_latency), LEDGER_ADMITTED);
	small = spec_of(5, 0, 0);
	assert_int_equal(admit(&w, &small, &j_free), LEDGER_ADMITTED);
	ledger_job_end(w.l, first, w.now);
	assert_ptr_equal(event_of(&w, LEDGER_EVENT_ADMITTED).job, j_big);
	assert_ptr_equal(event_of(&w, LEDGER_EVENT_ADMITTED).job, j_small);
	nothing_due(&w);
	world_fini(&w);
}

static void k14_waiting_ends_in_time(void **state)
{
	struct ledger_job_spec spec = spec_of(2, 8 * GIB, 0);
	struct ledger_job *j;
	struct world w;

	(void)state;
	world_init_1(&w, 10);
	(void)job_of(&w, 1, 6 * GIB, 0);
	spec.admit_deadline_ns = w.now; /* --immediate */
	assert_int_equal(admit(&w, &spec, &j), LEDGER_BUSY);
	assert_null(j);
	assert_non_null(strstr(w.text, "GPU 0 has 4.0 GiB"));
	spec.admit_deadline_ns = w.now + 5 * S;
	assert_int_equal(admit(&w, &spec, &j), LEDGER_WAITS);
	w.now += 5 * S - 1;
	nothing_due(&w);
	w.now += 1;
	assert_true(ledger_deadline_ns(w.l, w.now) <= w.now);
	assert_ptr_equal(event_of(&w, LEDGER_EVENT_ADMISSION_TIMED_OUT).job, j);
	assert_int_equal(ledger_job_free(w.l, j, w.now), 0);
	world_fini(&w);
}

static void k2_unused_credit_does_not_keep_a_job_out(void **state)
{
	struct ledger_job_spec spec = spec_of(2, 8 * GIB, 0);
	struct program a;
	struct ledger_job *j;
	struct world w;

	(void)state;
	world_init_1(&w, 10);
	start(&w, &a, job_of(&w, 1, 0, 0), 100);
	assert_int_equal(take(&w, &a, 9 * GIB), LEDGER_OK);
	assert_int_equal(admit(&w, &spec, &j), LEDGER_WAITS);
	give(&w, &a, 0, 9 * GIB); /* into its word, without a message */
	assert_true(a.slot[0].credit > 0);
	w.now = ledger_deadline_ns(w.l, w.now);
	assert_ptr_equal(event_of(&w, LEDGER_EVENT_ADMITTED).job, j);
	assert_int_equal(a.slot[0].credit, 0);
	/* a third one finds the room at once */
	world_fini(&w);
	world_init_1(&w, 10);
	start(&w, &a, job_of(&w, 1, 0, 0), 100);
	assert_int_equal(take(&w, &a, 9 * GIB), LEDGER_OK);
	give(&w, &a, 0, 9 * GIB);
	assert_int_equal(admit(&w, &spec, &j), LEDGER_ADMITTED);
	world_fini(&w);
}

static void k3_memory_before_new_jobs(void **state)
{
	struct ledger_job_spec spec = spec_of(3, 2 * GIB, 0);
	struct program a, b;
	struct ledger_job *j;
	struct world w;

	(void)state;
	world_init_1(&w, 10);
	start(&w, &a, job_of(&w, 1, 0, 0), 100);
	start(&w, &b, job_of(&w, 2, 0, 0), 101);
	assert_int_equal(take(&w, &a, 7 * GIB), LEDGER_OK);
	assert_int_equal(take(&w, &b, 4 * GIB), LEDGER_WAIT);
	assert_int_equal(admit(&w, &spec, &j), LEDGER_WAITS);
	give(&w, &a, 0, 4 * GIB);
	answer_of(&w, &b, LEDGER_OK);
	assert_ptr_equal(event_of(&w, LEDGER_EVENT_ADMITTED).job, j);
	world_fini(&w);
}

static void g7_several_gpus(void **state)
{
	static const struct {
		unsigned n_gpus, n_listed, listed[3];
		enum ledger_admission result;
		unsigned got[3];
	} rows[] = {
		{ 2, 0, { 0 }, LEDGER_ADMITTED, { 0, 2 } }, /* the roomiest, in order */
		{ 3, 0, { 0 }, LEDGER_ADMITTED, { 0, 1, 2 } },
		{ 4, 0, { 0 }, LEDGER_NEVER_FITS, { 0 } },
		{ 2, 2, { 2, 1 }, LEDGER_ADMITTED, { 2, 1 } }, /* as named */
		{ 1, 2, { 1, 2 }, LEDGER_ADMITTED, { 2 } },    /* one of those named */
		{ 2, 2, { 1, 1 }, LEDGER_BAD, { 0 } },
		{ 1, 1, { 9 }, LEDGER_BAD, { 0 } },
		{ 3, 2, { 0, 1 }, LEDGER_BAD, { 0 } },
		{ 0, 0, { 0 }, LEDGER_BAD, { 0 } },
		{ 17, 0, { 0 }, LEDGER_BAD, { 0 } },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ledger_job_spec spec = spec_of(1, 10 * GIB, 0);
		unsigned got[LEDGER_MAX_SLOTS];
		struct ledger_job *j;
		struct world w;

		world_init(&w, 3, (const uint64_t[]){ 48, 24, 48 });
		spec.n_gpus = rows[i].n_gpus;
		spec.n_listed = rows[i].n_listed;
		memcpy(spec.listed, rows[i].listed, sizeof(rows[i].listed));
		assert_int_equal(admit(&w, &spec, &j), rows[i].result);
		if (rows[i].result == LEDGER_ADMITTED) {
			assert_int_equal(ledger_job_slots(j, got), rows[i].n_gpus);
			for (unsigned k = 0; k < rows[i].n_gpus; k++) {
				assert_int_equal(got[k], rows[i].got[k]);
				assert_int_equal(ledger_job_slot_of(j, got[k]), k);
			}
		} else {
			assert_true(w.text[0] != '\0');
		}
		world_fini(&w);
	}
}

/* all at once or nothing, and nobody behind it takes what it waits for */
static void g8_several_gpus_are_reserved(void **state)
{
	struct ledger_job_spec wide = spec_of(10, 20 * GIB, 0), small = spec_of(11, 5 * GIB, 0);
	struct ledger_job *n[3], *w1, *s, *tiny, *urgent;
	unsigned got[LEDGER_MAX_SLOTS];
	struct world w;

	(void)state;
	world_init(&w, 4, (const uint64_t[]){ 40, 40, 40, 4 });
	for (unsigned i = 0; i < 3; i++)
		n[i] = job_of(&w, i + 1, 30 * GIB, 0);
	wide.n_gpus = 2;
	assert_int_equal(admit(&w, &wide, &w1), LEDGER_WAITS);
	assert_non_null(strstr(w.text, "on each of 2 GPUs"));
	assert_int_equal(admit(&w, &small, &s), LEDGER_WAITS); /* there would be room */
	assert_non_null(strstr(w.text, "others wait before it"));
	/* a card that it could never be on is not reserved for it; a better class goes first */
	assert_int_equal(ledger_job_slots(job_of(&w, 12, GIB, 0), got), 1);
	assert_int_equal(got[0], 3);
	small = spec_of(13, 5 * GIB, 0);
	small.job_class = LEDGER_CLASS_LATENCY;
	assert_int_equal(admit(&w, &small, &urgent), LEDGER_ADMITTED);
	/* whoever does not want to wait stands in nobody's way */
	wide.id = 14;
	wide.admit_deadline_ns = 0;
	assert_int_equal(admit(&w, &wide, &tiny), LEDGER_BUSY);
	ledger_job_end(w.l, n[1], w.now);
	nothing_due(&w);
	assert_int_equal(gpu_figures(&w, 1).requested_bytes, 0); /* nothing is held meanwhile */
	ledger_job_end(w.l, n[2], w.now);
	assert_ptr_equal(event_of(&w, LEDGER_EVENT_ADMITTED).job, w1);
	assert_int_equal(ledger_job_slots(w1, got), 2);
	assert_int_equal(got[0], 1);
	assert_int_equal(got[1], 2);
	assert_ptr_equal(event_of(&w, LEDGER_EVENT_ADMITTED).job, s);
	nothing_due(&w);
	world_fini(&w);
}

/* a stream of small jobs does not keep it out, wherever they end */
static void g8_a_stream_of_small_jobs_starves_nobody(void **state)
{
	struct ledger_job_spec wide = spec_of(1000, 30 * GIB, 0);
	struct ledger_job *running[8], *w1, *j;
	struct ledger_event e;
	bool is_in = false;
	struct world w;

	(void)state;
	world_init(&w, 4, (const uint64_t[]){ 40, 40, 40, 40 });
	for (unsigned i = 0; i < 8; i++)
		running[i] = job_of(&w, i + 1, 20 * GIB, 0);
	wide.n_gpus = 3;
	assert_int_equal(admit(&w, &wide, &w1), LEDGER_WAITS);
	for (unsigned i = 0; i < 8 && !is_in; i++) {
		struct ledger_job_spec next = spec_of(100 + i, 20 * GIB, 0);

		assert_int_equal(admit(&w, &next, &j), LEDGER_WAITS);
		ledger_job_end(w.l, running[i], w.now);
		while (ledger_poll(w.l, w.now, &e)) {
			assert_int_equal(e.kind, LEDGER_EVENT_ADMITTED);
			is_in = is_in || e.job == w1;
			assert_true(is_in); /* before all that came later */
		}
	}
	assert_true(is_in);
	world_fini(&w);
}

/* two that name the same cards in another order: one after the other */
static void g7_crossed_lists_do_not_lock(void **state)
{
	struct ledger_job_spec one = spec_of(1, 30 * GIB, 0), other = spec_of(2, 30 * GIB, 0);
	struct ledger_job *a, *b;
	unsigned got[LEDGER_MAX_SLOTS];
	struct world w;

	(void)state;
	world_init(&w, 2, (const uint64_t[]){ 40, 40 });
	one.n_gpus = one.n_listed = other.n_gpus = other.n_listed = 2;
	one.listed[1] = other.listed[0] = 1;
	assert_int_equal(admit(&w, &one, &a), LEDGER_ADMITTED);
	assert_int_equal(admit(&w, &other, &b), LEDGER_WAITS);
	ledger_job_end(w.l, a, w.now);
	assert_ptr_equal(event_of(&w, LEDGER_EVENT_ADMITTED).job, b);
	assert_int_equal(ledger_job_slots(b, got), 2);
	assert_int_equal(got[0], 1);
	world_fini(&w);
}

/* amounts are of each card by itself, and so is what can ever fit */
static void g7_unlike_cards(void **state)
{
	struct ledger_job_spec spec = spec_of(1, 0, 0);
	struct ledger_job_figures f;
	struct ledger_job *j;
	struct world w;

	(void)state;
	world_init(&w, 3, (const uint64_t[]){ 80, 24, 4 });
	spec.n_gpus = 3;
	spec.request.permille = spec.limit.permille = 500;
	assert_int_equal(admit(&w, &spec, &j), LEDGER_ADMITTED);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(ledger_job_figures(w.l, j, i, &f), 0);
		assert_int_equal(f.request_bytes, ((uint64_t[]){ 40, 12, 2 })[i] * GIB);
		assert_int_equal(f.limit_bytes, f.request_bytes);
	}
	spec = spec_of(2, 8 * GIB, 0);
	spec.n_gpus = 3;
	assert_int_equal(admit(&w, &spec, &j), LEDGER_NEVER_FITS);
	assert_string_equal(w.text, "8.0 GiB on 3 GPUs asked for, only 2 can ever give as much");
	spec.n_gpus = 4;
	assert_int_equal(admit(&w, &spec, &j), LEDGER_NEVER_FITS);
	assert_string_equal(w.text, "4 GPUs asked for, 3 there");
	spec.n_gpus = 2;
	assert_int_equal(admit(&w, &spec, &j), LEDGER_ADMITTED);
	world_fini(&w);
}

static void h6_a_divided_card_beside_a_whole_one(void **state)
{
	static const struct ledger_gpu_spec gpus[] = {
		{ .index = 0, .total_bytes = 140 * GIB },
		{ .index = 0, .total_bytes = 70 * GIB, .label = "0:0", .is_single = true },
		{ .index = 0, .total_bytes = 16 * GIB, .label = "0:1", .is_single = true },
		{ .index = 1, .total_bytes = 80 * GIB },
	};
	struct ledger_job_spec spec = spec_of(1, 100 * GIB, 0);
	unsigned numbers[LEDGER_MAX_SLOTS];
	struct world w = { .now = S };
	struct ledger_job *j;

	(void)state;
	w.l = ledger_new(&word_ops);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(ledger_gpu_add(w.l, &gpus[i]), i);
	ledger_gpu_closed(w.l, 0, true, w.now);
	assert_int_equal(gpu_figures(&w, 0).grantable_bytes, 0);
	assert_true(gpu_figures(&w, 0).closed);
	/* the card that is closed would have had the room */
	assert_int_equal(admit(&w, &spec, &j), LEDGER_NEVER_FITS);
	assert_string_equal(w.text, "100.0 GiB asked for, the largest GPU can ever give 80.0 GiB");
	spec.n_listed = 1;
	spec.listed[0] = 0;
	assert_int_equal(admit(&w, &spec, &j), LEDGER_NEVER_FITS);
	assert_non_null(strstr(w.text, "GPU 0 is in MIG mode"));
	/* two GPUs are never made of instances */
	spec = spec_of(2, GIB, 0);
	spec.n_gpus = 2;
	assert_int_equal(admit(&w, &spec, &j), LEDGER_NEVER_FITS);
	assert_non_null(strstr(w.text, "only one MIG instance"));
	spec = spec_of(3, 76 * GIB, 0);
	assert_int_equal(admit(&w, &spec, &j), LEDGER_ADMITTED);
	assert_int_equal(ledger_job_slots(j, numbers), 1);
	assert_int_equal(numbers[0], 3);
	spec = spec_of(4, 20 * GIB, 0);
	assert_int_equal(admit(&w, &spec, &j), LEDGER_ADMITTED);
	assert_int_equal(ledger_job_slots(j, numbers), 1);
	assert_int_equal(numbers[0], 1);
	/* and whole again */
	ledger_gpu_closed(w.l, 0, false, w.now);
	spec = spec_of(5, 100 * GIB, 0);
	assert_int_equal(admit(&w, &spec, &j), LEDGER_ADMITTED);
	world_fini(&w);
}

static void a18_parts_of_the_card(void **state)
{
	struct ledger_gpu_spec gpu = { .total_bytes = 100 * GIB, .reserved_bytes = 10 * GIB };
	struct ledger_job_spec spec = spec_of(1, 0, 0);
	struct ledger_job_figures f;
	struct world w = { .now = S };
	struct ledger_job *j;

	(void)state;
	w.l = ledger_new(&word_ops);
	assert_int_equal(ledger_gpu_add(w.l, &gpu), 0);
	spec.request.permille = 250;
	spec.limit.permille = 1000;
	assert_int_equal(admit(&w, &spec, &j), LEDGER_ADMITTED);
	assert_int_equal(ledger_job_figures(w.l, j, 0, &f), 0);
	assert_int_equal(f.request_bytes, 25 * GIB);
	assert_int_equal(f.limit_bytes, 90 * GIB); /* all that can be had, not more */
	spec.request.permille = 1001;
	assert_int_equal(admit(&w, &spec, &j), LEDGER_BAD);
	spec = spec_of(2, 2 * GIB, GIB);
	assert_int_equal(admit(&w, &spec, &j), LEDGER_BAD);
	assert_string_equal(w.text, "the limit is below the request");
	/* bytes beside a part of the card: each card shows whether that makes sense */
	spec = spec_of(3, 0, 8 * GIB);
	spec.request.permille = 500;
	assert_int_equal(admit(&w, &spec, &j), LEDGER_NEVER_FITS);
	assert_string_equal(w.text,
			    "the limit of 8.0 GiB is below the request of 50.0 GiB on GPU 0");
	spec = spec_of(4, 8 * GIB, 0);
	spec.limit.permille = 50;
	assert_int_equal(admit(&w, &spec, &j), LEDGER_NEVER_FITS);
	spec.limit.permille = 80;
	assert_int_equal(admit(&w, &spec, &j), LEDGER_ADMITTED);
	world_fini(&w);
}

static void b1_b3_a_view_depends_on_no_neighbour(void **state)
{
	struct program a, b;
	struct ledger_job *limited, *open, *late;
	struct world w;

	(void)state;
	world_init_1(&w, 80);
	limited = job_of(&w, 1, 20 * GIB, 20 * GIB);
	open = job_of(&w, 2, 0, 0);
	start(&w, &a, limited, 100);
	start(&w, &b, open, 101);
	assert_int_equal(view_of(&w, limited).total_bytes, 20 * GIB);
	assert_int_equal(view_of(&w, limited).free_bytes, 20 * GIB);
	assert_int_equal(view_of(&w, open).total_bytes, 80 * GIB);
	assert_int_equal(view_of(&w, open).free_bytes, 60 * GIB);
	assert_int_equal(take(&w, &b, 50 * GIB), LEDGER_OK);
	assert_int_equal(view_of(&w, limited).free_bytes, 20 * GIB);
	assert_int_equal(view_of(&w, open).free_bytes, 10 * GIB);
	assert_int_equal(view_of(&w, open).used_bytes, 50 * GIB);
	assert_int_equal(take(&w, &a, 5 * GIB), LEDGER_OK);
	assert_int_equal(view_of(&w, limited).free_bytes, 15 * GIB);
	/* the neighbour goes: the ceiling stays where it was at the first question */
	ledger_process_free(w.l, a.p, w.now);
	ledger_job_end(w.l, limited, w.now);
	assert_int_equal(view_of(&w, open).free_bytes, 10 * GIB);
	late = job_of(&w, 3, 0, 0);
	assert_int_equal(view_of(&w, late).free_bytes, 30 * GIB);
	world_fini(&w);
}

static void a2_a_limit_lowered_below_use(void **state)
{
	struct ledger_job_change c = { .has_limit = true, .limit.bytes = 4 * GIB };
	struct program a;
	struct ledger_job *j;
	struct world w;

	(void)state;
	world_init_1(&w, 80);
	j = job_of(&w, 1, 10 * GIB, 10 * GIB);
	start(&w, &a, j, 100);
	assert_int_equal(take(&w, &a, 8 * GIB), LEDGER_OK);
	assert_true(a.slot[0].credit > 0);
	assert_int_equal(ledger_job_set(w.l, j, &c, w.now, w.text), 0);
	assert_int_equal(a.slot[0].credit, 0); /* no way around it by credit */
	assert_int_equal(view_of(&w, j).free_bytes, 0);
	assert_int_equal(view_of(&w, j).total_bytes, 4 * GIB);
	assert_int_equal(view_of(&w, j).used_bytes, 8 * GIB);
	assert_int_equal(take(&w, &a, 1), LEDGER_OVER_LIMIT);
	give(&w, &a, 0, 6 * GIB);
	assert_int_equal(take(&w, &a, 3 * GIB), LEDGER_OVER_LIMIT);
	assert_int_equal(take(&w, &a, 2 * GIB), LEDGER_OK);
	world_fini(&w);
}

static void k7_changes_are_all_or_nothing(void **state)
{
	struct ledger_job_change c = { .has_request = true, .request.bytes = 20 * GIB };
	struct ledger_job_spec spec = spec_of(1, 4 * GIB, 0);
	struct ledger_job_figures f;
	struct ledger_job *j;
	struct world w;

	(void)state;
	world_init(&w, 2, (const uint64_t[]){ 48, 24 });
	spec.n_gpus = 2;
	assert_int_equal(admit(&w, &spec, &j), LEDGER_ADMITTED);
	spec = spec_of(2, 10 * GIB, 0);
	spec.n_listed = 1;
	spec.listed[0] = 1;
	assert_int_equal(admit(&w, &spec, &(struct ledger_job *){ NULL }), LEDGER_ADMITTED);
	/* the first card has the room, the second has not */
	assert_int_equal(ledger_job_set(w.l, j, &c, w.now, w.text), -ENOSPC);
	assert_non_null(strstr(w.text, "GPU 1 can promise 10.0 GiB more"));
	assert_int_equal(ledger_job_figures(w.l, j, 0, &f), 0);
	assert_int_equal(f.request_bytes, 4 * GIB);
	c.request.bytes = 14 * GIB;
	assert_int_equal(ledger_job_set(w.l, j, &c, w.now, w.text), 0);
	assert_int_equal(gpu_figures(&w, 1).grantable_bytes, 0);
	c = (struct ledger_job_change){
		.has_request = true, .has_limit = true, .request.bytes = 2, .limit.bytes = 1
	};
	assert_int_equal(ledger_job_set(w.l, j, &c, w.now, w.text), -EINVAL);
	world_fini(&w);
}

static void k6_a_job_that_ended_promises_nothing(void **state)
{
	struct program a, *all[] = { &a };
	struct ledger_job *j, *next;
	struct ledger_job_spec spec = spec_of(2, 9 * GIB, 0);
	struct world w;

	(void)state;
	world_init_1(&w, 10);
	j = job_of(&w, 1, 8 * GIB, 8 * GIB);
	start(&w, &a, j, 100);
	assert_int_equal(take(&w, &a, 3 * GIB), LEDGER_OK);
	assert_int_equal(admit(&w, &spec, &next), LEDGER_WAITS);
	ledger_process_dead(w.l, a.p, w.now);
	ledger_job_end(w.l, j, w.now);
	assert_int_equal(ledger_job_free(w.l, j, w.now), -EBUSY);
	nothing_due(&w);
	a.slot[0].live = 0;
	sample(&w, all, 1, 0);
	ledger_process_free(w.l, event_of(&w, LEDGER_EVENT_GONE).process, w.now);
	assert_int_equal(ledger_job_free(w.l, j, w.now), 0);
	assert_ptr_equal(event_of(&w, LEDGER_EVENT_ADMITTED).job, next);
	world_fini(&w);
}

static void thousand_processes_are_cheap(void **state)
{
	static struct program progs[1000];
	struct ledger_job *j;
	struct world w;

	(void)state;
	world_init_1(&w, 1000);
	j = job_of(&w, 1, 0, 900 * GIB);
	for (int i = 0; i < 1000; i++)
		start(&w, &progs[i], j, i + 1);
	for (int round = 0; round < 20; round++)
		for (int i = 0; i < 1000; i++)
			assert_int_equal(take(&w, &progs[i], 40 * MIB), LEDGER_OK);
	assert_int_equal(take(&w, &progs[0], 900 * GIB), LEDGER_OVER_LIMIT);
	world_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(k2_reserved_not_measured),
		cmocka_unit_test(k4_integer_bytes),
		cmocka_unit_test(k5_k9_sixteen_halves_on_eight_cards),
		cmocka_unit_test(k3_jobs_without_a_request_are_spread),
		cmocka_unit_test(k10_capacity_is_per_card),
		cmocka_unit_test(k3_head_of_the_line_first),
		cmocka_unit_test(k14_waiting_ends_in_time),
		cmocka_unit_test(k2_unused_credit_does_not_keep_a_job_out),
		cmocka_unit_test(k3_memory_before_new_jobs),
		cmocka_unit_test(g7_several_gpus),
		cmocka_unit_test(g8_several_gpus_are_reserved),
		cmocka_unit_test(g8_a_stream_of_small_jobs_starves_nobody),
		cmocka_unit_test(g7_crossed_lists_do_not_lock),
		cmocka_unit_test(g7_unlike_cards),
		cmocka_unit_test(h6_a_divided_card_beside_a_whole_one),
		cmocka_unit_test(a18_parts_of_the_card),
		cmocka_unit_test(b1_b3_a_view_depends_on_no_neighbour),
		cmocka_unit_test(a2_a_limit_lowered_below_use),
		cmocka_unit_test(k7_changes_are_all_or_nothing),
		cmocka_unit_test(k6_a_job_that_ended_promises_nothing),
		cmocka_unit_test(thousand_processes_are_cheap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
