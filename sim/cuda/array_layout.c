// SPDX-License-Identifier: Apache-2.0
#include "sim/cuda/array_layout.h"

#define ROW_STEP   ((uint64_t)64)
#define SIZE_STEP  ((uint64_t)65536)
#define SIDE_MAX   131072
#define HEIGHT_MAX 65536
#define DEPTH_MAX  16384
#define LAYERS_MAX 2048
/* depth textures and colour attachments are the graphics APIs' */
#define FLAGS_VALID                                                                          \
	((unsigned)CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_CUBEMAP | \
	 CUDA_ARRAY3D_TEXTURE_GATHER | CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)

/* formats that say how many channels they have: bytes of a whole element, 0 for none of them */
static unsigned packed_bytes(CUarray_format format, unsigned *ret_channels)
{
	static const struct {
		CUarray_format format;
		unsigned bytes, channels;
	} packed[] = {
		{ CU_AD_FORMAT_UNORM_INT8X1, 1, 1 },
		{ CU_AD_FORMAT_UNORM_INT8X2, 2, 2 },
		{ CU_AD_FORMAT_UNORM_INT8X4, 4, 4 },
		{ CU_AD_FORMAT_UNORM_INT16X1, 2, 1 },
		{ CU_AD_FORMAT_UNORM_INT16X2, 4, 2 },
		{ CU_AD_FORMAT_UNORM_INT16X4, 8, 4 },
		{ CU_AD_FORMAT_SNORM_INT8X1, 1, 1 },
		{ CU_AD_FORMAT_SNORM_INT8X2, 2, 2 },
		{ CU_AD_FORMAT_SNORM_INT8X4, 4, 4 },
		{ CU_AD_FORMAT_SNORM_INT16X1, 2, 1 },
		{ CU_AD_FORMAT_SNORM_INT16X2, 4, 2 },
		{ CU_AD_FORMAT_SNORM_INT16X4, 8, 4 },
		{ CU_AD_FORMAT_UNORM_INT_101010_2, 4, 4 },
		/* blocks of 4 x 4, kept here as if each element stood alone */
		{ CU_AD_FORMAT_BC1_UNORM, 1, 4 },
		{ CU_AD_FORMAT_BC1_UNORM_SRGB, 1, 4 },
		{ CU_AD_FORMAT_BC2_UNORM, 1, 4 },
		{ CU_AD_FORMAT_BC2_UNORM_SRGB, 1, 4 },
		{ CU_AD_FORMAT_BC3_UNORM, 1, 4 },
		{ CU_AD_FORMAT_BC3_UNORM_SRGB, 1, 4 },
		{ CU_AD_FORMAT_BC7_UNORM, 1, 4 },
		{ CU_AD_FORMAT_BC7_UNORM_SRGB, 1, 4 },
	};

	for (size_t i = 0; i < sizeof(packed) / sizeof(packed[0]); i++) {
		if (packed[i].format != format)
			continue;
		if (ret_channels)
			*ret_channels = packed[i].channels;
		return packed[i].bytes;
	}
	return 0;
}

unsigned sim_format_bytes(CUarray_format format)
{
	switch ((unsigned)format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8:
		return 1;
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF:
		return 2;
	case CU_AD_FORMAT_UNSIGNED_INT32:
	case CU_AD_FORMAT_SIGNED_INT32:
	case CU_AD_FORMAT_FLOAT:
		return 4;
	default:
		return packed_bytes(format, NULL);
	}
}

uint64_t array_element_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	unsigned packed = packed_bytes(d->Format, NULL);

	return packed ? packed : (uint64_t)sim_format_bytes(d->Format) * d->NumChannels;
}

uint64_t array_pitch_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	return size_round_up(d->Width * array_element_bytes(d), ROW_STEP);
}

/*
 * What the card needs for it: rows in groups of 8, these in blocks of up to 16 (in space: 2, and
 * slices in blocks of up to 8). Fitted to what an H200 tells.
 */
uint64_t array_card_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	bool is_space = d->Depth > 1 && !(d->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP));
	uint64_t rows = size_round_up(d->Height ? d->Height : 1, 8);
	uint64_t slices = d->Depth ? d->Depth : 1;
	uint64_t block = 8;

	while (block < rows && block < (is_space ? 16 : 128))
		block *= 2;
	if (is_space)
		slices = size_round_up(slices, slices > 4 ? 8 : slices > 2 ? 4 : 2);
	return size_round_up(array_pitch_bytes(d) * size_round_up(rows, block) * slices, SIZE_STEP);
}

/* what is kept of it here */
uint64_t array_kept_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	return array_pitch_bytes(d) * (d->Height ? d->Height : 1) * (d->Depth ? d->Depth : 1);
}

static bool format_is_valid(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	unsigned channels;

	if (packed_bytes(d->Format, &channels))
		return d->NumChannels == channels;
	return sim_format_bytes(d->Format) &&
	       (d->NumChannels == 1 || d->NumChannels == 2 || d->NumChannels == 4);
}

static bool size_is_valid(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	bool is_layered = d->Flags & CUDA_ARRAY3D_LAYERED,
	     is_cube = d->Flags & CUDA_ARRAY3D_CUBEMAP;

	if (!d->Width || d->Width > SIDE_MAX || d->Height > HEIGHT_MAX)
		return false;
	if (is_cube)
		return d->Width == d->Height && d->Depth && d->Depth % 6 == 0 &&
		       (is_layered || d->Depth == 6);
	if (is_layered)
		return d->Depth && d->Depth <= LAYERS_MAX;
	if (d->Depth)
		return d->Height && d->Width <= DEPTH_MAX && d->Height <= DEPTH_MAX &&
		       d->Depth <= DEPTH_MAX && !(d->Flags & CUDA_ARRAY3D_TEXTURE_GATHER);
	return true;
}

bool array_is_valid(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	unsigned unbacked = CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING;

	return !(d->Flags & ~FLAGS_VALID) && (d->Flags & unbacked) != unbacked &&
	       format_is_valid(d) && size_is_valid(d);
}
