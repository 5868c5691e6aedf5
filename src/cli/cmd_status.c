// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fmt.h"
#include "base/str.h"
#include "cli/gpu_row.h"
#include "cli/session.h"
#include "wire/wire.h"

struct status {
	struct common common;
	struct printer printer;
	unsigned n;
	uint64_t grantable, burst;
	unsigned waiting;
};

static const struct opt opts[] = {
	OPT_OUTPUT,
	OPT_COMMON,
};

/* a figure with its unit, or a dash */
static void known(char *buf, size_t size, uint32_t v, uint32_t scale, const char *unit)
{
	if (v == WIRE_UNKNOWN_U32)
		(void)str_copy(buf, size, "–");
	else
		(void)str_print(buf, size, "%" PRIu32 "%s", v / scale, unit);
}

/* an instance stands under its card, with what its profile is called */
static void print_instance(const struct wire_status_item *it)
{
	const char *profile = strstr(it->model, "MIG ");
	struct fmt_buf used, total, requested, held, unmanaged;

	printf("  [%u:%u] %s  vram %s of %s used%s\n", it->gpu_index, it->mig_index,
	       profile ? profile : it->model,
	       it->vram_used_bytes == WIRE_UNKNOWN_U64 ? "–" : fmt_size(&used, it->vram_used_bytes),
	       fmt_size(&total, it->vram_total_bytes),
	       it->flags & WIRE_STATUS_LOST    ? "  GONE"
	       : it->flags & WIRE_STATUS_STALE ? "  NVML does not answer"
					       : "");
	printf("     jobs %u hold %s  promised %s  unmanaged %s  waiting %u\n", it->n_jobs,
	       fmt_size(&held, it->vram_held_bytes), fmt_size(&requested, it->vram_requested_bytes),
	       fmt_size(&unmanaged, it->vram_unmanaged_bytes), it->waiting);
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
	if (it->flags & WIRE_STATUS_MIG_MODE) {
		printf("     in MIG mode: programs run on its instances\n");
		return;
	}
	printf("     jobs %u hold %s  promised %s  unmanaged %s  waiting %u\n", it->n_jobs,
	       fmt_size(&held, it->vram_held_bytes), fmt_size(&requested, it->vram_requested_bytes),
	       fmt_size(&unmanaged, it->vram_unmanaged_bytes), it->waiting);
}

static int on_item(const void *item, void *arg)
{
	struct status *s = arg;
	struct gpu_row row;
	int r = 0;

	gpu_row_fill(&row, item);
	s->n++;
	s->grantable += row.it.vram_grantable_bytes;
	s->burst += row.it.vram_burst_bytes;
	s->waiting += row.it.waiting_first; /* who waits for several counts once */
	if (s->common.output != OUTPUT_TABLE)
		r = printer_add(&s->printer, &row);
	else if (row.it.flags & WIRE_STATUS_MIG)
		print_instance(&row.it);
	else
		print_gpu(&row.it);
	gpu_row_fini(&row);
	return r;
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
	printer_begin(&s.printer, &s.common, &gpu_object);
	r = client_list(&c, WIRE_STATUS, &ask, WIRE_STATUS_ITEM, on_item, &s, SESSION_TIMEOUT_NS,
			&err);
	if (r < 0) {
		r = session_failed("status", &c, r, &err);
		printer_drop(&s.printer);
	} else if (s.common.output == OUTPUT_TABLE) {
		print_total(&s);
		printer_drop(&s.printer);
	} else {
		r = printer_end(&s.printer);
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
