// SPDX-License-Identifier: Apache-2.0
/*
 * A million random operations on a ledger with several GPUs, jobs in jobs, programs that take,
 * return, make contexts, scribble, die, lose their connection and come back, limits that change
 * and samples that are late.  Beside the ledger stands a model that only counts what programs
 * really hold.  After every operation: what the ledger says is held is what is live; no grant took
 * a job over its limit or the card over what can be had; nobody who fits is left waiting; at the
 * end everything is zero.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/rand.h"
#include "ledger_fixture.h"

#define OPERATIONS 1000000
#define N_GPUS     3
#define N_JOBS     12
#define N_PROGRAMS 32

struct rjob {
	struct ledger_job *j;
	bool admitted, ended;
	int parent; /* -1: none */
	unsigned n_slots, gpus[LEDGER_MAX_SLOTS];
};

enum rstate { R_NONE, R_RUNS, R_LONE, R_DEAD };

struct rprog {
	struct program prog;
	enum rstate state;
	int job;
	uint64_t ticket; /* 0: does not wait */
	bool ticket_context, ticket_turn;
	bool has_turn;      /* a call beyond the limit is under way … */
	unsigned turn_slot; /* … there … */
	uint64_t turn;      /* … and takes at most so much */
	unsigned slot;
	unsigned creating, settling;
};

struct play {
	struct ledger *l;
	struct rand_state rand;
	uint64_t now;
	struct rjob jobs[N_JOBS];
	struct rprog progs[N_PROGRAMS];
	bool sampling[N_GPUS];
	uint64_t total[N_GPUS], strangers[N_GPUS];
	unsigned long grants, waits, waited_out, circles, over, full, admissions, settled, gone;
	unsigned long undone, cancels, nested, turns, no_turns;
};

static uint64_t pick(struct play *w, uint64_t n)
{
	return rand_below(&w->rand, n);
}

static unsigned gpu_of(const struct play *w, const struct rprog *r, unsigned slot)
{
	return w->jobs[r->job].gpus[slot];
}

static unsigned slots_of(const struct play *w, const struct rprog *r)
{
	return w->jobs[r->job].n_slots;
}

/* the books of a running program are its live bytes, at any moment */
static void check_program(struct play *w, struct rprog *r)
{
	struct ledger_process_figures f;

	for (unsigned i = 0; i < slots_of(w, r); i++) {
		struct word *word = &r->prog.slot[i];

		assert_int_equal(ledger_process_figures(w->l, r->prog.p, i, w->now, &f), 0);
		assert_int_equal(f.granted_bytes, word->granted);
		if (r->state == R_RUNS) {
			assert_int_equal(f.granted_bytes - f.credit_bytes, word->live);
			assert_int_equal(f.held_bytes,
					 word->live + f.pending_bytes + f.overhead_bytes);
		}
	}
}

/* a grant: the walls hold, for the job and for those around it, and the card's */
static void check_grant(struct play *w, struct rprog *r, unsigned slot)
{
	unsigned gpu = gpu_of(w, r, slot);
	struct ledger_gpu_figures g;
	struct ledger_job_figures f;

	for (int at = r->job; at >= 0; at = w->jobs[at].parent) {
		int s = ledger_job_slot_of(w->jobs[at].j, gpu);

		assert_true(s >= 0);
		assert_int_equal(ledger_job_figures(w->l, w->jobs[at].j, (unsigned)s, &f), 0);
		assert_true(f.held_bytes + f.credit_bytes <= f.limit_bytes);
	}
	assert_int_equal(ledger_gpu_figures(w->l, gpu, &g), 0);
	assert_true(g.held_bytes + g.credit_bytes + g.passing_bytes <= g.allocatable_bytes);
	w->grants++;
}

static bool is_inside(const struct play *w, int job, int outer)
{
	for (; job >= 0; job = w->jobs[job].parent)
		if (job == outer)
			return true;
	return false;
}

/* a turn: with all that are under way in a job, it is within the limit and what we bear beyond */
static void check_turn(struct play *w, struct rprog *r, unsigned slot)
{
	unsigned gpu = gpu_of(w, r, slot);
	struct ledger_gpu_figures g;
	struct ledger_job_figures f;

	for (int at = r->job; at >= 0; at = w->jobs[at].parent) {
		int s = ledger_job_slot_of(w->jobs[at].j, gpu);
		uint64_t sum = 0;

		for (unsigned i = 0; i < N_PROGRAMS; i++) {
			const struct rprog *o = &w->progs[i];

			if (o->state == R_RUNS && o->has_turn &&
			    gpu_of(w, o, o->turn_slot) == gpu && is_inside(w, o->job, at))
				sum += o->turn;
		}
		assert_true(s >= 0);
		assert_int_equal(ledger_job_figures(w->l, w->jobs[at].j, (unsigned)s, &f), 0);
		assert_true(sum <= LEDGER_OVERDRAFT_BYTES);
		assert_true(f.held_bytes + f.credit_bytes + sum <=
			    f.limit_bytes + LEDGER_OVERDRAFT_BYTES);
	}
	assert_int_equal(ledger_gpu_figures(w->l, gpu, &g), 0);
	assert_true(g.passing_bytes == 0 ||
		    g.held_bytes + g.credit_bytes + g.passing_bytes <= g.allocatable_bytes ||
		    g.held_bytes + g.credit_bytes > g.allocatable_bytes - g.passing_bytes);
	w->turns++;
}

/* the driver carries out what was granted */
static void use_grant(struct play *w, struct rprog *r, unsigned slot, bool context, uint64_t bytes)
{
	struct word *word = &r->prog.slot[slot];

	if (context) {
		r->creating++;
		r->slot = slot;
		if (pick(w, 8)) /* about what was estimated */
			word->driver += 100 * MIB + pick(w, 40) * MIB;
	} else if (pick(w, 20)) {
		word->live += bytes;
	} else {
		word->credit += bytes; /* the driver refused: back it goes */
		if (word->wanted)
			ledger_returned(w->l, r->prog.p, w->now);
	}
}

static void on_answer(struct play *w, struct rprog *r, const struct ledger_grant *g, unsigned slot)
{
	if (r->ticket_turn && g->result == LEDGER_OK) {
		r->has_turn = true;
		r->turn_slot = slot;
		assert_true(g->bytes <= r->turn);
		check_turn(w, r, slot);
		return;
	}
	switch (g->result) {
	case LEDGER_OK:
		check_grant(w, r, slot);
		use_grant(w, r, slot, r->ticket_context, g->bytes);
		break;
	case LEDGER_OVER_LIMIT:
		w->over += !r->ticket_turn;
		w->no_turns += r->ticket_turn;
		break;
	case LEDGER_FULL:
		w->full++;
		break;
	case LEDGER_CIRCLE:
		w->circles++;
		break;
	case LEDGER_NO_LEASE:
	case LEDGER_WAIT:
		fail();
	}
	if (g->result != LEDGER_OK) {
		assert_int_equal(g->bytes, 0);
		assert_true(memchr(g->text, 0, sizeof(g->text)) != NULL);
	}
}

static struct rprog *prog_of(struct play *w, struct ledger_process *p)
{
	for (unsigned i = 0; i < N_PROGRAMS; i++)
		if (w->progs[i].state != R_NONE && w->progs[i].prog.p == p)
			return &w->progs[i];
	return NULL;
}

static void on_event(struct play *w, const struct ledger_event *e)
{
	struct rprog *r = e->process ? prog_of(w, e->process) : NULL;
	struct rjob *job = e->job_owner;

	switch (e->kind) {
	case LEDGER_EVENT_ANSWER:
		assert_non_null(r);
		assert_int_equal(r->ticket, e->grant.ticket);
		assert_ptr_equal(e->cookie, r);
		r->ticket = 0;
		on_answer(w, r, &e->grant, e->slot);
		break;
	case LEDGER_EVENT_SETTLED:
		assert_non_null(r);
		assert_true(r->settling > 0);
		r->settling--;
		w->settled++;
		if (!e->settled.keep) {
			r->prog.slot[e->slot].driver = 0;
			w->undone++;
			ledger_settle(w->l, r->prog.p, e->slot, w->now);
		}
		break;
	case LEDGER_EVENT_GONE:
		assert_non_null(r);
		assert_int_equal(r->state, R_DEAD);
		for (unsigned i = 0; i < slots_of(w, r); i++)
			assert_int_equal(r->prog.slot[i].live + r->prog.slot[i].driver, 0);
		ledger_process_free(w->l, r->prog.p, w->now);
		memset(r, 0, sizeof(*r));
		w->gone++;
		break;
	case LEDGER_EVENT_ADMITTED:
		job->admitted = true;
		job->n_slots = ledger_job_slots(job->j, job->gpus);
		assert_true(job->n_slots > 0);
		w->admissions++;
		break;
	case LEDGER_EVENT_ADMISSION_TIMED_OUT:
		assert_int_equal(ledger_job_free(w->l, job->j, w->now), 0);
		memset(job, 0, sizeof(*job));
		w->waited_out++;
		break;
	}
}

static void drain(struct play *w)
{
	struct ledger_event e;

	while (ledger_poll(w->l, w->now, &e))
		on_event(w, &e);
}

/* ---- operations ---- */

static struct rprog *some_program(struct play *w, enum rstate state)
{
	unsigned at = (unsigned)pick(w, N_PROGRAMS);

	for (unsigned i = 0; i < N_PROGRAMS; i++, at = (at + 1) % N_PROGRAMS)
		if (w->progs[at].state == state)
			return &w->progs[at];
	return NULL;
}

static void op_admit(struct play *w)
{
	unsigned at = (unsigned)pick(w, N_JOBS);
	struct rjob *job = &w->jobs[at];
	struct ledger_job_spec spec = { .id = at + 1, .name = "random" };
	char text[LEDGER_TEXT_MAX];
	int parent = -1;

	if (job->j)
		return;
	if (!pick(w, 4)) {
		parent = (int)pick(w, N_JOBS);
		if (!w->jobs[parent].admitted || w->jobs[parent].ended)
			parent = -1;
	}
	spec.parent = parent >= 0 ? w->jobs[parent].j : NULL;
	spec.request.bytes = pick(w, 3) ? pick(w, 4096) * MIB : 0;
	if (pick(w, 2))
		spec.limit.bytes = spec.request.bytes + (1 + pick(w, 3000)) * MIB;
	spec.job_class = (enum ledger_class)pick(w, LEDGER_CLASS_COUNT);
	spec.may_wait = pick(w, 5);
	spec.when_full_ns = pick(w, 10 * S);
	spec.admit_deadline_ns = pick(w, 4) ? w->now + pick(w, 20 * S) : w->now;
	spec.n_gpus = 1 + (unsigned)pick(w, parent >= 0 ? 1 : 2);
	switch (ledger_admit(w->l, &spec, job, w->now, &job->j, text)) {
	case LEDGER_ADMITTED:
		job->admitted = true;
		job->n_slots = ledger_job_slots(job->j, job->gpus);
		w->admissions++;
		w->nested += parent >= 0;
		job->parent = parent;
		break;
	case LEDGER_WAITS:
		assert_true(text[0] != '\0');
		job->parent = parent;
		break;
	case LEDGER_BUSY:
	case LEDGER_NEVER_FITS:
		assert_true(text[0] != '\0');
		job->j = NULL;
		break;
	case LEDGER_BAD:
		fail_msg("%s", text);
	}
}

static void op_start(struct play *w)
{
	struct rprog *r = some_program(w, R_NONE);
	unsigned at = (unsigned)pick(w, N_JOBS);

	if (!r || !w->jobs[at].admitted || w->jobs[at].ended)
		return;
	memset(r, 0, sizeof(*r));
	assert_int_equal(ledger_process_add(w->l, w->jobs[at].j, 100 + (int)(r - w->progs),
					    &r->prog, w->now, &r->prog.p),
			 0);
	r->state = R_RUNS;
	r->job = (int)at;
}

static void op_need(struct play *w, bool context)
{
	struct rprog *r = some_program(w, R_RUNS);
	struct ledger_grant g;
	enum ledger_result result;
	unsigned slot, flags = pick(w, 10) ? 0 : LEDGER_NO_WAIT;

	if (!r || r->ticket || (context && (r->creating || r->settling)))
		return;
	slot = (unsigned)pick(w, slots_of(w, r));
	r->ticket_context = context;
	r->ticket_turn = false;
	if (context)
		result = ledger_need_context(w->l, r->prog.p, slot, flags, r, w->now, &g);
	else
		result = ledger_need(w->l, r->prog.p, slot,
				     1 + pick(w, pick(w, 4) ? 64 * MIB : 3 * GIB), flags, r, w->now,
				     &g);
	assert_int_equal(result, g.result);
	if (result == LEDGER_WAIT) {
		assert_false(flags & LEDGER_NO_WAIT);
		r->ticket = g.ticket;
		w->waits++;
	} else {
		on_answer(w, r, &g, slot);
	}
}

static void op_turn(struct play *w)
{
	struct rprog *r = some_program(w, R_RUNS);
	unsigned slot, flags = pick(w, 4) ? 0 : LEDGER_NO_WAIT;
	enum ledger_result result;
	struct ledger_grant g;

	if (!r || r->ticket || r->has_turn)
		return;
	slot = (unsigned)pick(w, slots_of(w, r));
	r->ticket_turn = true;
	r->ticket_context = false;
	r->turn = pick(w, 4) ? 32 * MIB : size_min(1 + pick(w, 200 * MIB), LEDGER_OVERDRAFT_BYTES);
	result = ledger_need_overdraft(w->l, r->prog.p, slot, r->turn, flags, r, w->now, &g);
	if (result == LEDGER_WAIT)
		r->ticket = g.ticket;
	else
		on_answer(w, r, &g, slot);
}

static void op_turn_ends(struct play *w)
{
	struct rprog *r = some_program(w, R_RUNS);
	struct word *word;

	if (!r || !r->has_turn)
		return;
	word = &r->prog.slot[r->turn_slot];
	r->has_turn = false;
	if (pick(w, 20)) {
		ledger_overdraft_done(w->l, r->prog.p, r->turn_slot, 0, w->now);
	} else if (pick(w, 2)) {
		word->driver += r->turn;
		ledger_overdraft_done(w->l, r->prog.p, r->turn_slot, r->turn, w->now);
	} else {
		ledger_overdraft_lost(w->l, r->prog.p, r->turn_slot, w->now);
	}
}

/* as the shim does: from the credit word without asking */
static void op_take(struct play *w)
{
	struct rprog *r = some_program(w, R_RUNS);
	struct word *word;
	uint64_t bytes;

	if (!r)
		return;
	word = &r->prog.slot[pick(w, slots_of(w, r))];
	if (!word->credit)
		return;
	bytes = 1 + pick(w, word->credit);
	word->credit -= bytes;
	word->live += bytes;
}

static void op_free(struct play *w)
{
	struct rprog *r = some_program(w, R_RUNS);
	struct word *word;
	uint64_t bytes;

	if (!r)
		return;
	word = &r->prog.slot[pick(w, slots_of(w, r))];
	bytes = pick(w, 3) ? word->live : pick(w, word->live + 1);
	word->live -= bytes;
	word->returned += bytes;
	word->credit += bytes;
	if (word->wanted && bytes)
		ledger_returned(w->l, r->prog.p, w->now);
}

static void op_context_done(struct play *w)
{
	struct rprog *r = some_program(w, R_RUNS);
	struct ledger_settled settled;
	bool ok = pick(w, 10);
	int done;

	if (!r || !r->creating)
		return;
	if (!ok)
		r->prog.slot[r->slot].driver = 0;
	done = ledger_context_done(w->l, r->prog.p, r->slot, ok, r, w->now, &settled);
	assert_true(done == 0 || (ok && done == 1)); /* 0 too where the cost is known */
	r->creating--;
	r->settling += done;
}

static void op_end_program(struct play *w)
{
	struct rprog *r = some_program(w, pick(w, 4) ? R_RUNS : R_LONE);

	if (!r)
		return;
	ledger_process_dead(w->l, r->prog.p, w->now);
	r->state = R_DEAD;
	r->ticket = r->creating = r->settling = r->has_turn = 0;
}

static void op_detach(struct play *w)
{
	struct rprog *r = some_program(w, R_RUNS);

	if (!r)
		return;
	ledger_process_detach(w->l, r->prog.p, w->now);
	r->state = R_LONE;
	r->ticket = r->creating = r->settling = r->has_turn = 0;
}

static void op_attach(struct play *w)
{
	struct rprog *r = some_program(w, R_LONE);

	if (!r)
		return;
	ledger_process_attach(w->l, r->prog.p, w->now);
	r->state = R_RUNS;
}

static void op_cancel(struct play *w)
{
	struct rprog *r = some_program(w, R_RUNS);

	if (!r || !r->ticket)
		return;
	assert_true(ledger_cancel(w->l, r->ticket, w->now));
	assert_false(ledger_cancel(w->l, r->ticket, w->now));
	r->ticket = 0;
	w->cancels++;
}

static void op_set(struct play *w)
{
	struct rjob *job = &w->jobs[pick(w, N_JOBS)];
	struct ledger_job_change c = { .has_limit = pick(w, 2), .has_request = !pick(w, 3) };

	if (!job->admitted || job->ended)
		return;
	c.request.bytes = pick(w, 2048) * MIB;
	c.limit.bytes = pick(w, 5) ? (1 + pick(w, 8192)) * MIB : 0;
	c.has_class = !pick(w, 5);
	c.job_class = (enum ledger_class)pick(w, LEDGER_CLASS_COUNT);
	(void)ledger_job_set(w->l, job->j, &c, w->now, NULL); /* may well be refused */
}

static bool has_children(const struct play *w, unsigned at)
{
	for (unsigned i = 0; i < N_JOBS; i++)
		if (w->jobs[i].j && w->jobs[i].parent == (int)at)
			return true;
	return false;
}

static void op_end_job(struct play *w)
{
	unsigned at = (unsigned)pick(w, N_JOBS);
	struct rjob *job = &w->jobs[at];

	if (!job->j || has_children(w, at))
		return;
	if (!job->ended && job->admitted) {
		if (pick(w, 8))
			return;
		ledger_job_end(w->l, job->j, w->now);
		job->ended = true;
		for (unsigned i = 0; i < N_PROGRAMS; i++) {
			struct rprog *r = &w->progs[i];

			if ((r->state == R_RUNS || r->state == R_LONE) && r->job == (int)at) {
				ledger_process_dead(w->l, r->prog.p, w->now);
				r->state = R_DEAD;
				r->ticket = r->creating = r->settling = r->has_turn = 0;
			}
		}
	}
	if (ledger_job_free(w->l, job->j, w->now) == 0)
		memset(job, 0, sizeof(*job));
}

static void end_sample(struct play *w, unsigned gpu, bool noisy)
{
	struct ledger_reading readings[N_PROGRAMS];
	struct ledger_sample s = { .memory_known = true, .processes_known = true };

	s.total_bytes = w->total[gpu];
	for (unsigned i = 0; i < N_PROGRAMS; i++) {
		struct rprog *r = &w->progs[i];
		uint64_t bytes = 0;

		if (r->state == R_NONE)
			continue;
		for (unsigned k = 0; k < slots_of(w, r); k++) {
			struct word *word = &r->prog.slot[k];

			if (gpu_of(w, r, k) != gpu)
				continue;
			/* the dead leave the card some time later */
			if (r->state == R_DEAD && (!noisy || !pick(w, 2)))
				word->live = word->driver = 0;
			bytes = word->live + word->driver;
		}
		if (!bytes)
			continue;
		readings[s.n_readings++] =
			(struct ledger_reading){ r->prog.p, bytes, !noisy || pick(w, 50) };
		s.used_bytes += bytes;
	}
	if (noisy && !pick(w, 20))
		w->strangers[gpu] = pick(w, 3) ? 0 : pick(w, 2 * GIB);
	s.unmanaged_bytes = w->strangers[gpu];
	s.used_bytes += w->strangers[gpu];
	s.readings = readings;
	ledger_sample(w->l, gpu, &s, w->now);
	w->sampling[gpu] = false;
}

static void op_sample(struct play *w)
{
	unsigned gpu = (unsigned)pick(w, N_GPUS);

	if (!w->sampling[gpu]) {
		ledger_sample_begin(w->l, gpu, w->now);
		w->sampling[gpu] = true;
		if (pick(w, 2))
			return; /* something may happen in between */
	}
	end_sample(w, gpu, true);
}

static void op_time(struct play *w)
{
	uint64_t due = ledger_deadline_ns(w->l, w->now);

	assert_true(due >= w->now || due == 0);
	if (!pick(w, 3) && due != LEDGER_NEVER)
		w->now = size_max(w->now, due);
	else
		w->now += pick(w, pick(w, 20) ? 20 * MS : 3 * S);
}

static void op_look(struct play *w)
{
	struct rjob *job = &w->jobs[pick(w, N_JOBS)];
	struct ledger_view v;

	if (!job->admitted)
		return;
	assert_int_equal(ledger_view(w->l, job->j, 0, &v), 0);
	assert_true(v.free_bytes <= v.total_bytes);
	assert_true(v.total_bytes <= w->total[job->gpus[0]]);
}

static void step(struct play *w)
{
	uint64_t op = pick(w, 1000);

	if (op < 250)
		op_need(w, false);
	else if (op < 400)
		op_take(w);
	else if (op < 600)
		op_free(w);
	else if (op < 640)
		op_need(w, true);
	else if (op < 690)
		op_context_done(w);
	else if (op < 730)
		op_admit(w);
	else if (op < 790)
		op_start(w);
	else if (op < 800)
		op_end_program(w);
	else if (op < 805)
		op_detach(w);
	else if (op < 815)
		op_attach(w);
	else if (op < 820)
		op_cancel(w);
	else if (op < 825)
		op_set(w);
	else if (op < 835)
		op_end_job(w);
	else if (op < 900)
		op_sample(w);
	else if (op < 970)
		op_time(w);
	else if (op < 982)
		op_turn(w);
	else if (op < 990)
		op_turn_ends(w);
	else
		op_look(w);
}

/* ---- nobody who fits is left waiting ---- */

/* by the rules alone, from figures: a job that neither is nested nor contains others */
static bool would_fit(struct play *w, const struct rprog *r, unsigned slot, uint64_t bytes)
{
	const struct rjob *job = &w->jobs[r->job];
	unsigned gpu = job->gpus[slot];
	struct ledger_gpu_figures g;
	struct ledger_job_figures f;
	uint64_t others = 0, after;

	assert_int_equal(ledger_gpu_figures(w->l, gpu, &g), 0);
	for (unsigned i = 0; i < N_JOBS; i++) {
		const struct rjob *k = &w->jobs[i];
		int at = k->admitted ? ledger_job_slot_of(k->j, gpu) : -1;

		if (k == job || at < 0)
			continue;
		if (k->parent >= 0 || has_children(w, i))
			return false; /* not this simple: left to the tables */
		assert_int_equal(ledger_job_figures(w->l, k->j, (unsigned)at, &f), 0);
		others += size_max(f.request_bytes, f.held_bytes);
	}
	assert_int_equal(ledger_job_figures(w->l, job->j, slot, &f), 0);
	after = f.held_bytes + bytes;
	if (after > f.limit_bytes)
		return false;
	if (g.held_bytes + bytes + g.passing_bytes > g.allocatable_bytes)
		return false;
	if (after <= f.request_bytes)
		return true;
	return others + size_max(f.request_bytes, after) <= g.allocatable_bytes;
}

static void check_nobody_forgotten(struct play *w)
{
	for (unsigned i = 0; i < N_PROGRAMS; i++) {
		struct rprog *r = &w->progs[i];
		struct ledger_process_figures f;
		bool alone = true;
		unsigned waits_at = 0;

		if (r->state != R_RUNS || !r->ticket || r->ticket_context || r->ticket_turn)
			continue;
		for (unsigned k = 0; k < slots_of(w, r); k++) {
			assert_int_equal(ledger_process_figures(w->l, r->prog.p, k, w->now, &f), 0);
			if (!f.waiting_bytes)
				continue;
			waits_at = k;
			break;
		}
		/* whoever stands alone in the line, or asks inside its promise */
		for (unsigned k = 0; k < N_PROGRAMS; k++) {
			const struct rprog *o = &w->progs[k];

			if (o != r && o->ticket && o->state == R_RUNS)
				alone = false;
		}
		if (!alone || w->jobs[r->job].parent >= 0 || has_children(w, (unsigned)r->job))
			continue;
		assert_false(would_fit(w, r, waits_at, f.waiting_bytes));
	}
}

static void check_zero(struct play *w)
{
	struct ledger_gpu_figures g;

	for (unsigned gpu = 0; gpu < N_GPUS; gpu++) {
		assert_int_equal(ledger_gpu_figures(w->l, gpu, &g), 0);
		assert_int_equal(g.held_bytes, 0);
		assert_int_equal(g.credit_bytes, 0);
		assert_int_equal(g.requested_bytes, 0);
		assert_int_equal(g.limits_bytes, 0);
		assert_int_equal(g.drift_bytes, 0);
		assert_int_equal(g.unmanaged_bytes, 0);
		assert_int_equal(g.waiting, 0);
		assert_int_equal(g.passing_bytes, 0);
		assert_int_equal(g.jobs, 0);
		assert_int_equal(g.grantable_bytes, g.total_bytes);
	}
}

static void end_everything(struct play *w)
{
	for (unsigned i = 0; i < N_JOBS; i++)
		if (w->jobs[i].j)
			ledger_job_end(w->l, w->jobs[i].j, w->now);
	for (unsigned i = 0; i < N_PROGRAMS; i++)
		if (w->progs[i].state == R_RUNS || w->progs[i].state == R_LONE) {
			ledger_process_dead(w->l, w->progs[i].prog.p, w->now);
			w->progs[i].state = R_DEAD;
		}
	drain(w);
	for (unsigned round = 0; round < 3; round++)
		for (unsigned gpu = 0; gpu < N_GPUS; gpu++) {
			w->now += MS;
			w->strangers[gpu] = 0;
			ledger_sample_begin(w->l, gpu, w->now);
			end_sample(w, gpu, false);
			drain(w);
		}
	for (unsigned round = 0; round < LEDGER_MAX_DEPTH; round++)
		for (unsigned i = 0; i < N_JOBS; i++)
			if (w->jobs[i].j && ledger_job_free(w->l, w->jobs[i].j, w->now) == 0)
				memset(&w->jobs[i], 0, sizeof(w->jobs[i]));
	for (unsigned i = 0; i < N_JOBS; i++)
		assert_null(w->jobs[i].j);
}

static void run(uint64_t seed, unsigned long operations)
{
	struct play *w = calloc(1, sizeof(*w));
	const char *fault = NULL;

	assert_non_null(w);
	w->rand.s = seed;
	w->now = S;
	w->l = ledger_new(&word_ops);
	for (unsigned i = 0; i < N_GPUS; i++) {
		struct ledger_gpu_spec spec = { .index = i, .total_bytes = (6 + 2 * i) * GIB };

		w->total[i] = spec.total_bytes;
		assert_int_equal(ledger_gpu_add(w->l, &spec), i);
	}
	for (unsigned long n = 0; n < operations; n++) {
		step(w);
		drain(w);
		if (n % 16 == 0)
			check_nobody_forgotten(w);
		if (n % 32 == 0)
			fault = ledger_check(w->l);
		if (fault)
			fail_msg("operation %lu: %s", n, fault);
		for (unsigned i = (unsigned)(n % 8); i < N_PROGRAMS; i += 8)
			if (w->progs[i].state != R_NONE)
				check_program(w, &w->progs[i]);
	}
	printf("# seed %llu: %lu grants, %lu waits, %lu over, %lu full, %lu circles, %lu "
	       "cancelled, "
	       "%lu contexts (%lu undone), %lu admitted (%lu nested, %lu gave up), %lu deaths\n",
	       (unsigned long long)seed, w->grants, w->waits, w->over, w->full, w->circles,
	       w->cancels, w->settled, w->undone, w->admissions, w->nested, w->waited_out, w->gone);
	end_everything(w);
	check_zero(w);
	assert_null(ledger_check(w->l));
	/* the test must have been somewhere */
	assert_true(w->grants && w->waits && w->over && w->full && w->admissions && w->settled &&
		    w->gone && w->nested && w->cancels && w->turns && w->no_turns);
	ledger_free(w->l);
	free(w);
}

static void a1_a3_million_operations(void **state)
{
	const char *seed = getenv("LEDGER_SEED");
	const char *many = getenv("LEDGER_OPERATIONS");
	unsigned long operations = many ? strtoul(many, NULL, 10) : OPERATIONS;

	(void)state;
	if (seed) {
		run(strtoull(seed, NULL, 10), operations);
		return;
	}
	for (uint64_t i = 1; i <= 4; i++)
		run(i, operations / 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a1_a3_million_operations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
