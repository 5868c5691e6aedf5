// SPDX-License-Identifier: Apache-2.0
#include "shim/blocks.h"
#include "base/cleanup.h"

#include <string.h>

#include "shim/tiny_lock.h"
#include "shim/wiped.h"

#define LINES      (1u << 14)
#define CHAINS     7u
#define HOMES      16u
#define SLAB_BYTES ((size_t)256 << 10)

_Static_assert(sizeof(struct block) == 64, "one cache line a record");

/* a cache line: some chains and their lock, so that finding a record misses the cache once */
struct line {
	_Alignas(64) struct tiny_lock lock;
	struct block *chain[CHAINS];
};
_Static_assert(sizeof(struct line) == 64, "one cache line");

/* a source of records; a record goes back to where it came from */
struct home {
	_Alignas(64) struct tiny_lock lock;
	struct block *unused;
	struct block *fresh, *fresh_end; /* the untouched part of the newest slab */
};

struct table {
	struct line line[LINES];
	struct home home[HOMES];
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

HOT struct block *blocks_reserve(void)
{
	struct table *t = table();
	struct block *b = NULL;
	struct home *h;
	uint32_t index;

	if (!t)
		return NULL;
	h = home_of_thread(t, &index);
	tiny_lock_take(&h->lock);
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
	tiny_lock_give(&h->lock);
	if (b)
		*b = (struct block){ .home = index, .charge = CHARGE_NONE };
	return b;
}

HOT void blocks_discard(struct block *b)
{
	struct table *t = table();
	struct home *h;

	if (!b || !t)
		return;
	h = &t->home[b->home];
	b->kind = BLOCK_FREE;
	tiny_lock_take(&h->lock);
	b->next = h->unused;
	h->unused = b;
	tiny_lock_give(&h->lock);
}

struct place {
	struct line *line;
	struct block **chain;
};

static struct place place_of(struct table *t, uint32_t kind, uint64_t key)
{
	uint64_t hash = (key ^ ((uint64_t)kind << 56)) * 0x9e3779b97f4a7c15u;
	struct line *line = &t->line[(hash >> 48) % LINES];

	return (struct place){ .line = line, .chain = &line->chain[(hash >> 32) % CHAINS] };
}

/* what points to the record in a chain; the line's lock is held */
static struct block **find(struct block **at, uint32_t kind, uint64_t key)
{
	while (*at && ((*at)->key != key || (*at)->kind != kind))
		at = &(*at)->next;
	return at;
}

HOT struct block *blocks_insert(struct block *b)
{
	struct place p = place_of(table(), b->kind, b->key);
	struct block **at, *dead;

	tiny_lock_take(&p.line->lock);
	at = find(p.chain, b->kind, b->key);
	dead = *at;
	if (dead)
		*at = dead->next;
	b->next = *p.chain;
	*p.chain = b;
	tiny_lock_give(&p.line->lock);
	if (dead)
		dead->next = NULL;
	return dead;
}

HOT struct block *blocks_take(uint32_t kind, uint64_t key)
{
	struct table *t = table();
	struct block **at, *b;
	struct place p;

	if (!t)
		return NULL;
	p = place_of(t, kind, key);
	tiny_lock_take(&p.line->lock);
	at = find(p.chain, kind, key);
	b = *at;
	if (b)
		*at = b->next;
	tiny_lock_give(&p.line->lock);
	if (b)
		b->next = NULL;
	return b;
}

HOT bool blocks_visit(uint32_t kind, uint64_t key, void (*visit)(struct block *b, void *arg),
		      void *arg)
{
	struct table *t = table();
	struct block *b;
	struct place p;

	if (!t)
		return false;
	p = place_of(t, kind, key);
	tiny_lock_take(&p.line->lock);
	b = *find(p.chain, kind, key);
	if (b)
		visit(b, arg);
	tiny_lock_give(&p.line->lock);
	return b;
}

static struct block *take_of_chain(struct block **at, void *ctx, struct block *taken)
{
	struct block *b;

	while ((b = *at)) {
		if (b->ctx != ctx) {
			at = &b->next;
			continue;
		}
		*at = b->next;
		b->next = taken;
		taken = b;
	}
	return taken;
}

struct block *blocks_take_context(void *ctx)
{
	struct table *t = table();
	struct block *taken = NULL;

	for (struct line *l = t ? t->line : NULL; l && ctx && l < t->line + LINES; l++) {
		tiny_lock_take(&l->lock);
		for (unsigned i = 0; i < CHAINS; i++)
			taken = take_of_chain(&l->chain[i], ctx, taken);
		tiny_lock_give(&l->lock);
	}
	return taken;
}

static bool find_in_line(struct line *l, uint32_t kind, bool (*matches)(struct block *b, void *arg),
			 void *arg)
{
	for (unsigned i = 0; i < CHAINS; i++)
		for (struct block *b = l->chain[i]; b; b = b->next)
			if (b->kind == kind && matches(b, arg))
				return true;
	return false;
}

bool blocks_find(uint32_t kind, bool (*matches)(struct block *b, void *arg), void *arg)
{
	struct table *t = table();
	bool found = false;

	for (struct line *l = t ? t->line : NULL; l && !found && l < t->line + LINES; l++) {
		tiny_lock_take(&l->lock);
		found = find_in_line(l, kind, matches, arg);
		tiny_lock_give(&l->lock);
	}
	return found;
}
