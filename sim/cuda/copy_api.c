// SPDX-License-Identifier: Apache-2.0
#include "sim/cuda/copy_api.h"

/*
 * Does the call return only when the copy is done?  A synchronous one does, unless both sides are
 * on the device; an asynchronous one does when it writes to pageable memory.
 */
static bool must_wait(const CUDA_MEMCPY3D *what, bool is_sync)
{
	struct copy_plan plan;

	if (copy_plan(what, &plan) != CUDA_SUCCESS || !plan.width || !plan.height || !plan.depth)
		return false;
	if (is_sync)
		return !plan.src_device || !plan.dst_device;
	return plan.dst_pageable && plan.src_device;
}

CUresult copy_submit(CUcontext ctx, CUstream handle, enum stream_default dflt,
		     const CUDA_MEMCPY3D *what, bool is_sync)
{
	struct op op = { .kind = OP_COPY, .copy = { .what = *what, .ctx = ctx } };
	CUstream stream;
	bool wait;
	CUresult r = stream_get(ctx, handle, dflt, &stream);

	if (r != CUDA_SUCCESS)
		return r;
	if (is_sync) {
		if (capture_stream_is_active(stream))
			return capture_refuse(stream);
		r = capture_check_legacy(stream);
		if (r != CUDA_SUCCESS)
			return r;
	}
	if (!what->WidthInBytes || !what->Height || !what->Depth)
		return CUDA_SUCCESS;
	wait = !capture_stream_is_active(stream) && must_wait(what, is_sync);
	r = op_submit(stream, &op);
	return r == CUDA_SUCCESS && wait ? stream_wait(stream) : r;
}

static struct CUDA_MEMCPY3D_st row(size_t bytes)
{
	return (struct CUDA_MEMCPY3D_st){ .WidthInBytes = bytes, .Height = 1, .Depth = 1 };
}

static CUresult unified(CUcontext ctx, CUdeviceptr dst, CUdeviceptr src, size_t bytes,
			CUstream stream, enum stream_default dflt, bool is_sync)
{
	CUDA_MEMCPY3D what = row(bytes);

	what.srcMemoryType = what.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
	what.srcDevice = src;
	what.dstDevice = dst;
	return copy_submit(ctx, stream, dflt, &what, is_sync);
}

static CUresult htod(CUcontext ctx, CUdeviceptr dst, const void *src, size_t bytes, CUstream stream,
		     enum stream_default dflt, bool is_sync)
{
	CUDA_MEMCPY3D what = row(bytes);

	what.srcMemoryType = CU_MEMORYTYPE_HOST;
	what.srcHost = src;
	what.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	what.dstDevice = dst;
	return copy_submit(ctx, stream, dflt, &what, is_sync);
}

static CUresult dtoh(CUcontext ctx, void *dst, CUdeviceptr src, size_t bytes, CUstream stream,
		     enum stream_default dflt, bool is_sync)
{
	CUDA_MEMCPY3D what = row(bytes);

	what.srcMemoryType = CU_MEMORYTYPE_DEVICE;
	what.srcDevice = src;
	what.dstMemoryType = CU_MEMORYTYPE_HOST;
	what.dstHost = dst;
	return copy_submit(ctx, stream, dflt, &what, is_sync);
}

static CUresult dtod(CUcontext ctx, CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream,
		     enum stream_default dflt, bool is_sync)
{
	CUDA_MEMCPY3D what = row(bytes);

	what.srcMemoryType = what.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	what.srcDevice = src;
	what.dstDevice = dst;
	return copy_submit(ctx, stream, dflt, &what, is_sync);
}

static CUresult peer(CUcontext ctx, CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src,
		     CUcontext src_ctx, size_t bytes, CUstream stream, enum stream_default dflt,
		     bool is_sync)
{
	CUresult r = dst_ctx ? sim_ctx_check(dst_ctx) : CUDA_SUCCESS;

	if (r == CUDA_SUCCESS && src_ctx)
		r = sim_ctx_check(src_ctx);
	return r == CUDA_SUCCESS ? dtod(ctx, dst, src, bytes, stream, dflt, is_sync) : r;
}

STREAM_TWINS(cuMemcpy, cuMemcpy_ptds, (CUdeviceptr dst, CUdeviceptr src, size_t ByteCount),
	     SIM_CTX | SIM_LOCK, unified(call.ctx, dst, src, ByteCount, NULL, dflt, true),
	     "%#llx, %#llx, %zu", dst, src, ByteCount)
STREAM_TWINS(cuMemcpyAsync, cuMemcpyAsync_ptsz,
	     (CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream),
	     SIM_CTX | SIM_LOCK, unified(call.ctx, dst, src, ByteCount, hStream, dflt, false),
	     "%#llx, %#llx, %zu, %p", dst, src, ByteCount, (void *)hStream)
STREAM_TWINS(cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds,
	     (CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount), SIM_CTX | SIM_LOCK,
	     htod(call.ctx, dstDevice, srcHost, ByteCount, NULL, dflt, true), "%#llx, %p, %zu",
	     dstDevice, srcHost, ByteCount)
STREAM_TWINS(cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync_v2_ptsz,
	     (CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream),
	     SIM_CTX | SIM_LOCK,
	     htod(call.ctx, dstDevice, srcHost, ByteCount, hStream, dflt, false),
	     "%#llx, %p, %zu, %p", dstDevice, srcHost, ByteCount, (void *)hStream)
STREAM_TWINS(cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds,
	     (void *dstHost, CUdeviceptr srcDevice, size_t ByteCount), SIM_CTX | SIM_LOCK,
	     dtoh(call.ctx, dstHost, srcDevice, ByteCount, NULL, dflt, true), "%p, %#llx, %zu",
	     dstHost, srcDevice, ByteCount)
STREAM_TWINS(cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync_v2_ptsz,
	     (void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream),
	     SIM_CTX | SIM_LOCK,
	     dtoh(call.ctx, dstHost, srcDevice, ByteCount, hStream, dflt, false),
	     "%p, %#llx, %zu, %p", dstHost, srcDevice, ByteCount, (void *)hStream)
STREAM_TWINS(cuMemcpyDtoD_v2, cuMemcpyDtoD_v2_ptds,
	     (CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount), SIM_CTX | SIM_LOCK,
	     dtod(call.ctx, dstDevice, srcDevice, ByteCount, NULL, dflt, true), "%#llx, %#llx, %zu",
	     dstDevice, srcDevice, ByteCount)
STREAM_TWINS(cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync_v2_ptsz,
	     (CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream),
	     SIM_CTX | SIM_LOCK,
	     dtod(call.ctx, dstDevice, srcDevice, ByteCount, hStream, dflt, false),
	     "%#llx, %#llx, %zu, %p", dstDevice, srcDevice, ByteCount, (void *)hStream)
STREAM_TWINS(cuMemcpyPeer, cuMemcpyPeer_ptds,
	     (CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
	      CUcontext srcContext, size_t ByteCount),
	     SIM_CTX | SIM_LOCK,
	     peer(call.ctx, dstDevice, dstContext, srcDevice, srcContext, ByteCount, NULL, dflt,
		  true),
	     "%#llx, %p, %#llx, %p, %zu", dstDevice, (void *)dstContext, srcDevice,
	     (void *)srcContext, ByteCount)
STREAM_TWINS(cuMemcpyPeerAsync, cuMemcpyPeerAsync_ptsz,
	     (CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
	      CUcontext srcContext, size_t ByteCount, CUstream hStream),
	     SIM_CTX | SIM_LOCK,
	     peer(call.ctx, dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream, dflt,
		  false),
	     "%#llx, %p, %#llx, %p, %zu, %p", dstDevice, (void *)dstContext, srcDevice,
	     (void *)srcContext, ByteCount, (void *)hStream)

/* The copies from and to arrays give an offset in bytes into the first row's layer. */

static CUresult array_side(CUarray array, size_t offset, size_t bytes, size_t *ret_x, size_t *ret_y)
{
	struct sim_array_view view;
	CUresult r = sim_array_view(array, &view);

	if (r != CUDA_SUCCESS)
		return r;
	*ret_y = offset / view.row_bytes;
	*ret_x = offset % view.row_bytes;
	/* what goes on in the next row would not be one rectangle */
	return bytes > view.row_bytes - *ret_x ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static CUresult from_array(CUcontext ctx, CUmemorytype type, void *host, CUdeviceptr dst,
			   CUarray src, size_t offset, size_t bytes, CUstream stream,
			   enum stream_default dflt, bool is_sync)
{
	CUDA_MEMCPY3D what = row(bytes);
	CUresult r = array_side(src, offset, bytes, &what.srcXInBytes, &what.srcY);

	if (r != CUDA_SUCCESS)
		return r;
	what.srcMemoryType = CU_MEMORYTYPE_ARRAY;
	what.srcArray = src;
	what.dstMemoryType = type;
	what.dstHost = host;
	what.dstDevice = dst;
	return copy_submit(ctx, stream, dflt, &what, is_sync);
}

static CUresult to_array(CUcontext ctx, CUarray dst, size_t offset, CUmemorytype type,
			 const void *host, CUdeviceptr src, size_t bytes, CUstream stream,
			 enum stream_default dflt, bool is_sync)
{
	CUDA_MEMCPY3D what = row(bytes);
	CUresult r = array_side(dst, offset, bytes, &what.dstXInBytes, &what.dstY);

	if (r != CUDA_SUCCESS)
		return r;
	what.dstMemoryType = CU_MEMORYTYPE_ARRAY;
	what.dstArray = dst;
	what.srcMemoryType = type;
	what.srcHost = host;
	what.srcDevice = src;
	return copy_submit(ctx, stream, dflt, &what, is_sync);
}

static CUresult array_to_array(CUcontext ctx, CUarray dst, size_t dst_offset, CUarray src,
			       size_t src_offset, size_t bytes, enum stream_default dflt)
{
	CUDA_MEMCPY3D what = row(bytes);
	CUresult r = array_side(dst, dst_offset, bytes, &what.dstXInBytes, &what.dstY);

	if (r == CUDA_SUCCESS)
		r = array_side(src, src_offset, bytes, &what.srcXInBytes, &what.srcY);
	if (r != CUDA_SUCCESS)
		return r;
	what.dstMemoryType = what.srcMemoryType = CU_MEMORYTYPE_ARRAY;
	what.dstArray = dst;
	what.srcArray = src;
	return copy_submit(ctx, NULL, dflt, &what, true);
}

STREAM_TWINS(cuMemcpyAtoA_v2, cuMemcpyAtoA_v2_ptds,
	     (CUarray dstArray, size_t dstOffset, CUarray srcArray, size_t srcOffset,
	      size_t ByteCount),
	     SIM_CTX | SIM_LOCK,
	     array_to_array(call.ctx, dstArray, dstOffset, srcArray, srcOffset, ByteCount, dflt),
	     "%p, %zu, %p, %zu, %zu", (void *)dstArray, dstOffset, (void *)srcArray, srcOffset,
	     ByteCount)
STREAM_TWINS(cuMemcpyAtoD_v2, cuMemcpyAtoD_v2_ptds,
	     (CUdeviceptr dstDevice, CUarray srcArray, size_t srcOffset, size_t ByteCount),
	     SIM_CTX | SIM_LOCK,
	     from_array(call.ctx, CU_MEMORYTYPE_DEVICE, NULL, dstDevice, srcArray, srcOffset,
			ByteCount, NULL, dflt, true),
	     "%#llx, %p, %zu, %zu", dstDevice, (void *)srcArray, srcOffset, ByteCount)
STREAM_TWINS(cuMemcpyAtoH_v2, cuMemcpyAtoH_v2_ptds,
	     (void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount),
	     SIM_CTX | SIM_LOCK,
	     from_array(call.ctx, CU_MEMORYTYPE_HOST, dstHost, 0, srcArray, srcOffset, ByteCount,
			NULL, dflt, true),
	     "%p, %p, %zu, %zu", dstHost, (void *)srcArray, srcOffset, ByteCount)
STREAM_TWINS(cuMemcpyAtoHAsync_v2, cuMemcpyAtoHAsync_v2_ptsz,
	     (void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount,
	      CUstream hStream),
	     SIM_CTX | SIM_LOCK,
	     from_array(call.ctx, CU_MEMORYTYPE_HOST, dstHost, 0, srcArray, srcOffset, ByteCount,
			hStream, dflt, false),
	     "%p, %p, %zu, %zu, %p", dstHost, (void *)srcArray, srcOffset, ByteCount,
	     (void *)hStream)
STREAM_TWINS(cuMemcpyDtoA_v2, cuMemcpyDtoA_v2_ptds,
	     (CUarray dstArray, size_t dstOffset, CUdeviceptr srcDevice, size_t ByteCount),
	     SIM_CTX | SIM_LOCK,
	     to_array(call.ctx, dstArray, dstOffset, CU_MEMORYTYPE_DEVICE, NULL, srcDevice,
		      ByteCount, NULL, dflt, true),
	     "%p, %zu, %#llx, %zu", (void *)dstArray, dstOffset, srcDevice, ByteCount)
STREAM_TWINS(cuMemcpyHtoA_v2, cuMemcpyHtoA_v2_ptds,
	     (CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount),
	     SIM_CTX | SIM_LOCK,
	     to_array(call.ctx, dstArray, dstOffset, CU_MEMORYTYPE_HOST, srcHost, 0, ByteCount,
		      NULL, dflt, true),
	     "%p, %zu, %p, %zu", (void *)dstArray, dstOffset, srcHost, ByteCount)
STREAM_TWINS(cuMemcpyHtoAAsync_v2, cuMemcpyHtoAAsync_v2_ptsz,
	     (CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount,
	      CUstream hStream),
	     SIM_CTX | SIM_LOCK,
	     to_array(call.ctx, dstArray, dstOffset, CU_MEMORYTYPE_HOST, srcHost, 0, ByteCount,
		      hStream, dflt, false),
	     "%p, %zu, %p, %zu, %p", (void *)dstArray, dstOffset, srcHost, ByteCount,
	     (void *)hStream)
