// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <string.h>

#include "policy/books.h"

/* the unused credit that is part of what the lease is charged */
static uint64_t lease_credit(const struct ledger *l, const struct lease *lease)
{
	const struct ledger_job *j = lease->job, *kid;
	const struct ledger_process *p;
	uint64_t credit = 0;

	list_for_each (p, &j->processes, of_job) {
		const struct account *a = &p->accounts[lease->slot];

		if (p->state == LEDGER_ATTACHED && a->charged)
			credit += account_credit(l, a);
	}
	list_for_each (kid, &j->kids, sibling) {
		int slot = ledger_job_slot_of(kid, lease->gpu->number);

		if (slot >= 0)
			credit += lease_credit(l, &kid->leases[slot]);
	}
	return credit;
}

/** lease_held - what the job really holds there: charged − unused credit */
uint64_t lease_held(const struct ledger *l, const struct lease *lease, uint64_t *ret_credit)
{
	uint64_t credit = size_min(lease_credit(l, lease), lease->charged);

	if (ret_credit)
		*ret_credit = credit;
	return lease->charged - credit;
}

/** gpu_promised - Σ max(request, held) of all jobs but @except: what new promises must respect */
uint64_t gpu_promised(const struct ledger *l, const struct gpu *g, const struct lease *except)
{
	const struct lease *lease;
	uint64_t sum = 0;

	list_for_each (lease, &g->leases, on_gpu) {
		uint64_t credit = 0;

		if (lease->parent || lease == except)
			continue;
		(void)lease_held(l, lease, &credit);
		/* nested promises stay: only credit of its own can shrink it */
		sum += size_max(lease->request, size_sat_sub(lease->committed, credit));
	}
	return sum;
}

static struct lease *job_lease(struct ledger_job *j, unsigned slot)
{
	if (slot >= j->n_slots || !j->leases[slot].gpu)
		return NULL;
	return &j->leases[slot];
}

static bool has_limit(const struct lease *lease)
{
	for (; lease; lease = lease->parent)
		if (lease->limit != LEDGER_NO_LIMIT)
			return true;
	return false;
}

static uint64_t chain_wall(const struct lease *lease)
{
	uint64_t wall = UINT64_MAX;

	for (; lease; lease = lease->parent)
		wall = size_min(wall, lease_wall(lease));
	return wall;
}

int ledger_view(struct ledger *l, struct ledger_job *j, unsigned slot, struct ledger_view *ret)
{
	struct lease *lease = job_lease(j, slot), *root;
	uint64_t room;

	if (!lease)
		return -ENOENT;
	memset(ret, 0, sizeof(*ret));
	ret->used_bytes = lease_held(l, lease, NULL);
	ret->limit_bytes = chain_wall(lease);
	if (has_limit(lease)) {
		ret->total_bytes = UINT64_MAX;
		ret->free_bytes = UINT64_MAX;
		for (struct lease *up = lease; up; up = up->parent) {
			uint64_t held = lease_held(l, up, NULL);

			room = size_sat_sub(lease_wall(up), held);
			ret->free_bytes = size_min(ret->free_bytes, room);
			ret->total_bytes = size_min(ret->total_bytes, up->limit);
		}
		ret->total_bytes = size_min(ret->total_bytes, lease->gpu->total_bytes);
		return 0;
	}
	for (root = lease; root->parent; root = root->parent)
		;
	if (!root->ceiling) {
		room = size_sat_sub(gpu_allocatable(lease->gpu), gpu_promised(l, lease->gpu, root));
		root->ceiling = size_max(size_max(room, root->request), 1);
	}
	ret->total_bytes = lease->gpu->total_bytes;
	ret->free_bytes = size_sat_sub(root->ceiling, lease_held(l, root, NULL));
	return 0;
}

int ledger_view_restore(struct ledger_job *j, unsigned slot, uint64_t ceiling_bytes)
{
	struct lease *lease = job_lease(j, slot);

	if (!lease)
		return -ENOENT;
	lease->ceiling = size_min(ceiling_bytes, lease->gpu->total_bytes);
	return 0;
}

uint64_t ledger_job_limit(const struct ledger_job *j, unsigned slot, bool *ret_has_limit)
{
	const struct lease *lease = &j->leases[slot];

	*ret_has_limit = has_limit(lease);
	return chain_wall(lease);
}

int ledger_job_figures(const struct ledger *l, const struct ledger_job *j, unsigned slot,
		       struct ledger_job_figures *ret)
{
	const struct lease *lease;

	memset(ret, 0, sizeof(*ret));
	if (slot >= j->n_slots || !j->leases[slot].gpu)
		return -ENOENT;
	lease = &j->leases[slot];
	ret->request_bytes = lease->request;
	ret->limit_bytes = chain_wall(lease);
	ret->has_limit = has_limit(lease);
	ret->held_bytes = lease_held(l, lease, &ret->credit_bytes);
	ret->ceiling_bytes = lease->ceiling;
	ret->waiting = lease->n_waiters;
	return 0;
}

static int64_t signed_difference(uint64_t a, uint64_t b)
{
	return a >= b ? (int64_t)(a - b) : -(int64_t)(b - a);
}

/* what the books say of an account, credit left out */
static uint64_t account_books(const struct ledger *l, const struct account *a)
{
	return a->granted - account_credit(l, a) + a->inherited + a->pending + a->overhead;
}

/* NVML may lack what is elastic */
static int64_t account_drift(const struct ledger *l, const struct account *a)
{
	uint64_t books = account_books(l, a);
	uint64_t elastic = size_min(l->ops.elastic(a->process->owner, a->slot), books);

	return signed_difference(size_min(size_max(a->nvml, books), size_sat_add(a->nvml, elastic)),
				 books);
}

int ledger_process_slot_of(const struct ledger_process *p, unsigned gpu)
{
	return ledger_job_slot_of(p->job, gpu);
}

int ledger_process_figures(const struct ledger *l, const struct ledger_process *p, unsigned slot,
			   uint64_t now_ns, struct ledger_process_figures *ret)
{
	const struct account *a;
	const struct ticket *t;

	memset(ret, 0, sizeof(*ret));
	if (slot >= p->n_slots)
		return -ENOENT;
	a = &p->accounts[slot];
	ret->state = p->state;
	ret->granted_bytes = a->granted;
	ret->credit_bytes = account_credit(l, a);
	ret->held_bytes = p->state == LEDGER_ATTACHED ? account_books(l, a) : a->charged;
	ret->pending_bytes = a->pending;
	ret->overhead_bytes = a->overhead;
	ret->inherited_bytes = a->inherited;
	ret->nvml_bytes = a->nvml;
	ret->nvml_known = a->nvml_known;
	ret->unsettled = a->unsettled_until_ns > now_ns || a->creating || a->settling;
	if (a->nvml_known)
		ret->drift_bytes = account_drift(l, a);
	if (!p->n_tickets)
		return 0;
	list_for_each (t, &a->lease->gpu->waiters, node) {
		if (t->account != a)
			continue;
		ret->waiting_bytes = size_sat_add(ret->waiting_bytes, t->bytes);
		if (!ret->waiting_since_ns || t->since_ns < ret->waiting_since_ns)
			ret->waiting_since_ns = t->since_ns;
	}
	return 0;
}

/* the jobs in line that may go there, and of them those that may go to no GPU before it */
static unsigned count_queue(const struct ledger *l, const struct gpu *g, unsigned *ret_first)
{
	const struct ledger_job *j;
	unsigned n = 0;

	*ret_first = 0;
	list_for_each (j, &l->queue, queue) {
		bool is_first = true;

		if (!job_may_go(l, j, g))
			continue;
		n++;
		for (unsigned i = 0; is_first && i < g->number; i++)
			is_first = !job_may_go(l, j, &l->gpus[i]);
		*ret_first += is_first;
	}
	return n;
}

int ledger_gpu_figures(const struct ledger *l, unsigned gpu, struct ledger_gpu_figures *ret)
{
	const struct account *a;
	const struct lease *lease;
	const struct gpu *g;
	unsigned first;

	memset(ret, 0, sizeof(*ret));
	if (gpu >= l->n_gpus)
		return -ENOENT;
	g = &l->gpus[gpu];
	ret->total_bytes = g->total_bytes;
	ret->used_bytes = g->used_bytes;
	ret->used_known = g->used_known;
	ret->passing_bytes = gpu_passing(g);
	ret->allocatable_bytes = g->closed ? 0 : gpu_allocatable(g);
	ret->unmanaged_bytes = g->unmanaged_bytes;
	ret->sample_ns = g->sampled_ns;
	ret->lost = g->lost;
	ret->closed = g->closed;
	ret->waiting = g->n_waiters + count_queue(l, g, &first);
	ret->waiting_first = g->n_waiters + first;
	list_for_each (lease, &g->leases, on_gpu) {
		uint64_t credit = 0;

		if (lease->job->state == JOB_ADMITTED)
			ret->jobs++;
		if (lease->parent)
			continue;
		ret->held_bytes += lease_held(l, lease, &credit);
		ret->credit_bytes += credit;
		if (lease->job->state != JOB_ADMITTED)
			continue;
		ret->requested_bytes += lease->request;
		ret->limits_bytes += lease_wall(lease);
	}
	list_for_each (a, &g->accounts, on_gpu)
		if (a->nvml_known && !a->released)
			ret->drift_bytes += account_drift(l, a);
	ret->grantable_bytes = g->lost || g->closed
				       ? 0
				       : size_sat_sub(gpu_allocatable(g), gpu_promised(l, g, NULL));
	ret->burst_bytes = ret->grantable_bytes;
	return 0;
}
