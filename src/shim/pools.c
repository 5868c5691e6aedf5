// SPDX-License-Identifier: Apache-2.0
#include "shim/pools.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "shim/blocks.h"
#include "shim/capture.h"
#include "shim/devices.h"
#include "shim/real.h"
#include "shim/reuse.h"
#include "shim/share.h"
#include "shim/tiny_lock.h"
#include "shim/wiped.h"

/*
 * How much a pool may grow for one allocation: drivers take pieces of 32 MiB for small ones.  The
 * smaller figure is tried where that much is not left.
 */
#define GROWTH_STEP     REUSE_MIN_BYTES
#define GROWTH_STEP_MIN (2 * MIB)
#define SETTLE_TRIES    8
#define PLACE_TRIES     8       /* turns in which somebody else had taken the place */
#define RETURN_TRIES    10      /* looks at room that is on its way back: a second in all … */
#define RETURN_PAUSE_NS 1000000 /* … after so long; doubles */
#define GRAPH_DEVICES   64
#define POOLS_PER_SLAB  256

enum pool_state {
	POOL_UNUSED = 0,
	POOL_LIVE,
	POOL_ENDING, /* being destroyed: the driver must not be asked about it any more */
};

struct pool {
	struct tiny_lock lock;
	struct pool *_Atomic next; /* of all, in the order of their making; never unlinked */
	_Atomic uint32_t state;    /* enum pool_state */
	_Atomic uint32_t users;    /* who came by the list of all; a destroy waits for them */
	uint32_t is_graph;
	CUmemoryPool handle; /* changes under the lock when the record is used again */
	CUdevice dev;
	int slot;
	_Atomic uint64_t tickets;
	uint64_t applied, held, pending;
	uint64_t reserved, epoch; /* as last applied; how often that became less */
	uint64_t mark;            /* of its exports (share.h); 0: none */
};

struct pools {
	struct pool *_Atomic all;
	pthread_mutex_t making;
	struct pool *fresh, *fresh_end;
	struct pool *_Atomic graph[GRAPH_DEVICES];
};

static void *_Atomic pools_memory;
_Atomic uint32_t pools_dirty, pools_count; /* too high in a forked child: that only costs time */

static struct pools *pools(void)
{
	return wiped_once(&pools_memory, sizeof(struct pools));
}

/* ---- records ---- */

static struct pool *record_new(struct pools *all)
{
	struct pool *p;

	for (p = atomic_load(&all->all); p; p = atomic_load(&p->next)) {
		uint32_t unused = POOL_UNUSED;

		if (!atomic_compare_exchange_strong(&p->state, &unused, POOL_ENDING))
			continue;
		if (!p->is_graph) /* ours to look at only now */
			return p;
		atomic_store(&p->state, POOL_UNUSED);
	}
	pthread_mutex_lock(&all->making);
	if (all->fresh == all->fresh_end) {
		all->fresh = wiped_map(POOLS_PER_SLAB * sizeof(*p));
		all->fresh_end = all->fresh ? all->fresh + POOLS_PER_SLAB : NULL;
	}
	p = all->fresh ? all->fresh++ : NULL;
	if (p) {
		atomic_store(&p->state, POOL_ENDING); /* live when record_make has filled it */
		atomic_store(&p->next, atomic_load(&all->all));
		atomic_store(&all->all, p);
	}
	pthread_mutex_unlock(&all->making);
	return p;
}

static struct pool *record_make(CUmemoryPool handle, bool is_graph, CUdevice dev, int slot)
{
	struct pools *all = pools();
	struct pool *p = all ? record_new(all) : NULL;

	if (!p)
		return NULL;
	tiny_lock_take(&p->lock);
	p->is_graph = is_graph;
	p->handle = handle;
	p->dev = dev;
	p->slot = slot;
	p->held = p->pending = p->reserved = p->mark = 0;
	p->applied = atomic_fetch_add(&p->tickets, 1) + 1; /* answers from a former life are late */
	tiny_lock_give(&p->lock);
	atomic_store(&p->state, POOL_LIVE);
	if (slot >= 0)
		atomic_fetch_add(&pools_count, 1);
	return p;
}

static void record_end(struct pool *p)
{
	struct charge all;
	uint64_t mark;

	tiny_lock_take(&p->lock);
	mark = p->mark;
	all = (struct charge){ .slot = p->slot, .bytes = p->held };
	p->held = p->pending = 0;
	p->applied = atomic_fetch_add(&p->tickets, 1) + 1;
	tiny_lock_give(&p->lock);
	if (all.slot >= 0)
		atomic_fetch_sub(&pools_count, 1);
	reuse_pool_gone(p);
	if (mark)
		share_freed(share_key_of_mark(mark), all, true);
	else
		account_give(all);
	account_settle(all.slot);
	atomic_store(&p->state, POOL_UNUSED);
}

/* no more users by the list, and those that are on their way have left */
static void close_to_users(struct pool *p)
{
	atomic_store(&p->state, POOL_ENDING);
	while (atomic_load(&p->users) > 0)
		sched_yield(); /* as long as one question to the driver takes */
}

/* enter @p into the table; NULL: no memory for that, the record is given up */
static struct pool *enter(struct pool *p)
{
	struct block *b = p ? blocks_reserve() : NULL, *dead;

	if (!b) {
		if (p)
			record_end(p);
		return NULL;
	}
	b->kind = BLOCK_POOL;
	b->key = (uintptr_t)p->handle;
	b->other = p;
	dead = blocks_insert(b);
	if (dead) {
		record_end(dead->other); /* its handle was handed out again */
		blocks_discard(dead);
	}
	return p;
}

static void get_other(struct block *b, void *arg)
{
	*(struct pool **)arg = b->other;
}

static HOT struct pool *known(CUmemoryPool handle)
{
	struct pool *p = NULL;

	(void)blocks_visit(BLOCK_POOL, (uintptr_t)handle, get_other, &p);
	return p;
}

void pools_made(CUmemoryPool handle, const CUmemLocation *location)
{
	bool on_device = location && location->type == CU_MEM_LOCATION_TYPE_DEVICE;

	(void)enter(record_make(handle, false, on_device ? location->id : -1,
				on_device ? devices_slot(location->id) : ACCOUNT_NOWHERE));
}

/* a pool that we have not seen made: the default one of some device, or none that costs */
static struct pool *meet(CUmemoryPool handle)
{
	int n = devices_count();

	for (CUdevice dev = 0; dev < n; dev++) {
		CUmemoryPool its;

		if (real_cuDeviceGetDefaultMemPool(&its, dev) == CUDA_SUCCESS && its == handle)
			return enter(record_make(handle, false, dev, devices_slot(dev)));
	}
	return enter(record_make(handle, false, -1, ACCOUNT_NOWHERE));
}

HOT struct pool *pools_of(CUmemoryPool handle, int *ret_slot)
{
	struct pool *p = known(handle);

	if (!p)
		p = meet(handle);
	*ret_slot = p ? p->slot : ACCOUNT_NOWHERE;
	return p && p->slot >= 0 ? p : NULL;
}

static void get_device(struct block *b, void *arg)
{
	*(CUdevice *)arg = (CUdevice)b->count;
}

/* whose pool does @stream use?  -1: there is no telling, and the call will fail */
static HOT CUdevice device_of(CUstream stream, bool per_thread)
{
	CUcontext its;
	CUdevice dev;

	if (stream &&
	    (per_thread ? real_cuStreamGetCtx_ptsz(stream, &its)
			: real_cuStreamGetCtx(stream, &its)) == CUDA_SUCCESS &&
	    blocks_visit(BLOCK_CONTEXT, (uintptr_t)its, get_device, &dev))
		return dev;
	return real_cuCtxGetDevice(&dev) == CUDA_SUCCESS ? dev : -1;
}

HOT struct pool *pools_current(CUstream stream, bool per_thread, int *ret_slot)
{
	CUdevice dev = device_of(stream, per_thread);
	CUmemoryPool handle;

	*ret_slot = ACCOUNT_NOWHERE;
	if (dev < 0 || real_cuDeviceGetMemPool(&handle, dev) != CUDA_SUCCESS)
		return NULL;
	return pools_of(handle, ret_slot);
}

struct pool *pools_graph(CUdevice dev, int *ret_slot)
{
	struct pools *all = pools();
	struct pool *p, *none = NULL;

	*ret_slot = devices_slot(dev);
	if (!all || *ret_slot < 0 || dev < 0 || dev >= GRAPH_DEVICES)
		return NULL;
	p = atomic_load(&all->graph[dev]);
	if (p)
		return p;
	p = record_make(NULL, true, dev, *ret_slot);
	if (p && !atomic_compare_exchange_strong(&all->graph[dev], &none, p)) {
		record_end(p);
		p = none;
	}
	return p;
}

/* ---- the driver's figures ---- */

static HOT bool ask(const struct pool *p, bool used, uint64_t *ret_bytes)
{
	cuuint64_t bytes = 0;
	CUresult rc;

	if (p->is_graph)
		rc = real_cuDeviceGetGraphMemAttribute(
			p->dev,
			used ? CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT
			     : CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT,
			&bytes);
	else
		rc = real_cuMemPoolGetAttribute(p->handle,
						used ? CU_MEMPOOL_ATTR_USED_MEM_CURRENT
						     : CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
						&bytes);
	*ret_bytes = bytes;
	return rc == CUDA_SUCCESS;
}

static bool has_room(const struct pool *p, uint64_t bytes)
{
	uint64_t reserved, used;

	return ask(p, false, &reserved) && ask(p, true, &used) &&
	       size_sat_sub(reserved, used) >= bytes;
}

/* ---- settling ---- */

static void forget_pending(struct pool *p, uint64_t provisional)
{
	tiny_lock_take(&p->lock);
	p->pending = size_sat_sub(p->pending, provisional);
	tiny_lock_give(&p->lock);
}

/*
 * What the pool reserved beyond everything that was taken for it; false: not to be had.  It counts
 * as held only when it is had: another settling may give back all that is held at any moment.
 */
static bool charge_growth(struct pool *p, uint64_t bytes)
{
	struct charge more;

	if (!account_take(p->slot, bytes, ACCOUNT_NO_WAIT, &more, NULL))
		return false;
	if (more.slot < 0)
		return true;
	tiny_lock_take(&p->lock);
	p->held += more.bytes;
	tiny_lock_give(&p->lock);
	/* two that saw the same growth both paid for it: the next settling gives one back */
	atomic_store_explicit(&pools_dirty, POOLS_SYNCS, memory_order_relaxed);
	return true;
}

/* @bytes are not needed; @shrunk of them the pool had, and others may have them open */
static HOT void give_back(const struct pool *p, uint64_t mark, uint64_t bytes, uint64_t shrunk)
{
	struct charge all = { .slot = p->slot, .bytes = bytes };

	if (mark && shrunk)
		share_freed(share_key_of_mark(mark), account_split(&all, shrunk), false);
	account_give(all);
}

uint64_t pools_mark(CUmemoryPool handle, uint64_t fresh, int *ret_slot)
{
	struct pool *p = pools_of(handle, ret_slot);
	uint64_t mark;

	if (!p)
		return 0;
	tiny_lock_take(&p->lock);
	if (!p->mark)
		p->mark = fresh;
	mark = p->mark;
	tiny_lock_give(&p->lock);
	pools_settle(p); /* from here on it matters what it has */
	return mark;
}

static HOT bool settle(struct pool *p, uint64_t provisional, uint64_t *ret_unpaid)
{
	for (unsigned i = 0; i < SETTLE_TRIES; i++) {
		uint64_t ticket = atomic_fetch_add(&p->tickets, 1) + 1;
		uint64_t reserved, give = 0, more = 0, keep, mark, shrunk;

		if (!ask(p, false, &reserved))
			break;
		tiny_lock_take(&p->lock);
		if (ticket < p->applied) {
			tiny_lock_give(&p->lock);
			continue;
		}
		p->applied = ticket;
		mark = p->mark;
		shrunk = size_sat_sub(p->reserved, reserved);
		p->pending = size_sat_sub(p->pending, provisional);
		p->epoch += reserved < p->reserved;
		p->reserved = reserved;
		keep = reserved + p->pending;
		if (p->held > keep) {
			give = p->held - keep;
			p->held = keep;
		} else if (p->held < reserved) {
			more = reserved - p->held;
		}
		tiny_lock_give(&p->lock);
		if (give)
			give_back(p, mark, give, shrunk);
		if (more == 0 || charge_growth(p, more))
			return true;
		*ret_unpaid = more;
		return false;
	}
	forget_pending(p, provisional); /* what it holds too much goes back when it settles next */
	atomic_store_explicit(&pools_dirty, POOLS_SYNCS, memory_order_relaxed);
	return true;
}

void pools_settle(struct pool *p)
{
	uint64_t unpaid;

	(void)settle(p, 0, &unpaid);
}

uint64_t pools_epoch(struct pool *p)
{
	uint64_t epoch;

	tiny_lock_take(&p->lock);
	epoch = p->epoch + 1;
	tiny_lock_give(&p->lock);
	return epoch;
}

static HOT bool cover(struct pool *p, uint64_t bytes, unsigned flags, struct pool_call *call)
{
	struct charge charge;
	struct refusal refusal;

	/* from before it is charged until the call has ended, the wait for a turn included */
	account_moves(p->slot, bytes);
	if (!account_take(p->slot, bytes, flags, &charge, &refusal)) {
		account_moved(p->slot, bytes);
		return false;
	}
	call->moving_bytes += bytes;
	call->provisional += charge.bytes;
	tiny_lock_take(&p->lock);
	p->held += charge.bytes;
	p->pending += charge.bytes;
	tiny_lock_give(&p->lock);
	return true;
}

static void pause_ns(uint64_t ns)
{
	struct timespec ts = { .tv_nsec = (long)ns };
	int saved_errno = errno;

	(void)nanosleep(&ts, NULL);
	errno = saved_errno;
}

/* is there work on the stream, which holds up what was freed on it? */
static bool is_busy(const struct pool_call *call)
{
	CUresult rc;

	if (!call->has_stream || capture_any())
		return false;
	rc = call->per_thread ? real_cuStreamQuery_ptsz(call->stream)
			      : real_cuStreamQuery(call->stream);
	return rc == CUDA_ERROR_NOT_READY;
}

/*
 * Does the pool have a place for it without growing?  A small one finds it in a piece that is
 * partly used.  A large one may only find what was given back earlier on its own stream.
 */
static bool has_place(const struct pool *p, uint64_t bytes, const struct pool_call *call)
{
	if (bytes > GROWTH_STEP &&
	    (!call->has_stream || !reuse_may_take(p, bytes, call->stream, call->per_thread)))
		return false;
	return has_room(p, bytes);
}

/* the whole of what the pool may grow by; trims, and gives what was freed a moment to come back */
static HOT bool cover_whole(struct pool *p, uint64_t bytes, bool forbidden, struct pool_call *call)
{
	uint64_t bound = size_round_up(bytes, GROWTH_STEP);
	unsigned flags = ACCOUNT_QUIET | ACCOUNT_NO_WAIT;

	if (cover(p, bound, flags, call))
		return true;
	if (forbidden)
		return false;
	for (unsigned i = 0; i < RETURN_TRIES; i++) {
		pools_trim(p->slot);
		if (cover(p, bound, flags, call))
			return true;
		if (bytes <= GROWTH_STEP || has_place(p, bytes, call) || !has_room(p, bytes) ||
		    !is_busy(call))
			return false;
		pause_ns((uint64_t)RETURN_PAUSE_NS << i);
	}
	return false;
}

static bool turn_open(struct pool *p, uint64_t bytes, unsigned flags, struct pool_call *call)
{
	uint64_t beyond = call->provisional ? GROWTH_STEP : size_round_up(bytes, GROWTH_STEP);

	return account_turn_open(p->slot, beyond, flags, &call->turn);
}

/*
 * Less than the whole: what the pool has, or what is charged without a piece's rounding.  Whether
 * there is a place is asked before the turn, for which one might wait in vain, and again in it.
 */
static bool begin_in_turn(struct pool *p, uint64_t bytes, unsigned flags, struct pool_call *call)
{
	uint64_t bound = size_round_up(bytes, GROWTH_STEP_MIN);

	for (unsigned i = 0;; i++) {
		bool covered = i == PLACE_TRIES || !has_place(p, bytes, call);

		if (covered && !cover(p, bound, flags, call))
			return false;
		if (!turn_open(p, bytes, flags, call))
			break;
		if (covered || has_place(p, bytes, call))
			return true;
		account_turn_close(&call->turn, 0);
	}
	forget_pending(p, call->provisional);
	pools_settle(p); /* gives it back */
	return false;
}

static HOT bool begin(struct pool *p, uint64_t bytes, struct pool_call *call)
{
	bool forbidden = capture_forbids_wait();

	call->pool = p;
	call->provisional = call->unpaid = call->moving_bytes = 0;
	call->turn = (struct account_turn){ .slot = ACCOUNT_NOWHERE };
	return cover_whole(p, bytes, forbidden, call) ||
	       begin_in_turn(p, bytes, forbidden ? ACCOUNT_NO_WAIT : 0, call);
}

static void moved(struct pool_call *call)
{
	account_moved(call->pool->slot, call->moving_bytes);
	call->moving_bytes = 0;
}

HOT bool pools_begin(struct pool *p, uint64_t bytes, struct pool_call *call)
{
	bool may = begin(p, bytes, call);

	if (!may)
		moved(call);
	return may;
}

HOT bool pools_end(struct pool_call *call)
{
	bool kept = settle(call->pool, call->provisional, &call->unpaid);

	moved(call);
	if (kept)
		account_turn_close(&call->turn, 0);
	return kept;
}

void pools_undone(struct pool_call *call)
{
	if (!capture_forbids_wait())
		pools_trim(call->pool->slot);
	if (settle(call->pool, 0, &call->unpaid))
		call->unpaid = 0;
	account_turn_close(&call->turn, call->unpaid);
}

/* ---- all pools ---- */

/* for a walk over all: keeps @p from being destroyed until leave(); false: nothing to do there */
static bool visit(struct pool *p)
{
	atomic_fetch_add(&p->users, 1);
	if (atomic_load(&p->state) == POOL_LIVE && p->slot >= 0)
		return true;
	atomic_fetch_sub(&p->users, 1);
	return false;
}

static void leave(struct pool *p)
{
	atomic_fetch_sub(&p->users, 1);
}

void pools_synced_slow(void)
{
	struct pools *all = atomic_load_explicit(&pools_memory, memory_order_acquire);
	uint32_t left = atomic_load_explicit(&pools_dirty, memory_order_relaxed);

	if (!all || !left || capture_any())
		return;
	atomic_store_explicit(&pools_dirty, left - 1, memory_order_relaxed);
	for (struct pool *p = atomic_load(&all->all); p; p = atomic_load(&p->next))
		if (visit(p)) {
			pools_settle(p);
			leave(p);
		}
}

void pools_trim(int slot)
{
	struct pools *all = atomic_load_explicit(&pools_memory, memory_order_acquire);

	for (struct pool *p = all ? atomic_load(&all->all) : NULL; p; p = atomic_load(&p->next)) {
		if (!visit(p))
			continue;
		if (p->slot == slot) {
			if (p->is_graph)
				(void)real_cuDeviceGraphMemTrim(p->dev);
			else
				(void)real_cuMemPoolTrimTo(p->handle, 0);
			pools_settle(p);
		}
		leave(p);
	}
}

/* ---- ends ---- */

struct pool *pools_take_out(CUmemoryPool handle)
{
	struct block *b = blocks_take(BLOCK_POOL, (uintptr_t)handle);
	struct pool *p = b ? b->other : NULL;

	blocks_discard(b);
	if (p)
		close_to_users(p);
	return p;
}

void pools_destroyed(struct pool *p, bool destroyed)
{
	if (!p)
		return;
	if (destroyed) {
		record_end(p);
		return;
	}
	atomic_store(&p->state, POOL_LIVE);
	(void)enter(p);
}

void pools_reset(CUdevice dev)
{
	struct pools *all = atomic_load_explicit(&pools_memory, memory_order_acquire);

	for (struct pool *p = all ? atomic_load(&all->all) : NULL; p; p = atomic_load(&p->next)) {
		CUmemoryPool handle;
		bool its;

		if (!visit(p))
			continue;
		its = p->dev == dev;
		handle = p->handle;
		if (its && p->is_graph)
			pools_settle(p); /* asked by device, so it can always be asked */
		its = its && !p->is_graph;
		leave(p);
		if (its)
			pools_destroyed(pools_take_out(handle), true);
	}
}
