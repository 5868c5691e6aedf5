// SPDX-License-Identifier: Apache-2.0
/* Two GPUs in one process: devices, peers, whose is what.  Device 0's primary context is current.
 */
#include "conform.h"

#include <string.h>

/* the second device's primary context, made when first asked for */
static CUcontext other(void)
{
	static CUcontext ctx;
	char buf[40];
	CUresult r = CUDA_SUCCESS;

	if (!ctx)
		r = QUIET(cuDevicePrimaryCtxRetain, &ctx, 1);
	if (r != CUDA_SUCCESS)
		out_line("!! no second context: %s", result_text(r, buf));
	return ctx;
}

static void on(int n)
{
	QUIET(cuCtxSetCurrent, n ? other() : conf_ctx);
	out_line("# on device %d", n);
}

static void devices(void)
{
	char first[128] = "", second[128] = "";
	POISONED_INT(n);
	POISONED_INT(dev);
	CUuuid a, b;

	CALL(cuDeviceGetCount, &n);
	INT(n);
	CALL(cuDeviceGet, &dev, 1);
	INT(dev);
	CALL(cuDeviceGet, &dev, 2);
	CALL(cuDeviceGetName, first, 128, 0);
	CALL(cuDeviceGetName, second, 128, 1);
	YES(strcmp(first, second) == 0);
	CALL(cuDeviceGetUuid_v2, &a, 0);
	CALL(cuDeviceGetUuid_v2, &b, 1);
	YES(memcmp(&a, &b, sizeof(a)) != 0);
	CALL(cuDeviceGetPCIBusId, first, 32, 0);
	CALL(cuDeviceGetPCIBusId, second, 32, 1);
	YES(strcmp(first, second) < 0);
	CALL(cuDeviceGetByPCIBusId, &dev, second);
	INT(dev);
}

static void can_access(void)
{
	POISONED_INT(can);

	for (int from = 0; from < 2; from++) {
		CALL(cuDeviceCanAccessPeer, &can, from, 1 - from);
		INT(can);
		CALL(cuDeviceCanAccessPeer, &can, from, from);
		INT(can);
	}
	CALL(cuDeviceCanAccessPeer, &can, 0, 2);
	CALL(cuDeviceCanAccessPeer, &can, 2, 0);
	CALL(cuDeviceGetP2PAttribute, &can, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 1);
	INT(can);
	CALL(cuDeviceGetP2PAttribute, &can, CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED, 0,
	     1);
	INT(can);
	CALL(cuDeviceGetP2PAttribute, &can, CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, 0, 1);
	CALL(cuDeviceGetP2PAttribute, &can, (CUdevice_P2PAttribute)0, 0, 1);
	CALL(cuDeviceGetP2PAttribute, &can, (CUdevice_P2PAttribute)99, 0, 1);
	CALL(cuDeviceGetP2PAttribute, &can, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 1, 1);
	CALL(cuDeviceGetP2PAttribute, &can, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 1, 2);
}

static void enable(void)
{
	POISONED(CUcontext, gone);

	CALL(cuCtxDisablePeerAccess, other());
	CALL(cuCtxEnablePeerAccess, other(), 1);
	CALL(cuCtxEnablePeerAccess, NULL, 0);
	CALL(cuCtxEnablePeerAccess, conf_ctx, 0);
	CALL(cuCtxEnablePeerAccess, other(), 0);
	CALL(cuCtxEnablePeerAccess, other(), 0);
	CALL(cuCtxDisablePeerAccess, NULL);
	CALL(cuCtxDisablePeerAccess, conf_ctx);
	CALL(cuCtxDisablePeerAccess, other());
	CALL(cuCtxDisablePeerAccess, other());
	CALL(cuCtxCreate_v2, &gone, 0, 1);
	QUIET(cuCtxSetCurrent, conf_ctx);
	CALL(cuCtxEnablePeerAccess, gone, 0);
	CALL(cuCtxEnablePeerAccess, other(), 0);
	CALL(cuCtxDestroy_v2, gone);
	CALL(cuCtxDisablePeerAccess, other());
	on(1);
	CALL(cuCtxEnablePeerAccess, conf_ctx, 0);
	CALL(cuCtxDisablePeerAccess, conf_ctx);
	on(0);
}

static CUdeviceptr block_on(int n, size_t bytes, unsigned int value)
{
	CUdeviceptr p;

	on(n);
	p = alloc_quiet(bytes, value);
	QUIET(cuCtxSynchronize);
	return p;
}

static void copies(void)
{
	CUdeviceptr q = block_on(1, 4096, 0x22), p = block_on(0, 4096, 0x11);

	on(0);
	CALL(cuMemcpyPeer, q, other(), p, conf_ctx, 4096);
	on(1);
	data_u32(q, 4096);
	CALL(cuMemsetD32_v2, q, 0x33, 1024);
	on(0);
	CALL(cuMemcpyDtoD_v2, p, q, 4096);
	data_u32(p, 4096);
	CALL(cuMemcpy, q, p, 4096);
	CALL(cuMemcpyPeerAsync, p, conf_ctx, q, other(), 4096, NULL);
	CALL(cuCtxSynchronize);
	CALL(cuMemcpyPeer, q, NULL, p, conf_ctx, 4096);
	CALL(cuMemcpyPeer, q, other(), p, NULL, 4096);
	CALL(cuMemcpyPeer, q, conf_ctx, p, other(), 4096);
	CALL(cuMemcpyPeer, q, other(), p, conf_ctx, 0);
	CALL(cuMemcpyPeer, 0, other(), p, conf_ctx, 4096);
	CALL(cuMemcpyPeer, q, other(), p, conf_ctx, 8192 * MIB);
	CALL(cuMemFree_v2, q);
	CALL(cuMemFree_v2, p);
}

/* what may be done to the other's block from here, without access to it */
static void from_the_other(void)
{
	CUdeviceptr p = block_on(0, 4096, 0x44);
	uint32_t word = POISON_32;

	on(1);
	CALL(cuMemcpyDtoH_v2, &word, p, 4);
	HEX(word);
	word = 0x55;
	CALL(cuMemcpyHtoD_v2, p, &word, 4);
	CALL(cuMemsetD32_v2, p, 0x66, 1024);
	CALL(cuCtxSynchronize);
	CALL(cuMemFree_v2, p);
	CALL(cuMemFree_v2, p);
	on(0);
}

static void free_anywhere(void)
{
	CUdeviceptr p = block_on(0, 2 * MIB, 1), q = block_on(1, 2 * MIB, 2);
	CUDA_ARRAY_DESCRIPTOR desc = { 64, 64, CU_AD_FORMAT_UNSIGNED_INT32, 1 };
	POISONED(CUarray, array);

	on(1);
	CALL(cuMemFree_v2, p);
	CALL(cuArrayCreate_v2, &array, &desc);
	NEWHANDLE(array);
	on(0);
	CALL(cuMemFree_v2, q);
	CALL(cuArrayDestroy, array);
}

static void streams(void)
{
	CUdeviceptr p = block_on(0, 4096, 0), q = block_on(1, 4096, 0);
	POISONED(CUstream, mine);
	POISONED(CUstream, its);
	POISONED(CUevent, my_event);
	POISONED(CUevent, its_event);
	POISONED_INT(dev);
	POISONED(CUcontext, ctx);

	CALL(cuStreamCreate, &its, CU_STREAM_NON_BLOCKING);
	NEWHANDLE(its);
	CALL(cuEventCreate, &its_event, 0);
	on(0);
	CALL(cuStreamCreate, &mine, CU_STREAM_NON_BLOCKING);
	NEWHANDLE(mine);
	CALL(cuEventCreate, &my_event, 0);
	CALL(cuStreamGetCtx, its, &ctx);
	YES(ctx == other());
	CALL(cuStreamGetDevice, its, &dev);
	INT(dev);
	CALL(cuStreamQuery, its);
	CALL(cuStreamSynchronize, its);
	CALL(cuMemsetD32Async, q, 1, 1024, its);
	CALL(cuMemsetD32Async, p, 1, 1024, its);
	CALL(cuMemsetD32Async, q, 1, 1024, mine);
	CALL(cuMemcpyDtoDAsync_v2, q, p, 4096, its);
	CALL(cuMemcpyDtoDAsync_v2, p, q, 4096, mine);
	CALL(cuEventRecord, my_event, its);
	CALL(cuEventRecord, its_event, mine);
	CALL(cuEventRecord, my_event, mine);
	CALL(cuEventRecord, its_event, its);
	CALL(cuStreamWaitEvent, its, my_event, 0);
	CALL(cuStreamWaitEvent, mine, its_event, 0);
	CALL(cuStreamSynchronize, its);
	CALL(cuStreamSynchronize, mine);
	CALL(cuEventSynchronize, its_event);
	CALL(cuEventQuery, its_event);
	{
		float ms;
		CALL(cuEventElapsedTime, &ms, my_event, its_event);
	}
	CALL(cuEventDestroy_v2, its_event);
	CALL(cuEventDestroy_v2, my_event);
	CALL(cuStreamDestroy_v2, its);
	CALL(cuStreamDestroy_v2, mine);
	CALL(cuMemFree_v2, p);
	CALL(cuMemFree_v2, q);
}

static void launches(void)
{
	CUdeviceptr p = block_on(0, 4096, 0);
	POISONED(CUstream, its);

	on(1);
	QUIET(cuStreamCreate, &its, CU_STREAM_NON_BLOCKING);
	on(0);
	{
		unsigned int value = 7;
		uint64_t words = 1024;
		void *args[] = { &p, &value, &words };

		CALL(cuLaunchKernel, kern.fill, 8, 1, 1, 64, 1, 1, 0, its, args, NULL);
		on(1);
		CALL(cuLaunchKernel, kern.fill, 8, 1, 1, 64, 1, 1, 0, NULL, args, NULL);
		CALL(cuLaunchKernel, kern.fill, 8, 1, 1, 64, 1, 1, 0, its, args, NULL);
		CALL(cuStreamSynchronize, its);
	}
	on(0);
	CALL(cuCtxSynchronize);
	data_u32(p, 4096);
	CALL(cuStreamDestroy_v2, its);
	CALL(cuMemFree_v2, p);
}

static void async_alloc(void)
{
	POISONED_PTR(p);
	POISONED_PTR(q);
	POISONED(CUstream, its);
	POISONED_INT(dev);

	on(1);
	QUIET(cuStreamCreate, &its, CU_STREAM_NON_BLOCKING);
	on(0);
	CALL(cuMemAllocAsync, &p, 4096, its);
	NEWPTR(p, 4096);
	CALL(cuPointerGetAttribute, &dev, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p);
	INT(dev);
	CALL(cuMemAllocAsync, &q, 4096, NULL);
	NEWPTR(q, 4096);
	CALL(cuPointerGetAttribute, &dev, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, q);
	INT(dev);
	CALL(cuStreamSynchronize, its);
	CALL(cuCtxSynchronize);
	CALL(cuMemFreeAsync, q, its);
	CALL(cuMemFreeAsync, p, NULL);
	CALL(cuStreamSynchronize, its);
	CALL(cuCtxSynchronize);
	CALL(cuStreamDestroy_v2, its);
}

static void pools(void)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .location = { CU_MEM_LOCATION_TYPE_DEVICE, 1 } };
	CUmemAccessDesc access = { .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
				   .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemLocation here = { CU_MEM_LOCATION_TYPE_DEVICE, 0 };
	CUmemLocation there = { CU_MEM_LOCATION_TYPE_DEVICE, 1 };
	CUmemAccess_flags flags = (CUmemAccess_flags)POISON_32;
	POISONED(CUmemoryPool, pool);
	POISONED(CUmemoryPool, back);
	POISONED_PTR(p);
	POISONED_INT(dev);

	CALL(cuMemPoolCreate, &pool, &props);
	NEWHANDLE(pool);
	CALL(cuMemPoolGetAccess, &flags, pool, &there);
	INT(flags);
	CALL(cuMemPoolGetAccess, &flags, pool, &here);
	INT(flags);
	CALL(cuMemAllocFromPoolAsync, &p, 4096, pool, NULL);
	CALL(cuPointerGetAttribute, &dev, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p);
	INT(dev);
	CALL(cuMemPoolSetAccess, pool, &access, 1);
	CALL(cuMemPoolGetAccess, &flags, pool, &here);
	INT(flags);
	CALL(cuMemsetD32_v2, p, 9, 1024);
	CALL(cuCtxSynchronize);
	data_u32(p, 4096);
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
	CALL(cuMemPoolSetAccess, pool, &access, 1);
	CALL(cuMemPoolGetAccess, &flags, pool, &here);
	INT(flags);
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	CALL(cuMemPoolSetAccess, pool, &access, 1);
	access.location.id = 1;
	CALL(cuMemPoolSetAccess, pool, &access, 1);
	access.location.id = 2;
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	CALL(cuMemPoolSetAccess, pool, &access, 1);
	CALL(cuMemPoolSetAccess, pool, NULL, 1);
	CALL(cuMemPoolSetAccess, pool, NULL, 0);
	CALL(cuMemFree_v2, p);
	CALL(cuDeviceSetMemPool, 0, pool);
	CALL(cuDeviceSetMemPool, 1, pool);
	CALL(cuDeviceGetMemPool, &back, 1);
	YES(back == pool);
	CALL(cuMemPoolDestroy, pool);
	CALL(cuDeviceGetMemPool, &back, 1);
	YES(back == pool);
	props.location.id = 2;
	CALL(cuMemPoolCreate, &pool, &props);
}

static void vmm(void)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = { CU_MEM_LOCATION_TYPE_DEVICE, 1 } };
	CUmemAccessDesc access[2] = {
		{ { CU_MEM_LOCATION_TYPE_DEVICE, 0 }, CU_MEM_ACCESS_FLAGS_PROT_READWRITE },
		{ { CU_MEM_LOCATION_TYPE_DEVICE, 1 }, CU_MEM_ACCESS_FLAGS_PROT_READWRITE }
	};
	CUmemGenericAllocationHandle h = POISON_64;
	POISONED_SIZE(grain);
	unsigned long long flags = POISON_64;
	POISONED_PTR(p);
	POISONED_INT(dev);

	CALL(cuMemGetAllocationGranularity, &grain, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
	SIZE(grain);
	CALL(cuMemAddressReserve, &p, 2 * MIB, 0, 0, 0);
	CALL(cuMemCreate, &h, 2 * MIB, &prop, 0);
	CALL(cuMemMap, p, 2 * MIB, 0, h, 0);
	CALL(cuMemGetAccess, &flags, &access[0].location, p);
	SIZE(flags);
	CALL(cuMemSetAccess, p, 2 * MIB, &access[0], 1);
	CALL(cuMemGetAccess, &flags, &access[0].location, p);
	SIZE(flags);
	CALL(cuMemGetAccess, &flags, &access[1].location, p);
	SIZE(flags);
	CALL(cuPointerGetAttribute, &dev, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p);
	INT(dev);
	CALL(cuMemsetD32_v2, p, 0x71, 1024);
	CALL(cuCtxSynchronize);
	data_u32(p, 4096);
	CALL(cuMemSetAccess, p, 2 * MIB, access, 2);
	on(1);
	CALL(cuMemsetD32_v2, p, 0x72, 1024);
	CALL(cuCtxSynchronize);
	data_u32(p, 4096);
	on(0);
	data_u32(p, 4096);
	access[0].location.id = 2;
	CALL(cuMemSetAccess, p, 2 * MIB, access, 1);
	CALL(cuMemUnmap, p, 2 * MIB);
	CALL(cuMemRelease, h);
	CALL(cuMemAddressFree, p, 2 * MIB);
	prop.location.id = 2;
	CALL(cuMemCreate, &h, 2 * MIB, &prop, 0);
}

static void managed(void)
{
	CUmemLocation location = { CU_MEM_LOCATION_TYPE_DEVICE, 1 };
	POISONED_PTR(p);
	POISONED_INT(dev);

	CALL(cuMemAllocManaged, &p, 2 * MIB, CU_MEM_ATTACH_GLOBAL);
	CALL(cuPointerGetAttribute, &dev, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p);
	INT(dev);
	CALL(cuMemPrefetchAsync, p, 2 * MIB, 1, NULL);
	CALL(cuCtxSynchronize);
	CALL(cuMemRangeGetAttribute, &dev, sizeof(dev),
	     CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, p, 2 * MIB);
	INT(dev);
	CALL(cuMemPrefetchAsync, p, 2 * MIB, 2, NULL);
	CALL(cuMemPrefetchAsync_v2, p, 2 * MIB, location, 0, NULL);
	location.id = 2;
	CALL(cuMemPrefetchAsync_v2, p, 2 * MIB, location, 0, NULL);
	CALL(cuMemAdvise, p, 2 * MIB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 1);
	CALL(cuMemRangeGetAttribute, &dev, sizeof(dev), CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION,
	     p, 2 * MIB);
	INT(dev);
	CALL(cuMemAdvise, p, 2 * MIB, CU_MEM_ADVISE_SET_ACCESSED_BY, 0);
	CALL(cuMemAdvise, p, 2 * MIB, CU_MEM_ADVISE_SET_ACCESSED_BY, 2);
	on(1);
	CALL(cuMemsetD32_v2, p, 0x81, 1024);
	CALL(cuCtxSynchronize);
	on(0);
	data_u32(p, 4096);
	on(1);
	CALL(cuMemFree_v2, p);
	on(0);
}

static void pointers(void)
{
	CUdeviceptr q = block_on(1, 4096, 1);
	POISONED(void *, host);
	POISONED(CUcontext, ctx);
	POISONED(CUmemoryPool, pool);
	POISONED_INT(dev);

	CALL(cuMemHostAlloc, &host, 4096, 0);
	on(0);
	CALL(cuPointerGetAttribute, &dev, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, q);
	INT(dev);
	CALL(cuPointerGetAttribute, &ctx, CU_POINTER_ATTRIBUTE_CONTEXT, q);
	YES(ctx == other());
	CALL(cuPointerGetAttribute, &dev, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
	     (CUdeviceptr)(uintptr_t)host);
	INT(dev);
	CALL(cuPointerGetAttribute, &pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, q);
	CALL(cuMemFreeHost, host);
	CALL(cuMemFree_v2, q);
}

static void currents(void)
{
	POISONED(CUcontext, ctx);
	POISONED_INT(dev);
	POISONED_UINT(flags);
	POISONED_INT(active);

	CALL(cuDevicePrimaryCtxGetState, 1, &flags, &active);
	INT(active);
	CALL(cuCtxPushCurrent_v2, other());
	CALL(cuCtxGetDevice, &dev);
	INT(dev);
	CALL(cuCtxPopCurrent_v2, &ctx);
	YES(ctx == other());
	CALL(cuCtxGetDevice, &dev);
	INT(dev);
	CALL(cuCtxGetDevice_v2, &dev, other());
	INT(dev);
	CALL(cuDevicePrimaryCtxRetain, &ctx, 2);
	CALL(cuCtxCreate_v2, &ctx, 0, 2);
	CALL(cuDevicePrimaryCtxRetain, &ctx, 1);
	YES(ctx == other());
	CALL(cuDevicePrimaryCtxRelease_v2, 1);
}

static void context_gone(void)
{
	POISONED(CUcontext, gone);
	POISONED_PTR(p);
	POISONED_INT(dev);

	CALL(cuCtxCreate_v2, &gone, 0, 1);
	CALL(cuMemAlloc_v2, &p, 4096);
	QUIET(cuCtxSetCurrent, conf_ctx);
	on(0);
	CALL(cuCtxDestroy_v2, gone);
	CALL(cuMemFree_v2, p);
	CALL(cuPointerGetAttribute, &dev, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p);
	CALL(cuCtxGetDevice, &dev);
	INT(dev);
}

static void graphs(void)
{
	CUdeviceptr p = block_on(0, 4096, 5), q = block_on(1, 4096, 6);
	CUDA_MEM_ALLOC_NODE_PARAMS alloc = {
		.poolProps = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			       .location = { CU_MEM_LOCATION_TYPE_DEVICE, 1 } },
		.bytesize = 4096
	};
	POISONED(CUstream, mine);
	POISONED(CUgraph, graph);
	POISONED(CUgraphExec, exec);
	POISONED(CUgraphNode, node);
	POISONED_INT(dev);

	on(0);
	QUIET(cuStreamCreate, &mine, CU_STREAM_NON_BLOCKING);
	CALL(cuStreamBeginCapture_v2, mine, CU_STREAM_CAPTURE_MODE_RELAXED);
	CALL(cuMemcpyDtoDAsync_v2, q, p, 4096, mine);
	CALL(cuStreamEndCapture, mine, &graph);
	CALL(cuGraphInstantiateWithFlags, &exec, graph, 0);
	CALL(cuGraphLaunch, exec, mine);
	CALL(cuStreamSynchronize, mine);
	data_u32(q, 4096);
	CALL(cuGraphExecDestroy, exec);
	CALL(cuGraphDestroy, graph);
	CALL(cuGraphCreate, &graph, 0);
	CALL(cuGraphAddMemAllocNode, &node, graph, NULL, 0, &alloc);
	CALL(cuPointerGetAttribute, &dev, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, alloc.dptr);
	alloc.poolProps.location.id = 2;
	CALL(cuGraphAddMemAllocNode, &node, graph, NULL, 0, &alloc);
	CALL(cuGraphDestroy, graph);
	QUIET(cuStreamDestroy_v2, mine);
	CALL(cuMemFree_v2, p);
	CALL(cuMemFree_v2, q);
}

/* a kernel that reaches for a block of the other card: without access its context is lost */
static void kernel_with_access(void)
{
	CUdeviceptr p = block_on(1, 4096, 0);

	on(0);
	CALL(cuCtxEnablePeerAccess, other(), 0);
	(void)fill_quiet(p, 0x91, 1024, NULL);
	CALL(cuCtxSynchronize);
	data_u32(p, 4096);
	CALL(cuCtxDisablePeerAccess, other());
	CALL(cuMemFree_v2, p);
}

static void kernel_without(void)
{
	CUdeviceptr p = block_on(1, 4096, 0);

	on(0);
	(void)fill_quiet(p, 0x92, 1024, NULL);
	CALL(cuCtxSynchronize);
	CALL(cuMemFree_v2, p);
	on(1);
	data_u32(p, 4096);
	CALL(cuMemFree_v2, p);
}

FAMILY(pair, { "pair", "pair.devices", CTX | PAIR, devices },
       { "pair", "pair.can-access", CTX | PAIR, can_access },
       { "pair", "pair.enable", CTX | PAIR, enable }, { "pair", "pair.copies", CTX | PAIR, copies },
       { "pair.cross", "pair.from-the-other", CTX | PAIR, from_the_other },
       { "pair", "pair.free-anywhere", CTX | PAIR, free_anywhere },
       { "pair.streams", "pair.streams", CTX | PAIR, streams },
       { "pair.launch", "pair.launches", KERNELS | PAIR, launches },
       { "pair", "pair.async-alloc", CTX | PAIR, async_alloc },
       { "pair.vmm", "pair.vmm", CTX | PAIR, vmm }, { "pair", "pair.managed", CTX | PAIR, managed },
       { "pair", "pair.pointers", CTX | PAIR, pointers },
       { "pair", "pair.currents", CTX | PAIR, currents },
       { "pair", "pair.context-gone", CTX | PAIR, context_gone },
       { "pair.graph", "pair.graphs", CTX | PAIR, graphs },
       { "pair.kernel", "pair.kernel-with-access", KERNELS | PAIR, kernel_with_access },
       { "pair.pool", "pair.pools", CTX | PAIR, pools },
       { "pair.fault", "pair.kernel-without", KERNELS | PAIR, kernel_without }, );
