// SPDX-License-Identifier: Apache-2.0
#include "sim/cuda/module.h"

#define STATIC_SHARED_MAX 49152
#define OPTIN_SHARED_MAX  232448 /* the H200's, for a block that asks */
#define THREADS_MAX       1024
#define REGISTERS         32

unsigned function_max_threads(const struct ptx_entry *entry)
{
	return entry && entry->max_threads && entry->max_threads < THREADS_MAX ? entry->max_threads
									       : THREADS_MAX;
}

CUresult attrs_get(const struct function_attrs *attrs, const struct ptx_entry *entry,
		   const struct ptx_image *image, const struct sim_device_info *info,
		   CUfunction_attribute attr, int *ret)
{
	int card = (int)(info->cc_major * 10 + info->cc_minor);
	int shared = entry ? (int)entry->shared_bytes : 0;

	switch (attr) {
	case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
		*ret = (int)function_max_threads(entry);
		break;
	case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
		*ret = shared;
		break;
	case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
		*ret = (int)image->const_bytes;
		break;
	case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
	case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
	case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
		*ret = 0;
		break;
	case CU_FUNC_ATTRIBUTE_NUM_REGS:
		*ret = REGISTERS;
		break;
	case CU_FUNC_ATTRIBUTE_PTX_VERSION:
		*ret = image->target ? (int)image->target : card;
		break;
	case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
		*ret = card;
		break;
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		*ret = attrs->dynamic_shared_bytes ? attrs->dynamic_shared_bytes
						   : STATIC_SHARED_MAX - shared;
		break;
	case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		*ret = attrs->carveout;
		break;
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
		*ret = attrs->cluster[attr - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH];
		break;
	case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
		*ret = attrs->non_portable_cluster;
		break;
	case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
		*ret = attrs->cluster_policy;
		break;
	case CU_FUNC_ATTRIBUTE_MAX:
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

CUresult attrs_set(struct function_attrs *attrs, const struct ptx_entry *entry,
		   const struct sim_device_info *info, CUfunction_attribute attr, int value)
{
	int shared = entry ? (int)entry->shared_bytes : 0;

	(void)info;
	if (attr == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
		if (value < 0 || value > OPTIN_SHARED_MAX - shared)
			return CUDA_ERROR_INVALID_VALUE;
		attrs->dynamic_shared_bytes = value;
	} else if (attr == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) {
		if (value < -1 || value > 100)
			return CUDA_ERROR_INVALID_VALUE;
		attrs->carveout = value;
	} else if (attr >= CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH &&
		   attr <= CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH) {
		if (value < 0)
			return CUDA_ERROR_INVALID_VALUE;
		attrs->cluster[attr - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH] = value;
	} else if (attr == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) {
		attrs->non_portable_cluster = value != 0;
	} else if (attr == CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE) {
		attrs->cluster_policy = value;
	} else {
		return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

static CUresult get_attribute(CUcontext ctx, int *ret, CUfunction_attribute attr, CUfunction handle)
{
	CUfunction function;
	CUresult r;

	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	r = function_get(ctx, handle, &function);
	if (r != CUDA_SUCCESS)
		return r;
	return attrs_get(&function->attrs, function->entry, &function->module->image->ptx,
			 ctx->device->info, attr, ret);
}

CUresult cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc)
{
	return SIM_CALL(cuFuncGetAttribute, SIM_CTX | SIM_LOCK,
			get_attribute(call.ctx, pi, attrib, hfunc), "%p, %d, %p", (void *)pi,
			(int)attrib, (void *)hfunc);
}

static CUresult set_attribute(CUcontext ctx, CUfunction handle, CUfunction_attribute attr,
			      int value)
{
	CUfunction function;
	CUresult r = function_get(ctx, handle, &function);

	if (r != CUDA_SUCCESS)
		return r;
	return attrs_set(&function->attrs, function->entry, ctx->device->info, attr, value);
}

CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value)
{
	return SIM_CALL(cuFuncSetAttribute, SIM_CTX | SIM_LOCK,
			set_attribute(call.ctx, hfunc, attrib, value), "%p, %d, %d", (void *)hfunc,
			(int)attrib, value);
}

static CUresult set_cache(CUcontext ctx, CUfunction handle, int cache)
{
	CUfunction function;
	CUresult r = function_get(ctx, handle, &function);

	if (r != CUDA_SUCCESS)
		return r;
	if (cache < CU_FUNC_CACHE_PREFER_NONE || cache > CU_FUNC_CACHE_PREFER_EQUAL)
		return CUDA_ERROR_INVALID_VALUE;
	function->attrs.cache = cache;
	return CUDA_SUCCESS;
}

CUresult cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config)
{
	return SIM_CALL(cuFuncSetCacheConfig, SIM_CTX | SIM_LOCK,
			set_cache(call.ctx, hfunc, (int)config), "%p, %d", (void *)hfunc,
			(int)config);
}

static CUresult set_shared_config(CUcontext ctx, CUfunction handle, int config)
{
	CUfunction function;
	CUresult r = function_get(ctx, handle, &function);

	if (r == CUDA_SUCCESS)
		function->attrs.shared_config = config;
	return r;
}

CUresult cuFuncSetSharedMemConfig(CUfunction hfunc, CUsharedconfig config)
{
	return SIM_CALL(cuFuncSetSharedMemConfig, SIM_CTX | SIM_LOCK,
			set_shared_config(call.ctx, hfunc, (int)config), "%p, %d", (void *)hfunc,
			(int)config);
}

static CUresult get_module(CUcontext ctx, CUmodule *ret, CUfunction handle)
{
	CUfunction function;
	CUresult r;

	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	r = function_get(ctx, handle, &function);
	if (r == CUDA_SUCCESS)
		*ret = function->module;
	return r;
}

CUresult cuFuncGetModule(CUmodule *hmod, CUfunction hfunc)
{
	return SIM_CALL(cuFuncGetModule, SIM_CTX | SIM_LOCK, get_module(call.ctx, hmod, hfunc),
			"%p, %p", (void *)hmod, (void *)hfunc);
}

static CUresult get_name(const char **ret, CUfunction handle)
{
	CUkernel kernel = (CUkernel)(void *)handle;

	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	if (slab_is(&function_slab, handle))
		*ret = handle->name;
	else if (slab_is(&kernel_slab, kernel))
		*ret = kernel->name;
	else
		return CUDA_ERROR_INVALID_HANDLE;
	return CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char **name, CUfunction hfunc)
{
	return SIM_CALL(cuFuncGetName, SIM_LOCK, get_name(name, hfunc), "%p, %p",
			(const void *)name, (void *)hfunc);
}

CUresult cuKernelGetName(const char **name, CUkernel hfunc)
{
	return SIM_CALL(cuKernelGetName, SIM_LOCK, get_name(name, (CUfunction)(void *)hfunc),
			"%p, %p", (const void *)name, (void *)hfunc);
}

static CUresult get_param_info(CUfunction handle, size_t index, size_t *ret_offset,
			       size_t *ret_bytes)
{
	CUkernel kernel = (CUkernel)(void *)handle;
	size_t offset, bytes;
	CUresult r;

	if (!ret_offset)
		return CUDA_ERROR_INVALID_VALUE;
	if (slab_is(&function_slab, handle))
		r = function_param(handle->entry, handle->effect, index, &offset, &bytes);
	else if (slab_is(&kernel_slab, kernel))
		r = function_param(kernel->entry, kernel->effect, index, &offset, &bytes);
	else
		r = CUDA_ERROR_INVALID_HANDLE;
	if (r != CUDA_SUCCESS)
		return r;
	*ret_offset = offset;
	if (ret_bytes)
		*ret_bytes = bytes;
	return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t *paramOffset,
			    size_t *paramSize)
{
	return SIM_CALL(cuFuncGetParamInfo, SIM_LOCK,
			get_param_info(func, paramIndex, paramOffset, paramSize), "%p, %zu, %p, %p",
			(void *)func, paramIndex, (void *)paramOffset, (void *)paramSize);
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t paramIndex, size_t *paramOffset,
			      size_t *paramSize)
{
	return SIM_CALL(
		cuKernelGetParamInfo, SIM_LOCK,
		get_param_info((CUfunction)(void *)kernel, paramIndex, paramOffset, paramSize),
		"%p, %zu, %p, %p", (void *)kernel, paramIndex, (void *)paramOffset,
		(void *)paramSize);
}

static CUresult is_loaded(CUfunctionLoadingState *ret, CUfunction function)
{
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	if (!slab_is(&function_slab, function))
		return CUDA_ERROR_INVALID_HANDLE;
	*ret = CU_FUNCTION_LOADING_STATE_LOADED;
	return CUDA_SUCCESS;
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function)
{
	return SIM_CALL(cuFuncIsLoaded, SIM_LOCK, is_loaded(state, function), "%p, %p",
			(void *)state, (void *)function);
}

CUresult cuFuncLoad(CUfunction function)
{
	return SIM_CALL(cuFuncLoad, SIM_CTX | SIM_LOCK, function_get(call.ctx, function, &function),
			"%p", (void *)function);
}

static CUresult kernel_get_attribute(int *ret, CUfunction_attribute attr, CUkernel kernel,
				     CUdevice ordinal)
{
	struct sim_device *device = sim_device(ordinal);

	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	if (!slab_is(&kernel_slab, kernel))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	return attrs_get(&kernel->attrs, kernel->entry, &kernel->library->image->ptx, device->info,
			 attr, ret);
}

CUresult cuKernelGetAttribute(int *pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev)
{
	return SIM_CALL(cuKernelGetAttribute, SIM_LOCK,
			kernel_get_attribute(pi, attrib, kernel, dev), "%p, %d, %p, %d", (void *)pi,
			(int)attrib, (void *)kernel, dev);
}

/* what is set for a kernel holds for its functions on the device */
static CUresult kernel_set_attribute(CUfunction_attribute attr, int value, CUkernel kernel,
				     CUdevice ordinal)
{
	struct sim_device *device = sim_device(ordinal);
	CUmodule module;
	CUfunction function;
	CUresult r;

	if (!slab_is(&kernel_slab, kernel))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	r = attrs_set(&kernel->attrs, kernel->entry, device->info, attr, value);
	if (r != CUDA_SUCCESS)
		return r;
	list_for_each (module, &kernel->library->modules, library_node) {
		list_for_each (function, &module->functions, node) {
			if (function->kernel == kernel && module->ctx->device == device)
				function->attrs = kernel->attrs;
		}
	}
	return CUDA_SUCCESS;
}

CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev)
{
	return SIM_CALL(cuKernelSetAttribute, SIM_LOCK,
			kernel_set_attribute(attrib, val, kernel, dev), "%d, %d, %p, %d",
			(int)attrib, val, (void *)kernel, dev);
}

static CUresult kernel_set_cache(CUkernel kernel, int config, CUdevice ordinal)
{
	if (!slab_is(&kernel_slab, kernel))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!sim_device(ordinal))
		return CUDA_ERROR_INVALID_DEVICE;
	kernel->attrs.cache = config;
	return CUDA_SUCCESS;
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev)
{
	return SIM_CALL(cuKernelSetCacheConfig, SIM_LOCK,
			kernel_set_cache(kernel, (int)config, dev), "%p, %d, %d", (void *)kernel,
			(int)config, dev);
}
