// SPDX-License-Identifier: Apache-2.0
/*
 * Calls that make the driver itself take memory, or return some: modules and libraries (code,
 * __device__ arrays), stack and heap limits, function attributes.  They pass; afterwards allotd is
 * told to look at NVML soon, at most a few times a second.  It looks once a second anyway.
 */
#include "shim/devices.h"
#include "shim/guard.h"
#include "shim/hooks.h"
#include "shim/real.h"

/* the end of each hook below */
static CUresult changed(CUresult rc)
{
	CUcontext ctx;

	if (rc == CUDA_SUCCESS)
		account_settle(devices_current(&ctx));
	guard_leave();
	return rc;
}

CUresult cuModuleLoad(CUmodule *module, const char *fname)
{
	if (!guard_enter())
		return real_cuModuleLoad(module, fname);
	return changed(real_cuModuleLoad(module, fname));
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	if (!guard_enter())
		return real_cuModuleLoadData(module, image);
	return changed(real_cuModuleLoadData(module, image));
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions,
			    CUjit_option *options, void **optionValues)
{
	if (!guard_enter())
		return real_cuModuleLoadDataEx(module, image, numOptions, options, optionValues);
	return changed(real_cuModuleLoadDataEx(module, image, numOptions, options, optionValues));
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin)
{
	if (!guard_enter())
		return real_cuModuleLoadFatBinary(module, fatCubin);
	return changed(real_cuModuleLoadFatBinary(module, fatCubin));
}

CUresult cuModuleUnload(CUmodule hmod)
{
	if (!guard_enter())
		return real_cuModuleUnload(hmod);
	return changed(real_cuModuleUnload(hmod));
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions,
			   void **jitOptionsValues, unsigned int numJitOptions,
			   CUlibraryOption *libraryOptions, void **libraryOptionValues,
			   unsigned int numLibraryOptions)
{
	if (!guard_enter())
		return real_cuLibraryLoadData(library, code, jitOptions, jitOptionsValues,
					      numJitOptions, libraryOptions, libraryOptionValues,
					      numLibraryOptions);
	return changed(real_cuLibraryLoadData(library, code, jitOptions, jitOptionsValues,
					      numJitOptions, libraryOptions, libraryOptionValues,
					      numLibraryOptions));
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *fileName, CUjit_option *jitOptions,
			       void **jitOptionsValues, unsigned int numJitOptions,
			       CUlibraryOption *libraryOptions, void **libraryOptionValues,
			       unsigned int numLibraryOptions)
{
	if (!guard_enter())
		return real_cuLibraryLoadFromFile(library, fileName, jitOptions, jitOptionsValues,
						  numJitOptions, libraryOptions,
						  libraryOptionValues, numLibraryOptions);
	return changed(real_cuLibraryLoadFromFile(library, fileName, jitOptions, jitOptionsValues,
						  numJitOptions, libraryOptions,
						  libraryOptionValues, numLibraryOptions));
}

CUresult cuLibraryUnload(CUlibrary library)
{
	if (!guard_enter())
		return real_cuLibraryUnload(library);
	return changed(real_cuLibraryUnload(library));
}

CUresult cuFuncLoad(CUfunction function)
{
	if (!guard_enter())
		return real_cuFuncLoad(function);
	return changed(real_cuFuncLoad(function));
}

CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value)
{
	if (!guard_enter())
		return real_cuFuncSetAttribute(hfunc, attrib, value);
	return changed(real_cuFuncSetAttribute(hfunc, attrib, value));
}

CUresult cuLinkComplete(CUlinkState state, void **cubinOut, size_t *sizeOut)
{
	if (!guard_enter())
		return real_cuLinkComplete(state, cubinOut, sizeOut);
	return changed(real_cuLinkComplete(state, cubinOut, sizeOut));
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
	if (!guard_enter())
		return real_cuCtxSetLimit(limit, value);
	return changed(real_cuCtxSetLimit(limit, value));
}
