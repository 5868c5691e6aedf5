// SPDX-License-Identifier: Apache-2.0
#include "sim_exec_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

CUmodule sim_exec_module;

int sim_exec_setup(void **state)
{
	(void)state;
	sim_driver_setup(NULL);
	if (sim_driver_context() != CUDA_SUCCESS)
		return -1;
	return CU(cuModuleLoad)(&sim_exec_module, KERNELS_PTX) == CUDA_SUCCESS ? 0 : -1;
}

CUfunction sim_exec_function(const char *name)
{
	CUfunction function = NULL;

	assert_int_equal(CU(cuModuleGetFunction)(&function, sim_exec_module, name), 0);
	return function;
}

void sim_exec_spin(CUstream stream, unsigned long long ns)
{
	void *params[] = { &ns };

	assert_int_equal(CU(cuLaunchKernel)(sim_exec_function("allot_spin_ns"), 1, 1, 1, 1, 1, 1, 0,
					    stream, params, NULL),
			 0);
}

CUresult sim_exec_add(CUstream stream, CUdeviceptr ptr, unsigned addend, unsigned long long n)
{
	void *params[] = { &ptr, &addend, &n };

	return CU(cuLaunchKernel)(sim_exec_function("allot_add_u32"), 4, 1, 1, 64, 1, 1, 0, stream,
				  params, NULL);
}

unsigned sim_exec_word(CUdeviceptr ptr)
{
	unsigned word = 0;

	assert_int_equal(CU(cuMemcpyDtoH_v2)(&word, ptr, sizeof(word)), 0);
	return word;
}

CUdeviceptr sim_exec_buffer(size_t words, unsigned value)
{
	CUdeviceptr ptr = 0;

	assert_int_equal(CU(cuMemAlloc_v2)(&ptr, words * 4), 0);
	assert_int_equal(CU(cuMemsetD32_v2)(ptr, value, words), 0);
	assert_int_equal(CU(cuCtxSynchronize)(), 0);
	return ptr;
}
