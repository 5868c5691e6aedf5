// SPDX-License-Identifier: Apache-2.0
#include "sim/cuda/exec.h"

static CUresult host_func(CUcontext ctx, CUstream handle, enum stream_default dflt, CUhostFn fn,
			  void *data)
{
	struct op op = { .kind = OP_HOST, .host = { .fn = fn, .data = data, .stream = handle } };
	CUstream stream;
	CUresult r;

	if (!fn)
		return CUDA_ERROR_INVALID_VALUE;
	r = stream_get(ctx, handle, dflt, &stream);
	return r == CUDA_SUCCESS ? op_submit(stream, &op) : r;
}

STREAM_TWINS(cuLaunchHostFunc, cuLaunchHostFunc_ptsz,
	     (CUstream hStream, CUhostFn fn, void *userData), SIM_CTX | SIM_LOCK,
	     host_func(call.ctx, hStream, dflt, fn, userData), "%p, %p, %p", (void *)hStream,
	     (void *)(uintptr_t)fn, userData)

/* the mode says how the caller of the function waits, not when it is called */
static CUresult host_func_v2(CUcontext ctx, CUstream handle, enum stream_default dflt, CUhostFn fn,
			     void *data, unsigned sync_mode)
{
	if (sync_mode > 1)
		return CUDA_ERROR_INVALID_VALUE;
	return host_func(ctx, handle, dflt, fn, data);
}

STREAM_TWINS(cuLaunchHostFunc_v2, cuLaunchHostFunc_v2_ptsz,
	     (CUstream hStream, CUhostFn fn, void *userData, unsigned int syncMode),
	     SIM_CTX | SIM_LOCK, host_func_v2(call.ctx, hStream, dflt, fn, userData, syncMode),
	     "%p, %p, %p, %u", (void *)hStream, (void *)(uintptr_t)fn, userData, syncMode)

static CUresult add_callback(CUcontext ctx, CUstream handle, enum stream_default dflt,
			     CUstreamCallback callback, void *data, unsigned flags)
{
	struct op op = { .kind = OP_HOST,
			 .host = { .callback = callback, .data = data, .stream = handle } };
	CUstream stream;
	CUresult r;

	if (!callback || flags)
		return CUDA_ERROR_INVALID_VALUE;
	r = stream_get(ctx, handle, dflt, &stream);
	if (r != CUDA_SUCCESS)
		return r;
	if (capture_stream_is_active(stream)) /* only cuLaunchHostFunc can be captured */
		return capture_refuse(stream);
	return op_submit(stream, &op);
}

STREAM_TWINS(cuStreamAddCallback, cuStreamAddCallback_ptsz,
	     (CUstream hStream, CUstreamCallback callback, void *userData, unsigned int flags),
	     SIM_CTX | SIM_LOCK, add_callback(call.ctx, hStream, dflt, callback, userData, flags),
	     "%p, %p, %p, %#x", (void *)hStream, (void *)(uintptr_t)callback, userData, flags)
