/* SPDX-License-Identifier: Apache-2.0 */
/* The entries of liballot-nvml.so, from the table (see entry.h). */
#include "shim/entry_asm.h"

ENTRY_BEGIN
#define NVML_PASS(sym)         ENTRY_PASS(sym)
#define NVML_HOOK(sym, params) ENTRY_HOOK(sym)
#define NVML_SET(sym)          ENTRY_GATED(sym)
#include "abi/nvml.def"
ENTRY_END
