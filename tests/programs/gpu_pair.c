// SPDX-License-Identifier: Apache-2.0
/*
 * What a program with two GPUs sees of its two accounts; it is told nothing of them.
 *
 *   gpu_pair CASE
 *
 * Run inside a job with two GPUs and a limit.  Each case looks at cuMemGetInfo's free on both
 * (limit − what the job holds there) around what it does on one while the other is current.  Exit
 * 0, or 1 with the line that failed on stderr.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "abi/cuda_proto.h"
#include "abi/cuda_types.h"
#include "base/cleanup.h"
#include "base/size.h"

#define CALLS(X)                       \
	X(cuInit)                      \
	X(cuDeviceGetCount)            \
	X(cuDeviceCanAccessPeer)       \
	X(cuDevicePrimaryCtxRetain)    \
	X(cuCtxCreate_v2)              \
	X(cuCtxDestroy_v2)             \
	X(cuCtxSetCurrent)             \
	X(cuCtxSynchronize)            \
	X(cuCtxEnablePeerAccess)       \
	X(cuCtxDisablePeerAccess)      \
	X(cuStreamCreate)              \
	X(cuStreamSynchronize)         \
	X(cuMemGetInfo_v2)             \
	X(cuDeviceGraphMemTrim)        \
	X(cuGraphCreate)               \
	X(cuGraphDestroy)              \
	X(cuGraphAddMemAllocNode)      \
	X(cuGraphAddMemFreeNode)       \
	X(cuGraphInstantiateWithFlags) \
	X(cuGraphLaunch)               \
	X(cuGraphExecDestroy)          \
	X(cuMemAlloc_v2)               \
	X(cuMemAllocManaged)           \
	X(cuMemAllocAsync)             \
	X(cuMemAllocFromPoolAsync)     \
	X(cuMemFreeAsync)              \
	X(cuMemFree_v2)                \
	X(cuMemPoolCreate)             \
	X(cuMemPoolDestroy)            \
	X(cuMemPoolSetAccess)          \
	X(cuMemPoolTrimTo)             \
	X(cuMemCreate)                 \
	X(cuMemRelease)                \
	X(cuMemAddressReserve)         \
	X(cuMemAddressFree)            \
	X(cuMemMap)                    \
	X(cuMemUnmap)                  \
	X(cuMemSetAccess)              \
	X(cuMemsetD8_v2)               \
	X(cuMemcpyPeer)                \
	X(cuMemcpyDtoH_v2)             \
	X(cuArrayCreate_v2)            \
	X(cuArrayDestroy)              \
	X(cuPointerGetAttribute)       \
	X(cuDeviceGetDefaultMemPool)
#define DECLARE(name) static pfn_##name *p_##name;
CALLS(DECLARE)

#define CHECK(condition)                                                                \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			exit(1);                                                        \
		}                                                                       \
	} while (0)
#define OK(call) CHECK((call) == CUDA_SUCCESS)

#define SLACK (8 * MIB) /* page tables of a peer, figures that settle */

static CUcontext ctx[2];
static int64_t before[2];

static int64_t free_on(int n)
{
	size_t f, t;

	OK(p_cuCtxSetCurrent(ctx[n]));
	OK(p_cuMemGetInfo_v2(&f, &t));
	CHECK(f <= t);
	return (int64_t)f;
}

/* both accounts fell so far since start(); what the driver took by itself may settle a while yet */
static bool fell_by(uint64_t first, uint64_t second)
{
	int64_t fell[2], off[2];

	for (int tries = 0; tries < 150; tries++) {
		fell[0] = before[0] - free_on(0);
		fell[1] = before[1] - free_on(1);
		off[0] = llabs(fell[0] - (int64_t)first);
		off[1] = llabs(fell[1] - (int64_t)second);
		if (off[0] <= (int64_t)SLACK && off[1] <= (int64_t)SLACK)
			return true;
		nanosleep(&(struct timespec){ .tv_nsec = 20 * 1000 * 1000 }, NULL);
	}
	fprintf(stderr,
		"fell by %" PRId64 " and %" PRId64 " instead of %" PRIu64 " and %" PRIu64 "\n",
		fell[0], fell[1], first, second);
	return false;
}

static void current(int n)
{
	OK(p_cuCtxSetCurrent(ctx[n]));
}

static void start(void)
{
	CUdeviceptr warm;
	int n;

	OK(p_cuInit(0));
	OK(p_cuDeviceGetCount(&n));
	CHECK(n == 2);
	for (n = 0; n < 2; n++) {
		OK(p_cuDevicePrimaryCtxRetain(&ctx[n], n));
		current(n);
		OK(p_cuMemAlloc_v2(&warm, MIB));
		OK(p_cuMemsetD8_v2(warm, 0, MIB));
		OK(p_cuCtxSynchronize());
		OK(p_cuMemFree_v2(warm));
	}
	before[0] = free_on(0);
	before[1] = free_on(1);
	CHECK(fell_by(0, 0));
}

static void linear(void)
{
	CUdeviceptr p, q;
	CUarray array;
	CUDA_ARRAY_DESCRIPTOR desc = { 4096, 4096, CU_AD_FORMAT_UNSIGNED_INT32, 1 };

	current(0);
	OK(p_cuMemAlloc_v2(&p, 64 * MIB));
	current(1);
	OK(p_cuMemAlloc_v2(&q, 128 * MIB));
	CHECK(fell_by(64 * MIB, 128 * MIB));
	current(1);
	OK(p_cuMemFree_v2(p));
	CHECK(fell_by(0, 128 * MIB));
	current(0);
	OK(p_cuMemFree_v2(q));
	CHECK(fell_by(0, 0));
	current(1);
	OK(p_cuArrayCreate_v2(&array, &desc));
	CHECK(fell_by(0, 64 * MIB));
	current(0);
	OK(p_cuArrayDestroy(array));
	CHECK(fell_by(0, 0));
}

/* the device of the stream, not the current one */
static void async(void)
{
	CUstream second;
	CUdeviceptr p;
	CUmemoryPool pool;

	current(1);
	OK(p_cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
	current(0);
	OK(p_cuMemAllocAsync(&p, 64 * MIB, second));
	OK(p_cuStreamSynchronize(second));
	CHECK(fell_by(0, 64 * MIB));
	current(0);
	OK(p_cuMemFreeAsync(p, second));
	OK(p_cuStreamSynchronize(second));
	OK(p_cuDeviceGetDefaultMemPool(&pool, 1));
	OK(p_cuMemPoolTrimTo(pool, 0));
	CHECK(fell_by(0, 0));
}

/* a pool is charged where it lies, whoever may reach it */
static void pool(void)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .location = { CU_MEM_LOCATION_TYPE_DEVICE, 1 } };
	CUmemAccessDesc access = { .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
				   .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemoryPool pool;
	CUstream second;
	CUdeviceptr p;
	int can;

	current(1);
	OK(p_cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
	current(0);
	OK(p_cuMemPoolCreate(&pool, &props));
	OK(p_cuDeviceCanAccessPeer(&can, 0, 1));
	if (can)
		OK(p_cuMemPoolSetAccess(pool, &access, 1));
	OK(p_cuMemAllocFromPoolAsync(&p, 64 * MIB, pool, second));
	OK(p_cuStreamSynchronize(second));
	CHECK(fell_by(0, 64 * MIB));
	current(0);
	OK(p_cuMemFree_v2(p));
	OK(p_cuMemPoolDestroy(pool));
	CHECK(fell_by(0, 0));
}

/* physical memory of one card, reached from both: charged once, where it is */
static void vmm(void)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = { CU_MEM_LOCATION_TYPE_DEVICE, 1 } };
	CUmemAccessDesc access[2] = {
		{ { CU_MEM_LOCATION_TYPE_DEVICE, 1 }, CU_MEM_ACCESS_FLAGS_PROT_READWRITE },
		{ { CU_MEM_LOCATION_TYPE_DEVICE, 0 }, CU_MEM_ACCESS_FLAGS_PROT_READWRITE }
	};
	CUmemGenericAllocationHandle h;
	unsigned char byte = 0;
	CUdeviceptr p;
	int can;

	current(0);
	OK(p_cuDeviceCanAccessPeer(&can, 0, 1));
	OK(p_cuMemAddressReserve(&p, 128 * MIB, 0, 0, 0));
	OK(p_cuMemCreate(&h, 64 * MIB, &prop, 0));
	CHECK(fell_by(0, 64 * MIB));
	OK(p_cuMemMap(p, 64 * MIB, 0, h, 0));
	OK(p_cuMemMap(p + 64 * MIB, 64 * MIB, 0, h, 0));
	OK(p_cuMemSetAccess(p, 128 * MIB, access, can ? 2 : 1));
	CHECK(fell_by(0, 64 * MIB));
	current(can ? 0 : 1);
	OK(p_cuMemsetD8_v2(p, 0x5a, 64 * MIB));
	OK(p_cuCtxSynchronize());
	current(1);
	OK(p_cuMemcpyDtoH_v2(&byte, p + 127 * MIB, 1));
	CHECK(byte == 0x5a);
	current(0);
	OK(p_cuMemUnmap(p, 128 * MIB));
	CHECK(fell_by(0, 64 * MIB));
	OK(p_cuMemRelease(h));
	OK(p_cuMemAddressFree(p, 128 * MIB));
	CHECK(fell_by(0, 0));
}

/* charged to the card that was current when it was made, wherever its pages go */
static void managed(void)
{
	CUdeviceptr p;

	current(0);
	OK(p_cuMemAllocManaged(&p, 64 * MIB, CU_MEM_ATTACH_GLOBAL));
	CHECK(fell_by(64 * MIB, 0));
	current(1);
	OK(p_cuMemsetD8_v2(p, 1, 64 * MIB));
	OK(p_cuCtxSynchronize());
	OK(p_cuMemFree_v2(p));
	CHECK(fell_by(0, 0));
}

static void peer(void)
{
	CUdeviceptr p, q;
	unsigned char byte = 0;
	int can, owner = -1;

	current(0);
	OK(p_cuMemAlloc_v2(&p, 32 * MIB));
	current(1);
	OK(p_cuMemAlloc_v2(&q, 32 * MIB));
	OK(p_cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p));
	CHECK(owner == 0);
	OK(p_cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, q));
	CHECK(owner == 1);
	current(0);
	OK(p_cuMemsetD8_v2(p, 0x77, 32 * MIB));
	OK(p_cuMemcpyPeer(q, ctx[1], p, ctx[0], 32 * MIB));
	current(1);
	OK(p_cuMemcpyDtoH_v2(&byte, q + 31 * MIB, 1));
	CHECK(byte == 0x77);
	OK(p_cuDeviceCanAccessPeer(&can, 1, 0));
	if (can) {
		OK(p_cuCtxEnablePeerAccess(ctx[0], 0));
		CHECK(p_cuCtxEnablePeerAccess(ctx[0], 0) == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
	}
	CHECK(fell_by(32 * MIB, 32 * MIB));
	current(1);
	if (can)
		OK(p_cuCtxDisablePeerAccess(ctx[0]));
	OK(p_cuMemFree_v2(p));
	OK(p_cuMemFree_v2(q));
	CHECK(fell_by(0, 0));
}

/* a graph that allocates on both */
static void graph(void)
{
	CUgraphNode made[2], freed;
	CUgraph g;
	CUgraphExec exec;

	current(0);
	OK(p_cuGraphCreate(&g, 0));
	for (int n = 0; n < 2; n++) {
		CUDA_MEM_ALLOC_NODE_PARAMS params = {
			.poolProps = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				       .location = { CU_MEM_LOCATION_TYPE_DEVICE, n } },
			.bytesize = 64 * MIB << n
		};

		OK(p_cuGraphAddMemAllocNode(&made[n], g, n ? &made[0] : NULL, n ? 1 : 0, &params));
		OK(p_cuGraphAddMemFreeNode(&freed, g, &made[n], 1, params.dptr));
	}
	OK(p_cuGraphInstantiateWithFlags(&exec, g, 0));
	OK(p_cuGraphLaunch(exec, NULL));
	OK(p_cuCtxSynchronize());
	CHECK(fell_by(64 * MIB, 128 * MIB));
	current(0);
	OK(p_cuGraphExecDestroy(exec));
	OK(p_cuGraphDestroy(g));
	OK(p_cuDeviceGraphMemTrim(0));
	OK(p_cuDeviceGraphMemTrim(1));
	CHECK(fell_by(0, 0));
}

/* a context that goes while another card is current takes along what lived in it */
static void context(void)
{
	CUcontext more;
	CUdeviceptr p;

	current(0);
	OK(p_cuCtxCreate_v2(&more, 0, 1));
	OK(p_cuMemAlloc_v2(&p, 64 * MIB));
	CHECK(before[1] - free_on(1) >= (int64_t)(64 * MIB));
	current(0);
	OK(p_cuCtxDestroy_v2(more));
	CHECK(fell_by(0, 0));
}

/* each card has its own wall */
static void wall(void)
{
	CUdeviceptr p, q;

	current(1);
	CHECK(p_cuMemAlloc_v2(&p, (size_t)before[1] + 64 * MIB) == CUDA_ERROR_OUT_OF_MEMORY);
	OK(p_cuMemAlloc_v2(&p, (size_t)before[1] - 64 * MIB));
	CHECK(p_cuMemAlloc_v2(&q, 128 * MIB) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(fell_by(0, (uint64_t)before[1] - 64 * MIB));
	current(0);
	OK(p_cuMemAlloc_v2(&q, 128 * MIB));
	OK(p_cuMemFree_v2(p));
	OK(p_cuMemFree_v2(q));
	CHECK(fell_by(0, 0));
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {
		{ "linear", linear }, { "async", async },     { "pool", pool },
		{ "vmm", vmm },       { "managed", managed }, { "peer", peer },
		{ "graph", graph },   { "context", context }, { "wall", wall },
	};
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);

	CHECK(lib != NULL);
#define LOAD(name) CHECK((p_##name = (pfn_##name *)dlsym(lib, #name)) != NULL);
	CALLS(LOAD)
	for (unsigned i = 0; argc == 2 && i < ARRAY_SIZE(cases); i++) {
		if (strcmp(argv[1], cases[i].name) == 0) {
			start();
			cases[i].run();
			return 0;
		}
	}
	fprintf(stderr, "usage: gpu_pair CASE\n");
	return 2;
}
