// SPDX-License-Identifier: Apache-2.0
#include "cli/why_row.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "cli/names.h"

#define F(field, member, json) \
	.kind = FIELD_##field, .offset = offsetof(struct why_row, member), .name = (json)

static const struct field fields[] = {
	{ F(ID, m.job_id, "job") },
	{ F(TEXT, m.sentence, "sentence") },
	{ F(TEXT, kind, "waits_for"), .title = "Waits for" },
	{ F(PID, m.pid, "pid"), .title = "Process" },
	{ F(TEXT, gpu, "gpu") },
	{ F(TEXT, place, NULL), .title = "GPU" },
	{ F(U32, gpu_index, "gpu_index") },
	{ F(U32, mig_index, "mig_index") },
	{ F(U32, m.position, "position") },
	{ F(U32, m.waiting, "waiting") },
	{ F(TEXT, line, NULL), .title = "Place in line" },
	{ F(ID, m.before_id, "behind_job"), .title = "Behind job" },
	{ F(NS, m.since_ns, "waited_s"), .title = "Waited" },
	{ F(NS, m.left_ns, "gives_up_in_s"), .title = "Gives up in" },
	{ F(BYTES, needed_bytes, "needed_bytes"), .title = "Needs" },
	{ F(BYTES, free_bytes, "free_bytes"), .title = "Could have now" },
	{ F(BYTES, total_bytes, "vram_total_bytes"), .title = "Card" },
	{ F(BYTES, allocatable_bytes, "vram_allocatable_bytes"), .title = "Allocatable" },
	{ F(BYTES, reserve_bytes, "vram_reserve_bytes"), .title = "Reserve" },
	{ F(BYTES, unmanaged_bytes, "vram_unmanaged_bytes"), .title = "Outside allot" },
	{ F(BOOL, is_circle, "circle"), .title = "Circle of waiters" },
	{ F(U32, m.n_holders, "holders_count") },
	{ F(JSON, holders, "holders") },
};

const struct object why_object = OBJECT("WaitList", fields);

#undef F
#define F(field, member, json) \
	.kind = FIELD_##field, .offset = offsetof(struct holder_row, member), .name = (json)

static const struct field holder_fields[] = {
	{ F(ID, job, "job"), .title = "JOB", .column = 1, .right = true },
	{ F(TEXT, user, "user"), .title = "USER", .column = 2 },
	{ F(TEXT, name, "name"), .title = "NAME", .column = 3 },
	{ F(BYTES, held_bytes, "vram_held_bytes"), .title = "HOLDS", .column = 4, .right = true },
	{ F(BYTES, request_bytes, "vram_request_bytes"), .title = "PROMISED", .column = 5,
	  .right = true },
	{ F(BOOL, waits, "waits"), .title = "WAITS", .column = 6 },
};

const struct object holder_object = OBJECT("HolderList", holder_fields);

void holder_row_fill(struct holder_row *row, const struct wire_holder *h)
{
	memset(row, 0, sizeof(*row));
	row->job = h->job_id;
	row->held_bytes = h->held_bytes;
	row->request_bytes = h->job_id ? h->request_bytes : WIRE_UNKNOWN_U64;
	row->waits = h->waits != 0;
	name_user(h->uid, row->user, sizeof(row->user));
	(void)str_copy(row->name, sizeof(row->name), h->job_id ? h->name : "(outside allot)");
	row->name[sizeof(row->name) - 1] = '\0';
	str_printable(row->name);
}

static const char *kind_name(uint32_t kind)
{
	static const char *const names[] = { "?", "admission", "vram", "context", "measurement" };

	return kind < ARRAY_SIZE(names) ? names[kind] : names[0];
}

void why_row_fill(struct why_row *row, const struct wire_why_item *m)
{
	bool is_mig = (m->flags & WIRE_WHY_IS_MIG) != 0, has_gpu = !(m->flags & WIRE_WHY_NO_GPU);

	memset(row, 0, sizeof(*row));
	row->m = *m;
	str_printable(row->m.sentence);
	if (row->m.sentence[0] == 'j')
		row->m.sentence[0] = 'J'; /* the ledger's texts begin small */
	(void)str_copy(row->kind, sizeof(row->kind), kind_name(m->kind));
	(void)str_print(row->line, sizeof(row->line), "%u of %u", m->position, m->waiting);
	row->gpu_index = row->mig_index = WIRE_UNKNOWN_U32;
	row->needed_bytes = row->free_bytes = row->total_bytes = row->allocatable_bytes =
		row->reserve_bytes = row->unmanaged_bytes = WIRE_UNKNOWN_U64;
	row->is_circle = (m->flags & WIRE_WHY_IS_CIRCLE) != 0;
	row->holders = json_array();
	if (!has_gpu)
		return;
	name_gpu(&m->gpu, is_mig, row->gpu, sizeof(row->gpu));
	name_place(m->gpu_index, is_mig, m->mig_index, row->place, sizeof(row->place));
	row->gpu_index = m->gpu_index;
	row->mig_index = is_mig ? m->mig_index : WIRE_UNKNOWN_U32;
	row->needed_bytes = m->needed_bytes;
	row->free_bytes = m->free_bytes;
	row->total_bytes = m->total_bytes;
	row->allocatable_bytes = m->allocatable_bytes;
	row->reserve_bytes = m->reserve_bytes;
	row->unmanaged_bytes = m->unmanaged_bytes;
	for (unsigned i = 0; i < m->n_holders && i < WIRE_WHY_HOLDERS; i++) {
		struct holder_row h;

		holder_row_fill(&h, &m->holders[i]);
		(void)json_array_append_new(row->holders,
					    fields_json(&holder_object, &h)); /* shows */
	}
}

void why_row_none(struct why_row *row, uint64_t job_id, const char *sentence)
{
	const struct wire_why_item none = { .job_id = job_id,
					    .flags = WIRE_WHY_NO_GPU,
					    .position = WIRE_UNKNOWN_U32,
					    .waiting = WIRE_UNKNOWN_U32,
					    .since_ns = WIRE_UNKNOWN_U64,
					    .left_ns = WIRE_UNKNOWN_U64 };

	why_row_fill(row, &none);
	row->kind[0] = '\0';
	row->line[0] = '\0';
	(void)str_copy(row->m.sentence, sizeof(row->m.sentence), sentence);
}

void why_row_fini(struct why_row *row)
{
	json_decref(row->holders);
	row->holders = NULL;
}
