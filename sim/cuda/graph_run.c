// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/graph.h"
#include "sim/cuda/memop.h"

#define POLL_NS   ((uint64_t)50000)
#define END_UNMET UINT64_MAX /* in end_ns: not carried out yet */

struct graph_run {
	struct exec_node *nodes; /* a copy: the exec may change or go */
	unsigned count, left;
	uint64_t *end_ns;
	unsigned host; /* the node whose function is being called */
	uint64_t last_end_ns;
};

static bool node_is_immediate(const struct exec_node *node)
{
	const struct op *op = &node->op;

	if (node->is_disabled)
		return true;
	if (op->kind == OP_WAIT)
		return !op->event.event->record || record_is_known(op->event.event->record);
	return op_is_ready(op);
}

bool graph_exec_is_immediate(CUgraphExec exec)
{
	for (unsigned i = 0; i < exec->count; i++) {
		if (!node_is_immediate(&exec->nodes[i]))
			return false;
	}
	return true;
}

/* an event node means whatever its event is at the moment of the launch */
static uint64_t run_event(const struct op *op, uint64_t ready_ns)
{
	CUevent event = op->event.event;
	struct record *record;

	if (event_check(event) != CUDA_SUCCESS)
		return ready_ns;
	if (op->kind == OP_WAIT)
		return event->record ? size_max(ready_ns, event->record->ts_ns) : ready_ns;
	record = event_new_record(event);
	if (record) {
		event->in_capture = false;
		event_settle(record, ready_ns);
	}
	return ready_ns;
}

static uint64_t run_node(CUcontext ctx, const struct exec_node *node, uint64_t now_ns,
			 uint64_t ready_ns)
{
	if (node->is_disabled)
		return ready_ns;
	if (node->op.kind == OP_RECORD || node->op.kind == OP_WAIT)
		return run_event(&node->op, ready_ns);
	return op_run(ctx, &node->op, now_ns, ready_ns);
}

uint64_t graph_exec_run(CUgraphExec exec, CUcontext ctx, uint64_t now_ns, uint64_t ready_ns)
{
	uint64_t last_ns = ready_ns;

	for (unsigned i = 0; i < exec->count; i++) {
		const struct exec_node *node = &exec->nodes[i];
		uint64_t start_ns = ready_ns;

		for (unsigned d = 0; d < node->dep_count; d++)
			start_ns = size_max(start_ns, exec->end_ns[node->deps[d]]);
		exec->end_ns[i] = run_node(ctx, node, now_ns, start_ns);
		last_ns = size_max(last_ns, exec->end_ns[i]);
	}
	return last_ns;
}

void graph_run_free(struct graph_run *run)
{
	if (!run)
		return;
	for (unsigned i = 0; i < run->count; i++) {
		op_fini(&run->nodes[i].op);
		free(run->nodes[i].deps);
	}
	free(run->nodes);
	free(run->end_ns);
	free(run);
}

static int copy_node(struct exec_node *dst, const struct exec_node *src)
{
	*dst = *src;
	dst->op = (struct op){ .kind = OP_EMPTY };
	dst->deps = calloc(src->dep_count + 1, sizeof(*dst->deps));
	if (!dst->deps)
		return -1;
	if (src->dep_count)
		memcpy(dst->deps, src->deps, src->dep_count * sizeof(*dst->deps));
	return op_clone(&dst->op, &src->op);
}

struct graph_run *graph_run_new(CUgraphExec exec)
{
	struct graph_run *run = calloc(1, sizeof(*run));

	if (!run)
		return NULL;
	run->nodes = calloc(exec->count + 1, sizeof(*run->nodes));
	run->end_ns = calloc(exec->count + 1, sizeof(*run->end_ns));
	if (!run->nodes || !run->end_ns) {
		graph_run_free(run);
		return NULL;
	}
	for (unsigned i = 0; i < exec->count; i++) {
		int r = copy_node(&run->nodes[i], &exec->nodes[i]);

		run->count++;
		run->end_ns[i] = END_UNMET;
		if (r < 0) {
			graph_run_free(run);
			return NULL;
		}
	}
	run->left = run->count;
	return run;
}

static void node_done(struct graph_run *run, unsigned index, uint64_t end_ns)
{
	run->end_ns[index] = end_ns;
	run->last_end_ns = size_max(run->last_end_ns, end_ns);
	run->left--;
}

/* when the node may start; END_UNMET while something before it is not done */
static uint64_t start_of(const struct graph_run *run, const struct exec_node *node,
			 uint64_t ready_ns)
{
	for (unsigned d = 0; d < node->dep_count; d++)
		ready_ns = size_max(ready_ns, run->end_ns[node->deps[d]]);
	return ready_ns;
}

static void wake_by(uint64_t *wake_ns, uint64_t when_ns)
{
	*wake_ns = size_min(*wake_ns, when_ns);
}

bool graph_run_step(struct graph_run *run, CUcontext ctx, uint64_t now_ns, uint64_t ready_ns,
		    const struct op **ret_host, uint64_t *ret_wake_ns)
{
	run->last_end_ns = size_max(run->last_end_ns, ready_ns);
	for (unsigned i = 0; i < run->count; i++) {
		struct exec_node *node = &run->nodes[i];
		uint64_t start_ns;

		if (run->end_ns[i] != END_UNMET)
			continue;
		start_ns = start_of(run, node, ready_ns);
		if (start_ns == END_UNMET)
			continue;
		if (!node_is_immediate(node)) {
			if (start_ns > now_ns) {
				wake_by(ret_wake_ns, start_ns);
				continue;
			}
			if (node->op.kind == OP_HOST) {
				run->host = i;
				*ret_host = &node->op;
				return false;
			}
			if (node->op.kind != OP_MEMOP || !memop_step(&node->op.memop)) {
				wake_by(ret_wake_ns, now_ns + POLL_NS);
				continue;
			}
			node_done(run, i, now_ns);
			continue;
		}
		node_done(run, i, run_node(ctx, node, now_ns, start_ns));
	}
	return !run->left;
}

void graph_run_host_done(struct graph_run *run, uint64_t now_ns)
{
	node_done(run, run->host, now_ns);
}

uint64_t graph_run_end_ns(const struct graph_run *run)
{
	return run->last_end_ns;
}
