// SPDX-License-Identifier: Apache-2.0
#ifndef DAEMON_DROPS_H
#define DAEMON_DROPS_H

/*
 * Closing descriptors that a peer sent and nobody wants.
 *
 * close() tells the file system of the file (flush), and where that is another user's program
 * (FUSE) or a server that is away (NFS), it waits for the answer.  So threads of their own close
 * what is not known to be harmless.  When they all hang, what is sent goes into a queue, and when
 * that is full, no descriptors are taken from anybody until one is back (drops_is_full): a
 * descriptor that was never taken up is let go by the kernel without a word to its file system.
 *
 * Called by the loop's thread only.
 */

#include <stdbool.h>

#define DROPS_THREADS 4
#define DROPS_QUEUE   64

struct drops;

/** drops_new - the threads begin when they are needed; NULL: no memory */
struct drops *drops_new(void);

/** drops_free - does not wait for a thread that hangs */
struct drops *drops_free(struct drops *d);

/** drops_close - close @fd; at once where that cannot wait */
void drops_close(struct drops *d, int fd);

/** drops_is_full - better take no more of them */
bool drops_is_full(struct drops *d);

#endif
