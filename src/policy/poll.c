// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "policy/books.h"

static void pump_dirty(struct ledger *l, uint64_t now_ns)
{
	for (unsigned i = 0; i < l->n_gpus; i++) {
		struct gpu *g = &l->gpus[i];

		if (g->recall)
			gpu_call_back(l, g, NULL, now_ns);
		g->recall = false;
		if (g->dirty)
			l->queue_dirty = true;
		if (!list_is_empty(&g->turns) &&
		    (g->dirty || g->turns_dirty || now_ns >= g->turns_due_ns))
			turn_pump(l, g, now_ns);
		g->turns_dirty = false;
		if (g->n_waiters && (g->dirty || now_ns >= g->deadline_ns))
			wait_pump(l, g, now_ns);
		g->dirty = false;
	}
}

static void work(struct ledger *l, uint64_t now_ns)
{
	settle_poll(l, now_ns);
	for (unsigned i = 0; i < l->n_gpus; i++) {
		turn_poll(&l->gpus[i], now_ns);
		probe_poll(&l->gpus[i], now_ns);
	}
	pump_dirty(l, now_ns);
	while (circle_break(l, now_ns))
		pump_dirty(l, now_ns);
	if (l->n_queue &&
	    (l->queue_dirty || now_ns >= l->queue_look_ns || now_ns >= l->queue_deadline_ns)) {
		admit_pass(l, now_ns);
		/* credit that was called back for the queue's sake frees no room for asks: those
		 * call it back themselves */
		pump_dirty(l, now_ns);
	}
	l->queue_dirty = false;
}

static void event_of_process(struct ledger_event *ret, struct ledger_process *p)
{
	ret->process = p;
	ret->process_owner = p->owner;
	ret->job = p->job;
	ret->job_owner = p->job->owner;
}

static void pop_ticket(struct ledger *l, struct ledger_event *ret)
{
	struct ticket *t = list_entry(l->ready.next, struct ticket, node);

	list_del(&t->node);
	t->account->process->n_tickets--;
	event_of_process(ret, t->account->process);
	ret->kind = t->kind == TICKET_SETTLE ? LEDGER_EVENT_SETTLED : LEDGER_EVENT_ANSWER;
	ret->slot = t->account->slot;
	ret->cookie = t->cookie;
	ret->grant = t->grant;
	ret->settled = t->settled;
	free(t);
}

bool ledger_poll(struct ledger *l, uint64_t now_ns, struct ledger_event *ret)
{
	work(l, now_ns);
	memset(ret, 0, sizeof(*ret));
	if (!list_is_empty(&l->ready)) {
		pop_ticket(l, ret);
		return true;
	}
	if (!list_is_empty(&l->gone)) {
		struct ledger_process *p = list_entry(l->gone.next, struct ledger_process, gone);

		list_del(&p->gone);
		event_of_process(ret, p);
		ret->kind = LEDGER_EVENT_GONE;
		return true;
	}
	if (!list_is_empty(&l->job_events)) {
		struct ledger_job *j = list_entry(l->job_events.next, struct ledger_job, event);

		list_del(&j->event);
		ret->kind = j->state == JOB_TIMED_OUT ? LEDGER_EVENT_ADMISSION_TIMED_OUT
						      : LEDGER_EVENT_ADMITTED;
		ret->job = j;
		ret->job_owner = j->owner;
		return true;
	}
	return false;
}

static bool has_due(const struct ledger *l)
{
	if (!list_is_empty(&l->ready) || !list_is_empty(&l->gone) ||
	    !list_is_empty(&l->job_events) || (l->queue_dirty && l->n_queue))
		return true;
	for (unsigned i = 0; i < l->n_gpus; i++)
		if (l->gpus[i].recall)
			return true;
	for (unsigned i = 0; i < l->n_gpus; i++)
		if ((l->gpus[i].dirty && (l->gpus[i].n_waiters || l->n_queue)) ||
		    ((l->gpus[i].dirty || l->gpus[i].turns_dirty) &&
		     !list_is_empty(&l->gpus[i].turns)))
			return true;
	return false;
}

uint64_t ledger_deadline_ns(const struct ledger *l, uint64_t now_ns)
{
	uint64_t due = settle_deadline_ns(l);

	if (has_due(l))
		return now_ns;
	if (l->n_queue)
		due = size_min(due, size_min(l->queue_look_ns, l->queue_deadline_ns));
	for (unsigned i = 0; i < l->n_gpus; i++) {
		const struct gpu *g = &l->gpus[i];

		due = size_min(due, turn_deadline_ns(g));
		if (!g->n_waiters)
			continue;
		due = size_min(due, g->deadline_ns);
		if (!g->circle_looked)
			due = size_min(due, size_sat_add(g->changed_ns, LEDGER_CIRCLE_NS));
	}
	return due;
}
