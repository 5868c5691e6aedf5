// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "sim/cuda/copy.h"
#include "sim/cuda/graph.h"
#include "sim/cuda/memop.h"
#include "sim/cuda/module.h"

#define KERNEL_LATENCY_NS ((uint64_t)2000) /* between two kernels of a stream, as measured */

static void *dup_bytes(const void *src, size_t bytes)
{
	void *dst = malloc(bytes ? bytes : 1);

	if (dst && bytes)
		memcpy(dst, src, bytes);
	return dst;
}

static int clone_alloc(struct op_alloc *dst)
{
	size_t bytes;

	graph_mem_ref(dst->mem);
	if (!dst->what.accessDescCount)
		return 0;
	if (!size_mul(dst->what.accessDescCount, sizeof(*dst->access), &bytes))
		return -ENOMEM;
	dst->access = dup_bytes(dst->what.accessDescs, bytes);
	dst->what.accessDescs = dst->access;
	return dst->access ? 0 : -ENOMEM;
}

int op_clone(struct op *dst, const struct op *src)
{
	*dst = *src;
	dst->is_owned = true;
	switch (src->kind) {
	case OP_KERNEL:
		dst->kernel.params = dup_bytes(src->kernel.params, src->kernel.param_bytes);
		return dst->kernel.params ? 0 : -ENOMEM;
	case OP_MEMOP:
		dst->memop.ops =
			dup_bytes(src->memop.ops, src->memop.count * sizeof(*src->memop.ops));
		return dst->memop.ops ? 0 : -ENOMEM;
	case OP_ALLOC:
		return clone_alloc(&dst->alloc);
	case OP_COPY:
		dst->copy.snapshot = NULL;
		return 0;
	case OP_RECORD:
	case OP_WAIT:
		if (dst->event.record)
			record_ref(dst->event.record);
		return 0;
	case OP_EMPTY:
	case OP_SET:
	case OP_HOST:
	case OP_GRAPH:
	case OP_FREE:
		return 0;
	}
	return 0;
}

void op_fini(struct op *op)
{
	if (!op->is_owned)
		return;
	op->is_owned = false;
	if (op->kind == OP_KERNEL) {
		free(op->kernel.params);
	} else if (op->kind == OP_MEMOP) {
		free(op->memop.ops);
	} else if (op->kind == OP_COPY) {
		free(op->copy.snapshot);
	} else if (op->kind == OP_ALLOC) {
		free(op->alloc.access);
		graph_mem_unref(op->alloc.mem);
	} else if (op->kind == OP_RECORD || op->kind == OP_WAIT) {
		record_unref(op->event.record);
	}
}

CUresult op_check(CUcontext ctx, const struct op *op)
{
	struct copy_plan plan;

	if (op->kind == OP_COPY)
		return copy_plan(&op->copy.what, &plan);
	if (op->kind == OP_SET)
		return set_check(ctx, &op->set);
	return CUDA_SUCCESS;
}

bool op_is_ready(const struct op *op)
{
	switch (op->kind) {
	case OP_HOST:
		return false;
	case OP_MEMOP:
		return memop_is_ready(&op->memop);
	case OP_WAIT:
		return !op->event.record || record_is_known(op->event.record);
	case OP_GRAPH:
		return graph_exec_is_immediate(op->graph);
	case OP_EMPTY:
	case OP_KERNEL:
	case OP_COPY:
	case OP_SET:
	case OP_RECORD:
	case OP_ALLOC:
	case OP_FREE:
		return true;
	}
	return true;
}

static bool is_wide(const struct op_kernel *kernel, const struct sim_device_info *info)
{
	return (uint64_t)kernel->grid[0] * kernel->grid[1] * kernel->grid[2] >= info->sms;
}

static uint64_t run_kernel(CUcontext ctx, const struct op_kernel *kernel, uint64_t now_ns,
			   uint64_t ready_ns)
{
	const struct kernel_effect *effect = kernel->effect;
	const struct sim_device_info *info = ctx->device->info;
	struct sim_exec_ctx *exec = ctx->exec;
	uint64_t duration_ns = info->kernel_ns, end_ns;
	struct kernel_shape shape;

	if (effect && kernel->param_bytes >= kernel_effect_bytes(effect)) {
		CUresult fault = effect->run(ctx, kernel->params);

		if (fault != CUDA_SUCCESS)
			sim_ctx_fail(fault);
		memcpy(shape.grid, kernel->grid, sizeof(shape.grid));
		memcpy(shape.block, kernel->block, sizeof(shape.block));
		duration_ns = fault == CUDA_SUCCESS
				      ? effect->duration_ns(kernel->params, &shape, info)
				      : 0;
	}
	duration_ns = size_sat_add(duration_ns, KERNEL_LATENCY_NS);
	atomic_fetch_add_explicit(&exec->shared->launches, 1, memory_order_relaxed);
	if (exec->row)
		atomic_fetch_add_explicit(&exec->row->launches, 1, memory_order_relaxed);
	end_ns = timeline_submit(&exec->group,
				 is_wide(kernel, info) ? TIMELINE_WIDE : TIMELINE_NARROW, now_ns,
				 ready_ns, duration_ns);
	exec_count_busy(exec, duration_ns, end_ns);
	return end_ns;
}

static uint64_t run_copy(CUcontext ctx, const struct op_copy *copy, uint64_t now_ns,
			 uint64_t ready_ns)
{
	CUDA_MEMCPY3D what = copy->what;
	struct copy_plan plan;
	enum timeline_lane lane;
	uint64_t duration_ns;

	if (copy->snapshot) {
		what.srcMemoryType = CU_MEMORYTYPE_HOST;
		what.srcHost = copy->snapshot;
		what.srcXInBytes = what.srcY = what.srcZ = 0;
		what.srcPitch = what.WidthInBytes;
		what.srcHeight = what.Height;
	}
	/* in a queue or a graph the memory may have been freed since it was checked */
	if (copy_plan(&what, &plan) != CUDA_SUCCESS) {
		sim_ctx_fail(CUDA_ERROR_ILLEGAL_ADDRESS);
		return ready_ns;
	}
	copy_run(&plan);
	duration_ns = copy_duration_ns(ctx, &plan, &lane);
	if (!duration_ns)
		return ready_ns;
	exec_count_copy(ctx->exec, duration_ns);
	return timeline_submit(&ctx->exec->group, lane, now_ns, ready_ns, duration_ns);
}

static uint64_t run_set(CUcontext ctx, const CUDA_MEMSET_NODE_PARAMS_v2 *set, uint64_t now_ns,
			uint64_t ready_ns)
{
	uint64_t duration_ns, end_ns;

	if (set_check(ctx, set) != CUDA_SUCCESS) {
		sim_ctx_fail(CUDA_ERROR_ILLEGAL_ADDRESS);
		return ready_ns;
	}
	set_run(set);
	duration_ns = KERNEL_LATENCY_NS + set_duration_ns(ctx, set);
	end_ns = timeline_submit(&ctx->exec->group, TIMELINE_NARROW, now_ns, ready_ns, duration_ns);
	exec_count_busy(ctx->exec, duration_ns, end_ns);
	return end_ns;
}

uint64_t op_run(CUcontext ctx, const struct op *op, uint64_t now_ns, uint64_t ready_ns)
{
	switch (op->kind) {
	case OP_KERNEL:
		return run_kernel(ctx, &op->kernel, now_ns, ready_ns);
	case OP_COPY:
		return run_copy(ctx, &op->copy, now_ns, ready_ns);
	case OP_SET:
		return run_set(ctx, &op->set, now_ns, ready_ns);
	case OP_MEMOP:
		memop_run(&op->memop);
		return ready_ns;
	case OP_RECORD:
		if (op->event.record)
			event_settle(op->event.record, ready_ns);
		return ready_ns;
	case OP_WAIT:
		return op->event.record ? size_max(ready_ns, op->event.record->ts_ns) : ready_ns;
	case OP_GRAPH:
		return graph_exec_run(op->graph, ctx, now_ns, ready_ns);
	case OP_ALLOC:
		graph_mem_use(op->alloc.mem);
		return ready_ns;
	case OP_FREE:
		graph_mem_release(op->free);
		return ready_ns;
	case OP_EMPTY:
	case OP_HOST:
		return ready_ns;
	}
	return ready_ns;
}

/* what the program may overwrite as soon as the call returns must be taken along */
static CUresult take_snapshot(struct op *op)
{
	struct copy_plan plan;
	struct copy_plan to;
	unsigned char *buffer;

	if (op->kind != OP_COPY || copy_plan(&op->copy.what, &plan) != CUDA_SUCCESS ||
	    !plan.src_pageable)
		return CUDA_SUCCESS;
	buffer = malloc(plan.width * plan.height * plan.depth);
	if (!buffer)
		return CUDA_ERROR_OUT_OF_MEMORY;
	to = plan;
	to.dst = buffer;
	to.dst_pitch = plan.width;
	to.dst_slice = plan.width * plan.height;
	copy_run(&to);
	op->copy.snapshot = buffer;
	return CUDA_SUCCESS;
}

static CUresult queue_op(CUstream stream, const struct op *op)
{
	struct op copy;
	CUresult r;

	if (op_clone(&copy, op) < 0) {
		op_fini(&copy);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	r = take_snapshot(&copy);
	if (r == CUDA_SUCCESS)
		r = queue_add(stream, &copy);
	if (r != CUDA_SUCCESS)
		op_fini(&copy);
	return r;
}

CUresult op_submit(CUstream stream, const struct op *op)
{
	uint64_t now_ns;
	CUresult r;

	if (capture_stream_is_active(stream))
		return capture_op(stream, op);
	r = capture_check_legacy(stream);
	if (r != CUDA_SUCCESS)
		return r;
	r = op_check(stream->ctx, op);
	if (r != CUDA_SUCCESS)
		return r;
	if (queue_must_wait(stream) || !op_is_ready(op))
		return queue_op(stream, op);
	now_ns = clock_now_ns();
	stream_advance(stream, op_run(stream->ctx, op, now_ns, stream_ready_ns(stream, now_ns)));
	return CUDA_SUCCESS;
}
