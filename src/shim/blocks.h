// SPDX-License-Identifier: Apache-2.0
#ifndef SHIM_BLOCKS_H
#define SHIM_BLOCKS_H

/*
 * What this process holds, by address or handle: one record for everything that was charged and
 * will be given back one day, with the charge (slot and bytes) and the context it lives in.
 *
 * Invariants. A record is reserved before the driver is called, so that nothing can fail once the
 * memory is there.  It is taken out before the driver frees, and put back if the driver would not:
 * so an address that the driver hands out again at once never meets its old record.  Should a key
 * turn up that is in the table already, the old record is dead (freed behind our back) and is
 * handed to the inserter, who gives its charge back.  What is not in the table was not allocated
 * through us and is the driver's affair.
 *
 * One table: chains in a fixed array of lines, each with its lock, records from slabs.  All
 * in memory that fork wipes (shim/wiped.h), none from malloc, never given back.  Locks are held
 * for a few instructions, never across a call of the driver or of a callback that blocks.
 * Any thread.
 */

#include <stdint.h>

#include "shim/account.h"

enum block_kind {
	BLOCK_FREE = 0,
	BLOCK_LINEAR,     /* key: device pointer; cuMemAlloc and its like */
	BLOCK_ARRAY,      /* key: CUarray */
	BLOCK_MIPMAP,     /* key: CUmipmappedArray */
	BLOCK_HANDLE,     /* key: allocation handle; count: its references; other: the memory */
	BLOCK_MAPPING,    /* key: address; count: bytes; other: the memory, NULL for foreign */
	BLOCK_PHYSICAL,   /* not in the table; count: handles and mappings that keep it */
	BLOCK_SHARED,     /* not in the table, `other` of exported memory: its key (share.h) */
	BLOCK_IMPORTED,   /* as BLOCK_PHYSICAL, of somebody else's memory */
	BLOCK_PIECE,      /* key: device pointer of a pool that was imported; other: that pool */
	BLOCK_OPENED,     /* key: address, pool or external memory of somebody else's */
	BLOCK_GRAPH,      /* key: CUgraph; count: bytes of its allocation nodes */
	BLOCK_GRAPH_EXEC, /* key: CUgraphExec; count: as above */
	BLOCK_CONTEXT,    /* key: CUcontext; charge.slot: its GPU */
	BLOCK_POOL,       /* key: CUmemoryPool; other: struct pool */
	BLOCK_STACK,      /* key: CUcontext, so the next two; count: the limit it began with */
	BLOCK_HEAP,
	BLOCK_PRINTF,
	BLOCK_MODULE,  /* key: CUmodule */
	BLOCK_LIBRARY, /* key: CUlibrary */
	BLOCK_ASYNC,   /* key: device pointer; count: bytes; other: struct pool (reuse.h) */
};

struct block {
	struct block *next; /* in a chain, or in a list handed to a caller */
	uint64_t key;
	uint32_t kind;
	uint32_t home; /* whose free list it came from */
	struct charge charge;
	void *ctx; /* CUcontext it dies with; NULL: none */
	uint64_t count;
	void *other;
};

/** blocks_reserve - a zeroed record of our own; NULL: no memory */
struct block *blocks_reserve(void);

/** blocks_discard - give up a record that is in no table */
void blocks_discard(struct block *b);

/**
 * blocks_insert - enter @b, whose kind, key, charge… are set
 * Returns the dead record that had the same kind and key (now the caller's), or NULL.
 */
struct block *blocks_insert(struct block *b);

/** blocks_take - the record of @kind and @key, out of the table and the caller's; NULL: unknown */
struct block *blocks_take(uint32_t kind, uint64_t key);

/**
 * blocks_visit - call @visit with the record under its lock
 * @visit: may change count, charge, ctx, other; must not call anything that blocks
 * Returns false when there is none.
 */
bool blocks_visit(uint32_t kind, uint64_t key, void (*visit)(struct block *b, void *arg),
		  void *arg);

/** blocks_take_context - all records that die with context @ctx, as a list by `next` */
struct block *blocks_take_context(void *ctx);

/** blocks_find - the first record of @kind that @matches; called under locks.  Slow: looks at all
 */
bool blocks_find(uint32_t kind, bool (*matches)(struct block *b, void *arg), void *arg);

#endif
