// SPDX-License-Identifier: Apache-2.0
/*
 * The life of contexts: made, ended, and the primary one of each device, whose handle stays the
 * same over all its lives. What a thread has current: current.c.
 */
#include "sim/cuda/context.h"

#include <stdlib.h>
#include <time.h>

#include "sim/cuda/memory.h"

#define FLAGS_VALID   ((unsigned)CU_CTX_FLAGS_MASK)
#define API_VERSION   3020
#define PRINTF_BYTES  ((size_t)8650752)
#define HEAP_BYTES    ((size_t)8 << 20)
#define PENDING_COUNT 2048
#define L2_BYTES      11796480
#define SHMEM_BYTES   232448

static CUcontext known; /* every context ever made, by next_known */
static unsigned long long last_id;

static void set_defaults(CUcontext ctx, unsigned flags)
{
	static const size_t limits[SIM_LIMITS_MAX] = {
		[CU_LIMIT_STACK_SIZE] = SIM_STACK_BYTES,
		[CU_LIMIT_PRINTF_FIFO_SIZE] = PRINTF_BYTES,
		[CU_LIMIT_MALLOC_HEAP_SIZE] = HEAP_BYTES,
		[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2,
		[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = PENDING_COUNT,
		[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64,
		[CU_LIMIT_PERSISTING_L2_CACHE_SIZE] = L2_BYTES,
		[CU_LIMIT_SHMEM_SIZE] = SHMEM_BYTES,
	};

	for (int i = 0; i < SIM_LIMITS_MAX; i++)
		ctx->limits[i] = limits[i];
	ctx->flags = ctx->is_primary ? flags | CU_CTX_MAP_HOST : flags;
	ctx->stack_bytes = 0;
	ctx->api_version = API_VERSION;
	ctx->attach_count = 1;
	ctx->id = ++last_id;
	ctx->sticky = CUDA_SUCCESS;
	ctx->cache = CU_FUNC_CACHE_PREFER_NONE;
	ctx->shared_config = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
	list_init(&ctx->peers);
	ctx->is_destroyed = false;
	list_init(&ctx->allocs);
	list_init(&ctx->arrays);
}

static CUcontext new_object(struct sim_device *device)
{
	CUcontext ctx = calloc(1, sizeof(*ctx));

	if (!ctx)
		return NULL;
	ctx->magic = SIM_CTX_MAGIC;
	ctx->device = device;
	ctx->is_destroyed = true;
	ctx->next_known = known;
	known = ctx;
	return ctx;
}

static CUresult begin(CUcontext ctx, unsigned flags)
{
	struct sim_device *device = ctx->device;
	CUresult result = sim_charge(device, SIM_USE_CONTEXT, device->info->context_bytes);

	if (result)
		return result;
	set_defaults(ctx, flags);
	result = sim_exec_ctx_init(ctx);
	if (result) {
		ctx->is_destroyed = true;
		sim_uncharge(device, SIM_USE_CONTEXT, device->info->context_bytes);
		return result;
	}
	list_append(&device->contexts, &ctx->node);
	sim_state_count_context(sim.state, device->index, 1);
	return CUDA_SUCCESS;
}

static void end(CUcontext ctx)
{
	struct sim_device *device = ctx->device;

	sim_exec_ctx_fini(ctx);
	sim_ctx_free_allocs(ctx);
	sim_ctx_free_arrays(ctx);
	sim_peers_end(ctx);
	ctx->is_destroyed = true;
	list_del(&ctx->node);
	sim_uncharge(device, SIM_USE_CONTEXT, device->info->context_bytes + ctx->stack_bytes);
	sim_state_count_context(sim.state, device->index, -1);
	if (list_is_empty(&device->contexts))
		sim_pools_trim(device);
}

CUcontext sim_ctx_lookup(CUcontext handle)
{
	static struct CUctx_st never = { .is_destroyed = true };
	CUcontext it = known;

	while (it && it != handle)
		it = it->next_known;
	return it ? it : &never;
}

CUresult sim_ctx_check(CUcontext handle)
{
	CUcontext ctx = sim_ctx_lookup(handle);

	if (!ctx->is_destroyed)
		return CUDA_SUCCESS;
	return ctx->is_primary ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_ERROR_INVALID_CONTEXT;
}

void sim_ctx_fail(CUresult error)
{
	for (CUcontext it = known; it; it = it->next_known) {
		if (!it->is_destroyed && !it->sticky)
			it->sticky = error;
	}
}

/* Making one takes its time, during which other threads go on. */
static void spend_time(const struct sim_device *device)
{
	uint64_t ns = device->info->context_ns;
	struct timespec time = { (time_t)(ns / 1000000000), (long)(ns % 1000000000) };

	sim_unlock();
	nanosleep(&time, NULL);
	sim_lock();
}

/* Created contexts. */

static bool flags_are_valid(unsigned flags)
{
	unsigned sched = flags & CU_CTX_SCHED_MASK;

	return !(flags & ~FLAGS_VALID) && (!sched || !(sched & (sched - 1)));
}

static CUresult create(CUcontext *pctx, unsigned flags, CUdevice dev)
{
	struct sim_device *device = sim_device(dev);
	CUcontext ctx;
	CUresult result;

	if (!pctx || !flags_are_valid(flags))
		return CUDA_ERROR_INVALID_VALUE;
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (sim_ctx_stack_is_full())
		return CUDA_ERROR_OUT_OF_MEMORY;
	spend_time(device);
	ctx = new_object(device);
	if (!ctx)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = begin(ctx, flags);
	if (result)
		return result;
	sim_ctx_push(ctx);
	*pctx = ctx;
	return CUDA_SUCCESS;
}

/* contexts with 32-bit addresses: no card of today has room below 4 GiB */
CUresult cuCtxCreate(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
	return SIM_CALL(cuCtxCreate, SIM_INIT,
			pctx ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE,
			"flags=%u dev=%d", flags, dev);
}

CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
	return SIM_CALL(cuCtxCreate_v2, SIM_LOCK, create(pctx, flags, dev), "flags=%u dev=%d",
			flags, dev);
}

static CUresult create_v3(CUcontext *pctx, const CUexecAffinityParam *params, int count,
			  unsigned flags, CUdevice dev)
{
	if (count < 0 || (count && !params))
		return CUDA_ERROR_INVALID_VALUE;
	/* an affinity needs MPS */
	if (count)
		return sim_device(dev) ? CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY
				       : CUDA_ERROR_INVALID_DEVICE;
	return create(pctx, flags, dev);
}

CUresult cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams,
			unsigned int flags, CUdevice dev)
{
	return SIM_CALL(cuCtxCreate_v3, SIM_LOCK,
			create_v3(pctx, paramsArray, numParams, flags, dev),
			"params=%d flags=%u dev=%d", numParams, flags, dev);
}

static CUresult create_v4(CUcontext *pctx, const CUctxCreateParams *params, unsigned flags,
			  CUdevice dev)
{
	if (!params)
		return create(pctx, flags, dev);
	/* sharing with a graphics API is Windows' */
	if (params->cigParams)
		return CUDA_ERROR_NOT_SUPPORTED;
	return create_v3(pctx, params->execAffinityParams, params->numExecAffinityParams, flags,
			 dev);
}

CUresult cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags,
			CUdevice dev)
{
	return SIM_CALL(cuCtxCreate_v4, SIM_LOCK, create_v4(pctx, ctxCreateParams, flags, dev),
			"flags=%u dev=%d", flags, dev);
}

static CUresult destroy(CUcontext ctx)
{
	/* a handle that never was one looks to the driver like one whose end is told already */
	if (sim_ctx_lookup(ctx) != ctx)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	if (ctx->is_primary || ctx->is_destroyed)
		return CUDA_ERROR_INVALID_CONTEXT;
	end(ctx);
	if (sim_ctx_current() == ctx)
		sim_ctx_pop();
	return CUDA_SUCCESS;
}

CUresult cuCtxDestroy_v2(CUcontext ctx)
{
	if (!ctx) /* told before anything else, cuInit included */
		return CUDA_ERROR_INVALID_VALUE;
	return SIM_CALL(cuCtxDestroy_v2, SIM_LOCK, destroy(ctx), "ctx=%p", (void *)ctx);
}

CUresult cuCtxDestroy(CUcontext ctx)
{
	return cuCtxDestroy_v2(ctx);
}

static CUresult attach(CUcontext *pctx, unsigned flags, CUcontext ctx)
{
	if (!pctx || flags)
		return CUDA_ERROR_INVALID_VALUE;
	ctx->attach_count++;
	*pctx = ctx;
	return CUDA_SUCCESS;
}

CUresult cuCtxAttach(CUcontext *pctx, unsigned int flags)
{
	return SIM_CALL(cuCtxAttach, SIM_CTX | SIM_LOCK, attach(pctx, flags, call.ctx), "flags=%u",
			flags);
}

static CUresult detach(CUcontext ctx)
{
	if (!ctx || ctx != sim_ctx_current())
		return CUDA_ERROR_INVALID_CONTEXT;
	if (--ctx->attach_count)
		return CUDA_SUCCESS;
	return destroy(ctx);
}

CUresult cuCtxDetach(CUcontext ctx)
{
	return SIM_CALL(cuCtxDetach, SIM_CTX | SIM_LOCK, detach(ctx), "ctx=%p", (void *)ctx);
}

/* Primary contexts. */

static bool is_active(const struct sim_device *device)
{
	return device->primary && !device->primary->is_destroyed;
}

static CUresult retain(CUcontext *pctx, struct sim_device *device)
{
	CUresult result = CUDA_SUCCESS;

	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!is_active(device))
		spend_time(device);
	if (!device->primary) {
		device->primary = new_object(device);
		if (!device->primary)
			return CUDA_ERROR_OUT_OF_MEMORY;
		device->primary->is_primary = true;
	}
	if (!is_active(device))
		result = begin(device->primary, device->primary_flags);
	if (result)
		return result;
	device->primary_refs++;
	*pctx = device->primary;
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
	return SIM_CALL(cuDevicePrimaryCtxRetain, SIM_LOCK, retain(pctx, sim_device(dev)), "dev=%d",
			dev);
}

static CUresult release(struct sim_device *device)
{
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!device->primary_refs)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!--device->primary_refs && is_active(device)) {
		end(device->primary);
		device->primary_flags = 0;
	}
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
	return SIM_CALL(cuDevicePrimaryCtxRelease_v2, SIM_LOCK, release(sim_device(dev)), "dev=%d",
			dev);
}

CUresult cuDevicePrimaryCtxRelease(CUdevice dev)
{
	return cuDevicePrimaryCtxRelease_v2(dev);
}

static CUresult reset(struct sim_device *device)
{
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (is_active(device))
		end(device->primary);
	device->primary_flags = 0;
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
	return SIM_CALL(cuDevicePrimaryCtxReset_v2, SIM_LOCK, reset(sim_device(dev)), "dev=%d",
			dev);
}

CUresult cuDevicePrimaryCtxReset(CUdevice dev)
{
	return cuDevicePrimaryCtxReset_v2(dev);
}

static CUresult set_flags(struct sim_device *device, unsigned flags)
{
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!flags_are_valid(flags))
		return CUDA_ERROR_INVALID_VALUE;
	device->primary_flags = flags;
	if (is_active(device))
		device->primary->flags = flags | CU_CTX_MAP_HOST;
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)
{
	return SIM_CALL(cuDevicePrimaryCtxSetFlags_v2, SIM_LOCK, set_flags(sim_device(dev), flags),
			"dev=%d flags=%u", dev, flags);
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags)
{
	return cuDevicePrimaryCtxSetFlags_v2(dev, flags);
}

static CUresult get_state(const struct sim_device *device, unsigned *flags, int *active)
{
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!flags || !active)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = device->primary_flags;
	*active = is_active(device);
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
	return SIM_CALL(cuDevicePrimaryCtxGetState, SIM_LOCK,
			get_state(sim_device(dev), flags, active), "dev=%d", dev);
}
