// SPDX-License-Identifier: Apache-2.0
#include "daemon/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/parse.h"
#include "base/paths.h"
#include "base/str.h"
#include "gpu/proc.h"

#define MOUNTINFO_LINE_MAX 4096
#define CGROUP_FILE_MAX    8192
#define CGROUP_DEPTH_MAX   16 /* folders below a job's that are gone into */

/* "\040" is how mountinfo writes a blank; in place */
static void unescape(char *s)
{
	char *to = s;

	for (; *s; s++)
		if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' &&
		    s[3] >= '0' && s[3] <= '7') {
			*to++ = (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0'));
			s += 3;
		} else {
			*to++ = *s;
		}
	*to = '\0';
}

/* "31 23 0:28 ROOT POINT options … - TYPE source options"; the mount point, or NULL */
static char *point_of(char *line)
{
	char *dash = strstr(line, " - "), *rest = NULL, *root, *point;

	if (!dash || !str_starts_with(dash + 3, "cgroup2 "))
		return NULL;
	*dash = '\0';
	if (!strtok_r(line, " ", &rest) || !strtok_r(NULL, " ", &rest) ||
	    !strtok_r(NULL, " ", &rest))
		return NULL;
	root = strtok_r(NULL, " ", &rest);
	point = strtok_r(NULL, " ", &rest);
	return root && point && strcmp(root, "/") == 0 ? point : NULL;
}

int cgroup_mount(const char *proc_root, char *buf, size_t size)
{
	char path[PATHS_MAX], line[MOUNTINFO_LINE_MAX];
	int r = -ENOENT;
	FILE *f;

	if (!str_print(path, sizeof(path), "%s/self/mountinfo", proc_root))
		return -ENAMETOOLONG;
	f = fopen(path, "re");
	if (!f)
		return -errno;
	while (r == -ENOENT && fgets(line, sizeof(line), f)) {
		char *point = point_of(line);

		if (!point)
			continue;
		unescape(point);
		r = str_copy(buf, size, point) ? 0 : -EFBIG;
	}
	fclose(f);
	return r;
}

int cgroup_of(const char *proc_root, pid_t pid, char *buf, size_t size)
{
	static const char removed[] = " (deleted)";
	char path[PATHS_MAX], text[CGROUP_FILE_MAX];
	char *line, *end;
	ssize_t n;

	if (!str_print(path, sizeof(path), "%s/%d/cgroup", proc_root, pid))
		return -ENAMETOOLONG;
	n = fd_read_file(AT_FDCWD, path, text, sizeof(text));
	if (n < 0)
		return n == -ENOENT ? -ESRCH : (int)n;
	line = str_starts_with(text, "0::") ? text : strstr(text, "\n0::");
	if (!line)
		return -ENOENT;
	line = strchr(line, '/');
	end = line ? strchr(line, '\n') : NULL;
	if (!end)
		return -ENOENT;
	*end = '\0';
	n = end - line;
	if (n >= (ssize_t)sizeof(removed) && strcmp(end - sizeof(removed) + 1, removed) == 0)
		return -ENOENT;
	if (strcmp(line, "/..") == 0 || str_starts_with(line, "/../"))
		return -EXDEV;
	return str_copy(buf, size, line) ? 0 : -ENAMETOOLONG;
}

bool cgroup_is_inside(const char *path, const char *outer)
{
	size_t n = strlen(outer);

	if (strcmp(outer, "/") == 0)
		return true;
	return strncmp(path, outer, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

const char *cgroup_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool file_of(const char *mount, const char *path, const char *file, char buf[PATHS_MAX])
{
	return str_print(buf, PATHS_MAX, "%s%s/%s", mount, strcmp(path, "/") == 0 ? "" : path,
			 file);
}

static int read_of(const char *mount, const char *path, const char *file, char *buf, size_t size)
{
	char name[PATHS_MAX];

	if (!file_of(mount, path, file, name))
		return -ENAMETOOLONG;
	ssize_t n = fd_read_file(AT_FDCWD, name, buf, size);

	return n < 0 ? (int)n : 0;
}

static int write_of(const char *mount, const char *path, const char *file, const char *text)
{
	char name[PATHS_MAX];

	if (!file_of(mount, path, file, name))
		return -ENAMETOOLONG;
	AUTO_FD int fd = open(name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0)
		return -errno;
	return write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

int cgroup_id(const char *mount, const char *path, uint64_t *ret)
{
	char name[PATHS_MAX];
	struct stat st;

	if (!file_of(mount, path, "", name))
		return -ENAMETOOLONG;
	if (stat(name, &st) < 0)
		return -errno;
	*ret = st.st_ino;
	return 0;
}

bool cgroup_is_limited(const char *mount, const char *path)
{
	/* the file, and how the text begins where nothing is limited; "" is an empty file */
	static const char *const files[][2] = {
		{ "memory.max", "max\n" },
		{ "memory.high", "max\n" },
		{ "memory.swap.max", "max\n" },
		{ "pids.max", "max\n" },
		{ "cpu.max", "max " },
		{ "cpuset.cpus", "\n" },
		{ "io.max", "" },
	};
	char text[256];

	for (unsigned i = 0; i < ARRAY_SIZE(files); i++) {
		const char *free = files[i][1];
		int r = read_of(mount, path, files[i][0], text, sizeof(text));

		if (r == -ENOENT || (r == 0 && !text[0]))
			continue; /* that controller is not at work here */
		if (r < 0 || !*free || !str_starts_with(text, free))
			return true;
	}
	return false;
}

bool cgroup_is_populated(const char *mount, const char *path)
{
	char text[256];

	return read_of(mount, path, "cgroup.events", text, sizeof(text)) == 0 &&
	       strstr(text, "populated 1");
}

int cgroup_make(const char *mount, const char *path)
{
	char name[PATHS_MAX];

	if (!file_of(mount, path, "", name))
		return -ENAMETOOLONG;
	name[strlen(name) - 1] = '\0';
	if (mkdir(name, 0755) == 0)
		return 0;
	if (errno != EEXIST || rmdir(name) < 0)
		return -errno;
	return mkdir(name, 0755) < 0 ? -errno : 0;
}

int cgroup_move(const char *mount, const char *path, pid_t pid)
{
	char text[16];

	(void)str_print(text, sizeof(text), "%d", pid);
	return write_of(mount, path, "cgroup.procs", text);
}

int cgroup_kill(const char *mount, const char *path)
{
	return write_of(mount, path, "cgroup.kill", "1");
}

/* @each for every folder in @path; its result, or the first that is negative */
static int for_each_below(const char *mount, const char *path,
			  int (*each)(const char *below, void *context), void *context)
{
	char name[PATHS_MAX], below[CGROUP_PATH_MAX];
	const struct dirent *e;
	int r = 0;
	DIR *dir;

	if (!file_of(mount, path, "", name))
		return -ENAMETOOLONG;
	dir = opendir(name);
	if (!dir)
		return errno == ENOENT ? 0 : -errno;
	while (r >= 0 && (e = readdir(dir)))
		if (e->d_type == DT_DIR && e->d_name[0] != '.' &&
		    str_print(below, sizeof(below), "%s/%s", path, e->d_name))
			r = each(below, context);
	closedir(dir);
	return r;
}

struct walk {
	const char *proc_root, *mount, *outer;
	int sig;
	pid_t spared;
	int depth, n;
};

static int remove_below(const char *path, void *context)
{
	struct walk *w = context, deeper = *w;
	char name[PATHS_MAX];
	int r;

	if (++deeper.depth > CGROUP_DEPTH_MAX)
		return -ELOOP;
	r = for_each_below(w->mount, path, remove_below, &deeper);
	if (r < 0)
		return r;
	if (!file_of(w->mount, path, "", name))
		return -ENAMETOOLONG;
	name[strlen(name) - 1] = '\0';
	return rmdir(name) == 0 || errno == ENOENT ? 0 : -errno;
}

int cgroup_remove(const char *mount, const char *path)
{
	struct walk w = { .mount = mount };

	return strcmp(path, "/") == 0 ? -EINVAL : remove_below(path, &w);
}

static bool is_spared(pid_t pid, void *context)
{
	return pid == *(const pid_t *)context;
}

static bool signal_one(struct walk *w, pid_t pid)
{
	char path[CGROUP_PATH_MAX];
	AUTO_FD int pidfd = fd_pidfd_open(pid);

	if (pidfd < 0 || cgroup_of(w->proc_root, pid, path, sizeof(path)) < 0 ||
	    !cgroup_is_inside(path, w->outer))
		return false;
	if (w->spared && proc_find_ancestor(w->proc_root, pid, is_spared, &w->spared) > 0)
		return false;
	return syscall(SYS_pidfd_send_signal, pidfd, w->sig, NULL, 0) == 0;
}

static int signal_below(const char *path, void *context)
{
	struct walk *w = context;
	char name[PATHS_MAX], line[32];
	uint64_t pid;
	FILE *f;
	int r = 0;

	if (++w->depth > CGROUP_DEPTH_MAX)
		return -ELOOP;
	if (!file_of(w->mount, path, "cgroup.procs", name))
		return -ENAMETOOLONG;
	f = fopen(name, "re");
	if (!f)
		r = errno == ENOENT ? 0 : -errno;
	while (f && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		if (parse_u64(line, 1, INT32_MAX, &pid, NULL) == 0)
			w->n += signal_one(w, (pid_t)pid);
	}
	if (f)
		fclose(f);
	if (r == 0)
		r = for_each_below(w->mount, path, signal_below, w);
	w->depth--;
	return r;
}

int cgroup_signal(const char *proc_root, const char *mount, const char *path, int sig, pid_t spared)
{
	struct walk w = {
		.proc_root = proc_root, .mount = mount, .outer = path, .sig = sig, .spared = spared
	};
	int r = signal_below(path, &w);

	return r < 0 ? r : w.n;
}
