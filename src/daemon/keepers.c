// SPDX-License-Identifier: Apache-2.0
/* what keepers say once their job runs, and how a job comes back after a restart: jobs.h */
#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "config/config.h"
#include "daemon/daemon.h"
#include "daemon/gpus.h"
#include "daemon/jobs.h"
#include "daemon/life.h"
#include "daemon/peers.h"
#include "daemon/programs.h"
#include "daemon/runs.h"
#include "daemon/sight.h"
#include "daemon/store.h"
#include "gpu/proc.h"
#include "policy/ledger.h"

#define KEEPERS_MAX_PAGES   4096 /* that a keeper may bring back */
#define KEEPERS_MAX_MEMBERS 1024

static unsigned long long id_of(const struct job *job)
{
	return (unsigned long long)job->spec.id;
}

static struct job *kept_job(struct peer *peer, const struct wire_message *msg)
{
	if (peer->job && peer->job->is_admitted)
		return peer->job;
	peer_refuse(peer, msg->request_id, WIRE_CODE_USAGE, "%s from somebody who keeps no job",
		    wire_name(msg->type));
	return NULL;
}

void jobs_started(struct daemon *d, struct peer *peer, const struct wire_message *msg)
{
	const struct wire_started *m = msg->payload;
	struct job *job = kept_job(peer, msg);
	struct proc_info info, keeper;

	pid_t command;

	if (!job || m->pid <= 0)
		return;
	command = sight_child(d, peer, m->pid);
	/* a session that began with this command belongs to the job alone, whoever leaves the tree
	 */
	if (proc_read(d->proc_root, command, &info) == 0 && info.ppid == peer->pid &&
	    proc_read(d->proc_root, peer->pid, &keeper) == 0 && info.session == info.pid &&
	    info.session != keeper.session) {
		job->spec.session = info.session;
		jobs_store(job);
	}
	log_debug("job %llu runs as process %d", id_of(job), command);
}

static void note_end(struct job *job, int status)
{
	if (WIFSIGNALED(status))
		log_info("job %llu (%s) ended by signal %d", id_of(job), job->spec.name,
			 WTERMSIG(status));
	else
		log_info("job %llu (%s) ended with %d", id_of(job), job->spec.name,
			 WEXITSTATUS(status));
	runs_ended(job, true, status);
	jobs_end_command(job);
}

void jobs_ended(struct daemon *d, struct peer *peer, const struct wire_message *msg)
{
	const struct wire_ended *m = msg->payload;
	struct job *job = kept_job(peer, msg);

	(void)d;
	if (!job)
		return;
	if (!job->spec.is_ended)
		note_end(job, (int)m->status);
	if (msg->request_id) /* its last word, and it waits until we have it */
		peer_ok(peer, msg->request_id, job->spec.id);
}

void jobs_resume(struct daemon *d, struct peer *peer, const struct wire_message *msg)
{
	const struct wire_resume *m = msg->payload;
	struct job *job = job_by_id(&d->registry, m->job_id);

	if (peer->job || peer->process || peer->is_observer || m->n_pages > KEEPERS_MAX_PAGES) {
		peer_refuse(peer, msg->request_id, WIRE_CODE_USAGE, "RESUME out of place");
		return;
	}
	if (!job || !job->is_admitted) {
		peer_refuse(peer, msg->request_id, WIRE_CODE_NO_SUCH, "job %llu is not known here",
			    (unsigned long long)m->job_id);
		return;
	}
	if (job->is_keeper_dead || job->spec.is_adopted || job->spec.keeper_pid != peer->pid) {
		peer_refuse(peer, msg->request_id, WIRE_CODE_NOT_PERMITTED,
			    "process %d is not the keeper of job %llu", peer->pid, id_of(job));
		return;
	}
	if (job->keeper) { /* its old connection, not yet seen to be closed */
		job->keeper->job = NULL;
		peer_end(job->keeper);
	}
	job->keeper = peer;
	peer->job = job;
	peer->n_kept = m->n_pages;
	if (m->ended && !job->spec.is_ended)
		note_end(job, (int)m->status);
}

void jobs_kept(struct daemon *d, struct peer *peer, const struct wire_message *msg, int *fds,
	       unsigned n_fds)
{
	const struct wire_kept *m = msg->payload;
	struct job *job = kept_job(peer, msg);
	struct wire_drop drop = { .process = m->process };
	int r;

	if (!job)
		return;
	if (peer->n_kept == 0) {
		peer_refuse(peer, msg->request_id, WIRE_CODE_USAGE, "more pages than announced");
		return;
	}
	peer->n_kept--;
	r = n_fds == 1 ? programs_kept(d, job, m->process, fds[0]) : -EINVAL;
	if (r < 0 && r != -ESRCH)
		log_warn("a page that the keeper of job %llu brought is not taken: %s", id_of(job),
			 strerror(-r));
	if (r < 0)
		peer_send(peer, WIRE_DROP, 0, &drop);
}

void jobs_all_kept(struct daemon *d, struct peer *peer, const struct wire_message *msg)
{
	struct job *job = kept_job(peer, msg);

	if (!job)
		return;
	job->is_resumed = true;
	peer_ok(peer, msg->request_id, job->spec.id);
	programs_keep(job);
	if (job->cancel_signal) {
		struct wire_signal m = { .signal = job->cancel_signal,
					 .grace_ns = d->config->jobs_kill_grace };

		peer_send(peer, WIRE_SIGNAL, 0, &m);
		job->cancel_signal = 0;
	}
}

/* both its keeper and its allotd died: those of its processes that are known and still live */
static void find_members(struct job *job)
{
	struct daemon *d = job->daemon;
	uint64_t numbers[KEEPERS_MAX_MEMBERS];
	unsigned n = store_members(d->store, job->spec.id, numbers, KEEPERS_MAX_MEMBERS);

	for (unsigned i = 0; i < n; i++) {
		pid_t pid = process_number_pid(numbers[i]);
		AUTO_FD int pidfd = fd_pidfd_open(pid);
		struct proc_info info;
		struct process *p;

		if (pidfd >= 0 && proc_read(d->proc_root, pid, &info) == 0 && info.state != 'Z' &&
		    process_number(pid, info.start_ticks) == numbers[i])
			(void)life_seen(job, pid, info.start_ticks, &pidfd,
					&p); /* else unmanaged */
	}
}

int jobs_restore(struct daemon *d, const struct job_spec *stored)
{
	AUTO_FD int pidfd = fd_pidfd_open(stored->keeper_pid);
	struct ledger_job_spec spec;
	struct job *job;
	int r;

	if (pidfd >= 0 && !proc_is_same(d->proc_root, stored->keeper_pid, stored->keeper_start)) {
		close(pidfd);
		pidfd = -1;
	}
	/* one that fell off the bus, or that the driver does not show yet */
	for (unsigned i = 0; i < stored->n_gpus; i++)
		if (gpus_find(d->gpus, &stored->gpus[i]) < 0)
			(void)gpus_recall(d->gpus, &stored->gpus[i]); /* a failure shows below */
	job = job_new(d, stored, pidfd);
	if (!job)
		return -ENOMEM;
	(void)TAKE_FD(pidfd);
	job->is_restored = true;
	job->is_admitted = true;
	d->registry.n_waiting--;
	jobs_to_ledger(job, NULL, 0, &spec);
	spec.n_listed = stored->n_gpus;
	for (unsigned i = 0; i < stored->n_gpus; i++) {
		r = gpus_find(d->gpus, &stored->gpus[i]);
		if (r < 0)
			goto fail;
		spec.listed[i] = (unsigned)r;
	}
	r = ledger_job_restore(d->ledger, &spec, job, clock_now_ns(), &job->lease);
	if (r < 0)
		goto fail;
	for (unsigned i = 0; i < stored->n_gpus; i++)
		if (stored->ceilings[i])
			(void)ledger_view_restore(job->lease, i, stored->ceilings[i]);
	if (stored->is_ended)
		ledger_job_end(d->ledger, job->lease, clock_now_ns());
	if (!job->is_keeper_dead && jobs_watch_keeper(job) < 0)
		log_warn("cannot watch the keeper of job %llu, ignoring", id_of(job));
	if (job->is_keeper_dead || stored->is_adopted)
		find_members(job);
	job->is_resumed = stored->is_adopted; /* it has no keeper to wait for */
	return 0;

fail:
	job_free(job);
	return r;
}
