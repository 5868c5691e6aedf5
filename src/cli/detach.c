// SPDX-License-Identifier: Apache-2.0
#include "cli/detach.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/cmd.h"

#define EXIT_REFUSED 125
#define LOGS_MAX     4096 /* looked at */
#define NAME_ROOM    40

struct old_log {
	char name[NAME_MAX + 1];
	time_t changed;
	uint64_t bytes;
};

struct old_logs {
	struct old_log *all;
	unsigned n;
	uint64_t bytes;
};

/* somebody still writes it */
static bool is_locked(int dir, const char *name)
{
	AUTO_FD int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0;
}

static bool is_log(const char *name)
{
	size_t len = strlen(name);

	return (len > 4 && strcmp(name + len - 4, ".log") == 0) ||
	       (len > 6 && strcmp(name + len - 6, ".log.1") == 0);
}

/* X.log.1 is of the same job as X.log */
static bool is_in_use(int dir, const char *name)
{
	char newest[NAME_MAX + 1];

	(void)str_copy(newest, sizeof(newest), name);
	if (strlen(newest) > 2 && strcmp(newest + strlen(newest) - 2, ".1") == 0)
		newest[strlen(newest) - 2] = '\0';
	return is_locked(dir, name) || is_locked(dir, newest);
}

static void find_logs(DIR *folder, struct old_logs *logs)
{
	struct dirent *e;

	while (logs->n < LOGS_MAX && (e = readdir(folder))) {
		struct old_log *log = &logs->all[logs->n];
		struct stat st;

		if (!is_log(e->d_name) || !str_copy(log->name, sizeof(log->name), e->d_name) ||
		    fstatat(dirfd(folder), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    !S_ISREG(st.st_mode))
			continue;
		log->changed = st.st_mtime;
		log->bytes = (uint64_t)st.st_blocks * 512;
		logs->bytes += log->bytes;
		logs->n++;
	}
}

static int by_age(const void *a, const void *b)
{
	time_t x = ((const struct old_log *)a)->changed, y = ((const struct old_log *)b)->changed;

	return (x > y) - (x < y);
}

/* the oldest first, until what is left is young and small enough */
static void tidy_up(const char *path)
{
	struct old_logs logs = { .all = calloc(LOGS_MAX, sizeof(*logs.all)) };
	DIR *folder = opendir(path);
	time_t now = time(NULL);

	if (folder && logs.all) {
		find_logs(folder, &logs);
		qsort(logs.all, logs.n, sizeof(*logs.all), by_age);
		for (unsigned i = 0; i < logs.n; i++) {
			const struct old_log *log = &logs.all[i];

			if (now - log->changed <= LOGS_KEPT_S && logs.bytes <= LOGS_KEPT_BYTES)
				break;
			if (!is_in_use(dirfd(folder), log->name) &&
			    unlinkat(dirfd(folder), log->name, 0) == 0)
				logs.bytes -= log->bytes;
		}
	}
	if (folder)
		closedir(folder);
	free(logs.all);
}

/* a file's name in it may be anything: what is no plain letter becomes "_" */
static void file_name(const char *name, char *buf, size_t size)
{
	char plain[NAME_ROOM + 1] = "", when[32] = "";
	time_t now = time(NULL);
	struct tm tm;
	size_t n;

	for (n = 0; name[n] && n < NAME_ROOM; n++) {
		char c = name[n];
		bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
				(c >= '0' && c <= '9') || (n && (c == '-' || c == '.'));

		plain[n] = is_plain ? c : '_';
	}
	if (gmtime_r(&now, &tm))
		(void)strftime(when, sizeof(when), "%Y%m%dT%H%M%SZ", &tm); /* "" is a name, too */
	(void)str_print(buf, size, "%s-%s-%d.log", n ? plain : "job", when, (int)getpid());
}

static int make_log(struct detach *d, const char *name)
{
	char state[PATHS_MAX], folder[PATHS_MAX] = "", file[128];
	int r = paths_user_state(state, sizeof(state));

	if (r == 0 && !str_print(folder, sizeof(folder), "%s/logs", state))
		r = -ENAMETOOLONG;
	if (r == 0)
		r = fd_mkdir_parents(folder, 0700);
	if (r < 0) {
		complain("run", "no folder for the job's log ('%s'): %s; set XDG_STATE_HOME",
			 folder, strerror(-r));
		return -1;
	}
	tidy_up(folder);
	file_name(name, file, sizeof(file));
	if (!str_print(d->log, sizeof(d->log), "%s/%s", folder, file)) {
		complain("run", "the path of the job's log is too long; set XDG_STATE_HOME");
		return -1;
	}
	d->log_fd = open(d->log,
			 O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY,
			 0600);
	if (d->log_fd < 0) {
		complain("run", "cannot make the job's log '%s': %s", d->log, strerror(errno));
		return -1;
	}
	(void)flock(d->log_fd, LOCK_EX | LOCK_NB); /* ours alone until now */
	return 0;
}

/* the id, or what the other half ended with */
static int await_id(int from, pid_t child)
{
	uint64_t id;
	ssize_t n;
	int status;

	do
		n = read(from, &id, sizeof(id));
	while (n < 0 && errno == EINTR);
	if (n == sizeof(id)) {
		printf("%llu\n", (unsigned long long)id);
		return 0;
	}
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return EXIT_REFUSED;
	return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_REFUSED;
}

int detach_begin(struct detach *d, const char *name, int *ret_status)
{
	int ends[2], null;
	pid_t child;

	if (make_log(d, name) < 0)
		return -1;
	if (pipe2(ends, O_CLOEXEC) < 0) {
		complain("run", "cannot make a pipe: %s", strerror(errno));
		detach_failed(d);
		return -1;
	}
	child = fork();
	if (child < 0) {
		complain("run", "cannot fork: %s", strerror(errno));
		detach_failed(d);
		return -1;
	}
	if (child > 0) {
		close(ends[1]);
		close(d->log_fd); /* the lock is the other half's */
		*ret_status = await_id(ends[0], child);
		close(ends[0]);
		return 1;
	}
	close(ends[0]);
	d->tell = ends[1];
	(void)setsid(); /* just forked: we lead no group */
	(void)signal(SIGPIPE, SIG_IGN);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null >= 0) {
		(void)dup2(null, STDIN_FILENO);
		close(null);
	}
	(void)dup2(d->log_fd, STDOUT_FILENO);
	return 0;
}

bool detach_tell(struct detach *d, uint64_t job_id)
{
	bool is_heard;

	if (d->log_fd < 0 || d->tell < 0)
		return true;
	/* before the starter ends: who waits for the end of its output must not wait for us */
	(void)dup2(d->log_fd, STDERR_FILENO);
	is_heard = write(d->tell, &job_id, sizeof(job_id)) == (ssize_t)sizeof(job_id);
	close(d->tell);
	d->tell = -1;
	if (!is_heard)
		(void)unlink(d->log);
	(void)signal(SIGPIPE, SIG_DFL);
	return is_heard;
}

void detach_failed(struct detach *d)
{
	if (d->log_fd < 0 || d->tell < 0)
		return; /* the id is known: what the log says may be asked for */
	(void)unlink(d->log);
	close(d->log_fd);
	d->log_fd = -1;
}
