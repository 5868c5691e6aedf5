// SPDX-License-Identifier: Apache-2.0
/* Who holds how much: always added up, never stored as a sum. */
#include <errno.h>
#include <string.h>

#include "base/size.h"
#include "sim/state/layout.h"

static bool is_device(const struct shared *s, unsigned index)
{
	return index < s->profile.device_count + s->profile.instance_count;
}

/* is @i what @index is made of: itself, or one of a card's instances? */
static bool is_part(const struct shared *s, unsigned i, unsigned index)
{
	const struct sim_device_info *d = &s->profile.devices[i];

	return i == index || (d->is_instance && d->parent == index);
}

static uint64_t row_use(const struct shared *s, const struct row *row, unsigned index, unsigned use)
{
	uint64_t used = 0;

	for (unsigned i = index; is_device(s, i); i++)
		if (is_part(s, i, index))
			used = size_sat_add(used, row->devices[i].use_bytes[use]);
	return used;
}

static uint64_t row_used(const struct shared *s, const struct row *row, unsigned index)
{
	uint64_t used = 0;

	for (unsigned use = 0; use < SIM_USE_COUNT; use++)
		used = size_sat_add(used, row_use(s, row, index, use));
	return used;
}

/* NVML's figure of a process lacks managed memory and what is left of pools, the card's has it */
static uint64_t row_shown(const struct shared *s, const struct row *row, unsigned index)
{
	return row_used(s, row, index) - row_use(s, row, index, SIM_USE_MANAGED) -
	       row_use(s, row, index, SIM_USE_LEFT);
}

static uint64_t row_contexts(const struct shared *s, const struct row *row, unsigned index)
{
	uint64_t n = 0;

	for (unsigned i = index; is_device(s, i); i++)
		if (is_part(s, i, index))
			n += row->devices[i].contexts;
	return n;
}

static uint64_t used_by_all(const struct shared *s, unsigned index)
{
	uint64_t used = 0;

	for (unsigned i = 0; i < s->rows_end; i++) {
		if (s->rows[i].is_taken)
			used = size_sat_add(used, row_used(s, &s->rows[i], index));
	}
	return used;
}

static bool fits(const struct shared *s, unsigned index, uint64_t bytes)
{
	const struct sim_device_info *info = &s->profile.devices[index];
	uint64_t usable = size_sat_sub(info->memory_bytes, info->reserved_bytes);

	usable -= usable % SIM_PAGE_BYTES;
	return size_sat_add(used_by_all(s, index), bytes) <= usable;
}

int sim_state_take(struct sim_state *state, unsigned index, enum sim_use use, uint64_t bytes)
{
	struct shared *s = state->shared;
	bool is_room;

	if (state->row < 0 || !is_device(s, index))
		return -EINVAL;
	sim_state_lock(state);
	is_room = fits(s, index, bytes);
	if (!is_room) {
		rows_reap(state);
		is_room = fits(s, index, bytes);
	}
	if (is_room)
		s->rows[state->row].devices[index].use_bytes[use] += bytes;
	sim_state_unlock(state);
	return is_room ? 0 : -ENOMEM;
}

void sim_state_give(struct sim_state *state, unsigned index, enum sim_use use, uint64_t bytes)
{
	uint64_t *held;

	if (state->row < 0 || !is_device(state->shared, index))
		return;
	sim_state_lock(state);
	held = &state->shared->rows[state->row].devices[index].use_bytes[use];
	*held = size_sat_sub(*held, bytes);
	sim_state_unlock(state);
}

void sim_state_count_context(struct sim_state *state, unsigned index, int change)
{
	uint64_t *contexts;

	if (state->row < 0 || !is_device(state->shared, index))
		return;
	sim_state_lock(state);
	contexts = &state->shared->rows[state->row].devices[index].contexts;
	if (change > 0)
		++*contexts;
	else
		*contexts = size_sat_sub(*contexts, 1);
	sim_state_unlock(state);
}

void sim_state_memory(struct sim_state *state, unsigned index, struct sim_memory *ret)
{
	const struct sim_device_info *info = &state->shared->profile.devices[index];
	bool is_locked = state_lock_to_read(state);
	uint64_t used;

	if (is_locked)
		rows_reap(state);
	used = used_by_all(state->shared, index);
	if (is_locked)
		sim_state_unlock(state);
	ret->total_bytes = info->memory_bytes;
	ret->reserved_bytes = info->reserved_bytes;
	ret->used_bytes = used;
	ret->free_bytes =
		size_sat_sub(size_sat_sub(info->memory_bytes, info->reserved_bytes), used);
}

unsigned sim_state_procs(struct sim_state *state, unsigned index, struct sim_proc *ret,
			 unsigned max)
{
	struct shared *s = state->shared;
	bool is_locked = state_lock_to_read(state);
	unsigned count = 0;

	if (is_locked)
		rows_reap(state);
	for (unsigned i = 0; i < s->rows_end; i++) {
		const struct row *row = &s->rows[i];
		const struct row_device *device = &row->devices[index];
		uint64_t used = row_shown(s, row, index);
		uint64_t contexts = row_contexts(s, row, index);

		if (!row->is_taken || (!used && !contexts))
			continue;
		if (count < max) {
			struct sim_proc *p = &ret[count];

			p->row = i;
			p->pid = (pid_t)row->pid;
			p->pid_ns = row->pid_ns;
			p->start_ticks = row->start_ticks;
			p->used_bytes = used;
			for (unsigned use = 0; use < SIM_USE_COUNT; use++)
				p->use_bytes[use] = row_use(s, row, index, use);
			p->contexts = (unsigned)contexts;
			p->busy_total_ns = device->exec.busy_total_ns;
		}
		count++;
	}
	if (is_locked)
		sim_state_unlock(state);
	return count;
}

struct sim_exec_shared *sim_state_exec(struct sim_state *state, unsigned index)
{
	return &state->shared->exec[index];
}

struct sim_exec_row *sim_state_exec_row(struct sim_state *state, unsigned index)
{
	return state->row < 0 ? NULL : &state->shared->rows[state->row].devices[index].exec;
}
