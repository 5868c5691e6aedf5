// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/clock.h"
#include "sim/cuda/stream.h"

static CUresult create(CUcontext ctx, CUstream *ret, unsigned flags, int priority)
{
	if (!ret || (flags & ~(unsigned)CU_STREAM_NON_BLOCKING))
		return CUDA_ERROR_INVALID_VALUE;
	return stream_new(ctx, STREAM_CREATED, flags, priority, ret);
}

CUresult cuStreamCreate(CUstream *phStream, unsigned int Flags)
{
	return SIM_CALL(cuStreamCreate, SIM_CTX | SIM_LOCK, create(call.ctx, phStream, Flags, 0),
			"%p, %#x", (void *)phStream, Flags);
}

CUresult cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority)
{
	return SIM_CALL(cuStreamCreateWithPriority, SIM_CTX | SIM_LOCK,
			create(call.ctx, phStream, flags, priority), "%p, %#x, %d",
			(void *)phStream, flags, priority);
}

/* only created streams can be destroyed */
static CUresult destroy(CUstream handle)
{
	CUstream stream;
	CUresult r;

	if (!handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD)
		return CUDA_ERROR_INVALID_HANDLE;
	r = stream_get(NULL, handle, DEFAULT_LEGACY, &stream);
	if (r == CUDA_SUCCESS)
		stream_end(stream);
	return r;
}

CUresult cuStreamDestroy(CUstream hStream)
{
	return SIM_CALL(cuStreamDestroy, SIM_LOCK, destroy(hStream), "%p", (void *)hStream);
}

CUresult cuStreamDestroy_v2(CUstream hStream)
{
	return SIM_CALL(cuStreamDestroy_v2, SIM_LOCK, destroy(hStream), "%p", (void *)hStream);
}

/*
 * Calls that ask a stream need no current context when the handle says it all; the default
 * streams are those of the current one.
 */
static CUresult resolve(CUstream handle, enum stream_default dflt, CUstream *ret)
{
	CUcontext ctx = sim_ctx_current();
	CUresult r;

	if (!handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
		if (!ctx)
			return CUDA_ERROR_INVALID_CONTEXT;
		r = sim_ctx_check(ctx);
		if (r != CUDA_SUCCESS)
			return r;
	}
	return stream_get(ctx, handle, dflt, ret);
}

static CUresult synchronize(CUstream handle, enum stream_default dflt)
{
	CUstream stream;
	CUresult r = resolve(handle, dflt, &stream);

	if (r != CUDA_SUCCESS)
		return r;
	if (capture_stream_is_active(stream))
		return capture_refuse(stream);
	r = capture_check_legacy(stream);
	if (r == CUDA_SUCCESS)
		r = sim_exec_unsafe_call();
	if (r != CUDA_SUCCESS)
		return r;
	return stream_wait(stream);
}

STREAM_TWINS(cuStreamSynchronize, cuStreamSynchronize_ptsz, (CUstream hStream), SIM_LOCK,
	     synchronize(hStream, dflt), "%p", (void *)hStream)

static CUresult query(CUstream handle, enum stream_default dflt)
{
	CUstream stream;
	CUresult r = resolve(handle, dflt, &stream);

	if (r != CUDA_SUCCESS)
		return r;
	if (capture_stream_is_active(stream))
		return capture_refuse(stream);
	r = capture_check_legacy(stream);
	if (r == CUDA_SUCCESS)
		r = sim_exec_unsafe_call();
	if (r != CUDA_SUCCESS)
		return r;
	if (stream->ctx->sticky != CUDA_SUCCESS)
		return stream->ctx->sticky;
	if (stream->pending ||
	    (stream->kind == STREAM_LEGACY && stream->ctx->exec->blocking_pending) ||
	    stream_done_ns(stream) > clock_now_ns())
		return CUDA_ERROR_NOT_READY;
	return CUDA_SUCCESS;
}

STREAM_TWINS(cuStreamQuery, cuStreamQuery_ptsz, (CUstream hStream), SIM_LOCK, query(hStream, dflt),
	     "%p", (void *)hStream)

static CUresult get_ctx(CUstream handle, enum stream_default dflt, CUcontext *ret)
{
	CUstream stream;
	CUresult r;

	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	r = resolve(handle, dflt, &stream);
	if (r == CUDA_SUCCESS)
		*ret = stream->ctx;
	return r;
}

STREAM_TWINS(cuStreamGetCtx, cuStreamGetCtx_ptsz, (CUstream hStream, CUcontext *pctx), SIM_LOCK,
	     get_ctx(hStream, dflt, pctx), "%p, %p", (void *)hStream, (void *)pctx)

static CUresult get_ctx_v2(CUstream handle, enum stream_default dflt, CUcontext *ret,
			   CUgreenCtx *ret_green)
{
	CUresult r = get_ctx(handle, dflt, ret);

	if (r == CUDA_SUCCESS && ret_green)
		*ret_green = NULL;
	return r;
}

STREAM_TWINS(cuStreamGetCtx_v2, cuStreamGetCtx_v2_ptsz,
	     (CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx), SIM_LOCK,
	     get_ctx_v2(hStream, dflt, pCtx, pGreenCtx), "%p, %p, %p", (void *)hStream,
	     (void *)pCtx, (void *)pGreenCtx)

static CUresult get_green_ctx(CUstream handle, CUgreenCtx *ret)
{
	CUstream stream;
	CUresult r;

	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	r = resolve(handle, DEFAULT_LEGACY, &stream);
	if (r == CUDA_SUCCESS)
		*ret = NULL;
	return r;
}

CUresult cuStreamGetGreenCtx(CUstream hStream, CUgreenCtx *phCtx)
{
	return SIM_CALL(cuStreamGetGreenCtx, SIM_LOCK, get_green_ctx(hStream, phCtx), "%p, %p",
			(void *)hStream, (void *)phCtx);
}

static CUresult get_device(CUstream handle, enum stream_default dflt, CUdevice *ret)
{
	CUcontext ctx;
	CUresult r;

	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	r = get_ctx(handle, dflt, &ctx);
	if (r == CUDA_SUCCESS)
		*ret = ctx->device->ordinal;
	return r;
}

STREAM_TWINS(cuStreamGetDevice, cuStreamGetDevice_ptsz, (CUstream hStream, CUdevice *device),
	     SIM_LOCK, get_device(hStream, dflt, device), "%p, %p", (void *)hStream, (void *)device)

static CUresult get_flags(CUstream handle, enum stream_default dflt, unsigned *ret)
{
	CUstream stream;
	CUresult r;

	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	r = resolve(handle, dflt, &stream);
	if (r == CUDA_SUCCESS)
		*ret = stream->flags;
	return r;
}

STREAM_TWINS(cuStreamGetFlags, cuStreamGetFlags_ptsz, (CUstream hStream, unsigned int *flags),
	     SIM_LOCK, get_flags(hStream, dflt, flags), "%p, %p", (void *)hStream, (void *)flags)

static CUresult get_priority(CUstream handle, enum stream_default dflt, int *ret)
{
	CUstream stream;
	CUresult r;

	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	r = resolve(handle, dflt, &stream);
	if (r == CUDA_SUCCESS)
		*ret = stream->priority;
	return r;
}

STREAM_TWINS(cuStreamGetPriority, cuStreamGetPriority_ptsz, (CUstream hStream, int *priority),
	     SIM_LOCK, get_priority(hStream, dflt, priority), "%p, %p", (void *)hStream,
	     (void *)priority)

static CUresult get_id(CUstream handle, enum stream_default dflt, unsigned long long *ret)
{
	CUstream stream;
	CUresult r;

	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	r = resolve(handle, dflt, &stream);
	if (r == CUDA_SUCCESS)
		*ret = stream->id;
	return r;
}

STREAM_TWINS(cuStreamGetId, cuStreamGetId_ptsz, (CUstream hStream, unsigned long long *streamId),
	     SIM_LOCK, get_id(hStream, dflt, streamId), "%p, %p", (void *)hStream, (void *)streamId)

static bool is_stream_attr(CUstreamAttrID attr)
{
	return attr == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW ||
	       attr == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY ||
	       attr == CU_LAUNCH_ATTRIBUTE_PRIORITY ||
	       attr == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP ||
	       attr == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN;
}

static CUresult get_attr(CUstream handle, enum stream_default dflt, CUstreamAttrID attr,
			 CUstreamAttrValue *ret)
{
	CUstream stream;
	CUresult r;

	if (!ret || !is_stream_attr(attr))
		return CUDA_ERROR_INVALID_VALUE;
	r = resolve(handle, dflt, &stream);
	if (r == CUDA_SUCCESS)
		*ret = stream->attrs[attr];
	return r;
}

STREAM_TWINS(cuStreamGetAttribute, cuStreamGetAttribute_ptsz,
	     (CUstream hStream, CUstreamAttrID attr, CUstreamAttrValue *value), SIM_LOCK,
	     get_attr(hStream, dflt, attr, value), "%p, %d, %p", (void *)hStream, (int)attr,
	     (void *)value)

static CUresult set_attr(CUstream handle, enum stream_default dflt, CUstreamAttrID attr,
			 const CUstreamAttrValue *value)
{
	CUstream stream;
	CUresult r;

	if (!value || !is_stream_attr(attr))
		return CUDA_ERROR_INVALID_VALUE;
	r = resolve(handle, dflt, &stream);
	if (r != CUDA_SUCCESS)
		return r;
	stream->attrs[attr] = *value;
	if (attr == CU_LAUNCH_ATTRIBUTE_PRIORITY)
		stream->priority = value->priority;
	return CUDA_SUCCESS;
}

STREAM_TWINS(cuStreamSetAttribute, cuStreamSetAttribute_ptsz,
	     (CUstream hStream, CUstreamAttrID attr, const CUstreamAttrValue *value), SIM_LOCK,
	     set_attr(hStream, dflt, attr, value), "%p, %d, %p", (void *)hStream, (int)attr,
	     (const void *)value)

static CUresult copy_attrs(CUstream to, CUstream from, enum stream_default dflt)
{
	CUstream dst, src;
	CUresult r = resolve(to, dflt, &dst);

	if (r == CUDA_SUCCESS)
		r = resolve(from, dflt, &src);
	if (r != CUDA_SUCCESS)
		return r;
	if (dst->ctx != src->ctx)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(dst->attrs, src->attrs, sizeof(dst->attrs));
	dst->priority = src->priority;
	return CUDA_SUCCESS;
}

STREAM_TWINS(cuStreamCopyAttributes, cuStreamCopyAttributes_ptsz,
	     (CUstream dstStream, CUstream srcStream), SIM_LOCK,
	     copy_attrs(dstStream, srcStream, dflt), "%p, %p", (void *)dstStream, (void *)srcStream)
