// SPDX-License-Identifier: Apache-2.0
#ifndef SHIM_REAL_H
#define SHIM_REAL_H

/*
 * real_<symbol>: the CUDA driver's own functions, for our code to call; pointers, typed where the
 * table gives parameters. Never NULL and always callable: the first call opens the driver, and a
 * function that the driver lacks answers CUDA_ERROR_NOT_SUPPORTED (see entry.h).
 *
 * Our own calls of the driver go through these, never through the exported names.
 * Written by entry.c only.
 */

#include "abi/cuda_proto.h"

#define REAL_HIDDEN                              __attribute__((visibility("hidden")))
#define CU_PASS(sym, api, since, stream)         extern void *real_##sym REAL_HIDDEN;
#define CU_CALL(sym, api, since, stream, params) extern pfn_##sym *real_##sym REAL_HIDDEN;
#include "abi/cuda.def"

#endif
