// SPDX-License-Identifier: Apache-2.0
/*
 * A weak body for every exported symbol, so that a program that was linked against the driver loads
 * and resolves whatever it likes; what has no body of its own elsewhere answers NOT_SUPPORTED.
 * The prototypes here are deliberately not the real ones, so nothing that declares those is
 * included.
 */

#define NOT_SUPPORTED 801 /* CUDA_ERROR_NOT_SUPPORTED */

int sim_unsupported(const char *symbol);

#define CU_PASS(symbol, api, since, stream)                            \
	__attribute__((weak, visibility("default"))) int symbol(void); \
	int symbol(void)                                               \
	{                                                              \
		return sim_unsupported(#symbol);                       \
	}
#include "abi/cuda.def"
