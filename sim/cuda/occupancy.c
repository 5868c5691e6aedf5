// SPDX-License-Identifier: Apache-2.0
#include "sim/cuda/launch.h"

#define SHARED_PER_SM   233472
#define SHARED_RESERVED 1024
#define STATIC_SHARED   49152

static CUresult max_blocks(CUcontext ctx, int *ret, CUfunction handle, int threads, size_t shared,
			   unsigned flags)
{
	CUfunction function;
	CUresult r;

	if (!ret || threads <= 0 || (flags & ~(unsigned)CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE))
		return CUDA_ERROR_INVALID_VALUE;
	r = function_get(ctx, handle, &function);
	if (r == CUDA_SUCCESS)
		*ret = (int)launch_blocks_per_sm(function, (unsigned)threads, shared);
	return r;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, CUfunction func, int blockSize,
						     size_t dynamicSMemSize)
{
	return SIM_CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor, SIM_CTX | SIM_LOCK,
			max_blocks(call.ctx, numBlocks, func, blockSize, dynamicSMemSize, 0),
			"%p, %p, %d, %zu", (void *)numBlocks, (void *)func, blockSize,
			dynamicSMemSize);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, CUfunction func,
							      int blockSize, size_t dynamicSMemSize,
							      unsigned int flags)
{
	return SIM_CALL(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, SIM_CTX | SIM_LOCK,
			max_blocks(call.ctx, numBlocks, func, blockSize, dynamicSMemSize, flags),
			"%p, %p, %d, %zu, %#x", (void *)numBlocks, (void *)func, blockSize,
			dynamicSMemSize, flags);
}

static CUresult shared_left(CUcontext ctx, size_t *ret, CUfunction handle, int blocks, int threads)
{
	CUfunction function;
	size_t used, room;
	CUresult r;

	if (!ret || blocks <= 0 || threads <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	r = function_get(ctx, handle, &function);
	if (r != CUDA_SUCCESS)
		return r;
	if ((unsigned)blocks > launch_blocks_per_sm(function, (unsigned)threads, 0))
		return CUDA_ERROR_INVALID_VALUE;
	used = SHARED_RESERVED + (function->entry ? function->entry->shared_bytes : 0);
	room = SHARED_PER_SM / (size_t)blocks;
	/* measured: what a block may have without asking bounds it, also after a function asked */
	*ret = size_min(room > used ? room - used : 0, STATIC_SHARED - (used - SHARED_RESERVED));
	return CUDA_SUCCESS;
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, CUfunction func,
						 int numBlocks, int blockSize)
{
	return SIM_CALL(cuOccupancyAvailableDynamicSMemPerBlock, SIM_CTX | SIM_LOCK,
			shared_left(call.ctx, dynamicSmemSize, func, numBlocks, blockSize),
			"%p, %p, %d, %d", (void *)dynamicSmemSize, (void *)func, numBlocks,
			blockSize);
}

/* the size that keeps most threads running; the largest of equals.  Called without the
 * lock, since the program's function is called in between. */
static CUresult best_block(CUcontext ctx, int *ret_grid, int *ret_block, CUfunction handle,
			   CUoccupancyB2DSize shared_of, size_t shared, int limit, unsigned flags)
{
	int most = 0, best = 0, best_blocks = 0;
	CUfunction function;
	CUresult r;

	if (!ret_grid || !ret_block || (flags & ~(unsigned)CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE))
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	r = function_get(ctx, handle, &function);
	most = r == CUDA_SUCCESS ? (int)function_max_threads(function->entry) : 0;
	sim_unlock();
	if (r != CUDA_SUCCESS)
		return r;
	if (limit > 0 && limit < most)
		most = limit;
	for (int threads = most; threads > 0; threads = (threads - 1) / 32 * 32) {
		size_t bytes = shared_of ? shared_of(threads) : shared;
		int blocks;

		sim_lock();
		r = function_get(ctx, handle, &function);
		blocks = r == CUDA_SUCCESS
				 ? (int)launch_blocks_per_sm(function, (unsigned)threads, bytes)
				 : 0;
		sim_unlock();
		if (r != CUDA_SUCCESS)
			return r;
		if (blocks * threads > best * best_blocks) {
			best = threads;
			best_blocks = blocks;
		}
	}
	*ret_block = best;
	*ret_grid = best_blocks * (int)ctx->device->info->sms;
	return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize, CUfunction func,
					  CUoccupancyB2DSize blockSizeToDynamicSMemSize,
					  size_t dynamicSMemSize, int blockSizeLimit)
{
	return SIM_CALL(cuOccupancyMaxPotentialBlockSize, SIM_CTX,
			best_block(call.ctx, minGridSize, blockSize, func,
				   blockSizeToDynamicSMemSize, dynamicSMemSize, blockSizeLimit, 0),
			"%p, %p, %p, %zu, %d", (void *)minGridSize, (void *)blockSize, (void *)func,
			dynamicSMemSize, blockSizeLimit);
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *minGridSize, int *blockSize,
						   CUfunction func,
						   CUoccupancyB2DSize blockSizeToDynamicSMemSize,
						   size_t dynamicSMemSize, int blockSizeLimit,
						   unsigned int flags)
{
	return SIM_CALL(cuOccupancyMaxPotentialBlockSizeWithFlags, SIM_CTX,
			best_block(call.ctx, minGridSize, blockSize, func,
				   blockSizeToDynamicSMemSize, dynamicSMemSize, blockSizeLimit,
				   flags),
			"%p, %p, %p, %zu, %d, %#x", (void *)minGridSize, (void *)blockSize,
			(void *)func, dynamicSMemSize, blockSizeLimit, flags);
}

static unsigned cluster_blocks(const CUlaunchConfig *config)
{
	for (unsigned i = 0; config->attrs && i < config->numAttrs; i++) {
		const CUlaunchAttribute *attr = &config->attrs[i];

		if (attr->id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
			return attr->value.clusterDim.x * attr->value.clusterDim.y *
			       attr->value.clusterDim.z;
	}
	return 1;
}

static CUresult max_clusters(CUcontext ctx, int *ret, CUfunction handle,
			     const CUlaunchConfig *config)
{
	CUfunction function;
	unsigned threads, blocks, size;
	CUresult r;

	if (!ret || !config)
		return CUDA_ERROR_INVALID_VALUE;
	r = function_get(ctx, handle, &function);
	if (r != CUDA_SUCCESS)
		return r;
	size = cluster_blocks(config);
	threads = config->blockDimX * config->blockDimY * config->blockDimZ;
	if (!size || !threads)
		return CUDA_ERROR_INVALID_VALUE;
	blocks = launch_blocks_per_sm(function, threads, config->sharedMemBytes);
	*ret = (int)(blocks * ctx->device->info->sms / size);
	return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveClusters(int *numClusters, CUfunction func,
				      const CUlaunchConfig *config)
{
	return SIM_CALL(cuOccupancyMaxActiveClusters, SIM_CTX | SIM_LOCK,
			max_clusters(call.ctx, numClusters, func, config), "%p, %p, %p",
			(void *)numClusters, (void *)func, (const void *)config);
}

static CUresult max_cluster_size(CUcontext ctx, int *ret, CUfunction handle,
				 const CUlaunchConfig *config)
{
	CUfunction function;
	CUresult r;

	if (!ret || !config)
		return CUDA_ERROR_INVALID_VALUE;
	r = function_get(ctx, handle, &function);
	if (r == CUDA_SUCCESS)
		*ret = function->attrs.non_portable_cluster ? 16 : 8;
	return r;
}

CUresult cuOccupancyMaxPotentialClusterSize(int *clusterSize, CUfunction func,
					    const CUlaunchConfig *config)
{
	return SIM_CALL(cuOccupancyMaxPotentialClusterSize, SIM_CTX | SIM_LOCK,
			max_cluster_size(call.ctx, clusterSize, func, config), "%p, %p, %p",
			(void *)clusterSize, (void *)func, (const void *)config);
}
