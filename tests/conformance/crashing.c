// SPDX-License-Identifier: Apache-2.0
/* A libcuda that dies in one call and hangs in another: the runner's own test. */
#include <signal.h>
#include <unistd.h>

#include "abi/cuda_types.h"

#define EXPORTED __attribute__((visibility("default")))

EXPORTED CUresult cuInit(unsigned int flags);
EXPORTED CUresult cuDeviceGetCount(int *count);
EXPORTED CUresult cuDeviceGetName(char *name, int len, CUdevice dev);

CUresult cuInit(unsigned int flags)
{
	if (flags == 1) {
		signal(SIGSEGV, SIG_DFL);
		raise(SIGSEGV);
	}
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	*count = 1;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int len, CUdevice dev)
{
	(void)name, (void)len, (void)dev;
	for (;;)
		pause();
}
