// SPDX-License-Identifier: Apache-2.0
#include "gpu/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"

#define PROC_PATH_MAX   288
#define PROC_STATUS_MAX 8192 /* "Groups:" alone may be long */

static ssize_t proc_file(const char *root, pid_t pid, const char *file, char *buf, size_t size)
{
	char path[PROC_PATH_MAX];

	if (pid <= 0)
		return -ESRCH;
	if (!str_print(path, sizeof(path), "%s/%d/%s", root, pid, file))
		return -ENAMETOOLONG;
	ssize_t n = fd_read_file(AT_FDCWD, path, buf, size);

	return n == -ENOENT || n == -ENOTDIR ? -ESRCH : n;
}

/* the text after "\nName:" in a status file, or NULL */
static const char *status_field(const char *status, const char *name)
{
	size_t len = strlen(name);

	for (const char *p = status; p; p = strchr(p, '\n')) {
		if (*p == '\n')
			p++;
		if (strncmp(p, name, len) == 0 && p[len] == ':')
			return p + len + 1;
	}
	return NULL;
}

int proc_read(const char *root, pid_t pid, struct proc_info *ret)
{
	return procstat_read(root, pid, ret);
}

/* what PIDFD_GET_INFO fills in its first version (Linux 6.13, include/uapi/linux/pidfd.h) */
struct pidfd_info_v0 {
	uint64_t mask;
	uint64_t cgroup_id;
	uint32_t pid, tgid, ppid;
	uint32_t ruid, rgid, euid, egid, suid, sgid, fsuid, fsgid;
	int32_t exit_code;
};

#define PIDFD_GET_INFO_V0 _IOWR(0xFF, 11, struct pidfd_info_v0)
#define PIDFD_INFO_PID_V0 1u

_Static_assert(sizeof(struct pidfd_info_v0) == 64, "the kernel's size");

int proc_parent_of_pidfd(int pidfd, pid_t pid, pid_t *ret)
{
	struct pidfd_info_v0 info = { .mask = PIDFD_INFO_PID_V0 };

	if (ioctl(pidfd, PIDFD_GET_INFO_V0, &info) < 0)
		return -errno;
	if (!(info.mask & PIDFD_INFO_PID_V0) || info.tgid != (uint32_t)pid || info.ppid == 0)
		return -ESRCH;
	*ret = (pid_t)info.ppid;
	return 0;
}

int proc_uid(const char *root, pid_t pid, uid_t *ret)
{
	char buf[PROC_STATUS_MAX];
	const char *uid;
	uint64_t v;
	ssize_t n = proc_file(root, pid, "status", buf, sizeof(buf));

	if (n < 0)
		return (int)n;
	uid = status_field(buf, "Uid");
	if (!uid || !procstat_number(&uid, &v))
		return -EBADMSG;
	*ret = (uid_t)v;
	return 0;
}

bool proc_is_same(const char *root, pid_t pid, uint64_t start_ticks)
{
	struct proc_info info;

	return proc_read(root, pid, &info) == 0 && info.start_ticks == start_ticks &&
	       info.state != 'Z' && info.state != 'X';
}

int proc_name(const char *root, pid_t pid, char *buf, size_t size)
{
	char name[64];
	ssize_t n = proc_file(root, pid, "comm", name, sizeof(name));

	buf[0] = '\0';
	if (n < 0)
		return (int)n;
	name[strcspn(name, "\n")] = '\0';
	(void)str_print(buf, size, "[%s]", name); /* cut when it is long */
	str_printable(buf);
	return 0;
}

int proc_command(const char *root, pid_t pid, char *buf, size_t size)
{
	char path[PROC_PATH_MAX];
	ssize_t n;

	buf[0] = '\0';
	if (!str_print(path, sizeof(path), "%s/%d/cmdline", root, pid))
		return -ENAMETOOLONG;
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	do
		n = read(fd, buf, size - 1);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	while (n > 0 && buf[n - 1] == '\0')
		n--;
	if (n == 0)
		return proc_name(root, pid, buf, size);
	for (ssize_t i = 0; i < n; i++)
		if (buf[i] == '\0')
			buf[i] = ' ';
	buf[n] = '\0';
	str_printable(buf);
	return 0;
}

pid_t proc_find_ancestor(const char *root, pid_t pid, proc_match *match, void *context)
{
	struct proc_info info;

	for (int depth = 0; depth < PROC_DEPTH_MAX && pid > 0; depth++) {
		if (match(pid, context))
			return pid;
		int r = proc_read(root, pid, &info);

		if (r < 0)
			return depth == 0 ? r : -ENOENT;
		pid = info.ppid;
	}
	return -ENOENT;
}

/* the numbers of @pid from our namespace inwards; how many, or -errno */
static int read_levels(const char *root, pid_t pid, pid_t levels[PROC_LEVELS_MAX])
{
	char buf[PROC_STATUS_MAX];
	const char *p;
	uint64_t v;
	int n = 0;
	ssize_t len = proc_file(root, pid, "status", buf, sizeof(buf));

	if (len < 0)
		return (int)len;
	p = status_field(buf, "NSpid");
	if (!p) { /* a kernel without PID namespaces: one level */
		levels[0] = pid;
		return 1;
	}
	while (n < PROC_LEVELS_MAX && procstat_number(&p, &v))
		levels[n++] = (pid_t)v;
	return n > 0 ? n : -EBADMSG;
}

int proc_level(const char *root, pid_t pid)
{
	pid_t levels[PROC_LEVELS_MAX];

	return read_levels(root, pid, levels);
}

/* "pid:[4026531836]" of a process; empty when we may not look */
static void read_namespace(const char *root, pid_t pid, char *buf, size_t size)
{
	char path[PROC_PATH_MAX];
	ssize_t n = -1;

	if (str_print(path, sizeof(path), "%s/%d/ns/pid", root, pid))
		n = readlink(path, buf, size - 1);
	buf[n > 0 ? n : 0] = '\0';
}

pid_t proc_pid_as_seen_by(const char *root, pid_t pid, pid_t reader)
{
	pid_t mine[PROC_LEVELS_MAX], theirs[PROC_LEVELS_MAX];
	char of_reader[64], of_walk[64];
	struct proc_info info;
	int depth, n;

	depth = read_levels(root, reader, theirs);
	if (depth < 0)
		return depth;
	if (depth == 1) /* the reader lives in our namespace, or outside all */
		return pid;
	n = read_levels(root, pid, mine);
	if (n < 0)
		return n;
	if (n < depth)
		return 0;
	/*
	 * A number at that depth may belong to a sibling namespace.  Somebody on the chain of
	 * parents lives at exactly that depth (at the least the parent of the inner init): his
	 * namespace must be the reader's.
	 */
	read_namespace(root, reader, of_reader, sizeof(of_reader));
	for (int hops = 0, walk = pid; walk > 0 && hops < PROC_DEPTH_MAX; hops++) {
		pid_t levels[PROC_LEVELS_MAX];
		int m = read_levels(root, walk, levels);

		if (m == depth) {
			read_namespace(root, walk, of_walk, sizeof(of_walk));
			return of_reader[0] && strcmp(of_reader, of_walk) == 0 ? mine[depth - 1]
									       : 0;
		}
		if (m < depth || proc_read(root, walk, &info) < 0)
			return 0;
		walk = info.ppid;
	}
	return 0;
}
