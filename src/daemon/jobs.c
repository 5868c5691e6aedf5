// SPDX-License-Identifier: Apache-2.0
#include "daemon/jobs.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/fmt.h"
#include "base/log.h"
#include "base/size.h"
#include "base/str.h"
#include "config/config.h"
#include "daemon/daemon.h"
#include "daemon/gpus.h"
#include "daemon/peers.h"
#include "daemon/probe.h"
#include "daemon/programs.h"
#include "daemon/runs.h"
#include "daemon/sampler.h"
#include "daemon/scope.h"
#include "daemon/store.h"
#include "daemon/wish.h"
#include "gpu/proc.h"
#include "policy/ledger.h"

#define EXIT_REFUSED          125  /* of allot run, for a job that never ran */
#define JOBS_MEMBERS_MAX      1024 /* processes of one job that are remembered without its keeper */
#define KEEPER_SLACK_NS       (2 * NS_PER_S) /* that it has beyond a cancel's grace */
#define KEEPER_DEATH_PRIORITY (SD_EVENT_PRIORITY_NORMAL + 10)

_Static_assert((int)LEDGER_CLASS_LATENCY == WIRE_CLASS_LATENCY &&
		       (int)LEDGER_CLASS_NORMAL == WIRE_CLASS_NORMAL &&
		       (int)LEDGER_CLASS_BATCH == WIRE_CLASS_BATCH,
	       "classes go over the wire as they are");

static unsigned long long id_of(const struct job *job)
{
	return (unsigned long long)job->spec.id;
}

void jobs_store(struct job *job)
{
	struct daemon *d = job->daemon;

	if (job->is_admitted)
		(void)store_put_job(d->store, &job->spec); /* it tells, and is behind then */
}

static void store_members_of(struct job *job)
{
	uint64_t numbers[JOBS_MEMBERS_MAX];
	struct process *p;
	unsigned n = 0;

	list_for_each (p, &job->processes, node)
		if (!p->is_dead && n < JOBS_MEMBERS_MAX && process_identify(p))
			numbers[n++] = p->number;
	(void)store_put_members(job->daemon->store, job->spec.id, numbers, n); /* it tells */
	job->has_new_members = false;
}

void jobs_store_members(struct daemon *d)
{
	struct job *job;

	list_for_each (job, &d->registry.jobs, node)
		if (job->has_new_members)
			store_members_of(job);
	d->registry.has_new_members = false;
}

static const struct job_spec *next_job(void *context)
{
	struct list **at = context;

	while (*at) {
		struct job *job = list_entry(*at, struct job, node);
		struct list *next = (*at)->next;

		*at = next == &job->daemon->registry.jobs ? NULL : next;
		if (job->is_admitted)
			return &job->spec;
	}
	return NULL;
}

void jobs_store_all(struct daemon *d)
{
	struct list *at = list_is_empty(&d->registry.jobs) ? NULL : d->registry.jobs.next;

	if (store_rewrite(d->store, next_job, &at) < 0)
		return;
	(void)store_put_last_job(d->store, d->registry.last_job); /* it tells */
	runs_store_behind(d);
}

/* ---- the end of a job ---- */

static bool has_living_process(const struct job *job)
{
	const struct process *p;

	list_for_each (p, &job->processes, node)
		if (!p->is_dead)
			return true;
	return false;
}

void jobs_end_command(struct job *job)
{
	if (job->spec.is_ended)
		return;
	job->spec.is_ended = true;
	ledger_job_end(job->daemon->ledger, job->lease, clock_now_ns());
	jobs_store(job);
	runs_ended(job, false, 0); /* where nobody has told how */
}

void jobs_look(struct job *job)
{
	while (job && job->is_keeper_dead && job->n_children == 0) {
		struct job *parent = job->parent;
		struct daemon *d = job->daemon;

		if (!has_living_process(job))
			jobs_end_command(job);
		if (!list_is_empty(&job->processes) ||
		    (job->lease && ledger_job_free(d->ledger, job->lease, clock_now_ns()) < 0))
			return;
		log_info("job %llu (%s) is over", id_of(job), job->spec.name);
		if (job->is_admitted)
			(void)store_remove_job(d->store, job->spec.id); /* it tells */
		job_free(job);
		job = parent;
	}
}

void jobs_look_all(struct daemon *d)
{
	struct registry *r = &d->registry;
	struct job *job;
	unsigned before;

	/* one may take those with it that it was nested in: then from the beginning */
	do {
		before = r->n_jobs;
		list_for_each (job, &r->jobs, node) {
			jobs_look(job);
			if (r->n_jobs != before)
				break;
		}
	} while (r->n_jobs != before);
}

/* a job that never ran: nobody waits for a place any more; @code: what its asker ends with */
static void give_up(struct job *job, int code)
{
	struct daemon *d = job->daemon;
	uint64_t now = clock_now_ns();

	runs_ended(job, code >= 0, code >= 0 ? code << 8 : 0);
	ledger_job_end(d->ledger, job->lease, now);
	(void)ledger_job_free(d->ledger, job->lease, now); /* it has no process and no child */
	job_free(job);
}

static int on_keeper_death(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct job *job = userdata;
	struct process *p;
	unsigned n = 0;

	(void)source, (void)fd, (void)revents;
	job->keeper_death = sd_event_source_disable_unref(job->keeper_death);
	job->is_keeper_dead = true;
	registry_forget(&job->daemon->registry);
	if (!job->is_admitted) {
		give_up(job, -1);
		return 0;
	}
	list_for_each (p, &job->processes, node)
		n += !p->is_dead;
	if (!job->spec.is_ended && n > 0 && !job->spec.is_adopted)
		log_warn("the keeper of job %llu (%s) died; %u of its processes live on",
			 id_of(job), job->spec.name, n);
	if (n > 0)
		store_members_of(job); /* nobody else knows them now */
	jobs_look(job);
	return 0;
}

int jobs_watch_keeper(struct job *job)
{
	int r = sd_event_add_io(job->daemon->event, &job->keeper_death, job->keeper_pidfd, EPOLLIN,
				on_keeper_death, job);

	/* after what has arrived by then: a child's ATTACH may keep the job alive */
	return r < 0 ? r : sd_event_source_set_priority(job->keeper_death, KEEPER_DEATH_PRIORITY);
}

void jobs_closed(struct daemon *d, struct peer *peer)
{
	struct job *job = peer->job;

	(void)d;
	if (!job)
		return;
	peer->job = NULL;
	job->keeper = NULL;
	if (!job->is_admitted)
		give_up(job, -1);
}

/* ---- RUN ---- */

static int check_amount(const struct wire_amount *a, const char *what, struct err *err)
{
	if (a->bytes && a->permille)
		return err_set(err, -EINVAL, "%s is both bytes and a part of the card", what);
	if (a->permille > 1000)
		return err_set(err, -EINVAL, "%s of %u permille is more than the card", what,
			       a->permille);
	return 0;
}

static int check_run(const struct wire_run *m, struct err *err)
{
	int r = check_amount(&m->request, "request", err);

	if (r == 0)
		r = check_amount(&m->limit, "limit", err);
	if (r < 0)
		return r;
	if (m->job_class > WIRE_CLASS_BATCH)
		return err_set(err, -EINVAL, "class %u is unknown", m->job_class);
	if (m->fail_policy > WIRE_FAIL_OPEN)
		return err_set(err, -EINVAL, "fail policy %u is unknown", m->fail_policy);
	if ((m->n_gpus < 1 && !(m->flags & WIRE_RUN_VISIBLE)) || m->n_gpus > WIRE_MAX_GPUS)
		return err_set(err, -EINVAL, "a job has 1 to %d GPUs, not %u", WIRE_MAX_GPUS,
			       m->n_gpus);
	if (m->compute_min_permille > 1000 || m->compute_max_permille > 1000 ||
	    (m->compute_max_permille && m->compute_min_permille > m->compute_max_permille))
		return err_set(err, -EINVAL, "compute %u:%u permille makes no sense",
			       m->compute_min_permille, m->compute_max_permille);
	return 0;
}

static void fill_spec(const struct wire_run *m, const struct peer *peer, struct job_spec *spec)
{
	const char *word;

	spec->uid = peer->uid;
	spec->gid = peer->gid;
	spec->keeper_pid = peer->pid;
	spec->request = m->request;
	spec->limit = m->limit;
	spec->job_class = m->job_class;
	spec->fail_policy = m->fail_policy;
	spec->may_wait = m->when_full_wait != 0;
	spec->when_full_ns = m->when_full_ns;
	spec->compute_min_permille = m->compute_min_permille;
	spec->compute_max_permille = m->compute_max_permille ? m->compute_max_permille : 1000;
	(void)str_copy(spec->command, sizeof(spec->command), m->command);
	str_printable(spec->command);
	(void)str_copy(spec->name, sizeof(spec->name), m->name);
	str_printable(spec->name);
	if (spec->name[0])
		return;
	/* the command's own name */
	spec->command[strcspn(spec->command, " ")] = '\0';
	word = strrchr(spec->command, '/');
	(void)str_copy(spec->name, sizeof(spec->name), word ? word + 1 : spec->command);
	(void)str_copy(spec->command, sizeof(spec->command), m->command);
	str_printable(spec->command);
}

/* a run inside a job has no better class and no opener fail policy than that job */
static int check_inside(const struct wire_run *m, const struct job *parent, struct job_spec *spec,
			struct err *err)
{
	const struct job_spec *around = &parent->spec;

	if (m->flags & WIRE_RUN_USUAL_CLASS)
		spec->job_class = (uint32_t)size_max(spec->job_class, around->job_class);
	if (m->flags & WIRE_RUN_USUAL_FAIL_POLICY)
		spec->fail_policy = (uint32_t)size_min(spec->fail_policy, around->fail_policy);
	if (spec->job_class < around->job_class)
		return err_set(err, -EPERM,
			       "job %llu around this run is of class %s, and nothing inside it can "
			       "be of a better one: leave --class out",
			       (unsigned long long)around->id,
			       around->job_class == WIRE_CLASS_BATCH ? "batch" : "normal");
	if (spec->fail_policy > around->fail_policy)
		return err_set(err, -EPERM,
			       "job %llu around this run has the fail policy closed, and nothing "
			       "inside it can be open: leave --fail-policy out",
			       (unsigned long long)around->id);
	return 0;
}

void jobs_to_ledger(const struct job *job, const struct wire_run *m, uint64_t now_ns,
		    struct ledger_job_spec *to)
{
	const struct job_spec *s = &job->spec;

	*to = (struct ledger_job_spec){
		.id = s->id,
		.name = s->name,
		.request = { s->request.bytes, s->request.permille },
		.limit = { s->limit.bytes, s->limit.permille },
		.job_class = (enum ledger_class)s->job_class,
		.may_wait = s->may_wait,
		.when_full_ns = s->when_full_ns,
		.admit_deadline_ns = m ? size_sat_add(now_ns, m->admit_wait_ns) : LEDGER_NEVER,
		.n_gpus = m ? m->n_gpus : s->n_gpus,
		.parent = job->parent ? job->parent->lease : NULL,
	};
}

/* why we could not look at a peer that spoke to us a moment ago */
static void refuse_unseen(struct peer *peer, uint32_t request_id)
{
	AUTO_FD int probe = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	int e = probe < 0 ? errno : peer->pidfd < 0 ? -peer->pidfd : 0;
	struct rlimit limit = { 0 };

	if (e != EMFILE && e != ENFILE) {
		peer_refuse(
			peer, request_id, WIRE_CODE_FAILED,
			"allotd cannot see pid %d: it has ended, or /proc is hidden from allotd "
			"(another PID namespace, hidepid)",
			peer->pid);
		return;
	}
	(void)getrlimit(RLIMIT_NOFILE, &limit); /* cannot fail for this one */
	peer_refuse(peer, request_id, WIRE_CODE_FAILED,
		    "allotd cannot open another file (%s, its limit is %llu): start it with a "
		    "higher one (ulimit -n, LimitNOFILE=)",
		    strerror(e), (unsigned long long)limit.rlim_cur);
}

/* the registered job, its keeper watched; NULL after the refusal was sent */
static struct job *make_job(struct daemon *d, struct peer *peer, const struct wire_message *msg)
{
	const struct wire_run *m = msg->payload;
	struct job_spec spec = { 0 };
	struct proc_info info;
	struct job *parent = registry_whose(d, peer->pid, &info), *job;
	struct err err;

	if (!info.start_ticks || peer->pidfd < 0 || !pidfd_is_alive(peer->pidfd)) {
		refuse_unseen(peer, msg->request_id);
		return NULL;
	}
	if (parent && parent->spec.is_adopted && parent->spec.keeper_pid == peer->pid) {
		peer_refuse(peer, msg->request_id, WIRE_CODE_USAGE,
			    "this process was adopted as job %llu: start 'allot run' from a child "
			    "of it, or elsewhere",
			    id_of(parent));
		return NULL;
	}
	if (parent && parent->spec.keeper_pid == peer->pid && !parent->is_keeper_dead) {
		peer_refuse(peer, msg->request_id, WIRE_CODE_USAGE,
			    "this process keeps job %llu already", id_of(parent));
		return NULL;
	}
	fill_spec(m, peer, &spec);
	if (parent && check_inside(m, parent, &spec, &err) < 0) {
		peer_refuse(peer, msg->request_id, WIRE_CODE_NOT_PERMITTED, "%s", err.text);
		return NULL;
	}
	spec.id = m->job_id && runs_may_again(d, m->job_id, peer->uid) ? m->job_id
								       : ++d->registry.last_job;
	spec.keeper_start = info.start_ticks;
	spec.session = info.session == peer->pid ? info.session : 0;
	spec.parent = parent ? parent->spec.id : 0;
	job = job_new(d, &spec, peer->pidfd);
	if (!job) {
		peer_refuse(peer, msg->request_id, WIRE_CODE_FAILED, "allotd has too many jobs");
		return NULL;
	}
	peer->pidfd = -1;
	if (jobs_watch_keeper(job) < 0) {
		job_free(job);
		peer_refuse(peer, msg->request_id, WIRE_CODE_FAILED, "allotd has no memory");
		return NULL;
	}
	job->since_ns = clock_now_ns();
	runs_begin(d, job, m->log);
	return job;
}

/* the configured bounds; false after the refusal was sent */
static bool has_room(struct daemon *d, struct peer *peer, uint32_t request_id)
{
	const struct config *c = d->config;
	const struct job *job;
	unsigned n = 0;

	if (d->registry.n_jobs >= c->limits_max_jobs) {
		peer_refuse(peer, request_id, WIRE_CODE_FAILED,
			    "allotd has %u jobs, as many as are allowed (limits.max_jobs)",
			    d->registry.n_jobs);
		return false;
	}
	if (peer->uid == 0 || d->registry.n_jobs < c->limits_max_jobs_per_user)
		return true;
	list_for_each (job, &d->registry.jobs, node)
		n += job->spec.uid == peer->uid;
	if (n < c->limits_max_jobs_per_user)
		return true;
	peer_refuse(peer, request_id, WIRE_CODE_FAILED,
		    "you have %u jobs, as many as are allowed (limits.max_jobs_per_user)", n);
	return false;
}

static void send_admitted(struct daemon *d, struct job *job)
{
	struct wire_admitted m = { .job_id = job->spec.id,
				   .n_gpus = job->spec.n_gpus,
				   .system_gpus = gpus_count(d->gpus),
				   .nested = job->parent != NULL,
				   .kill_grace_ns = d->config->jobs_kill_grace };

	/* a part of unlike cards: what holds on every one of them */
	m.request_bytes = m.limit_bytes = UINT64_MAX;
	for (unsigned slot = 0; slot < job->spec.n_gpus; slot++) {
		struct ledger_job_figures f = { 0 };

		(void)ledger_job_figures(d->ledger, job->lease, slot, &f); /* it exists */
		m.request_bytes = size_min(m.request_bytes, f.request_bytes);
		m.limit_bytes = size_min(m.limit_bytes, f.limit_bytes);
		m.has_limit = f.has_limit;
	}
	(void)str_copy(m.name, sizeof(m.name), job->spec.name);
	memcpy(m.gpus, job->spec.gpus, sizeof(m.gpus));
	for (unsigned i = 0; i < job->spec.n_gpus; i++) {
		int number = gpus_find(d->gpus, &job->spec.gpus[i]);

		if (number >= 0 && gpus_is_instance(gpus_at(d->gpus, (unsigned)number)))
			m.mig_gpus |= 1u << i;
	}
	peer_send(job->keeper, WIRE_ADMITTED, job->run_request_id, &m);
}

void jobs_admitted(struct daemon *d, struct job *job)
{
	unsigned numbers[LEDGER_MAX_SLOTS];
	struct fmt_buf request;

	job->spec.n_gpus = ledger_job_slots(job->lease, numbers);
	for (unsigned i = 0; i < job->spec.n_gpus; i++) {
		job->spec.gpus[i] = gpus_at(d->gpus, numbers[i])->last.uuid;
		probe_want(d->probes, numbers[i]);
	}
	job->is_admitted = true;
	d->registry.n_waiting--;
	job->is_resumed = true;
	jobs_store(job);
	runs_started(job);
	(void)store_put_last_job(d->store, d->registry.last_job); /* it tells */
	log_info("job %llu (%s) of uid %u admitted: %s promised", id_of(job), job->spec.name,
		 job->spec.uid, fmt_size(&request, job->spec.request.bytes));
	if (job->keeper)
		send_admitted(d, job);
	scope_begin(job);
}

static void send_waiting(struct daemon *d, struct job *job)
{
	struct wire_waiting m = { .job_id = job->spec.id };
	struct ledger_why why;

	ledger_job_why(d->ledger, job->lease, clock_now_ns(), &why);
	m.position = why.position;
	m.needed_bytes = why.needed_bytes;
	m.free_bytes = why.free_bytes;
	(void)str_copy(m.text, sizeof(m.text), why.text);
	if (memcmp(&m, &job->told, sizeof(m)) == 0)
		return;
	job->told = m;
	peer_send(job->keeper, WIRE_WAITING, job->run_request_id, &m);
}

void jobs_tell_waiting(struct daemon *d)
{
	struct job *job;

	list_for_each (job, &d->registry.jobs, node)
		if (!job->is_admitted && job->keeper && job->lease)
			send_waiting(d, job);
}

void jobs_timed_out(struct daemon *d, struct job *job)
{
	struct ledger_why why;

	ledger_job_why(d->ledger, job->lease, clock_now_ns(), &why);
	if (job->keeper) {
		peer_refuse(job->keeper, job->run_request_id, WIRE_CODE_WAITED_OUT,
			    "no place in the time given: %s",
			    why.text[0] ? why.text : job->told.text);
		job->keeper->job = NULL;
		job->keeper = NULL;
	}
	give_up(job, WIRE_CODE_WAITED_OUT);
}

static void admit(struct daemon *d, struct peer *peer, const struct wire_message *msg,
		  struct job *job, const struct ledger_job_spec *spec)
{
	char why[LEDGER_TEXT_MAX] = "";
	const struct wire_run *m = msg->payload;
	enum wire_code code = WIRE_CODE_USAGE;

	switch (ledger_admit(d->ledger, spec, job, clock_now_ns(), &job->lease, why)) {
	case LEDGER_ADMITTED:
		jobs_admitted(d, job);
		return;
	case LEDGER_WAITS:
		send_waiting(d, job);
		return;
	case LEDGER_BUSY:
		code = WIRE_CODE_WAITED_OUT;
		break;
	case LEDGER_NEVER_FITS:
		code = WIRE_CODE_NEVER_FITS;
		break;
	case LEDGER_BAD:
		code = WIRE_CODE_USAGE;
		break;
	}
	peer_refuse(
		peer, msg->request_id, code, "%s%s", why,
		settings_gave_vram(d, msg->payload)
			? " (so much is asked for by jobs.vram of the configuration: say --vram)"
			: "");
	if (m->job_id == job->spec.id)
		runs_ended(job, true,
			   (code == WIRE_CODE_WAITED_OUT ? (int)code : EXIT_REFUSED) << 8);
	else
		runs_drop(job); /* nobody knows its id */
	job_free(job);
}

/* the GPUs that were wished for; false after the refusal was sent, and the job is gone */
static bool take_wish(struct daemon *d, struct peer *peer, const struct wire_message *msg,
		      struct job *job, struct ledger_job_spec *spec)
{
	const struct wire_run *m = msg->payload;
	struct err err;
	int n = wish_parse(d->gpus, job->parent, m->gpu, spec->listed, &err);

	if (n >= 0 && m->n_gpus > (unsigned)n)
		n = err_set(&err, -EINVAL,
			    "%u GPUs asked for, CUDA_VISIBLE_DEVICES='%.100s' names %d", m->n_gpus,
			    m->gpu, n);
	if (n < 0) {
		peer_refuse(peer, msg->request_id, WIRE_CODE_USAGE, "%s", err.text);
		job_free(job);
		return false;
	}
	spec->n_listed = (unsigned)n;
	if (!spec->n_gpus)
		spec->n_gpus = (unsigned)n;
	return true;
}

void jobs_run(struct daemon *d, struct peer *peer, const struct wire_message *asked)
{
	struct wire_run filled = *(const struct wire_run *)asked->payload, *m = &filled;
	struct wire_message said = *asked, *msg = &said;
	struct ledger_job_spec spec;
	unsigned listed[WIRE_MAX_GPUS];
	struct job *job;
	struct err err;
	int n = 0;

	if (peer->job || peer->process || peer->is_observer) {
		peer_refuse(peer, msg->request_id, WIRE_CODE_USAGE,
			    "this connection has said already what it is");
		return;
	}
	said.payload = &filled;
	settings_fill_run(d, peer, m);
	if (check_run(m, &err) < 0) {
		peer_refuse(peer, msg->request_id, WIRE_CODE_USAGE, "%s", err.text);
		return;
	}
	if (gpus_count(d->gpus) == 0) {
		const char *why = sampler_trouble(d->sampler);

		peer_refuse(peer, msg->request_id, WIRE_CODE_FAILED, "there is no GPU here%s%s",
			    why[0] ? ": " : "", why);
		return;
	}
	if (m->gpu[0] && !(m->flags & WIRE_RUN_VISIBLE))
		n = gpus_parse(d->gpus, m->gpu, listed, &err);
	if (n < 0) {
		peer_refuse(peer, msg->request_id,
			    n == -ENOENT ? WIRE_CODE_NEVER_FITS : WIRE_CODE_USAGE, "%s", err.text);
		return;
	}
	job = has_room(d, peer, msg->request_id) ? make_job(d, peer, msg) : NULL;
	if (!job)
		return;
	jobs_to_ledger(job, m, clock_now_ns(), &spec);
	spec.n_listed = (unsigned)n;
	memcpy(spec.listed, listed, (size_t)n * sizeof(listed[0]));
	if ((m->flags & WIRE_RUN_VISIBLE) && !take_wish(d, peer, msg, job, &spec))
		return;
	job->keeper = peer;
	job->run_request_id = msg->request_id;
	peer->job = job;
	admit(d, peer, msg, job, &spec);
}

/* ---- cancel ---- */

/* a user's cancel reaches that user's processes: what they started as somebody else goes on */
static bool may_signal(const struct job *job, pid_t pid)
{
	uid_t uid;

	return job->spec.uid == 0 ||
	       (proc_uid(job->daemon->proc_root, pid, &uid) == 0 && uid == job->spec.uid);
}

static unsigned signal_processes(struct job *job, int signal)
{
	struct process *p;
	unsigned n = 0;

	list_for_each (p, &job->processes, node)
		if (!p->is_dead && may_signal(job, p->entry.pid) &&
		    syscall(SYS_pidfd_send_signal, p->pidfd, signal, NULL, 0) == 0)
			n++;
	/* the adopted process itself need not hold memory: its children may */
	if (job->spec.is_adopted && !job->is_keeper_dead &&
	    !process_by_pid(&job->daemon->registry, job->spec.keeper_pid) &&
	    syscall(SYS_pidfd_send_signal, job->keeper_pidfd, signal, NULL, 0) == 0)
		n++;
	return n;
}

static int on_grace_over(sd_event_source *source, uint64_t now_us, void *userdata)
{
	struct job *job = userdata;

	(void)source, (void)now_us;
	job->kill = sd_event_source_disable_unref(job->kill);
	(void)signal_processes(job, SIGKILL);
	(void)scope_signal(job, SIGKILL); /* without a cgroup those that we know */
	return 0;
}

static int kill_after(struct job *job, uint64_t grace_ns)
{
	if (job->kill)
		return 0;
	return sd_event_add_time_relative(job->daemon->event, &job->kill, CLOCK_MONOTONIC,
					  grace_ns / NS_PER_US, 0, on_grace_over, job);
}

/* what the keeper would do, were it alive, for those in the cgroup, or that we know */
static unsigned cancel_without_keeper(struct job *job, int signal)
{
	unsigned n;

	(void)signal_processes(job, SIGCONT); /* a stopped one hears nothing */
	n = signal_processes(job, signal);
	(void)scope_signal(job, SIGCONT);
	n += scope_signal(job, signal) && !n; /* some of those were told twice: no harm */
	if (n && kill_after(job, job->daemon->config->jobs_kill_grace) < 0)
		(void)signal_processes(job, SIGKILL); /* no memory for a grace */
	return n;
}

unsigned jobs_cancel(struct daemon *d, struct job *job, int signal, const char *by)
{
	struct wire_signal m = { .signal = (uint32_t)signal,
				 .grace_ns = d->config->jobs_kill_grace };

	log_info("job %llu (%s) cancelled by %s", id_of(job), job->spec.name, by);
	/* Ctrl-Z stops the keeper with its command, and a stopped keeper ends nothing */
	if (job->keeper_pidfd >= 0)
		(void)syscall(SYS_pidfd_send_signal, job->keeper_pidfd, SIGCONT, NULL, 0);
	if (!job->is_admitted) {
		peer_refuse(job->keeper, job->run_request_id, WIRE_CODE_FAILED,
			    "job %llu was cancelled by %s while it waited", id_of(job), by);
		job->keeper->job = NULL;
		job->keeper = NULL;
		give_up(job, EXIT_REFUSED);
		return 1;
	}
	/* one that does not do it (stopped again, hanging) goes with the rest */
	if (!job->is_keeper_dead && !job->spec.is_adopted)
		(void)kill_after(job, size_sat_add(m.grace_ns, KEEPER_SLACK_NS));
	if (job->keeper) {
		peer_send(job->keeper, WIRE_SIGNAL, 0, &m);
		return 1;
	}
	if (!job->is_keeper_dead && !job->spec.is_adopted) {
		job->cancel_signal = (uint32_t)signal;
		return 1;
	}
	return cancel_without_keeper(job, signal);
}
