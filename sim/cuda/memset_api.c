// SPDX-License-Identifier: Apache-2.0
#include "sim/cuda/copy.h"

static CUresult set(CUcontext ctx, CUstream handle, enum stream_default dflt, bool is_sync,
		    CUdeviceptr dst, size_t pitch, unsigned value, unsigned element_bytes,
		    size_t width, size_t height)
{
	struct op op = { .kind = OP_SET,
			 .set = { .dst = dst,
				  .pitch = pitch,
				  .value = value,
				  .elementSize = element_bytes,
				  .width = width,
				  .height = height,
				  .ctx = ctx } };
	CUstream stream;
	struct sim_ptr ptr;
	CUresult r = stream_get(ctx, handle, dflt, &stream);

	if (r != CUDA_SUCCESS)
		return r;
	if (is_sync) {
		if (capture_stream_is_active(stream))
			return capture_refuse(stream);
		r = capture_check_legacy(stream);
		if (r != CUDA_SUCCESS)
			return r;
	}
	if (!width || !height)
		return CUDA_SUCCESS;
	r = op_submit(stream, &op);
	/* only the filling of host memory is waited for */
	if (r == CUDA_SUCCESS && is_sync && sim_ptr_find(dst, &ptr) && !ptr.device)
		r = stream_wait(stream);
	return r;
}

#define SET_1D(api, element_bytes, value_type)                                               \
	STREAM_TWINS(api##_v2, api##_v2_ptds, (CUdeviceptr dst, value_type value, size_t n), \
		     SIM_CTX | SIM_LOCK,                                                     \
		     set(call.ctx, NULL, dflt, true, dst, 0, value, element_bytes, n, 1),    \
		     "%#llx, %#x, %zu", dst, (unsigned)value, n)                             \
	STREAM_TWINS(api##Async, api##Async_ptsz,                                            \
		     (CUdeviceptr dst, value_type value, size_t n, CUstream stream),         \
		     SIM_CTX | SIM_LOCK,                                                     \
		     set(call.ctx, stream, dflt, false, dst, 0, value, element_bytes, n, 1), \
		     "%#llx, %#x, %zu, %p", dst, (unsigned)value, n, (void *)stream)

#define SET_2D(api, element_bytes, value_type)                                                   \
	STREAM_TWINS(api##_v2, api##_v2_ptds,                                                    \
		     (CUdeviceptr dst, size_t pitch, value_type value, size_t w, size_t h),      \
		     SIM_CTX | SIM_LOCK,                                                         \
		     set(call.ctx, NULL, dflt, true, dst, pitch, value, element_bytes, w, h),    \
		     "%#llx, %zu, %#x, %zu, %zu", dst, pitch, (unsigned)value, w, h)             \
	STREAM_TWINS(api##Async, api##Async_ptsz,                                                \
		     (CUdeviceptr dst, size_t pitch, value_type value, size_t w, size_t h,       \
		      CUstream stream),                                                          \
		     SIM_CTX | SIM_LOCK,                                                         \
		     set(call.ctx, stream, dflt, false, dst, pitch, value, element_bytes, w, h), \
		     "%#llx, %zu, %#x, %zu, %zu, %p", dst, pitch, (unsigned)value, w, h,         \
		     (void *)stream)

SET_1D(cuMemsetD8, 1, unsigned char)
SET_1D(cuMemsetD16, 2, unsigned short)
SET_1D(cuMemsetD32, 4, unsigned int)
SET_2D(cuMemsetD2D8, 1, unsigned char)
SET_2D(cuMemsetD2D16, 2, unsigned short)
SET_2D(cuMemsetD2D32, 4, unsigned int)
