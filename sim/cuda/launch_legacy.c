// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/launch.h"

/* The calls of CUDA 2, in which a function carries its next launch around. */

static CUresult set_block(CUcontext ctx, CUfunction handle, int x, int y, int z)
{
	CUfunction function;
	CUresult r = function_get(ctx, handle, &function);

	if (r != CUDA_SUCCESS)
		return r;
	if (x <= 0 || y <= 0 || z <= 0 ||
	    (int64_t)x * y * z > (int64_t)function_max_threads(function->entry))
		return CUDA_ERROR_INVALID_VALUE;
	function->legacy.block[0] = (unsigned)x;
	function->legacy.block[1] = (unsigned)y;
	function->legacy.block[2] = (unsigned)z;
	return CUDA_SUCCESS;
}

CUresult cuFuncSetBlockShape(CUfunction hfunc, int x, int y, int z)
{
	return SIM_CALL(cuFuncSetBlockShape, SIM_CTX | SIM_LOCK,
			set_block(call.ctx, hfunc, x, y, z), "%p, %d, %d, %d", (void *)hfunc, x, y,
			z);
}

static CUresult set_shared(CUcontext ctx, CUfunction handle, unsigned bytes)
{
	CUfunction function;
	CUresult r = function_get(ctx, handle, &function);

	if (r == CUDA_SUCCESS)
		function->legacy.shared_bytes = bytes;
	return r;
}

CUresult cuFuncSetSharedSize(CUfunction hfunc, unsigned int bytes)
{
	return SIM_CALL(cuFuncSetSharedSize, SIM_CTX | SIM_LOCK, set_shared(call.ctx, hfunc, bytes),
			"%p, %u", (void *)hfunc, bytes);
}

static CUresult set_size(CUcontext ctx, CUfunction handle, unsigned bytes)
{
	CUfunction function;
	CUresult r = function_get(ctx, handle, &function);

	if (r != CUDA_SUCCESS)
		return r;
	if (bytes > LAUNCH_PARAMS_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	function->legacy.param_bytes = bytes;
	return CUDA_SUCCESS;
}

CUresult cuParamSetSize(CUfunction hfunc, unsigned int numbytes)
{
	return SIM_CALL(cuParamSetSize, SIM_CTX | SIM_LOCK, set_size(call.ctx, hfunc, numbytes),
			"%p, %u", (void *)hfunc, numbytes);
}

static CUresult set_param(CUcontext ctx, CUfunction handle, int offset, const void *value,
			  unsigned bytes)
{
	CUfunction function;
	CUresult r = function_get(ctx, handle, &function);

	if (r != CUDA_SUCCESS)
		return r;
	if (!value || offset < 0 || bytes > LAUNCH_PARAMS_MAX ||
	    (unsigned)offset > LAUNCH_PARAMS_MAX - bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (!function->legacy.params)
		function->legacy.params = calloc(1, LAUNCH_PARAMS_MAX);
	if (!function->legacy.params)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(function->legacy.params + offset, value, bytes);
	return CUDA_SUCCESS;
}

CUresult cuParamSeti(CUfunction hfunc, int offset, unsigned int value)
{
	return SIM_CALL(cuParamSeti, SIM_CTX | SIM_LOCK,
			set_param(call.ctx, hfunc, offset, &value, sizeof(value)), "%p, %d, %u",
			(void *)hfunc, offset, value);
}

CUresult cuParamSetf(CUfunction hfunc, int offset, float value)
{
	return SIM_CALL(cuParamSetf, SIM_CTX | SIM_LOCK,
			set_param(call.ctx, hfunc, offset, &value, sizeof(value)), "%p, %d, %g",
			(void *)hfunc, offset, (double)value);
}

CUresult cuParamSetv(CUfunction hfunc, int offset, void *ptr, unsigned int numbytes)
{
	return SIM_CALL(cuParamSetv, SIM_CTX | SIM_LOCK,
			set_param(call.ctx, hfunc, offset, ptr, numbytes), "%p, %d, %p, %u",
			(void *)hfunc, offset, ptr, numbytes);
}

static CUresult launch(CUcontext ctx, CUfunction handle, int width, int height, CUstream stream)
{
	unsigned char buffer[LAUNCH_PARAMS_MAX];
	CUfunction function;
	CUstream on;
	struct op op;
	CUresult r = function_get(ctx, handle, &function);
	struct launch launch = { .function = handle };
	size_t bytes;
	void *extra[] = { CU_LAUNCH_PARAM_BUFFER_POINTER, NULL, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
			  CU_LAUNCH_PARAM_END };

	if (r != CUDA_SUCCESS)
		return r;
	if (width <= 0 || height <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	bytes = function->legacy.param_bytes;
	if (bytes && !function->legacy.params)
		return CUDA_ERROR_INVALID_VALUE;
	extra[1] = function->legacy.params;
	launch.extra = extra;
	launch.grid[0] = (unsigned)width;
	launch.grid[1] = (unsigned)height;
	launch.grid[2] = 1;
	memcpy(launch.block, function->legacy.block, sizeof(launch.block));
	launch.shared_bytes = function->legacy.shared_bytes;
	r = stream_get(ctx, stream, DEFAULT_LEGACY, &on);
	if (r == CUDA_SUCCESS)
		r = launch_op(ctx, &launch, buffer, &op);
	return r == CUDA_SUCCESS ? op_submit(on, &op) : r;
}

CUresult cuLaunch(CUfunction f)
{
	return SIM_CALL(cuLaunch, SIM_CTX | SIM_LOCK, launch(call.ctx, f, 1, 1, NULL), "%p",
			(void *)f);
}

CUresult cuLaunchGrid(CUfunction f, int grid_width, int grid_height)
{
	return SIM_CALL(cuLaunchGrid, SIM_CTX | SIM_LOCK,
			launch(call.ctx, f, grid_width, grid_height, NULL), "%p, %d, %d", (void *)f,
			grid_width, grid_height);
}

CUresult cuLaunchGridAsync(CUfunction f, int grid_width, int grid_height, CUstream hStream)
{
	return SIM_CALL(cuLaunchGridAsync, SIM_CTX | SIM_LOCK,
			launch(call.ctx, f, grid_width, grid_height, hStream), "%p, %d, %d, %p",
			(void *)f, grid_width, grid_height, (void *)hStream);
}
