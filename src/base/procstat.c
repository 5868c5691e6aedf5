// SPDX-License-Identifier: Apache-2.0
#include "base/procstat.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"

#define PROC_PATH_MAX 288
#define PROC_STAT_MAX 1024

bool procstat_number(const char **s, uint64_t *ret)
{
	const char *p = *s;
	uint64_t v = 0;

	while (*p == ' ' || *p == '\t')
		p++;
	if (*p < '0' || *p > '9')
		return false;
	for (; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(v, (uint64_t)10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
			return false;
	*s = p;
	*ret = v;
	return true;
}

/* "pid (any text, even ')') S ppid pgrp session … starttime(22) …" */
static int parse_stat(const char *stat, struct proc_info *info)
{
	const char *p = strrchr(stat, ')');
	uint64_t ppid, pgrp, session, v;

	if (!p || p[1] != ' ' || !p[2])
		return -EBADMSG;
	info->state = p[2];
	p += 3;
	if (!procstat_number(&p, &ppid) || !procstat_number(&p, &pgrp) ||
	    !procstat_number(&p, &session))
		return -EBADMSG;
	info->ppid = (pid_t)ppid;
	info->session = (pid_t)session;
	/* fields 7 … 21 may be negative and are not looked at */
	for (int field = 7; field <= 21; field++) {
		while (*p == ' ')
			p++;
		p = strchr(p, ' ');
		if (!p)
			return -EBADMSG;
	}
	if (!procstat_number(&p, &v))
		return -EBADMSG;
	info->start_ticks = v;
	return 0;
}

/* the kernel makes it in one piece: what is shorter than the buffer is all of it */
static int read_stat(const char *root, pid_t pid, char buf[PROC_STAT_MAX])
{
	char path[PROC_PATH_MAX];
	ssize_t n;

	if (pid <= 0)
		return -ESRCH;
	if (!str_print(path, sizeof(path), "%s/%d/stat", root, pid))
		return -ENAMETOOLONG;
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR ? -ESRCH : -errno;
	do
		n = read(fd, buf, PROC_STAT_MAX);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if (n == PROC_STAT_MAX)
		return -EFBIG;
	buf[n] = '\0';
	return 0;
}

int procstat_read(const char *root, pid_t pid, struct proc_info *ret)
{
	struct proc_info info = { .pid = pid };
	char buf[PROC_STAT_MAX];
	int r = read_stat(root, pid, buf);

	if (r == 0)
		r = parse_stat(buf, &info);
	if (r == 0)
		*ret = info;
	return r;
}
