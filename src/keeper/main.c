// SPDX-License-Identifier: Apache-2.0
/*
 * allot-keeper: one small process a job.  `allot run` turns into it once the job is admitted, so
 * it has the pid that the shell waits for.  It starts the command with the terminal, the ids and
 * the signals untouched, adopts what forks away from it (subreaper), ends the whole tree when the
 * command ends or the job is cancelled, and passes the command's exit status on.
 *
 * In the background (`allot run -d`) it also holds the command's output (output.h), and stays after
 * the end until allotd has the exit status, so that neither is lost when allotd is away just then.
 *
 * The command stays in the keeper's process group: what the terminal sends (Ctrl-C, Ctrl-Z,
 * hang-up) reaches both, the keeper lets the command decide.  What a person or a script sends to
 * the keeper alone is passed on to the command.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/size.h"
#include "keeper/link.h"
#include "keeper/output.h"
#include "keeper/tree.h"

#define EXIT_ALLOT_FAILED   125
#define EXIT_CANNOT_EXECUTE 126
#define EXIT_NOT_FOUND      127
#define LEFTOVER_GRACE_NS   (2 * NS_PER_S) /* for what the command leaves running */
#define KILL_ROUND_NS       (20 * NS_PER_MS)
#define LAST_WORD_NS        (3600 * NS_PER_S)
#define MAX_SETENV          32

enum phase {
	PHASE_RUNNING,
	PHASE_ENDING,  /* asked to end, grace running */
	PHASE_KILLING, /* the grace is over */
};

struct keeper {
	struct link link;
	struct output output;
	sigset_t old_mask;
	int signals; /* signalfd */
	const char *setenv[MAX_SETENV];
	unsigned n_setenv;
	char **argv;
	pid_t command;
	bool ended; /* the command itself */
	int status;
	enum phase phase;
	uint64_t phase_end_ns;
};

/*
 * All whose default would end us and leave the command alone; and the size of the window.  Blocked,
 * the two that the kernel sends for a write of our own (nobody reads our stderr any more, the log
 * is at RLIMIT_FSIZE) are errors of that write.
 */
static const int forwarded[] = { SIGTERM, SIGHUP,  SIGINT,  SIGQUIT,   SIGUSR1, SIGUSR2, SIGWINCH,
				 SIGALRM, SIGPIPE, SIGXFSZ, SIGVTALRM, SIGPROF, SIGIO,   SIGPWR };

/* in the child; never returns */
static void become_command(const struct keeper *k, int report)
{
	for (unsigned i = 0; i < k->n_setenv; i++)
		(void)putenv((char *)k->setenv[i]); /* only ENOMEM, and then exec fails too */
	(void)sigprocmask(SIG_SETMASK, &k->old_mask, NULL);
	if (k->output.file >= 0 && output_child(&k->output) < 0) {
		(void)!write(report, &errno, sizeof(errno));
		_exit(EXIT_ALLOT_FAILED);
	}
	(void)execvp(k->argv[0], k->argv);
	(void)!write(report, &errno, sizeof(errno)); /* a lost report reads as EIO */
	_exit(EXIT_NOT_FOUND);
}

/* 0, or the exit status with which the keeper ends */
static int start_command(struct keeper *k)
{
	int ends[2], code = 0;
	ssize_t n;

	if (pipe2(ends, O_CLOEXEC) < 0) {
		log_error("cannot make a pipe: %s", strerror(errno));
		return EXIT_ALLOT_FAILED;
	}
	k->command = fork();
	if (k->command == 0)
		become_command(k, ends[1]);
	close(ends[1]);
	output_started(&k->output);
	if (k->command < 0) {
		log_error("cannot fork: %s", strerror(errno));
		close(ends[0]);
		return EXIT_ALLOT_FAILED;
	}
	do
		n = read(ends[0], &code, sizeof(code));
	while (n < 0 && errno == EINTR);
	close(ends[0]);
	if (n == 0) {
		link_started(&k->link, k->command);
		return 0;
	}
	while (waitpid(k->command, NULL, 0) < 0 && errno == EINTR)
		;
	if (n != sizeof(code))
		code = EIO;
	log_error("cannot execute '%s': %s", k->argv[0], strerror(code));
	return code == ENOENT || code == ENOTDIR ? EXIT_NOT_FOUND : EXIT_CANNOT_EXECUTE;
}

/* the job's processes: what hangs below us, allotd and who starts it left out */
static struct tree tree_of(const struct keeper *k)
{
	return (struct tree){ .root = getpid(),
			      .spared = { k->link.daemon, { .pid = k->link.starter } } };
}

static void begin_end(struct keeper *k, int sig, uint64_t grace_ns)
{
	uint64_t end = size_sat_add(clock_now_ns(), grace_ns);
	struct tree tree = tree_of(k);

	(void)tree_signal(&tree, SIGCONT, NULL); /* a stopped process hears nothing */
	(void)tree_signal(&tree, sig, NULL);
	/* asked twice: the shorter grace counts */
	k->phase_end_ns = k->phase == PHASE_RUNNING ? end : size_min(k->phase_end_ns, end);
	if (k->phase == PHASE_RUNNING)
		k->phase = PHASE_ENDING;
}

/* false: there is no child left, and so, since orphans become ours, no descendant either */
static bool reap(struct keeper *k)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (link_reaped(&k->link, pid, status) || pid != k->command)
			continue;
		k->ended = true;
		k->status = status;
	}
	return pid == 0 || errno != ECHILD;
}

static void on_signals(struct keeper *k)
{
	struct signalfd_siginfo si;

	while (read(k->signals, &si, sizeof(si)) == (ssize_t)sizeof(si)) {
		if (si.ssi_signo == SIGCHLD)
			continue; /* reaped every round */
		/* the terminal's own signals reach the command without us */
		if (si.ssi_code != SI_USER && si.ssi_code != SI_QUEUE && si.ssi_code != SI_TKILL)
			continue;
		if (si.ssi_pid == (uint32_t)getpid())
			continue; /* of a write of our own */
		if (!k->ended)
			(void)kill(k->command, (int)si.ssi_signo); /* gone: nothing to tell */
		else
			begin_end(k, SIGTERM, 0);
	}
}

/* is the whole tree gone, or is what is left out of our reach? */
static bool is_finished(struct keeper *k, uint64_t now_ns)
{
	struct tree tree = tree_of(k);
	unsigned denied = 0;
	int n;

	if (!reap(k)) /* the common end, without a look at every process of the machine */
		return k->ended;
	if (k->ended && k->phase == PHASE_RUNNING && tree_signal(&tree, 0, NULL) > 0)
		begin_end(k, SIGTERM, LEFTOVER_GRACE_NS);
	if (k->phase == PHASE_ENDING && now_ns >= k->phase_end_ns)
		k->phase = PHASE_KILLING;
	if (k->phase == PHASE_KILLING)
		(void)tree_kill(&tree, NULL);
	(void)reap(k);
	n = tree_signal(&tree, 0, &denied);
	if (!k->ended || n <= 0 || k->phase != PHASE_KILLING || (unsigned)n > denied)
		return k->ended && n <= 0;
	/* they run as somebody else (sudo, a setuid program) and end when they like */
	log_warn("%u processes of another user are left running: they cannot be ended from here",
		 denied);
	return true;
}

static void watch(struct keeper *k)
{
	for (;;) {
		uint64_t now = clock_now_ns(), next = link_tick(&k->link, now);
		struct pollfd p[] = { { .fd = k->signals, .events = POLLIN },
				      { .fd = k->link.sock, .events = POLLIN },
				      { .fd = k->output.reader, .events = POLLIN } };
		struct timespec ts;

		if (k->phase == PHASE_ENDING || k->phase == PHASE_KILLING || k->ended)
			next = size_min(next, now + KILL_ROUND_NS);
		now = clock_now_ns();
		next = next > now ? next - now : 0;
		next = size_min(next, 3600 * NS_PER_S);
		ts.tv_sec = (time_t)(next / NS_PER_S);
		ts.tv_nsec = (long)(next % NS_PER_S);
		(void)ppoll(p, ARRAY_SIZE(p), &ts, NULL); /* an error shows again below */
		link_read(&k->link, clock_now_ns());
		if (k->link.signal) {
			begin_end(k, k->link.signal, k->link.signal_grace_ns);
			k->link.signal = 0;
		}
		output_read(&k->output);
		on_signals(k);
		(void)reap(k);
		if ((k->ended || k->phase != PHASE_RUNNING) && is_finished(k, clock_now_ns()))
			return;
	}
}

/* in the background nobody else has the exit status: allotd is to know it before we go */
static void say_last_word(struct keeper *k)
{
	uint64_t end = clock_now_ns() + LAST_WORD_NS;

	while (!k->link.is_acknowledged) {
		uint64_t now = clock_now_ns(), next = size_min(link_tick(&k->link, now), end);
		struct pollfd p[] = { { .fd = k->signals, .events = POLLIN },
				      { .fd = k->link.sock, .events = POLLIN } };
		struct signalfd_siginfo si;
		struct timespec ts;

		next = next > now ? next - now : 0;
		ts.tv_sec = (time_t)(next / NS_PER_S);
		ts.tv_nsec = (long)(next % NS_PER_S);
		(void)ppoll(p, ARRAY_SIZE(p), &ts, NULL); /* an error shows again below */
		link_read(&k->link, clock_now_ns());
		(void)reap(k);
		while (read(k->signals, &si, sizeof(si)) == (ssize_t)sizeof(si))
			if (si.ssi_signo == SIGTERM && si.ssi_code == SI_USER)
				return; /* told to go */
		if (clock_now_ns() >= end)
			return;
	}
}

static int exit_code(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int setup_signals(struct keeper *k)
{
	sigset_t mask;

	(void)sigemptyset(&mask);
	(void)sigaddset(&mask, SIGCHLD);
	for (unsigned i = 0; i < ARRAY_SIZE(forwarded); i++)
		(void)sigaddset(&mask, forwarded[i]);
	if (sigprocmask(SIG_BLOCK, &mask, &k->old_mask) < 0)
		return -errno;
	k->signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	return k->signals < 0 ? -errno : 0;
}

struct arguments {
	uint64_t fd, job, log_fd, log_max;
	const char *socket, *log;
};

static bool parse_arguments(struct keeper *k, struct arguments *a, int argc, char **argv)
{
	static const struct option options[] = {
		{ "fd", required_argument, NULL, 'f' },
		{ "job", required_argument, NULL, 'j' },
		{ "socket", required_argument, NULL, 's' },
		{ "env", required_argument, NULL, 'e' },
		{ "log", required_argument, NULL, 'l' },
		{ "log-fd", required_argument, NULL, 'L' },
		{ "log-max", required_argument, NULL, 'm' },
		{ 0 },
	};
	struct err err = { .text = "an option is missing" };
	int c, r = 0;

	while (r == 0 && (c = getopt_long(argc, argv, "+", options, NULL)) != -1) {
		if (c == 'f')
			r = parse_u64(optarg, 3, INT32_MAX, &a->fd, &err);
		else if (c == 'j')
			r = parse_u64(optarg, 1, UINT64_MAX, &a->job, &err);
		else if (c == 's')
			a->socket = optarg;
		else if (c == 'l')
			a->log = optarg;
		else if (c == 'L')
			r = parse_u64(optarg, 3, INT32_MAX, &a->log_fd, &err);
		else if (c == 'm')
			r = parse_u64(optarg, 1, UINT64_MAX, &a->log_max, &err);
		else if (c == 'e' && k->n_setenv < MAX_SETENV && strchr(optarg, '='))
			k->setenv[k->n_setenv++] = optarg;
		else
			r = err_set(&err, -EINVAL, "it is started by 'allot run', not by hand");
	}
	k->argv = argv + optind;
	if (r == 0 && a->fd && a->job && a->socket && *k->argv)
		return true;
	log_error("%s", err.text);
	return false;
}

int main(int argc, char **argv)
{
	struct keeper k = { .signals = -1, .output = { .file = -1, .reader = -1, .writer = -1 } };
	struct arguments a = { 0 };
	int r;

	fd_guard_standard();
	log_setup("allot run", LOG_LEVEL_WARN);
	if (!parse_arguments(&k, &a, argc, argv))
		return EXIT_ALLOT_FAILED;
	if (fcntl((int)a.fd, F_SETFD, FD_CLOEXEC) < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 ||
	    setup_signals(&k) < 0 || link_init(&k.link, (int)a.fd, a.socket, a.job) < 0 ||
	    (a.log && output_init(&k.output, (int)a.log_fd, a.log, a.log_max) < 0)) {
		log_error("cannot start the keeper of job %llu: %s", (unsigned long long)a.job,
			  strerror(errno));
		return EXIT_ALLOT_FAILED;
	}
	k.link.is_quiet = a.log != NULL;
	r = start_command(&k);
	if (r == 0) {
		watch(&k);
		output_finish(&k.output);
		link_ended(&k.link, k.status, a.log != NULL);
		r = exit_code(k.status);
	} else {
		link_ended(&k.link, r << 8, a.log != NULL);
	}
	if (a.log)
		say_last_word(&k);
	link_fini(&k.link);
	return r;
}
