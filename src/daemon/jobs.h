// SPDX-License-Identifier: Apache-2.0
#ifndef DAEMON_JOBS_H
#define DAEMON_JOBS_H

/*
 * Jobs and their keepers.  A job begins with RUN; admitted, its asker becomes its keeper, whose
 * pidfd is watched.  When the command has ended (ENDED, or the keeper died) the promise goes back;
 * the job itself is forgotten when its keeper is gone, nothing of it holds memory, and no nested
 * job is left.  A keeper's connection may come and go: RESUME after a restart of allotd.
 */

#include "daemon/registry.h"

struct err;
struct ledger_event;
struct peer;
struct wire_message;

void jobs_run(struct daemon *d, struct peer *peer, const struct wire_message *msg);
void jobs_started(struct daemon *d, struct peer *peer, const struct wire_message *msg);
void jobs_ended(struct daemon *d, struct peer *peer, const struct wire_message *msg);
void jobs_resume(struct daemon *d, struct peer *peer, const struct wire_message *msg);
void jobs_kept(struct daemon *d, struct peer *peer, const struct wire_message *msg, int *fds,
	       unsigned n_fds);
void jobs_all_kept(struct daemon *d, struct peer *peer, const struct wire_message *msg);

/** jobs_closed - a keeper's connection ended */
void jobs_closed(struct daemon *d, struct peer *peer);

/* what the ledger says is due */
void jobs_admitted(struct daemon *d, struct job *job);
void jobs_timed_out(struct daemon *d, struct job *job);

/** jobs_watch_keeper - its death ends the job; 0 or -errno */
int jobs_watch_keeper(struct job *job);

/** jobs_end_command - the command is over: the promise goes back */
void jobs_end_command(struct job *job);

struct ledger_job_spec;
struct wire_run;

/** jobs_to_ledger - the specification in the ledger's words; @m: of a new job, else NULL */
void jobs_to_ledger(const struct job *job, const struct wire_run *m, uint64_t now_ns,
		    struct ledger_job_spec *to);

/** jobs_restore - a job from the store, its GPUs known; 0, or -errno when it cannot be had back */
int jobs_restore(struct daemon *d, const struct job_spec *spec);

/** jobs_look - forget @job (and those it is nested in) when nothing of it is left */
void jobs_look(struct job *job);

/** jobs_look_all - at every job */
void jobs_look_all(struct daemon *d);

/**
 * jobs_cancel - end a job: its keeper is told, or the askers' wait ends, or its processes are told
 * Returns how many were told.
 */
unsigned jobs_cancel(struct daemon *d, struct job *job, int signal, const char *by);

/** jobs_tell_waiting - those who wait for admission hear it when their reason changed */
void jobs_tell_waiting(struct daemon *d);

/** jobs_store - write @job's present specification; a failure is the store's to tell */
void jobs_store(struct job *job);

/** jobs_store_members - write who belongs to the jobs where that changed */
void jobs_store_members(struct daemon *d);

/** jobs_store_all - write everything anew, after the store could not be written for a while */
void jobs_store_all(struct daemon *d);

#endif
