// SPDX-License-Identifier: Apache-2.0
/*
 * Stream-ordered allocation and memory pools; the account of a pool is in pools.h.
 *
 * An allocation on a stream that is being captured takes no memory: it becomes a node of the
 * graph, and hooks_graph.c charges the graph's launches.
 *
 * cuMemPoolSetAttribute and the getters pass: what they change is seen at the next settling.
 */
#include "base/cleanup.h"
#include "shim/capture.h"
#include "shim/devices.h"
#include "shim/graphs.h"
#include "shim/guard.h"
#include "shim/hooks.h"
#include "shim/pools.h"
#include "shim/real.h"
#include "shim/reserve.h"
#include "shim/reuse.h"
#include "shim/share.h"

/* one of the four entry points */
struct async_alloc {
	CUdeviceptr *dptr;
	size_t bytes;
	CUmemoryPool pool;
	CUstream stream;
	bool from_pool;
	bool per_thread;
};

static HOT CUresult driver_alloc(const struct async_alloc *a)
{
	if (a->from_pool && a->per_thread)
		return real_cuMemAllocFromPoolAsync_ptsz(a->dptr, a->bytes, a->pool, a->stream);
	if (a->from_pool)
		return real_cuMemAllocFromPoolAsync(a->dptr, a->bytes, a->pool, a->stream);
	if (a->per_thread)
		return real_cuMemAllocAsync_ptsz(a->dptr, a->bytes, a->stream);
	return real_cuMemAllocAsync(a->dptr, a->bytes, a->stream);
}

static HOT CUresult driver_free(CUdeviceptr dptr, CUstream stream, bool per_thread)
{
	return per_thread ? real_cuMemFreeAsync_ptsz(dptr, stream)
			  : real_cuMemFreeAsync(dptr, stream);
}

/* it was just made: nobody uses it.  The call that waits brings it home, a capture forbids that */
static void undo(const struct async_alloc *a, CUresult rc)
{
	if (rc != CUDA_SUCCESS)
		return;
	if (reuse_any())
		reuse_forget(*a->dptr);
	if (capture_any() || real_cuMemFree_v2(*a->dptr) != CUDA_SUCCESS)
		(void)driver_free(*a->dptr, a->stream, a->per_thread);
	*a->dptr = 0;
	pools_freed();
}

static HOT CUresult alloc_charged(const struct async_alloc *a, struct pool *p, int slot)
{
	unsigned attempts = 0;
	struct pool_call call = { .stream = a->stream,
				  .has_stream = true,
				  .per_thread = a->per_thread };
	CUresult rc;
	bool kept;

	do {
		*a->dptr = 0; /* as the driver does it first of all */
		if (!pools_begin(p, a->bytes, &call))
			return CUDA_ERROR_OUT_OF_MEMORY;
		rc = driver_alloc(a);
		if (rc == CUDA_SUCCESS && (a->bytes > REUSE_MIN_BYTES || reuse_any()))
			reuse_made(p, *a->dptr, a->bytes, a->stream, a->per_thread);
		kept = pools_end(&call);
		if (!kept) {
			undo(a, rc);
			pools_undone(&call);
		}
	} while (rc == CUDA_ERROR_OUT_OF_MEMORY && reserve_pause(slot, a->bytes, &attempts));
	return kept ? rc : CUDA_ERROR_OUT_OF_MEMORY;
}

static HOT CUresult alloc_async(const struct async_alloc *a)
{
	struct pool *p;
	CUgraph graph;
	CUresult rc;
	int slot;

	if (capture_graph(a->stream, a->per_thread, &graph)) {
		rc = driver_alloc(a);
		if (rc == CUDA_SUCCESS)
			graphs_note_alloc(graph, -1, a->bytes);
		return rc;
	}
	p = a->from_pool ? pools_of(a->pool, &slot)
			 : pools_current(a->stream, a->per_thread, &slot);
	if (slot == DEVICES_AWAY) {
		*a->dptr = 0;
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return p ? alloc_charged(a, p, slot) : driver_alloc(a);
}

static HOT CUresult free_async(CUdeviceptr dptr, CUstream stream, bool per_thread)
{
	struct block *b = reserve_take_out(BLOCK_LINEAR, dptr);
	CUresult rc = driver_free(dptr, stream, per_thread);

	reserve_freed(b, rc == CUDA_SUCCESS);
	if (rc != CUDA_SUCCESS)
		return rc;
	pools_freed();
	if (reuse_any())
		reuse_freed(dptr, stream, per_thread);
	return rc;
}

HOT CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
	struct async_alloc a = { .dptr = dptr, .bytes = bytesize, .stream = hStream };
	CUresult rc;

	if (!dptr || bytesize == 0 || !guard_enter())
		return driver_alloc(&a);
	rc = alloc_async(&a);
	guard_leave();
	return rc;
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
	struct async_alloc a = {
		.dptr = dptr, .bytes = bytesize, .stream = hStream, .per_thread = true
	};
	CUresult rc;

	if (!dptr || bytesize == 0 || !guard_enter())
		return driver_alloc(&a);
	rc = alloc_async(&a);
	guard_leave();
	return rc;
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
				 CUstream hStream)
{
	struct async_alloc a = {
		.dptr = dptr, .bytes = bytesize, .pool = pool, .stream = hStream, .from_pool = true
	};
	CUresult rc;

	if (!dptr || bytesize == 0 || !pool || !guard_enter())
		return driver_alloc(&a);
	rc = alloc_async(&a);
	guard_leave();
	return rc;
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
				      CUstream hStream)
{
	struct async_alloc a = { .dptr = dptr,
				 .bytes = bytesize,
				 .pool = pool,
				 .stream = hStream,
				 .from_pool = true,
				 .per_thread = true };
	CUresult rc;

	if (!dptr || bytesize == 0 || !pool || !guard_enter())
		return driver_alloc(&a);
	rc = alloc_async(&a);
	guard_leave();
	return rc;
}

HOT CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream)
{
	CUresult rc;

	if (!guard_enter())
		return real_cuMemFreeAsync(dptr, hStream);
	rc = free_async(dptr, hStream, false);
	guard_leave();
	return rc;
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr dptr, CUstream hStream)
{
	CUresult rc;

	if (!guard_enter())
		return real_cuMemFreeAsync_ptsz(dptr, hStream);
	rc = free_async(dptr, hStream, true);
	guard_leave();
	return rc;
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
	CUresult rc;

	if (!guard_enter())
		return real_cuMemPoolCreate(pool, poolProps);
	rc = real_cuMemPoolCreate(pool, poolProps);
	if (rc == CUDA_SUCCESS)
		pools_made(*pool, &poolProps->location);
	guard_leave();
	return rc;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
	struct pool *p;
	CUresult rc;

	if (!guard_enter())
		return real_cuMemPoolDestroy(pool);
	p = pools_take_out(pool);
	rc = real_cuMemPoolDestroy(pool);
	pools_destroyed(p, rc == CUDA_SUCCESS);
	if (rc == CUDA_SUCCESS)
		share_pool_ended(pool);
	guard_leave();
	return rc;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep)
{
	struct pool *p;
	CUresult rc;
	int slot;

	if (!guard_enter())
		return real_cuMemPoolTrimTo(pool, minBytesToKeep);
	rc = real_cuMemPoolTrimTo(pool, minBytesToKeep);
	p = rc == CUDA_SUCCESS ? pools_of(pool, &slot) : NULL;
	if (p)
		pools_settle(p);
	guard_leave();
	return rc;
}
