// SPDX-License-Identifier: Apache-2.0
#ifndef DAEMON_HELPER_H
#define DAEMON_HELPER_H

/*
 * Starting a helper of allotd that talks to the driver (allot-sampler, allot-probe): descriptor 3
 * of the child is its end of a SOCK_SEQPACKET pair, its environment is allotd's without what would
 * put our own shim between it and the driver, no signal is blocked.
 */

#include <sys/types.h>

#define HELPER_FD 3

/**
 * helper_spawn - start @program
 * @ret_sock: our end, the caller's; @ret_pidfd too; the caller reaps
 * Returns 0 or -errno.
 */
int helper_spawn(const char *program, char *const argv[], int *ret_sock, pid_t *ret_pid,
		 int *ret_pidfd);

#endif
