// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "abi/cuda_names.h"

static void check_suffix(const struct cuda_symbol *symbol)
{
	const char *rest = symbol->name + strlen(symbol->api);
	bool per_thread;

	assert_memory_equal(symbol->name, symbol->api, strlen(symbol->api));
	if (!strncmp(rest, "_v", 2))
		rest += 3;
	per_thread = !strcmp(rest, "_ptds") || !strcmp(rest, "_ptsz");
	if (!per_thread)
		assert_string_equal(rest, "");
	assert_int_equal(symbol->stream == CUDA_STREAM_PER_THREAD, per_thread);
}

static void each_symbol_is_found_in_its_slot(void **state)
{
	(void)state;
	for (int slot = 0; slot < CU_SYM_COUNT; slot++) {
		check_suffix(&cuda_symbols[slot]);
		assert_int_equal(cuda_symbol_find(cuda_symbols[slot].name), slot);
		assert_true(cuda_api_is_known(cuda_symbols[slot].api));
	}
	assert_int_equal(cuda_symbol_find("cuMemAlloc_v2"), CU_SYM_cuMemAlloc_v2);
}

static void unknown_names_are_not_found(void **state)
{
	static const char *const names[] = {
		"", "cu", "a", "zz", "cuMemAlloc_v9", "cuMemAlloc_v", "cuIni"
	};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		assert_int_equal(cuda_symbol_find(names[i]), -1);
		assert_int_equal(cuda_symbol_for(names[i], 13000, CUDA_STREAM_PER_THREAD), -1);
		assert_false(cuda_api_is_known(names[i]));
	}
	assert_false(cuda_api_is_known("cuMemAlloc_v2"));
}

static void variant_follows_version_and_stream(void **state)
{
	static const struct {
		const char *api;
		int version;
		enum cuda_stream_kind stream;
		int slot;
	} cases[] = {
		{ "cuMemAlloc", 1999, CUDA_STREAM_LEGACY, -1 },
		{ "cuMemAlloc", 3010, CUDA_STREAM_LEGACY, CU_SYM_cuMemAlloc },
		{ "cuMemAlloc", 12000, CUDA_STREAM_LEGACY, CU_SYM_cuMemAlloc_v2 },
		{ "cuMemAlloc", 12000, CUDA_STREAM_PER_THREAD, CU_SYM_cuMemAlloc_v2 },
		{ "cuMemAlloc_v2", 12000, CUDA_STREAM_LEGACY, -1 },
		{ "cuMemcpyHtoD", 12000, CUDA_STREAM_LEGACY, CU_SYM_cuMemcpyHtoD_v2 },
		{ "cuMemcpyHtoD", 12000, CUDA_STREAM_PER_THREAD, CU_SYM_cuMemcpyHtoD_v2_ptds },
		{ "cuMemcpyHtoD", 6050, CUDA_STREAM_PER_THREAD, CU_SYM_cuMemcpyHtoD_v2 },
		{ "cuCtxCreate", 12040, CUDA_STREAM_LEGACY, CU_SYM_cuCtxCreate_v3 },
		{ "cuCtxCreate", 12050, CUDA_STREAM_LEGACY, CU_SYM_cuCtxCreate_v4 },
		{ "cuGetProcAddress", 11030, CUDA_STREAM_LEGACY, CU_SYM_cuGetProcAddress },
		{ "cuGetProcAddress", 13000, CUDA_STREAM_LEGACY, CU_SYM_cuGetProcAddress_v2 },
		{ "cuGraphAddNode", 12020, CUDA_STREAM_LEGACY, CU_SYM_cuGraphAddNode },
		{ "cuGraphAddNode", 13000, CUDA_STREAM_LEGACY, CU_SYM_cuGraphAddNode_v2 },
		{ "cudbgMain", 13000, CUDA_STREAM_LEGACY, -1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		assert_int_equal(cuda_symbol_for(cases[i].api, cases[i].version, cases[i].stream),
				 cases[i].slot);
}

static void results_have_names(void **state)
{
	(void)state;
	assert_string_equal(cuda_result_name(CUDA_SUCCESS), "CUDA_SUCCESS");
	assert_string_equal(cuda_result_name(2), "CUDA_ERROR_OUT_OF_MEMORY");
	assert_string_equal(cuda_result_name(999), "CUDA_ERROR_UNKNOWN");
	assert_null(cuda_result_name(998));
}

/* counted through each macro; a line missed by one of them changes the sum */
static void every_line_expands_once(void **state)
{
	int passed = 0, called = 0, hooked = 0;

	(void)state;
#define CU_PASS(symbol, api, since, stream)         passed++;
#define CU_CALL(symbol, api, since, stream, params) called++;
#define CU_HOOK(symbol, api, since, stream, params) hooked++;
#include "abi/cuda.def"
	assert_int_equal(passed + called + hooked, CU_SYM_COUNT);
	assert_true(called + hooked > passed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_symbol_is_found_in_its_slot),
		cmocka_unit_test(unknown_names_are_not_found),
		cmocka_unit_test(variant_follows_version_and_stream),
		cmocka_unit_test(results_have_names),
		cmocka_unit_test(every_line_expands_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
