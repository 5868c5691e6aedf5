// SPDX-License-Identifier: Apache-2.0
#ifndef SIM_CUDA_MODULE_H
#define SIM_CUDA_MODULE_H

/*
 * Modules, libraries and the functions in them.  Needs sim_lock().
 *
 * A module belongs to a context and owns its functions and globals.  A library belongs to the
 * process; for each context in which one of its kernels is wanted it gets a module of that context.
 * A CUkernel may stand wherever a CUfunction is asked for, as the driver allows.  Handles are slab
 * objects, so stale ones are recognised.
 */

#include "sim/cuda/exec.h"
#include "sim/cuda/kernels.h"
#include "sim/cuda/ptx.h"

#define MODULE_MAGIC   0x4d6f644du
#define FUNCTION_MAGIC 0x46756e4du
#define LIBRARY_MAGIC  0x4c69624du
#define KERNEL_MAGIC   0x4b65724du

/* an image that modules and libraries share */
struct image {
	unsigned refs;
	struct ptx_image ptx;
};

struct module_global {
	const struct ptx_global *declared;
	struct sim_alloc *alloc;
};

struct CUmod_st {
	uint32_t magic;
	CUcontext ctx;
	struct image *image;
	CUlibrary library; /* NULL: loaded by itself */
	struct list functions;
	struct module_global *globals;
	uint64_t charged_bytes;
	struct list node;         /* sim_exec_ctx.modules */
	struct list library_node; /* CUlib_st.modules */
};

/* what the attributes of a function hold; a kernel hands its own on to its functions */
struct function_attrs {
	int dynamic_shared_bytes, carveout, cache, shared_config;
	int cluster[3], non_portable_cluster, cluster_policy;
};

/* the deprecated calls keep a launch in the function itself */
struct function_legacy {
	unsigned block[3];
	unsigned shared_bytes, param_bytes;
	unsigned char *params;
};

struct CUfunc_st {
	uint32_t magic;
	CUmodule module;
	CUkernel kernel; /* NULL: not of a library */
	char *name;
	const struct ptx_entry *entry;      /* NULL: of an opaque image */
	const struct kernel_effect *effect; /* NULL: no effect known */
	uint32_t param_bytes;
	bool is_loaded;
	struct function_attrs attrs;
	struct function_legacy legacy;
	struct list node; /* CUmod_st.functions */
};

struct CUlib_st {
	uint32_t magic;
	struct image *image; /* NULL: it could not be read, which is told on first use */
	CUresult load_error;
	struct list modules;
	struct list kernels;
};

struct CUkern_st {
	uint32_t magic;
	CUlibrary library;
	char *name;
	const struct ptx_entry *entry;
	const struct kernel_effect *effect;
	struct function_attrs attrs;
	struct list node;
};

extern struct slab module_slab, function_slab, library_slab, kernel_slab;

/** image_load - read and check @code; a reference in *ret */
CUresult image_load(const void *code, struct image **ret);
struct image *image_ref(struct image *image);
void image_unref(struct image *image);

/** module_new - @image loaded into @ctx; takes its own reference */
CUresult module_new(CUcontext ctx, struct image *image, CUlibrary library, CUmodule *ret);
void module_free(CUmodule module);

/** module_function - the function @name, made on first use; NOT_FOUND */
CUresult module_function(CUmodule module, const char *name, CUfunction *ret);

/** module_global - NOT_FOUND, or where @name lies */
CUresult module_global(CUmodule module, const char *name, bool managed, CUdeviceptr *ret_ptr,
		       size_t *ret_bytes);

/** library_module - @library's module in @ctx, loaded on first use */
CUresult library_module(CUlibrary library, CUcontext ctx, CUmodule *ret);

/** kernel_function - the function of @kernel in @ctx */
CUresult kernel_function(CUkernel kernel, CUcontext ctx, CUfunction *ret);

/** function_get - the function a handle means (a CUkernel's in @ctx): INVALID_HANDLE if none */
CUresult function_get(CUcontext ctx, CUfunction handle, CUfunction *ret);

/** function_param_count, _param - SUCCESS, or INVALID_VALUE when there is no such parameter */
CUresult function_param(const struct ptx_entry *entry, const struct kernel_effect *effect,
			size_t index, size_t *ret_offset, size_t *ret_bytes);

/** attrs_get, attrs_set - CU_FUNC_ATTRIBUTE_*; INVALID_VALUE for what is none or read-only */
CUresult attrs_get(const struct function_attrs *attrs, const struct ptx_entry *entry,
		   const struct ptx_image *image, const struct sim_device_info *info,
		   CUfunction_attribute attr, int *ret);
CUresult attrs_set(struct function_attrs *attrs, const struct ptx_entry *entry,
		   const struct sim_device_info *info, CUfunction_attribute attr, int value);

/** function_max_threads - the largest block it may be launched with */
unsigned function_max_threads(const struct ptx_entry *entry);

#endif
