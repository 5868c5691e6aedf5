// SPDX-License-Identifier: Apache-2.0
#ifndef SHIM_HOOKS_H
#define SHIM_HOOKS_H

/*
 * The prototypes of every hook (CU_HOOK in the table), exported. A hooks_<group>.c includes this
 * and defines its functions; a wrong prototype does not compile, a missing one does not link.
 */

#include "abi/cuda_proto.h"

#define HOOK_EXPORT                              __attribute__((visibility("default")))
#define CU_HOOK(sym, api, since, stream, params) HOOK_EXPORT CUresult sym params;
#define CU_CALL(sym, api, since, stream, params)
#include "abi/cuda.def"

#endif
