// SPDX-License-Identifier: Apache-2.0
#ifndef DAEMON_SCOPE_H
#define DAEMON_SCOPE_H

/*
 * A job's own cgroup: which processes are its, also when their keeper is dead, and a way to end
 * them all at once.
 *
 * Who makes it:
 *   systemd, where it runs   a transient scope allot-job-ID-TAG.scope in the keeper's present
 *                            slice, by the system's manager or the user's own (manager.h)
 *   else allotd itself       a folder of that name below the cgroup that the keeper is in, where
 *                            version 2 may be written; no controller is switched on
 *   else                     nobody: the chain of parents and the known members must do
 * TAG comes from the state folder: two allotds never use the same name.
 *
 * Admission is not held up.  The keeper begins at once; it is moved meanwhile (some milliseconds),
 * and then whatever it has started by then, until nothing of it is outside.  Children are born in
 * their parent's cgroup, so this comes to an end.  Until then, and for whoever forks faster, the
 * chain of parents says the same.
 *
 * Who is whose (registry.h): first the chain up to a living keeper or a known process, since
 * parentage cannot be changed while a cgroup can, by whoever may write there; then the cgroup; then
 * the session.  A nested job stays in the cgroup of the outer one and is told apart by its keeper:
 * ending the outer cgroup ends all of it.  An adopted program (adopt.h) is left where it is.
 *
 * Its end: a job lives as long as its keeper; after a keeper that was killed, as long as one of its
 * processes uses the GPU.  They go on, charged and held to the limit; nothing that computes is lost
 * with a small process.  What is left in the cgroup when the job is over gets SIGTERM and, two
 * seconds later, SIGKILL; also what runs there as another user (sudo), which the keeper cannot
 * reach.  A cancel that the keeper does not carry out ends the same way.  Without a cgroup, what is
 * left and uses no GPU is nobody's.
 *
 * What it means for people:
 *   limits, accounts   a scope is made in the slice of before, a folder below the cgroup of before:
 *                      memory and CPU limits of the user go on to count.  A keeper is taken out of
 *                      a login's scope only, and of one that limits nothing itself: never out of a
 *                      service, a Slurm step or a container, whose limits it would leave and whose
 *                      end it would miss; those jobs have no cgroup of their own
 *   logout             the scope is not the session's: KillUserProcesses= does not reach it under
 *                      the system's allotd.  Under a user's own it ends with the user's manager
 *   out of memory      systemd-oomd and the kernel's memory.oom.group act on the job alone, and not
 *                      on the terminal it was started from
 *   systemctl          shows each job with its CPU and memory; `systemctl stop` of it ends the job
 *
 * Path and the kernel's id are in the store: after a restart a cgroup counts only when both are
 * the same.  What an earlier allotd left behind is ended at the start.  An allotd that a keeper
 * started again was born in that job's cgroup and leaves it first.
 *
 * One thread: the loop's.  What waits for the kernel is the mover's (mover.h).
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct daemon;
struct job;
struct scopes;

/** scopes_new - 0, also where there is no way to make any; -errno */
int scopes_new(struct daemon *d, struct scopes **ret);
struct scopes *scopes_free(struct scopes *s);

/** scopes_restore - those in the store, after the jobs: of jobs that are back, or to be ended */
void scopes_restore(struct daemon *d);

/** scopes_text - by whom they are made, or why not; whether they are */
bool scopes_text(const struct scopes *s, char *buf, size_t size);

/** scope_begin - make one for a job that was admitted; it comes when it comes, or never */
void scope_begin(struct job *job);

/** scope_over - the job is forgotten: end what is left in it, and take it away */
void scope_over(struct job *job);

/** scope_signal - tell all of it; false when the job has none */
bool scope_signal(struct job *job, int signal);

/** scope_path - the job's cgroup, from the root of the hierarchy; "": none, or not yet */
const char *scope_path(const struct job *job);

/** scope_whose - the job in whose cgroup @pid is, or NULL */
struct job *scope_whose(struct daemon *d, pid_t pid);

#endif
