// SPDX-License-Identifier: Apache-2.0
#include "policy/books.h"

/*
 * The rules of ledger.h: wall, promise, burst.  An ask is looked at inside each container that it
 * would fill: the lease itself (when jobs are nested in it), each lease around it, the card.
 */

#define CREDIT_PART    64         /* of what is left: so credit shrinks towards every wall */
#define AMPLE_CONTEXTS 4          /* who has room for so many estimates need not know */
#define CONTEXT_FLOOR  (32 * MIB) /* no context is smaller: what an unmeasured one waits for */

/* a lease or the card, as that which has room for others */
struct container {
	uint64_t capacity;
	uint64_t charged;
	uint64_t committed;
	uint64_t *mark;
	uint64_t *admit_mark;
};

static struct container container_of_lease(struct lease *lease)
{
	return (struct container){
		.capacity = lease_wall(lease),
		.charged = lease->charged,
		.committed = lease->charged_own + lease->kids_committed,
		.mark = &lease->mark,
		.admit_mark = &lease->admit_mark,
	};
}

static struct container container_around(struct lease *lease, struct gpu *g)
{
	if (lease)
		return container_of_lease(lease);
	return (struct container){
		.capacity = gpu_allocatable(g),
		.charged = g->charged + gpu_passing(g),
		.committed = g->committed,
		.mark = &g->mark,
		.admit_mark = &g->admit_mark,
	};
}

static bool fits(uint64_t have, uint64_t more, uint64_t capacity)
{
	return size_sat_add(have, more) <= capacity;
}

/** lease_wall - the limit of this lease alone; without one, the card's usable bytes */
uint64_t lease_wall(const struct lease *lease)
{
	return size_min(lease->limit, gpu_usable(lease->gpu));
}

/** lease_left - up to the nearest wall of the chain */
uint64_t lease_left(const struct lease *lease)
{
	uint64_t left = UINT64_MAX;

	for (; lease; lease = lease->parent)
		left = size_min(left, size_sat_sub(lease_wall(lease), lease->charged));
	return left;
}

/** lease_slack - room inside the lease that is promised to nobody nested in it */
uint64_t lease_slack(const struct lease *lease)
{
	return size_sat_sub(lease_wall(lease), lease->charged_own + lease->kids_committed);
}

uint64_t gpu_slack(const struct gpu *g)
{
	return g->lost ? 0 : size_sat_sub(gpu_allocatable(g), g->committed);
}

/** lease_is_unsettled - may a figure below @wall still turn out smaller? */
bool lease_is_unsettled(const struct lease *wall, uint64_t now_ns)
{
	const struct account *a;

	list_for_each (a, &wall->gpu->accounts, on_gpu) {
		if (a->unsettled_until_ns <= now_ns && !a->settling && !a->creating)
			continue;
		for (const struct lease *lease = a->lease; lease; lease = lease->parent)
			if (lease == wall)
				return true;
	}
	return false;
}

static uint64_t recommitted(const struct lease *lease, uint64_t more)
{
	return size_max(lease->request,
			size_sat_add(lease->charged_own + lease->kids_committed, more)) -
	       lease->committed;
}

/**
 * room_for_ask - may a process of @lease hold @bytes more?
 * @pass: whoever was found blocked in this pass goes first; 0: nobody
 */
struct block room_for_ask(struct lease *lease, uint64_t bytes, uint64_t pass)
{
	struct gpu *g = lease->gpu;
	uint64_t more;

	for (struct lease *a = lease; a; a = a->parent)
		if (!fits(a->charged, bytes, lease_wall(a)))
			return (struct block){ .over = true, .wall = a };
	if (g->lost)
		return (struct block){ .mark = &g->mark };
	if (lease->kids_committed) {
		struct container in = container_of_lease(lease);

		if ((pass && *in.mark == pass) || !fits(in.committed, bytes, in.capacity))
			return (struct block){ .mark = in.mark };
	}
	more = recommitted(lease, bytes);
	for (;;) {
		struct container in = container_around(lease->parent, g);
		bool room = fits(in.charged, bytes, in.capacity);
		bool promised = room && fits(lease->charged, bytes, lease->request);

		if (!promised &&
		    (!room || (pass && *in.mark == pass) || !fits(in.committed, more, in.capacity)))
			return (struct block){ .mark = in.mark };
		lease = lease->parent;
		if (!lease)
			return (struct block){ 0 };
		more = recommitted(lease, more);
	}
}

/** room_for_promise - may @more be promised inside @parent (NULL: on the card)? */
struct block room_for_promise(struct lease *parent, struct gpu *g, uint64_t more, uint64_t pass)
{
	if (g->lost)
		return (struct block){ .mark = &g->admit_mark };
	for (; more; parent = parent->parent) {
		struct container in = container_around(parent, g);

		if ((pass && *in.admit_mark == pass) || !fits(in.committed, more, in.capacity))
			return (struct block){ .mark = in.admit_mark };
		if (!parent)
			break;
		more = recommitted(parent, more);
	}
	return (struct block){ 0 };
}

/**
 * credit_ahead - what may be handed out beside a grant without harm to anybody
 *
 * Inside a promise it costs nobody anything; in a burst it is a small part of what is left.
 */
uint64_t credit_ahead(const struct ledger *l, const struct account *a)
{
	struct lease *lease = a->lease;
	struct gpu *g = lease->gpu;
	uint64_t ahead = size_min(LEDGER_CREDIT_BYTES, lease_left(lease) / CREDIT_PART);

	if (g->n_waiters || a->process->state != LEDGER_ATTACHED)
		return 0;
	if (lease->kids_committed)
		ahead = size_min(ahead, lease_slack(lease) / CREDIT_PART);
	for (; lease; lease = lease->parent) {
		struct container in = container_around(lease->parent, g);
		uint64_t room = size_sat_sub(in.capacity, in.charged);
		uint64_t promised = size_min(size_sat_sub(lease->request, lease->charged), room);
		uint64_t burst =
			size_min(size_sat_sub(in.capacity, in.committed) / CREDIT_PART, room);

		if (l->n_queue)
			burst = 0;
		ahead = size_min(ahead, size_max(promised, burst));
	}
	return ahead & ~(MIB - 1);
}

/** gpu_passing - charged to the card alone, for moments */
uint64_t gpu_passing(const struct gpu *g)
{
	return g->overdraft + g->probe;
}

/** context_waits_for_probe - may a context of @a turn out too large, and is one being measured? */
bool context_waits_for_probe(const struct account *a, uint64_t now_ns)
{
	const struct gpu *g = a->lease->gpu;

	return !g->context_bytes && now_ns < g->probe_until_ns &&
	       lease_left(a->lease) < AMPLE_CONTEXTS * LEDGER_CONTEXT_BYTES;
}

/** context_cost_is_near - nobody knows yet what a context costs here, but one is being made */
bool context_cost_is_near(const struct account *a)
{
	const struct gpu *g = a->lease->gpu;
	const struct account *other;

	if (g->context_bytes)
		return false;
	list_for_each (other, &g->accounts, on_gpu)
		if (other->creating || other->settling)
			return true;
	return false;
}

/**
 * context_estimate - what to reserve for a context
 * @patient: may it wait until the first one is measured, rather than be made where it may not fit?
 */
uint64_t context_estimate(const struct account *a, bool patient)
{
	const struct lease *lease = a->lease;
	const struct gpu *g = lease->gpu;
	uint64_t left = lease_left(lease);
	uint64_t room;

	if (g->context_bytes)
		return g->context_bytes;
	if (!left)
		return CONTEXT_FLOOR;
	if (patient && left < LEDGER_CONTEXT_BYTES && context_cost_is_near(a))
		return LEDGER_CONTEXT_BYTES;
	room = size_max(gpu_slack(g), size_sat_sub(lease->request, lease->charged));
	return size_min(size_min(LEDGER_CONTEXT_BYTES, left), size_max(room, CONTEXT_FLOOR));
}
