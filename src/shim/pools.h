// SPDX-License-Identifier: Apache-2.0
#ifndef SHIM_POOLS_H
#define SHIM_POOLS_H

/*
 * Memory pools: charged by what they reserve, not by what is asked of them.
 *
 * A pool takes memory from the card in pieces, keeps it after a free and returns it when it likes
 * (at a synchronisation, a trim, never).  So an allocation is covered by a provisional charge that
 * bounds the pool's growth, then the driver is called, then the pool is asked what it reserves
 * (RESERVED_MEM_CURRENT) and the difference goes back.  Per pool:
 *
 *   held    = what was taken from the account for it
 *   pending = the part of it that belongs to calls which have not been settled yet
 *   reserved ≤ held always, and held = reserved whenever nobody is within a call
 *
 * Settling: the answer of the driver is applied under the pool's lock, but the driver is asked
 * without it, so answers can come in the wrong order: each question draws a ticket, an answer is
 * applied only if no later question was applied before, and whoever came too late asks again.
 * Held goes down to reserved + pending of the others, never below.
 *
 * When a provisional charge is refused: what our pools keep without using it is trimmed (never in
 * a capture), so that all room goes back to the account.  What room is left then lies in pieces
 * that are partly used, or is on its way back: up to REUSE_MIN_BYTES an allocation may find its
 * place there; a larger one only in a block that was given back on its own stream (reuse.h), and
 * where that is not known it waits up to a second for the stream to come that far.  Only the driver
 * knows for sure.  Such a call is made with less than its bound charged, in a turn that allotd
 * gives out (account_turn): one a process, and never more of a job than it bears beyond its limit.
 * What the call took is charged, or freed and trimmed, before the turn ends.  In a capture there is
 * no waiting for a turn; where it is not free at once, the call is refused.
 *
 * What can still take a job over its limit, for as long as the call and its undoing last:
 *   - a turn: a piece of 32 MiB, three in a job at most (LEDGER_OVERDRAFT_BYTES);
 *   - a large block believed to fit which the driver does not take from where it was given back
 *     (another stream took it by the driver's own leave, REUSE_ALLOW_…): by its size;
 *   - a call whose connection broke with allotd's restart: the new one knows nothing of its turn.
 * What can still be refused although the driver might have served it without growing: a large block
 * out of what another stream gave back and has not yet come to.
 *
 * A graph that was launched on a stream keeps its memory there until the next trim: launched again
 * on the same stream it takes none, and nothing is charged ahead (pools_epoch).
 *
 * After frees the pool shrinks behind our back at some later synchronisation: the hooks of the
 * synchronising calls settle while frees are recent (pools_synced: one load otherwise).
 *
 * The memory of graphs is such a pool, one a device.  Pools in host memory and imported ones cost
 * nothing.  A pool that was destroyed with allocations in it gives its charge back at once; what
 * lives on is seen by NVML.
 *
 * Locks: one a pool, held for a few instructions, never across a call of the driver or a wait.
 * A walk over all pools keeps each from being destroyed meanwhile by a count of its users.
 * All in memory that fork wipes.  Any thread.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "abi/cuda_types.h"
#include "shim/account.h"

struct pool;

/** pools_current - the pool that an allocation on @stream takes from; NULL: not for us to charge */
struct pool *pools_current(CUstream stream, bool per_thread, int *ret_slot);

/** pools_of - the record of an explicit pool, made if need be; NULL: not for us to charge */
struct pool *pools_of(CUmemoryPool handle, int *ret_slot);

/** pools_graph - the pool of the graphs of device @dev */
struct pool *pools_graph(CUdevice dev, int *ret_slot);

/** pools_made - cuMemPoolCreate (@location as given) or an import (NULL) made @handle */
void pools_made(CUmemoryPool handle, const CUmemLocation *location);

/* an allocation from a pool that is under way */
struct pool_call {
	CUstream stream; /* set by the caller, where there is one: */
	bool has_stream, per_thread;
	struct pool *pool;
	uint64_t provisional;     /* charged for its growth */
	struct account_turn turn; /* … where that is less than it may grow by */
	uint64_t unpaid;          /* it grew by so much more */
	uint64_t moving_bytes;    /* told to allotd (account_moves) */
};

/**
 * pools_begin - cover an allocation of @bytes from @p
 * @call: its stream filled in, or zeroed
 * True: the driver may be called, and pools_end must follow.  False: refused, that was explained.
 */
bool pools_begin(struct pool *p, uint64_t bytes, struct pool_call *call);

/**
 * pools_end - settle after the driver call
 * False: the pool grew over the limit.  What was allocated must be freed again, and pools_undone
 * must follow in any case.
 */
bool pools_end(struct pool_call *call);

/** pools_undone - return the growth that could not be charged, as far as the driver does it now */
void pools_undone(struct pool_call *call);

/** pools_epoch - changes whenever @p gave memory back; never 0 */
uint64_t pools_epoch(struct pool *p);

/** pools_mark - the mark of a pool's exports: the one it has, else @fresh; 0: it costs nothing */
uint64_t pools_mark(CUmemoryPool handle, uint64_t fresh, int *ret_slot);

/** pools_settle - apply what @p reserves now */
void pools_settle(struct pool *p);

/** pools_take_out, pools_destroyed - around cuMemPoolDestroy; @p may be NULL */
struct pool *pools_take_out(CUmemoryPool handle);
void pools_destroyed(struct pool *p, bool destroyed);

/** pools_reset - the primary context of @dev goes, and its pools' memory with it */
void pools_reset(CUdevice dev);

/** pools_trim - return to the driver what our pools on @slot do not use.  Calls the driver */
void pools_trim(int slot);

/* since the last frees, pools may shrink at this many further synchronisations */
#define POOLS_SYNCS 8
extern _Atomic uint32_t pools_dirty __attribute__((visibility("hidden")));
extern _Atomic uint32_t pools_count __attribute__((visibility("hidden")));

static inline bool pools_any(void)
{
	return atomic_load_explicit(&pools_count, memory_order_relaxed) > 0;
}

/** pools_freed - stream-ordered memory may have been freed */
static inline void pools_freed(void)
{
	if (pools_any())
		atomic_store_explicit(&pools_dirty, POOLS_SYNCS, memory_order_relaxed);
}

void pools_synced_slow(void);

/** pools_synced - the host has waited for the GPU */
static inline void pools_synced(void)
{
	if (__builtin_expect(atomic_load_explicit(&pools_dirty, memory_order_relaxed) != 0, 0))
		pools_synced_slow();
}

#endif
