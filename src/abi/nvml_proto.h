// SPDX-License-Identifier: Apache-2.0
#ifndef ABI_NVML_PROTO_H
#define ABI_NVML_PROTO_H

/*
 * What the table gives the compiler: a slot number for each symbol and, where the prototype is
 * known, its function type.  pfn_nvmlInit_v2 is the function type itself, so a pointer to it is
 * written pfn_nvmlInit_v2 *.  Every one of them returns nvmlReturn_t.  Declarations only.
 */

#include "abi/nvml_types.h"

/* NVML_SYM_<symbol>: 0 and up in the table's order, the index of arrays with one entry a symbol. */
enum nvml_sym {
#define NVML_PASS(symbol) NVML_SYM_##symbol,
#include "abi/nvml.def"
	NVML_SYM_COUNT
};

#define NVML_CALL(symbol, params) typedef nvmlReturn_t pfn_##symbol params;
#include "abi/nvml.def"

#endif
