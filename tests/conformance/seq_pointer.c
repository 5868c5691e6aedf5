// SPDX-License-Identifier: Apache-2.0
/* What the driver answers about a pointer, for each way to come by one. */
#include "conform.h"

#include <stdlib.h>

static void all_attributes(CUdeviceptr p)
{
	char text[40];
	for (int a = 0; a <= 22; a++) {
		union {
			uint64_t u64;
			uint32_t u32;
			unsigned char bytes[64];
		} value = { .u64 = POISON_64 };
		CUresult r = QUIET(cuPointerGetAttribute, &value, (CUpointer_attribute)a, p);
		out_flush();
		out_append("attribute %d → %s", a, result_text(r, text));
		switch (a) {
		case CU_POINTER_ATTRIBUTE_CONTEXT:
			out_append(" %s", value.u64 == (uintptr_t)conf_ctx ? "the context"
					  : value.u64 == 0                 ? "NULL"
					  : value.u64 == POISON_64         ? "untouched"
									   : "another");
			break;
		case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
			out_ptr("value", value.u64);
			break;
		case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
			out_size("value", value.u64);
			break;
		case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
			break;
		case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
			out_append(" %s", value.u64 == POISON_64 ? "untouched"
					  : value.u64            ? "some id"
								 : "0");
			break;
		case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
			out_append(" %s", value.u64 == POISON_64 ? "untouched"
					  : value.u64            ? "some pool"
								 : "0");
			break;
		case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		case CU_POINTER_ATTRIBUTE_MAPPED:
		case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
		case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
			if (value.bytes[0] == 0x5a)
				out_append(" untouched");
			else
				out_append(" %d", value.bytes[0]);
			break;
		default:
			if (value.u32 == POISON_32)
				out_append(" untouched");
			else
				out_append(" %d", (int)value.u32);
		}
	}
}

static void of_alloc(void)
{
	CUdeviceptr p = alloc_quiet(4096, 0);
	all_attributes(p);
	NOTE("inside");
	all_attributes(p + 100);
	QUIET(cuMemFree_v2, p);
}

static void of_managed(void)
{
	POISONED_PTR(p);
	CALL(cuMemAllocManaged, &p, 4096, CU_MEM_ATTACH_GLOBAL);
	NEWPTR(p, 4096);
	all_attributes(p);
	QUIET(cuMemFree_v2, p);
}

static void of_pinned(void)
{
	POISONED(void *, host);
	CALL(cuMemHostAlloc, &host, 4096, CU_MEMHOSTALLOC_DEVICEMAP);
	NEWPTR(host, 4096);
	all_attributes((CUdeviceptr)(uintptr_t)host);
	QUIET(cuMemFreeHost, host);
}

static void of_registered(void)
{
	void *host = aligned_alloc(4096, 8192);
	if (!host)
		abort();
	CALL(cuMemHostRegister_v2, host, 8192, 0);
	NEWPTR(host, 8192);
	all_attributes((CUdeviceptr)(uintptr_t)host + 100);
	QUIET(cuMemHostUnregister, host);
	free(host);
}

static void of_plain_host(void)
{
	/* aligned as it was when it was recorded, and no better */
	static _Alignas(64) uint64_t room[20];
	uint64_t *local = room + 32 / sizeof(room[0]);
	NEWPTR(local, 16 * sizeof(room[0]));
	all_attributes((CUdeviceptr)(uintptr_t)local);
}

static void of_async(void)
{
	POISONED_PTR(p);
	CALL(cuMemAllocAsync, &p, 4096, NULL);
	NEWPTR(p, 4096);
	CALL(cuStreamSynchronize, NULL);
	all_attributes(p);
	CALL(cuMemFreeAsync, p, NULL);
	CALL(cuStreamSynchronize, NULL);
}

static void of_nothing(void)
{
	NOTE("NULL");
	all_attributes(0);
	NOTE("freed");
	CUdeviceptr p = alloc_quiet(64 * MIB, 0);
	QUIET(cuMemFree_v2, p);
	all_attributes(p);
}

static void range(void)
{
	POISONED_PTR(base);
	POISONED_SIZE(size);
	CUdeviceptr p = alloc_quiet(1000, 0);
	CALL(cuMemGetAddressRange_v2, &base, &size, p);
	PTR(base);
	SIZE(size);
	CALL(cuMemGetAddressRange_v2, &base, &size, p + 999);
	PTR(base);
	SIZE(size);
	base = size = POISON_64;
	CALL(cuMemGetAddressRange_v2, NULL, &size, p);
	SIZE(size);
	CALL(cuMemGetAddressRange_v2, &base, NULL, p);
	PTR(base);
	CALL(cuMemGetAddressRange_v2, NULL, NULL, p);
	base = size = POISON_64;
	CALL(cuMemGetAddressRange_v2, &base, &size, 0);
	PTR(base);
	SIZE(size);
	CALL(cuMemGetAddressRange_v2, &base, &size, 0x1000);
	PTR(base);
	SIZE(size);
	CALL(cuMemFree_v2, p);
	CALL(cuMemGetAddressRange_v2, &base, &size, p);
	PTR(base);
	SIZE(size);
}

static void range_end(void)
{
	POISONED_PTR(base);
	POISONED_SIZE(size);
	CUdeviceptr p = alloc_quiet(2 * MIB, 0);
	CALL(cuMemGetAddressRange_v2, &base, &size, p + 2 * MIB - 1);
	PTR(base);
	SIZE(size);
	CALL(cuMemFree_v2, p);
}

static void several(void)
{
	CUdeviceptr p = alloc_quiet(4096, 0);
	CUmemorytype type = (CUmemorytype)POISON_32;
	POISONED_PTR(device);
	POISONED_INT(ordinal);
	CUpointer_attribute ask[] = { CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
				      CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
				      CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL };
	void *data[] = { &type, &device, &ordinal };
	CALL(cuPointerGetAttributes, 3, ask, data, p);
	INT(type);
	PTR(device);
	INT(ordinal);
	CALL(cuPointerGetAttributes, 0, ask, data, p);
	CALL(cuPointerGetAttributes, 3, NULL, data, p);
	CALL(cuPointerGetAttributes, 3, ask, NULL, p);
	CALL(cuPointerGetAttributes, 3, ask, data, 0x1000);
	INT(type);
	PTR(device);
	INT(ordinal);
	CALL(cuMemFree_v2, p);
}

static void set_attribute(void)
{
	CUdeviceptr p = alloc_quiet(4096, 0);
	unsigned int on = 1, value = POISON_32;
	CALL(cuPointerSetAttribute, &on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p);
	CALL(cuPointerGetAttribute, &value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p);
	CALL(cuPointerSetAttribute, NULL, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p);
	CALL(cuPointerSetAttribute, &on, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p);
	CALL(cuPointerSetAttribute, &on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, 0x1000);
	CALL(cuPointerGetAttribute, NULL, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p);
	CALL(cuMemFree_v2, p);
}

static void ids(void)
{
	unsigned long long a = 0, b = 0;
	CUdeviceptr p = alloc_quiet(4096, 0), q = alloc_quiet(4096, 0);
	CALL(cuPointerGetAttribute, &a, CU_POINTER_ATTRIBUTE_BUFFER_ID, p);
	CALL(cuPointerGetAttribute, &b, CU_POINTER_ATTRIBUTE_BUFFER_ID, q);
	YES(a != b);
	CALL(cuPointerGetAttribute, &b, CU_POINTER_ATTRIBUTE_BUFFER_ID, p + 8);
	YES(a == b);
	CALL(cuMemFree_v2, p);
	CALL(cuMemFree_v2, q);
}

static void dma_buf(void)
{
	POISONED_INT(fd);
	CUdeviceptr p = alloc_quiet(2 * MIB, 0);
	CALL(cuMemGetHandleForAddressRange, NULL, p, 2 * MIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
	     0);
	CALL(cuMemGetHandleForAddressRange, &fd, p, 0, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
	INT(fd);
	CALL(cuMemGetHandleForAddressRange, &fd, p + 1, 4096, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
	     0);
	INT(fd);
	CALL(cuMemGetHandleForAddressRange, &fd, p, 4 * MIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
	     0);
	INT(fd);
	CALL(cuMemFree_v2, p);
}

FAMILY(pointer, { "pointer", "pointer.of-alloc", CTX, of_alloc },
       { "pointer", "pointer.of-managed", CTX, of_managed },
       { "pointer", "pointer.of-pinned", CTX, of_pinned },
       { "pointer", "pointer.of-registered", CTX, of_registered },
       { "pointer", "pointer.of-plain-host", CTX, of_plain_host },
       { "pointer", "pointer.of-async", CTX, of_async },
       { "pointer", "pointer.of-nothing", CTX, of_nothing },
       { "pointer", "pointer.range", CTX, range },
       { "pointer", "pointer.range-end", CTX, range_end },
       { "pointer", "pointer.several", CTX, several },
       { "pointer", "pointer.set-attribute", CTX, set_attribute },
       { "pointer", "pointer.ids", CTX, ids }, { "pointer", "pointer.dma-buf", CTX, dma_buf }, );
