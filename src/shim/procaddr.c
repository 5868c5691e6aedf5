// SPDX-License-Identifier: Apache-2.0
#include "shim/procaddr.h"

#include <ctype.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "abi/cuda_names.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "shim/elf_find.h"
#include "shim/entry.h"
#include "shim/hooks.h"
#include "shim/real.h"
#include "shim/say.h"

/* at most half full: a power of two, twice the number of symbols or more */
#define INDEX_SIZE 2048
_Static_assert(CU_SYM_COUNT * 2 <= INDEX_SIZE, "the address index is too small for the table");

/* open addressing; a place holds slot + 1; several places may hold slots of one address */
struct index {
	uint16_t place[INDEX_SIZE];
	void *hook[CU_SYM_COUNT]; /* our export for a slot, NULL where we only pass on */
};

static struct index *_Atomic procaddr_index;

/* slots and exports of what we hook; a hook without its function does not link */
static const struct hook {
	unsigned slot;
	void *function;
} hooks[] = {
#define CU_HOOK(sym, api, since, stream, params) { CU_SYM_##sym, (void *)sym },
#define CU_CALL(sym, api, since, stream, params)
#include "abi/cuda.def"
};

static unsigned first_place(const void *address)
{
	uint64_t hash = (uint64_t)(uintptr_t)address * 0x9e3779b97f4a7c15u;

	return (unsigned)(hash >> 53);
}

void procaddr_loaded(void)
{
	struct index *none = NULL, *mine = calloc(1, sizeof(*mine));

	/* out of memory: nothing is substituted and, below, nothing handed out that we hook */
	if (!mine)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(hooks); i++)
		mine->hook[hooks[i].slot] = hooks[i].function;
	for (unsigned slot = 0; slot < CU_SYM_COUNT; slot++) {
		unsigned at = first_place(entry_real[slot]);

		if (entry_real[slot] == entry_lib.missing)
			continue;
		while (mine->place[at])
			at = (at + 1) % INDEX_SIZE;
		mine->place[at] = (uint16_t)(slot + 1);
	}
	if (!atomic_compare_exchange_strong(&procaddr_index, &none, mine))
		free(mine);
}

/* How well a slot fits what was asked, for the choice among symbols with one address. */
static int fit(const struct index *index, int slot, const char *api, enum cuda_stream_kind stream)
{
	const struct cuda_symbol *symbol = &cuda_symbols[slot];

	return (strcmp(symbol->api, api) == 0 ? 4 : 0) + (index->hook[slot] ? 2 : 0) +
	       (symbol->stream == stream ? 1 : 0);
}

/* The slot whose function lies at @address, or -1. */
static int slot_at(const struct index *index, const void *address, const char *api,
		   enum cuda_stream_kind stream)
{
	int best = -1;

	for (unsigned at = first_place(address); index && index->place[at];
	     at = (at + 1) % INDEX_SIZE) {
		int slot = index->place[at] - 1;

		if (entry_real[slot] == address &&
		    (best < 0 || fit(index, slot, api, stream) > fit(index, best, api, stream)))
			best = slot;
	}
	return best;
}

/* Is @name, or @name without a trailing _v<digits> and stream suffix, an API of which we hook? */
static bool is_hooked_api(const char *name)
{
	char api[64], *end;

	if (!str_copy(api, sizeof(api), name))
		return false;
	end = api + strlen(api);
	if (end - api > 5 && (strcmp(end - 5, "_ptsz") == 0 || strcmp(end - 5, "_ptds") == 0))
		*(end -= 5) = '\0';
	while (end > api && isdigit((unsigned char)end[-1]))
		end--;
	if (*end && end - api > 2 && end[-1] == 'v' && end[-2] == '_')
		end[-2] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(hooks); i++) {
		if (strcmp(cuda_symbols[hooks[i].slot].api, api) == 0)
			return true;
	}
	return false;
}

/* The driver said yes and wrote *pfn: the same, ours in its place, or no. */
static CUresult substitute(const char *name, void **pfn, cuuint64_t flags, bool ptsz,
			   CUdriverProcAddressQueryResult *status)
{
	bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) ||
			  (ptsz && !(flags & CU_GET_PROC_ADDRESS_LEGACY_STREAM));
	const struct index *index = atomic_load_explicit(&procaddr_index, memory_order_acquire);
	int slot;

	if (!*pfn)
		return CUDA_SUCCESS;
	if (!index) {
		/* the driver is open, so this ends at once: another thread was about to publish it
		 */
		(void)entry_load();
		index = atomic_load_explicit(&procaddr_index, memory_order_acquire);
	}
	slot = slot_at(index, *pfn, name, per_thread ? CUDA_STREAM_PER_THREAD : CUDA_STREAM_LEGACY);
	if (slot >= 0) {
		if (index->hook[slot])
			*pfn = index->hook[slot];
		return CUDA_SUCCESS;
	}
	/* a driver that is not linked -Bsymbolic answers with our exports by itself */
	if (!is_hooked_api(name) || elf_map_of(*pfn) == elf_map_of(&procaddr_index)) {
		say_debug("%s is not in allot's table: passed on", name);
		return CUDA_SUCCESS;
	}
	*pfn = NULL;
	if (status)
		*status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
	say_refusal("this driver has a newer form of %s than allot can account for: not handed out",
		    name);
	return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
	CUresult result;

	result = real_cuGetProcAddress(symbol, pfn, cudaVersion, flags);
	if (result != CUDA_SUCCESS || !symbol || !pfn)
		return result;
	return substitute(symbol, pfn, flags, false, NULL);
}

CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
			     CUdriverProcAddressQueryResult *symbolStatus)
{
	CUresult result;

	result = real_cuGetProcAddress_v2(symbol, pfn, cudaVersion, flags, symbolStatus);
	if (result != CUDA_SUCCESS || !symbol || !pfn)
		return result;
	return substitute(symbol, pfn, flags, false, symbolStatus);
}

CUresult cuGetProcAddress_v2_ptsz(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
				  CUdriverProcAddressQueryResult *symbolStatus)
{
	CUresult result;

	result = real_cuGetProcAddress_v2_ptsz(symbol, pfn, cudaVersion, flags, symbolStatus);
	if (result != CUDA_SUCCESS || !symbol || !pfn)
		return result;
	return substitute(symbol, pfn, flags, true, symbolStatus);
}
