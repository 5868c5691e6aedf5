// SPDX-License-Identifier: Apache-2.0
#include "daemon/registry.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "daemon/credit.h"
#include "daemon/daemon.h"
#include "daemon/deaths.h"
#include "daemon/peers.h"
#include "daemon/scope.h"
#include "gpu/proc.h"

#define NUMBER_START_BITS 42 /* ticks of 10 ms: 1400 years; the 22 bits above hold any pid */
#define NUMBER_START_MASK (((uint64_t)1 << NUMBER_START_BITS) - 1)

static struct list *bucket(struct list *table, pid_t pid)
{
	return &table[(unsigned)pid % REGISTRY_BUCKETS];
}

void registry_init(struct registry *r)
{
	*r = (struct registry){ 0 };
	list_init(&r->settling);
	list_init(&r->jobs);
	for (unsigned i = 0; i < REGISTRY_BUCKETS; i++) {
		list_init(&r->keepers[i]);
		list_init(&r->processes[i]);
	}
}

void registry_forget(struct registry *r)
{
	r->epoch++;
	for (unsigned i = 0; i < REGISTRY_ANCESTORS; i++) {
		if (r->ancestors[i].pid)
			close(r->ancestors[i].pidfd);
		r->ancestors[i] = (struct ancestor){ 0 };
	}
}

void registry_fini(struct registry *r)
{
	struct job *job, *tmp;
	struct process *p, *next;

	if (!r->jobs.next)
		return;
	registry_forget(r);
	list_for_each_safe (job, tmp, &r->jobs, node) {
		list_for_each_safe (p, next, &job->processes, node)
			process_free(p);
		job->n_children = 0;
		job->parent = NULL;
		job_free(job);
	}
}

struct job *job_new(struct daemon *d, const struct job_spec *spec, int keeper_pidfd)
{
	struct registry *r = &d->registry;
	struct job *job = r->n_jobs < REGISTRY_JOBS_MAX ? calloc(1, sizeof(*job)) : NULL;

	if (!job)
		return NULL;
	registry_forget(r);
	job->daemon = d;
	job->bell = -1;
	job->spec = *spec;
	job->keeper_pidfd = keeper_pidfd;
	job->is_keeper_dead = keeper_pidfd < 0;
	list_init(&job->processes);
	list_append(&r->jobs, &job->node);
	r->n_jobs++;
	r->n_waiting++; /* until it is admitted */
	job->keeper_entry.pid = spec->keeper_pid;
	if (keeper_pidfd >= 0)
		list_append(bucket(r->keepers, spec->keeper_pid), &job->keeper_entry.node);
	job->parent = spec->parent ? job_by_id(r, spec->parent) : NULL;
	if (job->parent)
		job->parent->n_children++;
	return job;
}

void job_free(struct job *job)
{
	if (!job)
		return;
	registry_forget(&job->daemon->registry);
	scope_over(job);
	sd_event_source_disable_unref(job->ring);
	if (job->bell >= 0)
		close(job->bell);
	sd_event_source_disable_unref(job->keeper_death);
	sd_event_source_disable_unref(job->kill);
	if (job->keeper_pidfd >= 0)
		close(job->keeper_pidfd);
	if (job->keeper)
		job->keeper->job = NULL;
	if (job->parent)
		job->parent->n_children--;
	list_del(&job->keeper_entry.node);
	list_del(&job->node);
	job->daemon->registry.n_jobs--;
	if (!job->is_admitted)
		job->daemon->registry.n_waiting--;
	free(job);
}

struct job *job_by_id(struct registry *r, uint64_t id)
{
	struct job *job;

	list_for_each (job, &r->jobs, node)
		if (job->spec.id == id)
			return job;
	return NULL;
}

bool job_is_inside(const struct job *job, const struct job *outer)
{
	for (; job; job = job->parent)
		if (job == outer)
			return true;
	return false;
}

uint64_t process_number(pid_t pid, uint64_t start_ticks)
{
	return (uint64_t)pid << NUMBER_START_BITS | (start_ticks & NUMBER_START_MASK);
}

pid_t process_number_pid(uint64_t number)
{
	return (pid_t)(number >> NUMBER_START_BITS);
}

struct process *process_new(struct job *job, pid_t pid, uint64_t start_ticks, int pidfd)
{
	struct registry *r = &job->daemon->registry;
	struct process *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->job = job;
	p->entry.pid = pid;
	p->start_ticks = start_ticks;
	p->number = start_ticks ? process_number(pid, start_ticks) : 0;
	p->pidfd = pidfd;
	p->page_fd = -1;
	list_init(&p->peers);
	list_init(&p->asks);
	list_append(&job->processes, &p->node);
	list_append(bucket(r->processes, pid), &p->entry.node);
	r->n_processes++;
	r->epoch++;
	job->has_new_members = r->has_new_members = true;
	return p;
}

void process_free(struct process *p)
{
	struct peer *peer, *next;
	struct ask *ask, *tmp;

	if (!p)
		return;
	list_for_each_safe (peer, next, &p->peers, process_node) {
		list_del(&peer->process_node);
		peer->process = NULL;
	}
	list_for_each_safe (ask, tmp, &p->asks, node) {
		if (ask->peer)
			ask->peer->ask = NULL;
		list_del(&ask->node);
		free(ask);
	}
	credit_page_unmap(p->page);
	if (p->pidfd >= 0) {
		deaths_unwatch(p->job->daemon->deaths, p);
		close(p->pidfd);
	}
	if (p->page_fd >= 0)
		close(p->page_fd);
	list_del(&p->late);
	if (p->is_silent)
		p->job->daemon->registry.n_silent--;
	list_del(&p->entry.node);
	list_del(&p->node);
	p->job->daemon->registry.n_processes--;
	free(p);
}

struct process *process_by_pid(struct registry *r, pid_t pid)
{
	struct pid_entry *e;

	list_for_each (e, bucket(r->processes, pid), node) {
		struct process *p = list_entry(&e->node, struct process, entry.node);

		if (e->pid == pid && !p->is_dead)
			return p;
	}
	return NULL;
}

struct process *process_by_number(struct registry *r, uint64_t number)
{
	struct process *p = process_by_pid(r, process_number_pid(number));

	return p && process_identify(p) && p->number == number ? p : NULL;
}

bool process_identify(struct process *p)
{
	struct proc_info info;

	if (p->start_ticks)
		return true;
	if (proc_read(p->job->daemon->proc_root, p->entry.pid, &info) < 0 ||
	    !pidfd_is_alive(p->pidfd))
		return false;
	p->start_ticks = info.start_ticks;
	p->number = process_number(p->entry.pid, info.start_ticks);
	if (p->page)
		p->page->process = p->number;
	return true;
}

bool pidfd_is_alive(int pidfd)
{
	return syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0) == 0;
}

static struct job *job_by_keeper(struct registry *r, pid_t pid)
{
	struct pid_entry *e;

	list_for_each (e, bucket(r->keepers, pid), node) {
		struct job *job = list_entry(&e->node, struct job, keeper_entry.node);

		if (e->pid == pid && !job->is_keeper_dead && pidfd_is_alive(job->keeper_pidfd))
			return job;
	}
	return NULL;
}

/* a job's keeper may be a process of another job: a nested run.  The keeper counts. */
static struct job *job_of_member(struct registry *r, pid_t pid)
{
	struct job *job = job_by_keeper(r, pid);
	struct process *p = job ? NULL : process_by_pid(r, pid);

	if (p && pidfd_is_alive(p->pidfd))
		job = p->job;
	return job;
}

static bool is_member(pid_t pid, void *context)
{
	return job_of_member(context, pid) != NULL;
}

struct job *registry_whose(struct daemon *d, pid_t pid, struct proc_info *ret_info)
{
	struct registry *r = &d->registry;
	struct job *job;
	pid_t found;

	*ret_info = (struct proc_info){ 0 };
	if (proc_read(d->proc_root, pid, ret_info) < 0)
		return NULL;
	found = is_member(pid, r) ? pid
				  : proc_find_ancestor(d->proc_root, ret_info->ppid, is_member, r);
	if (found > 0)
		return job_of_member(r, found);
	job = scope_whose(d, pid);
	if (job)
		return job;
	list_for_each (job, &r->jobs, node)
		if (job->spec.session && job->spec.session == ret_info->session)
			return job;
	return NULL;
}

/* the kernel's word for the parent of a living process; its start time when that comes with it */
static int find_parent(struct daemon *d, pid_t pid, int pidfd, struct proc_info *ret)
{
	if (pidfd >= 0 && proc_parent_of_pidfd(pidfd, pid, &ret->ppid) == 0) {
		ret->pid = pid;
		return 0;
	}
	return proc_read(d->proc_root, pid, ret);
}

static struct job *job_of_children_of(struct registry *r, pid_t parent)
{
	for (unsigned i = 0; i < REGISTRY_ANCESTORS; i++)
		if (r->ancestors[i].pid == parent && pidfd_is_alive(r->ancestors[i].pidfd))
			return r->ancestors[i].job;
	return NULL;
}

/*
 * Whoever is @child's parent both before and after its pidfd was opened is the one behind that; and
 * when it is alive after the walk, the walk began at it.
 */
static struct job *learn_ancestor(struct daemon *d, const struct proc_info *child, int child_pidfd)
{
	struct registry *r = &d->registry;
	struct ancestor *to = &r->ancestors[r->next_ancestor];
	AUTO_FD int pidfd = child->ppid > 1 ? fd_pidfd_open(child->ppid) : -1;
	struct proc_info again;
	struct job *job;
	pid_t found;

	if (pidfd < 0 || find_parent(d, child->pid, child_pidfd, &again) < 0 ||
	    again.ppid != child->ppid)
		return NULL;
	found = proc_find_ancestor(d->proc_root, child->ppid, is_member, r);
	job = found > 0 ? job_of_member(r, found) : NULL;
	if (!job || !pidfd_is_alive(pidfd))
		return NULL;
	r->next_ancestor = (r->next_ancestor + 1) % REGISTRY_ANCESTORS;
	if (to->pid)
		close(to->pidfd);
	*to = (struct ancestor){ .pid = child->ppid, .pidfd = TAKE_FD(pidfd), .job = job };
	return job;
}

struct job *registry_of_pidfd(struct daemon *d, pid_t pid, int pidfd, struct proc_info *ret_info)
{
	struct registry *r = &d->registry;
	struct job *job;

	*ret_info = (struct proc_info){ 0 };
	if (find_parent(d, pid, pidfd, ret_info) < 0) {
		*ret_info = (struct proc_info){ 0 };
		return NULL;
	}
	job = job_of_member(r, pid);
	if (!job)
		job = job_of_member(r, ret_info->ppid);
	if (!job)
		job = job_of_children_of(r, ret_info->ppid);
	if (!job)
		job = learn_ancestor(d, ret_info, pidfd);
	return job ? job
		   : registry_whose(d, pid, ret_info); /* by its cgroup or its session, if at all */
}
