// SPDX-License-Identifier: Apache-2.0
#include "sim/cuda/exec.h"

/* The profiler's switches, and what only has to be in order. */

/* nobody profiles, so there is nothing to switch; deprecated, the first answers as ever */
CUresult cuProfilerInitialize(const char *configFile, const char *outputFile,
			      CUoutput_mode outputMode)
{
	return SIM_CALL(cuProfilerInitialize, SIM_INIT, CUDA_ERROR_NOT_SUPPORTED,
			"\"%s\", \"%s\", %d", configFile ? configFile : "",
			outputFile ? outputFile : "", (int)outputMode);
}

CUresult cuProfilerStart(void)
{
	return SIM_CALL(cuProfilerStart, SIM_CTX, CUDA_SUCCESS, "");
}

CUresult cuProfilerStop(void)
{
	return SIM_CALL(cuProfilerStop, SIM_CTX, CUDA_SUCCESS, "");
}

static CUresult flush(CUflushGPUDirectRDMAWritesTarget target,
		      CUflushGPUDirectRDMAWritesScope scope)
{
	if (target != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX ||
	    (scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER &&
	     scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target,
				    CUflushGPUDirectRDMAWritesScope scope)
{
	return SIM_CALL(cuFlushGPUDirectRDMAWrites, SIM_CTX, flush(target, scope), "%d, %d",
			(int)target, (int)scope);
}
