// SPDX-License-Identifier: Apache-2.0
#include "keeper/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/parse.h"
#include "base/str.h"

struct entry {
	pid_t pid, parent;
	uint64_t start; /* clock ticks after boot: with the pid, who it is */
	char state;
	bool inside;
};

struct snapshot {
	struct entry *e;
	size_t n, room;
};

/* pid (comm) state ppid …; comm may hold anything, so the text counts from the last ')' */
static bool read_stat(pid_t pid, struct entry *ret)
{
	char path[64], text[1024];
	unsigned long long start;
	int parent;
	char *p;

	(void)str_print(path, sizeof(path), "/proc/%d/stat", pid);
	if (fd_read_file(AT_FDCWD, path, text, sizeof(text)) <= 0)
		return false;
	p = strrchr(text, ')');
	if (!p || sscanf(p,
			 ") %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
			 "%*d %*d %llu",
			 &ret->state, &parent, &start) != 3)
		return false;
	ret->pid = pid;
	ret->parent = parent;
	ret->start = start;
	ret->inside = false;
	return true;
}

static int snapshot_add(struct snapshot *s, const struct entry *e)
{
	if (s->n == s->room) {
		size_t room = s->room ? s->room * 2 : 256;
		struct entry *grown = reallocarray(s->e, room, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		s->e = grown;
		s->room = room;
	}
	s->e[s->n++] = *e;
	return 0;
}

/* mark what is below @root, generation after generation */
static size_t mark(struct snapshot *s, pid_t root)
{
	size_t inside = 0;
	bool more = true;

	while (more) {
		more = false;
		for (size_t i = 0; i < s->n; i++) {
			bool below = s->e[i].parent == root;

			if (s->e[i].inside || s->e[i].pid == root)
				continue;
			for (size_t j = 0; j < s->n && !below; j++)
				below = s->e[j].inside && s->e[j].pid == s->e[i].parent;
			if (below) {
				s->e[i].inside = more = true;
				inside++;
			}
		}
	}
	return inside;
}

static int snapshot_take(pid_t root, struct snapshot *s)
{
	DIR *proc = opendir("/proc");
	struct dirent *d;
	int r = 0;

	if (!proc)
		return -errno;
	while (r == 0 && (d = readdir(proc))) {
		struct entry e;
		uint64_t pid;

		if (parse_u64(d->d_name, 1, INT32_MAX, &pid, NULL) == 0 &&
		    read_stat((pid_t)pid, &e))
			r = snapshot_add(s, &e);
	}
	closedir(proc);
	if (r == 0)
		mark(s, root);
	return r;
}

static int signal_one(const struct entry *e, int sig)
{
	AUTO_FD int pidfd = fd_pidfd_open(e->pid);
	struct entry now;

	if (pidfd < 0)
		return pidfd;
	if (!read_stat(e->pid, &now) || now.start != e->start)
		return -ESRCH;
	if (syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0) < 0)
		return -errno;
	return 0;
}

int tree_signal(pid_t root, int sig, unsigned *ret_denied)
{
	struct snapshot s = { 0 };
	unsigned denied = 0;
	int n = 0, r = snapshot_take(root, &s);

	for (size_t i = 0; r == 0 && i < s.n; i++) {
		if (!s.e[i].inside || s.e[i].state == 'Z')
			continue;
		n++;
		if (sig && signal_one(&s.e[i], sig) == -EPERM)
			denied++;
	}
	free(s.e);
	if (ret_denied)
		*ret_denied = denied;
	return r < 0 ? r : n;
}

int tree_kill(pid_t root)
{
	/* stopped first, so that nothing is born between the look and the kill */
	int r = tree_signal(root, SIGSTOP, NULL);

	return r <= 0 ? r : tree_signal(root, SIGKILL, NULL);
}
