// SPDX-License-Identifier: Apache-2.0
#include "shim/blocks.h"

#include <pthread.h>
#include <string.h>

#include "shim/wiped.h"

#define BUCKETS    (1u << 16)
#define STRIPES    64u
#define HOMES      16u
#define SLAB_BYTES ((size_t)256 << 10)

_Static_assert(sizeof(struct block) == 64, "one cache line a record");

struct stripe {
	_Alignas(64) pthread_mutex_t lock;
};

/* a source of records; a record goes back to where it came from */
struct home {
	_Alignas(64) pthread_mutex_t lock;
	struct block *unused;
	struct block *fresh, *fresh_end; /* the untouched part of the newest slab */
};

struct table {
	struct stripe stripe[STRIPES];
	struct home home[HOMES];
	struct block *bucket[BUCKETS];
};

static void *_Atomic table_memory;

static struct table *table(void)
{
	return wiped_once(&table_memory, sizeof(struct table));
}

/* threads spread over the homes by where their thread-local storage lies */
static struct home *home_of_thread(struct table *t, uint32_t *ret_index)
{
	static _Thread_local char here __attribute__((tls_model("initial-exec")));
	uint32_t index = (uint32_t)((((uintptr_t)&here >> 6) * 0x9e3779b97f4a7c15u) >> 60);

	*ret_index = index % HOMES;
	return &t->home[*ret_index];
}

struct block *blocks_reserve(void)
{
	struct table *t = table();
	struct block *b = NULL;
	struct home *h;
	uint32_t index;

	if (!t)
		return NULL;
	h = home_of_thread(t, &index);
	pthread_mutex_lock(&h->lock);
	if (h->unused) {
		b = h->unused;
		h->unused = b->next;
	} else {
		if (h->fresh == h->fresh_end) {
			h->fresh = wiped_map(SLAB_BYTES);
			h->fresh_end = h->fresh ? h->fresh + SLAB_BYTES / sizeof(*b) : NULL;
		}
		if (h->fresh)
			b = h->fresh++;
	}
	pthread_mutex_unlock(&h->lock);
	if (b)
		*b = (struct block){ .home = index, .charge = CHARGE_NONE };
	return b;
}

void blocks_discard(struct block *b)
{
	struct table *t = table();
	struct home *h;

	if (!b || !t)
		return;
	h = &t->home[b->home];
	b->kind = BLOCK_FREE;
	pthread_mutex_lock(&h->lock);
	b->next = h->unused;
	h->unused = b;
	pthread_mutex_unlock(&h->lock);
}

static uint32_t bucket_of(uint32_t kind, uint64_t key)
{
	return (uint32_t)(((key ^ ((uint64_t)kind << 56)) * 0x9e3779b97f4a7c15u) >> 48) % BUCKETS;
}

static pthread_mutex_t *lock_of(struct table *t, uint32_t bucket)
{
	return &t->stripe[bucket % STRIPES].lock;
}

/* the place that points to the record; the bucket's lock is held */
static struct block **find(struct table *t, uint32_t bucket, uint32_t kind, uint64_t key)
{
	struct block **at = &t->bucket[bucket];

	while (*at && ((*at)->key != key || (*at)->kind != kind))
		at = &(*at)->next;
	return at;
}

struct block *blocks_insert(struct block *b)
{
	struct table *t = table();
	uint32_t bucket = bucket_of(b->kind, b->key);
	struct block **at, *dead;

	pthread_mutex_lock(lock_of(t, bucket));
	at = find(t, bucket, b->kind, b->key);
	dead = *at;
	if (dead)
		*at = dead->next;
	b->next = t->bucket[bucket];
	t->bucket[bucket] = b;
	pthread_mutex_unlock(lock_of(t, bucket));
	if (dead)
		dead->next = NULL;
	return dead;
}

struct block *blocks_take(uint32_t kind, uint64_t key)
{
	struct table *t = table();
	uint32_t bucket = bucket_of(kind, key);
	struct block **at, *b;

	if (!t)
		return NULL;
	pthread_mutex_lock(lock_of(t, bucket));
	at = find(t, bucket, kind, key);
	b = *at;
	if (b)
		*at = b->next;
	pthread_mutex_unlock(lock_of(t, bucket));
	if (b)
		b->next = NULL;
	return b;
}

bool blocks_visit(uint32_t kind, uint64_t key, void (*visit)(struct block *b, void *arg), void *arg)
{
	struct table *t = table();
	uint32_t bucket = bucket_of(kind, key);
	struct block *b;

	if (!t)
		return false;
	pthread_mutex_lock(lock_of(t, bucket));
	b = *find(t, bucket, kind, key);
	if (b)
		visit(b, arg);
	pthread_mutex_unlock(lock_of(t, bucket));
	return b;
}

/* the buckets under one lock: first, first + STRIPES, … */
static struct block *take_of_stripe(struct table *t, uint32_t first, void *ctx, struct block *taken)
{
	for (uint32_t i = first; i < BUCKETS; i += STRIPES) {
		struct block **at = &t->bucket[i], *b;

		while ((b = *at)) {
			if (b->ctx != ctx) {
				at = &b->next;
				continue;
			}
			*at = b->next;
			b->next = taken;
			taken = b;
		}
	}
	return taken;
}

struct block *blocks_take_context(void *ctx)
{
	struct table *t = table();
	struct block *taken = NULL;

	for (uint32_t s = 0; t && ctx && s < STRIPES; s++) {
		pthread_mutex_lock(&t->stripe[s].lock);
		taken = take_of_stripe(t, s, ctx, taken);
		pthread_mutex_unlock(&t->stripe[s].lock);
	}
	return taken;
}

static bool find_in_stripe(struct table *t, uint32_t first, uint32_t kind,
			   bool (*matches)(struct block *b, void *arg), void *arg)
{
	for (uint32_t i = first; i < BUCKETS; i += STRIPES)
		for (struct block *b = t->bucket[i]; b; b = b->next)
			if (b->kind == kind && matches(b, arg))
				return true;
	return false;
}

bool blocks_find(uint32_t kind, bool (*matches)(struct block *b, void *arg), void *arg)
{
	struct table *t = table();
	bool found = false;

	for (uint32_t s = 0; t && s < STRIPES && !found; s++) {
		pthread_mutex_lock(&t->stripe[s].lock);
		found = find_in_stripe(t, s, kind, matches, arg);
		pthread_mutex_unlock(&t->stripe[s].lock);
	}
	return found;
}
