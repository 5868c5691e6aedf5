// SPDX-License-Identifier: Apache-2.0
/*
 * Everything that takes GPU memory, at random, from many processes and threads at once.
 *
 *   gpu_storm PROCESSES THREADS OPERATIONS SEED DEMAND_MIB
 *   gpu_storm exact OPERATIONS SEED DEMAND_MIB
 *
 * OPERATIONS are each thread's; DEMAND_MIB is what each thread tries to hold.  The one error that
 * may occur is out of memory.  Each process prints "worker PID" when it has a context and "done
 * OPERATIONS REFUSALS" when it has given everything back but its context; then all wait until
 * stdin ends, so that others can look at what is held.
 *
 * `exact` is one thread that checks each answer: what fits into free is not refused, what does not
 * fit is.  Exit status 1 and a line on stderr when something is wrong.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "abi/cuda_proto.h"
#include "abi/cuda_types.h"
#include "base/cleanup.h"
#include "base/rand.h"
#include "base/size.h"

#define CALLS(X)                        \
	X(cuInit)                       \
	X(cuDevicePrimaryCtxRetain)     \
	X(cuDevicePrimaryCtxRelease_v2) \
	X(cuDeviceGetDefaultMemPool)    \
	X(cuDeviceGraphMemTrim)         \
	X(cuCtxCreate_v2)               \
	X(cuCtxDestroy_v2)              \
	X(cuCtxSetCurrent)              \
	X(cuStreamCreate)               \
	X(cuStreamDestroy_v2)           \
	X(cuStreamSynchronize)          \
	X(cuGraphCreate)                \
	X(cuGraphAddMemAllocNode)       \
	X(cuGraphAddMemFreeNode)        \
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
	X(cuMemPoolTrimTo)              \
	X(cuMemCreate)                  \
	X(cuMemRelease)                 \
	X(cuMemRetainAllocationHandle)  \
	X(cuMemAddressReserve)          \
	X(cuMemAddressFree)             \
	X(cuMemMap)                     \
	X(cuMemUnmap)                   \
	X(cuMemSetAccess)               \
	X(cuArray3DCreate_v2)           \
	X(cuArrayDestroy)               \
	X(cuMipmappedArrayCreate)       \
	X(cuMipmappedArrayDestroy)
#define DECLARE(name) static pfn_##name *p_##name;
CALLS(DECLARE)

#define THINGS      24
#define THREADS_MAX 64
#define OOM         CUDA_ERROR_OUT_OF_MEMORY

enum kind {
	NOTHING,
	LINEAR,
	ASYNC,
	HANDLE,   /* physical memory alone */
	MAPPED,   /* … and mapped, its handle given up already */
	RETAINED, /* mapped, and the handle had again through the address */
	ARRAY,
	MIPMAP,
};

struct thing {
	enum kind kind;
	uint64_t bytes;
	CUdeviceptr at;
	CUmemGenericAllocationHandle handle;
	CUarray array;
	CUmipmappedArray mipmap;
};

struct worker {
	pthread_t id;
	struct rand_state random;
	uint64_t operations;
	uint64_t demand_bytes;
	uint64_t held_bytes;
	uint64_t done, refused;
	struct thing things[THINGS];
	CUstream stream;
	CUmemoryPool pool;
};

static CUcontext primary;

static void fail(const char *what, CUresult r)
{
	fprintf(stderr, "gpu_storm: %s: error %d\n", what, (int)r);
	_exit(1);
}

#define OK(call)                         \
	do {                             \
		CUresult r_ = (call);    \
		if (r_ != CUDA_SUCCESS)  \
			fail(#call, r_); \
	} while (0)

/* true: made; false: refused; anything else ends it all */
static bool made(struct worker *w, const char *what, CUresult r)
{
	if (r == CUDA_SUCCESS)
		return true;
	if (r != OOM)
		fail(what, r);
	w->refused++;
	return false;
}

static uint64_t pick(struct worker *w, uint64_t n)
{
	return rand_below(&w->random, n);
}

/* 1 byte to 256 MiB, each power of two as likely as the others */
static uint64_t pick_bytes(struct worker *w)
{
	return 1 + pick(w, (uint64_t)1 << pick(w, 29));
}

/* ---- making ---- */

static bool make_mapped(struct worker *w, struct thing *t, bool retain)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	CUmemAccessDesc access = { .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
				   .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemGenericAllocationHandle again;

	t->bytes = size_round_up(t->bytes, 2 * MIB);
	if (!made(w, "cuMemCreate", p_cuMemCreate(&t->handle, t->bytes, &prop, 0)))
		return false;
	if (t->kind == HANDLE)
		return true;
	OK(p_cuMemAddressReserve(&t->at, t->bytes, 0, 0, 0));
	OK(p_cuMemMap(t->at, t->bytes, 0, t->handle, 0));
	OK(p_cuMemSetAccess(t->at, t->bytes, &access, 1));
	OK(p_cuMemRelease(t->handle));
	if (retain) {
		char *inside = (char *)(uintptr_t)t->at + pick(w, t->bytes);

		OK(p_cuMemRetainAllocationHandle(&again, inside));
		t->handle = again;
		t->kind = RETAINED;
	}
	return true;
}

static bool make_array(struct worker *w, struct thing *t)
{
	CUDA_ARRAY3D_DESCRIPTOR d = { .Width = 1 + pick(w, 2048),
				      .Height = 1 + pick(w, 1024),
				      .Format = CU_AD_FORMAT_FLOAT,
				      .NumChannels = 1 };

	t->bytes = d.Width * d.Height * sizeof(float);
	if (t->kind == ARRAY)
		return made(w, "cuArray3DCreate", p_cuArray3DCreate_v2(&t->array, &d));
	return made(w, "cuMipmappedArrayCreate", p_cuMipmappedArrayCreate(&t->mipmap, &d, 3));
}

static bool make(struct worker *w, struct thing *t)
{
	uint64_t which = pick(w, 9);
	size_t pitch;

	t->bytes = pick_bytes(w);
	t->kind = LINEAR;
	switch (which) {
	case 0:
	case 1:
		return made(w, "cuMemAlloc", p_cuMemAlloc_v2(&t->at, t->bytes));
	case 2:
		return made(w, "cuMemAllocPitch",
			    p_cuMemAllocPitch_v2(&t->at, &pitch, t->bytes / 1024 + 1, 1024, 4));
	case 3:
		return made(w, "cuMemAllocManaged",
			    p_cuMemAllocManaged(&t->at, t->bytes, CU_MEM_ATTACH_GLOBAL));
	case 4:
		t->kind = ASYNC;
		return made(w, "cuMemAllocAsync", p_cuMemAllocAsync(&t->at, t->bytes, w->stream));
	case 5:
		t->kind = ASYNC;
		return made(w, "cuMemAllocFromPoolAsync",
			    p_cuMemAllocFromPoolAsync(&t->at, t->bytes, w->pool, w->stream));
	case 6:
		t->kind = pick(w, 2) ? MAPPED : HANDLE;
		return make_mapped(w, t, pick(w, 2));
	case 7:
		t->kind = ARRAY;
		return make_array(w, t);
	default:
		t->kind = MIPMAP;
		return make_array(w, t);
	}
}

static void unmake(struct worker *w, struct thing *t)
{
	switch (t->kind) {
	case LINEAR:
		OK(p_cuMemFree_v2(t->at));
		break;
	case ASYNC: /* by either call */
		if (pick(w, 4))
			OK(p_cuMemFreeAsync(t->at, w->stream));
		else
			OK(p_cuMemFree_v2(t->at));
		break;
	case HANDLE:
		OK(p_cuMemRelease(t->handle));
		break;
	case RETAINED:
		if (pick(w, 2)) {
			OK(p_cuMemRelease(t->handle));
			OK(p_cuMemUnmap(t->at, t->bytes));
		} else {
			OK(p_cuMemUnmap(t->at, t->bytes));
			OK(p_cuMemRelease(t->handle));
		}
		OK(p_cuMemAddressFree(t->at, t->bytes));
		break;
	case MAPPED:
		OK(p_cuMemUnmap(t->at, t->bytes));
		OK(p_cuMemAddressFree(t->at, t->bytes));
		break;
	case ARRAY:
		OK(p_cuArrayDestroy(t->array));
		break;
	case MIPMAP:
		OK(p_cuMipmappedArrayDestroy(t->mipmap));
		break;
	case NOTHING:
		break;
	}
	w->held_bytes -= t->kind == NOTHING ? 0 : t->bytes;
	t->kind = NOTHING;
}

/* ---- what holds memory for a moment, or by the way ---- */

static void run_graph(struct worker *w)
{
	CUDA_MEM_ALLOC_NODE_PARAMS p = { .poolProps = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
							.location = { CU_MEM_LOCATION_TYPE_DEVICE,
								      0 } },
					 .bytesize = pick_bytes(w) };
	CUgraphNode alloc, release;
	CUgraphExec exec;
	CUgraph graph;

	OK(p_cuGraphCreate(&graph, 0));
	if (made(w, "cuGraphAddMemAllocNode",
		 p_cuGraphAddMemAllocNode(&alloc, graph, NULL, 0, &p))) {
		OK(p_cuGraphAddMemFreeNode(&release, graph, &alloc, 1, p.dptr));
		if (made(w, "cuGraphInstantiateWithFlags",
			 p_cuGraphInstantiateWithFlags(&exec, graph, 0))) {
			for (uint64_t i = pick(w, 3); i > 0; i--)
				(void)made(w, "cuGraphLaunch", p_cuGraphLaunch(exec, w->stream));
			OK(p_cuStreamSynchronize(w->stream));
			OK(p_cuGraphExecDestroy(exec));
		}
	}
	OK(p_cuGraphDestroy(graph));
	if (pick(w, 2))
		OK(p_cuDeviceGraphMemTrim(0));
}

static void run_context(struct worker *w)
{
	CUcontext ctx;
	CUdeviceptr p;

	if (made(w, "cuCtxCreate", p_cuCtxCreate_v2(&ctx, 0, 0))) {
		if (made(w, "cuMemAlloc", p_cuMemAlloc_v2(&p, pick_bytes(w))) && pick(w, 2))
			OK(p_cuMemFree_v2(p)); /* else it goes with its context */
		OK(p_cuCtxDestroy_v2(ctx));
	}
	OK(p_cuCtxSetCurrent(primary));
}

static void tune_pools(struct worker *w)
{
	uint64_t keep = pick(w, 2) ? UINT64_MAX : pick_bytes(w) - 1;
	CUmemoryPool pool = w->pool;

	if (pick(w, 2))
		OK(p_cuDeviceGetDefaultMemPool(&pool, 0));
	OK(p_cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	if (pick(w, 2))
		OK(p_cuMemPoolTrimTo(pool, pick_bytes(w) - 1));
}

static void look(void)
{
	size_t free, total;

	OK(p_cuMemGetInfo_v2(&free, &total));
	if (free > total) {
		fprintf(stderr, "gpu_storm: free %zu of %zu\n", free, total);
		_exit(1);
	}
}

/* ---- one thread ---- */

static void begin(struct worker *w)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };

	OK(p_cuCtxSetCurrent(primary));
	OK(p_cuStreamCreate(&w->stream, CU_STREAM_NON_BLOCKING));
	OK(p_cuMemPoolCreate(&w->pool, &props));
}

static void end(struct worker *w)
{
	for (unsigned i = 0; i < THINGS; i++)
		unmake(w, &w->things[i]);
	OK(p_cuStreamSynchronize(w->stream));
	OK(p_cuMemPoolDestroy(w->pool));
	OK(p_cuStreamDestroy_v2(w->stream));
}

static void step(struct worker *w)
{
	struct thing *t = &w->things[pick(w, THINGS)];
	uint64_t dice = pick(w, 1000);

	if (dice < 20)
		run_graph(w);
	else if (dice < 21)
		run_context(w);
	else if (dice < 40)
		tune_pools(w);
	else if (dice < 50)
		OK(p_cuStreamSynchronize(w->stream));
	else if (dice < 60)
		look();
	else if (t->kind != NOTHING || w->held_bytes > w->demand_bytes)
		unmake(w, t);
	else if (make(w, t))
		w->held_bytes += t->bytes;
	else
		t->kind = NOTHING;
	w->done++;
}

static void *thread_main(void *arg)
{
	struct worker *w = arg;

	begin(w);
	while (w->done < w->operations)
		step(w);
	end(w);
	return NULL;
}

/* ---- one process ---- */

static void load(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);

	if (!lib) {
		fprintf(stderr, "gpu_storm: %s\n", dlerror());
		_exit(1);
	}
#define LOAD(name)                                  \
	p_##name = (pfn_##name *)dlsym(lib, #name); \
	if (!p_##name)                              \
		fail(#name " is missing", CUDA_ERROR_NOT_FOUND);
	CALLS(LOAD)
}

static void start(void)
{
	load();
	OK(p_cuInit(0));
	OK(p_cuDevicePrimaryCtxRetain(&primary, 0));
	OK(p_cuCtxSetCurrent(primary));
	printf("worker %d\n", getpid());
	(void)fflush(stdout);
}

static void finish(uint64_t done, uint64_t refused)
{
	CUmemoryPool pool;
	char c;

	OK(p_cuDeviceGetDefaultMemPool(&pool, 0));
	OK(p_cuMemPoolTrimTo(pool, 0));
	OK(p_cuDeviceGraphMemTrim(0));
	printf("done %" PRIu64 " %" PRIu64 "\n", done, refused);
	(void)fflush(stdout);
	(void)!read(STDIN_FILENO, &c, 1); /* until it ends */
	OK(p_cuDevicePrimaryCtxRelease_v2(0));
}

static int storm(unsigned threads, const struct worker *like)
{
	static struct worker w[THREADS_MAX];
	uint64_t done = 0, refused = 0;

	start();
	for (unsigned i = 0; i < threads; i++) {
		w[i] = *like;
		w[i].random.s += i;
		if (pthread_create(&w[i].id, NULL, thread_main, &w[i]) != 0)
			fail("pthread_create", CUDA_ERROR_UNKNOWN);
	}
	for (unsigned i = 0; i < threads; i++) {
		(void)pthread_join(w[i].id, NULL);
		done += w[i].done;
		refused += w[i].refused;
	}
	OK(p_cuCtxSetCurrent(primary));
	finish(done, refused);
	return 0;
}

/* ---- exact ---- */

static size_t free_now(void)
{
	size_t free, total;

	OK(p_cuMemGetInfo_v2(&free, &total));
	return free;
}

/* small ones share the driver's pages, and a page costs 2 MiB when it is new */
static void exact_step(struct worker *w)
{
	struct thing *t = &w->things[pick(w, THINGS)];
	uint64_t bytes = 2 * MIB * (1 + pick(w, 48));
	size_t before;
	CUresult r;

	w->done++;
	if (t->kind != NOTHING) {
		unmake(w, t);
		return;
	}
	before = free_now();
	if (pick(w, 4) == 0)
		bytes = size_max(before & ~(2 * MIB - 1), 2 * MIB); /* the last of it */
	t->bytes = bytes;
	r = pick(w, 2) ? p_cuMemAlloc_v2(&t->at, bytes)
		       : p_cuMemAllocManaged(&t->at, bytes, CU_MEM_ATTACH_GLOBAL);
	if (made(w, "cuMemAlloc", r)) {
		t->kind = LINEAR;
		w->held_bytes += bytes;
	}
	if ((r == OOM) != (bytes > before)) {
		fprintf(stderr, "gpu_storm: %" PRIu64 " bytes of %zu: error %d\n", bytes, before,
			(int)r);
		_exit(1);
	}
	if (r == CUDA_SUCCESS && free_now() != before - bytes) {
		fprintf(stderr, "gpu_storm: %" PRIu64 " bytes of %zu leave %zu\n", bytes, before,
			free_now());
		_exit(1);
	}
}

static int exact(struct worker *w)
{
	size_t at_first;

	start();
	OK(p_cuCtxSetCurrent(primary));
	(void)sleep(1); /* figures settle */
	at_first = free_now();
	while (w->done < w->operations)
		exact_step(w);
	for (unsigned i = 0; i < THINGS; i++)
		unmake(w, &w->things[i]);
	if (free_now() != at_first) {
		fprintf(stderr, "gpu_storm: %zu free at first, %zu at the end\n", at_first,
			free_now());
		return 1;
	}
	finish(w->done, w->refused);
	return 0;
}

static uint64_t number(const char *s)
{
	return strtoull(s, NULL, 10);
}

int main(int argc, char **argv)
{
	struct worker like = { 0 };
	int status, worst = 0;

	if (argc == 5 && strcmp(argv[1], "exact") == 0) {
		like.operations = number(argv[2]);
		like.random.s = number(argv[3]);
		like.demand_bytes = number(argv[4]) * MIB;
		return exact(&like);
	}
	if (argc != 6 || number(argv[2]) > THREADS_MAX) {
		fprintf(stderr, "usage: gpu_storm [exact | PROCESSES THREADS] OPERATIONS SEED "
				"DEMAND_MIB\n");
		return 2;
	}
	like.operations = number(argv[3]);
	like.demand_bytes = number(argv[5]) * MIB;
	(void)setpgid(0, 0);
	(void)signal(SIGUSR1, SIG_IGN);
	for (unsigned i = 0; i < number(argv[1]); i++) {
		like.random.s = number(argv[4]) + i * 1000;
		if (fork() == 0) {
			(void)signal(SIGUSR1, SIG_DFL);
			_exit(storm((unsigned)number(argv[2]), &like));
		}
	}
	while (wait(&status) > 0) {
		if (status == 0)
			continue;
		fprintf(stderr, "gpu_storm: a process ended with status %#x\n", (unsigned)status);
		worst = 1;
		(void)kill(0, SIGUSR1); /* the others would wait for ever */
	}
	return worst;
}
