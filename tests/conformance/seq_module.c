// SPDX-License-Identifier: Apache-2.0
/* Modules, libraries, kernels as objects. */
#include "conform.h"

#include <string.h>

static void load(void)
{
	POISONED(CUmodule, m);
	POISONED(CUfunction, f);
	CALL(cuModuleLoadData, &m, kernels_ptx);
	NEWHANDLE(m);
	CALL(cuModuleGetFunction, &f, m, "allot_fill_u32");
	NEWHANDLE(f);
	f = (CUfunction)(uintptr_t)POISON_64;
	CALL(cuModuleGetFunction, &f, m, "no_such_kernel");
	HANDLE(f);
	CALL(cuModuleGetFunction, &f, m, "");
	HANDLE(f);
	CALL(cuModuleGetFunction, &f, m, NULL);
	CALL(cuModuleGetFunction, NULL, m, "allot_fill_u32");
	CALL(cuModuleGetFunction, &f, NULL, "allot_fill_u32");
	CALL(cuModuleUnload, m);
	CALL(cuModuleUnload, NULL);
}

static void same_function(void)
{
	POISONED(CUfunction, a);
	POISONED(CUfunction, b);
	CALL(cuModuleGetFunction, &a, kern.module, "allot_empty");
	CALL(cuModuleGetFunction, &b, kern.module, "allot_empty");
	YES(a == b);
}

static void bad_images(void)
{
	POISONED(CUmodule, m);
	static const char zeros[4096];
	static const char elf[4096] = "\177ELF\2\1\1";
	CALL(cuModuleLoadData, &m, "this is not an image");
	HANDLE(m);
	CALL(cuModuleLoadData, &m, "");
	HANDLE(m);
	CALL(cuModuleLoadData, &m, zeros);
	HANDLE(m);
	CALL(cuModuleLoadData, &m, elf);
	HANDLE(m);
	CALL(cuModuleLoadData, &m, ".version 99.0\n.target sm_70\n.address_size 64\n");
	HANDLE(m);
	CALL(cuModuleLoadData, &m, ".version 7.0\n.target sm_999\n.address_size 64\n");
	HANDLE(m);
	CALL(cuModuleLoadData, &m,
	     ".version 7.0\n.target sm_70\n.address_size 64\n.entry f() { nonsense; }\n");
	HANDLE(m);
	CALL(cuModuleLoadData, &m,
	     ".version 7.0\n.target sm_70\n.address_size 64\n"
	     ".extern .func g; .visible .entry f() { ret; }\n");
	HANDLE(m);
	CALL(cuModuleLoadData, NULL, kernels_ptx);
}

static void null_image(void)
{
	POISONED(CUmodule, m);
	CALL(cuModuleLoadData, &m, NULL);
	HANDLE(m);
	CALL(cuModuleLoadDataEx, &m, NULL, 0, NULL, NULL);
	HANDLE(m);
	CALL(cuModuleLoadFatBinary, &m, NULL);
	HANDLE(m);
}

static void files(void)
{
	POISONED(CUmodule, m);
	CALL(cuModuleLoad, &m, "/no/such/file.cubin");
	HANDLE(m);
	CALL(cuModuleLoad, &m, "/dev/null");
	HANDLE(m);
	CALL(cuModuleLoad, &m, "/");
	HANDLE(m);
	CALL(cuModuleLoad, &m, NULL);
	CALL(cuModuleLoad, NULL, "/no/such/file.cubin");
}

static void jit_options(void)
{
	POISONED(CUmodule, m);
	static char log[1024];
	CUjit_option options[] = { CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
	void *values[] = { log, (void *)(uintptr_t)sizeof(log) };
	CALL(cuModuleLoadDataEx, &m, kernels_ptx, 2, options, values);
	NEWHANDLE(m);
	CALL(cuModuleUnload, m);
	CALL(cuModuleLoadDataEx, &m, ".version 7.0\n.target sm_70\n.address_size 64\n.entry f( {\n",
	     2, options, values);
	YES(log[0] != 0);
	CALL(cuModuleLoadDataEx, &m, kernels_ptx, 0, NULL, NULL);
	CALL(cuModuleUnload, m);
	CALL(cuModuleLoadDataEx, &m, kernels_ptx, 2, NULL, NULL);
}

static void globals(void)
{
	POISONED_PTR(p);
	POISONED_SIZE(bytes);
	POISONED_PTR(base);
	CALL(cuModuleGetGlobal_v2, &p, &bytes, kern.module, "allot_word");
	NEWPTR(p, 4);
	SIZE(bytes);
	data_u32(p, 4);
	CALL(cuMemFree_v2, p);
	CALL(cuMemGetAddressRange_v2, &base, &bytes, p);
	YES(base == p);
	SIZE(bytes);
	CALL(cuModuleGetGlobal_v2, &p, &bytes, kern.module, "allot_block");
	NEWPTR(p, 4096);
	SIZE(bytes);
	data_u32(p, 4096);
	CALL(cuModuleGetGlobal_v2, &p, NULL, kern.module, "allot_block");
	CALL(cuModuleGetGlobal_v2, NULL, &bytes, kern.module, "allot_block");
	CALL(cuModuleGetGlobal_v2, NULL, NULL, kern.module, "allot_block");
	p = bytes = POISON_64;
	CALL(cuModuleGetGlobal_v2, &p, &bytes, kern.module, "no_such_global");
	PTR(p);
	SIZE(bytes);
	CALL(cuModuleGetGlobal_v2, &p, &bytes, kern.module, "allot_fill_u32");
	PTR(p);
	CALL(cuModuleGetGlobal_v2, &p, &bytes, kern.module, NULL);
	CALL(cuModuleGetGlobal_v2, &p, &bytes, kern.module, "allot_constant");
	SIZE(bytes);
}

static void function_attributes(void)
{
	CUfunction all[] = { kern.empty, kern.fill };
	char text[40];
	for (int k = 0; k < 2; k++) {
		NOTE("%s", k ? "fill" : "empty");
		for (int a = 0; a <= 16; a++) {
			POISONED_INT(value);
			CUresult r =
				QUIET(cuFuncGetAttribute, &value, (CUfunction_attribute)a, all[k]);
			out_flush();
			out_append("attribute %d → %s", a, result_text(r, text));
			INT(value);
		}
	}
	POISONED_INT(value);
	CALL(cuFuncGetAttribute, NULL, CU_FUNC_ATTRIBUTE_NUM_REGS, kern.empty);
	CALL(cuFuncGetAttribute, &value, CU_FUNC_ATTRIBUTE_NUM_REGS, NULL);
}

static void function_settings(void)
{
	POISONED_INT(value);
	CALL(cuFuncSetAttribute, kern.empty, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
	     100 * 1024);
	CALL(cuFuncGetAttribute, &value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
	     kern.empty);
	INT(value);
	CALL(cuFuncSetAttribute, kern.empty, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
	     1 << 20);
	CALL(cuFuncSetAttribute, kern.empty, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, -1);
	CALL(cuFuncSetAttribute, kern.empty, CU_FUNC_ATTRIBUTE_NUM_REGS, 5);
	CALL(cuFuncSetAttribute, NULL, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 0);
	CALL(cuFuncSetCacheConfig, kern.empty, CU_FUNC_CACHE_PREFER_L1);
	CALL(cuFuncSetCacheConfig, kern.empty, (CUfunc_cache)9);
}

static void function_queries(void)
{
	POISONED(const char *, name);
	POISONED(CUmodule, module);
	POISONED_SIZE(offset);
	POISONED_SIZE(size);
	CUfunctionLoadingState state = (CUfunctionLoadingState)POISON_32;
	CALL(cuFuncGetName, &name, kern.fill);
	STR(name);
	CALL(cuFuncGetName, NULL, kern.fill);
	CALL(cuFuncGetModule, &module, kern.fill);
	YES(module == kern.module);
	for (size_t i = 0; i < 4; i++) {
		NOTE("parameter %zu", i);
		CALL(cuFuncGetParamInfo, kern.fill, i, &offset, &size);
		SIZE(offset);
		SIZE(size);
	}
	CALL(cuFuncGetParamInfo, kern.fill, 0, NULL, &size);
	CALL(cuFuncGetParamInfo, kern.fill, 0, &offset, NULL);
	CALL(cuFuncLoad, kern.fill);
	CALL(cuFuncIsLoaded, &state, kern.fill);
	INT(state);
	CALL(cuFuncIsLoaded, NULL, kern.fill);
}

static void count_functions(void)
{
	POISONED_UINT(count);
	CUfunction functions[16];
	POISONED(CUmodule, m);
	CALL(cuModuleGetFunctionCount, &count, kern.module);
	INT(count);
	CALL(cuModuleEnumerateFunctions, functions, 16, kern.module);
	CALL(cuModuleEnumerateFunctions, functions, 2, kern.module);
	CALL(cuModuleEnumerateFunctions, functions, 0, kern.module);
	CALL(cuModuleGetFunctionCount, NULL, kern.module);
	CALL(cuModuleGetFunctionCount, &count, NULL);
	CUmoduleLoadingMode mode = (CUmoduleLoadingMode)POISON_32;
	CALL(cuModuleGetLoadingMode, &mode);
	INT(mode);
	CALL(cuModuleGetLoadingMode, NULL);
	CALL(cuModuleLoadData, &m, ".version 7.0\n.target sm_70\n.address_size 64\n");
	CALL(cuModuleGetFunctionCount, &count, m);
	INT(count);
	CALL(cuModuleUnload, m);
}

static void library(void)
{
	POISONED(CUlibrary, lib);
	POISONED(CUkernel, k);
	POISONED(CUfunction, f);
	POISONED(CUmodule, m);
	POISONED_PTR(p);
	POISONED_SIZE(bytes);
	POISONED_UINT(count);
	POISONED(const char *, name);
	CALL(cuLibraryLoadData, &lib, kernels_ptx, NULL, NULL, 0, NULL, NULL, 0);
	NEWHANDLE(lib);
	CALL(cuLibraryGetKernel, &k, lib, "allot_fill_u32");
	NEWHANDLE(k);
	CALL(cuLibraryGetKernelCount, &count, lib);
	INT(count);
	CALL(cuKernelGetName, &name, k);
	STR(name);
	CALL(cuKernelGetFunction, &f, k);
	NEWHANDLE(f);
	CALL(cuLibraryGetModule, &m, lib);
	NEWHANDLE(m);
	CALL(cuLibraryGetGlobal, &p, &bytes, lib, "allot_word");
	SIZE(bytes);
	data_u32(p, 4);
	p = alloc_quiet(4096, 0);
	unsigned int value = 6;
	uint64_t words = 1024;
	void *args[] = { &p, &value, &words };
	CALL(cuLaunchKernel, (CUfunction)k, 8, 1, 1, 64, 1, 1, 0, NULL, args, NULL);
	CALL(cuStreamSynchronize, NULL);
	data_u32(p, 4096);
	CALL(cuMemFree_v2, p);
	CALL(cuLibraryGetKernel, &k, lib, "no_such_kernel");
	CALL(cuLibraryGetGlobal, &p, &bytes, lib, "no_such_global");
	CALL(cuLibraryGetManaged, &p, &bytes, lib, "allot_word");
	CALL(cuLibraryUnload, lib);
}

static void library_errors(void)
{
	POISONED(CUlibrary, lib);
	POISONED(CUkernel, k);
	CALL(cuLibraryLoadData, NULL, kernels_ptx, NULL, NULL, 0, NULL, NULL, 0);
	CALL(cuLibraryLoadData, &lib, NULL, NULL, NULL, 0, NULL, NULL, 0);
	HANDLE(lib);
	CALL(cuLibraryLoadData, &lib, "nonsense", NULL, NULL, 0, NULL, NULL, 0);
	HANDLE(lib);
	CALL(cuLibraryLoadFromFile, &lib, "/no/such/file", NULL, NULL, 0, NULL, NULL, 0);
	HANDLE(lib);
	CALL(cuLibraryGetKernel, &k, NULL, "allot_empty");
	HANDLE(k);
	CALL(cuLibraryUnload, NULL);
}

static void linking(void)
{
	POISONED(CUlinkState, state);
	POISONED(void *, cubin);
	POISONED_SIZE(size);
	POISONED(CUmodule, m);
	CALL(cuLinkCreate_v2, 0, NULL, NULL, &state);
	NEWHANDLE(state);
	CALL(cuLinkAddData_v2, state, CU_JIT_INPUT_PTX, (void *)(uintptr_t)kernels_ptx,
	     strlen(kernels_ptx) + 1, "kernels", 0, NULL, NULL);
	if (CALL(cuLinkComplete, state, &cubin, &size) == CUDA_SUCCESS) {
		YES(size > 1000);
		CALL(cuModuleLoadData, &m, cubin);
		CALL(cuModuleUnload, m);
	}
	CALL(cuLinkDestroy, state);
	CALL(cuLinkCreate_v2, 0, NULL, NULL, NULL);
}

static void occupancy(void)
{
	POISONED_INT(blocks);
	POISONED_INT(grid);
	POISONED_INT(block);
	POISONED_SIZE(shared);
	CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, kern.empty, 128, 0);
	INT(blocks);
	CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, kern.empty, 1024, 0);
	INT(blocks);
	CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, kern.empty, 0, 0);
	CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, kern.empty, 2048, 0);
	INT(blocks);
	CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor, NULL, kern.empty, 128, 0);
	CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, NULL, 128, 0);
	CALL(cuOccupancyMaxPotentialBlockSize, &grid, &block, kern.empty, NULL, 0, 0);
	INT(grid);
	INT(block);
	CALL(cuOccupancyAvailableDynamicSMemPerBlock, &shared, kern.empty, 1, 128);
	SIZE(shared);
}

static void unloaded(void)
{
	POISONED(CUmodule, m);
	POISONED(CUfunction, f);
	CALL(cuModuleLoadData, &m, kernels_ptx);
	CALL(cuModuleGetFunction, &f, m, "allot_empty");
	CALL(cuModuleUnload, m);
	CALL(cuModuleUnload, m);
	CALL(cuModuleGetFunction, &f, m, "allot_empty");
}

FAMILY(module, { "module", "module.load", KERNELS, load },
       { "module", "module.same-function", KERNELS, same_function },
       { "module", "module.bad-images", KERNELS, bad_images },
       { "module", "module.files", KERNELS, files },
       { "module", "module.jit-options", KERNELS, jit_options },
       { "module", "module.globals", KERNELS, globals },
       { "module", "module.function-attributes", KERNELS, function_attributes },
       { "module", "module.function-settings", KERNELS, function_settings },
       { "module", "module.function-queries", KERNELS, function_queries },
       { "module", "module.count-functions", KERNELS, count_functions },
       { "module", "module.library", KERNELS, library },
       { "module", "module.library-errors", KERNELS, library_errors },
       { "module", "module.linking", KERNELS, linking },
       { "module", "module.occupancy", KERNELS, occupancy },
       { "module.bad", "module.null-image", CTX, null_image },
       { "module.bad", "module.unloaded", CTX, unloaded }, );
