// SPDX-License-Identifier: Apache-2.0
#include "sim/cuda/module.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct slab module_slab = SLAB_INIT(struct CUmod_st, MODULE_MAGIC);
struct slab function_slab = SLAB_INIT(struct CUfunc_st, FUNCTION_MAGIC);
struct slab library_slab = SLAB_INIT(struct CUlib_st, LIBRARY_MAGIC);
struct slab kernel_slab = SLAB_INIT(struct CUkern_st, KERNEL_MAGIC);

static CUresult image_error(int r)
{
	switch (r) {
	case -ENOMEM:
		return CUDA_ERROR_OUT_OF_MEMORY;
	case -EBADMSG:
		return CUDA_ERROR_INVALID_PTX;
	case -EPROTONOSUPPORT:
		return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
	default:
		return CUDA_ERROR_INVALID_IMAGE;
	}
}

CUresult image_load(const void *code, struct image **ret)
{
	struct image *image;
	int r;

	if (!code)
		return CUDA_ERROR_INVALID_VALUE;
	image = calloc(1, sizeof(*image));
	if (!image)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = ptx_image_read(code, &image->ptx);
	if (r < 0) {
		free(image);
		return image_error(r);
	}
	image->refs = 1;
	*ret = image;
	return CUDA_SUCCESS;
}

struct image *image_ref(struct image *image)
{
	image->refs++;
	return image;
}

void image_unref(struct image *image)
{
	if (!image || --image->refs)
		return;
	ptx_image_fini(&image->ptx);
	free(image);
}

static void function_free(CUfunction function)
{
	list_del(&function->node);
	free(function->name);
	free(function->legacy.params);
	slab_free(&function_slab, function);
}

void module_free(CUmodule module)
{
	while (!list_is_empty(&module->functions))
		function_free(list_entry(module->functions.next, struct CUfunc_st, node));
	for (unsigned i = 0; module->globals && i < module->image->ptx.global_count; i++)
		sim_alloc_free(module->globals[i].alloc);
	free(module->globals);
	sim_uncharge(module->ctx->device, SIM_USE_MODULE, module->charged_bytes);
	list_del(&module->node);
	list_del(&module->library_node);
	image_unref(module->image);
	slab_free(&module_slab, module);
}

static CUresult make_globals(CUmodule module)
{
	const struct ptx_image *ptx = &module->image->ptx;

	if (!ptx->global_count)
		return CUDA_SUCCESS;
	module->globals = calloc(ptx->global_count, sizeof(*module->globals));
	if (!module->globals)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (unsigned i = 0; i < ptx->global_count; i++) {
		struct module_global *global = &module->globals[i];
		CUresult r;

		global->declared = &ptx->globals[i];
		r = sim_alloc_new(module->ctx, size_max(global->declared->bytes, 1),
				  SIM_ALLOC_MODULE, SIM_USE_ALLOC, &global->alloc);
		if (r != CUDA_SUCCESS)
			return r;
		global->alloc->owner = module;
		if (global->declared->initial)
			memcpy((void *)(uintptr_t)global->alloc->base, global->declared->initial,
			       global->declared->bytes);
		else
			memset((void *)(uintptr_t)global->alloc->base, 0, global->declared->bytes);
	}
	return CUDA_SUCCESS;
}

CUresult module_new(CUcontext ctx, struct image *image, CUlibrary library, CUmodule *ret)
{
	uint64_t bytes = ctx->device->info->module_bytes;
	CUmodule module;
	CUresult r = sim_charge(ctx->device, SIM_USE_MODULE, bytes);

	if (r != CUDA_SUCCESS)
		return r;
	module = slab_new(&module_slab);
	if (!module) {
		sim_uncharge(ctx->device, SIM_USE_MODULE, bytes);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	module->ctx = ctx;
	module->charged_bytes = bytes;
	module->image = image_ref(image);
	module->library = library;
	list_init(&module->functions);
	list_append(&ctx->exec->modules, &module->node);
	r = make_globals(module);
	if (r != CUDA_SUCCESS) {
		module_free(module);
		return r;
	}
	*ret = module;
	return CUDA_SUCCESS;
}

static const struct ptx_entry *find_entry(const struct ptx_image *ptx, const char *name)
{
	for (unsigned i = 0; i < ptx->entry_count; i++) {
		if (!strcmp(ptx->entries[i].name, name))
			return &ptx->entries[i];
	}
	return NULL;
}

CUresult module_function(CUmodule module, const char *name, CUfunction *ret)
{
	const struct ptx_image *ptx = &module->image->ptx;
	const struct ptx_entry *entry = find_entry(ptx, name);
	CUfunction function;

	list_for_each (function, &module->functions, node) {
		if (!strcmp(function->name, name)) {
			*ret = function;
			return CUDA_SUCCESS;
		}
	}
	if (!entry && (!ptx->opaque || !*name))
		return CUDA_ERROR_NOT_FOUND;
	function = slab_new(&function_slab);
	if (!function)
		return CUDA_ERROR_OUT_OF_MEMORY;
	function->name = strdup(name);
	if (!function->name) {
		slab_free(&function_slab, function);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	function->module = module;
	function->entry = entry;
	function->effect = kernel_effect_find(name);
	if (entry)
		function->param_bytes = entry->param_bytes;
	else if (function->effect)
		function->param_bytes = kernel_effect_bytes(function->effect);
	function->is_loaded = true;
	function->attrs.carveout = -1;
	list_append(&module->functions, &function->node);
	*ret = function;
	return CUDA_SUCCESS;
}

CUresult module_global(CUmodule module, const char *name, bool managed, CUdeviceptr *ret_ptr,
		       size_t *ret_bytes)
{
	const struct ptx_image *ptx = &module->image->ptx;

	for (unsigned i = 0; i < ptx->global_count; i++) {
		const struct module_global *global = &module->globals[i];

		if (strcmp(global->declared->name, name) || (managed && !global->declared->managed))
			continue;
		if (ret_ptr)
			*ret_ptr = global->alloc->base;
		if (ret_bytes)
			*ret_bytes = global->declared->bytes;
		return CUDA_SUCCESS;
	}
	/* measured: a function's name is another mistake than a name of nothing */
	return find_entry(ptx, name) ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_FOUND;
}

CUresult library_module(CUlibrary library, CUcontext ctx, CUmodule *ret)
{
	CUmodule module;
	CUresult r;

	if (!library->image)
		return library->load_error;
	list_for_each (module, &library->modules, library_node) {
		if (module->ctx == ctx) {
			*ret = module;
			return CUDA_SUCCESS;
		}
	}
	r = module_new(ctx, library->image, library, &module);
	if (r != CUDA_SUCCESS)
		return r;
	list_append(&library->modules, &module->library_node);
	*ret = module;
	return CUDA_SUCCESS;
}

CUresult kernel_function(CUkernel kernel, CUcontext ctx, CUfunction *ret)
{
	CUmodule module = NULL;
	CUfunction function;
	CUresult r = library_module(kernel->library, ctx, &module);

	if (r == CUDA_SUCCESS)
		r = module_function(module, kernel->name, &function);
	if (r != CUDA_SUCCESS)
		return r;
	if (!function->kernel) {
		function->kernel = kernel;
		function->attrs = kernel->attrs;
	}
	*ret = function;
	return CUDA_SUCCESS;
}

CUresult function_get(CUcontext ctx, CUfunction handle, CUfunction *ret)
{
	CUkernel kernel = (CUkernel)(void *)handle;

	if (slab_is(&function_slab, handle)) {
		*ret = handle;
		return CUDA_SUCCESS;
	}
	if (!slab_is(&kernel_slab, kernel))
		return CUDA_ERROR_INVALID_HANDLE;
	return kernel_function(kernel, ctx, ret);
}

CUresult function_param(const struct ptx_entry *entry, const struct kernel_effect *effect,
			size_t index, size_t *ret_offset, size_t *ret_bytes)
{
	if (entry && index < entry->param_count) {
		*ret_offset = entry->params[index].offset;
		*ret_bytes = entry->params[index].size;
		return CUDA_SUCCESS;
	}
	if (!entry && effect && index < effect->param_count) {
		*ret_offset = kernel_effect_offset(effect, (unsigned)index);
		*ret_bytes = effect->param_bytes[index];
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_VALUE;
}
