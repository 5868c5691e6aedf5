// SPDX-License-Identifier: Apache-2.0
/* Two simulated cards in one process: what one's kernels reach of the other's memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/size.h"
#include "sim_exec_fixture.h"

static CUcontext ctx[2];

static void current(int n)
{
	assert_int_equal(CU(cuCtxSetCurrent)(ctx[n]), 0);
}

/* in a child: a context that was lost stays lost.  0, or the line that failed */
#define TRY(condition)                             \
	do {                                       \
		if (!(condition))                  \
			return __LINE__ % 200 + 1; \
	} while (0)

static int start(void)
{
	TRY(CU(cuInit)(0) == 0);
	TRY(CU(cuDevicePrimaryCtxRetain)(&ctx[0], 0) == 0);
	TRY(CU(cuDevicePrimaryCtxRetain)(&ctx[1], 1) == 0);
	current(0);
	TRY(CU(cuModuleLoad)(&sim_exec_module, KERNELS_PTX) == 0);
	return 0;
}

static CUdeviceptr there(void)
{
	CUdeviceptr p;

	current(1);
	p = sim_exec_buffer(1024, 5);
	current(0);
	return p;
}

static int by_peer_access(void *unused)
{
	CUdeviceptr p;

	(void)unused;
	TRY(start() == 0);
	p = there();
	TRY(CU(cuCtxEnablePeerAccess)(ctx[1], 1) == CUDA_ERROR_INVALID_VALUE);
	TRY(CU(cuCtxEnablePeerAccess)(ctx[0], 0) == CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
	TRY(CU(cuCtxEnablePeerAccess)(ctx[1], 0) == 0);
	TRY(CU(cuCtxEnablePeerAccess)(ctx[1], 0) == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
	TRY(sim_exec_add(NULL, p, 2, 1024) == 0);
	TRY(CU(cuCtxSynchronize)() == 0);
	TRY(sim_exec_word(p) == 7);
	TRY(CU(cuCtxDisablePeerAccess)(ctx[1]) == 0);
	TRY(CU(cuCtxDisablePeerAccess)(ctx[1]) == CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
	TRY(sim_exec_add(NULL, p, 2, 1024) == 0);
	TRY(CU(cuCtxSynchronize)() == CUDA_ERROR_ILLEGAL_ADDRESS);
	current(1); /* the other card's context is lost with it */
	TRY(CU(cuCtxSynchronize)() == CUDA_ERROR_ILLEGAL_ADDRESS);
	return 0;
}

/* access to one context of a card is none to another, and ends with the context */
static int by_the_right_context(void *unused)
{
	CUcontext second;
	CUdeviceptr p, q;

	(void)unused;
	TRY(start() == 0);
	p = there();
	TRY(CU(cuCtxCreate_v2)(&second, 0, 1) == 0);
	q = sim_exec_buffer(1024, 6);
	current(0);
	TRY(CU(cuCtxEnablePeerAccess)(second, 0) == 0);
	TRY(CU(cuMemsetD32_v2)(q, 8, 1024) == 0);
	TRY(CU(cuMemsetD32_v2)(p, 8, 1024) == CUDA_ERROR_INVALID_VALUE);
	TRY(CU(cuCtxEnablePeerAccess)(ctx[1], 0) == 0);
	TRY(CU(cuMemsetD32_v2)(p, 8, 1024) == 0);
	TRY(CU(cuCtxDestroy_v2)(second) == 0);
	TRY(CU(cuMemsetD32_v2)(p, 9, 1024) == 0);
	TRY(sim_exec_word(p) == 9);
	TRY(CU(cuDevicePrimaryCtxReset_v2)(1) == 0);
	TRY(CU(cuDevicePrimaryCtxRetain)(&ctx[1], 1) == 0);
	TRY(CU(cuCtxDisablePeerAccess)(ctx[1]) == CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
	return 0;
}

static int by_copies(void *unused)
{
	CUdeviceptr p;

	(void)unused;
	TRY(start() == 0);
	p = there();
	/* copies need no access, sets do */
	TRY(CU(cuMemcpyHtoD_v2)(p, (const unsigned[]){ 8 }, 4) == 0);
	TRY(sim_exec_word(p) == 8);
	TRY(CU(cuMemsetD32_v2)(p, 9, 1024) == CUDA_ERROR_INVALID_VALUE);
	TRY(CU(cuCtxSynchronize)() == 0);
	TRY(CU(cuMemFree_v2)(p) == 0);
	return 0;
}

static int by_a_mapping(void *unused)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = { CU_MEM_LOCATION_TYPE_DEVICE, 1 } };
	CUmemAccessDesc access = { prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemGenericAllocationHandle h;
	CUdeviceptr p;

	(void)unused;
	TRY(start() == 0);
	TRY(CU(cuMemAddressReserve)(&p, 2 * MIB, 0, 0, 0) == 0);
	TRY(CU(cuMemCreate)(&h, 2 * MIB, &prop, 0) == 0);
	TRY(CU(cuMemMap)(p, 2 * MIB, 0, h, 0) == 0);
	access.location.id = 0;
	TRY(CU(cuMemSetAccess)(p, 2 * MIB, &access, 1) == 0);
	TRY(sim_exec_add(NULL, p, 2, 1024) == 0);
	TRY(CU(cuCtxSynchronize)() == 0);
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	TRY(CU(cuMemSetAccess)(p, 2 * MIB, &access, 1) == 0);
	access.location.id = 1;
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	TRY(CU(cuMemSetAccess)(p, 2 * MIB, &access, 1) == 0);
	TRY(sim_exec_add(NULL, p, 2, 1024) == 0);
	TRY(CU(cuCtxSynchronize)() == CUDA_ERROR_ILLEGAL_ADDRESS);
	return 0;
}

static int by_a_pool(void *unused)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .location = { CU_MEM_LOCATION_TYPE_DEVICE, 1 } };
	CUmemAccessDesc access = { { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
				   CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemoryPool pool;
	CUdeviceptr p;

	(void)unused;
	TRY(start() == 0);
	TRY(CU(cuMemPoolCreate)(&pool, &props) == 0);
	TRY(CU(cuMemPoolSetAccess)(pool, &access, 1) == 0);
	TRY(CU(cuMemAllocFromPoolAsync)(&p, 4096, pool, NULL) == 0);
	TRY(sim_exec_add(NULL, p, 2, 1024) == 0);
	TRY(CU(cuCtxSynchronize)() == 0);
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	TRY(CU(cuMemPoolSetAccess)(pool, &access, 1) == 0);
	TRY(sim_exec_add(NULL, p, 2, 1024) == 0);
	TRY(CU(cuCtxSynchronize)() == CUDA_ERROR_ILLEGAL_ADDRESS);
	return 0;
}

static void reached(void **state)
{
	int (*run)(void *) = *state;

	assert_int_equal(sim_driver_wait(sim_driver_child(run, NULL)), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		{ "by peer access", reached, NULL, NULL, by_peer_access },
		{ "by the right context", reached, NULL, NULL, by_the_right_context },
		{ "by copies", reached, NULL, NULL, by_copies },
		{ "by a mapping", reached, NULL, NULL, by_a_mapping },
		{ "by a pool", reached, NULL, NULL, by_a_pool },
	};

	sim_driver_setup("h200x2");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
