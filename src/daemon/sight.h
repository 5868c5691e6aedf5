// SPDX-License-Identifier: Apache-2.0
#ifndef DAEMON_SIGHT_H
#define DAEMON_SIGHT_H

/*
 * Process numbers as the asker knows them.  allotd knows the numbers of its own PID namespace, and
 * the kernel tells those of its peers in them, wherever they live.  What a peer is told, and what
 * it says, are numbers of *its* namespace: a container's programs see themselves, and nobody else.
 *
 * Where the asker lives in our namespace, which is found out once a connection, nothing is read.
 * One thread: the loop's; a few small files of /proc for each number otherwise.
 */

#include <sys/types.h>

struct daemon;
struct peer;

/** sight_pid - the number that @pid has for @peer; 0 when it has none there, or is gone */
pid_t sight_pid(struct daemon *d, struct peer *peer, pid_t pid);

/** sight_child - our number of the child of @peer that @peer calls @seen; 0: it has none */
pid_t sight_child(struct daemon *d, struct peer *peer, pid_t seen);

#endif
