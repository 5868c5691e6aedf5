// SPDX-License-Identifier: Apache-2.0
#ifndef GPU_PROC_KIND_H
#define GPU_PROC_KIND_H

/*
 * What kind of process it is: the kernel's own, a service of the graphics driver, one in another
 * PID namespace.  Names prove nothing: a program is known by the file it runs, which must be root's
 * and writable by nobody else.
 *
 * As in gpu/proc.h: /proc's place is an argument, nothing is kept, every call reads small files and
 * returns at once.  A pid is a number only; who needs to be sure holds a pidfd around the call.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/** proc_pid_of_pidfd - its number in our PID namespace; -ESRCH gone; -EBADF no pidfd */
int proc_pid_of_pidfd(const char *root, int pidfd, pid_t *ret);

/** proc_is_kernel - is it a thread of the kernel? */
bool proc_is_kernel(const char *root, pid_t pid);

/** proc_is_foreign - does it live in another PID namespace than we?  false when that is unknown */
bool proc_is_foreign(const char *root, pid_t pid);

/** proc_is_in_first_namespace - are we ourselves in the host's PID namespace? */
bool proc_is_in_first_namespace(const char *root);

/** proc_is_mps - NVIDIA's MPS server or control daemon: other people's work runs through it */
bool proc_is_mps(const char *root, pid_t pid);

/** proc_is_display - an X server, a compositor, a display manager */
bool proc_is_display(const char *root, pid_t pid);

#endif
