// SPDX-License-Identifier: Apache-2.0
#include "shim/elf_find.h"

#include <dlfcn.h>
#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* an object's dynamic symbols; pointers into its memory, NULL where it has no such table */
struct symbols {
	uintptr_t base;
	const ElfW(Sym) * table;
	const char *strings;
	const uint16_t *versions;
	const uint32_t *gnu_hash;
	const uint32_t *sysv_hash;
};

/* The linker relocates these pointers in place, except in objects that it must not write (vdso). */
static const void *pointer_of(const struct link_map *map, const ElfW(Dyn) * entry)
{
	uintptr_t value = entry->d_un.d_ptr;

	return (const void *)(value < map->l_addr ? value + map->l_addr : value);
}

static bool symbols_of(const struct link_map *map, struct symbols *ret)
{
	*ret = (struct symbols){ .base = map->l_addr };
	if (!map->l_ld)
		return false;
	for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
		if (entry->d_tag == DT_SYMTAB)
			ret->table = pointer_of(map, entry);
		else if (entry->d_tag == DT_STRTAB)
			ret->strings = pointer_of(map, entry);
		else if (entry->d_tag == DT_VERSYM)
			ret->versions = pointer_of(map, entry);
		else if (entry->d_tag == DT_GNU_HASH)
			ret->gnu_hash = pointer_of(map, entry);
		else if (entry->d_tag == DT_HASH)
			ret->sysv_hash = pointer_of(map, entry);
	}
	return ret->table && ret->strings && (ret->gnu_hash || ret->sysv_hash);
}

/* The symbol's address if it is @name, defined here, callable, and the default version. */
static void *match(const struct symbols *symbols, uint32_t index, const char *name)
{
	const ElfW(Sym) *sym = &symbols->table[index];
	unsigned type = ELF64_ST_TYPE(sym->st_info);

	if (sym->st_shndx == SHN_UNDEF || ELF64_ST_BIND(sym->st_info) == STB_LOCAL)
		return NULL;
	if (type != STT_FUNC && type != STT_OBJECT && type != STT_NOTYPE)
		return NULL;
	if (symbols->versions && (symbols->versions[index] & 0x8000)) /* a hidden, older version */
		return NULL;
	if (strcmp(symbols->strings + sym->st_name, name) != 0)
		return NULL;
	return (void *)(symbols->base + sym->st_value);
}

static void *find_gnu(const struct symbols *symbols, const char *name)
{
	const uint32_t *head = symbols->gnu_hash;
	uint32_t n_buckets = head[0], first = head[1], n_bloom = head[2], shift = head[3];
	const uint64_t *bloom = (const uint64_t *)(head + 4);
	const uint32_t *buckets = (const uint32_t *)(bloom + n_bloom);
	const uint32_t *chain = buckets + n_buckets;
	uint32_t hash = 5381, index;
	uint64_t word;

	for (const unsigned char *c = (const unsigned char *)name; *c; c++)
		hash = hash * 33 + *c;
	if (n_buckets == 0 || n_bloom == 0)
		return NULL;
	word = bloom[(hash / 64) & (n_bloom - 1)];
	if (!(word >> (hash % 64) & 1) || !(word >> ((hash >> shift) % 64) & 1))
		return NULL;
	index = buckets[hash % n_buckets];
	if (index < first)
		return NULL;
	for (;; index++) {
		uint32_t here = chain[index - first];
		void *found = (here | 1) == (hash | 1) ? match(symbols, index, name) : NULL;

		if (found || (here & 1))
			return found;
	}
}

static void *find_sysv(const struct symbols *symbols, const char *name)
{
	const uint32_t *head = symbols->sysv_hash;
	uint32_t n_buckets = head[0], n_chain = head[1], hash = 0;
	const uint32_t *buckets = head + 2, *chain = buckets + n_buckets;

	for (const unsigned char *c = (const unsigned char *)name; *c; c++) {
		hash = (hash << 4) + *c;
		hash = (hash ^ (hash >> 24 & 0xf0)) & 0x0fffffff;
	}
	if (n_buckets == 0)
		return NULL;
	for (uint32_t i = buckets[hash % n_buckets], n = 0; i != 0 && n < n_chain;
	     i = chain[i], n++) {
		void *found = match(symbols, i, name);

		if (found)
			return found;
	}
	return NULL;
}

void *elf_find(const struct link_map *map, const char *name)
{
	struct symbols symbols;

	if (!symbols_of(map, &symbols))
		return NULL;
	return symbols.gnu_hash ? find_gnu(&symbols, name) : find_sysv(&symbols, name);
}

struct link_map *elf_map_of(const void *addr)
{
	struct dl_find_object found;

	return _dl_find_object((void *)addr, &found) == 0 ? found.dlfo_link_map : NULL;
}

void *elf_next(const char *name)
{
	const struct link_map *self = elf_map_of((const void *)elf_next), *map;
	void *found = NULL;

	if (!self)
		return NULL;
	for (map = self->l_next; map && !found; map = map->l_next)
		found = elf_find(map, name);
	if (found)
		return found;
	/* we were not there from the start, so libc stands before us */
	for (map = self; map->l_prev; map = map->l_prev)
		;
	for (; map && map != self && !found; map = map->l_next)
		found = elf_find(map, name);
	return found;
}
