// SPDX-License-Identifier: Apache-2.0
#ifndef DAEMON_COMMANDS_H
#define DAEMON_COMMANDS_H

/*
 * The command lines of processes, for lists that people read.
 *
 * /proc/PID/cmdline lies in the memory of the process it tells of: reading it waits for that
 * process's lock of its address space, which a thread of it may hold for as long as it hangs in the
 * driver, and for its pages, which may lie in a file system that answers when it pleases.  So
 * threads of their own read it.  The loop waits a moment for an answer, no longer than
 * COMMANDS_WAIT_NS; a thread that does not come back is left behind, another one takes its place,
 * and when COMMANDS_THREADS of them hang, the name of the program is all there is to tell until one
 * is back.
 *
 * Called by the loop's thread only.
 */

#include <stddef.h>
#include <sys/types.h>

#define COMMANDS_WAIT_NS (20 * NS_PER_MS)
#define COMMANDS_THREADS 4

struct commands;

/** commands_new - the threads begin when they are needed; 0, -ENOMEM */
int commands_new(struct commands **ret);

/** commands_free - does not wait for a thread that hangs: what it uses goes when it comes back */
struct commands *commands_free(struct commands *c);

/**
 * commands_read - the command line of a process, or the name of its program in brackets
 * @buf: ended and printable in any case; "" when there is nothing to tell
 *
 * Returns 0; -EAGAIN: only the name, more may be told another time; -ESRCH; other -errno.
 */
int commands_read(struct commands *c, const char *proc_root, pid_t pid, char *buf, size_t size);

#endif
