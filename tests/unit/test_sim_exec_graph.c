// SPDX-License-Identifier: Apache-2.0
/* Capture and graphs of the simulated driver. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/size.h"
#include "sim_exec_fixture.h"

#define MS ((unsigned long long)1000000)

static CUstream stream_new(unsigned flags)
{
	CUstream stream = NULL;

	assert_int_equal(CU(cuStreamCreate)(&stream, flags), 0);
	return stream;
}

static CUgraph graph_new(void)
{
	CUgraph graph = NULL;

	assert_int_equal(CU(cuGraphCreate)(&graph, 0), 0);
	return graph;
}

static CUgraphExec instantiate(CUgraph graph, unsigned long long flags)
{
	CUgraphExec exec = NULL;

	assert_int_equal(CU(cuGraphInstantiateWithFlags)(&exec, graph, flags), 0);
	return exec;
}

static void begin(CUstream stream, CUstreamCaptureMode mode)
{
	assert_int_equal(CU(cuStreamBeginCapture_v2)(stream, mode), 0);
}

static size_t node_count(CUgraph graph)
{
	size_t count = 0;

	assert_int_equal(CU(cuGraphGetNodes)(graph, NULL, &count), 0);
	return count;
}

static void a_capture_does_nothing_until_replayed(void **unused)
{
	CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
	CUdeviceptr p = sim_exec_buffer(1024, 1), q = sim_exec_buffer(1024, 0);
	CUgraphExec exec;
	CUgraph graph;

	(void)unused;
	begin(s, CU_STREAM_CAPTURE_MODE_GLOBAL);
	assert_int_equal(sim_exec_add(s, p, 2, 1024), 0);
	assert_int_equal(CU(cuMemcpyDtoDAsync_v2)(q, p, 4096, s), 0);
	assert_int_equal(CU(cuMemsetD32Async)(p + 4, 77, 1, s), 0);
	assert_int_equal(CU(cuStreamEndCapture)(s, &graph), 0);
	assert_int_equal(sim_exec_word(p), 1);
	assert_int_equal(node_count(graph), 3);
	exec = instantiate(graph, 0);
	assert_int_equal(CU(cuGraphDestroy)(graph), 0);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(CU(cuGraphLaunch)(exec, s), 0);
	assert_int_equal(CU(cuStreamSynchronize)(s), 0);
	assert_int_equal(sim_exec_word(p), 2001);
	assert_int_equal(sim_exec_word(q), 2001);
	assert_int_equal(sim_exec_word(p + 4), 77);
	assert_int_equal(sim_exec_word(q + 4), 79);
	assert_int_equal(CU(cuGraphExecDestroy)(exec), 0);
	assert_int_equal(CU(cuGraphLaunch)(exec, s), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuStreamDestroy_v2)(s), 0);
	assert_int_equal(CU(cuMemFree_v2)(p), 0);
	assert_int_equal(CU(cuMemFree_v2)(q), 0);
}

static void unsafe_calls_invalidate(void **unused)
{
	CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
	CUstreamCaptureMode relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUstreamCaptureStatus status;
	CUdeviceptr p;
	CUgraph graph;

	(void)unused;
	begin(s, CU_STREAM_CAPTURE_MODE_GLOBAL);
	assert_int_equal(CU(cuMemAlloc_v2)(&p, 4096), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	assert_int_equal(CU(cuStreamIsCapturing)(s, &status), 0);
	assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
	assert_int_equal(CU(cuMemsetD8Async)(0, 0, 0, s), CUDA_SUCCESS); /* nothing to set */
	assert_int_equal(CU(cuStreamEndCapture)(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	assert_null(graph);
	begin(s, CU_STREAM_CAPTURE_MODE_GLOBAL);
	assert_int_equal(CU(cuStreamSynchronize)(s), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	assert_int_equal(CU(cuStreamEndCapture)(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	/* a thread that says so may */
	begin(s, CU_STREAM_CAPTURE_MODE_GLOBAL);
	assert_int_equal(CU(cuThreadExchangeStreamCaptureMode)(&relaxed), 0);
	assert_int_equal(CU(cuMemAlloc_v2)(&p, 4096), 0);
	assert_int_equal(CU(cuThreadExchangeStreamCaptureMode)(&relaxed), 0);
	assert_int_equal(CU(cuStreamEndCapture)(s, &graph), 0);
	assert_int_equal(CU(cuGraphDestroy)(graph), 0);
	assert_int_equal(CU(cuMemFree_v2)(p), 0);
	assert_int_equal(CU(cuStreamDestroy_v2)(s), 0);
}

static void *allocate_elsewhere(void *arg)
{
	CUcontext ctx = arg;
	CUdeviceptr p;
	CUresult r = CU(cuCtxSetCurrent)(ctx);

	if (r == CUDA_SUCCESS)
		r = CU(cuMemAlloc_v2)(&p, 4096);
	if (r == CUDA_SUCCESS)
		(void)CU(cuMemFree_v2)(p);
	return (void *)(uintptr_t)r;
}

static CUresult on_another_thread(void)
{
	CUcontext ctx;
	pthread_t thread;
	void *result;

	assert_int_equal(CU(cuCtxGetCurrent)(&ctx), 0);
	assert_int_equal(pthread_create(&thread, NULL, allocate_elsewhere, ctx), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	return (CUresult)(uintptr_t)result;
}

static void only_a_global_capture_binds_other_threads(void **unused)
{
	CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
	CUgraph graph;

	(void)unused;
	begin(s, CU_STREAM_CAPTURE_MODE_GLOBAL);
	assert_int_equal(on_another_thread(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	assert_int_equal(CU(cuStreamEndCapture)(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	begin(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
	assert_int_equal(on_another_thread(), CUDA_SUCCESS);
	assert_int_equal(CU(cuStreamEndCapture)(s, &graph), 0);
	assert_int_equal(CU(cuGraphDestroy)(graph), 0);
	assert_int_equal(CU(cuStreamDestroy_v2)(s), 0);
}

static void captures_spread_by_events_and_must_join(void **unused)
{
	CUstream s = stream_new(CU_STREAM_NON_BLOCKING), t = stream_new(0);
	CUdeviceptr p = sim_exec_buffer(16, 0);
	size_t edges = 0;
	CUevent fork, join, outside;
	CUgraph graph;

	(void)unused;
	assert_int_equal(CU(cuEventCreate)(&fork, 0), 0);
	assert_int_equal(CU(cuEventCreate)(&join, 0), 0);
	assert_int_equal(CU(cuEventCreate)(&outside, 0), 0);
	for (int joined = 0; joined < 2; joined++) {
		begin(s, CU_STREAM_CAPTURE_MODE_RELAXED);
		assert_int_equal(sim_exec_add(s, p, 1, 1), 0);
		assert_int_equal(CU(cuEventRecord)(fork, s), 0);
		assert_int_equal(CU(cuStreamWaitEvent)(t, fork, 0), 0);
		assert_int_equal(sim_exec_add(t, p + 4, 1, 1), 0);
		/* t captures and is a blocking stream, so the legacy stream is out of bounds */
		assert_int_equal(CU(cuEventRecord)(join, t), 0);
		if (joined)
			assert_int_equal(CU(cuStreamWaitEvent)(s, join, 0), 0);
		assert_int_equal(sim_exec_add(s, p + 8, 1, 1), 0);
		assert_int_equal(CU(cuStreamEndCapture)(t, &graph),
				 joined ? CUDA_ERROR_STREAM_CAPTURE_UNMATCHED
					: CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
		assert_int_equal(CU(cuStreamEndCapture)(s, &graph),
				 CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	}
	for (int joined = 0; joined < 2; joined++) {
		begin(s, CU_STREAM_CAPTURE_MODE_RELAXED);
		assert_int_equal(sim_exec_add(s, p, 1, 1), 0);
		assert_int_equal(CU(cuEventRecord)(fork, s), 0);
		assert_int_equal(CU(cuStreamWaitEvent)(t, fork, 0), 0);
		assert_int_equal(sim_exec_add(t, p + 4, 1, 1), 0);
		assert_int_equal(CU(cuEventRecord)(join, t), 0);
		if (joined)
			assert_int_equal(CU(cuStreamWaitEvent)(s, join, 0), 0);
		assert_int_equal(sim_exec_add(s, p + 8, 1, 1), 0);
		assert_int_equal(CU(cuStreamEndCapture)(s, &graph),
				 joined ? 0 : CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
	}
	assert_int_equal(CU(cuGraphGetEdges)(graph, NULL, NULL, &edges), 0);
	assert_int_equal(edges, 3);
	assert_int_equal(CU(cuGraphDestroy)(graph), 0);
	assert_int_equal(CU(cuEventQuery)(fork), CUDA_ERROR_CAPTURED_EVENT);
	/* an event from outside cannot be waited for inside */
	assert_int_equal(CU(cuEventRecord)(outside, t), 0);
	begin(s, CU_STREAM_CAPTURE_MODE_RELAXED);
	assert_int_equal(CU(cuStreamWaitEvent)(s, outside, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
	assert_int_equal(CU(cuStreamEndCapture)(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	/* the legacy stream may not be made to depend on a capture */
	begin(t, CU_STREAM_CAPTURE_MODE_RELAXED);
	assert_int_equal(sim_exec_add(NULL, p, 1, 1), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	assert_int_equal(CU(cuStreamEndCapture)(t, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	assert_int_equal(CU(cuStreamBeginCapture_v2)(NULL, CU_STREAM_CAPTURE_MODE_RELAXED),
			 CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	assert_int_equal(CU(cuEventDestroy_v2)(fork), 0);
	assert_int_equal(CU(cuEventDestroy_v2)(join), 0);
	assert_int_equal(CU(cuEventDestroy_v2)(outside), 0);
	assert_int_equal(CU(cuStreamDestroy_v2)(s), 0);
	assert_int_equal(CU(cuStreamDestroy_v2)(t), 0);
	assert_int_equal(CU(cuMemFree_v2)(p), 0);
}

/* Graphs made by hand. */

static CUgraphNode add_kernel(CUgraph graph, const CUgraphNode *deps, size_t count, CUdeviceptr ptr,
			      unsigned addend)
{
	unsigned long long n = 1;
	void *params[] = { &ptr, &addend, &n };
	CUDA_KERNEL_NODE_PARAMS node = { .func = sim_exec_function("allot_add_u32"),
					 .gridDimX = 1,
					 .gridDimY = 1,
					 .gridDimZ = 1,
					 .blockDimX = 1,
					 .blockDimY = 1,
					 .blockDimZ = 1,
					 .kernelParams = params };
	CUgraphNode ret = NULL;

	assert_int_equal(CU(cuGraphAddKernelNode_v2)(&ret, graph, deps, count, &node), 0);
	return ret;
}

static void circles_and_strangers_are_refused(void **unused)
{
	CUdeviceptr p = sim_exec_buffer(16, 0);
	CUgraph graph = graph_new(), other = graph_new();
	CUgraphNode a = add_kernel(graph, NULL, 0, p, 1);
	CUgraphNode b = add_kernel(graph, &a, 1, p, 1), c = add_kernel(other, NULL, 0, p, 1);
	CUgraphExec exec = NULL;

	(void)unused;
	assert_int_equal(CU(cuGraphAddDependencies)(graph, &a, &c, 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuGraphAddDependencies)(graph, &a, &b, 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuGraphAddDependencies)(graph, &b, &a, 1), 0);
	assert_int_equal(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuGraphRemoveDependencies)(graph, &b, &a, 1), 0);
	exec = instantiate(graph, 0);
	assert_int_equal(CU(cuGraphExecDestroy)(exec), 0);
	assert_int_equal(CU(cuGraphDestroyNode)(a), 0);
	assert_int_equal(node_count(graph), 1);
	assert_int_equal(CU(cuGraphDestroy)(graph), 0);
	assert_int_equal(CU(cuGraphDestroy)(other), 0);
	assert_int_equal(CU(cuGraphDestroy)(graph), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuMemFree_v2)(p), 0);
}

static void an_exec_is_changed_in_place(void **unused)
{
	CUdeviceptr p = sim_exec_buffer(16, 0);
	CUgraph graph = graph_new(), again = graph_new(), longer = graph_new();
	CUgraphNode a = add_kernel(graph, NULL, 0, p, 1), b;
	CUgraphExecUpdateResultInfo info;
	CUDA_KERNEL_NODE_PARAMS params;
	CUgraphExec exec;

	(void)unused;
	(void)add_kernel(graph, &a, 1, p + 4, 1);
	exec = instantiate(graph, 0);
	b = add_kernel(again, NULL, 0, p, 10);
	(void)add_kernel(again, &b, 1, p + 4, 20);
	assert_int_equal(CU(cuGraphExecUpdate_v2)(exec, again, &info), 0);
	assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
	assert_int_equal(CU(cuGraphLaunch)(exec, NULL), 0);
	assert_int_equal(sim_exec_word(p), 10);
	assert_int_equal(sim_exec_word(p + 4), 20);
	(void)add_kernel(longer, NULL, 0, p, 1);
	assert_int_equal(CU(cuGraphExecUpdate_v2)(exec, longer, &info),
			 CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
	assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
	/* one node; its parameters can be read back and changed */
	assert_int_equal(CU(cuGraphKernelNodeGetParams_v2)(a, &params), 0);
	assert_int_equal(*(unsigned *)params.kernelParams[1], 1);
	*(unsigned *)params.kernelParams[1] = 100;
	assert_int_equal(CU(cuGraphExecKernelNodeSetParams_v2)(exec, a, &params), 0);
	assert_int_equal(CU(cuGraphLaunch)(exec, NULL), 0);
	assert_int_equal(sim_exec_word(p), 110);
	assert_int_equal(CU(cuGraphNodeSetEnabled)(exec, a, 0), 0);
	assert_int_equal(CU(cuGraphLaunch)(exec, NULL), 0);
	assert_int_equal(sim_exec_word(p), 110);
	assert_int_equal(sim_exec_word(p + 4), 60);
	assert_int_equal(CU(cuGraphExecDestroy)(exec), 0);
	assert_int_equal(CU(cuGraphDestroy)(graph), 0);
	assert_int_equal(CU(cuGraphDestroy)(again), 0);
	assert_int_equal(CU(cuGraphDestroy)(longer), 0);
	assert_int_equal(CU(cuMemFree_v2)(p), 0);
}

static void children_run_where_their_node_stands(void **unused)
{
	CUdeviceptr p = sim_exec_buffer(16, 0);
	CUgraph child = graph_new(), graph = graph_new(), other = graph_new();
	CUDA_MEMSET_NODE_PARAMS zero = { .dst = p, .elementSize = 4, .width = 1, .height = 1 };
	CUgraphNode c, set, node;
	CUgraphExec exec;

	(void)unused;
	c = add_kernel(child, NULL, 0, p, 5);
	(void)add_kernel(child, &c, 1, p, 6);
	assert_int_equal(CU(cuGraphAddMemsetNode)(&set, graph, NULL, 0, &zero, NULL), 0);
	assert_int_equal(CU(cuGraphAddChildGraphNode)(&node, graph, &set, 1, child), 0);
	(void)add_kernel(graph, &node, 1, p, 1000);
	exec = instantiate(graph, 0);
	assert_int_equal(CU(cuGraphLaunch)(exec, NULL), 0);
	assert_int_equal(CU(cuGraphLaunch)(exec, NULL), 0);
	assert_int_equal(sim_exec_word(p), 1011);
	c = add_kernel(other, NULL, 0, p, 7);
	(void)add_kernel(other, &c, 1, p, 8);
	assert_int_equal(CU(cuGraphExecChildGraphNodeSetParams)(exec, node, other), 0);
	assert_int_equal(CU(cuGraphLaunch)(exec, NULL), 0);
	assert_int_equal(sim_exec_word(p), 1015);
	assert_int_equal(CU(cuGraphExecDestroy)(exec), 0);
	assert_int_equal(CU(cuGraphDestroy)(child), 0);
	assert_int_equal(CU(cuGraphDestroy)(other), 0);
	assert_int_equal(CU(cuGraphDestroy)(graph), 0);
	assert_int_equal(CU(cuMemFree_v2)(p), 0);
}

static CUdeviceptr shared_ptr;

static void double_it(void *arg)
{
	(void)arg;
	*(volatile unsigned *)(uintptr_t)shared_ptr *= 2;
}

static void functions_in_graphs_keep_their_place(void **unused)
{
	CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
	CUgraphExec exec;
	CUgraph graph;
	void *host;

	(void)unused;
	assert_int_equal(CU(cuMemHostAlloc)(&host, 4096, 0), 0);
	shared_ptr = (CUdeviceptr)(uintptr_t)host;
	*(unsigned *)host = 0;
	begin(s, CU_STREAM_CAPTURE_MODE_RELAXED);
	assert_int_equal(sim_exec_add(s, shared_ptr, 3, 1), 0);
	assert_int_equal(CU(cuLaunchHostFunc)(s, double_it, NULL), 0);
	assert_int_equal(sim_exec_add(s, shared_ptr, 1, 1), 0);
	assert_int_equal(CU(cuStreamEndCapture)(s, &graph), 0);
	exec = instantiate(graph, 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(CU(cuGraphLaunch)(exec, s), 0);
	assert_int_equal(CU(cuGraphExecDestroy)(exec), 0); /* what is launched goes on */
	assert_int_equal(CU(cuGraphDestroy)(graph), 0);
	assert_int_equal(CU(cuStreamSynchronize)(s), 0);
	assert_int_equal(*(unsigned *)host, ((3 * 2 + 1 + 3) * 2 + 1 + 3) * 2 + 1);
	assert_int_equal(CU(cuStreamDestroy_v2)(s), 0);
	assert_int_equal(CU(cuMemFreeHost)(host), 0);
}

static uint64_t graph_memory(CUgraphMem_attribute attr)
{
	cuuint64_t value = 1;

	assert_int_equal(CU(cuDeviceGetGraphMemAttribute)(0, attr, &value), 0);
	return value;
}

static void graph_memory_is_charged_at_launch_and_kept_until_trimmed(void **unused)
{
	CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
	size_t before = sim_driver_free_bytes();
	CUgraphExec exec;
	CUdeviceptr p;
	CUgraph graph;

	(void)unused;
	begin(s, CU_STREAM_CAPTURE_MODE_GLOBAL);
	assert_int_equal(CU(cuMemAllocAsync)(&p, 40 * MIB, s), 0);
	assert_int_equal(CU(cuMemsetD32Async)(p, 1, 1024, s), 0);
	assert_int_equal(CU(cuMemFreeAsync)(p, s), 0);
	assert_int_equal(CU(cuStreamEndCapture)(s, &graph), 0);
	assert_int_equal(node_count(graph), 3);
	exec = instantiate(graph, 0);
	assert_int_equal(sim_driver_free_bytes(), before);
	assert_int_equal(CU(cuGraphLaunch)(exec, s), 0);
	assert_int_equal(CU(cuGraphLaunch)(exec, s), 0);
	assert_int_equal(CU(cuStreamSynchronize)(s), 0);
	assert_int_equal(before - sim_driver_free_bytes(), 64 * MIB);
	assert_int_equal(graph_memory(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 64 * MIB);
	assert_int_equal(CU(cuGraphExecDestroy)(exec), 0);
	assert_int_equal(CU(cuGraphDestroy)(graph), 0);
	assert_int_equal(before - sim_driver_free_bytes(), 64 * MIB);
	assert_int_equal(CU(cuDeviceGraphMemTrim)(0), 0);
	assert_int_equal(sim_driver_free_bytes(), before);
	assert_int_equal(graph_memory(CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH), 64 * MIB);
	assert_int_equal(CU(cuStreamDestroy_v2)(s), 0);
}

static void memory_that_lives_on_blocks_the_next_launch(void **unused)
{
	CUgraph graph = graph_new();
	CUDA_MEM_ALLOC_NODE_PARAMS params = {
		.poolProps = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			       .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } },
		.bytesize = 4096,
	};
	CUgraphExec exec, second;
	CUgraphNode node;

	(void)unused;
	assert_int_equal(CU(cuGraphAddMemAllocNode)(&node, graph, NULL, 0, &params), 0);
	assert_true(params.dptr);
	exec = instantiate(graph, 0);
	assert_int_equal(CU(cuGraphInstantiateWithFlags)(&second, graph, 0),
			 CUDA_ERROR_NOT_SUPPORTED);
	assert_int_equal(CU(cuGraphLaunch)(exec, NULL), 0);
	assert_int_equal(CU(cuGraphLaunch)(exec, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuMemsetD32_v2)(params.dptr, 9, 1024), 0);
	assert_int_equal(CU(cuGraphExecDestroy)(exec), 0);
	assert_int_equal(CU(cuGraphDestroy)(graph), 0);
	/* the memory outlives both */
	assert_int_equal(sim_exec_word(params.dptr), 9);
	assert_int_equal(CU(cuMemFree_v2)(params.dptr), 0);
	assert_int_equal(CU(cuMemFree_v2)(params.dptr), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuDeviceGraphMemTrim)(0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_capture_does_nothing_until_replayed),
		cmocka_unit_test(unsafe_calls_invalidate),
		cmocka_unit_test(only_a_global_capture_binds_other_threads),
		cmocka_unit_test(captures_spread_by_events_and_must_join),
		cmocka_unit_test(circles_and_strangers_are_refused),
		cmocka_unit_test(an_exec_is_changed_in_place),
		cmocka_unit_test(children_run_where_their_node_stands),
		cmocka_unit_test(functions_in_graphs_keep_their_place),
		cmocka_unit_test(graph_memory_is_charged_at_launch_and_kept_until_trimmed),
		cmocka_unit_test(memory_that_lives_on_blocks_the_next_launch),
	};

	return cmocka_run_group_tests(tests, sim_exec_setup, NULL);
}
