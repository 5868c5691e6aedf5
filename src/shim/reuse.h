// SPDX-License-Identifier: Apache-2.0
#ifndef SHIM_REUSE_H
#define SHIM_REUSE_H

/*
 * What a stream may take again from a pool without the pool's growing.
 *
 * A large block (above REUSE_MIN_BYTES) that was given back on a stream may be taken again by an
 * allocation on the same stream at once, whatever the stream still has to do.  At the limit that
 * is the one case in which a large allocation is known to fit into what its pool keeps, so these
 * blocks are remembered: while they live (BLOCK_ASYNC in the table of blocks), and, when they were
 * given back, as bytes per pool and stream.  Whatever is allocated on that stream from that pool
 * afterwards is subtracted: it may have come out of that very block.
 *
 * What is remembered is a guess from above: the pool may have returned the memory to the card
 * meanwhile.  So the caller also asks the driver how much the pool has unused.
 *
 * Costs a process without large blocks two loads an allocation.  In memory that fork wipes.
 * Any thread; locks for a few instructions, no call of the driver.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "abi/cuda_types.h"

struct pool;

#define REUSE_MIN_BYTES ((uint64_t)32 << 20)

/** reuse_made - @bytes were allocated at @at, from @p, on @stream */
void reuse_made(struct pool *p, CUdeviceptr at, uint64_t bytes, CUstream stream, bool per_thread);

/** reuse_freed - the block at @at was given back on @stream */
void reuse_freed(CUdeviceptr at, CUstream stream, bool per_thread);

/** reuse_forget - the block at @at is gone for good: no stream may take it before a sync */
void reuse_forget(CUdeviceptr at);

/** reuse_stream_gone - another stream may get the same handle */
void reuse_stream_gone(CUstream stream);

/** reuse_pool_gone - the same of a pool's record */
void reuse_pool_gone(const struct pool *p);

/** reuse_may_take - is there a block of @bytes for @stream, as far as we know? */
bool reuse_may_take(const struct pool *p, uint64_t bytes, CUstream stream, bool per_thread);

extern _Atomic uint32_t reuse_blocks __attribute__((visibility("hidden")));
extern _Atomic uint32_t reuse_places __attribute__((visibility("hidden")));

/** reuse_any - is there anything to be remembered or to forget? */
static inline bool reuse_any(void)
{
	return __builtin_expect((atomic_load_explicit(&reuse_blocks, memory_order_relaxed) |
				 atomic_load_explicit(&reuse_places, memory_order_relaxed)) != 0,
				0);
}

#endif
