// SPDX-License-Identifier: Apache-2.0
#ifndef SHIM_FD_MARK_H
#define SHIM_FD_MARK_H

/*
 * A number that travels with a descriptor.
 *
 * Memory that is shared by descriptor has no name: every one that the driver exports is the same
 * device file, and the receiver gets nothing but the descriptor.  So the exporter writes a number
 * on the open file itself, which SCM_RIGHTS, dup, fork and pidfd_getfd hand on: an advisory read
 * lock of the open file description (F_OFD_SETLK) whose first byte is the number, and which the
 * kernel lists in /proc/self/fdinfo of whoever holds that same open file.  It takes nothing from
 * anybody (a read lock on a device file or a memfd, which nobody locks for writing), and is gone
 * with the last duplicate.
 *
 * Where that does not work (no /proc, an old kernel, a file that cannot be locked) there is no
 * mark, and who reads one is told so.  A mark proves nothing: anybody can write one.
 *
 * No memory, no state, no lock; any thread.
 */

#include <stdint.h>

/** fd_mark_set - write @mark (1 … INT64_MAX − 4096) on the open file of @fd; 0 or -errno */
int fd_mark_set(int fd, uint64_t mark);

/** fd_mark_get - the mark on the open file of @fd; -ENODATA when there is none, or -errno */
int fd_mark_get(int fd, uint64_t *ret_mark);

#endif
