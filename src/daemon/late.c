// SPDX-License-Identifier: Apache-2.0
#include "daemon/late.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "daemon/daemon.h"
#include "daemon/life.h"
#include "policy/ledger.h"

#define LATE_NS      (100 * NS_PER_MS)
#define LATE_AT_ONCE 4

struct late {
	sd_event_source *quiet;
	struct list processes;
	uint64_t since_ns; /* the first of them came, or the last could not be finished */
	bool is_stuck;     /* out of memory: again after LATE_NS */
};

static void finish(struct late *late, unsigned at_most)
{
	for (; at_most > 0 && !list_is_empty(&late->processes); at_most--) {
		struct process *p = list_entry(late->processes.next, struct process, late);
		int r = life_finish(p);

		if (r >= 0)
			continue;
		if (!late->is_stuck)
			log_warn("cannot watch process %d: %s, trying again", p->entry.pid,
				 strerror(-r));
		late->is_stuck = true;
		late->since_ns = clock_now_ns();
		return;
	}
	late->is_stuck = false;
}

static int on_quiet(sd_event_source *source, void *userdata)
{
	struct late *late = userdata;

	finish(late, LATE_AT_ONCE);
	if (list_is_empty(&late->processes) || late->is_stuck)
		return 0;
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

int late_new(struct daemon *d, struct late **ret)
{
	struct late *late = calloc(1, sizeof(*late));
	int r;

	if (!late)
		return -ENOMEM;
	list_init(&late->processes);
	r = sd_event_add_defer(d->event, &late->quiet, on_quiet, late);
	if (r >= 0)
		r = sd_event_source_set_enabled(late->quiet, SD_EVENT_OFF);
	if (r >= 0)
		r = sd_event_source_set_priority(late->quiet, SD_EVENT_PRIORITY_IDLE - 10);
	if (r < 0) {
		late_free(late);
		return r;
	}
	*ret = late;
	return 0;
}

struct late *late_free(struct late *late)
{
	struct process *p, *tmp;

	if (!late)
		return NULL;
	list_for_each_safe (p, tmp, &late->processes, late) {
		(void)life_finish(p); /* as far as it goes: this allotd ends */
		list_del(&p->late);
	}
	sd_event_source_disable_unref(late->quiet);
	free(late);
	return NULL;
}

void late_add(struct late *late, struct process *p)
{
	if (list_is_empty(&late->processes)) {
		late->since_ns = clock_now_ns();
		(void)sd_event_source_set_enabled(late->quiet, SD_EVENT_ONESHOT); /* cannot fail */
	}
	list_append(&late->processes, &p->late);
}

uint64_t late_look(struct late *late, uint64_t now_ns)
{
	if (list_is_empty(&late->processes))
		return LEDGER_NEVER;
	if (now_ns >= late->since_ns + LATE_NS)
		finish(late, ~0u);
	return late->is_stuck ? late->since_ns + LATE_NS : LEDGER_NEVER;
}
