// SPDX-License-Identifier: Apache-2.0
#include "daemon/programs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/size.h"
#include "base/str.h"
#include "daemon/daemon.h"
#include "daemon/gpus.h"
#include "daemon/jobs.h"
#include "daemon/life.h"
#include "daemon/peers.h"
#include "daemon/probe.h"
#include "daemon/sight.h"
#include "gpu/proc.h"
#include "policy/ledger.h"

#define SETTLE_ANSWER_NS (NS_PER_S / 4) /* a slow NVML must not hold up a program for longer */

_Static_assert((int)LEDGER_OK == WIRE_GRANT_OK && (int)LEDGER_FULL == WIRE_GRANT_FULL &&
		       (int)LEDGER_OVER_LIMIT == WIRE_GRANT_OVER_LIMIT &&
		       (int)LEDGER_CIRCLE == WIRE_GRANT_CIRCLE &&
		       (int)LEDGER_NO_LEASE == WIRE_GRANT_NO_LEASE,
	       "results go over the wire as they are");

static bool is_program(struct peer *peer, const struct wire_message *msg)
{
	if (peer->process && peer->process->account)
		return true;
	peer_refuse(peer, msg->request_id, WIRE_CODE_USAGE, "%s before ATTACH",
		    wire_name(msg->type));
	return false;
}

/* ---- answers that come later ---- */

static struct ask *ask_new(struct peer *peer, struct process *p, uint32_t request_id, uint32_t slot,
			   uint32_t kind)
{
	struct ask *ask = calloc(1, sizeof(*ask));

	if (!ask)
		return NULL;
	ask->peer = peer;
	ask->request_id = request_id;
	ask->slot = slot;
	ask->kind = kind;
	list_append(&p->asks, &ask->node);
	return ask;
}

static void ask_free(struct ask *ask)
{
	if (!ask)
		return;
	if (ask->peer)
		ask->peer->ask = NULL;
	list_del(&ask->node);
	free(ask);
}

static void ask_wait(struct ask *ask)
{
	ask->peer->ask = ask;
	peer_hold(ask->peer);
}

/* ---- NEED ---- */

static void take_back(struct daemon *d, struct process *p, uint32_t kind, unsigned slot,
		      uint64_t bytes)
{
	uint64_t now = clock_now_ns();

	if (kind == WIRE_NEED_CONTEXT)
		(void)ledger_context_done(d->ledger, p->account, slot, false, NULL, now, NULL);
	else if (kind == WIRE_NEED_OVERDRAFT)
		ledger_overdraft_done(d->ledger, p->account, slot, 0, now);
	else
		ledger_give_back(d->ledger, p->account, slot, bytes, now);
}

static void send_grant(struct daemon *d, struct peer *peer, uint32_t request_id, uint32_t kind,
		       unsigned slot, const struct ledger_grant *g)
{
	struct wire_grant m = { .result = (uint32_t)g->result,
				.bytes = g->bytes,
				.credit_bytes = g->credit_bytes,
				.used_bytes = g->used_bytes,
				.limit_bytes = g->limit_bytes,
				.waited_ns = g->waited_ns };

	(void)str_copy(m.text, sizeof(m.text), g->text);
	if (g->result == LEDGER_OK && kind == WIRE_NEED_CONTEXT)
		peer->context_slot = (int)slot;
	if (g->result == LEDGER_OK && kind == WIRE_NEED_OVERDRAFT)
		peer->overdraft_slot = (int)slot;
	peer_send(peer, WIRE_GRANT, request_id, &m);
	if (g->result == LEDGER_OK && peer->is_doomed) {
		peer->context_slot = peer->overdraft_slot = -1;
		take_back(d, peer->process, kind, slot, g->bytes);
	}
}

/* what a context costs is usually known or being measured since the job was admitted */
static void want_cost(struct daemon *d, const struct process *p, unsigned slot)
{
	unsigned numbers[LEDGER_MAX_SLOTS];

	if (slot < ledger_job_slots(p->job->lease, numbers))
		probe_want(d->probes, numbers[slot]);
}

static bool may_need(struct peer *peer, const struct wire_message *msg)
{
	const struct wire_need *m = msg->payload;

	if (!is_program(peer, msg))
		return false;
	if (m->kind < WIRE_NEED_MEMORY || m->kind > WIRE_NEED_OVERDRAFT) {
		peer_refuse(peer, msg->request_id, WIRE_CODE_USAGE, "need of kind %u is unknown",
			    m->kind);
		return false;
	}
	if (m->kind == WIRE_NEED_CONTEXT && peer->context_slot >= 0) {
		peer_refuse(peer, msg->request_id, WIRE_CODE_USAGE,
			    "a second context before CONTEXT_DONE of the first");
		return false;
	}
	if (m->kind == WIRE_NEED_OVERDRAFT && peer->overdraft_slot >= 0) {
		peer_refuse(peer, msg->request_id, WIRE_CODE_USAGE,
			    "a second overdraft before OVERDRAFT_DONE of the first");
		return false;
	}
	return true;
}

void programs_need(struct daemon *d, struct peer *peer, const struct wire_message *msg)
{
	const struct wire_need *m = msg->payload;
	struct ledger_grant grant = { 0 };
	struct process *p = peer->process;
	uint64_t now = clock_now_ns();
	unsigned flags = m->flags & WIRE_NEED_NO_WAIT ? LEDGER_NO_WAIT : 0;
	struct ask *ask;
	enum ledger_result result;

	if (!may_need(peer, msg))
		return;
	ask = ask_new(peer, p, msg->request_id, m->slot, m->kind);
	if (!ask) {
		peer_refuse(peer, msg->request_id, WIRE_CODE_FAILED, "allotd has no memory");
		return;
	}
	if (m->kind == WIRE_NEED_CONTEXT)
		want_cost(d, p, m->slot);
	if (m->kind == WIRE_NEED_CONTEXT)
		result = ledger_need_context(d->ledger, p->account, m->slot, flags, ask, now,
					     &grant);
	else if (m->kind == WIRE_NEED_OVERDRAFT)
		result = ledger_need_overdraft(d->ledger, p->account, m->slot, m->bytes, flags, ask,
					       now, &grant);
	else
		result = ledger_need(d->ledger, p->account, m->slot, m->bytes, flags, ask, now,
				     &grant);
	if (result == LEDGER_WAIT) {
		ask->ticket = grant.ticket;
		(void)str_copy(ask->text, sizeof(ask->text), grant.text);
		ask_wait(ask);
		return;
	}
	ask_free(ask);
	send_grant(d, peer, msg->request_id, m->kind, m->slot, &grant);
}

void programs_answer(struct daemon *d, const struct ledger_event *ev)
{
	struct ask *ask = ev->cookie;
	struct process *p = ev->process_owner;
	struct peer *peer = ask->peer;
	uint32_t kind = ask->kind, request_id = ask->request_id;

	ask_free(ask);
	if (!peer) { /* it went away between the decision and now */
		if (ev->grant.result == LEDGER_OK)
			take_back(d, p, kind, ev->slot, ev->grant.bytes);
		return;
	}
	peer_release(peer);
	send_grant(d, peer, request_id, kind, ev->slot, &ev->grant);
}

void programs_overdraft_done(struct daemon *d, struct peer *peer, const struct wire_message *msg)
{
	const struct wire_overdraft_done *m = msg->payload;

	if (!is_program(peer, msg))
		return;
	if (peer->overdraft_slot < 0 || (uint32_t)peer->overdraft_slot != m->slot) {
		peer_refuse(peer, msg->request_id, WIRE_CODE_USAGE,
			    "no overdraft was granted in slot %u on this connection", m->slot);
		return;
	}
	peer->overdraft_slot = -1;
	ledger_overdraft_done(d->ledger, peer->process->account, m->slot, m->kept_bytes,
			      clock_now_ns());
}

/* ---- contexts ---- */

static void send_settled(struct peer *peer, uint32_t request_id, const struct ledger_settled *s)
{
	struct wire_context_settled m = { .keep = s->keep,
					  .cost_bytes = s->cost_bytes,
					  .used_bytes = s->used_bytes,
					  .limit_bytes = s->limit_bytes };

	peer_send(peer, WIRE_CONTEXT_SETTLED, request_id, &m);
}

void programs_context_done(struct daemon *d, struct peer *peer, const struct wire_message *msg)
{
	const struct wire_context_done *m = msg->payload;
	struct ledger_settled settled = { 0 };
	struct process *p = peer->process;
	struct ask *ask;
	int r;

	if (!is_program(peer, msg))
		return;
	if (peer->context_slot < 0 || (uint32_t)peer->context_slot != m->slot) {
		peer_refuse(peer, msg->request_id, WIRE_CODE_USAGE,
			    "no context was asked for in slot %u on this connection", m->slot);
		return;
	}
	ask = ask_new(peer, p, msg->request_id, m->slot, WIRE_CONTEXT_SETTLED);
	if (!ask) {
		peer_refuse(peer, msg->request_id, WIRE_CODE_FAILED, "allotd has no memory");
		return;
	}
	peer->context_slot = -1;
	r = ledger_context_done(d->ledger, p->account, m->slot, m->ok != 0, ask, clock_now_ns(),
				&settled);
	if (r == 1) {
		ask_wait(ask);
		return;
	}
	ask_free(ask);
	if (r == -EINVAL)
		peer_refuse(peer, msg->request_id, WIRE_CODE_USAGE,
			    "no context was asked for in slot %u", m->slot);
	else
		send_settled(peer, msg->request_id, &settled);
}

void programs_settled(struct daemon *d, const struct ledger_event *ev)
{
	struct ask *ask = ev->cookie;
	struct peer *peer = ask ? ask->peer : NULL;
	uint32_t request_id = ask ? ask->request_id : 0;

	(void)d;
	ask_free(ask);
	if (!peer)
		return; /* it stays charged at what was measured */
	peer_release(peer);
	send_settled(peer, request_id, &ev->settled);
}

void programs_settle(struct daemon *d, struct peer *peer, const struct wire_message *msg)
{
	const struct wire_settle *m = msg->payload;
	uint64_t now = clock_now_ns();

	if (!is_program(peer, msg))
		return;
	ledger_settle(d->ledger, peer->process->account, m->slot, now);
	if (!(m->flags & WIRE_SETTLE_ANSWER))
		return;
	peer->settle_id = msg->request_id;
	peer->settle_slot = m->slot;
	peer->settle_end_ns = now + SETTLE_ANSWER_NS;
	list_append(&d->registry.settling, &peer->settling);
	peer_hold(peer);
}

uint64_t programs_tell_settled(struct daemon *d, uint64_t now_ns)
{
	uint64_t due = LEDGER_NEVER;
	struct peer *peer, *tmp;

	list_for_each_safe (peer, tmp, &d->registry.settling, settling) {
		struct ledger_process_figures f;

		if (peer->process && now_ns < peer->settle_end_ns &&
		    ledger_process_figures(d->ledger, peer->process->account, peer->settle_slot,
					   now_ns, &f) == 0 &&
		    f.unsettled) {
			due = size_min(due, peer->settle_end_ns);
			continue;
		}
		list_del(&peer->settling);
		peer_release(peer);
		peer_ok(peer, peer->settle_id, 0);
	}
	return due;
}

/* ---- what a program sees ---- */

static struct job *job_of(struct daemon *d, struct peer *peer, const struct wire_message *msg)
{
	struct job *job = peer->process       ? peer->process->job
			  : peer->is_observer ? job_by_id(&d->registry, peer->observed_job)
					      : NULL;

	if (!job)
		peer_refuse(peer, msg->request_id,
			    peer->is_observer ? WIRE_CODE_NO_SUCH : WIRE_CODE_USAGE,
			    peer->is_observer ? "%s: the job has ended" : "%s before ATTACH",
			    wire_name(msg->type));
	return job;
}

void programs_view(struct daemon *d, struct peer *peer, const struct wire_message *msg)
{
	const struct wire_view *m = msg->payload;
	struct job *job = job_of(d, peer, msg);
	struct ledger_job_figures f;
	struct ledger_view v;

	if (!job)
		return;
	if (ledger_view(d->ledger, job->lease, m->slot, &v) < 0) {
		peer_refuse(peer, msg->request_id, WIRE_CODE_NO_SUCH, "no slot %u in this lease",
			    m->slot);
		return;
	}
	peer_send(peer, WIRE_VIEWED, msg->request_id,
		  &(struct wire_viewed){ .total_bytes = v.total_bytes,
					 .free_bytes = v.free_bytes,
					 .used_bytes = v.used_bytes,
					 .limit_bytes = v.limit_bytes });
	if (ledger_job_figures(d->ledger, job->lease, m->slot, &f) == 0 &&
	    f.ceiling_bytes != job->spec.ceilings[m->slot]) {
		job->spec.ceilings[m->slot] = f.ceiling_bytes;
		jobs_store(job);
	}
}

void programs_procs(struct daemon *d, struct peer *peer, const struct wire_message *msg)
{
	const struct wire_procs *m = msg->payload;
	struct job *job = job_of(d, peer, msg), *inner;
	unsigned numbers[LEDGER_MAX_SLOTS];
	struct wire_end end = { 0 };
	uint64_t now = clock_now_ns();

	if (!job)
		return;
	if (m->slot >= ledger_job_slots(job->lease, numbers)) {
		peer_refuse(peer, msg->request_id, WIRE_CODE_NO_SUCH, "no slot %u in this lease",
			    m->slot);
		return;
	}
	list_for_each (inner, &d->registry.jobs, node) {
		struct process *p;
		int slot;

		if (!inner->is_admitted || !job_is_inside(inner, job))
			continue;
		slot = ledger_job_slot_of(inner->lease, numbers[m->slot]);
		list_for_each (p, &inner->processes, node) {
			struct ledger_process_figures f;
			struct wire_proc item;
			pid_t seen;

			if (slot < 0 || p->is_dead ||
			    ledger_process_figures(d->ledger, p->account, (unsigned)slot, now, &f) <
				    0 ||
			    f.held_bytes == 0)
				continue;
			seen = sight_pid(d, peer, p->entry.pid);
			item = (struct wire_proc){ .pid = seen, .used_bytes = f.held_bytes };
			peer_send(peer, WIRE_PROC, msg->request_id, &item);
			end.count++;
		}
	}
	peer_send(peer, WIRE_END, msg->request_id, &end);
}

/* ---- the end of a connection ---- */

void programs_closed(struct daemon *d, struct peer *peer)
{
	struct process *p = peer->process;
	struct ask *ask = peer->ask;
	uint64_t now = clock_now_ns();

	list_del(&peer->settling);
	if (ask) {
		ask->peer = NULL;
		peer->ask = NULL;
		if (ask->kind != WIRE_CONTEXT_SETTLED && ledger_cancel(d->ledger, ask->ticket, now))
			ask_free(ask);
	}
	if (!p)
		return;
	list_del(&peer->process_node);
	peer->process = NULL;
	/* what became of the context only NVML can tell */
	if (peer->context_slot >= 0)
		(void)ledger_context_done(d->ledger, p->account, (unsigned)peer->context_slot, true,
					  NULL, now, NULL);
	/* and of what a call beyond the limit took */
	if (peer->overdraft_slot >= 0)
		ledger_overdraft_lost(d->ledger, p->account, (unsigned)peer->overdraft_slot, now);
	if (list_is_empty(&p->peers))
		life_detach(p);
}
