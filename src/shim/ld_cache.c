// SPDX-License-Identifier: Apache-2.0
#include "shim/ld_cache.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/*
 * The file, as glibc's elf/cache.c and dl-cache.h of 2.36 describe it; native byte order.
 * Old form: "ld.so-1.7.0", padding, uint32 n, n entries of 12 bytes; then, aligned to 8, the new:
 * "glibc-ld.so.cache1.1", uint32 n, uint32 length of strings, uint8 flags, 3 bytes, uint32 offset
 * of the extensions, 12 bytes; n entries of 24 bytes; strings. Offsets count from the new header.
 * Extensions: uint32 magic, uint32 n, n of {uint32 tag, flags, offset, size}; tag 1 lists the names
 * of the hwcaps folders, uint32 offsets to strings, that entries refer to by index.
 */
#define OLD_MAGIC        "ld.so-1.7.0"
#define OLD_HEADER_BYTES 16
#define OLD_ENTRY_BYTES  12
#define NEW_MAGIC        "glibc-ld.so.cache1.1"
#define NEW_HEADER_BYTES 48
#define NEW_ENTRY_BYTES  24
#define EXT_MAGIC        0xeaa42174u
#define EXT_TAG_HWCAPS   1

/* entry flags: library for libc6, 64-bit ABI of this machine */
#if defined(__x86_64__)
#define ENTRY_FLAGS 0x0303
#elif defined(__aarch64__)
#define ENTRY_FLAGS 0x0a03
#else
#error "ld.so.cache: flags of this machine's libraries"
#endif

/*
 * entry hwcap: with bit 62 alone in the upper half, but for ten bits of processor level that only
 * repeat what the folder's name says, the lower half is an index
 */
#define HWCAP_EXTENSION ((uint64_t)1 << 62)
#define HWCAP_LEVEL     ((uint64_t)0x3ff << 32)
#define HWCAP_INDEX     ((uint64_t)0xffffffff)

struct cache {
	const unsigned char *at; /* the new header */
	size_t len;              /* from there to the end */
	uint32_t n_entries;
	uint32_t n_hwcaps;
	size_t hwcaps_at; /* offset of the n_hwcaps string offsets */
};

struct entry {
	int32_t flags;
	uint32_t key, value, osversion;
	uint64_t hwcap;
};

_Static_assert(sizeof(struct entry) == NEW_ENTRY_BYTES, "layout of a cache entry");

static uint32_t word(const struct cache *cache, size_t offset)
{
	uint32_t value;

	memcpy(&value, cache->at + offset, sizeof(value));
	return value;
}

/* The string at @offset, or NULL when it does not end within the cache. */
static const char *string(const struct cache *cache, uint32_t offset)
{
	if (offset >= cache->len || !memchr(cache->at + offset, '\0', cache->len - offset))
		return NULL;
	return (const char *)cache->at + offset;
}

static bool begins_with(const struct cache *cache, const char *magic, size_t header_bytes)
{
	return cache->len >= header_bytes && memcmp(cache->at, magic, strlen(magic)) == 0;
}

static int skip_old(struct cache *cache)
{
	size_t skip;

	if (!begins_with(cache, OLD_MAGIC, OLD_HEADER_BYTES))
		return 0;
	skip = OLD_HEADER_BYTES + (size_t)word(cache, 12) * OLD_ENTRY_BYTES;
	skip = (skip + 7) & ~(size_t)7;
	if (skip > cache->len)
		return -EINVAL;
	cache->at += skip;
	cache->len -= skip;
	return 0;
}

/* Note where the hwcaps names are; a cache without them, or with a damaged list, has none. */
static void find_hwcaps(struct cache *cache)
{
	size_t at = word(cache, 32);
	uint32_t n;

	if (at == 0 || at % 4 != 0 || at > cache->len || cache->len - at < 8 ||
	    word(cache, at) != EXT_MAGIC)
		return;
	n = word(cache, at + 4);
	at += 8;
	for (; n > 0 && cache->len - at >= 16; n--, at += 16) {
		size_t offset = word(cache, at + 8), size = word(cache, at + 12);

		if (word(cache, at) != EXT_TAG_HWCAPS)
			continue;
		if (offset > cache->len || size > cache->len - offset)
			return;
		cache->hwcaps_at = offset;
		cache->n_hwcaps = (uint32_t)(size / 4);
		return;
	}
}

static int cache_open(struct cache *cache, const void *buf, size_t len)
{
	*cache = (struct cache){ .at = buf, .len = len };
	if (skip_old(cache) < 0 || !begins_with(cache, NEW_MAGIC, NEW_HEADER_BYTES))
		return -EINVAL;
	if ((cache->at[28] & 3) == 1 ||
	    (cache->at[28] & 3) == 3) /* broken, or the other byte order */
		return -EINVAL;
	cache->n_entries = word(cache, 20);
	if (cache->n_entries > (cache->len - NEW_HEADER_BYTES) / NEW_ENTRY_BYTES)
		return -EINVAL;
	find_hwcaps(cache);
	return 0;
}

/* How early an entry comes: 0 … for the hwcaps in their order, then the plain ones; -1 not at all.
 */
static int rank(const struct cache *cache, uint64_t hwcap, const char *const *hwcaps)
{
	const char *name;
	int n = 0;

	while (hwcaps && hwcaps[n])
		n++;
	if (hwcap == 0)
		return n;
	if ((hwcap & ~(HWCAP_INDEX | HWCAP_LEVEL)) != HWCAP_EXTENSION ||
	    (hwcap & HWCAP_INDEX) >= cache->n_hwcaps)
		return -1;
	name = string(cache, word(cache, cache->hwcaps_at + (size_t)(hwcap & HWCAP_INDEX) * 4));
	for (int i = 0; name && i < n; i++) {
		if (strcmp(hwcaps[i], name) == 0)
			return i;
	}
	return -1;
}

int ld_cache_find(const void *buf, size_t len, const char *soname, const char *const *hwcaps,
		  unsigned skip, const char **ret_path)
{
	struct cache cache;
	int n_ranks = 1;

	if (cache_open(&cache, buf, len) < 0)
		return -EINVAL;
	while (hwcaps && hwcaps[n_ranks - 1])
		n_ranks++;
	for (int wanted = 0; wanted < n_ranks; wanted++) {
		for (uint32_t i = 0; i < cache.n_entries; i++) {
			const char *key, *value;
			struct entry entry;

			memcpy(&entry, cache.at + NEW_HEADER_BYTES + (size_t)i * NEW_ENTRY_BYTES,
			       sizeof(entry));
			if (entry.flags != ENTRY_FLAGS)
				continue;
			key = string(&cache, entry.key);
			if (!key || strcmp(key, soname) != 0 ||
			    rank(&cache, entry.hwcap, hwcaps) != wanted)
				continue;
			value = string(&cache, entry.value);
			if (value && skip-- == 0) {
				*ret_path = value;
				return 0;
			}
		}
	}
	return -ENOENT;
}
