// SPDX-License-Identifier: Apache-2.0
/* Samples of the simulated machine: what is known, what is not, lists, losses. */
#include <errno.h>
#include <libgen.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "gpu/nvml.h"
#include "nvml_fixture.h"

static struct gpu_nvml *nvml;
static struct gpu_sample out[2];

static void sample(void)
{
	struct err err = { 0 };

	assert_int_equal(gpu_nvml_sample(nvml, out, 2, &err), 2);
}

static void identities(void **state)
{
	(void)state;
	sample();
	assert_string_equal(gpu_nvml_driver_version(nvml), "580.159.04");
	assert_string_equal(out[0].name, "NVIDIA Card A");
	assert_string_equal(out[1].pci_bus_id, "0000:c1:00.0");
	assert_int_equal(out[1].uuid[0], 0x0b);
	assert_int_equal(out[1].index, 1);
	assert_true(out[0].valid & GPU_HAS_UUID);
	assert_true(out[0].at_ns != 0);
}

static void memory_and_processes(void **state)
{
	pid_t one = fixture_hold(0, 1024 * MIB), two = fixture_hold(1, 64 * MIB);

	(void)state;
	sample();
	assert_int_equal(out[0].total_bytes, FIXTURE_TOTAL_A);
	assert_int_equal(out[0].reserved_bytes, FIXTURE_RESERVED);
	assert_int_equal(out[0].used_bytes, 1024 * MIB);
	assert_int_equal(out[0].free_bytes, FIXTURE_TOTAL_A - FIXTURE_RESERVED - 1024 * MIB);
	assert_int_equal(out[0].n_procs, 1);
	assert_int_equal(out[0].procs[0].pid, one);
	assert_int_equal(out[0].procs[0].used_bytes, 1024 * MIB);
	assert_int_equal(out[0].procs[0].kinds, GPU_PROC_COMPUTE);
	assert_int_equal(out[1].procs[0].pid, two);
	fixture_kill(one);
	sample();
	assert_int_equal(out[0].n_procs, 0);
	assert_int_equal(out[0].used_bytes, 0);
	assert_true(out[0].valid & GPU_HAS_PROCS); /* known to be none */
	fixture_kill(two);
}

static void a_crowd_is_listed_to_its_bound(void **state)
{
	pid_t one = fixture_hold(0, 64 * MIB);
	char words[64];

	(void)state;
	fixture_faults("crowd=1000");
	sample();
	assert_int_equal(out[0].n_procs, 1001);
	assert_false(out[0].flags & GPU_PROCS_CUT);
	assert_int_equal(out[0].procs[0].pid, one);
	assert_int_equal(out[0].procs[1000].used_bytes, 2 * MIB);
	fixture_faults("crowd=2000"); /* told that it is not all */
	sample();
	assert_int_equal(out[0].n_procs, GPU_PROCS_MAX);
	assert_true(out[0].flags & GPU_PROCS_CUT);
	snprintf(words, sizeof(words), "graphics=%d", one);
	fixture_faults(words);
	sample();
	assert_int_equal(out[0].n_procs, 1);
	assert_int_equal(out[0].procs[0].kinds, GPU_PROC_COMPUTE | GPU_PROC_GRAPHICS);
	fixture_faults(NULL);
	fixture_kill(one);
}

static void what_fails_is_unknown(void **state)
{
	(void)state;
	fixture_faults("error=nvmlDeviceGetTemperature:3 "
		       "error=nvmlDeviceGetComputeRunningProcesses_v3:NVML_ERROR_UNKNOWN");
	sample();
	assert_false(out[0].valid & GPU_HAS_TEMPERATURE);
	assert_false(out[0].valid & GPU_HAS_PROCS);
	assert_true(out[0].valid & GPU_HAS_POWER);
	fixture_faults("error=nvmlDeviceGetMemoryInfo_v2:3");
	sample();
	assert_true(out[0].valid & GPU_HAS_USED); /* the old layout, which counts the reserve */
	assert_false(out[0].valid & GPU_HAS_RESERVED);
	assert_int_equal(out[0].used_bytes, FIXTURE_RESERVED);
	fixture_faults("error=nvmlDeviceGetMemoryInfo_v2:3,error=nvmlDeviceGetMemoryInfo:3");
	sample();
	assert_false(out[0].valid & (GPU_HAS_USED | GPU_HAS_TOTAL));
	fixture_faults(NULL);
}

static void a_lost_gpu_keeps_its_name(void **state)
{
	(void)state;
	sample();
	fixture_faults("lost=1");
	sample();
	assert_false(out[0].flags & GPU_LOST);
	assert_true(out[1].flags & GPU_LOST);
	assert_true(out[1].valid & GPU_HAS_UUID);
	assert_int_equal(out[1].uuid[0], 0x0b);
	assert_false(out[1].valid & (GPU_HAS_USED | GPU_HAS_PROCS));
	fixture_faults(NULL);
	sample();
	assert_false(out[1].flags & GPU_LOST);
}

static void a_failing_library_is_told(void **state)
{
	struct err err = { 0 };

	(void)state;
	fixture_faults("error=*:15");
	assert_int_equal(gpu_nvml_sample(nvml, out, 2, &err), -EIO);
	assert_non_null(strstr(err.text, "GPU is lost"));
	fixture_faults(NULL);
}

static void no_library(void **state)
{
	struct gpu_nvml *none = NULL;
	struct err err = { 0 };

	(void)state;
	assert_int_equal(gpu_nvml_open("/nonexistent", &none, &err), -ENOENT);
	assert_non_null(strstr(err.text, "/nonexistent/libnvidia-ml.so.1"));
	assert_null(none);
	gpu_nvml_close(NULL);
}

static void a_driver_that_is_not_loaded(void **state)
{
	struct gpu_nvml *none = NULL;
	char *path = strdup(getenv("ALLOT_TEST_SIM_NVML"));
	struct err err = { 0 };

	(void)state;
	fixture_faults("error=nvmlInit_v2:9");
	assert_int_equal(gpu_nvml_open(dirname(path), &none, &err), -ENODEV);
	assert_non_null(strstr(err.text, "Driver Not Loaded"));
	fixture_faults(NULL);
	free(path);
}

static int setup(void **state)
{
	char *path = strdup(getenv("ALLOT_TEST_SIM_NVML"));
	int r;

	(void)state;
	fixture_make();
	r = gpu_nvml_open(dirname(path), &nvml, NULL);
	free(path);
	return r;
}

static int teardown(void **state)
{
	(void)state;
	gpu_nvml_close(nvml);
	fixture_remove();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(identities),
		cmocka_unit_test(memory_and_processes),
		cmocka_unit_test(a_crowd_is_listed_to_its_bound),
		cmocka_unit_test(what_fails_is_unknown),
		cmocka_unit_test(a_lost_gpu_keeps_its_name),
		cmocka_unit_test(a_failing_library_is_told),
		cmocka_unit_test(no_library),
		cmocka_unit_test(a_driver_that_is_not_loaded),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
