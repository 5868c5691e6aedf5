// SPDX-License-Identifier: Apache-2.0
/* Allocation nodes: when the card gives, when it gets back. */
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

static void graph_memory(const char *when)
{
	out_flush();
	out_append("# graph memory, %s:", when);
	for (int a = 0; a < 4; a++) {
		uint64_t value = POISON_64;
		QUIET(cuDeviceGetGraphMemAttribute, 0, (CUgraphMem_attribute)a, &value);
		SIZE(value);
	}
	out_flush();
}

static CUresult add_alloc(CUgraphNode *node, CUgraph graph, size_t bytes, CUdeviceptr *p)
{
	CUDA_MEM_ALLOC_NODE_PARAMS params;
	memset(&params, 0, sizeof(params));
	params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	params.bytesize = bytes;
	CUresult r = QUIET(cuGraphAddMemAllocNode, node, graph, NULL, 0, &params);
	*p = params.dptr;
	return r;
}

static void memory_nodes(void)
{
	POISONED(CUgraph, graph);
	POISONED(CUgraphExec, exec);
	CUgraphNode a = NULL, b = NULL, c = NULL;
	CUdeviceptr p = 0;
	mem_mark();
	graph_memory("at first");
	CALL(cuGraphCreate, &graph, 0);
	NOTE("alloc node: %d", (int)add_alloc(&a, graph, 8 * MIB, &p));
	out_append("#");
	NEWPTR(p, 8 * MIB);
	NOTE("memset: %d", (int)add_memset(&b, graph, &a, 1, p, 9, 1024));
	CALL(cuGraphAddMemFreeNode, &c, graph, &b, 1, p);
	mem_delta("nodes added");
	CALL(cuGraphInstantiateWithFlags, &exec, graph, 0);
	graph_memory("instantiated");
	mem_delta("instantiated");
	CALL(cuGraphLaunch, exec, NULL);
	graph_memory("launched");
	mem_delta("launched");
	CALL(cuStreamSynchronize, NULL);
	graph_memory("synchronised");
	CALL(cuGraphExecDestroy, exec);
	graph_memory("exec destroyed");
	mem_delta("exec destroyed");
	CALL(cuGraphDestroy, graph);
	graph_memory("graph destroyed");
	CALL(cuDeviceGraphMemTrim, 0);
	graph_memory("trimmed");
	mem_delta("trimmed");
}

static void memory_kept(void)
{
	POISONED(CUgraph, graph);
	POISONED(CUgraphExec, exec);
	CUgraphNode a = NULL, b = NULL;
	CUdeviceptr p = 0;
	CALL(cuGraphCreate, &graph, 0);
	NOTE("alloc node: %d", (int)add_alloc(&a, graph, 8 * MIB, &p));
	NOTE("memset: %d", (int)add_memset(&b, graph, &a, 1, p, 9, 1024));
	CALL(cuGraphInstantiateWithFlags, &exec, graph, 0);
	CALL(cuGraphLaunch, exec, NULL);
	CALL(cuGraphLaunch, exec, NULL);
	CALL(cuStreamSynchronize, NULL);
	data_u32(p, 4096);
	graph_memory("allocation lives on");
	CALL(cuMemFree_v2, p);
	graph_memory("freed by cuMemFree");
	CALL(cuGraphLaunch, exec, NULL);
	CALL(cuMemFreeAsync, p, NULL);
	CALL(cuStreamSynchronize, NULL);
	CALL(cuGraphLaunch, exec, NULL);
	CALL(cuStreamSynchronize, NULL);
	CALL(cuMemFree_v2, p);
	CALL(cuMemFree_v2, p);
	CALL(cuGraphExecDestroy, exec);
	CALL(cuGraphDestroy, graph);
	CALL(cuDeviceGraphMemTrim, 0);
	graph_memory("trimmed");
}

static void auto_free(void)
{
	POISONED(CUgraph, graph);
	POISONED(CUgraphExec, exec);
	CUgraphNode a = NULL;
	CUdeviceptr p = 0;
	CALL(cuGraphCreate, &graph, 0);
	NOTE("alloc node: %d", (int)add_alloc(&a, graph, 8 * MIB, &p));
	CALL(cuGraphInstantiateWithFlags, &exec, graph,
	     CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
	CALL(cuGraphLaunch, exec, NULL);
	CALL(cuGraphLaunch, exec, NULL);
	CALL(cuStreamSynchronize, NULL);
	graph_memory("launched twice");
	CALL(cuGraphExecDestroy, exec);
	CALL(cuGraphDestroy, graph);
	graph_memory("destroyed");
	CALL(cuMemFree_v2, p);
	CALL(cuDeviceGraphMemTrim, 0);
}

static void memory_errors(void)
{
	POISONED(CUgraph, graph);
	POISONED(CUgraph, clone);
	CUgraphNode a = NULL, b = NULL;
	CUdeviceptr p = 0;
	uint64_t value = POISON_64, zero = 0;
	CALL(cuGraphCreate, &graph, 0);
	NOTE("0 bytes: %d", (int)add_alloc(&a, graph, 0, &p));
	CALL(cuGraphAddMemAllocNode, &a, graph, NULL, 0, NULL);
	CALL(cuGraphAddMemFreeNode, &b, graph, NULL, 0, 0);
	CALL(cuGraphAddMemFreeNode, &b, graph, NULL, 0, 0x1000);
	NOTE("alloc node: %d", (int)add_alloc(&a, graph, 4096, &p));
	CALL(cuGraphAddMemFreeNode, &b, graph, &a, 1, p);
	CALL(cuGraphAddMemFreeNode, &b, graph, &a, 1, p);
	CALL(cuGraphClone, &clone, graph);
	CALL(cuGraphDestroyNode, a);
	CALL(cuGraphDestroy, graph);
	CALL(cuDeviceGetGraphMemAttribute, 0, (CUgraphMem_attribute)9, &value);
	CALL(cuDeviceGetGraphMemAttribute, 0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, NULL);
	CALL(cuDeviceGetGraphMemAttribute, 4096, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &value);
	CALL(cuDeviceSetGraphMemAttribute, 0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &zero);
	CALL(cuDeviceSetGraphMemAttribute, 0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &zero);
	CALL(cuDeviceGraphMemTrim, 4096);
}

static void huge_alloc_node(void)
{
	POISONED(CUgraph, graph);
	POISONED(CUgraphExec, exec);
	CUgraphNode a = NULL;
	CUdeviceptr p = 0;
	CALL(cuGraphCreate, &graph, 0);
	NOTE("1 PiB: %d", (int)add_alloc(&a, graph, (size_t)1 << 50, &p));
	a = NULL;
	NOTE("1 TiB: %d", (int)add_alloc(&a, graph, (size_t)1 << 40, &p));
	CALL(cuGraphInstantiateWithFlags, &exec, graph, 0);
	if ((uintptr_t)exec != POISON_64) {
		CALL(cuGraphLaunch, exec, NULL);
		CALL(cuStreamSynchronize, NULL);
		CALL(cuGraphExecDestroy, exec);
	}
	CALL(cuGraphDestroy, graph);
}

FAMILY(graph_memory, { "graph", "graph.memory-errors", KERNELS, memory_errors },
       { "graph.memory", "graph.memory-nodes", KERNELS | ALONE, memory_nodes },
       { "graph.memory", "graph.memory-kept", KERNELS | ALONE, memory_kept },
       { "graph.memory", "graph.auto-free", KERNELS | ALONE, auto_free },
       { "graph.memory", "graph.huge-alloc-node", KERNELS | ALONE, huge_alloc_node }, );
