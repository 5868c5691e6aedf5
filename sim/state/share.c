// SPDX-License-Identifier: Apache-2.0
#include "sim/state/share.h"

#include <errno.h>
#include <string.h>

#include "base/size.h"
#include "sim/state/layout.h"

static struct share *find(struct shared *s, uint64_t id)
{
	for (unsigned i = 0; i < s->shares_end; i++)
		if (s->shares[i].n && s->shares[i].id == id)
			return &s->shares[i];
	return NULL;
}

static struct share *find_unused(struct shared *s)
{
	for (unsigned i = 0; i < SIM_SHARES_MAX; i++) {
		if (s->shares[i].n)
			continue;
		s->shares_end = size_max(s->shares_end, (uint64_t)i + 1);
		return &s->shares[i];
	}
	return NULL;
}

static struct holder *holder_of(struct share *sh, unsigned row)
{
	for (unsigned i = 0; i < sh->n; i++)
		if (sh->holders[i].row == row)
			return &sh->holders[i];
	return NULL;
}

static struct holder *holder_new(struct share *sh, unsigned row)
{
	struct holder *h = sh->n < SIM_HOLDERS_MAX ? &sh->holders[sh->n] : NULL;

	if (!h)
		return NULL;
	/* behind the one who is charged, before all others: who came last is charged next */
	if (sh->n) {
		memmove(&sh->holders[2], &sh->holders[1], (sh->n - 1) * sizeof(*h));
		h = &sh->holders[1];
	}
	*h = (struct holder){ .row = row };
	sh->n++;
	return h;
}

static uint64_t *use_of(struct shared *s, const struct share *sh, const struct holder *h)
{
	return &s->rows[h->row].devices[sh->device].use_bytes[sh->is_pool ? SIM_USE_LEFT
									  : SIM_USE_ALLOC];
}

/* up to @bytes of a pool stay, with the first importer that has so much open */
static void leave(struct shared *s, struct share *sh, uint64_t bytes)
{
	for (unsigned i = sh->is_owned; i < sh->n; i++) {
		struct holder *h = &sh->holders[i];
		uint64_t part = size_min(bytes, h->opened_bytes - h->left_bytes);

		h->left_bytes += part;
		*use_of(s, sh, h) += part;
		bytes -= part;
	}
}

/* @h goes: what it was charged is the next one's */
static void remove_holder(struct shared *s, struct share *sh, struct holder *h)
{
	unsigned at = (unsigned)(h - sh->holders);
	bool was_owner = sh->is_owned && at == 0, was_payer = !sh->is_pool && at == 0;

	if (was_payer || sh->is_pool) {
		uint64_t *held = use_of(s, sh, h);

		*held = size_sat_sub(*held, was_payer ? sh->bytes : h->left_bytes);
	}
	sh->n--;
	memmove(h, h + 1, (sh->n - at) * sizeof(*h));
	if (was_owner)
		sh->is_owned = 0;
	if (was_payer && sh->n)
		*use_of(s, sh, &sh->holders[0]) += sh->bytes;
	if (was_owner && sh->is_pool)
		leave(s, sh, UINT64_MAX);
}

void shares_reap(struct shared *s, unsigned row)
{
	for (unsigned i = 0; i < s->shares_end; i++) {
		struct holder *h = s->shares[i].n ? holder_of(&s->shares[i], row) : NULL;

		if (h)
			remove_holder(s, &s->shares[i], h);
	}
}

int sim_state_share(struct sim_state *state, unsigned index, uint64_t id, uint64_t bytes,
		    bool is_pool)
{
	struct shared *s = state->shared;
	struct share *sh;
	int r = 0;

	if (state->row < 0)
		return -EINVAL;
	sim_state_lock(state);
	sh = find(s, id);
	if (!sh) {
		sh = find_unused(s);
		r = sh ? 0 : -ENOSPC;
		if (sh) {
			*sh = (struct share){ .id = id,
					      .bytes = is_pool ? 0 : bytes,
					      .device = index,
					      .is_pool = is_pool,
					      .is_owned = 1 };
			holder_new(sh, (unsigned)state->row)->count = 1;
		}
	}
	sim_state_unlock(state);
	return r;
}

int sim_state_open_share(struct sim_state *state, uint64_t id, uint64_t bytes)
{
	struct shared *s = state->shared;
	struct holder *h = NULL;
	struct share *sh;
	int r = -ENOENT;

	if (state->row < 0)
		return -EINVAL;
	sim_state_lock(state);
	rows_reap(state);
	sh = find(s, id);
	if (sh) {
		h = holder_of(sh, (unsigned)state->row);
		if (!h)
			h = holder_new(sh, (unsigned)state->row);
		r = h ? 0 : -ENOSPC;
	}
	if (h) {
		h->count++;
		h->opened_bytes += bytes;
	}
	sim_state_unlock(state);
	return r;
}

bool sim_state_close_share(struct sim_state *state, uint64_t id)
{
	struct share *sh;
	struct holder *h;

	if (state->row < 0)
		return false;
	sim_state_lock(state);
	sh = find(state->shared, id);
	h = sh ? holder_of(sh, (unsigned)state->row) : NULL;
	if (h && --h->count == 0)
		remove_holder(state->shared, sh, h);
	sim_state_unlock(state);
	return h != NULL;
}

void sim_state_pool_shrank(struct sim_state *state, uint64_t id, uint64_t bytes)
{
	struct share *sh;

	if (state->row < 0)
		return;
	sim_state_lock(state);
	sh = find(state->shared, id);
	if (sh && sh->is_owned && sh->holders[0].row == (unsigned)state->row)
		leave(state->shared, sh, bytes);
	sim_state_unlock(state);
}

void sim_state_close_pool(struct sim_state *state, uint64_t id)
{
	struct share *sh;
	struct holder *h;

	if (state->row < 0)
		return;
	sim_state_lock(state);
	sh = find(state->shared, id);
	h = sh ? holder_of(sh, (unsigned)state->row) : NULL;
	if (h && !(sh->is_owned && h == sh->holders))
		remove_holder(state->shared, sh, h);
	sim_state_unlock(state);
}
