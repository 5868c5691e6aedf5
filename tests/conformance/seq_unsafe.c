// SPDX-License-Identifier: Apache-2.0
/* Calls that may block or allocate, made in a capture of each mode. */
#include "conform.h"

static CUstream stream(void)
{
	POISONED(CUstream, s);
	QUIET(cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
	return s;
}

static void show_nodes(CUgraph graph)
{
	size_t nodes = POISON_64, edges = POISON_64;
	if (!graph || (uintptr_t)graph == POISON_64)
		return;
	QUIET(cuGraphGetNodes, graph, NULL, &nodes);
	QUIET(cuGraphGetEdges, graph, NULL, NULL, &edges);
	SIZE(nodes);
	SIZE(edges);
}

/* calls that may block or allocate, in a capture of the given mode */
typedef void unsafe_call(CUstream s, CUevent e, CUdeviceptr p);

static void do_alloc(CUstream s, CUevent e, CUdeviceptr p)
{
	POISONED_PTR(q);
	(void)s, (void)e, (void)p;
	if (CALL(cuMemAlloc_v2, &q, 4096) == CUDA_SUCCESS)
		QUIET(cuMemFree_v2, q);
	else
		PTR(q);
}

static void do_large_alloc(CUstream s, CUevent e, CUdeviceptr p)
{
	POISONED_PTR(q);
	(void)s, (void)e, (void)p;
	if (CALL(cuMemAlloc_v2, &q, 16 * MIB) == CUDA_SUCCESS)
		QUIET(cuMemFree_v2, q);
	else
		PTR(q);
}

static void do_free(CUstream s, CUevent e, CUdeviceptr p)
{
	(void)s, (void)e, (void)p;
	CALL(cuMemFree_v2, 0);
}

static void do_managed(CUstream s, CUevent e, CUdeviceptr p)
{
	POISONED_PTR(q);
	(void)s, (void)e, (void)p;
	if (CALL(cuMemAllocManaged, &q, 4096, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS)
		QUIET(cuMemFree_v2, q);
}

static void do_host_alloc(CUstream s, CUevent e, CUdeviceptr p)
{
	POISONED(void *, host);
	(void)s, (void)e, (void)p;
	if (CALL(cuMemHostAlloc, &host, 4096, 0) == CUDA_SUCCESS)
		QUIET(cuMemFreeHost, host);
}

static void do_event_query(CUstream s, CUevent e, CUdeviceptr p)
{
	(void)s, (void)p;
	CALL(cuEventQuery, e);
}

static void do_event_sync(CUstream s, CUevent e, CUdeviceptr p)
{
	(void)s, (void)p;
	CALL(cuEventSynchronize, e);
}

static void do_stream_sync(CUstream s, CUevent e, CUdeviceptr p)
{
	(void)e, (void)p;
	CALL(cuStreamSynchronize, s);
}

static void do_stream_query(CUstream s, CUevent e, CUdeviceptr p)
{
	(void)e, (void)p;
	CALL(cuStreamQuery, s);
}

static void do_ctx_sync(CUstream s, CUevent e, CUdeviceptr p)
{
	(void)s, (void)e, (void)p;
	CALL(cuCtxSynchronize);
}

static void do_sync_copy(CUstream s, CUevent e, CUdeviceptr p)
{
	uint32_t word;
	(void)s, (void)e;
	CALL(cuMemcpyDtoH_v2, &word, p, 4);
}

static void do_sync_set(CUstream s, CUevent e, CUdeviceptr p)
{
	(void)s, (void)e;
	CALL(cuMemsetD32_v2, p, 1, 4);
}

static void do_legacy_launch(CUstream s, CUevent e, CUdeviceptr p)
{
	(void)s, (void)e, (void)p;
	CALL(cuLaunchKernel, kern.empty, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
}

static void do_get_info(CUstream s, CUevent e, CUdeviceptr p)
{
	size_t free_bytes, total;
	(void)s, (void)e, (void)p;
	CALL(cuMemGetInfo_v2, &free_bytes, &total);
}

static void do_vmm_create(CUstream s, CUevent e, CUdeviceptr p)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	CUmemGenericAllocationHandle h = POISON_64;
	(void)s, (void)e, (void)p;
	if (CALL(cuMemCreate, &h, 2 * MIB, &prop, 0) == CUDA_SUCCESS)
		QUIET(cuMemRelease, h);
}

static void do_alloc_async(CUstream s, CUevent e, CUdeviceptr p)
{
	POISONED_PTR(q);
	(void)e, (void)p;
	CALL(cuMemAllocAsync, &q, 4096, s);
	if (q != POISON_64)
		CALL(cuMemFreeAsync, q, s);
}

static void do_alloc_other_stream(CUstream s, CUevent e, CUdeviceptr p)
{
	POISONED_PTR(q);
	(void)s, (void)e, (void)p;
	if (CALL(cuMemAllocAsync, &q, 4096, CU_STREAM_PER_THREAD) == CUDA_SUCCESS)
		QUIET(cuMemFreeAsync, q, CU_STREAM_PER_THREAD);
}

static void do_stream_create(CUstream s, CUevent e, CUdeviceptr p)
{
	POISONED(CUstream, t);
	(void)s, (void)e, (void)p;
	CALL(cuStreamCreate, &t, CU_STREAM_NON_BLOCKING);
	QUIET(cuStreamDestroy_v2, t);
}

static void do_event_create(CUstream s, CUevent e, CUdeviceptr p)
{
	POISONED(CUevent, f);
	(void)s, (void)e, (void)p;
	CALL(cuEventCreate, &f, 0);
	QUIET(cuEventDestroy_v2, f);
}

static void do_module_load(CUstream s, CUevent e, CUdeviceptr p)
{
	POISONED(CUmodule, m);
	(void)s, (void)e, (void)p;
	if (CALL(cuModuleLoadData, &m, kernels_ptx) == CUDA_SUCCESS)
		QUIET(cuModuleUnload, m);
}

static void do_array(CUstream s, CUevent e, CUdeviceptr p)
{
	CUDA_ARRAY_DESCRIPTOR d = { 64, 64, CU_AD_FORMAT_FLOAT, 1 };
	POISONED(CUarray, array);
	(void)s, (void)e, (void)p;
	if (CALL(cuArrayCreate_v2, &array, &d) == CUDA_SUCCESS)
		QUIET(cuArrayDestroy, array);
}

static void do_pool_create(CUstream s, CUevent e, CUdeviceptr p)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	POISONED(CUmemoryPool, pool);
	(void)s, (void)e, (void)p;
	if (CALL(cuMemPoolCreate, &pool, &props) == CUDA_SUCCESS)
		QUIET(cuMemPoolDestroy, pool);
}

static void do_destroy(CUstream s, CUevent e, CUdeviceptr p)
{
	POISONED(CUstream, t);
	(void)s, (void)e, (void)p;
	QUIET(cuStreamCreate, &t, CU_STREAM_NON_BLOCKING);
	CALL(cuStreamDestroy_v2, t);
}

static void do_other_sync(CUstream s, CUevent e, CUdeviceptr p)
{
	(void)s, (void)e, (void)p;
	CALL(cuStreamSynchronize, CU_STREAM_PER_THREAD);
}

static unsafe_call *const unsafe_calls[] = {
	do_alloc,       do_large_alloc,        do_free,          do_managed,      do_host_alloc,
	do_event_query, do_event_sync,         do_stream_sync,   do_stream_query, do_ctx_sync,
	do_sync_copy,   do_sync_set,           do_legacy_launch, do_get_info,     do_vmm_create,
	do_alloc_async, do_alloc_other_stream, do_stream_create, do_event_create, do_module_load,
	do_array,       do_pool_create,        do_destroy,       do_other_sync,
};
#define UNSAFE_COUNT (sizeof(unsafe_calls) / sizeof(unsafe_calls[0]))

static void one_unsafe(unsafe_call *call, CUstreamCaptureMode mode, CUevent e, CUdeviceptr p)
{
	CUstream s = stream();
	CUstreamCaptureStatus status = (CUstreamCaptureStatus)POISON_32;
	POISONED(CUgraph, graph);
	char text[40];
	QUIET(cuStreamBeginCapture_v2, s, mode);
	fill_quiet(p, 1, 16, s);
	call(s, e, p);
	CUresult r = QUIET(cuStreamIsCapturing, s, &status);
	out_append("; capture status %d", r == CUDA_SUCCESS ? (int)status : -1);
	r = QUIET(cuStreamEndCapture, s, &graph);
	out_append(", end → %s", result_text(r, text));
	HANDLE(graph);
	if (r == CUDA_SUCCESS) {
		show_nodes(graph);
		QUIET(cuGraphDestroy, graph);
	}
	out_flush();
	QUIET(cuStreamDestroy_v2, s);
	QUIET(cuCtxSynchronize);
}

static void all_unsafe(CUstreamCaptureMode mode)
{
	POISONED(CUevent, e);
	CUdeviceptr p = alloc_quiet(4096, 0);
	QUIET(cuEventCreate, &e, 0);
	QUIET(cuEventRecord, e, NULL);
	QUIET(cuCtxSynchronize);
	for (size_t i = 0; i < UNSAFE_COUNT; i++)
		one_unsafe(unsafe_calls[i], mode, e, p);
	QUIET(cuEventDestroy_v2, e);
	QUIET(cuMemFree_v2, p);
}

static void unsafe_global(void)
{
	all_unsafe(CU_STREAM_CAPTURE_MODE_GLOBAL);
}

static void unsafe_thread_local(void)
{
	all_unsafe(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
}

static void unsafe_relaxed(void)
{
	all_unsafe(CU_STREAM_CAPTURE_MODE_RELAXED);
}

FAMILY(unsafe, { "capture.global", "capture.unsafe-global", KERNELS, unsafe_global },
       { "capture.local", "capture.unsafe-thread-local", KERNELS, unsafe_thread_local },
       { "capture.relaxed", "capture.unsafe-relaxed", KERNELS, unsafe_relaxed }, );
