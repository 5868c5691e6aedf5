// SPDX-License-Identifier: Apache-2.0
#include "shim/reuse.h"

#include <pthread.h>

#include "base/size.h"
#include "shim/blocks.h"
#include "shim/tiny_lock.h"
#include "shim/wiped.h"

#define PLACES 64 /* pairs of pool and stream; the oldest gives way */

struct place {
	const struct pool *pool;
	uintptr_t stream;
	uint64_t bytes;
};

struct reuse {
	struct tiny_lock lock;
	unsigned next;
	struct place place[PLACES];
};

static void *_Atomic reuse_memory;
_Atomic uint32_t reuse_blocks, reuse_places; /* too high in a forked child: only costs time */

static struct reuse *reuse(void)
{
	return wiped_once(&reuse_memory, sizeof(struct reuse));
}

/* the default streams have no handle of their own */
static uintptr_t key_of(CUstream stream, bool per_thread)
{
	uintptr_t key = (uintptr_t)stream;

	if (key == (uintptr_t)CU_STREAM_PER_THREAD || (key == 0 && per_thread))
		return (uintptr_t)pthread_self();
	return key ? key : (uintptr_t)CU_STREAM_LEGACY;
}

static struct place *find(struct reuse *r, const struct pool *p, uintptr_t stream)
{
	for (unsigned i = 0; i < PLACES; i++)
		if (r->place[i].pool == p && r->place[i].stream == stream)
			return &r->place[i];
	return NULL;
}

static void clear(struct place *at)
{
	*at = (struct place){ 0 };
	atomic_fetch_sub(&reuse_places, 1);
}

static void subtract(const struct pool *p, uint64_t bytes, uintptr_t stream)
{
	struct reuse *r = reuse();
	struct place *at;

	if (!r)
		return;
	tiny_lock_take(&r->lock);
	at = find(r, p, stream);
	if (at && at->bytes <= bytes)
		clear(at);
	else if (at)
		at->bytes -= bytes;
	tiny_lock_give(&r->lock);
}

static void add(const struct pool *p, uint64_t bytes, uintptr_t stream)
{
	struct reuse *r = reuse();
	struct place *at;

	if (!r)
		return;
	tiny_lock_take(&r->lock);
	at = find(r, p, stream);
	if (!at) {
		at = &r->place[r->next++ % PLACES];
		if (!at->pool)
			atomic_fetch_add(&reuse_places, 1);
		*at = (struct place){ .pool = p, .stream = stream };
	}
	/* two blocks need not lie side by side */
	at->bytes = size_max(at->bytes, bytes);
	tiny_lock_give(&r->lock);
}

void reuse_made(struct pool *p, CUdeviceptr at, uint64_t bytes, CUstream stream, bool per_thread)
{
	struct block *b, *dead;

	if (atomic_load_explicit(&reuse_places, memory_order_relaxed))
		subtract(p, bytes, key_of(stream, per_thread));
	if (bytes <= REUSE_MIN_BYTES)
		return;
	b = blocks_reserve();
	if (!b)
		return; /* not remembered: it may be refused once more than needed */
	b->kind = BLOCK_ASYNC;
	b->key = at;
	b->count = bytes;
	b->other = p;
	b->charge.slot = ACCOUNT_NOWHERE;
	atomic_fetch_add(&reuse_blocks, 1);
	dead = blocks_insert(b);
	if (dead)
		atomic_fetch_sub(&reuse_blocks, 1);
	blocks_discard(dead);
}

static struct block *take(CUdeviceptr at)
{
	struct block *b;

	if (!atomic_load_explicit(&reuse_blocks, memory_order_relaxed))
		return NULL;
	b = blocks_take(BLOCK_ASYNC, at);
	if (b)
		atomic_fetch_sub(&reuse_blocks, 1);
	return b;
}

void reuse_freed(CUdeviceptr at, CUstream stream, bool per_thread)
{
	struct block *b = take(at);

	if (b)
		add(b->other, b->count, key_of(stream, per_thread));
	blocks_discard(b);
}

void reuse_forget(CUdeviceptr at)
{
	blocks_discard(take(at));
}

/* @pool or @stream: the one that is gone; the other is NULL or 0 */
static void forget(const struct pool *pool, uintptr_t stream)
{
	struct reuse *r = reuse();

	if (!r || !atomic_load_explicit(&reuse_places, memory_order_relaxed))
		return;
	tiny_lock_take(&r->lock);
	for (unsigned i = 0; i < PLACES; i++)
		if (r->place[i].pool && (r->place[i].pool == pool || r->place[i].stream == stream))
			clear(&r->place[i]);
	tiny_lock_give(&r->lock);
}

void reuse_stream_gone(CUstream stream)
{
	forget(NULL, (uintptr_t)stream);
}

void reuse_pool_gone(const struct pool *p)
{
	forget(p, 0);
}

bool reuse_may_take(const struct pool *p, uint64_t bytes, CUstream stream, bool per_thread)
{
	struct reuse *r;
	struct place *at;
	bool may;

	if (!atomic_load_explicit(&reuse_places, memory_order_relaxed))
		return false;
	r = reuse();
	if (!r)
		return false;
	tiny_lock_take(&r->lock);
	at = find(r, p, key_of(stream, per_thread));
	may = at && at->bytes >= bytes;
	tiny_lock_give(&r->lock);
	return may;
}
