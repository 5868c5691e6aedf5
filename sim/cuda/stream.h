// SPDX-License-Identifier: Apache-2.0
#ifndef SIM_CUDA_STREAM_H
#define SIM_CUDA_STREAM_H

/* Making and ending streams; what the rest needs of them is in exec.h.  Needs sim_lock(). */

#include "sim/cuda/exec.h"

#define STREAM_PRIORITY_GREATEST (-5) /* numerically least */
#define STREAM_PRIORITY_LEAST    0

/** stream_new - charges what a stream costs on the device */
CUresult stream_new(CUcontext ctx, enum stream_kind kind, unsigned flags, int priority,
		    CUstream *ret);

/** stream_end - the handle is gone; the object goes when its queued work is done */
void stream_end(CUstream stream);

#endif
