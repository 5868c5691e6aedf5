// SPDX-License-Identifier: Apache-2.0
#include "abi/cuda_names.h"

#include <stddef.h>
#include <string.h>

const struct cuda_symbol cuda_symbols[CU_SYM_COUNT] = {
#define CU_PASS(symbol, api, since, stream) { #symbol, #api, since, CUDA_STREAM_##stream },
#include "abi/cuda.def"
};

#define CU_PASS(symbol, api, since, stream) \
	_Static_assert(sizeof(#symbol) <= CUDA_NAME_MAX && sizeof(#api) <= CUDA_NAME_MAX, #symbol);
#include "abi/cuda.def"

/* '_' before every letter and digit: the variants of an API directly follow it */
static unsigned int rank(char c)
{
	return c == '_' ? 1u : (unsigned char)c;
}

static int compare(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return (int)rank(*a) - (int)rank(*b);
}

/* the first slot whose name is not before @name; CU_SYM_COUNT if there is none */
static int lower_bound(const char *name)
{
	int low = 0, high = CU_SYM_COUNT;

	while (low < high) {
		int middle = low + (high - low) / 2;

		if (compare(cuda_symbols[middle].name, name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

int cuda_symbol_find(const char *name)
{
	int slot = lower_bound(name);

	return slot < CU_SYM_COUNT && !strcmp(cuda_symbols[slot].name, name) ? slot : -1;
}

int cuda_symbol_for(const char *api, int version, enum cuda_stream_kind stream)
{
	int best = -1;

	for (int slot = lower_bound(api);
	     slot < CU_SYM_COUNT && !strcmp(cuda_symbols[slot].api, api); slot++) {
		const struct cuda_symbol *symbol = &cuda_symbols[slot];

		if (!symbol->since || symbol->since > version || symbol->stream > stream)
			continue;
		/* at equal versions the later line is the newer variant */
		if (best < 0 || symbol->stream > cuda_symbols[best].stream ||
		    (symbol->stream == cuda_symbols[best].stream &&
		     symbol->since >= cuda_symbols[best].since))
			best = slot;
	}
	return best;
}

bool cuda_api_is_known(const char *api)
{
	int slot = lower_bound(api);

	return slot < CU_SYM_COUNT && !strcmp(cuda_symbols[slot].api, api);
}

const char *cuda_result_name(CUresult result)
{
	switch (result) {
#define CU_RESULT(name, number) \
	case name:              \
		return #name;
#include "abi/cuda_result.def"
	}
	return NULL;
}
