// SPDX-License-Identifier: Apache-2.0
/*
 * A driver small enough to see through: what reaches it, and in which shape. No devices, no memory.
 * Built as libcuda.so.1 in several kinds:
 *   FAKE_OLD          lacks what came late, and cuGetProcAddress altogether
 *   FAKE_CONSTRUCTOR  calls the driver API from a constructor, as badly behaved libraries do
 * and, of the plain one, without -Bsymbolic (its own calls go through the linker, to us).
 * cuDriverGetVersion answers with the number its folder is named after, so that a test can tell
 * several of them apart.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "abi/cuda_types.h"

#define EXPORT __attribute__((visibility("default")))

static _Atomic int inits;

EXPORT CUresult cuInit(unsigned flags);
EXPORT CUresult cuInit(unsigned flags)
{
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	inits++;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDriverGetVersion(int *version);
EXPORT CUresult cuDriverGetVersion(int *version)
{
	char path[4096], *folder;
	Dl_info info;

	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = 1;
	if (!dladdr(&inits, &info) || strlen(info.dli_fname) >= sizeof(path))
		return CUDA_ERROR_UNKNOWN;
	strcpy(path, info.dli_fname);
	*strrchr(path, '/') = '\0';
	folder = strrchr(path, '/');
	*version = folder ? (int)strtol(folder + 1, NULL, 10) : 1;
	return CUDA_SUCCESS;
}

/* five arguments in registers, one on the stack; each has its place */
EXPORT CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
			       unsigned by, unsigned bz, unsigned shared, CUstream stream,
			       void **params, void **extra);
EXPORT CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
			       unsigned by, unsigned bz, unsigned shared, CUstream stream,
			       void **params, void **extra)
{
	if ((uintptr_t)f != 1 || gx != 2 || gy != 3 || gz != 4 || bx != 5 || by != 6 || bz != 7 ||
	    shared != 8 || (uintptr_t)stream != 9 || (uintptr_t)params != 10 ||
	    (uintptr_t)extra != 11)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

/* one argument in a vector register */
EXPORT CUresult cuParamSetf(CUfunction f, int offset, float value);
EXPORT CUresult cuParamSetf(CUfunction f, int offset, float value)
{
	return (uintptr_t)f == 1 && offset == 2 && value == 3.5f ? CUDA_SUCCESS
								 : CUDA_ERROR_INVALID_VALUE;
}

/* the old 32-bit ABI, and the present one */
EXPORT CUresult cuMemAlloc(unsigned *dptr, unsigned bytes);
EXPORT CUresult cuMemAlloc(unsigned *dptr, unsigned bytes)
{
	*dptr = bytes;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytes);
EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytes)
{
	*dptr = (CUdeviceptr)bytes << 8;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr dptr);
EXPORT CUresult cuMemFree_v2(CUdeviceptr dptr)
{
	return dptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuGetErrorName(CUresult result, const char **name);
EXPORT CUresult cuGetErrorName(CUresult result, const char **name)
{
	*name = result == CUDA_SUCCESS ? "FAKE_SUCCESS" : "FAKE_ERROR";
	return CUDA_SUCCESS;
}

static int met_in_constructor = -1, met_by_lookup = -1;

/* what its constructor was answered; and how often cuInit was really called */
EXPORT CUresult cuDeviceGetCount(int *count);
EXPORT CUresult cuDeviceGetCount(int *count)
{
	*count = met_in_constructor;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal);
EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	*device = ordinal == 0 ? inits : met_by_lookup;
	return CUDA_SUCCESS;
}

#ifndef FAKE_OLD
EXPORT CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytes, CUstream stream);
EXPORT CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytes, CUstream stream)
{
	(void)bytes;
	(void)stream;
	*dptr = 0x1000;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAllocAsync_ptsz(CUdeviceptr *dptr, size_t bytes, CUstream stream);
EXPORT CUresult cuMemAllocAsync_ptsz(CUdeviceptr *dptr, size_t bytes, CUstream stream)
{
	(void)bytes;
	(void)stream;
	*dptr = 0x2000;
	return CUDA_SUCCESS;
}

static CUresult mem_alloc_of_the_future(CUdeviceptr *dptr, size_t bytes, unsigned long long why)
{
	(void)why;
	*dptr = bytes;
	return CUDA_SUCCESS;
}

static CUresult brand_new(void)
{
	return (CUresult)4711;
}

typedef CUresult lookup_fn(const char *symbol, void **pfn, int version, cuuint64_t flags,
			   CUdriverProcAddressQueryResult *status);

EXPORT CUresult cuGetProcAddress(const char *symbol, void **pfn, int version, cuuint64_t flags);
EXPORT lookup_fn cuGetProcAddress_v2, cuGetProcAddress_v2_ptsz;

static const struct {
	const char *api;
	int since;
	int per_thread;
	void *address;
} known[] = {
	{ "cuInit", 2000, 0, (void *)cuInit },
	{ "cuDriverGetVersion", 2020, 0, (void *)cuDriverGetVersion },
	{ "cuMemAlloc", 2000, 0, (void *)cuMemAlloc },
	{ "cuMemAlloc", 3020, 0, (void *)cuMemAlloc_v2 },
	{ "cuMemAlloc", 99000, 0, (void *)mem_alloc_of_the_future },
	{ "cuMemAllocAlias", 3020, 0, (void *)cuMemAlloc_v2 },
	{ "cuMemAllocAsync", 11020, 0, (void *)cuMemAllocAsync },
	{ "cuMemAllocAsync", 11020, 1, (void *)cuMemAllocAsync_ptsz },
	{ "cuBrandNew", 99000, 0, (void *)brand_new },
	{ "cuGetProcAddress", 11030, 0, (void *)cuGetProcAddress },
	{ "cuGetProcAddress", 12000, 0, (void *)cuGetProcAddress_v2 },
	{ "cuGetProcAddress", 12000, 1, (void *)cuGetProcAddress_v2_ptsz },
};

static CUresult look_up(const char *symbol, void **pfn, int version, int per_thread, int *status)
{
	void *best = NULL;
	int best_since = -1, is_known = 0;

	*status = -1; /* leaves the caller's alone */
	if (!symbol || !pfn || !*symbol)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (strcmp(known[i].api, symbol) != 0)
			continue;
		is_known = 1;
		if (known[i].since <= version && known[i].per_thread <= per_thread &&
		    known[i].since + known[i].per_thread > best_since) {
			best = known[i].address;
			best_since = known[i].since + known[i].per_thread;
		}
	}
	*status = best       ? CU_GET_PROC_ADDRESS_SUCCESS
		  : is_known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
			     : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	if (!best)
		return CUDA_ERROR_NOT_FOUND; /* *pfn stays as it is */
	*pfn = best;
	return CUDA_SUCCESS;
}

static CUresult look_up_v2(const char *symbol, void **pfn, int version, int per_thread,
			   CUdriverProcAddressQueryResult *status)
{
	int found;
	CUresult result = look_up(symbol, pfn, version, per_thread, &found);

	if (status && found >= 0)
		*status = (CUdriverProcAddressQueryResult)found;
	return result;
}

CUresult cuGetProcAddress(const char *symbol, void **pfn, int version, cuuint64_t flags)
{
	int status;

	return look_up(symbol, pfn, version,
		       (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0, &status);
}

CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int version, cuuint64_t flags,
			     CUdriverProcAddressQueryResult *status)
{
	return look_up_v2(symbol, pfn, version,
			  (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0, status);
}

CUresult cuGetProcAddress_v2_ptsz(const char *symbol, void **pfn, int version, cuuint64_t flags,
				  CUdriverProcAddressQueryResult *status)
{
	return look_up_v2(symbol, pfn, version, !(flags & CU_GET_PROC_ADDRESS_LEGACY_STREAM),
			  status);
}
#endif

#ifdef FAKE_CONSTRUCTOR
/* through the linker, so it comes to whoever stands in front of us, while we are being opened */
__attribute__((constructor)) static void call_from_constructor(void)
{
	void *pfn = (void *)1;
	int version = -1;

	met_in_constructor = (int)cuDriverGetVersion(&version);
	met_by_lookup = (int)cuGetProcAddress("cuInit", &pfn, 12000, 0);
	if (pfn != (void *)1 && met_by_lookup != CUDA_SUCCESS)
		met_by_lookup = -2;
}
#endif
