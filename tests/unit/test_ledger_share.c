// SPDX-License-Identifier: Apache-2.0
/*
 * Memory that processes share: charged once while it is there, to its owner, then to whoever still
 * has it open, whatever the order of exports, opens, frees, closes, deaths and samples.
 */
#include "policy/share.h"

#include "base/rand.h"
#include <stdlib.h>

#include "ledger_fixture.h"

static struct ledger_share_key key_of(uint64_t n)
{
	return (struct ledger_share_key){ { n, n * 77 } };
}

static int out(struct world *w, struct program *a, uint64_t key, uint64_t bytes, unsigned flags)
{
	struct ledger_share_key k = key_of(key);

	return ledger_share_out(w->l, a->p, 0, &k, bytes, flags);
}

static int in(struct world *w, struct program *a, uint64_t key, uint64_t bytes)
{
	struct ledger_share_key k = key_of(key);
	struct ledger_share_orphan orphan;

	return ledger_share_in(w->l, a->p, &k, bytes, &orphan);
}

static void shut(struct world *w, struct program *a, uint64_t key, bool all)
{
	struct ledger_share_key k = key_of(key);

	ledger_share_close(w->l, a->p, &k, all, w->now);
}

/* the owner frees @bytes as the shim does it */
static uint64_t freed(struct world *w, struct program *a, uint64_t key, uint64_t bytes, bool last)
{
	struct ledger_share_key k = key_of(key);
	uint64_t moved = ledger_share_freed(w->l, a->p, &k, bytes, last, w->now);

	a->slot[0].live -= moved;
	give(w, a, 0, bytes - moved);
	nothing_due(w);
	return moved;
}

static uint64_t used(struct world *w, struct ledger_job *j)
{
	return view_of(w, j).used_bytes;
}

/* ---- rules ---- */

static void the_importer_pays_nothing_until_the_owner_frees(void **state)
{
	struct program a, b, *all[] = { &a, &b };
	struct ledger_job *j, *k;
	struct world w;

	(void)state;
	world_init_1(&w, 100);
	j = job_of(&w, 1, 0, 10 * GIB);
	k = job_of(&w, 2, 0, 10 * GIB);
	start(&w, &a, j, 100);
	start(&w, &b, k, 101);
	assert_int_equal(take(&w, &a, 8 * GIB), LEDGER_OK);
	assert_int_equal(take(&w, &b, 4 * GIB), LEDGER_OK);
	assert_int_equal(out(&w, &a, 1, 8 * GIB, 0), 0);
	assert_int_equal(in(&w, &b, 1, 0), 0);
	assert_int_equal(in(&w, &b, 1, 0), 0);
	sample(&w, all, 2, 0);
	assert_int_equal(used(&w, j), 8 * GIB);
	assert_int_equal(used(&w, k), 4 * GIB);
	/* freed, but not from the card: the heir's job is over its limit, nothing is killed */
	assert_int_equal(freed(&w, &a, 1, 8 * GIB, true), 8 * GIB);
	b.slot[0].driver = 8 * GIB;
	assert_int_equal(used(&w, j), 0);
	assert_int_equal(used(&w, k), 12 * GIB);
	assert_int_equal(view_of(&w, k).free_bytes, 0);
	assert_int_equal(figures(&w, &b).inherited_bytes, 8 * GIB);
	for (unsigned i = 0; i < 40; i++)
		sample(&w, all, 2, 0);
	assert_int_equal(used(&w, k), 12 * GIB);
	assert_int_equal(figures(&w, &b).overhead_bytes, 0);
	assert_int_equal(take(&w, &b, 2 * MIB), LEDGER_OVER_LIMIT);
	assert_int_equal(take(&w, &a, 10 * GIB), LEDGER_OK);
	/* two opens want two closes */
	shut(&w, &b, 1, false);
	assert_int_equal(used(&w, k), 12 * GIB);
	shut(&w, &b, 1, false);
	b.slot[0].driver = 0;
	assert_int_equal(used(&w, k), 4 * GIB);
	shut(&w, &b, 1, false);
	assert_int_equal(take(&w, &b, 6 * GIB), LEDGER_OK);
	world_fini(&w);
}

static void within_a_job_a_freed_block_still_counts(void **state)
{
	struct program a, b;
	struct ledger_job *j;
	struct world w;

	(void)state;
	world_init_1(&w, 100);
	j = job_of(&w, 1, 0, 10 * GIB);
	start(&w, &a, j, 100);
	start(&w, &b, j, 101);
	assert_int_equal(take(&w, &a, 8 * GIB), LEDGER_OK);
	assert_int_equal(out(&w, &a, 1, 8 * GIB, 0), 0);
	assert_int_equal(in(&w, &b, 1, 0), 0);
	assert_int_equal(freed(&w, &a, 1, 8 * GIB, true), 8 * GIB);
	/* no call takes the job over its limit: the 8 GiB are still there */
	assert_int_equal(ledger_need(w.l, a.p, 0, 4 * GIB, LEDGER_NO_WAIT, &a, w.now, &w.g),
			 LEDGER_OVER_LIMIT);
	shut(&w, &b, 1, true);
	w.now += 2 * S;
	assert_int_equal(take(&w, &a, 4 * GIB), LEDGER_OK);
	world_fini(&w);
}

static void nobody_has_it_open(void **state)
{
	struct program a, b;
	struct world w;

	(void)state;
	world_init_1(&w, 100);
	start(&w, &a, job_of(&w, 1, 0, 10 * GIB), 100);
	start(&w, &b, job_of(&w, 2, 0, 10 * GIB), 101);
	assert_int_equal(take(&w, &a, GIB), LEDGER_OK);
	assert_int_equal(in(&w, &b, 1, 0), -ENOENT);
	assert_int_equal(out(&w, &a, 1, GIB, 0), 0);
	assert_int_equal(out(&w, &b, 1, GIB, 0), -EEXIST);
	assert_int_equal(in(&w, &b, 1, 0), 0);
	shut(&w, &b, 1, false);
	assert_int_equal(freed(&w, &a, 1, GIB, true), 0);
	assert_int_equal(in(&w, &b, 1, 0), -ENOENT);
	/* what was never exported, or not by this one, moves nothing */
	assert_int_equal(take(&w, &a, GIB), LEDGER_OK);
	assert_int_equal(out(&w, &a, 2, GIB, 0), 0);
	assert_int_equal(in(&w, &b, 2, 0), 0);
	assert_int_equal(freed(&w, &b, 2, 0, true), 0);
	assert_int_equal(freed(&w, &a, 3, 0, true), 0);
	assert_int_equal(figures(&w, &b).inherited_bytes, 0);
	world_fini(&w);
}

static void the_owner_dies_then_one_importer_after_the_other(void **state)
{
	struct program a, b, c, *all[] = { &a, &b, &c };
	struct ledger_job *j, *k;
	struct world w;

	(void)state;
	world_init_1(&w, 100);
	j = job_of(&w, 1, 0, 10 * GIB);
	k = job_of(&w, 2, 0, 10 * GIB);
	start(&w, &a, j, 100);
	start(&w, &b, j, 101);
	start(&w, &c, k, 102);
	assert_int_equal(take(&w, &a, 3 * GIB), LEDGER_OK);
	assert_int_equal(out(&w, &a, 1, 2 * GIB, 0), 0);
	assert_int_equal(in(&w, &c, 1, 0), 0);
	assert_int_equal(in(&w, &b, 1, 0), 0); /* the last to open it is the first to inherit */
	sample(&w, all, 3, 0);
	ledger_process_dead(w.l, a.p, w.now);
	/* at once, and not twice: 1 GiB until NVML shows that it is gone, 2 at the heir */
	assert_int_equal(used(&w, j), 3 * GIB);
	assert_int_equal(figures(&w, &b).inherited_bytes, 2 * GIB);
	a.slot[0].live = 0;
	b.slot[0].driver = 2 * GIB;
	sample(&w, all, 3, 0);
	assert_ptr_equal(event_of(&w, LEDGER_EVENT_GONE).process, a.p);
	ledger_process_free(w.l, a.p, w.now);
	assert_int_equal(used(&w, j), 2 * GIB);
	ledger_process_dead(w.l, b.p, w.now);
	assert_int_equal(used(&w, k), 2 * GIB);
	b.slot[0].driver = 0;
	c.slot[0].driver = 2 * GIB;
	sample(&w, all + 1, 2, 0);
	assert_ptr_equal(event_of(&w, LEDGER_EVENT_GONE).process, b.p);
	ledger_process_free(w.l, b.p, w.now);
	assert_int_equal(used(&w, j), 0);
	/* the last one: charged until it is seen to be gone */
	ledger_process_dead(w.l, c.p, w.now);
	assert_int_equal(used(&w, k), 2 * GIB);
	c.slot[0].driver = 0;
	sample(&w, all + 2, 1, 0);
	assert_ptr_equal(event_of(&w, LEDGER_EVENT_GONE).process, c.p);
	ledger_process_free(w.l, c.p, w.now);
	assert_int_equal(used(&w, k), 0);
	world_fini(&w);
}

static void what_nvml_does_not_show_is_cut(void **state)
{
	struct program a, b, c, *all[] = { &a, &b, &c };
	struct world w;

	(void)state;
	world_init_1(&w, 100);
	start(&w, &a, job_of(&w, 1, 0, 10 * GIB), 100);
	start(&w, &b, job_of(&w, 2, 0, 10 * GIB), 101);
	start(&w, &c, job_of(&w, 3, 0, 10 * GIB), 102);
	assert_int_equal(take(&w, &a, 2 * GIB), LEDGER_OK);
	assert_int_equal(take(&w, &b, GIB), LEDGER_OK);
	assert_int_equal(out(&w, &a, 1, 2 * GIB, 0), 0);
	assert_int_equal(in(&w, &b, 1, 0), 0);
	assert_int_equal(in(&w, &c, 1, 0), 0);
	assert_int_equal(freed(&w, &a, 1, 2 * GIB, true), 2 * GIB);
	/* the driver gave it to the other one */
	c.slot[0].driver = 2 * GIB;
	for (unsigned i = 0; i < 60; i++)
		sample(&w, all, 3, 0);
	assert_int_equal(figures(&w, &b).held_bytes, GIB);
	assert_int_equal(figures(&w, &b).inherited_bytes, 0);
	assert_int_equal(figures(&w, &c).held_bytes, 2 * GIB);
	shut(&w, &b, 1, true);
	assert_int_equal(figures(&w, &b).held_bytes, GIB);
	world_fini(&w);
}

/* a pool's memory, which NVML shows with nobody any more */
static void a_pool(void **state)
{
	struct program a, b, *all[] = { &a, &b };
	struct ledger_job *k;
	struct world w;

	(void)state;
	world_init_1(&w, 100);
	k = job_of(&w, 2, 0, 10 * GIB);
	start(&w, &a, job_of(&w, 1, 0, 10 * GIB), 100);
	start(&w, &b, k, 101);
	assert_int_equal(take(&w, &a, 4 * GIB), LEDGER_OK);
	assert_int_equal(out(&w, &a, 1, 0, SHARE_UNSHOWN), 0);
	assert_int_equal(in(&w, &b, 1, GIB), 0);
	assert_int_equal(in(&w, &b, 1, GIB), 0);
	b.slot[0].driver = 500 * MIB;
	sample(&w, all, 2, 0);
	assert_int_equal(used(&w, k), 500 * MIB);
	/* it shrinks by 3, of which 2 were opened; and by 1 more, of which none was */
	assert_int_equal(freed(&w, &a, 1, 3 * GIB, false), 2 * GIB);
	assert_int_equal(freed(&w, &a, 1, GIB, false), 0);
	assert_int_equal(used(&w, k), 2 * GIB + 500 * MIB);
	for (unsigned i = 0; i < 60; i++) {
		w.now += 10 * MS;
		ledger_sample_begin(w.l, 0, w.now);
		sample_end(&w, 0, 0, all, 2, 0);
		assert_int_equal(used(&w, k), 2 * GIB + 500 * MIB);
	}
	shut(&w, &b, 1, true);
	assert_int_equal(used(&w, k), 500 * MIB);
	world_fini(&w);
}

/* the owner has freed and not yet said so when NVML looks, and when it dies */
static void nvml_is_sometimes_the_first(void **state)
{
	struct program a, b, *all[] = { &a, &b };
	struct world w;

	(void)state;
	world_init_1(&w, 100);
	start(&w, &a, job_of(&w, 1, 0, 10 * GIB), 100);
	start(&w, &b, job_of(&w, 2, 0, 10 * GIB), 101);
	b.slot[0].driver = 500 * MIB;
	assert_int_equal(take(&w, &a, 3 * GIB), LEDGER_OK);
	assert_int_equal(out(&w, &a, 1, 2 * GIB, 0), 0);
	assert_int_equal(out(&w, &a, 2, GIB, 0), 0);
	sample(&w, all, 2, 0);
	assert_int_equal(in(&w, &b, 1, 0), 0);
	assert_int_equal(in(&w, &b, 2, 0), 0);
	b.slot[0].driver += 2 * GIB;
	sample(&w, all, 2, 0);
	assert_int_equal(freed(&w, &a, 1, 2 * GIB, true), 2 * GIB);
	assert_int_equal(figures(&w, &b).held_bytes, 2 * GIB + 500 * MIB);
	assert_int_equal(figures(&w, &b).overhead_bytes, 500 * MIB);
	b.slot[0].driver += GIB;
	sample(&w, all, 2, 0);
	ledger_process_dead(w.l, a.p, w.now);
	assert_int_equal(figures(&w, &b).held_bytes, 3 * GIB + 500 * MIB);
	assert_int_equal(figures(&w, &b).overhead_bytes, 500 * MIB);
	world_fini(&w);
}

/* nobody owns it, nobody has it open, and then somebody imports it from a descriptor */
static void from_a_descriptor(void **state)
{
	struct ledger_share_key k = key_of(1);
	struct ledger_share_orphan orphan;
	struct program a, b;
	struct world w;

	(void)state;
	world_init_1(&w, 100);
	start(&w, &a, job_of(&w, 1, 0, 10 * GIB), 100);
	start(&w, &b, job_of(&w, 2, 0, 10 * GIB), 101);
	assert_int_equal(take(&w, &a, 2 * GIB), LEDGER_OK);
	assert_int_equal(out(&w, &a, 1, 2 * GIB, SHARE_BY_DESCRIPTOR), 0);
	assert_int_equal(freed(&w, &a, 1, 2 * GIB, true), 0);
	/* who opens it takes it of its lease, and owns it */
	assert_int_equal(ledger_share_in(w.l, b.p, &k, 0, &orphan), 1);
	assert_int_equal(orphan.slot, 0);
	assert_int_equal(orphan.bytes, 2 * GIB);
	assert_int_equal(figures(&w, &b).held_bytes, 0);
	assert_int_equal(take(&w, &b, 2 * GIB), LEDGER_OK);
	assert_int_equal(out(&w, &b, 1, 2 * GIB, SHARE_BY_DESCRIPTOR), 0);
	assert_int_equal(out(&w, &a, 1, 2 * GIB, SHARE_BY_DESCRIPTOR), -EEXIST);
	assert_int_equal(in(&w, &a, 1, 0), 0);
	assert_int_equal(freed(&w, &b, 1, 2 * GIB, true), 2 * GIB);
	assert_int_equal(figures(&w, &a).inherited_bytes, 2 * GIB);
	shut(&w, &a, 1, false);
	assert_int_equal(in(&w, &a, 1, 0), 1);
	/* the oldest are forgotten */
	for (uint64_t i = 2; i < LEDGER_MAX_ORPHANS + 2; i++) {
		assert_int_equal(out(&w, &a, i, MIB, SHARE_BY_DESCRIPTOR), 0);
		assert_int_equal(freed(&w, &a, i, 0, true), 0);
	}
	assert_int_equal(in(&w, &b, 1, 0), -ENOENT);
	assert_int_equal(in(&w, &b, 2, 0), 1);
	world_fini(&w);
}

static void bounds(void **state)
{
	struct program a;
	struct world w;

	(void)state;
	world_init_1(&w, 100);
	start(&w, &a, job_of(&w, 1, 0, 10 * GIB), 100);
	assert_int_equal(take(&w, &a, GIB), LEDGER_OK);
	for (uint64_t i = 0; i < LEDGER_MAX_SHARES; i++)
		assert_int_equal(out(&w, &a, i, MIB, 0), 0);
	assert_int_equal(out(&w, &a, LEDGER_MAX_SHARES, MIB, 0), -ENOSPC);
	assert_int_equal(in(&w, &a, 5, 0), -ENOSPC);
	assert_int_equal(out(&w, &a, 5, 200 * GIB, 0), -EINVAL);
	/* more than it holds moves to nobody */
	assert_int_equal(freed(&w, &a, 6, MIB, true), 0);
	assert_int_equal(in(&w, &a, 7, 0), 0);
	assert_int_equal(out(&w, &a, 7, 50 * GIB, 0), 0);
	assert_true(freed(&w, &a, 7, GIB - MIB, true) <= GIB - MIB);
	assert_true(figures(&w, &a).held_bytes <= GIB);
	world_fini(&w);
}

/* ---- any order ---- */

#define PROGRAMS   8
#define BLOCKS     64
#define OPERATIONS 200000

struct shared_block {
	bool exists, is_out;
	int owner; /* -1: gone */
	uint64_t key, bytes;
	unsigned n_openers, opener[PROGRAMS], opens[PROGRAMS];
};

struct game {
	struct world w;
	struct rand_state rand;
	struct ledger_job *jobs[3];
	struct program progs[PROGRAMS];
	bool alive[PROGRAMS], dying[PROGRAMS];
	struct shared_block blocks[BLOCKS];
	uint64_t last_key;
	uint64_t reading[PROGRAMS]; /* NVML's, taken while a sample is under way */
	bool sampling, has_read;
	unsigned long inherits, passes, moves;
};

static uint64_t pick(struct game *g, uint64_t n)
{
	return rand_below(&g->rand, n);
}

/* what the driver says: own memory, and what was left to it */
static uint64_t really(struct game *g, unsigned i)
{
	uint64_t sum = 0;

	for (unsigned b = 0; b < BLOCKS; b++) {
		const struct shared_block *s = &g->blocks[b];

		if (s->exists && s->owner < 0 && s->n_openers && s->opener[0] == i)
			sum += s->bytes;
	}
	return sum;
}

static void forget_if_gone(struct shared_block *s)
{
	if (s->owner < 0 && !s->n_openers)
		s->exists = false;
}

static void remove_opener(struct game *g, struct shared_block *s, unsigned at)
{
	g->passes += at == 0 && s->owner < 0 && s->n_openers > 1;
	s->n_openers--;
	for (unsigned i = at; i < s->n_openers; i++) {
		s->opener[i] = s->opener[i + 1];
		s->opens[i] = s->opens[i + 1];
	}
	forget_if_gone(s);
}

static int opener_at(const struct shared_block *s, unsigned program)
{
	for (unsigned i = 0; i < s->n_openers; i++)
		if (s->opener[i] == program)
			return (int)i;
	return -1;
}

/* who imported its own memory inherits it */
static void to_front(struct shared_block *s, unsigned program)
{
	int at = opener_at(s, program);
	unsigned opens = at > 0 ? s->opens[at] : 0;

	for (; at > 0; at--) {
		s->opener[at] = s->opener[at - 1];
		s->opens[at] = s->opens[at - 1];
	}
	if (opens) {
		s->opener[0] = program;
		s->opens[0] = opens;
	}
}

static void play_new(struct game *g, struct shared_block *s, unsigned i)
{
	/* no two alike, and none during a look: what is taken and returned there looks like nothing
	 */
	uint64_t bytes = 2 * MIB + pick(g, UINT64_C(1) << 27);

	if (g->sampling || take(&g->w, &g->progs[i], bytes) != LEDGER_OK)
		return;
	*s = (struct shared_block){
		.exists = true, .owner = (int)i, .key = ++g->last_key, .bytes = bytes
	};
}

static void play_open(struct game *g, struct shared_block *s, unsigned i)
{
	int at = opener_at(s, i);

	if (!s->is_out || s->owner < 0) /* nobody opens what its owner has freed */
		return;
	assert_int_equal(in(&g->w, &g->progs[i], s->key, 0), 0);
	if (at < 0) { /* the latest first */
		for (at = (int)s->n_openers++; at > 0; at--) {
			s->opener[at] = s->opener[at - 1];
			s->opens[at] = s->opens[at - 1];
		}
		s->opener[0] = i;
		s->opens[0] = 0;
	}
	s->opens[at]++;
}

static void play_close(struct game *g, struct shared_block *s, unsigned i)
{
	int at = opener_at(s, i);

	if (at < 0)
		return;
	shut(&g->w, &g->progs[i], s->key, false);
	if (--s->opens[at] == 0)
		remove_opener(g, s, (unsigned)at);
}

static void play_free(struct game *g, struct shared_block *s)
{
	uint64_t moved = s->is_out ? freed(&g->w, &g->progs[s->owner], s->key, s->bytes, true)
				   : (give(&g->w, &g->progs[s->owner], 0, s->bytes), 0);

	assert_int_equal(moved, s->n_openers ? s->bytes : 0);
	g->inherits += moved != 0;
	to_front(s, (unsigned)s->owner);
	s->owner = -1;
	forget_if_gone(s);
}

static void play_kill(struct game *g, unsigned i)
{
	for (unsigned b = 0; b < BLOCKS; b++) {
		struct shared_block *s = &g->blocks[b];
		int at = s->exists ? opener_at(s, i) : -1;

		if (at >= 0)
			remove_opener(g, s, (unsigned)at);
		if (s->exists && s->owner == (int)i) {
			if (!s->is_out)
				s->n_openers = 0;
			s->owner = -1;
			g->inherits += s->n_openers > 0;
			forget_if_gone(s);
		}
	}
	ledger_process_dead(g->w.l, g->progs[i].p, g->w.now);
	g->alive[i] = false;
	g->dying[i] = true;
	g->progs[i].slot[0] = (struct word){ .granted = g->progs[i].slot[0].granted };
}

static void read_nvml(struct game *g)
{
	for (unsigned i = 0; i < PROGRAMS; i++)
		g->reading[i] = g->alive[i] ? g->progs[i].slot[0].live + really(g, i) : 0;
	g->has_read = true;
}

static void end_sample(struct game *g)
{
	struct ledger_reading readings[PROGRAMS];
	struct ledger_sample s = { .memory_known = true,
				   .processes_known = true,
				   .readings = readings,
				   .total_bytes = 100 * GIB };

	if (!g->has_read)
		read_nvml(g);
	for (unsigned i = 0; i < PROGRAMS; i++) {
		s.used_bytes += g->reading[i];
		if ((g->alive[i] || g->dying[i]) && g->reading[i])
			readings[s.n_readings++] =
				(struct ledger_reading){ g->progs[i].p, g->reading[i], true };
	}
	ledger_sample(g->w.l, 0, &s, g->w.now);
	g->sampling = g->has_read = false;
}

static void play_sample(struct game *g)
{
	if (!g->sampling) {
		ledger_sample_begin(g->w.l, 0, g->w.now);
		g->sampling = true;
	} else if (!g->has_read && pick(g, 2)) {
		read_nvml(g);
	} else {
		end_sample(g);
	}
}

static void play_start(struct game *g, unsigned i)
{
	if (g->alive[i] || g->dying[i])
		return;
	start(&g->w, &g->progs[i], g->jobs[pick(g, 3)], (int)(1000 + i));
	g->alive[i] = true;
	g->reading[i] = 0; /* one that is under way has not seen it */
}

static void play_one(struct game *g)
{
	struct shared_block *s = &g->blocks[pick(g, BLOCKS)];
	unsigned i = (unsigned)pick(g, PROGRAMS), what = (unsigned)pick(g, 100);

	if (!g->alive[i]) {
		play_start(g, i);
		return;
	}
	if (what < 25)
		play_sample(g);
	else if (what < 26)
		play_kill(g, i);
	else if (!s->exists)
		play_new(g, s, i);
	else if (what < 55 && s->owner >= 0 && !s->is_out)
		s->is_out = out(&g->w, &g->progs[s->owner], s->key, s->bytes, 0) == 0;
	else if (what < 70)
		play_open(g, s, i);
	else if (what < 88)
		play_close(g, s, i);
	else if (s->owner >= 0)
		play_free(g, s);
}

static void drain(struct game *g)
{
	struct ledger_event e;

	while (ledger_poll(g->w.l, g->w.now, &e)) {
		struct program *prog = e.process_owner;

		assert_int_equal(e.kind, LEDGER_EVENT_GONE);
		ledger_process_free(g->w.l, e.process, g->w.now);
		g->dying[prog - g->progs] = false;
	}
}

static void check_all(struct game *g)
{
	const char *fault = ledger_check(g->w.l);
	struct ledger_gpu_figures f;
	uint64_t sum = 0;

	if (fault)
		fail_msg("%s", fault);
	for (unsigned i = 0; i < PROGRAMS; i++) {
		struct ledger_process_figures p;

		if (g->dying[i]) {
			assert_int_equal(
				ledger_process_figures(g->w.l, g->progs[i].p, 0, g->w.now, &p), 0);
			sum += p.held_bytes;
		}
		if (!g->alive[i])
			continue;
		p = figures(&g->w, &g->progs[i]);
		assert_int_equal(p.inherited_bytes, really(g, i));
		assert_int_equal(p.overhead_bytes, 0);
		assert_int_equal(p.held_bytes, g->progs[i].slot[0].live + really(g, i));
		sum += p.held_bytes;
	}
	f = gpu_figures(&g->w, 0);
	assert_int_equal(f.held_bytes, sum);
	assert_int_equal(f.unmanaged_bytes, 0);
}

static void any_order(void **state)
{
	struct game *g = calloc(1, sizeof(*g));

	(void)state;
	assert_non_null(g);
	g->rand.s = 20261201;
	world_init_1(&g->w, 100);
	for (unsigned i = 0; i < 3; i++)
		g->jobs[i] = job_of(&g->w, i + 1, 0, 0);
	for (unsigned n = 0; n < OPERATIONS; n++) {
		g->w.now += pick(g, 20) * MS;
		play_one(g);
		drain(g);
		check_all(g);
	}
	assert_true(g->inherits > 1000 && g->passes > 100);
	/* all of it goes away */
	for (unsigned i = 0; i < PROGRAMS; i++)
		if (g->alive[i])
			play_kill(g, i);
	for (unsigned i = 0; i < 3; i++) {
		g->w.now += 20 * MS;
		ledger_sample_begin(g->w.l, 0, g->w.now);
		g->has_read = false;
		g->w.now += MS;
		end_sample(g);
		drain(g);
	}
	assert_int_equal(gpu_figures(&g->w, 0).held_bytes, 0);
	world_fini(&g->w);
	free(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_importer_pays_nothing_until_the_owner_frees),
		cmocka_unit_test(within_a_job_a_freed_block_still_counts),
		cmocka_unit_test(nobody_has_it_open),
		cmocka_unit_test(the_owner_dies_then_one_importer_after_the_other),
		cmocka_unit_test(what_nvml_does_not_show_is_cut),
		cmocka_unit_test(a_pool),
		cmocka_unit_test(nvml_is_sometimes_the_first),
		cmocka_unit_test(from_a_descriptor),
		cmocka_unit_test(bounds),
		cmocka_unit_test(any_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
