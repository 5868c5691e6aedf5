// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "policy/books.h"

/*
 * Contexts: reserved by an estimate (ask.c), made by the driver, measured by NVML (sample.c).
 * pending covers creating + settling contexts of the account, in equal parts.
 */

static uint64_t one_part(const struct account *a)
{
	unsigned n = a->creating + a->settling;

	return n > 1 ? a->pending / n : a->pending;
}

static void fill(const struct ledger *l, const struct account *a, uint64_t cost_bytes,
		 struct ledger_settled *ret)
{
	struct ledger_grant figures = { 0 };

	ret->keep = true;
	ret->cost_bytes = cost_bytes;
	grant_fill(l, a, &figures);
	ret->used_bytes = figures.used_bytes;
	ret->limit_bytes = figures.limit_bytes;
	for (const struct lease *lease = a->lease; lease; lease = lease->parent)
		if (size_sat_sub(lease->charged, lease_wall(lease)) > LEDGER_OVER_LIMIT_BYTES)
			ret->keep = false;
}

int ledger_context_done(struct ledger *l, struct ledger_process *p, unsigned slot, bool ok,
			void *cookie, uint64_t now_ns, struct ledger_settled *ret)
{
	struct account *a = process_account(p, slot);
	struct ledger_settled unused;
	struct ticket *t;
	uint64_t part;
	bool is_known;

	if (!a || !a->creating)
		return -EINVAL;
	if (!ret)
		ret = &unused;
	part = one_part(a);
	/*
	 * A program's start: what its first context costs here was measured before, and were it
	 * twice that it would not be undone.  So nobody waits for the measuring.
	 */
	is_known = ok && part && part == a->lease->gpu->context_bytes && a->overhead == 0 &&
		   a->creating == 1 && a->settling == 0 && a->granted == 0 &&
		   lease_left(a->lease) >= part;
	t = ok && !is_known ? calloc(1, sizeof(*t)) : NULL;
	if (!t) {
		a->creating--;
		a->pending -= part;
		if (ok)
			a->overhead += part;
		account_update(a, now_ns);
		fill(l, a, ok ? part : 0, ret);
		if (is_known)
			account_unsettle(a, now_ns); /* but it is measured all the same */
		return ok && !is_known ? -ENOMEM : 0;
	}
	a->creating--;
	a->settling++;
	a->lease->gpu->n_settling++;
	t->kind = TICKET_SETTLE;
	t->place = TICKET_SETTLES;
	t->account = a;
	t->cookie = cookie;
	t->id = ++l->last_id;
	t->since_ns = now_ns;
	t->deadline_ns = now_ns + LEDGER_SETTLE_NS;
	p->n_tickets++;
	list_append(&l->settling, &t->node);
	return 1;
}

void ledger_settle(struct ledger *l, struct ledger_process *p, unsigned slot, uint64_t now_ns)
{
	struct account *a = process_account(p, slot);

	(void)l;
	if (a && p->state == LEDGER_ATTACHED)
		account_unsettle(a, now_ns);
}

static void answer(struct ledger *l, struct ticket *t, uint64_t cost_bytes, uint64_t now_ns)
{
	struct account *a = t->account;

	fill(l, a, cost_bytes, &t->settled);
	if (!t->settled.keep)
		account_unsettle(a, now_ns); /* it will be undone */
	list_del(&t->node);
	t->place = TICKET_READY;
	list_append(&l->ready, &t->node);
	/* asks that wait for a figure have one */
	a->lease->gpu->dirty = true;
}

/** settle_answer - the contexts of @a were measured, @cost_bytes each */
void settle_answer(struct ledger *l, struct account *a, uint64_t begun_ns, uint64_t cost_bytes,
		   uint64_t now_ns)
{
	struct ticket *t, *tmp;

	list_for_each_safe (t, tmp, &l->settling, node) {
		if (t->account != a || t->since_ns > begun_ns)
			continue;
		a->settling--;
		a->lease->gpu->n_settling--;
		answer(l, t, cost_bytes, now_ns);
	}
}

/** settle_poll - no sample could be believed in time: the estimate stays */
void settle_poll(struct ledger *l, uint64_t now_ns)
{
	while (!list_is_empty(&l->settling)) {
		struct ticket *t = list_entry(l->settling.next, struct ticket, node);
		struct account *a = t->account;
		uint64_t part = one_part(a);

		if (now_ns < t->deadline_ns)
			break; /* the list is in the order of time */
		a->pending -= part;
		a->overhead += part;
		a->settling--;
		a->lease->gpu->n_settling--;
		account_update(a, now_ns);
		answer(l, t, part, now_ns);
	}
}

uint64_t settle_deadline_ns(const struct ledger *l)
{
	if (list_is_empty(&l->settling))
		return LEDGER_NEVER;
	return list_entry(l->settling.next, struct ticket, node)->deadline_ns;
}
