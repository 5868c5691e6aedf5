// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <unistd.h>

#include "base/size.h"
#include "sim_driver.h"

#define PAGE (2 * MIB)

static const CUmemAllocationProp device_prop = {
	.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	.location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
};
static const CUmemAccessDesc read_write = {
	.location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
	.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
};

static size_t start;

static void memory_is_charged_once_and_until_the_last_use(void **unused)
{
	CUmemGenericAllocationHandle h, again;
	CUdeviceptr va;
	unsigned char *a, *b;

	(void)unused;
	assert_int_equal(CU(cuMemAddressReserve)(&va, 64 * PAGE, 0, 0, 0), 0);
	assert_int_equal(va % PAGE, 0);
	assert_int_equal(sim_driver_free_bytes(), start);
	assert_int_equal(CU(cuMemCreate)(&h, 4 * PAGE, &device_prop, 0), 0);
	assert_int_equal(sim_driver_free_bytes(), start - 4 * PAGE);
	assert_int_equal(CU(cuMemMap)(va, 4 * PAGE, 0, h, 0), 0);
	assert_int_equal(CU(cuMemMap)(va + 8 * PAGE, 4 * PAGE, 0, h, 0), 0);
	assert_int_equal(sim_driver_free_bytes(), start - 4 * PAGE);
	assert_int_equal(CU(cuMemSetAccess)(va, 4 * PAGE, &read_write, 1), 0);
	assert_int_equal(CU(cuMemSetAccess)(va + 8 * PAGE, 4 * PAGE, &read_write, 1), 0);

	/* two views of one memory */
	a = (unsigned char *)(uintptr_t)va;
	b = a + 8 * PAGE;
	a[3 * PAGE + 5] = 42;
	assert_int_equal(b[3 * PAGE + 5], 42);

	/* release before unmap is the normal order */
	assert_int_equal(CU(cuMemRelease)(h), 0);
	assert_int_equal(CU(cuMemRelease)(h), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(sim_driver_free_bytes(), start - 4 * PAGE);
	assert_int_equal(CU(cuMemRetainAllocationHandle)(&again, a + 100), 0);
	assert_int_equal(again, h);
	assert_int_equal(CU(cuMemUnmap)(va, 4 * PAGE), 0);
	assert_int_equal(CU(cuMemUnmap)(va + 8 * PAGE, 4 * PAGE), 0);
	assert_int_equal(sim_driver_free_bytes(), start - 4 * PAGE);
	assert_int_equal(CU(cuMemRelease)(again), 0);
	assert_int_equal(sim_driver_free_bytes(), start);
	assert_int_equal(CU(cuMemAddressFree)(va, 64 * PAGE), 0);
}

static void nothing_may_be_touched_before_access_is_given(void **unused)
{
	CUmemLocation here = { CU_MEM_LOCATION_TYPE_DEVICE, 0 };
	CUmemGenericAllocationHandle h;
	unsigned long long flags = 77;
	CUdeviceptr va, p;
	char byte;

	(void)unused;
	assert_int_equal(CU(cuMemAddressReserve)(&va, 4 * PAGE, 0, 0, 0), 0);
	assert_int_equal(CU(cuMemCreate)(&h, PAGE, &device_prop, 0), 0);
	assert_int_equal(CU(cuMemMap)(va, PAGE, 0, h, 0), 0);
	assert_int_equal(CU(cuMemGetAccess)(&flags, &here, va), 0);
	assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
	assert_int_equal(
		CU(cuPointerGetAttribute)(&byte, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, va + PAGE),
		CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuMemSetAccess)(va, 2 * PAGE, &read_write, 1),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuMemSetAccess)(va, PAGE, &read_write, 1), 0);
	assert_int_equal(CU(cuMemGetAccess)(&flags, &here, va), 0);
	assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	assert_int_equal(CU(cuMemGetAddressRange_v2)(&p, NULL, va + 10), 0);
	assert_int_equal(p, va);
	assert_int_equal(CU(cuMemUnmap)(va, PAGE), 0);
	assert_int_equal(CU(cuMemRelease)(h), 0);
	assert_int_equal(CU(cuMemAddressFree)(va, 4 * PAGE), 0);
}

static void rules_of_mapping(void **unused)
{
	CUmemGenericAllocationHandle h;
	CUdeviceptr va, p;

	(void)unused;
	assert_int_equal(CU(cuMemAddressReserve)(&va, 4 * PAGE, 0, 0, 0), 0);
	assert_int_equal(CU(cuMemCreate)(&h, 2 * PAGE, &device_prop, 0), 0);
	assert_int_equal(CU(cuMemMap)(va, 2 * PAGE, PAGE, h, 0), CUDA_ERROR_NOT_SUPPORTED);
	assert_int_equal(CU(cuMemMap)(va, 4 * PAGE, 0, h, 0), CUDA_ERROR_NOT_SUPPORTED);
	assert_int_equal(CU(cuMemMap)(va + 3 * PAGE, 2 * PAGE, 0, h, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuMemMap)(va + 4096, 2 * PAGE, 0, h, 0), CUDA_ERROR_NOT_SUPPORTED);
	assert_int_equal(CU(cuMemMap)(va + PAGE, 2 * PAGE, 0, h, 0), 0);
	assert_int_equal(CU(cuMemMap)(va, 2 * PAGE, 0, h, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuMemUnmap)(va, 2 * PAGE), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuMemUnmap)(va + PAGE, PAGE), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuMemAddressFree)(va, 4 * PAGE), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuMemAddressFree)(va, 2 * PAGE), CUDA_ERROR_INVALID_VALUE);
	/* the other calls' pointers are not for these, and the reverse */
	assert_int_equal(CU(cuMemFree_v2)(va), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuMemAlloc_v2)(&p, PAGE), 0);
	assert_int_equal(CU(cuMemUnmap)(p, PAGE), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuMemFree_v2)(p), 0);
	/* holes do not matter, not even all of it */
	assert_int_equal(CU(cuMemUnmap)(va, 4 * PAGE), 0);
	assert_int_equal(CU(cuMemUnmap)(va, 4 * PAGE), 0);
	assert_int_equal(CU(cuMemRelease)(h), 0);
	assert_int_equal(CU(cuMemAddressFree)(va, 4 * PAGE), 0);
	assert_int_equal(sim_driver_free_bytes(), start);
}

static void handles_are_checked_at_creation(void **unused)
{
	CUmemAllocationProp prop = device_prop;
	CUmemGenericAllocationHandle h;
	size_t grain;

	(void)unused;
	assert_int_equal(
		CU(cuMemGetAllocationGranularity)(&grain, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
		0);
	assert_int_equal(grain, PAGE);
	assert_int_equal(CU(cuMemCreate)(&h, PAGE + 1, &prop, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuMemCreate)(&h, 0, &prop, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuMemCreate)(&h, PAGE, NULL, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuMemCreate)(&h, PAGE, &prop, 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuMemCreate)(&h, 1 * TIB, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
	prop.location.id = 9;
	assert_int_equal(CU(cuMemCreate)(&h, PAGE, &prop, 0), CUDA_ERROR_INVALID_DEVICE);
	/* host memory is no device's, whatever its id says */
	prop.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
	assert_int_equal(CU(cuMemCreate)(&h, 8 * PAGE, &prop, 0), 0);
	assert_int_equal(sim_driver_free_bytes(), start);
	assert_int_equal(CU(cuMemRelease)(h), 0);
	assert_int_equal(CU(cuMemRelease)(12345), CUDA_ERROR_INVALID_VALUE);
}

/* thousands of handles cost no descriptors, and their bytes are gone with them */
static void many_handles(void **unused)
{
	enum { COUNT = 1800 };
	static CUmemGenericAllocationHandle h[COUNT];
	CUdeviceptr va;

	(void)unused;
	assert_int_equal(CU(cuMemAddressReserve)(&va, COUNT * PAGE, 0, 0, 0), 0);
	for (size_t i = 0; i < COUNT; i++) {
		assert_int_equal(CU(cuMemCreate)(&h[i], PAGE, &device_prop, 0), 0);
		assert_int_equal(CU(cuMemMap)(va + i * PAGE, PAGE, 0, h[i], 0), 0);
	}
	assert_int_equal(CU(cuMemSetAccess)(va, COUNT * PAGE, &read_write, 1), 0);
	*(char *)(uintptr_t)(va + COUNT / 2 * PAGE) = 1;
	assert_int_equal(sim_driver_free_bytes(), start - COUNT * PAGE);
	assert_int_equal(CU(cuMemUnmap)(va, COUNT * PAGE), 0);
	for (size_t i = 0; i < COUNT; i++)
		assert_int_equal(CU(cuMemRelease)(h[i]), 0);
	assert_int_equal(CU(cuMemAddressFree)(va, COUNT * PAGE), 0);
	assert_int_equal(sim_driver_free_bytes(), start);
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
		cmocka_unit_test(memory_is_charged_once_and_until_the_last_use),
		cmocka_unit_test(nothing_may_be_touched_before_access_is_given),
		cmocka_unit_test(rules_of_mapping),
		cmocka_unit_test(handles_are_checked_at_creation),
		cmocka_unit_test(many_handles),
	};

	sim_driver_setup("small4g");
	return cmocka_run_group_tests(tests, begin, NULL);
}
