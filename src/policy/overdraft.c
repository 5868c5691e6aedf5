// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "policy/books.h"

/*
 * Calls beyond the limit (ledger.h, overdraft), each in its turn.
 *
 * Against the job the whole of a turn counts, against the card what the card had for it: where
 * that is less, the driver cannot take more.  gpu->turns is in the order of arrival.  In a pass,
 * whoever is kept back by a lease marks it, and nobody behind takes a turn there; whoever waits
 * for a turn of its own process marks nothing.
 *
 * An orphan is a turn whose holder cannot say any more how its call ended: dead, detached, its
 * connection closed.  What it took shows in the first sample begun after that; without a sample
 * it ends after LEDGER_SETTLE_NS.
 */

static bool is_blocked(const struct account *a, uint64_t bytes, uint64_t pass)
{
	if (a->has_turn)
		return true;
	for (const struct lease *lease = a->lease; lease; lease = lease->parent) {
		uint64_t most = size_sat_add(lease_wall(lease), LEDGER_OVERDRAFT_BYTES);

		if (size_sat_add(lease->turns, bytes) > LEDGER_OVERDRAFT_BYTES ||
		    size_sat_add(lease->charged + lease->turns, bytes) > most ||
		    (pass && lease->turn_mark == pass))
			return true;
	}
	return false;
}

static void mark_blocked(const struct account *a, uint64_t pass)
{
	if (a->has_turn)
		return;
	for (struct lease *lease = a->lease; lease; lease = lease->parent)
		lease->turn_mark = pass;
}

static void take_turn(const struct ledger *l, struct ticket *t, uint64_t now_ns)
{
	struct account *a = t->account;
	struct gpu *g = a->lease->gpu;
	uint64_t room = size_sat_sub(gpu_allocatable(g), g->charged + gpu_passing(g));

	a->has_turn = true;
	a->turn = t->bytes;
	a->turn_peak = size_max(a->turn_peak, a->turn);
	a->overdraft = size_min(t->bytes, room);
	g->overdraft += a->overdraft;
	for (struct lease *lease = a->lease; lease; lease = lease->parent)
		lease->turns += a->turn;
	t->grant.result = LEDGER_OK;
	t->grant.bytes = a->overdraft;
	t->grant.waited_ns = now_ns - t->since_ns;
	grant_fill(l, a, &t->grant);
}

/** turn_end - the overdraft of @a goes back, if it has one */
void turn_end(struct account *a)
{
	struct gpu *g = a->lease->gpu;

	if (!a->has_turn)
		return;
	for (struct lease *lease = a->lease; lease; lease = lease->parent)
		lease->turns -= a->turn;
	g->overdraft -= a->overdraft;
	g->n_orphans -= a->orphaned_ns != 0;
	g->turns_dirty = true;
	/* who waits for room may have waited for this; what is promised did not change */
	g->dirty = g->dirty || (a->overdraft && g->n_waiters);
	a->has_turn = false;
	a->turn = a->overdraft = a->orphaned_ns = 0;
}

/** turn_orphan - the holder of @a's overdraft, if there is one, will say no more */
void turn_orphan(struct account *a, uint64_t now_ns)
{
	if (!a->has_turn || a->orphaned_ns)
		return;
	a->orphaned_ns = now_ns;
	a->lease->gpu->n_orphans++;
	account_unsettle(a, now_ns);
}

/** turn_inherit - the process of @from goes on as that of @to */
void turn_inherit(struct account *from, struct account *to, uint64_t now_ns)
{
	uint64_t turn = from->turn, overdraft = from->overdraft;
	struct gpu *g = to->lease->gpu;

	if (!from->has_turn || to->has_turn)
		return; /* the latter cannot be: @to has only just come */
	turn_end(from);
	to->has_turn = true;
	to->turn = turn;
	to->turn_peak = size_max(to->turn_peak, turn);
	to->overdraft = overdraft;
	g->overdraft += overdraft;
	for (struct lease *lease = to->lease; lease; lease = lease->parent)
		lease->turns += turn;
	turn_orphan(to, now_ns);
}

/** turn_sampled - what orphans took is in the figures now */
void turn_sampled(struct gpu *g, uint64_t begun_ns)
{
	struct account *a;

	if (!g->n_orphans)
		return;
	list_for_each (a, &g->accounts, on_gpu)
		if (a->orphaned_ns && a->orphaned_ns <= begun_ns)
			turn_end(a);
}

/** turn_poll - no sample came: an orphan's turn is over all the same */
void turn_poll(struct gpu *g, uint64_t now_ns)
{
	struct account *a;

	if (!g->n_orphans)
		return;
	list_for_each (a, &g->accounts, on_gpu)
		if (a->orphaned_ns && now_ns >= a->orphaned_ns + LEDGER_SETTLE_NS)
			turn_end(a);
}

static void refuse(const struct ledger *l, struct ticket *t, uint64_t now_ns)
{
	t->grant.result = LEDGER_OVER_LIMIT;
	t->grant.waited_ns = now_ns - t->since_ns;
	grant_fill(l, t->account, &t->grant);
	text_no_turn(t, t->grant.text);
}

static void answer(struct ledger *l, struct ticket *t)
{
	list_del(&t->node);
	t->place = TICKET_READY;
	t->grant.ticket = t->id;
	list_append(&l->ready, &t->node);
}

/** turn_pump - one pass over those who wait for a turn on @g */
void turn_pump(struct ledger *l, struct gpu *g, uint64_t now_ns)
{
	struct ticket *t, *tmp;

	g->turns_due_ns = LEDGER_NEVER;
	l->pass++;
	list_for_each_safe (t, tmp, &g->turns, node) {
		bool blocked = is_blocked(t->account, t->bytes, l->pass);

		if (!blocked) {
			take_turn(l, t, now_ns);
			answer(l, t);
		} else if (now_ns >= t->deadline_ns) {
			refuse(l, t, now_ns);
			answer(l, t);
		} else {
			mark_blocked(t->account, l->pass);
			g->turns_due_ns = size_min(g->turns_due_ns, t->deadline_ns);
		}
	}
}

uint64_t turn_deadline_ns(const struct gpu *g)
{
	uint64_t due = list_is_empty(&g->turns) ? LEDGER_NEVER : g->turns_due_ns;
	const struct account *a;

	if (g->n_orphans)
		list_for_each (a, &g->accounts, on_gpu)
			if (a->orphaned_ns)
				due = size_min(due, a->orphaned_ns + LEDGER_SETTLE_NS);
	return due;
}

/* does anybody stand before an ask of @a already? */
static bool has_queue(const struct account *a)
{
	const struct ticket *t;

	list_for_each (t, &a->lease->gpu->turns, node)
		if (job_root(t->account->process->job) == job_root(a->process->job))
			return true;
	return false;
}

enum ledger_result ledger_need_overdraft(struct ledger *l, struct ledger_process *p, unsigned slot,
					 uint64_t bytes, unsigned flags, void *cookie,
					 uint64_t now_ns, struct ledger_grant *ret)
{
	const struct ticket like = { .kind = TICKET_TURN,
				     .bytes = size_min(bytes, LEDGER_OVERDRAFT_BYTES),
				     .cookie = cookie };
	struct account *a = process_account(p, slot);
	struct ticket *t = ticket_new(l, a, &like, now_ns, ret);
	struct gpu *g;

	if (!t)
		return ret->result;
	g = a->lease->gpu;
	if (!has_queue(a) && !is_blocked(a, t->bytes, 0)) {
		take_turn(l, t, now_ns);
	} else if ((flags & LEDGER_NO_WAIT) || p->n_tickets >= LEDGER_MAX_TICKETS) {
		refuse(l, t, now_ns);
	} else {
		t->place = TICKET_TURNS;
		t->deadline_ns = now_ns + LEDGER_TURN_NS;
		list_append(&g->turns, &t->node);
		p->n_tickets++;
		g->turns_dirty = true; /* the line may go round it */
		*ret = t->grant;
		ret->ticket = t->id;
		return ret->result = LEDGER_WAIT;
	}
	*ret = t->grant;
	ret->ticket = t->id;
	free(t);
	return ret->result;
}

/* the line moves: whoever stands in it for the same job waits on */
static void grant_patience(struct gpu *g, struct ledger_job *root, uint64_t now_ns)
{
	struct ticket *t;

	list_for_each (t, &g->turns, node)
		if (job_root(t->account->process->job) == root)
			t->deadline_ns = size_min(now_ns + LEDGER_TURN_NS,
						  t->since_ns + LEDGER_TURN_MOST_NS);
}

void ledger_overdraft_done(struct ledger *l, struct ledger_process *p, unsigned slot,
			   uint64_t kept_bytes, uint64_t now_ns)
{
	struct account *a = process_account(p, slot);

	(void)l;
	if (!a || !a->has_turn || a->orphaned_ns)
		return;
	kept_bytes = size_min(kept_bytes, a->turn);
	turn_end(a);
	grant_patience(a->lease->gpu, job_root(p->job), now_ns);
	if (!kept_bytes)
		return;
	a->overhead += kept_bytes;
	account_update(a, now_ns);
	account_unsettle(a, now_ns);
}

void ledger_overdraft_lost(struct ledger *l, struct ledger_process *p, unsigned slot,
			   uint64_t now_ns)
{
	struct account *a = process_account(p, slot);

	(void)l;
	if (a)
		turn_orphan(a, now_ns);
}
