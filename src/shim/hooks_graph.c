// SPDX-License-Identifier: Apache-2.0
/*
 * Graphs with memory in them: nodes that allocate (added by hand or captured), and the calls that
 * turn them into physical memory.  Everything else about graphs passes.
 *
 * A launch that would take the job over its limit fails with CUDA_ERROR_OUT_OF_MEMORY, as it does
 * on a full card.  What a graph asks for is taken beforehand on one device, that of its last node
 * that allocates; in the rare graph that allocates on several, the others' growth is charged behind
 * the call.
 */
#include "shim/graphs.h"

#include "base/size.h"
#include "shim/blocks.h"
#include "shim/devices.h"
#include "shim/guard.h"
#include "shim/hooks.h"
#include "shim/pools.h"
#include "shim/real.h"
#include "shim/reserve.h"

_Atomic uint32_t graphs_have_memory;

/* bit n: graphs of this process allocate on device n */
static _Atomic uint64_t graph_devices;

/* ---- how much a graph asks for ---- */

struct footprint {
	uint64_t bytes;
	CUdevice dev;
	uint64_t epoch; /* of an executable graph: the pool's when it was last launched; 0: never …
			 */
	CUstream stream; /* … and where */
};

static void add_to(struct block *b, void *arg)
{
	const struct footprint *f = arg;

	b->count = size_sat_add(b->count, f->bytes);
	b->charge = CHARGE_NONE;
	b->ctx = NULL;
	b->other = (void *)(uintptr_t)f->dev;
}

static void read_from(struct block *b, void *arg)
{
	struct footprint *f = arg;

	f->bytes = b->count;
	f->dev = (CUdevice)(uintptr_t)b->other;
	f->epoch = b->charge.bytes;
	f->stream = b->ctx;
}

/* a charge of nothing keeps the epoch, and no context ends with a stream's handle */
static void set_launched(struct block *b, void *arg)
{
	const struct footprint *f = arg;

	b->charge.bytes = f->epoch;
	b->ctx = f->stream;
}

static struct footprint footprint_of(uint32_t kind, const void *handle)
{
	struct footprint f = { 0 };

	(void)blocks_visit(kind, (uintptr_t)handle, read_from, &f);
	return f;
}

static void note(uint32_t kind, const void *handle, struct footprint f)
{
	struct block *b;

	if (f.bytes == 0 || blocks_visit(kind, (uintptr_t)handle, add_to, &f))
		return;
	b = blocks_reserve();
	if (!b)
		return; /* uncounted ahead; its growth is settled all the same */
	b->kind = kind;
	b->key = (uintptr_t)handle;
	add_to(b, &f);
	blocks_discard(blocks_insert(b));
}

static void forget(uint32_t kind, const void *handle)
{
	if (graphs_matter())
		blocks_discard(blocks_take(kind, (uintptr_t)handle));
}

void graphs_note_alloc(CUgraph graph, CUdevice dev, uint64_t bytes)
{
	if (dev < 0 && real_cuCtxGetDevice(&dev) != CUDA_SUCCESS)
		return;
	atomic_store_explicit(&graphs_have_memory, 1, memory_order_relaxed);
	if (dev < 64)
		atomic_fetch_or_explicit(&graph_devices, (uint64_t)1 << dev, memory_order_relaxed);
	note(BLOCK_GRAPH, graph, (struct footprint){ .bytes = bytes, .dev = dev });
}

static void note_pool_alloc(CUgraph graph, const CUmemPoolProps *props, uint64_t bytes)
{
	if (props->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
		graphs_note_alloc(graph, props->location.id, bytes);
}

static void note_child(CUgraph graph, CUgraph child)
{
	if (graphs_matter())
		note(BLOCK_GRAPH, graph, footprint_of(BLOCK_GRAPH, child));
}

static void note_node(CUgraph graph, const CUgraphNodeParams *params)
{
	if (params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		note_pool_alloc(graph, &params->alloc.poolProps, params->alloc.bytesize);
	else if (params->type == CU_GRAPH_NODE_TYPE_GRAPH)
		note_child(graph, params->graph.graph);
}

CUresult cuGraphAddMemAllocNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				const CUgraphNode *dependencies, size_t numDependencies,
				CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams)
{
	CUresult rc;

	if (!guard_enter())
		return real_cuGraphAddMemAllocNode(phGraphNode, hGraph, dependencies,
						   numDependencies, nodeParams);
	rc = real_cuGraphAddMemAllocNode(phGraphNode, hGraph, dependencies, numDependencies,
					 nodeParams);
	if (rc == CUDA_SUCCESS)
		note_pool_alloc(hGraph, &nodeParams->poolProps, nodeParams->bytesize);
	guard_leave();
	return rc;
}

CUresult cuGraphAddNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
			size_t numDependencies, CUgraphNodeParams *nodeParams)
{
	CUresult rc;

	if (!guard_enter())
		return real_cuGraphAddNode(phGraphNode, hGraph, dependencies, numDependencies,
					   nodeParams);
	rc = real_cuGraphAddNode(phGraphNode, hGraph, dependencies, numDependencies, nodeParams);
	if (rc == CUDA_SUCCESS)
		note_node(hGraph, nodeParams);
	guard_leave();
	return rc;
}

CUresult cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
			   const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData,
			   size_t numDependencies, CUgraphNodeParams *nodeParams)
{
	CUresult rc;

	if (!guard_enter())
		return real_cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, dependencyData,
					      numDependencies, nodeParams);
	rc = real_cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, dependencyData,
				    numDependencies, nodeParams);
	if (rc == CUDA_SUCCESS)
		note_node(hGraph, nodeParams);
	guard_leave();
	return rc;
}

CUresult cuGraphAddNode_v3(CUgraphNode *phGraphNode, CUgraph hGraph,
			   const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData,
			   size_t numDependencies, CUgraphNodeParams *nodeParams)
{
	CUresult rc;

	if (!guard_enter())
		return real_cuGraphAddNode_v3(phGraphNode, hGraph, dependencies, dependencyData,
					      numDependencies, nodeParams);
	rc = real_cuGraphAddNode_v3(phGraphNode, hGraph, dependencies, dependencyData,
				    numDependencies, nodeParams);
	if (rc == CUDA_SUCCESS)
		note_node(hGraph, nodeParams);
	guard_leave();
	return rc;
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				  const CUgraphNode *dependencies, size_t numDependencies,
				  CUgraph childGraph)
{
	CUresult rc;

	if (!guard_enter())
		return real_cuGraphAddChildGraphNode(phGraphNode, hGraph, dependencies,
						     numDependencies, childGraph);
	rc = real_cuGraphAddChildGraphNode(phGraphNode, hGraph, dependencies, numDependencies,
					   childGraph);
	if (rc == CUDA_SUCCESS)
		note_child(hGraph, childGraph);
	guard_leave();
	return rc;
}

CUresult cuGraphClone(CUgraph *phGraphClone, CUgraph originalGraph)
{
	CUresult rc;

	if (!guard_enter())
		return real_cuGraphClone(phGraphClone, originalGraph);
	rc = real_cuGraphClone(phGraphClone, originalGraph);
	if (rc == CUDA_SUCCESS)
		note_child(*phGraphClone, originalGraph);
	guard_leave();
	return rc;
}

CUresult cuGraphDestroy(CUgraph hGraph)
{
	if (!guard_enter())
		return real_cuGraphDestroy(hGraph);
	forget(BLOCK_GRAPH, hGraph);

	CUresult rc = real_cuGraphDestroy(hGraph);

	guard_leave();
	return rc;
}

/* ---- where the memory appears ---- */

struct growing {
	bool is_watched;
	CUdevice dev;
	struct pool_call call;
};

static bool grow_begin(struct footprint f, struct growing *ret)
{
	struct pool *p;
	int slot;

	*ret = (struct growing){ 0 };
	if (f.bytes == 0)
		return true;
	p = pools_graph(f.dev, &slot);
	if (slot == DEVICES_AWAY)
		return false;
	ret->is_watched = p != NULL;
	ret->dev = f.dev;
	if (p && f.epoch && f.epoch == pools_epoch(p)) { /* it has its memory still */
		ret->call.pool = p;
		ret->call.turn.slot = ACCOUNT_NOWHERE;
		return true;
	}
	return !p || pools_begin(p, f.bytes, &ret->call);
}

/* what graphs took on devices other than that which was charged beforehand */
static void settle_others(CUdevice dev)
{
	uint64_t devices = atomic_load_explicit(&graph_devices, memory_order_relaxed);
	int slot;

	if (dev < 64)
		devices &= ~((uint64_t)1 << dev);
	for (int i = 0; i < 64 && devices >> i; i++) {
		struct pool *p = devices >> i & 1 ? pools_graph(i, &slot) : NULL;

		if (p)
			pools_settle(p);
	}
}

/* a launch cannot be undone: growth that was not to be had is trimmed when it has run */
static void grow_end(struct growing *g)
{
	if (!g->is_watched)
		return;
	settle_others(g->dev);
	if (pools_end(&g->call))
		return;
	pools_freed();
	pools_undone(&g->call);
}

static void instantiated(CUresult rc, const CUgraphExec *exec, struct footprint f,
			 struct growing *g)
{
	grow_end(g);
	if (rc == CUDA_SUCCESS)
		note(BLOCK_GRAPH_EXEC, *exec, f);
}

CUresult cuGraphInstantiate(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode,
			    char *logBuffer, size_t bufferSize)
{
	CUresult rc = CUDA_ERROR_OUT_OF_MEMORY;
	struct footprint f;
	struct growing g;

	if (!graphs_matter() || !guard_enter())
		return real_cuGraphInstantiate(phGraphExec, hGraph, phErrorNode, logBuffer,
					       bufferSize);
	f = footprint_of(BLOCK_GRAPH, hGraph);
	if (grow_begin(f, &g)) {
		rc = real_cuGraphInstantiate(phGraphExec, hGraph, phErrorNode, logBuffer,
					     bufferSize);
		instantiated(rc, phGraphExec, f, &g);
	}
	guard_leave();
	return rc;
}

CUresult cuGraphInstantiate_v2(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode,
			       char *logBuffer, size_t bufferSize)
{
	CUresult rc = CUDA_ERROR_OUT_OF_MEMORY;
	struct footprint f;
	struct growing g;

	if (!graphs_matter() || !guard_enter())
		return real_cuGraphInstantiate_v2(phGraphExec, hGraph, phErrorNode, logBuffer,
						  bufferSize);
	f = footprint_of(BLOCK_GRAPH, hGraph);
	if (grow_begin(f, &g)) {
		rc = real_cuGraphInstantiate_v2(phGraphExec, hGraph, phErrorNode, logBuffer,
						bufferSize);
		instantiated(rc, phGraphExec, f, &g);
	}
	guard_leave();
	return rc;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph,
				     unsigned long long flags)
{
	CUresult rc = CUDA_ERROR_OUT_OF_MEMORY;
	struct footprint f;
	struct growing g;

	if (!graphs_matter() || !guard_enter())
		return real_cuGraphInstantiateWithFlags(phGraphExec, hGraph, flags);
	f = footprint_of(BLOCK_GRAPH, hGraph);
	if (grow_begin(f, &g)) {
		rc = real_cuGraphInstantiateWithFlags(phGraphExec, hGraph, flags);
		instantiated(rc, phGraphExec, f, &g);
	}
	guard_leave();
	return rc;
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph,
				      CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
	CUresult rc = CUDA_ERROR_OUT_OF_MEMORY;
	struct footprint f;
	struct growing g;

	if (!graphs_matter() || !guard_enter())
		return real_cuGraphInstantiateWithParams(phGraphExec, hGraph, instantiateParams);
	f = footprint_of(BLOCK_GRAPH, hGraph);
	if (grow_begin(f, &g)) {
		rc = real_cuGraphInstantiateWithParams(phGraphExec, hGraph, instantiateParams);
		instantiated(rc, phGraphExec, f, &g);
	}
	guard_leave();
	return rc;
}

CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *phGraphExec, CUgraph hGraph,
					   CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
	CUresult rc = CUDA_ERROR_OUT_OF_MEMORY;
	struct footprint f;
	struct growing g;

	if (!graphs_matter() || !guard_enter())
		return real_cuGraphInstantiateWithParams_ptsz(phGraphExec, hGraph,
							      instantiateParams);
	f = footprint_of(BLOCK_GRAPH, hGraph);
	if (grow_begin(f, &g)) {
		rc = real_cuGraphInstantiateWithParams_ptsz(phGraphExec, hGraph, instantiateParams);
		instantiated(rc, phGraphExec, f, &g);
	}
	guard_leave();
	return rc;
}

/* launch and upload, of either default stream */
static CUresult run_exec(pfn_cuGraphLaunch *run, CUgraphExec exec, CUstream stream)
{
	struct footprint f = footprint_of(BLOCK_GRAPH_EXEC, exec);
	struct growing g;
	CUresult rc;

	if (f.stream != stream)
		f.epoch = 0;
	if (!grow_begin(f, &g))
		return CUDA_ERROR_OUT_OF_MEMORY;
	rc = run(exec, stream);
	grow_end(&g);
	if (rc == CUDA_SUCCESS && g.is_watched) {
		f.epoch = pools_epoch(g.call.pool);
		f.stream = stream;
		(void)blocks_visit(BLOCK_GRAPH_EXEC, (uintptr_t)exec, set_launched, &f);
	}
	return rc;
}

CUresult cuGraphLaunch(CUgraphExec hGraph, CUstream hStream)
{
	CUresult rc;

	if (!graphs_matter() || !guard_enter())
		return real_cuGraphLaunch(hGraph, hStream);
	rc = run_exec(real_cuGraphLaunch, hGraph, hStream);
	guard_leave();
	return rc;
}

CUresult cuGraphLaunch_ptsz(CUgraphExec hGraphExec, CUstream hStream)
{
	CUresult rc;

	if (!graphs_matter() || !guard_enter())
		return real_cuGraphLaunch_ptsz(hGraphExec, hStream);
	rc = run_exec(real_cuGraphLaunch_ptsz, hGraphExec, hStream);
	guard_leave();
	return rc;
}

CUresult cuGraphUpload(CUgraphExec hGraph, CUstream hStream)
{
	CUresult rc;

	if (!graphs_matter() || !guard_enter())
		return real_cuGraphUpload(hGraph, hStream);
	rc = run_exec(real_cuGraphUpload, hGraph, hStream);
	guard_leave();
	return rc;
}

CUresult cuGraphUpload_ptsz(CUgraphExec hGraphExec, CUstream hStream)
{
	CUresult rc;

	if (!graphs_matter() || !guard_enter())
		return real_cuGraphUpload_ptsz(hGraphExec, hStream);
	rc = run_exec(real_cuGraphUpload_ptsz, hGraphExec, hStream);
	guard_leave();
	return rc;
}

CUresult cuGraphExecDestroy(CUgraphExec hGraphExec)
{
	CUresult rc;

	if (!graphs_matter() || !guard_enter())
		return real_cuGraphExecDestroy(hGraphExec);
	forget(BLOCK_GRAPH_EXEC, hGraphExec);
	rc = real_cuGraphExecDestroy(hGraphExec);
	pools_freed();
	guard_leave();
	return rc;
}

CUresult cuDeviceGraphMemTrim(CUdevice device)
{
	struct pool *p;
	CUresult rc;
	int slot;

	if (!graphs_matter() || !guard_enter())
		return real_cuDeviceGraphMemTrim(device);
	rc = real_cuDeviceGraphMemTrim(device);
	p = rc == CUDA_SUCCESS ? pools_graph(device, &slot) : NULL;
	if (p)
		pools_settle(p);
	guard_leave();
	return rc;
}
