// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "base/clock.h"
#include "sim/cuda/exec.h"

struct slab event_slab = SLAB_INIT(struct CUevent_st, EVENT_MAGIC);

#define EVENT_FLAGS (CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS)

struct record *record_new(void)
{
	struct record *record = calloc(1, sizeof(*record));

	if (record)
		record->refs = 1;
	return record;
}

struct record *record_ref(struct record *record)
{
	record->refs++;
	return record;
}

void record_unref(struct record *record)
{
	if (record && !--record->refs)
		free(record);
}

void event_settle(struct record *record, uint64_t ts_ns)
{
	record->is_known = true;
	record->ts_ns = ts_ns;
	if (record->stamp)
		atomic_store(&record->stamp->ts_ns, ts_ns);
}

CUresult event_check(CUevent event)
{
	if (slab_is(&event_slab, event))
		return CUDA_SUCCESS;
	/* measured: the driver finds out through the context that the event would belong to */
	if (slab_was(event))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	return event ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_HANDLE;
}

struct record *event_new_record(CUevent event)
{
	struct record *record = event->record;

	if (record && record->refs == 1) {
		record->is_known = record->is_foreign = false; /* nobody waits for the old one */
	} else {
		record = record_new();
		if (!record)
			return NULL;
		record_unref(event->record);
		event->record = record;
	}
	record->stamp = event->stamp;
	if (event->stamp)
		atomic_store(&event->stamp->ts_ns, EVENT_STAMP_PENDING);
	return record;
}

void event_fini(CUevent event)
{
	list_del(&event->node);
	event_ipc_fini(event);
	record_unref(event->record);
	node_set_fini(&event->nodes);
	slab_free(&event_slab, event);
}

CUresult event_new(CUcontext ctx, unsigned flags, CUevent *ret)
{
	CUevent event = slab_new(&event_slab);

	if (!event)
		return CUDA_ERROR_OUT_OF_MEMORY;
	event->ctx = ctx;
	event->flags = flags;
	list_append(&ctx->exec->events, &event->node);
	*ret = event;
	return CUDA_SUCCESS;
}

static CUresult event_create(CUcontext ctx, CUevent *ret, unsigned flags)
{
	if (!ret || (flags & ~(unsigned)EVENT_FLAGS))
		return CUDA_ERROR_INVALID_VALUE;
	if ((flags & CU_EVENT_INTERPROCESS) && !(flags & CU_EVENT_DISABLE_TIMING))
		return CUDA_ERROR_INVALID_VALUE;
	return event_new(ctx, flags, ret);
}

CUresult cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
	return SIM_CALL(cuEventCreate, SIM_CTX | SIM_LOCK, event_create(call.ctx, phEvent, Flags),
			"%p, %#x", (void *)phEvent, Flags);
}

static CUresult event_destroy(CUevent event)
{
	CUresult r = event_check(event);

	if (r == CUDA_SUCCESS)
		event_fini(event);
	return r;
}

CUresult cuEventDestroy(CUevent hEvent)
{
	return SIM_CALL(cuEventDestroy, SIM_LOCK, event_destroy(hEvent), "%p", (void *)hEvent);
}

CUresult cuEventDestroy_v2(CUevent hEvent)
{
	return SIM_CALL(cuEventDestroy_v2, SIM_LOCK, event_destroy(hEvent), "%p", (void *)hEvent);
}

static CUresult event_record(CUcontext ctx, CUevent event, CUstream handle, unsigned flags,
			     enum stream_default dflt)
{
	struct op op = { .kind = OP_RECORD };
	CUstream stream;
	CUresult r = event_check(event);

	if (r != CUDA_SUCCESS)
		return r;
	if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	r = stream_get(ctx, handle, dflt, &stream);
	if (r != CUDA_SUCCESS)
		return r;
	if (event->ctx != stream->ctx)
		return CUDA_ERROR_INVALID_HANDLE;
	op.event.event = event;
	if (capture_stream_is_active(stream))
		return capture_record(stream, event, flags);
	if (flags & CU_EVENT_RECORD_EXTERNAL)
		return CUDA_ERROR_ILLEGAL_STATE; /* only in a capture */
	r = capture_check_legacy(stream);
	if (r != CUDA_SUCCESS)
		return r;
	op.event.record = event_new_record(event);
	if (!op.event.record)
		return CUDA_ERROR_OUT_OF_MEMORY;
	event->in_capture = false;
	node_set_clear(&event->nodes);
	return op_submit(stream, &op);
}

STREAM_TWINS(cuEventRecord, cuEventRecord_ptsz, (CUevent hEvent, CUstream hStream),
	     SIM_CTX | SIM_LOCK, event_record(call.ctx, hEvent, hStream, 0, dflt), "%p, %p",
	     (void *)hEvent, (void *)hStream)

STREAM_TWINS(cuEventRecordWithFlags, cuEventRecordWithFlags_ptsz,
	     (CUevent hEvent, CUstream hStream, unsigned int flags), SIM_CTX | SIM_LOCK,
	     event_record(call.ctx, hEvent, hStream, flags, dflt), "%p, %p, %#x", (void *)hEvent,
	     (void *)hStream, flags)

static CUresult event_query(CUevent event)
{
	CUresult r = event_check(event);

	if (r != CUDA_SUCCESS)
		return r;
	if (event->in_capture)
		return capture_refuse_event(event);
	r = sim_exec_unsafe_call();
	if (r != CUDA_SUCCESS)
		return r;
	if (event->ctx->sticky != CUDA_SUCCESS)
		return event->ctx->sticky;
	r = event_refresh(event);
	if (r != CUDA_SUCCESS || !event->record)
		return r;
	if (!record_is_known(event->record) || event->record->ts_ns > clock_now_ns())
		return CUDA_ERROR_NOT_READY;
	return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent hEvent)
{
	return SIM_CALL(cuEventQuery, SIM_LOCK, event_query(hEvent), "%p", (void *)hEvent);
}

static CUresult event_sync(CUevent event)
{
	CUcontext ctx;
	struct record *record;
	uint64_t ts_ns;
	CUresult r = event_check(event);

	if (r != CUDA_SUCCESS)
		return r;
	if (event->in_capture)
		return capture_refuse_event(event);
	r = sim_exec_unsafe_call();
	if (r != CUDA_SUCCESS)
		return r;
	ctx = event->ctx;
	r = event_refresh(event);
	if (r != CUDA_SUCCESS || !event->record)
		return r != CUDA_SUCCESS ? r : ctx->sticky;
	record = record_ref(event->record);
	queue_wait_record(ctx, record);
	ts_ns = record->is_known ? record->ts_ns : 0;
	record_unref(record);
	if (ts_ns > clock_now_ns()) {
		sim_unlock();
		timeline_sleep_until(ts_ns);
		sim_lock();
	}
	sim_pool_sync_point(ctx->device);
	return ctx->sticky;
}

CUresult cuEventSynchronize(CUevent hEvent)
{
	return SIM_CALL(cuEventSynchronize, SIM_LOCK, event_sync(hEvent), "%p", (void *)hEvent);
}

static CUresult event_elapsed(float *ret_ms, CUevent start, CUevent end)
{
	uint64_t now_ns;

	if (!ret_ms) /* measured */
		return CUDA_ERROR_INVALID_HANDLE;
	if (event_check(start) != CUDA_SUCCESS || event_check(end) != CUDA_SUCCESS ||
	    start->ctx != end->ctx)
		return CUDA_ERROR_INVALID_HANDLE;
	if ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!start->record || !end->record || start->in_capture || end->in_capture)
		return CUDA_ERROR_INVALID_HANDLE;
	now_ns = clock_now_ns();
	if (!start->record->is_known || !end->record->is_known || start->record->ts_ns > now_ns ||
	    end->record->ts_ns > now_ns)
		return CUDA_ERROR_NOT_READY;
	*ret_ms = (float)((double)(int64_t)(end->record->ts_ns - start->record->ts_ns) / 1e6);
	return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
	return SIM_CALL(cuEventElapsedTime, SIM_LOCK, event_elapsed(pMilliseconds, hStart, hEnd),
			"%p, %p, %p", (void *)pMilliseconds, (void *)hStart, (void *)hEnd);
}

CUresult cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
	return SIM_CALL(cuEventElapsedTime_v2, SIM_LOCK, event_elapsed(pMilliseconds, hStart, hEnd),
			"%p, %p, %p", (void *)pMilliseconds, (void *)hStart, (void *)hEnd);
}

static CUresult wait_event(CUcontext ctx, CUstream handle, CUevent event, unsigned flags,
			   enum stream_default dflt)
{
	struct op op = { .kind = OP_WAIT };
	CUstream stream;
	CUresult r = event_check(event);

	if (r != CUDA_SUCCESS)
		return r;
	if (flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	r = stream_get(ctx, handle, dflt, &stream);
	if (r != CUDA_SUCCESS)
		return r;
	if (capture_stream_is_active(stream) || event->in_capture)
		return capture_wait(stream, event, flags);
	if (flags & CU_EVENT_WAIT_EXTERNAL)
		return CUDA_ERROR_ILLEGAL_STATE; /* only in a capture */
	r = event_refresh(event);
	if (r != CUDA_SUCCESS || !event->record)
		return r;
	op.event.event = event;
	op.event.record = event->record;
	return op_submit(stream, &op);
}

STREAM_TWINS(cuStreamWaitEvent, cuStreamWaitEvent_ptsz,
	     (CUstream hStream, CUevent hEvent, unsigned int Flags), SIM_CTX | SIM_LOCK,
	     wait_event(call.ctx, hStream, hEvent, Flags, dflt), "%p, %p, %#x", (void *)hStream,
	     (void *)hEvent, Flags)

/* Events of whole contexts: recorded behind all of its streams, waited for by all of them. */

static CUresult check_of_ctx(CUcontext ctx, CUevent event)
{
	CUresult r = sim_ctx_check(ctx);

	if (r == CUDA_SUCCESS)
		r = event_check(event);
	return r == CUDA_SUCCESS ? sim_exec_ctx_may_sync(ctx) : r;
}

static CUresult ctx_record(CUcontext ctx, CUevent event)
{
	uint64_t last_ns = clock_now_ns();
	struct record *record;
	CUstream stream;
	CUresult r = check_of_ctx(ctx, event);

	if (r != CUDA_SUCCESS)
		return r;
	if (event->ctx != ctx)
		return CUDA_ERROR_INVALID_HANDLE;
	queue_drain(ctx, NULL); /* queued work has no time yet */
	if (!ctx->exec || event_check(event) != CUDA_SUCCESS)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	list_for_each (stream, &ctx->exec->streams, node)
		last_ns = size_max(last_ns, stream->tail_ns);
	record = event_new_record(event);
	if (!record)
		return CUDA_ERROR_OUT_OF_MEMORY;
	event->in_capture = false;
	node_set_clear(&event->nodes);
	event_settle(record, last_ns);
	return CUDA_SUCCESS;
}

CUresult cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent)
{
	return SIM_CALL(cuCtxRecordEvent, SIM_LOCK, ctx_record(hCtx, hEvent), "%p, %p",
			(void *)hCtx, (void *)hEvent);
}

static CUresult ctx_wait(CUcontext ctx, CUevent event)
{
	struct op op = { .kind = OP_WAIT, .event = { .event = event } };
	CUstream stream;
	CUresult r = check_of_ctx(ctx, event);

	if (r == CUDA_SUCCESS)
		r = event_refresh(event);
	if (r != CUDA_SUCCESS || !event->record)
		return r;
	op.event.record = event->record;
	list_for_each (stream, &ctx->exec->streams, node) {
		r = op_submit(stream, &op);
		if (r != CUDA_SUCCESS)
			break;
	}
	return r;
}

CUresult cuCtxWaitEvent(CUcontext hCtx, CUevent hEvent)
{
	return SIM_CALL(cuCtxWaitEvent, SIM_LOCK, ctx_wait(hCtx, hEvent), "%p, %p", (void *)hCtx,
			(void *)hEvent);
}
