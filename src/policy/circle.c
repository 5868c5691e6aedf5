// SPDX-License-Identifier: Apache-2.0
#include "policy/books.h"

/*
 * Who waits for each other, over all GPUs.
 *
 * A lease holds a GPU when its own processes are charged there, or when it was promised something
 * that nobody has taken yet; what jobs nested in it hold is theirs.  A holder is idle-handed when
 * no process of its own job waits anywhere: it may give memory back without first getting some.
 *
 * A GPU is hopeful when an idle-handed holder is there, a dead process that is not gone yet, or a
 * holder that waits on another, hopeful GPU; when something moved there within the last second, a
 * figure may settle, or the GPU is lost; and when its waiters would go on if only programs outside
 * of allot left.  Waiters on a GPU that is not hopeful wait for each other.
 *
 * Refused is the youngest of those who are part of a circle: who hold something that they would
 * themselves, over however many GPUs, have to wait for.  Whoever merely stands behind a circle
 * frees nothing by being refused.
 */

static bool is_quiet(const struct gpu *g, uint64_t now_ns)
{
	return now_ns >= size_sat_add(g->changed_ns, LEDGER_CIRCLE_NS);
}

static bool is_holder(const struct lease *lease)
{
	return lease->charged_own || (lease->committed && !lease->kids_committed);
}

/* asks of the job itself that wait there, without those of jobs nested in it */
static unsigned own_waiters(const struct lease *lease)
{
	const struct ledger_job *kid;
	unsigned n = lease->n_waiters;

	list_for_each (kid, &lease->job->kids, sibling) {
		int slot = ledger_job_slot_of(kid, lease->gpu->number);

		if (slot >= 0)
			n -= kid->leases[slot].n_waiters;
	}
	return n;
}

static bool is_idle_handed(const struct ledger_job *j)
{
	for (unsigned i = 0; i < j->n_slots; i++)
		if (j->leases[i].n_waiters && own_waiters(&j->leases[i]))
			return false;
	return true;
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
		if (is_holder(lease) && is_idle_handed(lease->job))
			return true;
	return false;
}

/* the GPUs that holders of @g wait for, a bit each */
static uint64_t waited_for(const struct gpu *g)
{
	const struct lease *lease;
	uint64_t gpus = 0;

	list_for_each (lease, &g->leases, on_gpu) {
		const struct ledger_job *j = lease->job;

		for (unsigned i = 0; i < j->n_slots && is_holder(lease); i++)
			if (j->leases[i].n_waiters && own_waiters(&j->leases[i]))
				gpus |= (uint64_t)1 << j->leases[i].gpu->number;
	}
	return gpus;
}

_Static_assert(LEDGER_MAX_GPUS <= 64, "a bit for each GPU");

/* bits of the GPUs without hope; next[n]: whom the holders of GPU n wait for, however far */
static uint64_t find_hopeless(struct ledger *l, uint64_t now_ns, uint64_t next[LEDGER_MAX_GPUS])
{
	uint64_t hopeless = 0, before;

	for (unsigned i = 0; i < l->n_gpus; i++) {
		next[i] = waited_for(&l->gpus[i]);
		if (!is_hopeful(&l->gpus[i], now_ns))
			hopeless |= (uint64_t)1 << i;
	}
	do {
		before = hopeless;
		for (unsigned i = 0; i < l->n_gpus; i++)
			if (next[i] & ~before)
				hopeless &= ~((uint64_t)1 << i);
	} while (hopeless != before);
	for (unsigned via = 0; via < l->n_gpus; via++)
		for (unsigned i = 0; i < l->n_gpus; i++)
			if (next[i] >> via & 1)
				next[i] |= next[via];
	return hopeless;
}

/** circle_is_at - would those who wait on @g wait for each other for ever, if nothing else moved?
 */
bool circle_is_at(const struct ledger *l, const struct gpu *g)
{
	uint64_t next[LEDGER_MAX_GPUS];

	/* what is changed on the way is put back; long after the last change all GPUs are quiet */
	return find_hopeless((struct ledger *)l, LEDGER_NEVER, next) >> g->number & 1;
}

/* does the waiter's job hold what, in the end, it waits for? */
static bool is_in_circle(const struct ticket *t, const uint64_t next[LEDGER_MAX_GPUS])
{
	unsigned number = t->account->lease->gpu->number;
	const struct ledger_job *j = t->account->process->job;
	uint64_t reached = next[number] | (uint64_t)1 << number;

	for (unsigned i = 0; i < j->n_slots; i++)
		if (is_holder(&j->leases[i]) && reached >> j->leases[i].gpu->number & 1)
			return true;
	return false;
}

static struct ticket *youngest_of(struct ledger *l, uint64_t hopeless,
				  const uint64_t next[LEDGER_MAX_GPUS], bool in_circle)
{
	struct ticket *youngest = NULL, *t;

	for (unsigned i = 0; i < l->n_gpus; i++) {
		if (!(hopeless >> i & 1))
			continue;
		list_for_each (t, &l->gpus[i].waiters, node)
			if ((!youngest || t->id > youngest->id) &&
			    (!in_circle || is_in_circle(t, next)))
				youngest = t;
	}
	return youngest;
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
	uint64_t next[LEDGER_MAX_GPUS], hopeless;
	struct ticket *youngest;

	if (!is_due(l, now_ns))
		return false;
	hopeless = find_hopeless(l, now_ns, next);
	youngest = youngest_of(l, hopeless, next, true);
	if (!youngest)
		youngest = youngest_of(l, hopeless, next, false);
	if (youngest) { /* there may be another circle */
		wait_answer(l, youngest, LEDGER_CIRCLE, now_ns);
		return true;
	}
	for (unsigned i = 0; i < l->n_gpus; i++)
		if (is_quiet(&l->gpus[i], now_ns))
			l->gpus[i].circle_looked = true;
	return false;
}
