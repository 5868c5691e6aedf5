// SPDX-License-Identifier: Apache-2.0
/* Host memory that the driver knows: allocated by it, or the program's own and registered. */
#include <sys/mman.h>

#include "sim/cuda/ranges.h"
#include "sim/cuda/va.h"

#define ALLOC_FLAGS                                                       \
	((unsigned)CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | \
	 CU_MEMHOSTALLOC_WRITECOMBINED)
#define REGISTER_FLAGS                                                          \
	((unsigned)CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | \
	 CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY)

static CUdeviceptr address(const void *p)
{
	return (CUdeviceptr)(uintptr_t)p;
}

static struct sim_alloc *find_host(const void *p)
{
	struct sim_alloc *alloc = sim_alloc_find(address(p));

	if (!alloc)
		return NULL;
	return alloc->kind == SIM_ALLOC_HOST || alloc->kind == SIM_ALLOC_REGISTERED ? alloc : NULL;
}

static CUresult host_alloc(CUcontext ctx, void **pp, size_t bytes, unsigned flags)
{
	struct sim_alloc *alloc;
	CUresult result;
	void *base;

	if (!pp || flags & ~ALLOC_FLAGS)
		return CUDA_ERROR_INVALID_VALUE;
	if (!bytes) {
		*pp = NULL;
		return CUDA_SUCCESS;
	}
	result = sim_exec_unsafe_call();
	if (result)
		return result;
	base = bytes < (size_t)1 << 47 ? va_map(bytes) : NULL;
	if (!base)
		return CUDA_ERROR_OUT_OF_MEMORY;
	alloc = range_new(address(base), bytes, size_round_up(bytes, 4096), SIM_ALLOC_HOST);
	if (!alloc) {
		va_unmap(base, bytes);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	/* host memory is mapped for devices always, where addresses are unified */
	alloc->flags = flags | CU_MEMHOSTALLOC_DEVICEMAP;
	range_own(alloc, ctx);
	*pp = base;
	return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)
{
	if (pp) /* first of all, whatever comes of the call */
		*pp = NULL;
	return SIM_CALL(cuMemHostAlloc, SIM_CTX | SIM_LOCK,
			host_alloc(call.ctx, pp, bytesize, Flags), "bytes=%zu flags=%u", bytesize,
			Flags);
}

CUresult cuMemAllocHost_v2(void **pp, size_t bytesize)
{
	return cuMemHostAlloc(pp, bytesize, 0);
}

static CUresult free_host(CUcontext ctx, const void *p)
{
	struct sim_alloc *alloc = find_host(p);
	CUresult result;

	if (!p)
		return CUDA_SUCCESS;
	if (!alloc || alloc->base != address(p) || alloc->kind != SIM_ALLOC_HOST)
		return CUDA_ERROR_INVALID_VALUE;
	result = sim_exec_unsafe_call();
	if (!result)
		result = sim_exec_ctx_sync(ctx);
	if (result)
		return result;
	alloc = find_host(p);
	if (!alloc || alloc->base != address(p) || alloc->kind != SIM_ALLOC_HOST)
		return CUDA_ERROR_INVALID_VALUE;
	sim_range_end(alloc);
	return CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void *p)
{
	return SIM_CALL(cuMemFreeHost, SIM_CTX | SIM_LOCK, free_host(call.ctx, p), "p=%p", p);
}

/* Is there memory at both ends? */
static bool is_mapped(const void *p, size_t bytes)
{
	uintptr_t first = (uintptr_t)p & ~(uintptr_t)4095;
	uintptr_t last = ((uintptr_t)p + bytes - 1) & ~(uintptr_t)4095;
	unsigned char state;

	return !mincore((void *)first, 1, &state) && !mincore((void *)last, 1, &state);
}

static CUresult host_register(CUcontext ctx, const void *p, size_t bytes, unsigned flags)
{
	struct sim_alloc *alloc;
	uint64_t end;

	if (!p || !bytes || flags & ~REGISTER_FLAGS || !size_add(address(p), bytes, &end))
		return CUDA_ERROR_INVALID_VALUE;
	if (!is_mapped(p, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	if (!range_is_free(address(p), bytes))
		return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	alloc = range_new(address(p), bytes, bytes, SIM_ALLOC_REGISTERED);
	if (!alloc)
		return CUDA_ERROR_OUT_OF_MEMORY;
	alloc->flags = flags | CU_MEMHOSTREGISTER_DEVICEMAP;
	range_own(alloc, ctx);
	return CUDA_SUCCESS;
}

CUresult cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags)
{
	return SIM_CALL(cuMemHostRegister_v2, SIM_CTX | SIM_LOCK,
			host_register(call.ctx, p, bytesize, Flags), "p=%p bytes=%zu flags=%u", p,
			bytesize, Flags);
}

CUresult cuMemHostRegister(void *p, size_t bytesize, unsigned int Flags)
{
	return cuMemHostRegister_v2(p, bytesize, Flags);
}

static CUresult host_unregister(const void *p)
{
	struct sim_alloc *alloc = sim_alloc_find(address(p));

	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	if (!alloc)
		return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	if (alloc->base != address(p) || alloc->kind != SIM_ALLOC_REGISTERED)
		return CUDA_ERROR_INVALID_VALUE;
	sim_range_end(alloc);
	return CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void *p)
{
	return SIM_CALL(cuMemHostUnregister, SIM_CTX | SIM_LOCK, host_unregister(p), "p=%p", p);
}

static CUresult device_pointer(CUdeviceptr *dptr, const void *p, unsigned flags)
{
	if (!dptr || !p || flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (!find_host(p))
		return CUDA_ERROR_INVALID_VALUE;
	*dptr = address(p);
	return CUDA_SUCCESS;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags)
{
	return SIM_CALL(cuMemHostGetDevicePointer_v2, SIM_CTX | SIM_LOCK,
			device_pointer(pdptr, p, Flags), "p=%p flags=%u", p, Flags);
}

static CUresult get_flags(unsigned *flags, const void *p)
{
	const struct sim_alloc *alloc = find_host(p);

	if (!flags || !alloc)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = alloc->flags;
	return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned int *pFlags, void *p)
{
	return SIM_CALL(cuMemHostGetFlags, SIM_CTX | SIM_LOCK, get_flags(pFlags, p), "p=%p", p);
}
