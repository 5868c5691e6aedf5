// SPDX-License-Identifier: Apache-2.0
#ifndef DAEMON_CGROUP_H
#define DAEMON_CGROUP_H

/*
 * cgroups of version 2 as files: where they are mounted, in which one a process is, what one
 * limits, and (for allotd's mover alone) moving, signalling and removing.
 *
 * A path is what /proc/PID/cgroup says after "0::": absolute, from the root of our own cgroup
 * namespace.  A folder's inode number is the kernel's id of the cgroup: a name that was used again
 * has another one, so path and id together name a cgroup for good.
 *
 * The mount is found by mountinfo (unified, or the hybrid's beside version 1), never assumed.
 * Where /proc is, is an argument.  The functions that change something wait for the kernel, which
 * for a move is some ten milliseconds (a grace period of RCU): never call them from the loop.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CGROUP_PATH_MAX 512

/** cgroup_mount - where version 2 is mounted, from its root on; 0, -ENOENT, -EFBIG, -errno */
int cgroup_mount(const char *proc_root, char *buf, size_t size);

/**
 * cgroup_of - the cgroup that @pid is in
 * Returns 0; -ESRCH gone; -ENOENT when there is no version 2, or that cgroup was removed; -EXDEV
 * when it lies outside of our cgroup namespace.
 */
int cgroup_of(const char *proc_root, pid_t pid, char *buf, size_t size);

/** cgroup_is_inside - is @path @outer, or below it? */
bool cgroup_is_inside(const char *path, const char *outer);

/** cgroup_name - the last part of @path */
const char *cgroup_name(const char *path);

/** cgroup_id - of the folder that is there now; 0 or -errno */
int cgroup_id(const char *mount, const char *path, uint64_t *ret);

/** cgroup_is_limited - does it set a limit of memory, processes, CPU or I/O to what is in it? */
bool cgroup_is_limited(const char *mount, const char *path);

/** cgroup_is_populated - is any process in it or below? (zombies do not count) */
bool cgroup_is_populated(const char *mount, const char *path);

/* ---- changes: not in allotd's loop ---- */

/** cgroup_make - a fresh empty folder; a left and empty one of that name is replaced; 0, -errno */
int cgroup_make(const char *mount, const char *path);

/** cgroup_move - one process with all its threads; 0 or -errno */
int cgroup_move(const char *mount, const char *path, pid_t pid);

/** cgroup_remove - with the empty ones below; 0 (also when it is gone already), -EBUSY, -errno */
int cgroup_remove(const char *mount, const char *path);

/**
 * cgroup_signal - send @sig to whatever is in it or below
 * @spared: this process and its descendants are left alone; 0: nobody
 *
 * Each through a pidfd, its place looked at again.  Returns how many were told, or -errno.
 */
int cgroup_signal(const char *proc_root, const char *mount, const char *path, int sig,
		  pid_t spared);

/** cgroup_kill - all at once (cgroup.kill); -ENOENT on a kernel before 5.14; -errno */
int cgroup_kill(const char *mount, const char *path);

#endif
