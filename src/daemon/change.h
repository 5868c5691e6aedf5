// SPDX-License-Identifier: Apache-2.0
#ifndef DAEMON_CHANGE_H
#define DAEMON_CHANGE_H

/*
 * `allot set JOB KEY=VALUE`: text into a change of a job.  Keys: vram, class, when-full, name.
 */

#include <stdbool.h>

#include "wire/wire.h"

struct daemon;
struct err;
struct job;

/**
 * change_job - carry out one change
 * @only_narrower: the asker lives inside the job: whatever would give it more is refused
 * Returns 0, or the code of the refusal with its text; then nothing has changed.
 */
enum wire_code change_job(struct daemon *d, struct job *job, const char *key, const char *value,
			  bool only_narrower, struct err *err);

#endif
