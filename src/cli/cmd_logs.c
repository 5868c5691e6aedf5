// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"
#include "cli/job_watch.h"
#include "cli/names.h"
#include "cli/session.h"

#define LOOK_NS (200 * NS_PER_MS)
#define BLOCK   (64 << 10)

enum {
	OPT_FOLLOW = 1,
	OPT_LINES,
};

static const struct opt opts[] = {
	{ 'f', "follow", NULL, "go on as it grows, until the job has ended", OPT_FOLLOW },
	{ 'n', "tail", "N", "only the last N lines", OPT_LINES },
	OPT_COMMON,
};

struct logs {
	struct common common;
	struct job_watch watch;
	bool follow;
	uint64_t lines; /* UINT64_MAX: all */
	bool is_tame;   /* somebody else's, on a terminal: no control characters */
	int fd;
};

static int on_option(int id, const char *value, void *arg, struct err *err)
{
	struct logs *l = arg;

	if (id == OPT_FOLLOW) {
		l->follow = true;
		return 0;
	}
	return id == OPT_LINES ? parse_u64(value, 0, UINT64_MAX - 1, &l->lines, err) : -EINVAL;
}

/* a regular file of the job's owner, or -errno: the path is what its owner told allotd */
static int open_log(const struct logs *l, const char *path)
{
	AUTO_FD int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != l->watch.job.uid)
		return -EINVAL;
	return TAKE_FD(fd);
}

static bool is_same(int a, int b)
{
	struct stat x, y;

	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev &&
	       x.st_ino == y.st_ino;
}

static void put(const struct logs *l, char *buf, size_t len)
{
	for (size_t i = 0; l->is_tame && i < len; i++)
		if (((unsigned char)buf[i] < 0x20 && !strchr("\n\t", buf[i])) || buf[i] == 0x7f)
			buf[i] = '?';
	(void)fwrite(buf, 1, len, stdout); /* main looks at the end */
}

/* from where it stands to its end */
static void print_rest(const struct logs *l, int fd)
{
	char buf[BLOCK];
	ssize_t n;

	while ((n = read(fd, buf, sizeof(buf))) > 0 || (n < 0 && errno == EINTR))
		if (n > 0)
			put(l, buf, (size_t)n);
	(void)fflush(stdout);
}

/* stand where the last *lines begin; *lines: how many are still missing from an older file */
static void seek_tail(int fd, uint64_t *lines)
{
	off_t end = lseek(fd, 0, SEEK_END), at = end;
	char buf[BLOCK];

	if (*lines == 0)
		return;
	while (at > 0) {
		off_t begin = at > BLOCK ? at - BLOCK : 0;
		ssize_t n = pread(fd, buf, (size_t)(at - begin), begin);

		if (n <= 0)
			break;
		while (n-- > 0) {
			/* the last line's own end is not one more line */
			if (buf[n] != '\n' || begin + n == end - 1)
				continue;
			if (--*lines == 0) {
				(void)lseek(fd, begin + n + 1, SEEK_SET);
				return;
			}
		}
		at = begin;
	}
	if (end > 0)
		--*lines; /* the first line has no end before it */
	(void)lseek(fd, 0, SEEK_SET);
}

static bool ends_a_line(int fd)
{
	off_t end = lseek(fd, 0, SEEK_END);
	char last;

	return end > 0 && pread(fd, &last, 1, end - 1) == 1 && last == '\n';
}

/* what is there: the older file, then the newest */
static void print_present(struct logs *l)
{
	uint64_t lines = l->lines;
	char older[WIRE_PATH_MAX + 4];
	AUTO_FD int old = -1;

	if (lines != UINT64_MAX)
		seek_tail(l->fd, &lines);
	if (lines && str_print(older, sizeof(older), "%s.1", l->watch.job.log))
		old = open_log(l, older); /* mostly there is none */
	if (old >= 0 && !is_same(old, l->fd)) {
		if (lines != UINT64_MAX && lines < l->lines && !ends_a_line(old))
			lines++; /* the newest file goes on with that line */
		if (lines != UINT64_MAX)
			seek_tail(old, &lines);
		print_rest(l, old);
	}
	print_rest(l, l->fd);
}

/* the keeper has begun a new file: its beginning is what comes next */
static void look_for_new_file(struct logs *l)
{
	int fresh = open_log(l, l->watch.job.log);

	if (fresh < 0)
		return; /* just being exchanged, or removed by hand */
	if (is_same(fresh, l->fd)) {
		/* emptied in place */
		if (lseek(l->fd, 0, SEEK_CUR) > lseek(fresh, 0, SEEK_END))
			(void)lseek(l->fd, 0, SEEK_SET);
		close(fresh);
		return;
	}
	print_rest(l, l->fd); /* what came last into the old one */
	close(l->fd);
	l->fd = fresh;
}

static int follow(struct logs *l)
{
	int r = 0;

	while (r == 0) {
		r = job_watch_wait(&l->watch, LOOK_NS);
		print_rest(l, l->fd);
		look_for_new_file(l);
		print_rest(l, l->fd);
		if (ferror(stdout))
			return 0; /* main tells */
	}
	return r < 0 ? -r : 0;
}

/* 0, or the exit status after a line on stderr */
static int open_first(struct logs *l)
{
	const struct wire_job *job = &l->watch.job;
	unsigned long long id = (unsigned long long)job->job_id;
	char user[64];

	if (!job->log[0]) {
		complain("logs",
			 "job %llu is no job in the background: its output goes where it was "
			 "started (allot run -d keeps it)",
			 id);
		return WIRE_CODE_NO_SUCH;
	}
	if (geteuid() != 0 && geteuid() != job->uid) {
		name_user(job->uid, user, sizeof(user));
		complain("logs", "job %llu belongs to %s, who alone may read its output", id, user);
		return WIRE_CODE_NOT_PERMITTED;
	}
	l->is_tame = geteuid() != job->uid && isatty(STDOUT_FILENO);
	l->fd = open_log(l, job->log);
	if (l->fd >= 0)
		return 0;
	complain("logs", "the log of job %llu, '%s', %s%s", id, job->log,
		 l->fd == -ENOENT   ? "is not there any more"
		 : l->fd == -EINVAL ? "is no file of its owner"
				    : "cannot be read: ",
		 l->fd == -ENOENT || l->fd == -EINVAL ? "" : strerror(-l->fd));
	return l->fd == -ENOENT   ? WIRE_CODE_NO_SUCH
	       : l->fd == -EACCES ? WIRE_CODE_NOT_PERMITTED
				  : WIRE_CODE_FAILED;
}

static int run(int argc, char **argv)
{
	struct logs l = { .lines = UINT64_MAX, .fd = -1 };
	uint64_t id;
	int r = opts_parse(&cmd_logs, argc, argv, &l.common, on_option, &l);

	if (r < 0)
		return opts_exit(r, WIRE_CODE_USAGE);
	if (argc - r != 1) {
		complain("logs",
			 argc == r ? "which job? 'allot ps' lists them" : "one job at a time");
		return WIRE_CODE_USAGE;
	}
	r = parse_job("logs", argv[r], &id);
	if (r == 0)
		r = job_watch_begin(&l.watch, "logs", &l.common, id);
	if (r)
		return r;
	r = open_first(&l);
	if (r == 0)
		print_present(&l);
	if (r == 0 && l.follow)
		r = follow(&l);
	if (l.fd >= 0)
		close(l.fd);
	job_watch_fini(&l.watch);
	return r;
}

const struct cmd cmd_logs = {
	.name = "logs",
	.args = "[options] JOB",
	.summary = "The output of a job in the background, while it runs and afterwards",
	.text = "For its owner and root. The newest part is kept, as much as --log-max of 'allot "
		"run' "
		"says\n"
		"(64 MiB), for 7 days after the end.\n",
	.opts = opts,
	.complete = "@jobs",
	.run = run,
};
