// SPDX-License-Identifier: Apache-2.0
#include "daemon/restart.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/size.h"
#include "daemon/daemon.h"
#include "daemon/gpus.h"
#include "daemon/jobs.h"
#include "daemon/peers.h"
#include "daemon/runs.h"
#include "daemon/sampler.h"
#include "daemon/scope.h"
#include "daemon/server.h"
#include "daemon/store.h"
#include "policy/ledger.h"

#define RESTART_GRACE_NS (900 * NS_PER_MS)
#define JOB_ID_MAX       ((uint64_t)1 << 62)

enum step {
	STEP_GPUS,    /* which GPUs are there? */
	STEP_NO_GPU,  /* none, or NVML does not answer: people are served, jobs wait for GPUs */
	STEP_KEEPERS, /* who comes back? */
};

struct put_off {
	struct list node;
	struct peer *peer;
	unsigned type;
	uint32_t request_id;
	_Alignas(8) unsigned char payload[sizeof(struct wire_run)];
};

struct restart {
	enum step step;
	uint64_t end_ns;    /* of the grace */
	uint64_t sample_ns; /* a sample that began later sees the restored jobs */
	unsigned n_restored, n_failed;
	struct list put_off;
};

_Static_assert(sizeof(struct wire_need) <= sizeof(struct wire_run), "fits");

int restart_new(struct daemon *d, struct restart **ret)
{
	struct restart *r = calloc(1, sizeof(*r));

	(void)d;
	if (!r)
		return -ENOMEM;
	list_init(&r->put_off);
	*ret = r;
	return 0;
}

struct restart *restart_free(struct restart *r)
{
	struct put_off *po, *tmp;

	if (!r)
		return NULL;
	list_for_each_safe (po, tmp, &r->put_off, node) {
		list_del(&po->node);
		free(po);
	}
	free(r);
	return NULL;
}

static int restore_one(const struct job_spec *spec, void *context)
{
	struct daemon *d = context;
	int r = jobs_restore(d, spec);

	d->registry.last_job = size_max(d->registry.last_job, spec->id);
	if (r == 0) {
		d->restart->n_restored++;
	} else {
		d->restart->n_failed++;
		log_error("cannot have job %llu (%s) back: %s", (unsigned long long)spec->id,
			  spec->name, strerror(-r));
	}
	return 0;
}

static void tell_ready(struct daemon *d)
{
	settings_notify(d, "READY=1");
	if (d->ready_fd < 0)
		return;
	(void)fd_write_all(d->ready_fd, "\n", 1); /* the starter may have given up */
	close(d->ready_fd);
	d->ready_fd = -1;
}

static void begin_service(struct daemon *d)
{
	int e = peers_accept(d->peers);

	if (e < 0) {
		log_error("cannot accept connections: %s", strerror(-e));
		(void)sd_event_exit(d->event, e);
	}
	/* a damaged file must not make the numbers begin anew */
	d->registry.last_job =
		size_max(d->registry.last_job, size_min(store_last_job(d->store), JOB_ID_MAX));
	d->registry.last_job = size_max(d->registry.last_job, runs_last_id(d->runs));
	settings_look_for_gpus(d);
	tell_ready(d);
}

static void restore(struct daemon *d, uint64_t now_ns)
{
	struct restart *r = d->restart;

	(void)store_each_job(d->store, restore_one, d); /* it tells */
	scopes_restore(d);
	r->end_ns = now_ns + RESTART_GRACE_NS;
	r->sample_ns = now_ns;
	if (!r->n_restored)
		return;
	log_info("%u jobs from before are known; their keepers are awaited", r->n_restored);
	gpus_want_all(d->gpus);
}

static bool all_are_back(const struct daemon *d)
{
	const struct job *job;
	struct ledger_gpu_figures f;

	list_for_each (job, &d->registry.jobs, node)
		if (job->is_restored && !job->is_resumed && !job->is_keeper_dead)
			return false;
	for (unsigned i = 0; i < gpus_count(d->gpus); i++)
		if (ledger_gpu_figures(d->ledger, i, &f) == 0 && !f.lost &&
		    f.sample_ns <= d->restart->sample_ns)
			return false;
	return true;
}

/* those that came meanwhile are not put off again: the caller sees to that */
static void hear_put_off(struct daemon *d, struct restart *r)
{
	struct put_off *po, *tmp;

	list_for_each_safe (po, tmp, &r->put_off, node) {
		struct wire_message msg = { .type = po->type,
					    .request_id = po->request_id,
					    .payload = po->payload };
		struct peer *peer = po->peer;

		list_del(&po->node);
		peer_release(peer);
		server_dispatch(d, peer, &msg, NULL, 0);
		free(po);
	}
}

static void end_restart(struct daemon *d)
{
	struct restart *r = d->restart;
	struct job *job, *next;

	d->restart = NULL; /* from here on nothing is put off */
	hear_put_off(d, r);
	/* jobs of which nothing is left */
	list_for_each_safe (job, next, &d->registry.jobs, node) {
		if (job->is_restored && !job->is_resumed && !job->is_keeper_dead)
			log_warn("the keeper of job %llu (%s) has not come back yet",
				 (unsigned long long)job->spec.id, job->spec.name);
	}
	jobs_look_all(d);
	restart_free(r);
}

void restart_look(struct daemon *d, uint64_t now_ns)
{
	struct restart *r = d->restart;

	if (r->step == STEP_GPUS && gpus_is_known(d->gpus)) {
		if (gpus_count(d->gpus) == 0 && sampler_trouble(d->sampler)[0] &&
		    store_has_jobs(d->store))
			gpus_remember(d->gpus);
		begin_service(d);
		r->step = STEP_NO_GPU;
	}
	if (r->step == STEP_NO_GPU && gpus_count(d->gpus) > 0) {
		restore(d, now_ns);
		r->step = STEP_KEEPERS;
	}
	if (r->step == STEP_NO_GPU && !sampler_is_opening(d->sampler))
		hear_put_off(d, r); /* there is no driver: they are told */
	if (r->step == STEP_KEEPERS && (!r->n_restored || now_ns >= r->end_ns || all_are_back(d)))
		end_restart(d);
}

uint64_t restart_due_ns(const struct daemon *d)
{
	return d->restart->step == STEP_KEEPERS ? d->restart->end_ns : LEDGER_NEVER;
}

bool restart_put_off(struct daemon *d, struct peer *peer, const struct wire_message *msg)
{
	struct put_off *po;

	bool is_opening =
		d->restart && d->restart->step == STEP_NO_GPU && sampler_is_opening(d->sampler);

	if (!d->restart || (d->restart->step != STEP_KEEPERS && !is_opening) ||
	    (msg->type != WIRE_RUN && msg->type != WIRE_NEED))
		return false;
	po = calloc(1, sizeof(*po));
	if (!po)
		return false; /* then it takes its chance now */
	po->peer = peer;
	po->type = msg->type;
	po->request_id = msg->request_id;
	memcpy(po->payload, msg->payload, (size_t)wire_size(msg->type));
	list_append(&d->restart->put_off, &po->node);
	peer_hold(peer);
	return true;
}

void restart_closed(struct daemon *d, struct peer *peer)
{
	struct put_off *po, *tmp;

	if (!d->restart)
		return;
	list_for_each_safe (po, tmp, &d->restart->put_off, node) {
		if (po->peer == peer) {
			list_del(&po->node);
			free(po);
		}
	}
}
