// SPDX-License-Identifier: Apache-2.0
#ifndef UNIT_LEDGER_FIXTURE_H
#define UNIT_LEDGER_FIXTURE_H

/*
 * A small world around a ledger: credit words in an array, a clock that the test moves, programs
 * that take and return as the shim does, and an NVML that tells what they really hold.
 */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "policy/ledger.h"

#define MS NS_PER_MS
#define S  NS_PER_S

struct word {
	uint64_t credit;
	uint64_t granted; /* the copy in the page */
	uint64_t returned;
	uint64_t managed; /* what the program says of it */
	uint64_t elastic;
	uint64_t live;   /* what the program really holds of its own */
	uint64_t driver; /* what the driver holds for it */
	bool wanted;
};

struct program {
	struct ledger_process *p;
	struct word slot[LEDGER_MAX_SLOTS];
	uint64_t moving; /* of a call under way */
};

static uint64_t word_peek(void *owner, unsigned slot)
{
	return ((struct program *)owner)->slot[slot].credit;
}

static uint64_t word_call_back(void *owner, unsigned slot)
{
	struct word *w = &((struct program *)owner)->slot[slot];
	uint64_t credit = w->credit;

	w->credit = 0;
	return credit;
}

static void word_add(void *owner, unsigned slot, uint64_t bytes)
{
	((struct program *)owner)->slot[slot].credit += bytes;
}

static void word_set_wanted(void *owner, unsigned slot, bool wanted)
{
	((struct program *)owner)->slot[slot].wanted = wanted;
}

static void word_set_granted(void *owner, unsigned slot, uint64_t bytes)
{
	((struct program *)owner)->slot[slot].granted = bytes;
}

static uint64_t word_managed(void *owner, unsigned slot)
{
	return ((struct program *)owner)->slot[slot].managed;
}

static uint64_t word_elastic(void *owner, unsigned slot)
{
	return ((struct program *)owner)->slot[slot].elastic;
}

static uint64_t word_returned(void *owner, unsigned slot)
{
	return ((struct program *)owner)->slot[slot].returned;
}

static uint64_t word_moving(void *owner, unsigned slot)
{
	(void)slot;
	return ((struct program *)owner)->moving;
}

static const struct credit_ops word_ops = {
	.peek = word_peek,
	.call_back = word_call_back,
	.add = word_add,
	.set_wanted = word_set_wanted,
	.set_granted = word_set_granted,
	.managed = word_managed,
	.elastic = word_elastic,
	.returned = word_returned,
	.moving = word_moving,
};

/* ---- one world a test ---- */

struct world {
	struct ledger *l;
	uint64_t now;
	struct ledger_grant g; /* of the last ask */
	char text[LEDGER_TEXT_MAX];
};

static inline void world_init(struct world *w, unsigned n_gpus, const uint64_t *total_gib)
{
	memset(w, 0, sizeof(*w));
	w->now = 100 * S;
	w->l = ledger_new(&word_ops);
	assert_non_null(w->l);
	for (unsigned i = 0; i < n_gpus; i++) {
		struct ledger_gpu_spec spec = { .index = i, .total_bytes = total_gib[i] * GIB };

		assert_int_equal(ledger_gpu_add(w->l, &spec), i);
	}
}

static inline void world_init_1(struct world *w, uint64_t total_gib)
{
	world_init(w, 1, &total_gib);
}

static inline void world_fini(struct world *w)
{
	struct ledger_event e;

	while (ledger_poll(w->l, w->now, &e))
		;
	assert_null(ledger_check(w->l));
	ledger_free(w->l);
}

static inline struct ledger_job_spec spec_of(uint64_t id, uint64_t request, uint64_t limit)
{
	return (struct ledger_job_spec){
		.id = id,
		.name = "test",
		.request.bytes = request,
		.limit.bytes = limit,
		.job_class = LEDGER_CLASS_NORMAL,
		.may_wait = true,
		.when_full_ns = 60 * S,
		.admit_deadline_ns = LEDGER_NEVER,
		.n_gpus = 1,
	};
}

/* a job that must be admitted at once; limit 0: none */
static inline struct ledger_job *job_of(struct world *w, uint64_t id, uint64_t request,
					uint64_t limit)
{
	struct ledger_job_spec spec = spec_of(id, request, limit);
	struct ledger_job *j = NULL;

	assert_int_equal(ledger_admit(w->l, &spec, NULL, w->now, &j, w->text), LEDGER_ADMITTED);
	return j;
}

static inline void start(struct world *w, struct program *prog, struct ledger_job *j, int pid)
{
	memset(prog, 0, sizeof(*prog));
	assert_int_equal(ledger_process_add(w->l, j, pid, prog, w->now, &prog->p), 0);
}

/* as the shim: from the credit word, else by asking; what is granted becomes live */
static inline enum ledger_result take_on(struct world *w, struct program *prog, unsigned slot,
					 uint64_t bytes, unsigned flags)
{
	struct word *word = &prog->slot[slot];
	enum ledger_result r;

	if (word->credit >= bytes) {
		word->credit -= bytes;
		word->live += bytes;
		return LEDGER_OK;
	}
	r = ledger_need(w->l, prog->p, slot, bytes, flags, prog, w->now, &w->g);
	assert_int_equal(r, w->g.result);
	if (r == LEDGER_OK)
		word->live += bytes;
	return r;
}

static inline enum ledger_result take(struct world *w, struct program *prog, uint64_t bytes)
{
	return take_on(w, prog, 0, bytes, 0);
}

static inline void give(struct world *w, struct program *prog, unsigned slot, uint64_t bytes)
{
	struct word *word = &prog->slot[slot];

	assert_true(word->live >= bytes);
	word->live -= bytes;
	word->returned += bytes;
	word->credit += bytes;
	if (word->wanted)
		ledger_returned(w->l, prog->p, w->now);
}

/* the next event, which must be of @kind */
static inline struct ledger_event event_of(struct world *w, enum ledger_event_kind kind)
{
	struct ledger_event e;

	assert_true(ledger_poll(w->l, w->now, &e));
	assert_int_equal(e.kind, kind);
	return e;
}

static inline void answer_of(struct world *w, struct program *prog, enum ledger_result result)
{
	struct ledger_event e = event_of(w, LEDGER_EVENT_ANSWER);

	assert_ptr_equal(e.process, prog->p);
	assert_ptr_equal(e.cookie, prog);
	assert_int_equal(e.grant.result, result);
	w->g = e.grant;
	if (result == LEDGER_OK)
		prog->slot[e.slot].live += e.grant.bytes;
}

static inline void nothing_due(struct world *w)
{
	struct ledger_event e;

	assert_false(ledger_poll(w->l, w->now, &e));
}

/* NVML looks at GPU @gpu, where all @progs have slot @slot; strangers hold @unmanaged */
static inline void sample_end(struct world *w, unsigned gpu, unsigned slot,
			      struct program *const *progs, size_t n, uint64_t unmanaged)
{
	struct ledger_reading readings[16];
	struct ledger_gpu_figures f;
	struct ledger_sample s = { .memory_known = true,
				   .processes_known = true,
				   .readings = readings,
				   .unmanaged_bytes = unmanaged,
				   .used_bytes = unmanaged };

	assert_int_equal(ledger_gpu_figures(w->l, gpu, &f), 0);
	s.total_bytes = f.total_bytes;
	for (size_t i = 0; i < n; i++) {
		const struct word *word = &progs[i]->slot[slot];
		uint64_t bytes = word->live + word->driver;

		if (!bytes)
			continue;
		s.used_bytes += bytes;
		bytes -= size_min(word->managed, word->live); /* NVML shows it with the card only */
		readings[s.n_readings++] = (struct ledger_reading){ progs[i]->p, bytes, true };
	}
	ledger_sample(w->l, gpu, &s, w->now);
}

static inline void sample(struct world *w, struct program *const *progs, size_t n,
			  uint64_t unmanaged)
{
	w->now += 10 * MS;
	ledger_sample_begin(w->l, 0, w->now);
	w->now += MS;
	sample_end(w, 0, 0, progs, n, unmanaged);
}

static inline struct ledger_process_figures figures(struct world *w, struct program *prog)
{
	struct ledger_process_figures f;

	assert_int_equal(ledger_process_figures(w->l, prog->p, 0, w->now, &f), 0);
	return f;
}

static inline struct ledger_gpu_figures gpu_figures(struct world *w, unsigned gpu)
{
	struct ledger_gpu_figures f;

	assert_int_equal(ledger_gpu_figures(w->l, gpu, &f), 0);
	return f;
}

static inline struct ledger_view view_of(struct world *w, struct ledger_job *j)
{
	struct ledger_view v;

	assert_int_equal(ledger_view(w->l, j, 0, &v), 0);
	return v;
}

#endif
