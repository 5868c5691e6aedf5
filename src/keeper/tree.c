// SPDX-License-Identifier: Apache-2.0
#include "keeper/tree.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/parse.h"
#include "base/procstat.h"

enum place {
	PLACE_UNKNOWN,
	PLACE_INSIDE,
	PLACE_OUTSIDE,
};

struct entry {
	pid_t pid, parent;
	uint64_t start; /* clock ticks after boot: with the pid, who it is */
	char state;
	enum place place;
};

struct snapshot {
	struct entry *e;
	size_t n, room;
};

static bool read_stat(pid_t pid, struct entry *ret)
{
	struct proc_info info;

	if (procstat_read("/proc", pid, &info) < 0)
		return false;
	*ret = (struct entry){ .pid = pid,
			       .parent = info.ppid,
			       .start = info.start_ticks,
			       .state = info.state,
			       .place = PLACE_UNKNOWN };
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

static int by_pid(const void *a, const void *b)
{
	pid_t x = ((const struct entry *)a)->pid, y = ((const struct entry *)b)->pid;

	return (x > y) - (x < y);
}

static struct entry *find(const struct snapshot *s, pid_t pid)
{
	const struct entry key = { .pid = pid };

	return s->n ? bsearch(&key, s->e, s->n, sizeof(key), by_pid) : NULL;
}

static bool is_spared(const struct tree *t, const struct entry *e)
{
	for (unsigned i = 0; i < TREE_SPARED; i++)
		if (t->spared[i].pid == e->pid &&
		    (!t->spared[i].start || t->spared[i].start == e->start))
			return true;
	return false;
}

/* up the chain of parents until one whose place is known, then down again with the answer */
static void place(struct snapshot *s, const struct tree *t, struct entry *from)
{
	enum place answer = PLACE_OUTSIDE;
	struct entry *e = from;

	/* the table is no picture of one moment: a chain may go round, so count */
	for (size_t steps = 0; e && steps < s->n; steps++) {
		if (e->pid == t->root || e->place == PLACE_INSIDE) {
			answer = PLACE_INSIDE;
			break;
		}
		if (e->place == PLACE_OUTSIDE || is_spared(t, e))
			break;
		e = e->parent > 0 ? find(s, e->parent) : NULL;
	}
	for (struct entry *i = from; i && i != e && i->place == PLACE_UNKNOWN;
	     i = find(s, i->parent))
		i->place = answer;
	if (e && e->place == PLACE_UNKNOWN)
		e->place = PLACE_OUTSIDE; /* the root, or a spared one */
}

static int snapshot_take(const struct tree *t, struct snapshot *s)
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
	if (r < 0)
		return r;
	if (s->n)
		qsort(s->e, s->n, sizeof(*s->e), by_pid);
	for (size_t i = 0; i < s->n; i++)
		if (s->e[i].place == PLACE_UNKNOWN && s->e[i].pid != t->root)
			place(s, t, &s->e[i]);
	return 0;
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

uint64_t tree_start_time(pid_t pid)
{
	struct entry e;

	return read_stat(pid, &e) ? e.start : 0;
}

int tree_signal(const struct tree *t, int sig, unsigned *ret_denied)
{
	struct snapshot s = { 0 };
	unsigned denied = 0;
	int n = 0, r = snapshot_take(t, &s);

	for (size_t i = 0; r == 0 && i < s.n; i++) {
		if (s.e[i].place != PLACE_INSIDE || s.e[i].pid == t->root || s.e[i].state == 'Z')
			continue;
		n++;
		if ((sig || ret_denied) && signal_one(&s.e[i], sig) == -EPERM)
			denied++;
	}
	free(s.e);
	if (ret_denied)
		*ret_denied = denied;
	return r < 0 ? r : n;
}

int tree_kill(const struct tree *t, unsigned *ret_denied)
{
	/* stopped first, so that nothing is born between the look and the kill */
	int r = tree_signal(t, SIGSTOP, NULL);

	return r <= 0 ? r : tree_signal(t, SIGKILL, ret_denied);
}
