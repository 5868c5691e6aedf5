// SPDX-License-Identifier: Apache-2.0
#ifndef SIM_CUDA_START_H
#define SIM_CUDA_START_H

/* How the simulated driver comes up; used by core.c and device.c only.  Needs sim_lock(). */

#include "sim/cuda/sim.h"

/** sim_start - cuInit: open the shared state, take a row, list the visible devices; takes the lock
 */
CUresult sim_start(void);

/**
 * sim_devices_init - fill sim.devices as CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER say
 *
 * SUCCESS; NO_DEVICE when they leave none; INVALID_DEVICE when they name one twice.
 */
CUresult sim_devices_init(void);

/** sim_devices_getenv - getenv; another body in nosym/ */
const char *sim_devices_getenv(const char *name);

#endif
