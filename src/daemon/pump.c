// SPDX-License-Identifier: Apache-2.0
#include "daemon/pump.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/size.h"
#include "daemon/daemon.h"
#include "daemon/gpus.h"
#include "daemon/jobs.h"
#include "daemon/late.h"
#include "daemon/life.h"
#include "daemon/programs.h"
#include "daemon/restart.h"
#include "daemon/sampler.h"
#include "daemon/store.h"
#include "policy/ledger.h"

#define PUMP_SILENT_NS (50 * NS_PER_MS) /* pages without a doorbell, while somebody waits */
#define PUMP_HOUSE_NS  NS_PER_S         /* what is looked at from time to time, while it matters */
#define PUMP_SLACK_US  500
#define PUMP_LAZY_US   50000

struct pump {
	struct daemon *daemon;
	sd_event_source *post;
	sd_event_source *timer;
	uint64_t armed_ns;
	uint64_t house_ns; /* the last housekeeping */
};

static void carry_out(struct daemon *d, const struct ledger_event *ev)
{
	struct process *p;
	struct job *job;

	switch (ev->kind) {
	case LEDGER_EVENT_ANSWER:
		programs_answer(d, ev);
		break;
	case LEDGER_EVENT_SETTLED:
		programs_settled(d, ev);
		break;
	case LEDGER_EVENT_GONE:
		p = ev->process_owner;
		job = p->job;
		life_end(p);
		jobs_look(job);
		break;
	case LEDGER_EVENT_ADMITTED:
		jobs_admitted(d, ev->job_owner);
		break;
	case LEDGER_EVENT_ADMISSION_TIMED_OUT:
		jobs_timed_out(d, ev->job_owner);
		break;
	}
}

static bool anybody_waits(const struct daemon *d)
{
	struct ledger_gpu_figures f;

	for (unsigned i = 0; i < gpus_count(d->gpus); i++)
		if (ledger_gpu_figures(d->ledger, i, &f) == 0 && f.waiting)
			return true;
	return false;
}

/* processes from before a restart that have no doorbell yet: their returns are looked for */
static uint64_t look_at_silent(struct daemon *d, uint64_t now)
{
	struct job *job;
	struct process *p;

	if (d->registry.n_silent == 0 || !anybody_waits(d))
		return LEDGER_NEVER;
	list_for_each (job, &d->registry.jobs, node)
		list_for_each (p, &job->processes, node)
			if (p->is_silent && !p->is_dead)
				ledger_returned(d->ledger, p->account, now);
	return now + PUMP_SILENT_NS;
}

static uint64_t keep_house(struct pump *p, uint64_t now)
{
	struct daemon *d = p->daemon;
	bool is_behind = store_is_behind(d->store), is_waited = d->registry.n_waiting > 0;
	bool is_new = d->registry.has_new_members;

	if (!is_behind && !is_waited && !is_new)
		return LEDGER_NEVER;
	if (now < p->house_ns + PUMP_HOUSE_NS)
		return p->house_ns + PUMP_HOUSE_NS;
	p->house_ns = now;
	if (is_behind)
		jobs_store_all(d);
	if (is_waited)
		jobs_tell_waiting(d);
	if (is_new)
		jobs_store_members(d);
	return now + PUMP_HOUSE_NS;
}

/* when to look at the GPUs again; asks when that is now */
static uint64_t sample(struct daemon *d, uint64_t now)
{
	uint64_t bits, free_at = sampler_free_at_ns(d->sampler);

	if (!sampler_is_free(d->sampler))
		return free_at ? free_at : LEDGER_NEVER; /* the answer, or its deadline, wakes us */
	bits = gpus_due(d->gpus, now);
	if (!bits)
		return gpus_due_ns(d->gpus, now);
	gpus_begin(d->gpus, bits, now);
	(void)sampler_ask(d->sampler, bits); /* a failure is its trouble, and tried again */
	free_at = sampler_free_at_ns(d->sampler);
	return free_at ? free_at : LEDGER_NEVER;
}

static int arm(struct pump *p, uint64_t due_ns, uint64_t now)
{
	uint64_t slack = due_ns > now + NS_PER_S / 4 ? PUMP_LAZY_US : PUMP_SLACK_US;
	int r;

	if (due_ns == p->armed_ns)
		return 0;
	p->armed_ns = due_ns;
	if (due_ns == LEDGER_NEVER)
		return sd_event_source_set_enabled(p->timer, SD_EVENT_OFF);
	r = sd_event_source_set_time(p->timer, due_ns / NS_PER_US + 1);
	if (r >= 0)
		r = sd_event_source_set_time_accuracy(p->timer, slack);
	return r < 0 ? r : sd_event_source_set_enabled(p->timer, SD_EVENT_ONESHOT);
}

static int on_post(sd_event_source *source, void *userdata)
{
	struct pump *p = userdata;
	struct daemon *d = p->daemon;
	uint64_t now = clock_now_ns(), due;
	struct ledger_event ev;

	(void)source;
	if (d->restart)
		restart_look(d, now);
	due = look_at_silent(d, now);
	while (ledger_poll(d->ledger, now, &ev))
		carry_out(d, &ev);
	due = size_min(due, programs_tell_settled(d, now));
	due = size_min(due, keep_house(p, now));
	due = size_min(due, sample(d, now));
	due = size_min(due, late_look(d->late, now));
	due = size_min(due, ledger_deadline_ns(d->ledger, now));
	if (d->restart)
		due = size_min(due, restart_due_ns(d));
	/* never busier than this, whatever a deadline that is already over says */
	due = due == LEDGER_NEVER ? due : size_max(due, now + PUMP_SLACK_US * NS_PER_US);
	return arm(p, due, now);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct pump *p = userdata;

	(void)source, (void)usec;
	p->armed_ns = 0; /* on_post follows */
	return 0;
}

int pump_new(struct daemon *d, struct pump **ret)
{
	struct pump *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return -ENOMEM;
	p->daemon = d;
	r = sd_event_add_post(d->event, &p->post, on_post, p);
	if (r >= 0) /* the first round begins by itself */
		r = sd_event_add_time_relative(d->event, &p->timer, CLOCK_MONOTONIC, 0,
					       PUMP_SLACK_US, on_timer, p);
	if (r < 0) {
		pump_free(p);
		return r;
	}
	*ret = p;
	return 0;
}

struct pump *pump_free(struct pump *p)
{
	if (!p)
		return NULL;
	sd_event_source_disable_unref(p->post);
	sd_event_source_disable_unref(p->timer);
	free(p);
	return NULL;
}
