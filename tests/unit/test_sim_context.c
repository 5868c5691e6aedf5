// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <unistd.h>

#include "base/size.h"
#include "sim_driver.h"

#define CONTEXT (536128 * KIB)
#define CARD    (143771 * MIB - 629824 * KIB)

static int before_init(void *unused)
{
	CUcontext ctx;
	CUdeviceptr p;
	int n;

	(void)unused;
	if (CU(cuDeviceGetCount)(&n) != CUDA_ERROR_NOT_INITIALIZED ||
	    CU(cuMemAlloc_v2)(&p, 4096) != CUDA_ERROR_NOT_INITIALIZED ||
	    CU(cuCtxGetCurrent)(&ctx) != CUDA_ERROR_NOT_INITIALIZED ||
	    CU(cuInit)(1) != CUDA_ERROR_INVALID_VALUE)
		return 1;
	if (CU(cuDriverGetVersion)(&n) || n != 13000)
		return 2;
	return 0;
}

static void calls_before_init_say_so(void **unused)
{
	(void)unused;
	assert_int_equal(sim_driver_wait(sim_driver_child(before_init, NULL)), 0);
}

static int in_forked_child(void *unused)
{
	CUdeviceptr p;
	int n;

	(void)unused;
	return CU(cuInit)(0) == CUDA_ERROR_NOT_INITIALIZED &&
			       CU(cuDeviceGetCount)(&n) == CUDA_ERROR_NOT_INITIALIZED &&
			       CU(cuMemAlloc_v2)(&p, 1) == CUDA_ERROR_NOT_INITIALIZED
		       ? 0
		       : 1;
}

static void a_forked_child_cannot_use_it(void **unused)
{
	(void)unused;
	assert_int_equal(CU(cuInit)(0), 0);
	assert_int_equal(sim_driver_wait(sim_driver_child(in_forked_child, NULL)), 0);
}

static void without_a_context_calls_fail(void **unused)
{
	CUdeviceptr p;
	CUcontext ctx = (CUcontext)1;
	size_t n;

	(void)unused;
	assert_int_equal(CU(cuInit)(0), 0);
	assert_int_equal(CU(cuMemAlloc_v2)(&p, 4096), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(CU(cuMemGetInfo_v2)(&n, &n), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(CU(cuCtxGetDevice)(NULL), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(CU(cuCtxPopCurrent_v2)(&ctx), CUDA_ERROR_INVALID_CONTEXT);
	assert_ptr_equal(ctx, (CUcontext)1);
	assert_int_equal(CU(cuCtxGetCurrent)(&ctx), 0);
	assert_null(ctx);
}

static void a_context_costs_memory_and_gives_it_back(void **unused)
{
	CUcontext first, second, seen;
	CUdeviceptr p;

	(void)unused;
	assert_int_equal(CU(cuCtxCreate_v2)(&first, 0, 0), 0);
	assert_int_equal(sim_driver_free_bytes(), CARD - CONTEXT);
	assert_int_equal(CU(cuCtxCreate_v4)(&second, NULL, CU_CTX_SCHED_SPIN, 0), 0);
	assert_int_equal(sim_driver_free_bytes(), CARD - 2 * CONTEXT);
	/* what was allocated in it ends with it */
	assert_int_equal(CU(cuMemAlloc_v2)(&p, 64 * MIB), 0);
	assert_int_equal(CU(cuMemAlloc_v2)(&p, 64), 0);
	assert_int_equal(CU(cuCtxDestroy_v2)(second), 0);
	assert_int_equal(CU(cuCtxGetCurrent)(&seen), 0);
	assert_ptr_equal(seen, first);
	assert_int_equal(sim_driver_free_bytes(), CARD - CONTEXT);
	assert_int_equal(CU(cuMemFree_v2)(p), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuCtxDestroy_v2)(second), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(CU(cuCtxDestroy_v2)(first), 0);
	assert_int_equal(CU(cuMemAlloc_v2)(&p, 4096), CUDA_ERROR_INVALID_CONTEXT);
}

static void *use_destroyed(void *ctx)
{
	CUdeviceptr p;
	CUdevice dev;

	(void)ctx;
	return (void *)(intptr_t)(CU(cuMemAlloc_v2)(&p, 4096) == CUDA_ERROR_CONTEXT_IS_DESTROYED &&
				  CU(cuCtxGetDevice)(&dev) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

static pthread_barrier_t barrier;

static void *other_thread(void *ctx)
{
	CU(cuCtxSetCurrent)(ctx);
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	return use_destroyed(ctx);
}

static void a_context_destroyed_elsewhere_is_told_apart(void **unused)
{
	CUcontext ctx;
	pthread_t thread;
	void *ok;

	(void)unused;
	assert_int_equal(CU(cuCtxCreate_v2)(&ctx, 0, 0), 0);
	pthread_barrier_init(&barrier, NULL, 2);
	assert_int_equal(pthread_create(&thread, NULL, other_thread, ctx), 0);
	pthread_barrier_wait(&barrier);
	assert_int_equal(CU(cuCtxDestroy_v2)(ctx), 0);
	pthread_barrier_wait(&barrier);
	pthread_join(thread, &ok);
	assert_non_null(ok);
	/* what a handle is worth shows only when it is used */
	assert_int_equal(CU(cuCtxSetCurrent)(ctx), 0);
	assert_non_null(use_destroyed(ctx));
	assert_int_equal(CU(cuCtxPushCurrent_v2)((CUcontext)(void *)&ctx), 0);
	assert_non_null(use_destroyed(ctx));
	assert_int_equal(CU(cuCtxPopCurrent_v2)(NULL), 0);
	assert_int_equal(CU(cuCtxPopCurrent_v2)(NULL), 0);
}

static void the_primary_context_is_counted(void **unused)
{
	CUcontext a, b;
	unsigned flags;
	int active;

	(void)unused;
	assert_int_equal(CU(cuDevicePrimaryCtxRelease_v2)(0), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(CU(cuDevicePrimaryCtxRetain)(&a, 7), CUDA_ERROR_INVALID_DEVICE);
	assert_int_equal(CU(cuDevicePrimaryCtxRetain)(NULL, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuDevicePrimaryCtxSetFlags_v2)(0, CU_CTX_SCHED_BLOCKING_SYNC), 0);
	assert_int_equal(CU(cuDevicePrimaryCtxRetain)(&a, 0), 0);
	assert_int_equal(CU(cuDevicePrimaryCtxRetain)(&b, 0), 0);
	assert_ptr_equal(a, b);
	assert_int_equal(CU(cuDevicePrimaryCtxGetState)(0, &flags, &active), 0);
	assert_int_equal(active, 1);
	assert_int_equal(flags, CU_CTX_SCHED_BLOCKING_SYNC);
	assert_int_equal(CU(cuCtxSetCurrent)(a), 0);
	assert_int_equal(sim_driver_free_bytes(), CARD - CONTEXT);
	assert_int_equal(CU(cuCtxDestroy_v2)(a), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(CU(cuDevicePrimaryCtxRelease_v2)(0), 0);
	assert_int_equal(sim_driver_free_bytes(), CARD - CONTEXT);
	assert_int_equal(CU(cuDevicePrimaryCtxRelease)(0), 0);
	assert_int_equal(CU(cuDevicePrimaryCtxGetState)(0, &flags, &active), 0);
	assert_int_equal(active, 0);
	assert_int_equal(CU(cuCtxSynchronize)(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	assert_int_equal(CU(cuDevicePrimaryCtxRetain)(&b, 0), 0);
	assert_ptr_equal(a, b);
	assert_int_equal(CU(cuCtxSynchronize)(), 0);
	assert_int_equal(CU(cuDevicePrimaryCtxReset_v2)(0), 0);
	assert_int_equal(CU(cuCtxSynchronize)(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	assert_int_equal(CU(cuCtxSetCurrent)(NULL), 0);
}

static void the_stack_is_a_stack(void **unused)
{
	CUcontext a, b, seen;

	(void)unused;
	assert_int_equal(CU(cuCtxCreate_v2)(&a, 0, 0), 0);
	assert_int_equal(CU(cuCtxCreate_v2)(&b, 0, 0), 0);
	assert_int_equal(CU(cuCtxPopCurrent_v2)(&seen), 0);
	assert_ptr_equal(seen, b);
	assert_int_equal(CU(cuCtxSetCurrent)(b), 0); /* in place of a */
	assert_int_equal(CU(cuCtxPopCurrent_v2)(&seen), 0);
	assert_ptr_equal(seen, b);
	assert_int_equal(CU(cuCtxGetCurrent)(&seen), 0);
	assert_null(seen);
	assert_int_equal(CU(cuCtxDestroy_v2)(a), 0);
	assert_int_equal(CU(cuCtxDestroy_v2)(b), 0);
}

static void bad_arguments_are_refused(void **unused)
{
	CUcontext ctx;
	size_t value;

	(void)unused;
	assert_int_equal(CU(cuCtxCreate_v2)(NULL, 0, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuCtxCreate_v2)(&ctx, 0x8000, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuCtxCreate_v2)(&ctx, 0, 5), CUDA_ERROR_INVALID_DEVICE);
	assert_int_equal(CU(cuCtxCreate_v2)(&ctx, 0, 0), 0);
	assert_int_equal(CU(cuCtxGetLimit)(&value, CU_LIMIT_MALLOC_HEAP_SIZE), 0);
	assert_int_equal(value, 8 * MIB);
	assert_int_equal(CU(cuCtxGetLimit)(&value, (CUlimit)77), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuCtxGetLimit)(&value, CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH),
			 CUDA_ERROR_UNSUPPORTED_LIMIT);
	assert_int_equal(CU(cuCtxEnablePeerAccess)(ctx, 0), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
	assert_int_equal(CU(cuCtxDestroy_v2)(ctx), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_before_init_say_so),
		cmocka_unit_test(a_forked_child_cannot_use_it),
		cmocka_unit_test(without_a_context_calls_fail),
		cmocka_unit_test(a_context_costs_memory_and_gives_it_back),
		cmocka_unit_test(a_context_destroyed_elsewhere_is_told_apart),
		cmocka_unit_test(the_primary_context_is_counted),
		cmocka_unit_test(the_stack_is_a_stack),
		cmocka_unit_test(bad_arguments_are_refused),
	};

	sim_driver_setup(NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
