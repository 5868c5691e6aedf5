// SPDX-License-Identifier: Apache-2.0
#include "sim/cuda/graph.h"

#include <stdlib.h>
#include <string.h>

struct slab graph_exec_slab = SLAB_INIT(struct CUgraphExec_st, GRAPH_EXEC_MAGIC);

static struct list memory_execs = { &memory_execs, &memory_execs };
static unsigned long long next_exec_id = 1;

CUresult graph_exec_check(CUgraphExec exec)
{
	return slab_is(&graph_exec_slab, exec) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static void exec_node_fini(struct exec_node *node)
{
	op_fini(&node->op);
	free(node->deps);
}

void graph_exec_free(CUgraphExec exec)
{
	for (unsigned i = 0; i < exec->count; i++)
		exec_node_fini(&exec->nodes[i]);
	free(exec->nodes);
	free(exec->end_ns);
	user_objects_free(&exec->user_objects);
	if (exec->graph)
		exec->graph->memory_execs--;
	list_del(&exec->node);
	slab_free(&graph_exec_slab, exec);
}

void graph_exec_forget(CUgraph graph)
{
	CUgraphExec exec;

	list_for_each (exec, &memory_execs, node) {
		if (exec->graph == graph)
			exec->graph = NULL;
	}
}

/* a growing array of indices */
struct indices {
	unsigned *at;
	unsigned count, room;
};

static int indices_add(struct indices *set, unsigned index)
{
	if (set->count == set->room) {
		unsigned room = set->room ? set->room * 2 : 4;
		unsigned *at = reallocarray(set->at, room, sizeof(*at));

		if (!at)
			return -1;
		set->at = at;
		set->room = room;
	}
	set->at[set->count++] = index;
	return 0;
}

/* @deps becomes the exec's, also on failure */
static CUresult append(CUgraphExec exec, CUgraphNode origin, const struct op *op,
		       struct indices *deps)
{
	struct exec_node *node;

	if (exec->count == exec->room) {
		unsigned room = exec->room ? exec->room * 2 : 16;
		struct exec_node *nodes = reallocarray(exec->nodes, room, sizeof(*nodes));

		if (!nodes) {
			free(deps->at);
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
		exec->nodes = nodes;
		exec->room = room;
	}
	node = &exec->nodes[exec->count];
	*node = (struct exec_node){
		.origin = origin, .type = origin->type, .deps = deps->at, .dep_count = deps->count
	};
	origin->exec_index = exec->count++;
	return op_clone(&node->op, op) < 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static CUresult flatten(CUgraphExec exec, CUgraph graph, const struct indices *before);

/* the flat nodes that a child graph ends with; @before when it has none */
static int child_ends(CUgraph child, const struct indices *before, struct indices *ret)
{
	CUgraphNode node;

	list_for_each (node, &child->nodes, node)
		node->unmet = 0;
	list_for_each (node, &child->nodes, node) {
		for (size_t i = 0; i < node->dep_count; i++)
			node->deps[i].from->unmet++;
	}
	list_for_each (node, &child->nodes, node) {
		if (!node->unmet && indices_add(ret, node->exec_index) < 0)
			return -1;
	}
	for (unsigned i = 0; !child->node_count && i < before->count; i++) {
		if (indices_add(ret, before->at[i]) < 0)
			return -1;
	}
	return 0;
}

static CUresult flatten_node(CUgraphExec exec, CUgraphNode node, const struct indices *before)
{
	struct indices deps = { 0 }, ends = { 0 };
	CUresult r = CUDA_SUCCESS;

	for (size_t i = 0; i < node->dep_count; i++) {
		if (indices_add(&deps, node->deps[i].from->exec_index) < 0)
			goto no_memory;
	}
	for (unsigned i = 0; !node->dep_count && i < before->count; i++) {
		if (indices_add(&deps, before->at[i]) < 0)
			goto no_memory;
	}
	if (!node->child)
		return append(exec, node, &node->op, &deps);
	r = flatten(exec, node->child, &deps);
	if (r == CUDA_SUCCESS && child_ends(node->child, &deps, &ends) < 0)
		r = CUDA_ERROR_OUT_OF_MEMORY;
	free(deps.at);
	if (r == CUDA_SUCCESS)
		return append(exec, node, &node->op, &ends);
	free(ends.at);
	return r;
no_memory:
	free(deps.at);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult flatten(CUgraphExec exec, CUgraph graph, const struct indices *before)
{
	CUgraphNode *sorted = NULL;
	CUresult r = graph_sort(graph, &sorted);

	for (unsigned i = 0; r == CUDA_SUCCESS && i < graph->node_count; i++)
		r = flatten_node(exec, sorted[i], before);
	free(sorted);
	return r;
}

CUresult graph_exec_new(CUgraph graph, unsigned long long flags, CUgraphNode *ret_error,
			CUgraphExec *ret)
{
	const struct indices nothing = { 0 };
	CUgraphExec exec;
	CUresult r;

	if (ret_error)
		*ret_error = NULL;
	if (graph->memory_nodes && graph->memory_execs)
		return CUDA_ERROR_NOT_SUPPORTED; /* its addresses can be in use only once */
	exec = slab_new(&graph_exec_slab);
	if (!exec)
		return CUDA_ERROR_OUT_OF_MEMORY;
	exec->flags = flags;
	exec->id = next_exec_id++;
	exec->has_memory = graph->memory_nodes;
	r = flatten(exec, graph, &nothing);
	if (r == CUDA_SUCCESS) {
		exec->end_ns = calloc(exec->count + 1, sizeof(*exec->end_ns));
		if (!exec->end_ns ||
		    user_objects_copy(&exec->user_objects, graph->user_objects) < 0)
			r = CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (r != CUDA_SUCCESS) {
		graph_exec_free(exec);
		return r;
	}
	if (exec->has_memory) {
		exec->graph = graph;
		graph->memory_execs++;
		list_append(&memory_execs, &exec->node);
	}
	*ret = exec;
	return CUDA_SUCCESS;
}

struct exec_node *graph_exec_find(CUgraphExec exec, CUgraphNode node)
{
	if (node->exec_index < exec->count && exec->nodes[node->exec_index].origin == node)
		return &exec->nodes[node->exec_index];
	for (unsigned i = 0; i < exec->count; i++) {
		if (exec->nodes[i].origin == node)
			return &exec->nodes[i];
	}
	return NULL;
}

CUresult graph_exec_rebuild(CUgraphExec exec, CUgraph *ret)
{
	CUgraphNode *nodes = calloc(exec->count + 1, sizeof(CUgraphNode));
	CUgraph graph;
	CUresult r;

	if (!nodes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = exec->has_memory ? CUDA_ERROR_NOT_SUPPORTED : graph_new(&graph);
	if (r != CUDA_SUCCESS) {
		free(nodes);
		return r;
	}
	for (unsigned i = 0; r == CUDA_SUCCESS && i < exec->count; i++) {
		const struct exec_node *from = &exec->nodes[i];
		bool is_plain = from->type == CU_GRAPH_NODE_TYPE_GRAPH || from->is_disabled;
		const struct op empty = { .kind = OP_EMPTY };

		r = graph_add(graph, is_plain ? CU_GRAPH_NODE_TYPE_EMPTY : from->type,
			      is_plain ? &empty : &from->op, NULL, NULL, 0, &nodes[i]);
		for (unsigned d = 0; r == CUDA_SUCCESS && d < from->dep_count; d++)
			r = graph_link(nodes[from->deps[d]], nodes[i], NULL);
	}
	free(nodes);
	if (r != CUDA_SUCCESS)
		graph_free(graph);
	else
		*ret = graph;
	return r;
}

static CUgraphExecUpdateResult differ(const struct exec_node *old, const struct exec_node *new)
{
	if (old->type != new->type)
		return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
	if (old->dep_count != new->dep_count)
		return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
	for (unsigned d = 0; d < old->dep_count; d++) {
		if (old->deps[d] != new->deps[d])
			return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
	}
	/* memory stays where it is, and what a copy connects stays of one kind */
	if (old->op.kind == OP_ALLOC || old->op.kind == OP_FREE)
		return CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
	if (old->op.kind == OP_COPY &&
	    (old->op.copy.what.srcMemoryType != new->op.copy.what.srcMemoryType ||
	     old->op.copy.what.dstMemoryType != new->op.copy.what.dstMemoryType))
		return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
	return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

/* the ops of @from replace those of @into[0 … count) */
static void take_ops(struct exec_node *into, struct exec_node *from, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		struct op old = into[i].op;

		into[i].op = from[i].op;
		from[i].op = old;
	}
}

CUresult graph_exec_update(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *ret)
{
	CUgraphExec fresh;
	CUresult r;

	*ret = (CUgraphExecUpdateResultInfo){ .result = CU_GRAPH_EXEC_UPDATE_SUCCESS };
	if (exec->has_memory || graph->memory_nodes) {
		ret->result = CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
		return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
	}
	r = graph_exec_new(graph, exec->flags, NULL, &fresh);
	if (r != CUDA_SUCCESS) {
		ret->result = CU_GRAPH_EXEC_UPDATE_ERROR;
		return r;
	}
	if (fresh->count != exec->count)
		ret->result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
	for (unsigned i = 0; ret->result == CU_GRAPH_EXEC_UPDATE_SUCCESS && i < fresh->count; i++) {
		ret->result = differ(&exec->nodes[i], &fresh->nodes[i]);
		if (ret->result != CU_GRAPH_EXEC_UPDATE_SUCCESS)
			ret->errorNode = fresh->nodes[i].origin;
	}
	if (ret->result == CU_GRAPH_EXEC_UPDATE_SUCCESS)
		take_ops(exec->nodes, fresh->nodes, exec->count);
	graph_exec_free(fresh);
	return ret->result == CU_GRAPH_EXEC_UPDATE_SUCCESS ? CUDA_SUCCESS
							   : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

/* the flat nodes of a child graph stand right before the one of its node */
static unsigned flat_count(CUgraph graph)
{
	unsigned count = graph->node_count;
	CUgraphNode node;

	list_for_each (node, &graph->nodes, node) {
		if (node->child)
			count += flat_count(node->child);
	}
	return count;
}

CUresult graph_exec_set_child(CUgraphExec exec, CUgraphNode node, CUgraph child)
{
	struct exec_node *end = graph_exec_find(exec, node);
	unsigned count, first;
	CUgraphExec fresh;
	CUresult r;

	if (!end || !node->child)
		return CUDA_ERROR_INVALID_VALUE;
	count = flat_count(node->child);
	r = graph_exec_new(child, 0, NULL, &fresh);
	if (r != CUDA_SUCCESS)
		return r;
	first = (unsigned)(end - exec->nodes) - count;
	if (fresh->count != count)
		r = CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; r == CUDA_SUCCESS && i < count; i++) {
		if (exec->nodes[first + i].type != fresh->nodes[i].type)
			r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS)
		take_ops(&exec->nodes[first], fresh->nodes, count);
	graph_exec_free(fresh);
	return r;
}
