// SPDX-License-Identifier: Apache-2.0
/*
 * Calls that make the driver itself take memory, or return some: modules and libraries (code,
 * __device__ arrays) and function attributes.
 *
 * A module's variables are charged before it is loaded, as far as its image tells (shim/image.h),
 * as elastic: a library takes them when it is first used.  A module that took the job over its
 * limit all the same (a compressed image) is unloaded again: out of memory.  Whether it took much
 * is told by what is free on the card, a question that asks nobody; only then is NVML asked.  What
 * a library takes later, and local memory at a launch, NVML shows within a second.
 *
 * All other growth passes; afterwards allotd is told to look at NVML soon, at most a few times a
 * second.
 */
#include "base/size.h"
#include "shim/capture.h"
#include "shim/devices.h"
#include "shim/guard.h"
#include "shim/hooks.h"
#include "shim/image.h"
#include "shim/real.h"
#include "shim/reserve.h"
#include "shim/say.h"

#define MUCH_BYTES  (32 * MIB)
#define SLACK_BYTES (128 * MIB) /* that the driver's own growth may exceed a limit by */

/* the end of each hook below */
static CUresult changed(CUresult rc)
{
	CUcontext ctx;

	if (rc == CUDA_SUCCESS)
		account_settle(devices_current(&ctx));
	guard_leave();
	return rc;
}

/* one load */
struct load {
	struct reserve reserve;
	size_t free_before; /* on the card; 0: not asked */
};

static size_t card_free(void)
{
	size_t free, total;

	/* never in a capture; a card that cannot say is not looked at */
	return !capture_any() && real_cuMemGetInfo_v2(&free, &total) == CUDA_SUCCESS ? free : 0;
}

/* false: no room for what @image holds, that was explained */
static bool begin(struct load *l, uint64_t bytes, bool is_library)
{
	CUcontext ctx;
	int slot = devices_current(&ctx);

	if (slot < 0 && is_library && devices_count() == 1)
		slot = devices_slot(0); /* it may be loaded before there is a context */
	if (slot < 0)
		slot = ACCOUNT_NOWHERE; /* not for us, or the driver will say so */
	if (!reserve_begin_on(&l->reserve, slot, is_library ? NULL : ctx, bytes))
		return false;
	l->free_before = slot >= 0 && !is_library ? card_free() : 0;
	return true;
}

static bool took_much(const struct load *l)
{
	uint64_t known = l->reserve.charge.slot >= 0 ? l->reserve.charge.bytes : 0;

	return l->free_before && size_sat_sub(l->free_before, card_free()) >= known + MUCH_BYTES;
}

/* over the limit by more than the driver's own growth may be; said once */
static bool is_over(int slot)
{
	struct wire_viewed v;

	account_settle_freed(slot);
	if (!account_view(slot, &v) || v.used_bytes <= size_sat_add(v.limit_bytes, SLACK_BYTES))
		return false;
	say_refusal("out of memory: a module is %u MiB more than the limit has room for",
		    (unsigned)((v.used_bytes - v.limit_bytes) / MIB));
	return true;
}

/* false: it must be unloaded again */
static bool end(struct load *l, CUresult rc, uint32_t kind, uint64_t key)
{
	int slot = l->reserve.slot;
	bool fits;

	if (rc != CUDA_SUCCESS) {
		reserve_undo(&l->reserve);
		return true;
	}
	fits = !took_much(l) || !is_over(slot);
	account_mark(&l->reserve.charge, CHARGE_ELASTIC);
	if (fits)
		reserve_keep(&l->reserve, kind, key);
	return fits;
}

static CUresult end_module(struct load *l, CUresult rc, CUmodule *module)
{
	if (end(l, rc, BLOCK_MODULE, rc == CUDA_SUCCESS ? (uintptr_t)*module : 0))
		return changed(rc);
	(void)real_cuModuleUnload(*module);
	*module = NULL;
	reserve_undo(&l->reserve);
	return changed(CUDA_ERROR_OUT_OF_MEMORY);
}

static CUresult refused(void)
{
	guard_leave();
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuModuleLoad(CUmodule *module, const char *fname)
{
	struct load l;

	if (!module || !guard_enter())
		return real_cuModuleLoad(module, fname);
	if (!begin(&l, image_file_bytes(fname), false))
		return refused();
	return end_module(&l, real_cuModuleLoad(module, fname), module);
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	struct load l;

	if (!module || !guard_enter())
		return real_cuModuleLoadData(module, image);
	if (!begin(&l, image_bytes(image), false))
		return refused();
	return end_module(&l, real_cuModuleLoadData(module, image), module);
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions,
			    CUjit_option *options, void **optionValues)
{
	struct load l;

	if (!module || !guard_enter())
		return real_cuModuleLoadDataEx(module, image, numOptions, options, optionValues);
	if (!begin(&l, image_bytes(image), false))
		return refused();
	return end_module(&l,
			  real_cuModuleLoadDataEx(module, image, numOptions, options, optionValues),
			  module);
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin)
{
	struct load l;

	if (!module || !guard_enter())
		return real_cuModuleLoadFatBinary(module, fatCubin);
	if (!begin(&l, image_bytes(fatCubin), false))
		return refused();
	return end_module(&l, real_cuModuleLoadFatBinary(module, fatCubin), module);
}

CUresult cuModuleUnload(CUmodule hmod)
{
	struct block *b;
	CUresult rc;

	if (!guard_enter())
		return real_cuModuleUnload(hmod);
	b = reserve_take_out(BLOCK_MODULE, (uintptr_t)hmod);
	rc = real_cuModuleUnload(hmod);
	reserve_freed(b, rc == CUDA_SUCCESS);
	return changed(rc);
}

static CUresult end_library(struct load *l, CUresult rc, const CUlibrary *library)
{
	(void)end(l, rc, BLOCK_LIBRARY, rc == CUDA_SUCCESS ? (uintptr_t)*library : 0);
	return changed(rc);
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions,
			   void **jitOptionsValues, unsigned int numJitOptions,
			   CUlibraryOption *libraryOptions, void **libraryOptionValues,
			   unsigned int numLibraryOptions)
{
	struct load l;

	if (!library || !guard_enter())
		return real_cuLibraryLoadData(library, code, jitOptions, jitOptionsValues,
					      numJitOptions, libraryOptions, libraryOptionValues,
					      numLibraryOptions);
	if (!begin(&l, image_bytes(code), true))
		return refused();
	return end_library(&l,
			   real_cuLibraryLoadData(library, code, jitOptions, jitOptionsValues,
						  numJitOptions, libraryOptions,
						  libraryOptionValues, numLibraryOptions),
			   library);
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *fileName, CUjit_option *jitOptions,
			       void **jitOptionsValues, unsigned int numJitOptions,
			       CUlibraryOption *libraryOptions, void **libraryOptionValues,
			       unsigned int numLibraryOptions)
{
	struct load l;

	if (!library || !guard_enter())
		return real_cuLibraryLoadFromFile(library, fileName, jitOptions, jitOptionsValues,
						  numJitOptions, libraryOptions,
						  libraryOptionValues, numLibraryOptions);
	if (!begin(&l, image_file_bytes(fileName), true))
		return refused();
	return end_library(&l,
			   real_cuLibraryLoadFromFile(
				   library, fileName, jitOptions, jitOptionsValues, numJitOptions,
				   libraryOptions, libraryOptionValues, numLibraryOptions),
			   library);
}

CUresult cuLibraryUnload(CUlibrary library)
{
	struct block *b;
	CUresult rc;

	if (!guard_enter())
		return real_cuLibraryUnload(library);
	b = reserve_take_out(BLOCK_LIBRARY, (uintptr_t)library);
	rc = real_cuLibraryUnload(library);
	reserve_freed(b, rc == CUDA_SUCCESS);
	return changed(rc);
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
