// SPDX-License-Identifier: Apache-2.0
#ifndef DAEMON_DEATHS_H
#define DAEMON_DEATHS_H

/*
 * The pidfds of all processes, on one epoll of their own below the loop: a crowd that dies at once
 * would else be looked at again, all of it, after each single event (as in peers.h).
 *
 * Level-triggered: a process that died before it was added is told in the next turn.  Each is told
 * once.  One thread: the loop's.
 */

#include <systemd/sd-event.h>

struct deaths;
struct process;

/** deaths_new - @dead is called for each; it must not free any process */
int deaths_new(sd_event *event, void (*dead)(struct process *p), struct deaths **ret);
struct deaths *deaths_free(struct deaths *deaths);

/** deaths_watch - 0 or -errno; harmless when it is watched already */
int deaths_watch(struct deaths *deaths, struct process *p);

/** deaths_unwatch - before its pidfd is closed */
void deaths_unwatch(struct deaths *deaths, struct process *p);

#endif
