// SPDX-License-Identifier: Apache-2.0
/*
 * Physical memory by handle: cuMemCreate, cuMemMap and their like.
 *
 * Memory on a device is charged once, when it is made, to the device of its location, however
 * often it is mapped; it is given back when the last reference to a handle and the last mapping
 * are gone, in whichever order.  Memory in the host is neither charged nor looked at (its location
 * id is no device ordinal); address ranges are not memory; imported handles are their owner's
 * (hooks_share.c).
 *
 * Records: one of the memory (BLOCK_PHYSICAL, counted), pointed to by the records of its handles
 * and mappings.  A handle value can be handed out again while the memory is still mapped, so the
 * mappings hold on to the memory, not to the handle.
 */
#include "shim/devices.h"
#include "shim/guard.h"
#include "shim/hooks.h"
#include "shim/physical.h"
#include "shim/real.h"
#include "shim/reserve.h"

static void physical_ref(struct block *memory)
{
	if (memory)
		__atomic_fetch_add(&memory->count, 1, __ATOMIC_SEQ_CST);
}

static void physical_unref(struct block *memory)
{
	if (memory && __atomic_sub_fetch(&memory->count, 1, __ATOMIC_SEQ_CST) == 0)
		reserve_freed(memory, true);
}

/* a record in the table that points to @memory, whose reference it takes over */
static void enter(struct block *b, uint32_t kind, uint64_t key, uint64_t count,
		  struct block *memory)
{
	struct block *dead;

	b->kind = kind;
	b->key = key;
	b->count = count;
	b->other = memory;
	dead = blocks_insert(b);
	if (dead) {
		physical_unref(dead->other);
		blocks_discard(dead);
	}
}

void physical_imported(CUmemGenericAllocationHandle handle, struct block *h, struct block *memory,
		       struct block *share, struct charge charge)
{
	memory->kind = charge.slot >= 0 ? BLOCK_PHYSICAL : BLOCK_IMPORTED;
	memory->charge = charge;
	memory->count = 1;
	memory->other = share;
	enter(h, BLOCK_HANDLE, handle, 1, memory);
}

static CUresult create(CUmemGenericAllocationHandle *handle, size_t size,
		       const CUmemAllocationProp *prop, unsigned long long flags)
{
	struct block *h = blocks_reserve(), *memory;
	struct reserve r;
	CUresult rc;

	if (!h || !reserve_begin_on(&r, devices_slot(prop->location.id), NULL, size)) {
		blocks_discard(h);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	do
		rc = real_cuMemCreate(handle, size, prop, flags);
	while (rc == CUDA_ERROR_OUT_OF_MEMORY && reserve_again(&r));
	if (rc != CUDA_SUCCESS) {
		reserve_undo(&r);
		blocks_discard(h);
		return rc;
	}
	reserve_made(&r);
	memory = r.block;
	memory->kind = BLOCK_PHYSICAL;
	memory->charge = r.charge;
	memory->count = 1;
	enter(h, BLOCK_HANDLE, *handle, 1, memory);
	return rc;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
		     const CUmemAllocationProp *prop, unsigned long long flags)
{
	CUresult rc;

	if (!handle || !prop || size == 0 || prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    !guard_enter())
		return real_cuMemCreate(handle, size, prop, flags);
	rc = create(handle, size, prop, flags);
	guard_leave();
	return rc;
}

/* one reference less; the last one is left for taking the record out */
static void drop_unless_last(struct block *b, void *arg)
{
	bool *ret_dropped = arg;

	*ret_dropped = b->count > 1;
	if (*ret_dropped)
		b->count--;
}

static void add_reference(struct block *b, void *arg)
{
	(void)arg;
	b->count++;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct block *last = NULL;
	bool dropped = false;
	CUresult rc;

	if (!guard_enter())
		return real_cuMemRelease(handle);
	if (blocks_visit(BLOCK_HANDLE, handle, drop_unless_last, &dropped) && !dropped)
		last = blocks_take(BLOCK_HANDLE, handle);
	rc = real_cuMemRelease(handle);
	if (last && rc == CUDA_SUCCESS) {
		physical_unref(last->other);
		blocks_discard(last);
	} else if (last) {
		enter(last, BLOCK_HANDLE, handle, last->count, last->other);
	} else if (dropped && rc != CUDA_SUCCESS) {
		(void)blocks_visit(BLOCK_HANDLE, handle, add_reference, NULL);
	}
	guard_leave();
	return rc;
}

/* the memory behind a handle, with a reference for the caller */
static void get_memory(struct block *b, void *arg)
{
	*(struct block **)arg = b->other;
	physical_ref(b->other);
}

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
		  unsigned long long flags)
{
	struct block *memory = NULL, *m;
	CUresult rc = CUDA_ERROR_OUT_OF_MEMORY;

	if (!guard_enter())
		return real_cuMemMap(ptr, size, offset, handle, flags);
	m = blocks_reserve();
	if (m) {
		(void)blocks_visit(BLOCK_HANDLE, handle, get_memory, &memory);
		rc = real_cuMemMap(ptr, size, offset, handle, flags);
	}
	if (rc == CUDA_SUCCESS) {
		enter(m, BLOCK_MAPPING, ptr, size, memory);
	} else {
		physical_unref(memory);
		blocks_discard(m);
	}
	guard_leave();
	return rc;
}

/* the mappings that make up a range, out of the table; one call may undo several */
static struct block *take_mappings(CUdeviceptr ptr, size_t size)
{
	struct block *taken = NULL, *m;
	CUdeviceptr end = ptr + size;

	while (ptr < end && (m = blocks_take(BLOCK_MAPPING, ptr))) {
		ptr += m->count ? m->count : size;
		m->next = taken;
		taken = m;
	}
	return taken;
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
	struct block *m, *next;
	CUresult rc;

	if (!guard_enter())
		return real_cuMemUnmap(ptr, size);
	m = take_mappings(ptr, size);
	rc = real_cuMemUnmap(ptr, size);
	for (; m; m = next) {
		next = m->next;
		if (rc == CUDA_SUCCESS) {
			physical_unref(m->other);
			blocks_discard(m);
		} else {
			enter(m, BLOCK_MAPPING, m->key, m->count, m->other);
		}
	}
	guard_leave();
	return rc;
}

/* the mapping that contains an address; a reference to its memory for the caller */
struct containing {
	CUdeviceptr addr;
	struct block *memory;
};

static bool contains(struct block *b, void *arg)
{
	struct containing *c = arg;

	if (c->addr < b->key || c->addr - b->key >= b->count)
		return false;
	c->memory = b->other;
	physical_ref(c->memory);
	return true;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
	struct containing c = { .addr = (CUdeviceptr)(uintptr_t)addr };
	struct block *h;
	CUresult rc;

	if (!guard_enter())
		return real_cuMemRetainAllocationHandle(handle, addr);
	h = blocks_reserve();
	rc = h ? real_cuMemRetainAllocationHandle(handle, addr) : CUDA_ERROR_OUT_OF_MEMORY;
	if (rc == CUDA_SUCCESS && !blocks_visit(BLOCK_HANDLE, *handle, add_reference, NULL)) {
		/* all handles of it were released, or this is another name for it */
		(void)blocks_find(BLOCK_MAPPING, contains, &c);
		if (c.memory) {
			enter(h, BLOCK_HANDLE, *handle, 1, c.memory);
			h = NULL;
		}
	}
	blocks_discard(h);
	guard_leave();
	return rc;
}
