// SPDX-License-Identifier: Apache-2.0
#ifndef ABI_NVML_NAMES_H
#define ABI_NVML_NAMES_H

/*
 * The table of nvml.def as data: names by slot, slots by name, and the texts of results.
 * Constant; any thread; nothing allocates.
 */

#include <stdbool.h>

#include "abi/nvml_proto.h"

/* nvml_names[NVML_SYM_x] is "x"; arrays and not pointers, as in cuda_names.h */
#define NVML_NAME_MAX 56
extern const char nvml_names[NVML_SYM_COUNT][NVML_NAME_MAX];

/* is the symbol marked NVML_SET? */
extern const bool nvml_sets[NVML_SYM_COUNT];

/** nvml_symbol_find - the slot of an exported name, or -1 */
int nvml_symbol_find(const char *name);

/** nvml_result_name - "NVML_ERROR_GPU_IS_LOST"; "?" for a number that is none */
const char *nvml_result_name(nvmlReturn_t result);

/** nvml_result_text - what nvmlErrorString says: "GPU is lost"; "Unknown Error" for other numbers
 */
const char *nvml_result_text(nvmlReturn_t result);

#endif
