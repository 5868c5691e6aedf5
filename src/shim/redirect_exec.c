// SPDX-License-Identifier: Apache-2.0
/*
 * Whatever starts a program, from within a job: with our libraries, as exec_env.h says. With an
 * environment that has them, the call goes on as it came. All but posix_spawn, popen and system
 * work in a child of vfork or of a fork of a program with threads.
 *
 * system and popen give the shell this process's own environment, which threads share and we must
 * not change. If it is not whole, the shell is told to put its own right before it runs the
 * command: what it starts then has it; waiting, signals and cancellation stay libc's affair.
 */
#include <errno.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "shim/exec_env.h"
#include "shim/redirect.h"

typedef int execv_fn(const char *file, char *const argv[]);
typedef int execve_fn(const char *file, char *const argv[], char *const envp[]);
typedef int execveat_fn(int dirfd, const char *path, char *const argv[], char *const envp[],
			int flags);
typedef int fexecve_fn(int fd, char *const argv[], char *const envp[]);
typedef int spawn_fn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
		     const posix_spawnattr_t *attr, char *const argv[], char *const envp[]);
typedef int system_fn(const char *command);
typedef FILE *popen_fn(const char *command, const char *mode);

REDIRECT_EXPORT int execve(const char *path, char *const argv[], char *const envp[])
{
	execve_fn *next = (execve_fn *)redirect_next(REDIRECT_execve);
	struct exec_room room;
	char *const *env = exec_env(envp, &room);

	return env || !envp ? next(path, argv, env) : -1;
}

REDIRECT_EXPORT int execv(const char *path, char *const argv[])
{
	execv_fn *next = (execv_fn *)redirect_next(REDIRECT_execv);
	struct exec_room room;
	char *const *env = exec_env(environ, &room);

	if (env == environ)
		return next(path, argv);
	return env ? ((execve_fn *)redirect_next(REDIRECT_execve))(path, argv, env) : -1;
}

REDIRECT_EXPORT int execvpe(const char *file, char *const argv[], char *const envp[])
{
	execve_fn *next = (execve_fn *)redirect_next(REDIRECT_execvpe);
	struct exec_room room;
	char *const *env = exec_env(envp, &room);

	return env || !envp ? next(file, argv, env) : -1;
}

REDIRECT_EXPORT int execvp(const char *file, char *const argv[])
{
	execv_fn *next = (execv_fn *)redirect_next(REDIRECT_execvp);
	struct exec_room room;
	char *const *env = exec_env(environ, &room);

	if (env == environ)
		return next(file, argv);
	return env ? ((execve_fn *)redirect_next(REDIRECT_execvpe))(file, argv, env) : -1;
}

/*
 * The arguments of a variadic call as an array; *@args ends behind the NULL that ends them.
 * @args is read twice, so its caller's copy is used up afterwards.
 */
static char **collect(const char *first, va_list *args, struct exec_room *room)
{
	size_t n = 0;
	va_list count;
	char **argv;

	va_copy(count, *args);
	for (const char *arg = first; arg; arg = va_arg(count, const char *))
		n++;
	va_end(count);
	argv = exec_take(room, EXEC_ARGS, (n + 1) * sizeof(*argv));
	if (!argv)
		return NULL;
	n = 0;
	for (const char *arg = first; arg; arg = va_arg(*args, const char *))
		argv[n++] = (char *)arg;
	argv[n] = NULL;
	return argv;
}

REDIRECT_EXPORT int execl(const char *path, const char *arg, ...)
{
	struct exec_room room;
	va_list args;
	char **argv;

	va_start(args, arg);
	argv = collect(arg, &args, &room);
	va_end(args);
	return argv ? execv(path, argv) : -1;
}

REDIRECT_EXPORT int execlp(const char *file, const char *arg, ...)
{
	struct exec_room room;
	va_list args;
	char **argv;

	va_start(args, arg);
	argv = collect(arg, &args, &room);
	va_end(args);
	return argv ? execvp(file, argv) : -1;
}

REDIRECT_EXPORT int execle(const char *path, const char *arg, ...)
{
	struct exec_room room;
	char *const *envp = NULL;
	va_list args;
	char **argv;

	va_start(args, arg);
	argv = collect(arg, &args, &room);
	if (argv)
		envp = va_arg(args, char *const *);
	va_end(args);
	return argv ? execve(path, argv, envp) : -1;
}

REDIRECT_EXPORT int fexecve(int fd, char *const argv[], char *const envp[])
{
	fexecve_fn *next = (fexecve_fn *)redirect_next(REDIRECT_fexecve);
	struct exec_room room;
	char *const *env = envp;

	if (envp) /* without one it is an error, the next function's to report */
		env = exec_env(envp, &room);
	return env || !envp ? next(fd, argv, env) : -1;
}

REDIRECT_EXPORT int execveat(int dirfd, const char *path, char *const argv[], char *const envp[],
			     int flags)
{
	execveat_fn *next = (execveat_fn *)redirect_next(REDIRECT_execveat);
	struct exec_room room;
	char *const *env = exec_env(envp, &room);

	return env || !envp ? next(dirfd, path, argv, env, flags) : -1;
}

static int spawn(enum redirect_name name, pid_t *pid, const char *path,
		 const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attr,
		 char *const argv[], char *const envp[])
{
	spawn_fn *next = (spawn_fn *)redirect_next(name);
	int saved_errno = errno; /* these functions return the error and leave errno alone */
	struct exec_room room;
	char *const *env = exec_env(envp, &room);

	errno = saved_errno;
	return env || !envp ? next(pid, path, actions, attr, argv, env) : ENOMEM;
}

REDIRECT_EXPORT int posix_spawn(pid_t *pid, const char *path,
				const posix_spawn_file_actions_t *actions,
				const posix_spawnattr_t *attr, char *const argv[],
				char *const envp[])
{
	return spawn(REDIRECT_posix_spawn, pid, path, actions, attr, argv, envp);
}

REDIRECT_EXPORT int posix_spawnp(pid_t *pid, const char *file,
				 const posix_spawn_file_actions_t *actions,
				 const posix_spawnattr_t *attr, char *const argv[],
				 char *const envp[])
{
	return spawn(REDIRECT_posix_spawnp, pid, file, actions, attr, argv, envp);
}

/* The command with the prelude before it, on the heap; *@ret NULL when it needs none. */
static int shell_command(const char *command, char **ret)
{
	struct exec_room room;
	char *const *env = exec_env(environ, &room);
	size_t prelude, len;

	*ret = NULL;
	if (env == environ || !command)
		return 0;
	if (!env)
		return -ENOMEM;
	prelude = exec_prelude(env, NULL, 0);
	len = strlen(command);
	*ret = malloc(prelude + len + 1);
	if (!*ret)
		return -ENOMEM;
	(void)exec_prelude(env, *ret, prelude + 1);
	memcpy(*ret + prelude, command, len + 1);
	return 0;
}

REDIRECT_EXPORT int system(const char *command)
{
	system_fn *next = (system_fn *)redirect_next(REDIRECT_system);
	AUTO_FREE char *whole = NULL;

	if (shell_command(command, &whole) < 0) {
		errno = ENOMEM;
		return -1;
	}
	return next(whole ? whole : command);
}

REDIRECT_EXPORT FILE *popen(const char *command, const char *mode)
{
	popen_fn *next = (popen_fn *)redirect_next(REDIRECT_popen);
	AUTO_FREE char *whole = NULL;

	if (shell_command(command, &whole) < 0) {
		errno = ENOMEM;
		return NULL;
	}
	return next(whole ? whole : command, mode);
}
