// SPDX-License-Identifier: Apache-2.0
#ifndef CLI_WHY_ROW_H
#define CLI_WHY_ROW_H

/* One thing that a job waits for, as `why` prints it. */

#include "cli/fields.h"
#include "wire/wire.h"

struct why_row {
	struct wire_why_item m; /* texts printable */
	char kind[24], gpu[48], place[24];
	uint32_t gpu_index, mig_index;
	uint64_t needed_bytes, free_bytes, total_bytes, allocatable_bytes, reserve_bytes,
		unmanaged_bytes;
	bool is_circle;
	json_t *holders; /* of the row; why_row_fini */
	char line[32];   /* for people: "1 of 3" */
};

struct holder_row {
	uint64_t job, held_bytes, request_bytes;
	char name[WIRE_NAME_MAX + 16], user[64];
	bool waits;
};

extern const struct object why_object, holder_object;

void why_row_fill(struct why_row *row, const struct wire_why_item *m);
void why_row_fini(struct why_row *row);

/** why_row_none - of a job that does not wait: it waits for nothing, and @sentence says so */
void why_row_none(struct why_row *row, uint64_t job_id, const char *sentence);

void holder_row_fill(struct holder_row *row, const struct wire_holder *h);

#endif
