// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fmt.h"
#include "base/str.h"
#include "cli/out.h"
#include "cli/session.h"
#include "wire/wire.h"

static const char *const state_names[] = {
	"running", "waiting-vram", "frozen", "suspended", "unmanaged", "waiting-admission",
};
static const char *const class_names[] = { "latency", "normal", "batch" };

struct ps {
	struct common common;
	json_t *items;
	struct out_table table;
};

static const struct opt opts[] = {
	OPT_OUTPUT,
	OPT_COMMON,
};

static const char *state_name(uint32_t state)
{
	return state < sizeof(state_names) / sizeof(state_names[0]) ? state_names[state] : "?";
}

static void user_name(uint32_t uid, char *buf, size_t size)
{
	const struct passwd *pw = uid == UINT32_MAX ? NULL : getpwuid(uid); /* one thread */

	if (uid == UINT32_MAX)
		(void)str_copy(buf, size, "–");
	else if (pw)
		(void)str_copy(buf, size, pw->pw_name);
	else
		(void)str_print(buf, size, "%u", uid);
}

static json_t *as_json(const struct wire_ps_item *it, const char *user)
{
	static const uint8_t none[sizeof(it->gpu.bytes)];
	bool is_job = it->job_id != 0, has_gpu = memcmp(it->gpu.bytes, none, sizeof(none)) != 0;
	struct fmt_buf uuid;
	return json_pack(
		"{s:o s:o s:o s:o s:s s:o s:o s:o s:o s:o s:o s:o s:o s:o s:s s:b s:o s:I s:o}",
		"job", it->job_id ? out_u64(it->job_id) : json_null(), "name",
		is_job ? json_string(it->name) : json_null(), "user",
		it->uid == UINT32_MAX ? json_null() : json_string(user), "pid",
		it->pid ? json_integer(it->pid) : json_null(), "command", it->command, "gpu",
		has_gpu ? json_string(fmt_uuid(&uuid, "GPU-", it->gpu.bytes)) : json_null(),
		"gpu_index", has_gpu ? out_u32(it->gpu_index) : json_null(), "vram_used_bytes",
		out_u64(it->vram_used_bytes), "vram_request_bytes",
		is_job ? out_u64(it->vram_request_bytes) : json_null(), "vram_limit_bytes",
		out_u64(it->vram_limit_bytes), "compute_min_pct", out_pct(it->compute_min_permille),
		"compute_max_pct", out_pct(it->compute_max_permille), "compute_got_pct",
		out_pct(it->compute_got_permille), "class",
		is_job && it->job_class < 3 ? json_string(class_names[it->job_class]) : json_null(),
		"state", state_name(it->state), "detached", (it->flags & WIRE_PS_DETACHED) != 0,
		"drift_bytes",
		it->drift_bytes == WIRE_UNKNOWN_U64 ? json_null()
						    : json_integer((json_int_t)it->drift_bytes),
		"waiting_bytes", (json_int_t)it->waiting_bytes, "reason",
		it->reason[0] ? json_string(it->reason) : json_null());
}

static int add_row(struct ps *ps, const struct wire_ps_item *it, const char *user)
{
	static const uint8_t none[sizeof(it->gpu.bytes)];
	struct out_row *row = out_row(&ps->table);
	char(*cell)[OUT_CELL];
	struct fmt_buf a, b, c;

	if (!row)
		return -ENOMEM;
	cell = row->cell;
	(void)(it->job_id ? str_print(cell[0], OUT_CELL, "%llu", (unsigned long long)it->job_id)
			  : str_copy(cell[0], OUT_CELL, "–"));
	(void)str_copy(cell[1], OUT_CELL, user);
	(void)str_copy(cell[2], OUT_CELL, it->job_id ? it->name : "–");
	(void)(it->pid ? str_print(cell[3], OUT_CELL, "%d", it->pid)
		       : str_copy(cell[3], OUT_CELL, "–"));
	if (memcmp(it->gpu.bytes, none, sizeof(none)) == 0)
		(void)str_copy(cell[4], OUT_CELL, "–");
	else
		(void)str_print(cell[4], OUT_CELL, "%u", it->gpu_index);
	(void)str_copy(cell[5], OUT_CELL,
		       it->vram_used_bytes == WIRE_UNKNOWN_U64 ? "–"
							       : fmt_size(&a, it->vram_used_bytes));
	if (!it->job_id)
		(void)str_copy(cell[6], OUT_CELL, "–");
	else
		(void)str_print(cell[6], OUT_CELL, "%s:%s",
				it->vram_request_bytes ? fmt_size(&b, it->vram_request_bytes) : "–",
				it->vram_limit_bytes == WIRE_UNKNOWN_U64
					? "card"
					: fmt_size(&c, it->vram_limit_bytes));
	(void)str_print(cell[7], OUT_CELL, "%s%s", state_name(it->state),
			it->flags & WIRE_PS_ENDING     ? ", ending"
			: it->flags & WIRE_PS_DETACHED ? ", detached"
						       : "");
	if (it->state == WIRE_STATE_WAITING_VRAM)
		(void)str_print(cell[8], OUT_CELL, "waits %s for %s: %.580s",
				fmt_duration(&a, it->waiting_ns), fmt_size(&b, it->waiting_bytes),
				it->reason);
	else
		(void)str_print(cell[8], OUT_CELL, "%.639s",
				it->reason[0] ? it->reason : it->command);
	return 0;
}

static int on_item(const void *item, void *arg)
{
	struct wire_ps_item it = *(const struct wire_ps_item *)item;
	struct ps *ps = arg;
	char user[64];

	str_printable(it.name);
	str_printable(it.command);
	str_printable(it.reason);
	user_name(it.uid, user, sizeof(user));
	if (ps->common.output == OUTPUT_TABLE)
		return add_row(ps, &it, user);
	return json_array_append_new(ps->items, as_json(&it, user)) == 0 ? 0 : -ENOMEM;
}

static int run(int argc, char **argv)
{
	struct ps ps = { .table = { .n_columns = 9,
				    .title = { "JOB", "USER", "NAME", "PID", "GPU", "VRAM",
					       "REQUEST:LIMIT", "STATE", "COMMAND" },
				    .right = { true, false, false, true, true, true, true },
				    .least = { 0, 4, 6, 0, 0, 0, 0, 0, 5 } } };
	struct wire_ps ask = { 0 };
	struct err err = { 0 };
	struct client c;
	int r = opts_parse(&cmd_ps, argc, argv, &ps.common, NULL, NULL);

	if (r < 0)
		return opts_exit(r, WIRE_CODE_USAGE);
	if (r < argc) {
		complain("ps", "unexpected word '%s'", argv[r]);
		return WIRE_CODE_USAGE;
	}
	r = session_open("ps", &ps.common, &c);
	if (r)
		return r;
	ps.items = json_array();
	r = client_list(&c, WIRE_PS, &ask, WIRE_PS_ITEM, on_item, &ps, SESSION_TIMEOUT_NS, &err);
	if (r < 0) {
		r = session_failed("ps", &c, r, &err);
		json_decref(ps.items);
		free(ps.table.rows);
	} else if (ps.common.output == OUTPUT_TABLE) {
		out_table_print(&ps.table, stdout);
		json_decref(ps.items);
	} else {
		static const struct wire_ps_item none;

		r = out_items(ps.common.output, "ProcessList", ps.items, as_json(&none, ""));
	}
	client_fini(&c);
	return r;
}

const struct cmd cmd_ps = {
	.name = "ps",
	.args = "[options]",
	.summary = "Who holds how much of which card, and who waits for what",
	.text = "One line a process. VRAM is what the process holds, REQUEST:LIMIT what its job "
		"was\n"
		"promised and may hold at most. Processes outside allot are listed as unmanaged.\n",
	.opts = opts,
	.run = run,
};
