// SPDX-License-Identifier: Apache-2.0
#ifndef SHIM_RESERVE_H
#define SHIM_RESERVE_H

/*
 * One allocation under account: reserve, call the driver, keep or undo.
 *
 *	struct reserve r;
 *
 *	if (!reserve_begin(&r, bytes))
 *		return CUDA_ERROR_OUT_OF_MEMORY;
 *	do
 *		rc = real_cuMemFoo(&p, bytes);
 *	while (rc == CUDA_ERROR_OUT_OF_MEMORY && reserve_again(&r));
 *	if (rc == CUDA_SUCCESS)
 *		reserve_keep(&r, BLOCK_LINEAR, p);
 *	else
 *		reserve_undo(&r);
 *
 * The charge and the record are there before the call, so nothing can fail after it.
 * Sizes: what the driver takes from the card, not what was asked (reserve_linear_bytes).
 * On the stack of one thread.
 */

#include "abi/cuda_types.h"
#include "shim/account.h"
#include "shim/blocks.h"

struct reserve {
	struct charge charge;
	struct block *block;
	CUcontext ctx;
	uint64_t bytes;
	unsigned attempts;
	int slot;
	bool is_moving;
};

/**
 * reserve_linear_bytes - what cuMemAlloc of @bytes takes from the card
 *
 * From 1 MiB on the driver maps whole pages of 2 MiB; smaller ones are cut out of such pages at
 * steps of 512 bytes, whose remainder shows up in NVML and is charged as overhead by allotd.
 * That is how the driver's allocator is known to behave; where a driver does otherwise, the
 * difference shows up in NVML as well.  Saturates.
 */
uint64_t reserve_linear_bytes(uint64_t bytes);

/** reserve_begin - @bytes on the current context's GPU; false: refused, and that was explained */
bool reserve_begin(struct reserve *r, uint64_t bytes);

/** reserve_begin_on - the same on slot @slot (devices_slot) for memory that belongs to @ctx */
bool reserve_begin_on(struct reserve *r, int slot, CUcontext ctx, uint64_t bytes);

/**
 * reserve_again - the driver itself ran out: is another attempt worth it?
 *
 * The card is full of what is not ours to command (unmanaged programs).  The charge is given back,
 * allotd told to look, and, as often as is sensible and never in a capture, the bytes are asked for
 * again: allotd makes them wait as --when-full says.  False: hand out the driver's error.
 */
bool reserve_again(struct reserve *r);

/** reserve_pause - the part of reserve_again that waits; @attempts starts at 0 */
bool reserve_pause(int slot, uint64_t bytes, unsigned *attempts);

/** reserve_resize - the memory turned out to be @bytes; false: more than the lease allows */
bool reserve_resize(struct reserve *r, uint64_t bytes);

/** reserve_keep - enter the memory into the records; returns nothing because it cannot fail */
void reserve_keep(struct reserve *r, uint32_t kind, uint64_t key);

/** reserve_made - the driver has answered; part of reserve_keep and reserve_undo */
void reserve_made(struct reserve *r);

/** reserve_undo - the driver did not make it (or it is freed again) */
void reserve_undo(struct reserve *r);

/**
 * Freeing: reserve_take_out before the driver call, then reserve_freed with its verdict, which
 * gives the charge back or puts the record back.  A record of NULL (not ours) is fine in both.
 */
struct block *reserve_take_out(uint32_t kind, uint64_t key);
void reserve_freed(struct block *b, bool freed);

#endif
