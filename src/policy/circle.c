// SPDX-License-Identifier: Apache-2.0
#include "policy/books.h"

/*
 * A GPU is hopeful when somebody may give memory back there without first getting some: a job
 * that holds or is promised something and does not wait, a dead process that is not gone yet, or a
 * job that waits on another, hopeful GPU.  Waiters on a GPU that is not hopeful wait for each
 * other.
 */

static bool is_quiet(const struct gpu *g, uint64_t now_ns)
{
	return now_ns >= size_sat_add(g->changed_ns, LEDGER_CIRCLE_NS);
}

/* would anybody go on if only the unmanaged programs left, or a figure settled? */
static bool waits_for_strangers(struct gpu *g)
{
	uint64_t unmanaged = g->unmanaged_bytes;
	struct ticket *t;
	bool found = false;

	g->unmanaged_bytes = 0;
	list_for_each (t, &g->waiters, node) {
		struct block b = room_for_ask(t->account->lease, t->bytes, 0);

		if (b.over || !b.mark) {
			found = true;
			break;
		}
	}
	g->unmanaged_bytes = unmanaged;
	return found;
}

static bool is_hopeful(struct gpu *g, uint64_t now_ns)
{
	const struct lease *lease;

	if (g->lost || g->n_dying || !is_quiet(g, now_ns) || waits_for_strangers(g))
		return true;
	list_for_each (lease, &g->leases, on_gpu)
		if (!lease->parent && lease->committed && !lease->job->n_waiters)
			return true;
	return false;
}

/* a holder of @g that waits elsewhere, where there is hope */
static bool has_hope_elsewhere(const struct gpu *g, const bool hopeful[LEDGER_MAX_GPUS])
{
	const struct lease *lease;

	list_for_each (lease, &g->leases, on_gpu) {
		const struct ledger_job *j = lease->job;

		if (lease->parent || !lease->committed)
			continue;
		for (unsigned i = 0; i < j->n_slots; i++) {
			const struct gpu *other = j->leases[i].gpu;

			if (other != g && j->leases[i].n_waiters && hopeful[other->number])
				return true;
		}
	}
	return false;
}

static bool is_due(const struct ledger *l, uint64_t now_ns)
{
	for (unsigned i = 0; i < l->n_gpus; i++) {
		const struct gpu *g = &l->gpus[i];

		if (g->n_waiters && !g->circle_looked && is_quiet(g, now_ns))
			return true;
	}
	return false;
}

/** circle_break - refuse the youngest waiter of a circle; false: there is none */
bool circle_break(struct ledger *l, uint64_t now_ns)
{
	bool hopeful[LEDGER_MAX_GPUS], more = true;
	struct ticket *youngest = NULL, *t;

	if (!is_due(l, now_ns))
		return false;
	for (unsigned i = 0; i < l->n_gpus; i++)
		hopeful[i] = is_hopeful(&l->gpus[i], now_ns);
	while (more) {
		more = false;
		for (unsigned i = 0; i < l->n_gpus; i++) {
			if (hopeful[i] || !has_hope_elsewhere(&l->gpus[i], hopeful))
				continue;
			hopeful[i] = more = true;
		}
	}
	for (unsigned i = 0; i < l->n_gpus; i++) {
		struct gpu *g = &l->gpus[i];

		g->circle_looked = g->circle_looked || is_quiet(g, now_ns);
		if (hopeful[i])
			continue;
		list_for_each (t, &g->waiters, node)
			if (!youngest || t->id > youngest->id)
				youngest = t;
	}
	if (!youngest)
		return false;
	wait_answer(l, youngest, LEDGER_CIRCLE, now_ns);
	return true;
}
