// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_UNIT_IN_CHILD_H
#define TESTS_UNIT_IN_CHILD_H

/*
 * Tests of code that knows of its process run in a process of their own: CHILD_CHECK prints what
 * failed and ends the child, RUN_IN_CHILD is the test that fails with it.
 */

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILD_CHECK(condition)                                                          \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			_exit(1);                                                       \
		}                                                                       \
	} while (0)

/* 0, or what waitpid says of the child that ran @body */
static inline int run_in_child(void (*body)(void))
{
	pid_t pid = fork();
	int status = -1;

	if (pid == 0) {
		body();
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return status;
}

#endif
