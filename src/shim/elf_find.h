// SPDX-License-Identifier: Apache-2.0
#ifndef SHIM_ELF_FIND_H
#define SHIM_ELF_FIND_H

/*
 * Symbols of objects that the dynamic linker has loaded, read from their own tables.
 *
 * Why not dlsym: it takes the linker's lock, which in a child of fork may be held for ever by a
 * thread that is not there, and it leaves an error text behind for the host's next dlerror().
 * These functions take no lock, allocate nothing, and are safe in a signal handler and after
 * vfork. What they look at is never unloaded while they do: objects loaded at the program's start,
 * and the driver that we ourselves hold open.
 */

#include <link.h>
#include <stddef.h>

/** elf_map_of - the link map of the object that contains @addr, or NULL */
struct link_map *elf_map_of(const void *addr);

/**
 * elf_find - the address of the function or object @name that @map itself exports, or NULL
 *
 * The default version where there are several. An indirect function is not called: NULL.
 */
void *elf_find(const struct link_map *map, const char *name);

/** elf_next - as dlsym(RTLD_NEXT, @name) called by our library; NULL when nobody has it */
void *elf_next(const char *name);

#endif
