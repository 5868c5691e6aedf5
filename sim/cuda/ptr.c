// SPDX-License-Identifier: Apache-2.0
/* From an address to what is there: for copies, and for cuPointerGetAttribute. */
#include <string.h>

#include "sim/cuda/context.h"
#include "sim/cuda/ipc.h"
#include "sim/cuda/pool.h"
#include "sim/cuda/ranges.h"
#include "sim/cuda/va.h"

#define TOKENS_BYTES 16 /* sizeof(CUDA_POINTER_ATTRIBUTE_P2P_TOKENS) */

static bool is_host(const struct sim_alloc *alloc)
{
	return alloc->kind == SIM_ALLOC_HOST || alloc->kind == SIM_ALLOC_REGISTERED;
}

bool sim_ptr_find(CUdeviceptr ptr, struct sim_ptr *ret)
{
	struct sim_alloc *alloc = sim_alloc_find(ptr);

	if (!alloc || alloc->kind == SIM_ALLOC_ARRAY)
		return false;
	if (alloc->kind == SIM_ALLOC_RESERVED)
		return sim_vmm_find(ptr, ret);
	/* a small allocation has more behind it than was asked; that is not the program's */
	if (ptr - alloc->base >= alloc->bytes && alloc->kind != SIM_ALLOC_DEVICE)
		return false;
	*ret = (struct sim_ptr){
		.alloc = alloc,
		.device = is_host(alloc) ? NULL : alloc->device,
		.ctx = alloc->ctx,
		.host = (void *)(uintptr_t)ptr,
		.rest_bytes = size_sat_sub(alloc->bytes, ptr - alloc->base),
		.base = alloc->base,
		.bytes = alloc->bytes,
		.is_readable = true,
		.is_writable = !(alloc->kind == SIM_ALLOC_REGISTERED &&
				 alloc->flags & CU_MEMHOSTREGISTER_READ_ONLY),
	};
	return true;
}

CUresult sim_ptr_check(CUdeviceptr ptr, size_t bytes, bool is_write)
{
	struct sim_ptr found;

	while (bytes) {
		size_t part;

		if (!sim_ptr_find(ptr, &found) || !found.rest_bytes)
			return CUDA_ERROR_INVALID_VALUE;
		if (is_write ? !found.is_writable : !found.is_readable)
			return CUDA_ERROR_INVALID_VALUE;
		part = size_min(bytes, found.rest_bytes);
		if (found.alloc->kind == SIM_ALLOC_MANAGED)
			sim_managed_touch(found.alloc, ptr - found.alloc->base, part);
		ptr += part;
		bytes -= part;
		/* only mappings in one reservation continue each other */
		if (bytes && found.alloc->kind != SIM_ALLOC_RESERVED)
			return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

/* does a kernel of @ctx reach what is @at? */
static bool is_in_reach(CUcontext ctx, const struct sim_ptr *at, bool is_write)
{
	uint64_t mine = (uint64_t)1 << ctx->device->ordinal;

	switch (at->alloc->kind) {
	case SIM_ALLOC_RESERVED:
		return (is_write ? at->writers : at->readers) & mine;
	case SIM_ALLOC_POOL:
		return at->device == ctx->device || !at->device ||
		       (is_write ? at->alloc->pool->writers : at->alloc->pool->readers) & mine;
	case SIM_ALLOC_DEVICE:
	case SIM_ALLOC_MODULE:
		return at->device == ctx->device || sim_peer_is_enabled(ctx, at->ctx);
	case SIM_ALLOC_MANAGED:
	case SIM_ALLOC_HOST:
	case SIM_ALLOC_REGISTERED:
	case SIM_ALLOC_IPC:
	case SIM_ALLOC_EXTERNAL:
	case SIM_ALLOC_GRAPH:
	case SIM_ALLOC_ARRAY:
		break;
	}
	return true;
}

CUresult sim_ptr_reach(CUcontext ctx, CUdeviceptr ptr, size_t bytes, bool is_write)
{
	CUresult result = sim_ptr_check(ptr, bytes, is_write);
	struct sim_ptr found;

	while (!result && bytes) {
		size_t part;

		if (!sim_ptr_find(ptr, &found) || !is_in_reach(ctx, &found, is_write))
			return CUDA_ERROR_INVALID_VALUE;
		part = size_min(bytes, found.rest_bytes);
		ptr += part;
		bytes -= part;
	}
	return result;
}

void sim_range_end(struct sim_alloc *alloc)
{
	if (!alloc)
		return;
	switch (alloc->kind) {
	case SIM_ALLOC_POOL:
		sim_pool_range_end(alloc);
		break;
	case SIM_ALLOC_IPC:
		sim_ipc_range_end(alloc);
		break;
	case SIM_ALLOC_EXTERNAL:
		sim_external_range_end(alloc);
		break;
	case SIM_ALLOC_HOST:
		va_unmap((void *)(uintptr_t)alloc->base, alloc->mapped_bytes);
		range_free(alloc);
		break;
	case SIM_ALLOC_REGISTERED:
	case SIM_ALLOC_RESERVED:
		range_free(alloc);
		break;
	case SIM_ALLOC_GRAPH:
		(void)sim_exec_graph_free(alloc); /* one that is not in use ends with its node */
		break;
	case SIM_ALLOC_DEVICE:
	case SIM_ALLOC_MANAGED:
	case SIM_ALLOC_MODULE:
	case SIM_ALLOC_ARRAY:
		sim_alloc_free(alloc);
		break;
	}
}

/* Attributes. */

/* what the driver maps as a whole: a block, a chunk of a pool, a VMM mapping */
static size_t mapping_of(const struct sim_ptr *at, CUdeviceptr *ret_base)
{
	const struct sim_alloc *alloc = at->alloc;
	CUdeviceptr base = at->base;
	size_t bytes = at->bytes;

	if (alloc->kind == SIM_ALLOC_POOL) {
		bytes = sim_pool_mapping(alloc, &base);
	} else if (alloc->kind == SIM_ALLOC_DEVICE) {
		base = (CUdeviceptr)(uintptr_t)sim_alloc_region(alloc, &bytes);
	} else if (alloc->kind == SIM_ALLOC_HOST || alloc->kind == SIM_ALLOC_MANAGED) {
		bytes = size_round_up(bytes, SIM_PAGE_BYTES);
	}
	if (ret_base)
		*ret_base = base;
	return bytes;
}

/* Some attributes need a pointer of the driver's, others answer for any. */
static CUresult get_known(void *data, CUpointer_attribute attribute, CUdeviceptr ptr,
			  const struct sim_ptr *at)
{
	const struct sim_alloc *alloc = at->alloc;
	bool is_vmm = alloc->kind == SIM_ALLOC_RESERVED;
	bool has_host = is_host(alloc) || alloc->kind == SIM_ALLOC_MANAGED;

	switch ((unsigned)attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*(CUcontext *)data = at->ctx;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*(unsigned *)data = is_host(alloc) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*(CUdeviceptr *)data = ptr;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		*(void **)data = has_host ? at->host : NULL;
		return has_host ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		*(int *)data = alloc->sync_memops;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		*(unsigned long long *)data = alloc->id;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		*(unsigned *)data = alloc->kind == SIM_ALLOC_MANAGED;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		if (!at->device && !at->ctx)
			return CUDA_ERROR_INVALID_VALUE;
		*(int *)data = at->device ? at->device->ordinal : at->ctx->device->ordinal;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		*(unsigned *)data = alloc->kind == SIM_ALLOC_DEVICE;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*(CUdeviceptr *)data = alloc->base;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*(size_t *)data = alloc->bytes;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*(unsigned *)data = 1;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		*(cuuint64_t *)data = is_vmm ? at->handle_types : 0;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
		*(unsigned *)data = alloc->kind == SIM_ALLOC_DEVICE;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		*(CUmemAccess_flags *)data = at->is_writable   ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
					     : at->is_readable ? CU_MEM_ACCESS_FLAGS_PROT_READ
							       : CU_MEM_ACCESS_FLAGS_PROT_NONE;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		*(CUmemoryPool *)data = (CUmemoryPool)(void *)alloc->pool;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		*(size_t *)data = mapping_of(at, NULL);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		mapping_of(at, data);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		*(unsigned long long *)data = alloc->id;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
		*(unsigned *)data = alloc->kind == SIM_ALLOC_DEVICE;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
		if (is_host(alloc))
			return CUDA_ERROR_INVALID_VALUE;
		memset(data, 0, TOKENS_BYTES);
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

static CUresult pointer_get(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	struct sim_ptr at;

	if (!data)
		return CUDA_ERROR_INVALID_VALUE;
	/* what a graph has reserved is no memory before a launch */
	if (!sim_ptr_find(ptr, &at) ||
	    (at.alloc->kind == SIM_ALLOC_GRAPH && !sim_exec_graph_is_used(at.alloc)))
		return CUDA_ERROR_INVALID_VALUE;
	return get_known(data, attribute, ptr, &at);
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	return SIM_CALL(cuPointerGetAttribute, SIM_CTX | SIM_LOCK,
			pointer_get(data, attribute, ptr), "attribute=%d ptr=%#llx", (int)attribute,
			ptr);
}

/* what the plural form writes for a pointer that is none of the driver's, or lacks the attribute */
static CUresult write_default(void *data, CUpointer_attribute attribute)
{
	switch ((unsigned)attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		memset(data, 0, 8);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)data = CU_DEVICE_INVALID;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
	case CU_POINTER_ATTRIBUTE_MAPPED:
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
	case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
		memset(data, 0, 4);
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

static CUresult pointer_get_all(unsigned count, const CUpointer_attribute *attributes, void **data,
				CUdeviceptr ptr)
{
	if (!count || !attributes || !data)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < count; i++) {
		if (!data[i])
			return CUDA_ERROR_INVALID_VALUE;
		if (pointer_get(data[i], attributes[i], ptr)) {
			CUresult result = write_default(data[i], attributes[i]);

			if (result)
				return result;
		}
	}
	return CUDA_SUCCESS;
}

CUresult cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes,
				void **data, CUdeviceptr ptr)
{
	return SIM_CALL(cuPointerGetAttributes, SIM_CTX | SIM_LOCK,
			pointer_get_all(numAttributes, attributes, data, ptr), "count=%u ptr=%#llx",
			numAttributes, ptr);
}

static CUresult pointer_set(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	struct sim_ptr at;

	if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !sim_ptr_find(ptr, &at))
		return CUDA_ERROR_INVALID_VALUE;
	if (at.alloc->kind == SIM_ALLOC_MANAGED || at.alloc->kind == SIM_ALLOC_REGISTERED)
		return CUDA_ERROR_INVALID_VALUE;
	at.alloc->sync_memops = *(const int *)value != 0;
	return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	return SIM_CALL(cuPointerSetAttribute, SIM_CTX | SIM_LOCK,
			pointer_set(value, attribute, ptr), "attribute=%d ptr=%#llx",
			(int)attribute, ptr);
}

/* DMA buffers need a kernel driver: every question is checked, and none answered. */

static CUresult range_handle(int *fd, CUdeviceptr ptr, size_t bytes, CUmemRangeHandleType type,
			     unsigned long long flags)
{
	if (!fd || flags & ~(unsigned long long)CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE ||
	    !bytes || type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || ptr % 4096 || bytes % 4096)
		return CUDA_ERROR_INVALID_VALUE;
	*fd = -1;
	return sim_ptr_check(ptr, bytes, false) ? CUDA_ERROR_INVALID_VALUE
						: CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr dptr, size_t size,
				       CUmemRangeHandleType handleType, unsigned long long flags)
{
	return SIM_CALL(cuMemGetHandleForAddressRange, SIM_CTX | SIM_LOCK,
			range_handle(handle, dptr, size, handleType, flags),
			"dptr=%#llx bytes=%zu flags=%llu", dptr, size, flags);
}
