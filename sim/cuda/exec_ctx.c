// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "base/clock.h"
#include "sim/cuda/graph.h"
#include "sim/cuda/module.h"
#include "sim/cuda/stream.h"

/* without the file every process has the devices to itself, in time */
static const struct timeline *the_timeline(void)
{
	static struct timeline timeline;

	if (!timeline.devices)
		(void)timeline_open(&timeline, sim_state_dir_path(sim.state));
	return &timeline;
}

CUresult sim_exec_ctx_init(CUcontext ctx)
{
	struct sim_exec_ctx *exec = calloc(1, sizeof(*exec));
	CUresult r;

	if (!exec)
		return CUDA_ERROR_OUT_OF_MEMORY;
	list_init(&exec->streams);
	list_init(&exec->events);
	list_init(&exec->modules);
	exec->shared = sim_state_exec(sim.state, ctx->device->index);
	exec->row = sim_state_exec_row(sim.state, ctx->device->index);
	timeline_group_init(&exec->group, the_timeline(), ctx->device->index);
	ctx->exec = exec;
	r = stream_new(ctx, STREAM_LEGACY, 0, 0, &exec->legacy);
	if (r != CUDA_SUCCESS) {
		timeline_group_fini(&exec->group);
		free(exec);
		ctx->exec = NULL;
	}
	return r;
}

void sim_exec_ctx_fini(CUcontext ctx)
{
	struct sim_exec_ctx *exec = ctx->exec;

	if (!exec)
		return;
	queue_forget(ctx);
	while (!list_is_empty(&exec->streams)) {
		CUstream stream = list_entry(exec->streams.next, struct CUstream_st, node);

		stream->pending = 0;
		stream_end(stream);
	}
	while (!list_is_empty(&exec->events))
		event_fini(list_entry(exec->events.next, struct CUevent_st, node));
	while (!list_is_empty(&exec->modules))
		module_free(list_entry(exec->modules.next, struct CUmod_st, node));
	graph_ctx_fini(ctx);
	timeline_group_fini(&exec->group);
	ctx->exec = NULL;
	free(exec);
}

CUresult sim_exec_ctx_sync(CUcontext ctx)
{
	uint64_t done_ns = 0;
	CUstream stream;

	queue_drain(ctx, NULL);
	if (!ctx->exec)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	list_for_each (stream, &ctx->exec->streams, node)
		done_ns = size_max(done_ns, stream->tail_ns);
	if (done_ns > clock_now_ns()) {
		sim_unlock();
		timeline_sleep_until(done_ns);
		sim_lock();
	}
	sim_pool_sync_point(ctx->device);
	return ctx->sticky;
}

CUresult sim_exec_stream_info(CUstream handle, bool is_per_thread, struct sim_stream_info *ret)
{
	CUstream stream;
	CUresult r = stream_get(sim_ctx_current(), handle,
				is_per_thread ? DEFAULT_PER_THREAD : DEFAULT_LEGACY, &stream);

	if (r != CUDA_SUCCESS)
		return r;
	if (!capture_stream_is_active(stream)) {
		r = capture_check_legacy(stream);
		if (r != CUDA_SUCCESS)
			return r;
	}
	ret->ctx = stream->ctx;
	ret->id = stream->id;
	ret->tail_ns = stream_done_ns(stream);
	ret->is_capturing = capture_stream_is_active(stream);
	/* behind queued work the time is not known: surely later than now */
	if (queue_must_wait(stream))
		ret->tail_ns = size_max(ret->tail_ns, clock_now_ns() + NS_PER_MS);
	return CUDA_SUCCESS;
}

static void raise_to(_Atomic uint64_t *at, uint64_t value)
{
	uint64_t seen = atomic_load_explicit(at, memory_order_relaxed);

	while (seen < value && !atomic_compare_exchange_weak(at, &seen, value))
		;
}

void exec_count_busy(struct sim_exec_ctx *exec, uint64_t ns, uint64_t end_ns)
{
	atomic_fetch_add_explicit(&exec->shared->busy_total_ns, ns, memory_order_relaxed);
	raise_to(&exec->shared->busy_until_ns, end_ns);
	if (!exec->row)
		return;
	atomic_fetch_add_explicit(&exec->row->busy_total_ns, ns, memory_order_relaxed);
	raise_to(&exec->row->busy_until_ns, end_ns);
}

void exec_count_copy(struct sim_exec_ctx *exec, uint64_t ns)
{
	atomic_fetch_add_explicit(&exec->shared->copy_total_ns, ns, memory_order_relaxed);
	if (exec->row)
		atomic_fetch_add_explicit(&exec->row->copy_total_ns, ns, memory_order_relaxed);
}
