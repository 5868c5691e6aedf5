// SPDX-License-Identifier: Apache-2.0

#include "sim/cuda/sim.h"

/*
 * Copies, memsets and module variables with the device pointers of 32 bits that CUDA had before
 * version 3.2.  The driver still exports them.  Measured: they need a context of that old kind,
 * which nothing can make any more, so each answers INVALID_CONTEXT; what would have been filled in
 * is zeroed.  The table gives them no prototypes, so they stand here.
 */

static CUresult refuse(void)
{
	return sim_is_usable() ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_NOT_INITIALIZED;
}

/* none looks at its parameters, so none is named */
#define LEGACY(symbol)                                                \
	__attribute__((visibility("default"))) CUresult symbol(void); \
	CUresult symbol(void)                                         \
	{                                                             \
		return refuse();                                      \
	}

LEGACY(cuMemcpyHtoD)
LEGACY(cuMemcpyDtoH)
LEGACY(cuMemcpyDtoD)
LEGACY(cuMemcpyDtoA)
LEGACY(cuMemcpyAtoD)
LEGACY(cuMemcpyHtoA)
LEGACY(cuMemcpyAtoH)
LEGACY(cuMemcpyAtoA)
LEGACY(cuMemcpyHtoAAsync)
LEGACY(cuMemcpyAtoHAsync)
LEGACY(cuMemcpyHtoDAsync)
LEGACY(cuMemcpyDtoHAsync)
LEGACY(cuMemcpyDtoDAsync)
LEGACY(cuMemcpy2D)
LEGACY(cuMemcpy2DUnaligned)
LEGACY(cuMemcpy3D)
LEGACY(cuMemcpy2DAsync)
LEGACY(cuMemcpy3DAsync)
LEGACY(cuMemsetD8)
LEGACY(cuMemsetD16)
LEGACY(cuMemsetD32)
LEGACY(cuMemsetD2D8)
LEGACY(cuMemsetD2D16)
LEGACY(cuMemsetD2D32)

__attribute__((visibility("default"))) CUresult
cuModuleGetGlobal(unsigned *ptr, unsigned *bytes, CUmodule module, const char *name);

CUresult cuModuleGetGlobal(unsigned *ptr, unsigned *bytes, CUmodule module, const char *name)
{
	(void)module;
	(void)name;
	if (ptr)
		*ptr = 0;
	if (bytes)
		*bytes = 0;
	return refuse();
}
