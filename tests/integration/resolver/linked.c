// SPDX-License-Identifier: Apache-2.0
/* A program linked with libcuda.so.1 itself: its pointers are bound before main. */
#include <stdio.h>
#include <stdlib.h>

#include "abi/cuda_types.h"

CUresult cuDriverGetVersion(int *version);

static int early = -1;

/* before main, and before most other libraries are ready */
__attribute__((constructor)) static void call_early(void)
{
	if (getenv("CALL_EARLY") && cuDriverGetVersion(&early) != CUDA_SUCCESS)
		early = -2;
}

int main(void)
{
	int version = -1;

	if (cuDriverGetVersion(&version) != CUDA_SUCCESS)
		return 1;
	printf("%d %d\n", version, early);
	return 0;
}
