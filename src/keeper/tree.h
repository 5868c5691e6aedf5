// SPDX-License-Identifier: Apache-2.0
#ifndef KEEPER_TREE_H
#define KEEPER_TREE_H

/*
 * The tree of processes below a keeper.  The keeper is a subreaper, so whatever forks twice comes
 * back to it and stays in the tree.  A process is signalled through a pidfd after its place in the
 * tree was read again: a number that was reused meanwhile is left alone.
 *
 * allotd is nobody's: one that this keeper started again hangs below it, since it put itself into
 * the background there, and neither the end of the command nor a cancel may take it along.
 */

#include <stdint.h>
#include <sys/types.h>

/** struct tree_spared - a descendant that with all below it does not belong to the tree */
struct tree_spared {
	pid_t pid;      /* 0: none */
	uint64_t start; /* its start time as tree_start_time tells it; 0: whoever has the pid */
};

#define TREE_SPARED 2

struct tree {
	pid_t root; /* the keeper itself, not signalled */
	struct tree_spared spared[TREE_SPARED];
};

/** tree_start_time - with the pid, who a process is; 0 when it is gone */
uint64_t tree_start_time(pid_t pid);

/**
 * tree_signal - send @sig (0: none) to every descendant
 * @ret_denied: how many belong to somebody else and refuse it (also with @sig 0); may be NULL
 * Returns how many descendants there are (zombies apart), -errno when /proc cannot be read.
 */
int tree_signal(const struct tree *t, int sig, unsigned *ret_denied);

/** tree_kill - stop and kill every descendant, once; returns as tree_signal */
int tree_kill(const struct tree *t, unsigned *ret_denied);

#endif
