// SPDX-License-Identifier: Apache-2.0
#include "sim/cuda/launch.h"

#include <string.h>

#define GRID_X_MAX      0x7fffffffu
#define GRID_YZ_MAX     65535u
#define BLOCK_XY_MAX    1024u
#define BLOCK_Z_MAX     64u
#define THREADS_PER_SM  2048u
#define BLOCKS_PER_SM   32u
#define SHARED_PER_SM   233472u
#define SHARED_RESERVED 1024u /* the system's own, in each block */
#define STATIC_SHARED   49152u

unsigned launch_blocks_per_sm(const struct CUfunc_st *function, unsigned threads,
			      size_t shared_bytes)
{
	unsigned warps = (threads + 31) / 32;
	size_t block_shared = shared_bytes + (function->entry ? function->entry->shared_bytes : 0);
	uint64_t blocks = THREADS_PER_SM / 32 / (warps ? warps : 1);

	if (threads > function_max_threads(function->entry))
		return 0;
	if (block_shared)
		blocks = size_min(blocks, SHARED_PER_SM / (block_shared + SHARED_RESERVED));
	return (unsigned)size_min(blocks, BLOCKS_PER_SM);
}

static CUresult check_shape(CUcontext ctx, const struct launch *launch,
			    const struct CUfunc_st *function)
{
	const unsigned *grid = launch->grid, *block = launch->block;
	int dynamic_max = function->attrs.dynamic_shared_bytes;
	unsigned static_shared = function->entry ? function->entry->shared_bytes : 0;
	unsigned shared_max;
	uint64_t threads;

	for (int i = 0; i < 3; i++) {
		if (!grid[i] || !block[i])
			return CUDA_ERROR_INVALID_VALUE;
	}
	if (grid[0] > GRID_X_MAX || grid[1] > GRID_YZ_MAX || grid[2] > GRID_YZ_MAX ||
	    block[0] > BLOCK_XY_MAX || block[1] > BLOCK_XY_MAX || block[2] > BLOCK_Z_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	threads = (uint64_t)block[0] * block[1] * block[2];
	if (threads > function_max_threads(function->entry))
		return CUDA_ERROR_INVALID_VALUE;
	shared_max = dynamic_max ? (unsigned)dynamic_max : STATIC_SHARED - static_shared;
	if (launch->shared_bytes > size_max(shared_max, STATIC_SHARED - static_shared))
		return CUDA_ERROR_INVALID_VALUE;
	if (launch->is_cooperative &&
	    (uint64_t)grid[0] * grid[1] * grid[2] >
		    (uint64_t)ctx->device->info->sms *
			    launch_blocks_per_sm(function, (unsigned)threads, launch->shared_bytes))
		return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
	return CUDA_SUCCESS;
}

static CUresult pack_extra(void **extra, unsigned char *buffer, uint32_t *ret_bytes)
{
	const void *pointer = NULL;
	const size_t *size = NULL;

	for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
		if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
			pointer = extra[1];
		else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
			size = extra[1];
		else
			return CUDA_ERROR_INVALID_VALUE;
	}
	if (!size || (*size && !pointer) || *size > LAUNCH_PARAMS_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (*size)
		memcpy(buffer, pointer, *size);
	*ret_bytes = (uint32_t)*size;
	return CUDA_SUCCESS;
}

static CUresult pack_params(const struct CUfunc_st *function, void **params, unsigned char *buffer,
			    uint32_t *ret_bytes)
{
	size_t offset, bytes;

	for (size_t i = 0;
	     function_param(function->entry, function->effect, i, &offset, &bytes) == CUDA_SUCCESS;
	     i++) {
		if (!params || !params[i])
			return CUDA_ERROR_INVALID_VALUE;
		memcpy(buffer + offset, params[i], bytes);
	}
	*ret_bytes = function->param_bytes;
	return CUDA_SUCCESS;
}

CUresult launch_op(CUcontext ctx, const struct launch *launch, unsigned char *buffer,
		   struct op *ret)
{
	struct op op = { .kind = OP_KERNEL };
	CUfunction function;
	CUresult r;

	if (!launch->function)
		return CUDA_ERROR_INVALID_HANDLE;
	r = function_get(ctx, launch->function, &function);
	if (r != CUDA_SUCCESS)
		return r;
	if (function->module->ctx != ctx)
		return CUDA_ERROR_INVALID_HANDLE;
	r = check_shape(ctx, launch, function);
	if (r != CUDA_SUCCESS)
		return r;
	if (launch->params && launch->extra)
		return CUDA_ERROR_INVALID_VALUE;
	if (launch->extra)
		r = pack_extra(launch->extra, buffer, &op.kernel.param_bytes);
	else
		r = pack_params(function, launch->params, buffer, &op.kernel.param_bytes);
	if (r != CUDA_SUCCESS)
		return r;
	op.kernel.function = launch->function;
	op.kernel.resolved = function;
	op.kernel.effect = function->effect;
	memcpy(op.kernel.grid, launch->grid, sizeof(op.kernel.grid));
	memcpy(op.kernel.block, launch->block, sizeof(op.kernel.block));
	op.kernel.shared_bytes = launch->shared_bytes;
	op.kernel.is_cooperative = launch->is_cooperative;
	op.kernel.priority = launch->priority;
	op.kernel.params = buffer;
	*ret = op;
	return CUDA_SUCCESS;
}
