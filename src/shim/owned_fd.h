// SPDX-License-Identifier: Apache-2.0
#ifndef SHIM_OWNED_FD_H
#define SHIM_OWNED_FD_H

/*
 * A descriptor of ours inside a program that may close or reuse any number: kept together with the
 * identity (device, inode) of what it named, and used or closed only while it still names that.
 * Zeroed memory is "none".  One thread at a time.
 */

#include <stdbool.h>
#include <stdint.h>

struct owned_fd {
	int fd_plus_1; /* 0: none */
	uint64_t dev;
	uint64_t ino;
};

/** owned_fd_set - take over @fd; what was there before is forgotten, not closed */
void owned_fd_set(struct owned_fd *o, int fd);

/** owned_fd_get - the descriptor while it is still ours; -1 otherwise, and @o is emptied */
int owned_fd_get(struct owned_fd *o);

/** owned_fd_close - close it if it is still ours, and empty @o */
void owned_fd_close(struct owned_fd *o);

#endif
