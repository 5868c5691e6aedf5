// SPDX-License-Identifier: Apache-2.0
/* The table of NVML names: sorted, found by name, and no name twice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "abi/nvml_names.h"

static void every_name_is_found(void **state)
{
	(void)state;
	for (int i = 0; i < NVML_SYM_COUNT; i++)
		assert_int_equal(nvml_symbol_find(nvml_names[i]), i);
}

static void other_names_are_not_found(void **state)
{
	(void)state;
	assert_int_equal(nvml_symbol_find(""), -1);
	assert_int_equal(nvml_symbol_find("nvml"), -1);
	assert_int_equal(nvml_symbol_find("nvmlInit_v"), -1);
	assert_int_equal(nvml_symbol_find("nvmlInit_v22"), -1);
	assert_int_equal(nvml_symbol_find("zzz"), -1);
}

static void variants_have_slots_of_their_own(void **state)
{
	(void)state;
	assert_int_equal(nvml_symbol_find("nvmlDeviceGetMemoryInfo"),
			 NVML_SYM_nvmlDeviceGetMemoryInfo);
	assert_int_equal(nvml_symbol_find("nvmlDeviceGetMemoryInfo_v2"),
			 NVML_SYM_nvmlDeviceGetMemoryInfo_v2);
	assert_int_equal(NVML_SYM_nvmlDeviceGetMemoryInfo + 1, NVML_SYM_nvmlDeviceGetMemoryInfo_v2);
}

static void results_have_names_and_texts(void **state)
{
	(void)state;
	assert_string_equal(nvml_result_name(NVML_ERROR_GPU_IS_LOST), "NVML_ERROR_GPU_IS_LOST");
	assert_string_equal(nvml_result_text(NVML_ERROR_GPU_IS_LOST), "GPU is lost");
	assert_string_equal(nvml_result_text(NVML_SUCCESS), "Success");
	assert_string_equal(nvml_result_name((nvmlReturn_t)555), "?");
	assert_string_equal(nvml_result_text((nvmlReturn_t)555), "Unknown Error");
}

/* what a caller stores into `version`: these words are in every NVML program ever compiled */
static void version_words(void **state)
{
	(void)state;
	assert_int_equal(NVML_MEMORY_V2, 0x02000028);
	assert_int_equal(NVML_PROCESS_DETAIL_LIST_V1, 0x01000018);
	assert_int_equal(NVML_PROCESSES_UTILIZATION_V1, 0x01000018);
	assert_int_equal(NVML_TEMPERATURE_V1, 0x0100000c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_name_is_found),
		cmocka_unit_test(other_names_are_not_found),
		cmocka_unit_test(variants_have_slots_of_their_own),
		cmocka_unit_test(results_have_names_and_texts),
		cmocka_unit_test(version_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
