// SPDX-License-Identifier: Apache-2.0
/*
 * The bare names from before CUDA 3.2, whose device pointers and sizes have 32 bits: do they still
 * work on a 64-bit driver, and how much of an output do they write? Outputs are given 16 bytes.
 */
#include "conform.h"

#include <string.h>

struct room {
	uint32_t words[4];
};

static struct room poisoned(void)
{
	struct room r;
	memset(&r, 0x5a, sizeof(r));
	return r;
}

static const char *written(const struct room *r)
{
	const uint32_t untouched = 0x5a5a5a5au;
	bool low = r->words[0] != untouched, high = r->words[1] != untouched;
	return low && high ? "8 bytes written"
	       : low       ? "4 bytes written"
	       : high      ? "the upper 4 bytes written"
			   : "untouched";
}

#define BARE(name, type, ...)                                    \
	({                                                       \
		CUresult(*f_) type = driver_symbol(#name);       \
		out_begin(#name "(" #__VA_ARGS__ ")");           \
		f_ ? out_end(f_(__VA_ARGS__)) : out_no_symbol(); \
	})

static void total_mem(void)
{
	struct room bytes = poisoned();
	CUresult r;
	r = BARE(cuDeviceTotalMem, (struct room *, int), &bytes, 0);
	out_append(" %s", written(&bytes));
	if (r == CUDA_SUCCESS)
		out_hex("low", bytes.words[0]);
	BARE(cuDeviceTotalMem, (struct room *, int), &bytes, -1);
}

static void get_info(void)
{
	struct room free_bytes = poisoned(), total = poisoned();
	CUresult r;
	r = BARE(cuMemGetInfo, (struct room *, struct room *), &free_bytes, &total);
	out_append(" %s, %s", written(&free_bytes), written(&total));
	if (r == CUDA_SUCCESS)
		out_hex("low of total", total.words[0]);
}

static void alloc(void)
{
	struct room p = poisoned();
	CUresult r;
	r = BARE(cuMemAlloc, (struct room *, unsigned int), &p, 4096);
	out_append(" %s", written(&p));
	if (r == CUDA_SUCCESS) {
		POISONED_PTR(base);
		POISONED_SIZE(size);
		CUdeviceptr low = p.words[0];
		CALL(cuMemGetAddressRange_v2, &base, &size, low);
		CALL(cuMemFree_v2, low);
	}
	BARE(cuMemAlloc, (struct room *, unsigned int), &p, 0);
	BARE(cuMemAlloc, (struct room *, unsigned int), NULL, 4096);
}

static void alloc_pitch(void)
{
	struct room p = poisoned(), pitch = poisoned();
	CUresult r;
	r = BARE(cuMemAllocPitch,
		 (struct room *, struct room *, unsigned int, unsigned int, unsigned int), &p,
		 &pitch, 100, 10, 4);
	out_append(" %s, %s", written(&p), written(&pitch));
	if (r == CUDA_SUCCESS)
		CALL(cuMemFree_v2, p.words[0]);
}

static void free_bare(void)
{
	BARE(cuMemFree, (unsigned int), 0);
	BARE(cuMemFree, (unsigned int), 0x1000);
}

static void alloc_host(void)
{
	POISONED(void *, host);
	CUresult r;
	r = BARE(cuMemAllocHost, (void **, unsigned int), &host, 4096);
	if (r == CUDA_SUCCESS) {
		NEWPTR(host, 4096);
		CALL(cuMemFreeHost, host);
	}
}

static void ctx_create(void)
{
	POISONED(CUcontext, ctx);
	CUresult r;
	r = BARE(cuCtxCreate, (CUcontext *, unsigned int, int), &ctx, 0, 0);
	HANDLE(ctx);
	if (r == CUDA_SUCCESS) {
		POISONED_UINT(version);
		CALL(cuCtxGetApiVersion, ctx, &version);
		INT(version);
		BARE(cuCtxDestroy, (CUcontext), ctx);
	}
}

static void ctx_push_pop(void)
{
	POISONED(CUcontext, ctx);
	BARE(cuCtxPopCurrent, (CUcontext *), &ctx);
	YES(ctx == conf_ctx);
	BARE(cuCtxPushCurrent, (CUcontext), conf_ctx);
}

static void array_create(void)
{
	/* {unsigned width, height; format; channels} of 32 bits each */
	struct {
		unsigned int width, height, format, channels, rest[8];
	} desc = { 64, 64, CU_AD_FORMAT_FLOAT, 1, { 0 } };
	POISONED(CUarray, array);
	CUresult r;
	r = BARE(cuArrayCreate, (CUarray *, const void *), &array, &desc);
	HANDLE(array);
	if (r == CUDA_SUCCESS) {
		CUDA_ARRAY_DESCRIPTOR d = { 0 };
		CALL(cuArrayGetDescriptor_v2, &d, array);
		SIZE(d.Width);
		SIZE(d.Height);
		INT(d.Format);
		CALL(cuArrayDestroy, array);
	}
}

static void array3d_create(void)
{
	struct {
		unsigned int width, height, depth, format, channels, flags, rest[8];
	} desc = { 16, 16, 16, CU_AD_FORMAT_FLOAT, 1, 0, { 0 } };
	POISONED(CUarray, array);
	CUresult r;
	r = BARE(cuArray3DCreate, (CUarray *, const void *), &array, &desc);
	HANDLE(array);
	if (r == CUDA_SUCCESS) {
		CUDA_ARRAY3D_DESCRIPTOR d = { 0 };
		CALL(cuArray3DGetDescriptor_v2, &d, array);
		SIZE(d.Width);
		SIZE(d.Depth);
		CALL(cuArrayDestroy, array);
	}
}

static void memset_bare(void)
{
	CUdeviceptr p = alloc_quiet(4096, 0);
	BARE(cuMemsetD32, (unsigned int, unsigned int, unsigned int), 0, 7, 4);
	BARE(cuMemsetD8, (unsigned int, unsigned char, unsigned int), 0, 7, 0);
	CALL(cuMemFree_v2, p);
}

static void copy_bare(void)
{
	uint32_t word = 1;
	BARE(cuMemcpyHtoD, (unsigned int, const void *, unsigned int), 0, &word, 4);
	BARE(cuMemcpyDtoH, (void *, unsigned int, unsigned int), &word, 0, 4);
	BARE(cuMemcpyDtoD, (unsigned int, unsigned int, unsigned int), 0, 0, 0);
}

static void module_global(void)
{
	struct room p = poisoned(), bytes = poisoned();
	BARE(cuModuleGetGlobal, (struct room *, struct room *, CUmodule, const char *), &p, &bytes,
	     kern.module, "allot_word");
	out_append(" %s, %s", written(&p), written(&bytes));
}

static void address_range(void)
{
	struct room base = poisoned(), size = poisoned();
	BARE(cuMemGetAddressRange, (struct room *, struct room *, unsigned int), &base, &size,
	     0x1000);
	out_append(" %s, %s", written(&base), written(&size));
}

FAMILY(legacy, { "legacy", "legacy.total-mem", INIT, total_mem },
       { "legacy", "legacy.get-info", CTX, get_info },
       { "legacy", "legacy.ctx-push-pop", CTX, ctx_push_pop },
       { "legacy", "legacy.alloc", CTX, alloc }, { "legacy", "legacy.free", CTX, free_bare },
       { "legacy", "legacy.alloc-pitch", CTX, alloc_pitch },
       { "legacy", "legacy.alloc-host", CTX, alloc_host },
       { "legacy", "legacy.array-create", CTX, array_create },
       { "legacy", "legacy.array3d-create", CTX, array3d_create },
       { "legacy", "legacy.address-range", CTX, address_range },
       { "legacy", "legacy.module-global", KERNELS, module_global },
       { "legacy", "legacy.ctx-create", CTX, ctx_create },
       { "legacy.copy", "legacy.memset", CTX, memset_bare },
       { "legacy.copy", "legacy.copy", CTX, copy_bare }, );
