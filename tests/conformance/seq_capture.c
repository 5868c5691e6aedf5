// SPDX-License-Identifier: Apache-2.0
/* Stream capture: what is allowed, what invalidates, what comes out. */
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

static void status_of(CUstream s)
{
	CUstreamCaptureStatus status = (CUstreamCaptureStatus)POISON_32;
	CALL(cuStreamIsCapturing, s, &status);
	INT(status);
}

static void plain(void)
{
	CUstream s = stream();
	POISONED(CUgraph, graph);
	CUdeviceptr p = alloc_quiet(4096, 0);
	status_of(s);
	CALL(cuStreamBeginCapture_v2, s, CU_STREAM_CAPTURE_MODE_GLOBAL);
	status_of(s);
	CALL(cuMemsetD32Async, p, 7, 1024, s);
	NOTE("launch %d", (int)fill_quiet(p, 8, 1024, s));
	CALL(cuStreamEndCapture, s, &graph);
	NEWHANDLE(graph);
	show_nodes(graph);
	status_of(s);
	CALL(cuStreamQuery, s);
	data_u32(p, 4096);
	CALL(cuGraphDestroy, graph);
	CALL(cuStreamDestroy_v2, s);
	CALL(cuMemFree_v2, p);
}

static void errors(void)
{
	CUstream s = stream();
	POISONED(CUgraph, graph);
	CALL(cuStreamEndCapture, s, &graph);
	HANDLE(graph);
	CALL(cuStreamBeginCapture_v2, NULL, CU_STREAM_CAPTURE_MODE_GLOBAL);
	CALL(cuStreamBeginCapture_v2, CU_STREAM_LEGACY, CU_STREAM_CAPTURE_MODE_GLOBAL);
	CALL(cuStreamBeginCapture_v2, s, (CUstreamCaptureMode)9);
	CALL(cuStreamBeginCapture_v2, s, CU_STREAM_CAPTURE_MODE_GLOBAL);
	CALL(cuStreamBeginCapture_v2, s, CU_STREAM_CAPTURE_MODE_GLOBAL);
	status_of(s);
	CALL(cuStreamEndCapture, s, NULL);
	status_of(s);
	CALL(cuStreamEndCapture, s, &graph);
	show_nodes(graph);
	CALL(cuStreamIsCapturing, s, NULL);
	CALL(cuStreamDestroy_v2, s);
}

static void old_begin(void)
{
	CUstream s = stream();
	POISONED(CUgraph, graph);
	CALL(cuStreamBeginCapture, s);
	status_of(s);
	CALL(cuStreamEndCapture, s, &graph);
	show_nodes(graph);
	CALL(cuGraphDestroy, graph);
	CALL(cuStreamDestroy_v2, s);
}

static void per_thread_stream(void)
{
	POISONED(CUgraph, graph);
	CALL(cuStreamBeginCapture_v2, CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_GLOBAL);
	status_of(CU_STREAM_PER_THREAD);
	CALL(cuStreamEndCapture, CU_STREAM_PER_THREAD, &graph);
	show_nodes(graph);
	CALL(cuGraphDestroy, graph);
}

static void thread_alloc(void *arg)
{
	CUstreamCaptureMode *mode = arg;
	POISONED_PTR(p);
	CALL(cuCtxSetCurrent, conf_ctx);
	if (mode) {
		CALL(cuThreadExchangeStreamCaptureMode, mode);
		INT(*mode);
	}
	if (CALL(cuMemAlloc_v2, &p, 4096) == CUDA_SUCCESS)
		CALL(cuMemFree_v2, p);
}

/* GLOBAL: another thread's allocation is refused and ends the capture; RELAXED there: not */
static void other_thread(void)
{
	static const CUstreamCaptureMode modes[] = { CU_STREAM_CAPTURE_MODE_GLOBAL,
						     CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
						     CU_STREAM_CAPTURE_MODE_RELAXED };
	for (int i = 0; i < 3; i++) {
		CUstream s = stream();
		POISONED(CUgraph, graph);
		NOTE("capture mode %d", i);
		CALL(cuStreamBeginCapture_v2, s, modes[i]);
		on_thread(thread_alloc, NULL);
		status_of(s);
		CALL(cuStreamEndCapture, s, &graph);
		CALL(cuStreamDestroy_v2, s);
	}
	CUstream s = stream();
	POISONED(CUgraph, graph);
	CUstreamCaptureMode relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
	NOTE("capture mode 0, a relaxed thread");
	CALL(cuStreamBeginCapture_v2, s, CU_STREAM_CAPTURE_MODE_GLOBAL);
	on_thread(thread_alloc, &relaxed);
	status_of(s);
	CALL(cuStreamEndCapture, s, &graph);
	CALL(cuStreamDestroy_v2, s);
}

static void exchange_mode(void)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CALL(cuThreadExchangeStreamCaptureMode, &mode);
	INT(mode);
	CALL(cuThreadExchangeStreamCaptureMode, &mode);
	INT(mode);
	mode = (CUstreamCaptureMode)9;
	CALL(cuThreadExchangeStreamCaptureMode, &mode);
	INT(mode);
	CALL(cuThreadExchangeStreamCaptureMode, NULL);
	/* a relaxed thread may allocate in its own global capture */
	CUstream s = stream();
	POISONED(CUgraph, graph);
	POISONED_PTR(p);
	CALL(cuStreamBeginCapture_v2, s, CU_STREAM_CAPTURE_MODE_GLOBAL);
	mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CALL(cuThreadExchangeStreamCaptureMode, &mode);
	CALL(cuMemAlloc_v2, &p, 4096);
	CALL(cuThreadExchangeStreamCaptureMode, &mode);
	CALL(cuStreamEndCapture, s, &graph);
	CALL(cuGraphDestroy, graph);
	CALL(cuMemFree_v2, p);
	CALL(cuStreamDestroy_v2, s);
}

static void after_invalid(void)
{
	CUstream s = stream();
	POISONED(CUgraph, graph);
	cuuint64_t id = POISON_64;
	CUstreamCaptureStatus status = (CUstreamCaptureStatus)POISON_32;
	CUdeviceptr p = alloc_quiet(4096, 0);
	CALL(cuStreamBeginCapture_v2, s, CU_STREAM_CAPTURE_MODE_GLOBAL);
	CALL(cuStreamSynchronize, s);
	status_of(s);
	CALL(cuMemsetD32Async, p, 1, 4, s);
	CALL(cuStreamSynchronize, s);
	CALL(cuStreamGetCaptureInfo, s, &status, &id);
	INT(status);
	YES(id == POISON_64);
	CALL(cuStreamBeginCapture_v2, s, CU_STREAM_CAPTURE_MODE_GLOBAL);
	CALL(cuStreamEndCapture, s, &graph);
	HANDLE(graph);
	status_of(s);
	CALL(cuStreamEndCapture, s, &graph);
	CALL(cuMemsetD32Async, p, 1, 4, s);
	CALL(cuStreamSynchronize, s);
	CALL(cuStreamDestroy_v2, s);
	CALL(cuMemFree_v2, p);
}

static void info(void)
{
	CUstream s = stream();
	POISONED(CUgraph, graph);
	POISONED(CUgraph, ended);
	CUstreamCaptureStatus status = (CUstreamCaptureStatus)POISON_32;
	cuuint64_t id = POISON_64;
	const CUgraphNode *deps = NULL;
	const CUgraphEdgeData *edges = NULL;
	size_t count = POISON_64;
	CUdeviceptr p = alloc_quiet(4096, 0);
	CALL(cuStreamGetCaptureInfo, s, &status, &id);
	INT(status);
	YES(id == POISON_64);
	CALL(cuStreamGetCaptureInfo_v2, s, &status, &id, &graph, &deps, &count);
	INT(status);
	HANDLE(graph);
	SIZE(count);
	CALL(cuStreamBeginCapture_v2, s, CU_STREAM_CAPTURE_MODE_GLOBAL);
	CALL(cuMemsetD32Async, p, 1, 4, s);
	CALL(cuStreamGetCaptureInfo_v2, s, &status, &id, &graph, &deps, &count);
	INT(status);
	NEWHANDLE(graph);
	SIZE(count);
	CALL(cuStreamGetCaptureInfo_v3, s, &status, &id, &graph, &deps, &edges, &count);
	SIZE(count);
	CALL(cuStreamGetCaptureInfo_v2, s, &status, NULL, NULL, NULL, NULL);
	CALL(cuStreamGetCaptureInfo, s, NULL, &id);
	CALL(cuStreamGetCaptureInfo, s, &status, NULL);
	CALL(cuStreamEndCapture, s, &ended);
	YES(ended == graph);
	CALL(cuGraphDestroy, ended);
	CALL(cuStreamDestroy_v2, s);
	CALL(cuMemFree_v2, p);
}

static void legacy_info(void)
{
	CUstreamCaptureStatus status = (CUstreamCaptureStatus)POISON_32;
	cuuint64_t id = POISON_64;
	CUstream s = stream();
	POISONED(CUgraph, graph);
	CALL(cuStreamIsCapturing, NULL, &status);
	INT(status);
	CALL(cuStreamBeginCapture_v2, s, CU_STREAM_CAPTURE_MODE_GLOBAL);
	CALL(cuStreamIsCapturing, NULL, &status);
	INT(status);
	CALL(cuStreamGetCaptureInfo, NULL, &status, &id);
	CALL(cuStreamQuery, NULL);
	CALL(cuStreamEndCapture, s, &graph);
	CALL(cuStreamDestroy_v2, s);
}

static void legacy_blocking(void)
{
	POISONED(CUstream, s);
	POISONED(CUgraph, graph);
	CUdeviceptr p = alloc_quiet(4096, 0);
	CALL(cuStreamCreate, &s, CU_STREAM_DEFAULT);
	CALL(cuStreamBeginCapture_v2, s, CU_STREAM_CAPTURE_MODE_RELAXED);
	CALL(cuMemsetD32Async, p, 1, 4, NULL);
	status_of(s);
	CALL(cuStreamEndCapture, s, &graph);
	CALL(cuStreamDestroy_v2, s);
	CALL(cuMemFree_v2, p);
}

static void fork_join(void)
{
	CUstream a = stream(), b = stream();
	POISONED(CUevent, e);
	POISONED(CUevent, f);
	POISONED(CUgraph, graph);
	CUdeviceptr p = alloc_quiet(4096, 0);
	CALL(cuEventCreate, &e, CU_EVENT_DISABLE_TIMING);
	CALL(cuEventCreate, &f, CU_EVENT_DISABLE_TIMING);
	CALL(cuStreamBeginCapture_v2, a, CU_STREAM_CAPTURE_MODE_GLOBAL);
	CALL(cuMemsetD32Async, p, 1, 4, a);
	CALL(cuEventRecord, e, a);
	CALL(cuEventQuery, e);
	CALL(cuStreamEndCapture, a, &graph);
	CALL(cuStreamBeginCapture_v2, a, CU_STREAM_CAPTURE_MODE_GLOBAL);
	CALL(cuMemsetD32Async, p, 1, 4, a);
	CALL(cuEventRecord, e, a);
	CALL(cuStreamWaitEvent, b, e, 0);
	status_of(b);
	CALL(cuMemsetD32Async, p + 16, 2, 4, b);
	CALL(cuStreamEndCapture, b, &graph);
	CALL(cuEventRecord, f, b);
	CALL(cuStreamWaitEvent, a, f, 0);
	CALL(cuMemsetD32Async, p + 32, 3, 4, a);
	CALL(cuStreamEndCapture, a, &graph);
	show_nodes(graph);
	status_of(b);
	CALL(cuGraphDestroy, graph);
	CALL(cuEventDestroy_v2, e);
	CALL(cuEventDestroy_v2, f);
	CALL(cuStreamDestroy_v2, a);
	CALL(cuStreamDestroy_v2, b);
	CALL(cuMemFree_v2, p);
}

static void unjoined(void)
{
	CUstream a = stream(), b = stream();
	POISONED(CUevent, e);
	POISONED(CUgraph, graph);
	CUdeviceptr p = alloc_quiet(4096, 0);
	CALL(cuEventCreate, &e, CU_EVENT_DISABLE_TIMING);
	CALL(cuStreamBeginCapture_v2, a, CU_STREAM_CAPTURE_MODE_GLOBAL);
	CALL(cuMemsetD32Async, p, 1, 4, a);
	CALL(cuEventRecord, e, a);
	CALL(cuStreamWaitEvent, b, e, 0);
	CALL(cuMemsetD32Async, p + 16, 2, 4, b);
	CALL(cuStreamEndCapture, a, &graph);
	HANDLE(graph);
	status_of(a);
	status_of(b);
	CALL(cuEventDestroy_v2, e);
	CALL(cuStreamDestroy_v2, a);
	CALL(cuStreamDestroy_v2, b);
	CALL(cuMemFree_v2, p);
}

static void merge(void)
{
	CUstream a = stream(), b = stream();
	POISONED(CUevent, e);
	POISONED(CUgraph, graph);
	CALL(cuEventCreate, &e, CU_EVENT_DISABLE_TIMING);
	CALL(cuStreamBeginCapture_v2, a, CU_STREAM_CAPTURE_MODE_GLOBAL);
	CALL(cuStreamBeginCapture_v2, b, CU_STREAM_CAPTURE_MODE_GLOBAL);
	CALL(cuEventRecord, e, a);
	CALL(cuStreamWaitEvent, b, e, 0);
	status_of(a);
	status_of(b);
	CALL(cuStreamEndCapture, a, &graph);
	CALL(cuStreamEndCapture, b, &graph);
	CALL(cuEventDestroy_v2, e);
	CALL(cuStreamDestroy_v2, a);
	CALL(cuStreamDestroy_v2, b);
}

static void isolation(void)
{
	CUstream a = stream(), b = stream();
	POISONED(CUevent, e);
	POISONED(CUgraph, graph);
	CALL(cuEventCreate, &e, CU_EVENT_DISABLE_TIMING);
	CALL(cuEventRecord, e, b);
	CALL(cuStreamBeginCapture_v2, a, CU_STREAM_CAPTURE_MODE_GLOBAL);
	CALL(cuStreamWaitEvent, a, e, 0);
	status_of(a);
	CALL(cuStreamEndCapture, a, &graph);
	CALL(cuEventDestroy_v2, e);
	CALL(cuStreamDestroy_v2, a);
	CALL(cuStreamDestroy_v2, b);
}

static void wrong_thread_end(void *arg)
{
	POISONED(CUgraph, graph);
	CALL(cuCtxSetCurrent, conf_ctx);
	CALL(cuStreamEndCapture, (CUstream)arg, &graph);
	HANDLE(graph);
}

static void wrong_thread(void)
{
	CUstream s = stream();
	POISONED(CUgraph, graph);
	CALL(cuStreamBeginCapture_v2, s, CU_STREAM_CAPTURE_MODE_GLOBAL);
	on_thread(wrong_thread_end, s);
	status_of(s);
	CALL(cuStreamEndCapture, s, &graph);
	CALL(cuStreamBeginCapture_v2, s, CU_STREAM_CAPTURE_MODE_RELAXED);
	on_thread(wrong_thread_end, s);
	CALL(cuStreamDestroy_v2, s);
}

static void destroy_capturing(void)
{
	CUstream s = stream();
	CALL(cuStreamBeginCapture_v2, s, CU_STREAM_CAPTURE_MODE_GLOBAL);
	CALL(cuStreamDestroy_v2, s);
	POISONED_PTR(p);
	CALL(cuMemAlloc_v2, &p, 4096);
	CALL(cuMemFree_v2, p);
}

static void capture_alloc(void)
{
	CUstream s = stream();
	POISONED(CUgraph, graph);
	POISONED(CUgraphExec, exec);
	POISONED_PTR(p);
	CALL(cuStreamBeginCapture_v2, s, CU_STREAM_CAPTURE_MODE_GLOBAL);
	CALL(cuMemAllocAsync, &p, 4 * MIB, s);
	NEWPTR(p, 4 * MIB);
	CALL(cuMemsetD32Async, p, 5, 1024, s);
	CALL(cuMemFreeAsync, p, s);
	CALL(cuStreamEndCapture, s, &graph);
	show_nodes(graph);
	CALL(cuGraphInstantiateWithFlags, &exec, graph, 0);
	CALL(cuGraphLaunch, exec, s);
	CALL(cuGraphLaunch, exec, s);
	CALL(cuStreamSynchronize, s);
	CALL(cuGraphExecDestroy, exec);
	CALL(cuGraphDestroy, graph);
	CALL(cuDeviceGraphMemTrim, 0);
	CALL(cuStreamDestroy_v2, s);
}

static void update_dependencies(void)
{
	CUstream s = stream();
	POISONED(CUgraph, graph);
	CUdeviceptr p = alloc_quiet(4096, 0);
	CALL(cuStreamUpdateCaptureDependencies, s, NULL, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES);
	CALL(cuStreamBeginCapture_v2, s, CU_STREAM_CAPTURE_MODE_GLOBAL);
	CALL(cuMemsetD32Async, p, 1, 4, s);
	CALL(cuStreamUpdateCaptureDependencies, s, NULL, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES);
	CALL(cuMemsetD32Async, p, 2, 4, s);
	CALL(cuStreamUpdateCaptureDependencies, s, NULL, 0, 9);
	CALL(cuStreamEndCapture, s, &graph);
	show_nodes(graph);
	CALL(cuGraphDestroy, graph);
	CALL(cuStreamDestroy_v2, s);
	CALL(cuMemFree_v2, p);
}

static void to_graph(void)
{
	CUstream s = stream();
	POISONED(CUgraph, graph);
	POISONED(CUgraph, ended);
	CUdeviceptr p = alloc_quiet(4096, 0);
	CALL(cuGraphCreate, &graph, 0);
	CALL(cuStreamBeginCaptureToGraph, s, graph, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_GLOBAL);
	CALL(cuMemsetD32Async, p, 1, 4, s);
	CALL(cuStreamEndCapture, s, &ended);
	YES(ended == graph);
	show_nodes(graph);
	CALL(cuStreamBeginCaptureToGraph, s, NULL, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_GLOBAL);
	CALL(cuGraphDestroy, graph);
	CALL(cuStreamDestroy_v2, s);
	CALL(cuMemFree_v2, p);
}

FAMILY(capture, { "capture", "capture.plain", KERNELS, plain },
       { "capture", "capture.errors", KERNELS, errors },
       { "capture", "capture.old-begin", KERNELS, old_begin },
       { "capture", "capture.per-thread-stream", KERNELS, per_thread_stream },
       { "capture", "capture.exchange-mode", KERNELS, exchange_mode },
       { "capture", "capture.after-invalid", KERNELS, after_invalid },
       { "capture", "capture.info", KERNELS, info },
       { "capture", "capture.legacy-info", KERNELS, legacy_info },
       { "capture", "capture.legacy-blocking", KERNELS, legacy_blocking },
       { "capture", "capture.fork-join", KERNELS, fork_join },
       { "capture", "capture.unjoined", KERNELS, unjoined },
       { "capture", "capture.merge", KERNELS, merge },
       { "capture", "capture.isolation", KERNELS, isolation },
       { "capture", "capture.wrong-thread", KERNELS, wrong_thread },
       { "capture", "capture.alloc", KERNELS, capture_alloc },
       { "capture", "capture.update-dependencies", KERNELS, update_dependencies },
       { "capture", "capture.to-graph", KERNELS, to_graph },
       { "capture", "capture.other-thread", KERNELS, other_thread },
       { "capture", "capture.destroy-capturing", KERNELS, destroy_capturing }, );
