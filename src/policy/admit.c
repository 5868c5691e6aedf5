// SPDX-License-Identifier: Apache-2.0
#include "policy/books.h"

/*
 * Who waits to be admitted.  The queue is in the order of class, then age.  A pass goes through
 * it once; a job that does not fit marks every GPU (or lease around it) where it could go, and
 * nobody behind is promised anything there.  (Not only where it has most room: that may be the card
 * of a service that never ends, while small jobs come and go for ever on the one that it could have
 * had.)  A job that wants several GPUs takes all at once or none.  Decisions are taken one after
 * the other against promises, never against memory that happens to be free.
 */

#define QUEUE_LOOK_NS (200 * NS_PER_MS) /* frees go into credit words without a message */

void admit_queue_add(struct ledger *l, struct ledger_job *j)
{
	struct list *at = &l->queue;

	while (at->prev != &l->queue) {
		const struct ledger_job *before = list_entry(at->prev, struct ledger_job, queue);

		if (before->job_class <= j->job_class)
			break;
		at = at->prev;
	}
	list_add_before(at, &j->queue);
	l->n_queue++;
}

void admit_queue_del(struct ledger *l, struct ledger_job *j)
{
	list_del(&j->queue);
	l->n_queue--;
	l->queue_dirty = true;
}

/**
 * job_candidate - the @i-th GPU that the job may be placed on, with the lease around it there
 * Returns false past the last one; *ret_gpu is NULL for a named GPU outside the parent's lease.
 */
bool job_candidate(struct ledger *l, const struct ledger_job *j, unsigned i, struct gpu **ret_gpu,
		   struct lease **ret_parent)
{
	struct ledger_job *parent = j->parent;
	int slot;

	*ret_parent = NULL;
	if (j->n_listed) {
		if (i >= j->n_listed)
			return false;
		*ret_gpu = &l->gpus[j->listed[i]];
		if (!parent)
			return true;
		slot = ledger_job_slot_of(parent, j->listed[i]);
		if (slot < 0)
			*ret_gpu = NULL;
		else
			*ret_parent = &parent->leases[slot];
		return true;
	}
	if (parent) {
		if (i >= parent->n_slots)
			return false;
		*ret_parent = &parent->leases[i];
		*ret_gpu = (*ret_parent)->gpu;
		return true;
	}
	if (i >= l->n_gpus)
		return false;
	*ret_gpu = &l->gpus[i];
	return true;
}

/** job_contradicts - is the limit below the request there?  Bytes beside a part of the card show it
 * on a card only. */
bool job_contradicts(const struct ledger_job *j, const struct gpu *g)
{
	return (j->limit.bytes || j->limit.permille) &&
	       amount_bytes(&j->limit, g) < amount_bytes(&j->request, g);
}

/** job_is_eligible - could it be placed there if nobody else were?  Not on a card in MIG mode, with
 * several GPUs not on an instance, and not where its limit is below its request. */
bool job_is_eligible(const struct ledger_job *j, const struct gpu *g, const struct lease *parent)
{
	uint64_t wall = gpu_usable(g);

	if (g->closed || (g->is_single && j->n_slots > 1) || job_contradicts(j, g))
		return false;
	for (; parent; parent = parent->parent)
		wall = size_min(wall, lease_wall(parent));
	return amount_bytes(&j->request, g) <= wall;
}

/** job_may_go - is @g one of the GPUs that it could be placed on? */
bool job_may_go(const struct ledger *l, const struct ledger_job *j, const struct gpu *g)
{
	struct lease *parent;
	struct gpu *at;

	/* job_candidate hands out pointers into the ledger; nothing is changed through them */
	for (unsigned i = 0; job_candidate((struct ledger *)l, j, i, &at, &parent); i++)
		if (at == g && job_is_eligible(j, g, parent))
			return true;
	return false;
}

/**
 * admit_before - the nearest before @j in the line that could be placed on @g, too; or NULL
 * Also of one that has just left the line, for its time was over.
 */
const struct ledger_job *admit_before(const struct ledger *l, const struct ledger_job *j,
				      const struct gpu *g)
{
	const struct list *at = list_is_linked(&j->queue) ? j->queue.prev : l->queue.prev;

	for (; at != &l->queue; at = at->prev) {
		const struct ledger_job *before = list_entry(at, struct ledger_job, queue);

		if (before->job_class <= j->job_class && job_may_go(l, before, g))
			return before;
	}
	return NULL;
}

/* somebody of the same or a better class waits for memory of the card: first things first */
static bool has_waiters_first(const struct gpu *g, enum ledger_class job_class)
{
	const struct ticket *t;

	list_for_each (t, &g->waiters, node) {
		if (t->account->process->job->job_class > job_class)
			return false;
		if (!t->settle_deadline_ns)
			return true;
	}
	return false;
}

static struct block room_for_job(struct ledger *l, const struct ledger_job *j, struct gpu *g,
				 struct lease *parent, uint64_t now_ns)
{
	uint64_t more = amount_bytes(&j->request, g), credit = 0;
	struct block b = room_for_promise(parent, g, more, l->pass);
	const struct account *a;

	if (!b.mark && more && !parent && has_waiters_first(g, j->job_class))
		b.mark = &g->admit_mark;
	if (!b.mark || *b.mark == l->pass || g->swept == l->pass)
		return b;
	list_for_each (a, &g->accounts, on_gpu)
		credit += account_credit(l, a);
	/* not for nothing: whoever loses its credit has to ask again */
	if (!credit || (!parent && more > size_sat_add(gpu_slack(g), credit)))
		return b;
	g->swept = l->pass;
	gpu_call_back(l, g, NULL, now_ns);
	return room_for_job(l, j, g, parent, now_ns);
}

struct choice {
	struct gpu *gpu;
	uint64_t room;
	unsigned jobs;
};

static bool is_better(const struct choice *a, const struct choice *b)
{
	if (a->room != b->room)
		return a->room > b->room;
	if (a->jobs != b->jobs)
		return a->jobs < b->jobs;
	return a->gpu->number < b->gpu->number;
}

static unsigned count_jobs(const struct gpu *g)
{
	const struct lease *lease;
	unsigned n = 0;

	list_for_each (lease, &g->leases, on_gpu)
		n += lease->job->state == JOB_ADMITTED;
	return n;
}

/* the n_slots best of @c, in the order of the GPUs unless all were named */
static void choose(const struct ledger_job *j, struct choice *c, unsigned n,
		   struct gpu *ret[LEDGER_MAX_SLOTS])
{
	bool in_order = j->n_listed == j->n_slots;

	for (unsigned i = 0; i < j->n_slots; i++) {
		unsigned best = i;

		for (unsigned k = i + 1; !in_order && k < n; k++)
			if (is_better(&c[k], &c[best]))
				best = k;
		struct choice tmp = c[i];
		c[i] = c[best];
		c[best] = tmp;
		ret[i] = c[i].gpu;
	}
	for (unsigned i = 1; !in_order && i < j->n_slots; i++)
		for (unsigned k = i; k && ret[k]->number < ret[k - 1]->number; k--) {
			struct gpu *tmp = ret[k];

			ret[k] = ret[k - 1];
			ret[k - 1] = tmp;
		}
}

/* true: placed */
static bool try_place(struct ledger *l, struct ledger_job *j, uint64_t now_ns)
{
	struct choice fits[LEDGER_MAX_GPUS];
	uint64_t *marks[LEDGER_MAX_GPUS];
	unsigned n = 0, n_marks = 0;
	struct lease *parent;
	struct gpu *g, *chosen[LEDGER_MAX_SLOTS];

	for (unsigned i = 0; job_candidate(l, j, i, &g, &parent); i++) {
		struct block b;

		if (!g || !job_is_eligible(j, g, parent))
			continue;
		b = room_for_job(l, j, g, parent, now_ns);
		marks[n_marks++] = b.mark ? b.mark : parent ? &parent->admit_mark : &g->admit_mark;
		if (b.mark)
			continue;
		fits[n++] = (struct choice){
			.gpu = g,
			.room = parent ? lease_slack(parent) : gpu_slack(g),
			.jobs = count_jobs(g),
		};
	}
	if (n < j->n_slots) {
		for (unsigned i = 0; i < n_marks && now_ns < j->admit_deadline_ns; i++)
			*marks[i] = l->pass;
		return false;
	}
	choose(j, fits, n, chosen);
	job_place(l, j, chosen, now_ns);
	return true;
}

/** admit_pass - admit whom there is room for, in order; give up on whose time is over */
void admit_pass(struct ledger *l, uint64_t now_ns)
{
	struct ledger_job *j, *tmp;

	l->pass++;
	l->queue_deadline_ns = LEDGER_NEVER;
	list_for_each_safe (j, tmp, &l->queue, queue) {
		if (!try_place(l, j, now_ns)) {
			if (now_ns < j->admit_deadline_ns) {
				l->queue_deadline_ns =
					size_min(l->queue_deadline_ns, j->admit_deadline_ns);
				continue;
			}
			j->state = JOB_TIMED_OUT;
		}
		admit_queue_del(l, j);
		list_append(&l->job_events, &j->event);
	}
	l->queue_dirty = false;
	l->queue_look_ns = size_sat_add(now_ns, QUEUE_LOOK_NS);
}
