// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/clock.h"
#include "sim/cuda/graph.h"

#define KNOWN_FLAGS                                                                             \
	(CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD | \
	 CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH |                                            \
	 CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)

static CUresult instantiate(CUgraphExec *ret, CUgraph graph, unsigned long long flags,
			    CUgraphNode *ret_error)
{
	CUresult r = graph_check(graph);

	if (r != CUDA_SUCCESS || !ret || (flags & ~(unsigned long long)KNOWN_FLAGS))
		return CUDA_ERROR_INVALID_VALUE;
	if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)
		return CUDA_ERROR_INVALID_VALUE; /* no kernel here could launch it */
	return graph_exec_new(graph, flags, ret_error, ret);
}

static CUresult instantiate_log(CUgraphExec *ret, CUgraph graph, CUgraphNode *ret_error, char *log,
				size_t bytes)
{
	if (log && bytes)
		*log = '\0';
	return instantiate(ret, graph, 0, ret_error);
}

CUresult cuGraphInstantiate(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode,
			    char *logBuffer, size_t bufferSize)
{
	return SIM_CALL(cuGraphInstantiate, SIM_CTX | SIM_LOCK,
			instantiate_log(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize),
			"%p, %p", (void *)phGraphExec, (void *)hGraph);
}

CUresult cuGraphInstantiate_v2(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode,
			       char *logBuffer, size_t bufferSize)
{
	return SIM_CALL(cuGraphInstantiate_v2, SIM_CTX | SIM_LOCK,
			instantiate_log(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize),
			"%p, %p", (void *)phGraphExec, (void *)hGraph);
}

/* an upload needs a stream, which only the call with a struct names */
CUresult cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph,
				     unsigned long long flags)
{
	return SIM_CALL(cuGraphInstantiateWithFlags, SIM_CTX | SIM_LOCK,
			flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD
				? CUDA_ERROR_INVALID_VALUE
				: instantiate(phGraphExec, hGraph, flags, NULL),
			"%p, %p, %#llx", (void *)phGraphExec, (void *)hGraph, flags);
}

static CUresult upload(CUcontext ctx, CUgraphExec exec, CUstream handle, enum stream_default dflt)
{
	CUstream stream;
	CUresult r = graph_exec_check(exec);

	if (r == CUDA_SUCCESS)
		r = stream_get(ctx, handle, dflt, &stream);
	if (r != CUDA_SUCCESS)
		return r;
	if (capture_stream_is_active(stream))
		return capture_refuse(stream);
	return CUDA_SUCCESS; /* there is no device side to prepare */
}

static CUresult instantiate_params(CUcontext ctx, CUgraphExec *ret, CUgraph graph,
				   enum stream_default dflt, CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	CUresult r;

	if (!params)
		return CUDA_ERROR_INVALID_VALUE;
	params->hErrNode_out = NULL;
	params->result_out = CUDA_GRAPH_INSTANTIATE_ERROR;
	r = instantiate(ret, graph, params->flags, &params->hErrNode_out);
	if (r == CUDA_SUCCESS && (params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD))
		r = upload(ctx, *ret, params->hUploadStream, dflt);
	if (r == CUDA_SUCCESS)
		params->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
	else if (r == CUDA_ERROR_NOT_SUPPORTED)
		params->result_out = CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED;
	else if (graph_check(graph) == CUDA_SUCCESS && r == CUDA_ERROR_INVALID_VALUE)
		params->result_out = CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
	return r;
}

STREAM_TWINS(cuGraphInstantiateWithParams, cuGraphInstantiateWithParams_ptsz,
	     (CUgraphExec * phGraphExec, CUgraph hGraph,
	      CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams),
	     SIM_CTX | SIM_LOCK,
	     instantiate_params(call.ctx, phGraphExec, hGraph, dflt, instantiateParams),
	     "%p, %p, %p", (void *)phGraphExec, (void *)hGraph, (void *)instantiateParams)

STREAM_TWINS(cuGraphUpload, cuGraphUpload_ptsz, (CUgraphExec hGraph, CUstream hStream),
	     SIM_CTX | SIM_LOCK, upload(call.ctx, hGraph, hStream, dflt), "%p, %p", (void *)hGraph,
	     (void *)hStream)

static CUresult launch(CUcontext ctx, CUgraphExec exec, CUstream handle, enum stream_default dflt)
{
	struct op op = { .kind = OP_GRAPH, .graph = exec };
	CUstream stream;
	CUresult r = graph_exec_check(exec);

	if (r == CUDA_SUCCESS)
		r = stream_get(ctx, handle, dflt, &stream);
	if (r != CUDA_SUCCESS)
		return r;
	if (!capture_stream_is_active(stream)) {
		r = capture_check_legacy(stream);
		if (r == CUDA_SUCCESS)
			r = graph_mem_prepare(exec);
	}
	return r == CUDA_SUCCESS ? op_submit(stream, &op) : r;
}

STREAM_TWINS(cuGraphLaunch, cuGraphLaunch_ptsz, (CUgraphExec hGraph, CUstream hStream),
	     SIM_CTX | SIM_LOCK, launch(call.ctx, hGraph, hStream, dflt), "%p, %p", (void *)hGraph,
	     (void *)hStream)

static CUresult destroy(CUgraphExec exec)
{
	CUresult r = graph_exec_check(exec);

	if (r == CUDA_SUCCESS)
		graph_exec_free(exec);
	queue_run_calls();
	return r;
}

CUresult cuGraphExecDestroy(CUgraphExec hGraphExec)
{
	return SIM_CALL(cuGraphExecDestroy, SIM_LOCK, destroy(hGraphExec), "%p",
			(void *)hGraphExec);
}

static CUresult get_flags(CUgraphExec exec, cuuint64_t *ret)
{
	CUresult r = graph_exec_check(exec);

	if (r != CUDA_SUCCESS || !ret)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = exec->flags & ~(unsigned long long)CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
	return CUDA_SUCCESS;
}

CUresult cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t *flags)
{
	return SIM_CALL(cuGraphExecGetFlags, SIM_LOCK, get_flags(hGraphExec, flags), "%p, %p",
			(void *)hGraphExec, (void *)flags);
}

static CUresult update(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *ret)
{
	CUgraphExecUpdateResultInfo ignored;
	CUresult r = graph_exec_check(exec);

	if (r == CUDA_SUCCESS)
		r = graph_check(graph);
	if (r != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_VALUE;
	return graph_exec_update(exec, graph, ret ? ret : &ignored);
}

CUresult cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph,
			      CUgraphExecUpdateResultInfo *resultInfo)
{
	return SIM_CALL(cuGraphExecUpdate_v2, SIM_CTX | SIM_LOCK,
			update(hGraphExec, hGraph, resultInfo), "%p, %p, %p", (void *)hGraphExec,
			(void *)hGraph, (void *)resultInfo);
}

static CUresult update_v1(CUgraphExec exec, CUgraph graph, CUgraphNode *ret_node,
			  CUgraphExecUpdateResult *ret_result)
{
	CUgraphExecUpdateResultInfo info = { .result = CU_GRAPH_EXEC_UPDATE_ERROR };
	CUresult r = update(exec, graph, &info);

	if (ret_node)
		*ret_node = info.errorNode;
	if (ret_result)
		*ret_result = info.result;
	return r;
}

CUresult cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode *hErrorNode_out,
			   CUgraphExecUpdateResult *updateResult_out)
{
	return SIM_CALL(cuGraphExecUpdate, SIM_CTX | SIM_LOCK,
			update_v1(hGraphExec, hGraph, hErrorNode_out, updateResult_out),
			"%p, %p, %p, %p", (void *)hGraphExec, (void *)hGraph,
			(void *)hErrorNode_out, (void *)updateResult_out);
}

/* Parameters of single nodes of an exec. */

static CUresult find(CUgraphExec exec, CUgraphNode node, struct exec_node **ret)
{
	if (graph_exec_check(exec) != CUDA_SUCCESS || node_check(node) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = graph_exec_find(exec, node);
	return *ret ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static bool may_change(const struct op *old, const struct op *new)
{
	if (old->kind != new->kind || old->kind == OP_ALLOC || old->kind == OP_FREE)
		return false;
	if (old->kind == OP_COPY)
		return old->copy.what.srcMemoryType == new->copy.what.srcMemoryType &&
		       old->copy.what.dstMemoryType == new->copy.what.dstMemoryType;
	return true;
}

static CUresult set_params(CUcontext ctx, CUgraphExec exec, CUgraphNode node,
			   CUgraphNodeParams *params)
{
	unsigned char buffer[LAUNCH_PARAMS_MAX];
	struct exec_node *target;
	struct op op, copy;
	CUresult r = find(exec, node, &target);

	if (r != CUDA_SUCCESS)
		return r;
	if (!params || target->type != params->type ||
	    params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
	    params->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
		return CUDA_ERROR_INVALID_VALUE;
	if (params->type == CU_GRAPH_NODE_TYPE_GRAPH) {
		r = graph_check(params->graph.graph);
		return r == CUDA_SUCCESS ? graph_exec_set_child(exec, node, params->graph.graph)
					 : r;
	}
	r = graph_params_op(ctx, params, buffer, &op);
	if (r != CUDA_SUCCESS)
		return r;
	if (!may_change(&target->op, &op))
		return CUDA_ERROR_INVALID_VALUE;
	if (op_clone(&copy, &op) < 0) {
		op_fini(&copy);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	op_fini(&target->op);
	target->op = copy;
	return CUDA_SUCCESS;
}

#define SET(...) set_params(call.ctx, hGraphExec, hNode, &(CUgraphNodeParams){ __VA_ARGS__ })
#define SET_HEAD CUgraphExec hGraphExec, CUgraphNode hNode
#define SET_LOG  "%p, %p, %p", (void *)hGraphExec, (void *)hNode

static CUDA_KERNEL_NODE_PARAMS_v3 kernel_params(const void *params, size_t bytes)
{
	CUDA_KERNEL_NODE_PARAMS_v3 out = { .kern = NULL };

	memcpy(&out, params, bytes); /* all versions begin alike */
	return out;
}

CUresult cuGraphExecKernelNodeSetParams(SET_HEAD, const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	return SIM_CALL(cuGraphExecKernelNodeSetParams, SIM_CTX | SIM_LOCK,
			!nodeParams ? CUDA_ERROR_INVALID_VALUE
				    : SET(.type = CU_GRAPH_NODE_TYPE_KERNEL,
					  .kernel = kernel_params(nodeParams, sizeof(*nodeParams))),
			SET_LOG, (const void *)nodeParams);
}

CUresult cuGraphExecKernelNodeSetParams_v2(SET_HEAD, const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
	return SIM_CALL(cuGraphExecKernelNodeSetParams_v2, SIM_CTX | SIM_LOCK,
			!nodeParams ? CUDA_ERROR_INVALID_VALUE
				    : SET(.type = CU_GRAPH_NODE_TYPE_KERNEL,
					  .kernel = kernel_params(nodeParams, sizeof(*nodeParams))),
			SET_LOG, (const void *)nodeParams);
}

CUresult cuGraphExecMemcpyNodeSetParams(SET_HEAD, const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
	return SIM_CALL(cuGraphExecMemcpyNodeSetParams, SIM_CTX | SIM_LOCK,
			!copyParams ? CUDA_ERROR_INVALID_VALUE
				    : SET(.type = CU_GRAPH_NODE_TYPE_MEMCPY,
					  .memcpy = { .copyCtx = ctx, .copyParams = *copyParams }),
			SET_LOG, (const void *)copyParams);
}

CUresult cuGraphExecMemsetNodeSetParams(SET_HEAD, const CUDA_MEMSET_NODE_PARAMS *memsetParams,
					CUcontext ctx)
{
	return SIM_CALL(cuGraphExecMemsetNodeSetParams, SIM_CTX | SIM_LOCK,
			!memsetParams
				? CUDA_ERROR_INVALID_VALUE
				: SET(.type = CU_GRAPH_NODE_TYPE_MEMSET,
				      .memset = { memsetParams->dst, memsetParams->pitch,
						  memsetParams->value, memsetParams->elementSize,
						  memsetParams->width, memsetParams->height, ctx }),
			SET_LOG, (const void *)memsetParams);
}

CUresult cuGraphExecHostNodeSetParams(SET_HEAD, const CUDA_HOST_NODE_PARAMS *nodeParams)
{
	return SIM_CALL(cuGraphExecHostNodeSetParams, SIM_CTX | SIM_LOCK,
			!nodeParams ? CUDA_ERROR_INVALID_VALUE
				    : SET(.type = CU_GRAPH_NODE_TYPE_HOST,
					  .host = { nodeParams->fn, nodeParams->userData }),
			SET_LOG, (const void *)nodeParams);
}

CUresult cuGraphExecChildGraphNodeSetParams(SET_HEAD, CUgraph childGraph)
{
	return SIM_CALL(cuGraphExecChildGraphNodeSetParams, SIM_CTX | SIM_LOCK,
			SET(.type = CU_GRAPH_NODE_TYPE_GRAPH, .graph = { .graph = childGraph }),
			SET_LOG, (void *)childGraph);
}

CUresult cuGraphExecEventRecordNodeSetEvent(SET_HEAD, CUevent event)
{
	return SIM_CALL(cuGraphExecEventRecordNodeSetEvent, SIM_CTX | SIM_LOCK,
			SET(.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD, .eventRecord = { event }),
			SET_LOG, (void *)event);
}

CUresult cuGraphExecEventWaitNodeSetEvent(SET_HEAD, CUevent event)
{
	return SIM_CALL(cuGraphExecEventWaitNodeSetEvent, SIM_CTX | SIM_LOCK,
			SET(.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT, .eventWait = { event }), SET_LOG,
			(void *)event);
}

CUresult cuGraphExecBatchMemOpNodeSetParams(SET_HEAD,
					    const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams)
{
	return SIM_CALL(cuGraphExecBatchMemOpNodeSetParams, SIM_CTX | SIM_LOCK,
			!nodeParams ? CUDA_ERROR_INVALID_VALUE
				    : SET(.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
					  .memOp = { nodeParams->ctx, nodeParams->count,
						     nodeParams->paramArray, nodeParams->flags }),
			SET_LOG, (const void *)nodeParams);
}

CUresult cuGraphExecNodeSetParams(SET_HEAD, CUgraphNodeParams *nodeParams)
{
	return SIM_CALL(cuGraphExecNodeSetParams, SIM_CTX | SIM_LOCK,
			set_params(call.ctx, hGraphExec, hNode, nodeParams), SET_LOG,
			(void *)nodeParams);
}

/* only kernels, memsets and copies can be switched off */
static CUresult switchable(CUgraphExec exec, CUgraphNode node, struct exec_node **ret)
{
	CUresult r = find(exec, node, ret);

	if (r != CUDA_SUCCESS)
		return r;
	return (*ret)->op.kind == OP_KERNEL || (*ret)->op.kind == OP_SET ||
			       (*ret)->op.kind == OP_COPY
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_INVALID_VALUE;
}

static CUresult set_enabled(CUgraphExec exec, CUgraphNode node, unsigned enabled)
{
	struct exec_node *target;
	CUresult r = switchable(exec, node, &target);

	if (r == CUDA_SUCCESS)
		target->is_disabled = !enabled;
	return r;
}

CUresult cuGraphNodeSetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int isEnabled)
{
	return SIM_CALL(cuGraphNodeSetEnabled, SIM_LOCK, set_enabled(hGraphExec, hNode, isEnabled),
			"%p, %p, %u", (void *)hGraphExec, (void *)hNode, isEnabled);
}

static CUresult get_enabled(CUgraphExec exec, CUgraphNode node, unsigned *ret)
{
	struct exec_node *target;
	CUresult r = ret ? switchable(exec, node, &target) : CUDA_ERROR_INVALID_VALUE;

	if (r == CUDA_SUCCESS)
		*ret = !target->is_disabled;
	return r;
}

CUresult cuGraphNodeGetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int *isEnabled)
{
	return SIM_CALL(cuGraphNodeGetEnabled, SIM_LOCK, get_enabled(hGraphExec, hNode, isEnabled),
			"%p, %p, %p", (void *)hGraphExec, (void *)hNode, (void *)isEnabled);
}
