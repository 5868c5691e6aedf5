// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "sim/cuda/module.h"
#include "sim/cuda/module_file.h"

/*
 * The JIT linker.  Its output is the PTX that went in, one after the other with the later headers
 * left out, which the simulator's module loader reads as it reads any PTX; binary input has no
 * text, so with some of it the output is an ELF header, which offers every name.
 */

#define LINK_MAGIC 0x4c6e6b4du

struct CUlinkState_st {
	uint32_t magic;
	char *text;
	size_t len;
	bool has_binary, is_complete;
};

static struct slab link_slab = SLAB_INIT(struct CUlinkState_st, LINK_MAGIC);

static CUresult create(unsigned count, CUjit_option *options, void **values, CUlinkState *ret)
{
	CUlinkState state;

	if (!ret || (count && (!options || !values)))
		return CUDA_ERROR_INVALID_VALUE;
	state = slab_new(&link_slab);
	if (!state)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ret = state;
	return CUDA_SUCCESS;
}

CUresult cuLinkCreate(unsigned int numOptions, CUjit_option *options, void **optionValues,
		      CUlinkState *stateOut)
{
	return SIM_CALL(cuLinkCreate, SIM_CTX | SIM_LOCK,
			create(numOptions, options, optionValues, stateOut), "%u, %p", numOptions,
			(void *)stateOut);
}

CUresult cuLinkCreate_v2(unsigned int numOptions, CUjit_option *options, void **optionValues,
			 CUlinkState *stateOut)
{
	return SIM_CALL(cuLinkCreate_v2, SIM_CTX | SIM_LOCK,
			create(numOptions, options, optionValues, stateOut), "%u, %p", numOptions,
			(void *)stateOut);
}

/* the text behind the header's .address_size or .target line */
static const char *body_of(const char *text)
{
	const char *at = strstr(text, ".address_size");

	if (!at)
		at = strstr(text, ".target");
	return at ? at + strcspn(at, "\n") : text;
}

static CUresult append(CUlinkState state, const char *text, size_t len)
{
	char *grown = realloc(state->text, state->len + len + 4);

	if (!grown)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(grown + state->len, text, len);
	state->text = grown;
	state->len += len;
	memset(grown + state->len, 0, 4);
	return CUDA_SUCCESS;
}

static CUresult add_text(CUlinkState state, const char *data, size_t size)
{
	AUTO_FREE char *text = calloc(1, size + 4);
	struct ptx_image image;
	const char *from;

	if (!text)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(text, data, size);
	if (ptx_image_read(text, &image) < 0)
		return CUDA_ERROR_INVALID_PTX;
	ptx_image_fini(&image);
	from = state->len ? body_of(text) : text;
	return append(state, from, strlen(from));
}

static CUresult add(CUlinkState state, CUjitInputType type, const void *data, size_t size)
{
	if (!slab_is(&link_slab, state))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!data || !size || state->is_complete || (unsigned)type >= CU_JIT_NUM_INPUT_TYPES)
		return CUDA_ERROR_INVALID_VALUE;
	if (type == CU_JIT_INPUT_PTX)
		return add_text(state, data, size);
	state->has_binary = true;
	return CUDA_SUCCESS;
}

CUresult cuLinkAddData(CUlinkState state, CUjitInputType type, void *data, size_t size,
		       const char *name, unsigned int numOptions, CUjit_option *options,
		       void **optionValues)
{
	return SIM_CALL(cuLinkAddData, SIM_CTX | SIM_LOCK, add(state, type, data, size),
			"%p, %d, %p, %zu, \"%s\", %u, %p, %p", (void *)state, (int)type, data, size,
			name ? name : "", numOptions, (void *)options, (void *)optionValues);
}

CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size,
			  const char *name, unsigned int numOptions, CUjit_option *options,
			  void **optionValues)
{
	return SIM_CALL(cuLinkAddData_v2, SIM_CTX | SIM_LOCK, add(state, type, data, size),
			"%p, %d, %p, %zu, \"%s\", %u, %p, %p", (void *)state, (int)type, data, size,
			name ? name : "", numOptions, (void *)options, (void *)optionValues);
}

static CUresult add_file(CUlinkState state, CUjitInputType type, const char *path)
{
	AUTO_FREE void *data = NULL;
	CUresult r;

	if (!slab_is(&link_slab, state))
		return CUDA_ERROR_INVALID_HANDLE;
	r = module_file_read(path, &data);
	if (r != CUDA_SUCCESS)
		return r;
	/* a binary's length does not matter here, a text's is its own */
	return add(state, type, data, type == CU_JIT_INPUT_PTX ? strlen(data) : 1);
}

CUresult cuLinkAddFile(CUlinkState state, CUjitInputType type, const char *path,
		       unsigned int numOptions, CUjit_option *options, void **optionValues)
{
	return SIM_CALL(cuLinkAddFile, SIM_CTX | SIM_LOCK, add_file(state, type, path),
			"%p, %d, \"%s\", %u, %p, %p", (void *)state, (int)type, path ? path : "",
			numOptions, (void *)options, (void *)optionValues);
}

CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path,
			  unsigned int numOptions, CUjit_option *options, void **optionValues)
{
	return SIM_CALL(cuLinkAddFile_v2, SIM_CTX | SIM_LOCK, add_file(state, type, path),
			"%p, %d, \"%s\", %u, %p, %p", (void *)state, (int)type, path ? path : "",
			numOptions, (void *)options, (void *)optionValues);
}

static CUresult complete(CUlinkState state, void **ret_cubin, size_t *ret_bytes)
{
	static const char elf[64] = { 0x7f, 'E', 'L', 'F', 2, 1, 1, [18] = (char)190 };

	if (!slab_is(&link_slab, state))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!ret_cubin)
		return CUDA_ERROR_INVALID_VALUE;
	if (!state->is_complete && (state->has_binary || !state->len)) {
		CUresult r;

		state->len = 0;
		r = append(state, elf, sizeof(elf));
		if (r != CUDA_SUCCESS)
			return r;
	}
	state->is_complete = true;
	*ret_cubin = state->text;
	if (ret_bytes)
		*ret_bytes = state->len + 1; /* with the text's end */
	return CUDA_SUCCESS;
}

CUresult cuLinkComplete(CUlinkState state, void **cubinOut, size_t *sizeOut)
{
	return SIM_CALL(cuLinkComplete, SIM_CTX | SIM_LOCK, complete(state, cubinOut, sizeOut),
			"%p, %p, %p", (void *)state, (void *)cubinOut, (void *)sizeOut);
}

static CUresult destroy(CUlinkState state)
{
	if (!slab_is(&link_slab, state))
		return CUDA_ERROR_INVALID_HANDLE;
	free(state->text);
	slab_free(&link_slab, state);
	return CUDA_SUCCESS;
}

CUresult cuLinkDestroy(CUlinkState state)
{
	return SIM_CALL(cuLinkDestroy, SIM_LOCK, destroy(state), "%p", (void *)state);
}
