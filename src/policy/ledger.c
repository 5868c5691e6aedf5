// SPDX-License-Identifier: Apache-2.0
#include "policy/ledger.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "policy/books.h"

struct ledger *ledger_new(const struct credit_ops *ops)
{
	struct ledger *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->ops = *ops;
	l->sample_ns = LEDGER_SAMPLE_NS;
	list_init(&l->jobs);
	list_init(&l->queue);
	list_init(&l->settling);
	list_init(&l->ready);
	list_init(&l->gone);
	list_init(&l->job_events);
	l->queue_look_ns = l->queue_deadline_ns = LEDGER_NEVER;
	return l;
}

static void free_tickets(struct list *head)
{
	struct ticket *t, *tmp;

	list_for_each_safe (t, tmp, head, node)
		free(t);
}

void ledger_free(struct ledger *l)
{
	struct ledger_job *j, *tmp;
	struct ledger_process *p, *next;

	if (!l)
		return;
	for (unsigned i = 0; i < l->n_gpus; i++)
		free_tickets(&l->gpus[i].waiters);
	for (unsigned i = 0; i < l->n_gpus; i++)
		free_tickets(&l->gpus[i].turns);
	shares_free(l);
	free_tickets(&l->settling);
	free_tickets(&l->ready);
	list_for_each_safe (j, tmp, &l->jobs, all) {
		list_for_each_safe (p, next, &j->processes, of_job)
			free(p);
		free(j);
	}
	free(l);
}

/* ---- GPUs ---- */

int ledger_gpu_add(struct ledger *l, const struct ledger_gpu_spec *spec)
{
	struct gpu *g;

	if (!spec->total_bytes || spec->total_bytes > UINT64_MAX / 4096)
		return -EINVAL;
	if (l->n_gpus == LEDGER_MAX_GPUS)
		return -ENOSPC;
	g = &l->gpus[l->n_gpus];
	memset(g, 0, sizeof(*g));
	g->ledger = l;
	g->number = l->n_gpus;
	memcpy(g->uuid, spec->uuid, sizeof(g->uuid));
	g->index = spec->index;
	g->is_single = spec->is_single;
	(void)(spec->label[0]
		       ? str_copy(g->label, sizeof(g->label), spec->label)
		       : str_print(g->label, sizeof(g->label), "%u", spec->index)); /* fits */
	g->total_bytes = spec->total_bytes;
	g->reserved_bytes = spec->reserved_bytes;
	g->reserve_bytes = spec->reserve_bytes;
	g->context_bytes = size_min(spec->context_bytes, spec->total_bytes);
	g->deadline_ns = g->turns_due_ns = LEDGER_NEVER;
	list_init(&g->turns);
	list_init(&g->leases);
	list_init(&g->accounts);
	list_init(&g->waiters);
	return (int)l->n_gpus++;
}

void ledger_gpu_set_reserve(struct ledger *l, unsigned gpu, uint64_t reserve_bytes, uint64_t now_ns)
{
	bool is_less;

	if (gpu >= l->n_gpus || l->gpus[gpu].reserve_bytes == reserve_bytes)
		return;
	is_less = reserve_bytes < l->gpus[gpu].reserve_bytes;
	l->gpus[gpu].reserve_bytes = reserve_bytes;
	gpu_changed(&l->gpus[gpu], now_ns, is_less);
	l->queue_dirty = true;
}

void ledger_set_sample_ns(struct ledger *l, uint64_t sample_ns)
{
	l->sample_ns = sample_ns;
}

void ledger_gpu_lost(struct ledger *l, unsigned gpu, bool lost, uint64_t now_ns)
{
	if (gpu >= l->n_gpus)
		return;
	l->gpus[gpu].lost = lost;
	gpu_changed(&l->gpus[gpu], now_ns, !lost);
	l->queue_dirty = true;
}

void ledger_gpu_label(struct ledger *l, unsigned gpu, const char *label)
{
	if (gpu < l->n_gpus)
		(void)str_copy(l->gpus[gpu].label, sizeof(l->gpus[gpu].label), label);
}

void ledger_gpu_closed(struct ledger *l, unsigned gpu, bool closed, uint64_t now_ns)
{
	if (gpu >= l->n_gpus || l->gpus[gpu].closed == closed)
		return;
	l->gpus[gpu].closed = closed;
	gpu_changed(&l->gpus[gpu], now_ns, !closed);
	l->queue_dirty = true;
}

uint64_t ledger_gpu_context_bytes(const struct ledger *l, unsigned gpu)
{
	return gpu < l->n_gpus ? l->gpus[gpu].context_bytes : 0;
}

/** gpu_usable - what could be had of an empty card */
uint64_t gpu_usable(const struct gpu *g)
{
	return size_sat_sub(size_sat_sub(g->total_bytes, g->reserved_bytes), g->reserve_bytes);
}

uint64_t gpu_allocatable(const struct gpu *g)
{
	return size_sat_sub(gpu_usable(g), g->unmanaged_bytes);
}

/** gpu_changed - something moved; @freed: in the direction that may let a waiter through */
void gpu_changed(struct gpu *g, uint64_t now_ns, bool freed)
{
	g->changed_ns = now_ns;
	g->circle_looked = false;
	if (freed)
		g->dirty = true;
}

/** account_want - must a return ring? when somebody waits, or a wall was passed */
void account_want(struct account *a)
{
	bool wanted = a->lease->gpu->n_waiters > 0;

	for (const struct lease *lease = a->lease; lease; lease = lease->parent)
		wanted = wanted || lease->over;
	if (wanted == a->wanted)
		return;
	a->wanted = wanted;
	a->lease->gpu->ledger->ops.set_wanted(a->process->owner, a->slot, wanted);
}

void gpu_want(struct gpu *g)
{
	struct account *a;

	list_for_each (a, &g->accounts, on_gpu)
		account_want(a);
}

/** gpu_call_back - all unused credit; @root: only of that job and of those nested in it */
void gpu_call_back(struct ledger *l, struct gpu *g, const struct ledger_job *root, uint64_t now_ns)
{
	struct account *a;

	list_for_each (a, &g->accounts, on_gpu) {
		if (!root || job_root(a->process->job) == root)
			account_call_back(l, a, now_ns);
	}
}

struct ledger_job *job_root(struct ledger_job *j)
{
	while (j->parent)
		j = j->parent;
	return j;
}

/* ---- sums ---- */

/** lease_recommit - charged_own, kids_committed or request changed: carry it up to the GPU */
void lease_recommit(struct lease *lease, uint64_t now_ns)
{
	struct gpu *g = lease->gpu;

	for (; lease; lease = lease->parent) {
		uint64_t old = lease->committed;
		uint64_t *sum = lease->parent ? &lease->parent->kids_committed : &g->committed;

		lease->committed =
			size_max(lease->request, lease->charged_own + lease->kids_committed);
		if (lease->committed == old)
			break;
		assert(*sum >= old);
		*sum = *sum - old + lease->committed;
		gpu_changed(g, now_ns, lease->committed < old);
	}
}

/** account_credit - the unused part, as far as it can be believed */
uint64_t account_credit(const struct ledger *l, const struct account *a)
{
	if (a->released)
		return 0;
	return size_min(l->ops.peek(a->process->owner, a->slot), a->granted);
}

static uint64_t account_charge(const struct account *a)
{
	uint64_t books = a->granted + a->inherited + a->pending + a->overhead;

	if (a->released)
		return 0;
	if (a->process->state == LEDGER_ATTACHED || !a->nvml_known)
		return books;
	return a->agreed ? a->nvml : size_max(books, a->nvml);
}

/**
 * lease_look_over - is a lease of the chain charged more than its wall?
 *
 * Then what its programs return must not be taken again without asking.
 */
void lease_look_over(struct lease *lease)
{
	struct gpu *g = lease->gpu;
	bool changed = false;

	for (; lease; lease = lease->parent) {
		bool over = lease->charged > lease_wall(lease);

		g->recall = g->recall || (over && !lease->over);
		changed = changed || over != lease->over;
		lease->over = over;
	}
	if (changed)
		gpu_want(g);
}

/** account_update - one of the account's figures changed: bring every sum in line */
void account_update(struct account *a, uint64_t now_ns)
{
	uint64_t old = a->charged;
	uint64_t new = account_charge(a);
	struct gpu *g = a->lease->gpu;

	if (new == old)
		return;
	a->charged = new;
	assert(a->lease->charged_own >= old && g->charged >= old);
	a->lease->charged_own = a->lease->charged_own - old + new;
	for (struct lease *lease = a->lease; lease; lease = lease->parent)
		lease->charged = lease->charged - old + new;
	g->charged = g->charged - old + new;
	lease_look_over(a->lease);
	gpu_changed(g, now_ns, new < old);
	lease_recommit(a->lease, now_ns);
}

void account_set_granted(struct ledger *l, struct account *a, uint64_t granted, uint64_t now_ns)
{
	if (granted > a->granted)
		a->grants++;
	a->granted = granted;
	a->granted_peak = size_max(a->granted_peak, granted + a->inherited);
	l->ops.set_granted(a->process->owner, a->slot, granted);
	account_update(a, now_ns);
}

void account_call_back(struct ledger *l, struct account *a, uint64_t now_ns)
{
	uint64_t back;

	if (a->released)
		return;
	/* a look first: most words are empty, and an exchange takes the line from the tenant */
	if (!l->ops.peek(a->process->owner, a->slot))
		return;
	back = size_min(l->ops.call_back(a->process->owner, a->slot), a->granted);
	if (back)
		account_set_granted(l, a, a->granted - back, now_ns);
}

/** account_unsettle - its overhead may be wrong: a refusal waits for a sample or two */
void account_unsettle(struct account *a, uint64_t now_ns)
{
	struct gpu *g = a->lease->gpu;

	a->unsettled_until_ns = now_ns + LEDGER_SETTLE_NS;
	a->measured_valid = false;
	g->urgent_until_ns = size_max(g->urgent_until_ns, a->unsettled_until_ns);
}
