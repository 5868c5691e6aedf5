// SPDX-License-Identifier: Apache-2.0
/* ATTACH, and the other ways in which allotd learns of a process: programs.h */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "config/config.h"
#include "daemon/daemon.h"
#include "daemon/gpus.h"
#include "daemon/life.h"
#include "daemon/peers.h"
#include "daemon/programs.h"
#include "daemon/sight.h"
#include "gpu/proc.h"
#include "policy/ledger.h"

static void fill_attached(struct daemon *d, const struct job *job, struct wire_attached *m)
{
	unsigned numbers[LEDGER_MAX_SLOTS];

	m->job_id = job->spec.id;
	m->n_gpus = ledger_job_slots(job->lease, numbers);
	m->fail_policy = job->spec.fail_policy;
	m->system_gpus = gpus_count(d->gpus);
	m->grace_ns = d->config->jobs_away_grace;
	(void)str_copy(m->driver_dir, sizeof(m->driver_dir), d->driver_dir);
	(void)str_copy(m->job_name, sizeof(m->job_name), job->spec.name);
	for (unsigned i = 0; i < m->n_gpus; i++) {
		const struct gpu *gpu = gpus_at(d->gpus, numbers[i]);
		struct wire_lease_gpu *to = &m->gpus[i];
		bool has_limit;

		to->uuid = gpu->last.uuid;
		to->total_bytes = gpu->last.total_bytes;
		to->limit_bytes = ledger_job_limit(job->lease, i, &has_limit);
		to->has_limit = has_limit;
		to->index = gpu->last.index;
		to->flags = gpus_is_instance(gpu) ? WIRE_GPU_MIG : 0;
		to->mig_index = gpu->last.mig_index;
		memcpy(to->pci_bus_id, gpu->last.pci_bus_id, sizeof(to->pci_bus_id));
	}
}

void programs_keep(struct job *job)
{
	struct process *p;

	list_for_each (p, &job->processes, node)
		if (p->page_fd >= 0)
			(void)life_finish(p); /* one that cannot be watched is tried again */
}

/* the process that is there already, unless its number belongs to somebody else by now */
static struct process *known_process(struct daemon *d, pid_t pid)
{
	struct process *p = process_by_pid(&d->registry, pid);

	return p && pidfd_is_alive(p->pidfd) ? p : NULL;
}

/* *ret_fresh: the shim needs the page, too */
static int find_process(struct daemon *d, struct peer *peer, const struct wire_attach *m,
			int page_fd, struct process **ret, bool *ret_fresh, struct err *err)
{
	struct process *p = known_process(d, peer->pid);
	struct proc_info info;
	struct job *job;
	int r;

	*ret_fresh = false;
	if (p && p->page && (m->stream > 0 || (page_fd >= 0 && life_has_page(p, page_fd)))) {
		*ret = p;
		return 0;
	}
	if (p && p->page) {
		*ret = p;
		*ret_fresh = true;
		return life_exec(ret, err);
	}
	job = p ? p->job : registry_of_pidfd(d, peer->pid, peer->pidfd, &info);
	if (p)
		info = (struct proc_info){ .pid = peer->pid, .start_ticks = p->start_ticks };
	if (!job || !job->is_admitted)
		return err_set(err, -ENOENT,
			       "process %d belongs to no job: start it with 'allot run'",
			       sight_pid(d, peer, peer->pid));
	if (peer->pidfd < 0 || !info.pid || (info.start_ticks && !pidfd_is_alive(peer->pidfd)))
		return err_set(err, -ESRCH, "process %d is gone", peer->pid);
	/* until now only NVML knew it: what it was charged there goes over to the account it gets
	 */
	if (page_fd >= 0 && job->is_restored) {
		if (!info.start_ticks &&
		    (proc_read(d->proc_root, peer->pid, &info) < 0 || !pidfd_is_alive(peer->pidfd)))
			return err_set(err, -ESRCH, "process %d is gone", peer->pid);
		r = life_adopt(job, peer->pid, info.start_ticks, &peer->pidfd, page_fd, ret, err);
		if (r == 0 && p)
			life_replace(p, *ret);
		if (r != -EINVAL) /* else no page of ours: it gets a fresh one */
			return r;
	}
	*ret_fresh = true;
	if (p) {
		*ret = p;
		return life_exec(ret, err);
	}
	return life_begin(job, peer->pid, info.start_ticks, &peer->pidfd, ret, err);
}

static void attach_program(struct daemon *d, struct peer *peer, const struct wire_message *msg,
			   int page_fd)
{
	const struct wire_attach *m = msg->payload;
	struct wire_attached answer = { 0 };
	struct process *p;
	struct err err;
	bool is_fresh;
	int bell = -1;
	int r = find_process(d, peer, m, page_fd, &p, &is_fresh, &err);

	if (r >= 0) {
		ledger_process_attach(d->ledger, p->account, clock_now_ns());
		r = bell = life_bell(p);
		if (r < 0)
			err_set(&err, r, "cannot make a doorbell: %s", strerror(-r));
	}
	if (r < 0) {
		peer_refuse(peer, msg->request_id,
			    r == -ENOENT ? WIRE_CODE_NO_SUCH : WIRE_CODE_FAILED, "%s", err.text);
		return;
	}
	peer->process = p;
	p->uid = peer->uid;
	list_append(&p->peers, &peer->process_node);
	fill_attached(d, p->job, &answer);
	answer.fresh_page = is_fresh;
	if (is_fresh) {
		const int fds[] = { p->page_fd, bell };

		peer_send_fds(peer, WIRE_ATTACHED, msg->request_id, &answer, fds, 2);
	} else {
		/* further connections share the bell; one that comes back may have lost it */
		peer_send_fds(peer, WIRE_ATTACHED, msg->request_id, &answer, &bell, m->stream == 0);
	}
}

static void attach_observer(struct daemon *d, struct peer *peer, const struct wire_message *msg)
{
	struct wire_attached answer = { 0 };
	struct proc_info info;
	struct job *job = registry_whose(d, peer->pid, &info);

	if (!job || !job->is_admitted) {
		peer_refuse(peer, msg->request_id, WIRE_CODE_NO_SUCH,
			    "process %d belongs to no job: start it with 'allot run'",
			    sight_pid(d, peer, peer->pid));
		return;
	}
	peer->is_observer = true;
	peer->observed_job = job->spec.id;
	fill_attached(d, job, &answer);
	peer_send(peer, WIRE_ATTACHED, msg->request_id, &answer);
}

void programs_attach(struct daemon *d, struct peer *peer, const struct wire_message *msg, int *fds,
		     unsigned n_fds)
{
	const struct wire_attach *m = msg->payload;
	bool has_page = (m->flags & WIRE_ATTACH_HAS_PAGE) && n_fds > 0;

	if (peer->process || peer->is_observer || peer->job)
		peer_refuse(peer, msg->request_id, WIRE_CODE_USAGE,
			    "this connection has said already what it is");
	else if (peer->pid <= 0)
		peer_refuse(peer, msg->request_id, WIRE_CODE_NOT_SUPPORTED,
			    "your process lives in a PID namespace that allotd cannot see");
	else if (m->role == WIRE_ROLE_OBSERVER)
		attach_observer(d, peer, msg);
	else if (m->role == WIRE_ROLE_CUDA)
		attach_program(d, peer, msg, has_page ? fds[0] : -1);
	else
		peer_refuse(peer, msg->request_id, WIRE_CODE_USAGE, "role %u is unknown", m->role);
}

struct process *programs_of_pid(struct daemon *d, pid_t pid, unsigned gpu)
{
	struct process *p = process_by_pid(&d->registry, pid);
	struct proc_info info;
	struct pid_entry *e;
	struct job *job;

	if (p)
		return p;
	/* dead, and its memory not yet gone: NVML may show it for a while */
	list_for_each (e, &d->registry.processes[(unsigned)pid % REGISTRY_BUCKETS], node)
		if (e->pid == pid)
			return list_entry(&e->node, struct process, entry.node);
	job = registry_whose(d, pid, &info);
	if (!job || !job->is_admitted || info.state == 'Z' ||
	    ledger_job_slot_of(job->lease, gpu) < 0)
		return NULL;
	AUTO_FD int pidfd = fd_pidfd_open(pid);

	if (pidfd < 0 || !proc_is_same(d->proc_root, pid, info.start_ticks) ||
	    life_seen(job, pid, info.start_ticks, &pidfd, &p) < 0)
		return NULL;
	return p;
}

int programs_kept(struct daemon *d, struct job *job, uint64_t number, int fd)
{
	pid_t pid = process_number_pid(number);
	struct process *p = process_by_number(&d->registry, number), *adopted;
	struct proc_info info;
	struct job *owner;
	uid_t uid;
	int r;

	if (p && p->page)
		return p->job == job ? 0 : -EINVAL; /* its shim was faster */
	owner = registry_whose(d, pid, &info);
	if (!info.start_ticks || process_number(pid, info.start_ticks) != number ||
	    info.state == 'Z')
		return -ESRCH;
	/* one that slipped away from its keeper is still of the same user */
	if (owner ? owner != job : proc_uid(d->proc_root, pid, &uid) < 0 || uid != job->spec.uid)
		return -EINVAL;
	AUTO_FD int pidfd = fd_pidfd_open(pid);

	if (pidfd < 0 || !proc_is_same(d->proc_root, pid, info.start_ticks))
		return -ESRCH;
	r = life_adopt(job, pid, info.start_ticks, &pidfd, fd, &adopted, NULL);
	if (r == 0 && p)
		life_replace(p, adopted);
	return r;
}
