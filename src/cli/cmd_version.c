// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"
#include "cli/fields.h"
#include "cli/session.h"
#include "client/find.h"
#include "wire/wire.h"

static const struct opt opts[] = {
	OPT_OUTPUT,
	OPT_COMMON,
};

struct version {
	char allot[32], allotd[32], driver[80];
	uint32_t protocol;
};

#define F(field, member) \
	.kind = FIELD_##field, .offset = offsetof(struct version, member), .name = #member

static const struct field fields[] = {
	{ F(TEXT, allot) },
	{ F(U32, protocol) },
	{ F(TEXT, allotd) },
	{ F(TEXT, driver) },
};

static const struct object version_object = OBJECT("Version", fields);

static int print_item(const struct common *common, const struct wire_daemon_info *info)
{
	struct version v = { .allot = ALLOT_VERSION, .protocol = WIRE_VERSION };
	struct printer printer;

	if (info) {
		(void)str_copy(v.allotd, sizeof(v.allotd), info->version);
		(void)str_copy(v.driver, sizeof(v.driver), info->driver_version);
	}
	printer_begin(&printer, common, &version_object);
	if (printer_add(&printer, &v) < 0)
		complain("version", "out of memory");
	return printer_end(&printer);
}

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
	if (r < argc) {
		complain("version", "unexpected word '%s'", argv[r]);
		return WIRE_CODE_USAGE;
	}
	r = client_find(common.socket, &place, &err);
	if (r == 0)
		r = client_connect_within(&place, SESSION_TIMEOUT_NS, &err);
	if (r >= 0) {
		client_init(&c, r);
		r = client_call(&c, WIRE_DAEMON, &ask, WIRE_DAEMON_INFO, &info, SESSION_TIMEOUT_NS,
				&err);
		client_fini(&c);
	}
	known = r == 0;
	str_printable(info.version);
	str_printable(info.driver_version);
	if (common.output != OUTPUT_TABLE)
		return print_item(&common, known ? &info : NULL);
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
