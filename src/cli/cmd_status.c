// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fmt.h"
#include "base/str.h"
#include "cli/out.h"
#include "cli/session.h"
#include "wire/wire.h"

struct status {
	struct common common;
	json_t *items;
	unsigned n;
	uint64_t grantable, burst;
	unsigned waiting;
};

static const struct opt opts[] = {
	OPT_OUTPUT,
	OPT_COMMON,
};

static json_t *job_array(const struct wire_status_item *it)
{
	unsigned n = it->n_jobs < 64 ? it->n_jobs : 64;
	json_t *jobs = json_array();

	for (unsigned i = 0; jobs && i < n; i++)
		if (json_array_append_new(jobs, out_u64(it->jobs[i])) < 0)
			break;
	return jobs;
}

static json_t *as_json(const struct wire_status_item *it)
{
	struct fmt_buf uuid;
	return json_pack(
		"{s:s s:i s:s s:s s:o s:o s:o s:o s:o s:o s:o s:o s:o s:o s:o s:o s:o s:I s:b s:I}",
		"gpu", fmt_uuid(&uuid, "GPU-", it->gpu.bytes), "gpu_index", it->gpu_index, "model",
		it->model, "pci_bus_id", it->pci_bus_id, "vram_total_bytes",
		out_u64(it->vram_total_bytes), "vram_used_bytes", out_u64(it->vram_used_bytes),
		"vram_allocatable_bytes", out_u64(it->vram_allocatable_bytes),
		"vram_requested_bytes", out_u64(it->vram_requested_bytes), "vram_limits_bytes",
		out_u64(it->vram_limits_bytes), "vram_unmanaged_bytes",
		out_u64(it->vram_unmanaged_bytes), "vram_held_bytes", out_u64(it->vram_held_bytes),
		"vram_grantable_bytes", out_u64(it->vram_grantable_bytes), "vram_burst_bytes",
		out_u64(it->vram_burst_bytes), "utilization_pct", out_u32(it->utilization_pct),
		"temperature_c", out_u32(it->temperature_c), "power_w",
		it->power_mw == WIRE_UNKNOWN_U32 ? json_null() : json_real(it->power_mw / 1000.0),
		"jobs", job_array(it), "waiting", (json_int_t)it->waiting, "stale",
		(it->flags & (WIRE_STATUS_STALE | WIRE_STATUS_LOST)) != 0, "vram_drift_bytes",
		(json_int_t)it->vram_drift_bytes);
}

/* a figure with its unit, or a dash */
static void known(char *buf, size_t size, uint32_t v, uint32_t scale, const char *unit)
{
	if (v == WIRE_UNKNOWN_U32)
		(void)str_copy(buf, size, "–");
	else
		(void)str_print(buf, size, "%" PRIu32 "%s", v / scale, unit);
}

static void print_gpu(const struct wire_status_item *it)
{
	struct fmt_buf used, total, requested, held, unmanaged;
	char temperature[24], power[24], util[24];

	known(temperature, sizeof(temperature), it->temperature_c, 1, "°C");
	known(power, sizeof(power), it->power_mw, 1000, " W");
	known(util, sizeof(util), it->utilization_pct, 1, " %");
	printf("[%u] %s  %s  %s  util %s  vram %s of %s used%s\n", it->gpu_index, it->model,
	       temperature, power, util,
	       it->vram_used_bytes == WIRE_UNKNOWN_U64 ? "–" : fmt_size(&used, it->vram_used_bytes),
	       fmt_size(&total, it->vram_total_bytes),
	       it->flags & WIRE_STATUS_LOST    ? "  GPU LOST"
	       : it->flags & WIRE_STATUS_STALE ? "  NVML does not answer"
					       : "");
	printf("     jobs %u hold %s  promised %s  unmanaged %s  waiting %u\n", it->n_jobs,
	       fmt_size(&held, it->vram_held_bytes), fmt_size(&requested, it->vram_requested_bytes),
	       fmt_size(&unmanaged, it->vram_unmanaged_bytes), it->waiting);
}

static int on_item(const void *item, void *arg)
{
	struct wire_status_item it = *(const struct wire_status_item *)item;
	struct status *s = arg;

	str_printable(it.model);
	s->n++;
	s->grantable += it.vram_grantable_bytes;
	s->burst += it.vram_burst_bytes;
	s->waiting += it.waiting;
	if (s->common.output != OUTPUT_TABLE)
		return json_array_append_new(s->items, as_json(&it)) == 0 ? 0 : -ENOMEM;
	print_gpu(&it);
	return 0;
}

static void print_total(const struct status *s)
{
	struct fmt_buf a, b;

	if (s->n == 0)
		printf("no GPU: 'allot doctor' tells why\n");
	else
		printf("free now: %s to promise, %s in bursts · %u waiting\n",
		       fmt_size(&a, s->grantable), fmt_size(&b, s->burst), s->waiting);
}

static int run(int argc, char **argv)
{
	struct wire_status ask = { 0 };
	struct status s = { 0 };
	struct err err = { 0 };
	struct client c;
	int r = opts_parse(&cmd_status, argc, argv, &s.common, NULL, NULL);

	if (r < 0)
		return opts_exit(r, WIRE_CODE_USAGE);
	if (r < argc) {
		complain("status", "unexpected word '%s'", argv[r]);
		return WIRE_CODE_USAGE;
	}
	r = session_open("status", &s.common, &c);
	if (r)
		return r;
	s.items = json_array();
	r = client_list(&c, WIRE_STATUS, &ask, WIRE_STATUS_ITEM, on_item, &s, SESSION_TIMEOUT_NS,
			&err);
	if (r < 0) {
		r = session_failed("status", &c, r, &err);
		json_decref(s.items);
	} else if (s.common.output == OUTPUT_TABLE) {
		print_total(&s);
		json_decref(s.items);
	} else {
		static const struct wire_status_item none;

		r = out_items(s.common.output, "GPUList", s.items, as_json(&none));
	}
	client_fini(&c);
	return r;
}

const struct cmd cmd_status = {
	.name = "status",
	.args = "[options]",
	.summary = "The cards: how full, promised to whom, who waits",
	.opts = opts,
	.run = run,
};
