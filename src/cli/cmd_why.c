// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "base/err.h"
#include "base/fmt.h"
#include "base/str.h"
#include "cli/job_row.h"
#include "cli/job_watch.h"
#include "cli/session.h"
#include "cli/why_row.h"

static const struct opt opts[] = {
	OPT_OUTPUT,
	OPT_COMMON,
};

struct why {
	struct common common;
	struct printer printer;
	struct wire_job job;
	unsigned n;
};

static void print_holders(const struct why *w, const struct wire_why_item *m)
{
	struct printer holders;
	struct holder_row row;

	printer_begin(&holders, &w->common, &holder_object);
	for (unsigned i = 0; i < m->n_holders && i < WIRE_WHY_HOLDERS; i++) {
		holder_row_fill(&row, &m->holders[i]);
		(void)printer_add(&holders, &row); /* no memory: a shorter list */
	}
	if (m->n_holders) {
		putchar('\n');
		(void)printer_end(&holders); /* main looks at the end */
	}
	printer_drop(&holders);
	if (m->n_holders > WIRE_WHY_HOLDERS)
		printf("and %u more\n", m->n_holders - WIRE_WHY_HOLDERS);
}

static int on_item(const void *item, void *arg)
{
	struct why *w = arg;
	struct why_row row;
	int r = 0;

	why_row_fill(&row, item);
	if (w->common.output == OUTPUT_TABLE && w->n && row.m.kind == WIRE_WHY_PLACE) {
		printf("%s%s: %s.\n", w->n == 1 ? "\n" : "", /* another GPU */
		       row.m.flags & WIRE_WHY_AND ? "And" : "Or", row.m.sentence);
	} else if (w->common.output == OUTPUT_TABLE) {
		printf("%s%s.\n\n", w->n ? "\n" : "", row.m.sentence);
		sheet_print(&why_object, &row, stdout);
		print_holders(w, item);
	} else {
		r = printer_add(&w->printer, &row);
	}
	why_row_fini(&row);
	w->n++;
	return r;
}

/* it does not wait: what it does instead */
static void say_not(const struct job_row *job, char *text, size_t size)
{
	const struct wire_job *m = &job->m;
	char does[128];
	struct fmt_buf held, limit;

	if (m->state == WIRE_JOB_ENDED && job->exit_code != WIRE_UNKNOWN_U32)
		(void)str_print(does, sizeof(does), "has ended with %u", job->exit_code);
	else if (m->state == WIRE_JOB_ENDED)
		(void)str_copy(does, sizeof(does), "has ended");
	else if (m->state == WIRE_JOB_ENDING)
		(void)str_copy(does, sizeof(does),
			       "has ended, and what it leaves behind is being ended");
	else if (m->n_gpus == 0)
		(void)str_copy(does, sizeof(does),
			       "was there before allotd was restarted, and its keeper is awaited");
	else
		(void)str_print(does, sizeof(does), "runs and holds %s of %s",
				fmt_size(&held, job->held_bytes),
				job->limit_bytes == WIRE_UNKNOWN_U64
					? "the card"
					: fmt_size(&limit, job->limit_bytes));
	(void)str_print(text, size, "Job %llu (%s) does not wait: it %s",
			(unsigned long long)m->job_id, m->name, does);
}

static int print_not(struct why *w)
{
	char sentence[WIRE_TEXT_MAX];
	struct job_row job;
	struct why_row row;
	int r = 0;

	job_row_fill(&job, &w->job);
	say_not(&job, sentence, sizeof(sentence));
	if (w->common.output == OUTPUT_TABLE) {
		printf("%s.\n", sentence);
		if (job.m.n_gpus)
			printf("GPUs  %s\n", job.gpus_text);
	} else {
		why_row_none(&row, job.m.job_id, sentence);
		r = printer_add(&w->printer, &row);
		why_row_fini(&row);
	}
	job_row_fini(&job);
	return r;
}

/* the job first, so that one which does not wait can be told from one that is not there */
static int ask(struct why *w, struct client *c, uint64_t id, struct err *err)
{
	struct wire_show show = { .job_id = id };
	struct wire_why m = { .job_id = id };
	int r = client_ask(c, WIRE_SHOW, &show, err);

	if (r == 0)
		r = client_answer(c, SESSION_TIMEOUT_NS / 2, err);
	if (r == WIRE_JOB)
		w->job = *(const struct wire_job *)c->in.msg.payload;
	while (r == WIRE_JOB || r == WIRE_PS_ITEM)
		r = client_answer(c, SESSION_TIMEOUT_NS / 2, err);
	if (r < 0)
		return r;
	return client_list(c, WIRE_WHY, &m, WIRE_WHY_ITEM, on_item, w, SESSION_TIMEOUT_NS / 2, err);
}

static int run(int argc, char **argv)
{
	struct why w = { .n = 0 };
	struct err err = { 0 };
	struct client c;
	uint64_t id;
	int r = opts_parse(&cmd_why, argc, argv, &w.common, NULL, NULL);

	if (r < 0)
		return opts_exit(r, WIRE_CODE_USAGE);
	if (argc - r != 1) {
		complain("why",
			 argc == r ? "which job? 'allot ps' lists them" : "one job at a time");
		return WIRE_CODE_USAGE;
	}
	r = parse_job("why", argv[r], &id);
	if (r == 0)
		r = session_open("why", &w.common, &c);
	if (r)
		return r;
	printer_begin(&w.printer, &w.common, &why_object);
	r = ask(&w, &c, id, &err);
	if (r < 0)
		r = session_failed("why", &c, r, &err);
	else if (w.n == 0 && print_not(&w) < 0)
		r = WIRE_CODE_FAILED;
	else if (w.common.output != OUTPUT_TABLE)
		r = printer_end(&w.printer);
	printer_drop(&w.printer);
	client_fini(&c);
	return r;
}

const struct cmd cmd_why = {
	.name = "why",
	.args = "[options] JOB",
	.summary = "What a job waits for: who holds it, since when, and what would free it",
	.text = "One sentence first, then the figures. A job waits for its place, or with an "
		"allocation\n"
		"inside its limit on a full card. One that does not wait is said so.\n",
	.opts = opts,
	.complete = "@jobs",
	.run = run,
};
