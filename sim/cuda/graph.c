// SPDX-License-Identifier: Apache-2.0
#include "sim/cuda/graph.h"

#include <stdlib.h>
#include <string.h>

struct slab graph_slab = SLAB_INIT(struct CUgraph_st, GRAPH_MAGIC);
struct slab graph_node_slab = SLAB_INIT(struct CUgraphNode_st, GRAPH_NODE_MAGIC);

static unsigned long long next_graph_id = 1;

CUresult graph_check(CUgraph graph)
{
	return slab_is(&graph_slab, graph) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult node_check(CUgraphNode node)
{
	return slab_is(&graph_node_slab, node) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult graph_new(CUgraph *ret)
{
	CUgraph graph = slab_new(&graph_slab);

	if (!graph)
		return CUDA_ERROR_OUT_OF_MEMORY;
	list_init(&graph->nodes);
	graph->id = next_graph_id++;
	*ret = graph;
	return CUDA_SUCCESS;
}

CUgraph graph_root(CUgraph graph)
{
	while (graph->parent)
		graph = graph->parent->graph;
	return graph;
}

static void count_memory(CUgraph graph, int change)
{
	for (;; graph = graph->parent->graph) {
		graph->memory_nodes += (unsigned)change;
		if (!graph->parent)
			return;
	}
}

static bool is_memory(CUgraphNodeType type)
{
	return type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || type == CU_GRAPH_NODE_TYPE_MEM_FREE;
}

void graph_node_free(CUgraphNode node)
{
	CUgraph graph = node->graph;

	list_del(&node->node);
	graph->node_count--;
	if (is_memory(node->type))
		count_memory(graph, -1);
	if (node->op.kind == OP_FREE)
		graph_mem_mark_free(node->op.free, false);
	if (node->child) {
		node->child->parent = NULL;
		graph_free(node->child);
	}
	op_fini(&node->op);
	free(node->deps);
	free(node->param_pointers);
	free(node->attrs);
	slab_free(&graph_node_slab, node);
}

void graph_free(CUgraph graph)
{
	graph_exec_forget(graph);
	while (!list_is_empty(&graph->nodes))
		graph_node_free(list_entry(graph->nodes.prev, struct CUgraphNode_st, node));
	user_objects_free(&graph->user_objects);
	slab_free(&graph_slab, graph);
}

CUresult graph_link(CUgraphNode from, CUgraphNode to, const CUgraphEdgeData *data)
{
	if (from == to || from->graph != to->graph)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < to->dep_count; i++) {
		if (to->deps[i].from == from)
			return CUDA_ERROR_INVALID_VALUE;
	}
	if (to->dep_count == to->dep_room) {
		size_t room = to->dep_room ? to->dep_room * 2 : 2;
		struct graph_edge *deps = reallocarray(to->deps, room, sizeof(*deps));

		if (!deps)
			return CUDA_ERROR_OUT_OF_MEMORY;
		to->deps = deps;
		to->dep_room = room;
	}
	to->deps[to->dep_count] = (struct graph_edge){ .from = from };
	if (data)
		to->deps[to->dep_count].data = *data;
	to->dep_count++;
	return CUDA_SUCCESS;
}

CUresult graph_unlink(CUgraphNode from, CUgraphNode to)
{
	for (size_t i = 0; i < to->dep_count; i++) {
		if (to->deps[i].from != from)
			continue;
		memmove(&to->deps[i], &to->deps[i + 1],
			(to->dep_count - i - 1) * sizeof(to->deps[0]));
		to->dep_count--;
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

static CUresult node_new(CUgraph graph, CUgraphNodeType type, CUgraphNode *ret)
{
	CUgraphNode node = slab_new(&graph_node_slab);

	if (!node)
		return CUDA_ERROR_OUT_OF_MEMORY;
	node->graph = graph;
	node->type = type;
	node->id = graph->next_node_id++;
	list_append(&graph->nodes, &node->node);
	graph->node_count++;
	if (is_memory(type))
		count_memory(graph, 1);
	*ret = node;
	return CUDA_SUCCESS;
}

static CUresult link_all(CUgraphNode node, const CUgraphNode *deps, const CUgraphEdgeData *data,
			 size_t count)
{
	if (count && !deps)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++) {
		CUresult r = node_check(deps[i]);

		if (r == CUDA_SUCCESS)
			r = graph_link(deps[i], node, data ? &data[i] : NULL);
		if (r != CUDA_SUCCESS)
			return r;
	}
	return CUDA_SUCCESS;
}

CUresult graph_add(CUgraph graph, CUgraphNodeType type, const struct op *op,
		   const CUgraphNode *deps, const CUgraphEdgeData *data, size_t count,
		   CUgraphNode *ret)
{
	CUgraphNode node;
	CUresult r = node_new(graph, type, &node);

	if (r != CUDA_SUCCESS)
		return r;
	if (op_clone(&node->op, op) < 0)
		r = CUDA_ERROR_OUT_OF_MEMORY;
	if (r == CUDA_SUCCESS)
		r = link_all(node, deps, data, count);
	if (r == CUDA_SUCCESS && op->kind == OP_FREE)
		graph_mem_mark_free(op->free, true);
	if (r != CUDA_SUCCESS) {
		graph_node_free(node);
		return r;
	}
	*ret = node;
	return CUDA_SUCCESS;
}

CUresult graph_add_child(CUgraph graph, CUgraph child, const CUgraphNode *deps,
			 const CUgraphEdgeData *data, size_t count, CUgraphNode *ret)
{
	struct op empty = { .kind = OP_EMPTY };
	CUgraphNode node;
	CUgraph copy;
	CUresult r;

	if (child->memory_nodes)
		return CUDA_ERROR_NOT_SUPPORTED; /* its addresses can exist only once */
	r = graph_clone(child, &copy);
	if (r != CUDA_SUCCESS)
		return r;
	r = graph_add(graph, CU_GRAPH_NODE_TYPE_GRAPH, &empty, deps, data, count, &node);
	if (r != CUDA_SUCCESS) {
		graph_free(copy);
		return r;
	}
	node->child = copy;
	copy->parent = node;
	*ret = node;
	return CUDA_SUCCESS;
}

static CUresult clone_attrs(CUgraphNode dst, const struct CUgraphNode_st *src)
{
	if (!src->attrs)
		return CUDA_SUCCESS;
	dst->attrs = malloc(GRAPH_ATTR_COUNT * sizeof(*dst->attrs));
	if (!dst->attrs)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(dst->attrs, src->attrs, GRAPH_ATTR_COUNT * sizeof(*dst->attrs));
	dst->attr_mask = src->attr_mask;
	return CUDA_SUCCESS;
}

static CUresult clone_node(CUgraph into, CUgraphNode from, CUgraphNode *by_order)
{
	CUgraphNode node;
	CUresult r = node_new(into, from->type, &node);

	if (r != CUDA_SUCCESS)
		return r;
	node->origin = from;
	node->id = from->id;
	by_order[from->order] = node;
	if (op_clone(&node->op, &from->op) < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = clone_attrs(node, from);
	if (r == CUDA_SUCCESS && from->child) {
		r = graph_clone(from->child, &node->child);
		if (r == CUDA_SUCCESS)
			node->child->parent = node;
	}
	return r;
}

CUresult graph_clone(CUgraph graph, CUgraph *ret)
{
	CUgraphNode *by_order, node;
	unsigned order = 0;
	CUgraph copy;
	CUresult r;

	if (graph->memory_nodes)
		return CUDA_ERROR_NOT_SUPPORTED;
	by_order = calloc(graph->node_count + 1, sizeof(CUgraphNode));
	if (!by_order)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = graph_new(&copy);
	if (r == CUDA_SUCCESS) {
		list_for_each (node, &graph->nodes, node)
			node->order = order++;
		list_for_each (node, &graph->nodes, node) {
			r = clone_node(copy, node, by_order);
			if (r != CUDA_SUCCESS)
				break;
		}
		list_for_each (node, &graph->nodes, node) {
			for (size_t i = 0; r == CUDA_SUCCESS && i < node->dep_count; i++)
				r = graph_link(by_order[node->deps[i].from->order],
					       by_order[node->order], &node->deps[i].data);
		}
		copy->next_node_id = graph->next_node_id;
		if (r == CUDA_SUCCESS &&
		    user_objects_copy(&copy->user_objects, graph->user_objects) < 0)
			r = CUDA_ERROR_OUT_OF_MEMORY;
		if (r != CUDA_SUCCESS)
			graph_free(copy);
		else
			*ret = copy;
	}
	free(by_order);
	return r;
}

CUresult graph_node_set(CUgraphNode node, const struct op *op)
{
	struct op copy;

	if (op->kind != node->op.kind)
		return CUDA_ERROR_INVALID_VALUE;
	if (op_clone(&copy, op) < 0) {
		op_fini(&copy);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	op_fini(&node->op);
	node->op = copy;
	free(node->param_pointers);
	node->param_pointers = NULL;
	return CUDA_SUCCESS;
}

/* edges from each node, one list behind the other: starts[order] … starts[order + 1] */
static unsigned *outgoing(CUgraph graph, unsigned **ret_starts)
{
	unsigned *starts = calloc(graph->node_count + 2, sizeof(*starts));
	unsigned edges = 0, *targets;
	CUgraphNode node;

	if (!starts)
		return NULL;
	list_for_each (node, &graph->nodes, node) {
		for (size_t i = 0; i < node->dep_count; i++, edges++)
			starts[node->deps[i].from->order + 2]++;
	}
	for (unsigned i = 2; i < graph->node_count + 2; i++)
		starts[i] += starts[i - 1];
	targets = calloc(edges + 1, sizeof(*targets));
	if (!targets) {
		free(starts);
		return NULL;
	}
	list_for_each (node, &graph->nodes, node) {
		for (size_t i = 0; i < node->dep_count; i++)
			targets[starts[node->deps[i].from->order + 1]++] = node->order;
	}
	*ret_starts = starts;
	return targets;
}

CUresult graph_sort(CUgraph graph, CUgraphNode **ret)
{
	CUgraphNode *nodes = calloc(graph->node_count + 1, sizeof(CUgraphNode));
	CUgraphNode *sorted = calloc(graph->node_count + 1, sizeof(CUgraphNode));
	unsigned *starts = NULL, *targets = NULL;
	unsigned count = 0, done = 0;
	CUgraphNode node;

	list_for_each (node, &graph->nodes, node)
		node->order = count++;
	if (nodes && sorted)
		targets = outgoing(graph, &starts);
	if (!targets) {
		free(nodes);
		free(sorted);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	count = 0;
	list_for_each (node, &graph->nodes, node) {
		nodes[node->order] = node;
		node->unmet = (unsigned)node->dep_count;
		if (!node->unmet)
			sorted[count++] = node;
	}
	for (; done < count; done++) {
		unsigned order = sorted[done]->order;

		for (unsigned i = starts[order]; i < starts[order + 1]; i++) {
			if (!--nodes[targets[i]]->unmet)
				sorted[count++] = nodes[targets[i]];
		}
	}
	free(nodes);
	free(starts);
	free(targets);
	if (count != graph->node_count) {
		free(sorted);
		return CUDA_ERROR_INVALID_VALUE;
	}
	for (unsigned i = 0; i < count; i++)
		sorted[i]->order = i;
	*ret = sorted;
	return CUDA_SUCCESS;
}
