// SPDX-License-Identifier: Apache-2.0
/*
 * cuCtxSetLimit: a larger stack, heap or printf buffer takes memory of the card.
 *
 * As measured (driver 580.159, docs/benchmarks.md): the stack of every thread that can run at once
 * is taken within the call, and given back within it when it shrinks; the heap is taken at the
 * first launch of a kernel that uses one, the printf buffer at the first module that does.  So what
 * exceeds the limit that the context began with is charged here, before the driver is asked, as
 * elastic; a limit that the job has no room for fails as on a full card.  What the context began
 * with is part of what a context costs.
 *
 * A record a limit: key is the context, count the value it began with.
 */
#include "base/size.h"
#include "shim/capture.h"
#include "shim/devices.h"
#include "shim/guard.h"
#include "shim/hooks.h"
#include "shim/real.h"
#include "shim/reserve.h"

/* local memory of a thread, as NVIDIA's programming guide states it for every GPU */
#define STACK_MAX_BYTES (512 * KIB)

static uint32_t kind_of(CUlimit limit)
{
	switch ((unsigned)limit) {
	case CU_LIMIT_STACK_SIZE:
		return BLOCK_STACK;
	case CU_LIMIT_MALLOC_HEAP_SIZE:
		return BLOCK_HEAP;
	case CU_LIMIT_PRINTF_FIFO_SIZE:
		return BLOCK_PRINTF;
	default:
		return BLOCK_FREE;
	}
}

/* what is more than any GPU has the driver refuses, with an error of its own */
static bool is_charged(CUlimit limit, size_t value)
{
	uint32_t kind = kind_of(limit);

	return kind != BLOCK_FREE && (kind != BLOCK_STACK || value <= STACK_MAX_BYTES);
}

/* how often the driver takes what the limit says */
static uint64_t times_of(uint32_t kind)
{
	int sms = 0, threads = 0;
	CUdevice dev;

	if (kind != BLOCK_STACK)
		return 1;
	if (real_cuCtxGetDevice(&dev) != CUDA_SUCCESS ||
	    real_cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, dev) !=
		    CUDA_SUCCESS ||
	    real_cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR,
				      dev) != CUDA_SUCCESS)
		return 1;
	return (uint64_t)sms * (uint64_t)threads;
}

static uint64_t cost_of(uint32_t kind, uint64_t value, uint64_t first)
{
	uint64_t bytes;

	if (!size_mul(size_sat_sub(value, first), times_of(kind), &bytes))
		return UINT64_MAX;
	return bytes < MIB ? bytes : size_round_up(bytes, 2 * MIB);
}

/* the record, out of the table; a fresh one for the first change.  NULL: the driver will refuse */
static struct block *take_out(uint32_t kind, CUlimit limit, int slot, CUcontext ctx)
{
	struct block *b = blocks_take(kind, (uintptr_t)ctx);
	size_t first;

	if (b || real_cuCtxGetLimit(&first, limit) != CUDA_SUCCESS)
		return b;
	b = blocks_reserve();
	if (!b)
		return NULL;
	b->kind = kind;
	b->key = (uintptr_t)ctx;
	b->ctx = ctx;
	b->count = first;
	b->charge = (struct charge){ .slot = slot };
	return b;
}

/* the charge is made as large as @bytes; false: no room, that was explained */
static bool grow(struct charge *charge, uint64_t bytes)
{
	unsigned flags = capture_forbids_wait() ? ACCOUNT_NO_WAIT : 0;
	struct charge more;

	if (bytes <= charge->bytes)
		return true;
	if (!account_take(charge->slot, bytes - charge->bytes, flags, &more, NULL))
		return false;
	account_mark(&more, CHARGE_ELASTIC);
	charge->bytes += more.bytes;
	charge->kind = more.kind;
	return true;
}

static CUresult set(CUlimit limit, size_t value, int slot, CUcontext ctx)
{
	uint32_t kind = kind_of(limit);
	struct block *b = take_out(kind, limit, slot, ctx);
	CUresult rc = CUDA_ERROR_OUT_OF_MEMORY;
	uint64_t before, bytes;

	if (!b)
		return real_cuCtxSetLimit(limit, value);
	before = b->charge.bytes;
	bytes = cost_of(kind, value, b->count);
	if (grow(&b->charge, bytes))
		rc = real_cuCtxSetLimit(limit, value);
	if (rc != CUDA_SUCCESS)
		bytes = before;
	if (b->charge.bytes > bytes)
		account_give(account_split(&b->charge, b->charge.bytes - bytes));
	reserve_freed(blocks_insert(b), true);
	return rc;
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
	CUcontext ctx;
	CUresult rc;
	int slot;

	if (!guard_enter())
		return real_cuCtxSetLimit(limit, value);
	slot = devices_current(&ctx);
	rc = slot >= 0 && is_charged(limit, value) ? set(limit, value, slot, ctx)
						   : real_cuCtxSetLimit(limit, value);
	if (rc == CUDA_SUCCESS)
		account_settle(slot);
	guard_leave();
	return rc;
}
