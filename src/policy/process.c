// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "policy/books.h"

int ledger_process_add(struct ledger *l, struct ledger_job *j, int pid, void *owner,
		       uint64_t now_ns, struct ledger_process **ret)
{
	struct ledger_process *p;

	(void)l;
	if (j->state != JOB_ADMITTED && j->state != JOB_ENDED)
		return -EINVAL;
	if (!j->leases[0].gpu)
		return -EINVAL;
	p = calloc(1, sizeof(*p) + j->n_slots * sizeof(p->accounts[0]));
	if (!p)
		return -ENOMEM;
	p->job = j;
	p->pid = pid;
	p->owner = owner;
	p->state = LEDGER_ATTACHED;
	p->since_ns = now_ns;
	p->n_slots = j->n_slots;
	list_append(&j->processes, &p->of_job);
	for (unsigned i = 0; i < p->n_slots; i++) {
		struct account *a = &p->accounts[i];

		a->process = p;
		a->slot = i;
		a->lease = &j->leases[i];
		list_init(&a->exports);
		list_init(&a->imports);
		list_append(&a->lease->gpu->accounts, &a->on_gpu);
		account_want(a);
	}
	*ret = p;
	return 0;
}

int ledger_process_restore(struct ledger *l, struct ledger_job *j, int pid, void *owner,
			   const uint64_t claim_bytes[LEDGER_MAX_SLOTS], uint64_t now_ns,
			   struct ledger_process **ret)
{
	struct ledger_process *p;
	int r = ledger_process_add(l, j, pid, owner, now_ns, &p);

	if (r < 0)
		return r;
	p->state = LEDGER_DETACHED;
	for (unsigned i = 0; i < p->n_slots; i++) {
		struct account *a = &p->accounts[i];

		a->claimed = true;
		/* the page may say otherwise, from before */
		l->ops.set_wanted(owner, i, a->wanted);
		account_set_granted(l, a, size_min(claim_bytes[i], lease_left(a->lease)), now_ns);
		/* who holds memory has a context: charged as known, until NVML tells */
		a->seen = a->granted > 0;
		a->overhead = a->seen ? a->lease->gpu->context_bytes : 0;
		account_update(a, now_ns);
		account_unsettle(a, now_ns);
	}
	*ret = p;
	return 0;
}

static void set_state(struct ledger *l, struct ledger_process *p, enum ledger_state state,
		      uint64_t now_ns)
{
	p->state = state;
	p->since_ns = now_ns;
	for (unsigned i = 0; i < p->n_slots; i++) {
		struct account *a = &p->accounts[i];

		a->agreed = false;
		a->measured_valid = false;
		a->less_since_ns = 0;
		/* nobody takes from it any more: detached, a page may still get returns */
		if (state != LEDGER_ATTACHED)
			account_call_back(l, a, now_ns);
		account_update(a, now_ns);
	}
}

void ledger_process_attach(struct ledger *l, struct ledger_process *p, uint64_t now_ns)
{
	if (p->state == LEDGER_DETACHED)
		set_state(l, p, LEDGER_ATTACHED, now_ns);
}

/* contexts that were promised to a process that will never say what became of them */
static void drop_contexts(struct account *a, uint64_t now_ns)
{
	/* may exist or not: stays charged as overhead until NVML tells */
	a->overhead += a->pending;
	a->pending = 0;
	a->creating = 0;
	account_update(a, now_ns);
	turn_orphan(a, now_ns);
}

void ledger_process_detach(struct ledger *l, struct ledger_process *p, uint64_t now_ns)
{
	if (p->state != LEDGER_ATTACHED)
		return;
	wait_drop_process(l, p, now_ns);
	for (unsigned i = 0; i < p->n_slots; i++) {
		drop_contexts(&p->accounts[i], now_ns);
		account_unsettle(&p->accounts[i], now_ns);
	}
	set_state(l, p, LEDGER_DETACHED, now_ns);
}

void ledger_process_replaced(struct ledger *l, struct ledger_process *old,
			     struct ledger_process *fresh, uint64_t now_ns)
{
	assert(old->job == fresh->job && old->n_slots == fresh->n_slots);
	wait_drop_process(l, old, now_ns);
	shares_gone(l, old, now_ns);
	for (unsigned i = 0; i < old->n_slots; i++) {
		struct account *from = &old->accounts[i], *to = &fresh->accounts[i];

		turn_inherit(from, to, now_ns);
		if (!from->charged && !from->seen)
			continue;
		account_call_back(l, from, now_ns);
		account_call_back(l, to, now_ns);
		/* one that was adopted has its claim already: only what goes beyond it */
		to->overhead = size_max(to->overhead, size_sat_sub(from->charged, to->granted));
		to->seen = true;
		account_unsettle(to, now_ns);
		account_update(to, now_ns);
	}
	ledger_process_free(l, old, now_ns);
}

/** process_release - when no account of a dead process is charged any more, say GONE */
void process_release(struct ledger *l, struct ledger_process *p)
{
	if (p->state != LEDGER_DYING)
		return;
	for (unsigned i = 0; i < p->n_slots; i++)
		if (!p->accounts[i].released)
			return;
	p->state = LEDGER_GONE;
	list_append(&l->gone, &p->gone);
}

void ledger_process_dead(struct ledger *l, struct ledger_process *p, uint64_t now_ns)
{
	if (p->state == LEDGER_DYING || p->state == LEDGER_GONE)
		return;
	wait_drop_process(l, p, now_ns);
	for (unsigned i = 0; i < p->n_slots; i++)
		drop_contexts(&p->accounts[i], now_ns);
	shares_gone(l, p, now_ns);
	set_state(l, p, LEDGER_DYING, now_ns);
	for (unsigned i = 0; i < p->n_slots; i++) {
		struct account *a = &p->accounts[i];
		struct gpu *g = a->lease->gpu;

		/* a figure from before may be old: whoever was ever granted waits for NVML */
		if (!a->charged && !a->seen && !a->grants && !a->has_turn) {
			a->released = true;
			continue;
		}
		if (!g->n_dying++)
			g->dying_since_ns = now_ns;
	}
	process_release(l, p);
}

void ledger_process_free(struct ledger *l, struct ledger_process *p, uint64_t now_ns)
{
	if (!p)
		return;
	wait_drop_process(l, p, now_ns);
	shares_gone(l, p, now_ns);
	for (unsigned i = 0; i < p->n_slots; i++) {
		struct account *a = &p->accounts[i];

		if (p->state == LEDGER_DYING && !a->released)
			a->lease->gpu->n_dying--;
		a->released = true;
		turn_end(a);
		account_update(a, now_ns);
		list_del(&a->on_gpu);
	}
	list_del(&p->of_job);
	list_del(&p->gone);
	free(p);
}
