// SPDX-License-Identifier: Apache-2.0
/*
 * Arrays and mipmapped arrays. Their layout on the card is the driver's secret; here rows stand one
 * behind the other, padded to whole 64 bytes. What GetMemoryRequirements tells and what is charged
 * is what the card would need.
 */
#include <stdlib.h>

#include "sim/cuda/array_layout.h"
#include "sim/cuda/context.h"
#include "sim/cuda/ranges.h"

#define SIZE_STEP  ((uint64_t)65536)
#define LEVELS_MAX 32

struct CUarray_st {
	struct list node; /* CUctx_st.arrays, or a mipmap's level: unlinked */
	CUDA_ARRAY3D_DESCRIPTOR desc;
	struct sim_device *device;
	struct sim_alloc *memory; /* NULL: mapping deferred, or a level of a mipmap */
	char *data;
	uint64_t bytes;
	struct CUmipmappedArray_st *mipmap;
	CUarray next_known;
};

struct CUmipmappedArray_st {
	struct list node; /* mipmaps */
	CUcontext ctx;
	struct sim_device *device;
	struct sim_alloc *memory;
	unsigned flags, levels;
	uint64_t bytes;
	struct CUarray_st level[LEVELS_MAX];
};

static CUarray known; /* arrays that live, without levels */
static struct list mipmaps = { &mipmaps, &mipmaps };

static CUarray find(CUarray array)
{
	struct CUmipmappedArray_st *mipmap;

	for (CUarray it = known; it; it = it->next_known) {
		if (it == array)
			return it;
	}
	list_for_each (mipmap, &mipmaps, node) {
		if (array >= mipmap->level && array < mipmap->level + mipmap->levels)
			return array;
	}
	return NULL;
}

/* a handle that is none any more looks to the driver like one of an ended context */
static CUresult no_array(const void *handle)
{
	return handle ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_ERROR_INVALID_HANDLE;
}

static CUmipmappedArray find_mipmap(const struct CUmipmappedArray_st *mipmap)
{
	struct CUmipmappedArray_st *it;

	list_for_each (it, &mipmaps, node) {
		if (it == mipmap)
			return it;
	}
	return NULL;
}

/* Arrays. */

static CUresult back(CUcontext ctx, unsigned flags, uint64_t bytes, struct sim_alloc **ret)
{
	if (flags & (CUDA_ARRAY3D_DEFERRED_MAPPING | CUDA_ARRAY3D_SPARSE)) {
		*ret = NULL; /* cuMemMapArrayAsync will give it memory */
		return CUDA_SUCCESS;
	}
	return sim_alloc_new(ctx, bytes, SIM_ALLOC_ARRAY, SIM_USE_ALLOC, ret);
}

static CUresult create(CUcontext ctx, CUarray *ret, const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
	CUarray array;
	CUresult result;

	if (!ret || !desc)
		return CUDA_ERROR_INVALID_VALUE;
	result = array_is_valid(desc) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	if (!result)
		result = sim_exec_unsafe_call();
	if (result)
		return result;
	array = calloc(1, sizeof(*array));
	if (!array)
		return CUDA_ERROR_OUT_OF_MEMORY;
	array->desc = *desc;
	array->device = ctx->device;
	array->bytes = array_card_bytes(desc);
	result = back(ctx, desc->Flags, array->bytes, &array->memory);
	if (result) {
		free(array);
		return result;
	}
	if (array->memory) {
		array->data = (char *)(uintptr_t)array->memory->base;
		/* the memory ends with the array, not by itself */
		list_del(&array->memory->ctx_node);
	}
	list_append(&ctx->arrays, &array->node);
	array->next_known = known;
	known = array;
	*ret = array;
	return CUDA_SUCCESS;
}

CUresult cuArray3DCreate_v2(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray)
{
	return SIM_CALL(cuArray3DCreate_v2, SIM_CTX | SIM_LOCK,
			create(call.ctx, pHandle, pAllocateArray), "width=%zu height=%zu depth=%zu",
			pAllocateArray ? pAllocateArray->Width : 0,
			pAllocateArray ? pAllocateArray->Height : 0,
			pAllocateArray ? pAllocateArray->Depth : 0);
}

static CUresult create_2d(CUcontext ctx, CUarray *ret, const CUDA_ARRAY_DESCRIPTOR *desc)
{
	CUDA_ARRAY3D_DESCRIPTOR full;

	if (!desc)
		return CUDA_ERROR_INVALID_VALUE;
	full = (CUDA_ARRAY3D_DESCRIPTOR){
		.Width = desc->Width,
		.Height = desc->Height,
		.Format = desc->Format,
		.NumChannels = desc->NumChannels,
	};
	return create(ctx, ret, &full);
}

CUresult cuArrayCreate_v2(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR *pAllocateArray)
{
	return SIM_CALL(cuArrayCreate_v2, SIM_CTX | SIM_LOCK,
			create_2d(call.ctx, pHandle, pAllocateArray), "width=%zu height=%zu",
			pAllocateArray ? pAllocateArray->Width : 0,
			pAllocateArray ? pAllocateArray->Height : 0);
}

static void array_free(CUarray array)
{
	CUarray *at = &known;

	while (*at && *at != array)
		at = &(*at)->next_known;
	if (*at)
		*at = array->next_known;
	sim_alloc_free(array->memory);
	list_del(&array->node);
	free(array);
}

static CUresult destroy(CUcontext ctx, CUarray handle)
{
	CUarray array = find(handle);
	CUresult result;

	if (!array)
		return no_array(handle);
	if (array->mipmap)
		return CUDA_SUCCESS; /* a level ends with its mipmap */
	result = sim_exec_ctx_sync(ctx);
	if (result)
		return result;
	if (find(handle))
		array_free(array);
	return CUDA_SUCCESS;
}

CUresult cuArrayDestroy(CUarray hArray)
{
	return SIM_CALL(cuArrayDestroy, SIM_CTX | SIM_LOCK, destroy(call.ctx, hArray), "array=%p",
			(void *)hArray);
}

static CUresult descriptor_3d(CUDA_ARRAY3D_DESCRIPTOR *ret, CUarray handle)
{
	const struct CUarray_st *array = find(handle);

	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	if (!array)
		return no_array(handle);
	*ret = array->desc;
	return CUDA_SUCCESS;
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *pArrayDescriptor, CUarray hArray)
{
	return SIM_CALL(cuArray3DGetDescriptor_v2, SIM_CTX | SIM_LOCK,
			descriptor_3d(pArrayDescriptor, hArray), "array=%p", (void *)hArray);
}

static CUresult descriptor_2d(CUDA_ARRAY_DESCRIPTOR *ret, CUarray handle)
{
	CUDA_ARRAY3D_DESCRIPTOR full;
	CUresult result = ret ? descriptor_3d(&full, handle) : CUDA_ERROR_INVALID_VALUE;

	if (result)
		return result;
	*ret = (CUDA_ARRAY_DESCRIPTOR){ full.Width, full.Height, full.Format, full.NumChannels };
	return CUDA_SUCCESS;
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *pArrayDescriptor, CUarray hArray)
{
	return SIM_CALL(cuArrayGetDescriptor_v2, SIM_CTX | SIM_LOCK,
			descriptor_2d(pArrayDescriptor, hArray), "array=%p", (void *)hArray);
}

static CUresult requirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *ret, uint64_t bytes, unsigned flags,
			     CUdevice dev)
{
	if (!ret || !sim_device(dev))
		return CUDA_ERROR_INVALID_VALUE;
	/* told only of arrays whose memory the program brings */
	if (!(flags & CUDA_ARRAY3D_DEFERRED_MAPPING))
		return CUDA_ERROR_INVALID_VALUE;
	*ret = (CUDA_ARRAY_MEMORY_REQUIREMENTS){ .size = bytes, .alignment = SIZE_STEP };
	return CUDA_SUCCESS;
}

static CUresult array_requirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *ret, CUarray handle,
				   CUdevice dev)
{
	const struct CUarray_st *array = find(handle);

	return array ? requirements(ret, array->bytes, array->desc.Flags, dev)
		     : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *memoryRequirements,
				      CUarray array, CUdevice device)
{
	return SIM_CALL(cuArrayGetMemoryRequirements, SIM_LOCK,
			array_requirements(memoryRequirements, array, device), "array=%p dev=%d",
			(void *)array, device);
}

/* only video formats have planes, and they are not simulated */
CUresult cuArrayGetPlane(CUarray *pPlaneArray, CUarray hArray, unsigned int planeIdx)
{
	return SIM_CALL(cuArrayGetPlane, SIM_CTX | SIM_LOCK,
			find(hArray) || !pPlaneArray ? CUDA_ERROR_INVALID_VALUE
						     : CUDA_ERROR_INVALID_HANDLE,
			"array=%p plane=%u", (void *)hArray, planeIdx);
}

static CUresult sparse_properties(CUDA_ARRAY_SPARSE_PROPERTIES *ret, CUarray handle)
{
	/* tiles of 64 KiB, by the logarithm of the element's bytes */
	static const unsigned width[] = { 256, 256, 128, 128, 64 };
	static const unsigned height[] = { 256, 128, 128, 64, 64 };
	const struct CUarray_st *array = find(handle);
	unsigned log = 0;

	if (!array)
		return no_array(handle);
	if (!ret || !(array->desc.Flags & CUDA_ARRAY3D_SPARSE))
		return CUDA_ERROR_INVALID_VALUE;
	while (log < 4 && (uint64_t)1 << log < array_element_bytes(&array->desc))
		log++;
	*ret = (CUDA_ARRAY_SPARSE_PROPERTIES){
		.tileExtent = { width[log], height[log], 1 },
	};
	return CUDA_SUCCESS;
}

CUresult cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *sparseProperties, CUarray array)
{
	return SIM_CALL(cuArrayGetSparseProperties, SIM_LOCK,
			sparse_properties(sparseProperties, array), "array=%p", (void *)array);
}

CUresult sim_array_view(CUarray handle, struct sim_array_view *ret)
{
	CUarray array = find(handle);

	if (!array)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!array->data)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = (struct sim_array_view){
		.host = array->data,
		.device = array->device,
		.pitch_bytes = array_pitch_bytes(&array->desc),
		.row_bytes = array->desc.Width * array_element_bytes(&array->desc),
		.rows = array->desc.Height ? array->desc.Height : 1,
		.layers = array->desc.Depth ? array->desc.Depth : 1,
		.element_bytes = array_element_bytes(&array->desc),
	};
	return CUDA_SUCCESS;
}

/* Mipmaps: the levels stand one behind the other in one allocation. */

static size_t halve(size_t n, unsigned times)
{
	size_t side = n >> times;

	return n && !side ? 1 : side;
}

static unsigned levels_max(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	bool has_depth = !(d->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP));
	size_t side = size_max(d->Width, d->Height);
	unsigned levels = 1;

	if (has_depth)
		side = size_max(side, d->Depth);
	while (side >>= 1)
		levels++;
	return levels;
}

static void set_levels(struct CUmipmappedArray_st *mipmap, const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
	bool has_depth = !(desc->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP));
	uint64_t at = 0;

	for (unsigned i = 0; i < mipmap->levels; i++) {
		struct CUarray_st *level = &mipmap->level[i];

		level->desc = *desc;
		level->desc.Width = halve(desc->Width, i);
		level->desc.Height = halve(desc->Height, i);
		level->desc.Depth = has_depth ? halve(desc->Depth, i) : desc->Depth;
		level->device = mipmap->device;
		level->mipmap = mipmap;
		level->bytes = array_kept_bytes(&level->desc);
		if (mipmap->memory)
			level->data = (char *)(uintptr_t)mipmap->memory->base + at;
		at += level->bytes;
	}
	mipmap->bytes = size_round_up(at, SIZE_STEP);
}

static CUresult mipmap_create(CUcontext ctx, CUmipmappedArray *ret,
			      const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned levels)
{
	struct CUmipmappedArray_st *mipmap;
	CUresult result;

	if (!ret || !desc)
		return CUDA_ERROR_INVALID_VALUE;
	result = array_is_valid(desc) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	if (!result)
		result = sim_exec_unsafe_call();
	if (result)
		return result;
	mipmap = calloc(1, sizeof(*mipmap));
	if (!mipmap)
		return CUDA_ERROR_OUT_OF_MEMORY;
	mipmap->ctx = ctx;
	mipmap->device = ctx->device;
	mipmap->flags = desc->Flags;
	mipmap->levels = (unsigned)size_min(levels ? levels : 1, levels_max(desc));
	set_levels(mipmap, desc);
	result = back(ctx, desc->Flags, mipmap->bytes, &mipmap->memory);
	if (result) {
		free(mipmap);
		return result;
	}
	set_levels(mipmap, desc);
	if (mipmap->memory)
		list_del(&mipmap->memory->ctx_node);
	list_append(&mipmaps, &mipmap->node);
	*ret = mipmap;
	return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *pHandle,
				const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc,
				unsigned int numMipmapLevels)
{
	return SIM_CALL(cuMipmappedArrayCreate, SIM_CTX | SIM_LOCK,
			mipmap_create(call.ctx, pHandle, pMipmappedArrayDesc, numMipmapLevels),
			"levels=%u", numMipmapLevels);
}

static void mipmap_free(struct CUmipmappedArray_st *mipmap)
{
	sim_alloc_free(mipmap->memory);
	list_del(&mipmap->node);
	free(mipmap);
}

static CUresult mipmap_destroy(CUcontext ctx, CUmipmappedArray handle)
{
	CUresult result;

	if (!find_mipmap(handle))
		return no_array(handle);
	result = sim_exec_ctx_sync(ctx);
	if (!result && find_mipmap(handle))
		mipmap_free(handle);
	return result;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray)
{
	return SIM_CALL(cuMipmappedArrayDestroy, SIM_CTX | SIM_LOCK,
			mipmap_destroy(call.ctx, hMipmappedArray), "array=%p",
			(void *)hMipmappedArray);
}

static CUresult get_level(CUarray *ret, CUmipmappedArray handle, unsigned level)
{
	if (!find_mipmap(handle))
		return no_array(handle);
	if (!ret || level >= handle->levels)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = &handle->level[level];
	return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayGetLevel(CUarray *pLevelArray, CUmipmappedArray hMipmappedArray,
				  unsigned int level)
{
	return SIM_CALL(cuMipmappedArrayGetLevel, SIM_CTX | SIM_LOCK,
			get_level(pLevelArray, hMipmappedArray, level), "level=%u", level);
}

static CUresult mipmap_requirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *ret, CUmipmappedArray handle,
				    CUdevice dev)
{
	const struct CUmipmappedArray_st *mipmap = find_mipmap(handle);

	return mipmap ? requirements(ret, mipmap->bytes, mipmap->flags, dev)
		      : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *memoryRequirements,
					       CUmipmappedArray mipmap, CUdevice device)
{
	return SIM_CALL(cuMipmappedArrayGetMemoryRequirements, SIM_LOCK,
			mipmap_requirements(memoryRequirements, mipmap, device), "dev=%d", device);
}

void sim_ctx_free_arrays(CUcontext ctx)
{
	struct CUmipmappedArray_st *mipmap, *next_mipmap;
	struct CUarray_st *array, *next;

	list_for_each_safe (array, next, &ctx->arrays, node)
		array_free(array);
	list_for_each_safe (mipmap, next_mipmap, &mipmaps, node) {
		if (mipmap->ctx == ctx)
			mipmap_free(mipmap);
	}
}
