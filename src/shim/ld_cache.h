// SPDX-License-Identifier: Apache-2.0
#ifndef SHIM_LD_CACHE_H
#define SHIM_LD_CACHE_H

/*
 * /etc/ld.so.cache, read. The form that glibc writes since 2.2 ("glibc-ld.so.cache1.1"), alone or
 * behind the older one; entries for this machine's 64-bit ABI only; plain entries and those of
 * glibc-hwcaps folders. The bytes are not trusted: every offset is checked against the length,
 * every string must end inside, and work is linear in it. Pure; any thread; no heap.
 */

#include <stddef.h>

/**
 * ld_cache_find - the file the cache has for @soname
 * @hwcaps:   names of glibc-hwcaps folders usable here, best first, NULL-terminated; may be NULL
 * @skip:     how many matches to pass over: 0 the best one, 1 the next, …
 * @ret_path: points into @buf, ends inside it
 *
 * Returns 0; -ENOENT no (further) match; -EINVAL not a cache, or damaged.
 */
int ld_cache_find(const void *buf, size_t len, const char *soname, const char *const *hwcaps,
		  unsigned skip, const char **ret_path);

#endif
