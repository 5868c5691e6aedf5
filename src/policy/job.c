// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fmt.h"
#include "base/str.h"
#include "policy/books.h"

/** amount_bytes - a part of the card is a part of its total, but never more than can be had */
uint64_t amount_bytes(const struct ledger_amount *a, const struct gpu *g)
{
	if (!a->permille)
		return a->bytes;
	return size_min(g->total_bytes * a->permille / 1000, gpu_usable(g));
}

static bool amount_is_none(const struct ledger_amount *a)
{
	return !a->bytes && !a->permille;
}

static uint64_t limit_bytes(const struct ledger_amount *a, const struct gpu *g)
{
	return amount_is_none(a) ? LEDGER_NO_LIMIT : amount_bytes(a, g);
}

static int say(char *text, int code, const char *why)
{
	if (text)
		(void)str_copy(text, LEDGER_TEXT_MAX, why);
	return code;
}

static int check_amounts(const struct ledger_amount *request, const struct ledger_amount *limit,
			 char *text)
{
	if ((request->bytes && request->permille) || (limit->bytes && limit->permille) ||
	    request->permille > 1000 || limit->permille > 1000)
		return say(text, -EINVAL, "an amount is bytes or a part of the card, not both");
	if ((limit->bytes && limit->bytes < request->bytes) ||
	    (limit->permille && limit->permille < request->permille))
		return say(text, -EINVAL, "the limit is below the request");
	return 0;
}

static int check_spec(const struct ledger *l, const struct ledger_job_spec *spec, char *text)
{
	if (spec->n_gpus < 1 || spec->n_gpus > LEDGER_MAX_SLOTS ||
	    spec->n_listed > LEDGER_MAX_SLOTS)
		return say(text, -EINVAL, "a job has 1 to 16 GPUs");
	if ((unsigned)spec->job_class >= LEDGER_CLASS_COUNT)
		return say(text, -EINVAL, "unknown class");
	if (spec->n_listed && spec->n_gpus > spec->n_listed)
		return say(text, -EINVAL, "more GPUs asked for than named");
	for (unsigned i = 0; i < spec->n_listed; i++) {
		if (spec->listed[i] >= l->n_gpus)
			return say(text, -EINVAL, "no such GPU");
		for (unsigned k = 0; k < i; k++)
			if (spec->listed[k] == spec->listed[i])
				return say(text, -EINVAL, "a GPU is named twice");
	}
	if (spec->parent && (spec->parent->state != JOB_ADMITTED || !spec->parent->leases[0].gpu))
		return say(text, -EINVAL, "the job around it has no lease");
	if (spec->parent && spec->parent->depth + 1 >= LEDGER_MAX_DEPTH)
		return say(text, -EINVAL, "jobs are nested too deeply");
	return check_amounts(&spec->request, &spec->limit, text);
}

static struct ledger_job *job_new(struct ledger *l, const struct ledger_job_spec *spec, void *owner,
				  char *text)
{
	struct ledger_job *j = calloc(1, sizeof(*j) + spec->n_gpus * sizeof(j->leases[0]));

	if (!j) {
		(void)say(text, 0, "allotd has no memory left");
		return NULL;
	}
	j->id = spec->id;
	(void)str_copy(j->name, sizeof(j->name), spec->name ? spec->name : "");
	j->job_class = spec->job_class;
	j->may_wait = spec->may_wait;
	j->when_full_ns = spec->when_full_ns;
	j->admit_deadline_ns = spec->admit_deadline_ns;
	j->seq = ++l->last_seq;
	j->request = spec->request;
	j->limit = spec->limit;
	j->n_listed = spec->n_listed;
	memcpy(j->listed, spec->listed, sizeof(j->listed));
	j->parent = spec->parent;
	j->depth = spec->parent ? spec->parent->depth + 1 : 0;
	j->owner = owner;
	j->n_slots = spec->n_gpus;
	list_init(&j->kids);
	list_init(&j->processes);
	list_append(&l->jobs, &j->all);
	if (j->parent)
		list_append(&j->parent->kids, &j->sibling);
	return j;
}

/** job_place - the job gets its lease on @gpus, slot by slot */
void job_place(struct ledger *l, struct ledger_job *j, struct gpu *const *gpus, uint64_t now_ns)
{
	(void)l;
	for (unsigned i = 0; i < j->n_slots; i++) {
		struct lease *lease = &j->leases[i];

		lease->job = j;
		lease->gpu = gpus[i];
		lease->slot = i;
		if (j->parent)
			lease->parent =
				&j->parent->leases[ledger_job_slot_of(j->parent, gpus[i]->number)];
		lease->limit = limit_bytes(&j->limit, gpus[i]);
		lease->request = size_min(amount_bytes(&j->request, gpus[i]), lease->limit);
		list_append(&gpus[i]->leases, &lease->on_gpu);
		gpu_changed(gpus[i], now_ns, false);
		lease_recommit(lease, now_ns);
	}
	j->state = JOB_ADMITTED;
}

static unsigned count_eligible(struct ledger *l, const struct ledger_job *j)
{
	struct lease *parent;
	unsigned n = 0;
	struct gpu *g;

	for (unsigned i = 0; job_candidate(l, j, i, &g, &parent); i++)
		if (g && job_is_eligible(j, g, parent))
			n++;
	return n;
}

enum ledger_admission ledger_admit(struct ledger *l, const struct ledger_job_spec *spec,
				   void *owner, uint64_t now_ns, struct ledger_job **ret_job,
				   char *ret_text)
{
	struct ledger_job *j;

	if (ret_text)
		ret_text[0] = '\0';
	if (check_spec(l, spec, ret_text) < 0)
		return LEDGER_BAD;
	j = job_new(l, spec, owner, ret_text);
	if (!j)
		return LEDGER_BAD;
	if (count_eligible(l, j) < j->n_slots) {
		if (ret_text)
			text_never(l, j, ret_text);
		(void)ledger_job_free(l, j, now_ns);
		return LEDGER_NEVER_FITS;
	}
	admit_queue_add(l, j);
	admit_pass(l, now_ns);
	if (j->state == JOB_ADMITTED) {
		list_del(&j->event);
		*ret_job = j;
		return LEDGER_ADMITTED;
	}
	if (ret_text)
		text_waits(l, j, ret_text);
	if (j->state == JOB_TIMED_OUT) {
		(void)ledger_job_free(l, j, now_ns);
		return LEDGER_BUSY;
	}
	*ret_job = j;
	return LEDGER_WAITS;
}

int ledger_job_restore(struct ledger *l, const struct ledger_job_spec *spec, void *owner,
		       uint64_t now_ns, struct ledger_job **ret_job)
{
	struct gpu *gpus[LEDGER_MAX_SLOTS];
	struct ledger_job *j;

	if (check_spec(l, spec, NULL) < 0 || spec->n_listed != spec->n_gpus)
		return -EINVAL;
	for (unsigned i = 0; i < spec->n_listed; i++) {
		gpus[i] = &l->gpus[spec->listed[i]];
		if (spec->parent && ledger_job_slot_of(spec->parent, spec->listed[i]) < 0)
			return -EINVAL;
	}
	j = job_new(l, spec, owner, NULL);
	if (!j)
		return -ENOMEM;
	job_place(l, j, gpus, now_ns);
	*ret_job = j;
	return 0;
}

unsigned ledger_job_slots(const struct ledger_job *j, unsigned ret_gpus[LEDGER_MAX_SLOTS])
{
	if (!j->leases[0].gpu)
		return 0;
	for (unsigned i = 0; i < j->n_slots; i++)
		ret_gpus[i] = j->leases[i].gpu->number;
	return j->n_slots;
}

int ledger_job_slot_of(const struct ledger_job *j, unsigned gpu)
{
	for (unsigned i = 0; i < j->n_slots; i++)
		if (j->leases[i].gpu && j->leases[i].gpu->number == gpu)
			return (int)i;
	return -ENOENT;
}

/* what one lease would become by a change */
static void changed_amounts(const struct lease *lease, const struct ledger_job_change *c,
			    uint64_t *ret_request, uint64_t *ret_limit)
{
	const struct gpu *g = lease->gpu;

	*ret_limit = c->has_limit ? limit_bytes(&c->limit, g) : lease->limit;
	*ret_request = c->has_request ? amount_bytes(&c->request, g) : lease->request;
	/* a limit lowered alone takes the promise down with it */
	if (!c->has_request)
		*ret_request = size_min(*ret_request, *ret_limit);
}

static int check_change(struct ledger *l, struct lease *lease, const struct ledger_job_change *c,
			uint64_t now_ns, char *text)
{
	uint64_t request, limit, wall, more;
	struct gpu *g = lease->gpu;
	struct fmt_buf a, b;

	changed_amounts(lease, c, &request, &limit);
	if (request > limit)
		return say(text, -EINVAL, "the request is above the limit");
	wall = lease->parent ? lease_wall(lease->parent) : gpu_usable(g);
	if (c->has_request && request > wall) {
		if (text)
			(void)str_print(text, LEDGER_TEXT_MAX,
					"%s asked for, %s %s can ever give %s",
					fmt_size(&a, request),
					lease->parent ? "the lease around it on GPU" : "GPU",
					g->label, fmt_size(&b, wall));
		return -EDQUOT;
	}
	for (int tries = 0; tries < 2; tries++) {
		more = size_sat_sub(request, lease->committed);
		/* what takes nothing is always granted, also where there is nothing to be had */
		if (!more || !room_for_promise(lease->parent, g, more, 0).mark)
			return 0;
		gpu_call_back(l, g, NULL, now_ns);
	}
	if (text)
		(void)str_print(text, LEDGER_TEXT_MAX,
				"GPU %s can promise %s more now, the change needs %s", g->label,
				fmt_size(&a, gpu_slack(g)), fmt_size(&b, more));
	return -ENOSPC;
}

int ledger_job_set(struct ledger *l, struct ledger_job *j, const struct ledger_job_change *c,
		   uint64_t now_ns, char *ret_text)
{
	static const struct ledger_amount none;
	int r;

	if (j->state != JOB_ADMITTED)
		return say(ret_text, -ENOENT, "the job has no lease");
	if (c->has_class && (unsigned)c->job_class >= LEDGER_CLASS_COUNT)
		return say(ret_text, -EINVAL, "unknown class");
	r = check_amounts(c->has_request ? &c->request : &none, c->has_limit ? &c->limit : &none,
			  ret_text);
	for (unsigned i = 0; r == 0 && i < j->n_slots; i++)
		r = check_change(l, &j->leases[i], c, now_ns, ret_text);
	if (r < 0)
		return r;
	if (c->has_request)
		j->request = c->request;
	if (c->has_limit)
		j->limit = c->limit;
	if (c->has_when_full) {
		j->may_wait = c->may_wait;
		j->when_full_ns = c->when_full_ns;
	}
	for (unsigned i = 0; i < j->n_slots; i++) {
		struct lease *lease = &j->leases[i];
		uint64_t request, limit;

		changed_amounts(lease, c, &request, &limit);
		lease->request = request;
		lease->limit = limit;
		lease_recommit(lease, now_ns);
		gpu_changed(lease->gpu, now_ns, true);
		lease_look_over(lease);
		/* credit beyond a lowered limit would be taken without asking */
		gpu_call_back(l, lease->gpu, job_root(j), now_ns);
	}
	if (c->has_class && c->job_class != j->job_class) {
		j->job_class = c->job_class;
		wait_resort(l, j);
	}
	return 0;
}

void ledger_job_end(struct ledger *l, struct ledger_job *j, uint64_t now_ns)
{
	if (list_is_linked(&j->queue))
		admit_queue_del(l, j);
	list_del(&j->event);
	if (j->state == JOB_ADMITTED)
		for (unsigned i = 0; i < j->n_slots; i++) {
			j->leases[i].request = 0;
			lease_recommit(&j->leases[i], now_ns);
			gpu_changed(j->leases[i].gpu, now_ns, true);
		}
	j->state = JOB_ENDED;
}

int ledger_job_free(struct ledger *l, struct ledger_job *j, uint64_t now_ns)
{
	if (!j)
		return 0;
	if (!list_is_empty(&j->processes) || !list_is_empty(&j->kids))
		return -EBUSY;
	ledger_job_end(l, j, now_ns);
	for (unsigned i = 0; i < j->n_slots; i++)
		list_del(&j->leases[i].on_gpu);
	list_del(&j->sibling);
	list_del(&j->all);
	free(j);
	return 0;
}
