// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/size.h"
#include "sim_driver.h"

struct row {
	const char *faults;
	int results[6]; /* of six calls of cuMemAlloc_v2(4096) */
};

static int call_six_times(void *argument)
{
	const struct row *row = argument;
	CUdeviceptr p;

	setenv("ALLOT_SIM_FAULTS", row->faults, 1);
	if (sim_driver_context())
		return 100;
	for (int i = 0; i < 6; i++) {
		if ((int)CU(cuMemAlloc_v2)(&p, 4096) != row->results[i])
			return 1 + i;
	}
	return 0;
}

static void faults_come_when_they_are_asked_for(void **unused)
{
	static const struct row rows[] = {
		{ "cuMemAlloc_v2=2", { 2, 0, 0, 0, 0, 0 } },
		{ "after=2 cuMemAlloc_v2=2", { 0, 0, 2, 0, 0, 0 } },
		{ "after=2 sticky cuMemAlloc_v2=CUDA_ERROR_UNKNOWN", { 0, 0, 999, 999, 999, 999 } },
		{ "every=2 times=2 cuMemAlloc_v2=2", { 2, 0, 2, 0, 0, 0 } },
		{ "after=1 every=3 times=9 cuMemAlloc_v2=2", { 0, 2, 0, 0, 2, 0 } },
		{ "cuMemA*=2", { 2, 0, 0, 0, 0, 0 } },
		{ "cuMemFree_v2=2; times=3 cuMemAlloc_v2=46", { 46, 46, 46, 0, 0, 0 } },
		{ "pid=1 cuMemAlloc_v2=2", { 0, 0, 0, 0, 0, 0 } },
		{ "delay=1ms cuMemAlloc_v2", { 0, 0, 0, 0, 0, 0 } },
	};

	(void)unused;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct row row = rows[i];
		int code = sim_driver_wait(sim_driver_child(call_six_times, &row));

		if (code)
			fail_msg("'%s': %d", row.faults, code);
	}
}

static int init_with(void *faults)
{
	setenv("ALLOT_SIM_FAULTS", faults, 1);
	if (!freopen("/dev/null", "w", stderr))
		return 1;
	return CU(cuInit)(0) == CUDA_ERROR_UNKNOWN ? 0 : 2;
}

static void a_rule_that_cannot_be_read_fails_everything(void **unused)
{
	static const char *const bad[] = { "cuMemAlloc_v3=2", "cuInit=lots",     "after=x cuInit=2",
					   "after=2",         "cuInit=2 sticky", "frob cuInit=1" };

	(void)unused;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(
			sim_driver_wait(sim_driver_child(init_with, (void *)(uintptr_t)bad[i])), 0);
}

static void write_faults(const char *text)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/faults", sim_driver_dir());
	f = fopen(path, "w");
	if (f) {
		fputs(text, f);
		fclose(f);
	}
}

static int by_file(void *unused)
{
	CUdeviceptr p;

	(void)unused;
	write_faults("# none yet\n");
	if (sim_driver_context() || CU(cuMemAlloc_v2)(&p, 4096))
		return 1;
	write_faults("sticky cuMemAlloc_v2=2\n");
	if (CU(cuMemAlloc_v2)(&p, 4096) != CUDA_ERROR_OUT_OF_MEMORY)
		return 2;
	write_faults("");
	return CU(cuMemAlloc_v2)(&p, 4096) ? 3 : 0;
}

static void the_file_is_read_again_when_it_changes(void **unused)
{
	(void)unused;
	assert_int_equal(sim_driver_wait(sim_driver_child(by_file, NULL)), 0);
}

static int logged(void *path)
{
	CUdeviceptr p;

	setenv("ALLOT_SIM_LOG", path, 1);
	return sim_driver_context() || CU(cuMemAlloc_v2)(&p, 12345) ||
	       CU(cuMemFree_v2)(7) != CUDA_ERROR_INVALID_VALUE;
}

static void calls_are_logged_one_a_line(void **unused)
{
	char path[128], want[128], line[256];
	int found = 0;
	pid_t pid;
	FILE *f;

	(void)unused;
	snprintf(path, sizeof(path), "%s/log", sim_driver_dir());
	pid = sim_driver_child(logged, path);
	assert_int_equal(sim_driver_wait(pid), 0);
	f = fopen(path, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		snprintf(want, sizeof(want), "%d cuMemAlloc_v2(bytes=12345) = 0\n", pid);
		found += !strcmp(line, want);
		snprintf(want, sizeof(want), "%d cuMemFree_v2(dptr=0x7) = 1\n", pid);
		found += !strcmp(line, want);
	}
	fclose(f);
	assert_int_equal(found, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(faults_come_when_they_are_asked_for),
		cmocka_unit_test(a_rule_that_cannot_be_read_fails_everything),
		cmocka_unit_test(the_file_is_read_again_when_it_changes),
		cmocka_unit_test(calls_are_logged_one_a_line),
	};

	sim_driver_setup(NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
