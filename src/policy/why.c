// SPDX-License-Identifier: Apache-2.0
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fmt.h"
#include "base/str.h"
#include "policy/books.h"

/*
 * Why a job waits.  First the place (which GPU, inside which lease), then the holders there, then
 * one sentence: what it waits for, since when, what is free, and whose end or whose memory would
 * let it go on.
 */

#define NAMED 3 /* jobs named in a sentence; the rest are among the holders */

/* where it waits: a GPU, or inside the lease around it; and the largest holders there, in order */
struct place {
	const struct gpu *gpu;
	const struct lease *parent; /* NULL: the card */
	const struct lease *top[LEDGER_WAIT_HOLDERS];
	unsigned n_top, n_all;
};

/* the room that comes back when its job has ended */
static uint64_t comes_back(const struct lease *lease)
{
	return lease->committed;
}

static void insert(struct place *p, const struct lease *lease)
{
	unsigned at = p->n_top;

	while (at > 0 && p->top[at - 1]->committed < lease->committed)
		at--;
	if (at == ARRAY_SIZE(p->top))
		return;
	if (p->n_top < ARRAY_SIZE(p->top))
		p->n_top++;
	for (unsigned i = p->n_top - 1; i > at; i--)
		p->top[i] = p->top[i - 1];
	p->top[at] = lease;
}

static void find_holders(struct place *p)
{
	const struct lease *lease;

	list_for_each (lease, &p->gpu->leases, on_gpu) {
		if (lease->parent != p->parent || (!lease->committed && !lease->charged))
			continue;
		p->n_all++;
		insert(p, lease);
	}
}

static void fill_holders(const struct ledger *l, const struct place *p, struct ledger_wait *w)
{
	for (unsigned n = 0; n < p->n_top; n++) {
		const struct lease *lease = p->top[n];

		w->holders[n] = (struct ledger_holder){
			.id = lease->job->id,
			.held_bytes = lease_held(l, lease, NULL),
			.request_bytes = lease->request,
			.waits = lease->job->n_waiters > 0,
		};
		(void)str_copy(w->holders[n].name, LEDGER_NAME_MAX, lease->job->name);
	}
	w->n_holders = p->n_all;
	w->is_circle =
		(w->kind == LEDGER_WAITS_FOR_MEMORY || w->kind == LEDGER_WAITS_FOR_CONTEXT) &&
		circle_is_at(l, p->gpu);
	if (p->parent || !p->gpu->unmanaged_bytes)
		return;
	if (w->n_holders < ARRAY_SIZE(w->holders))
		w->holders[w->n_holders].held_bytes = p->gpu->unmanaged_bytes;
	w->n_holders++;
}

static void fill_gpu(const struct place *p, struct ledger_wait *w)
{
	const struct gpu *g = p->gpu;

	w->has_gpu = true;
	w->gpu = g->number;
	w->total_bytes = g->total_bytes;
	w->allocatable_bytes = p->parent ? lease_wall(p->parent) : gpu_allocatable(g);
	w->reserve_bytes = size_sat_add(g->reserved_bytes, g->reserve_bytes);
	w->unmanaged_bytes = g->unmanaged_bytes;
}

/* ---- the sentence ---- */

static void append(char *text, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void append(char *text, const char *fmt, ...)
{
	size_t used = strlen(text);
	char more[LEDGER_SENTENCE_MAX];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(more, sizeof(more), fmt, ap);
	va_end(ap);
	(void)str_print(text + used, LEDGER_SENTENCE_MAX - used, "%s",
			more); /* the end may be cut */
}

static void append_since(char *text, const struct ledger_wait *w, uint64_t now_ns)
{
	struct fmt_buf b;

	if (w->since_ns)
		append(text, " has waited %s", fmt_duration(&b, size_sat_sub(now_ns, w->since_ns)));
	else
		append(text, " waits");
}

static void append_job(char *text, const struct ledger_job *j)
{
	append(text, "job %llu (%s)", (unsigned long long)j->id, j->name);
}

static void append_where(char *text, const struct place *p)
{
	if (p->parent) {
		append(text, "GPU %s inside ", p->gpu->label);
		append_job(text, p->parent->job);
	} else {
		append(text, "GPU %s", p->gpu->label);
	}
}

static void append_holding(char *text, const struct ledger *l, const struct lease *lease)
{
	uint64_t held = lease_held(l, lease, NULL);
	struct fmt_buf a, b;

	append_job(text, lease->job);
	append(text, ", which holds %s", fmt_size(&a, held));
	if (lease->request > held)
		append(text, " and was promised %s", fmt_size(&b, lease->request));
	append(text, ",");
}

/* whose end gives @missing back: one of several alone, or the largest together */
static void append_ends(char *text, const struct ledger *l, const struct place *p, uint64_t missing)
{
	uint64_t sum = 0;
	unsigned alone = 0, n, together = 0;

	while (alone < p->n_top && comes_back(p->top[alone]) >= missing)
		alone++;
	if (alone > 0) {
		append(text, ": it starts when ");
		for (n = alone > NAMED ? alone - NAMED : 0; n < alone; n++) {
			append_holding(text, l, p->top[n]);
			append(text, n + 1 < alone ? " or " : " ends");
		}
		if (alone > NAMED)
			append(text, " (or another one)");
		return;
	}
	while (sum < missing && together < p->n_top)
		sum = size_sat_add(sum, comes_back(p->top[together++]));
	if (sum < missing && p->n_all == p->n_top) {
		append(text, ": it starts when programs outside allot have ended");
		return;
	}
	append(text, ": it starts when ");
	for (n = 0; n < together && n < NAMED; n++) {
		append_holding(text, l, p->top[n]);
		append(text, n + 1 < together ? " and " : " have ended");
	}
	if (together > NAMED)
		append(text, "others have ended");
}

static void say_place(const struct ledger *l, const struct ledger_job *j,
		      const struct ledger_job *before, const struct place *p, uint64_t now_ns,
		      struct ledger_wait *w)
{
	char *text = w->sentence;
	struct fmt_buf a, b;

	append_job(text, j);
	append_since(text, w, now_ns);
	if (!p->gpu) {
		append(text, " for a GPU: none that it may use answers");
		return;
	}
	append(text, " for %s of ", fmt_size(&a, w->needed_bytes));
	append_where(text, p);
	if (j->n_slots > 1)
		append(text, " (and of %u more)", j->n_slots - 1);
	if (p->gpu->lost) {
		append(text, ", which does not answer: it starts when the GPU is back");
	} else if (w->needed_bytes > w->free_bytes) {
		append(text, ", where %s can be promised",
		       w->free_bytes ? fmt_size(&b, w->free_bytes) : "nothing");
		append_ends(text, l, p, w->needed_bytes - w->free_bytes);
	} else if (before) {
		append(text, ", which has room: it starts after ");
		append_job(text, before);
		append(text, ", which waits before it");
	} else if (p->gpu->n_waiters) {
		append(text, ", which has room: it starts when the allocations that wait there "
			     "have been served");
	} else {
		append(text, ", which has room: it starts in a moment");
	}
}

/* who holds more than promised gives way soonest */
static void append_givers(char *text, const struct ledger *l, const struct place *p,
			  const struct lease *own)
{
	unsigned named = 0;
	struct fmt_buf a, b;

	for (unsigned n = 0; named < NAMED && n < p->n_top; n++) {
		const struct lease *lease = p->top[n];
		uint64_t held = lease_held(l, lease, NULL);

		if (lease == own)
			continue;
		append(text, named ? ", " : ": it goes on when memory comes back; ");
		append_job(text, lease->job);
		append(text, " holds %s", fmt_size(&a, held));
		if (held > lease->request && lease->request)
			append(text, " (promised %s)", fmt_size(&b, lease->request));
		else if (lease->request > held)
			append(text, " of the %s it was promised", fmt_size(&b, lease->request));
		named++;
	}
	if (!named && !p->parent && p->gpu->unmanaged_bytes)
		append(text, ": it goes on when programs outside allot, which hold %s, end",
		       fmt_size(&a, p->gpu->unmanaged_bytes));
}

static void say_memory(const struct ledger *l, const struct ticket *t, const struct place *p,
		       const struct lease *own, uint64_t now_ns, struct ledger_wait *w)
{
	const struct ledger_job *j = t->account->lease->job;
	char *text = w->sentence;
	struct fmt_buf a, b;

	append_job(text, j);
	append(text, ", process %d,", w->pid);
	append_since(text, w, now_ns);
	if (w->kind == LEDGER_WAITS_FOR_MEASURE) {
		append(text, " for a figure of GPU %s: what the driver took is being measured",
		       p->gpu->label);
		return;
	}
	append(text, " for %s%s of ", fmt_size(&a, w->needed_bytes),
	       w->kind == LEDGER_WAITS_FOR_CONTEXT ? " (a context)" : "");
	append_where(text, p);
	if (p->gpu->lost) {
		append(text, ", which does not answer");
	} else {
		append(text, ", which has %s left for it",
		       w->free_bytes ? fmt_size(&b, w->free_bytes) : "nothing");
		if (w->is_circle)
			append(text, "; those who hold memory wait for each other, so the youngest "
				     "of them is refused in a moment");
		append_givers(text, l, p, own);
	}
	if (w->deadline_ns != LEDGER_NEVER)
		append(text, "; refused in %s",
		       fmt_duration(&a, size_sat_sub(w->deadline_ns, now_ns)));
}

/* ---- the facts ---- */

/* the GPU that text_candidate() names first, then the others in their order; of a job that wants
 * several only those that keep it waiting */
static bool find_place(const struct ledger *l, const struct ledger_job *j, unsigned n,
		       struct place *p, uint64_t *ret_free)
{
	bool is_among_obstacles = j->n_slots > 1 && text_missing(l, j) > 0;
	struct lease *parent;
	struct gpu *g;

	p->gpu = text_candidate(l, j, ret_free, &p->parent);
	if (n == 0)
		return true; /* also when there is none */
	/* job_candidate hands out pointers into the ledger; nothing is changed through them */
	for (unsigned i = 0; job_candidate((struct ledger *)l, j, i, &g, &parent); i++) {
		uint64_t free_bytes;

		if (!g || g == p->gpu || !job_is_eligible(j, g, parent))
			continue;
		free_bytes = text_free(l, g, parent);
		if ((is_among_obstacles && !text_is_obstacle(l, j, g, free_bytes)) || --n > 0)
			continue;
		*p = (struct place){ .gpu = g, .parent = parent };
		*ret_free = free_bytes;
		return true;
	}
	return false;
}

static bool wait_for_place(const struct ledger *l, const struct ledger_job *j, unsigned n,
			   uint64_t since_ns, uint64_t now_ns, struct ledger_wait *w)
{
	const struct ledger_job *other, *before = NULL;
	struct place p = { 0 };
	bool is_past = false;

	if (!find_place(l, j, n, &p, &w->free_bytes))
		return false;

	w->kind = LEDGER_WAITS_FOR_PLACE;
	w->since_ns = since_ns;
	w->deadline_ns = j->admit_deadline_ns;
	w->waiting = l->n_queue;
	list_for_each (other, &l->queue, queue) {
		is_past = is_past || other == j;
		if (is_past)
			continue;
		w->position++;
		before = other;
	}
	w->position++;
	w->before_id = before ? before->id : 0;
	if (p.gpu) {
		w->needed_bytes = amount_bytes(&j->request, p.gpu);
		find_holders(&p);
		fill_gpu(&p, w);
		fill_holders(l, &p, w);
	}
	w->is_one_of_all = j->n_slots > 1 && text_missing(l, j) > 1;
	say_place(l, j, p.gpu ? admit_before(l, j, p.gpu) : NULL, &p, now_ns, w);
	return true;
}

/* the wall of the card or of a lease around it: what the ask really hangs at */
static struct place place_of(const struct lease *lease, uint64_t bytes,
			     const struct lease **ret_own)
{
	const struct lease *own = lease;

	while (own->parent && lease_slack(own->parent) >= bytes)
		own = own->parent;
	*ret_own = own;
	return (struct place){ .gpu = lease->gpu, .parent = own->parent };
}

static uint64_t room_for(const struct ledger *l, const struct place *p, const struct lease *own)
{
	uint64_t held = lease_held(l, own, NULL);

	if (p->gpu->lost)
		return 0;
	if (p->parent)
		return lease_slack(p->parent);
	return size_sat_sub(size_sat_sub(gpu_allocatable(p->gpu), gpu_promised(l, p->gpu, own)),
			    held);
}

static void wait_for_memory(const struct ledger *l, const struct ticket *t, unsigned position,
			    const struct ticket *before, uint64_t now_ns, struct ledger_wait *w)
{
	const struct lease *own;
	struct place p = place_of(t->account->lease, t->bytes, &own);

	w->kind = t->settle_deadline_ns       ? LEDGER_WAITS_FOR_MEASURE
		  : t->kind == TICKET_CONTEXT ? LEDGER_WAITS_FOR_CONTEXT
					      : LEDGER_WAITS_FOR_MEMORY;
	w->pid = t->account->process->pid;
	w->position = position;
	w->waiting = p.gpu->n_waiters;
	w->needed_bytes = t->bytes;
	w->free_bytes = room_for(l, &p, own);
	w->since_ns = t->since_ns;
	w->deadline_ns = t->settle_deadline_ns ? t->settle_deadline_ns : t->deadline_ns;
	w->before_id = before ? before->account->lease->job->id : 0;
	find_holders(&p);
	fill_gpu(&p, w);
	fill_holders(l, &p, w);
	say_memory(l, t, &p, own, now_ns, w);
}

bool ledger_job_wait(const struct ledger *l, const struct ledger_job *j, unsigned n,
		     uint64_t since_ns, uint64_t now_ns, struct ledger_wait *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (j->state == JOB_WAITS)
		return wait_for_place(l, j, n, since_ns, now_ns, ret);
	if (j->state != JOB_ADMITTED && j->state != JOB_ENDED)
		return false;
	for (unsigned slot = 0; slot < j->n_slots; slot++) {
		const struct ticket *t, *before = NULL;
		unsigned position = 0;

		if (!j->leases[slot].gpu)
			continue;
		list_for_each (t, &j->leases[slot].gpu->waiters, node) {
			position++;
			if (t->account->lease->job == j && n-- == 0) {
				wait_for_memory(l, t, position, before, now_ns, ret);
				return true;
			}
			before = t;
		}
	}
	return false;
}
