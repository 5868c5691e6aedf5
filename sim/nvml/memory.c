// SPDX-License-Identifier: Apache-2.0
/*
 * Memory and the processes that hold it.
 *
 * The arrays of a process list are of three layouts; one walk fills them all through a small
 * writer.  Pids are given as the reader's own PID namespace numbers them where it can see the
 * process, else as the process numbers itself.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/parse.h"
#include "base/str.h"
#include "sim/nvml/nvml.h"

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	nvmlReturn_t r = sim_nvml_enter_device(NVML_SYM_nvmlDeviceGetMemoryInfo, device);
	struct sim_memory m;

	if (r)
		return r;
	if (!memory)
		return NVML_ERROR_INVALID_ARGUMENT;
	sim_state_memory(sim_nvml.state, device->index, &m);
	memory->total = m.total_bytes;
	memory->free = m.free_bytes;
	memory->used = m.total_bytes - m.free_bytes;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
	nvmlReturn_t r = sim_nvml_enter_device(NVML_SYM_nvmlDeviceGetMemoryInfo_v2, device);
	struct sim_memory m;

	if (r)
		return r;
	if (!memory)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (memory->version != NVML_MEMORY_V2) /* measured: driver 580.159, conform */
		return NVML_ERROR_FUNCTION_NOT_FOUND;
	sim_state_memory(sim_nvml.state, device->index, &m);
	memory->total = m.total_bytes;
	memory->reserved = m.reserved_bytes;
	memory->free = m.free_bytes;
	memory->used = m.used_bytes;
	return NVML_SUCCESS;
}

/* the aperture is as large as the card's memory, rounded up to a power of two, and maps all of it
 */
nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *bar1)
{
	nvmlReturn_t r = sim_nvml_enter_device(NVML_SYM_nvmlDeviceGetBAR1MemoryInfo, device);
	struct sim_memory m;
	uint64_t total = SIM_PAGE_BYTES;

	if (r)
		return r;
	if (!bar1)
		return NVML_ERROR_INVALID_ARGUMENT;
	sim_state_memory(sim_nvml.state, device->index, &m);
	while (total < m.total_bytes)
		total *= 2;
	bar1->bar1Total = total;
	bar1->bar1Used = m.used_bytes;
	bar1->bar1Free = total - m.used_bytes;
	return NVML_SUCCESS;
}

/* ---- whose number is it? ---- */

static bool same_namespace(const char *proc, uint64_t ns)
{
	char path[64];
	struct stat st;

	return str_print(path, sizeof(path), "/proc/%s/ns/pid", proc) && stat(path, &st) == 0 &&
	       st.st_ino == ns;
}

/* The number that begins at @at, if one does, in a text that may be cut up. */
static uint64_t number_at(char *at)
{
	size_t len = strspn(at, "0123456789");
	uint64_t n = 0;

	at[len] = '\0';
	return parse_u64(at, 0, UINT64_MAX, &n, NULL) ? 0 : n;
}

static bool read_proc(const char *proc, const char *file, char *text, size_t size)
{
	char path[64];

	return str_print(path, sizeof(path), "/proc/%s/%s", proc, file) &&
	       fd_read_file(AT_FDCWD, path, text, size) > 0;
}

/* Field 22 of stat (they begin to count behind the name, with the third). */
static uint64_t start_ticks(const char *proc)
{
	char text[4096], *at;

	if (!read_proc(proc, "stat", text, sizeof(text)))
		return 0;
	at = strrchr(text, ')');
	for (unsigned field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	return at ? number_at(at + 1) : 0;
}

/* The last number of NSpid: what the process is called in its own namespace. */
static uint64_t own_pid(const char *proc)
{
	char text[4096], *at;

	if (!read_proc(proc, "status", text, sizeof(text)))
		return 0;
	at = strstr(text, "\nNSpid:");
	if (!at)
		return 0;
	at++;
	at[strcspn(at, "\n")] = '\0';
	at = strrchr(at, '\t');
	return at ? number_at(at + 1) : 0;
}

static bool is_process(const char *proc, const struct sim_proc *p)
{
	return start_ticks(proc) == p->start_ticks && same_namespace(proc, p->pid_ns) &&
	       own_pid(proc) == (uint64_t)p->pid;
}

unsigned sim_nvml_pid(const struct sim_proc *p)
{
	unsigned pid = (unsigned)p->pid;
	struct dirent *entry;
	DIR *dir;

	if (same_namespace("self", p->pid_ns))
		return pid;
	dir = opendir("/proc");
	if (!dir)
		return pid;
	while ((entry = readdir(dir))) {
		uint64_t number;

		if (parse_u64(entry->d_name, 1, INT32_MAX, &number, NULL))
			continue;
		if (is_process(entry->d_name, p)) {
			pid = (unsigned)number;
			break;
		}
	}
	closedir(dir);
	return pid;
}

/* ---- lists ---- */

enum list_kind { LIST_COMPUTE, LIST_GRAPHICS, LIST_MPS };

struct entry {
	unsigned pid;
	uint64_t used_bytes;
	unsigned gi, ci;
};

typedef void write_entry(void *array, unsigned i, const struct entry *e);

static void write_v1(void *array, unsigned i, const struct entry *e)
{
	((nvmlProcessInfo_v1_t *)array)[i] =
		(nvmlProcessInfo_v1_t){ .pid = e->pid, .usedGpuMemory = e->used_bytes };
}

static void write_v2(void *array, unsigned i, const struct entry *e)
{
	((nvmlProcessInfo_v2_t *)array)[i] = (nvmlProcessInfo_v2_t){ .pid = e->pid,
								     .usedGpuMemory = e->used_bytes,
								     .gpuInstanceId = e->gi,
								     .computeInstanceId = e->ci };
}

static void write_detail(void *array, unsigned i, const struct entry *e)
{
	((nvmlProcessDetail_v1_t *)array)[i] =
		(nvmlProcessDetail_v1_t){ .pid = e->pid,
					  .usedGpuMemory = e->used_bytes,
					  .gpuInstanceId = e->gi,
					  .computeInstanceId = e->ci };
}

/* what @device's list of that kind holds: heap, NULL without memory */
static struct entry *gather(nvmlDevice_t device, enum list_kind kind, unsigned *ret_n)
{
	bool is_instance = sim_nvml_is_instance(device);
	bool hidden = sim_nvml_hides_memory() ||
		      ((is_instance || device->info->mig_mode) && sim_nvml_hides_instances());
	unsigned crowd = is_instance || kind != LIST_COMPUTE ? 0 : sim_nvml_crowd(), n, k = 0;
	AUTO_FREE struct sim_proc *procs = calloc(SIM_PROCS_MAX, sizeof(*procs));
	struct entry *all = calloc(SIM_PROCS_MAX + crowd, sizeof(*all));

	if (!procs || !all || kind == LIST_MPS) {
		*ret_n = 0;
		return all;
	}
	n = sim_state_procs(sim_nvml.state, device->index, procs, SIM_PROCS_MAX);
	for (unsigned i = 0; i < n; i++) {
		struct entry e = { sim_nvml_pid(&procs[i]),
				   hidden ? (uint64_t)NVML_VALUE_NOT_AVAILABLE
					  : procs[i].used_bytes,
				   is_instance ? device->info->gi : NVML_NO_INSTANCE,
				   is_instance ? device->info->ci : NVML_NO_INSTANCE };

		if (kind == LIST_COMPUTE || sim_nvml_is_graphics(e.pid))
			all[k++] = e;
	}
	for (unsigned i = 0; i < crowd; i++)
		all[k++] = (struct entry){ SIM_NVML_CROWD_PID + i, SIM_PAGE_BYTES, NVML_NO_INSTANCE,
					   NVML_NO_INSTANCE };
	*ret_n = k;
	return all;
}

/* room in *count, number out; what does not fit is not written at all */
static nvmlReturn_t list(nvmlDevice_t device, enum list_kind kind, unsigned *count, void *array,
			 write_entry *write)
{
	AUTO_FREE struct entry *all = NULL;
	unsigned room, n;

	if (!count)
		return NVML_ERROR_INVALID_ARGUMENT;
	room = *count;
	all = gather(device, kind, &n);
	if (!all)
		return NVML_ERROR_MEMORY;
	if (n && room && !array) /* of an empty list nobody wants the array: measured */
		return NVML_ERROR_INVALID_ARGUMENT;
	*count = n;
	if (n > room)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	for (unsigned i = 0; i < n; i++)
		write(array, i, &all[i]);
	return NVML_SUCCESS;
}

#define LIST_BODY(sym, kind, type, write)                                       \
	nvmlReturn_t sym(nvmlDevice_t device, unsigned int *count, type *infos) \
	{                                                                       \
		nvmlReturn_t r = sim_nvml_enter_device(NVML_SYM_##sym, device); \
                                                                                \
		return r ? r : list(device, (kind), count, infos, (write));     \
	}

LIST_BODY(nvmlDeviceGetComputeRunningProcesses, LIST_COMPUTE, nvmlProcessInfo_v1_t, write_v1)
LIST_BODY(nvmlDeviceGetComputeRunningProcesses_v2, LIST_COMPUTE, nvmlProcessInfo_v2_t, write_v2)
LIST_BODY(nvmlDeviceGetComputeRunningProcesses_v3, LIST_COMPUTE, nvmlProcessInfo_t, write_v2)
LIST_BODY(nvmlDeviceGetGraphicsRunningProcesses, LIST_GRAPHICS, nvmlProcessInfo_v1_t, write_v1)
LIST_BODY(nvmlDeviceGetGraphicsRunningProcesses_v2, LIST_GRAPHICS, nvmlProcessInfo_v2_t, write_v2)
LIST_BODY(nvmlDeviceGetGraphicsRunningProcesses_v3, LIST_GRAPHICS, nvmlProcessInfo_t, write_v2)
LIST_BODY(nvmlDeviceGetMPSComputeRunningProcesses, LIST_MPS, nvmlProcessInfo_v1_t, write_v1)
LIST_BODY(nvmlDeviceGetMPSComputeRunningProcesses_v2, LIST_MPS, nvmlProcessInfo_v2_t, write_v2)
LIST_BODY(nvmlDeviceGetMPSComputeRunningProcesses_v3, LIST_MPS, nvmlProcessInfo_t, write_v2)

nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device,
						   nvmlProcessDetailList_t *plist)
{
	nvmlReturn_t r =
		sim_nvml_enter_device(NVML_SYM_nvmlDeviceGetRunningProcessDetailList, device);

	if (r)
		return r;
	if (!plist)
		return NVML_ERROR_INVALID_ARGUMENT;
	r = sim_nvml_version(plist->version, NVML_PROCESS_DETAIL_LIST_V1);
	if (r)
		return r;
	if (plist->mode > NVML_PROCESS_MODE_MPS)
		return NVML_ERROR_INVALID_ARGUMENT;
	return list(device, (enum list_kind)plist->mode, &plist->numProcArrayEntries,
		    plist->procArray, write_detail);
}
