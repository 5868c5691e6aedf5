// SPDX-License-Identifier: Apache-2.0
#include "sim/cuda/pool.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "sim/cuda/context.h"
#include "sim/cuda/ranges.h"
#include "sim/cuda/va.h"
#include "sim/state/share.h"

#define UNIT            ((uint64_t)32 << 20)
#define GRAIN           ((uint64_t)512)
#define HOST_POOL_BYTES ((uint64_t)64 << 30)

static struct list host_pools = { &host_pools, &host_pools };
static struct sim_pool *host_default;

static struct pool_piece *piece_new(struct sim_pool *pool, char *base, uint64_t bytes,
				    struct list *before)
{
	struct pool_piece *piece = calloc(1, sizeof(*piece));

	if (!piece)
		return NULL;
	piece->pool = pool;
	piece->base = base;
	piece->bytes = bytes;
	piece->is_settled = true;
	list_add_before(before, &piece->node);
	return piece;
}

static void pool_free(struct sim_pool *pool)
{
	struct pool_piece *piece, *next;

	list_for_each_safe (piece, next, &pool->pieces, node)
		free(piece);
	if (pool->device && !pool->is_imported)
		sim_uncharge(pool->device, SIM_USE_POOL, pool->reserved_bytes);
	if (pool->share_id && pool->is_imported)
		sim_state_close_pool(sim.state, pool->share_id);
	else if (pool->share_id)
		sim_state_close_share(sim.state, pool->share_id);
	if (pool->base)
		va_unmap(pool->base, pool->bytes);
	if (pool->fd >= 0)
		close(pool->fd);
	list_del(&pool->node);
	free(pool->backing);
	free(pool);
}

/* The range: twice the card, so that holes do not matter; shareable ones lie in a memfd. */
static bool map_range(struct sim_pool *pool)
{
	pool->bytes = pool->device ? size_round_up(2 * pool->device->info->memory_bytes, UNIT)
				   : HOST_POOL_BYTES;
	pool->backing = calloc(pool->bytes / UNIT, 1);
	if (!pool->backing)
		return false;
	if (pool->props.handleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
		pool->fd = pool_memfd(pool);
		if (pool->fd < 0)
			return false;
		pool->base = va_reserve_fd(pool->fd, pool->bytes);
	} else {
		pool->base = va_reserve(pool->bytes, SIM_PAGE_BYTES, 0);
	}
	return pool->base && piece_new(pool, pool->base, pool->bytes, &pool->pieces);
}

struct sim_pool *pool_new(struct sim_device *device, const CUmemPoolProps *props)
{
	struct sim_pool *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return NULL;
	pool->device = device;
	pool->props = *props;
	pool->fd = -1;
	for (int i = 0; i < 3; i++)
		pool->reuse[i] = 1;
	list_init(&pool->pieces);
	list_append(device ? &device->pools : &host_pools, &pool->node);
	if (!map_range(pool)) {
		pool_free(pool);
		return NULL;
	}
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

struct sim_pool *pool_import(struct sim_device *device, int fd, uint64_t bytes)
{
	struct sim_pool *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return NULL;
	pool->device = device;
	pool->fd = fd;
	pool->is_imported = true;
	pool->props.location = (CUmemLocation){ CU_MEM_LOCATION_TYPE_DEVICE, device->ordinal };
	pool->bytes = bytes;
	list_init(&pool->pieces);
	list_append(&device->pools, &pool->node);
	pool->base = va_reserve_fd(fd, bytes);
	if (!pool->base || va_protect(pool->base, bytes, true, true)) {
		pool->fd = -1; /* stays the caller's */
		pool_free(pool);
		return NULL;
	}
	return pool;
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

/* Units. */

static uint64_t unit_of(const struct sim_pool *pool, const char *at)
{
	return (uint64_t)(at - pool->base) / UNIT;
}

/* how many units it would take to back all of [base, base + bytes) */
static uint64_t units_lacking(const struct sim_pool *pool, const char *base, uint64_t bytes)
{
	uint64_t lacking = 0;

	for (uint64_t u = unit_of(pool, base); u <= unit_of(pool, base + bytes - 1); u++)
		lacking += !pool->backing[u];
	return lacking;
}

static bool back(struct sim_pool *pool, char *base, uint64_t bytes)
{
	uint64_t lacking = units_lacking(pool, base, bytes), after;

	if (!lacking)
		return true;
	if (!size_add(pool->reserved_bytes, lacking * UNIT, &after))
		return false;
	if (pool->props.maxSize && after > size_round_up(pool->props.maxSize, UNIT))
		return false;
	if (pool->device && sim_charge(pool->device, SIM_USE_POOL, lacking * UNIT))
		return false;
	for (uint64_t u = unit_of(pool, base); u <= unit_of(pool, base + bytes - 1); u++) {
		if (pool->backing[u])
			continue;
		pool->backing[u] = 1;
		/* cannot fail on a range that was ours before, but for the number of mappings */
		(void)va_protect(pool->base + u * UNIT, UNIT, true, true);
	}
	pool->reserved_bytes = after;
	pool->reserved_high_bytes = size_max(pool->reserved_high_bytes, after);
	return true;
}

static void release_unit(struct sim_pool *pool, uint64_t unit)
{
	if (!pool->share_id) /* importers may have it open: its data stays */
		va_discard(pool->base + unit * UNIT, UNIT, pool->fd >= 0);
	pool->backing[unit] = 0;
	pool->reserved_bytes = size_sat_sub(pool->reserved_bytes, UNIT);
	if (pool->device)
		sim_uncharge(pool->device, SIM_USE_POOL, UNIT);
	if (pool->share_id)
		sim_state_pool_shrank(sim.state, pool->share_id, UNIT);
}

void pool_trim(struct sim_pool *pool, uint64_t keep_bytes)
{
	struct pool_piece *piece;
	struct list *at;

	if (pool->is_imported)
		return;
	for (at = pool->pieces.prev; at != &pool->pieces; at = at->prev) {
		uint64_t first, end;

		piece = list_entry(at, struct pool_piece, node);
		if (piece->is_used || !piece->is_settled)
			continue;
		/* whole units only, from behind */
		first = (size_round_up((uint64_t)(piece->base - pool->base), UNIT)) / UNIT;
		end = unit_of(pool, piece->base + piece->bytes);
		while (end > first) {
			if (!pool->backing[--end])
				continue;
			if (pool->reserved_bytes < size_sat_add(keep_bytes, UNIT))
				return;
			release_unit(pool, end);
		}
	}
}

void sim_pools_trim(struct sim_device *device)
{
	struct sim_pool *pool;

	list_for_each (pool, &device->pools, node)
		pool_trim(pool, 0);
}

/* The host has waited: what is over by now may go. */
static void settle(struct sim_pool *pool)
{
	uint64_t now_ns = clock_now_ns();
	struct pool_piece *piece;

	list_for_each (piece, &pool->pieces, node) {
		if (!piece->is_used && piece->ready_ns <= now_ns)
			piece->is_settled = true;
	}
}

void sim_pool_sync_point(struct sim_device *device)
{
	struct sim_pool *pool, *next;

	list_for_each_safe (pool, next, &device->pools, node) {
		if (!pool->reserved_bytes && !pool->is_destroyed)
			continue;
		settle(pool);
		pool_trim(pool, pool->release_threshold_bytes);
		if (pool->is_destroyed)
			pool_end(pool);
	}
}

/* Pieces. */

static bool is_ready(const struct pool_piece *piece, uint64_t stream_id, uint64_t now_ns)
{
	return piece->ready_ns <= now_ns || (stream_id && piece->stream_id == stream_id);
}

/* the one that takes the fewest new units, then the smallest, so that large ones stay whole */
static struct pool_piece *find_piece(struct sim_pool *pool, uint64_t bytes, uint64_t stream_id)
{
	uint64_t now_ns = clock_now_ns(), best_cost = UINT64_MAX;
	struct pool_piece *piece, *best = NULL;

	list_for_each (piece, &pool->pieces, node) {
		uint64_t cost;

		if (piece->is_used || piece->bytes < bytes || !is_ready(piece, stream_id, now_ns))
			continue;
		cost = units_lacking(pool, piece->base, bytes);
		if (cost > best_cost || (cost == best_cost && best->bytes <= piece->bytes))
			continue;
		best = piece;
		best_cost = cost;
	}
	return best;
}

/* @next follows @piece; both are free */
static void join(struct pool_piece *piece, struct pool_piece *next)
{
	if (piece->stream_id != next->stream_id)
		piece->stream_id = 0;
	piece->ready_ns = size_max(piece->ready_ns, next->ready_ns);
	piece->is_settled = piece->is_settled && next->is_settled;
	piece->bytes += next->bytes;
	list_del(&next->node);
	free(next);
}

static void release_piece(struct pool_piece *piece)
{
	struct list *end = &piece->pool->pieces;
	struct pool_piece *other;

	piece->is_used = false;
	other = list_entry(piece->node.next, struct pool_piece, node);
	if (&other->node != end && !other->is_used)
		join(piece, other);
	other = list_entry(piece->node.prev, struct pool_piece, node);
	if (&other->node != end && !other->is_used)
		join(other, piece);
}

/* a free and backed piece of exactly @bytes */
static struct pool_piece *take_piece(struct sim_pool *pool, uint64_t bytes, uint64_t stream_id)
{
	struct pool_piece *piece = find_piece(pool, bytes, stream_id), *rest;

	if (!piece || !back(pool, piece->base, bytes))
		return NULL;
	if (piece->bytes == bytes)
		return piece;
	rest = piece_new(pool, piece->base + bytes, piece->bytes - bytes, piece->node.next);
	if (!rest)
		return NULL;
	rest->stream_id = piece->stream_id;
	rest->ready_ns = piece->ready_ns;
	rest->is_settled = piece->is_settled;
	piece->bytes = bytes;
	return piece;
}

CUresult pool_alloc(struct sim_pool *pool, size_t bytes, uint64_t stream_id, CUdeviceptr *ret)
{
	uint64_t whole = size_round_up(bytes, GRAIN);
	struct pool_piece *piece;
	struct sim_alloc *alloc;

	if (pool->is_imported)
		return CUDA_ERROR_INVALID_VALUE;
	if (whole < bytes || whole > pool->bytes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	piece = take_piece(pool, whole, stream_id);
	if (!piece) {
		/* what is free elsewhere in this pool may be what the card lacks */
		pool_trim(pool, 0);
		piece = take_piece(pool, whole, stream_id);
	}
	if (!piece)
		return CUDA_ERROR_OUT_OF_MEMORY;
	alloc = range_new((CUdeviceptr)(uintptr_t)piece->base, bytes, whole, SIM_ALLOC_POOL);
	if (!alloc) {
		release_piece(piece);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	piece->is_used = true;
	alloc->device = pool->device;
	alloc->pool = pool;
	alloc->owner = piece;
	alloc->sync_memops = true;
	pool->used_bytes += bytes;
	pool->used_high_bytes = size_max(pool->used_high_bytes, pool->used_bytes);
	*ret = alloc->base;
	return CUDA_SUCCESS;
}

void pool_give_back(struct sim_alloc *alloc, uint64_t stream_id, uint64_t ready_ns)
{
	struct sim_pool *pool = alloc->pool;
	struct pool_piece *piece = alloc->owner;

	pool->used_bytes = size_sat_sub(pool->used_bytes, alloc->bytes);
	if (piece) {
		piece->stream_id = stream_id;
		piece->ready_ns = ready_ns;
		piece->is_settled = !ready_ns; /* freed by cuMemFree, which waits */
		release_piece(piece);
	}
	range_free(alloc);
	if (pool->is_destroyed)
		pool_end(pool);
}

void sim_pool_range_end(struct sim_alloc *alloc)
{
	pool_give_back(alloc, 0, 0);
}

size_t sim_pool_mapping(const struct sim_alloc *alloc, CUdeviceptr *ret_base)
{
	const struct sim_pool *pool = alloc->pool;
	const char *base = (const char *)(uintptr_t)alloc->base;
	uint64_t first = unit_of(pool, base), last = unit_of(pool, base + alloc->mapped_bytes - 1);

	*ret_base = (CUdeviceptr)(uintptr_t)(pool->base + first * UNIT);
	return (last - first + 1) * UNIT;
}

void pool_end(struct sim_pool *pool)
{
	uint64_t now_ns = clock_now_ns();
	struct pool_piece *piece;
	bool is_over = !pool->used_bytes;

	pool->is_destroyed = true;
	/* pieces that are in use, or whose stream has not come that far, keep it */
	list_for_each (piece, &pool->pieces, node) {
		if (piece->is_used || piece->ready_ns > now_ns)
			is_over = false;
	}
	if (is_over)
		pool_free(pool);
}
