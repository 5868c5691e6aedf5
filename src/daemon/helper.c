// SPDX-License-Identifier: Apache-2.0
#include "daemon/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"

#define MAX_ENV 512

static void clean_environment(char *envp[MAX_ENV])
{
	unsigned n = 0;

	for (char **e = environ; *e && n + 1 < MAX_ENV; e++)
		if (!str_starts_with(*e, "LD_PRELOAD=") && !str_starts_with(*e, "ALLOT_SOCKET="))
			envp[n++] = *e;
	envp[n] = NULL;
}

/* @sock is above HELPER_FD: dup2 onto itself would keep close-on-exec */
static int spawn(const char *program, char *const argv[], int sock, pid_t *ret)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	char *envp[MAX_ENV];
	sigset_t none;
	int r = posix_spawn_file_actions_init(&actions);

	if (r)
		return -r;
	r = posix_spawnattr_init(&attr);
	if (r) {
		posix_spawn_file_actions_destroy(&actions);
		return -r;
	}
	clean_environment(envp);
	sigemptyset(&none);
	r = posix_spawn_file_actions_adddup2(&actions, sock, HELPER_FD);
	if (!r)
		r = posix_spawnattr_setsigmask(&attr, &none);
	if (!r)
		r = posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	if (!r)
		r = posix_spawn(ret, program, &actions, &attr, argv, envp);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&actions);
	return -r;
}

int helper_spawn(const char *program, char *const argv[], int *ret_sock, pid_t *ret_pid,
		 int *ret_pidfd)
{
	AUTO_FD int theirs = -1;
	AUTO_FD int ours = -1;
	int ends[2], pidfd, r;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return -errno;
	ours = ends[0];
	theirs = fcntl(ends[1], F_DUPFD_CLOEXEC, HELPER_FD + 1);
	close(ends[1]);
	if (theirs < 0)
		return -errno;
	r = spawn(program, argv, theirs, &pid);
	if (r < 0)
		return r;
	pidfd = fd_pidfd_open(pid);
	if (pidfd < 0) {
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0); /* a fresh child: it cannot hang yet */
		return pidfd;
	}
	*ret_sock = TAKE_FD(ours);
	*ret_pid = pid;
	*ret_pidfd = pidfd;
	return 0;
}
