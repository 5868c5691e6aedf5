// SPDX-License-Identifier: Apache-2.0
/* Stream-ordered allocation and memory pools. */
#include "conform.h"

#include <string.h>

static CUmemPoolProps device_props(void)
{
	CUmemPoolProps props;
	memset(&props, 0, sizeof(props));
	props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	return props;
}

static void counters(CUmemoryPool pool, const char *when)
{
	uint64_t reserved = POISON_64, reserved_high = POISON_64, used = POISON_64,
		 used_high = POISON_64;
	QUIET(cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved);
	QUIET(cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &reserved_high);
	QUIET(cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used);
	QUIET(cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &used_high);
	out_flush();
	out_append("# pool, %s:", when);
	SIZE(reserved);
	SIZE(reserved_high);
	SIZE(used);
	SIZE(used_high);
}

static void default_current(void)
{
	POISONED(CUmemoryPool, by_default);
	POISONED(CUmemoryPool, current);
	POISONED(CUmemoryPool, own);
	CUmemPoolProps props = device_props();
	CALL(cuDeviceGetDefaultMemPool, &by_default, 0);
	NEWHANDLE(by_default);
	CALL(cuDeviceGetMemPool, &current, 0);
	HANDLE(current);
	CALL(cuMemPoolCreate, &own, &props);
	NEWHANDLE(own);
	CALL(cuDeviceSetMemPool, 0, own);
	CALL(cuDeviceGetMemPool, &current, 0);
	HANDLE(current);
	CALL(cuMemPoolDestroy, own);
	CALL(cuDeviceGetMemPool, &current, 0);
	HANDLE(current);
	CALL(cuDeviceSetMemPool, 0, by_default);
	CALL(cuMemPoolDestroy, by_default);
}

static void get_errors(void)
{
	POISONED(CUmemoryPool, pool);
	CALL(cuDeviceGetDefaultMemPool, NULL, 0);
	CALL(cuDeviceGetDefaultMemPool, &pool, -1);
	HANDLE(pool);
	CALL(cuDeviceGetMemPool, &pool, 4096);
	HANDLE(pool);
	CALL(cuDeviceSetMemPool, 0, NULL);
	CALL(cuMemPoolDestroy, NULL);
	CALL(cuMemPoolTrimTo, NULL, 0);
	uint64_t value = POISON_64;
	CALL(cuMemPoolGetAttribute, NULL, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value);
	SIZE(value);
}

static void by_location(void)
{
	POISONED(CUmemoryPool, pool);
	POISONED(CUmemoryPool, by_default);
	CUmemLocation device = { CU_MEM_LOCATION_TYPE_DEVICE, 0 };
	CUmemLocation host = { CU_MEM_LOCATION_TYPE_HOST, 0 };
	QUIET(cuDeviceGetDefaultMemPool, &by_default, 0);
	CALL(cuMemGetDefaultMemPool, &pool, &device, CU_MEM_ALLOCATION_TYPE_PINNED);
	YES(pool == by_default);
	CALL(cuMemGetMemPool, &pool, &device, CU_MEM_ALLOCATION_TYPE_PINNED);
	YES(pool == by_default);
	pool = (CUmemoryPool)(uintptr_t)POISON_64;
	CALL(cuMemGetDefaultMemPool, &pool, &host, CU_MEM_ALLOCATION_TYPE_PINNED);
	YES(pool != by_default);
	CALL(cuMemGetDefaultMemPool, NULL, &device, CU_MEM_ALLOCATION_TYPE_PINNED);
	CALL(cuMemGetDefaultMemPool, &pool, NULL, CU_MEM_ALLOCATION_TYPE_PINNED);
	CALL(cuMemSetMemPool, &device, CU_MEM_ALLOCATION_TYPE_PINNED, by_default);
	device.id = 4096;
	CALL(cuMemGetDefaultMemPool, &pool, &device, CU_MEM_ALLOCATION_TYPE_PINNED);
}

static void create_errors(void)
{
	POISONED(CUmemoryPool, pool);
	CUmemPoolProps props = device_props();
	CALL(cuMemPoolCreate, NULL, &props);
	CALL(cuMemPoolCreate, &pool, NULL);
	HANDLE(pool);
	props.location.id = 4096;
	CALL(cuMemPoolCreate, &pool, &props);
	HANDLE(pool);
	props = device_props();
	props.allocType = CU_MEM_ALLOCATION_TYPE_INVALID;
	CALL(cuMemPoolCreate, &pool, &props);
	HANDLE(pool);
	props = device_props();
	props.location.type = CU_MEM_LOCATION_TYPE_INVALID;
	CALL(cuMemPoolCreate, &pool, &props);
	HANDLE(pool);
	props = device_props();
	props.handleTypes = (CUmemAllocationHandleType)0x100;
	CALL(cuMemPoolCreate, &pool, &props);
	HANDLE(pool);
	props = device_props();
	props.location.type = CU_MEM_LOCATION_TYPE_HOST;
	if (CALL(cuMemPoolCreate, &pool, &props) == CUDA_SUCCESS)
		CALL(cuMemPoolDestroy, pool);
	props.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
	if (CALL(cuMemPoolCreate, &pool, &props) == CUDA_SUCCESS)
		CALL(cuMemPoolDestroy, pool);
	props = device_props();
	props.maxSize = 64 * MIB;
	if (CALL(cuMemPoolCreate, &pool, &props) == CUDA_SUCCESS)
		CALL(cuMemPoolDestroy, pool);
}

static void attributes(void)
{
	POISONED(CUmemoryPool, pool);
	CUmemPoolProps props = device_props();
	char text[40];
	CALL(cuMemPoolCreate, &pool, &props);
	for (int a = 0; a <= 14; a++) {
		uint64_t value = POISON_64;
		CUresult r = QUIET(cuMemPoolGetAttribute, pool, (CUmemPool_attribute)a, &value);
		out_flush();
		out_append("attribute %d → %s", a, result_text(r, text));
		if (a >= 1 && a <= 3)
			INT((int)value);
		else
			SIZE(value);
	}
	CALL(cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, NULL);
	CALL(cuMemPoolDestroy, pool);
}

static void set_attributes(void)
{
	POISONED(CUmemoryPool, pool);
	CUmemPoolProps props = device_props();
	uint64_t value = 64 * MIB, zero = 0, one = 1;
	int off = 0, read = POISON_32;
	CALL(cuMemPoolCreate, &pool, &props);
	CALL(cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value);
	value = 0;
	CALL(cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value);
	SIZE(value);
	CALL(cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &off);
	CALL(cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &read);
	INT(read);
	CALL(cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero);
	CALL(cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &one);
	CALL(cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &zero);
	CALL(cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &zero);
	CALL(cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &zero);
	CALL(cuMemPoolSetAttribute, pool, (CUmemPool_attribute)99, &zero);
	CALL(cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, NULL);
	CALL(cuMemPoolDestroy, pool);
}

static void growth(void)
{
	static const size_t sizes[] = { 1,        512,      513,      1 * MIB,  2 * MIB,
					31 * MIB, 33 * MIB, 64 * MIB, 65 * MIB, 100 * MIB };
	enum { N = sizeof(sizes) / sizeof(sizes[0]) };
	CUdeviceptr p[N];
	POISONED(CUmemoryPool, pool);
	CUmemPoolProps props = device_props();
	char text[40];
	CALL(cuMemPoolCreate, &pool, &props);
	for (int i = 0; i < N; i++) {
		p[i] = 0;
		mem_mark();
		CUresult r = QUIET(cuMemAllocFromPoolAsync, &p[i], sizes[i], pool, NULL);
		out_line("# %zu: %s, at %% 512 = %d", sizes[i], result_text(r, text),
			 (int)(p[i] % 512));
		counters(pool, "after it");
		mem_delta("in the pool");
	}
	for (int i = 0; i < N; i++)
		QUIET(cuMemFreeAsync, p[i], NULL);
	counters(pool, "all freed");
	QUIET(cuStreamSynchronize, NULL);
	counters(pool, "after a sync");
	mem_delta("after a sync");
	CALL(cuMemPoolDestroy, pool);
}

static void threshold(void)
{
	POISONED(CUmemoryPool, pool);
	POISONED_PTR(p);
	CUmemPoolProps props = device_props();
	uint64_t keep = 1024 * MIB;
	CALL(cuMemPoolCreate, &pool, &props);
	CALL(cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep);
	mem_mark();
	CALL(cuMemAllocFromPoolAsync, &p, 100 * MIB, pool, NULL);
	counters(pool, "allocated");
	CALL(cuMemFreeAsync, p, NULL);
	CALL(cuStreamSynchronize, NULL);
	counters(pool, "freed and synchronised");
	mem_delta("held below the threshold");
	CALL(cuMemPoolTrimTo, pool, 64 * MIB);
	counters(pool, "trimmed to 64 MiB");
	CALL(cuMemPoolTrimTo, pool, 0);
	counters(pool, "trimmed to 0");
	mem_delta("trimmed");
	CALL(cuMemAllocFromPoolAsync, &p, 10 * MIB, pool, NULL);
	CALL(cuMemPoolTrimTo, pool, 0);
	counters(pool, "trimmed with one live");
	CALL(cuMemFreeAsync, p, NULL);
	CALL(cuMemPoolTrimTo, pool, 0);
	counters(pool, "trimmed without a sync");
	CALL(cuStreamSynchronize, NULL);
	CALL(cuMemPoolTrimTo, pool, 0);
	counters(pool, "trimmed after a sync");
	CALL(cuMemPoolDestroy, pool);
}

static void release_points(void)
{
	POISONED(CUmemoryPool, pool);
	POISONED_PTR(p);
	POISONED(CUstream, stream);
	POISONED(CUevent, event);
	CUmemPoolProps props = device_props();
	CALL(cuMemPoolCreate, &pool, &props);
	CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
	CALL(cuEventCreate, &event, 0);
	CALL(cuMemAllocFromPoolAsync, &p, 10 * MIB, pool, stream);
	CALL(cuMemFreeAsync, p, stream);
	CALL(cuEventRecord, event, stream);
	CALL(cuEventSynchronize, event);
	counters(pool, "after an event sync");
	CALL(cuMemAllocFromPoolAsync, &p, 10 * MIB, pool, stream);
	CALL(cuMemFreeAsync, p, stream);
	CALL(cuStreamSynchronize, stream);
	counters(pool, "after a stream sync");
	CALL(cuMemAllocFromPoolAsync, &p, 10 * MIB, pool, stream);
	CALL(cuMemFreeAsync, p, stream);
	CALL(cuCtxSynchronize);
	counters(pool, "after a context sync");
	CALL(cuEventDestroy_v2, event);
	CALL(cuStreamDestroy_v2, stream);
	CALL(cuMemPoolDestroy, pool);
}

static void alloc_errors(void)
{
	POISONED_PTR(p);
	POISONED(CUmemoryPool, pool);
	QUIET(cuDeviceGetDefaultMemPool, &pool, 0);
	CALL(cuMemAllocAsync, &p, 0, NULL);
	PTR(p);
	CALL(cuMemAllocAsync, NULL, 4096, NULL);
	CALL(cuMemAllocFromPoolAsync, &p, 4096, NULL, NULL);
	PTR(p);
	CALL(cuMemAllocFromPoolAsync, &p, 0, pool, NULL);
	PTR(p);
	CALL(cuMemAllocFromPoolAsync, NULL, 4096, pool, NULL);
	CALL(cuMemFreeAsync, 0, NULL);
	CALL(cuMemFreeAsync, 0x1000, NULL);
	size_t total = 0;
	QUIET(cuDeviceTotalMem_v2, &total, 0);
	CALL(cuMemAllocAsync, &p, total, NULL);
	PTR(p);
	CALL(cuMemAllocAsync, &p, (size_t)1 << 50, NULL);
	PTR(p);
	CALL(cuMemAllocAsync, &p, SIZE_MAX, NULL);
	PTR(p);
}

static void alloc_streams(void)
{
	CUstream streams[] = { NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD };
	for (int i = 0; i < 3; i++) {
		POISONED_PTR(p);
		NOTE("stream %d", i);
		CALL(cuMemAllocAsync, &p, 4096, streams[i]);
		NEWPTR(p, 4096);
		CALL(cuMemsetD32Async, p, 5, 1024, streams[i]);
		CALL(cuStreamSynchronize, streams[i]);
		data_u32(p, 4096);
		CALL(cuMemFreeAsync, p, streams[i]);
	}
	CALL(cuCtxSynchronize);
}

static void cross_free(void)
{
	POISONED_PTR(p);
	CALL(cuMemAllocAsync, &p, 4096, NULL);
	CALL(cuStreamSynchronize, NULL);
	CALL(cuMemFree_v2, p);
	CALL(cuMemFree_v2, p);
	p = alloc_quiet(4096, 0);
	CALL(cuMemFreeAsync, p, NULL);
	CALL(cuStreamSynchronize, NULL);
	CALL(cuMemFree_v2, p);
}

static void double_free(void)
{
	POISONED_PTR(p);
	CALL(cuMemAllocAsync, &p, 4096, NULL);
	CALL(cuMemFreeAsync, p, NULL);
	CALL(cuMemFreeAsync, p, NULL);
	CALL(cuStreamSynchronize, NULL);
	CALL(cuMemFreeAsync, p, NULL);
}

static void inner_free(void)
{
	POISONED_PTR(p);
	CALL(cuMemAllocAsync, &p, 4096, NULL);
	CALL(cuMemFreeAsync, p + 512, NULL);
	CALL(cuMemFree_v2, p + 512);
	CALL(cuMemFreeAsync, p, NULL);
	CALL(cuStreamSynchronize, NULL);
}

static void destroy_live(void)
{
	POISONED(CUmemoryPool, pool);
	POISONED_PTR(p);
	POISONED_PTR(q);
	CUmemPoolProps props = device_props();
	CALL(cuMemPoolCreate, &pool, &props);
	CALL(cuMemAllocFromPoolAsync, &p, 4096, pool, NULL);
	CALL(cuStreamSynchronize, NULL);
	CALL(cuMemPoolDestroy, pool);
	CALL(cuMemsetD32_v2, p, 8, 1024);
	data_u32(p, 4096);
	CALL(cuMemAllocFromPoolAsync, &q, 4096, pool, NULL);
	PTR(q);
	CALL(cuMemFreeAsync, p, NULL);
	CALL(cuStreamSynchronize, NULL);
}

static void destroyed_use(void)
{
	POISONED(CUmemoryPool, pool);
	POISONED_PTR(p);
	CUmemPoolProps props = device_props();
	uint64_t value = POISON_64;
	CALL(cuMemPoolCreate, &pool, &props);
	CALL(cuMemPoolDestroy, pool);
	CALL(cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value);
	SIZE(value);
	CALL(cuMemAllocFromPoolAsync, &p, 4096, pool, NULL);
	PTR(p);
	CALL(cuMemPoolDestroy, pool);
}

static void access(void)
{
	POISONED(CUmemoryPool, pool);
	CUmemPoolProps props = device_props();
	CUmemLocation here = { CU_MEM_LOCATION_TYPE_DEVICE, 0 };
	CUmemAccessDesc desc = { .location = here, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemAccess_flags flags = (CUmemAccess_flags)POISON_32;
	CALL(cuMemPoolCreate, &pool, &props);
	CALL(cuMemPoolGetAccess, &flags, pool, &here);
	INT(flags);
	CALL(cuMemPoolSetAccess, pool, &desc, 1);
	desc.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	CALL(cuMemPoolSetAccess, pool, &desc, 1);
	desc.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
	CALL(cuMemPoolSetAccess, pool, &desc, 1);
	desc.location.id = 4096;
	CALL(cuMemPoolSetAccess, pool, &desc, 1);
	CALL(cuMemPoolSetAccess, pool, NULL, 1);
	CALL(cuMemPoolSetAccess, pool, &desc, 0);
	CALL(cuMemPoolGetAccess, NULL, pool, &here);
	CALL(cuMemPoolGetAccess, &flags, pool, NULL);
	CALL(cuMemPoolDestroy, pool);
}

static void max_size(void)
{
	POISONED(CUmemoryPool, pool);
	POISONED_PTR(p);
	POISONED_PTR(q);
	CUmemPoolProps props = device_props();
	props.maxSize = 64 * MIB;
	if (CALL(cuMemPoolCreate, &pool, &props) != CUDA_SUCCESS)
		return;
	CALL(cuMemAllocFromPoolAsync, &p, 40 * MIB, pool, NULL);
	counters(pool, "40 of 64");
	CALL(cuMemAllocFromPoolAsync, &q, 40 * MIB, pool, NULL);
	PTR(q);
	CALL(cuMemFreeAsync, p, NULL);
	CALL(cuStreamSynchronize, NULL);
	CALL(cuMemPoolDestroy, pool);
}

static void export_pool(void)
{
	POISONED(CUmemoryPool, pool);
	POISONED_PTR(p);
	POISONED_INT(fd);
	CUmemPoolProps props = device_props();
	CUmemPoolPtrExportData data;
	CALL(cuMemPoolCreate, &pool, &props);
	CALL(cuMemPoolExportToShareableHandle, &fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	     0);
	INT(fd);
	CALL(cuMemAllocFromPoolAsync, &p, 4096, pool, NULL);
	CALL(cuMemPoolExportPointer, &data, p);
	CALL(cuMemFreeAsync, p, NULL);
	CALL(cuStreamSynchronize, NULL);
	CALL(cuMemPoolDestroy, pool);
	props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	CALL(cuMemPoolCreate, &pool, &props);
	CALL(cuMemPoolExportToShareableHandle, &fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	     0);
	YES(fd > 2 && fd != POISON_32);
	CALL(cuMemPoolExportToShareableHandle, NULL, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	     0);
	CALL(cuMemPoolExportPointer, &data, 0x1000);
	CALL(cuMemPoolDestroy, pool);
}

static void reuse(void)
{
	POISONED(CUmemoryPool, pool);
	POISONED_PTR(p);
	POISONED_PTR(q);
	CUmemPoolProps props = device_props();
	CALL(cuMemPoolCreate, &pool, &props);
	CALL(cuMemAllocFromPoolAsync, &p, 1 * MIB, pool, NULL);
	CALL(cuMemFreeAsync, p, NULL);
	CALL(cuMemAllocFromPoolAsync, &q, 1 * MIB, pool, NULL);
	YES(p == q);
	counters(pool, "reused on the same stream");
	CALL(cuMemFreeAsync, q, NULL);
	CALL(cuStreamSynchronize, NULL);
	CALL(cuMemPoolDestroy, pool);
}

FAMILY(pool, { "pool", "pool.default-current", CTX, default_current },
       { "pool", "pool.get-errors", CTX, get_errors },
       { "pool", "pool.by-location", CTX, by_location },
       { "pool", "pool.create-errors", CTX, create_errors },
       { "pool", "pool.attributes", CTX, attributes },
       { "pool", "pool.set-attributes", CTX, set_attributes },
       { "pool", "pool.alloc-errors", CTX, alloc_errors },
       { "pool", "pool.alloc-streams", CTX, alloc_streams },
       { "pool", "pool.cross-free", CTX, cross_free }, { "pool", "pool.access", CTX, access },
       { "pool", "pool.max-size", CTX, max_size }, { "pool", "pool.export", CTX, export_pool },
       { "pool", "pool.reuse", CTX, reuse }, { "pool", "pool.release-points", CTX, release_points },
       { "pool.bad", "pool.inner-free", CTX, inner_free },
       { "pool.bad", "pool.double-free", CTX, double_free },
       { "pool.bad", "pool.destroy-live", CTX, destroy_live },
       { "pool.bad", "pool.destroyed-use", CTX, destroyed_use },
       { "memory.card", "pool.growth", CTX | ALONE, growth },
       { "memory.card", "pool.threshold", CTX | ALONE, threshold }, );
