// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "sim/cuda/module.h"
#include "sim/cuda/module_file.h"

static CUresult load(CUlibrary *ret, const void *code)
{
	struct image *image = NULL;
	CUlibrary library;
	CUresult r;

	if (!ret || !code)
		return CUDA_ERROR_INVALID_VALUE;
	(void)sim_exec_unsafe_call(); /* as a module's load: it succeeds, and yet ends captures */
	r = image_load(code, &image);
	if (r == CUDA_ERROR_OUT_OF_MEMORY)
		return r;
	library = slab_new(&library_slab);
	if (!library) {
		image_unref(image);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	library->image = image;
	library->load_error = r;
	list_init(&library->modules);
	list_init(&library->kernels);
	*ret = library;
	return CUDA_SUCCESS;
}

/* a library needs no current context: it is loaded into each that uses it */
CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions,
			   void **jitOptionsValues, unsigned int numJitOptions,
			   CUlibraryOption *libraryOptions, void **libraryOptionValues,
			   unsigned int numLibraryOptions)
{
	return SIM_CALL(cuLibraryLoadData, SIM_LOCK,
			numJitOptions && (!jitOptions || !jitOptionsValues)
				? CUDA_ERROR_INVALID_VALUE
				: load(library, code),
			"%p, %p, %u, %p, %p, %u", (void *)library, code, numJitOptions,
			(void *)libraryOptions, (void *)libraryOptionValues, numLibraryOptions);
}

static CUresult load_file(CUlibrary *ret, const char *path)
{
	AUTO_FREE void *code = NULL;
	CUresult r = module_file_read(path, &code);

	return r == CUDA_SUCCESS ? load(ret, code) : r;
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *fileName, CUjit_option *jitOptions,
			       void **jitOptionsValues, unsigned int numJitOptions,
			       CUlibraryOption *libraryOptions, void **libraryOptionValues,
			       unsigned int numLibraryOptions)
{
	return SIM_CALL(cuLibraryLoadFromFile, SIM_LOCK,
			numJitOptions && (!jitOptions || !jitOptionsValues)
				? CUDA_ERROR_INVALID_VALUE
				: load_file(library, fileName),
			"%p, \"%s\", %u, %p, %p, %u", (void *)library, fileName ? fileName : "",
			numJitOptions, (void *)libraryOptions, (void *)libraryOptionValues,
			numLibraryOptions);
}

static CUresult unload(CUlibrary library)
{
	if (!slab_is(&library_slab, library))
		return CUDA_ERROR_INVALID_HANDLE;
	(void)sim_exec_unsafe_call(); /* as a module's */
	while (!list_is_empty(&library->modules))
		module_free(list_entry(library->modules.next, struct CUmod_st, library_node));
	while (!list_is_empty(&library->kernels)) {
		CUkernel kernel = list_entry(library->kernels.next, struct CUkern_st, node);

		list_del(&kernel->node);
		free(kernel->name);
		slab_free(&kernel_slab, kernel);
	}
	image_unref(library->image);
	slab_free(&library_slab, library);
	return CUDA_SUCCESS;
}

CUresult cuLibraryUnload(CUlibrary library)
{
	return SIM_CALL(cuLibraryUnload, SIM_LOCK, unload(library), "%p", (void *)library);
}

static const struct ptx_entry *find_entry(const struct ptx_image *ptx, const char *name)
{
	for (unsigned i = 0; i < ptx->entry_count; i++) {
		if (!strcmp(ptx->entries[i].name, name))
			return &ptx->entries[i];
	}
	return NULL;
}

static CUresult get_kernel(CUkernel *ret, CUlibrary library, const char *name)
{
	const struct ptx_entry *entry;
	CUkernel kernel;

	if (!ret || !name)
		return CUDA_ERROR_INVALID_VALUE;
	if (!slab_is(&library_slab, library))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!library->image)
		return library->load_error;
	list_for_each (kernel, &library->kernels, node) {
		if (!strcmp(kernel->name, name)) {
			*ret = kernel;
			return CUDA_SUCCESS;
		}
	}
	entry = find_entry(&library->image->ptx, name);
	if (!entry && (!library->image->ptx.opaque || !*name))
		return CUDA_ERROR_NOT_FOUND;
	kernel = slab_new(&kernel_slab);
	if (!kernel)
		return CUDA_ERROR_OUT_OF_MEMORY;
	kernel->name = strdup(name);
	if (!kernel->name) {
		slab_free(&kernel_slab, kernel);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	kernel->library = library;
	kernel->entry = entry;
	kernel->effect = kernel_effect_find(name);
	kernel->attrs.carveout = -1;
	list_append(&library->kernels, &kernel->node);
	*ret = kernel;
	return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name)
{
	return SIM_CALL(cuLibraryGetKernel, SIM_LOCK, get_kernel(pKernel, library, name),
			"%p, %p, \"%s\"", (void *)pKernel, (void *)library, name ? name : "");
}

static CUresult kernel_count(unsigned *ret, CUlibrary library)
{
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	if (!slab_is(&library_slab, library))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!library->image)
		return library->load_error;
	*ret = library->image->ptx.entry_count;
	return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernelCount(unsigned int *count, CUlibrary lib)
{
	return SIM_CALL(cuLibraryGetKernelCount, SIM_LOCK, kernel_count(count, lib), "%p, %p",
			(void *)count, (void *)lib);
}

static CUresult enumerate(CUkernel *ret, unsigned count, CUlibrary library)
{
	if (!ret || !count)
		return CUDA_ERROR_INVALID_VALUE;
	if (!slab_is(&library_slab, library))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!library->image)
		return library->load_error;
	for (unsigned i = 0; i < count && i < library->image->ptx.entry_count; i++) {
		CUresult r = get_kernel(&ret[i], library, library->image->ptx.entries[i].name);

		if (r != CUDA_SUCCESS)
			return r;
	}
	return CUDA_SUCCESS;
}

CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int numKernels, CUlibrary lib)
{
	return SIM_CALL(cuLibraryEnumerateKernels, SIM_LOCK, enumerate(kernels, numKernels, lib),
			"%p, %u, %p", (void *)kernels, numKernels, (void *)lib);
}

static CUresult get_module(CUcontext ctx, CUmodule *ret, CUlibrary library)
{
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	if (!slab_is(&library_slab, library))
		return CUDA_ERROR_INVALID_HANDLE;
	return library_module(library, ctx, ret);
}

CUresult cuLibraryGetModule(CUmodule *pMod, CUlibrary library)
{
	return SIM_CALL(cuLibraryGetModule, SIM_CTX | SIM_LOCK, get_module(call.ctx, pMod, library),
			"%p, %p", (void *)pMod, (void *)library);
}

static CUresult get_variable(CUcontext ctx, CUdeviceptr *ret_ptr, size_t *ret_bytes,
			     CUlibrary library, const char *name, bool managed)
{
	CUmodule module;
	CUresult r;

	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	r = get_module(ctx, &module, library);
	return r == CUDA_SUCCESS ? module_global(module, name, managed, ret_ptr, ret_bytes) : r;
}

CUresult cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
	return SIM_CALL(cuLibraryGetGlobal, SIM_CTX | SIM_LOCK,
			get_variable(call.ctx, dptr, bytes, library, name, false),
			"%p, %p, %p, \"%s\"", (void *)dptr, (void *)bytes, (void *)library,
			name ? name : "");
}

CUresult cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
	return SIM_CALL(cuLibraryGetManaged, SIM_CTX | SIM_LOCK,
			get_variable(call.ctx, dptr, bytes, library, name, true),
			"%p, %p, %p, \"%s\"", (void *)dptr, (void *)bytes, (void *)library,
			name ? name : "");
}

static CUresult get_function(CUcontext ctx, CUfunction *ret, CUkernel kernel)
{
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	if (!slab_is(&kernel_slab, kernel))
		return CUDA_ERROR_INVALID_HANDLE;
	return kernel_function(kernel, ctx, ret);
}

CUresult cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel)
{
	return SIM_CALL(cuKernelGetFunction, SIM_CTX | SIM_LOCK,
			get_function(call.ctx, pFunc, kernel), "%p, %p", (void *)pFunc,
			(void *)kernel);
}

static CUresult get_library(CUlibrary *ret, CUkernel kernel)
{
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	if (!slab_is(&kernel_slab, kernel))
		return CUDA_ERROR_INVALID_HANDLE;
	*ret = kernel->library;
	return CUDA_SUCCESS;
}

CUresult cuKernelGetLibrary(CUlibrary *pLib, CUkernel kernel)
{
	return SIM_CALL(cuKernelGetLibrary, SIM_LOCK, get_library(pLib, kernel), "%p, %p",
			(void *)pLib, (void *)kernel);
}
