// SPDX-License-Identifier: Apache-2.0
#ifndef CLI_PS_ROW_H
#define CLI_PS_ROW_H

/* A process as `ps` and `show` print it: what allotd sent, in the words of the interface. */

#include "cli/fields.h"
#include "wire/wire.h"

struct ps_row {
	struct wire_ps_item it; /* texts printable, what does not apply not known */
	uint32_t gpu_index, mig_index;
	uint64_t request_bytes;
	char user[64], name[WIRE_NAME_MAX], gpu[48], job_class[16], state[24];
	bool is_detached, is_adopted, is_fenced, is_stale;
	uint64_t waiting_ns;
	char place[24], promise[64], told_state[48], what[WIRE_TEXT_MAX + 64]; /* for people */
};

extern const struct object ps_object;

void ps_row_fill(struct ps_row *row, const struct wire_ps_item *item);

#endif
