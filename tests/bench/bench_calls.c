// SPDX-License-Identifier: Apache-2.0
/*
 * What a driver call costs, in nanoseconds, as the program sees it: run bare and under allot, the
 * difference is allot's.  Calls are found as a static CUDA runtime finds them.  Prints one line a
 * measure: "NAME NS", the median of the batches.
 *
 *   bench_calls [BATCHES]
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi/cuda_proto.h"
#include "abi/cuda_types.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/size.h"
#include "base/str.h"
#include "bench_driver.h"
#include "kernels_ptx.h"

#define CALLS(X)                    \
	X(cuInit)                   \
	X(cuDeviceGet)              \
	X(cuDevicePrimaryCtxRetain) \
	X(cuCtxSetCurrent)          \
	X(cuCtxGetDevice)           \
	X(cuCtxGetCurrent)          \
	X(cuCtxSynchronize)         \
	X(cuModuleLoadData)         \
	X(cuModuleGetFunction)      \
	X(cuStreamCreate)           \
	X(cuStreamSynchronize)      \
	X(cuLaunchKernel)           \
	X(cuMemAlloc_v2)            \
	X(cuMemFree_v2)             \
	X(cuMemGetInfo_v2)
#define DECLARE(name) static pfn_##name *p_##name;
CALLS(DECLARE)

#define MAX_BATCHES 2400u
#define LAUNCHES    512u /* a batch: the queue stays below full, the drain is outside the clock */
#define ALLOCATIONS \
	16u /* a batch: short, so that what drifts meanwhile is the same for both ways */
#define MEMORY_BATCHES(n) ((n)*6)

static CUfunction f_empty;
static CUstream stream;
static CUdeviceptr blocks[ALLOCATIONS];
static double samples[MAX_BATCHES];
static uint64_t batches = 60;

static void check(CUresult r, const char *what)
{
	if (r == CUDA_SUCCESS)
		return;
	fprintf(stderr, "bench_calls: %s gave %d\n", what, (int)r);
	exit(1);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void report(const char *name)
{
	qsort(samples, batches, sizeof(samples[0]), by_value);
	printf("%s %.2f\n", name, samples[batches / 2]);
}

static void measure_launch(void)
{
	for (uint64_t b = 0; b < batches; b++) {
		uint64_t start = clock_now_ns();

		for (unsigned i = 0; i < LAUNCHES; i++)
			(void)p_cuLaunchKernel(f_empty, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
		samples[b] = (double)(clock_now_ns() - start) / LAUNCHES;
		check(p_cuStreamSynchronize(stream), "cuStreamSynchronize");
	}
	report("launch");
}

static double launch_batch(pfn_cuLaunchKernel *f)
{
	uint64_t start = clock_now_ns(), end;

	for (unsigned i = 0; i < LAUNCHES; i++)
		(void)f(f_empty, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
	end = clock_now_ns();
	check(p_cuStreamSynchronize(stream), "cuStreamSynchronize");
	return (double)(end - start) / LAUNCHES;
}

/* through the shim and past it in one process, ABBA: what differs is the shim */
static void measure_launch_tax(void)
{
	void *driver = bench_direct_driver((void *)p_cuInit);
	pfn_cuLaunchKernel *direct =
		driver ? (pfn_cuLaunchKernel *)dlsym(driver, "cuLaunchKernel") : NULL;
	double plain[MAX_BATCHES];

	if (!direct)
		return;
	for (uint64_t b = 0; b < batches; b++) {
		double a = launch_batch(direct), through = launch_batch(p_cuLaunchKernel);

		through += launch_batch(p_cuLaunchKernel);
		a += launch_batch(direct);
		plain[b] = a / 2;
		samples[b] = (through - a) / 2;
	}
	report("launch-tax");
	memcpy(samples, plain, sizeof(samples));
	report("launch-direct");
}

struct memory_calls {
	pfn_cuMemAlloc_v2 *alloc;
	pfn_cuMemFree_v2 *release;
};

static void memory_batch(const struct memory_calls *m, size_t bytes, double *alloc, double *release)
{
	uint64_t start = clock_now_ns(), middle;

	for (unsigned i = 0; i < ALLOCATIONS; i++)
		check(m->alloc(&blocks[i], bytes), "cuMemAlloc");
	middle = clock_now_ns();
	for (unsigned i = 0; i < ALLOCATIONS; i++)
		check(m->release(blocks[i]), "cuMemFree");
	*alloc += (double)(middle - start) / ALLOCATIONS / 2;
	*release += (double)(clock_now_ns() - middle) / ALLOCATIONS / 2;
}

/* as with launches: both ways in one process; without a shim the same way twice */
static void measure_memory(size_t bytes, const char *size)
{
	struct memory_calls through = { p_cuMemAlloc_v2, p_cuMemFree_v2 }, direct = through;
	uint64_t kept = batches;
	static double taxes[2][MAX_BATCHES], natives[2][MAX_BATCHES];
	void *driver = bench_direct_driver((void *)p_cuInit);
	char name[64];

	batches = MEMORY_BATCHES(batches);
	if (driver) {
		direct.alloc = (pfn_cuMemAlloc_v2 *)dlsym(driver, "cuMemAlloc_v2");
		direct.release = (pfn_cuMemFree_v2 *)dlsym(driver, "cuMemFree_v2");
	}
	for (uint64_t b = 0; b < batches; b++) {
		double a[2] = { 0 }, t[2] = { 0 };

		memory_batch(&direct, bytes, &a[0], &a[1]);
		memory_batch(&through, bytes, &t[0], &t[1]);
		memory_batch(&through, bytes, &t[0], &t[1]);
		memory_batch(&direct, bytes, &a[0], &a[1]);
		for (unsigned k = 0; k < 2; k++) {
			taxes[k][b] = t[k] - a[k];
			natives[k][b] = a[k];
		}
	}
	for (unsigned k = 0; k < 2; k++) {
		memcpy(samples, taxes[k], sizeof(samples));
		(void)str_print(name, sizeof(name), "%s-%s-tax", k ? "free" : "alloc", size);
		report(name);
		memcpy(samples, natives[k], sizeof(samples));
		(void)str_print(name, sizeof(name), "%s-%s", k ? "free" : "alloc", size);
		report(name);
	}
	batches = kept;
}

static void measure_queries(void)
{
	for (uint64_t b = 0; b < batches; b++) {
		uint64_t start = clock_now_ns();
		size_t free_bytes, total_bytes;

		for (unsigned i = 0; i < ALLOCATIONS; i++)
			check(p_cuMemGetInfo_v2(&free_bytes, &total_bytes), "cuMemGetInfo");
		samples[b] = (double)(clock_now_ns() - start) / ALLOCATIONS;
	}
	report("mem-get-info");
	for (uint64_t b = 0; b < batches; b++) {
		uint64_t start = clock_now_ns();
		CUdevice dev;

		for (unsigned i = 0; i < LAUNCHES; i++)
			check(p_cuCtxGetDevice(&dev), "cuCtxGetDevice");
		samples[b] = (double)(clock_now_ns() - start) / LAUNCHES;
	}
	report("pass-through");
}

/* what each accounted call has to ask the driver: whose memory will it be? */
static void measure_whose(void)
{
	void *driver = bench_direct_driver((void *)p_cuInit);
	pfn_cuCtxGetCurrent *whose =
		driver ? (pfn_cuCtxGetCurrent *)dlsym(driver, "cuCtxGetCurrent")
		       : p_cuCtxGetCurrent;

	for (uint64_t b = 0; b < batches; b++) {
		uint64_t start = clock_now_ns();
		CUcontext ctx;

		for (unsigned i = 0; i < LAUNCHES; i++)
			check(whose(&ctx), "cuCtxGetCurrent");
		samples[b] = (double)(clock_now_ns() - start) / LAUNCHES;
	}
	report("whose");
}

int main(int argc, char **argv)
{
	uint64_t start = clock_now_ns();
	CUdevice dev;
	CUcontext ctx;
	CUmodule module;
	void *lib;

	if (argc > 1 && parse_u64(argv[1], 1, MAX_BATCHES / 6, &batches, NULL) < 0)
		return 2;
	lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!lib) {
		fprintf(stderr, "bench_calls: %s\n", dlerror());
		return 1;
	}
#define FIND(name)                                  \
	p_##name = (pfn_##name *)dlsym(lib, #name); \
	if (!p_##name)                              \
		return 1;
	CALLS(FIND)
	check(p_cuInit(0), "cuInit");
	check(p_cuDeviceGet(&dev, 0), "cuDeviceGet");
	check(p_cuDevicePrimaryCtxRetain(&ctx, dev), "cuDevicePrimaryCtxRetain");
	check(p_cuCtxSetCurrent(ctx), "cuCtxSetCurrent");
	check(p_cuMemAlloc_v2(&blocks[0], MIB), "cuMemAlloc");
	printf("start %.0f\n", (double)(clock_now_ns() - start));
	check(p_cuMemFree_v2(blocks[0]), "cuMemFree");
	check(p_cuModuleLoadData(&module, kernels_ptx), "cuModuleLoadData");
	check(p_cuModuleGetFunction(&f_empty, module, "allot_empty"), "allot_empty");
	check(p_cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
	measure_launch();
	measure_launch_tax();
	measure_memory(MIB, "1M");
	measure_memory(4096, "4K");
	measure_queries();
	measure_whose();
	return 0;
}
