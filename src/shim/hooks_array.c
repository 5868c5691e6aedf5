// SPDX-License-Identifier: Apache-2.0
/*
 * CUDA arrays and mipmapped arrays.
 *
 * Their layout is the driver's secret.  The charge ahead is computed from the descriptor (bits per
 * texel, rows in the driver's tiles, every level of a mipmap); where the driver tells the size of
 * what it made, that replaces it.  What differs is seen by NVML.  Sparse arrays and those with
 * deferred mapping have no memory of their own: theirs comes from cuMemCreate.
 */
#include "base/size.h"
#include "shim/devices.h"
#include "shim/guard.h"
#include "shim/hooks.h"
#include "shim/real.h"
#include "shim/reserve.h"

/* memory is laid out in tiles of 64 bytes by 8 rows */
#define TILE_BYTES 64
#define TILE_ROWS  8

/* bits of one texel, or of one channel when *ret_per_channel */
static unsigned format_bits(CUarray_format format, bool *ret_per_channel)
{
	unsigned f = (unsigned)format;

	*ret_per_channel = true;
	switch (f) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8:
		return 8;
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF:
		return 16;
	case CU_AD_FORMAT_UNSIGNED_INT32:
	case CU_AD_FORMAT_SIGNED_INT32:
	case CU_AD_FORMAT_FLOAT:
		return 32;
	default:
		break;
	}
	*ret_per_channel = false;
	/* {U,S}NORM_INT{8,16}X{1,2,4}: the number of channels is in the format */
	if (f >= CU_AD_FORMAT_UNORM_INT8X1 && f <= CU_AD_FORMAT_SNORM_INT16X4) {
		unsigned i = (f - CU_AD_FORMAT_UNORM_INT8X1) % 6;

		return (i < 3 ? 8u : 16u) << (i % 3);
	}
	/* block compression: 4 bits a texel for BC1 and BC4, 8 for the others */
	if (f >= CU_AD_FORMAT_BC1_UNORM && f <= CU_AD_FORMAT_BC7_UNORM_SRGB) {
		bool half = f == CU_AD_FORMAT_BC1_UNORM || f == CU_AD_FORMAT_BC1_UNORM_SRGB ||
			    f == CU_AD_FORMAT_BC4_UNORM || f == CU_AD_FORMAT_BC4_SNORM;

		return half ? 4 : 8;
	}
	return 32; /* video and packed formats: 8 to 64 bits, most of them 16 to 32 */
}

static uint64_t level_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned level)
{
	bool per_channel;
	uint64_t bits = format_bits(d->Format, &per_channel);
	uint64_t width = size_max(d->Width >> level, 1);
	uint64_t height = d->Height ? size_max(d->Height >> level, 1) : 1;
	bool layered = d->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
	uint64_t depth = d->Depth ? (layered ? d->Depth : size_max(d->Depth >> level, 1)) : 1;
	uint64_t bytes;

	if (per_channel)
		bits *= d->NumChannels ? d->NumChannels : 1;
	if (!size_mul(width, bits, &bytes))
		return UINT64_MAX;
	bytes = size_round_up((bytes + 7) / 8, TILE_BYTES);
	if (height > 1)
		height = size_round_up(height, TILE_ROWS);
	if (!size_mul(bytes, height, &bytes) || !size_mul(bytes, depth, &bytes))
		return UINT64_MAX;
	return bytes;
}

/* UINT64_MAX: more than can be counted, the driver will refuse it */
static uint64_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned levels)
{
	uint64_t bytes = 0;

	if (d->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING))
		return 0;
	for (unsigned i = 0; i < levels && i < 32; i++)
		bytes = size_sat_add(bytes, level_bytes(d, i));
	return bytes == UINT64_MAX ? bytes : reserve_linear_bytes(bytes);
}

struct making {
	CUarray *array;
	CUmipmappedArray *mipmap;          /* set: cuMipmappedArrayCreate */
	const CUDA_ARRAY_DESCRIPTOR *flat; /* set: cuArrayCreate */
	const CUDA_ARRAY3D_DESCRIPTOR *deep;
	unsigned levels;
};

static CUresult driver_make(const struct making *m)
{
	if (m->mipmap)
		return real_cuMipmappedArrayCreate(m->mipmap, m->deep, m->levels);
	return m->flat ? real_cuArrayCreate_v2(m->array, m->flat)
		       : real_cuArray3DCreate_v2(m->array, m->deep);
}

static void driver_unmake(const struct making *m)
{
	if (m->mipmap)
		(void)real_cuMipmappedArrayDestroy(*m->mipmap);
	else
		(void)real_cuArrayDestroy(*m->array);
}

/* what the driver says of the thing it made; @estimate where it does not tell */
static uint64_t reported(const struct making *m, uint64_t estimate)
{
	CUDA_ARRAY_MEMORY_REQUIREMENTS req = { 0 };
	CUdevice dev;
	CUresult rc;

	if (estimate == 0 || real_cuCtxGetDevice(&dev) != CUDA_SUCCESS)
		return estimate;
	rc = m->mipmap ? real_cuMipmappedArrayGetMemoryRequirements(&req, *m->mipmap, dev)
		       : real_cuArrayGetMemoryRequirements(&req, *m->array, dev);
	return rc == CUDA_SUCCESS && req.size ? req.size : estimate;
}

static CUresult make(const struct making *m, uint64_t estimate)
{
	void *old = m->mipmap ? (void *)*m->mipmap : (void *)*m->array;
	struct reserve r;
	CUresult rc;

	if (!reserve_begin(&r, estimate))
		return CUDA_ERROR_OUT_OF_MEMORY;
	do
		rc = driver_make(m);
	while (rc == CUDA_ERROR_OUT_OF_MEMORY && reserve_again(&r));
	if (rc == CUDA_SUCCESS && !reserve_resize(&r, reported(m, estimate))) {
		driver_unmake(m);
		if (m->mipmap)
			*m->mipmap = old;
		else
			*m->array = old;
		rc = CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (rc != CUDA_SUCCESS) {
		reserve_undo(&r);
		return rc;
	}
	if (m->mipmap)
		reserve_keep(&r, BLOCK_MIPMAP, (uintptr_t)*m->mipmap);
	else
		reserve_keep(&r, BLOCK_ARRAY, (uintptr_t)*m->array);
	return rc;
}

CUresult cuArrayCreate_v2(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR *pAllocateArray)
{
	struct making m = { .array = pHandle, .flat = pAllocateArray };
	CUDA_ARRAY3D_DESCRIPTOR deep = { 0 };
	uint64_t bytes = UINT64_MAX;
	CUresult rc;

	if (pHandle && pAllocateArray) {
		deep = (CUDA_ARRAY3D_DESCRIPTOR){ .Width = pAllocateArray->Width,
						  .Height = pAllocateArray->Height,
						  .Format = pAllocateArray->Format,
						  .NumChannels = pAllocateArray->NumChannels };
		bytes = array_bytes(&deep, 1);
	}
	if (bytes == UINT64_MAX || !guard_enter())
		return real_cuArrayCreate_v2(pHandle, pAllocateArray);
	rc = make(&m, bytes);
	guard_leave();
	return rc;
}

CUresult cuArray3DCreate_v2(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray)
{
	struct making m = { .array = pHandle, .deep = pAllocateArray };
	uint64_t bytes = pHandle && pAllocateArray ? array_bytes(pAllocateArray, 1) : UINT64_MAX;
	CUresult rc;

	if (bytes == UINT64_MAX || !guard_enter())
		return real_cuArray3DCreate_v2(pHandle, pAllocateArray);
	rc = make(&m, bytes);
	guard_leave();
	return rc;
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *pHandle,
				const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc,
				unsigned int numMipmapLevels)
{
	struct making m = { .mipmap = pHandle,
			    .deep = pMipmappedArrayDesc,
			    .levels = numMipmapLevels };
	uint64_t bytes = pHandle && pMipmappedArrayDesc
				 ? array_bytes(pMipmappedArrayDesc, numMipmapLevels)
				 : UINT64_MAX;
	CUresult rc;

	if (bytes == UINT64_MAX || !guard_enter())
		return real_cuMipmappedArrayCreate(pHandle, pMipmappedArrayDesc, numMipmapLevels);
	rc = make(&m, bytes);
	guard_leave();
	return rc;
}

CUresult cuArrayDestroy(CUarray hArray)
{
	struct block *b;
	CUresult rc;

	if (!guard_enter())
		return real_cuArrayDestroy(hArray);
	b = reserve_take_out(BLOCK_ARRAY, (uintptr_t)hArray);
	rc = real_cuArrayDestroy(hArray);
	reserve_freed(b, rc == CUDA_SUCCESS);
	guard_leave();
	return rc;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray)
{
	struct block *b;
	CUresult rc;

	if (!guard_enter())
		return real_cuMipmappedArrayDestroy(hMipmappedArray);
	b = reserve_take_out(BLOCK_MIPMAP, (uintptr_t)hMipmappedArray);
	rc = real_cuMipmappedArrayDestroy(hMipmappedArray);
	reserve_freed(b, rc == CUDA_SUCCESS);
	guard_leave();
	return rc;
}
