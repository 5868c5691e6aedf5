// SPDX-License-Identifier: Apache-2.0
#ifndef CLIENT_START_H
#define CLIENT_START_H

/*
 * Starting a user's own allotd: by `allot run` when none answers, and by a keeper whose allotd
 * died.  Many may want to at the same moment: one holds the lock beside the socket, the others
 * wait for it and then find the daemon running.  A machine's service is never started from here.
 */

#include <stdint.h>

struct err;

/** struct daemon_command - how a running allotd was started, so that it can be started again */
struct daemon_command {
	char exe[1024];
	char args[8192]; /* NUL-separated, as in /proc/PID/cmdline, argv[0] included */
	unsigned args_len;
};

/**
 * daemon_command_default - the allotd that belongs to this program, for the user's own @socket
 *
 * Its words name configuration, socket and state: started again from another environment it is the
 * same one. Returns 0; -ENOENT; -ENAMETOOLONG.
 */
int daemon_command_default(const char *socket, struct daemon_command *ret, struct err *err);

/**
 * daemon_command_of_peer - the command line of the process behind a connected socket
 * Returns 0; -EPERM when it is not ours (another uid) and so must not be started by us; -errno.
 */
int daemon_command_of_peer(int sock, struct daemon_command *ret);

/**
 * daemon_start - start it unless one answers on @socket meanwhile, and wait until it listens
 * Returns 0; -ETIMEDOUT; -errno with a text (allotd's own words are on stderr already).
 */
int daemon_start(const struct daemon_command *cmd, const char *socket, uint64_t timeout_ns,
		 struct err *err);

#endif
