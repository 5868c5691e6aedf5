// SPDX-License-Identifier: Apache-2.0
/*
 * Contexts: the first thing a process takes from a card, hundreds of MiB before its own data.
 *
 * Nobody but NVML knows what a context costs, so it is reserved at what allotd has measured or
 * estimates, made, and then measured; should it take the job too far over its limit it is undone
 * and the program sees out of memory.  A GPU outside the lease is refused with
 * CUDA_ERROR_INVALID_DEVICE.  A primary context is charged when it becomes active, not at each
 * retain.  What lives in a context goes back to the account when the context goes.
 *
 * cuCtxCreate without _v2 has the same parameters as with it and is no 32-bit relic: hooked too.
 */
#include "shim/blocks.h"
#include "shim/capture.h"
#include "shim/devices.h"
#include "shim/guard.h"
#include "shim/hooks.h"
#include "shim/pools.h"
#include "shim/real.h"
#include "shim/reserve.h"
#include "shim/say.h"

enum maker {
	MAKE_V1,
	MAKE_V2,
	MAKE_V3,
	MAKE_V4,
	MAKE_PRIMARY,
	MAKE_GREEN,
};

struct making {
	enum maker maker;
	CUdevice dev;
	CUcontext *ret_ctx;
	unsigned int flags;
	CUexecAffinityParam *affinity; /* _v3 */
	int n_affinity;
	CUctxCreateParams *params; /* _v4 */
	CUgreenCtx *ret_green;     /* green: it brings the primary context along */
	CUdevResourceDesc desc;
};

static CUresult driver_make(const struct making *m)
{
	switch (m->maker) {
	case MAKE_V1:
		return real_cuCtxCreate(m->ret_ctx, m->flags, m->dev);
	case MAKE_V2:
		return real_cuCtxCreate_v2(m->ret_ctx, m->flags, m->dev);
	case MAKE_V3:
		return real_cuCtxCreate_v3(m->ret_ctx, m->affinity, m->n_affinity, m->flags,
					   m->dev);
	case MAKE_V4:
		return real_cuCtxCreate_v4(m->ret_ctx, m->params, m->flags, m->dev);
	case MAKE_PRIMARY:
		return real_cuDevicePrimaryCtxRetain(m->ret_ctx, m->dev);
	case MAKE_GREEN:
		return real_cuGreenCtxCreate(m->ret_green, m->desc, m->dev, m->flags);
	}
	return CUDA_ERROR_UNKNOWN;
}

static void driver_unmake(const struct making *m)
{
	if (m->maker == MAKE_GREEN)
		(void)real_cuGreenCtxDestroy(*m->ret_green);
	else if (m->maker == MAKE_PRIMARY)
		(void)real_cuDevicePrimaryCtxRelease_v2(m->dev);
	else
		(void)real_cuCtxDestroy_v2(*m->ret_ctx);
}

static bool primary_is_active(CUdevice dev)
{
	unsigned int flags;
	int active = 0;

	return real_cuDevicePrimaryCtxGetState(dev, &flags, &active) == CUDA_SUCCESS && active;
}

/* the handle of a device's primary context, which is active */
static CUcontext primary_of(CUdevice dev)
{
	CUcontext ctx = NULL;

	if (real_cuDevicePrimaryCtxRetain(&ctx, dev) != CUDA_SUCCESS)
		return NULL;
	(void)real_cuDevicePrimaryCtxRelease_v2(dev);
	return ctx;
}

static void give_back(struct block *list)
{
	struct block *next;

	for (; list; list = next) {
		next = list->next;
		reserve_freed(list, true);
	}
}

static void put_back(struct block *list)
{
	struct block *next;

	for (; list; list = next) {
		next = list->next;
		reserve_freed(list, false);
	}
}

/* false: a primary context that another thread brought up at the same time and has entered */
static bool enter_context(struct block *b, CUcontext ctx, CUdevice dev, bool primary)
{
	struct block *dead;

	b->kind = BLOCK_CONTEXT;
	b->key = (uintptr_t)ctx;
	b->count = (uint64_t)dev;
	b->other = primary ? b : NULL; /* a mark */
	dead = blocks_insert(b);
	if (dead && !primary)
		give_back(blocks_take_context(ctx)); /* of one that ended behind our back */
	blocks_discard(dead);
	return !dead || !primary;
}

static void restore(const struct making *m, void *old)
{
	if (m->maker == MAKE_GREEN)
		*m->ret_green = old;
	else
		*m->ret_ctx = old;
}

/* one attempt; *ret_refused: by us, so that another attempt is pointless */
static CUresult make_once(const struct making *m, int slot, struct block **b, bool *ret_refused)
{
	bool primary = m->maker == MAKE_PRIMARY || m->maker == MAKE_GREEN;
	void *old = m->maker == MAKE_GREEN ? (void *)*m->ret_green : (void *)*m->ret_ctx;
	struct account_context account;
	CUcontext ctx = NULL;
	CUresult rc;
	bool is_new = false;

	*ret_refused =
		!account_context_open(slot, capture_forbids_wait() ? ACCOUNT_NO_WAIT : 0, &account);
	if (*ret_refused)
		return CUDA_ERROR_OUT_OF_MEMORY;
	rc = driver_make(m);
	if (rc == CUDA_SUCCESS) {
		ctx = m->maker == MAKE_GREEN ? primary_of(m->dev) : *m->ret_ctx;
		is_new = enter_context(*b, ctx, m->dev, primary);
		*b = NULL;
	}
	if (account_context_close(&account, is_new))
		return rc;
	blocks_discard(blocks_take(BLOCK_CONTEXT, (uintptr_t)ctx));
	driver_unmake(m);
	account_settle(slot);
	restore(m, old);
	*ret_refused = true;
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult make_context(const struct making *m)
{
	int slot = devices_slot(m->dev);
	unsigned attempts = 0;
	struct block *b;
	bool refused_by_us;
	CUresult rc;

	if (slot == DEVICES_OUTSIDE) {
		say_refusal("CUDA device %d is not one of this job's GPUs", m->dev);
		return CUDA_ERROR_INVALID_DEVICE;
	}
	if (slot == DEVICES_AWAY)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if ((m->maker == MAKE_PRIMARY || m->maker == MAKE_GREEN) && primary_is_active(m->dev))
		return driver_make(m);
	b = blocks_reserve();
	if (!b)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (slot < 0) {
		rc = driver_make(m); /* its number is invalid, or the job runs without allotd */
	} else {
		do
			rc = make_once(m, slot, &b, &refused_by_us);
		while (rc == CUDA_ERROR_OUT_OF_MEMORY && !refused_by_us &&
		       reserve_pause(slot, UINT64_MAX, &attempts));
	}
	blocks_discard(b);
	return rc;
}

CUresult cuCtxCreate(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
	struct making m = { .maker = MAKE_V1, .dev = dev, .ret_ctx = pctx, .flags = flags };
	CUresult rc;

	if (!pctx || !guard_enter())
		return driver_make(&m);
	rc = make_context(&m);
	guard_leave();
	return rc;
}

CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
	struct making m = { .maker = MAKE_V2, .dev = dev, .ret_ctx = pctx, .flags = flags };
	CUresult rc;

	if (!pctx || !guard_enter())
		return driver_make(&m);
	rc = make_context(&m);
	guard_leave();
	return rc;
}

CUresult cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams,
			unsigned int flags, CUdevice dev)
{
	struct making m = { .maker = MAKE_V3,
			    .dev = dev,
			    .ret_ctx = pctx,
			    .flags = flags,
			    .affinity = paramsArray,
			    .n_affinity = numParams };
	CUresult rc;

	if (!pctx || !guard_enter())
		return driver_make(&m);
	rc = make_context(&m);
	guard_leave();
	return rc;
}

CUresult cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags,
			CUdevice dev)
{
	struct making m = { .maker = MAKE_V4,
			    .dev = dev,
			    .ret_ctx = pctx,
			    .flags = flags,
			    .params = ctxCreateParams };
	CUresult rc;

	if (!pctx || !guard_enter())
		return driver_make(&m);
	rc = make_context(&m);
	guard_leave();
	return rc;
}

CUresult cuGreenCtxCreate(CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev,
			  unsigned int flags)
{
	struct making m = {
		.maker = MAKE_GREEN, .dev = dev, .ret_green = phCtx, .desc = desc, .flags = flags
	};
	CUresult rc;

	if (!phCtx || !guard_enter())
		return driver_make(&m);
	rc = make_context(&m);
	guard_leave();
	return rc;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
	struct making m = { .maker = MAKE_PRIMARY, .dev = dev, .ret_ctx = pctx };
	CUresult rc;

	if (!pctx || !guard_enter())
		return driver_make(&m);
	rc = make_context(&m);
	guard_leave();
	return rc;
}

/* ---- ends ---- */

static bool is_alive(CUcontext ctx)
{
	unsigned int version;

	return real_cuCtxGetApiVersion(ctx, &version) == CUDA_SUCCESS;
}

/*
 * Before the driver destroys @ctx, so that a context made at once under the same handle by another
 * thread keeps what is its own.
 */
static CUresult end_context(CUcontext ctx, CUresult (*end)(CUcontext ctx))
{
	struct block *context = blocks_take(BLOCK_CONTEXT, (uintptr_t)ctx);
	struct block *inside = context ? blocks_take_context(ctx) : NULL;
	CUdevice dev = context ? (CUdevice)context->count : -1;
	CUresult rc = end(ctx);

	devices_context_ended();
	if (rc != CUDA_SUCCESS || (end == real_cuCtxDetach && is_alive(ctx))) {
		put_back(inside);
		reserve_freed(context, false);
		return rc;
	}
	give_back(inside);
	blocks_discard(context);
	if (dev >= 0)
		account_settle_freed(devices_slot(dev));
	return rc;
}

/* counts down; only the last one ends the context */
CUresult cuCtxDetach(CUcontext ctx)
{
	CUresult rc;

	if (!guard_enter())
		return real_cuCtxDetach(ctx);
	rc = end_context(ctx, real_cuCtxDetach);
	guard_leave();
	return rc;
}

CUresult cuCtxDestroy(CUcontext ctx)
{
	CUresult rc;

	if (!guard_enter())
		return real_cuCtxDestroy(ctx);
	rc = end_context(ctx, real_cuCtxDestroy);
	guard_leave();
	return rc;
}

CUresult cuCtxDestroy_v2(CUcontext ctx)
{
	CUresult rc;

	if (!guard_enter())
		return real_cuCtxDestroy_v2(ctx);
	rc = end_context(ctx, real_cuCtxDestroy_v2);
	guard_leave();
	return rc;
}

/*
 * The primary context of @dev may have gone: by the last release, or by a reset.  Its handle has
 * to be known from before.  Should another thread retain it again in this very moment under the
 * same handle and allocate, that is taken for freed until NVML shows it.
 */
struct primary {
	CUcontext ctx;
	CUdevice dev;
};

static bool is_primary(struct block *b, void *arg)
{
	struct primary *p = arg;

	if (!b->other || (CUdevice)b->count != p->dev)
		return false;
	p->ctx = (CUcontext)(uintptr_t)b->key;
	return true;
}

static struct primary primary_before(CUdevice dev)
{
	struct primary p = { .dev = dev };

	(void)blocks_find(BLOCK_CONTEXT, is_primary, &p);
	return p;
}

static void primary_after(const struct primary *p, bool gone)
{
	devices_context_ended();
	if (!p->ctx || !gone)
		return;
	pools_reset(p->dev);
	blocks_discard(blocks_take(BLOCK_CONTEXT, (uintptr_t)p->ctx));
	give_back(blocks_take_context(p->ctx));
	account_settle_freed(devices_slot(p->dev));
}

static CUresult release(CUdevice dev, CUresult (*driver_release)(CUdevice dev))
{
	struct primary p = primary_before(dev);
	CUresult rc = driver_release(dev);

	primary_after(&p, rc == CUDA_SUCCESS && !primary_is_active(dev));
	return rc;
}

static CUresult reset(CUdevice dev, CUresult (*driver_reset)(CUdevice dev))
{
	struct primary p = primary_before(dev);
	CUresult rc = driver_reset(dev);

	primary_after(&p, rc == CUDA_SUCCESS);
	return rc;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice dev)
{
	CUresult rc;

	if (!guard_enter())
		return real_cuDevicePrimaryCtxRelease(dev);
	rc = release(dev, real_cuDevicePrimaryCtxRelease);
	guard_leave();
	return rc;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
	CUresult rc;

	if (!guard_enter())
		return real_cuDevicePrimaryCtxRelease_v2(dev);
	rc = release(dev, real_cuDevicePrimaryCtxRelease_v2);
	guard_leave();
	return rc;
}

CUresult cuDevicePrimaryCtxReset(CUdevice dev)
{
	CUresult rc;

	if (!guard_enter())
		return real_cuDevicePrimaryCtxReset(dev);
	rc = reset(dev, real_cuDevicePrimaryCtxReset);
	guard_leave();
	return rc;
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
	CUresult rc;

	if (!guard_enter())
		return real_cuDevicePrimaryCtxReset_v2(dev);
	rc = reset(dev, real_cuDevicePrimaryCtxReset_v2);
	guard_leave();
	return rc;
}
