// SPDX-License-Identifier: Apache-2.0
#include "sim/cuda/copy_api.h"

/* what stands in a place where it means nothing must be zero or is not looked at, as the driver
 * does */

static CUDA_MEMCPY3D from_2d(const CUDA_MEMCPY2D *copy)
{
	size_t pitch_x = copy->srcXInBytes + copy->WidthInBytes;
	size_t pitch_y = copy->dstXInBytes + copy->WidthInBytes;

	return (CUDA_MEMCPY3D){
		.srcXInBytes = copy->srcXInBytes,
		.srcY = copy->srcY,
		.srcMemoryType = copy->srcMemoryType,
		.srcHost = copy->srcHost,
		.srcDevice = copy->srcDevice,
		.srcArray = copy->srcArray,
		.srcPitch = copy->srcPitch ? copy->srcPitch : pitch_x,
		.srcHeight = copy->srcY + copy->Height,
		.dstXInBytes = copy->dstXInBytes,
		.dstY = copy->dstY,
		.dstMemoryType = copy->dstMemoryType,
		.dstHost = copy->dstHost,
		.dstDevice = copy->dstDevice,
		.dstArray = copy->dstArray,
		.dstPitch = copy->dstPitch ? copy->dstPitch : pitch_y,
		.dstHeight = copy->dstY + copy->Height,
		.WidthInBytes = copy->WidthInBytes,
		.Height = copy->Height,
		.Depth = 1,
	};
}

static CUresult copy_2d(CUcontext ctx, const CUDA_MEMCPY2D *copy, CUstream stream,
			enum stream_default dflt, bool is_sync)
{
	CUDA_MEMCPY3D what;

	if (!copy)
		return CUDA_ERROR_INVALID_VALUE;
	what = from_2d(copy);
	return copy_submit(ctx, stream, dflt, &what, is_sync);
}

STREAM_TWINS(cuMemcpy2D_v2, cuMemcpy2D_v2_ptds, (const CUDA_MEMCPY2D *pCopy), SIM_CTX | SIM_LOCK,
	     copy_2d(call.ctx, pCopy, NULL, dflt, true), "%p", (const void *)pCopy)
STREAM_TWINS(cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned_v2_ptds, (const CUDA_MEMCPY2D *pCopy),
	     SIM_CTX | SIM_LOCK, copy_2d(call.ctx, pCopy, NULL, dflt, true), "%p",
	     (const void *)pCopy)
STREAM_TWINS(cuMemcpy2DAsync_v2, cuMemcpy2DAsync_v2_ptsz,
	     (const CUDA_MEMCPY2D *pCopy, CUstream hStream), SIM_CTX | SIM_LOCK,
	     copy_2d(call.ctx, pCopy, hStream, dflt, false), "%p, %p", (const void *)pCopy,
	     (void *)hStream)

static CUresult copy_3d(CUcontext ctx, const CUDA_MEMCPY3D *copy, CUstream stream,
			enum stream_default dflt, bool is_sync)
{
	if (!copy || copy->srcLOD || copy->dstLOD)
		return CUDA_ERROR_INVALID_VALUE;
	return copy_submit(ctx, stream, dflt, copy, is_sync);
}

STREAM_TWINS(cuMemcpy3D_v2, cuMemcpy3D_v2_ptds, (const CUDA_MEMCPY3D *pCopy), SIM_CTX | SIM_LOCK,
	     copy_3d(call.ctx, pCopy, NULL, dflt, true), "%p", (const void *)pCopy)
STREAM_TWINS(cuMemcpy3DAsync_v2, cuMemcpy3DAsync_v2_ptsz,
	     (const CUDA_MEMCPY3D *pCopy, CUstream hStream), SIM_CTX | SIM_LOCK,
	     copy_3d(call.ctx, pCopy, hStream, dflt, false), "%p, %p", (const void *)pCopy,
	     (void *)hStream)

static CUresult copy_3d_peer(CUcontext ctx, const CUDA_MEMCPY3D_PEER *copy, CUstream stream,
			     enum stream_default dflt, bool is_sync)
{
	CUDA_MEMCPY3D what;
	CUresult r;

	if (!copy || copy->srcLOD || copy->dstLOD)
		return CUDA_ERROR_INVALID_VALUE;
	r = copy->srcContext ? sim_ctx_check(copy->srcContext) : CUDA_SUCCESS;
	if (r == CUDA_SUCCESS && copy->dstContext)
		r = sim_ctx_check(copy->dstContext);
	if (r != CUDA_SUCCESS)
		return r;
	what = (CUDA_MEMCPY3D){
		.srcXInBytes = copy->srcXInBytes,
		.srcY = copy->srcY,
		.srcZ = copy->srcZ,
		.srcMemoryType = copy->srcMemoryType,
		.srcHost = copy->srcHost,
		.srcDevice = copy->srcDevice,
		.srcArray = copy->srcArray,
		.srcPitch = copy->srcPitch,
		.srcHeight = copy->srcHeight,
		.dstXInBytes = copy->dstXInBytes,
		.dstY = copy->dstY,
		.dstZ = copy->dstZ,
		.dstMemoryType = copy->dstMemoryType,
		.dstHost = copy->dstHost,
		.dstDevice = copy->dstDevice,
		.dstArray = copy->dstArray,
		.dstPitch = copy->dstPitch,
		.dstHeight = copy->dstHeight,
		.WidthInBytes = copy->WidthInBytes,
		.Height = copy->Height,
		.Depth = copy->Depth,
	};
	return copy_submit(ctx, stream, dflt, &what, is_sync);
}

STREAM_TWINS(cuMemcpy3DPeer, cuMemcpy3DPeer_ptds, (const CUDA_MEMCPY3D_PEER *pCopy),
	     SIM_CTX | SIM_LOCK, copy_3d_peer(call.ctx, pCopy, NULL, dflt, true), "%p",
	     (const void *)pCopy)
STREAM_TWINS(cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync_ptsz,
	     (const CUDA_MEMCPY3D_PEER *pCopy, CUstream hStream), SIM_CTX | SIM_LOCK,
	     copy_3d_peer(call.ctx, pCopy, hStream, dflt, false), "%p, %p", (const void *)pCopy,
	     (void *)hStream)

/* Batches.  They are refused on the default streams, and cannot be captured. */

static CUresult batch_stream(CUcontext ctx, CUstream handle, enum stream_default dflt)
{
	CUstream stream;
	CUresult r;

	if (!handle || handle == CU_STREAM_LEGACY)
		return CUDA_ERROR_INVALID_VALUE;
	r = stream_get(ctx, handle, dflt, &stream);
	if (r == CUDA_SUCCESS && capture_stream_is_active(stream))
		r = capture_refuse(stream);
	return r;
}

static CUresult check_attrs(const CUmemcpyAttributes *attrs, const size_t *idxs, size_t count,
			    size_t copies)
{
	if (!attrs || !idxs || !count || count > copies || idxs[0])
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 1; i < count; i++) {
		if (idxs[i] <= idxs[i - 1] || idxs[i] >= copies)
			return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

static CUDA_MEMCPY3D plain(CUdeviceptr dst, CUdeviceptr src, size_t bytes)
{
	return (CUDA_MEMCPY3D){ .srcMemoryType = CU_MEMORYTYPE_UNIFIED,
				.srcDevice = src,
				.dstMemoryType = CU_MEMORYTYPE_UNIFIED,
				.dstDevice = dst,
				.WidthInBytes = bytes,
				.Height = 1,
				.Depth = 1 };
}

static CUresult batch(CUcontext ctx, CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
		      size_t count, CUmemcpyAttributes *attrs, size_t *idxs, size_t attr_count,
		      size_t *ret_fail, CUstream stream, enum stream_default dflt)
{
	CUresult r;

	if (ret_fail)
		*ret_fail = SIZE_MAX;
	if (!dsts || !srcs || !sizes || !count)
		return CUDA_ERROR_INVALID_VALUE;
	r = check_attrs(attrs, idxs, attr_count, count);
	if (r == CUDA_SUCCESS)
		r = batch_stream(ctx, stream, dflt);
	for (size_t i = 0; r == CUDA_SUCCESS && i < count; i++) {
		CUDA_MEMCPY3D what = plain(dsts[i], srcs[i], sizes[i]);

		r = copy_submit(ctx, stream, dflt, &what, false);
		if (r != CUDA_SUCCESS && ret_fail)
			*ret_fail = i;
	}
	return r;
}

STREAM_TWINS(cuMemcpyBatchAsync, cuMemcpyBatchAsync_ptsz,
	     (CUdeviceptr * dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
	      CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, size_t *failIdx,
	      CUstream hStream),
	     SIM_CTX | SIM_LOCK,
	     batch(call.ctx, dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, failIdx, hStream,
		   dflt),
	     "%p, %p, %p, %zu, %p, %p, %zu, %p, %p", (void *)dsts, (void *)srcs, (void *)sizes,
	     count, (void *)attrs, (void *)attrsIdxs, numAttrs, (void *)failIdx, (void *)hStream)
STREAM_TWINS(cuMemcpyBatchAsync_v2, cuMemcpyBatchAsync_v2_ptsz,
	     (CUdeviceptr * dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
	      CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, CUstream hStream),
	     SIM_CTX | SIM_LOCK,
	     batch(call.ctx, dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, NULL, hStream,
		   dflt),
	     "%p, %p, %p, %zu, %p, %p, %zu, %p", (void *)dsts, (void *)srcs, (void *)sizes, count,
	     (void *)attrs, (void *)attrsIdxs, numAttrs, (void *)hStream)

static CUresult with_attrs(CUcontext ctx, CUdeviceptr dst, CUdeviceptr src, size_t bytes,
			   const CUmemcpyAttributes *attr, CUstream stream,
			   enum stream_default dflt)
{
	CUDA_MEMCPY3D what = plain(dst, src, bytes);

	return attr ? copy_submit(ctx, stream, dflt, &what, false) : CUDA_ERROR_INVALID_VALUE;
}

STREAM_TWINS(cuMemcpyWithAttributesAsync, cuMemcpyWithAttributesAsync_ptsz,
	     (CUdeviceptr dst, CUdeviceptr src, size_t size, CUmemcpyAttributes *attr,
	      CUstream hStream),
	     SIM_CTX | SIM_LOCK, with_attrs(call.ctx, dst, src, size, attr, hStream, dflt),
	     "%#llx, %#llx, %zu, %p, %p", dst, src, size, (void *)attr, (void *)hStream)

/* an operand of a 3D batch counts in elements, which for pointers are bytes */
static CUresult operand(const CUmemcpy3DOperand *operand, const CUextent3D *extent,
			CUmemorytype *ret_type, CUdeviceptr *ret_ptr, CUarray *ret_array,
			size_t ret_pitch_height[2], size_t ret_xyz[3])
{
	struct sim_array_view view;
	CUresult r;

	if (operand->type == CU_MEMCPY_OPERAND_TYPE_POINTER) {
		*ret_type = CU_MEMORYTYPE_UNIFIED;
		*ret_ptr = operand->op.ptr.ptr;
		ret_pitch_height[0] =
			operand->op.ptr.rowLength ? operand->op.ptr.rowLength : extent->width;
		ret_pitch_height[1] =
			operand->op.ptr.layerHeight ? operand->op.ptr.layerHeight : extent->height;
		return CUDA_SUCCESS;
	}
	if (operand->type != CU_MEMCPY_OPERAND_TYPE_ARRAY)
		return CUDA_ERROR_INVALID_VALUE;
	r = sim_array_view(operand->op.array.array, &view);
	if (r != CUDA_SUCCESS)
		return r;
	*ret_type = CU_MEMORYTYPE_ARRAY;
	*ret_array = operand->op.array.array;
	ret_xyz[0] = operand->op.array.offset.x * view.element_bytes;
	ret_xyz[1] = operand->op.array.offset.y;
	ret_xyz[2] = operand->op.array.offset.z;
	return CUDA_SUCCESS;
}

static CUresult one_3d(CUcontext ctx, const CUDA_MEMCPY3D_BATCH_OP *op, CUstream stream,
		       enum stream_default dflt)
{
	CUDA_MEMCPY3D what = { .Height = op->extent.height, .Depth = op->extent.depth };
	size_t src[2] = { 0 }, dst[2] = { 0 }, from[3] = { 0 }, to[3] = { 0 };
	size_t element_bytes = 1;
	struct sim_array_view view;
	CUresult r = operand(&op->src, &op->extent, &what.srcMemoryType, &what.srcDevice,
			     &what.srcArray, src, from);

	if (r == CUDA_SUCCESS)
		r = operand(&op->dst, &op->extent, &what.dstMemoryType, &what.dstDevice,
			    &what.dstArray, dst, to);
	if (r != CUDA_SUCCESS)
		return r;
	/* with an array on one side, pointers count in its elements */
	if (sim_array_view(what.srcArray ? what.srcArray : what.dstArray, &view) == CUDA_SUCCESS)
		element_bytes = view.element_bytes;
	what.WidthInBytes = op->extent.width * element_bytes;
	what.srcPitch = src[0] * element_bytes;
	what.srcHeight = src[1];
	what.dstPitch = dst[0] * element_bytes;
	what.dstHeight = dst[1];
	what.srcXInBytes = from[0];
	what.srcY = from[1];
	what.srcZ = from[2];
	what.dstXInBytes = to[0];
	what.dstY = to[1];
	what.dstZ = to[2];
	return copy_submit(ctx, stream, dflt, &what, false);
}

static CUresult batch_3d(CUcontext ctx, size_t count, CUDA_MEMCPY3D_BATCH_OP *ops, size_t *ret_fail,
			 unsigned long long flags, CUstream stream, enum stream_default dflt)
{
	CUresult r;

	if (ret_fail)
		*ret_fail = SIZE_MAX;
	if (!count || !ops || flags)
		return CUDA_ERROR_INVALID_VALUE;
	r = batch_stream(ctx, stream, dflt);
	for (size_t i = 0; r == CUDA_SUCCESS && i < count; i++) {
		r = one_3d(ctx, &ops[i], stream, dflt);
		if (r != CUDA_SUCCESS && ret_fail)
			*ret_fail = i;
	}
	return r;
}

STREAM_TWINS(cuMemcpy3DBatchAsync, cuMemcpy3DBatchAsync_ptsz,
	     (size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList, size_t *failIdx,
	      unsigned long long flags, CUstream hStream),
	     SIM_CTX | SIM_LOCK, batch_3d(call.ctx, numOps, opList, failIdx, flags, hStream, dflt),
	     "%zu, %p, %p, %#llx, %p", numOps, (void *)opList, (void *)failIdx, flags,
	     (void *)hStream)
STREAM_TWINS(cuMemcpy3DBatchAsync_v2, cuMemcpy3DBatchAsync_v2_ptsz,
	     (size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList, unsigned long long flags,
	      CUstream hStream),
	     SIM_CTX | SIM_LOCK, batch_3d(call.ctx, numOps, opList, NULL, flags, hStream, dflt),
	     "%zu, %p, %#llx, %p", numOps, (void *)opList, flags, (void *)hStream)
STREAM_TWINS(cuMemcpy3DWithAttributesAsync, cuMemcpy3DWithAttributesAsync_ptsz,
	     (CUDA_MEMCPY3D_BATCH_OP * op, unsigned long long flags, CUstream hStream),
	     SIM_CTX | SIM_LOCK, batch_3d(call.ctx, 1, op, NULL, flags, hStream, dflt),
	     "%p, %#llx, %p", (void *)op, flags, (void *)hStream)
