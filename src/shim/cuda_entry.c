// SPDX-License-Identifier: Apache-2.0
#include "shim/entry.h"

#include <errno.h>

#include "abi/cuda_names.h"
#include "shim/procaddr.h"
#include "shim/visible.h"

/*
 * What liballot-cuda.so answers where the driver cannot.
 *
 * No driver on this machine: a program that needs one would not have started bare, and one that
 * can do without asks cuInit and goes by its answer. So cuInit says NO_DEVICE, and every other
 * call says NOT_INITIALIZED, as after a cuInit that failed. Names of results are still told, since
 * hardly a caller looks at what cuGetErrorString returned before it prints the text.
 */

static CUresult not_supported(void)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult not_initialized(void)
{
	return CUDA_ERROR_NOT_INITIALIZED;
}

static CUresult no_device(void)
{
	return CUDA_ERROR_NO_DEVICE;
}

static CUresult result_name(CUresult result, const char **ret_name)
{
	if (!ret_name)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_name = cuda_result_name(result);
	return *ret_name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static void *no_driver(unsigned slot, int error)
{
	if (slot == CU_SYM_cuGetErrorName || slot == CU_SYM_cuGetErrorString)
		return (void *)result_name;
	if (slot == CU_SYM_cuInit && error != -EALREADY)
		return (void *)no_device;
	return (void *)not_initialized;
}

static const char *symbol_name(unsigned slot)
{
	return cuda_symbols[slot].name;
}

static void loaded(void)
{
	procaddr_loaded();
	visible_redirect();
}

const struct entry_lib entry_lib = {
	.soname = "libcuda.so.1",
	.count = CU_SYM_COUNT,
	.retry = CU_SYM_cuInit,
	.name = symbol_name,
	.missing = (void *)not_supported,
	.no_driver = no_driver,
	.loaded = loaded,
};
