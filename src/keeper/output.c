// SPDX-License-Identifier: Apache-2.0
#include "keeper/output.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/paths.h"
#include "base/size.h"
#include "base/str.h"

#define CHUNK       (64u << 10)
#define CHUNKS_MAX  8u /* of one turn: signals and allotd want to be heard, too */
#define LEAST_BYTES (64u << 10)

int output_init(struct output *o, int fd, const char *path, uint64_t max_bytes)
{
	struct stat st;
	int ends[2];

	*o = (struct output){ .path = path, .file = fd, .reader = -1, .writer = -1 };
	o->half = (max_bytes < LEAST_BYTES ? LEAST_BYTES : max_bytes) / 2;
	if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 || fstat(fd, &st) < 0 || pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	o->size = st.st_size > 0 ? (uint64_t)st.st_size : 0;
	o->reader = ends[0];
	o->writer = ends[1];
	if (fcntl(o->reader, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	(void)signal(SIGXFSZ, SIG_IGN);     /* a write beyond RLIMIT_FSIZE is an error then */
	(void)flock(fd, LOCK_EX | LOCK_NB); /* nobody else opens it for long */
	return 0;
}

int output_child(const struct output *o)
{
	(void)signal(SIGXFSZ, SIG_DFL);
	return dup2(o->writer, STDOUT_FILENO) < 0 || dup2(o->writer, STDERR_FILENO) < 0 ? -errno
											: 0;
}

void output_started(struct output *o)
{
	if (o->writer >= 0)
		close(o->writer);
	o->writer = -1;
}

static bool is_in_place(const struct output *o)
{
	struct stat ours, there;

	return fstat(o->file, &ours) == 0 && lstat(o->path, &there) == 0 &&
	       ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

/* a new file in its place; -1: it cannot be had */
static int begin_anew(const struct output *o)
{
	char older[PATHS_MAX + 4];

	if (!is_in_place(o) || !str_print(older, sizeof(older), "%s.1", o->path) ||
	    rename(o->path, older) < 0)
		return -1;
	return open(o->path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
}

static void rotate(struct output *o)
{
	int fresh = begin_anew(o);

	o->size = 0;
	if (fresh < 0) { /* better the newest alone than a disk that fills up */
		(void)!ftruncate(o->file, 0);
		return;
	}
	(void)flock(fresh, LOCK_EX | LOCK_NB);
	/* our own messages go there as well */
	(void)dup2(fresh, STDOUT_FILENO);
	(void)dup2(fresh, STDERR_FILENO);
	close(o->file);
	o->file = fresh;
}

static bool write_some(struct output *o, const char *buf, size_t len)
{
	int r = fd_write_all(o->file, buf, len);

	if (r == 0) {
		o->size += len;
		return true;
	}
	o->lost_reason = -r;
	return false;
}

static void tell_lost(struct output *o)
{
	char line[160];

	(void)str_print(line, sizeof(line), "allot: %llu bytes of output are missing here: %s\n",
			(unsigned long long)o->lost, strerror(o->lost_reason));
	if (write_some(o, line, strlen(line)))
		o->lost = 0;
}

static void put_part(struct output *o, const char *buf, size_t len)
{
	if (o->lost)
		tell_lost(o);
	if (len && (o->lost || !write_some(o, buf, len)))
		o->lost += len;
}

static void put(struct output *o, const char *buf, size_t len)
{
	while (o->size + len > o->half) {
		/* whole lines into the full one, as far as they fit; an endless one is cut */
		size_t room = (size_t)size_sat_sub(o->half, o->size);
		const char *last = memrchr(buf, '\n', room);
		size_t first = last ? (size_t)(last + 1 - buf) : o->size ? 0 : room;

		put_part(o, buf, first);
		rotate(o);
		buf += first;
		len -= first;
	}
	put_part(o, buf, len);
}

static void end(struct output *o)
{
	if (o->reader >= 0)
		close(o->reader);
	o->reader = -1;
}

void output_read(struct output *o)
{
	char buf[CHUNK];

	for (unsigned i = 0; o->reader >= 0 && i < CHUNKS_MAX; i++) {
		ssize_t n = read(o->reader, buf, sizeof(buf));

		if (n > 0)
			put(o, buf, (size_t)n);
		else if (n == 0 || (errno != EINTR && errno != EAGAIN))
			end(o); /* everybody has closed it */
		else if (errno == EAGAIN)
			return;
	}
}

void output_finish(struct output *o)
{
	if (o->file < 0)
		return;
	/* what lies in a pipe is bounded; somebody of another user may still be writing */
	for (unsigned i = 0; o->reader >= 0 && i < 4; i++)
		output_read(o);
	end(o);
	if (o->lost)
		tell_lost(o);
}
