// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/fmt.h"
#include "base/parse.h"
#include "base/str.h"
#include "cli/run_request.h"
#include "cli/session.h"
#include "wire/wire.h"

#define TRIES    4
#define AGAIN_NS (250 * NS_PER_MS)

enum {
	OPT_PID = 1,
	OPT_VRAM,
	OPT_CLASS,
	OPT_NAME,
};

static const struct opt opts[] = {
	{ 'p', "pid", "PID", "the process; its children come with it", OPT_PID },
	{ 'm', "vram", "REQ[:LIMIT]", "promised to it, and the most it should hold; per GPU",
	  OPT_VRAM },
	{ 0, "class", "CLASS", "latency, normal or batch", OPT_CLASS },
	{ 'J', "name", "NAME", "the job's name (default: the command's)", OPT_NAME },
	OPT_COMMON,
};

struct request {
	struct wire_adopt m;
	struct wire_run run; /* amounts and class, read as `run` reads them */
};

static int on_option(int id, const char *value, void *arg, struct err *err)
{
	struct request *q = arg;
	uint64_t pid;
	int r;

	switch (id) {
	case OPT_PID:
		r = parse_u64(value, 1, INT32_MAX, &pid, err);
		q->m.pid = r < 0 ? 0 : (int32_t)pid;
		return r;
	case OPT_VRAM:
		return run_request_vram(&q->run, value, err);
	case OPT_CLASS:
		return run_request_class(&q->run, value, err);
	case OPT_NAME:
		return *value && str_copy(q->m.name, sizeof(q->m.name), value)
			       ? 0
			       : err_set(err, -EINVAL, "'%.70s' is no name of 1 to %d bytes", value,
					 WIRE_NAME_MAX - 1);
	default:
		return -EINVAL;
	}
}

static void tell(const struct wire_adopted *a)
{
	struct fmt_buf held, uuid;

	printf("job %llu (%s): %u process%s, %s on", (unsigned long long)a->job_id, a->name,
	       a->n_processes, a->n_processes == 1 ? "" : "es", fmt_size(&held, a->held_bytes));
	for (unsigned i = 0; i < a->n_gpus && i < WIRE_MAX_GPUS; i++)
		printf(" %s",
		       fmt_uuid(&uuid, a->mig_gpus >> i & 1 ? "MIG-" : "GPU-", a->gpus[i].bytes));
	printf("\nAccounted for from now on, and not fenced: it runs without allot's libraries, "
	       "and "
	       "so does\nwhat it starts. No limit stops it; what it takes is charged to the job as "
	       "NVML shows it.\nIt is fenced from its next start, through allot: allot run -- %s\n",
	       a->command);
}

static int ask(struct client *c, const struct wire_adopt *m, int pidfd, struct wire_adopted *ret,
	       struct err *err)
{
	int r = packet_send(c->sock, WIRE_ADOPT, ++c->next_id, m, pidfd);

	if (r < 0)
		return err_set(err, r, "cannot ask allotd: %s", strerror(-r));
	r = client_answer(c, SESSION_TIMEOUT_NS, err);
	if (r < 0)
		return r;
	if (r != WIRE_ADOPTED)
		return err_set(err, -EBADMSG, "allotd answered with an unexpected %s",
			       wire_name((unsigned)r));
	memcpy(ret, c->in.msg.payload, sizeof(*ret));
	str_printable(ret->name);
	str_printable(ret->command);
	return 0;
}

/* NVML is read now and then, and at once when allotd found nothing: a program that began a moment
 * ago is there at the second look */
static int ask_patiently(struct client *c, const struct wire_adopt *m, int pidfd,
			 struct wire_adopted *ret, struct err *err)
{
	const struct timespec pause = { .tv_nsec = AGAIN_NS };
	int r;

	for (unsigned i = 1; (r = ask(c, m, pidfd, ret, err)) < 0; i++) {
		if (c->code != WIRE_CODE_FAILED || i == TRIES)
			break;
		(void)nanosleep(&pause, NULL);
		*err = (struct err){ 0 };
	}
	return r;
}

static int run(int argc, char **argv)
{
	struct common common = { 0 };
	struct request q = { 0 };
	struct wire_adopted adopted;
	struct err err = { 0 };
	struct client c;
	int r;

	run_request_init(&q.run);
	r = opts_parse(&cmd_adopt, argc, argv, &common, on_option, &q);
	if (r < 0)
		return opts_exit(r, WIRE_CODE_USAGE);
	if (r < argc) {
		complain("adopt", "unexpected word '%s'", argv[r]);
		return WIRE_CODE_USAGE;
	}
	if (!q.m.pid) {
		complain("adopt", "which process? as in 'allot adopt --pid 1234 --vram 20G'");
		return WIRE_CODE_USAGE;
	}
	q.m.request = q.run.request;
	q.m.limit = q.run.limit;
	q.m.job_class = q.run.job_class;
	AUTO_FD int pidfd = fd_pidfd_open(q.m.pid);

	if (pidfd < 0) {
		complain("adopt",
			 pidfd == -ESRCH ? "there is no process %d"
					 : "process %d: cannot be opened",
			 q.m.pid);
		return WIRE_CODE_NO_SUCH;
	}
	r = session_open("adopt", &common, &c);
	if (r)
		return r;
	r = ask_patiently(&c, &q.m, pidfd, &adopted, &err);
	if (r < 0)
		r = session_failed("adopt", &c, r, &err);
	else
		tell(&adopted);
	client_fini(&c);
	return r;
}

const struct cmd cmd_adopt = {
	.name = "adopt",
	.args = "--pid PID [options]",
	.summary = "Make a program that was started without allot a job",
	.text = "What the process and its children hold is charged to a job from now on, at "
		"NVML's\n"
		"figures, and shown. It is not fenced: allot's libraries are not in it, nor in "
		"what "
		"it\n"
		"starts. Started the next time through 'allot run', it is. Its owner and root may "
		"do\n"
		"this. 'allot cancel' ends the processes that hold GPU memory, and the one "
		"named.\n",
	.opts = opts,
	.run = run,
};
