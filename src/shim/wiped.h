// SPDX-License-Identifier: Apache-2.0
#ifndef SHIM_WIPED_H
#define SHIM_WIPED_H

/*
 * Memory that a forked child finds zeroed.
 *
 * Everything the memory shim knows of its process (connection, credit page, tracked blocks, locks)
 * lies in such memory, and zero means "nothing yet, unlocked".  So a child of fork or of a raw
 * clone starts afresh by itself, whatever its parent's other threads held at that moment; a child
 * of vfork shares the memory and is the parent.  The kernel does it (MADV_WIPEONFORK, Linux 4.14);
 * where it cannot, a pthread_atfork handler does, which a raw clone passes by.
 *
 * The memory is never given back.  No malloc.  Any thread; nothing blocks.
 */

#include <stddef.h>

/** wiped_map - @bytes of zeroes that a forked child sees as zeroes again; NULL: no memory */
void *wiped_map(size_t bytes);

/**
 * wiped_once - the memory that *@where points to, mapped by the first caller
 *
 * Threads may race: all get the same.  The pointer itself survives fork, its content does not.
 */
void *wiped_once(void *_Atomic *where, size_t bytes);

#endif
