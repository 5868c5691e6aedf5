// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"
#include "cli/run_request.h"
#include "cli/session.h"
#include "wire/wire.h"

static const struct opt opts[] = { OPT_COMMON };
static const char *const keys[] = { "vram", "class", "when-full", "name", NULL };

/* as `run` reads it, so that a bad word late in the line changes nothing before */
static int check_value(const struct wire_set *m, struct err *err)
{
	struct wire_run scratch;
	int r = 0;

	run_request_init(&scratch);
	if (strcmp(m->key, "vram") == 0)
		r = run_request_vram(&scratch, m->value, err);
	else if (strcmp(m->key, "class") == 0)
		r = run_request_class(&scratch, m->value, err);
	else if (strcmp(m->key, "when-full") == 0)
		r = run_request_when_full(&scratch, m->value, err);
	else if (!m->value[0] || strlen(m->value) >= WIRE_NAME_MAX)
		r = err_set(err, -EINVAL, "'%.70s' is no name of 1 to %d bytes", m->value,
			    WIRE_NAME_MAX - 1);
	return r < 0 ? err_prefix(err, r, "%s", m->key) : 0;
}

static int split(const char *word, struct wire_set *m, struct err *err)
{
	const char *eq = strchr(word, '=');
	const char *near;

	if (!eq || eq == word || (size_t)(eq - word) >= sizeof(m->key))
		return err_set(err, -EINVAL, "'%s' is not KEY=VALUE", word);
	memset(m->key, 0, sizeof(m->key));
	memcpy(m->key, word, (size_t)(eq - word));
	if (!str_copy(m->value, sizeof(m->value), eq + 1))
		return err_set(err, -EINVAL, "the value of '%s' is too long", m->key);
	near = str_nearest(m->key, keys);
	if (near && strcmp(near, m->key) == 0)
		return check_value(m, err);
	return near ? err_set(err, -EINVAL, "unknown key '%s': did you mean '%s'?", m->key, near)
		    : err_set(err, -EINVAL, "unknown key '%s' (vram, class, when-full, name)",
			      m->key);
}

static int run(int argc, char **argv)
{
	struct common common = { 0 };
	struct wire_set m = { 0 };
	struct err err = { 0 };
	struct client c;
	int r = opts_parse(&cmd_set, argc, argv, &common, NULL, NULL);

	if (r < 0)
		return opts_exit(r, WIRE_CODE_USAGE);
	if (argc - r < 2) {
		complain("set", "which job, and what? as in 'allot set 7 vram=20G'");
		return WIRE_CODE_USAGE;
	}
	argv += r;
	if (parse_u64(argv[0], 1, INT64_MAX, &m.job_id, &err) < 0) {
		complain("set", "job %s", err.text);
		return WIRE_CODE_USAGE;
	}
	/* every word is understood before the first one acts */
	for (char **word = argv + 1; *word; word++) {
		if (split(*word, &m, &err) < 0) {
			complain("set", "%s", err.text);
			return WIRE_CODE_USAGE;
		}
	}
	r = session_open("set", &common, &c);
	if (r)
		return r;
	for (char **word = argv + 1; *word && r == 0; word++) {
		struct wire_ok ok;

		(void)split(*word, &m, &err); /* checked above */
		r = client_call(&c, WIRE_SET, &m, WIRE_OK, &ok, SESSION_TIMEOUT_NS, &err);
	}
	if (r < 0)
		r = session_failed("set", &c, r, &err);
	client_fini(&c);
	return r;
}

const struct cmd cmd_set = {
	.name = "set",
	.args = "JOB KEY=VALUE…",
	.summary = "Change a job while it runs",
	.text = "Keys: vram=REQ[:LIMIT]  class=latency|normal|batch  when-full=wait[=TIME]|fail\n"
		"      name=NAME\n\n"
		"A limit below what the job holds kills nothing: its free memory reads 0 and its "
		"next\n"
		"allocation is refused. From inside a job a limit can only be lowered.\n",
	.opts = opts,
	.complete = "@jobs vram= class= when-full= name=",
	.run = run,
};
