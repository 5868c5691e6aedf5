// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "policy/books.h"

struct account *process_account(struct ledger_process *p, unsigned slot)
{
	return slot < p->n_slots ? &p->accounts[slot] : NULL;
}

/** grant_fill - the job's figures beside an answer */
void grant_fill(const struct ledger *l, const struct account *a, struct ledger_grant *ret)
{
	const struct lease *nearest = a->lease;

	for (const struct lease *up = a->lease; up; up = up->parent)
		if (size_sat_sub(lease_wall(up), up->charged) <
		    size_sat_sub(lease_wall(nearest), nearest->charged))
			nearest = up;
	ret->used_bytes = lease_held(l, nearest, NULL);
	ret->limit_bytes = lease_wall(nearest);
}

/** ticket_apply - charge what was asked, and some credit when nobody waits */
void ticket_apply(struct ledger *l, struct ticket *t, uint64_t now_ns)
{
	struct account *a = t->account;
	uint64_t credit;

	if (t->kind == TICKET_CONTEXT) {
		a->pending += t->bytes;
		a->creating++;
		account_update(a, now_ns);
		credit = 0;
	} else {
		account_set_granted(l, a, a->granted + t->bytes, now_ns);
		credit = credit_ahead(l, a);
	}
	if (credit) {
		/* first the charge, then the word: it never holds more than is charged */
		account_set_granted(l, a, a->granted + credit, now_ns);
		l->ops.add(a->process->owner, a->slot, credit);
	}
	t->grant.bytes = t->bytes;
	t->grant.credit_bytes = credit;
	t->grant.waited_ns = now_ns - t->since_ns;
	grant_fill(l, a, &t->grant);
}

/** grant_undo - an OK that nobody will hear of */
void grant_undo(struct ledger *l, struct ticket *t, uint64_t now_ns)
{
	if (t->grant.result != LEDGER_OK)
		return;
	if (t->kind == TICKET_MEMORY)
		ledger_give_back(l, t->account->process, t->account->slot, t->bytes, now_ns);
	else if (t->kind == TICKET_CONTEXT)
		(void)ledger_context_done(l, t->account->process, t->account->slot, false, NULL,
					  now_ns, NULL);
	else if (t->kind == TICKET_TURN)
		ledger_overdraft_done(l, t->account->process, t->account->slot, 0, now_ns);
}

static enum ledger_result refuse(struct ledger *l, struct ticket *t, enum ledger_result result,
				 const struct lease *wall)
{
	t->grant.result = result;
	t->grant.bytes = t->grant.credit_bytes = 0;
	grant_fill(l, t->account, &t->grant);
	if (result == LEDGER_OVER_LIMIT) {
		t->grant.used_bytes = wall->charged;
		t->grant.limit_bytes = lease_wall(wall);
		text_over_limit(l, t, wall, t->grant.text);
	} else {
		text_full(l, t, result, t->grant.text);
	}
	return result;
}

/* the bytes of a context depend on what is known and left at the moment */
static struct block look(struct ticket *t, bool patient)
{
	if (t->kind == TICKET_CONTEXT)
		t->bytes = context_estimate(t->account, patient);
	return room_for_ask(t->account->lease, t->bytes, 0);
}

static bool waits_for_probe(const struct ticket *t, uint64_t now_ns)
{
	return t->kind == TICKET_CONTEXT && context_waits_for_probe(t->account, now_ns);
}

/* what may not wait: decided here and now */
static enum ledger_result ask_at_once(struct ledger *l, struct ticket *t, bool patient,
				      uint64_t now_ns)
{
	struct gpu *g = t->account->lease->gpu;
	struct block b = look(t, patient);

	if (b.over || b.mark) {
		gpu_call_back(l, g, NULL, now_ns);
		b = look(t, patient);
	}
	if (b.over)
		return refuse(l, t, LEDGER_OVER_LIMIT, b.wall);
	if (b.mark)
		return refuse(l, t, LEDGER_FULL, NULL);
	ticket_apply(l, t, now_ns);
	return t->grant.result = LEDGER_OK;
}

/* may take its place among those who wait */
static enum ledger_result ask_in_line(struct ledger *l, struct ticket *t, uint64_t now_ns)
{
	struct ledger_process *p = t->account->process;
	struct gpu *g = t->account->lease->gpu;
	struct block b = look(t, true);

	if (b.over && !waits_for_probe(t, now_ns)) {
		gpu_call_back(l, g, job_root(p->job), now_ns);
		b = look(t, true);
		if (b.over && !wait_may_settle(t, b.wall, now_ns))
			return refuse(l, t, LEDGER_OVER_LIMIT, b.wall);
	}
	if (!b.over && !b.mark && !g->n_waiters && !waits_for_probe(t, now_ns)) {
		ticket_apply(l, t, now_ns);
		return t->grant.result = LEDGER_OK;
	}
	if (p->n_tickets >= LEDGER_MAX_TICKETS)
		return refuse(l, t, LEDGER_FULL, NULL);
	wait_add(t, now_ns);
	gpu_call_back(l, g, NULL, now_ns);
	wait_pump(l, g, now_ns);
	if (t->place == TICKET_READY) {
		list_del(&t->node);
		t->place = TICKET_NOWHERE;
		p->n_tickets--;
		return t->grant.result;
	}
	return LEDGER_WAIT;
}

/** ticket_new - as @like, for @a; NULL: *ret is the refusal */
struct ticket *ticket_new(struct ledger *l, struct account *a, const struct ticket *like,
			  uint64_t now_ns, struct ledger_grant *ret)
{
	struct ticket *t = NULL;

	memset(ret, 0, sizeof(*ret));
	ret->result = LEDGER_NO_LEASE;
	if (!a || a->process->state != LEDGER_ATTACHED)
		return NULL;
	t = malloc(sizeof(*t));
	if (!t) {
		grant_fill(l, a, ret);
		(void)str_copy(ret->text, sizeof(ret->text), "allotd has no memory left");
		ret->result = LEDGER_FULL;
		return NULL;
	}
	*t = *like;
	t->account = a;
	t->id = ++l->last_id;
	t->since_ns = now_ns;
	return t;
}

/* is it only what is under way for a moment that takes the room? */
static bool would_fit_soon(struct ticket *t)
{
	struct gpu *g = t->account->lease->gpu;
	uint64_t overdraft = g->overdraft, probe = g->probe;
	struct block b;

	if (!gpu_passing(g))
		return false;
	g->overdraft = g->probe = 0;
	b = room_for_ask(t->account->lease, t->bytes, 0);
	g->overdraft = overdraft;
	g->probe = probe;
	return !b.over && !b.mark;
}

static enum ledger_result ask(struct ledger *l, struct ledger_process *p, unsigned slot,
			      const struct ticket *asked, unsigned flags, uint64_t now_ns,
			      struct ledger_grant *ret)
{
	struct account *a = process_account(p, slot);
	enum ledger_result result;
	struct ticket *t = ticket_new(l, a, asked, now_ns, ret);

	if (!t)
		return ret->result;
	t->deadline_ns = size_sat_add(now_ns, p->job->may_wait ? p->job->when_full_ns : 0);
	if ((flags & LEDGER_NO_WAIT) || (!p->job->may_wait && !waits_for_probe(t, now_ns)))
		result = ask_at_once(l, t, !(flags & LEDGER_NO_WAIT), now_ns);
	else
		result = ask_in_line(l, t, now_ns);
	/* --when-full fail is about room: a figure that is being measured is waited for all the
	 * same, and so is what comes back in a moment */
	if (!(flags & LEDGER_NO_WAIT) && !p->job->may_wait) {
		bool soon = result == LEDGER_FULL && would_fit_soon(t);

		if (soon)
			t->deadline_ns = now_ns + (t->account->lease->gpu->probe ? LEDGER_PROBE_NS
										 : LEDGER_TURN_NS);
		if (soon || result == LEDGER_OVER_LIMIT)
			result = ask_in_line(l, t, now_ns);
	}
	*ret = t->grant;
	ret->result = result;
	ret->ticket = t->id;
	if (result == LEDGER_WAIT) {
		grant_fill(l, a, ret);
		text_full(l, t, LEDGER_WAIT, ret->text);
	} else {
		free(t);
	}
	return result;
}

enum ledger_result ledger_need(struct ledger *l, struct ledger_process *p, unsigned slot,
			       uint64_t bytes, unsigned flags, void *cookie, uint64_t now_ns,
			       struct ledger_grant *ret)
{
	struct ticket t = { .kind = TICKET_MEMORY, .bytes = bytes, .cookie = cookie };

	return ask(l, p, slot, &t, flags, now_ns, ret);
}

enum ledger_result ledger_need_context(struct ledger *l, struct ledger_process *p, unsigned slot,
				       unsigned flags, void *cookie, uint64_t now_ns,
				       struct ledger_grant *ret)
{
	struct ticket t = { .kind = TICKET_CONTEXT, .cookie = cookie };

	return ask(l, p, slot, &t, flags, now_ns, ret);
}

void ledger_give_back(struct ledger *l, struct ledger_process *p, unsigned slot, uint64_t bytes,
		      uint64_t now_ns)
{
	struct account *a = process_account(p, slot);

	if (a && !a->released)
		account_set_granted(l, a, size_sat_sub(a->granted, bytes), now_ns);
}

void ledger_returned(struct ledger *l, struct ledger_process *p, uint64_t now_ns)
{
	for (unsigned i = 0; i < p->n_slots; i++) {
		struct account *a = &p->accounts[i];

		if (a->wanted || p->state != LEDGER_ATTACHED)
			account_call_back(l, a, now_ns);
	}
}
