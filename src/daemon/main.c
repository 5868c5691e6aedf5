// SPDX-License-Identifier: Apache-2.0
/* allotd: the command line, and into the background */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/paths.h"
#include "base/str.h"
#include "config/config.h"
#include "daemon/daemon.h"
#include "daemon/server.h"
#include "daemon/settings.h"

#define LOG_FILE_MAX ((off_t)4 << 20) /* then the old one is put aside */

static const char usage_text[] =
	"Usage: allotd [options]\n"
	"Shares out the GPUs of this machine among the jobs of 'allot run'.\n\n"
	"      --config FILE     read that configuration; -FILE: which may be missing (root:\n"
	"                        " PATHS_SYSTEM_CONFIG ";\n"
	"                        else $XDG_CONFIG_HOME/allot/allot.yaml)\n"
	"      --socket PATH     listen there (root: " PATHS_SYSTEM_SOCKET ";\n"
	"                        else $XDG_RUNTIME_DIR/allot/allotd.sock)\n"
	"      --state DIR       keep what a restart must know there (root: " PATHS_SYSTEM_STATE
	";\n"
	"                        else $XDG_STATE_HOME/allot)\n"
	"      --sim[=PROFILE]   simulated GPUs: a name (h200, rtx6000ada, four, mig …) or a "
	"file\n"
	"      --driver DIR      libcuda.so.1 and libnvidia-ml.so.1 of that folder\n"
	"      --user            a user's own daemon, also for root\n"
	"      --foreground      stay in the foreground, log to stderr\n"
	"      --ready-fd N      write one byte there when people are served\n"
	"  -h, --help            this text\n"
	"  -V, --version         the version\n\n"
	"Environment: ALLOT_LOG=error|warn|info|debug.  Log in the background: STATE/allotd.log.\n";

struct command_line {
	struct server_options server;
	const char *config; /* --config; NULL: the usual place */
	bool had_relative;  /* a path that means something else to whoever starts us again */
	bool is_done;       /* help or version was asked for and printed */
};

enum {
	OPT_CONFIG = 256,
	OPT_SOCKET,
	OPT_STATE,
	OPT_SIM,
	OPT_DRIVER,
	OPT_USER,
	OPT_FOREGROUND,
	OPT_READY_FD,
};

static int parse_ready_fd(const char *value, struct command_line *ret)
{
	struct err err;
	uint64_t fd;

	if (parse_u64(value, 0, 1 << 20, &fd, &err) < 0 || fcntl((int)fd, F_GETFD) < 0) {
		log_error("--ready-fd '%s' is no open descriptor", value);
		return -EINVAL;
	}
	ret->server.ready_fd = (int)fd;
	(void)fcntl((int)fd, F_SETFD, FD_CLOEXEC); /* it is open, so it can be set */
	return 0;
}

/* a path as this process understands it, also for the keeper that starts us again from elsewhere */
static int take_path(const char *option, const char **ret, struct command_line *c)
{
	bool is_dashed = strcmp(option, "config") == 0 && optarg[0] == '-';
	const char *path = optarg + is_dashed;
	char cwd[PATHS_MAX];

	*ret = optarg;
	if (!*path) {
		log_error("--%s '%s' is no path", option, optarg);
		return -EINVAL;
	}
	if (path[0] == '/')
		return 0;
	if (!getcwd(cwd, sizeof(cwd))) {
		log_error("--%s '%s': cannot tell the working folder: %s", option, path,
			  strerror(errno));
		return -EINVAL;
	}
	*ret = str_dup_printf("%s%s/%s", is_dashed ? "-" : "", cwd, path); /* lives as we do */
	c->had_relative = true;
	return *ret ? 0 : -ENOMEM;
}

static int parse_option(int c, struct command_line *ret)
{
	switch (c) {
	case OPT_CONFIG:
		return take_path("config", &ret->config, ret);
	case OPT_SOCKET:
		return take_path("socket", &ret->server.where.socket, ret);
	case OPT_STATE:
		return take_path("state", &ret->server.where.state, ret);
	case OPT_SIM:
		ret->server.is_simulated = true;
		ret->server.profile = optarg;
		/* a name is no path */
		return optarg && (strchr(optarg, '/') || strstr(optarg, ".conf"))
			       ? take_path("sim", &ret->server.profile, ret)
			       : 0;
	case OPT_DRIVER:
		return take_path("driver", &ret->server.where.driver, ret);
	case OPT_USER:
		ret->server.is_user = true;
		return 0;
	case OPT_FOREGROUND:
		ret->server.is_foreground = true;
		return 0;
	case OPT_READY_FD:
		return parse_ready_fd(optarg, ret);
	case 'h':
		(void)fputs(usage_text, stdout);
		ret->is_done = true;
		return 0;
	case 'V':
		(void)puts("allotd " ALLOT_VERSION);
		ret->is_done = true;
		return 0;
	default: /* getopt has said what is wrong */
		return -EINVAL;
	}
}

static int parse_command_line(int argc, char **argv, struct command_line *ret)
{
	static const struct option options[] = {
		{ "config", required_argument, NULL, OPT_CONFIG },
		{ "socket", required_argument, NULL, OPT_SOCKET },
		{ "state", required_argument, NULL, OPT_STATE },
		{ "sim", optional_argument, NULL, OPT_SIM },
		{ "driver", required_argument, NULL, OPT_DRIVER },
		{ "user", no_argument, NULL, OPT_USER },
		{ "foreground", no_argument, NULL, OPT_FOREGROUND },
		{ "ready-fd", required_argument, NULL, OPT_READY_FD },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ 0 },
	};
	int c;

	*ret = (struct command_line){ .server.ready_fd = -1 };
	while ((c = getopt_long(argc, argv, "hV", options, NULL)) != -1) {
		int r = parse_option(c, ret);

		if (r < 0 || ret->is_done)
			return r;
	}
	if (optind < argc) {
		log_error("unexpected word '%s'", argv[optind]);
		return -EINVAL;
	}
	if (ret->server.is_simulated && ret->server.where.driver) {
		log_error("--sim and --driver exclude each other");
		return -EINVAL;
	}
	return 0;
}

static void add_word(char **argv, unsigned *n, const char *option, const char *value)
{
	argv[(*n)++] = value ? str_dup_printf("%s=%s", option, value) : (char *)option;
}

/*
 * Keepers start a user's allotd again by its own words, as /proc shows them, from wherever they
 * are. So those words must not hang on a folder: begin once more with absolute ones.  Returns only
 * on failure.
 */
static int begin_again(const struct command_line *c, char *name)
{
	char *argv[14] = { name };
	char fd[16];
	unsigned n = 1;

	if (c->config)
		add_word(argv, &n, "--config", c->config);
	if (c->server.where.socket)
		add_word(argv, &n, "--socket", c->server.where.socket);
	if (c->server.where.state)
		add_word(argv, &n, "--state", c->server.where.state);
	if (c->server.is_simulated)
		add_word(argv, &n, "--sim", c->server.profile);
	if (c->server.where.driver)
		add_word(argv, &n, "--driver", c->server.where.driver);
	if (c->server.is_user)
		add_word(argv, &n, "--user", NULL);
	if (c->server.is_foreground)
		add_word(argv, &n, "--foreground", NULL);
	if (c->server.ready_fd >= 0) {
		(void)str_print(fd, sizeof(fd), "%d", c->server.ready_fd);
		(void)fcntl(c->server.ready_fd, F_SETFD, 0); /* it is open, so it can be set */
		add_word(argv, &n, "--ready-fd", fd);
	}
	(void)execv("/proc/self/exe", argv);
	return -errno;
}

/* what the starter happened to have open (a lock, a pipe) must not live as long as a daemon */
static void close_inherited(int keep, int keep_too)
{
	int low = keep < keep_too ? keep : keep_too, high = keep < keep_too ? keep_too : keep;
	unsigned from = STDERR_FILENO + 1;

	if (low > STDERR_FILENO) {
		if ((unsigned)low > from)
			(void)close_range(from, (unsigned)low - 1,
					  0); /* an old kernel: as it was */
		from = (unsigned)low + 1;
	}
	if (high > STDERR_FILENO) {
		if ((unsigned)high > from)
			(void)close_range(from, (unsigned)high - 1, 0);
		from = (unsigned)high + 1;
	}
	(void)close_range(from, ~0u, 0);
}

/* stdout and stderr go to the log, stdin to nothing; relative paths have been read by now */
static int redirect(const char *state_dir, struct err *err)
{
	AUTO_FD int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	char path[PATHS_MAX + 16], old[PATHS_MAX + 32];
	AUTO_FD int file = -1;
	struct stat st;

	if (!str_print(path, sizeof(path), "%s/allotd.log", state_dir) ||
	    !str_print(old, sizeof(old), "%s.old", path))
		return err_set(err, -ENAMETOOLONG, "path '%s' is too long", state_dir);
	if (stat(path, &st) == 0 && st.st_size > LOG_FILE_MAX)
		(void)rename(path, old); /* else it grows on */
	file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (null < 0 || file < 0)
		return err_set(err, -errno, "cannot open '%s': %s", path, strerror(errno));
	if (dup2(null, STDIN_FILENO) < 0 || dup2(file, STDOUT_FILENO) < 0 ||
	    dup2(file, STDERR_FILENO) < 0)
		return err_set(err, -errno, "cannot redirect the output: %s", strerror(errno));
	return chdir("/") < 0 ? err_set(err, -errno, "cannot go to '/': %s", strerror(errno)) : 0;
}

/*
 * Before anything is locked, opened or made: a lock of flock goes with its descriptor into a
 * child, but a pid written into it would be the parent's, and pidfds would have another parent.
 * The parent waits until the child is ready or has failed, so that the caller hears about it.
 */
static int go_into_background(int *ret_report)
{
	int ends[2];
	pid_t pid;
	unsigned char code = 1;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid > 0) {
		ssize_t n;

		close(ends[1]);
		do
			n = read(ends[0], &code, 1);
		while (n < 0 && errno == EINTR);
		_exit(n == 1 ? code : 1);
	}
	close(ends[0]);
	if (setsid() < 0)
		return -errno;
	*ret_report = ends[1];
	return 0;
}

static void report(int fd, unsigned char code)
{
	if (fd < 0)
		return;
	(void)!write(fd, &code, 1); /* the parent may be gone */
	close(fd);
}

/* before anything is locked or made, and while whoever starts us still reads what we say */
static int read_config(struct command_line *c, struct config *config)
{
	struct settings_where *w = &c->server.where;
	struct config_report report;
	bool is_dashed = c->config && c->config[0] == '-';
	int r;

	w->is_system = !c->server.is_user && geteuid() == 0;
	w->may_be_missing = !c->config || is_dashed;
	if (!c->config)
		r = config_default_path(w->is_system, w->path, sizeof(w->path));
	else
		r = str_copy(w->path, sizeof(w->path), c->config + is_dashed) ? 0 : -ENAMETOOLONG;
	if (r < 0) {
		log_error("the path of the configuration is too long");
		return r;
	}
	r = settings_load(w, config, &report);
	if (r < 0)
		settings_log_mistakes(w->path, &report);
	c->server.config = config;
	return r;
}

static int serve(const struct command_line *c, int report_fd)
{
	struct err err = { 0 };
	struct daemon *d = server_new(&c->server, &err);
	int r;

	if (!d) {
		log_error("%s", err.text);
		report(report_fd, 1);
		return 1;
	}
	if (!c->server.is_foreground && redirect(d->instance.state_dir, &err) < 0) {
		log_error("%s", err.text);
		report(report_fd, 1);
		server_free(d);
		return 1;
	}
	if (c->server.is_foreground)
		log_never_wait();
	report(report_fd, 0);
	r = server_run(d);
	if (r < 0)
		log_error("ended: %s", strerror(-r));
	server_free(d);
	return r < 0;
}

int main(int argc, char **argv)
{
	static struct config config;
	struct command_line c;
	int report_fd = -1;

	fd_guard_standard();
	log_setup("allotd", LOG_LEVEL_INFO);
	(void)mallopt(M_ARENA_MAX, 1); /* one thread */
	(void)mallopt(M_TRIM_THRESHOLD, 128 * 1024);
	if (parse_command_line(argc, argv, &c) < 0)
		return 2;
	if (c.is_done)
		return 0;
	if (c.had_relative) {
		int r = begin_again(&c, argv[0]);

		log_error("cannot begin again with absolute paths: %s", strerror(-r));
		return 1;
	}
	if (read_config(&c, &config) < 0)
		return 2;
	if (!c.server.is_foreground) {
		int r = go_into_background(&report_fd);

		if (r < 0) {
			log_error("cannot go into the background: %s", strerror(-r));
			return 1;
		}
		close_inherited(report_fd, c.server.ready_fd);
	}
	return serve(&c, report_fd);
}
