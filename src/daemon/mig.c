// SPDX-License-Identifier: Apache-2.0
#include "daemon/mig.h"

#include "base/clock.h"
#include "base/size.h"
#include "daemon/daemon.h"
#include "policy/ledger.h"

#define MIG_PARTS_MAX 256 /* processes of one job on one instance; more are left to estimates */

void mig_divide(uint64_t total, struct mig_part *parts, unsigned n)
{
	uint64_t held = 0, left = total, extra;

	for (unsigned i = 0; i < n; i++)
		held = size_sat_add(held, parts[i].held_bytes);
	extra = size_sat_sub(total, held) / (n ? n : 1);
	for (unsigned i = 0; i < n; i++) {
		uint64_t mine = size_sat_add(parts[i].held_bytes, extra);

		if (total < held)
			mine = (uint64_t)((unsigned __int128)parts[i].held_bytes * total / held);
		parts[i].bytes = i + 1 == n ? left : size_min(mine, left);
		left -= parts[i].bytes;
	}
}

/* the job, with all that is nested in it, of the processes on this GPU; NULL: several, or dead ones
 */
static const struct job *only_job(const struct daemon *d, unsigned gpu, bool *ret_is_idle)
{
	const struct job *job, *only = NULL;
	const struct process *p;
	bool is_clear = true;

	*ret_is_idle = true;
	list_for_each (job, &d->registry.jobs, node) {
		const struct job *root = job;

		if (!job->is_admitted || ledger_job_slot_of(job->lease, gpu) < 0)
			continue;
		while (root->parent)
			root = root->parent;
		list_for_each (p, &job->processes, node) {
			*ret_is_idle = false;
			is_clear = is_clear && !p->is_dead && (!only || only == root);
			only = root;
		}
	}
	return is_clear ? only : NULL;
}

/* the reading's process on that GPU, by the ledger */
static uint64_t held_on(const struct daemon *d, const struct ledger_process *p, unsigned gpu)
{
	struct ledger_process_figures f;
	int slot = ledger_process_slot_of(p, gpu);

	if (slot < 0 ||
	    ledger_process_figures(d->ledger, p, (unsigned)slot, clock_now_ns(), &f) < 0)
		return 0;
	return f.held_bytes;
}

void mig_share_out(struct daemon *d, unsigned gpu, const struct ledger_sample *sample,
		   struct ledger_reading *readings, unsigned n_unknown, uint64_t *idle_bytes)
{
	struct mig_part parts[MIG_PARTS_MAX];
	uint64_t known = size_sat_add(sample->unmanaged_bytes, *idle_bytes);
	bool is_idle;
	const struct job *job = only_job(d, gpu, &is_idle);
	unsigned n = 0;

	if (!sample->memory_known)
		return;
	if (is_idle && sample->n_readings == 0 && sample->unmanaged_bytes == 0 && n_unknown == 0)
		*idle_bytes = sample->used_bytes;
	for (size_t i = 0; i < sample->n_readings; i++) {
		if (readings[i].known)
			known = size_sat_add(known, readings[i].bytes);
		else if (n < MIG_PARTS_MAX)
			parts[n++].held_bytes = held_on(d, readings[i].process, gpu);
		else
			return;
	}
	if (!job || n_unknown || n == 0)
		return;
	mig_divide(size_sat_sub(sample->used_bytes, known), parts, n);
	n = 0;
	for (size_t i = 0; i < sample->n_readings; i++) {
		if (readings[i].known)
			continue;
		readings[i].bytes = parts[n++].bytes;
		readings[i].known = true;
	}
}
