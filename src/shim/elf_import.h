// SPDX-License-Identifier: Apache-2.0
#ifndef SHIM_ELF_IMPORT_H
#define SHIM_ELF_IMPORT_H

/*
 * Give one loaded object another function for a name that it imports.
 *
 * Only that object's own calls change: the slots that the linker fills for it (in its PLT's table,
 * in its GOT, in its tables of pointers) are found by its own relocations and stored to by one
 * atomic store each, so that a thread that calls meanwhile gets the old function or the new one.
 * A slot that the linker made read-only after relocation (RELRO) has its page made writable, and
 * left so: two threads may do this at once, and the one must not shut the page on the other.
 *
 * Takes no lock, allocates nothing.  The object must not be unloaded meanwhile.
 */

#include <link.h>

/**
 * elf_import_replace - @map's calls of the imported function @name go to @function from now on
 *
 * Returns how many slots there were: 0 when the object does not import that name.
 */
unsigned elf_import_replace(const struct link_map *map, const char *name, void *function);

#endif
