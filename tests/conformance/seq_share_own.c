// SPDX-License-Identifier: Apache-2.0
/* What can be shared, within one process: descriptors, external memory, multicast, dma-buf. */
#include "partner.h"

#include <string.h>
#include <unistd.h>

#define FD_TYPE CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
#define G       (2 * MIB)

static const CUmemAccessDesc read_write = { .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
					    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };

static CUmemAllocationProp shared_prop(void)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .requestedHandleTypes = FD_TYPE,
				     .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	return prop;
}

static void close_fd(int fd)
{
	if (fd >= 0 && fd != POISON_32)
		close(fd);
}

/* the descriptor alone keeps the memory */
static void fd_keeps(void)
{
	CUmemAllocationProp prop = shared_prop();
	CUmemGenericAllocationHandle h = POISON_64, imported = POISON_64;
	POISONED_PTR(p);
	POISONED_INT(fd);
	CALL(cuMemAddressReserve, &p, G, 0, 0, 0);
	mem_mark();
	CALL(cuMemCreate, &h, G, &prop, 0);
	CALL(cuMemMap, p, G, 0, h, 0);
	CALL(cuMemSetAccess, p, G, &read_write, 1);
	CALL(cuMemsetD32_v2, p, 0x31, G / 4);
	mem_delta("created and mapped");
	CALL(cuMemExportToShareableHandle, &fd, h, FD_TYPE, 0);
	mem_delta("exported");
	CALL(cuMemUnmap, p, G);
	CALL(cuMemRelease, h);
	mem_delta("unmapped and released, the descriptor is left");
	CALL(cuMemImportFromShareableHandle, &imported, (void *)(intptr_t)fd, FD_TYPE);
	close_fd(fd);
	mem_delta("imported, the descriptor closed");
	CALL(cuMemMap, p, G, 0, imported, 0);
	CALL(cuMemSetAccess, p, G, &read_write, 1);
	reads("here", p, 4096);
	CALL(cuMemUnmap, p, G);
	CALL(cuMemRelease, imported);
	mem_delta("released");
	CALL(cuMemAddressFree, p, G);
}

static void imported_properties(void)
{
	CUmemAllocationProp prop = shared_prop(), got;
	CUmemGenericAllocationHandle h = POISON_64, one = POISON_64, two = POISON_64;
	POISONED_INT(fd);
	POISONED_INT(again);
	CALL(cuMemCreate, &h, G, &prop, 0);
	CALL(cuMemExportToShareableHandle, &fd, h, FD_TYPE, 0);
	CALL(cuMemImportFromShareableHandle, &one, (void *)(intptr_t)fd, FD_TYPE);
	CALL(cuMemImportFromShareableHandle, &two, (void *)(intptr_t)fd, FD_TYPE);
	YES(one != two);
	memset(&got, 0xee, sizeof(got));
	CALL(cuMemGetAllocationPropertiesFromHandle, &got, one);
	INT(got.type);
	INT(got.requestedHandleTypes);
	INT(got.location.type);
	INT(got.location.id);
	CALL(cuMemExportToShareableHandle, &again, one, FD_TYPE, 0);
	YES(again >= 0 && again != POISON_32);
	CALL(cuMemRelease, h);
	CALL(cuMemRelease, one);
	CALL(cuMemImportFromShareableHandle, &one, (void *)(intptr_t)again, FD_TYPE);
	CALL(cuMemRelease, one);
	CALL(cuMemRelease, two);
	close_fd(fd);
	close_fd(again);
}

static void retain_imported(void)
{
	CUmemAllocationProp prop = shared_prop();
	CUmemGenericAllocationHandle h = POISON_64, one = POISON_64, kept = POISON_64;
	POISONED_PTR(p);
	POISONED_INT(fd);
	CALL(cuMemCreate, &h, G, &prop, 0);
	CALL(cuMemExportToShareableHandle, &fd, h, FD_TYPE, 0);
	CALL(cuMemImportFromShareableHandle, &one, (void *)(intptr_t)fd, FD_TYPE);
	close_fd(fd);
	CALL(cuMemRelease, h);
	CALL(cuMemAddressReserve, &p, G, 0, 0, 0);
	CALL(cuMemMap, p, G, 0, one, 0);
	CALL(cuMemRetainAllocationHandle, &kept, (void *)(uintptr_t)p);
	YES(kept == one);
	CALL(cuMemRelease, one);
	CALL(cuMemUnmap, p, G);
	CALL(cuMemMap, p, G, 0, kept, 0);
	CALL(cuMemUnmap, p, G);
	CALL(cuMemRelease, kept);
	CALL(cuMemAddressFree, p, G);
}

static void fabric(void)
{
	CUmemAllocationProp prop = shared_prop();
	CUmemGenericAllocationHandle h = POISON_64;
	unsigned char handle[64];
	POISONED_INT(supported);
	memset(handle, 0, sizeof(handle));
	CALL(cuDeviceGetAttribute, &supported, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, 0);
	INT(supported);
	CALL(cuMemImportFromShareableHandle, &h, handle, CU_MEM_HANDLE_TYPE_FABRIC);
	HANDLE(h);
	CALL(cuMemCreate, &h, G, &prop, 0);
	CALL(cuMemExportToShareableHandle, handle, h, CU_MEM_HANDLE_TYPE_FABRIC, 0);
	CALL(cuMemRelease, h);
}

/* ---- external memory ---- */

static void external_buffer(void)
{
	CUmemAllocationProp prop = shared_prop();
	CUmemGenericAllocationHandle h = POISON_64;
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC what = { .type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
						  .size = G };
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC all = { .size = G };
	POISONED(CUexternalMemory, ext);
	POISONED_PTR(p);
	POISONED_PTR(q);
	POISONED_INT(fd);
	CALL(cuMemCreate, &h, G, &prop, 0);
	CALL(cuMemAddressReserve, &p, G, 0, 0, 0);
	CALL(cuMemMap, p, G, 0, h, 0);
	CALL(cuMemSetAccess, p, G, &read_write, 1);
	CALL(cuMemsetD32_v2, p, 0x32, G / 4);
	CALL(cuMemExportToShareableHandle, &fd, h, FD_TYPE, 0);
	what.handle.fd = fd;
	if (CALL(cuImportExternalMemory, &ext, &what) == CUDA_SUCCESS) {
		CALL(cuExternalMemoryGetMappedBuffer, &q, ext, &all);
		if (q != POISON_64)
			reads("here", q, 4096);
		all.flags = 1;
		CALL(cuExternalMemoryGetMappedBuffer, &q, ext, &all);
		all = (CUDA_EXTERNAL_MEMORY_BUFFER_DESC){ .offset = G, .size = G };
		CALL(cuExternalMemoryGetMappedBuffer, &q, ext, &all);
		all = (CUDA_EXTERNAL_MEMORY_BUFFER_DESC){ 0 };
		CALL(cuExternalMemoryGetMappedBuffer, &q, ext, &all);
		CALL(cuMemFree_v2, q);
		CALL(cuDestroyExternalMemory, ext);
	} else {
		close_fd(fd);
	}
	CALL(cuMemUnmap, p, G);
	CALL(cuMemRelease, h);
	CALL(cuMemAddressFree, p, G);
}

static void external_errors(void)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC what = { .type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
						  .handle.fd = -1,
						  .size = G };
	CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC sem = {
		.type = CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD, .handle.fd = -1
	};
	POISONED(CUexternalMemory, ext);
	POISONED(CUexternalSemaphore, es);
	int pipes[2];
	CALL(cuImportExternalMemory, &ext, &what);
	HANDLE(ext);
	if (pipe(pipes) == 0) {
		what.handle.fd = pipes[0];
		CALL(cuImportExternalMemory, &ext, &what);
		sem.handle.fd = pipes[1];
		CALL(cuImportExternalSemaphore, &es, &sem);
		close(pipes[0]);
		close(pipes[1]);
	}
	what.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_HEAP;
	CALL(cuImportExternalMemory, &ext, &what);
	what.type = (CUexternalMemoryHandleType)77;
	CALL(cuImportExternalMemory, &ext, &what);
	what.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD;
	what.size = 0;
	CALL(cuImportExternalMemory, &ext, &what);
	CALL(cuImportExternalMemory, NULL, &what);
	CALL(cuImportExternalMemory, &ext, NULL);
	CALL(cuImportExternalSemaphore, NULL, &sem);
	CALL(cuImportExternalSemaphore, &es, NULL);
}

/* ---- multicast ---- */

static void multicast(void)
{
	CUmulticastObjectProp prop = { .numDevices = 1, .size = G };
	CUmemGenericAllocationHandle mc = POISON_64;
	POISONED_SIZE(grain);
	POISONED_INT(supported);
	CALL(cuDeviceGetAttribute, &supported, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0);
	INT(supported);
	CALL(cuMulticastGetGranularity, &grain, &prop, CU_MULTICAST_GRANULARITY_MINIMUM);
	SIZE(grain);
	mem_mark();
	if (CALL(cuMulticastCreate, &mc, &prop) == CUDA_SUCCESS) {
		mem_delta("created");
		CALL(cuMulticastAddDevice, mc, 0);
		mem_delta("with a device");
		CALL(cuMemRelease, mc);
	}
	HANDLE(mc);
	prop.size = 0;
	CALL(cuMulticastCreate, &mc, &prop);
	prop = (CUmulticastObjectProp){ .size = G };
	CALL(cuMulticastCreate, &mc, &prop);
	CALL(cuMulticastCreate, NULL, &prop);
	CALL(cuMulticastCreate, &mc, NULL);
	CALL(cuMulticastGetGranularity, NULL, &prop, CU_MULTICAST_GRANULARITY_MINIMUM);
}

/* ---- dma-buf ---- */

static void dma_buf(void)
{
	CUdeviceptr p = alloc_quiet(4 * MIB, 0);
	POISONED_INT(fd);
	POISONED_INT(supported);
	CALL(cuDeviceGetAttribute, &supported, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 0);
	INT(supported);
	mem_mark();
	CALL(cuMemGetHandleForAddressRange, &fd, p, 4 * MIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
	     0);
	YES(fd >= 0 && fd != POISON_32);
	mem_delta("a descriptor of it");
	CALL(cuMemFree_v2, p);
	mem_delta("freed, the descriptor is left");
	close_fd(fd);
	mem_delta("closed");
	p = alloc_quiet(4 * MIB, 0);
	fd = POISON_32;
	CALL(cuMemGetHandleForAddressRange, &fd, p + 512, 4096, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
	     0);
	CALL(cuMemGetHandleForAddressRange, &fd, p, 0, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
	CALL(cuMemGetHandleForAddressRange, &fd, p, 8 * MIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
	     0);
	CALL(cuMemGetHandleForAddressRange, &fd, p, 4 * MIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
	     1u << 20);
	CALL(cuMemGetHandleForAddressRange, &fd, p, 4 * MIB, (CUmemRangeHandleType)7, 0);
	CALL(cuMemGetHandleForAddressRange, NULL, p, 4 * MIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
	     0);
	CALL(cuMemGetHandleForAddressRange, &fd, 0x1000, 4096, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
	     0);
	INT(fd);
	CALL(cuMemFree_v2, p);
}

FAMILY(share_own, { "share.own", "share.imported-properties", CTX, imported_properties },
       { "share.own", "share.retain-imported", CTX, retain_imported },
       { "share.own", "share.fabric", CTX, fabric },
       { "share.external", "share.external-errors", CTX, external_errors },
       { "share.external", "share.external-buffer", CTX, external_buffer },
       { "share.card", "share.fd-keeps", CTX | ALONE, fd_keeps },
       { "share.card", "share.multicast", CTX | ALONE, multicast },
       { "share.card", "share.dma-buf", CTX | ALONE, dma_buf }, );
