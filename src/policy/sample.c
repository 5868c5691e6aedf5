// SPDX-License-Identifier: Apache-2.0
#include "policy/books.h"

/*
 * NVML's figures.  A figure is compared with what was held; it is believed when that was the same
 * before and after the sampler looked.  When it was not, one thing is still certain: whatever NVML
 * shows beyond the most that was granted in between is not the program's own.
 *
 * What was inherited (policy/share.h) is held like what was granted.
 *
 * Managed memory is held like any other, but NVML shows it with the card only, never with a
 * process.  So the figure of a process is NVML's and what it holds in managed memory.  The same
 * goes for what it inherited of a pool.
 *
 * Of what is elastic nobody can say whether the driver has taken it.  So NVML − held may be too low
 * by that much, and an overhead that lies between is right.
 *
 * What is held is charged before the driver takes it and until the driver has freed it.  So a
 * figure may lack what is on its way, and NVML − held is never too much: the overhead grows by it
 * at once, but shrinks only when nothing is held, when no call is under way and nothing has moved
 * for LEDGER_STEADY_NS, or, under calls, to what it may be at most (look_for_less).
 */

#define DYING_NS      (10 * NS_PER_MS) /* between samples while a dead process is not gone */
#define DYING_SLOW_NS (100 * NS_PER_MS)
#define LESS_SAMPLES  4 /* that all show less, before an overhead shrinks under calls */

static uint64_t held_now(const struct ledger *l, const struct account *a)
{
	return a->granted - account_credit(l, a) + a->inherited;
}

/* the tenant's word, so never more than it holds; the memory of the dead is gone at once */
static uint64_t managed_now(const struct ledger *l, const struct account *a)
{
	if (a->process->state == LEDGER_DYING)
		return 0;
	return size_min(
		size_sat_add(l->ops.managed(a->process->owner, a->slot), a->inherited_unshown),
		held_now(l, a));
}

static uint64_t elastic_now(const struct ledger *l, const struct account *a)
{
	return size_min(l->ops.elastic(a->process->owner, a->slot), held_now(l, a));
}

/* what the driver took by itself, as far as the figure says: nearest to what was believed */
static uint64_t measured_now(const struct ledger *l, const struct account *a)
{
	uint64_t held = held_now(l, a), believed = a->overhead + a->pending, low, high;
	low = size_sat_sub(a->figure, held);
	high = size_sat_sub(a->figure, held - elastic_now(l, a));
	return size_min(size_max(believed, low), high);
}

/* of calls under way */
static uint64_t moving_now(const struct ledger *l, const struct account *a)
{
	return l->ops.moving(a->process->owner, a->slot);
}

static uint64_t returned_now(const struct ledger *l, const struct account *a)
{
	return l->ops.returned(a->process->owner, a->slot);
}

void ledger_sample_begin(struct ledger *l, unsigned gpu, uint64_t now_ns)
{
	struct account *a;
	struct gpu *g;

	if (gpu >= l->n_gpus)
		return;
	g = &l->gpus[gpu];
	g->sampling = true;
	g->begun_ns = now_ns;
	list_for_each (a, &g->accounts, on_gpu) {
		a->snapped = true;
		a->snap_moving = moving_now(l, a);
		a->snap_returned = returned_now(l, a);
		a->snap_held = held_now(l, a);
		a->snap_managed = managed_now(l, a);
		a->snap_grants = a->grants;
		a->granted_peak = a->granted + a->inherited;
		a->turn_peak = a->turn;
	}
}

static void read_figures(const struct ledger *l, struct gpu *g, const struct ledger_sample *s)
{
	struct account *a;

	list_for_each (a, &g->accounts, on_gpu) {
		a->figure = 0;
		a->figured = s->processes_known;
	}
	for (size_t i = 0; s->processes_known && i < s->n_readings; i++) {
		const struct ledger_reading *r = &s->readings[i];
		struct ledger_process *p = r->process;

		for (unsigned k = 0; k < p->n_slots; k++) {
			a = &p->accounts[k];
			if (a->lease->gpu != g)
				continue;
			a->figured = r->known;
			a->figure = size_max(a->figure, size_min(r->bytes, g->total_bytes));
		}
	}
	list_for_each (a, &g->accounts, on_gpu)
		if (a->figure)
			a->figure = size_sat_add(a->figure, managed_now(l, a));
}

static void set_overhead(struct account *a, uint64_t bytes, uint64_t now_ns)
{
	if (bytes > a->overhead)
		a->less_since_ns = 0; /* it was less before */
	if (bytes > a->overhead && !list_is_empty(&a->imports))
		a->overhead_since_import += bytes - a->overhead;
	a->overhead_since_import = size_min(a->overhead_since_import, bytes);
	a->overhead = bytes;
	account_update(a, now_ns);
}

/* a context was made since: this is what it cost */
static void measure_contexts(struct ledger *l, struct account *a, uint64_t measured,
			     uint64_t begun_ns, uint64_t now_ns)
{
	uint64_t cost = size_sat_sub(measured, a->overhead) / a->settling;

	/* only a first and single one tells what a context costs on this GPU */
	if (!a->overhead && a->settling == 1 && cost)
		a->lease->gpu->context_bytes = cost;
	a->pending = 0;
	set_overhead(a, measured, now_ns);
	settle_answer(l, a, begun_ns, cost, now_ns);
}

static bool settles_now(const struct ledger *l, const struct account *a, uint64_t begun_ns)
{
	const struct ticket *t;

	if (!a->settling || a->creating || !a->figure)
		return false;
	list_for_each (t, &l->settling, node)
		if (t->account == a && t->since_ns > begun_ns)
			return false;
	return true;
}

/* an attached process whose held bytes did not move under the sample */
static void believe(struct ledger *l, struct account *a, uint64_t begun_ns, uint64_t now_ns)
{
	uint64_t held = held_now(l, a);
	uint64_t measured = measured_now(l, a);
	bool same = a->measured_valid && a->measured == measured && a->measured_held == held;
	bool moves = a->snap_moving || moving_now(l, a);
	bool steady;

	if (!same)
		a->measured_since_ns = begun_ns;
	a->measured = measured;
	a->measured_held = held;
	a->measured_valid = true;
	steady = held == 0 || (same && begun_ns - a->measured_since_ns >=
					       (moves ? LEDGER_STUCK_NS : LEDGER_STEADY_NS));
	if (settles_now(l, a, begun_ns)) {
		if (measured < a->overhead + a->pending && !steady)
			return;
		measure_contexts(l, a, measured, begun_ns, now_ns);
		return;
	}
	if (measured > a->overhead + a->pending) {
		set_overhead(a, measured - a->pending, now_ns);
		if (!same)
			account_unsettle(a, now_ns);
		a->measured_valid = true;
		return;
	}
	if (!same || (measured < a->overhead + a->pending && !steady))
		return;
	if (!a->pending && measured < a->overhead && a->seen)
		set_overhead(a, measured, now_ns);
	if (a->claimed && a->seen) {
		uint64_t shown = held - elastic_now(l, a);

		if (a->figure < shown)
			account_set_granted(l, a, size_sat_sub(a->granted, shown - a->figure),
					    now_ns);
		a->claimed = false;
	} else if (a->inherited && steady) {
		shares_cut(a, size_sat_sub(held - elastic_now(l, a), a->figure), now_ns);
	}
	/* asks that wait for this figure are looked at again */
	if (a->unsettled_until_ns)
		a->lease->gpu->dirty = true;
	a->unsettled_until_ns = 0;
}

/*
 * The most that the driver can have taken by itself: NVML's figure without what was held for sure.
 * That is what was held when the question went out, less the calls under way then, and less what
 * was given back since.  A free that was just being made is missing from it, so the most of some
 * such figures counts; one that is no smaller than what is believed says nothing.
 */
static void look_for_less(struct ledger *l, struct account *a, uint64_t begun_ns, uint64_t now_ns)
{
	uint64_t returned = returned_now(l, a) - a->snap_returned; /* wraps as the counter does */
	uint64_t unsure = size_sat_add(size_sat_add(a->snap_moving, returned), elastic_now(l, a));
	uint64_t most = size_sat_sub(a->figure, size_sat_sub(a->snap_held, unsure));

	if (!a->snapped || a->pending || a->creating || a->settling) {
		a->less_since_ns = 0;
		return;
	}
	if (most >= a->overhead)
		return;
	if (!a->less_since_ns) {
		a->less_since_ns = begun_ns;
		a->less_samples = 0;
		a->less_most = 0;
	}
	a->less_most = size_max(a->less_most, most);
	if (++a->less_samples < LESS_SAMPLES || begun_ns - a->less_since_ns < LEDGER_STEADY_NS)
		return;
	a->less_since_ns = 0;
	if (a->less_most < a->overhead)
		set_overhead(a, a->less_most, now_ns);
}

static void sample_attached(struct ledger *l, struct account *a, uint64_t begun_ns, uint64_t now_ns)
{
	uint64_t managed = managed_now(l, a), certain;

	if (!a->figure && !a->seen)
		return; /* NVML may be unable to see it at all */
	a->seen = true;
	look_for_less(l, a, begun_ns, now_ns);
	if (!a->turn_peak && a->snapped && a->snap_grants == a->grants &&
	    a->snap_held == held_now(l, a) && a->snap_returned == returned_now(l, a) &&
	    a->snap_managed == managed) {
		believe(l, a, begun_ns, now_ns);
		return;
	}
	a->measured_valid = false;
	/* some of the managed memory may be newer than what NVML said */
	certain = size_sat_sub(a->figure, size_sat_sub(managed, a->snap_managed));
	certain = size_sat_sub(certain, a->granted_peak);
	/* what a call in its turn takes beyond the books is expected */
	certain = size_sat_sub(certain, a->turn_peak);
	if (a->snapped && certain > a->overhead + a->pending)
		set_overhead(a, certain - a->pending, now_ns);
}

/* detached or dead: NVML's figure counts, once it is certain */
static void sample_lone(struct ledger *l, struct account *a, bool same, uint64_t begun_ns,
			uint64_t now_ns)
{
	struct ledger_process *p = a->process;

	/*
	 * Returns still come into its page, so what was granted is not what it holds: without the
	 * call a claim would be cut below the credit that lies there.  The overhead grows at once,
	 * as an attached one's does, and is remembered for when it attaches again.
	 */
	if (p->state == LEDGER_DETACHED) {
		account_call_back(l, a, now_ns);
		a->overhead = size_max(a->overhead, size_sat_sub(a->figure, held_now(l, a)));
	}
	if (p->since_ns > begun_ns) {
		/* not certain, but what NVML shows beyond the books counts at once */
		account_update(a, now_ns);
		return;
	}
	if (p->state == LEDGER_DYING && !a->figure) {
		a->pending = a->overhead = a->overhead_since_import = 0;
		a->inherited = a->inherited_unshown = 0;
		account_set_granted(l, a, 0, now_ns);
		a->released = true;
		a->lease->gpu->n_dying--;
		account_update(a, now_ns);
		process_release(l, p);
		return;
	}
	/* the first sample since its state changed is remembered by measured_valid */
	if (same && a->measured_valid && (a->seen || a->figure)) {
		a->agreed = true;
		if (p->state == LEDGER_DETACHED)
			set_overhead(a, measured_now(l, a), now_ns);
		if (a->unsettled_until_ns)
			a->lease->gpu->dirty = true;
		a->unsettled_until_ns = 0;
		if (a->claimed && size_sat_add(a->figure, elastic_now(l, a)) < a->granted)
			account_set_granted(l, a, a->figure + elastic_now(l, a), now_ns);
	}
	a->measured_valid = true;
	a->seen = a->seen || a->figure;
	account_update(a, now_ns);
}

static void sample_account(struct ledger *l, struct account *a, uint64_t begun_ns, uint64_t now_ns)
{
	struct ledger_process *p = a->process;
	bool same = a->nvml_known && a->nvml == a->figure;

	if (a->released)
		return;
	if (!a->figured) {
		a->nvml_known = false;
		a->measured_valid = false;
		account_update(a, now_ns);
		return;
	}
	a->nvml = a->figure;
	a->nvml_known = true;
	if (p->state == LEDGER_ATTACHED)
		sample_attached(l, a, begun_ns, now_ns);
	else
		sample_lone(l, a, same, begun_ns, now_ns);
}

/*
 * What the card uses and nobody is listed for.  The two readings are not of one instant, so only
 * what two samples running agree on counts.
 */
static void sample_strangers(struct gpu *g, const struct ledger_sample *s, uint64_t now_ns)
{
	uint64_t listed = s->unmanaged_bytes, hidden, old = g->unmanaged_bytes;
	const struct account *a;

	if (!s->processes_known)
		return;
	hidden = size_sat_sub(s->used_bytes, listed);
	hidden = size_sat_sub(hidden, size_max(s->own_bytes, g->probe));
	list_for_each (a, &g->accounts, on_gpu) {
		bool in_doubt = !a->figured || a->process->state != LEDGER_ATTACHED ||
				(!a->figure && !a->seen);

		hidden = size_sat_sub(hidden,
				      in_doubt ? size_max(a->figure, a->charged) : a->figure);
	}
	if (!s->memory_known)
		hidden = 0;
	g->unmanaged_bytes =
		size_min(g->total_bytes, size_sat_add(listed, size_min(hidden, g->hidden_bytes)));
	g->hidden_bytes = hidden;
	if (g->unmanaged_bytes != old)
		gpu_changed(g, now_ns, g->unmanaged_bytes < old);
}

/* processes are not known on this card at all: a pidfd's word must do */
static void release_unseen(struct ledger *l, struct gpu *g, uint64_t begun_ns, uint64_t now_ns)
{
	struct account *a;

	list_for_each (a, &g->accounts, on_gpu) {
		if (a->released || a->process->state != LEDGER_DYING ||
		    a->process->since_ns > begun_ns)
			continue;
		a->figure = 0;
		sample_lone(l, a, false, begun_ns, now_ns);
	}
}

void ledger_sample(struct ledger *l, unsigned gpu, const struct ledger_sample *s, uint64_t now_ns)
{
	struct account *a, *tmp;
	uint64_t begun_ns;
	struct gpu *g;

	if (gpu >= l->n_gpus)
		return;
	g = &l->gpus[gpu];
	begun_ns = g->begun_ns;
	g->sampling = false;
	g->sampled_ns = now_ns;
	if (s->memory_known && s->total_bytes && s->total_bytes <= UINT64_MAX / 4096) {
		uint64_t old = gpu_usable(g);

		g->total_bytes = s->total_bytes;
		g->reserved_bytes = s->reserved_bytes;
		if (gpu_usable(g) != old)
			gpu_changed(g, now_ns, gpu_usable(g) > old);
	}
	g->used_known = s->memory_known;
	g->used_bytes = s->used_bytes;
	read_figures(l, g, s);
	sample_strangers(g, s, now_ns);
	g->urgent_until_ns = 0;
	list_for_each_safe (a, tmp, &g->accounts, on_gpu) {
		sample_account(l, a, begun_ns, now_ns);
		a->snapped = false;
		g->urgent_until_ns = size_max(g->urgent_until_ns, a->unsettled_until_ns);
	}
	if (!s->processes_known)
		release_unseen(l, g, begun_ns, now_ns);
	turn_sampled(g, begun_ns);
}

uint64_t ledger_sample_due_ns(const struct ledger *l, unsigned gpu, uint64_t now_ns)
{
	const struct gpu *g;
	uint64_t due = LEDGER_NEVER;

	if (gpu >= l->n_gpus)
		return LEDGER_NEVER;
	g = &l->gpus[gpu];
	if (g->sampling)
		return size_sat_add(g->begun_ns, l->sample_ns);
	if (!list_is_empty(&g->leases) || l->n_queue)
		due = size_sat_add(g->sampled_ns, l->sample_ns);
	if (g->n_dying) {
		bool slow = now_ns > size_sat_add(g->dying_since_ns, NS_PER_S);

		due = size_min(due, size_sat_add(g->sampled_ns, slow ? DYING_SLOW_NS : DYING_NS));
	}
	if (g->n_settling || g->urgent_until_ns > now_ns)
		due = size_min(due, size_sat_add(g->sampled_ns, LEDGER_SAMPLE_URGENT_NS));
	return due;
}
