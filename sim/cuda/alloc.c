// SPDX-License-Identifier: Apache-2.0
/* cuMemAlloc and its kin, cuMemFree, cuMemGetInfo, cuMemGetAddressRange. */
#include <stdlib.h>

#include "sim/cuda/ranges.h"

#define PITCH_STEP 512

static CUresult mem_alloc(CUcontext ctx, CUdeviceptr *dptr, size_t bytes, enum sim_alloc_kind kind)
{
	enum sim_use use = kind == SIM_ALLOC_MANAGED ? SIM_USE_MANAGED : SIM_USE_ALLOC;
	struct sim_alloc *alloc;
	CUresult result;

	if (!dptr || !bytes)
		return CUDA_ERROR_INVALID_VALUE;
	result = sim_exec_unsafe_call();
	if (!result)
		result = sim_alloc_new(ctx, bytes, kind, use, &alloc);
	if (!result)
		*dptr = alloc->base;
	return result;
}

/* Results are cleared first of all, whatever comes of the call, as the driver does it. */
static void clear_pointer(CUdeviceptr *p)
{
	if (p)
		*p = 0;
}

static void clear_size(size_t *p)
{
	if (p)
		*p = 0;
}

CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
	clear_pointer(dptr);
	return SIM_CALL(cuMemAlloc_v2, SIM_CTX | SIM_LOCK,
			mem_alloc(call.ctx, dptr, bytesize, SIM_ALLOC_DEVICE), "bytes=%zu",
			bytesize);
}

/* without the lock: the allocation goes through the exported call */
static CUresult alloc_pitch(CUdeviceptr *dptr, size_t *pitch, size_t width, size_t height,
			    unsigned element)
{
	uint64_t bytes;

	if (!dptr || !pitch || !width || !height)
		return CUDA_ERROR_INVALID_VALUE;
	if (element != 4 && element != 8 && element != 16)
		return CUDA_ERROR_INVALID_VALUE;
	*pitch = size_round_up(width, PITCH_STEP);
	if (!size_mul(*pitch, height, &bytes))
		return CUDA_ERROR_INVALID_VALUE;
	return cuMemAlloc_v2(dptr, bytes);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height,
			    unsigned int ElementSizeBytes)
{
	clear_pointer(dptr);
	clear_size(pPitch);
	return SIM_CALL(cuMemAllocPitch_v2, SIM_CTX,
			alloc_pitch(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes),
			"width=%zu height=%zu element=%u", WidthInBytes, Height, ElementSizeBytes);
}

static CUresult alloc_managed(CUcontext ctx, CUdeviceptr *dptr, size_t bytes, unsigned flags)
{
	CUresult result;

	if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)
		return CUDA_ERROR_INVALID_VALUE;
	result = mem_alloc(ctx, dptr, bytes, SIM_ALLOC_MANAGED);
	if (!result)
		sim_alloc_find(*dptr)->flags = flags;
	return result;
}

CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
	clear_pointer(dptr);
	return SIM_CALL(cuMemAllocManaged, SIM_CTX | SIM_LOCK,
			alloc_managed(call.ctx, dptr, bytesize, flags), "bytes=%zu flags=%u",
			bytesize, flags);
}

/* Freeing. */

static bool can_free(const struct sim_alloc *alloc, CUdeviceptr dptr)
{
	if (!alloc || alloc->base != dptr || alloc->is_freed)
		return false;
	return alloc->kind == SIM_ALLOC_DEVICE || alloc->kind == SIM_ALLOC_MANAGED ||
	       alloc->kind == SIM_ALLOC_POOL || alloc->kind == SIM_ALLOC_GRAPH ||
	       alloc->kind == SIM_ALLOC_EXTERNAL;
}

static CUresult mem_free(CUcontext ctx, CUdeviceptr dptr)
{
	struct sim_alloc *alloc = sim_alloc_find(dptr);
	CUcontext owner;
	CUresult result = sim_exec_unsafe_call();

	if (result || !dptr)
		return result;
	if (!can_free(alloc, dptr))
		return CUDA_ERROR_INVALID_VALUE;
	/* work that is under way may use it: free waits, and meanwhile somebody may be faster */
	owner = alloc->ctx ? alloc->ctx : ctx;
	result = owner ? sim_exec_ctx_sync(owner) : CUDA_SUCCESS;
	if (result)
		return result;
	alloc = sim_alloc_find(dptr);
	if (!can_free(alloc, dptr))
		return CUDA_ERROR_INVALID_VALUE;
	if (alloc->kind == SIM_ALLOC_GRAPH)
		return sim_exec_graph_free(alloc);
	sim_range_end(alloc);
	if (owner)
		sim_pool_sync_point(owner->device);
	return CUDA_SUCCESS;
}

/* any thread may free, with a context or without */
CUresult cuMemFree_v2(CUdeviceptr dptr)
{
	return SIM_CALL(cuMemFree_v2, SIM_MAY_CTX | SIM_LOCK, mem_free(call.ctx, dptr),
			"dptr=%#llx", dptr);
}

/* Asking. */

static CUresult get_info(const struct CUctx_st *ctx, size_t *free_bytes, size_t *total_bytes)
{
	struct sim_memory memory;

	sim_state_memory(sim.state, ctx->device->index, &memory);
	if (free_bytes)
		*free_bytes = memory.free_bytes;
	if (total_bytes)
		*total_bytes = sim_device_total_bytes(ctx->device);
	return CUDA_SUCCESS;
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
	clear_size(free_bytes);
	clear_size(total_bytes);
	return SIM_CALL(cuMemGetInfo_v2, SIM_CTX | SIM_LOCK,
			get_info(call.ctx, free_bytes, total_bytes), "");
}

static CUresult address_range(CUdeviceptr *base, size_t *bytes, CUdeviceptr dptr)
{
	struct sim_ptr ptr;

	if (!sim_ptr_find(dptr, &ptr) || !ptr.is_readable)
		return CUDA_ERROR_NOT_FOUND;
	if (base)
		*base = ptr.base;
	if (bytes)
		*bytes = ptr.bytes;
	return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
	clear_pointer(pbase);
	clear_size(psize);
	return SIM_CALL(cuMemGetAddressRange_v2, SIM_CTX | SIM_LOCK,
			address_range(pbase, psize, dptr), "dptr=%#llx", dptr);
}
