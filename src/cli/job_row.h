// SPDX-License-Identifier: Apache-2.0
#ifndef CLI_JOB_ROW_H
#define CLI_JOB_ROW_H

/* A job as `show` and `wait` print it. */

#include "cli/fields.h"
#include "wire/wire.h"

struct job_row {
	struct wire_job m; /* texts printable */
	char user[64], state[24], job_class[16], when_full[48], fail_policy[16], log[WIRE_PATH_MAX];
	bool is_adopted;
	uint32_t exit_code; /* as a shell has it; not known while it runs */
	uint32_t signal;
	int32_t keeper_pid, adopted_pid;                 /* 0: none */
	uint64_t request_bytes, limit_bytes, held_bytes; /* per GPU; held: of all */
	json_t *gpus;                                    /* of the row; job_row_fini */
	json_t *processes;                               /* whoever wants them sets them */
	char gpus_text[512], how[64];                    /* for people */
};

/* every field, and the short form of a list of jobs */
extern const struct object job_object, job_end_object;

void job_row_fill(struct job_row *row, const struct wire_job *m);
void job_row_fini(struct job_row *row);

/** job_exit_code - the exit status of `allot run` for a job that has ended; 125: nobody saw it */
int job_exit_code(const struct wire_job *m);

/** job_state - "running", "waiting-admission", "waiting-vram", "ending", "ended" */
const char *job_state(const struct wire_job *m);

#endif
