// SPDX-License-Identifier: Apache-2.0
/* The settings of core dumps of the card. They are kept and told; a simulated card dumps nothing.
 */
#include <string.h>

#include "base/str.h"
#include "sim/cuda/sim.h"

#define TEXT_SIZE 1024

/* one set for the process; contexts have none of their own */
static bool switches[CU_COREDUMP_MAX];
static char file[TEXT_SIZE] = "core_%t_%h_%p", pipe_name[TEXT_SIZE] = "corepipe_cuda_%h_%p";
static unsigned generation_flags;

static char *text_of(CUcoredumpSettings attrib)
{
	return attrib == CU_COREDUMP_FILE ? file : attrib == CU_COREDUMP_PIPE ? pipe_name : NULL;
}

static CUresult get(CUcoredumpSettings attrib, void *value, size_t *size)
{
	const char *text = text_of(attrib);

	if (!size || (int)attrib < 1 || attrib >= CU_COREDUMP_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (text) {
		size_t room = *size;

		*size = strlen(text) + 1;
		if (value)
			str_copy(value, room, text);
		return CUDA_SUCCESS;
	}
	if (attrib == CU_COREDUMP_GENERATION_FLAGS) {
		*size = sizeof(generation_flags);
		if (value)
			memcpy(value, &generation_flags, sizeof(generation_flags));
		return CUDA_SUCCESS;
	}
	*size = sizeof(switches[0]);
	if (value)
		memcpy(value, &switches[attrib], sizeof(switches[0]));
	return CUDA_SUCCESS;
}

static CUresult set(CUcoredumpSettings attrib, const void *value, const size_t *size)
{
	char *text = text_of(attrib);

	if (!value || !size || !*size || (int)attrib < 1 || attrib >= CU_COREDUMP_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (text)
		return *size < TEXT_SIZE && str_is_terminated(value, *size) &&
				       str_copy(text, TEXT_SIZE, value)
			       ? CUDA_SUCCESS
			       : CUDA_ERROR_INVALID_VALUE;
	if (attrib == CU_COREDUMP_GENERATION_FLAGS) {
		if (*size != sizeof(generation_flags))
			return CUDA_ERROR_INVALID_VALUE;
		memcpy(&generation_flags, value, sizeof(generation_flags));
		return CUDA_SUCCESS;
	}
	if (*size != sizeof(switches[0]))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&switches[attrib], value, sizeof(switches[0]));
	return CUDA_SUCCESS;
}

CUresult cuCoredumpGetAttribute(CUcoredumpSettings attrib, void *value, size_t *size)
{
	return SIM_CALL(cuCoredumpGetAttribute, SIM_CTX | SIM_LOCK, get(attrib, value, size),
			"attrib=%d", (int)attrib);
}

CUresult cuCoredumpGetAttributeGlobal(CUcoredumpSettings attrib, void *value, size_t *size)
{
	return SIM_CALL(cuCoredumpGetAttributeGlobal, SIM_LOCK, get(attrib, value, size),
			"attrib=%d", (int)attrib);
}

CUresult cuCoredumpSetAttribute(CUcoredumpSettings attrib, void *value, size_t *size)
{
	return SIM_CALL(cuCoredumpSetAttribute, SIM_CTX | SIM_LOCK, set(attrib, value, size),
			"attrib=%d", (int)attrib);
}

CUresult cuCoredumpSetAttributeGlobal(CUcoredumpSettings attrib, void *value, size_t *size)
{
	return SIM_CALL(cuCoredumpSetAttributeGlobal, SIM_LOCK, set(attrib, value, size),
			"attrib=%d", (int)attrib);
}
