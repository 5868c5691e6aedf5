// SPDX-License-Identifier: Apache-2.0
#ifndef UNIT_SIM_EXEC_FIXTURE_H
#define UNIT_SIM_EXEC_FIXTURE_H

/* What the tests of the simulated driver's execution side share: the module of the test kernels. */

#include "sim_driver.h"

extern CUmodule sim_exec_module;

/** sim_exec_setup - a context and the test kernels; for cmocka's group set-up */
int sim_exec_setup(void **state);

CUfunction sim_exec_function(const char *name);

/** sim_exec_spin - a kernel of one block that takes @ns */
void sim_exec_spin(CUstream stream, unsigned long long ns);

/** sim_exec_add - ptr[0 … n) += addend, as a kernel */
CUresult sim_exec_add(CUstream stream, CUdeviceptr ptr, unsigned addend, unsigned long long n);

/** sim_exec_word - the first word behind @ptr, by a synchronous copy */
unsigned sim_exec_word(CUdeviceptr ptr);

/** sim_exec_buffer - a device buffer filled with @value */
CUdeviceptr sim_exec_buffer(size_t words, unsigned value);

#endif
