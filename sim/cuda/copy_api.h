// SPDX-License-Identifier: Apache-2.0
#ifndef SIM_CUDA_COPY_API_H
#define SIM_CUDA_COPY_API_H

/* The common end of all copy calls.  Needs sim_lock(). */

#include "sim/cuda/copy.h"

/**
 * copy_submit - give a copy to a stream
 * @is_sync: a call that waits; it drops the lock meanwhile
 */
CUresult copy_submit(CUcontext ctx, CUstream handle, enum stream_default dflt,
		     const CUDA_MEMCPY3D *what, bool is_sync);

#endif
