// SPDX-License-Identifier: Apache-2.0
/*
 * Memory of before CUDA 3.2, with 32-bit device pointers and sizes (copies and memsets of that
 * time: legacy32.c). The calls work on contexts of that time only, which no later driver makes:
 * each clears its 32-bit results and answers INVALID_CONTEXT. (Measured: driver 580.159.)
 */
#include <stdint.h>
#include <string.h>

#include "sim/cuda/memory.h"

#define LEGACY __attribute__((visibility("default")))

static CUresult refuse(void *first, void *second)
{
	static const uint32_t zero;

	if (first)
		memcpy(first, &zero, sizeof(zero));
	if (second)
		memcpy(second, &zero, sizeof(zero));
	return sim_is_usable() ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_NOT_INITIALIZED;
}

/* where nothing is written the parameters do not matter */
#define REFUSED(symbol)                    \
	LEGACY                             \
	CUresult symbol(void);             \
	CUresult symbol(void)              \
	{                                  \
		return refuse(NULL, NULL); \
	}

REFUSED(cuMemFree)
REFUSED(cuMemAllocHost)
REFUSED(cuArrayCreate)
REFUSED(cuArray3DCreate)

LEGACY
CUresult cuMemAlloc(uint32_t *dptr, uint32_t bytes);
CUresult cuMemAlloc(uint32_t *dptr, uint32_t bytes)
{
	(void)bytes;
	return refuse(dptr, NULL);
}

LEGACY
CUresult cuMemAllocPitch(uint32_t *dptr, uint32_t *pitch, uint32_t width, uint32_t height,
			 uint32_t element);
CUresult cuMemAllocPitch(uint32_t *dptr, uint32_t *pitch, uint32_t width, uint32_t height,
			 uint32_t element)
{
	(void)width, (void)height, (void)element;
	return refuse(dptr, pitch);
}

LEGACY
CUresult cuMemGetInfo(uint32_t *free_bytes, uint32_t *total);
CUresult cuMemGetInfo(uint32_t *free_bytes, uint32_t *total)
{
	return refuse(free_bytes, total);
}

LEGACY
CUresult cuMemGetAddressRange(uint32_t *base, uint32_t *bytes, uint32_t dptr);
CUresult cuMemGetAddressRange(uint32_t *base, uint32_t *bytes, uint32_t dptr)
{
	(void)dptr;
	return refuse(base, bytes);
}

/* the one that needs no context: what does not fit into 32 bits is all ones */
LEGACY
CUresult cuDeviceTotalMem(uint32_t *bytes, CUdevice dev);
CUresult cuDeviceTotalMem(uint32_t *bytes, CUdevice dev)
{
	const struct sim_device *device = sim_device(dev);

	if (!sim_is_usable())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	*bytes = (uint32_t)size_min(sim_device_total_bytes(device), UINT32_MAX);
	return CUDA_SUCCESS;
}
