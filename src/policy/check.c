// SPDX-License-Identifier: Apache-2.0
#include "policy/books.h"

/* every sum again from its parts */

static const char *check_process(const struct ledger_process *p)
{
	for (unsigned i = 0; i < p->n_slots; i++) {
		const struct account *a = &p->accounts[i];
		uint64_t most = a->lease->gpu->total_bytes * 4;

		if (a->process != p || a->lease != &p->job->leases[i])
			return "an account is not linked to its process and lease";
		if (a->granted > most || a->pending > most || a->overhead > most)
			return "a figure wrapped";
		if (a->pending && !a->creating && !a->settling)
			return "an estimate is pending without a context";
		if (a->overhead_since_import > a->overhead)
			return "more overhead came of late than there is";
		if (a->inherited > most || a->inherited_unshown > a->inherited)
			return "an inheritance wrapped";
		if (p->state == LEDGER_ATTACHED && a->inherited != shares_inherited(a))
			return "an account's inheritance is not that of its imports";
		if (a->released && a->charged)
			return "a released account is charged";
		if (a->overdraft > a->turn || (a->turn && !a->has_turn) ||
		    a->turn > LEDGER_OVERDRAFT_BYTES)
			return "an overdraft is larger than its turn";
		if (a->orphaned_ns && !a->has_turn)
			return "an overdraft that is over has no holder";
	}
	return NULL;
}

static const char *check_lease(const struct lease *lease)
{
	const struct ledger_job *j = lease->job, *kid;
	const struct ledger_process *p;
	uint64_t own = 0, all, kids = 0, turns = 0;

	list_for_each (p, &j->processes, of_job) {
		own += p->accounts[lease->slot].charged;
		turns += p->accounts[lease->slot].turn;
	}
	all = own;
	list_for_each (kid, &j->kids, sibling) {
		int slot = kid->leases[0].gpu ? ledger_job_slot_of(kid, lease->gpu->number) : -1;

		if (slot < 0)
			continue;
		all += kid->leases[slot].charged;
		kids += kid->leases[slot].committed;
		turns += kid->leases[slot].turns;
	}
	if (own != lease->charged_own)
		return "a lease's charge is not that of its processes";
	if (all != lease->charged)
		return "a lease's charge does not contain the nested ones";
	if (turns != lease->turns)
		return "a lease's turns are not those of its processes";
	if (turns > LEDGER_OVERDRAFT_BYTES)
		return "the overdrafts of a job are more than it may have";
	if (kids != lease->kids_committed)
		return "a lease's nested promises are wrong";
	if (lease->committed != size_max(lease->request, own + kids))
		return "a lease's commitment is wrong";
	return NULL;
}

static const char *check_gpu(const struct gpu *g)
{
	uint64_t charged = 0, committed = 0, overdraft = 0;
	unsigned waiters = 0, dying = 0, settling = 0, orphans = 0;
	const struct lease *lease;
	const struct account *a;
	const struct ticket *t, *last = NULL;

	list_for_each (lease, &g->leases, on_gpu) {
		const char *fault = check_lease(lease);

		if (fault)
			return fault;
		charged += lease->parent ? 0 : lease->charged;
		committed += lease->parent ? 0 : lease->committed;
	}
	list_for_each (a, &g->accounts, on_gpu) {
		dying += a->process->state == LEDGER_DYING && !a->released;
		settling += a->settling;
		overdraft += a->overdraft;
		orphans += a->orphaned_ns != 0;
	}
	list_for_each (t, &g->waiters, node) {
		enum ledger_class c = t->account->process->job->job_class;

		if (last && (last->account->process->job->job_class > c ||
			     (last->account->process->job->job_class == c && last->id > t->id)))
			return "the waiters are out of order";
		last = t;
		waiters++;
	}
	if (charged != g->charged)
		return "the card's charge is not that of its jobs";
	if (committed != g->committed)
		return "the card's commitment is not that of its jobs";
	if (overdraft != g->overdraft || orphans != g->n_orphans)
		return "the card's overdrafts are not those of its processes";
	if (waiters != g->n_waiters || dying != g->n_dying || settling != g->n_settling)
		return "a count of the card is wrong";
	return NULL;
}

const char *ledger_check(const struct ledger *l)
{
	const struct ledger_job *j;
	const struct ledger_process *p;
	const char *fault;
	unsigned queue = 0;

	list_for_each (j, &l->jobs, all) {
		queue += j->state == JOB_WAITS;
		list_for_each (p, &j->processes, of_job) {
			fault = check_process(p);
			if (fault)
				return fault;
		}
	}
	if (queue != l->n_queue)
		return "the queue is not the jobs that wait";
	for (unsigned i = 0; i < l->n_gpus; i++) {
		fault = check_gpu(&l->gpus[i]);
		if (fault)
			return fault;
	}
	return NULL;
}
