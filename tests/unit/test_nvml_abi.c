// SPDX-License-Identifier: Apache-2.0
/* The table of NVML names: sorted, found by name, and no name twice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
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

/*
 * Which names set something?  Those with one of these words in them, but for the exceptions.  A
 * name that is added to the table is asked this question here.
 */
static const char *const verbs[] = { "Set",    "Reset",  "Clear",    "Create",    "Destroy",
				     "Remove", "Modify", "Freeze",   "Update",    "Activate",
				     "Write",  "Force",  "Discover", "Configure", "Enable" };

static const char *const harmless[] = {
	/* the calling thread's own affinity to CPUs; libraries call it at their start */
	"nvmlDeviceSetCpuAffinity",
	"nvmlDeviceClearCpuAffinity",
	/* a set of events that the caller waits for */
	"nvmlEventSetCreate",
	"nvmlEventSetFree",
	"nvmlEventSetWait",
	"nvmlEventSetWait_v2",
	"nvmlSystemEventSetCreate",
	"nvmlSystemEventSetFree",
	"nvmlSystemEventSetWait",
	/* a set of GPUs, read */
	"nvmlSystemGetTopologyGpuSet",
};

/* as a word: not in "Settings", not in "Creatable", not in "Enabled" */
static bool has_word(const char *name, const char *word)
{
	size_t n = strlen(word);

	for (const char *at = strstr(name, word); at; at = strstr(at + 1, word))
		if (at[n] < 'a' || at[n] > 'z')
			return true;
	return false;
}

static bool sets(const char *name)
{
	for (size_t i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++)
		if (strcmp(name, harmless[i]) == 0)
			return false;
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (has_word(name, verbs[i]))
			return true;
	return false;
}

static void every_name_that_sets_is_marked(void **state)
{
	unsigned marked = 0;

	(void)state;
	for (int i = 0; i < NVML_SYM_COUNT; i++) {
		if (sets(nvml_names[i]) != nvml_sets[i])
			fail_msg("%s is%s marked NVML_SET", nvml_names[i],
				 nvml_sets[i] ? "" : " not");
		marked += nvml_sets[i];
	}
	assert_true(marked >= 75);
	for (size_t i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++)
		assert_true(nvml_symbol_find(harmless[i]) >= 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_name_is_found),
		cmocka_unit_test(other_names_are_not_found),
		cmocka_unit_test(variants_have_slots_of_their_own),
		cmocka_unit_test(results_have_names_and_texts),
		cmocka_unit_test(version_words),
		cmocka_unit_test(every_name_that_sets_is_marked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
