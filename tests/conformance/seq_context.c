// SPDX-License-Identifier: Apache-2.0
/* Contexts: creation, the stack of each thread, the primary context's references. */
#include "conform.h"

#include <string.h>

static void create_v2(void)
{
	POISONED(CUcontext, ctx);
	POISONED(CUcontext, current);
	POISONED_INT(dev);
	POISONED_UINT(flags);
	POISONED_UINT(version);
	CALL(cuCtxCreate_v2, &ctx, CU_CTX_SCHED_YIELD, 0);
	NEWHANDLE(ctx);
	CALL(cuCtxGetCurrent, &current);
	HANDLE(current);
	CALL(cuCtxGetDevice, &dev);
	INT(dev);
	CALL(cuCtxGetFlags, &flags);
	HEX(flags);
	CALL(cuCtxGetApiVersion, ctx, &version);
	INT(version);
	CALL(cuCtxDestroy_v2, ctx);
	CALL(cuCtxGetCurrent, &current);
	HANDLE(current);
}

static void create_v3(void)
{
	POISONED(CUcontext, ctx);
	POISONED_UINT(version);
	CUexecAffinityParam affinity = { .type = CU_EXEC_AFFINITY_TYPE_SM_COUNT };
	affinity.param.smCount.val = 8;
	CALL(cuCtxCreate_v3, &ctx, NULL, 0, 0, 0);
	NEWHANDLE(ctx);
	CALL(cuCtxGetApiVersion, ctx, &version);
	INT(version);
	CALL(cuCtxDestroy_v2, ctx);
	ctx = (CUcontext)(uintptr_t)POISON_64;
	CALL(cuCtxCreate_v3, &ctx, &affinity, 1, 0, 0);
	HANDLE(ctx);
}

static void create_v4(void)
{
	POISONED(CUcontext, ctx);
	POISONED_UINT(version);
	CUctxCreateParams params = { 0 };
	CALL(cuCtxCreate_v4, &ctx, NULL, 0, 0);
	NEWHANDLE(ctx);
	CALL(cuCtxGetApiVersion, ctx, &version);
	INT(version);
	CALL(cuCtxDestroy_v2, ctx);
	CALL(cuCtxCreate_v4, &ctx, &params, 0, 0);
	NEWHANDLE(ctx);
	CALL(cuCtxDestroy_v2, ctx);
}

static void create_errors(void)
{
	POISONED(CUcontext, ctx);
	CALL(cuCtxCreate_v2, NULL, 0, 0);
	CALL(cuCtxCreate_v2, &ctx, 0, -1);
	HANDLE(ctx);
	CALL(cuCtxCreate_v2, &ctx, 0, 4096);
	HANDLE(ctx);
	CALL(cuCtxCreate_v2, &ctx, 7, 0);
	HANDLE(ctx);
	CALL(cuCtxCreate_v2, &ctx, 0xffffffffu, 0);
	HANDLE(ctx);
	CALL(cuCtxCreate_v2, &ctx, 0x100, 0);
	HANDLE(ctx);
	CALL(cuCtxCreate_v4, NULL, NULL, 0, 0);
	CALL(cuCtxCreate_v4, &ctx, NULL, 0, -1);
	HANDLE(ctx);
	CALL(cuCtxCreate_v3, NULL, NULL, 0, 0, 0);
}

static void no_current(void)
{
	POISONED(CUcontext, ctx);
	POISONED_INT(dev);
	POISONED_UINT(flags);
	CALL(cuCtxSetCurrent, NULL);
	CALL(cuCtxGetCurrent, &ctx);
	HANDLE(ctx);
	CALL(cuCtxGetDevice, &dev);
	INT(dev);
	CALL(cuCtxGetFlags, &flags);
	CALL(cuCtxSynchronize);
	CALL(cuCtxPopCurrent_v2, &ctx);
	HANDLE(ctx);
	CALL(cuCtxGetApiVersion, NULL, &flags);
	CALL(cuCtxGetCurrent, NULL);
}

static void push_pop(void)
{
	POISONED(CUcontext, a);
	POISONED(CUcontext, popped);
	POISONED(CUcontext, current);
	CALL(cuCtxCreate_v2, &a, 0, 0);
	NEWHANDLE(a);
	CALL(cuCtxPushCurrent_v2, conf_ctx);
	CALL(cuCtxPushCurrent_v2, a);
	CALL(cuCtxPushCurrent_v2, a);
	CALL(cuCtxPopCurrent_v2, &popped);
	YES(popped == a);
	CALL(cuCtxPopCurrent_v2, &popped);
	YES(popped == a);
	CALL(cuCtxPopCurrent_v2, &popped);
	YES(popped == conf_ctx);
	CALL(cuCtxGetCurrent, &current);
	YES(current == a);
	CALL(cuCtxPopCurrent_v2, NULL);
	CALL(cuCtxGetCurrent, &current);
	YES(current == conf_ctx);
	CALL(cuCtxPushCurrent_v2, NULL);
	CALL(cuCtxDestroy_v2, a);
	CALL(cuCtxPopCurrent_v2, &popped);
	YES(popped == conf_ctx);
	CALL(cuCtxPopCurrent_v2, &popped);
}

static void set_current(void)
{
	POISONED(CUcontext, a);
	POISONED(CUcontext, current);
	CALL(cuCtxCreate_v2, &a, 0, 0);
	CALL(cuCtxSetCurrent, conf_ctx);
	CALL(cuCtxGetCurrent, &current);
	YES(current == conf_ctx);
	CALL(cuCtxSetCurrent, NULL);
	CALL(cuCtxGetCurrent, &current);
	YES(current == NULL);
	YES(current == conf_ctx);
	CALL(cuCtxSetCurrent, NULL);
	CALL(cuCtxGetCurrent, &current);
	YES(current == NULL);
	CALL(cuCtxDestroy_v2, a);
}

static void destroy_not_current(void)
{
	POISONED(CUcontext, a);
	POISONED(CUcontext, current);
	CALL(cuCtxCreate_v2, &a, 0, 0);
	CALL(cuCtxPopCurrent_v2, NULL);
	CALL(cuCtxGetCurrent, &current);
	YES(current == conf_ctx);
	CALL(cuCtxDestroy_v2, a);
	CALL(cuCtxGetCurrent, &current);
	YES(current == conf_ctx);
	CALL(cuCtxDestroy_v2, NULL);
}

static void destroy_buried(void)
{
	POISONED(CUcontext, a);
	POISONED(CUcontext, current);
	POISONED_PTR(p);
	CALL(cuCtxCreate_v2, &a, 0, 0);
	NEWHANDLE(a);
	CALL(cuCtxPushCurrent_v2, conf_ctx);
	CALL(cuCtxDestroy_v2, a);
	CALL(cuCtxPopCurrent_v2, &current);
	YES(current == conf_ctx);
	CALL(cuCtxGetCurrent, &current);
	YES(current == a);
	YES(current == conf_ctx);
	CALL(cuMemAlloc_v2, &p, 4096);
	PTR(p);
	CALL(cuCtxSynchronize);
	CALL(cuCtxPopCurrent_v2, &current);
}

static void destroyed_use(void)
{
	POISONED(CUcontext, a);
	POISONED_UINT(version);
	CALL(cuCtxCreate_v2, &a, 0, 0);
	CALL(cuCtxDestroy_v2, a);
	CALL(cuCtxGetApiVersion, a, &version);
	INT(version);
	CALL(cuCtxSetCurrent, a);
	CALL(cuCtxPushCurrent_v2, a);
	CALL(cuCtxDestroy_v2, a);
}

static void destroy_primary(void)
{
	CALL(cuCtxDestroy_v2, conf_ctx);
	POISONED(CUcontext, current);
	CALL(cuCtxGetCurrent, &current);
	YES(current == conf_ctx);
	POISONED_PTR(p);
	CALL(cuMemAlloc_v2, &p, 4096);
	CALL(cuMemFree_v2, p);
}

static void destroy_frees(void)
{
	POISONED(CUcontext, a);
	POISONED_PTR(p);
	POISONED_PTR(base);
	POISONED_SIZE(size);
	CALL(cuCtxCreate_v2, &a, 0, 0);
	CALL(cuMemAlloc_v2, &p, 4 * MIB);
	NEWPTR(p, 4 * MIB);
	CALL(cuCtxDestroy_v2, a);
	CALL(cuCtxSetCurrent, conf_ctx);
	CALL(cuMemGetAddressRange_v2, &base, &size, p);
	CALL(cuMemFree_v2, p);
}

static void thread_currency(void *arg)
{
	CUcontext ctx = (CUcontext)(uintptr_t)POISON_64;
	POISONED_PTR(p);
	(void)arg;
	CALL(cuCtxGetCurrent, &ctx);
	HANDLE(ctx);
	CALL(cuMemAlloc_v2, &p, 4096);
	CALL(cuCtxSetCurrent, conf_ctx);
	CALL(cuMemAlloc_v2, &p, 4096);
	NEWPTR(p, 4096);
	CALL(cuMemFree_v2, p);
	CALL(cuCtxPushCurrent_v2, conf_ctx);
}

static void per_thread(void)
{
	POISONED(CUcontext, ctx);
	on_thread(thread_currency, NULL);
	CALL(cuCtxGetCurrent, &ctx);
	YES(ctx == conf_ctx);
	on_thread(thread_currency, NULL);
}

static void ctx_id(void)
{
	unsigned long long a = POISON_64, b = POISON_64;
	CALL(cuCtxGetId, conf_ctx, &a);
	CALL(cuCtxGetId, NULL, &b);
	YES(a == b);
	CALL(cuCtxGetId, conf_ctx, NULL);
}

static void ctx_flags(void)
{
	POISONED_UINT(flags);
	CALL(cuCtxGetFlags, &flags);
	HEX(flags);
	CALL(cuCtxGetFlags, NULL);
	CALL(cuCtxSetFlags, CU_CTX_SYNC_MEMOPS);
	CALL(cuCtxGetFlags, &flags);
	HEX(flags);
	CALL(cuCtxSetFlags, 0xffff);
	CALL(cuCtxSetFlags, 0);
	CALL(cuCtxGetFlags, &flags);
	HEX(flags);
	CALL(cuCtxSetFlags, CU_CTX_SCHED_BLOCKING_SYNC);
	CALL(cuCtxGetFlags, &flags);
	HEX(flags);
	CALL(cuCtxSetFlags, 0);
}

static void device_of(void)
{
	POISONED_INT(dev);
	CALL(cuCtxGetDevice_v2, &dev, conf_ctx);
	INT(dev);
	dev = POISON_32;
	CALL(cuCtxGetDevice_v2, &dev, NULL);
	INT(dev);
	CALL(cuCtxGetDevice_v2, NULL, conf_ctx);
	CALL(cuCtxGetDevice, NULL);
	CALL(cuCtxSynchronize_v2, conf_ctx);
	CALL(cuCtxSynchronize_v2, NULL);
}

static void peer_self(void)
{
	CALL(cuCtxEnablePeerAccess, conf_ctx, 0);
	CALL(cuCtxEnablePeerAccess, NULL, 0);
	CALL(cuCtxDisablePeerAccess, conf_ctx);
	CALL(cuCtxDisablePeerAccess, NULL);
}

static void attach_detach(void)
{
	POISONED(CUcontext, ctx);
	CALL(cuCtxAttach, &ctx, 0);
	HANDLE(ctx);
	CALL(cuCtxDetach, conf_ctx);
	CALL(cuCtxAttach, NULL, 0);
	CALL(cuCtxAttach, &ctx, 1);
}

static void attach_own(void)
{
	POISONED(CUcontext, a);
	POISONED(CUcontext, attached);
	CALL(cuCtxCreate_v2, &a, 0, 0);
	CALL(cuCtxAttach, &attached, 0);
	YES(attached == a);
	CALL(cuCtxDetach, a);
	CALL(cuCtxSynchronize);
	CALL(cuCtxDetach, a);
	CALL(cuCtxSynchronize);
}

static void primary_counts(void)
{
	POISONED(CUcontext, a);
	POISONED(CUcontext, b);
	POISONED(CUcontext, current);
	POISONED_UINT(flags);
	POISONED_INT(active);
	CALL(cuDevicePrimaryCtxRetain, &a, 0);
	NEWHANDLE(a);
	CALL(cuCtxGetCurrent, &current);
	HANDLE(current);
	CALL(cuDevicePrimaryCtxRetain, &b, 0);
	HANDLE(b);
	CALL(cuDevicePrimaryCtxGetState, 0, &flags, &active);
	INT(flags);
	INT(active);
	CALL(cuDevicePrimaryCtxRelease_v2, 0);
	CALL(cuDevicePrimaryCtxGetState, 0, &flags, &active);
	INT(active);
	CALL(cuDevicePrimaryCtxRelease_v2, 0);
	CALL(cuDevicePrimaryCtxGetState, 0, &flags, &active);
	INT(active);
	CALL(cuDevicePrimaryCtxRelease_v2, 0);
	CALL(cuDevicePrimaryCtxRetain, NULL, 0);
	CALL(cuDevicePrimaryCtxRetain, &b, -1);
	CALL(cuDevicePrimaryCtxRetain, &b, 4096);
	CALL(cuDevicePrimaryCtxGetState, 0, &flags, &active);
	INT(active);
}

static void primary_released_use(void)
{
	POISONED(CUcontext, a);
	POISONED(CUcontext, b);
	POISONED(CUcontext, current);
	POISONED_PTR(p);
	CALL(cuDevicePrimaryCtxRetain, &a, 0);
	NEWHANDLE(a);
	CALL(cuCtxSetCurrent, a);
	CALL(cuMemAlloc_v2, &p, 4096);
	CALL(cuDevicePrimaryCtxRelease_v2, 0);
	CALL(cuCtxGetCurrent, &current);
	HANDLE(current);
	CALL(cuMemFree_v2, p);
	CALL(cuMemAlloc_v2, &p, 4096);
	CALL(cuCtxSynchronize);
	CALL(cuCtxSetCurrent, a);
	CALL(cuDevicePrimaryCtxRetain, &b, 0);
	YES(a == b);
	CALL(cuCtxSynchronize);
	CALL(cuCtxSetCurrent, b);
	CALL(cuMemAlloc_v2, &p, 4096);
	CALL(cuMemFree_v2, p);
	CALL(cuDevicePrimaryCtxRelease_v2, 0);
	CALL(cuCtxSetCurrent, NULL);
}

static void primary_reset(void)
{
	POISONED(CUcontext, a);
	POISONED_PTR(p);
	POISONED_PTR(q);
	POISONED_UINT(flags);
	POISONED_INT(active);
	CALL(cuDevicePrimaryCtxRetain, &a, 0);
	CALL(cuCtxSetCurrent, a);
	CALL(cuMemAlloc_v2, &p, 4096);
	CALL(cuDevicePrimaryCtxReset_v2, 0);
	CALL(cuDevicePrimaryCtxGetState, 0, &flags, &active);
	INT(active);
	CALL(cuMemFree_v2, p);
	CALL(cuMemAlloc_v2, &q, 4096);
	CALL(cuCtxSynchronize);
	CALL(cuDevicePrimaryCtxRelease_v2, 0);
	CALL(cuDevicePrimaryCtxRelease_v2, 0);
	CALL(cuDevicePrimaryCtxReset_v2, -1);
	CALL(cuCtxSetCurrent, NULL);
}

static void primary_flags(void)
{
	POISONED(CUcontext, a);
	POISONED_UINT(flags);
	POISONED_INT(active);
	CALL(cuDevicePrimaryCtxSetFlags_v2, 0, CU_CTX_SCHED_BLOCKING_SYNC);
	CALL(cuDevicePrimaryCtxRetain, &a, 0);
	CALL(cuDevicePrimaryCtxGetState, 0, &flags, &active);
	HEX(flags);
	CALL(cuDevicePrimaryCtxSetFlags_v2, 0, CU_CTX_SCHED_SPIN);
	CALL(cuDevicePrimaryCtxGetState, 0, &flags, &active);
	HEX(flags);
	CALL(cuCtxSetCurrent, a);
	CALL(cuCtxGetFlags, &flags);
	HEX(flags);
	CALL(cuDevicePrimaryCtxRelease_v2, 0);
	CALL(cuDevicePrimaryCtxGetState, 0, &flags, &active);
	HEX(flags);
	INT(active);
	CALL(cuCtxSetCurrent, NULL);
}

static void card_growth(void)
{
	POISONED(CUcontext, a);
	POISONED(CUcontext, b);
	mem_mark();
	CALL(cuCtxCreate_v2, &a, 0, 0);
	mem_delta("a second context");
	CALL(cuCtxCreate_v2, &b, 0, 0);
	mem_delta("a third");
	CALL(cuCtxDestroy_v2, b);
	CALL(cuCtxDestroy_v2, a);
	CALL(cuCtxSetCurrent, conf_ctx);
	mem_delta("both destroyed");
}

static void garbage(void)
{
	static uint64_t not_a_context[64];
	POISONED_UINT(version);
	CALL(cuCtxGetApiVersion, (CUcontext)not_a_context, &version);
	CALL(cuCtxSetCurrent, (CUcontext)not_a_context);
	CALL(cuCtxPushCurrent_v2, (CUcontext)not_a_context);
	CALL(cuCtxDestroy_v2, (CUcontext)not_a_context);
}

FAMILY(context, { "context.primary", "context.primary-counts", INIT, primary_counts },
       { "context.primary", "context.primary-released-use", INIT, primary_released_use },
       { "context.primary", "context.primary-reset", INIT, primary_reset },
       { "context.primary", "context.primary-flags", INIT, primary_flags },
       { "context", "context.create-errors", CTX, create_errors },
       { "context", "context.no-current", CTX, no_current },
       { "context", "context.per-thread", CTX, per_thread },
       { "context", "context.id", CTX, ctx_id }, { "context", "context.flags", CTX, ctx_flags },
       { "context", "context.device-of", CTX, device_of },
       { "context", "context.peer-self", CTX, peer_self },
       { "context", "context.attach-detach", CTX, attach_detach },
       { "context", "context.destroy-primary", CTX, destroy_primary },
       { "context.more", "context.create-v2", INIT, create_v2 },
       { "context.more", "context.create-v3", INIT, create_v3 },
       { "context.more", "context.create-v4", INIT, create_v4 },
       { "context.stack", "context.push-pop", CTX, push_pop },
       { "context.stack", "context.set-current", CTX, set_current },
       { "context.stack", "context.destroy-not-current", CTX, destroy_not_current },
       { "context.stack", "context.destroy-frees", CTX, destroy_frees },
       { "context.stack", "context.destroy-buried", CTX, destroy_buried },
       { "context.stack", "context.attach-own", CTX, attach_own },
       { "memory.card", "context.card-growth", CTX | ALONE, card_growth },
       { "context.bad", "context.destroyed-use", INIT, destroyed_use },
       { "context.bad", "context.garbage", INIT, garbage }, );
