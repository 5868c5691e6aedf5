// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/copy.h"
#include "sim/cuda/graph.h"
#include "sim/cuda/memop.h"

static CUresult kernel_op(CUcontext ctx, const CUDA_KERNEL_NODE_PARAMS_v3 *params,
			  unsigned char *buffer, struct op *ret)
{
	struct launch launch = {
		.function = params->func ? params->func : (CUfunction)(void *)params->kern,
		.grid = { params->gridDimX, params->gridDimY, params->gridDimZ },
		.block = { params->blockDimX, params->blockDimY, params->blockDimZ },
		.shared_bytes = params->sharedMemBytes,
		.params = params->kernelParams,
		.extra = params->extra,
	};
	CUfunction function;
	CUresult r;

	if (params->func && params->kern)
		return CUDA_ERROR_INVALID_VALUE;
	if (params->ctx) {
		ctx = params->ctx;
		r = sim_ctx_check(ctx);
		if (r != CUDA_SUCCESS)
			return r;
	} else if (slab_is(&function_slab, launch.function)) {
		function = launch.function;
		ctx = function->module->ctx; /* a function says itself where it belongs */
	}
	return launch_op(ctx, &launch, buffer, ret);
}

static CUresult set_op(CUcontext ctx, const CUDA_MEMSET_NODE_PARAMS_v2 *params, struct op *ret)
{
	*ret = (struct op){ .kind = OP_SET, .set = *params };
	return set_check(ctx, params);
}

static CUresult copy_op(CUcontext ctx, const CUDA_MEMCPY_NODE_PARAMS *params, struct op *ret)
{
	struct copy_plan plan;

	*ret = (struct op){ .kind = OP_COPY,
			    .copy = { .what = params->copyParams,
				      .ctx = params->copyCtx ? params->copyCtx : ctx } };
	if (params->flags || params->reserved)
		return CUDA_ERROR_INVALID_VALUE;
	return copy_plan(&params->copyParams, &plan);
}

static CUresult event_op(enum op_kind kind, CUevent event, struct op *ret)
{
	*ret = (struct op){ .kind = kind, .event = { .event = event } };
	return event_check(event) == CUDA_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult memop_op(const CUDA_BATCH_MEM_OP_NODE_PARAMS_v2 *params, struct op *ret)
{
	*ret = (struct op){ .kind = OP_MEMOP,
			    .memop = { .ops = params->paramArray,
				       .count = params->count,
				       .flags = params->flags } };
	if (!params->count || !params->paramArray || params->count > 256)
		return CUDA_ERROR_INVALID_VALUE;
	return memop_check(&ret->memop);
}

static CUresult alloc_op(CUcontext ctx, CUDA_MEM_ALLOC_NODE_PARAMS_v2 *params, struct op *ret)
{
	CUDA_MEM_ALLOC_NODE_PARAMS what = { params->poolProps, params->accessDescs,
					    params->accessDescCount, params->bytesize, 0 };
	CUresult r;

	*ret = (struct op){ .kind = OP_ALLOC };
	if (what.accessDescCount && !what.accessDescs)
		return CUDA_ERROR_INVALID_VALUE;
	r = graph_mem_new(ctx, &what, &ret->alloc.mem);
	ret->alloc.what = what;
	params->dptr = what.dptr;
	return r;
}

static CUresult free_op(CUdeviceptr ptr, struct op *ret)
{
	const struct graph_mem *mem = graph_mem_find(ptr);

	*ret = (struct op){ .kind = OP_FREE, .free = ptr };
	return mem && !mem->has_free_node ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult graph_params_op(CUcontext ctx, CUgraphNodeParams *params, unsigned char *buffer,
			 struct op *ret)
{
	*ret = (struct op){ .kind = OP_EMPTY };
	switch (params->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return kernel_op(ctx, &params->kernel, buffer, ret);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return copy_op(ctx, &params->memcpy, ret);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return set_op(ctx, &params->memset, ret);
	case CU_GRAPH_NODE_TYPE_HOST:
		*ret = (struct op){ .kind = OP_HOST,
				    .host = { .fn = params->host.fn,
					      .data = params->host.userData } };
		return params->host.fn ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	case CU_GRAPH_NODE_TYPE_EMPTY:
		return CUDA_SUCCESS;
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
		return event_op(OP_WAIT, params->eventWait.event, ret);
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return event_op(OP_RECORD, params->eventRecord.event, ret);
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		return memop_op(&params->memOp, ret);
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		return alloc_op(ctx, &params->alloc, ret);
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		return free_op(params->free.dptr, ret);
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return graph_check(params->graph.graph);
	case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
	case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

void graph_params_done(struct op *op)
{
	if (op->kind == OP_ALLOC)
		graph_mem_unref(op->alloc.mem);
}

/* the parameters one by one where their places are known, else as one buffer */
static CUresult make_pointers(CUgraphNode node)
{
	const struct op_kernel *kernel = &node->op.kernel;
	const struct CUfunc_st *function = kernel->resolved;
	bool is_known = slab_is(&function_slab, function) && (function->entry || function->effect);
	size_t offset, bytes, count = 0;

	while (is_known && function_param(function->entry, function->effect, count, &offset,
					  &bytes) == CUDA_SUCCESS)
		count++;
	node->param_pointers = calloc(count + 6, sizeof(void *));
	if (!node->param_pointers)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (size_t i = 0; i < count; i++) {
		(void)function_param(function->entry, function->effect, i, &offset, &bytes);
		node->param_pointers[i] = kernel->params + offset;
	}
	if (is_known)
		return CUDA_SUCCESS;
	node->param_pointers[0] = CU_LAUNCH_PARAM_BUFFER_POINTER;
	node->param_pointers[1] = kernel->params;
	node->param_pointers[2] = CU_LAUNCH_PARAM_BUFFER_SIZE;
	node->param_pointers[3] = &node->param_pointers[5];
	node->param_pointers[4] = CU_LAUNCH_PARAM_END;
	node->param_pointers[5] = (void *)(uintptr_t)kernel->param_bytes;
	return CUDA_SUCCESS;
}

CUresult graph_kernel_params(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *ret)
{
	const struct op_kernel *kernel = &node->op.kernel;
	CUkernel as_kernel = (CUkernel)(void *)kernel->function;
	CUresult r = node->param_pointers ? CUDA_SUCCESS : make_pointers(node);

	if (r != CUDA_SUCCESS)
		return r;
	*ret = (CUDA_KERNEL_NODE_PARAMS){
		.gridDimX = kernel->grid[0],
		.gridDimY = kernel->grid[1],
		.gridDimZ = kernel->grid[2],
		.blockDimX = kernel->block[0],
		.blockDimY = kernel->block[1],
		.blockDimZ = kernel->block[2],
		.sharedMemBytes = kernel->shared_bytes,
	};
	if (slab_is(&kernel_slab, as_kernel))
		ret->kern = as_kernel;
	else
		ret->func = kernel->function;
	if (slab_is(&function_slab, kernel->resolved))
		ret->ctx = kernel->resolved->module->ctx;
	if (node->param_pointers[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
		ret->extra = node->param_pointers;
	else
		ret->kernelParams = node->param_pointers;
	return CUDA_SUCCESS;
}
