// SPDX-License-Identifier: Apache-2.0
#ifndef DAEMON_RUNS_H
#define DAEMON_RUNS_H

/*
 * What is known of each job from its RUN until a while after its end: who, what, when, where its
 * output goes, and how it ended.  A job's own object goes with its last process; its run stays for
 * those who ask later: as many that ended, and for so long, as the configuration says.
 *
 * The truth is in memory.  The store has a run from its end on; one in the background from its
 * beginning, so that its id stays its own when allotd dies while it waits for its place.  What the
 * file could not take is written when it can be written again.
 *
 * One thread.  Peers that wait for an end are linked to the run and unlinked by their own end.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "wire/wire.h"

struct daemon;
struct job;
struct peer;
struct runs;
struct wire_message;

/* as the store keeps it; times in seconds since 1970, 0: not yet, or not known */
struct run_record {
	uint64_t id;
	uid_t uid;
	pid_t keeper_pid;
	uint64_t keeper_start; /* clock ticks since boot */
	uint64_t queued_s, started_s, ended_s;
	bool is_ended;
	bool is_adopted;
	bool has_status; /* else nobody saw how it ended */
	uint32_t status; /* as from waitpid */
	char name[WIRE_NAME_MAX];
	char command[WIRE_COMMAND_MAX];
	char log[WIRE_PATH_MAX]; /* in the background; else "" */
};

struct run {
	struct list node;
	struct run_record record;
	struct list waiters; /* peers that asked WAIT */
	bool is_behind;      /* the store does not have it as it is */
};

int runs_new(struct daemon *d, struct runs **ret);
struct runs *runs_free(struct runs *runs);

/** runs_trim - the configuration is another one: forget what it does not keep any more */
void runs_trim(struct runs *runs);

/** runs_last_id - the highest id that the store knows of */
uint64_t runs_last_id(const struct runs *runs);

/** runs_begin - a job was registered; @log: "" in the foreground.  Without memory it has no run. */
void runs_begin(struct daemon *d, struct job *job, const char *log);

/** runs_may_again - may this user's waiting job have the id again that it had? */
bool runs_may_again(struct daemon *d, uint64_t id, uid_t uid);

/** runs_started - it was admitted */
void runs_started(struct job *job);

/** runs_ended - it ended, or gave up waiting; a second end is not looked at */
void runs_ended(struct job *job, bool has_status, int status);

/** runs_drop - its id was never told to anybody: forget it */
void runs_drop(struct job *job);

/** runs_store_behind - the store can be written again */
void runs_store_behind(struct daemon *d);

/** runs_by_id - NULL: not known, or forgotten */
struct run *runs_by_id(struct daemon *d, uint64_t id);

/** runs_wait - the answer to WAIT: JOB at once, and again when it has ended */
void runs_wait(struct daemon *d, struct peer *peer, const struct wire_message *msg);

#endif
