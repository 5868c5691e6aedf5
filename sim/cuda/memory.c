// SPDX-License-Identifier: Apache-2.0
/*
 * Allocations: charged to the card, mapped here, found by address. Those up to 1 MiB share 2-MiB
 * blocks, as the driver does it, so that the card's use grows in steps of 2 MiB.
 */
#include "sim/cuda/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/context.h"
#include "sim/cuda/ipc.h"
#include "sim/cuda/ranges.h"
#include "sim/cuda/tree.h"
#include "sim/cuda/va.h"

#define SMALL_BYTES ((size_t)1 << 20) /* the largest that shares a block */
#define GRAIN       ((size_t)512)
#define DRIVER_PAGE ((uint64_t)65536)
#define GRAINS      ((unsigned)(SIM_PAGE_BYTES / GRAIN))

struct sim_block {
	struct list node;
	CUcontext ctx;
	char *base;
	unsigned used_grains;
	uint64_t used[GRAINS / 64];
};

static struct sim_alloc *ranges; /* everything the driver knows of */
static struct list blocks = { &blocks, &blocks };
static unsigned long long last_id;

/* The card's account. */

/* memory of programs comes in pages of 2 MiB, the driver's own in smaller ones */
static uint64_t step_of(enum sim_use use)
{
	return use == SIM_USE_CONTEXT ? DRIVER_PAGE : SIM_PAGE_BYTES;
}

CUresult sim_charge(struct sim_device *device, enum sim_use use, uint64_t bytes)
{
	uint64_t *fine = &device->fine_bytes[use];
	uint64_t step = step_of(use), after, pages;

	if (!size_add(*fine, bytes, &after))
		return CUDA_ERROR_OUT_OF_MEMORY;
	pages = size_round_up(after, step) - size_round_up(*fine, step);
	if (pages && sim_state_take(sim.state, device->index, use, pages))
		return CUDA_ERROR_OUT_OF_MEMORY;
	*fine = after;
	return CUDA_SUCCESS;
}

void sim_uncharge(struct sim_device *device, enum sim_use use, uint64_t bytes)
{
	uint64_t *fine = &device->fine_bytes[use];
	uint64_t step = step_of(use), after = size_sat_sub(*fine, bytes);
	uint64_t pages = size_round_up(*fine, step) - size_round_up(after, step);

	if (pages)
		sim_state_give(sim.state, device->index, use, pages);
	*fine = after;
}

void sim_uncharge_moved(struct sim_device *device, enum sim_use use, uint64_t bytes)
{
	/* what is shared comes in whole pages, so no page that others use is counted by it */
	device->fine_bytes[use] = size_sat_sub(device->fine_bytes[use], bytes);
}

/* The ranges. */

struct sim_alloc *sim_alloc_find(CUdeviceptr ptr)
{
	return tree_find(ranges, ptr);
}

bool range_is_free(CUdeviceptr base, size_t bytes)
{
	const struct sim_alloc *next = tree_next(ranges, base);

	return !tree_find(ranges, base) && (!next || next->base - base >= bytes);
}

struct sim_alloc *range_new(CUdeviceptr base, size_t bytes, size_t mapped_bytes,
			    enum sim_alloc_kind kind)
{
	struct sim_alloc *alloc = calloc(1, sizeof(*alloc));

	if (!alloc)
		return NULL;
	alloc->base = base;
	alloc->bytes = bytes;
	alloc->mapped_bytes = mapped_bytes;
	alloc->kind = kind;
	alloc->id = ++last_id;
	tree_insert(&ranges, alloc);
	return alloc;
}

void range_own(struct sim_alloc *alloc, CUcontext ctx)
{
	alloc->ctx = ctx;
	if (ctx)
		list_append(&ctx->allocs, &alloc->ctx_node);
}

void range_free(struct sim_alloc *alloc)
{
	if (!alloc)
		return;
	list_del(&alloc->ctx_node);
	tree_remove(&ranges, alloc);
	free(alloc);
}

/* Small allocations. */

static unsigned find_grains(const struct sim_block *block, unsigned count)
{
	unsigned run = 0;

	for (unsigned i = 0; i < GRAINS; i++) {
		if (block->used[i / 64] == UINT64_MAX) {
			run = 0;
			i |= 63;
			continue;
		}
		run = block->used[i / 64] >> i % 64 & 1 ? 0 : run + 1;
		if (run == count)
			return i + 1 - count;
	}
	return GRAINS;
}

static void mark_grains(struct sim_block *block, unsigned first, unsigned count, bool is_used)
{
	for (unsigned i = first; i < first + count; i++) {
		if (is_used)
			block->used[i / 64] |= (uint64_t)1 << i % 64;
		else
			block->used[i / 64] &= ~((uint64_t)1 << i % 64);
	}
	block->used_grains += is_used ? count : -count;
}

static struct sim_block *block_new(CUcontext ctx)
{
	struct sim_block *block = calloc(1, sizeof(*block));

	if (!block)
		return NULL;
	if (sim_charge(ctx->device, SIM_USE_ALLOC, SIM_PAGE_BYTES)) {
		free(block);
		return NULL;
	}
	block->base = va_map(SIM_PAGE_BYTES);
	if (!block->base) {
		sim_uncharge(ctx->device, SIM_USE_ALLOC, SIM_PAGE_BYTES);
		free(block);
		return NULL;
	}
	block->ctx = ctx;
	list_append(&blocks, &block->node);
	return block;
}

static void block_free(struct sim_block *block)
{
	bool is_moved = ipc_forget(block->base);

	va_unmap(block->base, SIM_PAGE_BYTES);
	if (is_moved)
		sim_uncharge_moved(block->ctx->device, SIM_USE_ALLOC, SIM_PAGE_BYTES);
	else
		sim_uncharge(block->ctx->device, SIM_USE_ALLOC, SIM_PAGE_BYTES);
	list_del(&block->node);
	free(block);
}

static CUresult new_small(CUcontext ctx, size_t bytes, enum sim_alloc_kind kind,
			  struct sim_alloc **ret)
{
	unsigned count = (unsigned)((bytes + GRAIN - 1) / GRAIN), first = GRAINS;
	struct sim_block *block, *found = NULL;
	struct sim_alloc *alloc;

	list_for_each (block, &blocks, node) {
		if (block->ctx != ctx || GRAINS - block->used_grains < count)
			continue;
		first = find_grains(block, count);
		if (first == GRAINS)
			continue;
		found = block;
		break;
	}
	if (!found) {
		found = block_new(ctx);
		first = 0;
	}
	if (!found)
		return CUDA_ERROR_OUT_OF_MEMORY;
	alloc = range_new((CUdeviceptr)(uintptr_t)(found->base + first * GRAIN), bytes,
			  count * GRAIN, kind);
	if (!alloc) {
		if (!found->used_grains)
			block_free(found);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	mark_grains(found, first, count, true);
	alloc->block = found;
	*ret = alloc;
	return CUDA_SUCCESS;
}

static void free_small(struct sim_alloc *alloc)
{
	struct sim_block *block = alloc->block;
	unsigned first = (unsigned)(((char *)(uintptr_t)alloc->base - block->base) / (long)GRAIN);

	mark_grains(block, first, (unsigned)(alloc->mapped_bytes / GRAIN), false);
	if (!block->used_grains)
		block_free(block);
}

/* All of them. */

static CUresult new_large(CUcontext ctx, size_t bytes, enum sim_alloc_kind kind, enum sim_use use,
			  struct sim_alloc **ret)
{
	uint64_t mapped = size_round_up(bytes, SIM_PAGE_BYTES);
	/* managed memory takes room on the card as the GPU touches it */
	uint64_t charged = kind == SIM_ALLOC_MANAGED ? 0 : mapped;
	struct sim_alloc *alloc;
	void *base;

	if (mapped < bytes || mapped == UINT64_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (sim_charge(ctx->device, use, charged))
		return CUDA_ERROR_OUT_OF_MEMORY;
	base = va_map(mapped);
	alloc = base ? range_new((CUdeviceptr)(uintptr_t)base, bytes, mapped, kind) : NULL;
	if (!alloc) {
		if (base)
			va_unmap(base, mapped);
		sim_uncharge(ctx->device, use, charged);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (kind == SIM_ALLOC_MANAGED) /* without the bits it stays in host memory */
		alloc->resident = calloc(mapped / SIM_PAGE_BYTES / 8 + 1, 1);
	alloc->charged_bytes = charged;
	*ret = alloc;
	return CUDA_SUCCESS;
}

CUresult sim_alloc_new(CUcontext ctx, size_t bytes, enum sim_alloc_kind kind, enum sim_use use,
		       struct sim_alloc **ret)
{
	struct sim_alloc *alloc = NULL;
	CUresult result;

	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (bytes <= SMALL_BYTES && use == SIM_USE_ALLOC)
		result = new_small(ctx, bytes, kind, &alloc);
	else
		result = new_large(ctx, bytes, kind, use, &alloc);
	if (result)
		return result;
	alloc->device = ctx->device;
	alloc->use = use;
	alloc->sync_memops = true; /* of device memory, from the start */
	range_own(alloc, ctx);
	*ret = alloc;
	return CUDA_SUCCESS;
}

void sim_managed_touch(struct sim_alloc *alloc, uint64_t offset, size_t bytes)
{
	uint64_t page = offset / SIM_PAGE_BYTES;

	for (; alloc->resident && page * SIM_PAGE_BYTES < offset + bytes; page++) {
		uint8_t *bits = &alloc->resident[page / 8], bit = (uint8_t)(1u << page % 8);

		if (*bits & bit || sim_charge(alloc->device, alloc->use, SIM_PAGE_BYTES))
			continue;
		*bits |= bit;
		alloc->charged_bytes += SIM_PAGE_BYTES;
	}
}

void sim_alloc_free(struct sim_alloc *alloc)
{
	bool is_moved = false;

	if (!alloc)
		return;
	free(alloc->resident);
	alloc->resident = NULL;
	if (alloc->block) {
		free_small(alloc);
	} else {
		is_moved = ipc_forget((void *)(uintptr_t)alloc->base);
		va_unmap((void *)(uintptr_t)alloc->base, alloc->mapped_bytes);
	}
	if (is_moved)
		sim_uncharge_moved(alloc->device, alloc->use, alloc->charged_bytes);
	else if (alloc->charged_bytes)
		sim_uncharge(alloc->device, alloc->use, alloc->charged_bytes);
	range_free(alloc);
}

char *sim_alloc_region(const struct sim_alloc *alloc, size_t *ret_bytes)
{
	*ret_bytes = alloc->block ? SIM_PAGE_BYTES : alloc->mapped_bytes;
	return alloc->block ? alloc->block->base : (char *)(uintptr_t)alloc->base;
}

void sim_ctx_free_allocs(CUcontext ctx)
{
	struct sim_alloc *alloc, *next;

	list_for_each_safe (alloc, next, &ctx->allocs, ctx_node)
		sim_range_end(alloc);
}
