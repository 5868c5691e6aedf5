// SPDX-License-Identifier: Apache-2.0
/*
 * liballot-nvml.so between a program and the simulated NVML, with a daemon that says what a file
 * shared with the test tells it to say.  The shim reads where the daemon is from what its process
 * was started with, so the program starts itself anew once the daemon serves.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "abi/nvml_names.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/str.h"
#include "client/packet.h"
#include "nvml_fixture.h"

#define CONNS_MAX 32

/* what the daemon says; shared with it */
struct script {
	_Atomic uint32_t refuse; /* ATTACH is answered: not one of ours */
	_Atomic uint32_t n_attached;
	pid_t daemon;
	uint32_t fail_policy;
	uint32_t is_second; /* the lease is the second of two cards, not the first of one */
	char driver_dir[512];
	struct wire_viewed viewed;
	uint32_t n_procs;
	struct wire_proc procs[8];
};

static struct script *script;
static void *lib;

#define F(symbol) ((pfn_##symbol *)dlsym(lib, #symbol))

/* ---- the daemon ---- */

static void say_attached(int sock, uint32_t id)
{
	struct wire_attached a = { .job_id = 7,
				   .n_gpus = 1,
				   .fail_policy = script->fail_policy,
				   .grace_ns = 100 * NS_PER_MS };

	if (script->refuse) {
		struct wire_error e = { .code = WIRE_CODE_NO_SUCH, .version = WIRE_VERSION };

		(void)str_copy(e.text, sizeof(e.text), "this process belongs to no job");
		(void)packet_send(sock, WIRE_ERROR, id, &e, -1);
		return;
	}
	script->n_attached++;
	(void)str_copy(a.driver_dir, sizeof(a.driver_dir), script->driver_dir);
	(void)str_copy(a.job_name, sizeof(a.job_name), "test");
	a.system_gpus = script->is_second ? 2 : 1;
	(void)parse_uuid(script->is_second ? FIXTURE_UUID_B : FIXTURE_UUID_A, a.gpus[0].uuid.bytes,
			 NULL);
	a.gpus[0].total_bytes = FIXTURE_TOTAL_A;
	a.gpus[0].limit_bytes = 2 * GIB;
	a.gpus[0].has_limit = 1;
	(void)packet_send(sock, WIRE_ATTACHED, id, &a, -1);
}

/* false at the end of the connection */
static bool answer(int sock)
{
	struct packet p;
	uint32_t id;

	if (packet_recv(sock, PACKET_FOREVER, &p, NULL) < 0)
		return false;
	id = p.msg.request_id;
	switch (p.msg.type) {
	case WIRE_ATTACH:
		if (((const struct wire_attach *)p.msg.payload)->role == WIRE_ROLE_OBSERVER)
			say_attached(sock, id);
		return true;
	case WIRE_VIEW:
		(void)packet_send(sock, WIRE_VIEWED, id, &script->viewed, -1);
		return true;
	case WIRE_PROCS:
		for (uint32_t i = 0; i < script->n_procs; i++)
			(void)packet_send(sock, WIRE_PROC, id, &script->procs[i], -1);
		(void)packet_send(sock, WIRE_END, id,
				  &(struct wire_end){ .count = script->n_procs }, -1);
		return true;
	default:
		return false;
	}
}

static void serve(int listener)
{
	struct pollfd fds[CONNS_MAX] = { { .fd = listener, .events = POLLIN } };
	nfds_t n = 1;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		if (poll(fds, n, -1) < 0)
			continue;
		for (nfds_t i = n; i-- > 1;) {
			if (fds[i].revents && !answer(fds[i].fd)) {
				close(fds[i].fd);
				fds[i] = fds[--n];
			}
		}
		if (fds[0].revents && n < CONNS_MAX)
			fds[n++] = (struct pollfd){ .fd = accept(listener, NULL, NULL),
						    .events = POLLIN };
	}
}

static void start_daemon(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	pid_t pid;

	if (sock < 0 || !str_copy(addr.sun_path, sizeof(addr.sun_path), getenv("ALLOT_SOCKET")))
		abort();
	(void)unlink(addr.sun_path);
	if (bind(sock, (struct sockaddr *)&addr, sizeof(addr)) < 0 || listen(sock, 8) < 0)
		abort();
	pid = fork();
	if (pid < 0)
		abort();
	if (pid == 0)
		serve(sock);
	close(sock);
	script->daemon = pid;
}

static void stop_daemon(void)
{
	int status;

	assert_int_equal(kill(script->daemon, SIGKILL), 0);
	assert_int_equal(waitpid(script->daemon, &status, 0), script->daemon);
}

/* ---- tests ---- */

static nvmlDevice_t card(unsigned index)
{
	nvmlDevice_t device = NULL;

	assert_int_equal(F(nvmlDeviceGetHandleByIndex_v2)(index, &device), NVML_SUCCESS);
	return device;
}

static void view(uint64_t total, uint64_t free, uint64_t used)
{
	script->viewed = (struct wire_viewed){
		.total_bytes = total, .free_bytes = free, .used_bytes = used, .limit_bytes = total
	};
}

static void exports_are_the_table(void **state)
{
	(void)state;
	for (int i = 0; i < NVML_SYM_COUNT; i++)
		assert_non_null(dlsym(lib, nvml_names[i]));
}

static void a_limit_is_the_whole_card(void **state)
{
	nvmlMemory_v2_t v2 = { .version = NVML_MEMORY_V2 };
	nvmlMemory_t v1;

	(void)state;
	view(2 * GIB, 1536 * MIB, 512 * MIB);
	assert_int_equal(F(nvmlDeviceGetMemoryInfo)(card(0), &v1), NVML_SUCCESS);
	assert_int_equal(v1.total, 2 * GIB);
	assert_int_equal(v1.free, 1536 * MIB);
	assert_int_equal(v1.used, 512 * MIB);
	assert_int_equal(F(nvmlDeviceGetMemoryInfo_v2)(card(0), &v2), NVML_SUCCESS);
	assert_int_equal(v2.total, 2 * GIB);
	assert_int_equal(v2.free, 1536 * MIB);
	assert_int_equal(v2.used, 512 * MIB);
	assert_int_equal(v2.reserved, 0);
	assert_int_equal(v2.version, NVML_MEMORY_V2);
}

static void an_idle_job_uses_nothing(void **state)
{
	nvmlMemory_v2_t v2 = { .version = NVML_MEMORY_V2 };
	nvmlMemory_t v1;

	(void)state;
	view(2 * GIB, 2 * GIB, 0);
	assert_int_equal(F(nvmlDeviceGetMemoryInfo)(card(0), &v1), NVML_SUCCESS);
	assert_int_equal(v1.used, 0);
	assert_int_equal(F(nvmlDeviceGetMemoryInfo_v2)(card(0), &v2), NVML_SUCCESS);
	assert_int_equal(v2.used + v2.reserved, 0);
}

static void without_a_limit_the_reserve_stays(void **state)
{
	nvmlMemory_v2_t v2 = { .version = NVML_MEMORY_V2 };

	(void)state;
	view(8 * GIB, 6 * GIB, 256 * MIB);
	assert_int_equal(F(nvmlDeviceGetMemoryInfo_v2)(card(0), &v2), NVML_SUCCESS);
	assert_int_equal(v2.total, 8 * GIB);
	assert_int_equal(v2.free, 6 * GIB);
	assert_int_equal(v2.reserved, FIXTURE_RESERVED);
	assert_int_equal(v2.total, v2.free + v2.used + v2.reserved);
}

static void figures_that_contradict_each_other_do_not_wrap(void **state)
{
	nvmlMemory_v2_t v2 = { .version = NVML_MEMORY_V2 };
	nvmlMemory_t v1;

	(void)state;
	view(2 * GIB, 3 * GIB, 4 * GIB);
	assert_int_equal(F(nvmlDeviceGetMemoryInfo)(card(0), &v1), NVML_SUCCESS);
	assert_int_equal(v1.used, 0);
	assert_int_equal(F(nvmlDeviceGetMemoryInfo_v2)(card(0), &v2), NVML_SUCCESS);
	assert_int_equal(v2.used + v2.reserved, 0);
}

static void errors_are_the_drivers(void **state)
{
	nvmlMemory_v2_t v2 = { .version = 5, .total = 77 };
	nvmlDevice_t first = card(0);
	nvmlMemory_t v1;
	unsigned n = 0;

	(void)state;
	assert_int_equal(F(nvmlDeviceGetMemoryInfo_v2)(card(0), &v2),
			 NVML_ERROR_FUNCTION_NOT_FOUND);
	assert_int_equal(v2.total, 77);
	assert_int_equal(F(nvmlDeviceGetMemoryInfo_v2)(card(0), NULL), NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(F(nvmlDeviceGetMemoryInfo)(card(0), NULL), NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(F(nvmlDeviceGetMemoryInfo)(NULL, NULL), NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(F(nvmlDeviceGetComputeRunningProcesses_v3)(NULL, &n, NULL),
			 NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(F(nvmlDeviceGetComputeRunningProcesses_v3)(card(0), NULL, NULL),
			 NVML_ERROR_INVALID_ARGUMENT);
	n = 3; /* nobody is there: the driver does not look at the array */
	assert_int_equal(F(nvmlDeviceGetComputeRunningProcesses_v3)(card(0), &n, NULL),
			 NVML_SUCCESS);
	assert_int_equal(n, 0);
	fixture_faults("lost=0");
	assert_int_equal(F(nvmlDeviceGetMemoryInfo)(first, &v1), NVML_ERROR_GPU_IS_LOST);
	fixture_faults("error=nvmlDeviceGetComputeRunningProcesses_v2:15");
	n = 0;
	assert_int_equal(F(nvmlDeviceGetComputeRunningProcesses_v2)(first, &n, NULL),
			 NVML_ERROR_GPU_IS_LOST);
	fixture_faults(NULL);
}

static void a_card_outside_the_lease_is_as_it_is(void **state)
{
	pid_t holder = fixture_hold(1, 64 * MIB);
	nvmlProcessInfo_t infos[4];
	unsigned n = 4;
	nvmlMemory_t v1;

	(void)state;
	assert_int_equal(F(nvmlDeviceGetMemoryInfo)(card(1), &v1), NVML_SUCCESS);
	assert_int_equal(v1.total, FIXTURE_TOTAL_B);
	assert_int_equal(v1.used, FIXTURE_RESERVED + 64 * MIB);
	assert_int_equal(F(nvmlDeviceGetComputeRunningProcesses_v3)(card(1), &n, infos),
			 NVML_SUCCESS);
	assert_int_equal(n, 1);
	assert_int_equal(infos[0].pid, holder);
	fixture_kill(holder);
}

/* three processes of the job, one of which has no number where the reader is */
static void three_procs(void)
{
	script->n_procs = 3;
	script->procs[0] = (struct wire_proc){ .pid = 41, .used_bytes = 11 * MIB };
	script->procs[1] = (struct wire_proc){ .pid = 0, .used_bytes = 5 * MIB };
	script->procs[2] = (struct wire_proc){ .pid = 42, .used_bytes = WIRE_UNKNOWN_U64 };
}

#define LIST_TEST(symbol, type)                                                                \
	static void list_##symbol(void **state)                                                \
	{                                                                                      \
		pid_t stranger = fixture_hold(0, 64 * MIB);                                    \
		unsigned n = 0;                                                                \
		type infos[3];                                                                 \
                                                                                               \
		(void)state;                                                                   \
		three_procs();                                                                 \
		assert_int_equal(F(symbol)(card(0), &n, NULL), NVML_ERROR_INSUFFICIENT_SIZE);  \
		assert_int_equal(n, 2);                                                        \
		n = 1;                                                                         \
		assert_int_equal(F(symbol)(card(0), &n, infos), NVML_ERROR_INSUFFICIENT_SIZE); \
		assert_int_equal(n, 2);                                                        \
		memset(infos, 0xee, sizeof(infos));                                            \
		n = 3;                                                                         \
		assert_int_equal(F(symbol)(card(0), &n, infos), NVML_SUCCESS);                 \
		assert_int_equal(n, 2);                                                        \
		assert_int_equal(infos[0].pid, 41);                                            \
		assert_int_equal(infos[0].usedGpuMemory, 11 * MIB);                            \
		assert_int_equal(infos[1].pid, 42);                                            \
		assert_true(infos[1].usedGpuMemory ==                                          \
			    (unsigned long long)NVML_VALUE_NOT_AVAILABLE);                     \
		assert_int_equal(((unsigned char *)&infos[2])[0], 0xee);                       \
		script->n_procs = 0;                                                           \
		n = 0;                                                                         \
		assert_int_equal(F(symbol)(card(0), &n, NULL), NVML_SUCCESS);                  \
		assert_int_equal(n, 0);                                                        \
		fixture_kill(stranger);                                                        \
	}

LIST_TEST(nvmlDeviceGetComputeRunningProcesses, nvmlProcessInfo_v1_t)
LIST_TEST(nvmlDeviceGetComputeRunningProcesses_v2, nvmlProcessInfo_v2_t)
LIST_TEST(nvmlDeviceGetComputeRunningProcesses_v3, nvmlProcessInfo_t)

static void instances_are_none(void **state)
{
	nvmlProcessInfo_t infos[4];
	unsigned n = 4;

	(void)state;
	three_procs();
	assert_int_equal(F(nvmlDeviceGetComputeRunningProcesses_v3)(card(0), &n, infos),
			 NVML_SUCCESS);
	assert_int_equal(infos[0].gpuInstanceId, NVML_NO_INSTANCE);
	assert_int_equal(infos[1].computeInstanceId, NVML_NO_INSTANCE);
}

static void graphics_and_mps_show_no_strangers(void **state)
{
	nvmlProcessInfo_t infos[4];
	nvmlProcessInfo_v1_t narrow[4];
	unsigned n = 4;

	(void)state;
	three_procs();
	assert_int_equal(F(nvmlDeviceGetGraphicsRunningProcesses_v3)(card(0), &n, infos),
			 NVML_SUCCESS);
	assert_int_equal(n, 0);
	n = 4;
	assert_int_equal(F(nvmlDeviceGetMPSComputeRunningProcesses)(card(0), &n, narrow),
			 NVML_SUCCESS);
	assert_int_equal(n, 0);
}

static void the_detail_list(void **state)
{
	nvmlProcessDetail_v1_t detail[4];
	nvmlProcessDetailList_t list = { .version = NVML_PROCESS_DETAIL_LIST_V1,
					 .mode = NVML_PROCESS_MODE_COMPUTE };

	(void)state;
	three_procs();
	assert_int_equal(F(nvmlDeviceGetRunningProcessDetailList)(card(0), &list),
			 NVML_ERROR_INSUFFICIENT_SIZE);
	assert_int_equal(list.numProcArrayEntries, 2);
	list.procArray = detail;
	list.numProcArrayEntries = 4;
	assert_int_equal(F(nvmlDeviceGetRunningProcessDetailList)(card(0), &list), NVML_SUCCESS);
	assert_int_equal(list.numProcArrayEntries, 2);
	assert_int_equal(detail[0].pid, 41);
	assert_int_equal(detail[0].usedGpuMemory, 11 * MIB);
	list.version++;
	assert_int_equal(F(nvmlDeviceGetRunningProcessDetailList)(card(0), &list),
			 NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
}

/* What a forked child, which attaches for itself, sees as total: in GiB, or 100 + the error. */
static int child_sees(void)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		nvmlDevice_t device;
		nvmlMemory_t m;
		nvmlReturn_t r = F(nvmlDeviceGetHandleByIndex_v2)(0, &device);

		if (!r)
			r = F(nvmlDeviceGetMemoryInfo)(device, &m);
		_exit(r ? 100 + (int)r % 100 : (int)(m.total / GIB));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void a_child_attaches_for_itself(void **state)
{
	uint32_t before = script->n_attached;

	(void)state;
	view(2 * GIB, GIB, GIB);
	assert_int_equal(child_sees(), 2);
	assert_int_equal(script->n_attached, before + 1);
}

static void a_process_of_no_job_sees_the_card(void **state)
{
	(void)state;
	script->refuse = 1;
	assert_int_equal(child_sees(), FIXTURE_TOTAL_A / GIB);
	script->refuse = 0;
}

static void a_daemon_that_is_away(void **state)
{
	nvmlMemory_t v1 = { 1, 2, 3 };
	unsigned n = 0;

	(void)state;
	view(2 * GIB, GIB, GIB);
	assert_int_equal(F(nvmlDeviceGetMemoryInfo)(card(0), &v1), NVML_SUCCESS);
	stop_daemon();
	v1 = (nvmlMemory_t){ 1, 2, 3 };
	assert_int_equal(F(nvmlDeviceGetMemoryInfo)(card(0), &v1), NVML_ERROR_UNKNOWN);
	assert_int_equal(v1.total, 1);
	assert_int_equal(F(nvmlDeviceGetComputeRunningProcesses_v3)(card(0), &n, NULL),
			 NVML_ERROR_UNKNOWN);
	assert_int_equal(F(nvmlDeviceGetMemoryInfo)(card(1), &v1), NVML_SUCCESS); /* not leased */
	start_daemon();
	assert_int_equal(F(nvmlDeviceGetMemoryInfo)(card(0), &v1), NVML_SUCCESS);
	assert_int_equal(v1.total, 2 * GIB);
}

/* ---- setters ---- */

/* what the driver would say here, so that its word is told from ours */
#define DRIVERS_WORD "error=*:19"

static nvmlReturn_t call_bare(const char *symbol)
{
	nvmlReturn_t (*f)(void) = (nvmlReturn_t(*)(void))dlsym(lib, symbol);

	return f ? f() : NVML_ERROR_FUNCTION_NOT_FOUND;
}

/* the first symbol of the table that answers otherwise than it should; NULL: none */
static const char *wrong_setter(bool in_job)
{
	for (int i = 0; i < NVML_SYM_COUNT; i++) {
		if (nvml_sets[i] && call_bare(nvml_names[i]) !=
					    (in_job ? NVML_ERROR_NO_PERMISSION : NVML_ERROR_IN_USE))
			return nvml_names[i];
	}
	return NULL;
}

/* … that is forwarded untouched, and so needs no arguments where the driver answers at once */
static const char *wrong_getter(void)
{
	static const char *const plain[] = {
#define NVML_PASS(symbol) #symbol,
#define NVML_SET(symbol)
#define NVML_CALL(symbol, params)
#include "abi/nvml.def"
	};

	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
		if (strcmp(plain[i], "nvmlErrorString") != 0 &&
		    call_bare(plain[i]) != NVML_ERROR_IN_USE)
			return plain[i];
	return NULL;
}

static void a_job_sets_nothing(void **state)
{
	const char *wrong;

	(void)state;
	fixture_faults(DRIVERS_WORD);
	wrong = wrong_setter(true);
	if (!wrong)
		wrong = wrong_getter();
	stop_daemon();
	/* and not while allotd is away either */
	if (!wrong)
		wrong = wrong_setter(true);
	start_daemon();
	fixture_faults(NULL);
	if (wrong)
		fail_msg("%s answers what it should not", wrong);
}

static void outside_a_job_the_driver_decides(void **state)
{
	const char *wrong;
	int status;
	pid_t pid;

	(void)state;
	script->refuse = 1;
	fixture_faults(DRIVERS_WORD);
	pid = fork();
	if (pid == 0) {
		wrong = wrong_setter(false);
		if (wrong)
			(void)fprintf(stderr, "%s\n", wrong);
		_exit(wrong != NULL);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	fixture_faults(NULL);
	script->refuse = 0;
	assert_int_equal(status, 0);
}

/* run this program anew as @how; its exit status */
static int run_self(const char *how)
{
	char self[] = "/proc/self/exe", name[32];
	int status;
	pid_t pid = fork();

	assert_true(str_copy(name, sizeof(name), how));
	if (pid == 0) {
		char *argv[] = { self, name, NULL };

		execv(self, argv);
		_exit(99);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void an_open_policy_shows_the_card(void **state)
{
	(void)state;
	script->fail_policy = WIRE_FAIL_OPEN;
	assert_int_equal(run_self("open"), 0);
	script->fail_policy = WIRE_FAIL_CLOSED;
	start_daemon();
}

static void only_the_lease_is_there(void **state)
{
	(void)state;
	script->is_second = 1;
	assert_int_equal(run_self("second"), 0);
	script->is_second = 0;
}

static void an_old_driver_lacks_functions(void **state)
{
	char sim[512];
	char *old = strdup(getenv("ALLOT_TEST_OLD_NVML"));

	(void)state;
	strcpy(sim, script->driver_dir);
	assert_true(str_copy(script->driver_dir, sizeof(script->driver_dir), dirname(old)));
	assert_int_equal(run_self("old"), 0);
	strcpy(script->driver_dir, sim);
	free(old);
}

static void no_driver_at_all(void **state)
{
	char sim[512];

	(void)state;
	strcpy(sim, script->driver_dir);
	strcpy(script->driver_dir, "/nonexistent");
	assert_int_equal(run_self("none"), 0);
	strcpy(script->driver_dir, sim);
}

/* ---- what run_self runs ---- */

#define EXPECT(what, want)                         \
	do {                                       \
		if ((what) != (want))              \
			return __LINE__ % 250 + 1; \
	} while (0)

static int run_open(void)
{
	nvmlDevice_t device;
	nvmlMemory_t m;

	EXPECT(F(nvmlInit_v2)(), NVML_SUCCESS);
	EXPECT(F(nvmlDeviceGetHandleByIndex_v2)(0, &device), NVML_SUCCESS);
	EXPECT(F(nvmlDeviceGetMemoryInfo)(device, &m), NVML_SUCCESS);
	EXPECT(m.total, 2 * GIB);
	EXPECT(kill(script->daemon, SIGKILL), 0);
	EXPECT(F(nvmlDeviceGetMemoryInfo)(device, &m), NVML_SUCCESS);
	EXPECT(m.total, FIXTURE_TOTAL_A);
	return 0;
}

/* the driver's second card is the only one, by whatever name it is asked for */
static int run_second(void)
{
	nvmlUUID_t first = { .version = NVML_UUID_V1, .type = NVML_UUID_TYPE_ASCII }, mine = first;
	nvmlDevice_t device = NULL, other = NULL, all[2] = { NULL, NULL };
	char bus[NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE] = "", serial[64];
	unsigned n = 77, index = 77;
	nvmlPciInfo_t pci;

	EXPECT(F(nvmlInit_v2)(), NVML_SUCCESS);
	EXPECT(F(nvmlDeviceGetCount_v2)(&n), NVML_SUCCESS);
	EXPECT(n, 1);
	EXPECT(F(nvmlDeviceGetCount)(&n), NVML_SUCCESS);
	EXPECT(n, 1);
	EXPECT(F(nvmlDeviceGetCount_v2)(NULL), NVML_ERROR_INVALID_ARGUMENT);
	EXPECT(F(nvmlDeviceGetHandleByIndex_v2)(1, &device), NVML_ERROR_INVALID_ARGUMENT);
	EXPECT(F(nvmlDeviceGetHandleByIndex_v2)(0, NULL), NVML_ERROR_INVALID_ARGUMENT);
	EXPECT(F(nvmlDeviceGetHandleByIndex_v2)(0, &device), NVML_SUCCESS);
	EXPECT(F(nvmlDeviceGetHandleByIndex)(0, &other), NVML_SUCCESS);
	EXPECT(device == other, 1);
	EXPECT(F(nvmlDeviceGetIndex)(device, &index), NVML_SUCCESS);
	EXPECT(index, 0);
	EXPECT(F(nvmlDeviceGetIndex)(device, NULL), NVML_ERROR_INVALID_ARGUMENT);
	EXPECT(F(nvmlDeviceGetHandleByUUID)(FIXTURE_UUID_B, &other), NVML_SUCCESS);
	EXPECT(device == other, 1);
	EXPECT(F(nvmlDeviceGetHandleByUUID)(FIXTURE_UUID_A, &other), NVML_ERROR_NOT_FOUND);
	EXPECT(F(nvmlDeviceGetHandleByUUID)(FIXTURE_UUID_B, NULL), NVML_ERROR_INVALID_ARGUMENT);
	EXPECT(str_copy(first.value.str, sizeof(first.value.str), FIXTURE_UUID_A), 1);
	EXPECT(F(nvmlDeviceGetHandleByUUIDV)(&first, &other), NVML_ERROR_NOT_FOUND);
	EXPECT(str_copy(mine.value.str, sizeof(mine.value.str), FIXTURE_UUID_B), 1);
	EXPECT(F(nvmlDeviceGetHandleByUUIDV)(&mine, &other), NVML_SUCCESS);
	EXPECT(F(nvmlDeviceGetPciInfo_v3)(device, &pci), NVML_SUCCESS);
	EXPECT(str_copy(bus, sizeof(bus), pci.busId), 1);
	EXPECT(F(nvmlDeviceGetHandleByPciBusId_v2)(bus, &other), NVML_SUCCESS);
	EXPECT(F(nvmlDeviceGetHandleByPciBusId)(bus, &other), NVML_SUCCESS);
	EXPECT(F(nvmlDeviceGetHandleByPciBusId_v2)("nonsense", &other),
	       NVML_ERROR_INVALID_ARGUMENT);
	EXPECT(F(nvmlDeviceGetSerial)(device, serial, sizeof(serial)), NVML_SUCCESS);
	EXPECT(F(nvmlDeviceGetHandleBySerial)(serial, &other), NVML_SUCCESS);
	EXPECT(F(nvmlDeviceGetHandleBySerial)("0", &other), NVML_ERROR_NOT_FOUND);
	n = 0;
	EXPECT(F(nvmlDeviceGetTopologyNearestGpus)(device, NVML_TOPOLOGY_NODE, &n, NULL),
	       NVML_SUCCESS);
	EXPECT(n, 0);
	n = 2;
	EXPECT(F(nvmlSystemGetTopologyGpuSet)(0, &n, all), NVML_SUCCESS);
	EXPECT(n, 1);
	EXPECT(all[0] == device && !all[1], 1);
	return 0;
}

static int run_old(void)
{
	nvmlMemory_v2_t v2 = { .version = NVML_MEMORY_V2 };
	nvmlDevice_t device;
	nvmlMemory_t m;
	unsigned n = 0;

	EXPECT(F(nvmlInit_v2)(), NVML_SUCCESS);
	EXPECT(F(nvmlDeviceGetHandleByIndex_v2)(0, &device), NVML_SUCCESS);
	EXPECT(F(nvmlDeviceGetMemoryInfo)(device, &m), NVML_SUCCESS);
	EXPECT(m.total, 2 * GIB);
	EXPECT(F(nvmlDeviceGetMemoryInfo_v2)(device, &v2), NVML_ERROR_FUNCTION_NOT_FOUND);
	EXPECT(F(nvmlDeviceGetComputeRunningProcesses_v3)(device, &n, NULL),
	       NVML_ERROR_FUNCTION_NOT_FOUND);
	EXPECT(F(nvmlDeviceGetCount_v2)(&n), NVML_ERROR_FUNCTION_NOT_FOUND);
	return 0;
}

static int run_none(void)
{
	const char *(*text)(nvmlReturn_t) =
		(const char *(*)(nvmlReturn_t))dlsym(lib, "nvmlErrorString");
	nvmlMemory_t m;
	unsigned n;

	EXPECT(F(nvmlInit_v2)(), NVML_ERROR_LIBRARY_NOT_FOUND);
	EXPECT(F(nvmlDeviceGetCount_v2)(&n), NVML_ERROR_UNINITIALIZED);
	EXPECT(F(nvmlDeviceGetMemoryInfo)(NULL, &m), NVML_ERROR_UNINITIALIZED);
	EXPECT(strcmp(text(NVML_ERROR_LIBRARY_NOT_FOUND), "NVML Shared Library Not Found"), 0);
	return 0;
}

/* ---- the frame ---- */

static struct script *map_script(void)
{
	char path[256];
	void *p;
	int fd;

	if (!str_print(path, sizeof(path), "%s/script", getenv("ALLOT_SIM_DIR")))
		abort();
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, sizeof(struct script)) < 0)
		abort();
	p = mmap(NULL, sizeof(struct script), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		abort();
	close(fd);
	return p;
}

static int prepare(char **argv)
{
	char socket_path[108];
	char *sim = strdup(getenv("ALLOT_TEST_SIM_NVML"));

	if (!sim || !str_print(socket_path, sizeof(socket_path), "%s/sock", fixture_make()) ||
	    setenv("ALLOT_SOCKET", socket_path, 1))
		abort();
	script = map_script();
	if (!str_copy(script->driver_dir, sizeof(script->driver_dir), dirname(sim)))
		abort();
	start_daemon();
	view(2 * GIB, 2 * GIB, 0);
	execv("/proc/self/exe", argv);
	abort();
}

static int setup(void **state)
{
	(void)state;
	return F(nvmlInit_v2)() == NVML_SUCCESS ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	stop_daemon();
	fixture_remove();
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exports_are_the_table),
		cmocka_unit_test(a_limit_is_the_whole_card),
		cmocka_unit_test(an_idle_job_uses_nothing),
		cmocka_unit_test(without_a_limit_the_reserve_stays),
		cmocka_unit_test(figures_that_contradict_each_other_do_not_wrap),
		cmocka_unit_test(errors_are_the_drivers),
		cmocka_unit_test(a_card_outside_the_lease_is_as_it_is),
		cmocka_unit_test(list_nvmlDeviceGetComputeRunningProcesses),
		cmocka_unit_test(list_nvmlDeviceGetComputeRunningProcesses_v2),
		cmocka_unit_test(list_nvmlDeviceGetComputeRunningProcesses_v3),
		cmocka_unit_test(instances_are_none),
		cmocka_unit_test(graphics_and_mps_show_no_strangers),
		cmocka_unit_test(the_detail_list),
		cmocka_unit_test(a_child_attaches_for_itself),
		cmocka_unit_test(a_process_of_no_job_sees_the_card),
		cmocka_unit_test(a_daemon_that_is_away),
		cmocka_unit_test(a_job_sets_nothing),
		cmocka_unit_test(outside_a_job_the_driver_decides),
		cmocka_unit_test(an_open_policy_shows_the_card),
		cmocka_unit_test(only_the_lease_is_there),
		cmocka_unit_test(an_old_driver_lacks_functions),
		cmocka_unit_test(no_driver_at_all),
	};

	if (!getenv("ALLOT_SOCKET"))
		return prepare(argv);
	fixture_adopt();
	script = map_script();
	lib = dlopen(getenv("ALLOT_TEST_SHIM_NVML"), RTLD_NOW | RTLD_LOCAL);
	if (!lib)
		return 98;
	if (argc > 1)
		return !strcmp(argv[1], "open")     ? run_open()
		       : !strcmp(argv[1], "old")    ? run_old()
		       : !strcmp(argv[1], "second") ? run_second()
						    : run_none();
	return cmocka_run_group_tests(tests, setup, teardown);
}
