// SPDX-License-Identifier: Apache-2.0
#include "cli/job_row.h"

#include <string.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/fmt.h"
#include "base/size.h"
#include "base/str.h"
#include "cli/names.h"

#define EXIT_REFUSED 125

#define F(field, member, json) \
	.kind = FIELD_##field, .offset = offsetof(struct job_row, member), .name = (json)

static const struct field fields[] = {
	{ F(ID, m.job_id, "job"), .title = "Job" },
	{ F(TEXT, m.name, "name"), .title = "Name" },
	{ F(TEXT, user, "user"), .title = "User" },
	{ F(TEXT, state, "state"), .title = "State" },
	{ F(TEXT, m.reason, "reason"), .title = "Waits because" },
	{ F(U32, exit_code, "exit_code"), .title = "Exit code" },
	{ F(U32, signal, "signal"), .title = "Signal" },
	{ F(TEXT, m.command, "command"), .title = "Command" },
	{ F(ID, m.parent_id, "parent"), .title = "Inside job" },
	{ F(PID, keeper_pid, "keeper_pid"), .title = "Keeper" },
	{ F(PID, adopted_pid, "adopted_pid"), .title = "Adopted, no fence" },
	{ F(TIME, m.queued_s, "queued_at"), .title = "Asked for" },
	{ F(TIME, m.started_s, "started_at"), .title = "Began" },
	{ F(TIME, m.ended_s, "ended_at"), .title = "Ended" },
	{ F(TEXT, job_class, "class"), .title = "Class" },
	{ F(TEXT, when_full, "when_full"), .title = "When full" },
	{ F(TEXT, fail_policy, "fail_policy"), .title = "Fail policy" },
	{ F(BYTES, request_bytes, "vram_request_bytes"), .title = "Promised per GPU" },
	{ F(BYTES, limit_bytes, "vram_limit_bytes"), .title = "Limit per GPU" },
	{ F(BYTES, held_bytes, "vram_held_bytes"), .title = "Held" },
	{ F(TEXT, gpus_text, NULL), .title = "GPUs" },
	{ F(JSON, gpus, "gpus") },
	{ F(U32, m.n_processes, "processes_count"), .title = "Processes" },
	{ F(JSON, processes, "processes") },
	{ F(BOOL, is_adopted, "adopted"), .title = "Adopted" },
	{ F(TEXT, m.cgroup, "cgroup"), .title = "Cgroup" },
	{ F(TEXT, log, "log"), .title = "Log" },
};

const struct object job_object = OBJECT("Job", fields);

static const struct field end_fields[] = {
	{ F(ID, m.job_id, "job"), .title = "JOB", .column = 1, .right = true },
	{ F(TEXT, m.name, "name"), .title = "NAME", .column = 3, .least = 6 },
	{ F(TEXT, user, "user"), .title = "USER", .column = 2, .least = 4 },
	{ F(TEXT, state, "state"), .title = "STATE", .column = 4 },
	{ F(U32, exit_code, "exit_code"), .title = "EXIT", .column = 5, .right = true },
	{ F(U32, signal, "signal"), .title = "SIGNAL", .column = 6, .right = true },
	{ F(TIME, m.started_s, "started_at") },
	{ F(TIME, m.ended_s, "ended_at"), .title = "ENDED", .column = 7 },
	{ F(TEXT, log, "log") },
};

const struct object job_end_object = OBJECT("JobList", end_fields);

/* one of its GPUs, inside the job's own row */
struct part {
	char gpu[48];
	uint32_t index, mig_index, waiting;
	uint64_t request, limit, held;
};

#undef F
#define F(field, member, json) \
	.kind = FIELD_##field, .offset = offsetof(struct part, member), .name = (json)

static const struct field part_fields[] = {
	{ F(TEXT, gpu, "gpu") },
	{ F(U32, index, "gpu_index") },
	{ F(U32, mig_index, "mig_index") },
	{ F(BYTES, request, "vram_request_bytes") },
	{ F(BYTES, limit, "vram_limit_bytes") },
	{ F(BYTES, held, "vram_held_bytes") },
	{ F(U32, waiting, "waiting") },
};

static const struct object part_object = OBJECT("", part_fields);

int job_exit_code(const struct wire_job *m)
{
	int status = (int)m->status;

	if (!(m->flags & WIRE_JOB_HAS_STATUS))
		return EXIT_REFUSED;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static bool has_ended(const struct wire_job *m)
{
	return m->state == WIRE_JOB_ENDED || m->state == WIRE_JOB_ENDING;
}

const char *job_state(const struct wire_job *m)
{
	switch (m->state) {
	case WIRE_JOB_WAITING:
		return name_state(WIRE_STATE_WAITING_ADMISSION);
	case WIRE_JOB_ENDING:
		return "ending";
	case WIRE_JOB_ENDED:
		return "ended";
	default:
		break;
	}
	for (unsigned i = 0; i < m->n_gpus && i < WIRE_MAX_GPUS; i++)
		if (m->gpus[i].waiting)
			return name_state(WIRE_STATE_WAITING_VRAM);
	return name_state(WIRE_STATE_RUNNING);
}

static void add_gpu(struct job_row *row, const struct wire_job_gpu *g)
{
	bool is_mig = (g->flags & WIRE_GPU_MIG) != 0;
	struct part part = { .index = g->index,
			     .mig_index = is_mig ? g->mig_index : WIRE_UNKNOWN_U32,
			     .waiting = g->waiting,
			     .request = g->request_bytes,
			     .limit = g->has_limit ? g->limit_bytes : WIRE_UNKNOWN_U64,
			     .held = g->held_bytes };
	size_t len = strlen(row->gpus_text);
	struct fmt_buf held, limit;
	char place[24];

	name_gpu(&g->uuid, is_mig, part.gpu, sizeof(part.gpu));
	name_place(g->index, is_mig, g->mig_index, place, sizeof(place));
	(void)json_array_append_new(row->gpus, fields_json(&part_object, &part)); /* shows */
	(void)str_print(row->gpus_text + len, sizeof(row->gpus_text) - len,
			"%s%s: %s held, limit %s", len ? "; " : "", place,
			fmt_size(&held, g->held_bytes),
			g->has_limit ? fmt_size(&limit, g->limit_bytes) : "the card");
}

static void fill_gpus(struct job_row *row)
{
	const struct wire_job *m = &row->m;

	row->request_bytes = row->limit_bytes = row->held_bytes = WIRE_UNKNOWN_U64;
	row->gpus = json_array();
	if (m->state == WIRE_JOB_WAITING && m->n_gpus == 0) { /* a percentage is of no card yet */
		row->request_bytes = m->request.permille ? WIRE_UNKNOWN_U64 : m->request.bytes;
		row->limit_bytes = m->limit.bytes ? m->limit.bytes : WIRE_UNKNOWN_U64;
	}
	for (unsigned i = 0; i < m->n_gpus && i < WIRE_MAX_GPUS; i++) {
		add_gpu(row, &m->gpus[i]);
		row->held_bytes = size_sat_add(i ? row->held_bytes : 0, m->gpus[i].held_bytes);
		/* of a percentage on unlike cards: the smallest, as ALLOT_VRAM_LIMIT has it */
		row->request_bytes = size_min(row->request_bytes, m->gpus[i].request_bytes);
		if (m->gpus[i].has_limit)
			row->limit_bytes = size_min(row->limit_bytes, m->gpus[i].limit_bytes);
	}
}

void job_row_fill(struct job_row *row, const struct wire_job *m)
{
	struct fmt_buf b;

	memset(row, 0, sizeof(*row));
	row->m = *m;
	str_printable(row->m.name);
	str_printable(row->m.command);
	str_printable(row->m.reason);
	str_printable(row->m.cgroup);
	row->is_adopted = (m->flags & WIRE_JOB_IS_ADOPTED) != 0;
	(void)str_copy(row->log, sizeof(row->log), m->log);
	str_printable(row->log);
	name_user(m->uid, row->user, sizeof(row->user));
	(void)str_copy(row->state, sizeof(row->state), job_state(m));
	row->exit_code = row->signal = WIRE_UNKNOWN_U32;
	if (has_ended(m) && m->flags & WIRE_JOB_HAS_STATUS) {
		row->exit_code = (uint32_t)job_exit_code(m);
		if (WIFSIGNALED((int)m->status))
			row->signal = (uint32_t)WTERMSIG((int)m->status);
	}
	if (m->state == WIRE_JOB_ENDED)
		row->m.n_processes = WIRE_UNKNOWN_U32;
	if (m->job_class != WIRE_UNKNOWN_U32) {
		(void)str_copy(row->job_class, sizeof(row->job_class), name_class(m->job_class));
		(void)str_copy(row->fail_policy, sizeof(row->fail_policy),
			       m->fail_policy == WIRE_FAIL_OPEN ? "open" : "closed");
		(void)str_print(row->when_full, sizeof(row->when_full), "%s%s",
				m->when_full_wait ? "wait=" : "fail",
				m->when_full_wait ? fmt_duration(&b, m->when_full_ns) : "");
	}
	if (row->is_adopted)
		row->adopted_pid = row->m.keeper_pid;
	else
		row->keeper_pid = row->m.keeper_pid;
	fill_gpus(row);
}

void job_row_fini(struct job_row *row)
{
	json_decref(row->gpus);
	json_decref(row->processes);
	row->gpus = row->processes = NULL;
}
