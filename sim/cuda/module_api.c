// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "sim/cuda/module.h"
#include "sim/cuda/module_file.h"

#define FILE_MAX ((off_t)1 << 31)

CUresult module_file_read(const char *path, void **ret)
{
	AUTO_FREE char *text = NULL;
	AUTO_FD int fd = -1;
	struct stat st;
	size_t got = 0;

	if (!path)
		return CUDA_ERROR_INVALID_VALUE;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return CUDA_ERROR_FILE_NOT_FOUND;
	if (S_ISDIR(st.st_mode)) /* measured: its size is taken for that of a file */
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!S_ISREG(st.st_mode) || st.st_size > FILE_MAX)
		return CUDA_ERROR_INVALID_IMAGE;
	text = calloc(1, (size_t)st.st_size + 4); /* a text may be cut short: it ends in zeros */
	if (!text)
		return CUDA_ERROR_OUT_OF_MEMORY;
	while (got < (size_t)st.st_size) {
		ssize_t n = read(fd, text + got, (size_t)st.st_size - got);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		got += (size_t)n;
	}
	*ret = TAKE(text);
	return CUDA_SUCCESS;
}

static CUresult load(CUcontext ctx, CUmodule *ret, const void *code)
{
	struct image *image;
	CUresult r;

	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	r = image_load(code, &image);
	if (r != CUDA_SUCCESS)
		return r;
	(void)sim_exec_unsafe_call(); /* measured: the load succeeds, and yet ends captures */
	r = module_new(ctx, image, NULL, ret);
	image_unref(image);
	return r;
}

static CUresult load_file(CUcontext ctx, CUmodule *ret, const char *path)
{
	AUTO_FREE void *code = NULL;
	CUresult r = ret ? module_file_read(path, &code) : CUDA_ERROR_INVALID_VALUE;

	return r == CUDA_SUCCESS ? load(ctx, ret, code) : r;
}

CUresult cuModuleLoad(CUmodule *module, const char *fname)
{
	return SIM_CALL(cuModuleLoad, SIM_CTX | SIM_LOCK, load_file(call.ctx, module, fname),
			"%p, \"%s\"", (void *)module, fname ? fname : "");
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	return SIM_CALL(cuModuleLoadData, SIM_CTX | SIM_LOCK, load(call.ctx, module, image),
			"%p, %p", (void *)module, image);
}

/*
 * Options ask for logs and figures of a compiler that is not here; logs come out empty,
 * which is what a clean compilation gives.
 */
static void clear_logs(unsigned count, const CUjit_option *options, void **values)
{
	const char *sized[2] = { NULL, NULL };

	for (unsigned i = 0; options && values && i < count; i++) {
		char *buffer = values[i];

		if (options[i] == CU_JIT_INFO_LOG_BUFFER || options[i] == CU_JIT_ERROR_LOG_BUFFER)
			sized[options[i] == CU_JIT_ERROR_LOG_BUFFER] = buffer;
		else if (options[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES ||
			 options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES ||
			 options[i] == CU_JIT_WALL_TIME)
			values[i] = NULL; /* nothing written; no time taken */
	}
	for (int i = 0; i < 2; i++) {
		if (sized[i])
			*(char *)(uintptr_t)sized[i] = '\0';
	}
}

static CUresult load_ex(CUcontext ctx, CUmodule *ret, const void *code, unsigned count,
			CUjit_option *options, void **values)
{
	if (count && (!options || !values))
		return CUDA_ERROR_INVALID_VALUE;
	clear_logs(count, options, values);
	return load(ctx, ret, code);
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions,
			    CUjit_option *options, void **optionValues)
{
	return SIM_CALL(cuModuleLoadDataEx, SIM_CTX | SIM_LOCK,
			load_ex(call.ctx, module, image, numOptions, options, optionValues),
			"%p, %p, %u", (void *)module, image, numOptions);
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin)
{
	return SIM_CALL(cuModuleLoadFatBinary, SIM_CTX | SIM_LOCK, load(call.ctx, module, fatCubin),
			"%p, %p", (void *)module, fatCubin);
}

static CUresult unload(CUmodule module)
{
	if (!slab_is(&module_slab, module) || module->library)
		return CUDA_ERROR_INVALID_HANDLE;
	(void)sim_exec_unsafe_call(); /* as a load: it succeeds, and yet ends captures */
	module_free(module);
	return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule hmod)
{
	return SIM_CALL(cuModuleUnload, SIM_CTX | SIM_LOCK, unload(hmod), "%p", (void *)hmod);
}

static CUresult get_function(CUfunction *ret, CUmodule module, const char *name)
{
	CUresult r;

	if (!ret || !name)
		return CUDA_ERROR_INVALID_VALUE;
	if (!slab_is(&module_slab, module))
		return CUDA_ERROR_INVALID_HANDLE;
	r = *name ? module_function(module, name, ret) : CUDA_ERROR_INVALID_VALUE;
	if (r != CUDA_SUCCESS)
		*ret = NULL;
	return r;
}

CUresult cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)
{
	return SIM_CALL(cuModuleGetFunction, SIM_CTX | SIM_LOCK, get_function(hfunc, hmod, name),
			"%p, %p, \"%s\"", (void *)hfunc, (void *)hmod, name ? name : "");
}

static CUresult get_global(CUdeviceptr *ret_ptr, size_t *ret_bytes, CUmodule module,
			   const char *name)
{
	CUresult r;

	if (!name || (!ret_ptr && !ret_bytes))
		return CUDA_ERROR_INVALID_VALUE;
	if (!slab_is(&module_slab, module))
		return CUDA_ERROR_INVALID_HANDLE;
	r = module_global(module, name, false, ret_ptr, ret_bytes);
	if (r != CUDA_SUCCESS && ret_ptr)
		*ret_ptr = 0;
	if (r != CUDA_SUCCESS && ret_bytes)
		*ret_bytes = 0;
	return r;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name)
{
	return SIM_CALL(cuModuleGetGlobal_v2, SIM_CTX | SIM_LOCK,
			get_global(dptr, bytes, hmod, name), "%p, %p, %p, \"%s\"", (void *)dptr,
			(void *)bytes, (void *)hmod, name ? name : "");
}

static CUresult function_count(unsigned *ret, CUmodule module)
{
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	if (!slab_is(&module_slab, module))
		return CUDA_ERROR_INVALID_HANDLE;
	*ret = module->image->ptx.entry_count;
	return CUDA_SUCCESS;
}

CUresult cuModuleGetFunctionCount(unsigned int *count, CUmodule mod)
{
	return SIM_CALL(cuModuleGetFunctionCount, SIM_CTX | SIM_LOCK, function_count(count, mod),
			"%p, %p", (void *)count, (void *)mod);
}

static CUresult enumerate(CUfunction *ret, unsigned count, CUmodule module)
{
	const struct ptx_image *ptx;

	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	if (!slab_is(&module_slab, module))
		return CUDA_ERROR_INVALID_HANDLE;
	ptx = &module->image->ptx;
	for (unsigned i = 0; i < count && i < ptx->entry_count; i++) {
		CUresult r = module_function(module, ptx->entries[i].name, &ret[i]);

		if (r != CUDA_SUCCESS)
			return r;
	}
	return CUDA_SUCCESS;
}

CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned int numFunctions, CUmodule mod)
{
	return SIM_CALL(cuModuleEnumerateFunctions, SIM_CTX | SIM_LOCK,
			enumerate(functions, numFunctions, mod), "%p, %u, %p", (void *)functions,
			numFunctions, (void *)mod);
}

static CUresult loading_mode(CUmoduleLoadingMode *ret)
{
	const char *mode = getenv("CUDA_MODULE_LOADING");
	bool eager = mode && (mode[0] == 'E' || mode[0] == 'e');

	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = eager ? CU_MODULE_EAGER_LOADING : CU_MODULE_LAZY_LOADING;
	return CUDA_SUCCESS;
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
	return SIM_CALL(cuModuleGetLoadingMode, SIM_INIT, loading_mode(mode), "%p", (void *)mode);
}
