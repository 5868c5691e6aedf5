// SPDX-License-Identifier: Apache-2.0
#ifndef DAEMON_CLAIM_H
#define DAEMON_CLAIM_H

/*
 * One allotd for one GPU of the machine.  Two signs say that a GPU has its allotd:
 *
 *   root's lock   /run/allot/gpus/GPU-….lock, flock, mode 0600: only root can open it, so nobody
 *                 else can hold it.  Beside it GPU-….holder tells everybody who holds it (pid and
 *                 start time); the folder is root's, so what stands there is root's word.
 *   the name      an abstract socket "allotd-GPU-…": machine-wide, no file, gone with its process,
 *                 and anybody's.  The kernel says who listens (SO_PEERCRED).
 *
 * Whose allotd yields to whom:
 *
 *   root's        yields to another of root's, by the lock or by the name; to nobody else.  A user
 *                 who sits on the name is told of (log, `allot doctor`) and served nothing: what
 *                 his own allotd lets run counts as unmanaged here, as NVML shows it.
 *   a user's      yields to root's and to another user's, and names the holder.  That a stranger
 *                 can take the name and so keep a user's own allotd from starting is as it must
 *                 be where nobody is above the users; a system service ends it.
 *
 * Abstract names belong to a network namespace and /run to a mount namespace: an allotd in a
 * container of its own is not seen from here.  Its programs are unmanaged, as any other's.
 *
 * Made when a GPU is seen for the first time; a few system calls, and only where somebody sits on
 * the name without listening a look through /proc.  kill -9 leaves nothing but two small
 * files.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire/wire.h"

struct err;

#define CLAIM_FOLDER "/run/allot/gpus"
#define CLAIMS_MAX   64 /* GPUs and MIG instances */

struct claims {
	const char *folder; /* of root's locks: CLAIM_FOLDER, or a test's */
	const char *proc_root;
	uid_t uid; /* whose allotd this is */
	struct claimed {
		uint8_t uuid[16];
		int lock, name; /* -1: does without */
	} all[CLAIMS_MAX];
	unsigned n;
	char note[WIRE_TEXT_MAX]; /* "" or who sits on a name beside us, for people */
};

void claims_init(struct claims *c, const char *folder, const char *proc_root, uid_t uid);

/**
 * claims_gpu - be the only allotd of this machine that decides over @uuid
 * Returns 0, also when it was claimed before (c->note may have been filled); -EBUSY with the
 * holder's name in @err; another -errno when it cannot be told.
 */
int claims_gpu(struct claims *c, const uint8_t uuid[16], struct err *err);

/** claims_fini - give all up */
void claims_fini(struct claims *c);

#endif
