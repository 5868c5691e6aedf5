// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "sim/cuda/exec.h"

/*
 * Tensor maps.  What the driver encodes is its hardware's business; the simulator's own encoding
 * keeps what was said, after the checks that NVIDIA's documentation states.  The simulated kernels
 * never read one.
 */

#define RANK_MAX    5
#define BOX_MAX     256
#define STRIDE_MAX  8
#define ADDRESS_ALN 16u
#define WORDS       16

/* the words of the encoding: a mark, address, rank and type, then sizes */
enum word {
	WORD_MARK,
	WORD_ADDRESS,
	WORD_SHAPE,
	WORD_MODES,
	WORD_DIMS,
};

#define MARK 0x54656e736f724d70ull

struct tensor {
	CUtensorMapDataType type;
	cuuint32_t rank;
	void *address;
	const cuuint64_t *dims, *strides;
	const cuuint32_t *element_strides;
	CUtensorMapInterleave interleave;
	CUtensorMapSwizzle swizzle;
	CUtensorMapL2promotion promotion;
	CUtensorMapFloatOOBfill fill;
};

static unsigned element_bytes(CUtensorMapDataType type)
{
	switch (type) {
	case CU_TENSOR_MAP_DATA_TYPE_UINT16:
	case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
	case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16:
		return 2;
	case CU_TENSOR_MAP_DATA_TYPE_UINT32:
	case CU_TENSOR_MAP_DATA_TYPE_INT32:
	case CU_TENSOR_MAP_DATA_TYPE_FLOAT32:
	case CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ:
	case CU_TENSOR_MAP_DATA_TYPE_TFLOAT32:
	case CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ:
		return 4;
	case CU_TENSOR_MAP_DATA_TYPE_UINT64:
	case CU_TENSOR_MAP_DATA_TYPE_INT64:
	case CU_TENSOR_MAP_DATA_TYPE_FLOAT64:
		return 8;
	case CU_TENSOR_MAP_DATA_TYPE_UINT8:
	case CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B:
	case CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B:
	case CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B:
		return 1;
	}
	return 0;
}

static CUresult check(const struct tensor *t)
{
	if (!t->rank || t->rank > RANK_MAX || !element_bytes(t->type) || !t->address ||
	    (uintptr_t)t->address % ADDRESS_ALN || !t->dims || !t->element_strides ||
	    (t->rank > 1 && !t->strides))
		return CUDA_ERROR_INVALID_VALUE;
	for (cuuint32_t i = 0; i < t->rank; i++) {
		if (!t->dims[i] || t->dims[i] > (cuuint64_t)1 << 32 || !t->element_strides[i] ||
		    t->element_strides[i] > STRIDE_MAX)
			return CUDA_ERROR_INVALID_VALUE;
	}
	for (cuuint32_t i = 0; i + 1 < t->rank; i++) {
		if (t->strides[i] % ADDRESS_ALN || t->strides[i] >= (cuuint64_t)1 << 40)
			return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

static CUresult encode(CUtensorMap *ret, const struct tensor *t, uint64_t modes)
{
	cuuint64_t words[WORDS] = { 0 };
	CUresult r;

	if (!ret || (uintptr_t)ret % 64)
		return CUDA_ERROR_INVALID_VALUE;
	r = check(t);
	if (r != CUDA_SUCCESS)
		return r;
	words[WORD_MARK] = MARK;
	words[WORD_ADDRESS] = (uintptr_t)t->address;
	words[WORD_SHAPE] = t->rank | (cuuint64_t)t->type << 8 | (cuuint64_t)t->interleave << 16 |
			    (cuuint64_t)t->swizzle << 24 | (cuuint64_t)t->promotion << 32 |
			    (cuuint64_t)t->fill << 40;
	words[WORD_MODES] = modes;
	for (cuuint32_t i = 0; i < t->rank; i++)
		words[WORD_DIMS + i] = t->dims[i];
	for (cuuint32_t i = 0; i + 1 < t->rank; i++)
		words[WORD_DIMS + RANK_MAX + i] = t->strides[i];
	memcpy(ret, words, sizeof(words));
	return CUDA_SUCCESS;
}

static CUresult encode_tiled(CUtensorMap *ret, const struct tensor *t, const cuuint32_t *box)
{
	if (!box || t->rank > RANK_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	for (cuuint32_t i = 0; i < t->rank; i++) {
		if (!box[i] || box[i] > BOX_MAX)
			return CUDA_ERROR_INVALID_VALUE;
	}
	return encode(ret, t, 0);
}

CUresult cuTensorMapEncodeTiled(CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType,
				cuuint32_t tensorRank, void *globalAddress,
				const cuuint64_t *globalDim, const cuuint64_t *globalStrides,
				const cuuint32_t *boxDim, const cuuint32_t *elementStrides,
				CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
				CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill)
{
	const struct tensor t = { tensorDataType, tensorRank,     globalAddress, globalDim,
				  globalStrides,  elementStrides, interleave,    swizzle,
				  l2Promotion,    oobFill };

	return SIM_CALL(cuTensorMapEncodeTiled, SIM_INIT, encode_tiled(tensorMap, &t, boxDim),
			"%p, %d, %u, %p", (void *)tensorMap, (int)tensorDataType, tensorRank,
			globalAddress);
}

/* the corners count in pixels and leave out channels and images, so there are two fewer */
static CUresult encode_im2col(CUtensorMap *ret, const struct tensor *t, const int *lower,
			      const int *upper, cuuint32_t channels, cuuint32_t pixels)
{
	if (t->rank < 3 || !lower || !upper || !channels || channels > BOX_MAX || !pixels ||
	    pixels > 1024)
		return CUDA_ERROR_INVALID_VALUE;
	return encode(ret, t, 1 | (uint64_t)channels << 8 | (uint64_t)pixels << 32);
}

CUresult cuTensorMapEncodeIm2col(CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType,
				 cuuint32_t tensorRank, void *globalAddress,
				 const cuuint64_t *globalDim, const cuuint64_t *globalStrides,
				 const int *pixelBoxLowerCorner, const int *pixelBoxUpperCorner,
				 cuuint32_t channelsPerPixel, cuuint32_t pixelsPerColumn,
				 const cuuint32_t *elementStrides, CUtensorMapInterleave interleave,
				 CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion,
				 CUtensorMapFloatOOBfill oobFill)
{
	const struct tensor t = { tensorDataType, tensorRank,     globalAddress, globalDim,
				  globalStrides,  elementStrides, interleave,    swizzle,
				  l2Promotion,    oobFill };

	return SIM_CALL(cuTensorMapEncodeIm2col, SIM_INIT,
			encode_im2col(tensorMap, &t, pixelBoxLowerCorner, pixelBoxUpperCorner,
				      channelsPerPixel, pixelsPerColumn),
			"%p, %d, %u, %p", (void *)tensorMap, (int)tensorDataType, tensorRank,
			globalAddress);
}

static CUresult replace_address(CUtensorMap *map, void *address)
{
	cuuint64_t words[WORDS];

	if (!map || !address || (uintptr_t)address % ADDRESS_ALN)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(words, map, sizeof(words));
	if (words[WORD_MARK] != MARK)
		return CUDA_ERROR_INVALID_VALUE;
	words[WORD_ADDRESS] = (uintptr_t)address;
	memcpy(map, words, sizeof(words));
	return CUDA_SUCCESS;
}

CUresult cuTensorMapReplaceAddress(CUtensorMap *tensorMap, void *globalAddress)
{
	return SIM_CALL(cuTensorMapReplaceAddress, SIM_INIT,
			replace_address(tensorMap, globalAddress), "%p, %p", (void *)tensorMap,
			globalAddress);
}
