// SPDX-License-Identifier: Apache-2.0
/* The entry points of stream-ordered allocation. */
#include "sim/cuda/pool.h"
#include "sim/cuda/ranges.h"

static struct sim_pool *from_handle(CUmemoryPool handle)
{
	struct sim_pool *pool = (struct sim_pool *)(void *)handle;

	return pool && pool_is_known(pool) ? pool : NULL;
}

static CUmemoryPool to_handle(struct sim_pool *pool)
{
	return (CUmemoryPool)(void *)pool;
}

static struct sim_pool *current_pool(struct sim_device *device)
{
	return device->current_pool ? device->current_pool : pool_default(device);
}

/* Allocating. */

/* first of all, whatever comes of the call, as the driver does it */
static void clear(CUdeviceptr *dptr)
{
	if (dptr)
		*dptr = 0;
}

static CUresult alloc_async(CUdeviceptr *dptr, size_t bytes, struct sim_pool *pool, CUstream stream,
			    bool is_per_thread)
{
	struct sim_stream_info info;
	CUresult result;

	if (!dptr)
		return CUDA_ERROR_INVALID_VALUE;
	result = sim_exec_stream_info(stream, is_per_thread, &info);
	if (result || !bytes)
		return result;
	if (!pool)
		pool = current_pool(info.ctx->device);
	if (!pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (info.is_capturing)
		return sim_exec_capture_alloc(stream, is_per_thread, pool, bytes, dptr);
	result = sim_exec_unsafe_call();
	if (result)
		return result;
	return pool_alloc(pool, bytes, info.id, dptr);
}

CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
	clear(dptr);
	return SIM_CALL(cuMemAllocAsync, SIM_CTX | SIM_LOCK,
			alloc_async(dptr, bytesize, NULL, hStream, false), "bytes=%zu", bytesize);
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
	clear(dptr);
	return SIM_CALL(cuMemAllocAsync_ptsz, SIM_CTX | SIM_LOCK,
			alloc_async(dptr, bytesize, NULL, hStream, true), "bytes=%zu", bytesize);
}

static CUresult alloc_from(CUdeviceptr *dptr, size_t bytes, CUmemoryPool handle, CUstream stream,
			   bool is_per_thread)
{
	struct sim_pool *pool = from_handle(handle);

	if (!pool)
		return CUDA_ERROR_INVALID_VALUE;
	return alloc_async(dptr, bytes, pool, stream, is_per_thread);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
				 CUstream hStream)
{
	clear(dptr);
	return SIM_CALL(cuMemAllocFromPoolAsync, SIM_CTX | SIM_LOCK,
			alloc_from(dptr, bytesize, pool, hStream, false), "bytes=%zu", bytesize);
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
				      CUstream hStream)
{
	clear(dptr);
	return SIM_CALL(cuMemAllocFromPoolAsync_ptsz, SIM_CTX | SIM_LOCK,
			alloc_from(dptr, bytesize, pool, hStream, true), "bytes=%zu", bytesize);
}

/* cuMemAlloc's memory may be freed so as well; then the stream is waited for, as the driver does */
static CUresult free_other(struct sim_alloc *alloc, CUcontext ctx)
{
	CUdeviceptr dptr = alloc->base;
	CUresult result;

	if (alloc->kind != SIM_ALLOC_DEVICE && alloc->kind != SIM_ALLOC_MANAGED)
		return CUDA_ERROR_INVALID_VALUE;
	result = sim_exec_ctx_sync(ctx);
	if (result)
		return result;
	alloc = sim_alloc_find(dptr);
	if (!alloc || alloc->base != dptr)
		return CUDA_ERROR_INVALID_VALUE;
	sim_range_end(alloc);
	return CUDA_SUCCESS;
}

static CUresult free_async(CUdeviceptr dptr, CUstream stream, bool is_per_thread)
{
	struct sim_alloc *alloc = sim_alloc_find(dptr);
	struct sim_stream_info info;
	CUresult result = sim_exec_stream_info(stream, is_per_thread, &info);

	if (result || !dptr)
		return result;
	if (info.is_capturing)
		return sim_exec_capture_free(stream, is_per_thread, dptr);
	if (!alloc || alloc->base != dptr)
		return CUDA_ERROR_INVALID_VALUE;
	if (alloc->kind == SIM_ALLOC_GRAPH)
		return sim_exec_graph_free(alloc);
	if (alloc->kind != SIM_ALLOC_POOL)
		return free_other(alloc, info.ctx);
	/* not 0, even when the stream is idle: only a wait of the host shows that it is over */
	pool_give_back(alloc, info.id, size_max(info.tail_ns, 1));
	return CUDA_SUCCESS;
}

CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream)
{
	return SIM_CALL(cuMemFreeAsync, SIM_CTX | SIM_LOCK, free_async(dptr, hStream, false),
			"dptr=%#llx", dptr);
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr dptr, CUstream hStream)
{
	return SIM_CALL(cuMemFreeAsync_ptsz, SIM_CTX | SIM_LOCK, free_async(dptr, hStream, true),
			"dptr=%#llx", dptr);
}

/* Pools. */

static bool is_host(const CUmemLocation *location)
{
	return location->type == CU_MEM_LOCATION_TYPE_HOST ||
	       location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
	       location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

static CUresult pool_create(CUmemoryPool *ret, const CUmemPoolProps *props)
{
	struct sim_device *device = NULL;
	struct sim_pool *pool;
	CUresult result = sim_exec_unsafe_call();

	if (result)
		return result;
	if (!ret || !props || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if (props->location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
		device = sim_device(props->location.id);
		if (!device)
			return CUDA_ERROR_INVALID_VALUE;
	} else if (!is_host(&props->location)) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	if ((unsigned)props->handleTypes & ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE;
	pool = pool_new(device, props);
	if (!pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ret = to_handle(pool);
	return CUDA_SUCCESS;
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
	return SIM_CALL(cuMemPoolCreate, SIM_LOCK, pool_create(pool, poolProps), "location=%d",
			poolProps ? (int)poolProps->location.type : -1);
}

static CUresult pool_destroy(CUmemoryPool handle)
{
	struct sim_pool *pool = from_handle(handle);

	if (!pool || pool->is_default)
		return CUDA_ERROR_INVALID_VALUE;
	if (pool->device && pool->device->current_pool == pool)
		pool->device->current_pool = pool_default(pool->device); /* never at this address */
	pool_end(pool);
	return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
	return SIM_CALL(cuMemPoolDestroy, SIM_LOCK, pool_destroy(pool), "pool=%p", (void *)pool);
}

static CUresult trim_to(CUmemoryPool handle, size_t keep)
{
	struct sim_pool *pool = from_handle(handle);

	if (!pool || pool->is_imported)
		return CUDA_ERROR_INVALID_VALUE;
	pool_trim(pool, keep);
	return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep)
{
	return SIM_CALL(cuMemPoolTrimTo, SIM_LOCK, trim_to(pool, minBytesToKeep), "keep=%zu",
			minBytesToKeep);
}

static CUresult get_attribute(CUmemoryPool handle, CUmemPool_attribute attr, void *value)
{
	const struct sim_pool *pool = from_handle(handle);

	if (!pool || !value || pool->is_imported)
		return CUDA_ERROR_INVALID_VALUE;
	switch (attr) {
	case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		*(int *)value = pool->reuse[attr - 1];
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		*(cuuint64_t *)value = pool->release_threshold_bytes;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
		*(cuuint64_t *)value = pool->reserved_bytes;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		*(cuuint64_t *)value = pool->reserved_high_bytes;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
		*(cuuint64_t *)value = pool->used_bytes;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		*(cuuint64_t *)value = pool->used_high_bytes;
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
	return SIM_CALL(cuMemPoolGetAttribute, SIM_LOCK, get_attribute(pool, attr, value),
			"attr=%d", (int)attr);
}

static CUresult set_attribute(CUmemoryPool handle, CUmemPool_attribute attr, const void *value)
{
	struct sim_pool *pool = from_handle(handle);

	if (!pool || !value || pool->is_imported)
		return CUDA_ERROR_INVALID_VALUE;
	switch (attr) {
	case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		pool->reuse[attr - 1] = *(const int *)value != 0;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		pool->release_threshold_bytes = *(const cuuint64_t *)value;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		if (*(const cuuint64_t *)value)
			return CUDA_ERROR_INVALID_VALUE;
		pool->reserved_high_bytes = pool->reserved_bytes;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		if (*(const cuuint64_t *)value)
			return CUDA_ERROR_INVALID_VALUE;
		pool->used_high_bytes = pool->used_bytes;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
		return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
	return SIM_CALL(cuMemPoolSetAttribute, SIM_LOCK, set_attribute(pool, attr, value),
			"attr=%d", (int)attr);
}

/* Access. */

/* a pool's own device has access for good: it can neither lose it nor be cut to reading */
static CUresult check_access(const struct sim_pool *pool, const CUmemAccessDesc *desc)
{
	const struct sim_device *device = sim_device(desc->location.id);

	if (desc->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	if (desc->flags == CU_MEM_ACCESS_FLAGS_PROT_READ)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	return device == pool->device && desc->flags == CU_MEM_ACCESS_FLAGS_PROT_NONE
		       ? CUDA_ERROR_INVALID_DEVICE
		       : CUDA_SUCCESS;
}

static CUresult set_access(CUmemoryPool handle, const CUmemAccessDesc *map, size_t count)
{
	struct sim_pool *pool = from_handle(handle);

	if (!pool || !map)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++) {
		CUresult result = check_access(pool, &map[i]);

		if (result)
			return result;
	}
	for (size_t i = 0; i < count; i++) {
		uint64_t bit = (uint64_t)1 << map[i].location.id;

		pool->readers &= ~bit;
		pool->writers &= ~bit;
		if (map[i].flags & CU_MEM_ACCESS_FLAGS_PROT_READ)
			pool->readers |= bit;
		if (map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
			pool->writers |= bit;
	}
	return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
	return SIM_CALL(cuMemPoolSetAccess, SIM_LOCK, set_access(pool, map, count), "count=%zu",
			count);
}

static CUresult get_access(CUmemAccess_flags *flags, CUmemoryPool handle,
			   const CUmemLocation *location)
{
	const struct sim_pool *pool = from_handle(handle);
	const struct sim_device *device;

	if (!pool || !flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	device = sim_device(location->id);
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	*flags = device == pool->device || pool->writers >> location->id & 1
			 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
		 : pool->readers >> location->id & 1 ? CU_MEM_ACCESS_FLAGS_PROT_READ
						     : CU_MEM_ACCESS_FLAGS_PROT_NONE;
	return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool memPool, CUmemLocation *location)
{
	return SIM_CALL(cuMemPoolGetAccess, SIM_LOCK, get_access(flags, memPool, location), "");
}

/* Which pool a device uses. */

static CUresult give_pool(CUmemoryPool *ret, struct sim_pool *pool)
{
	if (!pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ret = to_handle(pool);
	return CUDA_SUCCESS;
}

static CUresult device_pool(CUmemoryPool *ret, struct sim_device *device, bool is_default)
{
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device)
		return is_default ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
	return give_pool(ret, is_default ? pool_default(device) : current_pool(device));
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev)
{
	return SIM_CALL(cuDeviceGetDefaultMemPool, SIM_LOCK,
			device_pool(pool_out, sim_device(dev), true), "dev=%d", dev);
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
	return SIM_CALL(cuDeviceGetMemPool, SIM_LOCK, device_pool(pool, sim_device(dev), false),
			"dev=%d", dev);
}

static CUresult set_device_pool(struct sim_device *device, CUmemoryPool handle)
{
	struct sim_pool *pool = from_handle(handle);

	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!pool || pool->device != device)
		return CUDA_ERROR_INVALID_VALUE;
	device->current_pool = pool;
	return CUDA_SUCCESS;
}

CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
	return SIM_CALL(cuDeviceSetMemPool, SIM_LOCK, set_device_pool(sim_device(dev), pool),
			"dev=%d pool=%p", dev, (void *)pool);
}

static CUresult location_pool(CUmemoryPool *ret, const CUmemLocation *location,
			      CUmemAllocationType type, bool is_default)
{
	if (!ret || !location)
		return CUDA_ERROR_INVALID_VALUE;
	if (type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (is_host(location))
		return give_pool(ret, pool_host());
	if (location->type != CU_MEM_LOCATION_TYPE_DEVICE || !sim_device(location->id))
		return CUDA_ERROR_INVALID_VALUE;
	return device_pool(ret, sim_device(location->id), is_default);
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool_out, CUmemLocation *location,
				CUmemAllocationType type)
{
	return SIM_CALL(cuMemGetDefaultMemPool, SIM_LOCK,
			location_pool(pool_out, location, type, true), "type=%d", (int)type);
}

CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
	return SIM_CALL(cuMemGetMemPool, SIM_LOCK, location_pool(pool, location, type, false),
			"type=%d", (int)type);
}

static CUresult set_location_pool(const CUmemLocation *location, CUmemAllocationType type,
				  CUmemoryPool pool)
{
	if (!location || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	if (type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_NOT_SUPPORTED;
	return set_device_pool(sim_device(location->id), pool);
}

CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
	return SIM_CALL(cuMemSetMemPool, SIM_LOCK, set_location_pool(location, type, pool),
			"type=%d", (int)type);
}
