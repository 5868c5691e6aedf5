// SPDX-License-Identifier: Apache-2.0
/*
 * One way a program may come to the driver, per case, in a process of its own: "probe CASE ARG…".
 * Linked with nothing of ours. Says what was not as expected and ends with 1; else 0.
 * test_resolver.py runs the cases, with and without our libraries in front.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "abi/cuda_types.h"

#define CHECK(condition)                                                       \
	do {                                                                   \
		if (!(condition)) {                                            \
			printf("line %d: not so: %s\n", __LINE__, #condition); \
			exit(1);                                               \
		}                                                              \
	} while (0)

#define THREADS 16

typedef CUresult version_fn(int *version);
typedef CUresult init_fn(unsigned flags);
typedef CUresult int_fn(int *value);
typedef CUresult device_fn(CUdevice *device, int ordinal);
typedef CUresult launch_fn(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
			   unsigned by, unsigned bz, unsigned shared, CUstream stream,
			   void **params, void **extra);
typedef CUresult setf_fn(CUfunction f, int offset, float value);
typedef CUresult alloc32_fn(unsigned *dptr, unsigned bytes);
typedef CUresult name_fn(CUresult result, const char **name);
typedef CUresult lookup1_fn(const char *symbol, void **pfn, int version, cuuint64_t flags);
typedef CUresult lookup_fn(const char *symbol, void **pfn, int version, cuuint64_t flags,
			   CUdriverProcAddressQueryResult *status);

static char **arguments;

/* the file that @address lies in, without its folder */
static const char *owner(const void *address)
{
	const char *slash;
	Dl_info info;

	if (!address || !dladdr(address, &info))
		return "nobody";
	slash = strrchr(info.dli_fname, '/');
	return slash ? slash + 1 : info.dli_fname;
}

static bool is_shim(const void *address)
{
	return strcmp(owner(address), "liballot-cuda.so") == 0;
}

static bool is_driver(const void *address)
{
	return strcmp(owner(address), "libcuda.so.1") == 0;
}

static void *driver(void)
{
	void *handle = dlopen("libcuda.so.1", RTLD_NOW);

	CHECK(handle);
	return handle;
}

static void *get(const char *name)
{
	void *found = dlsym(driver(), name);

	CHECK(found);
	return found;
}

static int version_by(void *function)
{
	int version = -1;

	CHECK(((version_fn *)function)(&version) == CUDA_SUCCESS);
	return version;
}

static bool launch_intact(void *launch)
{
	return ((launch_fn *)launch)((CUfunction)1, 2, 3, 4, 5, 6, 7, 8, (CUstream)9, (void **)10,
				     (void **)11) == CUDA_SUCCESS;
}

/* version FOLDER-NUMBER: which driver answers */
static void case_version(void)
{
	CHECK(version_by(get("cuDriverGetVersion")) == atoi(arguments[0]));
}

static void case_open(void)
{
	int flags = atoi(arguments[1]), version;
	void *handle = dlopen(arguments[0], flags ? flags : RTLD_NOW);

	CHECK(handle);
	CHECK(is_shim(dlsym(handle, "cuDriverGetVersion")));
	version = version_by(dlsym(handle, "cuDriverGetVersion"));
	CHECK(strcmp(arguments[2], "any") == 0 ? version > 1000 : version == atoi(arguments[2]));
	CHECK(dlopen(arguments[0], RTLD_NOW) == handle);
	CHECK(dlclose(handle) == 0);
}

static void case_open_fails(void)
{
	const char *text;

	CHECK(!dlopen(arguments[0], RTLD_NOW));
	text = dlerror();
	CHECK(text && strstr(text, arguments[0]));
}

static void case_open_nvml(void)
{
	void *handle = dlopen(arguments[0], RTLD_NOW);

	CHECK(handle);
	CHECK(strcmp(owner(dlsym(handle, "nvmlInit_v2")), "liballot-nvml.so") == 0);
}

static void case_noload(void)
{
	void *handle = dlopen("libcuda.so", RTLD_NOW | RTLD_NOLOAD);

	CHECK(handle && handle == driver());
	CHECK(!dlopen("libnot-there.so.1", RTLD_NOW | RTLD_NOLOAD));
}

/* another namespace has its own libraries; the one in this one is not disturbed */
static void case_dlmopen(void)
{
	void *handle = dlmopen(LM_ID_NEWLM, arguments[0], RTLD_NOW);

	CHECK(handle);
	CHECK(is_driver(dlsym(handle, "cuDriverGetVersion")));
	CHECK(is_shim(get("cuDriverGetVersion")));
	CHECK(version_by(get("cuDriverGetVersion")) ==
	      version_by(dlsym(handle, "cuDriverGetVersion")));
}

static void case_every_handle(void)
{
	void *handle = driver(), *ours = dlsym(handle, "cuDriverGetVersion");
	void *program = dlopen(NULL, RTLD_NOW);

	CHECK(is_shim(ours));
	for (int i = 0; i < 3; i++) {
		CHECK(dlsym(handle, "cuDriverGetVersion") == ours);
		CHECK(dlsym(RTLD_DEFAULT, "cuDriverGetVersion") == ours);
		CHECK(dlsym(RTLD_NEXT, "cuDriverGetVersion") == ours);
		CHECK(dlsym(program, "cuDriverGetVersion") == ours);
		/* no version of that name exists, in the driver neither: nothing slips out */
		CHECK(!dlvsym(handle, "cuDriverGetVersion", "libcuda.so.1"));
		if (i == 1)
			CHECK(version_by(ours) > 0); /* before and after the driver is there */
	}
	CHECK(!dlsym(handle, "cuNoSuchThing") && dlerror());
}

static void case_every_handle_of_plugin(void)
{
	void *plugin = dlopen(arguments[0], RTLD_NOW);
	void *(*by_default)(const char *), *ours = get("cuDriverGetVersion");

	CHECK(plugin);
	by_default = (void *(*)(const char *))dlsym(plugin, "plugin_default");
	CHECK(by_default("cuDriverGetVersion") == ours);
	CHECK(version_by(ours) > 0);
	CHECK(by_default("cuDriverGetVersion") == ours);
}

/* a plugin's function of a driver's name stays the plugin's, whoever was there first */
static void case_plugin_keeps_its_own(void)
{
	bool before = strcmp(arguments[1], "before") == 0;
	void *plugin = NULL;

	if (before)
		plugin = dlopen(arguments[0], RTLD_NOW);
	CHECK(version_by(get("cuDriverGetVersion")) > 0);
	if (!before)
		plugin = dlopen(arguments[0], RTLD_NOW);
	CHECK(plugin);
	CHECK(((int (*)(void))dlsym(plugin, "cuMemCreate"))() == 4242);
	CHECK(((int (*)(void))dlsym(plugin, "cudnnCreate"))() == 9);
	CHECK(!dlsym(driver(), "cudnnCreate"));
	CHECK(is_shim(get("cuMemCreate")));
}

static void case_deepbind(void)
{
	void *plugin = dlopen(arguments[0], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
	void *(*open)(const char *, int);
	void *handle;

	CHECK(plugin);
	open = (void *(*)(const char *, int))dlsym(plugin, "plugin_open");
	handle = open("libcuda.so.1", RTLD_NOW | RTLD_DEEPBIND);
	CHECK(handle && is_shim(dlsym(handle, "cuDriverGetVersion")));
	CHECK(version_by(dlsym(handle, "cuDriverGetVersion")) > 0);
}

/* dlopen looks at who calls: the plugin's RUNPATH has this library, the program's has not */
static void case_callers_runpath(void)
{
	void *plugin = dlopen(arguments[0], RTLD_NOW), *second;
	void *(*open)(const char *, int);

	CHECK(plugin);
	CHECK(!dlopen("libsecond.so", RTLD_NOW));
	open = (void *(*)(const char *, int))dlsym(plugin, "plugin_open");
	second = open("libsecond.so", RTLD_NOW);
	CHECK(second);
	CHECK(((int (*)(void))dlsym(second, "second_answer"))() == 22);
}

static void case_registers(void)
{
	errno = 77;
	CHECK(launch_intact(get("cuLaunchKernel")));
	CHECK(errno == 77);
	CHECK(launch_intact(get("cuLaunchKernel")));
}

static void case_vector_register(void)
{
	setf_fn *setf = (setf_fn *)get("cuParamSetf");

	CHECK(setf((CUfunction)1, 2, 3.5f) == CUDA_SUCCESS);
	CHECK(setf((CUfunction)1, 2, 3.5f) == CUDA_SUCCESS);
}

static void case_32_bit(void)
{
	unsigned dptr[2] = { 1, 2 };

	CHECK(((alloc32_fn *)get("cuMemAlloc"))(dptr, 5) == CUDA_SUCCESS);
	CHECK(dptr[0] == 5 && dptr[1] == 2);
}

static void case_missing_in_old_driver(void)
{
	const char *name = NULL;
	int version;

	(void)dlerror();
	CHECK(((version_fn *)get("cuDriverGetVersion"))(&version) == CUDA_SUCCESS);
	CHECK(!dlerror()); /* our look-ups are not the program's */
	CHECK(((int_fn *)get("cuStreamGetId"))(&version) == CUDA_ERROR_NOT_SUPPORTED);
	CHECK(((int_fn *)get("cuGetProcAddress_v2"))(NULL) == CUDA_ERROR_NOT_SUPPORTED);
	CHECK(((name_fn *)get("cuGetErrorName"))(CUDA_SUCCESS, &name) == CUDA_SUCCESS);
	CHECK(strcmp(name, "FAKE_SUCCESS") == 0);
}

static void case_no_driver(void)
{
	CUresult result;
	const char *name = NULL;
	int n = 5;

	for (int i = 0; i < 3; i++) {
		errno = 77;
		/* without an allotd either, that comes first */
		result = ((init_fn *)get("cuInit"))(0);
		CHECK(result == CUDA_ERROR_NO_DEVICE || result == CUDA_ERROR_SYSTEM_NOT_READY);
		CHECK(errno == 77);
		CHECK(((int_fn *)get("cuDeviceGetCount"))(&n) == CUDA_ERROR_NOT_INITIALIZED);
		CHECK(n == 5);
	}
	CHECK(((name_fn *)get("cuGetErrorName"))(CUDA_ERROR_NO_DEVICE, &name) == CUDA_SUCCESS);
	CHECK(strcmp(name, "CUDA_ERROR_NO_DEVICE") == 0);
	CHECK(((lookup1_fn *)get("cuGetProcAddress"))("cuInit", (void **)&name, 12000, 0) ==
	      CUDA_ERROR_NOT_INITIALIZED);
}

/* cuGetProcAddress */

struct look_up {
	const char *name;
	int version;
	cuuint64_t flags;
	CUresult result;
	int status;         /* -1: untouched */
	const char *symbol; /* whose export is handed out; "": something of the driver's; NULL:
			       nothing */
};

static const struct look_up look_ups[] = {
	{ "cuInit", 11000, 0, CUDA_SUCCESS, 0, "cuInit" },
	{ "cuMemAlloc", 2000, 0, CUDA_SUCCESS, 0, "" },
	{ "cuMemAlloc", 11000, 0, CUDA_SUCCESS, 0, "cuMemAlloc_v2" },
	{ "cuMemAlloc", 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, CUDA_SUCCESS, 0,
	  "cuMemAlloc_v2" },
	{ "cuMemAlloc", 13010, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, CUDA_SUCCESS, 0,
	  "cuMemAlloc_v2" },
	{ "cuMemAllocAlias", 12000, 0, CUDA_SUCCESS, 0, "cuMemAlloc_v2" },
	{ "cuMemAllocAsync", 11000, 0, CUDA_ERROR_NOT_FOUND, 2, NULL },
	{ "cuMemAllocAsync", 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, CUDA_SUCCESS, 0,
	  "cuMemAllocAsync" },
	{ "cuMemAllocAsync", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, CUDA_SUCCESS, 0,
	  "cuMemAllocAsync_ptsz" },
	{ "cuGetProcAddress", 11030, 0, CUDA_SUCCESS, 0, "cuGetProcAddress" },
	{ "cuGetProcAddress", 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, CUDA_SUCCESS, 0,
	  "cuGetProcAddress_v2" },
	{ "cuGetProcAddress", 13010, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, CUDA_SUCCESS, 0,
	  "cuGetProcAddress_v2_ptsz" },
	{ "cuBrandNew", 13010, 0, CUDA_ERROR_NOT_FOUND, 2, NULL },
	{ "cuBrandNew", 99000, 0, CUDA_SUCCESS, 0, "" },
	{ "cuNoSuchThing", 13010, 0, CUDA_ERROR_NOT_FOUND, 1, NULL },
	{ "", 12000, 0, CUDA_ERROR_INVALID_VALUE, -1, NULL },
};

/* Is @got what the case asks for? What we hook is our export, all else the driver's own. */
static void check_look_up(const struct look_up *l, CUresult result, const void *got, int status)
{
	const void *export = l->symbol && l->symbol[0] ? dlsym(driver(), l->symbol) : NULL;

	if (result != l->result || status != l->status) {
		printf("%s at %d, flags %d: result %d, status %d\n", l->name, l->version,
		       (int)l->flags, (int)result, status);
		exit(1);
	}
	if (!l->symbol)
		CHECK(got == (void *)0x5a5a); /* an error leaves it alone */
	else if (is_shim(got))
		CHECK(got == export || !l->symbol[0]); /* "": by a driver that meets us itself */
	else
		CHECK(is_driver(got));
}

static void case_look_ups(void)
{
	lookup_fn *v2 = (lookup_fn *)get("cuGetProcAddress_v2");
	lookup_fn *ptsz = (lookup_fn *)get("cuGetProcAddress_v2_ptsz");
	lookup1_fn *v1 = (lookup1_fn *)get("cuGetProcAddress");

	for (size_t i = 0; i < sizeof(look_ups) / sizeof(look_ups[0]); i++) {
		const struct look_up *l = &look_ups[i];
		CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)-1;
		void *got = (void *)0x5a5a;
		CUresult result = v2(l->name, &got, l->version, l->flags, &status);

		check_look_up(l, result, got, (int)status);
		got = (void *)0x5a5a;
		result = v1(l->name, &got, l->version, l->flags);
		check_look_up(l, result, got, l->status);
		got = (void *)0x5a5a;
		result = v2(l->name, &got, l->version, l->flags, NULL);
		check_look_up(l, result, got, l->status);
		if (l->flags == 0) /* there, no flag means per-thread */
			continue;
		got = (void *)0x5a5a;
		status = (CUdriverProcAddressQueryResult)-1;
		result = ptsz(l->name, &got, l->version, l->flags, &status);
		check_look_up(l, result, got, (int)status);
	}
}

static void case_ptsz_without_flags(void)
{
	lookup_fn *ptsz = (lookup_fn *)get("cuGetProcAddress_v2_ptsz");
	CUdriverProcAddressQueryResult status;
	void *got = NULL;

	CHECK(ptsz("cuGetProcAddress", &got, 12000, 0, &status) == CUDA_SUCCESS);
	CHECK(got == get("cuGetProcAddress_v2_ptsz"));
}

/* the very first call of a process asks for the asker, which then works with its own ABI */
static void case_first_call_is_look_up(void)
{
	lookup1_fn *v1 = (lookup1_fn *)get("cuGetProcAddress");
	CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)-1;
	void *found = NULL, *init = NULL;

	CHECK(v1("cuGetProcAddress", &found, 12000, 0) == CUDA_SUCCESS);
	CHECK(is_shim(found) && found == get("cuGetProcAddress_v2"));
	CHECK(((lookup_fn *)found)("cuInit", &init, 12000, 0, &status) == CUDA_SUCCESS);
	CHECK(init && status == CU_GET_PROC_ADDRESS_SUCCESS);
	found = NULL;
	CHECK(v1("cuGetProcAddress", &found, 11030, 0) == CUDA_SUCCESS);
	CHECK(found == get("cuGetProcAddress"));
}

static void case_look_up_null(void)
{
	lookup_fn *v2 = (lookup_fn *)get("cuGetProcAddress_v2");
	CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)7;
	void *got = (void *)0x5a5a;

	CHECK(v2(NULL, &got, 12000, 0, &status) == CUDA_ERROR_INVALID_VALUE);
	CHECK(got == (void *)0x5a5a && (int)status == 7);
	CHECK(v2("cuInit", NULL, 12000, 0, &status) == CUDA_ERROR_INVALID_VALUE);
	CHECK((int)status == 7);
	CHECK(v2(NULL, NULL, 0, 0, NULL) == CUDA_ERROR_INVALID_VALUE);
	CHECK(((version_fn *)get("cuDriverGetVersion"))(NULL) == CUDA_ERROR_INVALID_VALUE);
}

/* an allocator of an ABI that nobody knows must not slip by; see procaddr.h */
static void case_unknown_allocator(void)
{
	lookup_fn *v2 = (lookup_fn *)get("cuGetProcAddress_v2");
	CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)-1;
	void *got = (void *)0x5a5a;

	CHECK(v2("cuMemAlloc", &got, 99000, 0, &status) == CUDA_ERROR_NOT_SUPPORTED);
	CHECK(!got && status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
	CHECK(v2("cuMemAlloc", &got, 99000, 0, NULL) == CUDA_ERROR_NOT_SUPPORTED);
	CHECK(v2("cuMemAlloc", &got, 13000, 0, NULL) == CUDA_SUCCESS && got);
}

/* every name of the table, at several versions and flags, beside what the driver itself says */

enum row_kind { PASSED, HOOKED };

static const struct row {
	const char *symbol, *api;
	int since;
	enum row_kind kind;
} rows[] = {
#define CU_PASS(symbol, api, since, stream)         { #symbol, #api, since, PASSED },
#define CU_HOOK(symbol, api, since, stream, params) { #symbol, #api, since, HOOKED },
#include "abi/cuda.def"
};

/* the export whose function in the driver lies at @address, if we hook it */
static void *hook_at(void *real, const void *address)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (rows[i].kind == HOOKED && dlsym(real, rows[i].symbol) == address)
			return dlsym(RTLD_DEFAULT, rows[i].symbol);
	}
	return NULL;
}

static unsigned compare_look_up(void *real, const char *api, int version, cuuint64_t flags)
{
	CUdriverProcAddressQueryResult status[2] = { (CUdriverProcAddressQueryResult)-1,
						     (CUdriverProcAddressQueryResult)-1 };
	void *got[2] = { (void *)0x5a5a, (void *)0x5a5a }, *hook;
	CUresult result[2];

	result[0] = ((lookup_fn *)dlsym(real, "cuGetProcAddress_v2"))(api, &got[0], version, flags,
								      &status[0]);
	result[1] =
		((lookup_fn *)get("cuGetProcAddress_v2"))(api, &got[1], version, flags, &status[1]);
	if (result[0] != result[1] || status[0] != status[1]) {
		printf("%s at %d, flags %d: result %d not %d, status %d not %d\n", api, version,
		       (int)flags, result[1], result[0], (int)status[1], (int)status[0]);
		exit(1);
	}
	hook = result[0] == CUDA_SUCCESS ? hook_at(real, got[0]) : NULL;
	if (got[1] == (hook ? hook : got[0]))
		return result[0] == CUDA_SUCCESS && is_shim(got[1]) ? 1 : 0;
	printf("%s at %d, flags %d: %s's in place of %s's\n", api, version, (int)flags,
	       owner(got[1]), owner(hook ? hook : got[0]));
	exit(1);
}

static void case_whole_table(void)
{
	void *real = dlmopen(LM_ID_BASE, arguments[0], RTLD_NOW);
	unsigned n_hooked = 0;

	CHECK(real && dlsym(real, "cuInit") != get("cuInit"));
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const int versions[] = { rows[i].since, 11000, 12000, 13010 };

		CHECK(is_shim(get(rows[i].symbol)));
		for (size_t v = 0; v < sizeof(versions) / sizeof(versions[0]); v++) {
			for (cuuint64_t flags = 0; flags <= 2; flags++)
				n_hooked += compare_look_up(real, rows[i].api, versions[v], flags);
		}
	}
	CHECK(n_hooked > 100);
}

/* Many at once, and again and again */

static pthread_barrier_t barrier;
static void *thread_launch, *thread_lookup;
static _Atomic int failures;

static void *first_call(void *arg)
{
	void *got = NULL;

	pthread_barrier_wait(&barrier);
	if ((uintptr_t)arg % 2 && !launch_intact(thread_launch))
		failures++;
	if (((lookup1_fn *)thread_lookup)("cuGetProcAddress", &got, 11030, 0) != CUDA_SUCCESS ||
	    got != thread_lookup)
		failures++;
	if (!launch_intact(thread_launch))
		failures++;
	return NULL;
}

static void case_cold_start(void)
{
	pthread_t threads[THREADS];

	thread_launch = get("cuLaunchKernel");
	thread_lookup = get("cuGetProcAddress");
	CHECK(pthread_barrier_init(&barrier, NULL, THREADS) == 0);
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, first_call, (void *)i) == 0);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	CHECK(failures == 0);
}

static void *open_eager(void *arg)
{
	void *plugin;

	pthread_barrier_wait(&barrier);
	plugin = dlopen(arg, RTLD_NOW);
	if (!plugin || ((int (*)(void))dlsym(plugin, "eager_answer"))() <= 1)
		failures++;
	return NULL;
}

/* one thread opens the driver, another calls it from within the linker: neither waits for ever */
static void case_constructor_in_another_thread(void)
{
	pthread_t eager, first;

	thread_launch = get("cuLaunchKernel");
	thread_lookup = get("cuGetProcAddress");
	CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0);
	CHECK(pthread_create(&eager, NULL, open_eager, arguments[0]) == 0);
	CHECK(pthread_create(&first, NULL, first_call, NULL) == 0);
	CHECK(pthread_join(eager, NULL) == 0 && pthread_join(first, NULL) == 0);
	CHECK(failures == 0);
}

static void case_dlclose(void)
{
	void *handle = driver(), *version = dlsym(handle, "cuDriverGetVersion");
	int before = version_by(version);

	for (int i = 0; i < 20; i++)
		(void)dlclose(handle); /* more often than it was opened: an error after the last */
	CHECK(version_by(version) == before);
	CHECK(is_shim(get("cuDriverGetVersion")));
}

/* a constructor of the driver called us back: refused there, and nothing spoilt */
static void case_constructor(void)
{
	int answer = -1;
	CUdevice looked_up = -1;

	CHECK(((int_fn *)get("cuDeviceGetCount"))(&answer) == CUDA_SUCCESS);
	CHECK(answer == CUDA_ERROR_NOT_INITIALIZED);
	CHECK(((device_fn *)get("cuDeviceGet"))(&looked_up, 1) == CUDA_SUCCESS);
	CHECK(looked_up == CUDA_ERROR_NOT_INITIALIZED);
	CHECK(version_by(get("cuDriverGetVersion")) > 0);
}

static void in_child(void (*test)(void), pid_t child)
{
	int status;

	if (child == 0) {
		test();
		_exit(0);
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void use(void)
{
	CHECK(version_by(get("cuDriverGetVersion")) > 0);
	CHECK(launch_intact(get("cuLaunchKernel")));
}

static void case_fork(void)
{
	in_child(use, fork());
	use();
	in_child(use, fork());
	in_child(use, (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL));
}

static const struct {
	const char *name;
	void (*run)(void);
	int arguments;
} cases[] = {
	{ "version", case_version, 1 },
	{ "open", case_open, 3 },
	{ "open_fails", case_open_fails, 1 },
	{ "open_nvml", case_open_nvml, 1 },
	{ "noload", case_noload, 0 },
	{ "dlmopen", case_dlmopen, 1 },
	{ "every_handle", case_every_handle, 0 },
	{ "every_handle_of_plugin", case_every_handle_of_plugin, 1 },
	{ "plugin_keeps_its_own", case_plugin_keeps_its_own, 2 },
	{ "deepbind", case_deepbind, 1 },
	{ "callers_runpath", case_callers_runpath, 1 },
	{ "registers", case_registers, 0 },
	{ "vector_register", case_vector_register, 0 },
	{ "32_bit", case_32_bit, 0 },
	{ "missing_in_old_driver", case_missing_in_old_driver, 0 },
	{ "no_driver", case_no_driver, 0 },
	{ "look_ups", case_look_ups, 0 },
	{ "ptsz_without_flags", case_ptsz_without_flags, 0 },
	{ "first_call_is_look_up", case_first_call_is_look_up, 0 },
	{ "look_up_null", case_look_up_null, 0 },
	{ "unknown_allocator", case_unknown_allocator, 0 },
	{ "whole_table", case_whole_table, 1 },
	{ "cold_start", case_cold_start, 0 },
	{ "constructor_in_another_thread", case_constructor_in_another_thread, 1 },
	{ "dlclose", case_dlclose, 0 },
	{ "constructor", case_constructor, 0 },
	{ "fork", case_fork, 0 },
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(cases[i].name, argv[1]) == 0 && argc - 2 == cases[i].arguments) {
			arguments = argv + 2;
			cases[i].run();
			return 0;
		}
	}
	fprintf(stderr, "usage: %s CASE ARG…\n", argv[0]);
	return 2;
}
