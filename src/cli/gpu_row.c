// SPDX-License-Identifier: Apache-2.0
#include "cli/gpu_row.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "cli/names.h"

#define F(field, member, json) \
	.kind = FIELD_##field, .offset = offsetof(struct gpu_row, member), .name = (json)

static const struct field fields[] = {
	{ F(TEXT, gpu, "gpu"), .title = "GPU" },
	{ F(U32, it.gpu_index, "gpu_index"), .title = "Index" },
	{ F(U32, mig_index, "mig_index"), .title = "MIG index" },
	{ F(TEXT, mig_profile, "mig_profile"), .title = "MIG profile" },
	{ F(U32, gi, "gpu_instance"), .title = "GPU instance" },
	{ F(U32, ci, "compute_instance"), .title = "Compute instance" },
	{ F(TEXT, it.model, "model"), .title = "Model" },
	{ F(TEXT, it.pci_bus_id, "pci_bus_id"), .title = "PCI" },
	{ F(TEXT, state, NULL), .title = "State" },
	{ F(BYTES, it.vram_total_bytes, "vram_total_bytes"), .title = "Total" },
	{ F(BYTES, it.vram_used_bytes, "vram_used_bytes"), .title = "Used (NVML)" },
	{ F(BYTES, it.vram_allocatable_bytes, "vram_allocatable_bytes"), .title = "Allocatable" },
	{ F(BYTES, it.vram_requested_bytes, "vram_requested_bytes"), .title = "Promised" },
	{ F(BYTES, it.vram_limits_bytes, "vram_limits_bytes"), .title = "Sum of limits" },
	{ F(BYTES, it.vram_unmanaged_bytes, "vram_unmanaged_bytes"), .title = "Outside allot" },
	{ F(U32, it.n_unmanaged, "unmanaged_processes"), .title = "Unmanaged processes" },
	{ F(TEXT, policy, "unmanaged_policy"), .title = "Policy for them" },
	{ F(U64, it.n_unmanaged_ended, "unmanaged_ended"), .title = "Ended by it" },
	{ F(BYTES, it.vram_held_bytes, "vram_held_bytes"), .title = "Held by jobs" },
	{ F(BYTES, it.vram_grantable_bytes, "vram_grantable_bytes"), .title = "Free to promise" },
	{ F(BYTES, it.vram_burst_bytes, "vram_burst_bytes"), .title = "Free for bursts" },
	{ F(U32, it.utilization_pct, "utilization_pct"), .title = "Utilization %" },
	{ F(U32, it.temperature_c, "temperature_c"), .title = "Temperature C" },
	{ F(MILLI, it.power_mw, "power_w"), .title = "Power W" },
	{ F(JSON, jobs, "jobs"), .title = "Jobs" },
	{ F(U32, it.waiting, "waiting"), .title = "Waiting" },
	{ F(BOOL, is_stale, "stale") },
	{ F(BOOL, is_lost, "lost") },
	{ F(BOOL, is_divided, "mig_mode") },
	{ F(SIGNED, it.vram_drift_bytes, "vram_drift_bytes"), .title = "NVML - ledger" },
	{ F(NS, sample_age_ns, "sample_age_s"), .title = "Sampled before" },
};

const struct object gpu_object = OBJECT("GPUList", fields);

static void fill_instance(struct gpu_row *row)
{
	const char *profile = strstr(row->it.model, "MIG ");

	row->mig_index = row->it.mig_index;
	row->gi = row->it.gi;
	row->ci = row->it.ci;
	if (profile)
		(void)str_copy(row->mig_profile, sizeof(row->mig_profile), profile + 4);
}

void gpu_row_fill(struct gpu_row *row, const struct wire_status_item *item)
{
	unsigned n = item->n_jobs < ARRAY_SIZE(item->jobs) ? item->n_jobs
							   : (unsigned)ARRAY_SIZE(item->jobs);

	memset(row, 0, sizeof(*row));
	row->it = *item;
	str_printable(row->it.model);
	str_printable(row->it.pci_bus_id);
	name_gpu(&item->gpu, (item->flags & WIRE_STATUS_MIG) != 0, row->gpu, sizeof(row->gpu));
	row->mig_index = row->gi = row->ci = WIRE_UNKNOWN_U32;
	if (item->flags & WIRE_STATUS_MIG)
		fill_instance(row);
	row->is_divided = (item->flags & WIRE_STATUS_MIG_MODE) != 0;
	row->is_stale = (item->flags & (WIRE_STATUS_STALE | WIRE_STATUS_LOST)) != 0;
	row->is_lost = (item->flags & WIRE_STATUS_LOST) != 0;
	(void)str_copy(row->state, sizeof(row->state),
		       item->flags & WIRE_STATUS_LOST       ? "lost"
		       : item->flags & WIRE_STATUS_STALE    ? "NVML does not answer"
		       : item->flags & WIRE_STATUS_MIG_MODE ? "in MIG mode"
							    : "ok");
	(void)str_copy(row->policy, sizeof(row->policy),
		       item->flags & WIRE_STATUS_KILL ? "kill" : "alert");
	row->sample_age_ns = item->sample_age_ns;
	row->jobs = json_array();
	for (unsigned i = 0; i < n; i++)
		if (json_array_append_new(row->jobs, out_u64(item->jobs[i])) < 0)
			break; /* no memory: JSON as a whole fails then */
}

void gpu_row_fini(struct gpu_row *row)
{
	json_decref(row->jobs);
	row->jobs = NULL;
}
