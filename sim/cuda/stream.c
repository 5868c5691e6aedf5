// SPDX-License-Identifier: Apache-2.0
#include "sim/cuda/stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

struct slab stream_slab = SLAB_INIT(struct CUstream_st, STREAM_MAGIC);

static unsigned long long next_stream_id = 1;
static uint64_t next_thread_id = 1;

/* the stream of its own that this thread used last; a hint, checked each time */
static __thread struct {
	uint64_t thread_id;
	CUstream stream;
} own;

bool stream_is_blocking(const struct CUstream_st *stream)
{
	return stream->kind == STREAM_PER_THREAD ||
	       (stream->kind == STREAM_CREATED && !(stream->flags & CU_STREAM_NON_BLOCKING));
}

CUresult stream_new(CUcontext ctx, enum stream_kind kind, unsigned flags, int priority,
		    CUstream *ret)
{
	struct sim_exec_ctx *exec = ctx->exec;
	uint64_t bytes = kind == STREAM_LEGACY ? 0 : ctx->device->info->stream_bytes;
	CUresult r = sim_charge(ctx->device, SIM_USE_CONTEXT, bytes);
	CUstream stream;

	if (r != CUDA_SUCCESS)
		return r;
	stream = slab_new(&stream_slab);
	if (!stream) {
		sim_uncharge(ctx->device, SIM_USE_CONTEXT, bytes);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	stream->kind = kind;
	stream->ctx = ctx;
	stream->flags = flags;
	stream->priority = priority < STREAM_PRIORITY_GREATEST ? STREAM_PRIORITY_GREATEST
			   : priority > STREAM_PRIORITY_LEAST  ? STREAM_PRIORITY_LEAST
							       : priority;
	stream->charged_bytes = bytes;
	stream->id = next_stream_id++;
	stream->attrs[CU_LAUNCH_ATTRIBUTE_PRIORITY].priority = stream->priority;
	stream->attrs[CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY].syncPolicy =
		(CUsynchronizationPolicy)-1; /* measured: none until one is set */
	stream->attrs[CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP].memSyncDomainMap.remote = 1;
	list_append(&exec->streams, &stream->node);
	*ret = stream;
	return CUDA_SUCCESS;
}

static void stream_free(CUstream stream)
{
	list_del(&stream->node);
	sim_uncharge(stream->ctx->device, SIM_USE_CONTEXT, stream->charged_bytes);
	node_set_fini(&stream->deps);
	slab_free(&stream_slab, stream);
}

void stream_end(CUstream stream)
{
	capture_detach(stream);
	stream->is_destroyed = true;
	if (!stream->pending)
		stream_free(stream);
}

void stream_release(CUstream stream)
{
	if (stream->is_destroyed && !stream->pending)
		stream_free(stream);
}

static CUresult per_thread(CUcontext ctx, CUstream *ret)
{
	CUstream stream;
	CUresult r;

	if (!own.thread_id)
		own.thread_id = next_thread_id++;
	if (slab_is(&stream_slab, own.stream) && own.stream->ctx == ctx &&
	    own.stream->thread_id == own.thread_id) {
		*ret = own.stream;
		return CUDA_SUCCESS;
	}
	list_for_each (stream, &ctx->exec->streams, node) {
		if (stream->kind == STREAM_PER_THREAD && stream->thread_id == own.thread_id)
			goto found;
	}
	r = stream_new(ctx, STREAM_PER_THREAD, 0, 0, &stream);
	if (r != CUDA_SUCCESS)
		return r;
	stream->thread_id = own.thread_id;
found:
	own.stream = stream;
	*ret = stream;
	return CUDA_SUCCESS;
}

CUresult stream_get(CUcontext ctx, CUstream handle, enum stream_default dflt, CUstream *ret)
{
	bool is_default = !handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD;

	if (is_default) {
		if (!ctx)
			return CUDA_ERROR_INVALID_CONTEXT;
		if (!ctx->exec)
			return CUDA_ERROR_CONTEXT_IS_DESTROYED;
		if (handle == CU_STREAM_PER_THREAD || (!handle && dflt == DEFAULT_PER_THREAD))
			return per_thread(ctx, ret);
		*ret = ctx->exec->legacy;
		return CUDA_SUCCESS;
	}
	if (!slab_is(&stream_slab, handle) || handle->is_destroyed)
		return CUDA_ERROR_INVALID_HANDLE;
	*ret = handle;
	return CUDA_SUCCESS;
}

uint64_t stream_ready_ns(CUstream stream, uint64_t now_ns)
{
	const struct sim_exec_ctx *exec = stream->ctx->exec;
	uint64_t ready_ns = size_max(now_ns, stream->tail_ns);

	if (stream->kind == STREAM_LEGACY)
		return size_max(ready_ns, exec->blocking_tail_ns);
	if (stream_is_blocking(stream))
		return size_max(ready_ns, exec->legacy->tail_ns);
	return ready_ns;
}

void stream_advance(CUstream stream, uint64_t end_ns)
{
	struct sim_exec_ctx *exec = stream->ctx->exec;

	stream->tail_ns = size_max(stream->tail_ns, end_ns);
	if (stream->kind == STREAM_LEGACY || stream_is_blocking(stream))
		exec->blocking_tail_ns = size_max(exec->blocking_tail_ns, end_ns);
}

uint64_t stream_done_ns(CUstream stream)
{
	if (stream->kind == STREAM_LEGACY)
		return size_max(stream->tail_ns, stream->ctx->exec->blocking_tail_ns);
	return stream->tail_ns;
}

CUresult stream_wait(CUstream stream)
{
	CUcontext ctx = stream->ctx;
	uint64_t done_ns;

	queue_drain(ctx, stream);
	if (!ctx->exec || !slab_is(&stream_slab, stream))
		return ctx->is_destroyed ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_SUCCESS;
	done_ns = stream_done_ns(stream);
	if (done_ns > clock_now_ns()) {
		sim_unlock();
		timeline_sleep_until(done_ns);
		sim_lock();
	}
	sim_pool_sync_point(ctx->device);
	return ctx->sticky;
}
