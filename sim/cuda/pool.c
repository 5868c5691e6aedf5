// SPDX-License-Identifier: Apache-2.0
#include "sim/cuda/pool.h"

#include <stdlib.h>

#include "base/clock.h"
#include "sim/cuda/context.h"
#include "sim/cuda/ranges.h"
#include "sim/cuda/va.h"

#define CHUNK_BYTES ((uint64_t)32 << 20)
#define GRAIN       ((uint64_t)512)

struct chunk {
	struct list node; /* sim_pool.chunks */
	struct sim_pool *pool;
	char *base;
	uint64_t bytes;
	struct list pieces; /* by address, without gaps */
};

struct piece {
	struct list node;
	struct chunk *chunk;
	char *base;
	uint64_t bytes;
	bool is_used;
	uint64_t stream_id, ready_ns; /* of a free piece */
};

static struct list host_pools = { &host_pools, &host_pools };
static struct sim_pool *host_default;

struct sim_pool *pool_new(struct sim_device *device, const CUmemPoolProps *props)
{
	struct sim_pool *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return NULL;
	pool->device = device;
	pool->props = *props;
	for (int i = 0; i < 3; i++)
		pool->reuse[i] = 1;
	list_init(&pool->chunks);
	list_append(device ? &device->pools : &host_pools, &pool->node);
	return pool;
}

struct sim_pool *pool_default(struct sim_device *device)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, device->ordinal },
	};

	if (device->default_pool)
		return device->default_pool;
	device->default_pool = pool_new(device, &props);
	if (!device->default_pool)
		return NULL;
	device->default_pool->is_default = true;
	if (!device->current_pool)
		device->current_pool = device->default_pool;
	return device->default_pool;
}

struct sim_pool *pool_host(void)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { CU_MEM_LOCATION_TYPE_HOST, 0 },
	};

	if (!host_default)
		host_default = pool_new(NULL, &props);
	if (host_default)
		host_default->is_default = true;
	return host_default;
}

static bool is_in(const struct list *pools, const struct sim_pool *pool)
{
	const struct sim_pool *it;

	list_for_each (it, pools, node) {
		if (it == pool)
			return !it->is_destroyed;
	}
	return false;
}

bool pool_is_known(const struct sim_pool *pool)
{
	for (unsigned i = 0; i < sim.device_count; i++) {
		if (is_in(&sim.devices[i].pools, pool))
			return true;
	}
	return is_in(&host_pools, pool);
}

/* Chunks. */

static bool is_ready(const struct piece *piece, uint64_t stream_id, uint64_t now_ns)
{
	return piece->ready_ns <= now_ns || (stream_id && piece->stream_id == stream_id);
}

static bool is_all_free(const struct chunk *chunk, uint64_t now_ns)
{
	const struct piece *first = list_entry(chunk->pieces.next, struct piece, node);

	return first->node.next == &chunk->pieces && !first->is_used && is_ready(first, 0, now_ns);
}

static void chunk_free(struct chunk *chunk)
{
	struct sim_pool *pool = chunk->pool;
	struct piece *piece, *next;

	list_for_each_safe (piece, next, &chunk->pieces, node)
		free(piece);
	if (chunk->base)
		va_unmap(chunk->base, chunk->bytes);
	if (pool->device)
		sim_uncharge(pool->device, SIM_USE_POOL, chunk->bytes);
	pool->reserved_bytes = size_sat_sub(pool->reserved_bytes, chunk->bytes);
	list_del(&chunk->node);
	free(chunk);
}

static struct piece *piece_new(struct chunk *chunk, char *base, uint64_t bytes, struct list *before)
{
	struct piece *piece = calloc(1, sizeof(*piece));

	if (!piece)
		return NULL;
	piece->chunk = chunk;
	piece->base = base;
	piece->bytes = bytes;
	list_add_before(before, &piece->node);
	return piece;
}

/* One chunk more, of one free piece; NULL when the card or the pool's own limit is reached. */
static struct piece *grow(struct sim_pool *pool, uint64_t bytes)
{
	uint64_t whole = size_round_up(bytes, CHUNK_BYTES), after;
	struct chunk *chunk;
	struct piece *piece;

	if (whole < bytes || !size_add(pool->reserved_bytes, whole, &after))
		return NULL;
	if (pool->props.maxSize && after > size_round_up(pool->props.maxSize, CHUNK_BYTES))
		return NULL;
	if (pool->device && sim_charge(pool->device, SIM_USE_POOL, whole))
		return NULL;
	pool->reserved_bytes = after;
	chunk = calloc(1, sizeof(*chunk));
	if (!chunk) {
		pool->reserved_bytes -= whole;
		if (pool->device)
			sim_uncharge(pool->device, SIM_USE_POOL, whole);
		return NULL;
	}
	chunk->pool = pool;
	chunk->bytes = whole;
	list_init(&chunk->pieces);
	list_append(&pool->chunks, &chunk->node);
	chunk->base = va_map(whole);
	piece = chunk->base ? piece_new(chunk, chunk->base, whole, &chunk->pieces) : NULL;
	if (!piece) {
		chunk_free(chunk);
		return NULL;
	}
	pool->reserved_high_bytes = size_max(pool->reserved_high_bytes, after);
	return piece;
}

void pool_trim(struct sim_pool *pool, uint64_t keep_bytes)
{
	uint64_t now_ns = clock_now_ns();
	struct chunk *chunk, *next;

	list_for_each_safe (chunk, next, &pool->chunks, node) {
		if (pool->reserved_bytes <= keep_bytes)
			return;
		if (is_all_free(chunk, now_ns))
			chunk_free(chunk);
	}
}

void sim_pools_trim(struct sim_device *device)
{
	struct sim_pool *pool;

	list_for_each (pool, &device->pools, node)
		pool_trim(pool, 0);
}

void sim_pool_sync_point(struct sim_device *device)
{
	struct sim_pool *pool;

	list_for_each (pool, &device->pools, node)
		pool_trim(pool, pool->release_threshold_bytes);
}

/* Pieces. */

/* the smallest that fits, so that large ones stay whole */
static struct piece *find_piece(struct sim_pool *pool, uint64_t bytes, uint64_t stream_id)
{
	uint64_t now_ns = clock_now_ns();
	struct piece *piece, *best = NULL;
	struct chunk *chunk;

	list_for_each (chunk, &pool->chunks, node) {
		list_for_each (piece, &chunk->pieces, node) {
			if (piece->is_used || piece->bytes < bytes ||
			    !is_ready(piece, stream_id, now_ns))
				continue;
			if (!best || piece->bytes < best->bytes)
				best = piece;
		}
	}
	return best;
}

/* @next follows @piece; both are free */
static void join(struct piece *piece, struct piece *next)
{
	if (piece->stream_id != next->stream_id)
		piece->stream_id = 0;
	piece->ready_ns = size_max(piece->ready_ns, next->ready_ns);
	piece->bytes += next->bytes;
	list_del(&next->node);
	free(next);
}

static void release_piece(struct piece *piece, uint64_t stream_id, uint64_t ready_ns)
{
	struct list *end = &piece->chunk->pieces;
	struct piece *other;

	piece->is_used = false;
	piece->stream_id = stream_id;
	piece->ready_ns = ready_ns;
	other = list_entry(piece->node.next, struct piece, node);
	if (&other->node != end && !other->is_used)
		join(piece, other);
	other = list_entry(piece->node.prev, struct piece, node);
	if (&other->node != end && !other->is_used)
		join(other, piece);
}

CUresult pool_alloc(struct sim_pool *pool, size_t bytes, uint64_t stream_id, CUdeviceptr *ret)
{
	uint64_t whole = size_round_up(bytes, GRAIN);
	struct piece *piece = find_piece(pool, whole, stream_id), *rest;
	struct sim_alloc *alloc;

	if (!piece)
		piece = grow(pool, whole);
	if (!piece) {
		pool_trim(pool, 0);
		piece = grow(pool, whole);
	}
	if (!piece)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (piece->bytes > whole) {
		rest = piece_new(piece->chunk, piece->base + whole, piece->bytes - whole,
				 piece->node.next);
		if (!rest)
			return CUDA_ERROR_OUT_OF_MEMORY;
		rest->stream_id = piece->stream_id;
		rest->ready_ns = piece->ready_ns;
		piece->bytes = whole;
	}
	alloc = range_new((CUdeviceptr)(uintptr_t)piece->base, bytes, whole, SIM_ALLOC_POOL);
	if (!alloc) {
		release_piece(piece, piece->stream_id, piece->ready_ns);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	piece->is_used = true;
	alloc->device = pool->device;
	alloc->pool = pool;
	alloc->owner = piece;
	pool->used_bytes += whole;
	pool->used_high_bytes = size_max(pool->used_high_bytes, pool->used_bytes);
	*ret = alloc->base;
	return CUDA_SUCCESS;
}

void pool_give_back(struct sim_alloc *alloc, uint64_t stream_id, uint64_t ready_ns)
{
	struct sim_pool *pool = alloc->pool;

	pool->used_bytes = size_sat_sub(pool->used_bytes, alloc->mapped_bytes);
	release_piece(alloc->owner, stream_id, ready_ns);
	range_free(alloc);
	if (pool->is_destroyed)
		pool_end(pool);
}

void sim_pool_range_end(struct sim_alloc *alloc)
{
	pool_give_back(alloc, 0, 0);
}

void pool_end(struct sim_pool *pool)
{
	pool->is_destroyed = true;
	pool_trim(pool, 0);
	/* pieces that are in use, or whose stream has not come that far, keep it */
	if (pool->used_bytes || !list_is_empty(&pool->chunks))
		return;
	list_del(&pool->node);
	free(pool);
}
