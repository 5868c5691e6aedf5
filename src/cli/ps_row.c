// SPDX-License-Identifier: Apache-2.0
#include "cli/ps_row.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/fmt.h"
#include "base/str.h"
#include "cli/names.h"

#define F(field, member, json) \
	.kind = FIELD_##field, .offset = offsetof(struct ps_row, member), .name = (json)

static const struct field fields[] = {
	{ F(ID, it.job_id, "job"), .title = "JOB", .column = 1, .right = true },
	{ F(TEXT, name, "name"), .title = "NAME", .column = 3, .least = 6 },
	{ F(TEXT, user, "user"), .title = "USER", .column = 2, .least = 4 },
	{ F(PID, it.pid, "pid"), .title = "PID", .column = 4, .right = true },
	{ F(TEXT, it.command, "command") },
	{ F(TEXT, gpu, "gpu") },
	{ F(U32, gpu_index, "gpu_index") },
	{ F(U32, mig_index, "mig_index") },
	{ F(TEXT, place, NULL), .title = "GPU", .column = 5, .right = true },
	{ F(BYTES, it.vram_used_bytes, "vram_used_bytes"), .title = "VRAM", .column = 6,
	  .right = true },
	{ F(BYTES, request_bytes, "vram_request_bytes") },
	{ F(BYTES, it.vram_limit_bytes, "vram_limit_bytes") },
	{ F(TEXT, promise, NULL), .title = "REQUEST:LIMIT", .column = 7, .right = true },
	{ F(PERMILLE, it.compute_min_permille, "compute_min_pct") },
	{ F(PERMILLE, it.compute_max_permille, "compute_max_pct") },
	{ F(PERMILLE, it.compute_got_permille, "compute_got_pct") },
	{ F(TEXT, job_class, "class") },
	{ F(TEXT, state, "state") },
	{ F(STATE, told_state, NULL), .title = "STATE", .column = 8 },
	{ F(BOOL, is_detached, "detached") },
	{ F(BOOL, is_adopted, "adopted") },
	{ F(BOOL, is_fenced, "fenced") },
	{ F(BOOL, is_stale, "stale") },
	{ F(SIGNED, it.drift_bytes, "drift_bytes") },
	{ F(BYTES, it.waiting_bytes, "waiting_bytes") },
	{ F(NS, waiting_ns, "waiting_s") },
	{ F(TEXT, it.reason, "reason") },
	{ F(TEXT, what, NULL), .title = "COMMAND", .column = 9, .least = 5 },
};

const struct object ps_object = OBJECT("ProcessList", fields);

static void fill_for_people(struct ps_row *row)
{
	const struct wire_ps_item *it = &row->it;
	struct fmt_buf a, b;

	if (it->job_id)
		(void)str_print(row->promise, sizeof(row->promise), "%s:%s",
				it->vram_request_bytes ? fmt_size(&a, it->vram_request_bytes) : "–",
				it->vram_limit_bytes == WIRE_UNKNOWN_U64
					? "card"
					: fmt_size(&b, it->vram_limit_bytes));
	(void)str_print(row->told_state, sizeof(row->told_state), "%s%s", row->state,
			it->flags & WIRE_PS_ENDING ? ", ending"
			: (it->flags & WIRE_PS_ADOPTED) && (it->flags & WIRE_PS_UNFENCED)
				? ", adopted"
			: it->flags & WIRE_PS_DETACHED ? ", detached"
						       : "");
	if (it->state == WIRE_STATE_WAITING_VRAM)
		(void)str_print(row->what, sizeof(row->what), "waits %s for %s: %s",
				fmt_duration(&a, it->waiting_ns), fmt_size(&b, it->waiting_bytes),
				it->reason);
	else
		(void)str_copy(row->what, sizeof(row->what),
			       it->reason[0] && it->job_id ? it->reason : it->command);
}

void ps_row_fill(struct ps_row *row, const struct wire_ps_item *item)
{
	struct wire_ps_item *it = &row->it;
	bool is_mig = (item->flags & WIRE_PS_MIG) != 0;

	memset(row, 0, sizeof(*row));
	*it = *item;
	str_printable(it->name);
	str_printable(it->command);
	str_printable(it->reason);
	name_user(it->uid, row->user, sizeof(row->user));
	name_gpu(&it->gpu, is_mig, row->gpu, sizeof(row->gpu));
	if (row->gpu[0])
		name_place(it->gpu_index, is_mig, it->mig_index, row->place, sizeof(row->place));
	row->gpu_index = row->gpu[0] ? it->gpu_index : WIRE_UNKNOWN_U32;
	row->mig_index = is_mig ? it->mig_index : WIRE_UNKNOWN_U32;
	row->request_bytes = it->job_id ? it->vram_request_bytes : WIRE_UNKNOWN_U64;
	if (it->job_id) {
		(void)str_copy(row->name, sizeof(row->name), it->name);
		(void)str_copy(row->job_class, sizeof(row->job_class), name_class(it->job_class));
	}
	(void)str_copy(row->state, sizeof(row->state), name_state(it->state));
	row->is_detached = (it->flags & WIRE_PS_DETACHED) != 0;
	row->is_adopted = (it->flags & WIRE_PS_ADOPTED) != 0;
	row->is_stale = (it->flags & WIRE_PS_STALE) != 0;
	row->is_fenced = it->job_id != 0 && !(it->flags & WIRE_PS_UNFENCED);
	row->waiting_ns = it->state == WIRE_STATE_WAITING_VRAM ? it->waiting_ns : WIRE_UNKNOWN_U64;
	fill_for_people(row);
}
