// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "abi/cuda_names.h"
#include "sim_driver.h"

#define SUCCESS CU_GET_PROC_ADDRESS_SUCCESS
#define LACKING CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
#define UNKNOWN CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND

static void the_newest_variant_that_the_version_knows(void **unused)
{
	static const struct {
		const char *api;
		int version;
		cuuint64_t flags;
		const char *symbol; /* NULL: none */
		CUdriverProcAddressQueryResult status;
	} rows[] = {
		{ "cuMemAlloc", 2000, 0, "cuMemAlloc", SUCCESS },
		{ "cuMemAlloc", 12000, 0, "cuMemAlloc_v2", SUCCESS },
		{ "cuCtxCreate", 3020, 0, "cuCtxCreate_v2", SUCCESS },
		{ "cuCtxCreate", 12000, 0, "cuCtxCreate_v3", SUCCESS },
		{ "cuCtxCreate", 13000, 0, "cuCtxCreate_v4", SUCCESS },
		{ "cuMemAllocAsync", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
		  "cuMemAllocAsync_ptsz", SUCCESS },
		{ "cuMemAllocAsync", 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, "cuMemAllocAsync",
		  SUCCESS },
		{ "cuInit", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, "cuInit",
		  SUCCESS },
		{ "cuMemAllocAsync", 11010, 0, NULL, LACKING },
		{ "cuMemAlloc_v2", 12000, 0, NULL, UNKNOWN },
		{ "cuNoSuchCall", 12000, 0, NULL, UNKNOWN },
		{ "cuGetProcAddress", 11030, 0, "cuGetProcAddress", SUCCESS },
		{ "cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2", SUCCESS },
		/* -1 asks for the newest */
		{ "cuMemAlloc", -1, 0, "cuMemAlloc_v2", SUCCESS },
		/* newer than the driver: exported, but never handed out */
		{ "cuLaunchHostFunc", 13000, 0, "cuLaunchHostFunc", SUCCESS },
		{ "cuDevSmResourceSplit", 13000, 0, NULL, UNKNOWN },
		/* what has a per-thread variant is not there before that variant was */
		{ "cuMemcpyDtoH", 6050, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, NULL,
		  LACKING },
		{ "cuMemcpyDtoH", 7000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
		  "cuMemcpyDtoH_v2_ptds", SUCCESS },
	};

	(void)unused;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)9;
		void *p = &status;

		assert_int_equal(CU(cuGetProcAddress_v2)(rows[i].api, &p, rows[i].version,
							 rows[i].flags, &status),
				 0);
		if (status != rows[i].status)
			fail_msg("%s %d: status %d", rows[i].api, rows[i].version, (int)status);
		assert_ptr_equal(p, rows[i].symbol ? sim_driver_symbol(rows[i].symbol) : NULL);
	}
}

static void whatever_it_returns_is_an_exported_symbol(void **unused)
{
	static const int versions[] = { 2000, 4000, 7000, 10000, 11030, 12000, 13000 };
	unsigned found = 0;

	(void)unused;
	for (size_t v = 0; v < sizeof(versions) / sizeof(versions[0]); v++) {
		for (int i = 0; i < CU_SYM_COUNT; i++) {
			const struct cuda_symbol *s = &cuda_symbols[i];
			void *p = NULL;
			/* of itself it knows but the one form */
			enum cuda_stream_kind stream =
				strcmp(s->api, "cuGetProcAddress") ? s->stream : CUDA_STREAM_LEGACY;
			int slot = cuda_symbol_for(s->api, versions[v], stream);
			int newest = cuda_symbol_for(s->api, 13000, stream);
			CUdriverProcAddressQueryResult status;

			if (slot >= 0 && cuda_symbols[slot].stream != cuda_symbols[newest].stream)
				slot = -1;
			assert_int_equal(
				CU(cuGetProcAddress_v2)(
					s->api, &p, versions[v],
					s->stream ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
						  : 0,
					&status),
				0);
			assert_ptr_equal(p, slot < 0 ? NULL
						     : sim_driver_symbol(cuda_symbols[slot].name));
			found += p != NULL;
		}
	}
	assert_true(found > 2000);
}

static void wrong_questions(void **unused)
{
	CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)9;
	void *p = &status;

	(void)unused;
	assert_int_equal(CU(cuGetProcAddress_v2)(NULL, &p, 12000, 0, &status),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuGetProcAddress_v2)("cuInit", NULL, 12000, 0, &status),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuGetProcAddress_v2)("cuInit", &p, 12000, 0x10, &status),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuGetProcAddress_v2)("cuInit", &p, 13010, 0, &status),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuGetProcAddress)("cuNoSuchCall", &p, 12000, 0), CUDA_ERROR_NOT_FOUND);
	assert_ptr_equal(p, &status);
	assert_int_equal(status, 9);
	assert_int_equal(CU(cuGetProcAddress_v2)("cuInit", &p, 12000, 0, NULL), 0);
	assert_ptr_equal(p, sim_driver_symbol("cuInit"));
}

static void every_symbol_is_there_and_callable(void **unused)
{
	int (*call)(void);

	(void)unused;
	for (int i = 0; i < CU_SYM_COUNT; i++)
		assert_non_null(sim_driver_symbol(cuda_symbols[i].name));
	*(void **)&call = sim_driver_symbol("cuGLInit");
	assert_int_equal(call(), CUDA_ERROR_NOT_INITIALIZED);
	assert_int_equal(CU(cuInit)(0), 0);
	assert_int_equal(call(), CUDA_ERROR_NOT_SUPPORTED);
}

static void errors_have_names_and_texts(void **unused)
{
	const char *text = "x";

	(void)unused;
	assert_int_equal(CU(cuGetErrorName)(CUDA_ERROR_OUT_OF_MEMORY, &text), 0);
	assert_string_equal(text, "CUDA_ERROR_OUT_OF_MEMORY");
	assert_int_equal(CU(cuGetErrorString)(CUDA_ERROR_OUT_OF_MEMORY, &text), 0);
	assert_string_equal(text, "out of memory");
	assert_int_equal(CU(cuGetErrorString)((CUresult)12345, &text), CUDA_ERROR_INVALID_VALUE);
	assert_null(text);
}

static void there_are_no_export_tables(void **unused)
{
	CUuuid id = { { 1 } };
	const void *table = &id;

	(void)unused;
	assert_int_equal(CU(cuGetExportTable)(&table, &id), CUDA_ERROR_INVALID_VALUE);
	assert_null(table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_newest_variant_that_the_version_knows),
		cmocka_unit_test(whatever_it_returns_is_an_exported_symbol),
		cmocka_unit_test(wrong_questions),
		cmocka_unit_test(every_symbol_is_there_and_callable),
		cmocka_unit_test(errors_have_names_and_texts),
		cmocka_unit_test(there_are_no_export_tables),
	};

	sim_driver_setup(NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
