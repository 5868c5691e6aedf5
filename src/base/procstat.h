// SPDX-License-Identifier: Apache-2.0
#ifndef BASE_PROCSTAT_H
#define BASE_PROCSTAT_H

/*
 * One line of the kernel's: /proc/PID/stat.  A process chooses the name that stands in it, with
 * blanks and parentheses as it likes, so the fields count from the last ')'.  Where /proc is
 * mounted is an argument.  Any thread; nothing is kept.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct proc_info {
	pid_t pid;
	pid_t ppid; /* 0: none in our PID namespace */
	pid_t session;
	char state; /* 'R', 'S', 'Z' … */
	uint64_t start_ticks;
};

/** procstat_read - 0; -ESRCH: no such process; -EBADMSG: the text is not understood; -errno */
int procstat_read(const char *root, pid_t pid, struct proc_info *ret);

/** procstat_number - a decimal number at *s, after blanks; *s stands behind it; false: none, or too
 * large */
bool procstat_number(const char **s, uint64_t *ret);

#endif
