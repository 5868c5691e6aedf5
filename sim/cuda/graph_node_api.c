// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "sim/cuda/graph.h"

/* Adding nodes. */

static CUresult add(CUcontext ctx, CUgraphNode *ret, CUgraph graph, const CUgraphNode *deps,
		    const CUgraphEdgeData *data, size_t count, CUgraphNodeParams *params)
{
	unsigned char buffer[LAUNCH_PARAMS_MAX];
	struct op op;
	CUresult r;

	if (!ret || !params || (count && !deps))
		return CUDA_ERROR_INVALID_VALUE;
	r = graph_check(graph);
	if (r == CUDA_SUCCESS)
		r = graph_params_op(ctx, params, buffer, &op);
	if (r != CUDA_SUCCESS)
		return r;
	if (params->type == CU_GRAPH_NODE_TYPE_GRAPH)
		return params->graph.graph == graph ? CUDA_ERROR_INVALID_VALUE
						    : graph_add_child(graph, params->graph.graph,
								      deps, data, count, ret);
	r = graph_add(graph, params->type, &op, deps, data, count, ret);
	graph_params_done(&op);
	return r;
}

#define ADD_LOG  "%p, %p, %p, %zu", (void *)ret, (void *)graph, (const void *)deps, count
#define ADD_HEAD CUgraphNode *ret, CUgraph graph, const CUgraphNode *deps, size_t count

#define ADD(...) add(call.ctx, ret, graph, deps, NULL, count, &(CUgraphNodeParams){ __VA_ARGS__ })

static CUDA_KERNEL_NODE_PARAMS_v3 from_v1(const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
	CUDA_KERNEL_NODE_PARAMS_v3 out = { .kern = NULL };

	memcpy(&out, params, sizeof(*params)); /* the later versions begin like the first */
	return out;
}

static CUDA_KERNEL_NODE_PARAMS_v3 from_v2(const CUDA_KERNEL_NODE_PARAMS *params)
{
	CUDA_KERNEL_NODE_PARAMS_v3 out;

	memcpy(&out, params, sizeof(out));
	return out;
}

CUresult cuGraphAddKernelNode(ADD_HEAD, const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	return SIM_CALL(
		cuGraphAddKernelNode, SIM_CTX | SIM_LOCK,
		!nodeParams ? CUDA_ERROR_INVALID_VALUE
			    : ADD(.type = CU_GRAPH_NODE_TYPE_KERNEL, .kernel = from_v1(nodeParams)),
		ADD_LOG);
}

CUresult cuGraphAddKernelNode_v2(ADD_HEAD, const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
	return SIM_CALL(
		cuGraphAddKernelNode_v2, SIM_CTX | SIM_LOCK,
		!nodeParams ? CUDA_ERROR_INVALID_VALUE
			    : ADD(.type = CU_GRAPH_NODE_TYPE_KERNEL, .kernel = from_v2(nodeParams)),
		ADD_LOG);
}

CUresult cuGraphAddMemcpyNode(ADD_HEAD, const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
	return SIM_CALL(cuGraphAddMemcpyNode, SIM_CTX | SIM_LOCK,
			!copyParams ? CUDA_ERROR_INVALID_VALUE
				    : ADD(.type = CU_GRAPH_NODE_TYPE_MEMCPY,
					  .memcpy = { .copyCtx = ctx, .copyParams = *copyParams }),
			ADD_LOG);
}

static CUDA_MEMSET_NODE_PARAMS_v2 with_ctx(const CUDA_MEMSET_NODE_PARAMS *params, CUcontext ctx)
{
	return (CUDA_MEMSET_NODE_PARAMS_v2){ params->dst,
					     params->pitch,
					     params->value,
					     params->elementSize,
					     params->width,
					     params->height,
					     ctx };
}

CUresult cuGraphAddMemsetNode(ADD_HEAD, const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)
{
	return SIM_CALL(cuGraphAddMemsetNode, SIM_CTX | SIM_LOCK,
			!memsetParams ? CUDA_ERROR_INVALID_VALUE
				      : ADD(.type = CU_GRAPH_NODE_TYPE_MEMSET,
					    .memset = with_ctx(memsetParams, ctx)),
			ADD_LOG);
}

CUresult cuGraphAddHostNode(ADD_HEAD, const CUDA_HOST_NODE_PARAMS *nodeParams)
{
	return SIM_CALL(cuGraphAddHostNode, SIM_CTX | SIM_LOCK,
			!nodeParams ? CUDA_ERROR_INVALID_VALUE
				    : ADD(.type = CU_GRAPH_NODE_TYPE_HOST,
					  .host = { nodeParams->fn, nodeParams->userData }),
			ADD_LOG);
}

CUresult cuGraphAddEmptyNode(ADD_HEAD)
{
	return SIM_CALL(cuGraphAddEmptyNode, SIM_CTX | SIM_LOCK,
			ADD(.type = CU_GRAPH_NODE_TYPE_EMPTY), ADD_LOG);
}

CUresult cuGraphAddChildGraphNode(ADD_HEAD, CUgraph childGraph)
{
	return SIM_CALL(cuGraphAddChildGraphNode, SIM_CTX | SIM_LOCK,
			ADD(.type = CU_GRAPH_NODE_TYPE_GRAPH, .graph = { .graph = childGraph }),
			ADD_LOG);
}

CUresult cuGraphAddEventRecordNode(ADD_HEAD, CUevent event)
{
	return SIM_CALL(cuGraphAddEventRecordNode, SIM_CTX | SIM_LOCK,
			ADD(.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD, .eventRecord = { event }),
			ADD_LOG);
}

CUresult cuGraphAddEventWaitNode(ADD_HEAD, CUevent event)
{
	return SIM_CALL(cuGraphAddEventWaitNode, SIM_CTX | SIM_LOCK,
			ADD(.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT, .eventWait = { event }),
			ADD_LOG);
}

CUresult cuGraphAddBatchMemOpNode(ADD_HEAD, const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams)
{
	return SIM_CALL(cuGraphAddBatchMemOpNode, SIM_CTX | SIM_LOCK,
			!nodeParams ? CUDA_ERROR_INVALID_VALUE
				    : ADD(.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
					  .memOp = { nodeParams->ctx, nodeParams->count,
						     nodeParams->paramArray, nodeParams->flags }),
			ADD_LOG);
}

static CUresult add_alloc(CUcontext ctx, ADD_HEAD, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
	CUgraphNodeParams generic = { .type = CU_GRAPH_NODE_TYPE_MEM_ALLOC };
	CUresult r;

	if (!params)
		return CUDA_ERROR_INVALID_VALUE;
	generic.alloc.poolProps = params->poolProps;
	generic.alloc.accessDescs = params->accessDescs;
	generic.alloc.accessDescCount = params->accessDescCount;
	generic.alloc.bytesize = params->bytesize;
	r = add(ctx, ret, graph, deps, NULL, count, &generic);
	if (r == CUDA_SUCCESS)
		params->dptr = generic.alloc.dptr;
	return r;
}

CUresult cuGraphAddMemAllocNode(ADD_HEAD, CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams)
{
	return SIM_CALL(cuGraphAddMemAllocNode, SIM_CTX | SIM_LOCK,
			add_alloc(call.ctx, ret, graph, deps, count, nodeParams), ADD_LOG);
}

CUresult cuGraphAddMemFreeNode(ADD_HEAD, CUdeviceptr dptr)
{
	return SIM_CALL(cuGraphAddMemFreeNode, SIM_CTX | SIM_LOCK,
			ADD(.type = CU_GRAPH_NODE_TYPE_MEM_FREE, .free = { dptr }), ADD_LOG);
}

CUresult cuGraphAddNode(ADD_HEAD, CUgraphNodeParams *nodeParams)
{
	return SIM_CALL(cuGraphAddNode, SIM_CTX | SIM_LOCK,
			add(call.ctx, ret, graph, deps, NULL, count, nodeParams), ADD_LOG);
}

CUresult cuGraphAddNode_v2(CUgraphNode *ret, CUgraph graph, const CUgraphNode *deps,
			   const CUgraphEdgeData *dependencyData, size_t count,
			   CUgraphNodeParams *nodeParams)
{
	return SIM_CALL(cuGraphAddNode_v2, SIM_CTX | SIM_LOCK,
			add(call.ctx, ret, graph, deps, dependencyData, count, nodeParams),
			ADD_LOG);
}

CUresult cuGraphAddNode_v3(CUgraphNode *ret, CUgraph graph, const CUgraphNode *deps,
			   const CUgraphEdgeData *dependencyData, size_t count,
			   CUgraphNodeParams *nodeParams)
{
	return SIM_CALL(cuGraphAddNode_v3, SIM_CTX | SIM_LOCK,
			add(call.ctx, ret, graph, deps, dependencyData, count, nodeParams),
			ADD_LOG);
}

/* Reading and changing parameters. */

static CUresult of_kind(CUgraphNode node, enum op_kind kind, const void *ret)
{
	CUresult r = node_check(node);

	if (r != CUDA_SUCCESS)
		return r;
	return ret && node->op.kind == kind && !node->child ? CUDA_SUCCESS
							    : CUDA_ERROR_INVALID_VALUE;
}

static CUresult set_params(CUcontext ctx, CUgraphNode node, CUgraphNodeParams *params)
{
	unsigned char buffer[LAUNCH_PARAMS_MAX];
	struct op op;
	CUresult r = node_check(node);

	if (r != CUDA_SUCCESS)
		return r;
	if (!params || node->type != params->type || node->child ||
	    params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
	    params->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
		return CUDA_ERROR_INVALID_VALUE;
	r = graph_params_op(ctx, params, buffer, &op);
	return r == CUDA_SUCCESS ? graph_node_set(node, &op) : r;
}

#define SET(...) set_params(call.ctx, hNode, &(CUgraphNodeParams){ __VA_ARGS__ })
#define NODE_LOG "%p, %p", (void *)hNode

static CUresult kernel_get_v1(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1 *ret)
{
	CUDA_KERNEL_NODE_PARAMS params;
	CUresult r = of_kind(node, OP_KERNEL, ret);

	if (r == CUDA_SUCCESS)
		r = graph_kernel_params(node, &params);
	if (r == CUDA_SUCCESS) {
		if (!params.func)
			params.func = (CUfunction)(void *)params.kern;
		memcpy(ret, &params, sizeof(*ret));
	}
	return r;
}

static CUresult kernel_get_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *ret)
{
	CUresult r = of_kind(node, OP_KERNEL, ret);

	return r == CUDA_SUCCESS ? graph_kernel_params(node, ret) : r;
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	return SIM_CALL(cuGraphKernelNodeGetParams, SIM_LOCK, kernel_get_v1(hNode, nodeParams),
			NODE_LOG, (void *)nodeParams);
}

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
	return SIM_CALL(cuGraphKernelNodeGetParams_v2, SIM_LOCK, kernel_get_v2(hNode, nodeParams),
			NODE_LOG, (void *)nodeParams);
}

CUresult cuGraphKernelNodeSetParams(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	return SIM_CALL(
		cuGraphKernelNodeSetParams, SIM_CTX | SIM_LOCK,
		!nodeParams ? CUDA_ERROR_INVALID_VALUE
			    : SET(.type = CU_GRAPH_NODE_TYPE_KERNEL, .kernel = from_v1(nodeParams)),
		NODE_LOG, (const void *)nodeParams);
}

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
	return SIM_CALL(
		cuGraphKernelNodeSetParams_v2, SIM_CTX | SIM_LOCK,
		!nodeParams ? CUDA_ERROR_INVALID_VALUE
			    : SET(.type = CU_GRAPH_NODE_TYPE_KERNEL, .kernel = from_v2(nodeParams)),
		NODE_LOG, (const void *)nodeParams);
}

static CUresult memcpy_get(CUgraphNode node, CUDA_MEMCPY3D *ret)
{
	CUresult r = of_kind(node, OP_COPY, ret);

	if (r == CUDA_SUCCESS)
		*ret = node->op.copy.what;
	return r;
}

CUresult cuGraphMemcpyNodeGetParams(CUgraphNode hNode, CUDA_MEMCPY3D *nodeParams)
{
	return SIM_CALL(cuGraphMemcpyNodeGetParams, SIM_LOCK, memcpy_get(hNode, nodeParams),
			NODE_LOG, (void *)nodeParams);
}

CUresult cuGraphMemcpyNodeSetParams(CUgraphNode hNode, const CUDA_MEMCPY3D *nodeParams)
{
	return SIM_CALL(cuGraphMemcpyNodeSetParams, SIM_CTX | SIM_LOCK,
			!nodeParams ? CUDA_ERROR_INVALID_VALUE
				    : SET(.type = CU_GRAPH_NODE_TYPE_MEMCPY,
					  .memcpy = { .copyParams = *nodeParams }),
			NODE_LOG, (const void *)nodeParams);
}

static CUresult memset_get(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *ret)
{
	CUresult r = of_kind(node, OP_SET, ret);

	if (r == CUDA_SUCCESS)
		memcpy(ret, &node->op.set, sizeof(*ret)); /* the later version begins like it */
	return r;
}

CUresult cuGraphMemsetNodeGetParams(CUgraphNode hNode, CUDA_MEMSET_NODE_PARAMS *nodeParams)
{
	return SIM_CALL(cuGraphMemsetNodeGetParams, SIM_LOCK, memset_get(hNode, nodeParams),
			NODE_LOG, (void *)nodeParams);
}

CUresult cuGraphMemsetNodeSetParams(CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS *nodeParams)
{
	return SIM_CALL(cuGraphMemsetNodeSetParams, SIM_CTX | SIM_LOCK,
			!nodeParams ? CUDA_ERROR_INVALID_VALUE
				    : SET(.type = CU_GRAPH_NODE_TYPE_MEMSET,
					  .memset = with_ctx(nodeParams, NULL)),
			NODE_LOG, (const void *)nodeParams);
}

static CUresult host_get(CUgraphNode node, CUDA_HOST_NODE_PARAMS *ret)
{
	CUresult r = of_kind(node, OP_HOST, ret);

	if (r == CUDA_SUCCESS)
		*ret = (CUDA_HOST_NODE_PARAMS){ node->op.host.fn, node->op.host.data };
	return r;
}

CUresult cuGraphHostNodeGetParams(CUgraphNode hNode, CUDA_HOST_NODE_PARAMS *nodeParams)
{
	return SIM_CALL(cuGraphHostNodeGetParams, SIM_LOCK, host_get(hNode, nodeParams), NODE_LOG,
			(void *)nodeParams);
}

CUresult cuGraphHostNodeSetParams(CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS *nodeParams)
{
	return SIM_CALL(cuGraphHostNodeSetParams, SIM_CTX | SIM_LOCK,
			!nodeParams ? CUDA_ERROR_INVALID_VALUE
				    : SET(.type = CU_GRAPH_NODE_TYPE_HOST,
					  .host = { nodeParams->fn, nodeParams->userData }),
			NODE_LOG, (const void *)nodeParams);
}

static CUresult event_get(CUgraphNode node, enum op_kind kind, CUevent *ret)
{
	CUresult r = of_kind(node, kind, ret);

	if (r == CUDA_SUCCESS)
		*ret = node->op.event.event;
	return r;
}

CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode hNode, CUevent *event_out)
{
	return SIM_CALL(cuGraphEventRecordNodeGetEvent, SIM_LOCK,
			event_get(hNode, OP_RECORD, event_out), NODE_LOG, (void *)event_out);
}

CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode hNode, CUevent *event_out)
{
	return SIM_CALL(cuGraphEventWaitNodeGetEvent, SIM_LOCK,
			event_get(hNode, OP_WAIT, event_out), NODE_LOG, (void *)event_out);
}

CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode hNode, CUevent event)
{
	return SIM_CALL(cuGraphEventRecordNodeSetEvent, SIM_CTX | SIM_LOCK,
			SET(.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD, .eventRecord = { event }),
			NODE_LOG, (void *)event);
}

CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode hNode, CUevent event)
{
	return SIM_CALL(cuGraphEventWaitNodeSetEvent, SIM_CTX | SIM_LOCK,
			SET(.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT, .eventWait = { event }),
			NODE_LOG, (void *)event);
}

static CUresult memop_get(CUgraphNode node, CUDA_BATCH_MEM_OP_NODE_PARAMS *ret)
{
	CUresult r = of_kind(node, OP_MEMOP, ret);

	if (r == CUDA_SUCCESS)
		*ret = (CUDA_BATCH_MEM_OP_NODE_PARAMS){ .count = node->op.memop.count,
							.paramArray = node->op.memop.ops,
							.flags = node->op.memop.flags };
	return r;
}

CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode hNode,
					CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams_out)
{
	return SIM_CALL(cuGraphBatchMemOpNodeGetParams, SIM_LOCK, memop_get(hNode, nodeParams_out),
			NODE_LOG, (void *)nodeParams_out);
}

CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode hNode,
					const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams)
{
	return SIM_CALL(cuGraphBatchMemOpNodeSetParams, SIM_CTX | SIM_LOCK,
			!nodeParams ? CUDA_ERROR_INVALID_VALUE
				    : SET(.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
					  .memOp = { nodeParams->ctx, nodeParams->count,
						     nodeParams->paramArray, nodeParams->flags }),
			NODE_LOG, (const void *)nodeParams);
}

static CUresult alloc_get(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *ret)
{
	CUresult r = of_kind(node, OP_ALLOC, ret);

	if (r == CUDA_SUCCESS)
		*ret = node->op.alloc.what;
	return r;
}

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode hNode, CUDA_MEM_ALLOC_NODE_PARAMS *params_out)
{
	return SIM_CALL(cuGraphMemAllocNodeGetParams, SIM_LOCK, alloc_get(hNode, params_out),
			NODE_LOG, (void *)params_out);
}

static CUresult free_get(CUgraphNode node, CUdeviceptr *ret)
{
	CUresult r = of_kind(node, OP_FREE, ret);

	if (r == CUDA_SUCCESS)
		*ret = node->op.free;
	return r;
}

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode hNode, CUdeviceptr *dptr_out)
{
	return SIM_CALL(cuGraphMemFreeNodeGetParams, SIM_LOCK, free_get(hNode, dptr_out), NODE_LOG,
			(void *)dptr_out);
}

CUresult cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
	return SIM_CALL(cuGraphNodeSetParams, SIM_CTX | SIM_LOCK,
			set_params(call.ctx, hNode, nodeParams), NODE_LOG, (void *)nodeParams);
}
