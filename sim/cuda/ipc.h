// SPDX-License-Identifier: Apache-2.0
#ifndef SIM_CUDA_IPC_H
#define SIM_CUDA_IPC_H

/* Between ipc.c and memory.c: memory that other processes may have open. Needs sim_lock(). */

#include "sim/cuda/memory.h"

/**
 * ipc_forget - the memory at @base is about to be unmapped; importers keep theirs
 * True: its charge is theirs, or nobody's, and must not be given back.
 */
bool ipc_forget(const void *base);

/** sim_alloc_region - the mapping that holds @alloc: its own, or the block it shares */
char *sim_alloc_region(const struct sim_alloc *alloc, size_t *ret_bytes);

#endif
