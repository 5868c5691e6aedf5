// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/size.h"
#include "sim_driver.h"

#define CHUNK (32 * MIB)

static size_t start;

static uint64_t attribute(CUmemoryPool pool, CUmemPool_attribute which)
{
	cuuint64_t value = 0;

	assert_int_equal(CU(cuMemPoolGetAttribute)(pool, which, &value), 0);
	return value;
}

static CUmemoryPool default_pool(void)
{
	CUmemoryPool pool;

	assert_int_equal(CU(cuDeviceGetDefaultMemPool)(&pool, 0), 0);
	return pool;
}

static void a_pool_is_charged_by_what_it_reserves(void **unused)
{
	CUmemoryPool pool = default_pool();
	CUdeviceptr p, q;

	(void)unused;
	assert_int_equal(CU(cuMemAllocAsync)(&p, 1000, NULL), 0);
	assert_int_equal(sim_driver_free_bytes(), start - CHUNK);
	assert_int_equal(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), CHUNK);
	assert_int_equal(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 1000);
	/* the rest of the first unit is used, so that one more is enough */
	assert_int_equal(CU(cuMemAllocAsync)(&q, 33 * MIB, NULL), 0);
	assert_int_equal(sim_driver_free_bytes(), start - 2 * CHUNK);
	*(char *)(uintptr_t)(q + 33 * MIB - 1) = 1;
	assert_int_equal(CU(cuMemFreeAsync)(q, NULL), 0);
	assert_int_equal(CU(cuMemFreeAsync)(q, NULL), CUDA_ERROR_INVALID_VALUE);
	/* freed is not given back before somebody waits, not even when it is asked for */
	assert_int_equal(CU(cuMemPoolTrimTo)(pool, 0), 0);
	assert_int_equal(sim_driver_free_bytes(), start - 2 * CHUNK);
	assert_int_equal(CU(cuCtxSynchronize)(), 0);
	assert_int_equal(sim_driver_free_bytes(), start - CHUNK);
	/* and the other call may free it as well */
	assert_int_equal(CU(cuMemFree_v2)(p), 0);
	assert_int_equal(sim_driver_free_bytes(), start);
	assert_int_equal(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
	assert_int_equal(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 2 * CHUNK);
}

static void the_threshold_keeps_and_trim_gives(void **unused)
{
	CUmemoryPool pool = default_pool();
	cuuint64_t keep = UINT64_MAX, none = 0;
	CUdeviceptr p;

	(void)unused;
	assert_int_equal(CU(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep),
			 0);
	assert_int_equal(CU(cuMemAllocAsync)(&p, 100 * MIB, NULL), 0);
	assert_int_equal(CU(cuMemFreeAsync)(p, NULL), 0);
	assert_int_equal(CU(cuCtxSynchronize)(), 0);
	assert_int_equal(sim_driver_free_bytes(), start - 4 * CHUNK);
	/* what is kept is used again */
	assert_int_equal(CU(cuMemAllocAsync)(&p, 120 * MIB, NULL), 0);
	assert_int_equal(sim_driver_free_bytes(), start - 4 * CHUNK);
	assert_int_equal(CU(cuMemPoolTrimTo)(pool, 0), 0);
	assert_int_equal(sim_driver_free_bytes(), start - 4 * CHUNK);
	assert_int_equal(CU(cuMemFreeAsync)(p, NULL), 0);
	assert_int_equal(CU(cuCtxSynchronize)(), 0);
	assert_int_equal(CU(cuMemPoolTrimTo)(pool, 0), 0);
	assert_int_equal(sim_driver_free_bytes(), start);
	assert_int_equal(CU(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &none),
			 0);
	assert_int_equal(CU(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &none),
			 CUDA_ERROR_INVALID_VALUE);
}

static void pools_of_ones_own(void **unused)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	CUmemoryPool pool, seen;
	CUdeviceptr p, q;

	(void)unused;
	assert_int_equal(CU(cuMemPoolCreate)(&pool, &props), 0);
	assert_int_equal(CU(cuMemAllocFromPoolAsync)(&p, MIB, pool, NULL), 0);
	assert_int_equal(CU(cuMemAllocFromPoolAsync)(&q, MIB, (CUmemoryPool)(void *)&props, NULL),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuPointerGetAttribute)(&seen, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p),
			 0);
	assert_ptr_equal(seen, pool);
	assert_int_equal(CU(cuDeviceSetMemPool)(0, pool), 0);
	assert_int_equal(CU(cuDeviceGetMemPool)(&seen, 0), 0);
	assert_ptr_equal(seen, pool);
	/* it ends with its last allocation, and the device goes back to the default */
	assert_int_equal(CU(cuMemPoolDestroy)(pool), 0);
	assert_int_equal(CU(cuMemPoolDestroy)(pool), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuDeviceGetMemPool)(&seen, 0), 0);
	assert_ptr_equal(seen, default_pool());
	assert_int_equal(sim_driver_free_bytes(), start - CHUNK);
	assert_int_equal(CU(cuMemFree_v2)(p), 0);
	assert_int_equal(sim_driver_free_bytes(), start);
	assert_int_equal(CU(cuMemPoolDestroy)(default_pool()), CUDA_ERROR_INVALID_VALUE);
	props.location.id = 4;
	assert_int_equal(CU(cuMemPoolCreate)(&pool, &props), CUDA_ERROR_INVALID_VALUE);
}

static void a_full_card_and_a_full_pool(void **unused)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
				 .maxSize = 64 * MIB };
	CUmemoryPool pool;
	CUdeviceptr p;

	(void)unused;
	assert_int_equal(CU(cuMemAllocAsync)(&p, 8 * GIB, NULL), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(p, 0);
	assert_int_equal(CU(cuMemAllocAsync)(&p, 0, NULL), 0);
	assert_int_equal(p, 0);
	assert_int_equal(CU(cuMemPoolCreate)(&pool, &props), 0);
	assert_int_equal(CU(cuMemAllocFromPoolAsync)(&p, 65 * MIB, pool, NULL),
			 CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(CU(cuMemAllocFromPoolAsync)(&p, 64 * MIB, pool, NULL), 0);
	assert_int_equal(CU(cuMemFree_v2)(p), 0);
	assert_int_equal(CU(cuMemPoolDestroy)(pool), 0);
	assert_int_equal(sim_driver_free_bytes(), start);
}

static void host_pools_cost_nothing_on_the_card(void **unused)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .location = { CU_MEM_LOCATION_TYPE_HOST_NUMA, 0 } };
	CUmemoryPool pool;
	CUdeviceptr p;

	(void)unused;
	assert_int_equal(CU(cuMemPoolCreate)(&pool, &props), 0);
	assert_int_equal(CU(cuMemAllocFromPoolAsync)(&p, 64 * MIB, pool, NULL), 0);
	assert_int_equal(sim_driver_free_bytes(), start);
	assert_int_equal(CU(cuMemFreeAsync)(p, NULL), 0);
	assert_int_equal(CU(cuMemPoolDestroy)(pool), 0);
}

static int begin(void **unused)
{
	(void)unused;
	if (sim_driver_context())
		return 1;
	start = sim_driver_free_bytes();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_pool_is_charged_by_what_it_reserves),
		cmocka_unit_test(the_threshold_keeps_and_trim_gives),
		cmocka_unit_test(pools_of_ones_own),
		cmocka_unit_test(a_full_card_and_a_full_pool),
		cmocka_unit_test(host_pools_cost_nothing_on_the_card),
	};

	sim_driver_setup("small4g");
	return cmocka_run_group_tests(tests, begin, NULL);
}
