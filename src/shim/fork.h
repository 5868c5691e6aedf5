// SPDX-License-Identifier: Apache-2.0
#ifndef SHIM_FORK_H
#define SHIM_FORK_H

/*
 * Which process is this? A number that changes when memory was copied for a new process.
 *
 * The kernel clears one page of ours in every child that got a copy of our memory
 * (MADV_WIPEONFORK): fork, and clone without CLONE_VM, also called raw. vfork, posix_spawn and
 * threads share the memory and keep the number, as they should: they are the same process to the
 * driver. No pthread_atfork (a raw clone does not call it), no getpid on the way.
 */

#include <stdint.h>

/**
 * fork_generation - never 0; the same for all threads of a process, another one in a child
 *
 * A load or two once the page is there. Whoever keeps something that a child must not use (a
 * socket, a credit page, a lock) keeps this number beside it and compares. Any thread, also in a
 * child right after fork; takes no lock, allocates nothing on the heap; errno is kept.
 */
uint64_t fork_generation(void);

#endif
