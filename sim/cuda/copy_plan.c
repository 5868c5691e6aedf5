// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/clock.h"
#include "sim/cuda/copy.h"

#define COPY_LATENCY_NS ((uint64_t)4000) /* from the engine's start to its first byte, and back */
#define COPY_PITCH_MAX  ((size_t)INT32_MAX)

/* one side of a CUDA_MEMCPY3D */
struct side {
	CUmemorytype type;
	const void *host;
	CUdeviceptr device;
	CUarray array;
	size_t x, y, z, pitch, height;
};

/* what became of it */
struct place {
	unsigned char *at;
	size_t pitch, slice;
	struct sim_device *device;
	bool pageable;
};

/* bytes from the first to behind the last byte touched; false when that wraps */
static bool extent(const struct place *place, const CUDA_MEMCPY3D *what, uint64_t *ret)
{
	uint64_t layers, rows, bytes;

	return size_mul(place->slice, what->Depth - 1, &layers) &&
	       size_mul(place->pitch, what->Height - 1, &rows) && size_add(layers, rows, &bytes) &&
	       size_add(bytes, what->WidthInBytes, ret);
}

static CUresult place_array(const struct side *side, const CUDA_MEMCPY3D *what, struct place *ret)
{
	struct sim_array_view view;
	CUresult r = sim_array_view(side->array, &view);

	if (r != CUDA_SUCCESS)
		return r;
	if (side->x > view.row_bytes || what->WidthInBytes > view.row_bytes - side->x ||
	    side->y > view.rows || what->Height > view.rows - side->y || side->z > view.layers ||
	    what->Depth > view.layers - side->z)
		return CUDA_ERROR_INVALID_VALUE;
	ret->pitch = view.pitch_bytes;
	ret->slice = view.pitch_bytes * view.rows;
	ret->device = view.device;
	ret->at =
		(unsigned char *)view.host + side->z * ret->slice + side->y * ret->pitch + side->x;
	return CUDA_SUCCESS;
}

static CUresult place_linear(const struct side *side, const CUDA_MEMCPY3D *what, bool is_write,
			     struct place *ret)
{
	uint64_t base = side->type == CU_MEMORYTYPE_HOST ? (uintptr_t)side->host : side->device;
	uint64_t layers, rows, offset, bytes;
	size_t height = side->height;
	struct sim_ptr ptr;

	ret->pitch = side->pitch;
	if (what->Height > 1 || what->Depth > 1 || side->y || side->z) {
		if (ret->pitch > COPY_PITCH_MAX || ret->pitch < what->WidthInBytes ||
		    side->x > ret->pitch - what->WidthInBytes)
			return CUDA_ERROR_INVALID_VALUE;
	}
	if ((what->Depth > 1 || side->z) &&
	    (height < what->Height || side->y > height - what->Height))
		return CUDA_ERROR_INVALID_VALUE;
	if (!size_mul(ret->pitch, height, &ret->slice) || !size_mul(ret->slice, side->z, &layers) ||
	    !size_mul(ret->pitch, side->y, &rows) || !size_add(layers, rows, &offset) ||
	    !size_add(offset, side->x, &offset) || !size_add(base, offset, &base) ||
	    !extent(ret, what, &bytes))
		return CUDA_ERROR_INVALID_VALUE;
	ret->at = (unsigned char *)(uintptr_t)base;
	if (sim_ptr_find(base, &ptr)) {
		CUresult r = sim_ptr_check(base, bytes, is_write);

		ret->device = ptr.device;
		return side->type == CU_MEMORYTYPE_HOST ? CUDA_SUCCESS : r;
	}
	if (side->type == CU_MEMORYTYPE_DEVICE || !base)
		return CUDA_ERROR_INVALID_VALUE;
	ret->pageable = true;
	return CUDA_SUCCESS;
}

static CUresult place(const struct side *side, const CUDA_MEMCPY3D *what, bool is_write,
		      struct place *ret)
{
	*ret = (struct place){ 0 };
	switch (side->type) {
	case CU_MEMORYTYPE_ARRAY:
		return place_array(side, what, ret);
	case CU_MEMORYTYPE_HOST:
	case CU_MEMORYTYPE_DEVICE:
	case CU_MEMORYTYPE_UNIFIED:
		return place_linear(side, what, is_write, ret);
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult copy_plan(const CUDA_MEMCPY3D *what, struct copy_plan *ret)
{
	struct side from = { what->srcMemoryType, what->srcHost,     what->srcDevice,
			     what->srcArray,      what->srcXInBytes, what->srcY,
			     what->srcZ,          what->srcPitch,    what->srcHeight };
	struct side to = { what->dstMemoryType, what->dstHost,     what->dstDevice,
			   what->dstArray,      what->dstXInBytes, what->dstY,
			   what->dstZ,          what->dstPitch,    what->dstHeight };
	struct place src, dst;
	CUresult r;

	*ret = (struct copy_plan){ .width = what->WidthInBytes,
				   .height = what->Height,
				   .depth = what->Depth };
	if (!ret->width || !ret->height || !ret->depth)
		return CUDA_SUCCESS;
	r = place(&from, what, false, &src);
	if (r == CUDA_SUCCESS)
		r = place(&to, what, true, &dst);
	if (r != CUDA_SUCCESS)
		return r;
	ret->src = src.at;
	ret->src_pitch = src.pitch;
	ret->src_slice = src.slice;
	ret->src_device = src.device;
	ret->src_pageable = src.pageable;
	ret->dst = dst.at;
	ret->dst_pitch = dst.pitch;
	ret->dst_slice = dst.slice;
	ret->dst_device = dst.device;
	ret->dst_pageable = dst.pageable;
	return CUDA_SUCCESS;
}

void copy_run(const struct copy_plan *plan)
{
	for (size_t z = 0; plan->width && z < plan->depth; z++) {
		for (size_t y = 0; y < plan->height; y++)
			memmove(plan->dst + z * plan->dst_slice + y * plan->dst_pitch,
				plan->src + z * plan->src_slice + y * plan->src_pitch, plan->width);
	}
}

static uint64_t at_rate(unsigned __int128 bytes, uint64_t bytes_per_s)
{
	return bytes_per_s ? (uint64_t)(bytes * NS_PER_S / bytes_per_s) : 0;
}

uint64_t copy_duration_ns(CUcontext ctx, const struct copy_plan *plan, enum timeline_lane *ret_lane)
{
	const struct sim_device_info *info = ctx->device->info;
	unsigned __int128 bytes = (unsigned __int128)plan->width * plan->height * plan->depth;

	*ret_lane = TIMELINE_NARROW;
	if (!bytes || (!plan->src_device && !plan->dst_device))
		return 0;
	if (plan->src_device == plan->dst_device)
		return COPY_LATENCY_NS + at_rate(bytes * 2, info->device_copy_bytes_per_s);
	*ret_lane = plan->dst_device ? TIMELINE_COPY_IN : TIMELINE_COPY_OUT;
	return COPY_LATENCY_NS + at_rate(bytes, info->copy_bytes_per_s);
}

static bool set_bytes(const CUDA_MEMSET_NODE_PARAMS_v2 *set, uint64_t *ret_row, uint64_t *ret_all)
{
	uint64_t rows;

	return size_mul(set->width, set->elementSize, ret_row) &&
	       size_mul(set->pitch, set->height - 1, &rows) && size_add(rows, *ret_row, ret_all);
}

CUresult set_check(CUcontext ctx, const CUDA_MEMSET_NODE_PARAMS_v2 *set)
{
	uint64_t row, all;

	if (set->elementSize != 1 && set->elementSize != 2 && set->elementSize != 4)
		return CUDA_ERROR_INVALID_VALUE;
	if (!set->width || !set->height)
		return CUDA_SUCCESS;
	if (!set_bytes(set, &row, &all) || set->dst % set->elementSize)
		return CUDA_ERROR_INVALID_VALUE;
	if (set->height > 1 && (set->pitch < row || set->pitch % set->elementSize))
		return CUDA_ERROR_INVALID_VALUE;
	return sim_ptr_reach(ctx, set->dst, all, true);
}

static void set_row(unsigned char *at, size_t width, unsigned element_bytes, unsigned value)
{
	uint16_t half = (uint16_t)value;

	if (element_bytes == 1) {
		memset(at, (int)(value & 0xff), width);
		return;
	}
	for (size_t i = 0; i < width; i++) {
		if (element_bytes == 2)
			memcpy(at + i * 2, &half, 2);
		else
			memcpy(at + i * 4, &value, 4);
	}
}

void set_run(const CUDA_MEMSET_NODE_PARAMS_v2 *set)
{
	unsigned char *at = (unsigned char *)(uintptr_t)set->dst;

	for (size_t y = 0; set->width && y < set->height; y++)
		set_row(at + y * set->pitch, set->width, set->elementSize, set->value);
}

uint64_t set_duration_ns(CUcontext ctx, const CUDA_MEMSET_NODE_PARAMS_v2 *set)
{
	unsigned __int128 bytes = (unsigned __int128)set->width * set->elementSize * set->height;

	return at_rate(bytes, ctx->device->info->device_copy_bytes_per_s);
}
