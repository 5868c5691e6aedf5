// SPDX-License-Identifier: Apache-2.0
#ifndef SIM_CUDA_KERNELS_H
#define SIM_CUDA_KERNELS_H

/*
 * Kernels with real effects: those of tests/kernels/allot_kernels.ptx, known by entry name.  Every
 * other kernel changes no memory and takes the profile's time.  Needs sim_lock().
 */

#include "sim/cuda/sim.h"

#define KERNEL_PARAMS_MAX 4

struct kernel_shape {
	unsigned grid[3], block[3];
};

struct kernel_effect {
	const char *name;
	unsigned param_count;
	uint32_t param_bytes[KERNEL_PARAMS_MAX]; /* size of each, in order, naturally aligned */
	/* @params: packed; ILLEGAL_ADDRESS when the kernel would fault, else SUCCESS */
	CUresult (*run)(CUcontext ctx, const unsigned char *params);
	/* what it takes on an idle device, without the launch */
	uint64_t (*duration_ns)(const unsigned char *params, const struct kernel_shape *shape,
				const struct sim_device_info *info);
};

/** kernel_effect_find - the known kernel of that name, or NULL */
const struct kernel_effect *kernel_effect_find(const char *name);

/** kernel_effect_offset - where parameter @index of @effect lies in the packed buffer */
uint32_t kernel_effect_offset(const struct kernel_effect *effect, unsigned index);

/** kernel_effect_bytes - the length of the packed buffer */
uint32_t kernel_effect_bytes(const struct kernel_effect *effect);

#endif
