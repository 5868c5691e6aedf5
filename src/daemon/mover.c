// SPDX-License-Identifier: Apache-2.0
#include "daemon/mover.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/parse.h"
#include "base/paths.h"
#include "base/str.h"
#include "gpu/proc.h"

#define FAMILY_MAX    4096 /* descendants of a keeper that are looked at */
#define SWEEP_ROUNDS  16   /* who forks faster than this stays known by the chain */
#define KILL_ROUNDS   50
#define FIND_PAUSE_MS 4
#define FIND_ROUNDS   125        /* half a second for the manager to carry it out */
#define CHILDREN_MAX  (64 << 10) /* bytes of a list of children that are read */

struct mover {
	const char *proc_root, *mount;
	pid_t spared; /* allotd: nobody's, also where a keeper started it again */
};

/* ---- the keeper and its descendants ---- */

struct family {
	pid_t pids[FAMILY_MAX];
	unsigned n;
};

static void add_children(const struct mover *m, struct family *f, const char *text)
{
	while (*text) {
		char word[16];
		size_t len = strcspn(text, " \n");
		uint64_t pid;

		if (len < sizeof(word)) {
			memcpy(word, text, len);
			word[len] = '\0';
			if (parse_u64(word, 1, INT32_MAX, &pid, NULL) == 0 &&
			    (pid_t)pid != m->spared && f->n < FAMILY_MAX)
				f->pids[f->n++] = (pid_t)pid;
		}
		text += len;
		text += strspn(text, " \n");
	}
}

/* every thread has children of its own */
static void add_children_of(const struct mover *m, struct family *f, pid_t pid)
{
	static char text[CHILDREN_MAX]; /* the mover is one thread */
	char path[PATHS_MAX], file[280];
	const struct dirent *e;
	DIR *dir;

	(void)str_print(path, sizeof(path), "%s/%d/task", m->proc_root, pid);
	dir = opendir(path);
	while (dir && (e = readdir(dir)))
		if (e->d_name[0] != '.' &&
		    str_print(file, sizeof(file), "%s/children", e->d_name) &&
		    fd_read_file(dirfd(dir), file, text, sizeof(text)) > 0)
			add_children(m, f, text);
	if (dir)
		closedir(dir);
}

/* those below the keeper that are still where it was; @from: there, and nowhere else */
static unsigned left_behind(const struct mover *m, pid_t keeper, const char *from, pid_t *ret,
			    unsigned max)
{
	static struct family f;
	char path[CGROUP_PATH_MAX];
	unsigned n = 0;

	f = (struct family){ 0 };
	add_children_of(m, &f, keeper);
	for (unsigned i = 0; i < f.n; i++) {
		if (n < max && cgroup_of(m->proc_root, f.pids[i], path, sizeof(path)) == 0 &&
		    strcmp(path, from) == 0)
			ret[n++] = f.pids[i];
		add_children_of(m, &f, f.pids[i]);
	}
	return n;
}

/* whose pids are others than ours is somebody else's to arrange: a container's runtime */
static bool is_of_our_namespace(const struct mover *m, pid_t pid)
{
	char path[PATHS_MAX], ours[64], theirs[64];
	ssize_t n, k;

	(void)str_print(path, sizeof(path), "%s/%d/ns/pid", m->proc_root, pid);
	n = readlink(path, theirs, sizeof(theirs));
	(void)str_print(path, sizeof(path), "%s/self/ns/pid", m->proc_root);
	k = readlink(path, ours, sizeof(ours));
	return n > 0 && n == k && memcmp(ours, theirs, (size_t)n) == 0;
}

static int check_keeper(const struct mover *m, const struct mover_ask *ask, char *from, size_t size)
{
	if (!proc_is_same(m->proc_root, ask->keeper, ask->keeper_start))
		return -ESRCH;
	if (!is_of_our_namespace(m, ask->keeper))
		return -EXDEV;
	return cgroup_of(m->proc_root, ask->keeper, from, size);
}

/* ---- the questions ---- */

/* out of a login's scope, of which nothing is taken; never out of a service, or another's limits */
static int look(const struct mover *m, const struct mover_ask *ask, struct mover_answer *ret)
{
	size_t len;
	int r = check_keeper(m, ask, ret->path, sizeof(ret->path));

	if (r < 0)
		return r;
	len = strlen(ret->path);
	if (len < 6 || strcmp(ret->path + len - 6, ".scope") != 0)
		return -EPERM;
	return cgroup_is_limited(m->mount, ret->path) ? -EPERM : 0;
}

/* "…/NAME/…": a folder of that name is on the way already: an allotd of before made it */
static bool is_inside_already(char *path, const char *name)
{
	size_t len = strlen(name);

	for (char *at = path; (at = strstr(at, name)); at += len)
		if (at > path && at[-1] == '/' && (at[len] == '/' || at[len] == '\0')) {
			at[len] = '\0';
			return true;
		}
	return false;
}

/* where limits are set somebody minds the place, and ends what is in it by looking there alone */
static bool is_anothers(const struct mover *m, const char *from)
{
	char own[CGROUP_PATH_MAX];

	return cgroup_is_limited(m->mount, from) &&
	       (cgroup_of(m->proc_root, getpid(), own, sizeof(own)) < 0 || strcmp(own, from) != 0);
}

static bool is_pid(pid_t pid, void *context)
{
	return pid == *(const pid_t *)context;
}

/*
 * A number says who it is only while a pidfd of it lives.  One that ended under our hands may have
 * given its number to a stranger, who is put back and never counted as the job's.
 */
static void move_one(const struct mover *m, pid_t keeper, pid_t pid, const char *from,
		     const char *to)
{
	AUTO_FD int pidfd = fd_pidfd_open(pid);

	if (pidfd < 0 || proc_find_ancestor(m->proc_root, pid, is_pid, &keeper) < 0)
		return;
	if (cgroup_move(m->mount, to, pid) < 0)
		return; /* the chain of parents knows it */
	if (syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0) < 0 && errno == ESRCH &&
	    proc_find_ancestor(m->proc_root, pid, is_pid, &keeper) < 0)
		(void)cgroup_move(m->mount, from, pid); /* gone, mostly */
}

static void sweep(const struct mover *m, const struct mover_ask *ask, const char *from,
		  const char *to)
{
	pid_t left[MOVER_PIDS_MAX];

	for (int i = 0; i < SWEEP_ROUNDS; i++) {
		unsigned n = left_behind(m, ask->keeper, from, left, MOVER_PIDS_MAX);

		for (unsigned k = 0; k < n; k++)
			move_one(m, ask->keeper, left[k], from, to);
		if (!n)
			return;
	}
}

static int place(const struct mover *m, const struct mover_ask *ask, struct mover_answer *ret)
{
	char from[CGROUP_PATH_MAX];
	int r = check_keeper(m, ask, from, sizeof(from));

	if (r < 0)
		return r;
	if (is_inside_already(from, ask->name)) {
		(void)str_copy(ret->path, sizeof(ret->path), from);
		return cgroup_id(m->mount, from, &ret->id);
	}
	if (is_anothers(m, from))
		return -EPERM;
	if (!str_print(ret->path, sizeof(ret->path), "%s/%s", strcmp(from, "/") ? from : "",
		       ask->name))
		return -ENAMETOOLONG;
	r = cgroup_make(m->mount, ret->path);
	if (r < 0)
		return r;
	r = cgroup_move(m->mount, ret->path, ask->keeper);
	if (r == 0)
		r = cgroup_id(m->mount, ret->path, &ret->id);
	if (r == 0 && !proc_is_same(m->proc_root, ask->keeper, ask->keeper_start))
		r = -ESRCH; /* another one with its number: it goes back */
	if (r < 0) {
		(void)cgroup_move(m->mount, from, ask->keeper);
		(void)cgroup_remove(m->mount, ret->path); /* empty, or it is found at a start */
		return r;
	}
	sweep(m, ask, from, ret->path);
	return 0;
}

static int find(const struct mover *m, const struct mover_ask *ask, struct mover_answer *ret)
{
	int r = -ETIMEDOUT;

	for (int i = 0; i < FIND_ROUNDS; i++) {
		r = check_keeper(m, ask, ret->path, sizeof(ret->path));
		if (r < 0 || strcmp(cgroup_name(ret->path), ask->name) == 0)
			break;
		r = -ETIMEDOUT;
		(void)poll(NULL, 0, FIND_PAUSE_MS);
	}
	if (r < 0)
		return r;
	r = cgroup_id(m->mount, ret->path, &ret->id);
	if (r == 0)
		ret->n_pids = left_behind(m, ask->keeper, ask->path, ret->pids, MOVER_PIDS_MAX);
	return r;
}

static int kill_all(const struct mover *m, const struct mover_ask *ask)
{
	char own[CGROUP_PATH_MAX];
	bool is_ours = cgroup_of(m->proc_root, getpid(), own, sizeof(own)) == 0 &&
		       cgroup_is_inside(own, ask->path);
	int r = is_ours ? -EBUSY : cgroup_kill(m->mount, ask->path);

	if (r == 0)
		return 0;
	for (int i = 0; i < KILL_ROUNDS; i++) {
		r = cgroup_signal(m->proc_root, m->mount, ask->path, SIGKILL, m->spared);
		if (r <= 0)
			break;
		(void)poll(NULL, 0, 1); /* they end; whoever they made is next */
	}
	return r;
}

static int change(const struct mover *m, const struct mover_ask *ask)
{
	uint64_t id;
	int r = cgroup_id(m->mount, ask->path, &id);

	if (r == -ENOENT || (r == 0 && id != ask->id))
		return ask->kind == MOVER_REMOVE ? 0 : -ENOENT; /* gone; the name is another's */
	if (r < 0)
		return r;
	switch ((enum mover_kind)ask->kind) {
	case MOVER_SIGNAL:
		return cgroup_signal(m->proc_root, m->mount, ask->path, ask->signal, m->spared);
	case MOVER_KILL:
		return kill_all(m, ask);
	case MOVER_REMOVE:
		if (cgroup_is_populated(m->mount, ask->path))
			return -EBUSY;
		return ask->is_unit ? 0 : cgroup_remove(m->mount, ask->path);
	case MOVER_LOOK:
	case MOVER_PLACE:
	case MOVER_FIND:
		break;
	}
	return -EINVAL;
}

void mover_answer(const char *proc_root, const char *mount, pid_t spared,
		  const struct mover_ask *ask, struct mover_answer *ret)
{
	const struct mover m = { .proc_root = proc_root, .mount = mount, .spared = spared };

	*ret = (struct mover_answer){ .kind = ask->kind, .job = ask->job, .id = ask->id };
	(void)str_copy(ret->path, sizeof(ret->path), ask->path);
	switch (ask->kind) {
	case MOVER_LOOK:
		ret->result = look(&m, ask, ret);
		break;
	case MOVER_PLACE:
		ret->result = place(&m, ask, ret);
		break;
	case MOVER_FIND:
		ret->result = find(&m, ask, ret);
		break;
	default:
		ret->result = change(&m, ask);
	}
}

/* ---- the child ---- */

static void serve(const char *proc_root, const char *mount, int sock)
{
	pid_t spared = getppid();
	struct mover_answer answer;
	struct mover_ask ask;
	ssize_t n;

	for (;;) {
		n = recv(sock, &ask, sizeof(ask), 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;
		if (n != (ssize_t)sizeof(ask))
			continue;
		mover_answer(proc_root, mount, spared, &ask, &answer);
		if (send(sock, &answer, sizeof(answer), MSG_NOSIGNAL) < 0)
			return;
	}
}

static void become_mover(const char *proc_root, const char *mount, int sock, pid_t allotd)
{
	sigset_t all;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int kept = dup2(sock, STDERR_FILENO + 1); /* the rest of allotd's is not ours */

	(void)prctl(PR_SET_NAME, "allot-mover");
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (kept < 0 || null < 0 || getppid() != allotd)
		_exit(0);
	/* whoever reads what allotd writes (a pipe) must not wait for our end, too */
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		(void)dup2(null, fd); /* both are open */
	(void)close_range(STDERR_FILENO + 2, ~0u, 0);
	(void)sigfillset(&all); /* Ctrl-C in allotd's terminal is allotd's affair */
	(void)sigprocmask(SIG_BLOCK, &all, NULL);
	serve(proc_root, mount, kept);
	_exit(0);
}

int mover_start(const char *proc_root, pid_t *ret_pid)
{
	char mount[PATHS_MAX], path[CGROUP_PATH_MAX];
	pid_t allotd = getpid(), pid;
	int ends[2];
	int r = cgroup_mount(proc_root, mount, sizeof(mount));

	if (r == 0)
		r = cgroup_of(proc_root, allotd, path, sizeof(path));
	if (r < 0)
		return r;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return -errno;
	pid = fork();
	if (pid == 0)
		become_mover(proc_root, mount, ends[1], allotd);
	close(ends[1]);
	if (pid < 0) {
		r = -errno;
		close(ends[0]);
		return r;
	}
	*ret_pid = pid;
	return ends[0];
}
