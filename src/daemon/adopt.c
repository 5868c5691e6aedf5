// SPDX-License-Identifier: Apache-2.0
#include "daemon/adopt.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/fmt.h"
#include "base/log.h"
#include "base/size.h"
#include "base/str.h"
#include "daemon/commands.h"
#include "daemon/daemon.h"
#include "daemon/gpus.h"
#include "daemon/jobs.h"
#include "daemon/life.h"
#include "daemon/peers.h"
#include "daemon/sampler.h"
#include "gpu/proc.h"
#include "gpu/proc_kind.h"
#include "policy/ledger.h"

#define ADOPT_MAX 1024 /* processes of one tree that hold GPU memory */

/* what the tree below the process holds, found among those that are nobody's */
struct tree {
	pid_t root;
	struct proc_info info; /* of the root */
	uid_t uid;
	unsigned n_gpus, gpus[WIRE_MAX_GPUS];
	uint64_t held[WIRE_MAX_GPUS]; /* by the same place */
	unsigned n_pids;
	pid_t pids[ADOPT_MAX]; /* each once */
	bool is_cut, has_graphics;
};

static bool is_root(pid_t pid, void *context)
{
	return pid == *(const pid_t *)context;
}

static bool is_below(const struct daemon *d, pid_t pid, pid_t root)
{
	return pid == root || proc_find_ancestor(d->proc_root, pid, is_root, &root) == root;
}

static void add_pid(struct tree *t, pid_t pid)
{
	for (unsigned i = 0; i < t->n_pids; i++)
		if (t->pids[i] == pid)
			return;
	if (t->n_pids == ADOPT_MAX)
		t->is_cut = true;
	else
		t->pids[t->n_pids++] = pid;
}

/* a GPU of which NVML has no figures: alone there, it holds all that is unmanaged */
static void note_unknown(struct daemon *d, unsigned number, unsigned n_others, uint64_t *held)
{
	struct ledger_gpu_figures f = { 0 };

	(void)ledger_gpu_figures(d->ledger, number, &f); /* it exists */
	if (n_others == 0)
		*held = size_max(*held, f.unmanaged_bytes);
}

static void find_on_gpu(struct daemon *d, unsigned number, struct tree *t)
{
	const struct gpu *gpu = gpus_at(d->gpus, number);
	unsigned before = t->n_gpus, n_others = 0;
	bool has_unknown = false;

	for (unsigned i = 0; i < gpu->n_strangers; i++) {
		const struct stranger *s = &gpu->strangers[i];

		if (process_by_pid(&d->registry, s->pid))
			continue;
		if (!is_below(d, s->pid, t->root)) {
			n_others++;
			continue;
		}
		if (t->n_gpus == before) {
			if (before == WIRE_MAX_GPUS) {
				t->is_cut = true;
				return;
			}
			t->gpus[t->n_gpus++] = number;
		}
		has_unknown = has_unknown || !s->is_known;
		if (s->is_known)
			t->held[before] = size_sat_add(t->held[before], s->bytes);
		t->has_graphics = t->has_graphics || (s->kinds & SAMPLER_PROC_GRAPHICS);
		add_pid(t, s->pid);
	}
	if (has_unknown)
		note_unknown(d, number, n_others, &t->held[before]);
}

/* ---- who may be adopted, by whom ---- */

static enum wire_code refuse(struct err *err, enum wire_code code, const char *text)
{
	(void)err_set(err, -EINVAL, "%s", text); /* the code goes back */
	return code;
}

static enum wire_code check_asker(struct daemon *d, const struct peer *peer, const struct tree *t,
				  struct err *err)
{
	struct proc_info info;
	struct job *inside = peer->pid > 0 ? registry_whose(d, peer->pid, &info) : NULL;

	if (inside) {
		(void)err_set(err, -EPERM, "from inside job %llu nothing can be adopted",
			      (unsigned long long)inside->spec.id);
		return WIRE_CODE_NOT_PERMITTED;
	}
	if (peer->uid != 0 && peer->uid != t->uid) {
		(void)err_set(err, -EPERM,
			      "process %d belongs to uid %u: only that user and root may", t->root,
			      t->uid);
		return WIRE_CODE_NOT_PERMITTED;
	}
	return 0;
}

static enum wire_code check_kind(struct daemon *d, const struct tree *t, struct err *err)
{
	struct proc_info info;
	struct job *job = registry_whose(d, t->root, &info);
	pid_t self = getpid();

	if (job) {
		(void)err_set(err, -EEXIST, "process %d is of job %llu (%s) already", t->root,
			      (unsigned long long)job->spec.id, job->spec.name);
		return WIRE_CODE_USAGE;
	}
	if (t->root == 1)
		return refuse(err, WIRE_CODE_USAGE, "process 1 is the parent of all others");
	if (proc_is_kernel(d->proc_root, t->root))
		return refuse(err, WIRE_CODE_USAGE, "that is a thread of the kernel");
	if (t->root == self || is_below(d, t->root, self))
		return refuse(err, WIRE_CODE_USAGE, "that is allotd itself, or a helper of it");
	if (is_below(d, self, t->root))
		return refuse(err, WIRE_CODE_USAGE,
			      "allotd itself runs below that process: adopt the program alone");
	if (proc_is_mps(d->proc_root, t->root))
		return refuse(err, WIRE_CODE_USAGE,
			      "that is NVIDIA's MPS service, through which other programs work");
	return 0;
}

static enum wire_code check_tree(const struct tree *t, struct err *err)
{
	if (t->has_graphics)
		return refuse(err, WIRE_CODE_USAGE,
			      "it draws on the screen: graphics are not shared out");
	if (t->is_cut)
		return refuse(err, WIRE_CODE_NOT_SUPPORTED,
			      "more of its processes hold GPU memory than one job can have");
	if (t->n_gpus == 0)
		return refuse(
			err, WIRE_CODE_FAILED,
			"neither it nor a child of it holds GPU memory that NVML shows: there "
			"is nothing to be accounted for; start it with 'allot run'");
	return 0;
}

/* ---- room ---- */

static uint64_t bytes_of(const struct wire_amount *a, uint64_t total)
{
	return a->bytes ? a->bytes : total / 1000 * a->permille;
}

/* what it holds counts as unmanaged until now, and will be its own: only more than that needs room
 */
static enum wire_code check_room(struct daemon *d, const struct wire_adopt *m, const struct tree *t,
				 struct err *err)
{
	for (unsigned i = 0; i < t->n_gpus; i++) {
		const struct gpu *gpu = gpus_at(d->gpus, t->gpus[i]);
		uint64_t total = gpu->last.total_bytes, request = bytes_of(&m->request, total);
		struct ledger_gpu_figures f = { 0 };
		struct fmt_buf a, b;
		uint64_t more = size_sat_sub(request, t->held[i]);

		(void)ledger_gpu_figures(d->ledger, t->gpus[i], &f); /* it exists */
		if (request > size_sat_sub(total, gpu->last.reserved_bytes)) {
			(void)err_set(err, -EDQUOT, "%s asked for, GPU %s can never give as much",
				      fmt_size(&a, request), gpu->label);
			return WIRE_CODE_NEVER_FITS;
		}
		if (more > f.grantable_bytes) {
			(void)err_set(
				err, -ENOSPC,
				"%s more than it holds is asked for, GPU %s can promise %s: ask "
				"for less, or wait",
				fmt_size(&a, more), gpu->label, fmt_size(&b, f.grantable_bytes));
			return WIRE_CODE_FAILED;
		}
	}
	return 0;
}

static enum wire_code check_amounts(const struct wire_adopt *m, struct err *err)
{
	const struct wire_amount *both[] = { &m->request, &m->limit };

	for (unsigned i = 0; i < 2; i++)
		if ((both[i]->bytes && both[i]->permille) || both[i]->permille > 1000)
			return refuse(err, WIRE_CODE_USAGE, "the amounts make no sense");
	if (m->job_class > WIRE_CLASS_BATCH)
		return refuse(err, WIRE_CODE_USAGE, "this class is unknown");
	return 0;
}

/* ---- the job ---- */

static void fill_spec(struct daemon *d, const struct wire_adopt *m, const struct peer *peer,
		      const struct tree *t, struct job_spec *spec)
{
	const char *slash;
	size_t len;

	*spec = (struct job_spec){ .id = ++d->registry.last_job,
				   .uid = t->uid,
				   .gid = peer->gid,
				   .keeper_pid = t->root,
				   .keeper_start = t->info.start_ticks,
				   .request = m->request,
				   .limit = m->limit,
				   .job_class = m->job_class,
				   .fail_policy = WIRE_FAIL_CLOSED,
				   .compute_max_permille = 1000,
				   .n_gpus = t->n_gpus,
				   .is_adopted = true };
	for (unsigned i = 0; i < t->n_gpus; i++)
		spec->gpus[i] = gpus_at(d->gpus, t->gpus[i])->last.uuid;
	(void)commands_read(d->commands, d->proc_root, t->root, spec->command,
			    sizeof(spec->command));
	(void)str_copy(spec->name, sizeof(spec->name), m->name);
	str_printable(spec->name);
	if (spec->name[0])
		return;
	len = strcspn(spec->command, " ");
	slash = memrchr(spec->command, '/', len);
	slash = slash ? slash + 1 : spec->command;
	len -= (size_t)(slash - spec->command);
	len = len < sizeof(spec->name) ? len : sizeof(spec->name) - 1;
	memcpy(spec->name, slash, len);
}

/* registered, its lease placed; NULL: no memory */
static struct job *make_job(struct daemon *d, const struct job_spec *spec, const struct tree *t,
			    int *pidfd)
{
	struct job *job = job_new(d, spec, *pidfd);
	struct ledger_job_spec to;
	int r;

	if (!job)
		return NULL;
	*pidfd = -1;
	jobs_to_ledger(job, NULL, 0, &to);
	to.n_listed = t->n_gpus;
	memcpy(to.listed, t->gpus, t->n_gpus * sizeof(to.listed[0]));
	r = ledger_job_restore(d->ledger, &to, job, clock_now_ns(), &job->lease);
	if (r == 0) {
		job->is_admitted = job->is_resumed = true;
		d->registry.n_waiting--;
		r = jobs_watch_keeper(job);
	}
	if (r >= 0)
		return job;
	if (job->lease) {
		ledger_job_end(d->ledger, job->lease, clock_now_ns());
		(void)ledger_job_free(d->ledger, job->lease, clock_now_ns()); /* it is empty */
	}
	job_free(job);
	return NULL;
}

/* its processes that hold something; how many */
static unsigned take_processes(struct job *job, const struct tree *t)
{
	struct daemon *d = job->daemon;
	unsigned n = 0;

	for (unsigned i = 0; i < t->n_pids; i++) {
		AUTO_FD int pidfd = fd_pidfd_open(t->pids[i]);
		struct proc_info info;
		struct process *p;

		/* whose it is was asked by number: now that it is held, once more */
		if (pidfd < 0 || registry_whose(d, t->pids[i], &info) != job || info.state == 'Z' ||
		    !pidfd_is_alive(pidfd) ||
		    life_seen(job, t->pids[i], info.start_ticks, &pidfd, &p) < 0)
			continue;
		n++;
	}
	return n;
}

static void answer(struct peer *peer, uint32_t request_id, const struct job *job,
		   const struct tree *t, unsigned n_processes)
{
	struct daemon *d = job->daemon;
	struct wire_adopted m = { .job_id = job->spec.id,
				  .n_processes = n_processes,
				  .n_gpus = t->n_gpus };

	for (unsigned i = 0; i < t->n_gpus; i++) {
		m.held_bytes = size_sat_add(m.held_bytes, t->held[i]);
		m.gpus[i] = job->spec.gpus[i];
		if (gpus_is_instance(gpus_at(d->gpus, t->gpus[i])))
			m.mig_gpus |= 1u << i;
	}
	(void)str_copy(m.name, sizeof(m.name), job->spec.name);
	(void)str_copy(m.command, sizeof(m.command), job->spec.command);
	peer_send(peer, WIRE_ADOPTED, request_id, &m);
}

/* the process behind @pidfd; a code and a text when it is not there, or not to be adopted */
static enum wire_code look(struct daemon *d, const struct peer *peer, const struct wire_adopt *m,
			   int pidfd, struct tree *t, struct err *err)
{
	enum wire_code code = check_amounts(m, err);
	int r = code ? 0 : proc_pid_of_pidfd(d->proc_root, pidfd, &t->root);

	if (code)
		return code;
	if (r == -EBADF)
		return refuse(err, WIRE_CODE_USAGE, "that descriptor is no pidfd");
	if (r < 0 || proc_read(d->proc_root, t->root, &t->info) < 0 || t->info.state == 'Z' ||
	    proc_uid(d->proc_root, t->root, &t->uid) < 0 || !pidfd_is_alive(pidfd)) {
		(void)err_set(err, -ESRCH, "there is no process %d, or allotd cannot see it",
			      m->pid);
		return WIRE_CODE_NO_SUCH;
	}
	code = check_asker(d, peer, t, err);
	if (!code)
		code = check_kind(d, t, err);
	if (code)
		return code;
	if (sampler_trouble(d->sampler)[0])
		return refuse(err, WIRE_CODE_FAILED,
			      "NVML does not answer: what it holds cannot be told now");
	for (unsigned i = 0; i < gpus_count(d->gpus); i++)
		if (!gpus_at(d->gpus, i)->is_lost)
			find_on_gpu(d, i, t);
	code = check_tree(t, err);
	return code ? code : check_room(d, m, t, err);
}

void adopt_process(struct daemon *d, struct peer *peer, const struct wire_message *msg, int *fds,
		   unsigned n_fds)
{
	int pidfd = n_fds == 1 ? fds[0] : -1; /* closed by the caller until it is ours */
	const struct wire_adopt *m = msg->payload;
	struct err err = { 0 };
	struct tree t = { 0 };
	struct job_spec spec;
	struct fmt_buf held;
	struct job *job;
	enum wire_code code;
	unsigned n;

	code = pidfd < 0 ? refuse(&err, WIRE_CODE_USAGE, "ADOPT comes with one pidfd")
			 : look(d, peer, m, pidfd, &t, &err);
	if (code == WIRE_CODE_FAILED)
		gpus_want_all(d->gpus); /* it may be otherwise since NVML was read */
	if (code) {
		peer_refuse(peer, msg->request_id, code, "%s", err.text);
		return;
	}
	fill_spec(d, m, peer, &t, &spec);
	job = make_job(d, &spec, &t, &pidfd);
	fds[0] = pidfd;
	if (!job) {
		peer_refuse(peer, msg->request_id, WIRE_CODE_FAILED,
			    "allotd has no memory, or too many jobs");
		return;
	}
	n = take_processes(job, &t);
	jobs_store(job);
	gpus_note_activity(d->gpus);
	gpus_want_all(d->gpus);
	log_info("job %llu (%s): uid %u adopted process %d, %u processes that hold %s",
		 (unsigned long long)job->spec.id, job->spec.name, peer->uid, t.root, n,
		 fmt_size(&held, t.held[0]));
	answer(peer, msg->request_id, job, &t, n);
	jobs_look(job);
}
