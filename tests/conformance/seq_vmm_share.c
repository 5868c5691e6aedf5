// SPDX-License-Identifier: Apache-2.0
/* Physical handles with several holders, and what they cost the card. */
#include "conform.h"

#include <unistd.h>

#define G (2 * MIB)

static CUmemAllocationProp device_prop(void)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	return prop;
}

static const CUmemAccessDesc read_write = { .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
					    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };

static void retain(void)
{
	CUmemAllocationProp prop = device_prop();
	CUmemGenericAllocationHandle h = POISON_64, again = POISON_64;
	POISONED_PTR(p);
	CALL(cuMemAddressReserve, &p, G, 0, 0, 0);
	CALL(cuMemCreate, &h, G, &prop, 0);
	CALL(cuMemMap, p, G, 0, h, 0);
	CALL(cuMemRetainAllocationHandle, &again, (void *)(uintptr_t)p);
	YES(again == h);
	CALL(cuMemRetainAllocationHandle, &again, (void *)(uintptr_t)(p + 100));
	CALL(cuMemRelease, again);
	CALL(cuMemRelease, again);
	CALL(cuMemRelease, h);
	again = POISON_64;
	CALL(cuMemRetainAllocationHandle, &again, (void *)(uintptr_t)p);
	CALL(cuMemRelease, again);
	CALL(cuMemUnmap, p, G);
	again = POISON_64;
	CALL(cuMemRetainAllocationHandle, &again, (void *)(uintptr_t)p);
	HANDLE(again);
	CALL(cuMemRetainAllocationHandle, NULL, (void *)(uintptr_t)p);
	CALL(cuMemRetainAllocationHandle, &again, NULL);
	CALL(cuMemAddressFree, p, G);
	p = alloc_quiet(4096, 0);
	CALL(cuMemRetainAllocationHandle, &again, (void *)(uintptr_t)p);
	CALL(cuMemFree_v2, p);
}

static void cross_free(void)
{
	CUmemAllocationProp prop = device_prop();
	CUmemGenericAllocationHandle h = POISON_64;
	POISONED_PTR(p);
	CALL(cuMemAddressReserve, &p, G, 0, 0, 0);
	CALL(cuMemFree_v2, p);
	CALL(cuMemCreate, &h, G, &prop, 0);
	CALL(cuMemMap, p, G, 0, h, 0);
	CALL(cuMemSetAccess, p, G, &read_write, 1);
	CALL(cuMemFree_v2, p);
	CALL(cuMemFreeAsync, p, NULL);
	CALL(cuMemUnmap, p, G);
	CALL(cuMemRelease, h);
	CALL(cuMemAddressFree, p, G);
	p = alloc_quiet(2 * MIB, 0);
	CALL(cuMemUnmap, p, 2 * MIB);
	CALL(cuMemAddressFree, p, 2 * MIB);
	CALL(cuMemSetAccess, p, 2 * MIB, &read_write, 1);
	CALL(cuMemFree_v2, p);
}

static void pointer_of(void)
{
	CUmemAllocationProp prop = device_prop();
	CUmemGenericAllocationHandle h = POISON_64;
	POISONED_PTR(p);
	POISONED_PTR(base);
	POISONED_SIZE(size);
	POISONED_INT(type);
	CALL(cuMemAddressReserve, &p, 4 * G, 0, 0, 0);
	NEWPTR(p, 4 * G);
	CALL(cuPointerGetAttribute, &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p);
	CALL(cuMemCreate, &h, G, &prop, 0);
	CALL(cuMemMap, p + G, G, 0, h, 0);
	CALL(cuMemGetAddressRange_v2, &base, &size, p + G);
	PTR(base);
	SIZE(size);
	CALL(cuMemSetAccess, p + G, G, &read_write, 1);
	CALL(cuPointerGetAttribute, &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p + G);
	INT(type);
	CALL(cuMemGetAddressRange_v2, &base, &size, p + G + 100);
	PTR(base);
	SIZE(size);
	CALL(cuPointerGetAttribute, &size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, p + G);
	SIZE(size);
	CALL(cuPointerGetAttribute, &size, CU_POINTER_ATTRIBUTE_MAPPING_SIZE, p + G);
	SIZE(size);
	CALL(cuMemUnmap, p + G, G);
	CALL(cuMemRelease, h);
	CALL(cuMemAddressFree, p, 4 * G);
}

static void export_import(void)
{
	CUmemAllocationProp prop = device_prop();
	CUmemGenericAllocationHandle h = POISON_64, imported = POISON_64;
	POISONED_PTR(p);
	POISONED_INT(fd);
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	CALL(cuMemAddressReserve, &p, 2 * G, 0, 0, 0);
	CALL(cuMemCreate, &h, G, &prop, 0);
	CALL(cuMemExportToShareableHandle, &fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	YES(fd >= 0 && fd != POISON_32);
	CALL(cuMemImportFromShareableHandle, &imported, (void *)(intptr_t)fd,
	     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	YES(imported != h);
	CALL(cuMemMap, p, G, 0, h, 0);
	CALL(cuMemMap, p + G, G, 0, imported, 0);
	CALL(cuMemSetAccess, p, 2 * G, &read_write, 1);
	CALL(cuMemsetD32_v2, p, 0x66, G / 4);
	data_u32(p + G, G);
	CALL(cuMemUnmap, p, 2 * G);
	CALL(cuMemRelease, imported);
	CALL(cuMemRelease, h);
	CALL(cuMemAddressFree, p, 2 * G);
	if (fd >= 0 && fd != POISON_32)
		close(fd);
}

static void export_errors(void)
{
	CUmemAllocationProp prop = device_prop();
	CUmemGenericAllocationHandle h = POISON_64, imported = POISON_64;
	POISONED_INT(fd);
	CALL(cuMemCreate, &h, G, &prop, 0);
	CALL(cuMemExportToShareableHandle, &fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	INT(fd);
	CALL(cuMemExportToShareableHandle, NULL, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	CALL(cuMemExportToShareableHandle, &fd, 0, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	CALL(cuMemExportToShareableHandle, &fd, h, CU_MEM_HANDLE_TYPE_WIN32, 0);
	CALL(cuMemImportFromShareableHandle, &imported, (void *)(intptr_t)-1,
	     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	HANDLE(imported);
	int pipes[2];
	if (pipe(pipes) == 0) {
		CALL(cuMemImportFromShareableHandle, &imported, (void *)(intptr_t)pipes[0],
		     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
		HANDLE(imported);
		close(pipes[0]);
		close(pipes[1]);
	}
	CALL(cuMemImportFromShareableHandle, NULL, (void *)(intptr_t)0,
	     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	CALL(cuMemRelease, h);
}

static void card_growth(void)
{
	CUmemAllocationProp prop = device_prop();
	CUmemGenericAllocationHandle h = POISON_64, again = POISON_64;
	POISONED_PTR(p);
	mem_mark();
	CALL(cuMemAddressReserve, &p, 64 * MIB, 0, 0, 0);
	mem_delta("reserved");
	CALL(cuMemCreate, &h, 32 * MIB, &prop, 0);
	mem_delta("created");
	CALL(cuMemMap, p, 32 * MIB, 0, h, 0);
	CALL(cuMemMap, p + 32 * MIB, 32 * MIB, 0, h, 0);
	CALL(cuMemSetAccess, p, 64 * MIB, &read_write, 1);
	mem_delta("mapped twice");
	CALL(cuMemRetainAllocationHandle, &again, (void *)(uintptr_t)p);
	CALL(cuMemRelease, h);
	mem_delta("released once of two");
	CALL(cuMemUnmap, p, 64 * MIB);
	mem_delta("unmapped");
	CALL(cuMemRelease, again);
	mem_delta("released");
	CALL(cuMemAddressFree, p, 64 * MIB);
	mem_delta("address freed");
}

static void host_growth(void)
{
	CUmemAllocationProp prop = device_prop();
	CUmemGenericAllocationHandle h = POISON_64;
	prop.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
	mem_mark();
	if (CALL(cuMemCreate, &h, 32 * MIB, &prop, 0) != CUDA_SUCCESS)
		return;
	mem_delta("created on the host");
	CALL(cuMemRelease, h);
	mem_delta("released");
}

FAMILY(vmm_share, { "vmm", "vmm.retain", CTX, retain },
       { "vmm", "vmm.cross-free", CTX, cross_free }, { "vmm", "vmm.pointer-of", CTX, pointer_of },
       { "vmm", "vmm.export-import", CTX, export_import },
       { "vmm", "vmm.export-errors", CTX, export_errors },
       { "memory.card", "vmm.card-growth", CTX | ALONE, card_growth },
       { "memory.card", "vmm.host-growth", CTX | ALONE, host_growth }, );
