// SPDX-License-Identifier: Apache-2.0
#include "sim/cuda/capture.h"

#include <stdlib.h>
#include <string.h>

static struct list captures = { &captures, &captures };
static unsigned long long next_capture_id = 1;
static uint64_t next_thread_id = 1;

static __thread CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
static __thread uint64_t own_thread_id;

static uint64_t thread_id(void)
{
	if (!own_thread_id)
		own_thread_id = next_thread_id++;
	return own_thread_id;
}

/* Sets of nodes. */

int node_set_add(struct node_set *set, CUgraphNode node)
{
	for (size_t i = 0; i < set->count; i++) {
		if (set->nodes[i] == node)
			return 0;
	}
	if (set->count == set->room) {
		size_t room = set->room ? set->room * 2 : 4;
		CUgraphNode *nodes = reallocarray(set->nodes, room, sizeof(CUgraphNode));
		CUgraphEdgeData *edges = calloc(room, sizeof(*edges));

		if (nodes)
			set->nodes = nodes;
		if (!nodes || !edges) {
			free(edges);
			return -1;
		}
		free(set->edges);
		set->edges = edges;
		set->room = room;
	}
	set->nodes[set->count++] = node;
	return 0;
}

int node_set_add_all(struct node_set *set, const struct node_set *other)
{
	for (size_t i = 0; i < other->count; i++) {
		if (node_set_add(set, other->nodes[i]) < 0)
			return -1;
	}
	return 0;
}

void node_set_clear(struct node_set *set)
{
	set->count = 0;
}

void node_set_fini(struct node_set *set)
{
	free(set->nodes);
	free(set->edges);
	*set = (struct node_set){ 0 };
}

/* What is refused. */

struct capture *capture_find(unsigned long long id)
{
	struct capture *capture;

	list_for_each (capture, &captures, node) {
		if (capture->id == id)
			return capture;
	}
	return NULL;
}

CUresult capture_refuse(CUstream stream)
{
	stream->capture->is_invalid = true;
	return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult capture_refuse_event(CUevent event)
{
	struct capture *capture = capture_find(event->capture_id);

	if (capture)
		capture->is_invalid = true;
	return CUDA_ERROR_CAPTURED_EVENT;
}

CUresult capture_check_legacy(CUstream stream)
{
	CUresult r = CUDA_SUCCESS;
	struct capture *capture;
	CUstream s;

	if (list_is_empty(&captures) || stream->kind != STREAM_LEGACY)
		return CUDA_SUCCESS;
	list_for_each (capture, &captures, node) {
		list_for_each (s, &capture->streams, capture_node) {
			if (s->ctx != stream->ctx || !stream_is_blocking(s))
				continue;
			capture->is_invalid = true;
			r = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
		}
	}
	return r;
}

CUresult sim_exec_ctx_may_sync(CUcontext ctx)
{
	CUresult r = CUDA_SUCCESS;
	struct capture *capture;
	CUstream s;

	list_for_each (capture, &captures, node) {
		list_for_each (s, &capture->streams, capture_node) {
			if (s->ctx != ctx)
				continue;
			capture->is_invalid = true;
			r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
		}
	}
	return r == CUDA_SUCCESS ? sim_exec_unsafe_call() : r;
}

static bool forbids(const struct capture *capture)
{
	if (capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return false;
	if (capture->thread_id == thread_id())
		return true;
	return capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
	       thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult sim_exec_unsafe_call(void)
{
	CUresult r = CUDA_SUCCESS;
	struct capture *capture;

	if (list_is_empty(&captures) || thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_SUCCESS;
	list_for_each (capture, &captures, node) {
		if (!forbids(capture))
			continue;
		capture->is_invalid = true;
		r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	return r;
}

CUresult capture_exchange_mode(CUstreamCaptureMode *mode)
{
	CUstreamCaptureMode old = thread_mode;

	if (!mode)
		return CUDA_ERROR_INVALID_VALUE;
	thread_mode = *mode; /* measured: nonsense is taken and handed back later */
	*mode = old;
	return CUDA_SUCCESS;
}

/* Beginning, growing, ending. */

static void join(struct capture *capture, CUstream stream)
{
	stream->capture = capture;
	node_set_clear(&stream->deps);
	list_append(&capture->streams, &stream->capture_node);
}

static void leave(CUstream stream)
{
	stream->capture = NULL;
	node_set_clear(&stream->deps);
	list_del(&stream->capture_node);
}

static void capture_free(struct capture *capture)
{
	while (!list_is_empty(&capture->streams))
		leave(list_entry(capture->streams.next, struct CUstream_st, capture_node));
	capture->graph->captures--;
	if (capture->owns_graph)
		graph_free(capture->graph);
	list_del(&capture->node);
	free(capture);
}

CUresult capture_begin(CUstream stream, CUgraph graph, const CUgraphNode *deps, size_t count,
		       CUstreamCaptureMode mode)
{
	struct capture *capture;
	CUresult r = CUDA_SUCCESS;

	if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	if (stream->kind == STREAM_LEGACY)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (stream->capture)
		return CUDA_ERROR_ILLEGAL_STATE;
	for (size_t i = 0; i < count; i++) {
		if (node_check(deps[i]) != CUDA_SUCCESS || deps[i]->graph != graph)
			return CUDA_ERROR_INVALID_VALUE;
	}
	capture = calloc(1, sizeof(*capture));
	if (!capture)
		return CUDA_ERROR_OUT_OF_MEMORY;
	list_init(&capture->streams);
	capture->owns_graph = !graph;
	capture->graph = graph;
	if (!graph)
		r = graph_new(&capture->graph);
	if (r != CUDA_SUCCESS) {
		free(capture);
		return r;
	}
	capture->graph->captures++;
	capture->id = next_capture_id++;
	capture->mode = mode;
	capture->thread_id = thread_id();
	capture->origin = stream;
	list_append(&captures, &capture->node);
	join(capture, stream);
	for (size_t i = 0; i < count; i++) {
		if (node_set_add(&stream->deps, deps[i]) < 0) {
			capture_free(capture);
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
	}
	return CUDA_SUCCESS;
}

static bool has_dependents(CUgraphNode node)
{
	CUgraphNode other;

	/* those that depend on it were made after it */
	for (struct list *at = node->node.next; at != &node->graph->nodes; at = at->next) {
		other = list_entry(at, struct CUgraphNode_st, node);
		for (size_t i = 0; i < other->dep_count; i++) {
			if (other->deps[i].from == node)
				return true;
		}
	}
	return false;
}

static bool contains(const struct node_set *set, CUgraphNode node)
{
	for (size_t i = 0; i < set->count; i++) {
		if (set->nodes[i] == node)
			return true;
	}
	return false;
}

/* Is there work on another stream that the origin does not wait for? */
static bool is_unjoined(const struct capture *capture)
{
	CUstream stream;

	list_for_each (stream, &capture->streams, capture_node) {
		for (size_t i = 0; stream != capture->origin && i < stream->deps.count; i++) {
			CUgraphNode node = stream->deps.nodes[i];

			if (!contains(&capture->origin->deps, node) && !has_dependents(node))
				return true;
		}
	}
	return false;
}

/* whatever comes out, the capture is over; without a place for the graph that goes too */
CUresult capture_end(CUstream stream, CUgraph *ret)
{
	struct capture *capture = stream->capture;
	CUresult r = CUDA_SUCCESS;

	if (ret)
		*ret = NULL;
	if (!capture)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (capture->origin != stream) {
		capture->is_invalid = true;
		return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
	}
	if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread_id != thread_id())
		r = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
	else if (capture->is_invalid)
		r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	else if (is_unjoined(capture))
		r = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
	if (r == CUDA_SUCCESS && ret) {
		*ret = capture->graph;
		capture->owns_graph = false;
	}
	capture_free(capture);
	return r;
}

void capture_detach(CUstream stream)
{
	struct capture *capture = stream->capture;

	if (!capture)
		return;
	capture->is_invalid = true;
	leave(stream);
	if (capture->origin == stream) /* nobody is left who could end it */
		capture_free(capture);
}

/* What is captured. */

static CUgraphNodeType type_of(const struct op *op)
{
	switch (op->kind) {
	case OP_KERNEL:
		return CU_GRAPH_NODE_TYPE_KERNEL;
	case OP_COPY:
		return CU_GRAPH_NODE_TYPE_MEMCPY;
	case OP_SET:
		return CU_GRAPH_NODE_TYPE_MEMSET;
	case OP_HOST:
		return CU_GRAPH_NODE_TYPE_HOST;
	case OP_MEMOP:
		return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
	case OP_RECORD:
		return CU_GRAPH_NODE_TYPE_EVENT_RECORD;
	case OP_WAIT:
		return CU_GRAPH_NODE_TYPE_WAIT_EVENT;
	case OP_ALLOC:
		return CU_GRAPH_NODE_TYPE_MEM_ALLOC;
	case OP_FREE:
		return CU_GRAPH_NODE_TYPE_MEM_FREE;
	case OP_GRAPH:
		return CU_GRAPH_NODE_TYPE_GRAPH;
	case OP_EMPTY:
		break;
	}
	return CU_GRAPH_NODE_TYPE_EMPTY;
}

static CUresult add_launch(struct capture *capture, CUstream stream, CUgraphExec exec,
			   CUgraphNode *ret)
{
	CUgraph graph;
	CUresult r = graph_exec_rebuild(exec, &graph);

	if (r != CUDA_SUCCESS)
		return r;
	r = graph_add_child(capture->graph, graph, stream->deps.nodes, NULL, stream->deps.count,
			    ret);
	graph_free(graph);
	return r;
}

CUresult capture_op(CUstream stream, const struct op *op)
{
	struct capture *capture = stream->capture;
	CUgraphNode node;
	CUresult r;

	if (capture->is_invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	r = op_check(stream->ctx, op);
	if (r != CUDA_SUCCESS)
		return r;
	if (op->kind == OP_GRAPH)
		r = add_launch(capture, stream, op->graph, &node);
	else
		r = graph_add(capture->graph, type_of(op), op, stream->deps.nodes, NULL,
			      stream->deps.count, &node);
	if (r != CUDA_SUCCESS) {
		capture->is_invalid = true;
		return r;
	}
	node_set_clear(&stream->deps);
	return node_set_add(&stream->deps, node) < 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult capture_record(CUstream stream, CUevent event, unsigned flags)
{
	struct op op = { .kind = OP_RECORD, .event = { .event = event } };

	if (stream->capture->is_invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (flags & CU_EVENT_RECORD_EXTERNAL)
		return capture_op(stream, &op);
	event->in_capture = true;
	event->capture_id = stream->capture->id;
	node_set_clear(&event->nodes);
	if (node_set_add_all(&event->nodes, &stream->deps) < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	return CUDA_SUCCESS;
}

CUresult capture_wait(CUstream stream, CUevent event, unsigned flags)
{
	struct op op = { .kind = OP_WAIT, .event = { .event = event } };
	struct capture *own = stream->capture;
	struct capture *its = event->in_capture ? capture_find(event->capture_id) : NULL;

	if (own && own->is_invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (flags & CU_EVENT_WAIT_EXTERNAL) {
		if (event->in_capture)
			return capture_refuse_event(event);
		return own ? capture_op(stream, &op) : CUDA_ERROR_INVALID_VALUE;
	}
	if (event->in_capture && !its)
		return CUDA_ERROR_CAPTURED_EVENT;
	if (!its) { /* recorded outside: that work is not part of the graph */
		own->is_invalid = true;
		return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
	}
	if (its->is_invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (own && own != its) {
		own->is_invalid = its->is_invalid = true;
		return CUDA_ERROR_STREAM_CAPTURE_MERGE;
	}
	if (!own && stream->kind == STREAM_LEGACY) {
		its->is_invalid = true;
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	if (!own)
		join(its, stream);
	if (node_set_add_all(&stream->deps, &event->nodes) < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	return CUDA_SUCCESS;
}
