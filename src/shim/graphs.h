// SPDX-License-Identifier: Apache-2.0
#ifndef SHIM_GRAPHS_H
#define SHIM_GRAPHS_H

/*
 * The memory of graphs: how many bytes a graph's allocation nodes ask for, carried from the graph
 * to what is instantiated from it.  Physical memory appears when such a graph is instantiated,
 * uploaded or launched, in the device's graph pool (pools.h), and is charged there.  A program
 * without such graphs pays one load at each of these calls.  Any thread.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "abi/cuda_types.h"

/**
 * graphs_note_alloc - an allocation node of @bytes was added to @graph
 * @dev: where, or -1: the current context's device
 */
void graphs_note_alloc(CUgraph graph, CUdevice dev, uint64_t bytes);

/* has this process made any graph with memory in it? */
extern _Atomic uint32_t graphs_have_memory __attribute__((visibility("hidden")));

static inline bool graphs_matter(void)
{
	return __builtin_expect(
		atomic_load_explicit(&graphs_have_memory, memory_order_relaxed) != 0, 0);
}

#endif
