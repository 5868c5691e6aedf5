// SPDX-License-Identifier: Apache-2.0
#ifndef DAEMON_LIFE_H
#define DAEMON_LIFE_H

/*
 * The life of a process of a job, from its first sign to the moment when NVML shows nothing of it:
 *
 *   ATTACH                                  it gets a page and the job's doorbell
 *   nothing else to do, 100 ms at most      finished: watched, identified, its keeper has the page
 *   last connection closed, pidfd alive     detached: charged at NVML's figure
 *   ATTACH without its page, same process   exec: a fresh page; the old charge is carried over
 *   pidfd                                   dead: nobody waits for it; charged until NVML is at 0
 *   GONE                                    forgotten
 *
 * Every function keeps registry, ledger, page and event sources in step, or leaves all as it was.
 */

#include "daemon/registry.h"

struct err;

/**
 * life_begin - a process that attaches for the first time
 * @pidfd: taken over on success
 * Returns 0; -errno with a text.
 */
int life_begin(struct job *job, pid_t pid, uint64_t start_ticks, int *pidfd, struct process **ret,
	       struct err *err);

/** life_replace - @fresh is the same process: what @old was charged goes over; @old is freed */
void life_replace(struct process *old, struct process *fresh);

/** life_exec - the same process without its page: *@p becomes the fresh one; on failure it stays */
int life_exec(struct process **p, struct err *err);

/**
 * life_adopt - a process from before a restart, with the page it or its keeper kept
 *
 * It begins detached.  @pidfd: taken over on success.  The page's claim is taken as far as the
 * ledger allows, and NVML corrects it.
 */
int life_adopt(struct job *job, pid_t pid, uint64_t start_ticks, int *pidfd, int page_fd,
	       struct process **ret, struct err *err);

/** life_seen - a process that never attached but holds memory: detached from the beginning */
int life_seen(struct job *job, pid_t pid, uint64_t start_ticks, int *pidfd, struct process **ret);

/**
 * life_finish - what nobody waits for after ATTACH
 *
 * The pidfd is watched (it is level-triggered: one that died meanwhile is reported at once), the
 * start time is found out, and the keeper gets the page.  Harmless when done already, or when the
 * keeper is away: it asks again then.  Returns 0; -errno when it cannot be watched now.
 */
int life_finish(struct process *p);

/** life_has_page - is @fd the page that @p has already? */
bool life_has_page(const struct process *p, int fd);

/**
 * life_bell - make sure that there is a doorbell, and that @p counts as one that has it
 *
 * A job has one for all its processes: a ring means that some of them returned something.  Returns
 * the descriptor, which stays the job's, or -errno.
 */
int life_bell(struct process *p);

/** life_detach - its last connection is closed */
void life_detach(struct process *p);

/** life_dead - its pidfd says so: nobody waits for it, and NVML will say when its memory is gone */
void life_dead(struct process *p);

/** life_end - forget it in registry and ledger; whether its job goes on is the caller's affair */
void life_end(struct process *p);

#endif
