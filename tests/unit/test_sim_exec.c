// SPDX-License-Identifier: Apache-2.0
/* Streams, events, launches and copies of the simulated driver. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "sim_exec_fixture.h"

#define MS ((unsigned long long)1000000)

static CUstream stream_new(unsigned flags)
{
	CUstream stream = NULL;

	assert_int_equal(CU(cuStreamCreate)(&stream, flags), 0);
	return stream;
}

static CUevent event_new(unsigned flags)
{
	CUevent event = NULL;

	assert_int_equal(CU(cuEventCreate)(&event, flags), 0);
	return event;
}

static void work_takes_its_time_in_order(void **unused)
{
	CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
	CUevent a = event_new(0), b = event_new(0);
	uint64_t start_ns;
	float ms = -1;

	(void)unused;
	assert_int_equal(CU(cuStreamQuery)(s), 0);
	start_ns = clock_now_ns();
	assert_int_equal(CU(cuEventRecord)(a, s), 0);
	sim_exec_spin(s, 5 * MS);
	sim_exec_spin(s, 5 * MS);
	assert_int_equal(CU(cuEventRecord)(b, s), 0);
	assert_int_equal(CU(cuStreamQuery)(s), CUDA_ERROR_NOT_READY);
	assert_int_equal(CU(cuEventQuery)(b), CUDA_ERROR_NOT_READY);
	assert_int_equal(CU(cuEventElapsedTime)(&ms, a, b), CUDA_ERROR_NOT_READY);
	assert_int_equal(CU(cuEventSynchronize)(b), 0);
	assert_true(clock_now_ns() - start_ns >= 10 * MS);
	assert_int_equal(CU(cuStreamQuery)(s), 0);
	assert_int_equal(CU(cuEventElapsedTime)(&ms, a, b), 0);
	assert_true(ms >= 10.0f && ms < 10.5f);
	assert_int_equal(CU(cuEventDestroy_v2)(a), 0);
	assert_int_equal(CU(cuEventDestroy_v2)(b), 0);
	assert_int_equal(CU(cuStreamDestroy_v2)(s), 0);
}

static void the_legacy_stream_orders_blocking_ones(void **unused)
{
	CUstream blocking = stream_new(0), free_one = stream_new(CU_STREAM_NON_BLOCKING);

	(void)unused;
	sim_exec_spin(blocking, 5 * MS);
	assert_int_equal(CU(cuStreamQuery)(NULL), CUDA_ERROR_NOT_READY);
	assert_int_equal(CU(cuStreamQuery)(free_one), 0);
	assert_int_equal(CU(cuStreamSynchronize)(CU_STREAM_LEGACY), 0);
	assert_int_equal(CU(cuStreamQuery)(blocking), 0);
	/* and the other way round: what comes after the legacy stream's work waits for it */
	sim_exec_spin(NULL, 5 * MS);
	sim_exec_spin(blocking, 1000);
	sim_exec_spin(free_one, 1000);
	assert_int_equal(CU(cuStreamSynchronize)(free_one), 0);
	assert_int_equal(CU(cuStreamQuery)(blocking), CUDA_ERROR_NOT_READY);
	assert_int_equal(CU(cuStreamSynchronize)(blocking), 0);
	assert_int_equal(CU(cuStreamQuery)(NULL), 0);
	/* a thread's own default stream is a blocking one; _ptsz means it by NULL */
	sim_exec_spin(CU_STREAM_PER_THREAD, 3 * MS);
	assert_int_equal(CU(cuStreamQuery_ptsz)(NULL), CUDA_ERROR_NOT_READY);
	assert_int_equal(CU(cuStreamQuery)(NULL), CUDA_ERROR_NOT_READY);
	assert_int_equal(CU(cuCtxSynchronize)(), 0);
	assert_int_equal(CU(cuStreamDestroy_v2)(blocking), 0);
	assert_int_equal(CU(cuStreamDestroy_v2)(free_one), 0);
}

static void narrow_kernels_run_beside_each_other(void **unused)
{
	CUstream a = stream_new(CU_STREAM_NON_BLOCKING), b = stream_new(CU_STREAM_NON_BLOCKING);
	uint64_t start_ns = clock_now_ns();

	(void)unused;
	sim_exec_spin(a, 10 * MS);
	sim_exec_spin(b, 10 * MS);
	assert_int_equal(CU(cuCtxSynchronize)(), 0);
	assert_true(clock_now_ns() - start_ns < 18 * MS);
	assert_int_equal(CU(cuStreamDestroy_v2)(a), 0);
	assert_int_equal(CU(cuStreamDestroy_v2)(b), 0);
}

static void an_event_carries_order_between_streams(void **unused)
{
	CUstream a = stream_new(CU_STREAM_NON_BLOCKING), b = stream_new(CU_STREAM_NON_BLOCKING);
	CUevent e = event_new(CU_EVENT_DISABLE_TIMING);
	float ms;

	(void)unused;
	assert_int_equal(CU(cuStreamWaitEvent)(b, e, 0), 0); /* never recorded: no wait */
	sim_exec_spin(a, 5 * MS);
	assert_int_equal(CU(cuEventRecord)(e, a), 0);
	assert_int_equal(CU(cuStreamWaitEvent)(b, e, 0), 0);
	assert_int_equal(CU(cuStreamQuery)(b), CUDA_ERROR_NOT_READY);
	/* recorded again, the wait still means the first record */
	sim_exec_spin(a, 50 * MS);
	assert_int_equal(CU(cuEventRecord)(e, a), 0);
	assert_int_equal(CU(cuStreamSynchronize)(b), 0);
	assert_int_equal(CU(cuEventQuery)(e), CUDA_ERROR_NOT_READY);
	assert_int_equal(CU(cuEventElapsedTime)(&ms, e, e), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(CU(cuCtxSynchronize)(), 0);
	assert_int_equal(CU(cuEventDestroy_v2)(e), 0);
	assert_int_equal(CU(cuStreamDestroy_v2)(a), 0);
	assert_int_equal(CU(cuStreamDestroy_v2)(b), 0);
}

/* Functions of the program. */

static CUdeviceptr shared_ptr;
static unsigned seen[8];
static unsigned seen_count;
static CUresult status_seen = CUDA_ERROR_UNKNOWN;
static CUresult call_inside;
static CUstream stream_seen;
static pthread_t thread_seen;

static void look(void *arg)
{
	thread_seen = pthread_self();
	seen[seen_count++] = *(volatile unsigned *)(uintptr_t)shared_ptr;
	*(volatile unsigned *)(uintptr_t)shared_ptr += (unsigned)(uintptr_t)arg;
	call_inside = CU(cuCtxSynchronize)();
}

static void callback(CUstream stream, CUresult status, void *arg)
{
	stream_seen = stream;
	status_seen = status;
	look(arg);
}

static void functions_of_the_program_stand_in_order(void **unused)
{
	CUstream s = stream_new(CU_STREAM_NON_BLOCKING), t = stream_new(CU_STREAM_NON_BLOCKING);
	CUevent e = event_new(0);
	void *host;

	(void)unused;
	assert_int_equal(CU(cuMemHostAlloc)(&host, 4096, 0), 0);
	shared_ptr = (CUdeviceptr)(uintptr_t)host;
	*(unsigned *)host = 1;
	seen_count = 0;
	sim_exec_spin(s, 2 * MS);
	assert_int_equal(sim_exec_add(s, shared_ptr, 1, 1), 0);
	assert_int_equal(CU(cuLaunchHostFunc)(s, look, (void *)10), 0);
	assert_int_equal(sim_exec_add(s, shared_ptr, 100, 1), 0);
	assert_int_equal(CU(cuStreamAddCallback)(s, callback, (void *)1000, 0), 0);
	assert_int_equal(CU(cuEventRecord)(e, s), 0);
	assert_int_equal(CU(cuStreamWaitEvent)(t, e, 0), 0);
	assert_int_equal(sim_exec_add(t, shared_ptr, 10000, 1), 0);
	assert_int_equal(CU(cuEventQuery)(e), CUDA_ERROR_NOT_READY);
	assert_int_equal(CU(cuStreamQuery)(t), CUDA_ERROR_NOT_READY);
	assert_int_equal(CU(cuStreamSynchronize)(t), 0);
	assert_int_equal(seen_count, 2);
	assert_int_equal(seen[0], 2);
	assert_int_equal(seen[1], 112);
	assert_int_equal(*(unsigned *)host, 11112);
	assert_int_equal(status_seen, 0);
	assert_ptr_equal(stream_seen, s);
	assert_false(pthread_equal(thread_seen, pthread_self()));
	assert_int_equal(call_inside, CUDA_ERROR_NOT_PERMITTED);
	assert_int_equal(CU(cuEventQuery)(e), 0);
	/* a stream destroyed with work in it does that work first */
	assert_int_equal(CU(cuLaunchHostFunc)(s, look, (void *)5), 0);
	assert_int_equal(CU(cuStreamDestroy_v2)(s), 0);
	assert_int_equal(CU(cuCtxSynchronize)(), 0);
	assert_int_equal(seen_count, 3);
	assert_int_equal(CU(cuLaunchHostFunc)(t, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuStreamDestroy_v2)(t), 0);
	assert_int_equal(CU(cuEventDestroy_v2)(e), 0);
	assert_int_equal(CU(cuMemFreeHost)(host), 0);
}

static void a_pageable_source_may_be_reused_at_once(void **unused)
{
	CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
	CUdeviceptr p = sim_exec_buffer(64, 0);
	unsigned word = 7;

	(void)unused;
	shared_ptr = p;
	seen_count = 0;
	assert_int_equal(CU(cuLaunchHostFunc)(s, look, NULL), 0);
	assert_int_equal(CU(cuMemcpyHtoDAsync_v2)(p, &word, 4, s), 0);
	word = 9;
	assert_int_equal(CU(cuStreamSynchronize)(s), 0);
	assert_int_equal(sim_exec_word(p), 7);
	assert_int_equal(CU(cuStreamDestroy_v2)(s), 0);
	assert_int_equal(CU(cuMemFree_v2)(p), 0);
}

static void a_wait_for_a_value_holds_its_stream(void **unused)
{
	CUstream s = stream_new(CU_STREAM_NON_BLOCKING), t = stream_new(CU_STREAM_NON_BLOCKING);
	CUdeviceptr p = sim_exec_buffer(64, 0);

	(void)unused;
	assert_int_equal(CU(cuStreamWaitValue32_v2)(s, p + 64, 3, CU_STREAM_WAIT_VALUE_GEQ), 0);
	assert_int_equal(sim_exec_add(s, p, 1, 1), 0);
	assert_int_equal(CU(cuStreamWriteValue32_v2)(t, p + 64, 2, 0), 0);
	assert_int_equal(CU(cuStreamSynchronize)(t), 0);
	assert_int_equal(CU(cuStreamQuery)(s), CUDA_ERROR_NOT_READY);
	assert_int_equal(sim_exec_word(p), 0);
	assert_int_equal(CU(cuStreamWriteValue32_v2)(t, p + 64, 3, 0), 0);
	assert_int_equal(CU(cuStreamSynchronize)(s), 0);
	assert_int_equal(sim_exec_word(p), 1);
	assert_int_equal(CU(cuStreamWriteValue32_v2)(t, 0x1000, 3, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuStreamDestroy_v2)(s), 0);
	assert_int_equal(CU(cuStreamDestroy_v2)(t), 0);
	assert_int_equal(CU(cuMemFree_v2)(p), 0);
}

/* Launches. */

static void eleven_arguments_arrive_whole(void **unused)
{
	CUdeviceptr y = sim_exec_buffer(1000, 0), x = sim_exec_buffer(1000, 0);
	CUfunction saxpy = sim_exec_function("allot_saxpy_f32");
	float a = 2.5f, values[1000];
	unsigned long long n = 1000;
	void *params[] = { &y, &x, &a, &n };
	struct {
		CUdeviceptr y, x;
		float a;
		unsigned long long n;
	} packed = { y, x, -1.0f, n };
	size_t bytes = sizeof(packed);
	void *extra[] = { CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE,
			  &bytes, CU_LAUNCH_PARAM_END };

	(void)unused;
	for (int i = 0; i < 1000; i++)
		values[i] = (float)i;
	assert_int_equal(CU(cuMemcpyHtoD_v2)(x, values, sizeof(values)), 0);
	assert_int_equal(CU(cuLaunchKernel)(saxpy, 4, 2, 1, 32, 2, 2, 0, NULL, params, NULL), 0);
	assert_int_equal(CU(cuMemcpyDtoH_v2)(values, y, sizeof(values)), 0);
	assert_true(values[999] == 2.5f * 999);
	assert_int_equal(CU(cuLaunchKernel)(saxpy, 4, 1, 1, 32, 1, 1, 0, NULL, NULL, extra), 0);
	assert_int_equal(CU(cuMemcpyDtoH_v2)(values, y, sizeof(values)), 0);
	assert_true(values[999] == 1.5f * 999);
	assert_int_equal(CU(cuLaunchKernel)(saxpy, 1, 1, 1, 1, 1, 1, 0, NULL, params, extra),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuMemFree_v2)(y), 0);
	assert_int_equal(CU(cuMemFree_v2)(x), 0);
}

static void bad_launches_are_refused(void **unused)
{
	CUfunction empty = sim_exec_function("allot_empty");
	CUfunction add = sim_exec_function("allot_add_u32");

	(void)unused;
	assert_int_equal(CU(cuLaunchKernel)(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
			 CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(CU(cuLaunchKernel)(empty, 0, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuLaunchKernel)(empty, 1, 1, 1, 1025, 1, 1, 0, NULL, NULL, NULL),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuLaunchKernel)(empty, 1, 65536, 1, 1, 1, 1, 0, NULL, NULL, NULL),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuLaunchKernel)(empty, 1, 1, 1, 1, 1, 1, 49153, NULL, NULL, NULL),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuLaunchKernel)(add, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(
		CU(cuLaunchCooperativeKernel)(empty, 1 << 20, 1, 1, 1024, 1, 1, 0, NULL, NULL),
		CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
	assert_int_equal(CU(cuLaunchCooperativeKernel)(empty, 2, 1, 1, 32, 1, 1, 0, NULL, NULL), 0);
}

static void the_oldest_launch_calls_work(void **unused)
{
	CUfunction add = sim_exec_function("allot_add_u32");
	CUdeviceptr p = sim_exec_buffer(8, 1);
	unsigned long long n = 8;

	(void)unused;
	assert_int_equal(CU(cuFuncSetBlockShape)(add, 32, 1, 1), 0);
	assert_int_equal(CU(cuParamSetv)(add, 0, &p, sizeof(p)), 0);
	assert_int_equal(CU(cuParamSeti)(add, 8, 41), 0);
	assert_int_equal(CU(cuParamSetv)(add, 16, &n, sizeof(n)), 0);
	assert_int_equal(CU(cuParamSetSize)(add, 24), 0);
	assert_int_equal(CU(cuLaunchGrid)(add, 1, 1), 0);
	assert_int_equal(sim_exec_word(p + 28), 42);
	assert_int_equal(CU(cuMemFree_v2)(p), 0);
}

/* Copies. */

static void copies_keep_within_their_allocations(void **unused)
{
	CUdeviceptr p = sim_exec_buffer(1024, 5);
	unsigned words[1024];

	(void)unused;
	assert_int_equal(CU(cuMemcpyDtoH_v2)(words, p, 4096), 0);
	assert_int_equal(words[1023], 5);
	assert_int_equal(CU(cuMemcpyDtoH_v2)(words, p + 8, 4096), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuMemcpyHtoD_v2)(0x1000, words, 4), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuMemsetD8_v2)(p + 4095, 0, 2), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuMemsetD32_v2)(p + 2, 0, 2), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuMemcpyDtoH_v2)(words, p, 0), 0);
	assert_int_equal(CU(cuMemFree_v2)(p), 0);
}

static void rectangles_and_boxes_land_where_they_should(void **unused)
{
	CUDA_MEMCPY2D copy = { .srcMemoryType = CU_MEMORYTYPE_HOST,
			       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			       .WidthInBytes = 8,
			       .Height = 3 };
	CUDA_MEMCPY3D box = { .srcMemoryType = CU_MEMORYTYPE_DEVICE,
			      .dstMemoryType = CU_MEMORYTYPE_HOST };
	CUdeviceptr p = sim_exec_buffer(256, 0);
	unsigned char from[64], to[1024];

	(void)unused;
	for (int i = 0; i < 64; i++)
		from[i] = (unsigned char)i;
	copy.srcHost = from;
	copy.srcPitch = 16;
	copy.srcXInBytes = 4;
	copy.srcY = 1;
	copy.dstDevice = p;
	copy.dstPitch = 32;
	copy.dstXInBytes = 2;
	copy.dstY = 2;
	assert_int_equal(CU(cuMemcpy2D_v2)(&copy), 0);
	assert_int_equal(CU(cuMemcpyDtoH_v2)(to, p, sizeof(to)), 0);
	assert_int_equal(to[2 * 32 + 2], 20);
	assert_int_equal(to[4 * 32 + 9], 16 * 3 + 4 + 7);
	assert_int_equal(to[4 * 32 + 10], 0);
	copy.dstPitch = 9; /* narrower than where it should go */
	assert_int_equal(CU(cuMemcpy2D_v2)(&copy), CUDA_ERROR_INVALID_VALUE);
	box.srcDevice = p;
	box.srcPitch = 32;
	box.srcHeight = 4;
	box.srcY = 2;
	box.dstHost = to;
	box.dstPitch = 4;
	box.dstHeight = 2;
	box.WidthInBytes = 4;
	box.Height = 2;
	box.Depth = 2;
	assert_int_equal(CU(cuMemcpy3D_v2)(&box), 0);
	assert_int_equal(to[2], 20);
	assert_int_equal(to[8 + 0], 0); /* the second layer begins 128 bytes on, in row 6 */
	box.srcHeight = 3;
	assert_int_equal(CU(cuMemcpy3D_v2)(&box), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuMemFree_v2)(p), 0);
}

static void stale_handles_are_recognised(void **unused)
{
	CUstream s = stream_new(0);
	CUevent e = event_new(0);
	CUmodule m;

	(void)unused;
	assert_int_equal(CU(cuStreamDestroy_v2)(s), 0);
	assert_int_equal(CU(cuStreamSynchronize)(s), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(CU(cuStreamDestroy_v2)(NULL), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(CU(cuEventDestroy_v2)(e), 0);
	assert_int_equal(CU(cuEventQuery)(e), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	assert_int_equal(CU(cuEventRecord)(NULL, NULL), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(CU(cuModuleLoadData)(&m, "no image"), CUDA_ERROR_INVALID_IMAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(work_takes_its_time_in_order),
		cmocka_unit_test(the_legacy_stream_orders_blocking_ones),
		cmocka_unit_test(narrow_kernels_run_beside_each_other),
		cmocka_unit_test(an_event_carries_order_between_streams),
		cmocka_unit_test(functions_of_the_program_stand_in_order),
		cmocka_unit_test(a_pageable_source_may_be_reused_at_once),
		cmocka_unit_test(a_wait_for_a_value_holds_its_stream),
		cmocka_unit_test(eleven_arguments_arrive_whole),
		cmocka_unit_test(bad_launches_are_refused),
		cmocka_unit_test(the_oldest_launch_calls_work),
		cmocka_unit_test(copies_keep_within_their_allocations),
		cmocka_unit_test(rectangles_and_boxes_land_where_they_should),
		cmocka_unit_test(stale_handles_are_recognised),
	};

	return cmocka_run_group_tests(tests, sim_exec_setup, NULL);
}
