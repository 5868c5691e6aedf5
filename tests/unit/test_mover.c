// SPDX-License-Identifier: Apache-2.0
/* daemon/mover's answers, against a folder that looks like /proc and one like a mount of cgroups */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "daemon/mover.h"

#define START 77

struct world {
	char root[64], proc[80], mount[80];
	pid_t child;
};

static void write_file(const char *root, const char *name, const char *text)
{
	char path[256];

	(void)str_print(path, sizeof(path), "%s/%s", root, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
	close(fd);
}

static void make_folder(const char *root, const char *name)
{
	char path[256];

	(void)str_print(path, sizeof(path), "%s/%s", root, name);
	assert_int_equal(mkdir(path, 0700), 0);
}

/* what the false /proc says of a process */
static void tell(const struct world *w, pid_t pid, pid_t parent, const char *ns, const char *cgroup)
{
	char name[64], path[256], text[256];

	(void)str_print(name, sizeof(name), "%d", pid);
	make_folder(w->proc, name);
	(void)str_print(name, sizeof(name), "%d/ns", pid);
	make_folder(w->proc, name);
	(void)str_print(path, sizeof(path), "%s/%d/ns/pid", w->proc, pid);
	assert_int_equal(symlink(ns, path), 0);
	(void)str_print(name, sizeof(name), "%d/stat", pid);
	(void)str_print(text, sizeof(text), "%d (x) S %d 1 1 0 0 0 1 2 3 4 5 6 7 8 20 0 1 0 %d 9\n",
			pid, parent, START);
	write_file(w->proc, name, text);
	(void)str_print(name, sizeof(name), "%d/cgroup", pid);
	(void)str_print(text, sizeof(text), "0::%s\n", cgroup);
	write_file(w->proc, name, text);
}

static int setup(void **state)
{
	static struct world w;
	char path[128];

	strcpy(w.root, "/tmp/allot-mover-XXXXXX");
	*state = &w;
	if (!mkdtemp(w.root))
		return -1;
	(void)str_print(w.proc, sizeof(w.proc), "%s/proc", w.root);
	(void)str_print(w.mount, sizeof(w.mount), "%s/cgroup", w.root);
	make_folder(w.root, "proc");
	make_folder(w.root, "cgroup");
	make_folder(w.proc, "self");
	make_folder(w.proc, "self/ns");
	(void)str_print(path, sizeof(path), "%s/self/ns/pid", w.proc);
	assert_int_equal(symlink("pid:[1]", path), 0);
	w.child = fork();
	if (w.child == 0)
		for (;;)
			pause();
	return w.child > 0 ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st, (void)flag, (void)ftw;
	return remove(path);
}

static int teardown(void **state)
{
	struct world *w = *state;

	(void)kill(w->child, SIGKILL);
	(void)waitpid(w->child, NULL, 0);
	return nftw(w->root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static struct mover_answer ask(const struct world *w, pid_t spared, struct mover_ask m)
{
	struct mover_answer a;

	m.keeper = m.keeper ? m.keeper : w->child;
	m.keeper_start = START;
	mover_answer(w->proc, w->mount, spared, &m, &a);
	assert_int_equal(a.kind, m.kind);
	return a;
}

/* the folder of a job with the child in it, on a kernel without cgroup.kill */
static struct mover_ask job_with_child(const struct world *w)
{
	struct mover_ask m = { .signal = SIGTERM, .path = "/job" };
	char text[32];

	make_folder(w->mount, "job");
	(void)str_print(text, sizeof(text), "%d\n", w->child);
	write_file(w->mount, "job/cgroup.procs", text);
	tell(w, w->child, 1, "pid:[1]", "/job");
	tell(w, getpid(), 1, "pid:[1]", "/");
	assert_int_equal(cgroup_id(w->mount, "/job", &m.id), 0);
	return m;
}

static bool is_alive(const struct world *w)
{
	return waitpid(w->child, NULL, WNOHANG) == 0;
}

static void kills_without_cgroup_kill(void **state)
{
	const struct world *w = *state;
	struct mover_ask m = job_with_child(w);
	int status;

	m.kind = MOVER_KILL;
	(void)ask(w, 0, m);
	assert_int_equal(waitpid(w->child, &status, 0), w->child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void signals_what_is_below(void **state)
{
	const struct world *w = *state;
	struct mover_ask m = job_with_child(w);
	char name[64];
	int status;

	make_folder(w->mount, "job/below");
	(void)str_print(name, sizeof(name), "%s/job/cgroup.procs", w->mount);
	assert_int_equal(truncate(name, 0), 0);
	(void)str_print(name, sizeof(name), "%d\nno number\n99999999999\n", w->child);
	write_file(w->mount, "job/below/cgroup.procs", name);
	m.kind = MOVER_SIGNAL;
	assert_int_equal(ask(w, 0, m).result, 1);
	assert_int_equal(waitpid(w->child, &status, 0), w->child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

/* in the list by the time it was read, and elsewhere by now; the id of another; allotd's family */
static void leaves_others_alone(void **state)
{
	const struct world *w = *state;
	struct mover_ask m = job_with_child(w);
	char name[64];

	m.kind = MOVER_KILL;
	assert_int_equal(ask(w, w->child, m).result, 0);
	assert_true(is_alive(w));
	m.id++;
	assert_int_equal(ask(w, 0, m).result, -ENOENT);
	m.kind = MOVER_REMOVE;
	assert_int_equal(ask(w, 0, m).result, 0); /* that one is gone */
	m.id--;
	m.kind = MOVER_SIGNAL;
	(void)str_print(name, sizeof(name), "%d/cgroup", w->child);
	write_file(w->proc, name, "0::/jobs\n");
	assert_int_equal(ask(w, 0, m).result, 0);
	assert_true(is_alive(w));
}

static void looks_where_a_keeper_is(void **state)
{
	static const struct {
		const char *cgroup;
		int result;
	} cases[] = {
		{ "/user.slice/session-1.scope", 0 },
		{ "/system.slice/cron.service", -EPERM },
		{ "/system.slice/slurmd.scope/job_1/step_0", -EPERM },
		{ "/", -EPERM },
		{ "/.scope", 0 },
		{ "/scope", -EPERM },
		{ "/../outside.scope", -EXDEV },
	};
	const struct world *w = *state;
	char name[64];

	tell(w, w->child, 1, "pid:[1]", "/");
	(void)str_print(name, sizeof(name), "%d/cgroup", w->child);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[128];

		(void)str_print(text, sizeof(text), "0::%s\n", cases[i].cgroup);
		write_file(w->proc, name, text);
		assert_int_equal(ask(w, 0, (struct mover_ask){ .kind = MOVER_LOOK }).result,
				 cases[i].result);
	}
	/* one that limits something is not left */
	write_file(w->proc, name, "0::/a.scope\n");
	make_folder(w->mount, "a.scope");
	write_file(w->mount, "a.scope/memory.max", "max\n");
	assert_int_equal(ask(w, 0, (struct mover_ask){ .kind = MOVER_LOOK }).result, 0);
	write_file(w->mount, "a.scope/memory.max", "4096\n");
	assert_int_equal(ask(w, 0, (struct mover_ask){ .kind = MOVER_LOOK }).result, -EPERM);
	/* and where allotd itself makes folders, it makes none in somebody else's limits */
	tell(w, getpid(), 1, "pid:[1]", "/");
	assert_int_equal(ask(w, 0, (struct mover_ask){ .kind = MOVER_PLACE, .name = "job" }).result,
			 -EPERM);
}

static void a_container_arranges_itself(void **state)
{
	const struct world *w = *state;

	tell(w, w->child, 1, "pid:[2]", "/a.scope");
	assert_int_equal(ask(w, 0, (struct mover_ask){ .kind = MOVER_LOOK }).result, -EXDEV);
	assert_int_equal(ask(w, 0, (struct mover_ask){ .kind = MOVER_PLACE, .name = "job" }).result,
			 -EXDEV);
	/* another process with the keeper's number */
	assert_int_equal(
		ask(w, 0, (struct mover_ask){ .kind = MOVER_PLACE, .keeper = 1, .name = "job" })
			.result,
		-ESRCH);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(kills_without_cgroup_kill, setup, teardown),
		cmocka_unit_test_setup_teardown(signals_what_is_below, setup, teardown),
		cmocka_unit_test_setup_teardown(leaves_others_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(looks_where_a_keeper_is, setup, teardown),
		cmocka_unit_test_setup_teardown(a_container_arranges_itself, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
