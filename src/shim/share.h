// SPDX-License-Identifier: Apache-2.0
#ifndef SHIM_SHARE_H
#define SHIM_SHARE_H

/*
 * What this process tells allotd of memory that it shares with others (policy/share.h says what
 * comes of it): which memory others may open, what of other people's it has open, and which of
 * its own it freed.
 *
 * Both sides name the memory by a key that they come to know by themselves:
 *   CUDA IPC, fabric handles    a hash of the handle's bytes, which the importer got from the owner
 *   descriptors (VMM, pools)    a number on the open file (shim/fd_mark.h)
 * Without a key (no mark could be written) nothing is said, and NVML settles it, within a second.
 *
 * An import is told before the driver makes it and a close after it is done, so that allotd never
 * thinks a share closed that is open.  The charge of freed memory goes back only as far as allotd
 * says that nobody has it open.
 *
 * Never waits for an allotd that is away: then nothing is said.  No lock; any thread; errno is
 * kept.
 */

#include "abi/cuda_types.h"
#include "shim/blocks.h"
#include "wire/wire.h"

/** share_key_of - of a handle's bytes */
struct wire_share_key share_key_of(const void *bytes, size_t n);

/** share_key_of_mark - of a mark on a descriptor */
struct wire_share_key share_key_of_mark(uint64_t mark);

/** share_new_mark - a mark that nobody else has; 0: none is to be had */
uint64_t share_new_mark(void);

/** share_out - others may open @bytes of ours on @slot; @flags: WIRE_SHARE_*; is it kept track of?
 */
bool share_out(int slot, struct wire_share_key key, uint64_t bytes, unsigned flags);

/** share_in - we are about to open it; false: allotd does not know it, and need not be told more */
bool share_in(struct wire_share_key key, uint64_t bytes);

/** share_ask - the same; what is nobody's is to be taken of the lease and said by share_out */
struct wire_share_known share_ask(struct wire_share_key key, uint64_t bytes);

/** share_close - we closed it, or could not open it; @all: as often as it was opened */
void share_close(struct wire_share_key key, bool all);

/** share_freed - give back @charge, less what importers have open; @last: nothing more is shared */
void share_freed(struct wire_share_key key, struct charge charge, bool last);

/*
 * Records.  Memory of our own that was exported (BLOCK_LINEAR, BLOCK_PHYSICAL) has a record with
 * its key as `other` (BLOCK_SHARED), and so has the memory of an imported handle (BLOCK_IMPORTED);
 * what else was opened is a record in the table (BLOCK_OPENED).
 */

/** share_pool_ended - a pool was destroyed: what was opened of it is closed */
void share_pool_ended(CUmemoryPool pool);

/** share_record - a record of @kind that holds @key; NULL: no memory */
struct block *share_record(uint32_t kind, struct wire_share_key key);
struct wire_share_key share_record_key(const struct block *b);

#endif
