// SPDX-License-Identifier: Apache-2.0
/*
 * The simulated NVML through its exported functions: life cycle, identities, both memory layouts,
 * the size protocol of every process list, refusals and faults.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "abi/nvml_names.h"
#include "nvml_fixture.h"

#include <dlfcn.h>

static void *lib;

/* the exported function of that name, with the type of the table */
#define F(symbol) ((pfn_##symbol *)dlsym(lib, #symbol))

static nvmlDevice_t card(unsigned index)
{
	nvmlDevice_t device = NULL;

	assert_int_equal(F(nvmlDeviceGetHandleByIndex_v2)(index, &device), NVML_SUCCESS);
	return device;
}

static void every_name_is_exported(void **state)
{
	(void)state;
	for (int i = 0; i < NVML_SYM_COUNT; i++)
		assert_non_null(dlsym(lib, nvml_names[i]));
}

static void init_is_counted(void **state)
{
	unsigned n;

	(void)state;
	assert_int_equal(F(nvmlInit_v2)(), NVML_SUCCESS);
	assert_int_equal(F(nvmlShutdown)(), NVML_SUCCESS);
	assert_int_equal(F(nvmlDeviceGetCount_v2)(&n), NVML_SUCCESS);
	assert_int_equal(F(nvmlShutdown)(), NVML_SUCCESS);
	assert_int_equal(F(nvmlDeviceGetCount_v2)(&n), NVML_ERROR_UNINITIALIZED);
	assert_int_equal(F(nvmlShutdown)(), NVML_ERROR_UNINITIALIZED);
	assert_int_equal(F(nvmlInit)(), NVML_SUCCESS);
}

static void devices_are_found_every_way(void **state)
{
	nvmlUUID_t id = { .version = NVML_UUID_V1, .type = NVML_UUID_TYPE_ASCII };
	nvmlDevice_t a = card(0), b = card(1), d;
	unsigned n;
	char text[96];

	(void)state;
	assert_int_equal(F(nvmlDeviceGetCount_v2)(&n), NVML_SUCCESS);
	assert_int_equal(n, 2);
	assert_ptr_not_equal(a, b);
	assert_int_equal(F(nvmlDeviceGetHandleByIndex_v2)(2, &d), NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(F(nvmlDeviceGetHandleByIndex_v2)(0, NULL), NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(F(nvmlDeviceGetHandleByUUID)(FIXTURE_UUID_B, &d), NVML_SUCCESS);
	assert_ptr_equal(d, b);
	assert_int_equal(F(nvmlDeviceGetHandleByUUID)("GPU-nonsense", &d), NVML_ERROR_NOT_FOUND);
	strcpy(id.value.str, FIXTURE_UUID_A);
	assert_int_equal(F(nvmlDeviceGetHandleByUUIDV)(&id, &d), NVML_SUCCESS);
	assert_ptr_equal(d, a);
	assert_int_equal(F(nvmlDeviceGetHandleByPciBusId_v2)("00000000:C1:00.0", &d), NVML_SUCCESS);
	assert_ptr_equal(d, b);
	assert_int_equal(F(nvmlDeviceGetHandleByPciBusId_v2)("0000:83:00.0", &d), NVML_SUCCESS);
	assert_ptr_equal(d, a);
	assert_int_equal(F(nvmlDeviceGetHandleByPciBusId_v2)("84:00.0", &d), NVML_ERROR_NOT_FOUND);
	assert_int_equal(F(nvmlDeviceGetSerial)(b, text, sizeof(text)), NVML_SUCCESS);
	assert_int_equal(F(nvmlDeviceGetHandleBySerial)(text, &d), NVML_SUCCESS);
	assert_ptr_equal(d, b);
}

static void texts_keep_to_their_room(void **state)
{
	char text[96];

	(void)state;
	assert_int_equal(F(nvmlDeviceGetUUID)(card(0), text, sizeof(text)), NVML_SUCCESS);
	assert_string_equal(text, FIXTURE_UUID_A);
	assert_int_equal(F(nvmlDeviceGetUUID)(card(0), text, 40), NVML_ERROR_INSUFFICIENT_SIZE);
	assert_int_equal(F(nvmlDeviceGetUUID)(card(0), NULL, 96), NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(F(nvmlDeviceGetUUID)((nvmlDevice_t)text, text, 96),
			 NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(F(nvmlSystemGetDriverVersion)(text, sizeof(text)), NVML_SUCCESS);
	assert_string_equal(text, "580.159.04");
}

static void pci_layouts_write_no_further_than_theirs(void **state)
{
	union {
		nvmlPciInfo_v1_t v1;
		nvmlPciInfo_v2_t v2;
		nvmlPciInfo_t v3;
		unsigned char bytes[128];
	} u;

	(void)state;
	memset(&u, 0xee, sizeof(u));
	assert_int_equal(F(nvmlDeviceGetPciInfo)(card(1), &u.v1), NVML_SUCCESS);
	assert_string_equal(u.v1.busId, "0000:C1:00.0");
	assert_int_equal(u.bytes[sizeof(u.v1)], 0xee);
	assert_int_equal(F(nvmlDeviceGetPciInfo_v2)(card(1), &u.v2), NVML_SUCCESS);
	assert_int_equal(u.bytes[sizeof(u.v2)], 0xee);
	assert_int_equal(F(nvmlDeviceGetPciInfo_v3)(card(1), &u.v3), NVML_SUCCESS);
	assert_string_equal(u.v3.busIdLegacy, "0000:C1:00.0");
	assert_string_equal(u.v3.busId, "00000000:C1:00.0");
	assert_int_equal(u.v3.bus, 0xc1);
	assert_int_equal(u.bytes[sizeof(u.v3)], 0xee);
}

static void memory_has_two_layouts(void **state)
{
	pid_t holder = fixture_hold(0, 1024 * MIB);
	nvmlMemory_v2_t v2 = { .version = NVML_MEMORY_V2 };
	nvmlMemory_t v1;

	(void)state;
	assert_int_equal(F(nvmlDeviceGetMemoryInfo)(card(0), &v1), NVML_SUCCESS);
	assert_int_equal(v1.total, FIXTURE_TOTAL_A);
	assert_int_equal(v1.used, 1024 * MIB + FIXTURE_RESERVED); /* the reserve counts as used */
	assert_int_equal(v1.total, v1.free + v1.used);
	assert_int_equal(F(nvmlDeviceGetMemoryInfo_v2)(card(0), &v2), NVML_SUCCESS);
	assert_int_equal(v2.used, 1024 * MIB);
	assert_int_equal(v2.reserved, FIXTURE_RESERVED);
	assert_int_equal(v2.total, v2.free + v2.used + v2.reserved);
	fixture_kill(holder);
	assert_int_equal(F(nvmlDeviceGetMemoryInfo_v2)(card(0), &v2), NVML_SUCCESS);
	assert_int_equal(v2.used, 0);
}

static void a_wrong_version_writes_nothing(void **state)
{
	nvmlMemory_v2_t v2 = { .version = NVML_MEMORY_V2 + 1, .total = 77 };

	(void)state;
	assert_int_equal(F(nvmlDeviceGetMemoryInfo_v2)(card(0), &v2),
			 NVML_ERROR_FUNCTION_NOT_FOUND);
	assert_int_equal(v2.total, 77);
	v2.version = 0;
	assert_int_equal(F(nvmlDeviceGetMemoryInfo_v2)(card(0), &v2),
			 NVML_ERROR_FUNCTION_NOT_FOUND);
	assert_int_equal(F(nvmlDeviceGetMemoryInfo_v2)(card(0), NULL), NVML_ERROR_INVALID_ARGUMENT);
}

/* room, number, INSUFFICIENT_SIZE: the same for each layout */
#define SIZE_PROTOCOL(symbol, type)                                                             \
	static void size_protocol_##symbol(void **state)                                        \
	{                                                                                       \
		pid_t one = fixture_hold(0, 100 * MIB), two = fixture_hold(0, 200 * MIB);       \
		uint64_t sum = 0;                                                               \
		type infos[4];                                                                  \
		unsigned n = 0;                                                                 \
                                                                                                \
		(void)state;                                                                    \
		assert_int_equal(F(symbol)(card(0), &n, NULL), NVML_ERROR_INSUFFICIENT_SIZE);   \
		assert_int_equal(n, 2);                                                         \
		n = 1;                                                                          \
		memset(infos, 0xee, sizeof(infos));                                             \
		assert_int_equal(F(symbol)(card(0), &n, infos), NVML_ERROR_INSUFFICIENT_SIZE);  \
		assert_int_equal(n, 2);                                                         \
		n = 4;                                                                          \
		assert_int_equal(F(symbol)(card(0), &n, infos), NVML_SUCCESS);                  \
		assert_int_equal(n, 2);                                                         \
		for (unsigned i = 0; i < n; i++) {                                              \
			assert_true(infos[i].pid == (unsigned)one ||                            \
				    infos[i].pid == (unsigned)two);                             \
			sum += infos[i].usedGpuMemory;                                          \
		}                                                                               \
		assert_int_equal(infos[0].pid + infos[1].pid, one + two);                       \
		assert_int_equal(sum, 300 * MIB);                                               \
		assert_int_equal(((unsigned char *)&infos[2])[0], 0xee);                        \
		n = 4;                                                                          \
		assert_int_equal(F(symbol)(card(0), &n, NULL), NVML_ERROR_INVALID_ARGUMENT);    \
		assert_int_equal(F(symbol)(card(0), NULL, infos), NVML_ERROR_INVALID_ARGUMENT); \
		n = 0; /* the other card is idle */                                             \
		assert_int_equal(F(symbol)(card(1), &n, NULL), NVML_SUCCESS);                   \
		assert_int_equal(n, 0);                                                         \
		fixture_kill(one);                                                              \
		fixture_kill(two);                                                              \
	}

SIZE_PROTOCOL(nvmlDeviceGetComputeRunningProcesses, nvmlProcessInfo_v1_t)
SIZE_PROTOCOL(nvmlDeviceGetComputeRunningProcesses_v2, nvmlProcessInfo_v2_t)
SIZE_PROTOCOL(nvmlDeviceGetComputeRunningProcesses_v3, nvmlProcessInfo_t)

static void the_detail_list(void **state)
{
	pid_t one = fixture_hold(1, 64 * MIB);
	nvmlProcessDetail_v1_t detail[2];
	nvmlProcessDetailList_t list = { .version = NVML_PROCESS_DETAIL_LIST_V1 };

	(void)state;
	assert_int_equal(F(nvmlDeviceGetRunningProcessDetailList)(card(1), &list),
			 NVML_ERROR_INSUFFICIENT_SIZE);
	assert_int_equal(list.numProcArrayEntries, 1);
	list.numProcArrayEntries = 2;
	list.procArray = detail;
	assert_int_equal(F(nvmlDeviceGetRunningProcessDetailList)(card(1), &list), NVML_SUCCESS);
	assert_int_equal(list.numProcArrayEntries, 1);
	assert_int_equal(detail[0].pid, one);
	assert_int_equal(detail[0].usedGpuMemory, 64 * MIB);
	assert_int_equal(detail[0].gpuInstanceId, NVML_NO_INSTANCE);
	list.version = 1;
	assert_int_equal(F(nvmlDeviceGetRunningProcessDetailList)(card(1), &list),
			 NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	fixture_kill(one);
}

static void a_process_of_another_pid_namespace(void **state)
{
	pid_t pid = fixture_hold_apart(1, 64 * MIB);
	nvmlProcessInfo_t infos[2];
	unsigned n = 2;

	(void)state;
	if (pid < 0)
		skip(); /* no new PID namespaces here */
	assert_int_equal(F(nvmlDeviceGetComputeRunningProcesses_v3)(card(1), &n, infos),
			 NVML_SUCCESS);
	assert_int_equal(n, 1);
	assert_int_equal(infos[0].pid, pid); /* as we number it, not 1 */
	fixture_kill(pid);
}

static void what_would_change_the_card_is_refused(void **state)
{
	nvmlReturn_t (*set_mode)(nvmlDevice_t, int) =
		(nvmlReturn_t(*)(nvmlDevice_t, int))dlsym(lib, "nvmlDeviceSetComputeMode");
	nvmlReturn_t (*count)(nvmlDevice_t) =
		(nvmlReturn_t(*)(nvmlDevice_t))dlsym(lib, "nvmlDeviceGetVgpuMetadata");
	unsigned current = 9, pending = 9;

	(void)state;
	assert_int_equal(set_mode(card(0), 3), NVML_ERROR_NO_PERMISSION);
	assert_int_equal(count(card(0)), NVML_ERROR_NOT_SUPPORTED);
	assert_int_equal(F(nvmlDeviceGetMigMode)(card(0), &current, &pending), NVML_SUCCESS);
	assert_int_equal(current, 0);
	assert_int_equal(F(nvmlDeviceGetFanSpeed)(card(0), &current), NVML_ERROR_NOT_SUPPORTED);
}

static void figures_of_an_idle_card(void **state)
{
	nvmlUtilization_t rates = { 99, 99 };
	unsigned celsius = 0, mw = 0, limit = 0;

	(void)state;
	assert_int_equal(F(nvmlDeviceGetUtilizationRates)(card(0), &rates), NVML_SUCCESS);
	assert_int_equal(rates.gpu, 0);
	assert_int_equal(F(nvmlDeviceGetTemperature)(card(0), NVML_TEMPERATURE_GPU, &celsius),
			 NVML_SUCCESS);
	assert_in_range(celsius, 1, 100);
	assert_int_equal(F(nvmlDeviceGetPowerUsage)(card(0), &mw), NVML_SUCCESS);
	assert_int_equal(F(nvmlDeviceGetEnforcedPowerLimit)(card(0), &limit), NVML_SUCCESS);
	assert_in_range(mw, 1, limit);
}

static void faults_come_and_go(void **state)
{
	nvmlMemory_t m;
	nvmlDevice_t a = card(0), b = card(1);

	(void)state;
	fixture_faults("error=nvmlDeviceGetMemoryInfo:NVML_ERROR_TIMEOUT");
	assert_int_equal(F(nvmlDeviceGetMemoryInfo)(a, &m), NVML_ERROR_TIMEOUT);
	fixture_faults("error=*:999");
	assert_int_equal(F(nvmlDeviceGetMemoryInfo)(a, &m), NVML_ERROR_UNKNOWN);
	fixture_faults("lost=1");
	assert_int_equal(F(nvmlDeviceGetMemoryInfo)(a, &m), NVML_SUCCESS);
	assert_int_equal(F(nvmlDeviceGetMemoryInfo)(b, &m), NVML_ERROR_GPU_IS_LOST);
	fixture_faults(NULL);
	assert_int_equal(F(nvmlDeviceGetMemoryInfo)(b, &m), NVML_SUCCESS);
}

static void a_hang_ends_with_the_fault(void **state)
{
	nvmlMemory_t m;
	nvmlDevice_t a = card(0);
	int status;
	pid_t pid;

	(void)state;
	fixture_faults("hang=nvmlDeviceGetMemoryInfo");
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit((int)F(nvmlDeviceGetMemoryInfo)(a, &m)); /* a child reads afresh, too */
	usleep(50000);
	assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
	fixture_faults(NULL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), NVML_SUCCESS);
}

static int setup(void **state)
{
	(void)state;
	fixture_make();
	lib = dlopen(getenv("ALLOT_TEST_SIM_NVML"), RTLD_NOW | RTLD_LOCAL);
	return lib && F(nvmlInit_v2)() == NVML_SUCCESS ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	fixture_remove();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_name_is_exported),
		cmocka_unit_test(init_is_counted),
		cmocka_unit_test(devices_are_found_every_way),
		cmocka_unit_test(texts_keep_to_their_room),
		cmocka_unit_test(pci_layouts_write_no_further_than_theirs),
		cmocka_unit_test(memory_has_two_layouts),
		cmocka_unit_test(a_wrong_version_writes_nothing),
		cmocka_unit_test(size_protocol_nvmlDeviceGetComputeRunningProcesses),
		cmocka_unit_test(size_protocol_nvmlDeviceGetComputeRunningProcesses_v2),
		cmocka_unit_test(size_protocol_nvmlDeviceGetComputeRunningProcesses_v3),
		cmocka_unit_test(the_detail_list),
		cmocka_unit_test(a_process_of_another_pid_namespace),
		cmocka_unit_test(what_would_change_the_card_is_refused),
		cmocka_unit_test(figures_of_an_idle_card),
		cmocka_unit_test(faults_come_and_go),
		cmocka_unit_test(a_hang_ends_with_the_fault),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
