// SPDX-License-Identifier: Apache-2.0
/* Launches: results, shapes, parameter passing. */
#include "conform.h"

#include <string.h>

static void fill(void)
{
	CUdeviceptr p = alloc_quiet(8192, 1);
	unsigned int value = 0xabc;
	uint64_t words = 1024;
	void *args[] = { &p, &value, &words };
	CALL(cuLaunchKernel, kern.fill, 4, 1, 1, 64, 1, 1, 0, NULL, args, NULL);
	CALL(cuStreamSynchronize, NULL);
	data_u32(p, 4096);
	data_u32(p + 4096, 4096);
	CALL(cuMemFree_v2, p);
}

static void add_saxpy_sum(void)
{
	CUdeviceptr p = alloc_quiet(4096, 40), y = alloc_quiet(4096, 0x3f800000);
	CUdeviceptr x = alloc_quiet(4096, 0x40000000), total = alloc_quiet(8, 0);
	unsigned int two = 2;
	float a = 3;
	uint64_t n = 1024, n64 = 512;
	void *add[] = { &p, &two, &n };
	void *saxpy[] = { &y, &x, &a, &n };
	void *sum[] = { &p, &n64, &total };
	CALL(cuLaunchKernel, kern.add, 4, 1, 1, 64, 1, 1, 0, NULL, add, NULL);
	CALL(cuCtxSynchronize);
	data_u32(p, 4096);
	CALL(cuLaunchKernel, kern.saxpy, 2, 1, 1, 32, 1, 1, 0, NULL, saxpy, NULL);
	CALL(cuCtxSynchronize);
	data_u32(y, 4096);
	CALL(cuLaunchKernel, kern.sum, 1, 1, 1, 1, 1, 1, 0, NULL, sum, NULL);
	CALL(cuCtxSynchronize);
	data_u32(total, 8);
	CALL(cuMemFree_v2, p);
	CALL(cuMemFree_v2, x);
	CALL(cuMemFree_v2, y);
	CALL(cuMemFree_v2, total);
}

static void extra_buffer(void)
{
	CUdeviceptr p = alloc_quiet(4096, 0);
	struct {
		CUdeviceptr ptr;
		unsigned int value;
		unsigned int pad;
		uint64_t n;
	} packed = { p, 0x5e, 0, 1024 };
	size_t size = sizeof(packed);
	void *extra[] = { (void *)1, &packed, (void *)2, &size, (void *)0 };
	void *args[] = { &packed.ptr, &packed.value, &packed.n };
	CALL(cuLaunchKernel, kern.fill, 4, 1, 1, 64, 1, 1, 0, NULL, NULL, extra);
	CALL(cuStreamSynchronize, NULL);
	data_u32(p, 4096);
	CALL(cuLaunchKernel, kern.fill, 4, 1, 1, 64, 1, 1, 0, NULL, args, extra);
	size = 8;
	CALL(cuLaunchKernel, kern.fill, 4, 1, 1, 64, 1, 1, 0, NULL, NULL, extra);
	extra[0] = (void *)7;
	CALL(cuLaunchKernel, kern.fill, 4, 1, 1, 64, 1, 1, 0, NULL, NULL, extra);
	CALL(cuCtxSynchronize);
	CALL(cuMemFree_v2, p);
}

static void shapes(void)
{
	static const unsigned int all[][7] = {
		{ 0, 1, 1, 1, 1, 1, 0 },          { 1, 0, 1, 1, 1, 1, 0 },
		{ 1, 1, 0, 1, 1, 1, 0 },          { 1, 1, 1, 0, 1, 1, 0 },
		{ 1, 1, 1, 1, 0, 1, 0 },          { 1, 1, 1, 1, 1, 0, 0 },
		{ 1, 1, 1, 1024, 1, 1, 0 },       { 1, 1, 1, 1025, 1, 1, 0 },
		{ 1, 1, 1, 32, 32, 1, 0 },        { 1, 1, 1, 32, 32, 2, 0 },
		{ 1, 1, 1, 1, 1, 64, 0 },         { 1, 1, 1, 1, 1, 65, 0 },
		{ 65536, 1, 1, 1, 1, 1, 0 },      { 1, 65535, 1, 1, 1, 1, 0 },
		{ 1, 65536, 1, 1, 1, 1, 0 },      { 1, 1, 65535, 1, 1, 1, 0 },
		{ 1, 1, 65536, 1, 1, 1, 0 },      { 0x80000000u, 1, 1, 1, 1, 1, 0 },
		{ 1, 1, 1, 1, 1, 1, 48 * 1024 },  { 1, 1, 1, 1, 1, 1, 48 * 1024 + 1 },
		{ 1, 1, 1, 1, 1, 1, 227 * 1024 }, { 1, 1, 1, 1, 1, 1, 300 * 1024 },
	};
	char text[40];
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		const unsigned int *d = all[i];
		CUresult r = QUIET(cuLaunchKernel, kern.empty, d[0], d[1], d[2], d[3], d[4], d[5],
				   d[6], NULL, NULL, NULL);
		out_line("grid %u,%u,%u block %u,%u,%u shared %u → %s", d[0], d[1], d[2], d[3],
			 d[4], d[5], d[6], result_text(r, text));
	}
	CALL(cuCtxSynchronize);
}

static void large_shared(void)
{
	CALL(cuFuncSetAttribute, kern.empty, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
	     227 * 1024);
	CALL(cuLaunchKernel, kern.empty, 1, 1, 1, 1, 1, 1, 227 * 1024, NULL, NULL, NULL);
	CALL(cuFuncSetAttribute, kern.empty, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
	     228 * 1024);
	CALL(cuCtxSynchronize);
}

static void null_function(void)
{
	CUlaunchConfig config = { .gridDimX = 1,
				  .gridDimY = 1,
				  .gridDimZ = 1,
				  .blockDimX = 1,
				  .blockDimY = 1,
				  .blockDimZ = 1 };
	CALL(cuLaunchKernel, NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	CALL(cuLaunchKernelEx, &config, NULL, NULL, NULL);
	CALL(cuLaunchKernelEx, NULL, kern.empty, NULL, NULL);
	CALL(cuLaunchCooperativeKernel, NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL);
}

static void null_parameters(void)
{
	CALL(cuLaunchKernel, kern.fill, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	CALL(cuCtxSynchronize);
}

static void ex(void)
{
	CUdeviceptr p = alloc_quiet(4096, 0);
	unsigned int value = 0x33;
	uint64_t words = 1024;
	void *args[] = { &p, &value, &words };
	CUlaunchAttribute attribute;
	CUlaunchConfig config = { .gridDimX = 4,
				  .gridDimY = 1,
				  .gridDimZ = 1,
				  .blockDimX = 64,
				  .blockDimY = 1,
				  .blockDimZ = 1 };
	memset(&attribute, 0, sizeof(attribute));
	CALL(cuLaunchKernelEx, &config, kern.fill, args, NULL);
	CALL(cuStreamSynchronize, NULL);
	data_u32(p, 4096);
	attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
	attribute.value.clusterDim.x = 2;
	attribute.value.clusterDim.y = 1;
	attribute.value.clusterDim.z = 1;
	config.attrs = &attribute;
	config.numAttrs = 1;
	CALL(cuLaunchKernelEx, &config, kern.fill, args, NULL);
	attribute.value.clusterDim.x = 3;
	CALL(cuLaunchKernelEx, &config, kern.fill, args, NULL);
	attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
	attribute.value.cooperative = 1;
	CALL(cuLaunchKernelEx, &config, kern.fill, args, NULL);
	config.gridDimX = 1000000;
	CALL(cuLaunchKernelEx, &config, kern.fill, args, NULL);
	config.gridDimX = 4;
	attribute.id = (CUlaunchAttributeID)200;
	CALL(cuLaunchKernelEx, &config, kern.fill, args, NULL);
	config.numAttrs = 0;
	config.blockDimX = 0;
	CALL(cuLaunchKernelEx, &config, kern.fill, args, NULL);
	CALL(cuCtxSynchronize);
	CALL(cuMemFree_v2, p);
}

static void ex_null_attributes(void)
{
	CUlaunchConfig config = { .gridDimX = 1,
				  .gridDimY = 1,
				  .gridDimZ = 1,
				  .blockDimX = 1,
				  .blockDimY = 1,
				  .blockDimZ = 1,
				  .numAttrs = 1 };
	CALL(cuLaunchKernelEx, &config, kern.empty, NULL, NULL);
}

static void cooperative(void)
{
	CUdeviceptr p = alloc_quiet(4096, 0);
	unsigned int value = 0x34;
	uint64_t words = 1024;
	void *args[] = { &p, &value, &words };
	CALL(cuLaunchCooperativeKernel, kern.fill, 4, 1, 1, 64, 1, 1, 0, NULL, args);
	CALL(cuCtxSynchronize);
	data_u32(p, 4096);
	CALL(cuLaunchCooperativeKernel, kern.fill, 1000000, 1, 1, 1024, 1, 1, 0, NULL, args);
	CALL(cuMemFree_v2, p);
}

static void per_thread_entry(void)
{
	CUdeviceptr p = alloc_quiet(4096, 0);
	unsigned int value = 0x35;
	uint64_t words = 1024;
	void *args[] = { &p, &value, &words };
	CALL(cuLaunchKernel_ptsz, kern.fill, 4, 1, 1, 64, 1, 1, 0, NULL, args, NULL);
	CALL(cuStreamSynchronize, CU_STREAM_PER_THREAD);
	data_u32(p, 4096);
	CALL(cuMemFree_v2, p);
}

static void arguments_are_copied(void)
{
	CUdeviceptr p = alloc_quiet(4096, 0);
	unsigned int value = 1;
	uint64_t words = 1024;
	void *args[] = { &p, &value, &words };
	spin_quiet(NULL, 10000000);
	CALL(cuLaunchKernel, kern.fill, 4, 1, 1, 64, 1, 1, 0, NULL, args, NULL);
	value = 2;
	CALL(cuStreamSynchronize, NULL);
	data_u32(p, 4096);
	CALL(cuMemFree_v2, p);
}

static void order(void)
{
	CUdeviceptr p = alloc_quiet(4096, 0);
	for (unsigned int i = 1; i <= 100; i++)
		fill_quiet(p, i, 1024, NULL);
	CALL(cuStreamSynchronize, NULL);
	data_u32(p, 4096);
	CALL(cuMemFree_v2, p);
}

static void no_context(void)
{
	CALL(cuCtxSetCurrent, NULL);
	CALL(cuLaunchKernel, kern.empty, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	CALL(cuCtxSetCurrent, conf_ctx);
	CALL(cuCtxSynchronize);
}

static void old_style(void)
{
	CALL(cuFuncSetBlockShape, kern.empty, 32, 1, 1);
	CALL(cuLaunch, kern.empty);
	CALL(cuLaunchGrid, kern.empty, 2, 2);
	CALL(cuLaunchGridAsync, kern.empty, 2, 2, NULL);
	CALL(cuParamSetSize, kern.empty, 0);
	CALL(cuCtxSynchronize);
}

static void fault(void)
{
	CUdeviceptr wild = 0x10;
	POISONED_PTR(p);
	CUresult r = fill_quiet(wild, 1, 64, NULL);
	NOTE("launch: %d", (int)r);
	CALL(cuCtxSynchronize);
	CALL(cuMemAlloc_v2, &p, 4096);
	PTR(p);
	CALL(cuStreamSynchronize, NULL);
	CALL(cuStreamQuery, NULL);
	POISONED(CUstream, s);
	CALL(cuStreamCreate, &s, 0);
	POISONED_SIZE(free_bytes);
	POISONED_SIZE(total);
	CALL(cuMemGetInfo_v2, &free_bytes, &total);
	CALL(cuMemFree_v2, 0);
	POISONED(CUcontext, ctx);
	CALL(cuCtxGetCurrent, &ctx);
	YES(ctx == conf_ctx);
	POISONED_INT(n);
	CALL(cuDeviceGetCount, &n);
	CALL(cuDevicePrimaryCtxReset_v2, 0);
	CALL(cuMemAlloc_v2, &p, 4096);
}

FAMILY(launch, { "launch", "launch.fill", KERNELS, fill },
       { "launch", "launch.add-saxpy-sum", KERNELS, add_saxpy_sum },
       { "launch", "launch.extra-buffer", KERNELS, extra_buffer },
       { "launch", "launch.shapes", KERNELS, shapes },
       { "launch", "launch.large-shared", KERNELS, large_shared },
       { "launch", "launch.ex", KERNELS, ex },
       { "launch", "launch.cooperative", KERNELS, cooperative },
       { "launch", "launch.per-thread-entry", KERNELS, per_thread_entry },
       { "launch", "launch.arguments-copied", KERNELS, arguments_are_copied },
       { "launch", "launch.order", KERNELS, order },
       { "launch", "launch.no-context", KERNELS, no_context },
       { "launch", "launch.old-style", KERNELS, old_style },
       { "launch.bad", "launch.null-function", KERNELS, null_function },
       { "launch.bad", "launch.ex-null-attributes", KERNELS, ex_null_attributes },
       { "launch.bad", "launch.null-parameters", KERNELS, null_parameters },
       { "launch.fault", "launch.fault", KERNELS, fault }, );
