// SPDX-License-Identifier: Apache-2.0
/* Streams: handles, priorities, order, waiting. */
#include "conform.h"

#include <time.h>

#define MS 1000000ull

static double now_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec * 1e-6;
}

static void create_destroy(void)
{
	POISONED(CUstream, s);
	POISONED_UINT(flags);
	POISONED_INT(priority);
	POISONED(CUcontext, ctx);
	POISONED_INT(device);
	CALL(cuStreamCreate, &s, CU_STREAM_DEFAULT);
	NEWHANDLE(s);
	CALL(cuStreamGetFlags, s, &flags);
	INT(flags);
	CALL(cuStreamGetPriority, s, &priority);
	INT(priority);
	CALL(cuStreamGetCtx, s, &ctx);
	YES(ctx == conf_ctx);
	CALL(cuStreamGetDevice, s, &device);
	INT(device);
	CALL(cuStreamQuery, s);
	CALL(cuStreamSynchronize, s);
	CALL(cuStreamDestroy_v2, s);
}

static void create_errors(void)
{
	POISONED(CUstream, s);
	CALL(cuStreamCreate, NULL, 0);
	CALL(cuStreamCreate, &s, 2);
	HANDLE(s);
	CALL(cuStreamCreate, &s, 0xffffffffu);
	HANDLE(s);
	CALL(cuStreamCreateWithPriority, NULL, 0, 0);
	CALL(cuStreamCreateWithPriority, &s, 2, 0);
	HANDLE(s);
	CALL(cuStreamDestroy_v2, NULL);
	CALL(cuStreamDestroy_v2, CU_STREAM_LEGACY);
	CALL(cuStreamDestroy_v2, CU_STREAM_PER_THREAD);
}

static void priorities(void)
{
	POISONED_INT(least);
	POISONED_INT(greatest);
	POISONED(CUstream, s);
	CALL(cuCtxGetStreamPriorityRange, &least, &greatest);
	INT(least);
	INT(greatest);
	CALL(cuCtxGetStreamPriorityRange, NULL, &greatest);
	CALL(cuCtxGetStreamPriorityRange, &least, NULL);
	CALL(cuCtxGetStreamPriorityRange, NULL, NULL);
	for (int ask = -10; ask <= 2; ask++) {
		POISONED_INT(got);
		QUIET(cuStreamCreateWithPriority, &s, CU_STREAM_NON_BLOCKING, ask);
		QUIET(cuStreamGetPriority, s, &got);
		out_line("# asked %d, got %d", ask, got);
		QUIET(cuStreamDestroy_v2, s);
	}
}

static void default_handles(void)
{
	CUstream all[] = { NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD };
	for (int i = 0; i < 3; i++) {
		POISONED_UINT(flags);
		POISONED_INT(priority);
		POISONED(CUcontext, ctx);
		NOTE("stream %d", i);
		CALL(cuStreamQuery, all[i]);
		CALL(cuStreamSynchronize, all[i]);
		CALL(cuStreamGetFlags, all[i], &flags);
		INT(flags);
		CALL(cuStreamGetPriority, all[i], &priority);
		INT(priority);
		CALL(cuStreamGetCtx, all[i], &ctx);
		YES(ctx == conf_ctx);
	}
	POISONED_UINT(flags);
	CALL(cuStreamGetFlags, NULL, NULL);
	CALL(cuStreamGetPriority, NULL, NULL);
	CALL(cuStreamGetCtx, NULL, NULL);
	CALL(cuStreamQuery, (CUstream)3);
	CALL(cuStreamGetFlags, (CUstream)3, &flags);
}

static void default_ptsz(void)
{
	CALL(cuStreamQuery_ptsz, NULL);
	CALL(cuStreamSynchronize_ptsz, NULL);
	CUdeviceptr p = alloc_quiet(4096, 0);
	CALL(cuMemsetD32Async_ptsz, p, 7, 1024, NULL);
	CALL(cuStreamSynchronize_ptsz, NULL);
	data_u32(p, 4096);
	CALL(cuMemFree_v2, p);
}

static void ids(void)
{
	unsigned long long a = POISON_64, b = POISON_64, c = POISON_64;
	POISONED(CUstream, s);
	CALL(cuStreamCreate, &s, 0);
	CALL(cuStreamGetId, s, &a);
	CALL(cuStreamGetId, NULL, &b);
	YES(a != b);
	CALL(cuStreamGetId, CU_STREAM_LEGACY, &c);
	YES(b == c);
	CALL(cuStreamGetId, CU_STREAM_PER_THREAD, &c);
	YES(b != c);
	CALL(cuStreamGetId, s, NULL);
	CALL(cuStreamDestroy_v2, s);
}

static void query_busy(void)
{
	POISONED(CUstream, s);
	CALL(cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
	spin_quiet(s, 30 * MS);
	CALL(cuStreamQuery, s);
	CALL(cuStreamQuery, NULL);
	CALL(cuStreamSynchronize, s);
	CALL(cuStreamQuery, s);
	CALL(cuStreamDestroy_v2, s);
}

static void sync_waits(void)
{
	POISONED(CUstream, s);
	CALL(cuStreamCreate, &s, 0);
	double begin = now_ms();
	spin_quiet(s, 20 * MS);
	double launched = now_ms() - begin;
	CALL(cuStreamSynchronize, s);
	double elapsed = now_ms() - begin;
	YES(launched < 15);
	YES(elapsed >= 20);
	begin = now_ms();
	spin_quiet(s, 20 * MS);
	CALL(cuCtxSynchronize);
	elapsed = now_ms() - begin;
	YES(elapsed >= 20);
	CALL(cuStreamDestroy_v2, s);
}

static void destroy_busy(void)
{
	POISONED(CUstream, s);
	CUdeviceptr p = alloc_quiet(4096, 0);
	CALL(cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
	spin_quiet(s, 20 * MS);
	fill_quiet(p, 3, 1024, s);
	double begin = now_ms();
	CALL(cuStreamDestroy_v2, s);
	double elapsed = now_ms() - begin;
	YES(elapsed < 15);
	CALL(cuCtxSynchronize);
	data_u32(p, 4096);
	CALL(cuMemFree_v2, p);
}

static void legacy_blocks(void)
{
	POISONED(CUstream, s);
	uint32_t word = 0;
	CUdeviceptr p = alloc_quiet(4096, 0);
	CALL(cuStreamCreate, &s, CU_STREAM_DEFAULT);
	spin_quiet(s, 20 * MS);
	fill_quiet(p, 3, 1024, s);
	/* the legacy stream waits for a blocking one */
	CALL(cuMemcpyDtoH_v2, &word, p, 4);
	HEX(word);
	CALL(cuStreamQuery, s);
	/* and the other way round */
	spin_quiet(NULL, 20 * MS);
	fill_quiet(p, 4, 1024, NULL);
	CALL(cuMemcpyDtoHAsync_v2, &word, p, 4, s);
	CALL(cuStreamSynchronize, s);
	HEX(word);
	CALL(cuStreamDestroy_v2, s);
	CALL(cuMemFree_v2, p);
}

static void non_blocking_free(void)
{
	POISONED(CUstream, s);
	uint32_t word = 0;
	CUdeviceptr p = alloc_quiet(4096, 1);
	CALL(cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
	spin_quiet(s, 40 * MS);
	fill_quiet(p, 2, 1024, s);
	double begin = now_ms();
	CALL(cuMemcpyDtoH_v2, &word, p, 4);
	double elapsed = now_ms() - begin;
	HEX(word);
	YES(elapsed < 30);
	CALL(cuStreamQuery, s);
	CALL(cuStreamSynchronize, s);
	data_u32(p, 4096);
	CALL(cuStreamDestroy_v2, s);
	CALL(cuMemFree_v2, p);
}

static void free_waits(void)
{
	POISONED(CUstream, s);
	CUdeviceptr p = alloc_quiet(4096, 1);
	CALL(cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
	spin_quiet(s, 30 * MS);
	double begin = now_ms();
	CALL(cuMemFree_v2, p);
	double elapsed = now_ms() - begin;
	YES(elapsed >= 20);
	CALL(cuStreamQuery, s);
	CALL(cuStreamDestroy_v2, s);
}

static void alloc_does_not_wait(void)
{
	POISONED(CUstream, s);
	POISONED_PTR(p);
	CALL(cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
	spin_quiet(s, 40 * MS);
	CALL(cuMemAlloc_v2, &p, 4096);
	CALL(cuStreamQuery, s);
	CALL(cuStreamSynchronize, s);
	CALL(cuMemFree_v2, p);
	CALL(cuStreamDestroy_v2, s);
}

static void wait_event(void)
{
	POISONED(CUstream, a);
	POISONED(CUstream, b);
	POISONED(CUevent, e);
	CUdeviceptr p = alloc_quiet(4096, 0);
	uint32_t word = 0;
	CALL(cuStreamCreate, &a, CU_STREAM_NON_BLOCKING);
	CALL(cuStreamCreate, &b, CU_STREAM_NON_BLOCKING);
	CALL(cuEventCreate, &e, CU_EVENT_DISABLE_TIMING);
	spin_quiet(a, 20 * MS);
	fill_quiet(p, 9, 1024, a);
	CALL(cuEventRecord, e, a);
	CALL(cuStreamWaitEvent, b, e, 0);
	CALL(cuMemcpyDtoHAsync_v2, &word, p, 4, b);
	CALL(cuStreamSynchronize, b);
	HEX(word);
	CALL(cuStreamWaitEvent, b, NULL, 0);
	CALL(cuStreamWaitEvent, b, e, 7);
	CALL(cuEventDestroy_v2, e);
	CALL(cuStreamDestroy_v2, a);
	CALL(cuStreamDestroy_v2, b);
	CALL(cuMemFree_v2, p);
}

static void destroyed_use(void)
{
	POISONED(CUstream, s);
	POISONED_UINT(flags);
	CALL(cuStreamCreate, &s, 0);
	CALL(cuStreamDestroy_v2, s);
	CALL(cuStreamQuery, s);
	CALL(cuStreamSynchronize, s);
	CALL(cuStreamGetFlags, s, &flags);
	CALL(cuStreamDestroy_v2, s);
}

static void garbage(void)
{
	static uint64_t not_a_stream[64];
	CALL(cuStreamQuery, (CUstream)not_a_stream);
	CALL(cuStreamSynchronize, (CUstream)not_a_stream);
	CALL(cuStreamDestroy_v2, (CUstream)not_a_stream);
}

static void other_context(void)
{
	POISONED(CUstream, s);
	POISONED(CUcontext, other);
	POISONED(CUcontext, of);
	CUdeviceptr p = alloc_quiet(4096, 0);
	CALL(cuStreamCreate, &s, 0);
	CALL(cuCtxCreate_v2, &other, 0, 0);
	CALL(cuStreamGetCtx, s, &of);
	YES(of == conf_ctx);
	CALL(cuStreamSynchronize, s);
	CALL(cuMemsetD32Async, p, 1, 1024, s);
	CALL(cuStreamQuery, s);
	CALL(cuStreamDestroy_v2, s);
	CALL(cuCtxDestroy_v2, other);
	CALL(cuCtxSetCurrent, conf_ctx);
	CALL(cuMemFree_v2, p);
}

static int called;

static void on_host(void *arg)
{
	called += *(int *)arg;
}

static void host_function(void)
{
	static int one = 1;
	CALL(cuLaunchHostFunc, NULL, on_host, &one);
	CALL(cuStreamSynchronize, NULL);
	INT(called);
	CALL(cuLaunchHostFunc, NULL, NULL, &one);
	CALL(cuStreamAddCallback, NULL, NULL, NULL, 0);
}

static void wait_values(void)
{
	POISONED(CUstream, s);
	CUdeviceptr p = alloc_quiet(4096, 0);
	uint32_t word = 0;
	CALL(cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
	CALL(cuStreamWriteValue32_v2, s, p, 5, 0);
	CALL(cuStreamWaitValue32_v2, s, p, 5, CU_STREAM_WAIT_VALUE_EQ);
	CALL(cuMemcpyDtoHAsync_v2, &word, p, 4, s);
	CALL(cuStreamSynchronize, s);
	HEX(word);
	CALL(cuStreamWaitValue32_v2, s, p + 8, 1, CU_STREAM_WAIT_VALUE_GEQ);
	CALL(cuStreamQuery, s);
	CALL(cuStreamWriteValue32_v2, NULL, p + 8, 1, 0);
	CALL(cuStreamSynchronize, s);
	CALL(cuStreamWriteValue32_v2, s, p + 1, 1, 0);
	CALL(cuStreamWriteValue32_v2, s, 0, 1, 0);
	CALL(cuStreamWaitValue32_v2, s, p, 1, 0x100);
	CALL(cuStreamWriteValue64_v2, s, p + 16, 0x100000002ull, 0);
	CALL(cuStreamSynchronize, s);
	data_u32(p, 32);
	CALL(cuStreamDestroy_v2, s);
	CALL(cuMemFree_v2, p);
}

static void thread_default(void *arg)
{
	CUdeviceptr p = *(CUdeviceptr *)arg;
	CALL(cuCtxSetCurrent, conf_ctx);
	CALL(cuStreamQuery, CU_STREAM_PER_THREAD);
	CALL(cuMemsetD32Async, p, 12, 1024, CU_STREAM_PER_THREAD);
	CALL(cuStreamSynchronize, CU_STREAM_PER_THREAD);
	data_u32(p, 4096);
}

static void per_thread(void)
{
	CUdeviceptr p = alloc_quiet(4096, 0);
	spin_quiet(CU_STREAM_PER_THREAD, 30 * MS);
	on_thread(thread_default, &p);
	CALL(cuStreamQuery, CU_STREAM_PER_THREAD);
	CALL(cuStreamSynchronize, CU_STREAM_PER_THREAD);
	CALL(cuMemFree_v2, p);
}

static void attributes(void)
{
	POISONED(CUstream, s);
	POISONED(CUstream, t);
	CUstreamAttrValue v = { 0 };
	CALL(cuStreamCreate, &s, 0);
	CALL(cuStreamCreate, &t, 0);
	CALL(cuStreamGetAttribute, s, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &v);
	INT(v.syncPolicy);
	CALL(cuStreamGetAttribute, s, CU_LAUNCH_ATTRIBUTE_PRIORITY, &v);
	INT(v.priority);
	CALL(cuStreamGetAttribute, s, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &v);
	CALL(cuStreamGetAttribute, s, CU_LAUNCH_ATTRIBUTE_PRIORITY, NULL);
	CALL(cuStreamCopyAttributes, s, t);
	CALL(cuStreamCopyAttributes, s, NULL);
	CALL(cuStreamDestroy_v2, s);
	CALL(cuStreamDestroy_v2, t);
}

FAMILY(stream, { "stream", "stream.create-destroy", KERNELS, create_destroy },
       { "stream", "stream.create-errors", KERNELS, create_errors },
       { "stream", "stream.priorities", KERNELS, priorities },
       { "stream", "stream.default-ptsz", KERNELS, default_ptsz },
       { "stream", "stream.ids", KERNELS, ids },
       { "stream", "stream.query-busy", KERNELS, query_busy },
       { "stream", "stream.sync-waits", KERNELS, sync_waits },
       { "stream", "stream.destroy-busy", KERNELS, destroy_busy },
       { "stream", "stream.legacy-blocks", KERNELS, legacy_blocks },
       { "stream", "stream.non-blocking", KERNELS, non_blocking_free },
       { "stream", "stream.free-waits", KERNELS, free_waits },
       { "stream", "stream.alloc-does-not-wait", KERNELS, alloc_does_not_wait },
       { "stream", "stream.wait-event", KERNELS, wait_event },
       { "stream", "stream.host-function", KERNELS, host_function },
       { "stream", "stream.wait-values", KERNELS, wait_values },
       { "stream", "stream.per-thread", KERNELS, per_thread },
       { "stream", "stream.attributes", KERNELS, attributes },
       { "stream", "stream.default-handles", KERNELS, default_handles },
       { "stream.bad", "stream.other-context", CTX, other_context },
       { "stream.bad", "stream.destroyed-use", CTX, destroyed_use },
       { "stream.bad", "stream.garbage", CTX, garbage }, );
