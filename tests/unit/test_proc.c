// SPDX-License-Identifier: Apache-2.0
/* gpu/proc against a folder that looks like /proc, and against the real one for ourselves */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "gpu/proc.h"

struct world {
	char root[64];
};

static void write_file(const struct world *w, int pid, const char *name, const char *text,
		       size_t len)
{
	char path[128];

	(void)str_print(path, sizeof(path), "%s/%d/%s", w->root, pid, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, text, len), 0);
	close(fd);
}

/* a process with a name that tries to fool the parser */
static void add_process(const struct world *w, int pid, int ppid, int session, unsigned start,
			const char *nspid, const char *ns)
{
	char path[128], text[512];

	(void)str_print(path, sizeof(path), "%s/%d", w->root, pid);
	assert_int_equal(mkdir(path, 0700), 0);
	(void)str_print(path, sizeof(path), "%s/%d/ns", w->root, pid);
	assert_int_equal(mkdir(path, 0700), 0);
	(void)str_print(path, sizeof(path), "%s/%d/ns/pid", w->root, pid);
	assert_int_equal(symlink(ns, path), 0);
	(void)str_print(text, sizeof(text),
			"%d (a) S 1 (b)) S %d %d %d 34816 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 %u "
			"1000 20 18446744073709551615\n",
			pid, ppid, pid, session, start);
	write_file(w, pid, "stat", text, strlen(text));
	(void)str_print(text, sizeof(text), "Name:\tx\nPPid:\t%d\nUid:\t%d\t0\t0\t0\nNSpid:\t%s\n",
			ppid, 1000 + pid, nspid);
	write_file(w, pid, "status", text, strlen(text));
	write_file(w, pid, "cmdline", "python\0train.py\0\033[31m\0", 22);
	write_file(w, pid, "comm", "kworker\n", 8);
}

static int setup(void **state)
{
	static struct world w;

	strcpy(w.root, "/tmp/allot-proc-XXXXXX");
	if (!mkdtemp(w.root))
		return -1;
	add_process(&w, 1, 0, 1, 1, "1", "pid:[1]");
	add_process(&w, 50, 1, 50, 500, "50", "pid:[1]");      /* a keeper */
	add_process(&w, 60, 50, 50, 600, "60", "pid:[1]");     /* its command */
	add_process(&w, 61, 60, 61, 610, "61 1", "pid:[2]");   /* init of a container */
	add_process(&w, 62, 61, 61, 620, "62 7", "pid:[2]");   /* in it */
	add_process(&w, 63, 62, 61, 630, "63 8 1", "pid:[3]"); /* a container inside */
	add_process(&w, 71, 60, 71, 710, "71 1", "pid:[4]");   /* the sibling container */
	add_process(&w, 72, 71, 71, 720, "72 7", "pid:[4]");   /* the same inner number */
	add_process(&w, 80, 81, 80, 800, "80", "pid:[1]");     /* a circle of parents */
	add_process(&w, 81, 80, 80, 810, "81", "pid:[1]");
	add_process(&w, 82, 83, 80, 820, "82 5 1", "pid:[3]"); /* and one inside namespaces */
	add_process(&w, 83, 82, 80, 830, "83 6 2", "pid:[3]");
	*state = &w;
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st, (void)flag, (void)ftw;
	return remove(path);
}

static int teardown(void **state)
{
	struct world *w = *state;

	return nftw(w->root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void test_read(void **state)
{
	struct world *w = *state;
	uid_t uid;
	struct proc_info info;

	assert_int_equal(proc_read(w->root, 62, &info), 0);
	assert_int_equal(info.pid, 62);
	assert_int_equal(info.ppid, 61);
	assert_int_equal(info.session, 61);
	assert_int_equal(info.start_ticks, 620);
	assert_int_equal(proc_uid(w->root, 62, &uid), 0);
	assert_int_equal(uid, 1062);
	assert_int_equal(proc_uid(w->root, 99, &uid), -ESRCH);
	assert_int_equal(info.state, 'S');
	assert_int_equal(proc_read(w->root, 99, &info), -ESRCH);
	assert_int_equal(proc_read(w->root, 0, &info), -ESRCH);
	assert_int_equal(proc_read(w->root, -5, &info), -ESRCH);
}

static void test_read_damaged(void **state)
{
	struct world *w = *state;
	struct proc_info info;
	static const char *const bad[] = {
		"",
		"72",
		"72 (x",
		"72 (x) S",
		"72 (x) S 1 2",
		"72 (x) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 x",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		write_file(w, 72, "stat", bad[i], strlen(bad[i]));
		assert_int_equal(proc_read(w->root, 72, &info), -EBADMSG);
	}
}

static void test_same(void **state)
{
	struct world *w = *state;

	assert_true(proc_is_same(w->root, 60, 600));
	assert_false(proc_is_same(w->root, 60, 601));
	assert_false(proc_is_same(w->root, 99, 600));
}

static void test_command(void **state)
{
	struct world *w = *state;
	char buf[64], small[8];

	assert_int_equal(proc_command(w->root, 60, buf, sizeof(buf)), 0);
	assert_string_equal(buf, "python train.py ?[31m");
	assert_int_equal(proc_command(w->root, 60, small, sizeof(small)), 0);
	assert_string_equal(small, "python");
	write_file(w, 60, "cmdline", "", 0);
	assert_int_equal(proc_command(w->root, 60, buf, sizeof(buf)), 0);
	assert_string_equal(buf, "[kworker]");
	assert_int_equal(proc_command(w->root, 99, buf, sizeof(buf)), -ESRCH);
	assert_string_equal(buf, "");
}

static bool is_wanted(pid_t pid, void *context)
{
	return pid == *(pid_t *)context;
}

static void test_ancestor(void **state)
{
	struct world *w = *state;
	pid_t wanted = 50;

	assert_int_equal(proc_find_ancestor(w->root, 63, is_wanted, &wanted), 50);
	assert_int_equal(proc_find_ancestor(w->root, 50, is_wanted, &wanted), 50);
	assert_int_equal(proc_find_ancestor(w->root, 1, is_wanted, &wanted), -ENOENT);
	assert_int_equal(proc_find_ancestor(w->root, 80, is_wanted, &wanted), -ENOENT);
	assert_int_equal(proc_find_ancestor(w->root, 99, is_wanted, &wanted), -ESRCH);
	wanted = 62; /* the nearest one, not the first in any list */
	assert_int_equal(proc_find_ancestor(w->root, 63, is_wanted, &wanted), 62);
}

static void test_seen_by(void **state)
{
	struct world *w = *state;

	assert_int_equal(proc_pid_as_seen_by(w->root, 62, 60), 62); /* from our namespace */
	assert_int_equal(proc_pid_as_seen_by(w->root, 62, 62), 7);
	assert_int_equal(proc_pid_as_seen_by(w->root, 61, 62), 1);
	assert_int_equal(proc_pid_as_seen_by(w->root, 63, 62), 8); /* deeper than the reader */
	assert_int_equal(proc_pid_as_seen_by(w->root, 63, 63), 1);
	assert_int_equal(proc_pid_as_seen_by(w->root, 62, 63), 0); /* outside */
	assert_int_equal(proc_pid_as_seen_by(w->root, 60, 62), 0);
	assert_int_equal(proc_pid_as_seen_by(w->root, 72, 62), 0); /* the sibling */
	assert_int_equal(proc_pid_as_seen_by(w->root, 82, 62), 0); /* nobody at that depth */
	assert_true(proc_pid_as_seen_by(w->root, 99, 62) < 0);
	assert_true(proc_pid_as_seen_by(w->root, 62, 99) < 0);
}

static void test_ourselves(void **state)
{
	struct proc_info info, child;
	char buf[256];
	uid_t uid;
	pid_t pid;

	(void)state;
	assert_int_equal(proc_read(PROC_ROOT, getpid(), &info), 0);
	assert_int_equal(info.ppid, getppid());
	assert_int_equal(info.session, getsid(0));
	assert_int_equal(proc_uid(PROC_ROOT, getpid(), &uid), 0);
	assert_int_equal(uid, getuid());
	assert_true(proc_is_same(PROC_ROOT, getpid(), info.start_ticks));
	assert_int_equal(proc_command(PROC_ROOT, getpid(), buf, sizeof(buf)), 0);
	assert_non_null(strstr(buf, "test_proc"));
	pid = fork();
	if (pid == 0)
		_exit(0);
	assert_true(pid > 0);
	siginfo_t si;

	assert_int_equal(waitid(P_PID, (id_t)pid, &si, WEXITED | WNOWAIT), 0);
	assert_int_equal(proc_read(PROC_ROOT, pid, &child), 0);
	assert_false(proc_is_same(PROC_ROOT, pid, child.start_ticks)); /* a zombie is nobody */
	assert_int_equal(proc_command(PROC_ROOT, pid, buf, sizeof(buf)), 0);
	assert_int_equal(buf[0], '[');
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void test_pidfd(void **state)
{
	pid_t parent = -1, pid = fork();
	siginfo_t si;
	int pidfd, r;

	(void)state;
	if (pid == 0)
		_exit(0);
	assert_true(pid > 0);
	pidfd = fd_pidfd_open(pid);
	assert_true(pidfd >= 0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &si, WEXITED | WNOWAIT), 0);
	r = proc_parent_of_pidfd(pidfd, pid, &parent);
	if (r == -ENOTTY || r == -EINVAL) { /* before Linux 6.13 */
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		close(pidfd);
		skip();
	}
	assert_int_equal(r, 0); /* a zombie still has its number */
	assert_int_equal(parent, getpid());
	assert_int_equal(proc_parent_of_pidfd(pidfd, pid + 1, &parent), -ESRCH);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_true(proc_parent_of_pidfd(pidfd, pid, &parent) < 0); /* its number is free */
	close(pidfd);
	assert_int_equal(proc_parent_of_pidfd(-1, pid, &parent), -EBADF);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_read, setup, teardown),
		cmocka_unit_test_setup_teardown(test_read_damaged, setup, teardown),
		cmocka_unit_test_setup_teardown(test_same, setup, teardown),
		cmocka_unit_test_setup_teardown(test_command, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ancestor, setup, teardown),
		cmocka_unit_test_setup_teardown(test_seen_by, setup, teardown),
		cmocka_unit_test(test_ourselves),
		cmocka_unit_test(test_pidfd),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
