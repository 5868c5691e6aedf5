// SPDX-License-Identifier: Apache-2.0
/* Events: recording, waiting, elapsed time. */
#include "conform.h"

#define MS 1000000ull

static void create(void)
{
	static const unsigned int all[] = { 0, 1, 2, 3, 4, 6, 7, 8, 0x100 };
	char text[40];
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		POISONED(CUevent, e);
		CUresult r = QUIET(cuEventCreate, &e, all[i]);
		out_flush();
		out_append("flags %u → %s", all[i], result_text(r, text));
		if (r == CUDA_SUCCESS)
			QUIET(cuEventDestroy_v2, e);
		else
			HANDLE(e);
	}
	CALL(cuEventCreate, NULL, 0);
	CALL(cuEventDestroy_v2, NULL);
}

static void not_recorded(void)
{
	POISONED(CUevent, a);
	POISONED(CUevent, b);
	float ms = -1;
	CALL(cuEventCreate, &a, 0);
	CALL(cuEventCreate, &b, 0);
	CALL(cuEventQuery, a);
	CALL(cuEventSynchronize, a);
	CALL(cuStreamWaitEvent, NULL, a, 0);
	CALL(cuEventElapsedTime, &ms, a, b);
	YES(ms == -1);
	CALL(cuEventRecord, a, NULL);
	CALL(cuEventSynchronize, a);
	CALL(cuEventElapsedTime, &ms, a, b);
	CALL(cuEventElapsedTime_v2, &ms, a, b);
	CALL(cuEventElapsedTime, &ms, b, a);
	CALL(cuEventDestroy_v2, a);
	CALL(cuEventDestroy_v2, b);
}

static void elapsed(void)
{
	POISONED(CUevent, a);
	POISONED(CUevent, b);
	float ms = -1;
	CALL(cuEventCreate, &a, 0);
	CALL(cuEventCreate, &b, 0);
	CALL(cuEventRecord, a, NULL);
	spin_quiet(NULL, 10 * MS);
	CALL(cuEventRecord, b, NULL);
	CALL(cuEventQuery, b);
	CALL(cuEventElapsedTime, &ms, a, b);
	CALL(cuEventSynchronize, b);
	CALL(cuEventElapsedTime, &ms, a, b);
	YES(ms >= 9.9 && ms < 100);
	CALL(cuEventElapsedTime_v2, &ms, a, b);
	YES(ms >= 9.9 && ms < 100);
	CALL(cuEventElapsedTime, &ms, b, a);
	YES(ms < 0);
	CALL(cuEventElapsedTime, &ms, a, a);
	YES(ms == 0);
	CALL(cuEventElapsedTime, NULL, a, b);
	CALL(cuEventElapsedTime, &ms, NULL, b);
	CALL(cuEventElapsedTime, &ms, a, NULL);
	CALL(cuEventDestroy_v2, a);
	CALL(cuEventDestroy_v2, b);
}

static void no_timing(void)
{
	POISONED(CUevent, a);
	POISONED(CUevent, b);
	float ms = -1;
	CALL(cuEventCreate, &a, CU_EVENT_DISABLE_TIMING);
	CALL(cuEventCreate, &b, 0);
	CALL(cuEventRecord, a, NULL);
	CALL(cuEventRecord, b, NULL);
	CALL(cuEventSynchronize, b);
	CALL(cuEventElapsedTime, &ms, a, b);
	CALL(cuEventElapsedTime, &ms, b, a);
	CALL(cuEventElapsedTime_v2, &ms, a, b);
	YES(ms == -1);
	CALL(cuEventDestroy_v2, a);
	CALL(cuEventDestroy_v2, b);
}

static void query(void)
{
	POISONED(CUevent, e);
	CALL(cuEventCreate, &e, 0);
	spin_quiet(NULL, 20 * MS);
	CALL(cuEventRecord, e, NULL);
	CALL(cuEventQuery, e);
	CALL(cuEventSynchronize, e);
	CALL(cuEventQuery, e);
	/* recording again makes it pending again */
	spin_quiet(NULL, 20 * MS);
	CALL(cuEventRecord, e, NULL);
	CALL(cuEventQuery, e);
	CALL(cuStreamSynchronize, NULL);
	CALL(cuEventQuery, e);
	CALL(cuEventQuery, NULL);
	CALL(cuEventSynchronize, NULL);
	CALL(cuEventRecord, NULL, NULL);
	CALL(cuEventDestroy_v2, e);
}

static void destroy_pending(void)
{
	POISONED(CUevent, e);
	CALL(cuEventCreate, &e, 0);
	spin_quiet(NULL, 10 * MS);
	CALL(cuEventRecord, e, NULL);
	CALL(cuEventDestroy_v2, e);
	CALL(cuStreamQuery, NULL);
	CALL(cuStreamSynchronize, NULL);
}

static void record_flags(void)
{
	POISONED(CUevent, e);
	CALL(cuEventCreate, &e, 0);
	CALL(cuEventRecordWithFlags, e, NULL, CU_EVENT_RECORD_DEFAULT);
	CALL(cuEventRecordWithFlags, e, NULL, CU_EVENT_RECORD_EXTERNAL);
	CALL(cuEventRecordWithFlags, e, NULL, 8);
	CALL(cuEventRecord, e, CU_STREAM_LEGACY);
	CALL(cuEventRecord, e, CU_STREAM_PER_THREAD);
	CALL(cuEventRecord_ptsz, e, NULL);
	CALL(cuEventSynchronize, e);
	CALL(cuEventDestroy_v2, e);
}

static void destroyed_use(void)
{
	POISONED(CUevent, e);
	CALL(cuEventCreate, &e, 0);
	CALL(cuEventDestroy_v2, e);
	CALL(cuEventQuery, e);
	CALL(cuEventRecord, e, NULL);
	CALL(cuEventDestroy_v2, e);
}

static void other_context(void)
{
	POISONED(CUevent, e);
	POISONED(CUcontext, other);
	CALL(cuEventCreate, &e, 0);
	CALL(cuEventRecord, e, NULL);
	CALL(cuCtxCreate_v2, &other, 0, 0);
	CALL(cuEventRecord, e, NULL);
	CALL(cuEventQuery, e);
	CALL(cuEventSynchronize, e);
	CALL(cuStreamWaitEvent, NULL, e, 0);
	CALL(cuEventDestroy_v2, e);
	CALL(cuCtxDestroy_v2, other);
	CALL(cuCtxSetCurrent, conf_ctx);
}

static void ctx_events(void)
{
	POISONED(CUevent, e);
	CALL(cuEventCreate, &e, 0);
	CALL(cuCtxRecordEvent, conf_ctx, e);
	CALL(cuCtxWaitEvent, conf_ctx, e);
	CALL(cuCtxRecordEvent, conf_ctx, NULL);
	CALL(cuEventDestroy_v2, e);
}

static void garbage(void)
{
	static uint64_t not_an_event[64];
	CALL(cuEventQuery, (CUevent)not_an_event);
	CALL(cuEventRecord, (CUevent)not_an_event, NULL);
	CALL(cuEventDestroy_v2, (CUevent)not_an_event);
}

FAMILY(event, { "event", "event.create", KERNELS, create },
       { "event", "event.not-recorded", KERNELS, not_recorded },
       { "event", "event.elapsed", KERNELS, elapsed },
       { "event", "event.no-timing", KERNELS, no_timing },
       { "event", "event.query", KERNELS, query },
       { "event", "event.destroy-pending", KERNELS, destroy_pending },
       { "event", "event.record-flags", KERNELS, record_flags },
       { "event", "event.of-context", KERNELS, ctx_events },
       { "event.bad", "event.other-context", CTX, other_context },
       { "event.bad", "event.destroyed-use", CTX, destroyed_use },
       { "event.bad", "event.garbage", CTX, garbage }, );
