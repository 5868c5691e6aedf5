// SPDX-License-Identifier: Apache-2.0
#ifndef ABI_CUDA_PROTO_H
#define ABI_CUDA_PROTO_H

/*
 * What the table gives the compiler: a slot number for each symbol and, where the prototype is
 * known, its function type. pfn_cuMemFree_v2 is the function type itself, so a pointer to it is
 * written pfn_cuMemFree_v2 *. Every one of them returns CUresult. Declarations only.
 */

#include "abi/cuda_types.h"

/* CU_SYM_<symbol>: 0 and up in the table's order, the index of arrays with one entry a symbol. */
enum cuda_sym {
#define CU_PASS(symbol, api, since, stream) CU_SYM_##symbol,
#include "abi/cuda.def"
	CU_SYM_COUNT
};

#define CU_CALL(symbol, api, since, stream, params) typedef CUresult pfn_##symbol params;
#include "abi/cuda.def"

#endif
