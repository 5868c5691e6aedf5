// SPDX-License-Identifier: Apache-2.0
/*
 * A body for every symbol of the table that has none of its own.  Weak, so that a real one wins.
 * The prototypes are not those of the table: nothing here looks at an argument.
 */
#include "abi/nvml_names.h"

nvmlReturn_t sim_nvml_enter(enum nvml_sym symbol);

static nvmlReturn_t refuse(enum nvml_sym symbol)
{
	nvmlReturn_t r = sim_nvml_enter(symbol);

	if (r)
		return r;
	return nvml_sets[symbol] ? NVML_ERROR_NO_PERMISSION : NVML_ERROR_NOT_SUPPORTED;
}

#define NVML_PASS(symbol)                                                       \
	__attribute__((weak, visibility("default"))) nvmlReturn_t symbol(void); \
	__attribute__((weak, visibility("default"))) nvmlReturn_t symbol(void)  \
	{                                                                       \
		return refuse(NVML_SYM_##symbol);                               \
	}
#include "abi/nvml.def"
