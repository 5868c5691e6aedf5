// SPDX-License-Identifier: Apache-2.0
#include "daemon/show.h"

#include <string.h>

#include "base/clock.h"
#include "base/size.h"
#include "base/str.h"
#include "daemon/daemon.h"
#include "daemon/gpus.h"
#include "daemon/peers.h"
#include "daemon/person.h"
#include "daemon/runs.h"
#include "daemon/scope.h"
#include "daemon/sight.h"
#include "policy/ledger.h"

_Static_assert(LEDGER_WAIT_HOLDERS == WIRE_WHY_HOLDERS && LEDGER_NAME_MAX == WIRE_NAME_MAX &&
		       LEDGER_SENTENCE_MAX == WIRE_TEXT_MAX,
	       "what the ledger says goes over the wire as it is");
_Static_assert((int)LEDGER_WAITS_FOR_PLACE == WIRE_WHY_PLACE &&
		       (int)LEDGER_WAITS_FOR_MEMORY == WIRE_WHY_MEMORY &&
		       (int)LEDGER_WAITS_FOR_CONTEXT == WIRE_WHY_CONTEXT &&
		       (int)LEDGER_WAITS_FOR_MEASURE == WIRE_WHY_MEASURE,
	       "so do the kinds");

static void fill_gpus(const struct daemon *d, const struct job *job, struct wire_job *m)
{
	unsigned numbers[LEDGER_MAX_SLOTS];

	m->n_gpus = job->is_admitted ? ledger_job_slots(job->lease, numbers) : 0;
	for (unsigned slot = 0; slot < m->n_gpus; slot++) {
		const struct gpu *gpu = gpus_at(d->gpus, numbers[slot]);
		struct ledger_job_figures f = { 0 };

		(void)ledger_job_figures(d->ledger, job->lease, slot, &f); /* the slot exists */
		m->gpus[slot] =
			(struct wire_job_gpu){ .uuid = gpu->last.uuid,
					       .index = gpu->last.index,
					       .waiting = f.waiting,
					       .request_bytes = f.request_bytes,
					       .limit_bytes = f.limit_bytes,
					       .held_bytes = f.held_bytes,
					       .has_limit = f.has_limit,
					       .flags = gpus_is_instance(gpu) ? WIRE_GPU_MIG : 0,
					       .mig_index = gpu->last.mig_index };
	}
}

static void fill_job(const struct daemon *d, const struct job *job, struct wire_job *m)
{
	const struct job_spec *s = &job->spec;
	const struct process *p;

	m->parent_id = job->parent ? job->parent->spec.id : 0;
	m->uid = s->uid;
	m->state = !job->is_admitted ? WIRE_JOB_WAITING
		   : s->is_ended     ? WIRE_JOB_ENDING
				     : WIRE_JOB_RUNNING;
	m->keeper_pid = job->is_keeper_dead ? 0 : s->keeper_pid;
	m->request = s->request;
	m->limit = s->limit;
	m->job_class = s->job_class;
	m->fail_policy = s->fail_policy;
	m->when_full_wait = s->may_wait;
	m->when_full_ns = s->when_full_ns;
	list_for_each (p, &job->processes, node)
		m->n_processes++;
	(void)str_copy(m->name, sizeof(m->name), s->name);
	(void)str_copy(m->command, sizeof(m->command), s->command);
	if (!str_copy(m->cgroup, sizeof(m->cgroup), scope_path(job)))
		m->cgroup[0] = '\0'; /* half a path is none */
	if (s->is_adopted)
		m->flags |= WIRE_JOB_IS_ADOPTED;
	if (!job->is_admitted)
		(void)str_copy(m->reason, sizeof(m->reason), job->told.text);
	fill_gpus(d, job, m);
}

static void fill_run(const struct run_record *r, const struct job *job, struct wire_job *m)
{
	m->queued_s = r->queued_s;
	m->started_s = r->started_s;
	m->ended_s = r->ended_s;
	if (r->is_adopted)
		m->flags |= WIRE_JOB_IS_ADOPTED;
	(void)str_copy(m->log, sizeof(m->log), r->log);
	if (r->is_ended && r->has_status) {
		m->flags |= WIRE_JOB_HAS_STATUS;
		m->status = r->status;
	}
	if (job && r->is_ended)
		m->state = WIRE_JOB_ENDING; /* the run hears it first */
	if (job)
		return;
	/* nothing else is left of it, or its keeper has not come back yet */
	m->uid = r->uid;
	m->state = r->is_ended    ? WIRE_JOB_ENDED
		   : r->started_s ? WIRE_JOB_RUNNING
				  : WIRE_JOB_WAITING;
	m->job_class = WIRE_UNKNOWN_U32;
	m->fail_policy = WIRE_UNKNOWN_U32;
	m->when_full_ns = WIRE_UNKNOWN_U64;
	(void)str_copy(m->name, sizeof(m->name), r->name);
	(void)str_copy(m->command, sizeof(m->command), r->command);
}

void show_send(struct daemon *d, struct peer *peer, uint32_t request_id, uint64_t job_id)
{
	const struct job *job = job_by_id(&d->registry, job_id);
	const struct run *run = runs_by_id(d, job_id);
	struct wire_job m = { .job_id = job_id };

	if (job)
		fill_job(d, job, &m);
	if (run)
		fill_run(&run->record, job, &m);
	m.keeper_pid = sight_pid(d, peer, m.keeper_pid);
	peer_send(peer, WIRE_JOB, request_id, &m);
}

/* false after the refusal was sent */
static bool is_known(struct daemon *d, struct peer *peer, uint32_t request_id, uint64_t id)
{
	if (job_by_id(&d->registry, id) || runs_by_id(d, id))
		return true;
	peer_refuse(peer, request_id, WIRE_CODE_NO_SUCH,
		    "no job %llu: it never was, or it ended long ago", (unsigned long long)id);
	return false;
}

void show_job(struct daemon *d, struct peer *peer, const struct wire_message *msg)
{
	const struct wire_show *m = msg->payload;
	struct wire_end end = { 0 };
	struct job *job;

	if (!is_known(d, peer, msg->request_id, m->job_id))
		return;
	show_send(d, peer, msg->request_id, m->job_id);
	job = job_by_id(&d->registry, m->job_id);
	if (job)
		end.count = person_list_job(d, peer, msg->request_id, job);
	peer_send(peer, WIRE_END, msg->request_id, &end);
}

static void fill_why(struct daemon *d, const struct ledger_wait *w, uint64_t now_ns,
		     struct wire_why_item *m)
{
	m->kind = (uint32_t)w->kind;
	m->flags = (w->is_circle ? WIRE_WHY_IS_CIRCLE : 0) | (w->has_gpu ? 0 : WIRE_WHY_NO_GPU) |
		   (w->is_one_of_all ? WIRE_WHY_AND : 0);
	m->position = w->position;
	m->waiting = w->waiting;
	m->needed_bytes = w->needed_bytes;
	m->free_bytes = w->free_bytes;
	m->since_ns = w->since_ns ? size_sat_sub(now_ns, w->since_ns) : WIRE_UNKNOWN_U64;
	m->left_ns = w->deadline_ns == LEDGER_NEVER ? WIRE_UNKNOWN_U64
						    : size_sat_sub(w->deadline_ns, now_ns);
	m->total_bytes = w->total_bytes;
	m->allocatable_bytes = w->allocatable_bytes;
	m->reserve_bytes = w->reserve_bytes;
	m->unmanaged_bytes = w->unmanaged_bytes;
	m->before_id = w->before_id;
	m->n_holders = w->n_holders;
	(void)str_copy(m->sentence, sizeof(m->sentence), w->sentence);
	if (w->has_gpu) {
		const struct gpu *gpu = gpus_at(d->gpus, w->gpu);

		m->gpu = gpu->last.uuid;
		m->gpu_index = gpu->last.index;
		m->mig_index = gpu->last.mig_index;
		if (gpus_is_instance(gpu))
			m->flags |= WIRE_WHY_IS_MIG;
	}
	for (unsigned i = 0; i < w->n_holders && i < WIRE_WHY_HOLDERS; i++) {
		const struct ledger_holder *from = &w->holders[i];
		const struct job *job = from->id ? job_by_id(&d->registry, from->id) : NULL;
		struct wire_holder *to = &m->holders[i];

		to->job_id = from->id;
		to->held_bytes = from->held_bytes;
		to->request_bytes = from->request_bytes;
		to->uid = job ? job->spec.uid : WIRE_UNKNOWN_U32;
		to->waits = from->waits;
		memcpy(to->name, from->name, sizeof(to->name));
	}
}

void show_why(struct daemon *d, struct peer *peer, const struct wire_message *msg)
{
	const struct wire_why *ask = msg->payload;
	uint64_t now = clock_now_ns();
	struct wire_end end = { 0 };
	struct ledger_wait w;
	struct job *job;

	if (!is_known(d, peer, msg->request_id, ask->job_id))
		return;
	job = job_by_id(&d->registry, ask->job_id);
	while (job && job->lease && end.count < LEDGER_MAX_TICKETS &&
	       ledger_job_wait(d->ledger, job->lease, (unsigned)end.count, job->since_ns, now,
			       &w)) {
		struct wire_why_item m = { .job_id = ask->job_id };

		fill_why(d, &w, now, &m);
		m.pid = sight_pid(d, peer, w.pid);
		peer_send(peer, WIRE_WHY_ITEM, msg->request_id, &m);
		end.count++;
	}
	peer_send(peer, WIRE_END, msg->request_id, &end);
}
