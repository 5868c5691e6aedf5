// SPDX-License-Identifier: Apache-2.0
#ifndef CLI_GPU_ROW_H
#define CLI_GPU_ROW_H

/* A GPU as `status` and `show` print it. */

#include "cli/fields.h"
#include "wire/wire.h"

struct gpu_row {
	struct wire_status_item it; /* texts printable */
	char gpu[48], state[24], policy[8];
	json_t *jobs; /* of the row; gpu_row_fini */
	uint64_t sample_age_ns;
	bool is_stale;
	bool is_lost;
	bool is_divided;
	uint32_t mig_index, gi, ci;
	char mig_profile[WIRE_NAME_MAX];
};

extern const struct object gpu_object;

void gpu_row_fill(struct gpu_row *row, const struct wire_status_item *item);
void gpu_row_fini(struct gpu_row *row);

#endif
