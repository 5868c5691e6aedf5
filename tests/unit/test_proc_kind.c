// SPDX-License-Identifier: Apache-2.0
/* What kind of process it is, from a /proc of the test's own and from the kernel's. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"
#include "gpu/proc_kind.h"

static char root[] = "/tmp/allot-proc-kind.XXXXXX";

static void put(pid_t pid, const char *file, const char *text)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%d", root, pid);
	(void)mkdir(path, 0700); /* may be there */
	snprintf(path, sizeof(path), "%s/%d/%s", root, pid, file);
	f = fopen(path, "w");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static void threads_of_the_kernel(void **state)
{
	static const struct {
		const char *stat;
		bool is_kernel;
	} rows[] = {
		{ "7 (kworker/0:1) I 2 0 0 0 -1 69238880 0 0\n", true },
		{ "7 (python) S 1 7 7 0 -1 4194304 0 0\n", false },
		/* a name that looks like the rest of the line */
		{ "7 (a) S 1 1 1 0 -1 69238880) S 1 7 7 0 -1 4194304 0 0\n", false },
		{ "7 (python) S 1 7", false },
		{ "7 (python", false },
		{ "", false },
		{ "7 (x) S 1 7 7 0 -1 99999999999999999999999999 0\n", false },
		{ "7 (x) S 1 7 7 0 -1 -5 0\n", false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		put(7, "stat", rows[i].stat);
		assert_int_equal(proc_is_kernel(root, 7), rows[i].is_kernel);
	}
	assert_false(proc_is_kernel(root, 8));
	assert_false(proc_is_kernel("/proc", getpid()));
}

static void whose_pidfd_it_is(void **state)
{
	int ends[2], pidfd;
	pid_t child, pid = 0;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		char c;

		close(ends[1]);
		_exit(read(ends[0], &c, 1) != 0);
	}
	close(ends[0]);
	pidfd = fd_pidfd_open(child);
	assert_true(pidfd >= 0);
	assert_int_equal(proc_pid_of_pidfd("/proc", pidfd, &pid), 0);
	assert_int_equal(pid, child);
	assert_int_equal(proc_pid_of_pidfd("/proc", ends[1], &pid), -EBADF);
	assert_true(proc_pid_of_pidfd("/proc", 1 << 20, &pid) < 0);
	close(ends[1]);
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_int_equal(proc_pid_of_pidfd("/proc", pidfd, &pid), -ESRCH);
	assert_int_equal(pid, child); /* untouched */
	close(pidfd);
}

static void a_name_alone_is_nothing(void **state)
{
	char path[128];

	(void)state;
	/* files of this test's user count only when that is root, and others may not write them */
	put(9, "stat", "9 (x) S 1 9 9 0 -1 0 0\n");
	put(9, "nvidia-cuda-mps-control", "");
	snprintf(path, sizeof(path), "%s/9/exe", root);
	assert_int_equal(symlink("nvidia-cuda-mps-control", path), 0);
	snprintf(path, sizeof(path), "%s/9/nvidia-cuda-mps-control", root);
	assert_int_equal(chmod(path, 0755), 0);
	assert_int_equal(proc_is_mps(root, 9), geteuid() == 0);
	assert_int_equal(chmod(path, 0777), 0);
	assert_false(proc_is_mps(root, 9));
	assert_false(proc_is_display(root, 9));
	assert_false(proc_is_mps(root, 10));
	assert_false(proc_is_display("/proc", getpid()));
	assert_false(proc_is_foreign("/proc", getpid()));
	assert_false(proc_is_foreign(root, 9)); /* not known */
}

static int setup(void **state)
{
	(void)state;
	return mkdtemp(root) ? 0 : -1;
}

static int teardown(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf '%s'", root);
	return system(command); /* a path of our own making */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_of_the_kernel),
		cmocka_unit_test(whose_pidfd_it_is),
		cmocka_unit_test(a_name_alone_is_nothing),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
