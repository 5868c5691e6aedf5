// SPDX-License-Identifier: Apache-2.0
/* Before cuInit, and cuInit itself. */
#include "conform.h"

static void before_device(void)
{
	POISONED_INT(n);
	POISONED_INT(dev);
	POISONED_SIZE(bytes);
	char name[64] = "";
	CUuuid uuid;
	CALL(cuDeviceGetCount, &n);
	INT(n);
	CALL(cuDeviceGet, &dev, 0);
	INT(dev);
	CALL(cuDeviceGetName, name, 64, 0);
	CALL(cuDeviceTotalMem_v2, &bytes, 0);
	SIZE(bytes);
	CALL(cuDeviceGetAttribute, &n, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0);
	INT(n);
	CALL(cuDeviceGetUuid_v2, &uuid, 0);
	CALL(cuDeviceGetCount, NULL);
}

static void before_version(void)
{
	POISONED_INT(version);
	POISONED(const char *, text);
	CALL(cuDriverGetVersion, &version);
	INT(version);
	CALL(cuDriverGetVersion, NULL);
	CALL(cuGetErrorName, CUDA_ERROR_OUT_OF_MEMORY, &text);
	STR(text);
	CALL(cuGetErrorString, CUDA_ERROR_OUT_OF_MEMORY, &text);
	STR(text);
}

static void before_context(void)
{
	POISONED(CUcontext, ctx);
	POISONED_INT(dev);
	CALL(cuCtxGetCurrent, &ctx);
	HANDLE(ctx);
	CALL(cuCtxSetCurrent, NULL);
	CALL(cuCtxCreate_v2, &ctx, 0, 0);
	HANDLE(ctx);
	CALL(cuDevicePrimaryCtxRetain, &ctx, 0);
	HANDLE(ctx);
	CALL(cuDevicePrimaryCtxRelease_v2, 0);
	CALL(cuCtxGetDevice, &dev);
	INT(dev);
	CALL(cuCtxSynchronize);
	CALL(cuCtxPopCurrent_v2, &ctx);
	CALL(cuCtxDestroy_v2, NULL);
}

static void before_memory(void)
{
	POISONED_PTR(p);
	POISONED_SIZE(free_bytes);
	POISONED_SIZE(total);
	POISONED(void *, host);
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	POISONED_SIZE(granularity);
	CUmemGenericAllocationHandle handle = POISON_64;
	CALL(cuMemAlloc_v2, &p, 4096);
	PTR(p);
	CALL(cuMemAlloc_v2, NULL, 4096);
	CALL(cuMemFree_v2, 0);
	CALL(cuMemGetInfo_v2, &free_bytes, &total);
	SIZE(free_bytes);
	SIZE(total);
	CALL(cuMemAllocManaged, &p, 4096, CU_MEM_ATTACH_GLOBAL);
	PTR(p);
	CALL(cuMemHostAlloc, &host, 4096, 0);
	PTR(host);
	CALL(cuMemAllocAsync, &p, 4096, NULL);
	PTR(p);
	CALL(cuMemGetAllocationGranularity, &granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
	SIZE(granularity);
	CALL(cuMemCreate, &handle, 2 * MIB, &prop, 0);
	HANDLE(handle);
	CALL(cuMemAddressReserve, &p, 2 * MIB, 0, 0, 0);
	PTR(p);
}

static void before_work(void)
{
	POISONED(CUstream, stream);
	POISONED(CUevent, event);
	POISONED(CUmodule, module);
	POISONED(CUgraph, graph);
	POISONED(CUmemoryPool, pool);
	CALL(cuStreamCreate, &stream, 0);
	HANDLE(stream);
	CALL(cuStreamSynchronize, NULL);
	CALL(cuStreamQuery, NULL);
	CALL(cuEventCreate, &event, 0);
	HANDLE(event);
	CALL(cuModuleLoadData, &module, kernels_ptx);
	HANDLE(module);
	CALL(cuLaunchKernel, NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	CALL(cuGraphCreate, &graph, 0);
	HANDLE(graph);
	CALL(cuDeviceGetDefaultMemPool, &pool, 0);
	HANDLE(pool);
	CALL(cuThreadExchangeStreamCaptureMode, NULL);
}

static void before_resolver(void)
{
	POISONED(void *, pfn);
	CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)POISON_32;
	CALL(cuGetProcAddress_v2, "cuMemAlloc", &pfn, 12000, 0, &status);
	INT(status);
	YES(pfn == driver_symbol("cuMemAlloc_v2"));
}

static void init_flags(void)
{
	CALL(cuInit, 1);
	CALL(cuInit, 0xffffffffu);
	POISONED_INT(n);
	CALL(cuDeviceGetCount, &n);
	INT(n);
}

static void init_twice(void)
{
	CALL(cuInit, 0);
	CALL(cuInit, 0);
	CALL(cuInit, 1);
	POISONED_INT(n);
	CALL(cuDeviceGetCount, &n);
	YES(n >= 1);
}

static void after_without_context(void)
{
	POISONED_PTR(p);
	POISONED_SIZE(free_bytes);
	POISONED_SIZE(total);
	POISONED(void *, host);
	POISONED(CUstream, stream);
	POISONED(CUevent, event);
	POISONED(CUmodule, module);
	POISONED(CUgraph, graph);
	POISONED_INT(dev);
	CALL(cuMemAlloc_v2, &p, 4096);
	PTR(p);
	CALL(cuMemAlloc_v2, NULL, 4096);
	CALL(cuMemFree_v2, 0);
	CALL(cuMemFree_v2, 0x1000);
	CALL(cuMemGetInfo_v2, &free_bytes, &total);
	SIZE(free_bytes);
	SIZE(total);
	CALL(cuMemAllocManaged, &p, 4096, CU_MEM_ATTACH_GLOBAL);
	PTR(p);
	CALL(cuMemHostAlloc, &host, 4096, 0);
	PTR(host);
	CALL(cuMemAllocAsync, &p, 4096, NULL);
	PTR(p);
	CALL(cuStreamCreate, &stream, 0);
	HANDLE(stream);
	CALL(cuStreamSynchronize, NULL);
	CALL(cuEventCreate, &event, 0);
	HANDLE(event);
	CALL(cuModuleLoadData, &module, kernels_ptx);
	HANDLE(module);
	CALL(cuGraphCreate, &graph, 0);
	NEWHANDLE(graph);
	CALL(cuCtxSynchronize);
	CALL(cuCtxGetDevice, &dev);
	INT(dev);
	CALL(cuLaunchKernel, NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
}

FAMILY(init, { "init", "init.before.device", 0, before_device },
       { "init", "init.before.version", 0, before_version },
       { "init", "init.before.context", 0, before_context },
       { "init", "init.before.memory", 0, before_memory },
       { "init", "init.before.work", 0, before_work },
       { "init", "init.before.resolver", 0, before_resolver },
       { "init", "init.flags", 0, init_flags }, { "init", "init.twice", 0, init_twice },
       { "init", "init.without-context", INIT, after_without_context }, );
