// SPDX-License-Identifier: Apache-2.0
/*
 * Weak bodies of what the execution side gives the core, for a build without it: then nothing is
 * ever queued, only the default streams exist, and none captures.
 */
#include "base/clock.h"
#include "sim/cuda/sim.h"

#define WEAK __attribute__((weak))

WEAK CUresult sim_exec_ctx_init(CUcontext ctx)
{
	ctx->exec = NULL;
	return CUDA_SUCCESS;
}

WEAK void sim_exec_ctx_fini(CUcontext ctx)
{
	ctx->exec = NULL;
}

WEAK CUresult sim_exec_ctx_sync(CUcontext ctx)
{
	return ctx->sticky;
}

WEAK CUresult sim_exec_stream_info(CUstream stream, bool is_per_thread, struct sim_stream_info *ret)
{
	if (stream && stream != CU_STREAM_LEGACY && stream != CU_STREAM_PER_THREAD)
		return CUDA_ERROR_INVALID_HANDLE;
	*ret = (struct sim_stream_info){
		.ctx = sim_ctx_current(),
		.id = is_per_thread || stream == CU_STREAM_PER_THREAD ? 2 : 1,
		.tail_ns = clock_now_ns(),
	};
	return CUDA_SUCCESS;
}

WEAK CUresult sim_exec_capture_alloc(CUstream stream, bool is_per_thread, struct sim_pool *pool,
				     size_t bytes, CUdeviceptr *ret)
{
	(void)stream, (void)is_per_thread, (void)pool, (void)bytes, (void)ret;
	return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

WEAK CUresult sim_exec_capture_free(CUstream stream, bool is_per_thread, CUdeviceptr ptr)
{
	(void)stream, (void)is_per_thread, (void)ptr;
	return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

WEAK CUresult sim_exec_unsafe_call(void)
{
	return CUDA_SUCCESS;
}
