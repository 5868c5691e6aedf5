// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rand.h"
#include "base/size.h"
#include "sim_driver.h"

#define PAGE  (2 * MIB)
#define CARD  ((4096 - 122) * MIB)
#define START (CARD - 180 * MIB) /* free beside one context of small4g */

/* Many processes; these come first, before this one initialises. */

static int fill_until_killed(void *unused)
{
	struct rand_state r = { (uint64_t)getpid() };
	CUdeviceptr held[64] = { 0 };

	(void)unused;
	if (sim_driver_context())
		return 1;
	for (;;) {
		size_t i = rand_below(&r, 64);

		CU(cuMemFree_v2)(held[i]);
		held[i] = 0;
		CU(cuMemAlloc_v2)(&held[i], 1 + rand_below(&r, 64 * MIB));
	}
}

static int is_card_empty(void *unused)
{
	(void)unused;
	return sim_driver_context() || sim_driver_free_bytes() != START;
}

static void killed_in_mid_allocation_they_leave_nothing(void **unused)
{
	pid_t pids[5];

	(void)unused;
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 5; i++)
			pids[i] = sim_driver_child(fill_until_killed, NULL);
		usleep(40000);
		for (int i = 0; i < 5; i++)
			kill(pids[i], SIGKILL);
		for (int i = 0; i < 5; i++)
			sim_driver_wait(pids[i]);
		assert_int_equal(sim_driver_wait(sim_driver_child(is_card_empty, NULL)), 0);
	}
}

static int random_allocations(void *unused)
{
	struct rand_state r = { (uint64_t)getpid() };
	CUdeviceptr held[32] = { 0 };

	(void)unused;
	/* the others may have filled the card before our context was made */
	while (sim_driver_context() == CUDA_ERROR_OUT_OF_MEMORY)
		usleep(1000);
	for (int step = 0; step < 1500; step++) {
		size_t i = rand_below(&r, 32);
		size_t bytes = rand_below(&r, 2) ? rand_below(&r, 300000) + 4
						 : rand_below(&r, 200 * MIB) + 4;
		unsigned mark = (unsigned)rand_next(&r);

		if (CU(cuMemFree_v2)(held[i]))
			return 2;
		held[i] = 0;
		switch ((int)CU(cuMemAlloc_v2)(&held[i], bytes)) {
		case CUDA_SUCCESS:
			/* nobody else's memory: both ends hold what is written */
			memcpy((void *)(uintptr_t)held[i], &mark, 4);
			memcpy((char *)(uintptr_t)held[i] + bytes - 4, &mark, 4);
			break;
		case CUDA_ERROR_OUT_OF_MEMORY:
			if (held[i])
				return 3;
			break;
		default:
			return 4;
		}
	}
	for (size_t i = 0; i < 32; i++) {
		if (CU(cuMemFree_v2)(held[i]))
			return 5;
	}
	return 0;
}

static void four_share_a_card_and_end_at_nothing(void **unused)
{
	pid_t pids[4];

	(void)unused;
	for (int i = 0; i < 4; i++)
		pids[i] = sim_driver_child(random_allocations, NULL);
	for (int i = 0; i < 4; i++)
		assert_int_equal(sim_driver_wait(pids[i]), 0);
	assert_int_equal(sim_driver_wait(sim_driver_child(is_card_empty, NULL)), 0);
}

/* One process. */

static void small_ones_share_pages(void **unused)
{
	CUdeviceptr p[100];

	(void)unused;
	for (int i = 0; i < 100; i++) {
		assert_int_equal(CU(cuMemAlloc_v2)(&p[i], 1000), 0);
		assert_int_equal(p[i] % 512, 0);
		memset((void *)(uintptr_t)p[i], i, 1000);
	}
	assert_int_equal(sim_driver_free_bytes(), START - PAGE);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(*(unsigned char *)(uintptr_t)p[i], i);
		assert_int_equal(((unsigned char *)(uintptr_t)p[i])[999], i);
		assert_int_equal(CU(cuMemFree_v2)(p[i]), 0);
	}
	assert_int_equal(sim_driver_free_bytes(), START);
}

static void large_ones_take_whole_pages(void **unused)
{
	CUdeviceptr p, q, base;
	size_t bytes;

	(void)unused;
	assert_int_equal(CU(cuMemAlloc_v2)(&p, PAGE + 1), 0);
	assert_int_equal(sim_driver_free_bytes(), START - 2 * PAGE);
	assert_int_equal(CU(cuMemAlloc_v2)(&q, MIB + 1), 0);
	assert_int_equal(sim_driver_free_bytes(), START - 3 * PAGE);
	assert_int_equal(CU(cuMemGetAddressRange_v2)(&base, &bytes, p + 77), 0);
	assert_int_equal(base, p);
	assert_int_equal(bytes, PAGE + 1);
	assert_int_equal(CU(cuMemFree_v2)(p), 0);
	assert_int_equal(CU(cuMemFree_v2)(q), 0);
	assert_int_equal(sim_driver_free_bytes(), START);
}

static void a_full_card_says_out_of_memory(void **unused)
{
	CUdeviceptr p, q = 0x1234;

	(void)unused;
	assert_int_equal(CU(cuMemAlloc_v2)(&p, START), 0);
	assert_int_equal(sim_driver_free_bytes(), 0);
	assert_int_equal(CU(cuMemAlloc_v2)(&q, 1), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(q, 0);
	/* managed memory lies elsewhere */
	assert_int_equal(CU(cuMemAllocManaged)(&q, PAGE, CU_MEM_ATTACH_GLOBAL), 0);
	assert_int_equal(CU(cuMemFree_v2)(q), 0);
	assert_int_equal(CU(cuMemFree_v2)(p), 0);
	assert_int_equal(CU(cuMemAlloc_v2)(&p, SIZE_MAX), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(CU(cuMemAlloc_v2)(&p, SIZE_MAX - PAGE), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(sim_driver_free_bytes(), START);
}

static void wrong_arguments_change_nothing(void **unused)
{
	CUdeviceptr p;
	size_t pitch = 7;
	int local;

	(void)unused;
	assert_int_equal(CU(cuMemAlloc_v2)(NULL, 16), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuMemAlloc_v2)(&p, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuMemFree_v2)(0), 0);
	assert_int_equal(CU(cuMemFree_v2)((CUdeviceptr)(uintptr_t)&local),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuMemAlloc_v2)(&p, 4 * PAGE), 0);
	assert_int_equal(CU(cuMemFree_v2)(p + 512), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuMemFree_v2)(p), 0);
	assert_int_equal(CU(cuMemFree_v2)(p), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuMemAllocPitch_v2)(&p, &pitch, 100, 100, 5), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(pitch, 0);
	assert_int_equal(CU(cuMemAllocManaged)(&p, 16, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(sim_driver_free_bytes(), START);
}

static void pitched_rows_are_padded(void **unused)
{
	CUdeviceptr p;
	size_t pitch;

	(void)unused;
	assert_int_equal(CU(cuMemAllocPitch_v2)(&p, &pitch, 1000, 4096, 16), 0);
	assert_int_equal(pitch, 1024);
	assert_int_equal(sim_driver_free_bytes(), START - 2 * PAGE);
	assert_int_equal(CU(cuMemFree_v2)(p), 0);
}

static void pointers_tell_what_they_are(void **unused)
{
	CUdeviceptr p, start;
	unsigned type = 0, managed = 1;
	int ordinal = -1;
	CUcontext ctx, current;
	void *host, *data[3] = { &type, &ordinal, &start };
	CUpointer_attribute which[3] = { CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
					 CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
					 CU_POINTER_ATTRIBUTE_RANGE_START_ADDR };
	int local;

	(void)unused;
	assert_int_equal(CU(cuMemAlloc_v2)(&p, PAGE), 0);
	assert_int_equal(CU(cuPointerGetAttributes)(3, which, data, p + 100), 0);
	assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
	assert_int_equal(ordinal, 0);
	assert_int_equal(start, p);
	assert_int_equal(CU(cuPointerGetAttribute)(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, p),
			 0);
	assert_int_equal(managed, 0);
	assert_int_equal(CU(cuPointerGetAttribute)(&ctx, CU_POINTER_ATTRIBUTE_CONTEXT, p), 0);
	assert_int_equal(CU(cuCtxGetCurrent)(&current), 0);
	assert_ptr_equal(ctx, current);
	assert_int_equal(CU(cuPointerGetAttribute)(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, p),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
						   (CUdeviceptr)(uintptr_t)&local),
			 CUDA_ERROR_INVALID_VALUE);
	type = 9;
	assert_int_equal(CU(cuPointerGetAttributes)(3, which, data, (CUdeviceptr)(uintptr_t)&local),
			 0);
	assert_int_equal(type, 0);
	assert_int_equal(ordinal, CU_DEVICE_INVALID);
	assert_int_equal(CU(cuMemFree_v2)(p), 0);
}

static void host_memory_costs_nothing_on_the_card(void **unused)
{
	CUdeviceptr d;
	unsigned flags = 0;
	static char mine[65536];
	void *p;

	(void)unused;
	assert_int_equal(CU(cuMemHostAlloc)(&p, 10 * MIB, CU_MEMHOSTALLOC_PORTABLE), 0);
	memset(p, 1, 10 * MIB);
	assert_int_equal(sim_driver_free_bytes(), START);
	assert_int_equal(CU(cuMemHostGetFlags)(&flags, p), 0);
	assert_int_equal(flags, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
	assert_int_equal(CU(cuMemHostGetDevicePointer_v2)(&d, p, 0), 0);
	assert_int_equal(d, (CUdeviceptr)(uintptr_t)p);
	assert_int_equal(CU(cuMemFree_v2)(d), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuMemFreeHost)(p), 0);
	assert_int_equal(CU(cuMemFreeHost)(p), CUDA_ERROR_INVALID_VALUE);

	assert_int_equal(CU(cuMemHostRegister_v2)(mine, sizeof(mine), 0), 0);
	assert_int_equal(CU(cuMemHostRegister_v2)(mine + 100, 10, 0),
			 CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	assert_int_equal(CU(cuMemHostUnregister)(mine + 100), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuMemHostUnregister)(mine), 0);
	assert_int_equal(CU(cuMemHostUnregister)(mine), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	assert_int_equal(CU(cuMemHostAlloc)(&p, 1, 0x80), CUDA_ERROR_INVALID_VALUE);
}

static void arrays_are_charged_by_what_they_need(void **unused)
{
	CUDA_ARRAY3D_DESCRIPTOR d = { .Width = 1024,
				      .Height = 1024,
				      .Format = CU_AD_FORMAT_FLOAT,
				      .NumChannels = 4 },
				seen;
	CUDA_ARRAY_MEMORY_REQUIREMENTS need;
	CUmipmappedArray mipmap;
	CUarray array, level;

	(void)unused;
	assert_int_equal(CU(cuArray3DCreate_v2)(&array, &d), 0);
	assert_int_equal(sim_driver_free_bytes(), START - 16 * MIB);
	assert_int_equal(CU(cuArray3DGetDescriptor_v2)(&seen, array), 0);
	assert_memory_equal(&seen, &d, sizeof(d));
	assert_int_equal(CU(cuArrayDestroy)(array), 0);
	assert_int_equal(CU(cuArrayDestroy)(array), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	assert_int_equal(CU(cuArrayDestroy)(NULL), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(sim_driver_free_bytes(), START);

	assert_int_equal(CU(cuMipmappedArrayCreate)(&mipmap, &d, 99), 0);
	assert_true(START - sim_driver_free_bytes() > 21 * MIB);
	assert_int_equal(CU(cuMipmappedArrayGetLevel)(&level, mipmap, 10), 0);
	assert_int_equal(CU(cuMipmappedArrayGetLevel)(&level, mipmap, 11),
			 CUDA_ERROR_INVALID_VALUE);
	/* a level is not its own */
	assert_int_equal(CU(cuArrayDestroy)(level), 0);
	assert_true(START - sim_driver_free_bytes() > 21 * MIB);
	assert_int_equal(CU(cuMipmappedArrayDestroy)(mipmap), 0);
	assert_int_equal(sim_driver_free_bytes(), START);

	d.Flags = CUDA_ARRAY3D_DEFERRED_MAPPING;
	assert_int_equal(CU(cuArray3DCreate_v2)(&array, &d), 0);
	assert_int_equal(sim_driver_free_bytes(), START);
	assert_int_equal(CU(cuArrayGetMemoryRequirements)(&need, array, 0), 0);
	assert_int_equal(need.size, 16 * MIB);
	assert_int_equal(CU(cuArrayDestroy)(array), 0);
	d.NumChannels = 3;
	assert_int_equal(CU(cuArray3DCreate_v2)(&array, &d), CUDA_ERROR_INVALID_VALUE);
	d.NumChannels = 1;
	d.Width = 0;
	assert_int_equal(CU(cuArray3DCreate_v2)(&array, &d), CUDA_ERROR_INVALID_VALUE);
}

/* the first test after those with children of their own: from here on this process has a context */
static int begin(void **unused)
{
	(void)unused;
	return sim_driver_context();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(killed_in_mid_allocation_they_leave_nothing),
		cmocka_unit_test(four_share_a_card_and_end_at_nothing),
		cmocka_unit_test_setup(small_ones_share_pages, begin),
		cmocka_unit_test(large_ones_take_whole_pages),
		cmocka_unit_test(a_full_card_says_out_of_memory),
		cmocka_unit_test(wrong_arguments_change_nothing),
		cmocka_unit_test(pitched_rows_are_padded),
		cmocka_unit_test(pointers_tell_what_they_are),
		cmocka_unit_test(host_memory_costs_nothing_on_the_card),
		cmocka_unit_test(arrays_are_charged_by_what_they_need),
	};

	sim_driver_setup("small4g");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
