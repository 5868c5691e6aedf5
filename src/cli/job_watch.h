// SPDX-License-Identifier: Apache-2.0
#ifndef CLI_JOB_WATCH_H
#define CLI_JOB_WATCH_H

/*
 * Wait until a job has ended, over as many connections as that takes: allotd may be restarted
 * meanwhile.  It is asked anew from time to time, so that a wait that it has forgotten ends, too.
 * One thread.
 */

#include <stdint.h>

#include "cli/cmd.h"
#include "client/client.h"

struct job_watch {
	const char *verb;
	const struct common *common;
	uint64_t job_id;
	struct client c;
	uint64_t asked_ns; /* when it was asked last */
	uint64_t lost_ns;  /* allotd is away since then; 0: is there */
	struct wire_job job;
};

/** job_watch_begin - 0 with the job as it is now, or the exit status after a line on stderr */
int job_watch_begin(struct job_watch *w, const char *verb, const struct common *common,
		    uint64_t job_id);

/** job_watch_has_ended - and is its exit status known, as far as it ever will? */
bool job_watch_has_ended(const struct job_watch *w);

/**
 * job_watch_wait - wait up to @timeout_ns for its end
 * Returns 1: it has ended; 0: not yet; -(exit status) after a line on stderr: allotd stays away.
 */
int job_watch_wait(struct job_watch *w, uint64_t timeout_ns);

void job_watch_fini(struct job_watch *w);

/** parse_job - a job's id from the command line; 0, or WIRE_CODE_USAGE after a line on stderr */
int parse_job(const char *verb, const char *word, uint64_t *ret);

#endif
