// SPDX-License-Identifier: Apache-2.0
#ifndef SIM_CUDA_LAUNCH_H
#define SIM_CUDA_LAUNCH_H

/* From a launch as the program states it to an op.  Needs sim_lock(). */

#include "sim/cuda/module.h"

#define LAUNCH_PARAMS_MAX 32764

struct launch {
	CUfunction function;
	unsigned grid[3], block[3], shared_bytes;
	void **params, **extra;
	bool is_cooperative;
	int priority;
};

/**
 * launch_op - check @launch as the driver does and pack its parameters into @buffer
 * @buffer: LAUNCH_PARAMS_MAX bytes; the op points there (op_clone makes it independent)
 */
CUresult launch_op(CUcontext ctx, const struct launch *launch, unsigned char *buffer,
		   struct op *ret);

/** launch_blocks_per_sm - how many blocks of that size run on one SM at a time */
unsigned launch_blocks_per_sm(const struct CUfunc_st *function, unsigned threads,
			      size_t shared_bytes);

#endif
