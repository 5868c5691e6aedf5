// SPDX-License-Identifier: Apache-2.0
#ifndef DAEMON_LATE_H
#define DAEMON_LATE_H

/*
 * Processes whose ATTACH is answered and for whom something is left that nobody waits for
 * (life_finish).  It is done, a few processes a turn, when the loop has nothing else to do; a loop
 * that never gets there does it after LATE_NS.  One thread: the loop's.
 */

#include <stdint.h>

struct daemon;
struct late;
struct process;

int late_new(struct daemon *d, struct late **ret);

/** late_free - what is left is done first, so that keepers hold all pages when we end */
struct late *late_free(struct late *late);

/** late_add - finish @p later; process_free takes it out again */
void late_add(struct late *late, struct process *p);

/** late_look - finish those that are overdue; when to look again, or LEDGER_NEVER */
uint64_t late_look(struct late *late, uint64_t now_ns);

#endif
