// SPDX-License-Identifier: Apache-2.0
#ifndef SIM_CUDA_MEMOP_H
#define SIM_CUDA_MEMOP_H

/* Waits for and writes of values in memory, by a stream.  Needs sim_lock(). */

#include "sim/cuda/exec.h"

/** memop_check - INVALID_VALUE for an unknown operation, flag or address */
CUresult memop_check(const struct op_memop *memop);

/** memop_is_ready - are all waits met now, of memory as it stands? */
bool memop_is_ready(const struct op_memop *memop);

/** memop_run - do all of it; the waits are known to be met */
void memop_run(const struct op_memop *memop);

/** memop_step - go on with a queued batch as far as it goes; true when it is through */
bool memop_step(struct op_memop *memop);

#endif
