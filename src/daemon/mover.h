// SPDX-License-Identifier: Apache-2.0
#ifndef DAEMON_MOVER_H
#define DAEMON_MOVER_H

/*
 * allotd's mover: a child that does what waits for the kernel or looks through /proc, so that
 * allotd's one thread never does: moving a process into a cgroup takes some ten milliseconds (a
 * grace period of RCU, whoever asks).
 *
 * It is forked from allotd when that starts, knows nothing, and answers one packet with one packet,
 * in order; it ends when allotd does.  Where it is gone, jobs begun later have no cgroup, and are
 * known by the chain of parents.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/cgroup.h"

#define MOVER_NAME_MAX 64
#define MOVER_PIDS_MAX 64

enum mover_kind {
	MOVER_LOOK = 1, /* where is the keeper, and may it be moved out of there by a manager? */
	MOVER_PLACE,  /* make a folder @name where the keeper is; keeper and descendants into it */
	MOVER_FIND,   /* the manager was asked to: wait until the keeper is in @name; who is not? */
	MOVER_SIGNAL, /* @signal to all in @path */
	MOVER_KILL,   /* SIGKILL, all at once where the kernel can */
	MOVER_REMOVE, /* take the folder away; -EBUSY while there is anybody in it */
};

struct mover_ask {
	uint32_t kind;
	int32_t signal;
	uint64_t job;
	int32_t keeper;
	uint32_t is_unit; /* REMOVE: the manager takes it away, only look */
	uint64_t keeper_start;
	uint64_t id;                /* of the cgroup: SIGNAL, KILL, REMOVE */
	char name[MOVER_NAME_MAX];  /* PLACE, FIND */
	char path[CGROUP_PATH_MAX]; /* SIGNAL, KILL, REMOVE; FIND: where it was */
};

struct mover_answer {
	uint32_t kind;
	int32_t result; /* 0 or more, or -errno */
	uint64_t job;
	uint64_t id;
	char path[CGROUP_PATH_MAX]; /* LOOK: where the keeper is; PLACE, FIND: where it is now */
	uint32_t n_pids;            /* FIND: descendants that were left where they were */
	int32_t pids[MOVER_PIDS_MAX];
	uint32_t pad;
};

/**
 * mover_start - fork it
 * Returns allotd's end of the socket; -ENOENT without cgroups of version 2; -errno.
 */
int mover_start(const char *proc_root, pid_t *ret_pid);

/** mover_answer - what the child does for one question; for tests, too (any process may) */
void mover_answer(const char *proc_root, const char *mount, pid_t spared,
		  const struct mover_ask *ask, struct mover_answer *ret);

#endif
