// SPDX-License-Identifier: Apache-2.0
#include "shim/elf_import.h"

#include <dlfcn.h>
#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
#define RELOC_JUMP_SLOT R_X86_64_JUMP_SLOT
#define RELOC_GLOB_DAT  R_X86_64_GLOB_DAT
#define RELOC_ABSOLUTE  R_X86_64_64
#elif defined(__aarch64__)
#define RELOC_JUMP_SLOT R_AARCH64_JUMP_SLOT
#define RELOC_GLOB_DAT  R_AARCH64_GLOB_DAT
#define RELOC_ABSOLUTE  R_AARCH64_ABS64
#else
#error "relocations: x86-64 and aarch64 only"
#endif

/* an object's relocations; pointers into its memory */
struct relocs {
	uintptr_t base;
	const ElfW(Sym) * symbols;
	const char *strings;
	const ElfW(Rela) * table[2]; /* data, and the PLT's */
	size_t bytes[2];
};

static const void *pointer_of(const struct link_map *map, const ElfW(Dyn) * entry)
{
	uintptr_t value = entry->d_un.d_ptr;

	return (const void *)(value < map->l_addr ? value + map->l_addr : value);
}

static bool relocs_of(const struct link_map *map, struct relocs *ret)
{
	*ret = (struct relocs){ .base = map->l_addr };
	if (!map->l_ld)
		return false;
	for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
		if (entry->d_tag == DT_SYMTAB)
			ret->symbols = pointer_of(map, entry);
		else if (entry->d_tag == DT_STRTAB)
			ret->strings = pointer_of(map, entry);
		else if (entry->d_tag == DT_RELA)
			ret->table[0] = pointer_of(map, entry);
		else if (entry->d_tag == DT_RELASZ)
			ret->bytes[0] = entry->d_un.d_val;
		else if (entry->d_tag == DT_JMPREL)
			ret->table[1] = pointer_of(map, entry);
		else if (entry->d_tag == DT_PLTRELSZ)
			ret->bytes[1] = entry->d_un.d_val;
	}
	return ret->symbols && ret->strings;
}

/* does @slot lie in what the linker made read-only? */
static bool is_relro(const struct link_map *map, uintptr_t slot)
{
	struct dl_find_object found;
	const ElfW(Ehdr) * header;
	const ElfW(Phdr) * at;

	if (_dl_find_object((void *)map->l_ld, &found) != 0)
		return false;
	header = found.dlfo_map_start;
	at = (const ElfW(Phdr) *)((const char *)header + header->e_phoff);
	for (unsigned i = 0; i < header->e_phnum; i++)
		if (at[i].p_type == PT_GNU_RELRO && slot - map->l_addr >= at[i].p_vaddr &&
		    slot - map->l_addr < at[i].p_vaddr + at[i].p_memsz)
			return true;
	return false;
}

static bool store(const struct link_map *map, uintptr_t slot, void *function)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

	if (__atomic_load_n((void **)slot, __ATOMIC_RELAXED) == function)
		return true;
	if (is_relro(map, slot) &&
	    mprotect((void *)(slot & ~(page - 1)), page, PROT_READ | PROT_WRITE) != 0)
		return false;
	__atomic_store_n((void **)slot, function, __ATOMIC_RELEASE);
	return true;
}

static bool is_import(const struct relocs *r, const ElfW(Rela) * reloc, const char *name)
{
	unsigned long type = ELF64_R_TYPE(reloc->r_info);
	const ElfW(Sym) *symbol = &r->symbols[ELF64_R_SYM(reloc->r_info)];

	if (type != RELOC_JUMP_SLOT && type != RELOC_GLOB_DAT &&
	    (type != RELOC_ABSOLUTE || reloc->r_addend != 0))
		return false;
	return symbol->st_shndx == SHN_UNDEF && strcmp(r->strings + symbol->st_name, name) == 0;
}

unsigned elf_import_replace(const struct link_map *map, const char *name, void *function)
{
	struct relocs r;
	unsigned n = 0;

	if (!relocs_of(map, &r))
		return 0;
	for (unsigned i = 0; i < 2; i++) {
		const ElfW(Rela) *at = r.table[i];

		for (size_t left = at ? r.bytes[i] / sizeof(*at) : 0; left; left--, at++)
			if (is_import(&r, at, name))
				n += store(map, r.base + at->r_offset, function);
	}
	return n;
}
