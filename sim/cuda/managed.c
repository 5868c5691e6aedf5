// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/exec.h"

/*
 * Where managed memory is wanted.  The simulator keeps it in one place, so these calls check what
 * the driver checks, keep what can be asked back, and take their place in the stream.
 */

#define NOWHERE (-2) /* CU_DEVICE_INVALID */

struct advice {
	CUdeviceptr base;
	int preferred, prefetched; /* a device's ordinal, CU_DEVICE_CPU, or NOWHERE */
	bool read_mostly;
	uint64_t accessed_by; /* bit n: device n; bit 63: the host */
	unsigned long long alloc_id;
	struct advice *next;
};

static struct advice *advices;

static bool is_host(const CUmemLocation *location)
{
	return location->type == CU_MEM_LOCATION_TYPE_HOST ||
	       location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
	       location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

static CUresult check_location(const CUmemLocation *location, int *ret)
{
	if (is_host(location)) {
		*ret = CU_DEVICE_CPU;
		return CUDA_SUCCESS;
	}
	if (location->type != CU_MEM_LOCATION_TYPE_DEVICE || !sim_device(location->id))
		return CUDA_ERROR_INVALID_DEVICE;
	*ret = location->id;
	return CUDA_SUCCESS;
}

static struct sim_alloc *find(CUdeviceptr ptr, size_t bytes)
{
	struct sim_alloc *alloc = sim_alloc_find(ptr);

	if (!bytes || !alloc || alloc->kind != SIM_ALLOC_MANAGED ||
	    bytes > alloc->base + alloc->bytes - ptr)
		return NULL;
	return alloc;
}

/* one an allocation: advice for a part of one is kept for all of it */
static struct advice *advice_of(const struct sim_alloc *alloc, bool make)
{
	struct advice *advice, *stale = NULL;

	for (advice = advices; advice; advice = advice->next) {
		if (advice->base == alloc->base && advice->alloc_id == alloc->id)
			return advice;
		if (!sim_alloc_find(advice->base))
			stale = advice;
	}
	if (!make)
		return NULL;
	advice = stale ? stale : calloc(1, sizeof(*advice));
	if (!advice)
		return NULL;
	if (!stale) {
		advice->next = advices;
		advices = advice;
	}
	advice->base = alloc->base;
	advice->alloc_id = alloc->id;
	advice->preferred = advice->prefetched = NOWHERE;
	advice->read_mostly = false;
	advice->accessed_by = 0;
	return advice;
}

static CUresult advise(CUdeviceptr ptr, size_t bytes, CUmem_advise what, CUmemLocation location)
{
	struct sim_alloc *alloc = find(ptr, bytes);
	struct advice *advice;
	int where = NOWHERE;
	uint64_t bit;
	CUresult r;

	if (!alloc)
		return CUDA_ERROR_INVALID_VALUE;
	if (what != CU_MEM_ADVISE_SET_READ_MOSTLY && what != CU_MEM_ADVISE_UNSET_READ_MOSTLY &&
	    what != CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION) {
		r = check_location(&location, &where);
		if (r != CUDA_SUCCESS)
			return r;
	}
	advice = advice_of(alloc, true);
	if (!advice)
		return CUDA_ERROR_OUT_OF_MEMORY;
	bit = (uint64_t)1 << (where < 0 ? 63 : where);
	switch (what) {
	case CU_MEM_ADVISE_SET_READ_MOSTLY:
	case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
		advice->read_mostly = what == CU_MEM_ADVISE_SET_READ_MOSTLY;
		break;
	case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
	case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
		advice->preferred = where;
		break;
	case CU_MEM_ADVISE_SET_ACCESSED_BY:
		advice->accessed_by |= bit;
		break;
	case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
		advice->accessed_by &= ~bit;
		break;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

static CUmemLocation location_of(CUdevice device)
{
	CUmemLocation location = { CU_MEM_LOCATION_TYPE_DEVICE, device };

	if (device == CU_DEVICE_CPU)
		location = (CUmemLocation){ CU_MEM_LOCATION_TYPE_HOST, 0 };
	return location;
}

CUresult cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device)
{
	return SIM_CALL(cuMemAdvise, SIM_CTX | SIM_LOCK,
			advise(devPtr, count, advice, location_of(device)), "%#llx, %zu, %d, %d",
			devPtr, count, (int)advice, device);
}

CUresult cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
			CUmemLocation location)
{
	return SIM_CALL(cuMemAdvise_v2, SIM_CTX | SIM_LOCK, advise(devPtr, count, advice, location),
			"%#llx, %zu, %d, %d:%d", devPtr, count, (int)advice, (int)location.type,
			location.id);
}

static CUresult submit_empty(CUcontext ctx, CUstream handle, enum stream_default dflt)
{
	const struct op op = { .kind = OP_EMPTY };
	CUstream stream;
	CUresult r = stream_get(ctx, handle, dflt, &stream);

	if (r != CUDA_SUCCESS)
		return r;
	if (capture_stream_is_active(stream))
		return capture_refuse(stream);
	return op_submit(stream, &op);
}

static CUresult prefetch(CUcontext ctx, CUdeviceptr ptr, size_t bytes, CUmemLocation location,
			 unsigned flags, CUstream handle, enum stream_default dflt)
{
	struct sim_alloc *alloc = find(ptr, bytes);
	struct advice *advice;
	int where;
	CUresult r;

	if (!alloc || flags)
		return CUDA_ERROR_INVALID_VALUE;
	r = check_location(&location, &where);
	if (r == CUDA_SUCCESS)
		r = submit_empty(ctx, handle, dflt);
	if (r != CUDA_SUCCESS)
		return r;
	advice = advice_of(alloc, true);
	if (!advice)
		return CUDA_ERROR_OUT_OF_MEMORY;
	advice->prefetched = where;
	if (where >= 0)
		sim_managed_touch(alloc, ptr - alloc->base, bytes);
	return CUDA_SUCCESS;
}

STREAM_TWINS(cuMemPrefetchAsync, cuMemPrefetchAsync_ptsz,
	     (CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream),
	     SIM_CTX | SIM_LOCK,
	     prefetch(call.ctx, devPtr, count, location_of(dstDevice), 0, hStream, dflt),
	     "%#llx, %zu, %d, %p", devPtr, count, dstDevice, (void *)hStream)
STREAM_TWINS(cuMemPrefetchAsync_v2, cuMemPrefetchAsync_v2_ptsz,
	     (CUdeviceptr devPtr, size_t count, CUmemLocation location, unsigned int flags,
	      CUstream hStream),
	     SIM_CTX | SIM_LOCK, prefetch(call.ctx, devPtr, count, location, flags, hStream, dflt),
	     "%#llx, %zu, %d:%d, %#x, %p", devPtr, count, (int)location.type, location.id, flags,
	     (void *)hStream)

static CUresult check_batch(CUdeviceptr *ptrs, size_t *sizes, size_t count,
			    unsigned long long flags)
{
	if (!ptrs || !sizes || !count || flags)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++) {
		if (!find(ptrs[i], sizes[i]))
			return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

static CUresult prefetch_batch(CUcontext ctx, CUdeviceptr *ptrs, size_t *sizes, size_t count,
			       CUmemLocation *locations, size_t *idxs, size_t location_count,
			       unsigned long long flags, CUstream stream, enum stream_default dflt)
{
	CUresult r = check_batch(ptrs, sizes, count, flags);
	size_t which = 0;

	if (r != CUDA_SUCCESS)
		return r;
	if (!locations || !idxs || !location_count || location_count > count || idxs[0])
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; r == CUDA_SUCCESS && i < count; i++) {
		while (which + 1 < location_count && idxs[which + 1] <= i)
			which++;
		r = prefetch(ctx, ptrs[i], sizes[i], locations[which], 0, stream, dflt);
	}
	return r;
}

#define PREFETCH_BATCH_PARAMS                                                             \
	(CUdeviceptr * dptrs, size_t * sizes, size_t count, CUmemLocation * prefetchLocs, \
	 size_t * prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags,      \
	 CUstream hStream)

/* what is discarded may read as anything until it is written: as what it was, here */
STREAM_TWINS(cuMemPrefetchBatchAsync, cuMemPrefetchBatchAsync_ptsz, PREFETCH_BATCH_PARAMS,
	     SIM_CTX | SIM_LOCK,
	     prefetch_batch(call.ctx, dptrs, sizes, count, prefetchLocs, prefetchLocIdxs,
			    numPrefetchLocs, flags, hStream, dflt),
	     "%p, %p, %zu, %p", (void *)dptrs, (void *)sizes, count, (void *)hStream)
STREAM_TWINS(cuMemDiscardAndPrefetchBatchAsync, cuMemDiscardAndPrefetchBatchAsync_ptsz,
	     PREFETCH_BATCH_PARAMS, SIM_CTX | SIM_LOCK,
	     prefetch_batch(call.ctx, dptrs, sizes, count, prefetchLocs, prefetchLocIdxs,
			    numPrefetchLocs, flags, hStream, dflt),
	     "%p, %p, %zu, %p", (void *)dptrs, (void *)sizes, count, (void *)hStream)

static CUresult discard_batch(CUcontext ctx, CUdeviceptr *ptrs, size_t *sizes, size_t count,
			      unsigned long long flags, CUstream stream, enum stream_default dflt)
{
	CUresult r = check_batch(ptrs, sizes, count, flags);

	return r == CUDA_SUCCESS ? submit_empty(ctx, stream, dflt) : r;
}

STREAM_TWINS(cuMemDiscardBatchAsync, cuMemDiscardBatchAsync_ptsz,
	     (CUdeviceptr * dptrs, size_t *sizes, size_t count, unsigned long long flags,
	      CUstream hStream),
	     SIM_CTX | SIM_LOCK, discard_batch(call.ctx, dptrs, sizes, count, flags, hStream, dflt),
	     "%p, %p, %zu, %p", (void *)dptrs, (void *)sizes, count, (void *)hStream)

static CUresult attach(CUcontext ctx, CUstream handle, CUdeviceptr ptr, size_t bytes,
		       unsigned flags, enum stream_default dflt)
{
	struct sim_alloc *alloc = sim_alloc_find(ptr);

	if (!alloc || alloc->kind != SIM_ALLOC_MANAGED ||
	    (bytes && (ptr != alloc->base || bytes != alloc->bytes)))
		return CUDA_ERROR_INVALID_VALUE;
	if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST &&
	    flags != CU_MEM_ATTACH_SINGLE)
		return CUDA_ERROR_INVALID_VALUE;
	if (flags == CU_MEM_ATTACH_SINGLE && (!handle || handle == CU_STREAM_LEGACY))
		return CUDA_ERROR_INVALID_VALUE;
	return submit_empty(ctx, handle, dflt);
}

STREAM_TWINS(cuStreamAttachMemAsync, cuStreamAttachMemAsync_ptsz,
	     (CUstream hStream, CUdeviceptr dptr, size_t length, unsigned int flags),
	     SIM_CTX | SIM_LOCK, attach(call.ctx, hStream, dptr, length, flags, dflt),
	     "%p, %#llx, %zu, %#x", (void *)hStream, dptr, length, flags)

/* What was said of a range. */

static CUresult put_int(void *data, size_t bytes, int value)
{
	if (bytes != sizeof(value))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(data, &value, sizeof(value));
	return CUDA_SUCCESS;
}

static CUresult accessed_by(const struct advice *advice, void *data, size_t bytes)
{
	size_t room = bytes / sizeof(int), found = 0;
	int device;

	if (!room || bytes % sizeof(int))
		return CUDA_ERROR_INVALID_VALUE;
	for (int bit = 0; advice && bit < 64; bit++) {
		if (!(advice->accessed_by >> bit & 1) || found == room)
			continue;
		device = bit == 63 ? CU_DEVICE_CPU : bit;
		memcpy((char *)data + found++ * sizeof(int), &device, sizeof(device));
	}
	for (device = NOWHERE; found < room; found++)
		memcpy((char *)data + found * sizeof(int), &device, sizeof(device));
	return CUDA_SUCCESS;
}

static int type_of(int where)
{
	return where == NOWHERE         ? CU_MEM_LOCATION_TYPE_INVALID
	       : where == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST
					: CU_MEM_LOCATION_TYPE_DEVICE;
}

static CUresult range_attr(void *data, size_t bytes, CUmem_range_attribute attr, CUdeviceptr ptr,
			   size_t count)
{
	struct sim_alloc *alloc = find(ptr, count);
	const struct advice *advice;
	int preferred, prefetched;

	if (!data || !alloc)
		return CUDA_ERROR_INVALID_VALUE;
	advice = advice_of(alloc, false);
	preferred = advice ? advice->preferred : NOWHERE;
	prefetched = advice ? advice->prefetched : NOWHERE;
	switch (attr) {
	case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
		return put_int(data, bytes, advice && advice->read_mostly);
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
		return put_int(data, bytes, preferred);
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
		return put_int(data, bytes, prefetched);
	case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
		return accessed_by(advice, data, bytes);
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
		return put_int(data, bytes, type_of(preferred));
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
		return put_int(data, bytes, preferred);
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
		return put_int(data, bytes, type_of(prefetched));
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
		return put_int(data, bytes, prefetched);
	}
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemRangeGetAttribute(void *data, size_t dataSize, CUmem_range_attribute attribute,
				CUdeviceptr devPtr, size_t count)
{
	return SIM_CALL(cuMemRangeGetAttribute, SIM_CTX | SIM_LOCK,
			range_attr(data, dataSize, attribute, devPtr, count),
			"%p, %zu, %d, %#llx, %zu", data, dataSize, (int)attribute, devPtr, count);
}

static CUresult range_attrs(void **data, size_t *sizes, CUmem_range_attribute *attrs, size_t number,
			    CUdeviceptr ptr, size_t count)
{
	CUresult r = CUDA_SUCCESS;

	if (!data || !sizes || !attrs || !number)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; r == CUDA_SUCCESS && i < number; i++)
		r = range_attr(data[i], sizes[i], attrs[i], ptr, count);
	return r;
}

CUresult cuMemRangeGetAttributes(void **data, size_t *dataSizes, CUmem_range_attribute *attributes,
				 size_t numAttributes, CUdeviceptr devPtr, size_t count)
{
	return SIM_CALL(cuMemRangeGetAttributes, SIM_CTX | SIM_LOCK,
			range_attrs(data, dataSizes, attributes, numAttributes, devPtr, count),
			"%p, %p, %p, %zu, %#llx, %zu", (void *)data, (void *)dataSizes,
			(void *)attributes, numAttributes, devPtr, count);
}
