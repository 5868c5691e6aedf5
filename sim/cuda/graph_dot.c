// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdio.h>

#include "sim/cuda/graph.h"

#define KNOWN_FLAGS ((CU_GRAPH_DEBUG_DOT_FLAGS_CONDITIONAL_NODE_PARAMS << 1) - 1)

static const char *type_name(CUgraphNodeType type)
{
	static const char *const names[] = {
		"KERNEL",         "MEMCPY",       "MEMSET",
		"HOST",           "GRAPH",        "EMPTY",
		"EVENT_WAIT",     "EVENT_RECORD", "EXT_SEMAS_SIGNAL",
		"EXT_SEMAS_WAIT", "MEM_ALLOC",    "MEM_FREE",
		"BATCH_MEM_OP",   "CONDITIONAL",
	};

	return (size_t)type < sizeof(names) / sizeof(names[0]) ? names[type] : "UNKNOWN";
}

static void print_label(FILE *out, CUgraphNode node, unsigned flags)
{
	const struct op_kernel *kernel = &node->op.kernel;
	bool verbose = flags & CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE;

	fprintf(out, "%u\\n%s", node->id, type_name(node->type));
	if (node->type == CU_GRAPH_NODE_TYPE_KERNEL) {
		if (slab_is(&function_slab, kernel->resolved))
			fprintf(out, "\\n%s", kernel->resolved->name);
		if (verbose || (flags & CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_PARAMS))
			fprintf(out, "\\n(%u,%u,%u) (%u,%u,%u) %u", kernel->grid[0],
				kernel->grid[1], kernel->grid[2], kernel->block[0],
				kernel->block[1], kernel->block[2], kernel->shared_bytes);
	} else if (node->type == CU_GRAPH_NODE_TYPE_MEMCPY &&
		   (verbose || (flags & CU_GRAPH_DEBUG_DOT_FLAGS_MEMCPY_NODE_PARAMS))) {
		fprintf(out, "\\n%zu x %zu x %zu", node->op.copy.what.WidthInBytes,
			node->op.copy.what.Height, node->op.copy.what.Depth);
	} else if (node->type == CU_GRAPH_NODE_TYPE_MEMSET &&
		   (verbose || (flags & CU_GRAPH_DEBUG_DOT_FLAGS_MEMSET_NODE_PARAMS))) {
		fprintf(out, "\\n%#llx %zu x %zu", node->op.set.dst, node->op.set.width,
			node->op.set.height);
	}
	if (verbose || (flags & CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES))
		fprintf(out, "\\n%p", (void *)node);
}

static void print_graph(FILE *out, CUgraph graph, unsigned flags)
{
	CUgraphNode node;

	fprintf(out, "subgraph cluster_%llu {\nlabel=\"graph_%llu\"\n", graph->id, graph->id);
	list_for_each (node, &graph->nodes, node) {
		fprintf(out, "\"graph_%llu_node_%u\" [shape=\"box\" label=\"", graph->id, node->id);
		print_label(out, node, flags);
		fputs("\"];\n", out);
	}
	list_for_each (node, &graph->nodes, node) {
		for (size_t i = 0; i < node->dep_count; i++)
			fprintf(out, "\"graph_%llu_node_%u\" -> \"graph_%llu_node_%u\";\n",
				graph->id, node->deps[i].from->id, graph->id, node->id);
	}
	list_for_each (node, &graph->nodes, node) {
		if (node->child)
			print_graph(out, node->child, flags);
	}
	fputs("}\n", out);
}

static CUresult print(CUgraph graph, const char *path, unsigned flags)
{
	FILE *out;
	bool failed;

	if (graph_check(graph) != CUDA_SUCCESS || !path || (flags & ~(unsigned)KNOWN_FLAGS))
		return CUDA_ERROR_INVALID_VALUE;
	out = fopen(path, "we");
	if (!out)
		return CUDA_ERROR_OPERATING_SYSTEM;
	fputs("digraph dot {\n", out);
	print_graph(out, graph, flags);
	fputs("}\n", out);
	failed = ferror(out);
	failed |= fclose(out) != 0;
	return failed ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

CUresult cuGraphDebugDotPrint(CUgraph hGraph, const char *path, unsigned int flags)
{
	return SIM_CALL(cuGraphDebugDotPrint, SIM_LOCK, print(hGraph, path, flags),
			"%p, \"%s\", %#x", (void *)hGraph, path ? path : "", flags);
}
