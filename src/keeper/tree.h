// SPDX-License-Identifier: Apache-2.0
#ifndef KEEPER_TREE_H
#define KEEPER_TREE_H

/*
 * The tree of processes below a keeper.  The keeper is a subreaper, so whatever forks twice comes
 * back to it and stays in the tree.  A process is signalled through a pidfd after its place in the
 * tree was read again: a number that was reused meanwhile is left alone.
 */

#include <stdbool.h>
#include <sys/types.h>

/**
 * tree_signal - send @sig to every descendant of @root, not to @root itself
 * @ret_denied: how many belong to somebody else and refused it; may be NULL
 * Returns how many descendants there are (zombies apart), -errno when /proc cannot be read.
 */
int tree_signal(pid_t root, int sig, unsigned *ret_denied);

/** tree_kill - stop and kill every descendant, once; returns as tree_signal */
int tree_kill(pid_t root);

#endif
