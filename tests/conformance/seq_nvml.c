// SPDX-License-Identifier: Apache-2.0
/* NVML: memory figures, the size protocol of process lists, errors. */
#include "conform.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* the layouts that these calls take; nvml.h of NVML 13.0 */
struct memory_v1 {
	unsigned long long total, free, used;
};

struct memory_v2 {
	unsigned int version;
	unsigned long long total, reserved, free, used;
};

struct process_v1 {
	unsigned int pid;
	unsigned long long used;
};

struct process_v2 {
	unsigned int pid;
	unsigned long long used;
	unsigned int gpu_instance, compute_instance;
};

struct nvml_device;

static void *nvml(const char *name)
{
	static void *handle;
	if (!handle)
		handle = dlopen(conf_nvml_path, RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		out_line("!! %s", dlerror());
		return NULL;
	}
	return dlsym(handle, name);
}

/* NVML(name, (types), arguments...): call, and note the number that came back */
#define NVML(name, types, ...)                         \
	({                                             \
		int(*f_) types = nvml(#name);          \
		int rc_ = -1;                          \
		out_begin(#name "(" #__VA_ARGS__ ")"); \
		if (f_) {                              \
			rc_ = f_(__VA_ARGS__);         \
			out_append(" → %d", rc_);      \
		} else {                               \
			out_no_symbol();               \
		}                                      \
		rc_;                                   \
	})

static struct nvml_device *device_0(void)
{
	struct nvml_device *d = NULL;
	int (*init)(void) = nvml("nvmlInit_v2");
	int (*get)(unsigned int, struct nvml_device **) = nvml("nvmlDeviceGetHandleByIndex_v2");
	if (!init || !get || init() != 0 || get(0, &d) != 0)
		out_line("!! no NVML device");
	return d;
}

static void shut_down(void)
{
	int (*down)(void) = nvml("nvmlShutdown");
	if (down)
		down();
}

static void before_init(void)
{
	POISONED_UINT(count);
	POISONED(struct nvml_device *, d);
	struct memory_v1 m = { POISON_64, POISON_64, POISON_64 };
	char text[80] = "";
	NVML(nvmlDeviceGetCount_v2, (unsigned int *), &count);
	INT(count);
	NVML(nvmlDeviceGetHandleByIndex_v2, (unsigned int, struct nvml_device **), 0, &d);
	HANDLE(d);
	NVML(nvmlDeviceGetMemoryInfo, (struct nvml_device *, struct memory_v1 *), NULL, &m);
	SIZE(m.total);
	NVML(nvmlSystemGetDriverVersion, (char *, unsigned int), text, 80);
	NVML(nvmlShutdown, (void));
}

static void init_count(void)
{
	NVML(nvmlInit_v2, (void));
	NVML(nvmlInit_v2, (void));
	NVML(nvmlShutdown, (void));
	POISONED_UINT(count);
	NVML(nvmlDeviceGetCount_v2, (unsigned int *), &count);
	YES(count >= 1);
	NVML(nvmlShutdown, (void));
	NVML(nvmlDeviceGetCount_v2, (unsigned int *), &count);
	NVML(nvmlShutdown, (void));
	NVML(nvmlInit, (void));
	NVML(nvmlShutdown, (void));
	NVML(nvmlInitWithFlags, (unsigned int), 0);
	NVML(nvmlShutdown, (void));
}

static void error_strings(void)
{
	const char *(*text)(int) = nvml("nvmlErrorString");
	for (int e = 0; text && e <= 32; e++) {
		out_flush();
		out_append("%d", e);
		out_str("text", text(e));
	}
	if (text) {
		out_flush();
		out_append("999");
		out_str("text", text(999));
		out_flush();
		out_append("12345");
		out_str("text", text(12345));
	}
}

static void handles(void)
{
	POISONED(struct nvml_device *, d);
	POISONED(struct nvml_device *, e);
	POISONED_UINT(count);
	POISONED_UINT(index);
	char uuid[96] = "";
	NVML(nvmlInit_v2, (void));
	NVML(nvmlDeviceGetCount_v2, (unsigned int *), NULL);
	NVML(nvmlDeviceGetCount_v2, (unsigned int *), &count);
	NVML(nvmlDeviceGetHandleByIndex_v2, (unsigned int, struct nvml_device **), 0, &d);
	NEWHANDLE(d);
	NVML(nvmlDeviceGetHandleByIndex_v2, (unsigned int, struct nvml_device **), 4096, &e);
	HANDLE(e);
	NVML(nvmlDeviceGetHandleByIndex_v2, (unsigned int, struct nvml_device **), 0, NULL);
	NVML(nvmlDeviceGetUUID, (struct nvml_device *, char *, unsigned int), d, uuid, 96);
	YES(strncmp(uuid, "GPU-", 4) == 0 && strlen(uuid) == 40);
	NVML(nvmlDeviceGetUUID, (struct nvml_device *, char *, unsigned int), d, uuid, 10);
	NVML(nvmlDeviceGetUUID, (struct nvml_device *, char *, unsigned int), d, NULL, 96);
	NVML(nvmlDeviceGetUUID, (struct nvml_device *, char *, unsigned int), d, uuid, 96);
	NVML(nvmlDeviceGetHandleByUUID, (const char *, struct nvml_device **), uuid, &e);
	YES(d == e);
	NVML(nvmlDeviceGetHandleByUUID, (const char *, struct nvml_device **), "GPU-nonsense", &e);
	NVML(nvmlDeviceGetHandleByUUID, (const char *, struct nvml_device **), NULL, &e);
	NVML(nvmlDeviceGetIndex, (struct nvml_device *, unsigned int *), d, &index);
	INT(index);
	NVML(nvmlDeviceGetIndex, (struct nvml_device *, unsigned int *), NULL, &index);
	shut_down();
}

static void name(void)
{
	struct nvml_device *d = device_0();
	char text[96] = "";
	NVML(nvmlDeviceGetName, (struct nvml_device *, char *, unsigned int), d, text, 96);
	STR(text);
	NVML(nvmlDeviceGetName, (struct nvml_device *, char *, unsigned int), d, text, 3);
	NVML(nvmlDeviceGetName, (struct nvml_device *, char *, unsigned int), d, NULL, 96);
	NVML(nvmlDeviceGetName, (struct nvml_device *, char *, unsigned int), NULL, text, 96);
	NVML(nvmlSystemGetDriverVersion, (char *, unsigned int), text, 80);
	YES(strlen(text) >= 5);
	POISONED_INT(cuda);
	NVML(nvmlSystemGetCudaDriverVersion_v2, (int *), &cuda);
	INT(cuda);
	shut_down();
}

static void memory_v1(void)
{
	struct nvml_device *d = device_0();
	struct memory_v1 m = { POISON_64, POISON_64, POISON_64 };
	NVML(nvmlDeviceGetMemoryInfo, (struct nvml_device *, struct memory_v1 *), d, &m);
	SIZE(m.total);
	YES(m.free + m.used == m.total);
	YES(m.used > 0);
	NVML(nvmlDeviceGetMemoryInfo, (struct nvml_device *, struct memory_v1 *), d, NULL);
	NVML(nvmlDeviceGetMemoryInfo, (struct nvml_device *, struct memory_v1 *), NULL, &m);
	shut_down();
}

static void memory_v2(void)
{
	struct nvml_device *d = device_0();
	static const unsigned int versions[] = { 0,           1,           2,          0x01000028u,
						 0x03000028u, 0x02000027u, 0x02000028u };
	struct memory_v2 m;
	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		m = (struct memory_v2){ versions[i], POISON_64, POISON_64, POISON_64, POISON_64 };
		NOTE("version 0x%x", versions[i]);
		NVML(nvmlDeviceGetMemoryInfo_v2, (struct nvml_device *, struct memory_v2 *), d, &m);
		SIZE(m.total);
		HEX(m.version);
	}
	SIZE(m.reserved);
	YES(m.free + m.used + m.reserved == m.total);
	struct memory_v1 old;
	NVML(nvmlDeviceGetMemoryInfo, (struct nvml_device *, struct memory_v1 *), d, &old);
	YES(old.total == m.total);
	YES(old.used == m.used + m.reserved);
	NVML(nvmlDeviceGetMemoryInfo_v2, (struct nvml_device *, struct memory_v2 *), d, NULL);
	NVML(nvmlDeviceGetMemoryInfo_v2, (struct nvml_device *, struct memory_v2 *), NULL, &m);
	shut_down();
}

static void against_cuda(void)
{
	struct nvml_device *d = device_0();
	struct memory_v2 before = { .version = 0x02000028u }, after = before;
	size_t free_bytes = 0, total = 0;
	CALL(cuMemGetInfo_v2, &free_bytes, &total);
	NVML(nvmlDeviceGetMemoryInfo_v2, (struct nvml_device *, struct memory_v2 *), d, &before);
	out_append(" total: NVML - CUDA = %lld, reserved %lld",
		   (long long)before.total - (long long)total, (long long)before.reserved);
	CUdeviceptr p = alloc_quiet(256 * MIB, 0);
	NVML(nvmlDeviceGetMemoryInfo_v2, (struct nvml_device *, struct memory_v2 *), d, &after);
	out_append(" used grew by %lld", (long long)after.used - (long long)before.used);
	CALL(cuMemFree_v2, p);
	shut_down();
}

/* one variant of a list: NULLs, the size question, too small, large enough */
static void one_list(const char *text, size_t entry_size)
{
	struct nvml_device *d = device_0();
	int (*list)(struct nvml_device *, unsigned int *, void *) = nvml(text);
	unsigned char room[4096];
	unsigned int count = 0;
	out_line("# %s", text);
	if (!list) {
		out_line("no such symbol");
		shut_down();
		return;
	}
	out_line("count 0, no room: %d", list(d, &count, NULL));
	out_line("  count >= 1: %s", count >= 1 ? "yes" : "no");
	count = 0;
	out_line("count 0, room: %d", list(d, &count, room));
	out_line("NULL count: %d", list(d, NULL, room));
	count = 5;
	out_line("count 5, no room: %d", list(d, &count, NULL));
	memset(room, 0x5a, sizeof(room));
	count = (unsigned int)(sizeof(room) / entry_size);
	int rc = list(d, &count, room);
	out_line("large: %d, some: %s", rc, count >= 1 && count < 100 ? "yes" : "no");
	/* what lies behind the last entry was not written */
	if (rc == 0)
		out_line("  next entry untouched: %s",
			 room[count * entry_size] == 0x5a && room[count * entry_size + 8] == 0x5a
				 ? "yes"
				 : "no");
	shut_down(); /* not asked: a NULL device, of which the library dies */
}

static void compute_lists(void)
{
	one_list("nvmlDeviceGetComputeRunningProcesses", sizeof(struct process_v1));
	one_list("nvmlDeviceGetComputeRunningProcesses_v2", sizeof(struct process_v2));
	one_list("nvmlDeviceGetComputeRunningProcesses_v3", sizeof(struct process_v2));
}

static void graphics_lists(void)
{
	one_list("nvmlDeviceGetGraphicsRunningProcesses", sizeof(struct process_v1));
	one_list("nvmlDeviceGetGraphicsRunningProcesses_v2", sizeof(struct process_v2));
	one_list("nvmlDeviceGetGraphicsRunningProcesses_v3", sizeof(struct process_v2));
}

static void mps_lists(void)
{
	one_list("nvmlDeviceGetMPSComputeRunningProcesses", sizeof(struct process_v1));
	one_list("nvmlDeviceGetMPSComputeRunningProcesses_v2", sizeof(struct process_v2));
	one_list("nvmlDeviceGetMPSComputeRunningProcesses_v3", sizeof(struct process_v2));
}

static void own_entry(void)
{
	struct nvml_device *d = device_0();
	struct process_v2 list[64];
	unsigned int count = 64;
	unsigned long long before = 0, after = 0;
	int (*get)(struct nvml_device *, unsigned int *, struct process_v2 *) =
		nvml("nvmlDeviceGetComputeRunningProcesses_v3");
	if (!get || get(d, &count, list) != 0)
		return;
	for (unsigned int i = 0; i < count; i++)
		before += list[i].used;
	if (count)
		out_line("# instances %x %x", list[0].gpu_instance, list[0].compute_instance);
	CUdeviceptr p = alloc_quiet(256 * MIB, 0);
	count = 64;
	get(d, &count, list);
	for (unsigned int i = 0; i < count; i++)
		after += list[i].used;
	out_line("# one context; all entries grew by %lld", (long long)(after - before));
	CALL(cuMemFree_v2, p);
	shut_down();
}

FAMILY(nvml, { "nvml", "nvml.before-init", 0, before_init },
       { "nvml", "nvml.init-count", 0, init_count },
       { "nvml", "nvml.error-strings", 0, error_strings }, { "nvml", "nvml.handles", 0, handles },
       { "nvml", "nvml.name", 0, name }, { "nvml", "nvml.memory-v1", 0, memory_v1 },
       { "nvml", "nvml.memory-v2", 0, memory_v2 },
       { "nvml.card", "nvml.against-cuda", CTX | ALONE, against_cuda },
       { "nvml.card", "nvml.compute-lists", CTX | ALONE, compute_lists },
       { "nvml.card", "nvml.graphics-lists", CTX | ALONE, graphics_lists },
       { "nvml.card", "nvml.mps-lists", CTX | ALONE, mps_lists },
       { "nvml.card", "nvml.own-entry", CTX | ALONE, own_entry }, );
