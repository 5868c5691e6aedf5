// SPDX-License-Identifier: Apache-2.0
/*
 * Stand-ins for the programs that share a card: an embedding service, a chat service, a training,
 * and one that wants more than its part.  Plain driver-API programs that know nothing of allot:
 * they size themselves by what the driver says is free, as real ones do, and compute on whatever
 * libcuda.so.1 they get: on a real card the PTX really runs there.  Results are checked.
 *
 *   standin ROLE SECONDS [PERCENT]     embedding | chat | training | imagegen | greedy
 *
 * Exit: 0 all results right (greedy: stopped by CUDA's out of memory), 1 otherwise.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "abi/cuda_names.h"
#include "abi/cuda_proto.h"
#include "abi/cuda_types.h"
#include "base/clock.h"
#include "base/fmt.h"
#include "base/parse.h"
#include "base/size.h"
#include "kernels_ptx.h"

/* the driver's calls, found as a static CUDA runtime finds them */
#define CALLS(X)                    \
	X(cuInit)                   \
	X(cuDeviceGet)              \
	X(cuDevicePrimaryCtxRetain) \
	X(cuCtxSetCurrent)          \
	X(cuModuleLoadData)         \
	X(cuModuleGetFunction)      \
	X(cuMemGetInfo_v2)          \
	X(cuMemAlloc_v2)            \
	X(cuMemFree_v2)             \
	X(cuMemcpyHtoD_v2)          \
	X(cuMemcpyDtoH_v2)          \
	X(cuStreamCreate)           \
	X(cuStreamSynchronize)      \
	X(cuLaunchKernel)
#define DECLARE(name) static pfn_##name *p_##name;
CALLS(DECLARE)

#define BLOCK_THREADS 256u
#define WORK_ITEMS    65536u /* of the block that requests touch */
#define SUM_PAIRS     512u   /* one thread adds them up */

static CUfunction f_fill, f_add, f_sum;
static CUstream stream;
static const char *role;

static void check(CUresult r, const char *what)
{
	if (r == CUDA_SUCCESS)
		return;
	printf("%s: %s: %s\n", role, what, cuda_result_name(r) ? cuda_result_name(r) : "error");
	exit(1);
}

static void load_driver(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!lib) {
		printf("%s: %s\n", role, dlerror());
		exit(1);
	}
#define FIND(name)                                                 \
	p_##name = (pfn_##name *)dlsym(lib, #name);                \
	if (!p_##name) {                                           \
		printf("%s: the driver has no %s\n", role, #name); \
		exit(1);                                           \
	}
	CALLS(FIND)
}

static void start(void)
{
	CUdevice dev;
	CUcontext ctx;
	CUmodule module;

	load_driver();
	check(p_cuInit(0), "cuInit");
	check(p_cuDeviceGet(&dev, 0), "cuDeviceGet");
	check(p_cuDevicePrimaryCtxRetain(&ctx, dev), "cuDevicePrimaryCtxRetain");
	check(p_cuCtxSetCurrent(ctx), "cuCtxSetCurrent");
	check(p_cuModuleLoadData(&module, kernels_ptx), "cuModuleLoadData");
	check(p_cuModuleGetFunction(&f_fill, module, "allot_fill_u32"), "allot_fill_u32");
	check(p_cuModuleGetFunction(&f_add, module, "allot_add_u32"), "allot_add_u32");
	check(p_cuModuleGetFunction(&f_sum, module, "allot_sum_u64"), "allot_sum_u64");
	check(p_cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
}

static void launch(CUfunction f, unsigned threads, void **args)
{
	unsigned blocks = (threads + BLOCK_THREADS - 1) / BLOCK_THREADS;

	check(p_cuLaunchKernel(f, blocks, 1, 1, BLOCK_THREADS, 1, 1, 0, stream, args, NULL),
	      "cuLaunchKernel");
}

/*
 * One request: fill, add @rounds times, sum the head of it on the card; true when the sum is right.
 * The sum takes the 32-bit items in pairs, as 64-bit numbers.
 */
static bool request(CUdeviceptr data, CUdeviceptr result, uint32_t seed, unsigned rounds)
{
	uint64_t n = WORK_ITEMS, pairs = SUM_PAIRS, sum = 0;
	uint32_t addend = 3, item = seed + addend * rounds;
	uint64_t want = ((uint64_t)item << 32 | item) * pairs;
	void *fill[] = { &data, &seed, &n }, *add[] = { &data, &addend, &n };
	void *total[] = { &data, &pairs, &result };

	check(p_cuMemcpyHtoD_v2(result, &sum, sizeof(sum)), "cuMemcpyHtoD");
	launch(f_fill, WORK_ITEMS, fill);
	for (unsigned i = 0; i < rounds; i++)
		launch(f_add, WORK_ITEMS, add);
	launch(f_sum, 1, total);
	check(p_cuStreamSynchronize(stream), "cuStreamSynchronize");
	check(p_cuMemcpyDtoH_v2(&sum, result, sizeof(sum)), "cuMemcpyDtoH");
	return sum == want;
}

/* take @percent of what the driver says is free, in blocks, as a framework does */
static uint64_t take(unsigned percent)
{
	size_t free_bytes, total_bytes;
	uint64_t want, got = 0;
	struct fmt_buf a, b, c;

	check(p_cuMemGetInfo_v2(&free_bytes, &total_bytes), "cuMemGetInfo");
	want = free_bytes / 100 * percent;
	while (got + 64 * MIB <= want) {
		uint64_t block = size_min(want - got, GIB) & ~(2 * MIB - 1);
		CUdeviceptr p;

		check(p_cuMemAlloc_v2(&p, block), "cuMemAlloc");
		got += block;
	}
	printf("%s: sees a card of %s with %s free, took %s\n", role, fmt_size(&a, total_bytes),
	       fmt_size(&b, free_bytes), fmt_size(&c, got));
	(void)fflush(stdout);
	return got;
}

static int serve(uint64_t seconds, unsigned percent, unsigned rounds, unsigned pause_us)
{
	uint64_t end, n = 0;
	CUdeviceptr data, result;

	start();
	check(p_cuMemAlloc_v2(&data, WORK_ITEMS * sizeof(uint32_t)), "cuMemAlloc");
	check(p_cuMemAlloc_v2(&result, sizeof(uint64_t)), "cuMemAlloc");
	(void)take(percent);
	for (end = clock_now_ns() + seconds * NS_PER_S; clock_now_ns() < end; n++) {
		if (!request(data, result, (uint32_t)n, rounds)) {
			printf("%s: result %" PRIu64 " is wrong\n", role, n);
			return 1;
		}
		if (pause_us)
			(void)usleep(pause_us);
	}
	printf("%s: %" PRIu64 " results, all right\n", role, n);
	return 0;
}

/* takes block after block until the driver says no; then works with what it has */
static int be_greedy(uint64_t seconds)
{
	CUdeviceptr data, result, p;
	uint64_t got = 0;
	struct fmt_buf b;
	CUresult r;

	start();
	check(p_cuMemAlloc_v2(&data, WORK_ITEMS * sizeof(uint32_t)), "cuMemAlloc");
	check(p_cuMemAlloc_v2(&result, sizeof(uint64_t)), "cuMemAlloc");
	while ((r = p_cuMemAlloc_v2(&p, GIB / 2)) == CUDA_SUCCESS)
		got += GIB / 2;
	printf("%s: after %s the driver says %s\n", role, fmt_size(&b, got), cuda_result_name(r));
	(void)fflush(stdout);
	if (r != CUDA_ERROR_OUT_OF_MEMORY || !request(data, result, 5, 3))
		return 1;
	(void)sleep((unsigned)seconds);
	printf("%s: and goes on with what it has\n", role);
	return 0;
}

int main(int argc, char **argv)
{
	uint64_t seconds, percent = 90;

	if (argc < 3 || parse_u64(argv[2], 0, 3600, &seconds, NULL) < 0 ||
	    (argc > 3 && parse_u64(argv[3], 1, 100, &percent, NULL) < 0)) {
		fprintf(stderr, "usage: standin embedding|chat|training|imagegen|greedy SECONDS "
				"[PERCENT]\n");
		return 2;
	}
	role = argv[1];
	if (strcmp(role, "embedding") == 0)
		return serve(seconds, (unsigned)percent, 2, 20000);
	if (strcmp(role, "chat") == 0)
		return serve(seconds, (unsigned)percent, 20, 50000);
	if (strcmp(role, "training") == 0 || strcmp(role, "imagegen") == 0)
		return serve(seconds, (unsigned)percent, 200, 0);
	if (strcmp(role, "greedy") == 0)
		return be_greedy(seconds);
	fprintf(stderr, "standin: unknown role '%s'\n", role);
	return 2;
}
