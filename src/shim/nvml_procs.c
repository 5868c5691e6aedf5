// SPDX-License-Identifier: Apache-2.0
/*
 * Which processes a job sees on a card: its own, by the numbers of the reader's PID namespace.
 *
 * Three kinds of list in three layouts; one body for all.  The driver is asked first with no room
 * (the ordinary way to ask how many there are), so that errors are its own: SUCCESS and
 * INSUFFICIENT_SIZE mean that the question was well put.  The compute list is what allotd says of
 * the job.  Of the graphics and MPS lists allotd knows nothing, so they are the driver's, less
 * whoever is not of the job; a job in a PID namespace of its own has none there.
 *
 * Room and number: the caller says how much room there is and is told how many there are; too
 * little is INSUFFICIENT_SIZE, and the array is not touched.
 */
#include <stdbool.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "shim/guard.h"
#include "shim/nvml_lease.h"
#include "shim/nvml_real.h"

enum kind { KIND_COMPUTE, KIND_OTHER };

struct entry {
	unsigned pid;
	uint64_t used_bytes;
	unsigned gi, ci;
};

/* one layout: how to ask the driver for it, how to read and write an element */
struct layout {
	nvmlReturn_t (*ask)(const struct layout *self, nvmlDevice_t device, unsigned *count,
			    void *array);
	size_t size; /* of an element */
	void (*write)(void *array, unsigned i, const struct entry *e);
	/* the driver's function; one of them is set */
	pfn_nvmlDeviceGetComputeRunningProcesses **v1;
	pfn_nvmlDeviceGetComputeRunningProcesses_v3 **v3;
	unsigned mode; /* of a detail list */
};

static nvmlReturn_t ask_v1(const struct layout *l, nvmlDevice_t device, unsigned *count,
			   void *array)
{
	return (*l->v1)(device, count, array);
}

static nvmlReturn_t ask_v3(const struct layout *l, nvmlDevice_t device, unsigned *count,
			   void *array)
{
	return (*l->v3)(device, count, array);
}

static nvmlReturn_t ask_detail(const struct layout *l, nvmlDevice_t device, unsigned *count,
			       void *array)
{
	nvmlProcessDetailList_t list = { .version = NVML_PROCESS_DETAIL_LIST_V1,
					 .mode = l->mode,
					 .numProcArrayEntries = *count,
					 .procArray = array };
	nvmlReturn_t r = real_nvmlDeviceGetRunningProcessDetailList(device, &list);

	*count = list.numProcArrayEntries;
	return r;
}

static void write_v1(void *array, unsigned i, const struct entry *e)
{
	((nvmlProcessInfo_v1_t *)array)[i] =
		(nvmlProcessInfo_v1_t){ .pid = e->pid, .usedGpuMemory = e->used_bytes };
}

static void write_v3(void *array, unsigned i, const struct entry *e)
{
	((nvmlProcessInfo_t *)array)[i] = (nvmlProcessInfo_t){
		.pid = e->pid,
		.usedGpuMemory = e->used_bytes,
		.gpuInstanceId = e->gi,
		.computeInstanceId = e->ci,
	};
}

static void write_detail(void *array, unsigned i, const struct entry *e)
{
	((nvmlProcessDetail_v1_t *)array)[i] = (nvmlProcessDetail_v1_t){
		.pid = e->pid,
		.usedGpuMemory = e->used_bytes,
		.gpuInstanceId = e->gi,
		.computeInstanceId = e->ci,
	};
}

/* every layout begins with the pid */
static unsigned pid_at(const void *array, const struct layout *l, unsigned i)
{
	return *(const unsigned *)(const void *)((const char *)array + i * l->size);
}

/* Keep in @procs only those that stand in the driver's own list as well. */
static nvmlReturn_t intersect(const struct layout *l, nvmlDevice_t device, unsigned there,
			      struct nvml_lease_procs *procs)
{
	unsigned n = there + 16, kept = 0; /* a few may have come meanwhile */
	AUTO_FREE void *array = calloc(n, l->size);
	nvmlReturn_t r;

	if (!array)
		return NVML_ERROR_MEMORY;
	r = l->ask(l, device, &n, array);
	if (r)
		return r;
	for (unsigned i = 0; i < procs->n; i++) {
		bool found = false;

		for (unsigned k = 0; k < n && !found; k++)
			found = pid_at(array, l, k) == procs->pid[i];
		if (!found)
			continue;
		procs->pid[kept] = procs->pid[i];
		procs->used_bytes[kept++] = procs->used_bytes[i];
	}
	procs->n = kept;
	return NVML_SUCCESS;
}

static nvmlReturn_t list(const struct layout *l, enum kind kind, nvmlDevice_t device,
			 unsigned *count, void *infos)
{
	struct nvml_lease_procs procs;
	unsigned there = 0, room;
	nvmlReturn_t r;

	if (!count || (*count && !infos))
		return l->ask(l, device, count, infos);
	r = l->ask(l, device, &there, NULL);
	if (r && r != NVML_ERROR_INSUFFICIENT_SIZE)
		return r;
	switch (nvml_lease_procs(device, &procs)) {
	case NVML_LEASE_OURS:
		break;
	case NVML_LEASE_PASS:
		return l->ask(l, device, count, infos);
	case NVML_LEASE_UNKNOWN:
		return NVML_ERROR_UNKNOWN;
	}
	if (kind != KIND_COMPUTE) {
		r = there ? intersect(l, device, there, &procs) : NVML_SUCCESS;
		if (r)
			return r;
		if (!there)
			procs.n = 0;
	}
	room = *count;
	*count = procs.n;
	if (procs.n > room)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	for (unsigned i = 0; i < procs.n; i++)
		l->write(infos, i,
			 &(struct entry){ procs.pid[i], procs.used_bytes[i], procs.gi, procs.ci });
	return NVML_SUCCESS;
}

#define LIST_V1(sym, kind)                                                                      \
	nvmlReturn_t sym(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_v1_t *infos) \
	{                                                                                       \
		static const struct layout layout = { .ask = ask_v1,                            \
						      .size = sizeof(*infos),                   \
						      .write = write_v1,                        \
						      .v1 = &real_##sym };                      \
		nvmlReturn_t r;                                                                 \
                                                                                                \
		if (!guard_enter())                                                             \
			return real_##sym(device, count, infos);                                \
		r = list(&layout, (kind), device, count, infos);                                \
		guard_leave();                                                                  \
		return r;                                                                       \
	}

#define LIST_V3(sym, kind)                                                                   \
	nvmlReturn_t sym(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos) \
	{                                                                                    \
		static const struct layout layout = { .ask = ask_v3,                         \
						      .size = sizeof(*infos),                \
						      .write = write_v3,                     \
						      .v3 = &real_##sym };                   \
		nvmlReturn_t r;                                                              \
                                                                                             \
		if (!guard_enter())                                                          \
			return real_##sym(device, count, infos);                             \
		r = list(&layout, (kind), device, count, infos);                             \
		guard_leave();                                                               \
		return r;                                                                    \
	}

LIST_V1(nvmlDeviceGetComputeRunningProcesses, KIND_COMPUTE)
LIST_V3(nvmlDeviceGetComputeRunningProcesses_v2, KIND_COMPUTE)
LIST_V3(nvmlDeviceGetComputeRunningProcesses_v3, KIND_COMPUTE)
LIST_V1(nvmlDeviceGetGraphicsRunningProcesses, KIND_OTHER)
LIST_V3(nvmlDeviceGetGraphicsRunningProcesses_v2, KIND_OTHER)
LIST_V3(nvmlDeviceGetGraphicsRunningProcesses_v3, KIND_OTHER)
LIST_V1(nvmlDeviceGetMPSComputeRunningProcesses, KIND_OTHER)
LIST_V3(nvmlDeviceGetMPSComputeRunningProcesses_v2, KIND_OTHER)
LIST_V3(nvmlDeviceGetMPSComputeRunningProcesses_v3, KIND_OTHER)

/* Another version or mode is the driver's to judge. */
nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device,
						   nvmlProcessDetailList_t *plist)
{
	struct layout layout = { .ask = ask_detail,
				 .size = sizeof(nvmlProcessDetail_v1_t),
				 .write = write_detail };
	nvmlReturn_t r;

	if (!plist || plist->version != NVML_PROCESS_DETAIL_LIST_V1 ||
	    plist->mode > NVML_PROCESS_MODE_MPS || !guard_enter())
		return real_nvmlDeviceGetRunningProcessDetailList(device, plist);
	layout.mode = plist->mode;
	r = list(&layout, plist->mode == NVML_PROCESS_MODE_COMPUTE ? KIND_COMPUTE : KIND_OTHER,
		 device, &plist->numProcArrayEntries, plist->procArray);
	guard_leave();
	return r;
}
