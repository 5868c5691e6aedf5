// SPDX-License-Identifier: Apache-2.0
#include "abi/nvml_names.h"

const char nvml_names[NVML_SYM_COUNT][NVML_NAME_MAX] = {
#define NVML_PASS(symbol) [NVML_SYM_##symbol] = #symbol,
#include "abi/nvml.def"
};

const bool nvml_sets[NVML_SYM_COUNT] = {
#define NVML_SET(symbol) [NVML_SYM_##symbol] = true,
#include "abi/nvml.def"
};

#define NVML_PASS(symbol) _Static_assert(sizeof(#symbol) <= NVML_NAME_MAX, #symbol);
#include "abi/nvml.def"

static int rank(char c)
{
	return c == '_' ? 1 : (unsigned char)c;
}

/* The table's order: '_' before every letter and digit. */
static int compare(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return rank(*a) - rank(*b);
}

int nvml_symbol_find(const char *name)
{
	int lo = 0, hi = NVML_SYM_COUNT - 1;

	while (lo <= hi) {
		int mid = lo + (hi - lo) / 2;
		int c = compare(name, nvml_names[mid]);

		if (c == 0)
			return mid;
		if (c < 0)
			hi = mid - 1;
		else
			lo = mid + 1;
	}
	return -1;
}

const char *nvml_result_name(nvmlReturn_t result)
{
	switch ((int)result) {
#define NVML_RESULT(name, number, text) \
	case number:                    \
		return #name;
#include "abi/nvml_result.def"
	default:
		return "?";
	}
}

const char *nvml_result_text(nvmlReturn_t result)
{
	switch ((int)result) {
#define NVML_RESULT(name, number, text) \
	case number:                    \
		return text;
#include "abi/nvml_result.def"
	default:
		return "Unknown Error";
	}
}
