// SPDX-License-Identifier: Apache-2.0
#ifndef GPU_PROC_H
#define GPU_PROC_H

/*
 * Who a process is, as the kernel tells it in /proc.
 *
 * A pid alone names nobody for long: it is always used together with the start time (in clock
 * ticks since boot), and whoever read both has to check them again after every pause.  Where /proc
 * is mounted is an argument (tests bring a folder of their own).
 *
 * Everything here reads small files and returns at once; nothing is kept.  Any thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/procstat.h"

#define PROC_ROOT       "/proc"
#define PROC_DEPTH_MAX  256 /* parents looked at before a chain counts as endless */
#define PROC_LEVELS_MAX 32  /* PID namespaces inside each other: the kernel's own ceiling */

/** proc_read - 0; -ESRCH when there is no such process; -EBADMSG when the text is not understood */
int proc_read(const char *root, pid_t pid, struct proc_info *ret);

/**
 * proc_parent_of_pidfd - the parent of the process behind @pidfd, which must have the number @pid
 *
 * One call into the kernel and no file.  Returns 0; -ESRCH when the process is gone or has another
 * number; another -errno on a kernel that cannot tell (before Linux 6.13).
 */
int proc_parent_of_pidfd(int pidfd, pid_t pid, pid_t *ret);

/** proc_uid - the real user id; 0 or -errno as proc_read */
int proc_uid(const char *root, pid_t pid, uid_t *ret);

/** proc_is_same - is @pid still the process that began at @start_ticks, and not a zombie? */
bool proc_is_same(const char *root, pid_t pid, uint64_t start_ticks);

/**
 * proc_command - the command line with spaces between the words, fit for a terminal
 *
 * A process without one (a kernel thread, a zombie) gives its short name in brackets.  What does
 * not fit is cut.  Returns 0 or -errno; @buf always holds a string.  May wait for the process for
 * as long as that pleases: allotd's loop calls commands_read instead.
 */
int proc_command(const char *root, pid_t pid, char *buf, size_t size);

/** proc_name - only the short name, in brackets: unlike the command line it is the kernel's own */
int proc_name(const char *root, pid_t pid, char *buf, size_t size);

/** proc_match - does the caller look for this one? */
typedef bool proc_match(pid_t pid, void *context);

/**
 * proc_find_ancestor - the nearest of @pid itself, its parent, its parent's parent … that matches
 *
 * A parent is asked about before anything of it is read, so a child of somebody well known costs
 * one small file.  Returns its number; -ENOENT when none matches; -ESRCH when @pid itself is gone.
 */
pid_t proc_find_ancestor(const char *root, pid_t pid, proc_match *match, void *context);

/** proc_level - how many PID namespaces deep it lives, ours being 1; 0 outside of it; -errno */
int proc_level(const char *root, pid_t pid);

/**
 * proc_pid_as_seen_by - the number @pid has in the PID namespace of @reader
 *
 * Both are numbers of our namespace.  Returns the number; 0 when @pid cannot be seen from there;
 * -errno when one of them is gone.
 */
pid_t proc_pid_as_seen_by(const char *root, pid_t pid, pid_t reader);

#endif
