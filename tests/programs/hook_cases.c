// SPDX-License-Identifier: Apache-2.0
/*
 * What a program sees of its account while it does one kind of thing with GPU memory.
 *
 *   hook_cases CASE
 *
 * Run inside a job with a limit.  Each case looks at cuMemGetInfo's free (limit − what the job
 * holds) around what it does.  Exit 0, or 1 with the line that failed on stderr.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "abi/cuda_proto.h"
#include "abi/cuda_types.h"
#include "base/cleanup.h"
#include "base/size.h"

#define CALLS(X)                        \
	X(cuInit)                       \
	X(cuDeviceGetCount)             \
	X(cuDeviceTotalMem_v2)          \
	X(cuDevicePrimaryCtxRetain)     \
	X(cuDevicePrimaryCtxRelease_v2) \
	X(cuDevicePrimaryCtxReset_v2)   \
	X(cuDeviceGetDefaultMemPool)    \
	X(cuDeviceGraphMemTrim)         \
	X(cuCtxCreate_v2)               \
	X(cuCtxDestroy_v2)              \
	X(cuCtxSetCurrent)              \
	X(cuCtxSynchronize)             \
	X(cuStreamCreate)               \
	X(cuStreamSynchronize)          \
	X(cuStreamBeginCapture_v2)      \
	X(cuStreamEndCapture)           \
	X(cuGraphInstantiateWithFlags)  \
	X(cuGraphLaunch)                \
	X(cuGraphExecDestroy)           \
	X(cuGraphDestroy)               \
	X(cuMemGetInfo_v2)              \
	X(cuMemAlloc_v2)                \
	X(cuMemAllocPitch_v2)           \
	X(cuMemAllocManaged)            \
	X(cuMemFree_v2)                 \
	X(cuMemAllocAsync)              \
	X(cuMemAllocFromPoolAsync)      \
	X(cuMemFreeAsync)               \
	X(cuMemPoolCreate)              \
	X(cuMemPoolDestroy)             \
	X(cuMemPoolSetAttribute)        \
	X(cuMemPoolGetAttribute)        \
	X(cuMemPoolTrimTo)              \
	X(cuMemCreate)                  \
	X(cuMemRelease)                 \
	X(cuMemRetainAllocationHandle)  \
	X(cuMemAddressReserve)          \
	X(cuMemAddressFree)             \
	X(cuMemMap)                     \
	X(cuMemUnmap)                   \
	X(cuArray3DCreate_v2)           \
	X(cuArrayCreate_v2)             \
	X(cuArrayDestroy)               \
	X(cuMipmappedArrayCreate)       \
	X(cuMipmappedArrayDestroy)
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

static CUcontext primary;

static size_t free_now(void)
{
	size_t f, t;

	OK(p_cuMemGetInfo_v2(&f, &t));
	CHECK(f <= t);
	return f;
}

/* did the account fall by @bytes since it read @before?  Other figures may settle: 4 MiB of slack
 */
static bool fell_by(size_t before, uint64_t bytes)
{
	int64_t fell = (int64_t)before - (int64_t)free_now();
	int64_t off = fell - (int64_t)bytes;

	if (off <= (int64_t)(4 * MIB) && off >= -(int64_t)(4 * MIB))
		return true;
	fprintf(stderr, "fell by %" PRId64 " instead of %" PRIu64 "\n", fell, bytes);
	return false;
}

static void load(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);

	CHECK(lib != NULL);
#define LOAD(name) CHECK((p_##name = (pfn_##name *)dlsym(lib, #name)) != NULL);
	CALLS(LOAD)
}

static void start(void)
{
	OK(p_cuInit(0));
	OK(p_cuDevicePrimaryCtxRetain(&primary, 0));
	OK(p_cuCtxSetCurrent(primary));
}

/* ---- linear ---- */

static void linear(void)
{
	size_t before, pitch, f;
	CUdeviceptr p, q, r;

	start();
	before = free_now();
	OK(p_cuMemAlloc_v2(&p, 100 * MIB + 1));
	CHECK(fell_by(before, 102 * MIB));
	OK(p_cuMemAllocManaged(&q, 64 * MIB, CU_MEM_ATTACH_GLOBAL));
	CHECK(fell_by(before, 166 * MIB));
	OK(p_cuMemAllocPitch_v2(&r, &pitch, 1000, 65536, 4));
	CHECK(pitch >= 1000 && fell_by(before, 166 * MIB + size_round_up(pitch * 65536, 2 * MIB)));
	OK(p_cuMemFree_v2(r));
	OK(p_cuMemFree_v2(p));
	OK(p_cuMemFree_v2(q));
	CHECK(fell_by(before, 0));
	/* the driver's own answers to nonsense, and nothing charged */
	CHECK(p_cuMemAlloc_v2(NULL, MIB) == CUDA_ERROR_INVALID_VALUE);
	CHECK(p_cuMemAlloc_v2(&p, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(p_cuMemFree_v2(q) != CUDA_SUCCESS); /* freed already */
	OK(p_cuMemFree_v2(0));
	OK(p_cuMemGetInfo_v2(&f, &(size_t){ 0 }));
	CHECK(fell_by(before, 0));
}

/* A10, D17: what we did not allocate is the driver's affair; D18: the code; out untouched */
static void refusals(void)
{
	CUdeviceptr p = 0xdead;
	size_t before, total, pitch = 77;
	CUarray a = (CUarray)0x5;
	CUDA_ARRAY_DESCRIPTOR d = {
		.Width = 65536, .Height = 65536, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4
	};
	CUmemGenericAllocationHandle h = 99;
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };

	start();
	before = free_now();
	OK(p_cuDeviceTotalMem_v2(&total, 0));
	/* the pointer becomes 0, as with driver 580.159 on a full card; handles stay untouched */
	CHECK(p_cuMemAlloc_v2(&p, total) == CUDA_ERROR_OUT_OF_MEMORY && p == 0);
	p = 0xdead;
	CHECK(p_cuMemAllocAsync(&p, total, NULL) == CUDA_ERROR_OUT_OF_MEMORY && p == 0);
	CHECK(p_cuMemAllocManaged(&p, total, CU_MEM_ATTACH_GLOBAL) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(p_cuMemAllocPitch_v2(&p, &pitch, total / 1024, 1024, 4) == CUDA_ERROR_OUT_OF_MEMORY &&
	      p == 0 && pitch == total / 1024);
	CHECK(p_cuMemCreate(&h, total, &prop, 0) == CUDA_ERROR_OUT_OF_MEMORY && h == 99);
	CHECK(p_cuArrayCreate_v2(&a, &d) == CUDA_ERROR_OUT_OF_MEMORY && a == (CUarray)0x5);
	CHECK(p_cuMemFree_v2(0x123456789000) == CUDA_ERROR_INVALID_VALUE);
	CHECK(fell_by(before, 0));
	OK(p_cuMemAlloc_v2(&p, 64 * MIB)); /* not sticky */
}

/* A1: nothing drifts */
static void *small_ones(void *arg)
{
	CUdeviceptr p[64];

	OK(p_cuCtxSetCurrent(primary));
	for (unsigned round = 0; round < 100; round++) {
		for (unsigned i = 0; i < 64; i++)
			OK(p_cuMemAlloc_v2(&p[i], 1 + (i * 7919 + round) % (300 * KIB)));
		for (unsigned i = 64; i-- > 0;)
			OK(p_cuMemFree_v2(p[i]));
	}
	return arg;
}

static void drift(void)
{
	pthread_t t[4];
	size_t before;

	start();
	before = free_now();
	for (unsigned i = 0; i < ARRAY_SIZE(t); i++)
		CHECK(pthread_create(&t[i], NULL, small_ones, NULL) == 0);
	for (unsigned i = 0; i < ARRAY_SIZE(t); i++)
		pthread_join(t[i], NULL);
	/* pages that the driver cut small ones out of may have been seen, and are seen to go */
	for (unsigned i = 0; i < 50 && free_now() + 4 * MIB < before; i++)
		(void)usleep(100000);
	CHECK(fell_by(before, 0));
}

/* ---- pools ---- */

static uint64_t reserved(CUmemoryPool pool)
{
	cuuint64_t bytes;

	OK(p_cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes));
	return bytes;
}

static void pool(void)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	cuuint64_t keep = UINT64_MAX;
	CUmemoryPool standard, own;
	CUdeviceptr p, q;
	size_t before;

	start();
	OK(p_cuDeviceGetDefaultMemPool(&standard, 0));
	before = free_now();
	OK(p_cuMemAllocAsync(&p, 100 * MIB, NULL));
	CHECK(reserved(standard) >= 100 * MIB && fell_by(before, reserved(standard)));
	OK(p_cuMemFreeAsync(p, NULL));
	OK(p_cuStreamSynchronize(NULL));
	CHECK(fell_by(before, reserved(standard)));
	/* kept after the free, and charged as long as it is kept */
	OK(p_cuMemPoolSetAttribute(standard, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	OK(p_cuMemAllocAsync(&p, 200 * MIB, NULL));
	OK(p_cuMemFreeAsync(p, NULL));
	OK(p_cuCtxSynchronize());
	CHECK(reserved(standard) >= 200 * MIB && fell_by(before, reserved(standard)));
	OK(p_cuMemPoolTrimTo(standard, 0));
	CHECK(reserved(standard) == 0 && fell_by(before, 0));
	OK(p_cuMemPoolCreate(&own, &props));
	OK(p_cuMemAllocFromPoolAsync(&q, 64 * MIB, own, NULL));
	CHECK(fell_by(before, reserved(own)));
	OK(p_cuMemFreeAsync(q, NULL));
	OK(p_cuCtxSynchronize());
	OK(p_cuMemPoolDestroy(own));
	CHECK(fell_by(before, 0));
}

/* nothing that fits is refused: what a pool keeps without using it makes room */
static void pool_trim(void)
{
	cuuint64_t keep = UINT64_MAX;
	CUmemoryPool standard;
	CUdeviceptr p, q;
	size_t room;

	start();
	OK(p_cuDeviceGetDefaultMemPool(&standard, 0));
	OK(p_cuMemPoolSetAttribute(standard, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	room = (free_now() - 64 * MIB) & ~(2 * MIB - 1);
	OK(p_cuMemAllocAsync(&p, room, NULL));
	OK(p_cuMemFreeAsync(p, NULL));
	OK(p_cuCtxSynchronize());
	OK(p_cuMemAllocAsync(&p, room, NULL)); /* from what the pool keeps */
	OK(p_cuMemFreeAsync(p, NULL));
	OK(p_cuCtxSynchronize());
	OK(p_cuMemAlloc_v2(&q, room)); /* from what it does not need */
	CHECK(p_cuMemAllocAsync(&p, room, NULL) == CUDA_ERROR_OUT_OF_MEMORY);
	OK(p_cuMemFree_v2(q));
	OK(p_cuMemAllocAsync(&p, room, NULL));
}

/* A11: any legal way of freeing */
static void cross_free(void)
{
	CUmemoryPool standard;
	CUdeviceptr p;
	size_t before;

	start();
	OK(p_cuDeviceGetDefaultMemPool(&standard, 0));
	before = free_now();
	OK(p_cuMemAllocAsync(&p, 64 * MIB, NULL));
	OK(p_cuCtxSynchronize());
	OK(p_cuMemFree_v2(p));
	CHECK(fell_by(before, reserved(standard)));
	OK(p_cuMemAlloc_v2(&p, 64 * MIB));
	if (p_cuMemFreeAsync(p, NULL) == CUDA_SUCCESS)
		OK(p_cuCtxSynchronize());
	else
		OK(p_cuMemFree_v2(p)); /* a driver that does not like it keeps it */
	CHECK(fell_by(before, reserved(standard)));
}

static void *pool_thread(void *arg)
{
	CUdeviceptr p[4];
	CUstream s;

	OK(p_cuCtxSetCurrent(primary));
	OK(p_cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	for (unsigned round = 0; round < 100; round++) {
		for (unsigned i = 0; i < 4; i++)
			OK(p_cuMemAllocAsync(&p[i], (1 + (i * 31 + round) % 5) * MIB, s));
		for (unsigned i = 0; i < 4; i++)
			OK(p_cuMemFreeAsync(p[i], s));
		if (round % 8 == 0)
			OK(p_cuStreamSynchronize(s));
	}
	OK(p_cuStreamSynchronize(s));
	return arg;
}

static void pool_threads(void)
{
	CUmemoryPool standard;
	pthread_t t[4];
	size_t before;

	start();
	OK(p_cuDeviceGetDefaultMemPool(&standard, 0));
	before = free_now();
	for (unsigned i = 0; i < ARRAY_SIZE(t); i++)
		CHECK(pthread_create(&t[i], NULL, pool_thread, NULL) == 0);
	for (unsigned i = 0; i < ARRAY_SIZE(t); i++)
		pthread_join(t[i], NULL);
	OK(p_cuCtxSynchronize());
	/* NVML may have been read while a pool had grown for a moment: that is looked at again */
	for (unsigned i = 0; i < 50 && before - free_now() > reserved(standard) + 4 * MIB; i++)
		usleep(100000);
	CHECK(fell_by(before, reserved(standard)));
}

/* ---- physical memory by handle ---- */

static void vmm(void)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	CUmemGenericAllocationHandle h, again;
	CUdeviceptr va;
	size_t before;

	start();
	before = free_now();
	OK(p_cuMemAddressReserve(&va, 32 * GIB, 0, 0, 0)); /* A16: no memory */
	CHECK(fell_by(before, 0));
	OK(p_cuMemCreate(&h, 64 * MIB, &prop, 0));
	CHECK(fell_by(before, 64 * MIB));
	OK(p_cuMemMap(va, 64 * MIB, 0, h, 0));
	OK(p_cuMemMap(va + 64 * MIB, 64 * MIB, 0, h, 0)); /* A8: once, however often mapped */
	CHECK(fell_by(before, 64 * MIB));
	OK(p_cuMemRelease(h)); /* the normal order: the mappings keep it */
	CHECK(fell_by(before, 64 * MIB));
	OK(p_cuMemUnmap(va, 64 * MIB));
	CHECK(fell_by(before, 64 * MIB));
	OK(p_cuMemRetainAllocationHandle(&again, (void *)(va + 64 * MIB + 4096)));
	OK(p_cuMemUnmap(va + 64 * MIB, 64 * MIB));
	CHECK(fell_by(before, 64 * MIB)); /* the retained handle keeps it */
	OK(p_cuMemRelease(again));
	CHECK(fell_by(before, 0));
	CHECK(p_cuMemRelease(again) != CUDA_SUCCESS);
	/* two mappings undone by one call, where the driver allows it */
	OK(p_cuMemCreate(&h, 32 * MIB, &prop, 0));
	OK(p_cuMemMap(va, 32 * MIB, 0, h, 0));
	OK(p_cuMemMap(va + 32 * MIB, 32 * MIB, 0, h, 0));
	OK(p_cuMemRelease(h));
	if (p_cuMemUnmap(va, 64 * MIB) != CUDA_SUCCESS) {
		CHECK(fell_by(before, 32 * MIB));
		OK(p_cuMemUnmap(va, 32 * MIB));
		OK(p_cuMemUnmap(va + 32 * MIB, 32 * MIB));
	}
	CHECK(fell_by(before, 0));
	OK(p_cuMemAddressFree(va, 32 * GIB));
}

/* A15: memory in the host is neither charged nor looked at */
static void vmm_host(void)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = { CU_MEM_LOCATION_TYPE_HOST_NUMA, 0 } };
	CUmemGenericAllocationHandle h;
	size_t before;
	CUresult rc;

	start();
	before = free_now();
	rc = p_cuMemCreate(&h, 64 * MIB, &prop, 0);
	CHECK(rc == CUDA_SUCCESS || rc == CUDA_ERROR_NOT_SUPPORTED ||
	      rc == CUDA_ERROR_INVALID_DEVICE);
	CHECK(fell_by(before, 0));
	if (rc == CUDA_SUCCESS)
		OK(p_cuMemRelease(h));
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.location.id = 12345; /* the driver's own answer */
	CHECK(p_cuMemCreate(&h, 64 * MIB, &prop, 0) == CUDA_ERROR_INVALID_DEVICE ||
	      p_cuMemCreate(&h, 64 * MIB, &prop, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(fell_by(before, 0));
}

/* ---- arrays ---- */

static void arrays(void)
{
	CUDA_ARRAY3D_DESCRIPTOR d = {
		.Width = 4096, .Height = 4096, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4
	};
	CUmipmappedArray mip;
	size_t before, whole;
	CUarray a;

	start();
	before = free_now();
	OK(p_cuArray3DCreate_v2(&a, &d));
	CHECK(fell_by(before, 256 * MIB));
	OK(p_cuArrayDestroy(a));
	CHECK(fell_by(before, 0));
	OK(p_cuMipmappedArrayCreate(&mip, &d, 13));
	whole = before - free_now();
	CHECK(whole >= 340 * MIB && whole <= 352 * MIB); /* 4/3 */
	OK(p_cuMipmappedArrayDestroy(mip));
	CHECK(fell_by(before, 0));
}

/* ---- graphs ---- */

static void graph(void)
{
	CUdeviceptr p;
	CUgraphExec exec;
	CUgraph g;
	CUstream s;
	size_t before;

	start();
	OK(p_cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	before = free_now();
	OK(p_cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	OK(p_cuMemAllocAsync(&p, 128 * MIB, s));
	OK(p_cuMemFreeAsync(p, s));
	OK(p_cuStreamEndCapture(s, &g));
	CHECK(fell_by(before, 0)); /* a node, no memory yet */
	OK(p_cuGraphInstantiateWithFlags(&exec, g, 0));
	OK(p_cuGraphLaunch(exec, s));
	OK(p_cuStreamSynchronize(s));
	CHECK(fell_by(before, 128 * MIB)); /* stays until it is trimmed */
	OK(p_cuGraphLaunch(exec, s));
	OK(p_cuStreamSynchronize(s));
	CHECK(fell_by(before, 128 * MIB));
	OK(p_cuGraphExecDestroy(exec));
	OK(p_cuGraphDestroy(g));
	OK(p_cuDeviceGraphMemTrim(0));
	CHECK(fell_by(before, 0));
}

/* ---- contexts ---- */

static void contexts(void)
{
	CUcontext ctx;
	CUdeviceptr p, q;
	size_t before;

	start();
	OK(p_cuMemAlloc_v2(&q, 32 * MIB));
	before = free_now();
	OK(p_cuCtxCreate_v2(&ctx, 0, 0));
	CHECK(free_now() < before); /* a context costs */
	OK(p_cuMemAlloc_v2(&p, 64 * MIB));
	OK(p_cuCtxDestroy_v2(ctx));
	OK(p_cuCtxSetCurrent(primary));
	/* the block at once, the context when NVML has seen it go */
	for (unsigned i = 0; i < 50 && before - free_now() > 4 * MIB; i++)
		usleep(100000);
	CHECK(fell_by(before, 0));
	OK(p_cuMemFree_v2(q));
}

static void primary_reset(void)
{
	CUdeviceptr p;
	size_t before;

	start();
	before = free_now();
	OK(p_cuMemAlloc_v2(&p, 256 * MIB));
	OK(p_cuDevicePrimaryCtxReset_v2(0));
	OK(p_cuDevicePrimaryCtxRetain(&primary, 0));
	OK(p_cuCtxSetCurrent(primary));
	for (unsigned i = 0; i < 50 && before > free_now() + 4 * MIB; i++)
		usleep(100000);
	CHECK(fell_by(before, 0));
}

/* ---- several cards ---- */

/* A13: the block remembers its card */
static void two_cards(void)
{
	CUcontext second;
	CUdeviceptr p, q;
	size_t first_before, second_before;

	start();
	OK(p_cuDevicePrimaryCtxRetain(&second, 1));
	first_before = free_now();
	OK(p_cuMemAlloc_v2(&p, 64 * MIB));
	OK(p_cuMemAllocAsync(&q, 64 * MIB, NULL));
	OK(p_cuCtxSynchronize());
	OK(p_cuCtxSetCurrent(second));
	second_before = free_now();
	OK(p_cuMemFree_v2(p));
	CHECK(fell_by(second_before, 0));
	OK(p_cuCtxSetCurrent(primary));
	OK(p_cuMemFree_v2(q));
	CHECK(fell_by(first_before, 0));
}

/* a card outside the lease */
static void outside(void)
{
	CUcontext ctx = (CUcontext)0x7;
	int n;

	OK(p_cuInit(0));
	OK(p_cuDeviceGetCount(&n));
	CHECK(n == 4); /* the program has shed CUDA_VISIBLE_DEVICES */
	n = 0;
	for (CUdevice dev = 0; dev < 4; dev++) {
		CUresult rc = p_cuDevicePrimaryCtxRetain(&ctx, dev);

		CHECK(rc == CUDA_SUCCESS || rc == CUDA_ERROR_INVALID_DEVICE);
		n += rc == CUDA_SUCCESS;
		rc = p_cuCtxCreate_v2(&ctx, 0, dev);
		CHECK(rc == CUDA_SUCCESS || rc == CUDA_ERROR_INVALID_DEVICE);
	}
	CHECK(n == 1);
}

/* ---- */

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "linear", linear },
	{ "refusals", refusals },
	{ "drift", drift },
	{ "pool", pool },
	{ "pool_trim", pool_trim },
	{ "pool_threads", pool_threads },
	{ "cross_free", cross_free },
	{ "vmm", vmm },
	{ "vmm_host", vmm_host },
	{ "arrays", arrays },
	{ "graph", graph },
	{ "contexts", contexts },
	{ "primary_reset", primary_reset },
	{ "two_cards", two_cards },
	{ "outside", outside },
};

int main(int argc, char **argv)
{
	load();
	for (unsigned i = 0; argc == 2 && i < ARRAY_SIZE(cases); i++) {
		if (strcmp(argv[1], cases[i].name) == 0) {
			cases[i].run();
			return 0;
		}
	}
	fprintf(stderr, "usage: hook_cases CASE\n");
	return 2;
}
