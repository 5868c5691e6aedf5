// SPDX-License-Identifier: Apache-2.0
#include "daemon/scope.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/log.h"
#include "base/paths.h"
#include "base/str.h"
#include "daemon/daemon.h"
#include "daemon/manager.h"
#include "daemon/mover.h"
#include "daemon/registry.h"
#include "daemon/store.h"

#define SCOPE_PREFIX     "allot-job-"
#define SCOPES_IN_FLIGHT 16 /* questions that the mover has at once */
#define SCOPE_TICK_NS    (100 * NS_PER_MS)
#define SCOPE_GRACE      20  /* ticks between SIGTERM and SIGKILL: as the keeper's */
#define SCOPE_PATIENCE   100 /* ticks; after them somebody who cannot be killed is left */
#define SCOPE_SWEEPS     16

enum state {
	STATE_WANTED, /* not asked for yet */
	STATE_ASKED,
	STATE_READY,
};

struct scope {
	struct list node;
	struct scopes *all;
	struct job *job; /* NULL: it is over */
	uint64_t job_id;
	pid_t keeper;
	uint64_t keeper_start;
	enum state state;
	bool is_unit; /* systemd's */
	bool is_told; /* SIGTERM was sent */
	unsigned ticks, sweeps;
	uint64_t id;
	char name[MOVER_NAME_MAX];
	char path[CGROUP_PATH_MAX]; /* READY; before that, where the keeper was */
};

struct scopes {
	struct daemon *daemon;
	struct list all;
	char mount[PATHS_MAX];
	int sock; /* the mover's; -1: there is none */
	pid_t mover;
	int mover_pidfd; /* once it is lost, until it is reaped; else -1 */
	sd_event_source *io, *tick, *death;
	struct manager *manager; /* NULL: folders */
	unsigned in_flight;
	uint32_t tag;
	char trouble[128]; /* why there are none */
};

static unsigned long long id_of(const struct scope *s)
{
	return (unsigned long long)s->job_id;
}

static void scope_free(struct scope *s)
{
	if (s->job)
		s->job->scope = NULL;
	list_del(&s->node);
	free(s);
}

/* the job goes on without */
static void give_up(struct scope *s, const char *why, int error)
{
	log_debug("job %llu has no cgroup of its own: %s: %s", id_of(s), why, strerror(-error));
	scope_free(s);
}

static struct scope *scope_new(struct scopes *all, uint64_t job_id)
{
	struct scope *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->all = all;
	s->job_id = job_id;
	list_append(&all->all, &s->node);
	return s;
}

static struct scope *find(struct scopes *all, uint64_t job_id)
{
	struct scope *s;

	list_for_each (s, &all->all, node)
		if (s->job_id == job_id)
			return s;
	return NULL;
}

/* ---- the mover ---- */

static int ask(struct scope *s, enum mover_kind kind, int signal)
{
	struct mover_ask m = { .kind = kind,
			       .signal = signal,
			       .job = s->job_id,
			       .keeper = s->keeper,
			       .keeper_start = s->keeper_start,
			       .is_unit = s->is_unit,
			       .id = s->id };

	if (s->all->sock < 0)
		return -ENOTCONN;
	(void)str_copy(m.name, sizeof(m.name), s->name);
	(void)str_copy(m.path, sizeof(m.path), s->path);
	if (send(s->all->sock, &m, sizeof(m), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return -errno;
	s->all->in_flight++;
	return 0;
}

static void begin_wanted(struct scopes *all)
{
	struct scope *s, *tmp;

	list_for_each_safe (s, tmp, &all->all, node) {
		if (all->in_flight >= SCOPES_IN_FLIGHT)
			return;
		if (s->state != STATE_WANTED)
			continue;
		s->is_unit = all->manager != NULL;
		if (!s->job || ask(s, s->is_unit ? MOVER_LOOK : MOVER_PLACE, 0) < 0)
			scope_free(s);
		else
			s->state = STATE_ASKED;
	}
}

static void set_tick(struct scopes *all, bool is_on)
{
	int r = 0;

	if (is_on)
		r = sd_event_source_set_time_relative(all->tick, SCOPE_TICK_NS / NS_PER_US);
	if (r >= 0)
		r = sd_event_source_set_enabled(all->tick, is_on ? SD_EVENT_ONESHOT : SD_EVENT_OFF);
	if (r < 0)
		log_warn("cannot set a timer: %s, ignoring", strerror(-r));
}

/* ---- the end ---- */

static void end(struct scope *s)
{
	if (ask(s, MOVER_REMOVE, 0) < 0)
		set_tick(s->all, true); /* a full queue: again later */
}

static void forget(struct scope *s)
{
	(void)store_remove_scope(s->all->daemon->store, s->job_id); /* it tells */
	scope_free(s);
}

/* somebody is still in it */
static void press(struct scope *s)
{
	if (!s->is_told) {
		s->is_told = true;
		log_info("job %llu is over; what it left running is ended", id_of(s));
		(void)ask(s, MOVER_SIGNAL, SIGCONT); /* a stopped one hears nothing */
		(void)ask(s, MOVER_SIGNAL, SIGTERM); /* a full queue: SIGKILL follows */
	} else if (s->ticks >= SCOPE_GRACE && s->ticks % SCOPE_GRACE == 0) {
		(void)ask(s, MOVER_KILL, 0); /* again in two seconds */
	}
	set_tick(s->all, true);
}

static void on_removed(struct scope *s, int result)
{
	if (result == 0) {
		forget(s);
	} else if (result == -EBUSY && s->ticks < SCOPE_PATIENCE) {
		press(s);
	} else {
		log_warn("the cgroup '%s' of job %llu cannot be taken away (%s): it is left for "
			 "the next start",
			 s->path, id_of(s), strerror(-result));
		scope_free(s);
	}
}

static int on_tick(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct scopes *all = userdata;
	struct scope *s, *tmp;

	(void)source, (void)usec;
	list_for_each_safe (s, tmp, &all->all, node) {
		if (s->job || s->state != STATE_READY)
			continue;
		s->ticks++;
		end(s);
	}
	return 0;
}

void scope_over(struct job *job)
{
	struct scope *s = job->scope;

	if (!s)
		return;
	job->scope = NULL;
	s->job = NULL;
	if (s->state == STATE_READY)
		end(s);
	/* else when it is there, or known not to come */
}

/* ---- the beginning ---- */

static void ready(struct scope *s, const struct mover_answer *a)
{
	bool is_new = s->state != STATE_READY;
	struct stored_scope row;

	s->state = STATE_READY;
	s->id = a->id;
	(void)str_copy(s->path, sizeof(s->path), a->path);
	if (!is_new)
		return;
	row = (struct stored_scope){ .job = s->job_id, .id = s->id, .is_unit = s->is_unit };
	(void)str_copy(row.name, sizeof(row.name), s->name);
	(void)str_copy(row.path, sizeof(row.path), s->path);
	(void)store_put_scope(s->all->daemon->store, &row); /* it tells */
	log_debug("job %llu is in the cgroup %s", id_of(s), s->path);
	if (!s->job)
		end(s);
}

static void on_looked(struct scope *s, const struct mover_answer *a)
{
	char slice[256] = "", description[256];
	int r = a->result;

	if (r >= 0 && s->job) {
		(void)manager_slice(a->path, !s->all->daemon->instance.is_system, slice,
				    sizeof(slice));
		(void)str_copy(s->path, sizeof(s->path), a->path);
		(void)str_print(description, sizeof(description), "allot job %llu: %s", id_of(s),
				s->job->spec.name);
		r = manager_start_scope(s->all->manager, s->job_id, s->name, slice, description,
					s->keeper);
	}
	if (r < 0 || !s->job)
		give_up(s, "its keeper stays where it is", r);
}

/* the manager moved the keeper; whoever was started before that follows */
static void on_found(struct scope *s, const struct mover_answer *a)
{
	if (a->result < 0) {
		if (s->state != STATE_READY)
			give_up(s, "systemd did not move its keeper", a->result);
		return; /* a keeper that is dead has nobody to be looked for */
	}
	ready(s, a);
	if (a->n_pids && s->job && s->sweeps++ < SCOPE_SWEEPS)
		(void)manager_attach(s->all->manager, s->job_id, s->name, a->pids,
				     a->n_pids); /* else the chain knows them */
}

static void on_managed(void *context, uint64_t job, int result)
{
	struct scopes *all = context;
	struct scope *s = find(all, job);

	if (!s)
		return;
	if (result == -EHOSTUNREACH && s->state != STATE_READY && !manager_rules()) {
		log_info("no systemd answers on the bus: jobs get a cgroup from allotd itself");
		all->manager = manager_free(all->manager);
		s->state = STATE_WANTED;
		begin_wanted(all);
	} else if (result < 0 && s->state != STATE_READY) {
		give_up(s, "systemd made no scope", result);
	} else if (result >= 0 && ask(s, MOVER_FIND, 0) < 0 && s->state != STATE_READY) {
		give_up(s, "the mover has no time", -EAGAIN);
	}
}

static void take_answer(struct scopes *all, const struct mover_answer *a)
{
	struct scope *s = find(all, a->job);

	all->in_flight -= all->in_flight > 0;
	if (!s)
		return;
	switch ((enum mover_kind)a->kind) {
	case MOVER_LOOK:
		on_looked(s, a);
		return;
	case MOVER_PLACE:
		if (a->result < 0)
			give_up(s, "no folder can be made for it", a->result);
		else
			ready(s, a);
		return;
	case MOVER_FIND:
		on_found(s, a);
		return;
	case MOVER_REMOVE:
		if (!s->job)
			on_removed(s, a->result);
		return;
	case MOVER_SIGNAL:
	case MOVER_KILL:
		return; /* what came of it REMOVE sees */
	}
}

static int on_mover_death(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct scopes *all = userdata;
	siginfo_t si = { 0 };

	(void)source, (void)revents;
	(void)waitid(P_PIDFD, (id_t)fd, &si, WEXITED | WNOHANG); /* nothing to be done else */
	all->death = sd_event_source_disable_unref(all->death);
	close(fd);
	all->mover_pidfd = -1;
	return 0;
}

/* its socket is closed before it is a zombie, so it is not reaped here and now */
static void bury_mover(struct scopes *all)
{
	(void)kill(all->mover, SIGKILL); /* ours and not yet reaped, so the number is right */
	all->mover_pidfd = fd_pidfd_open(all->mover);
	if (all->mover_pidfd >= 0 &&
	    sd_event_add_io(all->daemon->event, &all->death, all->mover_pidfd, EPOLLIN,
			    on_mover_death, all) >= 0)
		return;
	(void)waitpid(all->mover, NULL, WNOHANG);
}

static void lose_mover(struct scopes *all)
{
	struct scope *s, *tmp;

	log_warn("allot-mover ended: jobs that begin now have no cgroup of their own");
	(void)str_copy(all->trouble, sizeof(all->trouble), "allot-mover ended");
	all->io = sd_event_source_disable_unref(all->io);
	close(all->sock);
	all->sock = -1;
	bury_mover(all);
	list_for_each_safe (s, tmp, &all->all, node)
		if (s->state != STATE_READY || !s->job)
			scope_free(s); /* what is in the store is found by the next allotd */
}

static int on_answer(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct scopes *all = userdata;
	struct mover_answer a;

	(void)source, (void)revents;
	for (;;) {
		ssize_t n = recv(fd, &a, sizeof(a), MSG_DONTWAIT);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			break;
		if (n <= 0) {
			lose_mover(all);
			return 0;
		}
		if (n == (ssize_t)sizeof(a))
			take_answer(all, &a);
	}
	begin_wanted(all);
	return 0;
}

void scope_begin(struct job *job)
{
	struct scopes *all = job->daemon->scopes;
	struct scope *s;

	if (job->scope || all->trouble[0] || job->is_keeper_dead || job->spec.is_adopted)
		return;
	/* a nested one stays in the outer one's; an adopted program was left where it is */
	for (const struct job *outer = job->parent; outer; outer = outer->parent)
		if (!outer->spec.is_adopted)
			return;
	s = scope_new(all, job->spec.id);
	if (!s)
		return; /* the chain of parents needs no memory */
	s->job = job;
	s->keeper = job->spec.keeper_pid;
	s->keeper_start = job->spec.keeper_start;
	(void)str_print(s->name, sizeof(s->name), SCOPE_PREFIX "%llu-%08x.scope", id_of(s),
			all->tag);
	job->scope = s;
	begin_wanted(all);
}

/* ---- the whole ---- */

/* FNV-1a of the state folder, which is locked: nobody else has this tag now */
static uint32_t tag_of(const char *state_dir)
{
	uint32_t hash = 2166136261u;

	for (; *state_dir; state_dir++)
		hash = (hash ^ (unsigned char)*state_dir) * 16777619u;
	return hash;
}

/* a keeper started us again, in its own job's cgroup: with that job we would be ended */
static void leave_job(struct scopes *all)
{
	char path[CGROUP_PATH_MAX], *slash;
	int r;

	if (cgroup_of(all->daemon->proc_root, getpid(), path, sizeof(path)) < 0 ||
	    !str_starts_with(cgroup_name(path), SCOPE_PREFIX))
		return;
	slash = strrchr(path, '/');
	slash[slash == path] = '\0';
	r = cgroup_move(all->mount, path, getpid());
	if (r < 0)
		log_debug("allotd stays in the cgroup of the job that started it: %s",
			  strerror(-r));
}

static int start_mover(struct scopes *all)
{
	struct daemon *d = all->daemon;
	int r = cgroup_mount(d->proc_root, all->mount, sizeof(all->mount));

	if (r == 0) {
		leave_job(all);
		r = all->sock = mover_start(d->proc_root, &all->mover);
	}
	if (r < 0) {
		(void)str_print(all->trouble, sizeof(all->trouble), "%s",
				r == -ENOENT ? "there are no cgroups of version 2" : strerror(-r));
		return 0;
	}
	return sd_event_add_io(d->event, &all->io, all->sock, EPOLLIN, on_answer, all);
}

int scopes_new(struct daemon *d, struct scopes **ret)
{
	struct scopes *all = calloc(1, sizeof(*all));
	int r;

	if (!all)
		return -ENOMEM;
	all->daemon = d;
	all->sock = all->mover_pidfd = -1;
	all->tag = tag_of(d->instance.state_dir);
	list_init(&all->all);
	r = sd_event_add_time_relative(d->event, &all->tick, CLOCK_MONOTONIC, 0, 0, on_tick, all);
	if (r >= 0)
		r = sd_event_source_set_enabled(all->tick, SD_EVENT_OFF);
	if (r >= 0)
		r = start_mover(all);
	if (r < 0) {
		scopes_free(all);
		return r;
	}
	if (all->sock >= 0) {
		r = manager_new(d->event, !d->instance.is_system, on_managed, all, &all->manager);
		/* where systemd rules the tree, nobody else makes folders in it */
		if (r < 0 && r != -ENOENT)
			(void)str_print(all->trouble, sizeof(all->trouble),
					"systemd cannot be asked: %s", strerror(-r));
	}
	*ret = all;
	return 0;
}

struct scopes *scopes_free(struct scopes *all)
{
	struct scope *s, *tmp;

	if (!all)
		return NULL;
	list_for_each_safe (s, tmp, &all->all, node)
		scope_free(s);
	manager_free(all->manager);
	sd_event_source_disable_unref(all->io);
	sd_event_source_disable_unref(all->tick);
	sd_event_source_disable_unref(all->death);
	if (all->mover_pidfd >= 0)
		close(all->mover_pidfd);
	if (all->sock >= 0)
		close(all->sock);
	free(all);
	return NULL;
}

static void restore_one(const struct stored_scope *row, void *context)
{
	struct scopes *all = context;
	struct job *job = job_by_id(&all->daemon->registry, row->job);
	struct scope *s;
	uint64_t id;

	/* gone, or a later one of the same name */
	if (cgroup_id(all->mount, row->path, &id) < 0 || id != row->id ||
	    !(s = scope_new(all, row->job))) {
		(void)store_remove_scope(all->daemon->store, row->job); /* it tells */
		return;
	}
	s->state = STATE_READY;
	s->id = row->id;
	s->is_unit = row->is_unit;
	(void)str_copy(s->name, sizeof(s->name), row->name);
	(void)str_copy(s->path, sizeof(s->path), row->path);
	if (job) {
		s->job = job;
		s->keeper = job->spec.keeper_pid;
		s->keeper_start = job->spec.keeper_start;
		job->scope = s;
	} else if (store_has_job(all->daemon->store, row->job)) {
		/* not over: only its row could not be read, or its GPU is not there */
		log_warn("what runs in the cgroup of job %llu is left alone",
			 (unsigned long long)row->job);
		scope_free(s);
	} else {
		end(s);
	}
}

void scopes_restore(struct daemon *d)
{
	struct job *job;

	if (d->scopes->sock < 0)
		return;
	(void)store_each_scope(d->store, restore_one, d->scopes); /* it tells */
	/* one that was being made when the allotd of before ended */
	list_for_each (job, &d->registry.jobs, node)
		if (job->is_restored)
			scope_begin(job);
}

bool scopes_text(const struct scopes *all, char *buf, size_t size)
{
	if (all->trouble[0])
		(void)str_copy(buf, size, all->trouble);
	else if (all->manager)
		(void)str_print(buf, size, "a scope each, made by %s systemd",
				all->daemon->instance.is_system ? "the system's" : "the user's");
	else
		(void)str_print(buf, size, "a folder each below their keeper's, in %s", all->mount);
	return !all->trouble[0];
}

bool scope_signal(struct job *job, int signal)
{
	struct scope *s = job->scope;

	return s && s->state == STATE_READY &&
	       ask(s, signal == SIGKILL ? MOVER_KILL : MOVER_SIGNAL, signal) == 0;
}

const char *scope_path(const struct job *job)
{
	return job->scope && job->scope->state == STATE_READY ? job->scope->path : "";
}

struct job *scope_whose(struct daemon *d, pid_t pid)
{
	struct scopes *all = d->scopes;
	char path[CGROUP_PATH_MAX];
	struct scope *s;
	uint64_t id;

	if (!all || list_is_empty(&all->all) ||
	    cgroup_of(d->proc_root, pid, path, sizeof(path)) < 0)
		return NULL;
	list_for_each (s, &all->all, node)
		if (s->job && s->state == STATE_READY && cgroup_is_inside(path, s->path) &&
		    cgroup_id(all->mount, s->path, &id) == 0 && id == s->id)
			return s->job;
	return NULL;
}
