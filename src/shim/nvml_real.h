// SPDX-License-Identifier: Apache-2.0
#ifndef SHIM_NVML_REAL_H
#define SHIM_NVML_REAL_H

/*
 * real_<symbol>: NVML's own functions, for our code to call; pointers, typed where the table gives
 * parameters.  Never NULL and always callable: the first call opens the library, and a function
 * that it lacks answers NVML_ERROR_FUNCTION_NOT_FOUND (see entry.h).
 *
 * Below them, the prototypes of every hook (NVML_HOOK in the table), exported: a wrong prototype
 * does not compile, a forgotten body does not link.
 *
 * Our own calls of the library go through these, never through the exported names.
 */

#include "abi/nvml_proto.h"

#define NVML_REAL_HIDDEN       __attribute__((visibility("hidden")))
#define NVML_PASS(sym)         extern void *real_##sym NVML_REAL_HIDDEN;
#define NVML_CALL(sym, params) extern pfn_##sym *real_##sym NVML_REAL_HIDDEN;
#include "abi/nvml.def"

#define NVML_HOOK_EXPORT       __attribute__((visibility("default")))
#define NVML_HOOK(sym, params) NVML_HOOK_EXPORT nvmlReturn_t sym params;
#define NVML_CALL(sym, params)
#include "abi/nvml.def"

#endif
