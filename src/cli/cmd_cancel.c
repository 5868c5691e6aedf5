// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"
#include "cli/session.h"
#include "wire/wire.h"

enum {
	OPT_SIGNAL = 1,
};

static const struct opt opts[] = {
	{ 's', "signal", "SIG", "send this first (default TERM; KILL follows after the grace)",
	  OPT_SIGNAL },
	OPT_COMMON,
};

static int parse_signal(const char *s, uint32_t *ret, struct err *err)
{
	uint64_t n;

	if (str_starts_with(s, "SIG"))
		s += 3;
	for (int sig = 1; sig < NSIG; sig++) {
		const char *name = sigabbrev_np(sig);

		if (name && strcmp(name, s) == 0) {
			*ret = (uint32_t)sig;
			return 0;
		}
	}
	if (parse_u64(s, 1, (uint64_t)SIGRTMAX, &n, NULL) < 0)
		return err_set(err, -EINVAL, "'%s' is no signal", s);
	*ret = (uint32_t)n;
	return 0;
}

static int on_option(int id, const char *value, void *arg, struct err *err)
{
	return id == OPT_SIGNAL ? parse_signal(value, arg, err) : -EINVAL;
}

static int run(int argc, char **argv)
{
	struct common common = { 0 };
	struct wire_cancel m = { 0 };
	struct err err = { 0 };
	struct client c;
	int worst = 0, r = opts_parse(&cmd_cancel, argc, argv, &common, on_option, &m.signal);

	if (r < 0)
		return opts_exit(r, WIRE_CODE_USAGE);
	argv += r;
	if (!*argv) {
		complain("cancel", "which job? 'allot ps' lists them");
		return WIRE_CODE_USAGE;
	}
	for (char **word = argv; *word; word++) {
		if (parse_u64(*word, 1, INT64_MAX, &m.job_id, &err) < 0) {
			complain("cancel", "job %s", err.text);
			return WIRE_CODE_USAGE;
		}
	}
	r = session_open("cancel", &common, &c);
	if (r)
		return r;
	for (char **word = argv; *word; word++) {
		struct wire_ok ok;

		(void)parse_u64(*word, 1, INT64_MAX, &m.job_id, &err); /* checked above */
		r = client_call(&c, WIRE_CANCEL, &m, WIRE_OK, &ok, SESSION_TIMEOUT_NS, &err);
		if (r < 0)
			worst = session_failed("cancel", &c, r, &err);
		if (r < 0 && r != -EREMOTEIO)
			break;
	}
	client_fini(&c);
	return worst;
}

const struct cmd cmd_cancel = {
	.name = "cancel",
	.args = "[options] JOB…",
	.summary = "End jobs with all their processes",
	.opts = opts,
	.complete = "@jobs",
	.run = run,
};
