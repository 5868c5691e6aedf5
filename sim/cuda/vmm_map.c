// SPDX-License-Identifier: Apache-2.0
/*
 * Reserved address ranges and the handles mapped into them. A mapping can be touched only once
 * cuMemSetAccess allowed it.
 */
#include <stdlib.h>

#include "sim/cuda/ranges.h"
#include "sim/cuda/tree.h"
#include "sim/cuda/vmm.h"

/* the tree's node; its kind is unused */
struct mapping {
	struct sim_alloc range; /* first, so that one is the other */
	struct vmm_handle *handle;
	struct sim_alloc *reservation;
	uint64_t readers, writers; /* bit n: device n */
	bool host_reads, host_writes;
};

static struct sim_alloc *mappings;

static void *host(CUdeviceptr ptr)
{
	return (void *)(uintptr_t)ptr;
}

static struct mapping *find_mapping(CUdeviceptr ptr)
{
	return (struct mapping *)(void *)tree_find(mappings, ptr);
}

/* the reservation that holds all of [ptr, ptr + bytes) */
static struct sim_alloc *find_reservation(CUdeviceptr ptr, size_t bytes)
{
	struct sim_alloc *r = sim_alloc_find(ptr);

	if (!r || r->kind != SIM_ALLOC_RESERVED || bytes > r->bytes - (ptr - r->base))
		return NULL;
	return r;
}

bool sim_vmm_find(CUdeviceptr ptr, struct sim_ptr *ret)
{
	struct mapping *m = find_mapping(ptr);

	if (!m)
		return false;
	*ret = (struct sim_ptr){
		.alloc = m->reservation,
		.device = m->handle->device,
		.host = host(ptr),
		.rest_bytes = m->range.bytes - (ptr - m->range.base),
		.base = m->range.base,
		.bytes = m->range.bytes,
		.is_readable = m->readers || m->host_reads,
		.is_writable = m->writers || m->host_writes,
		.readers = m->readers,
		.writers = m->writers,
		.handle_types = m->handle->prop.requestedHandleTypes,
	};
	return true;
}

/* Ranges. */

static CUresult reserve(CUdeviceptr *ret, size_t bytes, size_t alignment, CUdeviceptr hint,
			unsigned long long flags)
{
	void *base;

	if (!ret || flags || !bytes || bytes % VMM_GRAIN || (alignment & (alignment - 1)))
		return CUDA_ERROR_INVALID_VALUE;
	if (alignment < VMM_GRAIN)
		alignment = VMM_GRAIN;
	base = va_reserve(bytes, alignment, hint);
	if (!base)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!range_new((CUdeviceptr)(uintptr_t)base, bytes, bytes, SIM_ALLOC_RESERVED)) {
		va_unmap(base, bytes);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret = (CUdeviceptr)(uintptr_t)base;
	return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
			     unsigned long long flags)
{
	return SIM_CALL(cuMemAddressReserve, SIM_LOCK, reserve(ptr, size, alignment, addr, flags),
			"bytes=%zu alignment=%zu addr=%#llx", size, alignment, addr);
}

static CUresult address_free(CUdeviceptr ptr, size_t bytes)
{
	struct sim_alloc *r = find_reservation(ptr, bytes);
	const struct sim_alloc *inside;

	if (!r || r->base != ptr || r->bytes != bytes)
		return CUDA_ERROR_INVALID_VALUE;
	inside = tree_next(mappings, ptr);
	if (inside && inside->base - ptr < bytes)
		return CUDA_ERROR_INVALID_VALUE;
	va_unmap(host(ptr), bytes);
	range_free(r);
	return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
	return SIM_CALL(cuMemAddressFree, SIM_LOCK, address_free(ptr, size), "ptr=%#llx bytes=%zu",
			ptr, size);
}

/* Mapping. */

static CUresult map(CUdeviceptr ptr, size_t bytes, size_t offset, CUmemGenericAllocationHandle id,
		    unsigned long long flags)
{
	struct vmm_handle *handle = vmm_handle_find(id);
	struct sim_alloc *reservation = find_reservation(ptr, bytes);
	const struct sim_alloc *next = tree_next(mappings, ptr);
	struct mapping *m;

	if (!handle || flags || !bytes || !ptr)
		return CUDA_ERROR_INVALID_VALUE;
	/* only whole handles can be mapped */
	if (ptr % VMM_GRAIN || offset || bytes != handle->phys.bytes)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!reservation)
		return CUDA_ERROR_INVALID_VALUE;
	if (find_mapping(ptr) || (next && next->base - ptr < bytes))
		return CUDA_ERROR_INVALID_VALUE;
	m = calloc(1, sizeof(*m));
	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (va_phys_view(&handle->phys, host(ptr), offset, bytes)) {
		/* whatever half of it came about is a reservation again */
		(void)va_phys_unview(host(ptr), bytes);
		free(m);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	m->range.base = ptr;
	m->range.bytes = m->range.mapped_bytes = bytes;
	m->handle = handle;
	m->reservation = reservation;
	handle->mappings++;
	tree_insert(&mappings, &m->range);
	return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
		  unsigned long long flags)
{
	return SIM_CALL(cuMemMap, SIM_LOCK, map(ptr, size, offset, handle, flags),
			"ptr=%#llx bytes=%zu handle=%#llx", ptr, size, handle);
}

/* Are there whole mappings without a hole on all of the range? */
static bool is_covered(CUdeviceptr ptr, size_t bytes)
{
	const struct mapping *m = find_mapping(ptr);

	if (!bytes || !m || m->range.base != ptr)
		return false;
	while (bytes) {
		m = find_mapping(ptr);
		if (!m || m->range.bytes > bytes)
			return false;
		ptr += m->range.bytes;
		bytes -= m->range.bytes;
	}
	return true;
}

/* Does a mapping begin before @at and go on behind it? */
static bool is_cut(CUdeviceptr at)
{
	const struct mapping *m = find_mapping(at);

	return m && m->range.base != at;
}

static CUresult unmap_one(struct mapping *m)
{
	if (va_phys_unview(host(m->range.base), m->range.bytes))
		return CUDA_ERROR_OPERATING_SYSTEM;
	tree_remove(&mappings, &m->range);
	m->handle->mappings--;
	vmm_handle_settle(m->handle);
	free(m);
	return CUDA_SUCCESS;
}

/* Mappings go whole or not at all; holes between them do not matter. */
static CUresult unmap(CUdeviceptr ptr, size_t bytes)
{
	CUresult result = CUDA_SUCCESS;
	struct sim_alloc *next;

	if (!bytes || !find_reservation(ptr, bytes) || is_cut(ptr) || is_cut(ptr + bytes))
		return CUDA_ERROR_INVALID_VALUE;
	while (!result) {
		next = tree_next(mappings, ptr);
		if (!next || next->base - ptr >= bytes)
			break;
		result = unmap_one((struct mapping *)(void *)next);
	}
	return result;
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
	return SIM_CALL(cuMemUnmap, SIM_LOCK, unmap(ptr, size), "ptr=%#llx bytes=%zu", ptr, size);
}

/* Access. */

static bool is_host_location(const CUmemLocation *location)
{
	return location->type == CU_MEM_LOCATION_TYPE_HOST ||
	       location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
}

static CUresult check_access(const CUmemAccessDesc *desc)
{
	if (desc->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
	    desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
	    desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
		return CUDA_ERROR_INVALID_VALUE;
	if (is_host_location(&desc->location))
		return CUDA_SUCCESS;
	if (desc->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	return sim_device(desc->location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static void grant(struct mapping *m, const CUmemAccessDesc *desc)
{
	bool is_read = desc->flags & CU_MEM_ACCESS_FLAGS_PROT_READ;
	bool is_write = desc->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	uint64_t bit;

	if (is_host_location(&desc->location)) {
		m->host_reads = is_read;
		m->host_writes = is_write;
		return;
	}
	bit = (uint64_t)1 << desc->location.id;
	m->readers = is_read ? m->readers | bit : m->readers & ~bit;
	m->writers = is_write ? m->writers | bit : m->writers & ~bit;
}

static CUresult set_access(CUdeviceptr ptr, size_t bytes, const CUmemAccessDesc *desc, size_t count)
{
	if (!desc || !count || !is_covered(ptr, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++) {
		CUresult result = check_access(&desc[i]);

		if (result)
			return result;
	}
	while (bytes) {
		struct mapping *m = find_mapping(ptr);
		size_t part = m->range.bytes;

		for (size_t i = 0; i < count; i++)
			grant(m, &desc[i]);
		if (va_protect(host(ptr), part, m->readers || m->host_reads,
			       m->writers || m->host_writes))
			return CUDA_ERROR_OPERATING_SYSTEM;
		ptr += part;
		bytes -= part;
	}
	return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
	return SIM_CALL(cuMemSetAccess, SIM_LOCK, set_access(ptr, size, desc, count),
			"ptr=%#llx bytes=%zu count=%zu", ptr, size, count);
}

static CUresult get_access(unsigned long long *flags, const CUmemLocation *location,
			   CUdeviceptr ptr)
{
	const struct mapping *m = find_mapping(ptr);
	bool is_read, is_write;

	if (!flags || !location || !m)
		return CUDA_ERROR_INVALID_VALUE;
	if (is_host_location(location)) {
		is_read = m->host_reads;
		is_write = m->host_writes;
	} else if (location->type != CU_MEM_LOCATION_TYPE_DEVICE) {
		return CUDA_ERROR_INVALID_VALUE;
	} else if (!sim_device(location->id)) {
		return CUDA_ERROR_INVALID_DEVICE;
	} else {
		is_read = m->readers >> location->id & 1;
		is_write = m->writers >> location->id & 1;
	}
	*flags = is_write  ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
		 : is_read ? CU_MEM_ACCESS_FLAGS_PROT_READ
			   : CU_MEM_ACCESS_FLAGS_PROT_NONE;
	return CUDA_SUCCESS;
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr)
{
	return SIM_CALL(cuMemGetAccess, SIM_LOCK, get_access(flags, location, ptr), "ptr=%#llx",
			ptr);
}

static CUresult retain(CUmemGenericAllocationHandle *ret, const void *at)
{
	struct mapping *m = find_mapping((CUdeviceptr)(uintptr_t)at);

	if (!ret || !m)
		return CUDA_ERROR_INVALID_VALUE;
	m->handle->references++;
	*ret = m->handle->id;
	return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
	return SIM_CALL(cuMemRetainAllocationHandle, SIM_LOCK, retain(handle, addr), "addr=%p",
			addr);
}
