// SPDX-License-Identifier: Apache-2.0
#include "client/start.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/paths.h"
#include "base/str.h"
#include "client/packet.h"

#define START_MAX_ARGS 64
#define LOCK_POLL_MS   20
#define DELETED        " (deleted)" /* as the kernel writes it behind a path */

int daemon_command_default(const char *socket, struct daemon_command *ret, struct err *err)
{
	static const char *const candidates[] = { "allotd", "../daemon/allotd", NULL };
	char state[PATHS_MAX], config[PATHS_MAX];
	int n;

	if (paths_beside(candidates, ret->exe, sizeof(ret->exe)) < 0)
		return err_set(err, -ENOENT, "no allotd beside this program: install allot whole");
	if (paths_user_config(config, sizeof(config)) < 0)
		return err_set(err, -ENAMETOOLONG,
			       "the path of the configuration is too long: set XDG_CONFIG_HOME to "
			       "a shorter one");
	if (paths_user_state(state, sizeof(state)) < 0)
		return err_set(err, -ENAMETOOLONG,
			       "the path of the state folder is too long: set "
			       "XDG_STATE_HOME to a shorter one");
	/* --user: root's own, too, is not the service */
	n = snprintf(ret->args, sizeof(ret->args),
		     "allotd%c--user%c--config=-%s%c--socket=%s%c--state=%s", 0, 0, config, 0,
		     socket, 0, state);
	if (n < 0 || (size_t)n >= sizeof(ret->args))
		return err_set(err, -ENAMETOOLONG, "the paths of allotd are too long");
	ret->args_len = (unsigned)n + 1;
	return 0;
}

int daemon_command_of_peer(int sock, struct daemon_command *ret)
{
	struct daemon_command cmd = { 0 };
	char path[64];
	struct ucred peer;
	socklen_t len = sizeof(peer);
	ssize_t n;

	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return -errno;
	if (peer.uid != geteuid())
		return -EPERM;
	(void)str_print(path, sizeof(path), "/proc/%d/exe", peer.pid);
	n = readlink(path, cmd.exe, sizeof(cmd.exe) - 1);
	if (n < 0)
		return -errno;
	/* replaced by an upgrade while it ran: the new one stands in its place */
	if ((size_t)n > sizeof(DELETED) &&
	    strcmp(cmd.exe + n - (sizeof(DELETED) - 1), DELETED) == 0)
		cmd.exe[(size_t)n - (sizeof(DELETED) - 1)] = '\0';
	(void)str_print(path, sizeof(path), "/proc/%d/cmdline", peer.pid);
	n = fd_read_file(AT_FDCWD, path, cmd.args, sizeof(cmd.args));
	if (n <= 0)
		return n < 0 ? (int)n : -ESRCH;
	cmd.args_len = (unsigned)n;
	*ret = cmd;
	return 0;
}

/* its own words without those that belong to one start only */
static int build_argv(const struct daemon_command *cmd, char *argv[START_MAX_ARGS], char *ready)
{
	const char *p = cmd->args, *end = cmd->args + cmd->args_len;
	bool skip = false;
	unsigned n = 0;

	for (; p < end; p += strlen(p) + 1) {
		if (skip || strcmp(p, "--ready-fd") == 0) {
			skip = !skip;
			continue;
		}
		if (strcmp(p, "--foreground") == 0 || str_starts_with(p, "--ready-fd="))
			continue;
		if (n + 3 > START_MAX_ARGS)
			return -E2BIG;
		argv[n++] = (char *)p;
	}
	argv[n++] = ready;
	argv[n] = NULL;
	return n > 1 ? 0 : -EINVAL;
}

static bool answers(const char *socket)
{
	AUTO_FD int fd = packet_connect(socket);

	return fd >= 0;
}

static int wait_ready(int fd, uint64_t end_ns)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	for (;;) {
		uint64_t now = clock_now_ns();
		int n = poll(&p, 1, now >= end_ns ? 0 : (int)((end_ns - now) / NS_PER_MS) + 1);
		char byte;

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -ETIMEDOUT;
		return read(fd, &byte, 1) == 1 ? 0 : -ECHILD;
	}
}

static int spawn(const struct daemon_command *cmd, uint64_t end_ns, struct err *err)
{
	char *argv[START_MAX_ARGS], ready[32];
	int ends[2], r, status;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_set(err, -errno, "cannot make a pipe: %s", strerror(errno));
	(void)str_print(ready, sizeof(ready), "--ready-fd=%d", ends[1]);
	r = build_argv(cmd, argv, ready);
	pid = r < 0 ? -1 : fork();
	if (pid == 0) {
		sigset_t none;

		(void)sigemptyset(&none);
		(void)sigprocmask(SIG_SETMASK, &none, NULL);
		(void)fcntl(ends[1], F_SETFD, 0);
		(void)execv(cmd->exe, argv);
		_exit(127);
	}
	close(ends[1]);
	if (pid > 0) {
		r = wait_ready(ends[0], end_ns);
		/* it puts itself into the background, so its first process ends at once */
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
	} else if (r == 0) {
		r = -errno;
	}
	close(ends[0]);
	if (r < 0)
		return err_set(err, r, "cannot start '%s': %s", cmd->exe,
			       r == -ECHILD ? "it ended at once, see above" : strerror(-r));
	return 0;
}

int daemon_start(const struct daemon_command *cmd, const char *socket, uint64_t timeout_ns,
		 struct err *err)
{
	uint64_t end = clock_now_ns() + timeout_ns;
	char path[160], folder[160];
	AUTO_FD int lock = -1;
	char *slash;
	int r;

	(void)str_copy(folder, sizeof(folder), socket);
	slash = strrchr(folder, '/');
	if (slash) {
		*slash = '\0';
		r = fd_mkdir_private(folder, err);
		/* one that is not ours alone: allotd decides, it knows whether it was named */
		if (r < 0 && r != -EPERM)
			return err_append(err, r, ": set XDG_RUNTIME_DIR to a folder of your own");
	}
	(void)str_print(path, sizeof(path), "%s.start", socket);
	lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (lock < 0)
		return err_set(err, -errno, "cannot open lock '%s': %s", path, strerror(errno));
	while (flock(lock, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return err_set(err, -errno, "cannot lock '%s': %s", path, strerror(errno));
		if (answers(socket))
			return 0;
		if (clock_now_ns() >= end)
			return err_set(err, -ETIMEDOUT,
				       "somebody else is starting allotd and "
				       "does not come to an end (lock '%s')",
				       path);
		(void)poll(NULL, 0, LOCK_POLL_MS);
	}
	if (answers(socket))
		return 0;
	return spawn(cmd, end, err);
}
