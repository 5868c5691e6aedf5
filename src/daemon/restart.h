// SPDX-License-Identifier: Apache-2.0
#ifndef DAEMON_RESTART_H
#define DAEMON_RESTART_H

/*
 * From a stored state back to the figures of before.
 *
 *   1. the first sample tells which GPUs there are; until then nobody is accepted.  A driver that
 *      takes its time is not waited for in silence: people are served, RUN waits for its cards
 *   2. the stored jobs are restored: what they were promised is theirs again
 *   3. keepers come back (RESUME) with the credit pages of their processes; shims come back with
 *      theirs at their next question; a second sample charges whatever NVML shows below a keeper
 *   4. until all keepers have come or are proved dead and that sample is in, at most
 *      RESTART_GRACE_NS, requests that could give room away (RUN, NEED) are put off, in order
 *
 * Without stored jobs all this is over at once.
 */

#include <stdbool.h>
#include <stdint.h>

struct daemon;
struct peer;
struct restart;
struct wire_message;

int restart_new(struct daemon *d, struct restart **ret);
struct restart *restart_free(struct restart *r);

/** restart_look - go on as far as possible; d->restart is NULL when all is done */
void restart_look(struct daemon *d, uint64_t now_ns);
uint64_t restart_due_ns(const struct daemon *d);

/** restart_put_off - keep a request for later: true; false: it is to be handled now */
bool restart_put_off(struct daemon *d, struct peer *peer, const struct wire_message *msg);

/** restart_closed - a connection ended: what it asked is forgotten */
void restart_closed(struct daemon *d, struct peer *peer);

#endif
