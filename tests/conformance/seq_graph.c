// SPDX-License-Identifier: Apache-2.0
/* Graphs: building, instantiating, replaying, memory nodes, updates. */
#include "conform.h"

#include <string.h>

static CUresult add_memset(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count,
			   CUdeviceptr p, unsigned int value, size_t words)
{
	CUDA_MEMSET_NODE_PARAMS params;
	memset(&params, 0, sizeof(params));
	params.dst = p;
	params.value = value;
	params.elementSize = 4;
	params.width = words;
	params.height = 1;
	return QUIET(cuGraphAddMemsetNode, node, graph, deps, count, &params, conf_ctx);
}

static CUresult add_kernel(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count,
			   CUfunction f, void **args)
{
	CUDA_KERNEL_NODE_PARAMS params;
	memset(&params, 0, sizeof(params));
	params.func = f;
	params.gridDimX = 8;
	params.gridDimY = params.gridDimZ = 1;
	params.blockDimX = 64;
	params.blockDimY = params.blockDimZ = 1;
	params.kernelParams = args;
	return QUIET(cuGraphAddKernelNode_v2, node, graph, deps, count, &params);
}

static void create_errors(void)
{
	POISONED(CUgraph, graph);
	CALL(cuGraphCreate, NULL, 0);
	CALL(cuGraphCreate, &graph, 1);
	HANDLE(graph);
	CALL(cuGraphDestroy, NULL);
	CALL(cuGraphExecDestroy, NULL);
	CALL(cuGraphLaunch, NULL, NULL);
	CALL(cuGraphInstantiateWithFlags, NULL, NULL, 0);
	CALL(cuGraphDestroyNode, NULL);
	CALL(cuGraphClone, NULL, NULL);
}

static void empty(void)
{
	POISONED(CUgraph, graph);
	POISONED(CUgraphExec, exec);
	size_t n = POISON_64;
	CALL(cuGraphCreate, &graph, 0);
	NEWHANDLE(graph);
	CALL(cuGraphGetNodes, graph, NULL, &n);
	SIZE(n);
	CALL(cuGraphGetRootNodes, graph, NULL, &n);
	SIZE(n);
	CALL(cuGraphGetEdges, graph, NULL, NULL, &n);
	SIZE(n);
	CALL(cuGraphInstantiateWithFlags, &exec, graph, 0);
	NEWHANDLE(exec);
	CALL(cuGraphLaunch, exec, NULL);
	CALL(cuStreamSynchronize, NULL);
	CALL(cuGraphExecDestroy, exec);
	CALL(cuGraphDestroy, graph);
}

static void nodes(void)
{
	POISONED(CUgraph, graph);
	CUgraphNode a = NULL, b = NULL, c = NULL, list[8];
	CUgraphNodeType type = (CUgraphNodeType)POISON_32;
	CUdeviceptr p = alloc_quiet(4096, 0);
	size_t n = 8;
	CALL(cuGraphCreate, &graph, 0);
	NOTE("memset node: %d", (int)add_memset(&a, graph, NULL, 0, p, 1, 16));
	CALL(cuGraphAddEmptyNode, &b, graph, &a, 1);
	CALL(cuGraphAddEmptyNode, &c, graph, NULL, 0);
	CALL(cuGraphNodeGetType, a, &type);
	INT(type);
	CALL(cuGraphNodeGetType, b, &type);
	INT(type);
	CALL(cuGraphGetNodes, graph, list, &n);
	SIZE(n);
	n = 2;
	CALL(cuGraphGetNodes, graph, list, &n);
	SIZE(n);
	n = 8;
	CALL(cuGraphGetNodes, graph, list, &n);
	SIZE(n);
	n = 8;
	CALL(cuGraphGetRootNodes, graph, list, &n);
	SIZE(n);
	CALL(cuGraphAddDependencies, graph, &b, &c, 1);
	CALL(cuGraphAddDependencies, graph, &b, &c, 1);
	CALL(cuGraphAddDependencies, graph, &c, &a, 1);
	n = POISON_64;
	CALL(cuGraphGetEdges, graph, NULL, NULL, &n);
	SIZE(n);
	n = POISON_64;
	CALL(cuGraphNodeGetDependencies, c, NULL, &n);
	SIZE(n);
	CALL(cuGraphNodeGetDependentNodes, a, NULL, &n);
	SIZE(n);
	CALL(cuGraphRemoveDependencies, graph, &b, &c, 1);
	CALL(cuGraphRemoveDependencies, graph, &b, &c, 1);
	CALL(cuGraphDestroyNode, b);
	CALL(cuGraphGetNodes, graph, NULL, &n);
	SIZE(n);
	CALL(cuGraphGetNodes, graph, list, NULL);
	CALL(cuGraphGetNodes, NULL, list, &n);
	CALL(cuGraphDestroy, graph);
	CALL(cuMemFree_v2, p);
}

static void cycle(void)
{
	POISONED(CUgraph, graph);
	POISONED(CUgraphExec, exec);
	CUgraphNode a = NULL, b = NULL;
	CALL(cuGraphCreate, &graph, 0);
	CALL(cuGraphAddEmptyNode, &a, graph, NULL, 0);
	CALL(cuGraphAddEmptyNode, &b, graph, &a, 1);
	CALL(cuGraphAddDependencies, graph, &b, &a, 1);
	CALL(cuGraphAddDependencies, graph, &a, &a, 1);
	CALL(cuGraphInstantiateWithFlags, &exec, graph, 0);
	HANDLE(exec);
	CALL(cuGraphDestroy, graph);
}

static void replay(void)
{
	POISONED(CUgraph, graph);
	POISONED(CUgraphExec, exec);
	CUgraphNode a = NULL, b = NULL;
	CUdeviceptr p = alloc_quiet(4096, 0);
	unsigned int one = 1;
	uint64_t words = 1024;
	void *args[] = { &p, &one, &words };
	CUresult r = CUDA_SUCCESS;
	CALL(cuGraphCreate, &graph, 0);
	NOTE("kernel: %d", (int)add_kernel(&a, graph, NULL, 0, kern.add, args));
	NOTE("kernel: %d", (int)add_kernel(&b, graph, &a, 1, kern.add, args));
	CALL(cuGraphInstantiateWithFlags, &exec, graph, 0);
	CALL(cuGraphUpload, exec, NULL);
	for (int i = 0; i < 100 && r == CUDA_SUCCESS; i++)
		r = QUIET(cuGraphLaunch, exec, NULL);
	NOTE("100 launches: %d", (int)r);
	CALL(cuStreamSynchronize, NULL);
	data_u32(p, 4096);
	CALL(cuGraphDestroy, graph);
	CALL(cuGraphLaunch, exec, NULL);
	CALL(cuStreamSynchronize, NULL);
	data_u32(p, 4096);
	CALL(cuGraphExecDestroy, exec);
	CALL(cuMemFree_v2, p);
}

static void captured_replay(void)
{
	POISONED(CUstream, s);
	POISONED(CUgraph, graph);
	POISONED(CUgraphExec, exec);
	uint32_t host = 0;
	CUdeviceptr p = alloc_quiet(4096, 0), q = alloc_quiet(4096, 0);
	unsigned int one = 1;
	uint64_t words = 1024;
	void *args[] = { &p, &one, &words };
	CALL(cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
	CALL(cuStreamBeginCapture_v2, s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
	CALL(cuLaunchKernel, kern.add, 8, 1, 1, 64, 1, 1, 0, s, args, NULL);
	CALL(cuMemcpyDtoDAsync_v2, q, p, 4096, s);
	CALL(cuStreamEndCapture, s, &graph);
	CALL(cuGraphInstantiateWithFlags, &exec, graph, 0);
	for (int i = 0; i < 100; i++)
		QUIET(cuGraphLaunch, exec, s);
	CALL(cuMemcpyDtoHAsync_v2, &host, q, 4, s);
	CALL(cuStreamSynchronize, s);
	HEX(host);
	CALL(cuGraphExecDestroy, exec);
	CALL(cuGraphDestroy, graph);
	CALL(cuStreamDestroy_v2, s);
	CALL(cuMemFree_v2, p);
	CALL(cuMemFree_v2, q);
}

static void instantiate_forms(void)
{
	POISONED(CUgraph, graph);
	POISONED(CUgraphExec, exec);
	CUDA_GRAPH_INSTANTIATE_PARAMS params = { 0 };
	cuuint64_t flags = POISON_64;
	static const unsigned long long all[] = { 0, 1, 2, 4, 8, 16, 0x100 };
	char text[40];
	CALL(cuGraphCreate, &graph, 0);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		exec = (CUgraphExec)(uintptr_t)POISON_64;
		CUresult r = QUIET(cuGraphInstantiateWithFlags, &exec, graph, all[i]);
		out_flush();
		out_append("flags %llu → %s", all[i], result_text(r, text));
		if (r == CUDA_SUCCESS)
			QUIET(cuGraphExecDestroy, exec);
		else
			HANDLE(exec);
	}
	CALL(cuGraphInstantiateWithParams, &exec, graph, &params);
	INT(params.result_out);
	CALL(cuGraphExecGetFlags, exec, &flags);
	SIZE(flags);
	CALL(cuGraphExecDestroy, exec);
	CALL(cuGraphInstantiate_v2, &exec, graph, NULL, NULL, 0);
	CALL(cuGraphExecDestroy, exec);
	CALL(cuGraphInstantiateWithParams, &exec, graph, NULL);
	CALL(cuGraphInstantiateWithFlags, NULL, graph, 0);
	CALL(cuGraphInstantiateWithFlags, &exec, NULL, 0);
	CALL(cuGraphDestroy, graph);
}

static void update(void)
{
	POISONED(CUgraph, graph);
	POISONED(CUgraph, other);
	POISONED(CUgraph, longer);
	POISONED(CUgraphExec, exec);
	CUgraphNode a = NULL, b = NULL;
	CUgraphExecUpdateResultInfo info;
	CUdeviceptr p = alloc_quiet(4096, 0);
	unsigned int one = 1, ten = 10;
	uint64_t words = 1024;
	void *args[] = { &p, &one, &words }, *other_args[] = { &p, &ten, &words };
	CALL(cuGraphCreate, &graph, 0);
	add_kernel(&a, graph, NULL, 0, kern.add, args);
	CALL(cuGraphInstantiateWithFlags, &exec, graph, 0);
	CALL(cuGraphCreate, &other, 0);
	add_kernel(&a, other, NULL, 0, kern.add, other_args);
	memset(&info, 0x5a, sizeof(info));
	CALL(cuGraphExecUpdate_v2, exec, other, &info);
	INT(info.result);
	CALL(cuGraphLaunch, exec, NULL);
	CALL(cuStreamSynchronize, NULL);
	data_u32(p, 4096);
	CALL(cuGraphCreate, &longer, 0);
	add_kernel(&a, longer, NULL, 0, kern.add, args);
	add_kernel(&b, longer, &a, 1, kern.add, args);
	memset(&info, 0x5a, sizeof(info));
	CALL(cuGraphExecUpdate_v2, exec, longer, &info);
	INT(info.result);
	CALL(cuGraphDestroy, longer);
	CALL(cuGraphCreate, &longer, 0);
	add_memset(&a, longer, NULL, 0, p, 1, 4);
	memset(&info, 0x5a, sizeof(info));
	CALL(cuGraphExecUpdate_v2, exec, longer, &info);
	INT(info.result);
	CALL(cuGraphDestroy, longer);
	CALL(cuGraphCreate, &longer, 0);
	add_kernel(&a, longer, NULL, 0, kern.fill, args);
	memset(&info, 0x5a, sizeof(info));
	CALL(cuGraphExecUpdate_v2, exec, longer, &info);
	INT(info.result);
	CALL(cuGraphExecUpdate_v2, exec, other, NULL);
	CALL(cuGraphExecUpdate_v2, exec, NULL, &info);
	CALL(cuGraphExecUpdate_v2, NULL, other, &info);
	CALL(cuGraphLaunch, exec, NULL);
	CALL(cuStreamSynchronize, NULL);
	CALL(cuGraphDestroy, longer);
	CALL(cuGraphDestroy, other);
	CALL(cuGraphDestroy, graph);
	CALL(cuGraphExecDestroy, exec);
	CALL(cuMemFree_v2, p);
}

static void node_parameters(void)
{
	POISONED(CUgraph, graph);
	POISONED(CUgraphExec, exec);
	CUgraphNode a = NULL;
	CUDA_KERNEL_NODE_PARAMS params;
	CUdeviceptr p = alloc_quiet(4096, 0);
	unsigned int one = 1, five = 5;
	unsigned int enabled = POISON_32;
	uint64_t words = 1024;
	void *args[] = { &p, &one, &words }, *other_args[] = { &p, &five, &words };
	CALL(cuGraphCreate, &graph, 0);
	add_kernel(&a, graph, NULL, 0, kern.add, args);
	memset(&params, 0, sizeof(params));
	CALL(cuGraphKernelNodeGetParams_v2, a, &params);
	INT(params.gridDimX);
	INT(params.blockDimX);
	YES(params.func == kern.add);
	YES(params.kernelParams != NULL);
	CALL(cuGraphInstantiateWithFlags, &exec, graph, 0);
	params.kernelParams = other_args;
	CALL(cuGraphExecKernelNodeSetParams_v2, exec, a, &params);
	CALL(cuGraphLaunch, exec, NULL);
	CALL(cuStreamSynchronize, NULL);
	data_u32(p, 4096);
	CALL(cuGraphNodeGetEnabled, exec, a, &enabled);
	INT(enabled);
	CALL(cuGraphNodeSetEnabled, exec, a, 0);
	CALL(cuGraphLaunch, exec, NULL);
	CALL(cuStreamSynchronize, NULL);
	data_u32(p, 4096);
	CALL(cuGraphMemsetNodeGetParams, a, NULL);
	CALL(cuGraphKernelNodeGetParams_v2, a, NULL);
	CALL(cuGraphExecKernelNodeSetParams_v2, exec, a, NULL);
	CALL(cuGraphExecDestroy, exec);
	CALL(cuGraphDestroy, graph);
	CALL(cuMemFree_v2, p);
}

static void clone_child(void)
{
	POISONED(CUgraph, graph);
	POISONED(CUgraph, clone);
	POISONED(CUgraph, inner);
	POISONED(CUgraphExec, exec);
	CUgraphNode a = NULL, found = NULL, child = NULL;
	CUgraphNodeType type = (CUgraphNodeType)POISON_32;
	CUdeviceptr p = alloc_quiet(4096, 0);
	size_t n = POISON_64;
	CALL(cuGraphCreate, &graph, 0);
	add_memset(&a, graph, NULL, 0, p, 0x21, 1024);
	CALL(cuGraphClone, &clone, graph);
	CALL(cuGraphGetNodes, clone, NULL, &n);
	SIZE(n);
	CALL(cuGraphNodeFindInClone, &found, a, clone);
	YES(found != NULL && found != a);
	CALL(cuGraphNodeFindInClone, &found, a, graph);
	CALL(cuGraphAddChildGraphNode, &child, clone, NULL, 0, graph);
	CALL(cuGraphNodeGetType, child, &type);
	INT(type);
	CALL(cuGraphChildGraphNodeGetGraph, child, &inner);
	YES(inner != graph);
	CALL(cuGraphAddChildGraphNode, &child, clone, NULL, 0, NULL);
	CALL(cuGraphDestroy, graph);
	CALL(cuGraphInstantiateWithFlags, &exec, clone, 0);
	CALL(cuGraphLaunch, exec, NULL);
	CALL(cuStreamSynchronize, NULL);
	data_u32(p, 4096);
	CALL(cuGraphExecDestroy, exec);
	CALL(cuGraphDestroy, clone);
	CALL(cuMemFree_v2, p);
}

static int host_calls;

static void on_host(void *arg)
{
	host_calls += *(int *)arg;
}

static void host_nodes(void)
{
	POISONED(CUgraph, graph);
	POISONED(CUgraphExec, exec);
	CUgraphNode a = NULL;
	static int one = 1;
	CUDA_HOST_NODE_PARAMS params = { .fn = on_host, .userData = &one };
	CALL(cuGraphCreate, &graph, 0);
	CALL(cuGraphAddHostNode, &a, graph, NULL, 0, &params);
	CALL(cuGraphInstantiateWithFlags, &exec, graph, 0);
	CALL(cuGraphLaunch, exec, NULL);
	CALL(cuGraphLaunch, exec, NULL);
	CALL(cuStreamSynchronize, NULL);
	INT(host_calls);
	CALL(cuGraphAddHostNode, &a, graph, NULL, 0, NULL);
	CALL(cuGraphExecDestroy, exec);
	CALL(cuGraphDestroy, graph);
}

static void generic_nodes(void)
{
	POISONED(CUgraph, graph);
	CUgraphNode a = NULL;
	CUgraphNodeParams params;
	CALL(cuGraphCreate, &graph, 0);
	memset(&params, 0, sizeof(params));
	params.type = CU_GRAPH_NODE_TYPE_EMPTY;
	CALL(cuGraphAddNode_v2, &a, graph, NULL, NULL, 0, &params);
	memset(&params, 0, sizeof(params));
	params.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
	params.alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	params.alloc.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	params.alloc.bytesize = 4096;
	CALL(cuGraphAddNode_v2, &a, graph, NULL, NULL, 0, &params);
	YES(params.alloc.dptr != 0);
	params.type = (CUgraphNodeType)99;
	CALL(cuGraphAddNode_v2, &a, graph, NULL, NULL, 0, &params);
	CALL(cuGraphAddNode_v2, &a, graph, NULL, NULL, 0, NULL);
	CALL(cuGraphAddNode_v2, NULL, graph, NULL, NULL, 0, &params);
	CALL(cuGraphDestroy, graph);
}

static void destroyed_use(void)
{
	POISONED(CUgraph, graph);
	POISONED(CUgraphExec, exec);
	size_t n = POISON_64;
	CALL(cuGraphCreate, &graph, 0);
	CALL(cuGraphInstantiateWithFlags, &exec, graph, 0);
	CALL(cuGraphDestroy, graph);
	CALL(cuGraphExecDestroy, exec);
	CALL(cuGraphGetNodes, graph, NULL, &n);
	CALL(cuGraphLaunch, exec, NULL);
	CALL(cuGraphDestroy, graph);
}

FAMILY(graph, { "graph", "graph.create-errors", KERNELS, create_errors },
       { "graph", "graph.empty", KERNELS, empty }, { "graph", "graph.nodes", KERNELS, nodes },
       { "graph", "graph.cycle", KERNELS, cycle }, { "graph", "graph.replay", KERNELS, replay },
       { "graph", "graph.captured-replay", KERNELS, captured_replay },
       { "graph", "graph.instantiate-forms", KERNELS, instantiate_forms },
       { "graph", "graph.update", KERNELS, update },
       { "graph", "graph.node-parameters", KERNELS, node_parameters },
       { "graph", "graph.clone-child", KERNELS, clone_child },
       { "graph", "graph.host-nodes", KERNELS, host_nodes },
       { "graph", "graph.generic-nodes", KERNELS, generic_nodes },
       { "graph.bad", "graph.destroyed-use", KERNELS, destroyed_use }, );
