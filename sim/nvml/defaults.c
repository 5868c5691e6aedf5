// SPDX-License-Identifier: Apache-2.0
/*
 * A body for every symbol of the table that has none of its own.  Weak, so that a real one wins.
 * The prototypes are not those of the table: nothing here looks at an argument.
 */
#include <stdbool.h>
#include <string.h>

#include "abi/nvml_names.h"
#include "base/str.h"

nvmlReturn_t sim_nvml_enter(enum nvml_sym symbol);

/* would this call change the device or the machine? */
static bool changes(const char *name)
{
	static const char *const marks[] = { "Set",      "Reset",   "Clear",    "Freeze",
					     "Create",   "Destroy", "Remove",   "Drain",
					     "Discover", "Update",  "Activate", "ReadWrite" };

	if (str_starts_with(name, "nvmlVgpuTypeGet") || strstr(name, "Creatable"))
		return false;
	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
		const char *at = strstr(name, marks[i]);

		/* "Set" as a word: not in nvmlSystemGetTopologyGpuSet, not in EventSetFree */
		if (at && !strstr(name, "EventSet") && !strstr(name, "GpuSet"))
			return true;
	}
	return false;
}

static nvmlReturn_t refuse(enum nvml_sym symbol)
{
	nvmlReturn_t r = sim_nvml_enter(symbol);

	if (r)
		return r;
	return changes(nvml_names[symbol]) ? NVML_ERROR_NO_PERMISSION : NVML_ERROR_NOT_SUPPORTED;
}

#define NVML_PASS(symbol)                                                       \
	__attribute__((weak, visibility("default"))) nvmlReturn_t symbol(void); \
	__attribute__((weak, visibility("default"))) nvmlReturn_t symbol(void)  \
	{                                                                       \
		return refuse(NVML_SYM_##symbol);                               \
	}
#include "abi/nvml.def"
