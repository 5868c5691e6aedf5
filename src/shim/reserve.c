// SPDX-License-Identifier: Apache-2.0
#include "shim/reserve.h"
#include "base/cleanup.h"

#include <errno.h>
#include <time.h>

#include "base/clock.h"
#include "base/size.h"
#include "shim/capture.h"
#include "shim/devices.h"
#include "shim/pools.h"
#include "shim/real.h"
#include "shim/say.h"
#include "shim/share.h"

#define ATTEMPTS_MAX   4                 /* after the driver's own out of memory */
#define FIRST_PAUSE_NS (100 * NS_PER_MS) /* for the sampler to look; doubles */

HOT uint64_t reserve_linear_bytes(uint64_t bytes)
{
	return size_round_up(bytes, bytes >= MIB ? 2 * MIB : 512);
}

/*
 * The charge, by whatever helps: credit or allotd; then what our own pools keep without using it
 * (outside a capture, where the driver must be left alone).
 */
static HOT bool take_charge(struct reserve *r, unsigned flags)
{
	struct refusal refusal;
	bool forbidden = capture_forbids_wait();

	if (forbidden)
		flags |= ACCOUNT_NO_WAIT;
	if (forbidden || !pools_any())
		return account_take(r->slot, r->bytes, flags, &r->charge, NULL);
	if (account_take(r->slot, r->bytes, flags | ACCOUNT_QUIET | ACCOUNT_NO_WAIT, &r->charge,
			 &refusal))
		return true;
	pools_trim(r->slot);
	return account_take(r->slot, r->bytes, flags, &r->charge, NULL);
}

static HOT bool take(struct reserve *r, unsigned flags)
{
	bool taken = take_charge(r, flags);

	if (taken && r->charge.slot >= 0) {
		account_moves(r->slot, r->bytes);
		r->is_moving = true;
	}
	return taken;
}

HOT void reserve_made(struct reserve *r)
{
	if (r->is_moving)
		account_moved(r->slot, r->bytes);
	r->is_moving = false;
}

HOT bool reserve_begin_on(struct reserve *r, int slot, CUcontext ctx, uint64_t bytes)
{
	*r = (struct reserve){ .slot = slot, .ctx = ctx, .bytes = bytes, .charge = CHARGE_NONE };
	if (slot == DEVICES_AWAY)
		return false;
	r->block = blocks_reserve();
	if (!r->block) {
		say_refusal("out of host memory for a record of GPU memory");
		return false;
	}
	if (slot < 0 || take(r, 0))
		return true;
	blocks_discard(r->block);
	r->block = NULL;
	return false;
}

HOT bool reserve_begin(struct reserve *r, uint64_t bytes)
{
	CUcontext ctx;
	int slot = devices_current(&ctx);

	return reserve_begin_on(r, slot, ctx, bytes);
}

/* is the card full, or does the driver refuse for a reason of its own? */
static bool card_is_full(uint64_t bytes)
{
	size_t free_bytes, total_bytes;

	return real_cuMemGetInfo_v2(&free_bytes, &total_bytes) != CUDA_SUCCESS ||
	       free_bytes < bytes;
}

static void pause_ns(uint64_t ns)
{
	struct timespec ts = { .tv_sec = (time_t)(ns / NS_PER_S),
			       .tv_nsec = (long)(ns % NS_PER_S) };
	int saved_errno = errno;

	(void)nanosleep(&ts, NULL);
	errno = saved_errno;
}

bool reserve_pause(int slot, uint64_t bytes, unsigned *attempts)
{
	if (slot < 0 || *attempts >= ATTEMPTS_MAX || capture_forbids_wait() || !card_is_full(bytes))
		return false;
	account_settle(slot);
	pause_ns(FIRST_PAUSE_NS << (*attempts)++);
	return true;
}

bool reserve_again(struct reserve *r)
{
	reserve_made(r);
	account_give(r->charge);
	r->charge = CHARGE_NONE;
	return reserve_pause(r->slot, r->bytes, &r->attempts) && take(r, ACCOUNT_ASK);
}

bool reserve_resize(struct reserve *r, uint64_t bytes)
{
	struct charge more;

	if (r->charge.slot < 0)
		return true;
	if (bytes <= r->charge.bytes) {
		account_give(account_split(&r->charge, r->charge.bytes - bytes));
		return true;
	}
	if (!account_take(r->slot, bytes - r->charge.bytes,
			  capture_forbids_wait() ? ACCOUNT_NO_WAIT : 0, &more, NULL))
		return false;
	if (more.slot >= 0)
		r->charge.bytes += more.bytes;
	return true;
}

HOT void reserve_keep(struct reserve *r, uint32_t kind, uint64_t key)
{
	struct block *b = r->block;

	reserve_made(r);
	b->kind = kind;
	b->key = key;
	b->ctx = r->ctx;
	b->charge = r->charge;
	r->block = NULL;
	reserve_freed(blocks_insert(b), true);
}

void reserve_undo(struct reserve *r)
{
	reserve_made(r);
	account_give(r->charge);
	r->charge = CHARGE_NONE;
	blocks_discard(r->block);
	r->block = NULL;
}

HOT struct block *reserve_take_out(uint32_t kind, uint64_t key)
{
	return blocks_take(kind, key);
}

/* memory that others may have open, or that others own, is allotd's to tell apart */
static HOT void end_charge(struct block *b)
{
	struct block *share = NULL;

	if (b->kind == BLOCK_LINEAR || b->kind == BLOCK_PHYSICAL || b->kind == BLOCK_IMPORTED)
		share = b->other;
	if (share && b->kind == BLOCK_IMPORTED)
		share_close(share_record_key(share), false);
	else if (share)
		share_freed(share_record_key(share), b->charge, true);
	else if (b->kind == BLOCK_OPENED)
		share_close(share_record_key(b), true);
	else
		account_give(b->charge);
	blocks_discard(share);
}

HOT void reserve_freed(struct block *b, bool freed)
{
	if (!b)
		return;
	if (!freed) {
		reserve_freed(blocks_insert(b), true);
		return;
	}
	end_charge(b);
	blocks_discard(b);
}
