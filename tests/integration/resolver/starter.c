// SPDX-License-Identifier: Apache-2.0
/*
 * Starts a program in every way that libc has, with a chosen environment.
 *
 *   starter HOW KIND PROGRAM    HOW: one of the functions below; KIND: of environment, see kinds
 *   starter show ARG…           prints its arguments and what its environment says
 *
 * A start that fails prints the error. test_exec.py compares with what happens without us.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MANY 3000

static char *const no_environment[] = { NULL };
static char *const bare_environment[] = { (char *)"KEEP=kept", NULL };
static char *const other_preload[] = { (char *)"KEEP=kept", (char *)"LD_PRELOAD=libm.so.6", NULL };
static char *const other_socket[] = { (char *)"ALLOT_SOCKET=/tmp/elsewhere", (char *)"KEEP=kept",
				      NULL };
static char *many[MANY + 1];

static char *const *environment(const char *kind)
{
	if (strcmp(kind, "empty") == 0)
		return no_environment;
	if (strcmp(kind, "bare") == 0)
		return bare_environment;
	if (strcmp(kind, "other") == 0)
		return other_preload;
	if (strcmp(kind, "socket") == 0)
		return other_socket;
	if (strcmp(kind, "many") == 0) {
		for (int i = 0; i < MANY; i++)
			many[i] = (char *)"KEEP=kept";
		return many;
	}
	if (strcmp(kind, "null") == 0)
		return NULL;
	return environ;
}

static void show(int argc, char **argv)
{
	const char *names[] = { "ALLOT_SOCKET", "LD_PRELOAD", "KEEP" };
	int n = 0;

	for (int i = 2; i < argc; i++)
		printf("%s ", argv[i]);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		printf("%s=%s ", names[i], getenv(names[i]) ? getenv(names[i]) : "-");
	for (char **e = environ; *e; e++)
		n++;
	printf("variables=%d\n", n);
}

/* As setproctitle does it: the variables move to the heap, the title goes over where they were. */
static void clobber(void)
{
	char **copy = calloc(1000, sizeof(*copy)), *first = environ[0];
	size_t n = 0, bytes = 0;

	if (!copy || !first)
		exit(2);
	for (char **e = environ; *e && n < 999; e++) {
		bytes += strlen(*e) + 1;
		copy[n++] = strdup(*e);
	}
	memset(first, 0, bytes);
	memcpy(first, "a title", bytes < 8 ? bytes : 8);
	environ = copy;
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static int spawned(int error, pid_t child)
{
	int status = -1;

	if (error) {
		printf("failed: %s\n", strerror(error));
		return 1;
	}
	if (waitpid(child, &status, 0) != child)
		return 1;
	return WEXITSTATUS(status);
}

static int spawn(const char *how, const char *program, char *const argv[], char *const envp[])
{
	posix_spawnattr_t attr;
	pid_t child = -1;
	int error;

	(void)posix_spawnattr_init(&attr);
	if (strcmp(how, "posix_spawn") == 0)
		error = posix_spawn(&child, program, NULL, &attr, argv, envp);
	else
		error = posix_spawnp(&child, last_part(program), NULL, &attr, argv, envp);
	(void)posix_spawnattr_destroy(&attr);
	return spawned(error, child);
}

static int shell(const char *how, const char *program)
{
	char command[4096], line[8192];
	FILE *out;
	int status;

	/* quotes, several commands, an exit code: it must arrive as it is */
	snprintf(command, sizeof(command), "'%s' show 'a b' \"c'd\"; exit 3", program);
	if (strcmp(how, "system") == 0) {
		status = system(command);
		printf("status %d, shell %d\n", WEXITSTATUS(status), system(NULL) != 0);
		return 0;
	}
	out = popen(command, "re");
	while (out && fgets(line, sizeof(line), out))
		fputs(line, stdout);
	status = out ? pclose(out) : -1;
	printf("status %d\n", WEXITSTATUS(status));
	return 0;
}

static void replace(const char *how, const char *program, char *const argv[], char *const envp[])
{
	const char *base = last_part(program);

	if (strcmp(how, "execve") == 0)
		execve(program, argv, envp);
	else if (strcmp(how, "execv") == 0)
		execv(program, argv);
	else if (strcmp(how, "execvp") == 0)
		execvp(base, argv);
	else if (strcmp(how, "execvpe") == 0)
		execvpe(base, argv, envp);
	else if (strcmp(how, "execl") == 0)
		execl(program, argv[0], argv[1], argv[2], argv[3], (char *)NULL);
	else if (strcmp(how, "execlp") == 0)
		execlp(base, argv[0], argv[1], argv[2], argv[3], (char *)NULL);
	else if (strcmp(how, "execle") == 0)
		execle(program, argv[0], argv[1], argv[2], argv[3], (char *)NULL, envp);
	else if (strcmp(how, "fexecve") == 0)
		fexecve(open(program, O_RDONLY | O_CLOEXEC), argv, envp);
	else if (strcmp(how, "execveat") == 0)
		execveat(AT_FDCWD, program, argv, envp, 0);
	else
		errno = ENOTSUP;
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	int failed_with = 0;
	char *const *envp;
	char *args[5];
	pid_t child;

	if (strcmp(how, "show") == 0) {
		show(argc, argv);
		return 0;
	}
	if (argc != 4)
		return 2;
	if (strcmp(argv[2], "clobbered") == 0)
		clobber();
	envp = environment(argv[2]);
	if (strcmp(argv[2], "unset") == 0) {
		unsetenv("LD_PRELOAD");
		envp = environ;
	} else if (strcmp(argv[2], "clobbered") == 0) {
		envp = bare_environment; /* and environ as it is */
	} else {
		environ = (char **)(envp ? envp : no_environment);
	}
	args[0] = argv[0];
	args[1] = (char *)"show";
	args[2] = (char *)"one";
	args[3] = (char *)"two";
	args[4] = NULL;
	if (strncmp(how, "posix_spawn", 11) == 0)
		return spawn(how, argv[3], args, envp);
	if (strcmp(how, "system") == 0 || strcmp(how, "popen") == 0)
		return shell(how, argv[3]);
	if (strncmp(how, "vfork+", 6) == 0) {
		/* the child borrows our memory: what it wrote there, we see */
		child = vfork();
		if (child == 0) {
			replace(how + 6, argv[3], args, envp);
			failed_with = errno;
			_exit(9);
		}
		if (failed_with)
			printf("failed: %s\n", strerror(failed_with));
		return spawned(0, child);
	}
	errno = 0;
	replace(how, argv[3], args, envp);
	printf("failed: %s\n", strerror(errno));
	return 1;
}
