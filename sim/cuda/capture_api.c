// SPDX-License-Identifier: Apache-2.0
#include "sim/cuda/capture.h"

static CUresult begin(CUcontext ctx, CUstream handle, enum stream_default dflt,
		      CUstreamCaptureMode mode)
{
	CUstream stream;
	CUresult r = stream_get(ctx, handle, dflt, &stream);

	return r == CUDA_SUCCESS ? capture_begin(stream, NULL, NULL, 0, mode) : r;
}

STREAM_TWINS(cuStreamBeginCapture, cuStreamBeginCapture_ptsz, (CUstream hStream),
	     SIM_CTX | SIM_LOCK, begin(call.ctx, hStream, dflt, CU_STREAM_CAPTURE_MODE_GLOBAL),
	     "%p", (void *)hStream)
STREAM_TWINS(cuStreamBeginCapture_v2, cuStreamBeginCapture_v2_ptsz,
	     (CUstream hStream, CUstreamCaptureMode mode), SIM_CTX | SIM_LOCK,
	     begin(call.ctx, hStream, dflt, mode), "%p, %d", (void *)hStream, (int)mode)

static CUresult begin_to_graph(CUcontext ctx, CUstream handle, enum stream_default dflt,
			       CUgraph graph, const CUgraphNode *deps, size_t count,
			       CUstreamCaptureMode mode)
{
	CUstream stream;
	CUresult r = stream_get(ctx, handle, dflt, &stream);

	if (r == CUDA_SUCCESS)
		r = graph_check(graph);
	if (r == CUDA_SUCCESS && count && !deps)
		r = CUDA_ERROR_INVALID_VALUE;
	return r == CUDA_SUCCESS ? capture_begin(stream, graph, deps, count, mode) : r;
}

STREAM_TWINS(cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph_ptsz,
	     (CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies,
	      const CUgraphEdgeData *dependencyData, size_t numDependencies,
	      CUstreamCaptureMode mode),
	     SIM_CTX | SIM_LOCK,
	     begin_to_graph(call.ctx, hStream, dflt, hGraph, dependencies, numDependencies, mode),
	     "%p, %p, %p, %p, %zu, %d", (void *)hStream, (void *)hGraph, (const void *)dependencies,
	     (const void *)dependencyData, numDependencies, (int)mode)

static CUresult end(CUcontext ctx, CUstream handle, enum stream_default dflt, CUgraph *ret)
{
	CUstream stream;
	CUresult r = stream_get(ctx, handle, dflt, &stream);

	return r == CUDA_SUCCESS ? capture_end(stream, ret) : r;
}

STREAM_TWINS(cuStreamEndCapture, cuStreamEndCapture_ptsz, (CUstream hStream, CUgraph *phGraph),
	     SIM_CTX | SIM_LOCK, end(call.ctx, hStream, dflt, phGraph), "%p, %p", (void *)hStream,
	     (void *)phGraph)

/* asking about the legacy stream is refused too, but harms no capture */
static CUresult check_question(CUstream stream)
{
	CUstream s;

	if (stream->kind != STREAM_LEGACY)
		return CUDA_SUCCESS;
	list_for_each (s, &stream->ctx->exec->streams, node) {
		if (s->capture && stream_is_blocking(s))
			return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	return CUDA_SUCCESS;
}

static CUstreamCaptureStatus status_of(CUstream stream)
{
	if (!stream->capture)
		return CU_STREAM_CAPTURE_STATUS_NONE;
	return stream->capture->is_invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
					   : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

struct answer {
	CUstreamCaptureStatus *status;
	cuuint64_t *id;
	CUgraph *graph;
	const CUgraphNode **deps;
	const CUgraphEdgeData **edges;
	size_t *count;
};

static CUresult info(CUcontext ctx, CUstream handle, enum stream_default dflt, struct answer ret)
{
	CUstream stream;
	CUresult r;

	if (!ret.status)
		return CUDA_ERROR_INVALID_VALUE;
	r = stream_get(ctx, handle, dflt, &stream);
	if (r == CUDA_SUCCESS)
		r = check_question(stream);
	if (r != CUDA_SUCCESS)
		return r;
	*ret.status = status_of(stream);
	if (*ret.status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
		return CUDA_SUCCESS;
	if (ret.id)
		*ret.id = stream->capture->id;
	if (ret.graph)
		*ret.graph = stream->capture->graph;
	if (ret.deps)
		*ret.deps = stream->deps.nodes;
	if (ret.edges)
		*ret.edges = stream->deps.edges;
	if (ret.count)
		*ret.count = stream->deps.count;
	return CUDA_SUCCESS;
}

STREAM_TWINS(cuStreamIsCapturing, cuStreamIsCapturing_ptsz,
	     (CUstream hStream, CUstreamCaptureStatus *captureStatus), SIM_CTX | SIM_LOCK,
	     info(call.ctx, hStream, dflt, (struct answer){ .status = captureStatus }), "%p, %p",
	     (void *)hStream, (void *)captureStatus)
STREAM_TWINS(cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_ptsz,
	     (CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out),
	     SIM_CTX | SIM_LOCK,
	     info(call.ctx, hStream, dflt,
		  (struct answer){ .status = captureStatus_out, .id = id_out }),
	     "%p, %p, %p", (void *)hStream, (void *)captureStatus_out, (void *)id_out)
STREAM_TWINS(cuStreamGetCaptureInfo_v2, cuStreamGetCaptureInfo_v2_ptsz,
	     (CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out,
	      CUgraph *graph_out, const CUgraphNode **dependencies_out,
	      size_t *numDependencies_out),
	     SIM_CTX | SIM_LOCK,
	     info(call.ctx, hStream, dflt,
		  (struct answer){ .status = captureStatus_out,
				   .id = id_out,
				   .graph = graph_out,
				   .deps = dependencies_out,
				   .count = numDependencies_out }),
	     "%p, %p, %p, %p", (void *)hStream, (void *)captureStatus_out, (void *)id_out,
	     (void *)graph_out)
STREAM_TWINS(cuStreamGetCaptureInfo_v3, cuStreamGetCaptureInfo_v3_ptsz,
	     (CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out,
	      CUgraph *graph_out, const CUgraphNode **dependencies_out,
	      const CUgraphEdgeData **edgeData_out, size_t *numDependencies_out),
	     SIM_CTX | SIM_LOCK,
	     info(call.ctx, hStream, dflt,
		  (struct answer){ .status = captureStatus_out,
				   .id = id_out,
				   .graph = graph_out,
				   .deps = dependencies_out,
				   .edges = edgeData_out,
				   .count = numDependencies_out }),
	     "%p, %p, %p, %p", (void *)hStream, (void *)captureStatus_out, (void *)id_out,
	     (void *)graph_out)

static CUresult update(CUcontext ctx, CUstream handle, enum stream_default dflt, CUgraphNode *nodes,
		       size_t count, unsigned flags)
{
	CUstream stream;
	CUresult r = stream_get(ctx, handle, dflt, &stream);

	if (r != CUDA_SUCCESS)
		return r;
	if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES || (count && !nodes))
		return CUDA_ERROR_INVALID_VALUE;
	if (!stream->capture)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (stream->capture->is_invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	for (size_t i = 0; i < count; i++) {
		if (node_check(nodes[i]) != CUDA_SUCCESS ||
		    nodes[i]->graph != stream->capture->graph)
			return CUDA_ERROR_INVALID_VALUE;
	}
	if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES)
		node_set_clear(&stream->deps);
	for (size_t i = 0; i < count; i++) {
		if (node_set_add(&stream->deps, nodes[i]) < 0)
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CUDA_SUCCESS;
}

STREAM_TWINS(cuStreamUpdateCaptureDependencies, cuStreamUpdateCaptureDependencies_ptsz,
	     (CUstream hStream, CUgraphNode *dependencies, size_t numDependencies,
	      unsigned int flags),
	     SIM_CTX | SIM_LOCK,
	     update(call.ctx, hStream, dflt, dependencies, numDependencies, flags),
	     "%p, %p, %zu, %#x", (void *)hStream, (void *)dependencies, numDependencies, flags)
STREAM_TWINS(cuStreamUpdateCaptureDependencies_v2, cuStreamUpdateCaptureDependencies_v2_ptsz,
	     (CUstream hStream, CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData,
	      size_t numDependencies, unsigned int flags),
	     SIM_CTX | SIM_LOCK,
	     update(call.ctx, hStream, dflt, dependencies, numDependencies, flags),
	     "%p, %p, %p, %zu, %#x", (void *)hStream, (void *)dependencies,
	     (const void *)dependencyData, numDependencies, flags)

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	return SIM_CALL(cuThreadExchangeStreamCaptureMode, SIM_LOCK, capture_exchange_mode(mode),
			"%p", (void *)mode);
}

/* Allocations in stream order, where the stream captures. */

CUresult sim_exec_capture_alloc(CUstream handle, bool is_per_thread, struct sim_pool *pool,
				size_t bytes, CUdeviceptr *ret)
{
	struct op op = { .kind = OP_ALLOC };
	CUstream stream;
	CUresult r = stream_get(sim_ctx_current(), handle,
				is_per_thread ? DEFAULT_PER_THREAD : DEFAULT_LEGACY, &stream);

	(void)pool; /* a graph has memory of its own; the pool only says where: on the device */
	if (r != CUDA_SUCCESS)
		return r;
	op.alloc.what.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	op.alloc.what.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	op.alloc.what.poolProps.location.id = stream->ctx->device->ordinal;
	op.alloc.what.bytesize = bytes;
	r = graph_mem_new(stream->ctx, &op.alloc.what, &op.alloc.mem);
	if (r != CUDA_SUCCESS)
		return r;
	r = capture_op(stream, &op);
	if (r == CUDA_SUCCESS)
		*ret = op.alloc.what.dptr;
	graph_mem_unref(op.alloc.mem);
	return r;
}

CUresult sim_exec_capture_free(CUstream handle, bool is_per_thread, CUdeviceptr ptr)
{
	struct op op = { .kind = OP_FREE, .free = ptr };
	CUstream stream;
	CUresult r = stream_get(sim_ctx_current(), handle,
				is_per_thread ? DEFAULT_PER_THREAD : DEFAULT_LEGACY, &stream);

	if (r != CUDA_SUCCESS)
		return r;
	if (!graph_mem_find(ptr) || graph_mem_find(ptr)->has_free_node)
		return CUDA_ERROR_INVALID_VALUE;
	return capture_op(stream, &op);
}
