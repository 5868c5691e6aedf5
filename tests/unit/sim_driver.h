// SPDX-License-Identifier: Apache-2.0
#ifndef UNIT_SIM_DRIVER_H
#define UNIT_SIM_DRIVER_H

/*
 * The built simulated driver for tests: opened as a program would, in a folder of its own that goes
 * away at exit. SIM_CUDA_LIB in the environment names the library (the build sets it).
 *
 *   sim_driver_setup("small4g");           the profile, or NULL for the H200
 *   CU(cuInit)(0);                         a driver call; in the process that will use it
 *   sim_driver_child(run, argument)        fork, run, _exit(its result); returns the pid
 *
 * A test that forks must not have called cuInit before: as with the real driver, a child of an
 * initialised process cannot use CUDA.
 */

#include <sys/types.h>

#include "abi/cuda_proto.h"

void sim_driver_setup(const char *profile);

/** sim_driver_dir - the private folder */
const char *sim_driver_dir(void);

/** sim_driver_symbol - the exported @name; the test fails when there is none */
void *sim_driver_symbol(const char *name);

#define CU(name) ((pfn_##name *)sim_driver_symbol(#name))

pid_t sim_driver_child(int (*run)(void *), void *argument);

/** sim_driver_wait - the child's exit code; 128 + n when signal n ended it */
int sim_driver_wait(pid_t pid);

/** sim_driver_context - cuInit and a current primary context of device 0; the first result not 0 */
CUresult sim_driver_context(void);

/** sim_driver_free_bytes - cuMemGetInfo */
size_t sim_driver_free_bytes(void);

#endif
