// SPDX-License-Identifier: Apache-2.0
#include "shim/redirect.h"

#include <stdatomic.h>
#include <stddef.h>

#include "shim/elf_find.h"

static const char *const redirect_names[REDIRECT_COUNT] = {
#define LIBC_REDIRECT(name) [REDIRECT_##name] = #name,
#include "shim/libc.def"
};

/* found once; every thread finds the same */
static void *_Atomic next[REDIRECT_COUNT];

void *redirect_next(enum redirect_name name)
{
	void *found = atomic_load_explicit(&next[name], memory_order_relaxed);

	if (!found) {
		found = elf_next(redirect_names[name]);
		atomic_store_explicit(&next[name], found, memory_order_relaxed);
	}
	return found;
}
