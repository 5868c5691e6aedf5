// SPDX-License-Identifier: Apache-2.0
/* What each thread has current, and the settings of the current context. */
#include "sim/cuda/context.h"
#include "sim/cuda/memory.h"

#define STACK_MAX        64
#define STACK_BYTES_MAX  ((size_t)512 << 10)
#define THREADS_PER_SM   2048
#define PRIORITY_LOWEST  0
#define PRIORITY_HIGHEST -5

/* the handle as the program gave it, and what that is: looked up once */
struct entry {
	CUcontext handle, ctx;
};

static _Thread_local struct {
	struct entry entries[STACK_MAX];
	unsigned depth;
} stack;

CUcontext sim_ctx_current(void)
{
	return stack.depth ? stack.entries[stack.depth - 1].ctx : NULL;
}

static CUcontext current_handle(void)
{
	return stack.depth ? stack.entries[stack.depth - 1].handle : NULL;
}

bool sim_ctx_stack_is_full(void)
{
	return stack.depth == STACK_MAX;
}

void sim_ctx_push(CUcontext handle)
{
	stack.entries[stack.depth++] = (struct entry){ handle, sim_ctx_lookup(handle) };
}

CUcontext sim_ctx_pop(void)
{
	return stack.depth ? stack.entries[--stack.depth].handle : NULL;
}

static CUresult push(CUcontext handle)
{
	if (!handle)
		return CUDA_ERROR_INVALID_VALUE;
	if (sim_ctx_stack_is_full())
		return CUDA_ERROR_OUT_OF_MEMORY;
	sim_ctx_push(handle);
	return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
	return SIM_CALL(cuCtxPushCurrent_v2, SIM_LOCK, push(ctx), "ctx=%p", (void *)ctx);
}

CUresult cuCtxPushCurrent(CUcontext ctx)
{
	return cuCtxPushCurrent_v2(ctx);
}

static CUresult pop(CUcontext *pctx)
{
	CUcontext handle = sim_ctx_pop();

	if (!handle)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (pctx)
		*pctx = handle;
	return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext *pctx)
{
	return SIM_CALL(cuCtxPopCurrent_v2, SIM_INIT, pop(pctx), "");
}

CUresult cuCtxPopCurrent(CUcontext *pctx)
{
	return cuCtxPopCurrent_v2(pctx);
}

static CUresult set_current(CUcontext handle)
{
	sim_ctx_pop();
	if (handle)
		sim_ctx_push(handle);
	return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext ctx)
{
	return SIM_CALL(cuCtxSetCurrent, SIM_LOCK, set_current(ctx), "ctx=%p", (void *)ctx);
}

CUresult cuCtxGetCurrent(CUcontext *pctx)
{
	return SIM_CALL(cuCtxGetCurrent, SIM_INIT,
			pctx ? (*pctx = current_handle(), CUDA_SUCCESS) : CUDA_ERROR_INVALID_VALUE,
			"");
}

static CUresult get_device(CUdevice *device, const struct CUctx_st *ctx)
{
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	*device = ctx->device->ordinal;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
	return SIM_CALL(cuCtxGetDevice, SIM_CTX | SIM_STALE, get_device(device, call.ctx), "");
}

static CUresult get_device_of(CUdevice *device, CUcontext ctx)
{
	CUresult result;

	if (!ctx)
		ctx = sim_ctx_current();
	result = ctx ? sim_ctx_check(ctx) : CUDA_ERROR_INVALID_CONTEXT;
	return result ? result : get_device(device, ctx);
}

CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx)
{
	return SIM_CALL(cuCtxGetDevice_v2, SIM_LOCK, get_device_of(device, ctx), "ctx=%p",
			(void *)ctx);
}

CUresult cuCtxGetFlags(unsigned int *flags)
{
	return SIM_CALL(cuCtxGetFlags, SIM_CTX | SIM_STALE,
			flags ? (*flags = call.ctx->flags, CUDA_SUCCESS) : CUDA_ERROR_INVALID_VALUE,
			"");
}

static void set_flags(CUcontext ctx, unsigned flags)
{
	ctx->flags = ctx->is_primary ? flags | CU_CTX_MAP_HOST : flags;
}

CUresult cuCtxSetFlags(unsigned int flags)
{
	return SIM_CALL(cuCtxSetFlags, SIM_CTX | SIM_LOCK,
			flags & ~(unsigned)CU_CTX_FLAGS_MASK
				? CUDA_ERROR_INVALID_VALUE
				: (set_flags(call.ctx, flags), CUDA_SUCCESS),
			"flags=%u", flags);
}

static CUresult get_id(CUcontext ctx, unsigned long long *id)
{
	CUresult result;

	if (!id)
		return CUDA_ERROR_INVALID_VALUE;
	if (!ctx)
		ctx = sim_ctx_current();
	result = ctx ? sim_ctx_check(ctx) : CUDA_ERROR_INVALID_CONTEXT;
	if (!result)
		*id = ctx->id;
	return result;
}

CUresult cuCtxGetId(CUcontext ctx, unsigned long long *ctxId)
{
	return SIM_CALL(cuCtxGetId, SIM_LOCK, get_id(ctx, ctxId), "ctx=%p", (void *)ctx);
}

static CUresult get_api_version(CUcontext ctx, unsigned *version)
{
	CUresult result;

	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	if (!ctx)
		ctx = sim_ctx_current();
	result = ctx ? sim_ctx_check(ctx) : CUDA_ERROR_INVALID_CONTEXT;
	if (!result)
		*version = ctx->api_version;
	return result;
}

CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned int *version)
{
	return SIM_CALL(cuCtxGetApiVersion, SIM_LOCK, get_api_version(ctx, version), "ctx=%p",
			(void *)ctx);
}

/* Limits and preferences. */

static bool has_limit(const struct CUctx_st *ctx, CUlimit limit)
{
	if (limit == CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH)
		return ctx->device->info->cc_major < 9;
	return limit <= CU_LIMIT_CIG_ENABLED;
}

static CUresult get_limit(const struct CUctx_st *ctx, size_t *value, CUlimit limit)
{
	if (!value || (int)limit < 0 || limit >= CU_LIMIT_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (!has_limit(ctx, limit))
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	*value = ctx->limits[limit];
	return CUDA_SUCCESS;
}

CUresult cuCtxGetLimit(size_t *pvalue, CUlimit limit)
{
	return SIM_CALL(cuCtxGetLimit, SIM_CTX | SIM_LOCK, get_limit(call.ctx, pvalue, limit),
			"limit=%d", (int)limit);
}

/* the driver keeps a stack for each thread that can run at once, and takes it within the call */
static CUresult resize_stacks(CUcontext ctx, size_t value)
{
	uint64_t threads = (uint64_t)ctx->device->info->sms * THREADS_PER_SM;
	uint64_t bytes = size_sat_sub(value, SIM_STACK_BYTES) * threads;

	bytes = size_round_up(bytes, SIM_PAGE_BYTES);
	if (bytes > ctx->stack_bytes &&
	    sim_charge(ctx->device, SIM_USE_CONTEXT, bytes - ctx->stack_bytes) != CUDA_SUCCESS)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (bytes < ctx->stack_bytes)
		sim_uncharge(ctx->device, SIM_USE_CONTEXT, ctx->stack_bytes - bytes);
	ctx->stack_bytes = bytes;
	return CUDA_SUCCESS;
}

static CUresult set_limit(CUcontext ctx, CUlimit limit, size_t value)
{
	if ((int)limit < 0 || limit >= CU_LIMIT_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (!has_limit(ctx, limit))
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	if (limit == CU_LIMIT_STACK_SIZE && value > STACK_BYTES_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (limit == CU_LIMIT_STACK_SIZE)
		value = size_round_up(value, 16);
	if (limit == CU_LIMIT_STACK_SIZE) {
		CUresult r = resize_stacks(ctx, value);

		if (r != CUDA_SUCCESS)
			return r;
	}
	ctx->limits[limit] = value;
	return CUDA_SUCCESS;
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
	return SIM_CALL(cuCtxSetLimit, SIM_CTX | SIM_LOCK, set_limit(call.ctx, limit, value),
			"limit=%d value=%zu", (int)limit, value);
}

CUresult cuCtxGetCacheConfig(CUfunc_cache *pconfig)
{
	return SIM_CALL(cuCtxGetCacheConfig, SIM_CTX,
			pconfig ? (*pconfig = call.ctx->cache, CUDA_SUCCESS)
				: CUDA_ERROR_INVALID_VALUE,
			"");
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config)
{
	return SIM_CALL(cuCtxSetCacheConfig, SIM_CTX | SIM_LOCK,
			(unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL
				? CUDA_ERROR_INVALID_VALUE
				: (call.ctx->cache = config, CUDA_SUCCESS),
			"config=%d", (int)config);
}

CUresult cuCtxGetSharedMemConfig(CUsharedconfig *pConfig)
{
	return SIM_CALL(cuCtxGetSharedMemConfig, SIM_CTX,
			pConfig ? (*pConfig = call.ctx->shared_config, CUDA_SUCCESS)
				: CUDA_ERROR_INVALID_VALUE,
			"");
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config)
{
	/* accepted and without effect since Maxwell */
	return SIM_CALL(cuCtxSetSharedMemConfig, SIM_CTX,
			(unsigned)config > 2 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS, "config=%d",
			(int)config);
}

static CUresult priority_range(int *least, int *greatest)
{
	if (least)
		*least = PRIORITY_LOWEST;
	if (greatest)
		*greatest = PRIORITY_HIGHEST;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
	return SIM_CALL(cuCtxGetStreamPriorityRange, SIM_CTX,
			priority_range(leastPriority, greatestPriority), "");
}

static CUresult get_exec_affinity(const struct CUctx_st *ctx, CUexecAffinityParam *affinity,
				  CUexecAffinityType type)
{
	if (!affinity || type != CU_EXEC_AFFINITY_TYPE_SM_COUNT)
		return CUDA_ERROR_INVALID_VALUE;
	affinity->type = type;
	affinity->param.smCount.val = ctx->device->info->sms;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetExecAffinity(CUexecAffinityParam *pExecAffinity, CUexecAffinityType type)
{
	return SIM_CALL(cuCtxGetExecAffinity, SIM_CTX,
			get_exec_affinity(call.ctx, pExecAffinity, type), "type=%d", (int)type);
}

CUresult cuCtxResetPersistingL2Cache(void)
{
	return SIM_CALL(cuCtxResetPersistingL2Cache, SIM_CTX, CUDA_SUCCESS, "");
}

/* Waiting. */

static CUresult synchronize(CUcontext ctx)
{
	CUresult result = sim_exec_ctx_may_sync(ctx);

	if (!result)
		result = sim_exec_ctx_sync(ctx);
	if (!result)
		sim_pool_sync_point(ctx->device);
	return result;
}

CUresult cuCtxSynchronize(void)
{
	return SIM_CALL(cuCtxSynchronize, SIM_CTX | SIM_LOCK, synchronize(call.ctx), "");
}

static CUresult synchronize_other(CUcontext ctx)
{
	CUresult result;

	if (!ctx)
		ctx = sim_ctx_current();
	result = ctx ? sim_ctx_check(ctx) : CUDA_ERROR_INVALID_CONTEXT;
	return result ? result : synchronize(ctx);
}

CUresult cuCtxSynchronize_v2(CUcontext ctx)
{
	return SIM_CALL(cuCtxSynchronize_v2, SIM_LOCK, synchronize_other(ctx), "ctx=%p",
			(void *)ctx);
}
