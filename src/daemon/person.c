// SPDX-License-Identifier: Apache-2.0
#include "daemon/person.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/size.h"
#include "base/str.h"
#include "daemon/change.h"
#include "daemon/commands.h"
#include "daemon/daemon.h"
#include "daemon/gpus.h"
#include "daemon/jobs.h"
#include "daemon/peers.h"
#include "daemon/sampler.h"
#include "daemon/scope.h"
#include "daemon/sight.h"
#include "daemon/store.h"
#include "daemon/unmanaged.h"
#include "gpu/proc.h"
#include "policy/ledger.h"

/* ---- ps ---- */

static void fill_job(const struct daemon *d, const struct job *job, unsigned slot,
		     struct wire_ps_item *m)
{
	struct ledger_job_figures f = { 0 };

	m->job_id = job->spec.id;
	m->uid = job->spec.uid;
	m->job_class = job->spec.job_class;
	if (job->spec.is_adopted)
		m->flags |= WIRE_PS_ADOPTED;
	m->compute_min_permille = job->spec.compute_min_permille;
	m->compute_max_permille = job->spec.compute_max_permille;
	m->compute_got_permille = WIRE_UNKNOWN_U32;
	(void)str_copy(m->name, sizeof(m->name), job->spec.name);
	(void)str_copy(m->command, sizeof(m->command), job->spec.command);
	m->vram_request_bytes = job->spec.request.bytes;
	m->vram_limit_bytes = job->spec.limit.bytes ? job->spec.limit.bytes : WIRE_UNKNOWN_U64;
	if (!job->is_admitted || ledger_job_figures(d->ledger, job->lease, slot, &f) < 0)
		return;
	m->vram_request_bytes = f.request_bytes;
	m->vram_limit_bytes = f.has_limit ? f.limit_bytes : WIRE_UNKNOWN_U64;
}

static void fill_gpu(const struct daemon *d, unsigned number, struct wire_ps_item *m)
{
	const struct gpu *gpu = gpus_at(d->gpus, number);

	m->gpu = gpu->last.uuid;
	m->gpu_index = gpu->last.index;
	m->mig_index = gpu->last.mig_index;
	if (gpus_is_instance(gpu))
		m->flags |= WIRE_PS_MIG;
	if (gpu->is_lost || sampler_trouble(d->sampler)[0])
		m->flags |= WIRE_PS_STALE;
	if (gpu->is_lost && m->job_id)
		(void)str_print(m->reason, sizeof(m->reason), "GPU %s is lost", gpu->label);
}

/* from a process that does not let us read now, another time */
static void read_command(const struct daemon *d, struct process *p)
{
	if (commands_read(d->commands, d->proc_root, p->entry.pid, p->command,
			  sizeof(p->command)) == -EAGAIN)
		p->command[0] = '\0';
}

static const char *command_of(const struct daemon *d, struct process *p)
{
	/* kept from the first look: a dying process has none any more */
	if (!p->is_dead && !p->command[0])
		read_command(d, p);
	return p->command[0] ? p->command : p->job->spec.command;
}

static const char *reason_of(const struct process *p, unsigned slot)
{
	const struct ask *ask;

	list_for_each (ask, &p->asks, node)
		if (ask->slot == slot && ask->text[0])
			return ask->text;
	return "the card is full";
}

static void fill_process(const struct daemon *d, struct process *p, unsigned slot,
			 const struct ledger_process_figures *f, uint64_t now_ns,
			 struct wire_ps_item *m)
{
	(void)str_copy(m->command, sizeof(m->command), command_of(d, p));
	m->vram_used_bytes = f->held_bytes;
	m->drift_bytes = f->nvml_known ? (uint64_t)f->drift_bytes : WIRE_UNKNOWN_U64;
	m->state = WIRE_STATE_RUNNING;
	if (f->state == LEDGER_DETACHED)
		m->flags |= WIRE_PS_DETACHED;
	if (!p->page)
		m->flags |= WIRE_PS_UNFENCED;
	if (f->state == LEDGER_DYING || f->state == LEDGER_GONE)
		m->flags |= WIRE_PS_ENDING;
	if (f->waiting_since_ns) {
		m->state = WIRE_STATE_WAITING_VRAM;
		m->waiting_bytes = f->waiting_bytes;
		m->waiting_ns = size_sat_sub(now_ns, f->waiting_since_ns);
		(void)str_copy(m->reason, sizeof(m->reason), reason_of(p, slot));
	}
}

static bool holds_or_waits(const struct daemon *d, const struct process *p, unsigned slot,
			   uint64_t now_ns)
{
	struct ledger_process_figures f;

	return ledger_process_figures(d->ledger, p->account, slot, now_ns, &f) == 0 &&
	       (f.held_bytes || f.waiting_since_ns);
}

/* a line for each GPU it holds something of; where it holds nothing at all, for each of the job's
 */
static uint64_t list_process(struct daemon *d, struct peer *peer, uint32_t id, struct process *p,
			     const unsigned *numbers, unsigned n_slots)
{
	uint64_t now_ns = clock_now_ns(), n = 0;
	bool is_idle = true;

	for (unsigned slot = 0; slot < n_slots && is_idle; slot++)
		is_idle = !holds_or_waits(d, p, slot, now_ns);
	for (unsigned slot = 0; slot < n_slots; slot++) {
		struct wire_ps_item m = { 0 };
		struct ledger_process_figures f;

		if ((!is_idle && !holds_or_waits(d, p, slot, now_ns)) ||
		    ledger_process_figures(d->ledger, p->account, slot, now_ns, &f) < 0)
			continue;
		fill_job(d, p->job, slot, &m);
		fill_gpu(d, numbers[slot], &m);
		fill_process(d, p, slot, &f, now_ns, &m);
		m.pid = sight_pid(d, peer, p->entry.pid);
		peer_send(peer, WIRE_PS_ITEM, id, &m);
		n++;
	}
	return n;
}

/* a job without a process: a line for each of its GPUs, and one for all while it has none */
static uint64_t list_bare_job(struct daemon *d, struct peer *peer, uint32_t id,
			      const struct job *job, const unsigned *numbers, unsigned n_slots)
{
	unsigned n = n_slots ? n_slots : 1;

	for (unsigned slot = 0; slot < n; slot++) {
		struct wire_ps_item m = { .flags = WIRE_PS_NO_GPU,
					  .drift_bytes = WIRE_UNKNOWN_U64,
					  .state = job->is_admitted
							   ? WIRE_STATE_RUNNING
							   : WIRE_STATE_WAITING_ADMISSION };

		m.pid = sight_pid(d, peer, job->spec.keeper_pid);
		fill_job(d, job, slot, &m);
		if (n_slots)
			fill_gpu(d, numbers[slot], &m);
		else
			(void)str_copy(m.reason, sizeof(m.reason), job->told.text);
		peer_send(peer, WIRE_PS_ITEM, id, &m);
	}
	return n;
}

/* a line for each process on each GPU it holds something of, at the least one for the job */
uint64_t person_list_job(struct daemon *d, struct peer *peer, uint32_t id, struct job *job)
{
	unsigned numbers[LEDGER_MAX_SLOTS];
	unsigned n_slots = job->is_admitted ? ledger_job_slots(job->lease, numbers) : 0;
	struct process *p;
	uint64_t n = 0;

	list_for_each (p, &job->processes, node)
		n += list_process(d, peer, id, p, numbers, n_slots);
	return n ? n : list_bare_job(d, peer, id, job, numbers, n_slots);
}

static uint64_t list_strangers(struct daemon *d, struct peer *peer, uint32_t id, unsigned number)
{
	const struct gpu *gpu = gpus_at(d->gpus, number);
	uint64_t n = 0;

	for (unsigned i = 0; i < gpu->n_strangers; i++) {
		const struct stranger *s = &gpu->strangers[i];
		struct wire_ps_item m = { .pid = sight_pid(d, peer, s->pid),
					  .flags = WIRE_PS_UNFENCED,
					  .state = WIRE_STATE_UNMANAGED,
					  .job_class = WIRE_CLASS_NORMAL,
					  .vram_used_bytes =
						  s->is_known ? s->bytes : WIRE_UNKNOWN_U64,
					  .vram_limit_bytes = WIRE_UNKNOWN_U64,
					  .drift_bytes = WIRE_UNKNOWN_U64,
					  .compute_min_permille = WIRE_UNKNOWN_U32,
					  .compute_max_permille = WIRE_UNKNOWN_U32,
					  .compute_got_permille = WIRE_UNKNOWN_U32 };
		uid_t uid = (uid_t)-1;

		if (process_by_pid(&d->registry, s->pid)) /* it has attached since that sample */
			continue;
		n++;
		fill_gpu(d, number, &m);
		if (!unmanaged_fill(d->unmanaged, number, s->pid, &m)) {
			/* gone, or not to be seen: unknown */
			(void)proc_uid(d->proc_root, s->pid, &uid);
			m.uid = uid;
			(void)commands_read(d->commands, d->proc_root, s->pid, m.command,
					    sizeof(m.command));
		}
		peer_send(peer, WIRE_PS_ITEM, id, &m);
	}
	return n;
}

void person_ps(struct daemon *d, struct peer *peer, const struct wire_message *msg)
{
	struct wire_end end = { 0 };
	struct job *job;

	list_for_each (job, &d->registry.jobs, node)
		end.count += person_list_job(d, peer, msg->request_id, job);
	for (unsigned i = 0; i < gpus_count(d->gpus); i++)
		end.count += list_strangers(d, peer, msg->request_id, i);
	peer_send(peer, WIRE_END, msg->request_id, &end);
}

/* ---- status ---- */

static void list_jobs_of_gpu(const struct daemon *d, unsigned number, struct wire_status_item *m)
{
	const struct job *job;

	list_for_each (job, &d->registry.jobs, node) {
		if (!job->is_admitted || ledger_job_slot_of(job->lease, number) < 0)
			continue;
		if (m->n_jobs < ARRAY_SIZE(m->jobs))
			m->jobs[m->n_jobs] = job->spec.id;
		m->n_jobs++;
	}
}

static void fill_status(struct daemon *d, unsigned number, uint64_t now_ns,
			struct wire_status_item *m)
{
	const struct sampler_gpu *last = &gpus_at(d->gpus, number)->last;
	struct ledger_gpu_figures f = { 0 };

	(void)ledger_gpu_figures(d->ledger, number, &f); /* it exists */
	m->gpu = last->uuid;
	m->gpu_index = last->index;
	m->mig_index = last->mig_index;
	m->gi = last->gi;
	m->ci = last->ci;
	if (last->known & SAMPLER_INSTANCE)
		m->flags |= WIRE_STATUS_MIG;
	if (f.closed)
		m->flags |= WIRE_STATUS_MIG_MODE;
	m->vram_total_bytes = f.total_bytes;
	m->vram_used_bytes = f.used_known ? f.used_bytes : WIRE_UNKNOWN_U64;
	m->vram_allocatable_bytes = f.allocatable_bytes;
	m->vram_requested_bytes = f.requested_bytes;
	m->vram_limits_bytes = f.limits_bytes;
	m->vram_unmanaged_bytes = f.unmanaged_bytes;
	m->vram_held_bytes = f.held_bytes;
	m->vram_drift_bytes = (uint64_t)f.drift_bytes;
	m->vram_grantable_bytes = f.grantable_bytes;
	m->vram_burst_bytes = f.burst_bytes;
	m->utilization_pct =
		last->known & SAMPLER_UTILIZATION ? last->utilization_pct : WIRE_UNKNOWN_U32;
	m->temperature_c =
		last->known & SAMPLER_TEMPERATURE ? last->temperature_c : WIRE_UNKNOWN_U32;
	m->power_mw = last->known & SAMPLER_POWER ? last->power_mw : WIRE_UNKNOWN_U32;
	m->waiting = f.waiting;
	m->waiting_first = f.waiting_first;
	m->n_unmanaged = gpus_at(d->gpus, number)->n_strangers;
	m->n_unmanaged_ended = unmanaged_killed(d->unmanaged, number);
	if (unmanaged_is_kill(d->unmanaged, number))
		m->flags |= WIRE_STATUS_KILL;
	m->sample_age_ns =
		size_sat_sub(now_ns, size_max(f.sample_ns, gpus_at(d->gpus, number)->seen_ns));
	if (f.lost)
		m->flags |= WIRE_STATUS_LOST;
	if (sampler_trouble(d->sampler)[0])
		m->flags |= WIRE_STATUS_STALE;
	/* the ledger's figures hold; what a card does at this moment is not known from before */
	if (m->flags & (WIRE_STATUS_LOST | WIRE_STATUS_STALE))
		m->utilization_pct = m->temperature_c = m->power_mw = WIRE_UNKNOWN_U32;
	memcpy(m->pci_bus_id, last->pci_bus_id, sizeof(m->pci_bus_id));
	(void)str_copy(m->model, sizeof(m->model), last->model);
	list_jobs_of_gpu(d, number, m);
}

/* a card, then its instances: the order in which people look for them */
static uint32_t rank_of(const struct gpu *gpu)
{
	return gpu->last.index << 16 | (gpus_is_instance(gpu) ? gpu->last.mig_index + 1 : 0);
}

static void order_gpus(const struct daemon *d, unsigned ret[LEDGER_MAX_GPUS])
{
	for (unsigned i = 0; i < gpus_count(d->gpus); i++) {
		unsigned k = i;

		for (; k && rank_of(gpus_at(d->gpus, ret[k - 1])) > rank_of(gpus_at(d->gpus, i));
		     k--)
			ret[k] = ret[k - 1];
		ret[k] = i;
	}
}

void person_status(struct daemon *d, struct peer *peer, const struct wire_message *msg)
{
	struct wire_end end = { 0 };
	unsigned order[LEDGER_MAX_GPUS];
	uint64_t now = clock_now_ns();

	order_gpus(d, order);
	for (unsigned i = 0; i < gpus_count(d->gpus); i++) {
		struct wire_status_item m = { 0 };

		if (gpus_is_forgotten(d->gpus, order[i], now))
			continue;
		fill_status(d, order[i], now, &m);
		peer_send(peer, WIRE_STATUS_ITEM, msg->request_id, &m);
		end.count++;
	}
	peer_send(peer, WIRE_END, msg->request_id, &end);
}

void person_daemon(struct daemon *d, struct peer *peer, const struct wire_message *msg)
{
	struct wire_daemon_info m = { .pid = sight_pid(d, peer, getpid()),
				      .uid = geteuid(),
				      .system = d->instance.is_system,
				      .simulated = d->is_simulated,
				      .n_gpus = gpus_count(d->gpus),
				      .n_jobs = d->registry.n_jobs,
				      .n_clients = d->registry.n_processes,
				      .nvml_ok = gpus_is_known(d->gpus) &&
						 !sampler_trouble(d->sampler)[0],
				      .uptime_ns = clock_now_ns() - d->started_ns };
	const char *nvml = sampler_trouble(d->sampler), *store = store_trouble(d->store);

	(void)str_copy(m.version, sizeof(m.version), ALLOT_VERSION);
	(void)str_copy(m.driver_version, sizeof(m.driver_version), gpus_driver_version(d->gpus));
	(void)str_copy(m.driver_dir, sizeof(m.driver_dir), d->driver_dir);
	(void)str_copy(m.state_dir, sizeof(m.state_dir), d->instance.state_dir);
	(void)str_copy(m.socket, sizeof(m.socket), d->instance.socket);
	(void)str_print(m.trouble, sizeof(m.trouble), "%s%s%s", nvml,
			nvml[0] && store[0] ? "; " : "", store);
	(void)str_copy(m.claim, sizeof(m.claim), d->instance.claims.note);
	m.has_cgroups = scopes_text(d->scopes, m.cgroups, sizeof(m.cgroups));
	peer_send(peer, WIRE_DAEMON_INFO, msg->request_id, &m);
}

/* ---- changes ---- */

/* the job, when this person may change it; NULL after the refusal was sent */
static struct job *own_job(struct daemon *d, struct peer *peer, uint32_t request_id, uint64_t id,
			   struct job **ret_inside)
{
	struct job *job = job_by_id(&d->registry, id);
	struct proc_info info;

	if (!job) {
		peer_refuse(peer, request_id, WIRE_CODE_NO_SUCH, "no job %llu",
			    (unsigned long long)id);
		return NULL;
	}
	*ret_inside = peer->pid > 0 ? registry_whose(d, peer->pid, &info) : NULL;
	if (peer->uid != 0 && peer->uid != job->spec.uid && !settings_is_admin(d, peer)) {
		peer_refuse(peer, request_id, WIRE_CODE_NOT_PERMITTED, "job %llu belongs to uid %u",
			    (unsigned long long)id, job->spec.uid);
		return NULL;
	}
	if (*ret_inside && !job_is_inside(job, *ret_inside)) {
		peer_refuse(peer, request_id, WIRE_CODE_NOT_PERMITTED,
			    "from inside job %llu no other job can be changed",
			    (unsigned long long)(*ret_inside)->spec.id);
		return NULL;
	}
	return job;
}

void person_set(struct daemon *d, struct peer *peer, const struct wire_message *msg)
{
	const struct wire_set *m = msg->payload;
	struct job *inside, *job = own_job(d, peer, msg->request_id, m->job_id, &inside);
	struct err err = { 0 };
	enum wire_code code;

	if (!job)
		return;
	code = change_job(d, job, m->key, m->value, inside != NULL, &err);
	if (code) {
		peer_refuse(peer, msg->request_id, code, "%s", err.text);
		return;
	}
	jobs_store(job);
	log_info("job %llu (%s): uid %u set %s to %s", (unsigned long long)job->spec.id,
		 job->spec.name, peer->uid, m->key, m->value);
	peer_ok(peer, msg->request_id, job->spec.id);
}

void person_cancel(struct daemon *d, struct peer *peer, const struct wire_message *msg)
{
	const struct wire_cancel *m = msg->payload;
	struct job *inside, *job = own_job(d, peer, msg->request_id, m->job_id, &inside);
	int signal = m->signal ? (int)m->signal : SIGTERM;
	char by[32];

	if (!job)
		return;
	if (signal < 1 || signal > SIGRTMAX) {
		peer_refuse(peer, msg->request_id, WIRE_CODE_USAGE, "%d is no signal", signal);
		return;
	}
	(void)str_print(by, sizeof(by), "uid %u", peer->uid);
	peer_ok(peer, msg->request_id, jobs_cancel(d, job, signal, by));
}
