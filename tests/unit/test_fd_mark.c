// SPDX-License-Identifier: Apache-2.0
/* A number on an open file: who holds the same one reads it, nobody else does. */
#include "shim/fd_mark.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void travels(void **state)
{
	int fd = memfd_create("mark", MFD_CLOEXEC), again = dup(fd);
	char path[64];
	uint64_t mark = 0;
	int other, status;
	pid_t pid;

	(void)state;
	assert_int_equal(fd_mark_get(fd, &mark), -ENODATA);
	assert_int_equal(fd_mark_set(fd, UINT64_C(0x3fffffffffffff01)), 0);
	assert_int_equal(fd_mark_get(again, &mark), 0);
	assert_true(mark == UINT64_C(0x3fffffffffffff01));
	pid = fork();
	if (pid == 0)
		_exit(fd_mark_get(fd, &mark) == 0 && mark == UINT64_C(0x3fffffffffffff01) ? 0 : 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	/* the same file, opened for itself, has none: every export is the same device file */
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	other = open(path, O_RDWR | O_CLOEXEC);
	assert_int_equal(fd_mark_get(other, &mark), -ENODATA);
	assert_int_equal(fd_mark_set(other, 5), 0);
	assert_int_equal(fd_mark_get(other, &mark), 0);
	assert_int_equal(mark, 5);
	assert_int_equal(fd_mark_get(again, &mark), 0);
	assert_true(mark == UINT64_C(0x3fffffffffffff01));
	close(other);
	close(again);
	close(fd);
}

/* other people's locks are no marks, however many there are */
static void foreign_locks(void **state)
{
	int fd = memfd_create("mark", MFD_CLOEXEC);
	uint64_t mark = 77;

	(void)state;
	for (unsigned i = 0; i < 40; i++) {
		struct flock lock = { .l_type = i & 1 ? F_WRLCK : F_RDLCK,
				      .l_whence = SEEK_SET,
				      .l_start = (off_t)i * 1000,
				      .l_len = i % 3 ? 10 : 0 };

		(void)fcntl(fd, i & 2 ? F_SETLK : F_OFD_SETLK, &lock);
	}
	assert_int_equal(fd_mark_get(fd, &mark), -ENODATA);
	assert_int_equal(mark, 77);
	close(fd);
	assert_true(fd_mark_get(fd, &mark) < 0);
	assert_true(fd_mark_set(fd, 1) < 0);
}

static void bounds(void **state)
{
	int fd = memfd_create("mark", MFD_CLOEXEC);

	(void)state;
	assert_int_equal(fd_mark_set(fd, 0), -EINVAL);
	assert_int_equal(fd_mark_set(fd, UINT64_MAX), -EINVAL);
	assert_int_equal(fd_mark_set(fd, INT64_MAX), -EINVAL);
	assert_int_equal(fd_mark_set(fd, INT64_MAX - 4096), 0);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(travels),
		cmocka_unit_test(foreign_locks),
		cmocka_unit_test(bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
