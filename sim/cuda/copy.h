// SPDX-License-Identifier: Apache-2.0
#ifndef SIM_CUDA_COPY_H
#define SIM_CUDA_COPY_H

/*
 * Copies and memsets of every kind, brought to one form: CUDA_MEMCPY3D (a plain copy has one row
 * of one layer) and CUDA_MEMSET_NODE_PARAMS_v2.  Needs sim_lock().
 */

#include "sim/cuda/exec.h"

/* what a copy turns out to be, once its addresses are looked at */
struct copy_plan {
	unsigned char *src, *dst;
	size_t src_pitch, dst_pitch, src_slice,
		dst_slice; /* bytes from row to row, layer to layer */
	size_t width, height, depth;
	struct sim_device *src_device, *dst_device; /* NULL: host memory */
	bool src_pageable, dst_pageable;            /* host memory that the driver does not know */
};

/**
 * copy_plan - look at the addresses of @what
 * INVALID_VALUE when a device pointer is none, or a side does not lie within its allocation or
 * array, or a pitch is too small; INVALID_HANDLE for an array that is none.
 */
CUresult copy_plan(const CUDA_MEMCPY3D *what, struct copy_plan *ret);

/** copy_run - move the bytes */
void copy_run(const struct copy_plan *plan);

/** copy_duration_ns - what it takes on an idle device, and on which lane */
uint64_t copy_duration_ns(CUcontext ctx, const struct copy_plan *plan,
			  enum timeline_lane *ret_lane);

/** set_check - the same for memsets: a kernel of @ctx does them, and must reach the memory */
CUresult set_check(CUcontext ctx, const CUDA_MEMSET_NODE_PARAMS_v2 *set);
void set_run(const CUDA_MEMSET_NODE_PARAMS_v2 *set);
uint64_t set_duration_ns(CUcontext ctx, const CUDA_MEMSET_NODE_PARAMS_v2 *set);

#endif
