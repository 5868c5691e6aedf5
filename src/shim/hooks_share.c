// SPDX-License-Identifier: Apache-2.0
/*
 * Memory between processes: CUDA IPC, VMM handles by descriptor or fabric handle, pools, external
 * memory.
 *
 * The owner pays, importers pay nothing until it is gone (policy/share.h).  Nothing here changes
 * what the driver does or answers: it decides who may open what, also across jobs and users.
 *
 * Event handles cost nothing and pass.  Multicast objects pass (none could be made on the card that
 * was measured); what they take shows up in NVML.  A dma-buf descriptor keeps memory on the card
 * that was freed (measured), and so does the descriptor of a handle that nobody has imported: such
 * memory is nobody's, and subtracted from the card like a stranger's.
 */
#include "base/size.h"
#include "shim/devices.h"
#include "shim/fd_mark.h"
#include "shim/guard.h"
#include "shim/hooks.h"
#include "shim/physical.h"
#include "shim/pools.h"
#include "shim/real.h"
#include "shim/reserve.h"
#include "shim/share.h"

/* ---- legacy IPC ---- */

struct exporting {
	struct block *record; /* taken by the first export of the memory */
	int slot;
	uint64_t bytes;
	bool is_first;
};

static void note_export(struct block *b, void *arg)
{
	struct exporting *e = arg;
	void *none = NULL;

	/* memory with several handles can be met under several locks */
	if (b->charge.slot < 0 || !__atomic_compare_exchange_n(&b->other, &none, e->record, false,
							       __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		return;
	e->slot = b->charge.slot;
	e->bytes = b->charge.bytes;
	e->is_first = true;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
	struct exporting e = { 0 };
	struct wire_share_key key;
	CUdeviceptr base;
	size_t bytes;
	CUresult rc;

	if (!guard_enter())
		return real_cuIpcGetMemHandle(pHandle, dptr);
	rc = real_cuIpcGetMemHandle(pHandle, dptr);
	if (rc == CUDA_SUCCESS) {
		key = share_key_of(pHandle, sizeof(*pHandle));
		e.record = share_record(BLOCK_SHARED, key);
		if (e.record && !blocks_visit(BLOCK_LINEAR, dptr, note_export, &e) &&
		    real_cuMemGetAddressRange_v2(&base, &bytes, dptr) == CUDA_SUCCESS)
			(void)blocks_visit(BLOCK_LINEAR, base, note_export, &e);
		if (e.is_first)
			(void)share_out(e.slot, key, e.bytes, 0);
		else
			blocks_discard(e.record);
	}
	guard_leave();
	return rc;
}

/* one more open at an address where something is open already is the same memory */
static void enter_opened(struct block *b, CUdeviceptr dptr, uint64_t opens)
{
	struct block *dead;

	b->key = dptr;
	b->charge.bytes = opens; /* of slot ACCOUNT_NOWHERE: a count, charged to nobody */
	while ((dead = blocks_insert(b))) {
		opens = dead->charge.bytes;
		blocks_discard(dead);
		b = blocks_take(BLOCK_OPENED, dptr);
		if (!b)
			return;
		b->charge.bytes += opens;
	}
}

static CUresult open_handle(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int flags,
			    pfn_cuIpcOpenMemHandle_v2 *driver)
{
	struct wire_share_key key = share_key_of(&handle, sizeof(handle));
	struct block *b = share_record(BLOCK_OPENED, key);
	bool known = b && share_in(key, 0);
	CUresult rc = driver(pdptr, handle, flags);
	CUcontext ctx = NULL;

	if (known && rc == CUDA_SUCCESS) {
		(void)devices_current(&ctx);
		b->ctx = ctx;
		enter_opened(b, *pdptr, 1);
		return rc;
	}
	if (known)
		share_close(key, false);
	blocks_discard(b);
	return rc;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
	CUresult rc;

	if (!pdptr || !guard_enter())
		return real_cuIpcOpenMemHandle(pdptr, handle, Flags);
	rc = open_handle(pdptr, handle, Flags, real_cuIpcOpenMemHandle);
	guard_leave();
	return rc;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
	CUresult rc;

	if (!pdptr || !guard_enter())
		return real_cuIpcOpenMemHandle_v2(pdptr, handle, Flags);
	rc = open_handle(pdptr, handle, Flags, real_cuIpcOpenMemHandle_v2);
	guard_leave();
	return rc;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr dptr)
{
	struct block *b;
	CUresult rc;

	if (!guard_enter())
		return real_cuIpcCloseMemHandle(dptr);
	b = blocks_take(BLOCK_OPENED, dptr);
	rc = real_cuIpcCloseMemHandle(dptr);
	if (b && rc == CUDA_SUCCESS) {
		share_close(share_record_key(b), false);
		b->charge.bytes--;
	}
	if (b && b->charge.bytes > 0)
		enter_opened(b, dptr, b->charge.bytes);
	else
		blocks_discard(b);
	guard_leave();
	return rc;
}

/* ---- handles ---- */

static void note_handle_export(struct block *b, void *arg)
{
	if (b->other && ((struct block *)b->other)->kind == BLOCK_PHYSICAL)
		note_export(b->other, arg);
}

static void get_key(struct block *b, void *arg)
{
	struct block *memory = b->other, *record = NULL;

	if (memory)
		record = __atomic_load_n(&memory->other, __ATOMIC_SEQ_CST);
	if (record)
		*(struct wire_share_key *)arg = share_record_key(record);
}

/* an export of @handle, known by @key: once for each memory */
static void exported(CUmemGenericAllocationHandle handle, struct wire_share_key key, unsigned flags)
{
	struct exporting e = { .record = share_record(BLOCK_SHARED, key) };

	if (e.record)
		(void)blocks_visit(BLOCK_HANDLE, handle, note_handle_export, &e);
	if (e.is_first)
		(void)share_out(e.slot, key, e.bytes, flags);
	else
		blocks_discard(e.record);
}

/* each export is an open file of its own; all of one memory get the same mark */
static void exported_fd(CUmemGenericAllocationHandle handle, int fd)
{
	struct wire_share_key old = { { 0, 0 } };
	uint64_t mark;

	if (!blocks_visit(BLOCK_HANDLE, handle, get_key, &old))
		return;
	mark = old.word[0] ? old.word[0] : share_new_mark();
	if (old.word[0] && share_key_of_mark(mark).word[1] != old.word[1])
		return; /* exported as a fabric handle: it has its name */
	if (!mark || fd_mark_set(fd, mark))
		return;
	if (!old.word[0])
		exported(handle, share_key_of_mark(mark), WIRE_SHARE_BY_DESCRIPTOR);
}

CUresult cuMemExportToShareableHandle(void *shareableHandle, CUmemGenericAllocationHandle handle,
				      CUmemAllocationHandleType handleType,
				      unsigned long long flags)
{
	CUresult rc;

	if (!guard_enter())
		return real_cuMemExportToShareableHandle(shareableHandle, handle, handleType,
							 flags);
	rc = real_cuMemExportToShareableHandle(shareableHandle, handle, handleType, flags);
	if (rc == CUDA_SUCCESS && handleType == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		exported_fd(handle, *(int *)shareableHandle);
	else if (rc == CUDA_SUCCESS && handleType == CU_MEM_HANDLE_TYPE_FABRIC)
		exported(handle, share_key_of(shareableHandle, sizeof(CUmemFabricHandle)), 0);
	guard_leave();
	return rc;
}

static bool key_of_import(void *handle, CUmemAllocationHandleType type, struct wire_share_key *ret)
{
	uint64_t mark;

	if (type == CU_MEM_HANDLE_TYPE_FABRIC && handle) {
		*ret = share_key_of(handle, sizeof(CUmemFabricHandle));
		return true;
	}
	if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
	    fd_mark_get((int)(intptr_t)handle, &mark))
		return false;
	*ret = share_key_of_mark(mark);
	return true;
}

/*
 * What stands for an imported handle: three records; all or none.  What is nobody's any more is
 * taken of the lease, as an allocation is, and its importer owns it from then on.
 */
struct importing {
	struct block *h, *memory, *share;
	struct wire_share_key key;
	struct wire_share_known known;
	struct reserve reserve; /* of an orphan */
};

static void importing_end(struct importing *i)
{
	blocks_discard(i->h);
	blocks_discard(i->memory);
	blocks_discard(i->share);
}

/* false: refused, and that was explained */
static bool importing_begin(struct importing *i)
{
	i->h = blocks_reserve();
	i->memory = blocks_reserve();
	i->share = share_record(BLOCK_SHARED, i->key);
	if (i->h && i->memory && i->share)
		i->known = share_ask(i->key, 0);
	if (i->known.known != WIRE_SHARE_ORPHAN ||
	    reserve_begin_on(&i->reserve, (int)i->known.slot, NULL, i->known.bytes))
		return true;
	importing_end(i);
	return false;
}

static void importing_failed(struct importing *i)
{
	if (i->known.known == WIRE_SHARE_OPEN)
		share_close(i->key, false);
	else if (i->known.known == WIRE_SHARE_ORPHAN)
		reserve_undo(&i->reserve);
	importing_end(i);
}

static void importing_done(struct importing *i, CUmemGenericAllocationHandle handle)
{
	struct charge charge = CHARGE_NONE;

	if (i->known.known == WIRE_SHARE_ORPHAN) {
		charge = i->reserve.charge;
		reserve_made(&i->reserve);
		blocks_discard(i->reserve.block);
		/* somebody else was faster: it is theirs, and open here */
		if (charge.slot >= 0 &&
		    !share_out(charge.slot, i->key, charge.bytes, WIRE_SHARE_BY_DESCRIPTOR) &&
		    share_in(i->key, 0)) {
			account_give(charge);
			charge = CHARGE_NONE;
		}
	}
	if (i->known.known == WIRE_SHARE_NOT_KNOWN)
		importing_end(i);
	else
		physical_imported(handle, i->h, i->memory, i->share, charge);
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle,
					CUmemAllocationHandleType shHandleType)
{
	struct importing i = { 0 };
	CUresult rc = CUDA_ERROR_OUT_OF_MEMORY;
	bool has_key;

	if (!handle || !guard_enter())
		return real_cuMemImportFromShareableHandle(handle, osHandle, shHandleType);
	has_key = key_of_import(osHandle, shHandleType, &i.key);
	if (!has_key || importing_begin(&i))
		rc = real_cuMemImportFromShareableHandle(handle, osHandle, shHandleType);
	else
		has_key = false;
	if (has_key && rc == CUDA_SUCCESS)
		importing_done(&i, *handle);
	else if (has_key)
		importing_failed(&i);
	guard_leave();
	return rc;
}

/* ---- pools ---- */

CUresult cuMemPoolExportToShareableHandle(void *handle_out, CUmemoryPool pool,
					  CUmemAllocationHandleType handleType,
					  unsigned long long flags)
{
	uint64_t fresh, mark;
	CUresult rc;
	int slot;

	if (!guard_enter())
		return real_cuMemPoolExportToShareableHandle(handle_out, pool, handleType, flags);
	rc = real_cuMemPoolExportToShareableHandle(handle_out, pool, handleType, flags);
	if (rc == CUDA_SUCCESS && handleType == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
		fresh = share_new_mark();
		mark = fresh ? pools_mark(pool, fresh, &slot) : 0;
		if (mark && fd_mark_set(*(int *)handle_out, mark) == 0 && mark == fresh)
			(void)share_out(slot, share_key_of_mark(mark), 0, WIRE_SHARE_UNSHOWN);
	}
	guard_leave();
	return rc;
}

/* the pool that we opened is known by its mark; what of it we have open, pointer by pointer */
static void opened_pool(CUmemoryPool pool, uint64_t mark)
{
	struct block *b = share_record(BLOCK_OPENED, share_key_of_mark(mark));

	if (!b)
		return;
	b->key = (uintptr_t)pool;
	blocks_discard(blocks_insert(b));
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle,
					    CUmemAllocationHandleType handleType,
					    unsigned long long flags)
{
	uint64_t mark = 0;
	CUresult rc;

	if (!guard_enter())
		return real_cuMemPoolImportFromShareableHandle(pool_out, handle, handleType, flags);
	if (handleType == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR &&
	    fd_mark_get((int)(intptr_t)handle, &mark))
		mark = 0;
	rc = real_cuMemPoolImportFromShareableHandle(pool_out, handle, handleType, flags);
	if (rc == CUDA_SUCCESS) {
		pools_made(*pool_out, NULL); /* its owner pays */
		if (mark)
			opened_pool(*pool_out, mark);
	}
	guard_leave();
	return rc;
}

static void get_opened_key(struct block *b, void *arg)
{
	*(struct wire_share_key *)arg = share_record_key(b);
}

/* each once, however often it is imported; freed here, it stays all the same (measured) */
static void opened_pointer(CUmemoryPool pool, CUdeviceptr ptr)
{
	struct wire_share_key key;
	struct block *b, *dead;
	CUdeviceptr base;
	size_t bytes = 0;

	if (!blocks_visit(BLOCK_OPENED, (uintptr_t)pool, get_opened_key, &key) ||
	    real_cuMemGetAddressRange_v2(&base, &bytes, ptr) != CUDA_SUCCESS)
		return;
	b = blocks_reserve();
	if (!b)
		return;
	b->kind = BLOCK_PIECE;
	b->key = ptr;
	b->charge = CHARGE_NONE;
	b->other = pool;
	dead = blocks_insert(b);
	if (!dead)
		(void)share_in(key, size_round_up(bytes, 2 * MIB));
	blocks_discard(dead);
}

CUresult cuMemPoolImportPointer(CUdeviceptr *ptr_out, CUmemoryPool pool,
				CUmemPoolPtrExportData *shareData)
{
	CUresult rc;

	if (!guard_enter())
		return real_cuMemPoolImportPointer(ptr_out, pool, shareData);
	rc = real_cuMemPoolImportPointer(ptr_out, pool, shareData);
	if (rc == CUDA_SUCCESS)
		opened_pointer(pool, *ptr_out);
	guard_leave();
	return rc;
}

struct piece {
	void *pool;
	uint64_t ptr;
};

static bool is_of_pool(struct block *b, void *arg)
{
	struct piece *piece = arg;

	piece->ptr = b->key;
	return b->other == piece->pool;
}

void share_pool_ended(CUmemoryPool pool)
{
	struct block *b = blocks_take(BLOCK_OPENED, (uintptr_t)pool);
	struct piece piece = { .pool = pool };

	if (!b)
		return;
	while (blocks_find(BLOCK_PIECE, is_of_pool, &piece))
		blocks_discard(blocks_take(BLOCK_PIECE, piece.ptr));
	share_close(share_record_key(b), true);
	blocks_discard(b);
}

/* ---- external memory: often another API's, sometimes a handle of ours ---- */

CUresult cuImportExternalMemory(CUexternalMemory *extMem_out,
				const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *memHandleDesc)
{
	struct block *b = NULL;
	uint64_t mark;
	CUresult rc;

	if (!extMem_out || !memHandleDesc ||
	    memHandleDesc->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD || !guard_enter())
		return real_cuImportExternalMemory(extMem_out, memHandleDesc);
	/* the descriptor is the driver's after the call */
	if (fd_mark_get(memHandleDesc->handle.fd, &mark) == 0)
		b = share_record(BLOCK_OPENED, share_key_of_mark(mark));
	if (b && !share_in(share_record_key(b), 0)) {
		blocks_discard(b);
		b = NULL;
	}
	rc = real_cuImportExternalMemory(extMem_out, memHandleDesc);
	if (b && rc == CUDA_SUCCESS) {
		b->key = (uintptr_t)*extMem_out;
		blocks_discard(blocks_insert(b));
	} else if (b) {
		share_close(share_record_key(b), false);
		blocks_discard(b);
	}
	guard_leave();
	return rc;
}

CUresult cuDestroyExternalMemory(CUexternalMemory extMem)
{
	struct block *b;
	CUresult rc;

	if (!guard_enter())
		return real_cuDestroyExternalMemory(extMem);
	b = blocks_take(BLOCK_OPENED, (uintptr_t)extMem);
	rc = real_cuDestroyExternalMemory(extMem);
	if (b && rc == CUDA_SUCCESS) {
		share_close(share_record_key(b), false);
		blocks_discard(b);
	} else if (b) {
		blocks_discard(blocks_insert(b));
	}
	guard_leave();
	return rc;
}
