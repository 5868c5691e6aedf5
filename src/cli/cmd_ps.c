// SPDX-License-Identifier: Apache-2.0
#include <stdbool.h>

#include "base/err.h"
#include "cli/ps_row.h"
#include "cli/session.h"
#include "wire/wire.h"

static const struct opt opts[] = {
	OPT_OUTPUT,
	OPT_COMMON,
};

static int on_item(const void *item, void *arg)
{
	struct ps_row row;

	ps_row_fill(&row, item);
	return printer_add(arg, &row);
}

static int on_gpu(const void *item, void *arg)
{
	const struct wire_status_item *it = item;
	bool *is_stale = arg;

	*is_stale = *is_stale || it->flags & WIRE_STATUS_STALE;
	return 0;
}

/* also below an empty list */
static void tell_if_stale(struct client *c)
{
	struct wire_status ask = { 0 };
	struct err err = { 0 };
	bool is_stale = false;
	int r = client_list(c, WIRE_STATUS, &ask, WIRE_STATUS_ITEM, on_gpu, &is_stale,
			    SESSION_TIMEOUT_NS / 2, &err);

	if (r == 0 && is_stale)
		complain("ps", "NVML does not answer: what it shows is of before, and of programs "
			       "that began since nothing is known");
}

static int run(int argc, char **argv)
{
	struct common common = { 0 };
	struct wire_ps ask = { 0 };
	struct printer printer;
	struct err err = { 0 };
	struct client c;
	int r = opts_parse(&cmd_ps, argc, argv, &common, NULL, NULL);

	if (r < 0)
		return opts_exit(r, WIRE_CODE_USAGE);
	if (r < argc) {
		complain("ps", "unexpected word '%s'", argv[r]);
		return WIRE_CODE_USAGE;
	}
	r = session_open("ps", &common, &c);
	if (r)
		return r;
	printer_begin(&printer, &common, &ps_object);
	r = client_list(&c, WIRE_PS, &ask, WIRE_PS_ITEM, on_item, &printer, SESSION_TIMEOUT_NS / 2,
			&err);
	if (r < 0) {
		r = session_failed("ps", &c, r, &err);
		printer_drop(&printer);
	} else {
		r = printer_end(&printer);
		if (common.output == OUTPUT_TABLE)
			tell_if_stale(&c);
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
