// SPDX-License-Identifier: Apache-2.0
#ifndef CLI_DETACH_H
#define CLI_DETACH_H

/*
 * `allot run -d`: the job goes on in a session of its own, without the terminal.  Its output goes
 * to a file of the user's, $XDG_STATE_HOME/allot/logs/NAME-TIME-PID.log, mode 0600, which the
 * keeper bounds (keeper/output.h).  Logs of jobs that have ended are removed after LOGS_KEPT_S, or
 * sooner, the oldest first, when all together take more than LOGS_KEPT_BYTES.
 *
 * The starter waits until the job has its id, prints it and ends.  Until then the other half still
 * has the starter's stderr, so whoever typed the command reads why it was refused, or for what it
 * waits; and when the starter ends sooner (Ctrl-C) the job is given up: an id that nobody heard is
 * a job that nobody wants.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/paths.h"

#define LOGS_KEPT_S     (7 * 86400)
#define LOGS_KEPT_BYTES ((uint64_t)1 << 30)
#define LOG_MAX_BYTES   ((uint64_t)64 << 20) /* of one job, if nothing else was asked for */

struct detach {
	char log[PATHS_MAX];
	uint64_t max_bytes;
	int log_fd; /* -1: in the foreground */
	int tell;   /* to the starter, until the id is known */
};

/**
 * detach_begin - make the log and leave the terminal
 * @name: of the job
 *
 * Returns 1 in the starter when it is done (*ret_status: its exit status), 0 in the half that goes
 * on, -1 after a line on stderr.
 */
int detach_begin(struct detach *d, const char *name, int *ret_status);

/** detach_tell - the id is known; false: nobody wants it any more.  Only the first call does. */
bool detach_tell(struct detach *d, uint64_t job_id);

/** detach_failed - there will be no job: remove its empty log */
void detach_failed(struct detach *d);

#endif
