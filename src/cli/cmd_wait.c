// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fmt.h"
#include "base/parse.h"
#include "base/size.h"
#include "cli/job_row.h"
#include "cli/job_watch.h"
#include "cli/session.h"

#define EXIT_WAITED_OUT 75

enum {
	OPT_TIMEOUT = 1,
};

static const struct opt opts[] = {
	{ 't', "timeout", "TIME", "wait so long at the most, then exit 75", OPT_TIMEOUT },
	OPT_OUTPUT,
	OPT_COMMON,
};

struct wait {
	struct common common;
	uint64_t timeout_ns, end_ns;
	struct printer printer;
	int code; /* of the first that did not end with 0 */
	bool ran_out;
};

static int on_option(int id, const char *value, void *arg, struct err *err)
{
	struct wait *w = arg;

	return id == OPT_TIMEOUT ? parse_duration(value, &w->timeout_ns, err) : -EINVAL;
}

static int note(struct wait *w, const struct wire_job *job, bool has_ended)
{
	struct job_row row;
	int r = 0, code = has_ended ? job_exit_code(job) : 0;

	if (has_ended && !(job->flags & WIRE_JOB_HAS_STATUS))
		complain("wait",
			 "nobody saw how job %llu ended: its keeper was killed, or it had none "
			 "(allot adopt)",
			 (unsigned long long)job->job_id);
	w->code = w->code ? w->code : code;
	w->ran_out = w->ran_out || !has_ended;
	if (!w->common.has_output)
		return 0;
	job_row_fill(&row, job);
	r = printer_add(&w->printer, &row);
	job_row_fini(&row);
	return r;
}

/* 0, or allot's own exit status after a line on stderr */
static int wait_for(struct wait *w, uint64_t id)
{
	struct job_watch watch;
	struct fmt_buf b;
	int r = job_watch_begin(&watch, "wait", &w->common, id);

	if (r)
		return r;
	while ((r = job_watch_has_ended(&watch)) == 0) {
		uint64_t now = clock_now_ns();

		if (now >= w->end_ns) {
			complain("wait", "job %llu has not ended after %s", (unsigned long long)id,
				 fmt_duration(&b, w->timeout_ns));
			break;
		}
		r = job_watch_wait(&watch, w->end_ns - now);
		if (r < 0)
			break;
	}
	if (r >= 0 && note(w, &watch.job, r == 1) < 0)
		r = -WIRE_CODE_FAILED;
	job_watch_fini(&watch);
	return r < 0 ? -r : 0;
}

/* all that are named must be there before the first is waited for */
static int check_jobs(const struct wait *w, const uint64_t *ids, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct job_watch watch;
		int r = job_watch_begin(&watch, "wait", &w->common, ids[i]);

		job_watch_fini(&watch);
		if (r)
			return r;
	}
	return 0;
}

static int run(int argc, char **argv)
{
	struct wait w = { .timeout_ns = UINT64_MAX };
	int r = opts_parse(&cmd_wait, argc, argv, &w.common, on_option, &w);
	unsigned n;
	uint64_t *ids;

	if (r < 0)
		return opts_exit(r, WIRE_CODE_USAGE);
	argv += r;
	n = (unsigned)(argc - r);
	if (n == 0) {
		complain("wait", "which job? 'allot ps' lists them");
		return WIRE_CODE_USAGE;
	}
	ids = calloc(n, sizeof(*ids));
	if (!ids)
		return WIRE_CODE_FAILED;
	r = 0;
	for (unsigned i = 0; r == 0 && i < n; i++)
		r = parse_job("wait", argv[i], &ids[i]);
	if (r == 0 && n > 1)
		r = check_jobs(&w, ids, n);
	w.end_ns = size_sat_add(clock_now_ns(), w.timeout_ns);
	if (w.common.has_output && r == 0)
		printer_begin(&w.printer, &w.common, &job_end_object);
	for (unsigned i = 0; r == 0 && i < n; i++)
		r = wait_for(&w, ids[i]);
	if (w.printer.object && r == 0)
		r = printer_end(&w.printer);
	else if (w.printer.object)
		printer_drop(&w.printer);
	free(ids);
	if (r)
		return r;
	return w.ran_out ? EXIT_WAITED_OUT : w.code;
}

const struct cmd cmd_wait = {
	.name = "wait",
	.args = "[options] JOB…",
	.summary = "Wait until jobs have ended, and exit as they did",
	.text = "Exit: that of the first of them, in the order given, that did not end with 0; "
		"128+n "
		"by\n"
		"signal; 75 when --timeout ran out; 125 when nobody saw how a job ended. Otherwise "
		"as "
		"other\n"
		"verbs (6 no such job, 7 no daemon), with a line on stderr. How the last 1000 jobs "
		"of "
		"the\n"
		"last 7 days ended is known. With -o the jobs are listed.\n",
	.opts = opts,
	.complete = "@jobs",
	.run = run,
};
