// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fmt.h"
#include "base/parse.h"
#include "base/paths.h"
#include "base/size.h"
#include "base/str.h"
#include "cli/detach.h"
#include "cli/parts.h"
#include "cli/program.h"
#include "cli/run_request.h"
#include "cli/session.h"
#include "client/find.h"
#include "client/start.h"

#define EXIT_NOT_PERMITTED  4
#define EXIT_REFUSED        125
#define EXIT_CANNOT_EXECUTE 126
#define EXIT_NOT_FOUND      127
#define EXIT_WAITED_OUT     75
#define START_TIMEOUT_NS    (10 * NS_PER_S)
#define FIRST_ANSWER_NS     (10 * NS_PER_S)
#define STILL_WAITING_NS    (30 * NS_PER_S)
#define COMES_AGAIN_NS      (30 * NS_PER_S)
#define COMES_AGAIN_POLL_MS 100
#define MAX_KEEPER_ARGS     64

enum {
	OPT_VRAM = 1,
	OPT_CLASS,
	OPT_WHEN_FULL,
	OPT_GPU,
	OPT_GPUS,
	OPT_NAME,
	OPT_IMMEDIATE,
	OPT_WAIT_TIMEOUT,
	OPT_FAIL_POLICY,
	OPT_DETACH,
	OPT_LOG_MAX,
};

static const struct opt opts[] = {
	{ 'm', "vram", "REQ[:LIMIT]", "promised VRAM and hard limit: 8G, 8G:16G, 50%", OPT_VRAM },
	{ 0, "class", "CLASS", "latency, normal or batch: who goes first (normal)", OPT_CLASS },
	{ 0, "when-full", "WHAT", "wait[=TIME] or fail, when the card is full (wait=60s)",
	  OPT_WHEN_FULL },
	{ 'g', "gpu", "ID[,ID]", "these: index, UUID or its beginning, PCI address", OPT_GPU },
	{ 0, "gpus", "N", "that many GPUs, of those of --gpu if it is given (1)", OPT_GPUS },
	{ 'J', "name", "NAME", "the job's name (the command's)", OPT_NAME },
	{ 0, "immediate", NULL, "do not wait for a place: exit 75 when there is none",
	  OPT_IMMEDIATE },
	{ 0, "wait-timeout", "TIME", "wait so long for a place, then exit 75", OPT_WAIT_TIMEOUT },
	{ 0, "fail-policy", "POLICY",
	  "closed or open: CUDA calls once allotd is gone for good "
	  "(closed)",
	  OPT_FAIL_POLICY },
	{ 'd', "detach", NULL, "in the background: print the job's id and return", OPT_DETACH },
	{ 0, "log-max", "SIZE", "with -d: keep the newest output, so much of it (64M)",
	  OPT_LOG_MAX },
	OPT_COMMON,
};

struct paths {
	char cuda[PATHS_MAX], nvml[PATHS_MAX], keeper[PATHS_MAX];
};

/* what the options say; the environment fills in what they left out */
struct asked {
	struct wire_run m;
	bool vram, class, gpus, detach;
	uint64_t log_max_bytes; /* 0: not said */
};

static int on_option(int id, const char *value, void *arg, struct err *err)
{
	struct asked *given = arg;
	struct wire_run *m = &given->m;
	uint64_t n;
	int r = 0;

	switch (id) {
	case OPT_VRAM:
		given->vram = true;
		return run_request_vram(m, value, err);
	case OPT_CLASS:
		given->class = true;
		return run_request_class(m, value, err);
	case OPT_WHEN_FULL:
		return run_request_when_full(m, value, err);
	case OPT_FAIL_POLICY:
		return run_request_fail_policy(m, value, err);
	case OPT_GPU:
		if (!*value || !str_copy(m->gpu, sizeof(m->gpu), value))
			r = err_set(err, -EINVAL, "'%.40s' names no GPU", value);
		return r;
	case OPT_GPUS:
		r = parse_u64(value, 1, WIRE_MAX_GPUS, &n, err);
		if (r == 0) {
			m->n_gpus = (uint32_t)n;
			given->gpus = true;
		}
		return r;
	case OPT_NAME:
		if (!*value || !str_copy(m->name, sizeof(m->name), value))
			r = err_set(err, -EINVAL, "'%.70s' is no name of 1 to %d bytes", value,
				    WIRE_NAME_MAX - 1);
		return r;
	case OPT_IMMEDIATE:
		return run_request_wait(m, "0s", err);
	case OPT_DETACH:
		given->detach = true;
		return 0;
	case OPT_LOG_MAX:
		return parse_size(value, &given->log_max_bytes, err);
	case OPT_WAIT_TIMEOUT:
		return run_request_wait(m, value, err);
	default:
		return err_set(err, -EINVAL, "option %d is unknown", id);
	}
}

/* what the loader would leave out with a mere warning, so that the command ran without its limit */
static int check_preload(const char *path)
{
	struct statvfs fs;
	const char *why = NULL;

	if (strpbrk(path, " :$"))
		why = "the loader stumbles over a blank, a colon or a dollar sign in a path";
	else if (statvfs(path, &fs) == 0 && fs.f_flag & ST_NOEXEC)
		why = "its file system is mounted noexec";
	else if (part_is_cut(path))
		why = "it is cut short";
	/*
	 * Damaged, of another architecture: only trying tells.  Loading it does nothing by
	 * itself, and costs about as much as the command pays for it again.
	 */
	if (!why && !dlopen(path, RTLD_LAZY | RTLD_LOCAL))
		why = dlerror();
	if (why)
		complain("run",
			 "'%s' cannot be preloaded: %s. Nothing was started, because the "
			 "command would run without its limit",
			 path, why);
	return why ? -EINVAL : 0;
}

/* the parts of allot that a fenced run needs: one that is missing ends it here, unfenced never */
static int find_parts(struct paths *p)
{
	const char *missing = NULL;

	if (part_find(PART_CUDA_SHIM, p->cuda, sizeof(p->cuda)) < 0 || access(p->cuda, R_OK) < 0)
		missing = part_name(PART_CUDA_SHIM);
	else if (part_find(PART_NVML_SHIM, p->nvml, sizeof(p->nvml)) < 0 ||
		 access(p->nvml, R_OK) < 0)
		missing = part_name(PART_NVML_SHIM);
	else if (part_find(PART_KEEPER, p->keeper, sizeof(p->keeper)) < 0)
		missing = part_name(PART_KEEPER);
	if (!missing)
		return check_preload(p->cuda) || check_preload(p->nvml) ? EXIT_REFUSED : 0;
	complain("run",
		 "%s is missing beside this program: nothing was started, because the "
		 "command would run without its limit. Install allot whole",
		 missing);
	return EXIT_REFUSED;
}

/* a command that does not exist must not wait for a place first; 0, or the exit status */
static int find_command(const char *word, char *path, size_t size)
{
	const char *search = getenv("PATH");
	char lost[PATHS_MAX];
	int found = ENOENT;
	struct stat st;

	if (strchr(word, '/')) {
		if (!str_copy(path, size, word))
			found = ENAMETOOLONG;
		else
			found = stat(word, &st) < 0      ? errno
				: S_ISDIR(st.st_mode)    ? EISDIR
				: access(word, X_OK) < 0 ? errno
							 : 0;
	} else {
		for (const char *p = search ? search : "/bin:/usr/bin"; found && *p;) {
			size_t len = strcspn(p, ":");

			if (str_print(path, size, "%.*s%s%s", (int)len, p, len ? "/" : "", word) &&
			    stat(path, &st) == 0 && S_ISREG(st.st_mode))
				found = access(path, X_OK) == 0 ? 0 : EACCES;
			p += len + (p[len] == ':');
		}
	}
	if (found == 0 && program_lost_interpreter(path, lost, sizeof(lost))) {
		complain("run", "cannot execute '%s': its interpreter '%s' is not there", word,
			 lost);
		return EXIT_CANNOT_EXECUTE;
	}
	if (found == 0)
		return 0;
	complain("run", "cannot execute '%s': %s", word, strerror(found));
	return found == ENOENT || found == ENOTDIR ? EXIT_NOT_FOUND : EXIT_CANNOT_EXECUTE;
}

/* connect; where nobody answers and the daemon would be the user's own, start it */
static int reach_daemon(const struct common *common, struct client_place *place, struct err *err)
{
	struct daemon_command cmd;
	int r = client_find(common->socket, place, err);

	if (r < 0)
		return r;
	r = client_connect_place(place, err);
	if (r != -ENOENT && r != -ECONNREFUSED)
		return r;
	if (place->is_explicit || place->is_system)
		return r;
	r = daemon_command_default(place->socket, &cmd, err);
	if (r == 0)
		r = daemon_start(&cmd, place->socket, START_TIMEOUT_NS, err);
	return r < 0 ? r : client_connect_place(place, err);
}

/* says why it waits, and again when the reason changes or half a minute has passed */
static void say_waiting(const struct wire_waiting *w, uint64_t since_ns, char *last, size_t size)
{
	struct fmt_buf waited;
	char text[WIRE_TEXT_MAX];

	(void)str_copy(text, sizeof(text), w->text);
	if (strcmp(text, last) == 0)
		return;
	(void)str_copy(last, size, text);
	complain("run", "waiting%s%s: %s", clock_now_ns() - since_ns > NS_PER_S ? " for " : "",
		 clock_now_ns() - since_ns > NS_PER_S
			 ? fmt_duration(&waited, clock_now_ns() - since_ns)
			 : "",
		 text);
}

/* one `allot run` on its way to a place, over as many connections as that takes */
struct waiter {
	const struct wire_run *request;
	struct detach *detach;
	uint64_t job_id; /* once it is known */
	uint64_t since_ns;
	uint64_t lost_ns; /* allotd was lost then and has not told a reason to wait since; 0: never
			   */
	bool has_waited;
	char last[WIRE_TEXT_MAX]; /* what was said last */
};

/* 0 with the lease, or the exit status after a line on stderr; -ECONNRESET: ask again */
static int await_admission(struct waiter *w, struct client *c, struct wire_admitted *ret)
{
	struct wire_run m = *w->request;
	bool is_wanted = true;
	bool is_told = false, is_odd = false;
	struct err err = { 0 };
	int r;

	/* what an earlier allotd took of it is gone; where the configuration says it, that is told
	 */
	if (m.flags & WIRE_RUN_USUAL_WAIT)
		m.admit_wait_ns = clock_now_ns() - w->since_ns;
	else if (m.admit_wait_ns != UINT64_MAX)
		m.admit_wait_ns = size_sat_sub(m.admit_wait_ns, clock_now_ns() - w->since_ns);
	m.job_id = w->job_id;
	r = client_ask(c, WIRE_RUN, &m, &err);
	while (r >= 0 && is_wanted) {
		/* a daemon that only comes up again may take its time, not longer */
		r = client_answer(c,
				  is_told  ? STILL_WAITING_NS
				  : is_odd ? FIRST_ANSWER_NS - CLIENT_ANSWER_NS
					   : CLIENT_ANSWER_NS,
				  &err);
		packet_close_fds(&c->in);
		if (r == -ETIMEDOUT && !is_told && !is_odd && w->request->admit_wait_ns > 0) {
			complain("run", "allotd does not answer yet, waiting for it");
			is_odd = true;
			r = 0;
		} else if (r == -ETIMEDOUT && is_told) {
			struct fmt_buf b;

			complain("run", "still waiting (%s)",
				 fmt_duration(&b, clock_now_ns() - w->since_ns));
			r = 0;
		} else if (r == WIRE_WAITING) {
			const struct wire_waiting *told = c->in.msg.payload;

			say_waiting(told, w->since_ns, w->last, sizeof(w->last));
			w->job_id = told->job_id;
			is_wanted = detach_tell(w->detach, told->job_id);
			is_told = w->has_waited = true;
			w->lost_ns = 0;
		} else if (r == WIRE_ADMITTED) {
			*ret = *(const struct wire_admitted *)c->in.msg.payload;
			return detach_tell(w->detach, ret->job_id) ? 0 : EXIT_REFUSED;
		} else if (r >= 0) {
			r = err_set(&err, -EBADMSG, "allotd answered with an unexpected %s",
				    wire_name((unsigned)r));
		}
	}
	if (!is_wanted)
		return EXIT_REFUSED;
	if (r == -ECONNRESET || r == -EPIPE)
		return -ECONNRESET;
	complain("run", "%s", err.text);
	return r == -EREMOTEIO && c->code == WIRE_CODE_WAITED_OUT ? EXIT_WAITED_OUT : EXIT_REFUSED;
}

/* may it be looked for once more?  It comes again by systemd's hand, or a keeper's, in a moment */
static bool may_ask_again(struct waiter *w)
{
	uint64_t now = clock_now_ns();

	if (!w->lost_ns) {
		w->lost_ns = now;
		if (w->has_waited)
			complain("run", "allotd went away while this job waited: asking again");
	}
	if (now - w->lost_ns >= (w->has_waited ? COMES_AGAIN_NS : NS_PER_S))
		return false;
	(void)poll(NULL, 0, COMES_AGAIN_POLL_MS);
	return true;
}

static int get_lease(const struct common *common, const struct wire_run *m, struct detach *detach,
		     struct client_place *place, struct wire_admitted *ret, int *ret_sock)
{
	struct waiter w = { .request = m, .detach = detach };
	struct client c = { .sock = -1 };
	struct fmt_buf b;
	int r;

	w.since_ns = clock_now_ns();
	for (;;) {
		struct err err = { 0 };

		client_fini(&c);
		r = reach_daemon(common, place, &err);
		if ((r == -ENOENT || r == -ECONNREFUSED) && w.lost_ns && may_ask_again(&w))
			continue;
		if (r < 0) {
			complain("run", "%s", err.text);
			return r == -EACCES || r == -EPERM ? EXIT_NOT_PERMITTED : EXIT_REFUSED;
		}
		client_init(&c, r);
		r = await_admission(&w, &c, ret);
		if (r != -ECONNRESET)
			break;
		if (!may_ask_again(&w)) {
			complain("run",
				 "allotd closes the connection each time: look at 'allot doctor'");
			r = EXIT_REFUSED;
			break;
		}
	}
	if (r) {
		client_fini(&c);
		return r;
	}
	if (clock_now_ns() - w.since_ns > NS_PER_S)
		complain("run", "job %llu has its place after %s", (unsigned long long)ret->job_id,
			 fmt_duration(&b, clock_now_ns() - w.since_ns));
	*ret_sock = c.sock;
	return 0;
}

/* ---- turning into the keeper ---- */

struct keeper_args {
	char *argv[MAX_KEEPER_ARGS];
	unsigned n;
	bool failed;
};

static void add_arg(struct keeper_args *k, char *arg)
{
	if (!arg || k->n + 1 >= MAX_KEEPER_ARGS)
		k->failed = true;
	else
		k->argv[k->n++] = arg;
}

static void add_env(struct keeper_args *k, char *setting)
{
	add_arg(k, (char *)"--env");
	add_arg(k, setting);
}

/* "GPU-…,GPU-…", or "MIG-…", of the lease; heap */
static char *uuid_list(const struct wire_admitted *a)
{
	char list[WIRE_MAX_GPUS * FMT_UUID_MAX + 1] = "";
	size_t len = 0;

	for (unsigned i = 0; i < a->n_gpus && i < WIRE_MAX_GPUS; i++) {
		struct fmt_buf b;

		(void)str_print(
			list + len, sizeof(list) - len, "%s%s", i ? "," : "",
			fmt_uuid(&b, a->mig_gpus >> i & 1 ? "MIG-" : "GPU-", a->gpus[i].bytes));
		len += strlen(list + len);
	}
	return strdup(list);
}

/* our two libraries first, whatever the user preloads behind them */
static char *preload_setting(const struct paths *p)
{
	const char *old = getenv("LD_PRELOAD");
	char ours[2 * PATHS_MAX + 2];

	(void)str_print(ours, sizeof(ours), "%s:%s", p->cuda, p->nvml);
	if (old && str_starts_with(old, ours))
		return str_dup_printf("LD_PRELOAD=%s", old);
	return str_dup_printf("LD_PRELOAD=%s%s%s", ours, old && *old ? ":" : "", old ? old : "");
}

static void add_settings(struct keeper_args *k, const struct paths *p,
			 const struct client_place *place, const struct wire_admitted *a)
{
	char *uuids = uuid_list(a);

	add_env(k, preload_setting(p));
	add_env(k, str_dup_printf("ALLOT_SOCKET=%s", place->socket));
	add_env(k, str_dup_printf("ALLOT_JOB_ID=%llu", (unsigned long long)a->job_id));
	add_env(k, str_dup_printf("ALLOT_JOB_NAME=%s", a->name));
	add_env(k, str_dup_printf("ALLOT_GPU_UUIDS=%s", uuids ? uuids : ""));
	add_env(k, str_dup_printf("ALLOT_VRAM_REQUEST=%llu", (unsigned long long)a->request_bytes));
	if (a->has_limit)
		add_env(k, str_dup_printf("ALLOT_VRAM_LIMIT=%llu",
					  (unsigned long long)a->limit_bytes));
	add_env(k, strdup("CUDA_DEVICE_ORDER=PCI_BUS_ID"));
	if (a->system_gpus > 1 || a->mig_gpus)
		add_env(k, str_dup_printf("CUDA_VISIBLE_DEVICES=%s", uuids ? uuids : ""));
	free(uuids);
}

/* what the keeper needs to hold the output of a job in the background */
static int add_log(struct keeper_args *k, const struct detach *d)
{
	add_arg(k, str_dup_printf("--log=%s", d->log));
	add_arg(k, str_dup_printf("--log-fd=%d", d->log_fd));
	add_arg(k, str_dup_printf("--log-max=%llu", (unsigned long long)d->max_bytes));
	return fcntl(d->log_fd, F_SETFD, 0);
}

static int become_keeper(const struct paths *p, const struct client_place *place,
			 const struct detach *detach, const struct wire_admitted *a, int sock,
			 char **command)
{
	struct keeper_args k = { 0 };
	unsigned n = 0;
	char **argv;

	add_arg(&k, (char *)"allot-keeper");
	add_arg(&k, str_dup_printf("--fd=%d", sock));
	add_arg(&k, str_dup_printf("--job=%llu", (unsigned long long)a->job_id));
	add_arg(&k, str_dup_printf("--socket=%s", place->socket));
	if (detach->log_fd >= 0 && add_log(&k, detach) < 0)
		k.failed = true;
	add_settings(&k, p, place, a);
	add_arg(&k, (char *)"--");
	while (command[n])
		n++;
	argv = calloc(k.n + n + 1, sizeof(*argv));
	if (k.failed || !argv) {
		complain("run", "out of memory");
		return EXIT_REFUSED;
	}
	memcpy(argv, k.argv, k.n * sizeof(*argv));
	memcpy(argv + k.n, command, n * sizeof(*argv));
	if (fcntl(sock, F_SETFD, 0) == 0)
		(void)execv(p->keeper, argv);
	complain("run", "cannot start '%s': %s", p->keeper, strerror(errno));
	return EXIT_REFUSED;
}

static uint32_t words_in(const char *list)
{
	uint32_t n = 1;

	for (; *list; list++)
		n += *list == ',';
	return n;
}

static int run(int argc, char **argv)
{
	char program[PATHS_MAX];
	struct common common = { 0 };
	struct wire_admitted lease;
	struct client_place place;
	struct paths paths;
	struct asked asked = { 0 };
	struct detach detach = { .log_fd = -1, .tell = -1 };
	struct err err = { 0 };
	int sock = -1, r;

	run_request_init(&asked.m);
	r = opts_parse(&cmd_run, argc, argv, &common, on_option, &asked);
	if (r < 0)
		return opts_exit(r, EXIT_REFUSED);
	if (asked.m.gpu[0] && !asked.gpus) /* all that are named; --gpus N takes N of them */
		asked.m.n_gpus = words_in(asked.m.gpu);
	if (run_request_visible(&asked.m, asked.gpus, &err) < 0 ||
	    run_request_env(&asked.m, asked.vram, asked.class, &err) < 0) {
		complain("run", "%s", err.text);
		return EXIT_REFUSED;
	}
	argv += r;
	if (!*argv) {
		complain("run", "no command: as in 'allot run --vram 8G -- python train.py'");
		return EXIT_REFUSED;
	}
	r = find_command(argv[0], program, sizeof(program));
	if (r)
		return r;
	r = find_parts(&paths);
	if (r)
		return r;
	if (program_kind(program) == PROGRAM_STATIC)
		complain("run",
			 "'%s' is statically linked: its limit is only watched through NVML, "
			 "not enforced",
			 argv[0]);
	else if (program_kind(program) == PROGRAM_SETUID)
		complain("run",
			 "'%s' changes its user: its limit is only watched through NVML, not "
			 "enforced",
			 argv[0]);
	run_request_command(&asked.m, argv);
	if (asked.detach) {
		int status;

		detach.max_bytes = asked.log_max_bytes ? asked.log_max_bytes : LOG_MAX_BYTES;
		r = detach_begin(&detach, asked.m.name, &status);
		if (r)
			return r < 0 ? EXIT_REFUSED : status;
		(void)str_copy(asked.m.log, sizeof(asked.m.log), detach.log);
	}
	r = get_lease(&common, &asked.m, &detach, &place, &lease, &sock);
	if (r == 0)
		r = become_keeper(&paths, &place, &detach, &lease, sock, argv);
	detach_failed(&detach);
	return r;
}

const struct cmd cmd_run = {
	.name = "run",
	.args = "[options] -- CMD [ARG...]",
	.summary = "Wait for room, run a command with its part of a card, pass its exit status on",
	.text = "  allot run --vram 20G -- python train.py      20 GiB promised, 20 GiB at most\n"
		"  allot run --vram 8G:30G -- ./serve           8 GiB promised, up to 30 while "
		"free\n\n"
		"Exit: the command's own; 128+n by signal; 125 allot failed or refused; 126, 127 "
		"cannot\n"
		"execute, not found; 75 waiting for a place ran out. When the command ends, "
		"whatever it\n"
		"left running is ended too. Sizes are powers of 1024; a bare number is refused.\n\n"
		"With -d the job goes on without the terminal: its id is printed at once, also "
		"while it\n"
		"waits for its place; see 'allot logs', 'allot wait'. Its output goes to a file "
		"below\n"
		"$XDG_STATE_HOME/allot/logs, the newest 64 MiB of it.\n\n"
		"Defaults from the environment: ALLOT_VRAM, ALLOT_CLASS, "
		"CUDA_DEVICE_MEMORY_LIMIT[_N],\nCUDA_VISIBLE_DEVICES (as --gpu); then from "
		"allotd's "
		"configuration (allot.yaml(5)).\n",
	.opts = opts,
	.has_command = true,
	.run = run,
};
