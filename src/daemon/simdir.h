// SPDX-License-Identifier: Apache-2.0
#ifndef DAEMON_SIMDIR_H
#define DAEMON_SIMDIR_H

/*
 * allotd --sim: a private folder that looks like a driver's: links to the simulated libcuda.so.1
 * and libnvidia-ml.so.1, and the profile of the devices.  The simulated libraries find their
 * profile and their shared state in the folder in which they were opened, so every program that
 * gets this folder as its driver sees the same devices.
 *
 * The state of the devices (who holds what) lives beside it and is left alone: programs may still
 * run when allotd starts again.
 */

#include <stddef.h>

#include "daemon/instance.h"

struct err;

/**
 * simdir_make - make or refresh RUNTIME/sim, and be the only allotd that shares its devices out
 * @in: has the runtime folder, keeps the lock
 * @profile: a name ("h200") or the path of a file; NULL for the H200
 * @ret_dir: the folder
 *
 * Returns 0; -EBUSY when another allotd serves that folder; -EINVAL for a profile that cannot be
 * read, with its line in @err; -errno.
 */
int simdir_make(struct instance *in, const char *profile, char *ret_dir, size_t size,
		struct err *err);

#endif
