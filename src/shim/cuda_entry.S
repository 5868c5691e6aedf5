/* SPDX-License-Identifier: Apache-2.0 */
/* The entries of liballot-cuda.so, from the table (see entry.h). */
#include "shim/entry_asm.h"

ENTRY_BEGIN
#define CU_PASS(sym, api, since, stream)         ENTRY_PASS(sym)
#define CU_HOOK(sym, api, since, stream, params) ENTRY_HOOK(sym)
#include "abi/cuda.def"
ENTRY_END
