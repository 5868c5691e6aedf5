// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/fmt.h"
#include "base/str.h"
#include "policy/books.h"

#define HOLDERS 3 /* named in a text */

/* append "sep" + text; a text that does not fit is left out whole */
static void add(char *text, size_t size, const char *sep, const char *more)
{
	size_t used = strlen(text), want = (used ? strlen(sep) : 0) + strlen(more);

	if (used + want >= size)
		return;
	(void)str_print(text + used, size - used, "%s%s", used ? sep : "", more);
}

/* the largest not yet in @taken; NULL: nobody is left */
static const struct lease *next_job(const struct gpu *g, const struct lease **taken, unsigned n)
{
	const struct lease *lease, *best = NULL;

	list_for_each (lease, &g->leases, on_gpu) {
		bool seen = lease->parent || !lease->committed;

		for (unsigned i = 0; i < n; i++)
			seen = seen || taken[i] == lease;
		if (!seen && (!best || lease->committed > best->committed))
			best = lease;
	}
	return best;
}

static void add_jobs(const struct gpu *g, char *text, size_t size)
{
	const struct lease *taken[HOLDERS];
	char one[128];
	struct fmt_buf a, b;
	unsigned n = 0;

	while (n < HOLDERS && (taken[n] = next_job(g, taken, n))) {
		const struct lease *lease = taken[n++];

		if (lease->request > lease->charged)
			(void)str_print(one, sizeof(one), "job %llu (%s) holds %s, promised %s",
					(unsigned long long)lease->job->id, lease->job->name,
					fmt_size(&a, lease->charged), fmt_size(&b, lease->request));
		else
			(void)str_print(one, sizeof(one), "job %llu (%s) holds %s",
					(unsigned long long)lease->job->id, lease->job->name,
					fmt_size(&a, lease->charged));
		add(text, size, ", ", one);
	}
	if (n == HOLDERS && next_job(g, taken, n))
		add(text, size, ", ", "others less");
	if (g->unmanaged_bytes) {
		(void)str_print(one, sizeof(one), "programs outside allot hold %s",
				fmt_size(&a, g->unmanaged_bytes));
		add(text, size, ", ", one);
	}
}

static bool is_under(const struct lease *lease, const struct lease *wall)
{
	for (; lease; lease = lease->parent)
		if (lease == wall)
			return true;
	return false;
}

static void add_processes(const struct lease *wall, char *text, size_t size)
{
	const struct account *taken[HOLDERS];
	struct fmt_buf b;
	char one[64];

	for (unsigned n = 0; n < HOLDERS; n++) {
		const struct account *a, *best = NULL;

		list_for_each (a, &wall->gpu->accounts, on_gpu) {
			bool seen = !a->charged || !is_under(a->lease, wall);

			for (unsigned i = 0; i < n; i++)
				seen = seen || taken[i] == a;
			if (!seen && (!best || a->charged > best->charged))
				best = a;
		}
		if (!best)
			return;
		taken[n] = best;
		(void)str_print(one, sizeof(one), "pid %d holds %s", best->process->pid,
				fmt_size(&b, best->charged));
		add(text, size, ", ", one);
	}
}

static void add_context(const struct ticket *t, char *text)
{
	const struct gpu *g = t->account->lease->gpu;
	struct fmt_buf b;
	char one[96];

	if (t->kind != TICKET_CONTEXT)
		return;
	(void)str_print(one, sizeof(one),
			g->context_bytes ? "a context costs %s on this GPU"
					 : "a context needs about %s, not measured here yet",
			fmt_size(&b, t->bytes));
	add(text, LEDGER_TEXT_MAX, "; ", one);
}

void text_over_limit(const struct ledger *l, const struct ticket *t, const struct lease *wall,
		     char *text)
{
	const struct lease *lease = t->account->lease;
	char one[128];

	(void)l;
	text[0] = '\0';
	add_context(t, text);
	if (wall != lease) {
		(void)str_print(one, sizeof(one), "the limit is that of job %llu (%s) around it",
				(unsigned long long)wall->job->id, wall->job->name);
		add(text, LEDGER_TEXT_MAX, "; ", one);
	} else if (wall->limit > gpu_usable(wall->gpu)) {
		add(text, LEDGER_TEXT_MAX, "; ", "that is the whole card");
	}
	one[0] = '\0';
	add_processes(wall, one, sizeof(one));
	if (one[0])
		add(text, LEDGER_TEXT_MAX, "; ", one);
}

void text_no_turn(const struct ticket *t, char *text)
{
	(void)t;
	(void)str_copy(text, LEDGER_TEXT_MAX,
		       "too many other allocations of the job were under way at its limit");
}

void text_full(const struct ledger *l, const struct ticket *t, enum ledger_result result,
	       char *text)
{
	const struct gpu *g = t->account->lease->gpu;
	char one[LEDGER_TEXT_MAX];

	(void)l;
	text[0] = '\0';
	add_context(t, text);
	if (t->settle_deadline_ns)
		(void)str_print(one, sizeof(one), "GPU %s is being measured", g->label);
	else if (g->lost)
		(void)str_print(one, sizeof(one), "GPU %s does not answer", g->label);
	else if (result == LEDGER_CIRCLE)
		(void)str_print(one, sizeof(one), "all jobs on GPU %s waited for each other",
				g->label);
	else
		(void)str_print(one, sizeof(one), "GPU %s is full", g->label);
	add(text, LEDGER_TEXT_MAX, "; ", one);
	one[0] = '\0';
	add_jobs(g, one, sizeof(one));
	if (one[0])
		add(text, LEDGER_TEXT_MAX, ": ", one);
}

/** text_free - what can be promised there now, on the card or inside the lease around it */
uint64_t text_free(const struct ledger *l, const struct gpu *g, const struct lease *parent)
{
	if (g->lost)
		return 0;
	return parent ? lease_slack(parent)
		      : size_sat_sub(gpu_allocatable(g), gpu_promised(l, g, NULL));
}

/** text_is_obstacle - can it not be placed there at once?  No room, or others go first. */
bool text_is_obstacle(const struct ledger *l, const struct ledger_job *j, const struct gpu *g,
		      uint64_t free_bytes)
{
	return g->lost || amount_bytes(&j->request, g) > free_bytes || g->n_waiters ||
	       admit_before(l, j, g);
}

/** text_missing - of how many GPUs does the job still wait?  0: it is about to start */
unsigned text_missing(const struct ledger *l, const struct ledger_job *j)
{
	struct lease *parent;
	struct gpu *g;
	unsigned n = 0;

	for (unsigned i = 0; n < j->n_slots && job_candidate((struct ledger *)l, j, i, &g, &parent);
	     i++)
		n += g && job_is_eligible(j, g, parent) &&
		     !text_is_obstacle(l, j, g, text_free(l, g, parent));
	return j->n_slots - n;
}

/**
 * text_candidate - the GPU that a job waits for; NULL: there is none
 * That with most to promise; of a job with several that with most among those which keep it from
 * its place, for on the others it could start.
 */
const struct gpu *text_candidate(const struct ledger *l, const struct ledger_job *j,
				 uint64_t *ret_free, const struct lease **ret_parent)
{
	bool is_among_obstacles = j->n_slots > 1 && text_missing(l, j) > 0;
	const struct gpu *best = NULL;
	struct lease *parent;
	struct gpu *g;

	*ret_parent = NULL;
	*ret_free = 0;
	for (unsigned i = 0; job_candidate((struct ledger *)l, j, i, &g, &parent); i++) {
		uint64_t free_bytes;

		if (!g || !job_is_eligible(j, g, parent))
			continue;
		free_bytes = text_free(l, g, parent);
		if (is_among_obstacles && !text_is_obstacle(l, j, g, free_bytes))
			continue;
		if (best && free_bytes <= *ret_free)
			continue;
		best = g;
		*ret_free = free_bytes;
		*ret_parent = parent;
	}
	return best;
}

/* " on each of 3 GPUs", or nothing */
static const char *on_each(const struct ledger_job *j, char *buf, size_t size)
{
	buf[0] = '\0';
	if (j->n_slots > 1)
		(void)str_print(buf, size, " on each of %u GPUs", j->n_slots);
	return buf;
}

void text_waits(const struct ledger *l, const struct ledger_job *j, char *text)
{
	const struct lease *parent;
	uint64_t free_bytes, needed;
	const struct gpu *g = text_candidate(l, j, &free_bytes, &parent);
	char one[LEDGER_TEXT_MAX], each[32];
	struct fmt_buf a, b;

	text[0] = '\0';
	if (!g) {
		(void)str_copy(text, LEDGER_TEXT_MAX, "no GPU that it may use answers");
		return;
	}
	needed = amount_bytes(&j->request, g);
	if (g->lost)
		(void)str_print(text, LEDGER_TEXT_MAX, "GPU %s does not answer", g->label);
	else if (needed > free_bytes)
		(void)str_print(text, LEDGER_TEXT_MAX,
				"needs %s%s, GPU %s has %s that nobody holds or was promised",
				fmt_size(&a, needed), on_each(j, each, sizeof(each)), g->label,
				fmt_size(&b, free_bytes));
	else
		(void)str_print(text, LEDGER_TEXT_MAX, "needs %s%s, GPU %s has %s, %s",
				fmt_size(&a, needed), on_each(j, each, sizeof(each)), g->label,
				fmt_size(&b, free_bytes),
				admit_before(l, j, g) ? "but others wait before it"
				: g->n_waiters        ? "but allocations that wait there go first"
						      : "and it is about to start");
	one[0] = '\0';
	add_jobs(g, one, sizeof(one));
	if (one[0])
		add(text, LEDGER_TEXT_MAX, ": ", one);
}

void text_never(const struct ledger *l, const struct ledger_job *j, char *text)
{
	uint64_t most = 0, needed = 0;
	unsigned n = 0, eligible = 0, n_closed = 0, n_single = 0;
	const struct gpu *closed = NULL, *roomiest = NULL;
	struct lease *parent;
	struct fmt_buf a, b;
	struct gpu *g;

	for (unsigned i = 0; job_candidate((struct ledger *)l, j, i, &g, &parent); i++) {
		uint64_t wall;

		if (!g)
			continue;
		n++;
		n_single += g->is_single;
		if (g->closed) {
			n_closed++;
			closed = g;
			continue;
		}
		wall = parent ? lease_wall(parent) : gpu_usable(g);
		eligible += job_is_eligible(j, g, parent);
		if (wall >= most) {
			most = wall;
			needed = amount_bytes(&j->request, g);
			roomiest = g;
		}
	}
	if (n_closed && n_closed == n)
		(void)str_print(text, LEDGER_TEXT_MAX,
				"GPU %s is in MIG mode: name one of its instances, 'allot status' "
				"lists them",
				closed->label);
	else if (n_single && j->n_slots > 1)
		(void)str_print(
			text, LEDGER_TEXT_MAX,
			"%u GPUs asked for, %u whole ones can give as much, and CUDA shows a "
			"program only one MIG instance, with nothing beside it",
			j->n_slots, eligible);
	else if (n < j->n_slots)
		(void)str_print(text, LEDGER_TEXT_MAX, "%u GPUs asked for, %u %s", j->n_slots, n,
				j->parent ? "in the lease around it" : "there");
	else if (eligible)
		(void)str_print(text, LEDGER_TEXT_MAX,
				"%s on %u GPUs asked for, only %u can ever give as much",
				fmt_size(&a, needed), j->n_slots, eligible);
	else if (roomiest && job_contradicts(j, roomiest))
		(void)str_print(text, LEDGER_TEXT_MAX,
				"the limit of %s is below the request of %s on GPU %s",
				fmt_size(&b, amount_bytes(&j->limit, roomiest)),
				fmt_size(&a, needed), roomiest->label);
	else
		(void)str_print(text, LEDGER_TEXT_MAX, "%s asked for, %s can ever give %s",
				fmt_size(&a, needed),
				j->parent ? "the lease around it" : "the largest GPU",
				fmt_size(&b, most));
}

void ledger_job_why(const struct ledger *l, const struct ledger_job *j, uint64_t now_ns,
		    struct ledger_why *ret)
{
	const struct ledger_job *before;
	const struct lease *parent;
	const struct gpu *g;

	(void)now_ns;
	memset(ret, 0, sizeof(*ret));
	if (j->state != JOB_WAITS)
		return;
	list_for_each (before, &l->queue, queue) {
		ret->position++;
		if (before == j)
			break;
	}
	g = text_candidate(l, j, &ret->free_bytes, &parent);
	if (g)
		ret->needed_bytes = amount_bytes(&j->request, g);
	text_waits(l, j, ret->text);
}
