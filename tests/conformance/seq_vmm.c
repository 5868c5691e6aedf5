// SPDX-License-Identifier: Apache-2.0
/* Virtual memory management: physical handles, reserved addresses, mapping, access. */
#include "conform.h"

#include <string.h>

#define G (2 * MIB)

static CUmemAllocationProp device_prop(void)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	return prop;
}

static const CUmemAccessDesc read_write = { .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
					    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };

static void granularity(void)
{
	CUmemAllocationProp prop = device_prop();
	POISONED_SIZE(g);
	CALL(cuMemGetAllocationGranularity, &g, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
	SIZE(g);
	CALL(cuMemGetAllocationGranularity, &g, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
	SIZE(g);
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	CALL(cuMemGetAllocationGranularity, &g, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
	SIZE(g);
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
	prop.location.type = CU_MEM_LOCATION_TYPE_HOST;
	g = POISON_64;
	CALL(cuMemGetAllocationGranularity, &g, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
	SIZE(g);
	prop.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
	g = POISON_64;
	CALL(cuMemGetAllocationGranularity, &g, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
	SIZE(g);
	CALL(cuMemGetAllocationGranularity, &g, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
	SIZE(g);
}

static void granularity_errors(void)
{
	CUmemAllocationProp prop = device_prop();
	POISONED_SIZE(g);
	CALL(cuMemGetAllocationGranularity, NULL, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
	CALL(cuMemGetAllocationGranularity, &g, NULL, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
	SIZE(g);
	CALL(cuMemGetAllocationGranularity, &g, &prop, (CUmemAllocationGranularity_flags)9);
	SIZE(g);
	prop.location.id = 4096;
	CALL(cuMemGetAllocationGranularity, &g, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
	SIZE(g);
	prop.location.id = -1;
	CALL(cuMemGetAllocationGranularity, &g, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
	SIZE(g);
	prop = device_prop();
	prop.type = CU_MEM_ALLOCATION_TYPE_INVALID;
	CALL(cuMemGetAllocationGranularity, &g, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
	SIZE(g);
}

static void create_release(void)
{
	CUmemAllocationProp prop = device_prop(), back;
	CUmemGenericAllocationHandle h = POISON_64;
	CALL(cuMemCreate, &h, G, &prop, 0);
	NEWHANDLE(h);
	memset(&back, 0x5a, sizeof(back));
	CALL(cuMemGetAllocationPropertiesFromHandle, &back, h);
	INT(back.type);
	INT(back.requestedHandleTypes);
	INT(back.location.type);
	INT(back.location.id);
	INT(back.allocFlags.compressionType);
	INT(back.allocFlags.gpuDirectRDMACapable);
	INT(back.allocFlags.usage);
	CALL(cuMemGetAllocationPropertiesFromHandle, NULL, h);
	CALL(cuMemRelease, h);
	CALL(cuMemRelease, h);
	CALL(cuMemGetAllocationPropertiesFromHandle, &back, h);
}

static void create_errors(void)
{
	CUmemAllocationProp prop = device_prop();
	CUmemGenericAllocationHandle h = POISON_64;
	CALL(cuMemCreate, &h, 0, &prop, 0);
	HANDLE(h);
	CALL(cuMemCreate, &h, 4096, &prop, 0);
	HANDLE(h);
	CALL(cuMemCreate, &h, G + 1, &prop, 0);
	HANDLE(h);
	CALL(cuMemCreate, &h, G, NULL, 0);
	HANDLE(h);
	CALL(cuMemCreate, NULL, G, &prop, 0);
	CALL(cuMemCreate, &h, G, &prop, 1);
	HANDLE(h);
	CALL(cuMemRelease, 0);
	CALL(cuMemRelease, 0x1234);
	prop.type = CU_MEM_ALLOCATION_TYPE_INVALID;
	CALL(cuMemCreate, &h, G, &prop, 0);
	prop.type = CU_MEM_ALLOCATION_TYPE_MANAGED;
	CALL(cuMemCreate, &h, G, &prop, 0);
	prop = device_prop();
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_WIN32;
	CALL(cuMemCreate, &h, G, &prop, 0);
	HANDLE(h);
}

static void create_locations(void)
{
	CUmemAllocationProp prop = device_prop();
	CUmemGenericAllocationHandle h = POISON_64;
	static const int ids[] = { 1, -1, 4096, 0x7fffffff };
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		prop.location.id = ids[i];
		NOTE("device %d", ids[i]);
		CALL(cuMemCreate, &h, G, &prop, 0);
		HANDLE(h);
	}
	prop.location.id = 0;
	for (int type = 0; type <= 6; type++) {
		prop.location.type = (CUmemLocationType)type;
		h = POISON_64;
		NOTE("location type %d", type);
		if (CALL(cuMemCreate, &h, G, &prop, 0) == CUDA_SUCCESS)
			CALL(cuMemRelease, h);
		else
			HANDLE(h);
	}
}

static void out_of_memory(void)
{
	CUmemAllocationProp prop = device_prop();
	CUmemGenericAllocationHandle h = POISON_64;
	size_t total = 0;
	QUIET(cuDeviceTotalMem_v2, &total, 0);
	total = (total + G - 1) / G * G;
	CALL(cuMemCreate, &h, total, &prop, 0);
	HANDLE(h);
	CALL(cuMemCreate, &h, (size_t)1 << 50, &prop, 0);
	HANDLE(h);
	CALL(cuMemCreate, &h, (size_t)1 << 63, &prop, 0);
	HANDLE(h);
	CALL(cuMemCreate, &h, SIZE_MAX - (G - 1), &prop, 0);
	HANDLE(h);
}

static void reserve(void)
{
	POISONED_PTR(p);
	POISONED_PTR(q);
	CALL(cuMemAddressReserve, &p, G, 0, 0, 0);
	NEWPTR(p, G);
	YES(p % G == 0);
	CALL(cuMemAddressReserve, &q, G, 64 * MIB, 0, 0);
	NEWPTR(q, G);
	YES(q % (64 * MIB) == 0);
	CALL(cuMemAddressFree, q, G);
	CALL(cuMemAddressFree, p, G);
	CALL(cuMemAddressFree, p, G);
	CALL(cuMemAddressReserve, &p, (size_t)1 << 40, 0, 0, 0);
	NEWPTR(p, (size_t)1 << 40);
	CALL(cuMemAddressFree, p, (size_t)1 << 40);
}

static void reserve_errors(void)
{
	POISONED_PTR(p);
	CALL(cuMemAddressReserve, &p, 0, 0, 0, 0);
	PTR(p);
	CALL(cuMemAddressReserve, &p, 4096, 0, 0, 0);
	PTR(p);
	CALL(cuMemAddressReserve, &p, G, 3, 0, 0);
	PTR(p);
	CALL(cuMemAddressReserve, &p, G, 0, 0, 1);
	PTR(p);
	CALL(cuMemAddressReserve, NULL, G, 0, 0, 0);
	CALL(cuMemAddressReserve, &p, (size_t)1 << 62, 0, 0, 0);
	PTR(p);
	CALL(cuMemAddressFree, 0, G);
	CALL(cuMemAddressFree, 0x1000, G);
	CALL(cuMemAddressReserve, &p, 4 * G, 0, 0, 0);
	CALL(cuMemAddressFree, p, G);
	CALL(cuMemAddressFree, p + G, G);
	CALL(cuMemAddressFree, p, 4 * G);
}

static void reserve_hint(void)
{
	POISONED_PTR(p);
	POISONED_PTR(q);
	CALL(cuMemAddressReserve, &p, 4 * G, 0, 0, 0);
	CALL(cuMemAddressFree, p, 4 * G);
	CALL(cuMemAddressReserve, &q, 4 * G, 0, p, 0);
	YES(p == q);
	POISONED_PTR(taken);
	CALL(cuMemAddressReserve, &taken, 4 * G, 0, q, 0);
	YES(taken != q);
	CALL(cuMemAddressFree, taken, 4 * G);
	CALL(cuMemAddressFree, q, 4 * G);
}

static void whole_life(void)
{
	CUmemAllocationProp prop = device_prop();
	CUmemGenericAllocationHandle h = POISON_64;
	POISONED_PTR(p);
	unsigned long long flags = POISON_64;
	CALL(cuMemAddressReserve, &p, 2 * G, 0, 0, 0);
	NEWPTR(p, 2 * G);
	CALL(cuMemCreate, &h, G, &prop, 0);
	NEWHANDLE(h);
	CALL(cuMemMap, p, G, 0, h, 0);
	CALL(cuMemGetAccess, &flags, &read_write.location, p);
	INT(flags);
	CALL(cuMemSetAccess, p, G, &read_write, 1);
	CALL(cuMemGetAccess, &flags, &read_write.location, p);
	INT(flags);
	CALL(cuMemsetD32_v2, p, 0x77, G / 4);
	data_u32(p, G);
	CALL(cuMemUnmap, p, G);
	CALL(cuMemMap, p + G, G, 0, h, 0);
	CALL(cuMemSetAccess, p + G, G, &read_write, 1);
	data_u32(p + G, G);
	CALL(cuMemUnmap, p + G, G);
	CALL(cuMemRelease, h);
	CALL(cuMemAddressFree, p, 2 * G);
}

static void release_before_unmap(void)
{
	CUmemAllocationProp prop = device_prop();
	CUmemGenericAllocationHandle h = POISON_64;
	POISONED_PTR(p);
	CALL(cuMemAddressReserve, &p, G, 0, 0, 0);
	CALL(cuMemCreate, &h, G, &prop, 0);
	CALL(cuMemMap, p, G, 0, h, 0);
	CALL(cuMemRelease, h);
	CALL(cuMemSetAccess, p, G, &read_write, 1);
	CALL(cuMemsetD32_v2, p, 5, G / 4);
	data_u32(p, G);
	CALL(cuMemAddressFree, p, G);
	CALL(cuMemUnmap, p, G);
	CALL(cuMemUnmap, p, G);
	CALL(cuMemAddressFree, p, G);
}

static void map_twice(void)
{
	CUmemAllocationProp prop = device_prop();
	CUmemGenericAllocationHandle h = POISON_64;
	POISONED_PTR(p);
	CALL(cuMemAddressReserve, &p, 4 * G, 0, 0, 0);
	CALL(cuMemCreate, &h, G, &prop, 0);
	CALL(cuMemMap, p, G, 0, h, 0);
	CALL(cuMemMap, p, G, 0, h, 0);
	CALL(cuMemMap, p + G, G, 0, h, 0);
	CALL(cuMemSetAccess, p, 2 * G, &read_write, 1);
	CALL(cuMemsetD32_v2, p, 0x31, G / 4);
	data_u32(p + G, G);
	CALL(cuMemUnmap, p, 2 * G);
	CALL(cuMemRelease, h);
	CALL(cuMemAddressFree, p, 4 * G);
}

static void map_errors(void)
{
	CUmemAllocationProp prop = device_prop();
	CUmemGenericAllocationHandle h = POISON_64;
	POISONED_PTR(p);
	CALL(cuMemAddressReserve, &p, 2 * G, 0, 0, 0);
	CALL(cuMemCreate, &h, 2 * G, &prop, 0);
	CALL(cuMemMap, 0, G, 0, h, 0);
	CALL(cuMemMap, p, 0, 0, h, 0);
	CALL(cuMemMap, p + 4096, G, 0, h, 0);
	CALL(cuMemMap, p, 4096, 0, h, 0);
	CALL(cuMemMap, p, 4 * G, 0, h, 0);
	CALL(cuMemMap, p, G, G, h, 0);
	CALL(cuMemMap, p, 2 * G, 0, h, 1);
	CALL(cuMemMap, p, 2 * G, 0, 0, 0);
	CALL(cuMemMap, p, 2 * G, 0, 0x1234, 0);
	CALL(cuMemMap, 0x7f0000000000ull, 2 * G, 0, h, 0);
	CALL(cuMemUnmap, p, 2 * G);
	CALL(cuMemRelease, h);
	CALL(cuMemAddressFree, p, 2 * G);
}

static void partial_unmap(void)
{
	CUmemAllocationProp prop = device_prop();
	CUmemGenericAllocationHandle h = POISON_64;
	POISONED_PTR(p);
	CALL(cuMemAddressReserve, &p, 4 * G, 0, 0, 0);
	CALL(cuMemCreate, &h, 2 * G, &prop, 0);
	CALL(cuMemMap, p, 2 * G, 0, h, 0);
	CALL(cuMemSetAccess, p, 2 * G, &read_write, 1);
	CALL(cuMemUnmap, p, G);
	CALL(cuMemUnmap, p + G, G);
	CALL(cuMemUnmap, p, 4 * G);
	CALL(cuMemUnmap, p, 2 * G);
	CALL(cuMemUnmap, 0, G);
	CALL(cuMemUnmap, p, 0);
	CALL(cuMemRelease, h);
	CALL(cuMemAddressFree, p, 4 * G);
}

static void access_errors(void)
{
	CUmemAllocationProp prop = device_prop();
	CUmemGenericAllocationHandle h = POISON_64;
	CUmemAccessDesc bad = read_write;
	POISONED_PTR(p);
	unsigned long long flags = POISON_64;
	CALL(cuMemAddressReserve, &p, 2 * G, 0, 0, 0);
	CALL(cuMemSetAccess, p, G, &read_write, 1);
	CALL(cuMemCreate, &h, G, &prop, 0);
	CALL(cuMemMap, p, G, 0, h, 0);
	CALL(cuMemSetAccess, p, 2 * G, &read_write, 1);
	CALL(cuMemSetAccess, p, 4096, &read_write, 1);
	CALL(cuMemSetAccess, p, G, NULL, 1);
	CALL(cuMemSetAccess, p, G, &read_write, 0);
	CALL(cuMemSetAccess, 0, G, &read_write, 1);
	bad.location.id = 4096;
	CALL(cuMemSetAccess, p, G, &bad, 1);
	bad = read_write;
	bad.flags = (CUmemAccess_flags)2;
	CALL(cuMemSetAccess, p, G, &bad, 1);
	bad.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
	CALL(cuMemSetAccess, p, G, &bad, 1);
	CALL(cuMemGetAccess, &flags, &bad.location, p);
	INT(flags);
	bad.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	CALL(cuMemSetAccess, p, G, &bad, 1);
	CALL(cuMemGetAccess, &flags, &bad.location, p);
	INT(flags);
	CALL(cuMemGetAccess, NULL, &bad.location, p);
	CALL(cuMemGetAccess, &flags, NULL, p);
	CALL(cuMemGetAccess, &flags, &bad.location, p + G);
	CALL(cuMemUnmap, p, G);
	CALL(cuMemRelease, h);
	CALL(cuMemAddressFree, p, 2 * G);
}

static void copy_without_access(void)
{
	CUmemAllocationProp prop = device_prop();
	CUmemGenericAllocationHandle h = POISON_64;
	POISONED_PTR(p);
	uint32_t word = 1;
	CALL(cuMemAddressReserve, &p, 2 * G, 0, 0, 0);
	CALL(cuMemcpyHtoD_v2, p, &word, 4);
	CALL(cuMemCreate, &h, G, &prop, 0);
	CALL(cuMemMap, p, G, 0, h, 0);
	CALL(cuMemcpyHtoD_v2, p, &word, 4);
	CALL(cuMemcpyDtoH_v2, &word, p, 4);
	CALL(cuMemsetD32_v2, p, 1, 1);
	CALL(cuCtxSynchronize);
	CALL(cuMemUnmap, p, G);
	CALL(cuMemRelease, h);
	CALL(cuMemAddressFree, p, 2 * G);
}

FAMILY(vmm, { "vmm", "vmm.granularity", CTX, granularity },
       { "vmm", "vmm.granularity-errors", CTX, granularity_errors },
       { "vmm", "vmm.create-release", CTX, create_release },
       { "vmm", "vmm.create-errors", CTX, create_errors },
       { "vmm", "vmm.create-locations", CTX, create_locations },
       { "vmm", "vmm.reserve", CTX, reserve }, { "vmm", "vmm.reserve-errors", CTX, reserve_errors },
       { "vmm", "vmm.reserve-hint", CTX, reserve_hint },
       { "vmm", "vmm.whole-life", CTX, whole_life },
       { "vmm", "vmm.release-before-unmap", CTX, release_before_unmap },
       { "vmm", "vmm.map-twice", CTX, map_twice }, { "vmm", "vmm.map-errors", CTX, map_errors },
       { "vmm", "vmm.partial-unmap", CTX, partial_unmap },
       { "vmm", "vmm.access-errors", CTX, access_errors },
       { "vmm.bad", "vmm.copy-without-access", CTX, copy_without_access },
       { "memory.card", "vmm.out-of-memory", CTX | ALONE, out_of_memory }, );
