// SPDX-License-Identifier: Apache-2.0
/*
 * What the shim adds to one call after another, in nanoseconds: through it and past it in one
 * process, ABBA.  Prints "NAME-tax NS" and "NAME NS" (the driver's own), medians of the batches;
 * nothing when there is no shim.
 *
 *   bench_paths [BATCHES]
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
#include "bench_driver.h"
#include "kernels_ptx.h"

#define CALLS(X)                       \
	X(cuInit)                      \
	X(cuDeviceGet)                 \
	X(cuDevicePrimaryCtxRetain)    \
	X(cuCtxSetCurrent)             \
	X(cuModuleLoadData)            \
	X(cuModuleGetFunction)         \
	X(cuStreamCreate)              \
	X(cuStreamSynchronize)         \
	X(cuEventCreate)               \
	X(cuEventRecord)               \
	X(cuMemAlloc_v2)               \
	X(cuMemcpyHtoDAsync_v2)        \
	X(cuMemAllocAsync)             \
	X(cuMemFreeAsync)              \
	X(cuDeviceGetDefaultMemPool)   \
	X(cuMemPoolSetAttribute)       \
	X(cuMemPoolGetAttribute)       \
	X(cuDeviceGetMemPool)          \
	X(cuStreamGetCtx)              \
	X(cuGraphCreate)               \
	X(cuGraphAddKernelNode_v2)     \
	X(cuGraphInstantiateWithFlags) \
	X(cuGraphLaunch)
struct calls {
#define DECLARE(name) pfn_##name *name;
	CALLS(DECLARE)
};

#define MAX_BATCHES 400u
#define NODES       64u

static struct calls shim, driver;
static CUstream stream;
static CUevent event;
static CUdeviceptr block, blocks[64];
static CUgraphExec graph;
static uint64_t batches = 40;

static void check(CUresult r, const char *what)
{
	if (r == CUDA_SUCCESS)
		return;
	fprintf(stderr, "bench_paths: %s gave %d\n", what, (int)r);
	exit(1);
}
#define OK(call) check(call, #call)

static void find(void *lib, struct calls *c)
{
#define FIND(name)                                 \
	c->name = (pfn_##name *)dlsym(lib, #name); \
	if (!c->name)                              \
		check(CUDA_ERROR_NOT_FOUND, #name " is missing");
	CALLS(FIND)
}

/* ---- what is measured: @n calls; each leaves everything as it was ---- */

static void copies(const struct calls *c, unsigned n)
{
	static unsigned word;

	for (unsigned i = 0; i < n; i++)
		OK(c->cuMemcpyHtoDAsync_v2(block, &word, sizeof(word), stream));
}

static void records(const struct calls *c, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		OK(c->cuEventRecord(event, stream));
}

static void graphs(const struct calls *c, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		OK(c->cuGraphLaunch(graph, stream));
}

static void async_pairs(const struct calls *c, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		OK(c->cuMemAllocAsync(&blocks[i], MIB, stream));
	for (unsigned i = 0; i < n; i++)
		OK(c->cuMemFreeAsync(blocks[i], stream));
}

/* what only the driver knows of each stream-ordered allocation: whose pool, and what it reserves */
static void questions(const struct calls *c, unsigned n)
{
	CUmemoryPool pool;
	cuuint64_t bytes;
	CUcontext ctx;

	for (unsigned i = 0; i < n; i++) {
		OK(c->cuStreamGetCtx(stream, &ctx));
		OK(c->cuDeviceGetMemPool(&pool, 0));
		OK(c->cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes));
	}
}

static const struct path {
	const char *name;
	void (*run)(const struct calls *c, unsigned n);
	unsigned n;
} paths[] = {
	{ "copy-4B", copies, 256 },           { "event-record", records, 256 },
	{ "graph-launch", graphs, 32 },       { "async-pair", async_pairs, 64 },
	{ "async-questions", questions, 64 },
};

static double batch(const struct path *p, const struct calls *c)
{
	uint64_t start = clock_now_ns(), end;

	p->run(c, p->n);
	end = clock_now_ns();
	OK(shim.cuStreamSynchronize(stream));
	return (double)(end - start) / p->n;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *samples)
{
	qsort(samples, batches, sizeof(samples[0]), by_value);
	return samples[batches / 2];
}

static void measure(const struct path *p)
{
	double taxes[MAX_BATCHES], natives[MAX_BATCHES];

	(void)batch(p, &shim);
	for (uint64_t b = 0; b < batches; b++) {
		double a = batch(p, &driver), t = batch(p, &shim);

		t += batch(p, &shim);
		a += batch(p, &driver);
		taxes[b] = (t - a) / 2;
		natives[b] = a / 2;
	}
	printf("%s-tax %.2f\n%s %.2f\n", p->name, median(taxes), p->name, median(natives));
}

static void prepare(void)
{
	CUDA_KERNEL_NODE_PARAMS params = { .gridDimX = 1,
					   .gridDimY = 1,
					   .gridDimZ = 1,
					   .blockDimX = 1,
					   .blockDimY = 1,
					   .blockDimZ = 1 };
	cuuint64_t keep = UINT64_MAX;
	CUgraphNode node = NULL, last;
	CUmemoryPool pool;
	CUmodule module;
	CUgraph g;
	CUcontext ctx;
	CUdevice dev;

	OK(shim.cuInit(0));
	OK(shim.cuDeviceGet(&dev, 0));
	OK(shim.cuDevicePrimaryCtxRetain(&ctx, dev));
	OK(shim.cuCtxSetCurrent(ctx));
	OK(shim.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(shim.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	OK(shim.cuMemAlloc_v2(&block, MIB));
	OK(shim.cuDeviceGetDefaultMemPool(&pool,
					  dev)); /* as frameworks set it: it keeps what it has */
	OK(shim.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	OK(shim.cuModuleLoadData(&module, kernels_ptx));
	OK(shim.cuModuleGetFunction(&params.func, module, "allot_empty"));
	OK(shim.cuGraphCreate(&g, 0));
	for (unsigned i = 0; i < NODES; i++) {
		last = node;
		OK(shim.cuGraphAddKernelNode_v2(&node, g, &last, i > 0, &params));
	}
	OK(shim.cuGraphInstantiateWithFlags(&graph, g, 0));
}

int main(int argc, char **argv)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), *direct;

	if (argc > 1 && parse_u64(argv[1], 1, MAX_BATCHES, &batches, NULL) < 0)
		return 2;
	if (!lib) {
		fprintf(stderr, "bench_paths: %s\n", dlerror());
		return 1;
	}
	find(lib, &shim);
	prepare();
	direct = bench_direct_driver((void *)shim.cuInit);
	if (!direct)
		return 0;
	find(direct, &driver);
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		measure(&paths[i]);
	return 0;
}
