// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/graph.h"

static CUresult create(CUgraph *ret, unsigned flags)
{
	return ret && !flags ? graph_new(ret) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphCreate(CUgraph *phGraph, unsigned int flags)
{
	return SIM_CALL(cuGraphCreate, SIM_LOCK, create(phGraph, flags), "%p, %#x", (void *)phGraph,
			flags);
}

static CUresult destroy(CUgraph graph)
{
	CUresult r = graph_check(graph);

	if (r != CUDA_SUCCESS)
		return r;
	if (graph->parent || graph->captures)
		return CUDA_ERROR_INVALID_VALUE; /* somebody else's, or being written */
	graph_free(graph);
	queue_run_calls();
	return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph hGraph)
{
	return SIM_CALL(cuGraphDestroy, SIM_LOCK, destroy(hGraph), "%p", (void *)hGraph);
}

static CUresult clone_graph(CUgraph *ret, CUgraph graph)
{
	CUresult r = graph_check(graph);

	if (r != CUDA_SUCCESS)
		return r;
	return ret ? graph_clone(graph, ret) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphClone(CUgraph *phGraphClone, CUgraph originalGraph)
{
	return SIM_CALL(cuGraphClone, SIM_LOCK, clone_graph(phGraphClone, originalGraph), "%p, %p",
			(void *)phGraphClone, (void *)originalGraph);
}

static CUresult find_in_clone(CUgraphNode *ret, CUgraphNode original, CUgraph graph)
{
	CUgraphNode node;

	if (!ret || graph_check(graph) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_VALUE;
	list_for_each (node, &graph->nodes, node) {
		if (node->origin == original) {
			*ret = node;
			return CUDA_SUCCESS;
		}
	}
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphNodeFindInClone(CUgraphNode *phNode, CUgraphNode hOriginalNode,
				CUgraph hClonedGraph)
{
	return SIM_CALL(cuGraphNodeFindInClone, SIM_LOCK,
			find_in_clone(phNode, hOriginalNode, hClonedGraph), "%p, %p, %p",
			(void *)phNode, (void *)hOriginalNode, (void *)hClonedGraph);
}

static CUresult get_type(CUgraphNode node, CUgraphNodeType *ret)
{
	CUresult r = node_check(node);

	if (r != CUDA_SUCCESS || !ret)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = node->type;
	return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType *type)
{
	return SIM_CALL(cuGraphNodeGetType, SIM_LOCK, get_type(hNode, type), "%p, %p",
			(void *)hNode, (void *)type);
}

static CUresult get_child(CUgraphNode node, CUgraph *ret)
{
	CUresult r = node_check(node);

	if (r != CUDA_SUCCESS || !ret || !node->child)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = node->child;
	return CUDA_SUCCESS;
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph *phGraph)
{
	return SIM_CALL(cuGraphChildGraphNodeGetGraph, SIM_LOCK, get_child(hNode, phGraph),
			"%p, %p", (void *)hNode, (void *)phGraph);
}

/*
 * Lists go out in one way: without an array only their length; with one, as many as fit,
 * the rest of the array filled with zeros, and the true number back.
 */
struct listing {
	CUgraphNode *nodes, *to;
	CUgraphEdgeData *data;
	size_t *count;
	size_t room, found;
};

static void put(struct listing *out, CUgraphNode node, CUgraphNode to, const CUgraphEdgeData *data)
{
	if (out->nodes && out->found < out->room) {
		out->nodes[out->found] = node;
		if (out->to)
			out->to[out->found] = to;
		if (out->data)
			out->data[out->found] = *data;
	}
	out->found++;
}

static CUresult finish(struct listing *out)
{
	for (size_t i = out->found; out->nodes && i < out->room; i++) {
		out->nodes[i] = NULL;
		if (out->to)
			out->to[i] = NULL;
	}
	*out->count = out->nodes ? size_min(out->found, out->room) : out->found;
	return CUDA_SUCCESS;
}

static CUresult get_nodes(CUgraph graph, CUgraphNode *nodes, size_t *count, bool roots_only)
{
	struct listing out = { .nodes = nodes, .count = count };
	CUgraphNode node;

	if (!count || graph_check(graph) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_VALUE;
	out.room = *count;
	list_for_each (node, &graph->nodes, node) {
		if (!roots_only || !node->dep_count)
			put(&out, node, NULL, NULL);
	}
	return finish(&out);
}

CUresult cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes)
{
	return SIM_CALL(cuGraphGetNodes, SIM_LOCK, get_nodes(hGraph, nodes, numNodes, false),
			"%p, %p, %p", (void *)hGraph, (void *)nodes, (void *)numNodes);
}

CUresult cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode *rootNodes, size_t *numRootNodes)
{
	return SIM_CALL(cuGraphGetRootNodes, SIM_LOCK,
			get_nodes(hGraph, rootNodes, numRootNodes, true), "%p, %p, %p",
			(void *)hGraph, (void *)rootNodes, (void *)numRootNodes);
}

static bool is_plain(const CUgraphEdgeData *data)
{
	return !data->from_port && !data->to_port && !data->type;
}

/* the older calls cannot tell what kind an edge is: with others than plain ones they refuse */
static CUresult get_edges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data,
			  size_t *count)
{
	struct listing out = { .nodes = from, .to = to, .data = data, .count = count };
	CUgraphNode node;

	if (!count || graph_check(graph) != CUDA_SUCCESS || !from != !to)
		return CUDA_ERROR_INVALID_VALUE;
	out.room = *count;
	list_for_each (node, &graph->nodes, node) {
		for (size_t i = 0; i < node->dep_count; i++) {
			if (from && !data && !is_plain(&node->deps[i].data))
				return CUDA_ERROR_LOSSY_QUERY;
			put(&out, node->deps[i].from, node, &node->deps[i].data);
		}
	}
	return finish(&out);
}

CUresult cuGraphGetEdges(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to, size_t *numEdges)
{
	return SIM_CALL(cuGraphGetEdges, SIM_LOCK, get_edges(hGraph, from, to, NULL, numEdges),
			"%p, %p, %p, %p", (void *)hGraph, (void *)from, (void *)to,
			(void *)numEdges);
}

CUresult cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to,
			    CUgraphEdgeData *edgeData, size_t *numEdges)
{
	return SIM_CALL(cuGraphGetEdges_v2, SIM_LOCK,
			get_edges(hGraph, from, to, edgeData, numEdges), "%p, %p, %p, %p, %p",
			(void *)hGraph, (void *)from, (void *)to, (void *)edgeData,
			(void *)numEdges);
}

static CUresult get_deps(CUgraphNode node, CUgraphNode *deps, CUgraphEdgeData *data, size_t *count)
{
	struct listing out = { .nodes = deps, .data = data, .count = count };

	if (!count || node_check(node) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_VALUE;
	out.room = *count;
	for (size_t i = 0; i < node->dep_count; i++) {
		if (deps && !data && !is_plain(&node->deps[i].data))
			return CUDA_ERROR_LOSSY_QUERY;
		put(&out, node->deps[i].from, NULL, &node->deps[i].data);
	}
	return finish(&out);
}

CUresult cuGraphNodeGetDependencies(CUgraphNode hNode, CUgraphNode *dependencies,
				    size_t *numDependencies)
{
	return SIM_CALL(cuGraphNodeGetDependencies, SIM_LOCK,
			get_deps(hNode, dependencies, NULL, numDependencies), "%p, %p, %p",
			(void *)hNode, (void *)dependencies, (void *)numDependencies);
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode *dependencies,
				       CUgraphEdgeData *edgeData, size_t *numDependencies)
{
	return SIM_CALL(cuGraphNodeGetDependencies_v2, SIM_LOCK,
			get_deps(hNode, dependencies, edgeData, numDependencies), "%p, %p, %p, %p",
			(void *)hNode, (void *)dependencies, (void *)edgeData,
			(void *)numDependencies);
}

static CUresult get_dependents(CUgraphNode node, CUgraphNode *dependents, CUgraphEdgeData *data,
			       size_t *count)
{
	struct listing out = { .nodes = dependents, .data = data, .count = count };
	CUgraphNode other;

	if (!count || node_check(node) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_VALUE;
	out.room = *count;
	list_for_each (other, &node->graph->nodes, node) {
		for (size_t i = 0; i < other->dep_count; i++) {
			if (other->deps[i].from != node)
				continue;
			if (dependents && !data && !is_plain(&other->deps[i].data))
				return CUDA_ERROR_LOSSY_QUERY;
			put(&out, other, NULL, &other->deps[i].data);
		}
	}
	return finish(&out);
}

CUresult cuGraphNodeGetDependentNodes(CUgraphNode hNode, CUgraphNode *dependentNodes,
				      size_t *numDependentNodes)
{
	return SIM_CALL(cuGraphNodeGetDependentNodes, SIM_LOCK,
			get_dependents(hNode, dependentNodes, NULL, numDependentNodes),
			"%p, %p, %p", (void *)hNode, (void *)dependentNodes,
			(void *)numDependentNodes);
}

CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode hNode, CUgraphNode *dependentNodes,
					 CUgraphEdgeData *edgeData, size_t *numDependentNodes)
{
	return SIM_CALL(cuGraphNodeGetDependentNodes_v2, SIM_LOCK,
			get_dependents(hNode, dependentNodes, edgeData, numDependentNodes),
			"%p, %p, %p, %p", (void *)hNode, (void *)dependentNodes, (void *)edgeData,
			(void *)numDependentNodes);
}

/* Changing the edges and nodes.  Where memory nodes are, what exists must stay. */

static CUresult check_edge(CUgraph graph, CUgraphNode from, CUgraphNode to)
{
	if (node_check(from) != CUDA_SUCCESS || node_check(to) != CUDA_SUCCESS ||
	    from->graph != graph || to->graph != graph)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

static CUresult add_edges(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
			  const CUgraphEdgeData *data, size_t count)
{
	CUresult r = graph_check(graph);

	if (r != CUDA_SUCCESS || (count && (!from || !to)))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; r == CUDA_SUCCESS && i < count; i++)
		r = check_edge(graph, from[i], to[i]);
	for (size_t i = 0; r == CUDA_SUCCESS && i < count; i++)
		r = graph_link(from[i], to[i], data ? &data[i] : NULL);
	return r;
}

CUresult cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
				size_t numDependencies)
{
	return SIM_CALL(cuGraphAddDependencies, SIM_LOCK,
			add_edges(hGraph, from, to, NULL, numDependencies), "%p, %p, %p, %zu",
			(void *)hGraph, (const void *)from, (const void *)to, numDependencies);
}

CUresult cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
				   const CUgraphEdgeData *edgeData, size_t numDependencies)
{
	return SIM_CALL(cuGraphAddDependencies_v2, SIM_LOCK,
			add_edges(hGraph, from, to, edgeData, numDependencies),
			"%p, %p, %p, %p, %zu", (void *)hGraph, (const void *)from, (const void *)to,
			(const void *)edgeData, numDependencies);
}

static CUresult remove_edges(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
			     size_t count)
{
	CUresult r = graph_check(graph);

	if (r != CUDA_SUCCESS || (count && (!from || !to)))
		return CUDA_ERROR_INVALID_VALUE;
	if (graph->memory_nodes)
		return CUDA_ERROR_NOT_SUPPORTED;
	for (size_t i = 0; r == CUDA_SUCCESS && i < count; i++)
		r = check_edge(graph, from[i], to[i]);
	for (size_t i = 0; r == CUDA_SUCCESS && i < count; i++)
		r = graph_unlink(from[i], to[i]);
	return r;
}

CUresult cuGraphRemoveDependencies(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
				   size_t numDependencies)
{
	return SIM_CALL(cuGraphRemoveDependencies, SIM_LOCK,
			remove_edges(hGraph, from, to, numDependencies), "%p, %p, %p, %zu",
			(void *)hGraph, (const void *)from, (const void *)to, numDependencies);
}

CUresult cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode *from,
				      const CUgraphNode *to, const CUgraphEdgeData *edgeData,
				      size_t numDependencies)
{
	return SIM_CALL(cuGraphRemoveDependencies_v2, SIM_LOCK,
			remove_edges(hGraph, from, to, numDependencies), "%p, %p, %p, %p, %zu",
			(void *)hGraph, (const void *)from, (const void *)to,
			(const void *)edgeData, numDependencies);
}

static CUresult destroy_node(CUgraphNode node)
{
	CUgraphNode other;

	if (node_check(node) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_VALUE;
	if (node->graph->memory_nodes)
		return CUDA_ERROR_NOT_SUPPORTED;
	list_for_each (other, &node->graph->nodes, node)
		(void)graph_unlink(node, other); /* most do not depend on it */
	graph_node_free(node);
	return CUDA_SUCCESS;
}

CUresult cuGraphDestroyNode(CUgraphNode hNode)
{
	return SIM_CALL(cuGraphDestroyNode, SIM_LOCK, destroy_node(hNode), "%p", (void *)hNode);
}

/* Attributes of kernel nodes. */

static CUresult kernel_attrs(CUgraphNode node, CUkernelNodeAttrID attr)
{
	if (node_check(node) != CUDA_SUCCESS || node->type != CU_GRAPH_NODE_TYPE_KERNEL ||
	    (unsigned)attr >= GRAPH_ATTR_COUNT)
		return CUDA_ERROR_INVALID_VALUE;
	if (!node->attrs)
		node->attrs = calloc(GRAPH_ATTR_COUNT, sizeof(*node->attrs));
	return node->attrs ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult get_attr(CUgraphNode node, CUkernelNodeAttrID attr, CUkernelNodeAttrValue *ret)
{
	CUresult r = ret ? kernel_attrs(node, attr) : CUDA_ERROR_INVALID_VALUE;

	if (r != CUDA_SUCCESS)
		return r;
	*ret = node->attrs[attr];
	if (node->attr_mask & 1u << attr)
		return r;
	if (attr == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
		ret->cooperative = node->op.kernel.is_cooperative;
	else if (attr == CU_LAUNCH_ATTRIBUTE_PRIORITY)
		ret->priority = node->op.kernel.priority;
	return r;
}

CUresult cuGraphKernelNodeGetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr,
				       CUkernelNodeAttrValue *value_out)
{
	return SIM_CALL(cuGraphKernelNodeGetAttribute, SIM_LOCK, get_attr(hNode, attr, value_out),
			"%p, %d, %p", (void *)hNode, (int)attr, (void *)value_out);
}

static CUresult set_attr(CUgraphNode node, CUkernelNodeAttrID attr,
			 const CUkernelNodeAttrValue *value)
{
	CUresult r = value ? kernel_attrs(node, attr) : CUDA_ERROR_INVALID_VALUE;

	if (r != CUDA_SUCCESS)
		return r;
	node->attrs[attr] = *value;
	node->attr_mask |= 1u << attr;
	return r;
}

CUresult cuGraphKernelNodeSetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr,
				       const CUkernelNodeAttrValue *value)
{
	return SIM_CALL(cuGraphKernelNodeSetAttribute, SIM_LOCK, set_attr(hNode, attr, value),
			"%p, %d, %p", (void *)hNode, (int)attr, (const void *)value);
}

static CUresult copy_attrs(CUgraphNode dst, CUgraphNode src)
{
	CUresult r = kernel_attrs(src, CU_LAUNCH_ATTRIBUTE_IGNORE);

	if (r == CUDA_SUCCESS)
		r = kernel_attrs(dst, CU_LAUNCH_ATTRIBUTE_IGNORE);
	if (r != CUDA_SUCCESS)
		return r;
	memcpy(dst->attrs, src->attrs, GRAPH_ATTR_COUNT * sizeof(*dst->attrs));
	dst->attr_mask = src->attr_mask;
	return r;
}

CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode dst, CUgraphNode src)
{
	return SIM_CALL(cuGraphKernelNodeCopyAttributes, SIM_LOCK, copy_attrs(dst, src), "%p, %p",
			(void *)dst, (void *)src);
}
