// SPDX-License-Identifier: Apache-2.0
#include "daemon/runs.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/size.h"
#include "base/str.h"
#include "config/config.h"
#include "daemon/daemon.h"
#include "daemon/jobs.h"
#include "daemon/peers.h"
#include "daemon/show.h"
#include "daemon/store.h"
#include "gpu/proc.h"

struct runs {
	struct daemon *daemon;
	struct list all; /* in the order of their beginning */
	unsigned n_ended;
};

static uint64_t now_s(void)
{
	time_t t = time(NULL);

	return t > 0 ? (uint64_t)t : 0;
}

static void put(struct daemon *d, struct run *run)
{
	run->is_behind = store_put_run(d->store, &run->record) < 0; /* it tells */
}

static void forget(struct runs *runs, struct run *run)
{
	struct job *job = job_by_id(&runs->daemon->registry, run->record.id);
	struct peer *peer, *tmp;

	list_for_each_safe (peer, tmp, &run->waiters, waiting)
		list_del(&peer->waiting);
	if (job && job->run == run)
		job->run = NULL;
	list_del(&run->node);
	runs->n_ended -= run->record.is_ended;
	free(run);
}

/* not more than so many, and none that is too old */
void runs_trim(struct runs *runs)
{
	const struct config *c = runs->daemon->config;
	struct run *run, *next;
	uint64_t now = now_s();

	list_for_each_safe (run, next, &runs->all, node) {
		bool is_old = size_sat_sub(now, run->record.ended_s) >
			      c->limits_ended_jobs_time / NS_PER_S;

		if (!run->record.is_ended || (!is_old && runs->n_ended <= c->limits_ended_jobs))
			continue;
		(void)store_remove_run(runs->daemon->store, run->record.id); /* it tells */
		forget(runs, run);
	}
}

static struct run *add(struct runs *runs, const struct run_record *record)
{
	struct run *run = calloc(1, sizeof(*run));

	if (!run)
		return NULL;
	run->record = *record;
	list_init(&run->waiters);
	list_append(&runs->all, &run->node);
	runs->n_ended += record->is_ended;
	return run;
}

static int load(const struct run_record *record, void *context)
{
	return add(context, record) ? 0 : -ENOMEM;
}

int runs_new(struct daemon *d, struct runs **ret)
{
	struct runs *runs = calloc(1, sizeof(*runs));
	int r;

	if (!runs)
		return -ENOMEM;
	runs->daemon = d;
	list_init(&runs->all);
	r = store_each_run(d->store, load, runs);
	if (r == -ENOMEM) {
		(void)runs_free(runs);
		return r;
	}
	runs_trim(runs);
	*ret = runs;
	return 0;
}

struct runs *runs_free(struct runs *runs)
{
	struct run *run, *next;

	if (!runs)
		return NULL;
	list_for_each_safe (run, next, &runs->all, node)
		forget(runs, run);
	free(runs);
	return NULL;
}

uint64_t runs_last_id(const struct runs *runs)
{
	const struct run *run;
	uint64_t last = 0;

	list_for_each (run, &runs->all, node)
		last = size_max(last, run->record.id);
	return last;
}

/* a restart found neither its job nor its keeper: it ended while nobody looked */
static void look(struct daemon *d, struct run *run)
{
	if (run->record.is_ended || d->restart || job_by_id(&d->registry, run->record.id) ||
	    proc_is_same(d->proc_root, run->record.keeper_pid, run->record.keeper_start))
		return;
	run->record.is_ended = true;
	run->record.ended_s = 0;
	d->runs->n_ended++;
	put(d, run);
}

struct run *runs_by_id(struct daemon *d, uint64_t id)
{
	struct run *run;

	list_for_each (run, &d->runs->all, node) {
		if (run->record.id != id)
			continue;
		look(d, run);
		return run;
	}
	return NULL;
}

bool runs_may_again(struct daemon *d, uint64_t id, uid_t uid)
{
	const struct run *run = runs_by_id(d, id);

	return run && run->record.uid == uid && !run->record.started_s &&
	       !job_by_id(&d->registry, id);
}

void runs_begin(struct daemon *d, struct job *job, const char *log)
{
	struct run *run = runs_by_id(d, job->spec.id);
	struct run_record record = { .id = job->spec.id,
				     .uid = job->spec.uid,
				     .keeper_pid = job->spec.keeper_pid,
				     .keeper_start = job->spec.keeper_start,
				     .queued_s = now_s(),
				     .is_adopted = job->spec.is_adopted };

	(void)str_copy(record.name, sizeof(record.name), job->spec.name);
	(void)str_copy(record.command, sizeof(record.command), job->spec.command);
	(void)str_copy(record.log, sizeof(record.log), log);
	if (run) { /* again, after allotd was away: it waits for its place since then */
		record.queued_s = run->record.queued_s;
		d->runs->n_ended -= run->record.is_ended;
		run->record = record;
	} else {
		run = add(d->runs, &record);
	}
	job->run = run;
	if (run && log[0])
		put(d, run);
}

/* of one that runs since before a restart, in the foreground, nothing was stored */
static struct run *run_of(struct job *job)
{
	struct daemon *d = job->daemon;

	if (!job->run)
		job->run = runs_by_id(d, job->spec.id);
	if (!job->run) {
		runs_begin(d, job, "");
		if (job->run)
			job->run->record.queued_s = 0;
	}
	return job->run;
}

void runs_started(struct job *job)
{
	struct run *run = run_of(job);

	if (!run)
		return;
	run->record.started_s = now_s();
	(void)str_copy(run->record.name, sizeof(run->record.name), job->spec.name);
	if (run->record.log[0])
		put(job->daemon, run);
}

static void tell_waiters(struct daemon *d, struct run *run)
{
	struct peer *peer, *tmp;

	list_for_each_safe (peer, tmp, &run->waiters, waiting) {
		list_del(&peer->waiting);
		peer_release(peer);
		show_send(d, peer, peer->waiting_id, run->record.id);
	}
}

void runs_ended(struct job *job, bool has_status, int status)
{
	struct daemon *d = job->daemon;
	struct run *run = run_of(job);

	if (!run || run->record.is_ended)
		return;
	run->record.is_ended = true;
	run->record.ended_s = now_s();
	run->record.has_status = has_status;
	run->record.status = (uint32_t)status;
	(void)str_copy(run->record.name, sizeof(run->record.name), job->spec.name);
	d->runs->n_ended++;
	put(d, run);
	tell_waiters(d, run);
	runs_trim(d->runs);
}

void runs_drop(struct job *job)
{
	if (job->run)
		forget(job->daemon->runs, job->run);
}

void runs_store_behind(struct daemon *d)
{
	struct run *run;

	list_for_each (run, &d->runs->all, node)
		if (run->is_behind)
			put(d, run);
}

void runs_wait(struct daemon *d, struct peer *peer, const struct wire_message *msg)
{
	const struct wire_wait *m = msg->payload;
	struct job *job = job_by_id(&d->registry, m->job_id);
	struct run *run = job ? run_of(job) : runs_by_id(d, m->job_id);

	if (!run) {
		peer_refuse(peer, msg->request_id, WIRE_CODE_NO_SUCH,
			    "no job %llu: it never was, or it ended long ago",
			    (unsigned long long)m->job_id);
		return;
	}
	show_send(d, peer, msg->request_id, run->record.id);
	if (run->record.is_ended || list_is_linked(&peer->waiting))
		return;
	peer->waiting_id = msg->request_id;
	list_append(&run->waiters, &peer->waiting);
	peer_hold(peer);
}
