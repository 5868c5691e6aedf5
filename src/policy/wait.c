// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "policy/books.h"

/*
 * Who waits for memory.  gpu->waiters is in the order of class, then arrival.  A pass goes through
 * it once: whoever fits is charged and moves to ledger->ready, whoever does not marks the
 * container (lease or card) that blocks it, and nobody behind may fill that one by bursting.
 */

static struct gpu *ticket_gpu(const struct ticket *t)
{
	return t->account->lease->gpu;
}

static bool ticket_before(const struct ticket *a, const struct ticket *b)
{
	enum ledger_class ca = a->account->process->job->job_class;
	enum ledger_class cb = b->account->process->job->job_class;

	return ca != cb ? ca < cb : a->id < b->id;
}

static void insert(struct gpu *g, struct ticket *t)
{
	struct list *at = &g->waiters;

	/* from the tail: most arrive last */
	while (at->prev != &g->waiters &&
	       ticket_before(t, list_entry(at->prev, struct ticket, node)))
		at = at->prev;
	list_add_before(at, &t->node);
}

static void count_waiter(struct ticket *t, int by)
{
	for (struct lease *lease = t->account->lease; lease; lease = lease->parent) {
		lease->n_waiters += (unsigned)by;
		lease->job->n_waiters += (unsigned)by;
	}
}

void wait_add(struct ticket *t, uint64_t now_ns)
{
	struct gpu *g = ticket_gpu(t);

	insert(g, t);
	t->place = TICKET_WAITS;
	t->account->process->n_tickets++;
	count_waiter(t, 1);
	if (!g->n_waiters++)
		gpu_want(g);
	gpu_changed(g, now_ns, false);
}

/* out of the line; who is behind may fit now */
static void wait_del(struct ledger *l, struct ticket *t, uint64_t now_ns)
{
	struct gpu *g = ticket_gpu(t);

	list_del(&t->node);
	t->place = TICKET_NOWHERE;
	count_waiter(t, -1);
	if (!--g->n_waiters)
		gpu_want(g);
	gpu_changed(g, now_ns, true);
	l->queue_dirty = true;
}

/** wait_resort - the class of a job changed */
void wait_resort(struct ledger *l, struct ledger_job *j)
{
	for (unsigned i = 0; i < l->n_gpus; i++) {
		struct gpu *g = &l->gpus[i];
		struct ticket *t, *tmp;
		struct list moved;

		list_init(&moved);
		list_for_each_safe (t, tmp, &g->waiters, node) {
			if (t->account->process->job != j)
				continue;
			list_del(&t->node);
			list_append(&moved, &t->node);
		}
		list_for_each_safe (t, tmp, &moved, node) {
			list_del(&t->node);
			insert(g, t);
		}
		g->dirty = true;
	}
}

/** wait_answer - the end of a wait */
void wait_answer(struct ledger *l, struct ticket *t, enum ledger_result result, uint64_t now_ns)
{
	struct lease *lease = t->account->lease;

	wait_del(l, t, now_ns);
	t->grant.waited_ns = now_ns - t->since_ns;
	t->grant.result = result;
	t->grant.ticket = t->id;
	if (result == LEDGER_OK) {
		ticket_apply(l, t, now_ns);
	} else {
		grant_fill(l, t->account, &t->grant);
		if (result == LEDGER_OVER_LIMIT) {
			struct block b = room_for_ask(lease, t->bytes, 0);

			text_over_limit(l, t, b.over ? b.wall : lease, t->grant.text);
			if (b.over) {
				t->grant.used_bytes = b.wall->charged;
				t->grant.limit_bytes = lease_wall(b.wall);
			}
		} else {
			text_full(l, t, result, t->grant.text);
		}
	}
	t->place = TICKET_READY;
	list_append(&l->ready, &t->node);
}

/** wait_may_settle - @t is over @wall: may a figure yet say otherwise? */
bool wait_may_settle(const struct ticket *t, const struct lease *wall, uint64_t now_ns)
{
	return lease_is_unsettled(wall, now_ns) ||
	       (t->kind == TICKET_CONTEXT && context_cost_is_near(t->account));
}

/* for a figure, as who is over a wall while one is unsettled, but whatever room there is */
static bool waits_for_probe(struct ticket *t, uint64_t now_ns)
{
	bool waits = t->kind == TICKET_CONTEXT && context_waits_for_probe(t->account, now_ns);

	if (waits)
		t->settle_deadline_ns = t->account->lease->gpu->probe_until_ns;
	else if (t->for_probe)
		t->settle_deadline_ns = 0;
	t->for_probe = waits;
	return waits;
}

/* one waiter's turn; false: it goes on waiting */
static bool wait_turn(struct ledger *l, struct ticket *t, uint64_t now_ns)
{
	struct block b;
	bool patient;

	if (waits_for_probe(t, now_ns))
		return false;
	patient = !t->settle_deadline_ns || now_ns < t->settle_deadline_ns;
	if (t->kind == TICKET_CONTEXT)
		t->bytes = context_estimate(t->account, patient);
	b = room_for_ask(t->account->lease, t->bytes, l->pass);
	if (b.over) {
		if (!t->settle_deadline_ns)
			t->settle_deadline_ns = now_ns + LEDGER_SETTLE_NS;
		if (now_ns < t->settle_deadline_ns && wait_may_settle(t, b.wall, now_ns))
			return false;
		wait_answer(l, t, LEDGER_OVER_LIMIT, now_ns);
		return true;
	}
	t->settle_deadline_ns = 0;
	if (!b.mark) {
		wait_answer(l, t, LEDGER_OK, now_ns);
		return true;
	}
	if (now_ns >= t->deadline_ns) {
		/* not refused for standing in line alone */
		b = room_for_ask(t->account->lease, t->bytes, 0);
		wait_answer(l, t, b.mark ? LEDGER_FULL : LEDGER_OK, now_ns);
		return true;
	}
	*b.mark = l->pass;
	return false;
}

static uint64_t ticket_due(const struct ticket *t)
{
	/* over the wall it waits for a figure, looked at with every change and at the latest then
	 */
	return t->settle_deadline_ns ? t->settle_deadline_ns : t->deadline_ns;
}

/** wait_pump - one pass over those who wait for @g */
void wait_pump(struct ledger *l, struct gpu *g, uint64_t now_ns)
{
	struct ticket *t, *tmp;
	bool again;

	do {
		again = false;
		g->dirty = false;
		g->deadline_ns = LEDGER_NEVER;
		l->pass++;
		list_for_each_safe (t, tmp, &g->waiters, node) {
			if (!wait_turn(l, t, now_ns)) {
				g->deadline_ns = size_min(g->deadline_ns, ticket_due(t));
				continue;
			}
			/* refused: whoever stands before it was judged without it already; who
			 * was passed over behind a mark of it has its turn in another pass */
			again = again ||
				list_entry(l->ready.prev, struct ticket, node)->grant.result !=
					LEDGER_OK;
		}
	} while (again && g->n_waiters);
	g->dirty = false;
}

static void drop_from(struct ledger *l, struct list *head, struct ledger_process *p,
		      uint64_t now_ns)
{
	struct ticket *t, *tmp;

	list_for_each_safe (t, tmp, head, node) {
		if (t->account->process != p)
			continue;
		if (t->place == TICKET_WAITS)
			wait_del(l, t, now_ns);
		else
			list_del(&t->node);
		if (t->place == TICKET_SETTLES) {
			t->account->settling--;
			t->account->lease->gpu->n_settling--;
		} else if (t->place == TICKET_READY) {
			grant_undo(l, t, now_ns);
		}
		p->n_tickets--;
		free(t);
	}
}

/** wait_drop_process - nobody is left to answer */
void wait_drop_process(struct ledger *l, struct ledger_process *p, uint64_t now_ns)
{
	if (!p->n_tickets)
		return;
	for (unsigned i = 0; i < p->n_slots; i++) {
		drop_from(l, &p->accounts[i].lease->gpu->waiters, p, now_ns);
		drop_from(l, &p->accounts[i].lease->gpu->turns, p, now_ns);
	}
	drop_from(l, &l->settling, p, now_ns);
	drop_from(l, &l->ready, p, now_ns);
}

static struct ticket *find(struct list *head, uint64_t id)
{
	struct ticket *t;

	list_for_each (t, head, node)
		if (t->id == id)
			return t;
	return NULL;
}

bool ledger_cancel(struct ledger *l, uint64_t ticket, uint64_t now_ns)
{
	struct ticket *t = find(&l->ready, ticket);

	for (unsigned i = 0; !t && i < l->n_gpus; i++)
		t = find(&l->gpus[i].waiters, ticket);
	for (unsigned i = 0; !t && i < l->n_gpus; i++)
		t = find(&l->gpus[i].turns, ticket);
	if (!t || t->kind == TICKET_SETTLE)
		return false;
	if (t->place == TICKET_WAITS) {
		wait_del(l, t, now_ns);
	} else {
		list_del(&t->node);
		if (t->place == TICKET_READY)
			grant_undo(l, t, now_ns);
	}
	t->account->process->n_tickets--;
	free(t);
	return true;
}
