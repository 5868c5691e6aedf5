// SPDX-License-Identifier: Apache-2.0
#ifndef SHIM_ENV_H
#define SHIM_ENV_H

/*
 * What this process was started with, and where our own library lies.
 *
 * Read once, at the first question, from /proc/self/environ: what the program has since done to
 * its environment does not count. Where that file cannot be read, or shows what setproctitle wrote
 * over it (servers and workers do that at their start), secure_getenv is asked. Read
 * into a page of its own that is published by one store: no lock, no heap, and so also usable in a
 * child of vfork; threads that come together read twice and keep one.
 */

#include <stdbool.h>

#include "base/log.h"

#define ENV_PATH_MAX 1024

struct shim_env {
	bool in_job;                   /* ALLOT_SOCKET was set: allot started this process */
	enum log_level log;            /* ALLOT_LOG; LOG_LEVEL_ERROR unless set */
	char socket[108 + 1];          /* ALLOT_SOCKET, or "" */
	char self[ENV_PATH_MAX];       /* our own file, as the loader was told it; "" unknown */
	char sibling[ENV_PATH_MAX];    /* the other library beside it; "" if there is none */
	char preload[2][ENV_PATH_MAX]; /* the entries of ours in the LD_PRELOAD we were started
					* with, cuda and nvml; "" where there was none */
};

/** env_get - never NULL, constant from the first call on; any thread, errno is kept */
const struct shim_env *env_get(void);

/** env_self - our own file as the loader knows it (l_name); lock-free; "" if not known */
const char *env_self(void);

#endif
