// SPDX-License-Identifier: Apache-2.0
/*
 * A crowd that waits for memory, in any order of events: asks, returns, deaths, cancels, time-outs,
 * classes that change, a card that is lost and comes back.  All ask for the same, so the order is
 * plain: whoever gets something stands before everybody who goes on waiting, by class, then by age.
 * Nobody waits while there is room, nobody is told FULL before his time, a circle costs the
 * youngest of those who hold something, and when all is given back nobody is left.
 */
#include "base/rand.h"
#include "ledger_fixture.h"

#define CROWD   320
#define JOBS    12
#define WAITERS 200 /* that shall stand in line most of the time */
#define SIZE    GIB
#define CARD    24 /* GIB */
#define STEPS   40000

struct one {
	struct program prog;
	enum { NOBODY, IDLE, WAITS, DEAD } state;
	unsigned job;
	uint64_t ticket, deadline_ns;
};

struct crowd {
	struct world w;
	struct rand_state rand;
	struct ledger_job *jobs[JOBS];
	enum ledger_class classes[JOBS];
	struct one all[CROWD];
	unsigned waiting, most_waiting, grants, timed_out, circles, cancelled;
	bool is_lost;
};

static uint64_t pick(struct crowd *c, uint64_t n)
{
	return rand_below(&c->rand, n);
}

static bool before(const struct crowd *c, const struct one *a, const struct one *b)
{
	enum ledger_class ca = c->classes[a->job], cb = c->classes[b->job];

	return ca != cb ? ca < cb : a->ticket < b->ticket;
}

static bool job_holds(const struct crowd *c, unsigned job)
{
	for (unsigned i = 0; i < CROWD; i++)
		if (c->all[i].state != NOBODY && c->all[i].job == job &&
		    c->all[i].prog.slot[0].live)
			return true;
	return false;
}

static void leaves_line(struct crowd *c, struct one *o, int state)
{
	assert_int_equal(o->state, WAITS);
	o->state = state;
	o->ticket = 0;
	c->waiting--;
}

static void on_answer(struct crowd *c, struct one *o, const struct ledger_grant *g)
{
	assert_int_equal(o->state, WAITS);
	assert_int_equal(o->ticket, g->ticket);
	for (unsigned i = 0; i < CROWD; i++) {
		const struct one *other = &c->all[i];

		if (other == o || other->state != WAITS)
			continue;
		if (g->result == LEDGER_OK)
			assert_true(before(c, o, other));
		/* whoever holds nothing frees nothing by being refused */
		if (g->result == LEDGER_CIRCLE && job_holds(c, other->job))
			assert_true(o->ticket > other->ticket);
	}
	if (g->result == LEDGER_OK) {
		assert_int_equal(g->bytes, SIZE);
		o->prog.slot[0].live += SIZE;
		c->grants++;
	} else if (g->result == LEDGER_CIRCLE) {
		c->circles++;
	} else if (g->result == LEDGER_OVER_LIMIT) {
		assert_true(gpu_figures(&c->w, 0).held_bytes + SIZE > CARD * GIB);
	} else {
		assert_int_equal(g->result, LEDGER_FULL);
		assert_true(c->w.now >= o->deadline_ns);
		c->timed_out++;
	}
	leaves_line(c, o, IDLE);
}

static void drain(struct crowd *c)
{
	struct ledger_event e;

	while (ledger_poll(c->w.l, c->w.now, &e)) {
		struct one *o = e.process_owner;

		if (e.kind == LEDGER_EVENT_GONE) {
			assert_int_equal(o->state, DEAD);
			ledger_process_free(c->w.l, o->prog.p, c->w.now);
			memset(o, 0, sizeof(*o));
			continue;
		}
		assert_int_equal(e.kind, LEDGER_EVENT_ANSWER);
		on_answer(c, o, &e.grant);
	}
}

/* nobody stands in line for what is there */
static void check_no_idle_room(struct crowd *c)
{
	struct ledger_gpu_figures f = gpu_figures(&c->w, 0);

	assert_int_equal(f.waiting, c->waiting);
	if (c->waiting && !c->is_lost)
		assert_true(f.burst_bytes < SIZE);
}

static struct one *some(struct crowd *c, int state)
{
	unsigned at = (unsigned)pick(c, CROWD);

	for (unsigned i = 0; i < CROWD; i++, at = (at + 1) % CROWD)
		if ((int)c->all[at].state == state)
			return &c->all[at];
	return NULL;
}

static void op_come(struct crowd *c)
{
	struct one *o = some(c, NOBODY);

	if (!o)
		return;
	o->job = (unsigned)pick(c, JOBS);
	start(&c->w, &o->prog, c->jobs[o->job], 100 + (int)(o - c->all));
	o->state = IDLE;
}

static void op_ask(struct crowd *c)
{
	struct one *o = some(c, IDLE);
	struct ledger_grant g;
	enum ledger_result r;

	if (!o || c->waiting >= WAITERS)
		return;
	if (o->prog.slot[0].credit >= SIZE) {
		o->prog.slot[0].credit -= SIZE;
		o->prog.slot[0].live += SIZE;
		return;
	}
	r = ledger_need(c->w.l, o->prog.p, 0, SIZE, 0, &o->prog, c->w.now, &g);
	if (r == LEDGER_OK) {
		/* over the heads of others only if there are none */
		assert_int_equal(c->waiting, 0);
		o->prog.slot[0].live += SIZE;
		c->grants++;
		return;
	}
	if (r == LEDGER_OVER_LIMIT) { /* his job has the whole card */
		assert_true(gpu_figures(&c->w, 0).held_bytes + SIZE > CARD * GIB);
		return;
	}
	assert_int_equal(r, LEDGER_WAIT);
	o->state = WAITS;
	o->ticket = g.ticket;
	o->deadline_ns = c->w.now + 60 * S;
	c->waiting++;
	c->most_waiting = c->waiting > c->most_waiting ? c->waiting : c->most_waiting;
}

static void op_return(struct crowd *c)
{
	unsigned at = (unsigned)pick(c, CROWD);

	for (unsigned i = 0; i < CROWD; i++, at = (at + 1) % CROWD) {
		struct one *o = &c->all[at];

		if ((o->state != IDLE && o->state != WAITS) || !o->prog.slot[0].live)
			continue;
		give(&c->w, &o->prog, 0, SIZE);
		return;
	}
}

static void op_die(struct crowd *c)
{
	struct one *o = some(c, pick(c, 2) ? WAITS : IDLE);

	if (!o)
		return;
	if (o->state == WAITS)
		leaves_line(c, o, DEAD);
	o->state = DEAD;
	o->prog.slot[0].live = o->prog.slot[0].credit = 0;
	ledger_process_dead(c->w.l, o->prog.p, c->w.now);
}

static void op_cancel(struct crowd *c)
{
	struct one *o = some(c, WAITS);

	if (!o)
		return;
	assert_true(ledger_cancel(c->w.l, o->ticket, c->w.now));
	leaves_line(c, o, IDLE);
	c->cancelled++;
}

static void op_class(struct crowd *c)
{
	unsigned job = (unsigned)pick(c, JOBS);
	struct ledger_job_change change = {
		.has_class = true, .job_class = (enum ledger_class)pick(c, LEDGER_CLASS_COUNT)
	};

	c->classes[job] = change.job_class;
	assert_int_equal(ledger_job_set(c->w.l, c->jobs[job], &change, c->w.now, NULL), 0);
}

static void op_lost(struct crowd *c)
{
	c->is_lost = !c->is_lost;
	ledger_gpu_lost(c->w.l, 0, c->is_lost, c->w.now);
}

static void op_sample(struct crowd *c)
{
	struct ledger_reading readings[CROWD];
	struct ledger_sample s = { .memory_known = true,
				   .processes_known = true,
				   .readings = readings,
				   .total_bytes = CARD * GIB };

	ledger_sample_begin(c->w.l, 0, c->w.now);
	c->w.now += MS;
	for (unsigned i = 0; i < CROWD; i++) {
		struct one *o = &c->all[i];

		if (o->state == NOBODY || !o->prog.slot[0].live)
			continue;
		readings[s.n_readings++] =
			(struct ledger_reading){ o->prog.p, o->prog.slot[0].live, true };
		s.used_bytes += o->prog.slot[0].live;
	}
	ledger_sample(c->w.l, 0, &s, c->w.now);
}

static void step(struct crowd *c)
{
	unsigned dice = (unsigned)pick(c, 1000);

	if (dice < 120)
		op_come(c);
	else if (dice < 500)
		op_ask(c);
	else if (dice < 800)
		op_return(c);
	else if (dice < 820)
		op_die(c);
	else if (dice < 850)
		op_cancel(c);
	else if (dice < 860)
		op_class(c);
	else if (dice < 863 || (c->is_lost && dice < 900))
		op_lost(c);
	else if (dice < 930)
		op_sample(c);
	else if (dice < 998)
		c->w.now += pick(c, 30 * MS);
	else
		c->w.now += pick(c, 20 * S);
	drain(c);
}

/* everybody gives back what he gets: the line comes to its end */
static void run_dry(struct crowd *c)
{
	if (c->is_lost)
		op_lost(c);
	for (unsigned i = 0; i < 20 * CROWD && c->waiting; i++) {
		op_return(c);
		op_sample(c);
		drain(c);
	}
	assert_int_equal(c->waiting, 0);
}

static void a_crowd(void **state)
{
	uint64_t seed = (uint64_t)(uintptr_t)*state;
	static struct crowd c;

	memset(&c, 0, sizeof(c));
	c.rand.s = seed;
	world_init_1(&c.w, CARD);
	for (unsigned i = 0; i < JOBS; i++) {
		struct ledger_job_spec spec = spec_of(i + 1, 0, 0);

		spec.job_class = c.classes[i] = (enum ledger_class)(i % LEDGER_CLASS_COUNT);
		assert_int_equal(ledger_admit(c.w.l, &spec, NULL, c.w.now, &c.jobs[i], c.w.text),
				 LEDGER_ADMITTED);
	}
	for (unsigned i = 0; i < STEPS; i++) {
		step(&c);
		if (i % 16 == 0)
			check_no_idle_room(&c);
		if (i % 4096 == 0)
			assert_null(ledger_check(c.w.l));
	}
	assert_true(c.most_waiting > WAITERS * 3 / 4);
	assert_true(c.grants > 1000 && c.timed_out > 10 && c.cancelled > 100);
	run_dry(&c);
	world_fini(&c.w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_prestate(a_crowd, (void *)1),
		cmocka_unit_test_prestate(a_crowd, (void *)2),
		cmocka_unit_test_prestate(a_crowd, (void *)3),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
