// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "cli/out.h"
#include "cli/session.h"
#include "client/find.h"
#include "wire/wire.h"

static const struct opt opts[] = {
	OPT_OUTPUT,
	OPT_COMMON,
};

static int run(int argc, char **argv)
{
	struct wire_daemon ask = { 0 };
	struct wire_daemon_info info = { 0 };
	struct common common = { 0 };
	struct client_place place;
	struct err err = { 0 };
	struct client c = { .sock = -1 };
	int known, r = opts_parse(&cmd_version, argc, argv, &common, NULL, NULL);

	if (r < 0)
		return opts_exit(r, WIRE_CODE_USAGE);
	r = client_find(common.socket, &place, &err);
	if (r == 0)
		r = client_connect_place(&place, &err);
	if (r >= 0) {
		client_init(&c, r);
		r = client_call(&c, WIRE_DAEMON, &ask, WIRE_DAEMON_INFO, &info, SESSION_TIMEOUT_NS,
				&err);
		client_fini(&c);
	}
	known = r == 0;
	if (common.output != OUTPUT_TABLE) {
		json_t *o = json_pack(
			"{s:s s:i s:o s:o}", "allot", ALLOT_VERSION, "protocol", WIRE_VERSION,
			"allotd", known ? json_string(info.version) : json_null(), "driver",
			known && info.driver_version[0] ? json_string(info.driver_version)
							: json_null());

		return out_items(common.output, "Version", json_pack("[o]", o), NULL);
	}
	printf("allot %s, protocol %d\n", ALLOT_VERSION, WIRE_VERSION);
	if (known)
		printf("allotd %s, driver %s%s\n", info.version,
		       info.driver_version[0] ? info.driver_version : "unknown",
		       info.simulated ? " (simulated)" : "");
	else
		printf("allotd: %s\n", err.text);
	return 0;
}

const struct cmd cmd_version = {
	.name = "version",
	.args = "[options]",
	.summary = "The versions of allot, of the daemon and of the driver",
	.opts = opts,
	.run = run,
};
