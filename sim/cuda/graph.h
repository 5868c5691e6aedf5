// SPDX-License-Identifier: Apache-2.0
#ifndef SIM_CUDA_GRAPH_H
#define SIM_CUDA_GRAPH_H

/*
 * Graphs: descriptions of work (CUgraph), and what was made of them for launching (CUgraphExec).
 * Everything here needs sim_lock().
 *
 * A node holds one op, the same as a stream would get, and its incoming edges.  A child-graph node
 * owns a graph of its own.  A node stays valid until it or its graph is destroyed.
 *
 * Instantiation flattens: the nodes, child graphs included, in an order that respects the edges,
 * each with the indices of those before it; a child-graph node becomes an empty one behind all of
 * its graph.  The exec owns copies of all parameters, so the graph may change or go.  The flat
 * order depends only on the order in which nodes and edges were made, so two graphs built alike
 * can be compared element by element: that is what cuGraphExecUpdate does.
 *
 * A launch whose nodes can all be carried out at once is; one that contains a function of the
 * program or an unmet wait gets a graph_run, a copy that the queue carries on step by step.
 */

#include "sim/cuda/exec.h"
#include "sim/cuda/launch.h"

#define GRAPH_MAGIC      0x4772614du
#define GRAPH_NODE_MAGIC 0x4e6f644du
#define GRAPH_EXEC_MAGIC 0x4578654du

#define GRAPH_ATTR_COUNT (CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING + 1)

struct graph_edge {
	CUgraphNode from;
	CUgraphEdgeData data;
};

struct graph_user_object {
	CUuserObject object;
	unsigned count;
	struct graph_user_object *next;
};

struct CUgraph_st {
	uint32_t magic;
	CUgraphNode parent; /* the child-graph node whose graph this is, or NULL */
	struct list nodes;  /* in the order in which they were made */
	unsigned node_count, next_node_id;
	unsigned long long id;
	unsigned memory_nodes; /* allocations and frees, child graphs included */
	unsigned memory_execs; /* execs of it that are alive, if it has such nodes */
	unsigned captures;     /* that are adding to it */
	struct graph_user_object *user_objects;
};

struct CUgraphNode_st {
	uint32_t magic;
	CUgraph graph;
	CUgraphNodeType type;
	unsigned id;
	struct op op;
	CUgraph child;      /* CU_GRAPH_NODE_TYPE_GRAPH */
	CUgraphNode origin; /* in a clone: what it was cloned from */
	struct graph_edge *deps;
	size_t dep_count, dep_room;
	void **param_pointers; /* of GetParams, into op.kernel.params */
	CUlaunchAttributeValue *attrs;
	uint32_t attr_mask;
	struct list node;
	/* while a graph is walked */
	unsigned order, unmet;
	unsigned exec_index; /* a hint: where it is in the exec made last */
};

struct exec_node {
	CUgraphNode origin; /* as a key only: it may be gone */
	CUgraphNodeType type;
	bool is_disabled;
	struct op op;
	unsigned *deps;
	unsigned dep_count;
};

struct CUgraphExec_st {
	uint32_t magic;
	unsigned long long id;
	unsigned long long flags;
	CUgraph graph; /* to count memory_execs; NULL when it is gone or has no memory nodes */
	struct exec_node *nodes;
	unsigned count, room;
	uint64_t *end_ns; /* scratch of a launch: when each node ends */
	bool has_memory;
	struct graph_user_object *user_objects;
	struct list node; /* of all execs with memory nodes */
};

extern struct slab graph_slab, graph_node_slab, graph_exec_slab;

/* Graphs (graph.c). */

CUresult graph_new(CUgraph *ret);
void graph_free(CUgraph graph);
CUresult graph_clone(CUgraph graph, CUgraph *ret);

/** graph_check, node_check - INVALID_VALUE for a handle that is none */
CUresult graph_check(CUgraph graph);
CUresult node_check(CUgraphNode node);

/**
 * graph_add - a node with a copy of @op
 * @data: NULL, or one a dependency
 * INVALID_VALUE when a dependency is no node of @graph or stands there twice.
 */
CUresult graph_add(CUgraph graph, CUgraphNodeType type, const struct op *op,
		   const CUgraphNode *deps, const CUgraphEdgeData *data, size_t count,
		   CUgraphNode *ret);

/** graph_add_child - a node with a clone of @child */
CUresult graph_add_child(CUgraph graph, CUgraph child, const CUgraphNode *deps,
			 const CUgraphEdgeData *data, size_t count, CUgraphNode *ret);

CUresult graph_link(CUgraphNode from, CUgraphNode to, const CUgraphEdgeData *data);
CUresult graph_unlink(CUgraphNode from, CUgraphNode to);
void graph_node_free(CUgraphNode node);

/** graph_node_set - replace the parameters: @op is copied; the kind must be the same */
CUresult graph_node_set(CUgraphNode node, const struct op *op);

/**
 * graph_sort - all nodes of @graph so that edges lead forwards; sets node->order
 * @ret: node_count entries, to be freed.  INVALID_VALUE for a circle.
 */
CUresult graph_sort(CUgraph graph, CUgraphNode **ret);

/** graph_root - the graph that contains @graph by however many child nodes */
CUgraph graph_root(CUgraph graph);

/* Parameters (graph_params.c): from CUgraphNodeParams to an op and back. */

/**
 * graph_params_op - check @params and make an op of them; fills in the address of an allocation
 * @buffer: LAUNCH_PARAMS_MAX bytes for a kernel's parameters
 * After success graph_params_done() follows, when the op has been copied.  The op of a child graph
 * is empty.  NOT_SUPPORTED for conditional and external-semaphore nodes.
 */
CUresult graph_params_op(CUcontext ctx, CUgraphNodeParams *params, unsigned char *buffer,
			 struct op *ret);
void graph_params_done(struct op *op);

/** graph_kernel_params - what GetParams gives; pointers stay valid until the node changes */
CUresult graph_kernel_params(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *ret);

/* Execs (graph_exec.c). */

CUresult graph_exec_new(CUgraph graph, unsigned long long flags, CUgraphNode *ret_error,
			CUgraphExec *ret);
void graph_exec_free(CUgraphExec exec);
CUresult graph_exec_check(CUgraphExec exec);

/** graph_exec_find - the exec's node made of @node, or NULL */
struct exec_node *graph_exec_find(CUgraphExec exec, CUgraphNode node);

/** graph_exec_rebuild - a graph that does what @exec does */
CUresult graph_exec_rebuild(CUgraphExec exec, CUgraph *ret);

/** graph_exec_forget - @graph is about to go */
void graph_exec_forget(CUgraph graph);

/** graph_exec_update - take the parameters of a graph built alike; 0 or why not */
CUresult graph_exec_update(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *ret);

/** graph_exec_set_child - take the parameters of @child for the graph of child node @node */
CUresult graph_exec_set_child(CUgraphExec exec, CUgraphNode node, CUgraph child);

/* Launches (graph_run.c). */

/** graph_exec_is_immediate - can every node be carried out at once? */
bool graph_exec_is_immediate(CUgraphExec exec);

/** graph_exec_run - carry all out; returns when it ends */
uint64_t graph_exec_run(CUgraphExec exec, CUcontext ctx, uint64_t now_ns, uint64_t ready_ns);

/** graph_run_new - a launch that goes on in the queue; independent of @exec; or NULL */
struct graph_run *graph_run_new(CUgraphExec exec);
void graph_run_free(struct graph_run *run);

/**
 * graph_run_step - carry out what can be
 * @ready_ns:    the stream's earliest start
 * @ret_host:    set when a function of the program is due; then graph_run_host_done() follows
 * @ret_wake_ns: lowered to when something may be possible again
 * True when the launch is through.
 */
bool graph_run_step(struct graph_run *run, CUcontext ctx, uint64_t now_ns, uint64_t ready_ns,
		    const struct op **ret_host, uint64_t *ret_wake_ns);
void graph_run_host_done(struct graph_run *run, uint64_t now_ns);
uint64_t graph_run_end_ns(const struct graph_run *run);

/*
 * Memory of graphs (graph_mem.c).  An allocation node has its address from the start; the address
 * lives while a node, an exec or a queued launch refers to it, or the program has not freed it.
 * Physical memory belongs to the device: a launch adds what its allocations need at most at one
 * time, later launches use it again, and a trim gives back what is not in use.
 */

struct graph_mem {
	unsigned refs;
	bool in_use; /* allocated by a launch and not freed since */
	bool has_free_node;
	CUcontext ctx;
	struct sim_alloc *alloc;
	uint64_t bytes; /* in whole pages */
	struct list node;
};

/** graph_mem_new - an address for an allocation node, with one reference; nothing is charged yet */
CUresult graph_mem_new(CUcontext ctx, CUDA_MEM_ALLOC_NODE_PARAMS *params, struct graph_mem **ret);
struct graph_mem *graph_mem_ref(struct graph_mem *mem);
void graph_mem_unref(struct graph_mem *mem);

/**
 * graph_mem_prepare - before a launch of @exec: physical memory for it
 * OUT_OF_MEMORY; INVALID_VALUE when an allocation of an earlier launch is still in use, unless
 * the exec frees such by itself.
 */
CUresult graph_mem_prepare(CUgraphExec exec);

/** graph_mem_use, _release - an allocation node or a free node is carried out */
void graph_mem_use(struct graph_mem *mem);
void graph_mem_release(CUdeviceptr ptr);

/** graph_mem_mark_free - a graph has a node that frees @ptr, or has no longer */
void graph_mem_mark_free(CUdeviceptr ptr, bool has_free_node);

/** graph_mem_find - the graph allocation at exactly @ptr, or NULL */
struct graph_mem *graph_mem_find(CUdeviceptr ptr);

void graph_ctx_fini(CUcontext ctx);

/* User objects (user_object.c). */

void user_object_release(CUuserObject object, unsigned count);
void user_object_retain(CUuserObject object, unsigned count);

/** user_objects_copy - let @to hold all that @from holds, once each; 0 or -ENOMEM */
int user_objects_copy(struct graph_user_object **to, const struct graph_user_object *from);
void user_objects_free(struct graph_user_object **held);

#endif
