// SPDX-License-Identifier: Apache-2.0
/* Memory and events of another process: opened, used, outlived. */
#include "partner.h"

#include <string.h>
#include <unistd.h>

#define LAZY    CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
#define FD_TYPE CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

static CUipcMemHandle ask_handle(struct partner *owner, enum partner_letter letter)
{
	CUipcMemHandle handle;
	struct reply r;

	partner_step(owner, letter, &r);
	memcpy(&handle, r.bytes, sizeof(handle));
	return handle;
}

static CUipcMemHandle start_with_memory(struct partner *owner)
{
	struct reply r;

	partner_start(owner);
	partner_step(owner, PARTNER_ALLOC, &r);
	return ask_handle(owner, PARTNER_HANDLE);
}

/* ---- legacy IPC ---- */

static void ipc_attributes(void)
{
	struct partner owner;
	CUipcMemHandle handle = start_with_memory(&owner);
	POISONED_PTR(p);
	POISONED_PTR(base);
	POISONED_SIZE(size);
	POISONED_INT(value);
	POISONED(CUcontext, ctx);
	unsigned long long id = 0;
	CALL(cuIpcOpenMemHandle_v2, &p, handle, LAZY);
	NEWPTR(p, 4 * MIB);
	CALL(cuMemGetAddressRange_v2, &base, &size, p + 4096);
	PTR(base);
	SIZE(size);
	CALL(cuPointerGetAttribute, &ctx, CU_POINTER_ATTRIBUTE_CONTEXT, p);
	YES(ctx == conf_ctx);
	CALL(cuPointerGetAttribute, &value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p);
	INT(value);
	CALL(cuPointerGetAttribute, &value, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p);
	INT(value);
	value = 0;
	CALL(cuPointerGetAttribute, &value, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, p);
	INT(value);
	value = 0;
	CALL(cuPointerGetAttribute, &value, CU_POINTER_ATTRIBUTE_IS_MANAGED, p);
	INT(value);
	CALL(cuPointerGetAttribute, &size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, p);
	SIZE(size);
	CALL(cuPointerGetAttribute, &id, CU_POINTER_ATTRIBUTE_BUFFER_ID, p);
	YES(id != 0);
	CALL(cuIpcCloseMemHandle, p);
	CALL(cuPointerGetAttribute, &value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p);
	partner_end(&owner, false);
}

static void ipc_both_write(void)
{
	struct partner owner;
	CUipcMemHandle handle = start_with_memory(&owner);
	struct reply r;
	POISONED_PTR(p);
	CALL(cuIpcOpenMemHandle_v2, &p, handle, LAZY);
	reads("here", p, 4096);
	reads("here, the second half", p + 2 * MIB, 4096);
	CALL(cuMemsetD32_v2, p, 0x99, 1024);
	CALL(cuCtxSynchronize);
	partner_step(&owner, PARTNER_READ, &r);
	CALL(cuIpcCloseMemHandle, p);
	partner_step(&owner, PARTNER_FREE, &r);
	partner_end(&owner, false);
}

static void ipc_inner(void)
{
	struct partner owner;
	CUipcMemHandle handle, inner;
	POISONED_PTR(p);
	POISONED_PTR(q);
	handle = start_with_memory(&owner);
	inner = ask_handle(&owner, PARTNER_INNER_HANDLE);
	CALL(cuIpcOpenMemHandle_v2, &p, handle, LAZY);
	NEWPTR(p, 4 * MIB);
	CALL(cuIpcOpenMemHandle_v2, &q, inner, LAZY);
	PTR(q);
	if (q != POISON_64)
		reads("here", q, 4096);
	CALL(cuIpcCloseMemHandle, q);
	CALL(cuIpcCloseMemHandle, p);
	CALL(cuIpcCloseMemHandle, p);
	partner_end(&owner, false);
}

static void ipc_small(void)
{
	struct partner owner;
	CUipcMemHandle first, second;
	struct reply r;
	POISONED_PTR(p);
	POISONED_PTR(q);
	POISONED_PTR(base);
	POISONED_SIZE(size);
	partner_start(&owner);
	partner_step(&owner, PARTNER_SMALL, &r);
	first = ask_handle(&owner, PARTNER_SMALL_HANDLE);
	second = ask_handle(&owner, PARTNER_SMALL_HANDLE2);
	YES(memcmp(&first, &second, sizeof(first)) != 0);
	CALL(cuIpcOpenMemHandle_v2, &p, first, LAZY);
	reads("here", p, 4096);
	CALL(cuIpcOpenMemHandle_v2, &q, second, LAZY);
	reads("here", q, 4096);
	YES(p != q);
	CALL(cuMemGetAddressRange_v2, &base, &size, q);
	YES(base == q);
	SIZE(size);
	CALL(cuIpcCloseMemHandle, p);
	reads("here", q, 4096);
	CALL(cuIpcCloseMemHandle, q);
	CALL(cuIpcCloseMemHandle, q);
	partner_end(&owner, false);
}

static void ipc_wrong_use(void)
{
	struct partner owner;
	CUipcMemHandle handle = start_with_memory(&owner), again;
	POISONED_PTR(p);
	POISONED_PTR(q);
	CALL(cuIpcOpenMemHandle_v2, &q, handle, 0);
	CALL(cuIpcOpenMemHandle_v2, &q, handle, 2);
	CALL(cuIpcOpenMemHandle, &q, handle, LAZY);
	YES(q != POISON_64);
	CALL(cuIpcCloseMemHandle, q);
	CALL(cuIpcOpenMemHandle_v2, &p, handle, LAZY);
	CALL(cuIpcGetMemHandle, &again, p);
	CALL(cuMemFree_v2, p);
	CALL(cuMemFreeAsync, p, NULL);
	CALL(cuIpcCloseMemHandle, p + 4096);
	CALL(cuIpcCloseMemHandle, p);
	partner_end(&owner, false);
}

static void ipc_two_contexts(void)
{
	struct partner owner;
	CUipcMemHandle handle = start_with_memory(&owner);
	POISONED(CUcontext, ctx);
	POISONED_PTR(p);
	POISONED_PTR(q);
	CALL(cuIpcOpenMemHandle_v2, &p, handle, LAZY);
	CALL(cuCtxCreate_v2, &ctx, 0, 0);
	CALL(cuIpcOpenMemHandle_v2, &q, handle, LAZY);
	YES(q != POISON_64);
	YES(p == q);
	if (q != POISON_64)
		reads("the other context", q, 4096);
	CALL(cuIpcCloseMemHandle, p);
	CALL(cuCtxDestroy_v2, ctx);
	QUIET(cuCtxSetCurrent, conf_ctx);
	CALL(cuIpcCloseMemHandle, p);
	partner_end(&owner, false);
}

static void ipc_context_ends(void)
{
	struct partner owner;
	CUipcMemHandle handle = start_with_memory(&owner);
	POISONED(CUcontext, ctx);
	POISONED_PTR(p);
	CALL(cuCtxCreate_v2, &ctx, 0, 0);
	CALL(cuIpcOpenMemHandle_v2, &p, handle, LAZY);
	CALL(cuCtxDestroy_v2, ctx);
	QUIET(cuCtxSetCurrent, conf_ctx);
	CALL(cuIpcCloseMemHandle, p);
	CALL(cuIpcOpenMemHandle_v2, &p, handle, LAZY);
	reads("here", p, 4096);
	CALL(cuIpcCloseMemHandle, p);
	partner_end(&owner, false);
}

static void ipc_owner_frees(void)
{
	struct partner owner;
	CUipcMemHandle handle = start_with_memory(&owner);
	struct reply r;
	POISONED_PTR(p);
	POISONED_PTR(q);
	CALL(cuIpcOpenMemHandle_v2, &p, handle, LAZY);
	partner_step(&owner, PARTNER_FREE, &r);
	reads("here", p, 4096);
	CALL(cuIpcOpenMemHandle_v2, &q, handle, LAZY);
	YES(p == q);
	CALL(cuIpcCloseMemHandle, p);
	CALL(cuIpcOpenMemHandle_v2, &q, handle, LAZY);
	partner_end(&owner, false);
}

static void ipc_owner_gone(bool killed)
{
	struct partner owner;
	CUipcMemHandle handle = start_with_memory(&owner);
	POISONED_PTR(p);
	POISONED_PTR(q);
	CALL(cuIpcOpenMemHandle_v2, &p, handle, LAZY);
	partner_end(&owner, killed);
	reads("here", p, 4096);
	CALL(cuMemsetD32_v2, p, 0x77, 1024);
	reads("here", p, 4096);
	CALL(cuIpcCloseMemHandle, p);
	CALL(cuIpcOpenMemHandle_v2, &q, handle, LAZY);
}

static void ipc_owner_ends(void)
{
	ipc_owner_gone(false);
}

static void ipc_owner_killed(void)
{
	ipc_owner_gone(true);
}

static void ipc_stale(void)
{
	struct partner owner;
	CUipcMemHandle handle = start_with_memory(&owner);
	struct reply r;
	POISONED_PTR(p);
	partner_step(&owner, PARTNER_FREE, &r);
	CALL(cuIpcOpenMemHandle_v2, &p, handle, LAZY);
	PTR(p);
	partner_end(&owner, true);
	CALL(cuIpcOpenMemHandle_v2, &p, handle, LAZY);
	PTR(p);
}

/* what the card has less, with this process and the owner at it */
static void ipc_card(void)
{
	struct partner owner;
	CUipcMemHandle handle;
	struct reply r;
	POISONED_PTR(p);
	partner_start(&owner);
	mem_mark();
	partner_step(&owner, PARTNER_ALLOC, &r);
	mem_delta("allocated");
	handle = ask_handle(&owner, PARTNER_HANDLE);
	mem_delta("its handle asked for");
	CALL(cuIpcOpenMemHandle_v2, &p, handle, LAZY);
	mem_delta("opened");
	partner_step(&owner, PARTNER_FREE, &r);
	mem_delta("freed by its owner");
	CALL(cuIpcCloseMemHandle, p);
	mem_delta("closed");
	partner_end(&owner, false);
}

static void ipc_card_end(void)
{
	struct partner owner, idle;
	CUipcMemHandle handle;
	POISONED_PTR(p);
	partner_start(&idle);
	mem_mark();
	handle = start_with_memory(&owner);
	CALL(cuIpcOpenMemHandle_v2, &p, handle, LAZY);
	partner_end(&owner, true);
	mem_delta("opened, and its owner killed");
	CALL(cuIpcCloseMemHandle, p);
	mem_delta("closed");
	partner_end(&idle, false);
}

/* ---- events ---- */

static void event_both_ways(void)
{
	struct partner owner;
	CUipcEventHandle handle, again;
	struct reply r;
	POISONED(CUevent, e);
	POISONED(CUevent, f);
	float ms = 0;
	partner_start(&owner);
	partner_step(&owner, PARTNER_EVENT, &r);
	memcpy(&handle, r.bytes, sizeof(handle));
	CALL(cuIpcOpenEventHandle, &e, handle);
	CALL(cuEventQuery, e);
	CALL(cuEventRecord, e, NULL);
	CALL(cuStreamSynchronize, NULL);
	CALL(cuEventQuery, e);
	partner_step(&owner, PARTNER_QUERY, &r);
	partner_step(&owner, PARTNER_RECORD, &r);
	partner_step(&owner, PARTNER_QUERY, &r);
	CALL(cuEventSynchronize, e);
	CALL(cuStreamWaitEvent, NULL, e, 0);
	CALL(cuIpcGetEventHandle, &again, e);
	CALL(cuEventElapsedTime, &ms, e, e);
	CALL(cuIpcOpenEventHandle, &f, handle);
	YES(e != f);
	CALL(cuEventDestroy_v2, f);
	partner_step(&owner, PARTNER_EVENT_DESTROY, &r);
	CALL(cuEventQuery, e);
	CALL(cuEventDestroy_v2, e);
	CALL(cuIpcOpenEventHandle, &f, handle);
	partner_end(&owner, false);
	CALL(cuIpcOpenEventHandle, &f, handle);
	memset(&handle, 0, sizeof(handle));
	CALL(cuIpcOpenEventHandle, &f, handle);
	CALL(cuIpcOpenEventHandle, NULL, handle);
}

/* ---- handles by descriptor ---- */

static const CUmemAccessDesc read_write = { .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
					    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };

static CUdeviceptr import_and_map(int fd, CUmemGenericAllocationHandle *ret)
{
	POISONED_PTR(p);
	CALL(cuMemImportFromShareableHandle, ret, (void *)(intptr_t)fd, FD_TYPE);
	CALL(cuMemAddressReserve, &p, 2 * MIB, 0, 0, 0);
	CALL(cuMemMap, p, 2 * MIB, 0, *ret, 0);
	CALL(cuMemSetAccess, p, 2 * MIB, &read_write, 1);
	return p;
}

static void unmap(CUdeviceptr p, CUmemGenericAllocationHandle h)
{
	CALL(cuMemUnmap, p, 2 * MIB);
	CALL(cuMemRelease, h);
	CALL(cuMemAddressFree, p, 2 * MIB);
}

static void vmm_owner_releases(void)
{
	struct partner owner;
	struct reply r, x;
	CUmemGenericAllocationHandle h = POISON_64, again = POISON_64;
	CUdeviceptr p;
	partner_start(&owner);
	partner_step(&owner, PARTNER_CREATE, &r);
	partner_step(&owner, PARTNER_EXPORT, &x);
	p = import_and_map(x.fd, &h);
	partner_step(&owner, PARTNER_UNMAP, &r);
	partner_step(&owner, PARTNER_RELEASE, &r);
	reads("here", p, 4096);
	CALL(cuMemImportFromShareableHandle, &again, (void *)(intptr_t)x.fd, FD_TYPE);
	YES(again != h);
	CALL(cuMemRelease, again);
	partner_end(&owner, false);
	reads("here", p, 4096);
	unmap(p, h);
	CALL(cuMemImportFromShareableHandle, &again, (void *)(intptr_t)x.fd, FD_TYPE);
	CALL(cuMemRelease, again);
	close(x.fd);
}

static void vmm_owner_killed(void)
{
	struct partner owner;
	struct reply r, x;
	CUmemGenericAllocationHandle h = POISON_64;
	CUdeviceptr p;
	partner_start(&owner);
	partner_step(&owner, PARTNER_CREATE, &r);
	partner_step(&owner, PARTNER_EXPORT, &x);
	partner_end(&owner, true);
	p = import_and_map(x.fd, &h);
	close(x.fd);
	reads("here", p, 4096);
	unmap(p, h);
}

static void vmm_card(void)
{
	struct partner owner;
	struct reply r, x;
	CUmemGenericAllocationHandle h = POISON_64;
	CUdeviceptr p;
	partner_start(&owner);
	mem_mark();
	partner_step(&owner, PARTNER_CREATE, &r);
	mem_delta("created");
	partner_step(&owner, PARTNER_EXPORT, &x);
	p = import_and_map(x.fd, &h);
	mem_delta("imported and mapped");
	partner_step(&owner, PARTNER_UNMAP, &r);
	partner_step(&owner, PARTNER_RELEASE, &r);
	mem_delta("released by its owner");
	unmap(p, h);
	mem_delta("released here, a descriptor is left");
	close(x.fd);
	mem_delta("and that is closed");
	partner_end(&owner, false);
}

/* ---- pools ---- */

static void pool_import(void)
{
	struct partner owner;
	struct reply r, x;
	CUmemPoolPtrExportData data;
	POISONED(CUmemoryPool, pool);
	POISONED_PTR(p);
	POISONED_PTR(q);
	unsigned long long value = POISON_64;
	partner_start(&owner);
	partner_step(&owner, PARTNER_POOL, &r);
	partner_step(&owner, PARTNER_POOL_EXPORT, &x);
	CALL(cuMemPoolImportFromShareableHandle, &pool, (void *)(intptr_t)x.fd, FD_TYPE, 0);
	partner_step(&owner, PARTNER_POINTER, &r);
	memcpy(&data, r.bytes, sizeof(data));
	CALL(cuMemPoolImportPointer, &p, pool, &data);
	NEWPTR(p, MIB);
	CALL(cuMemPoolSetAccess, pool, &read_write, 1);
	reads("here", p, 4096);
	CALL(cuMemsetD32_v2, p, 0x55, 1024);
	reads("here", p, 4096);
	CALL(cuMemPoolImportPointer, &q, pool, &data);
	PTR(q);
	CALL(cuMemPoolExportPointer, &data, p);
	CALL(cuMemPoolExportToShareableHandle, &x.fd, pool, FD_TYPE, 0);
	CALL(cuMemAllocFromPoolAsync, &q, 4096, pool, NULL);
	CALL(cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &value);
	SIZE(value);
	CALL(cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value);
	SIZE(value);
	CALL(cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value);
	CALL(cuMemPoolTrimTo, pool, 0);
	CALL(cuMemFreeAsync, p, NULL);
	CALL(cuStreamSynchronize, NULL);
	CALL(cuMemPoolDestroy, pool);
	partner_step(&owner, PARTNER_POOL_FREE, &r);
	partner_step(&owner, PARTNER_POOL_DESTROY, &r);
	partner_end(&owner, false);
}

static void pool_wrong(void)
{
	struct partner owner;
	struct reply r, x;
	CUmemPoolPtrExportData data;
	POISONED(CUmemoryPool, pool);
	POISONED(CUmemoryPool, fallback);
	POISONED_PTR(p);
	int pipes[2];
	partner_start(&owner);
	partner_step(&owner, PARTNER_POOL, &r);
	partner_step(&owner, PARTNER_POOL_EXPORT, &x);
	partner_step(&owner, PARTNER_POINTER, &r);
	memcpy(&data, r.bytes, sizeof(data));
	CALL(cuDeviceGetDefaultMemPool, &fallback, 0);
	CALL(cuMemPoolImportPointer, &p, fallback, &data);
	CALL(cuMemPoolImportFromShareableHandle, &pool, (void *)(intptr_t)-1, FD_TYPE, 0);
	if (pipe(pipes) == 0) {
		CALL(cuMemPoolImportFromShareableHandle, &pool, (void *)(intptr_t)pipes[0], FD_TYPE,
		     0);
		close(pipes[0]);
		close(pipes[1]);
	}
	CALL(cuMemPoolImportFromShareableHandle, &pool, (void *)(intptr_t)x.fd, FD_TYPE, 1);
	CALL(cuMemPoolImportFromShareableHandle, &pool, (void *)(intptr_t)x.fd,
	     CU_MEM_HANDLE_TYPE_WIN32, 0);
	CALL(cuMemPoolImportFromShareableHandle, &pool, (void *)(intptr_t)x.fd, FD_TYPE, 0);
	memset(&data, 0, sizeof(data));
	CALL(cuMemPoolImportPointer, &p, pool, &data);
	CALL(cuMemPoolImportPointer, NULL, pool, &data);
	CALL(cuMemPoolDestroy, pool);
	close(x.fd);
	partner_end(&owner, false);
}

static void pool_owner_ends(void)
{
	struct partner owner;
	struct reply r, x;
	CUmemPoolPtrExportData data;
	POISONED(CUmemoryPool, pool);
	POISONED_PTR(p);
	partner_start(&owner);
	partner_step(&owner, PARTNER_POOL, &r);
	partner_step(&owner, PARTNER_POOL_EXPORT, &x);
	CALL(cuMemPoolImportFromShareableHandle, &pool, (void *)(intptr_t)x.fd, FD_TYPE, 0);
	close(x.fd);
	partner_step(&owner, PARTNER_POINTER, &r);
	memcpy(&data, r.bytes, sizeof(data));
	CALL(cuMemPoolImportPointer, &p, pool, &data);
	CALL(cuMemPoolSetAccess, pool, &read_write, 1);
	partner_end(&owner, true);
	reads("here", p, 4096);
	CALL(cuMemFreeAsync, p, NULL);
	CALL(cuStreamSynchronize, NULL);
	CALL(cuMemPoolDestroy, pool);
}

FAMILY(share, { "share", "share.ipc-attributes", CTX, ipc_attributes },
       { "share", "share.ipc-both-write", CTX, ipc_both_write },
       { "share", "share.ipc-inner", CTX, ipc_inner },
       { "share", "share.ipc-small", CTX, ipc_small },
       { "share", "share.ipc-wrong-use", CTX, ipc_wrong_use },
       { "share", "share.ipc-two-contexts", CTX, ipc_two_contexts },
       { "share", "share.ipc-context-ends", CTX, ipc_context_ends },
       { "share", "share.event-both-ways", CTX, event_both_ways },
       { "share", "share.vmm-owner-releases", CTX, vmm_owner_releases },
       { "share", "share.vmm-owner-killed", CTX, vmm_owner_killed },
       { "share", "share.pool-import", CTX, pool_import },
       { "share", "share.pool-wrong", CTX, pool_wrong },
       { "share.stale", "share.ipc-stale", CTX, ipc_stale },
       { "share.frees", "share.ipc-owner-frees", CTX, ipc_owner_frees },
       { "share.ends", "share.ipc-owner-ends", CTX, ipc_owner_ends },
       { "share.killed", "share.ipc-owner-killed", CTX, ipc_owner_killed },
       { "share.pool", "share.pool-owner-ends", CTX, pool_owner_ends },
       { "share.card", "share.ipc-card", CTX | ALONE, ipc_card },
       { "share.card", "share.ipc-card-end", CTX | ALONE, ipc_card_end },
       { "share.card", "share.vmm-card", CTX | ALONE, vmm_card }, );
