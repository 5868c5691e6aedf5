// SPDX-License-Identifier: Apache-2.0
/* Modes, links, error counters, events: what a healthy data-centre card says. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "sim/nvml/nvml.h"

SIM_NVML_GET(nvmlDeviceGetComputeMode, nvmlComputeMode_t, NVML_COMPUTEMODE_DEFAULT)
SIM_NVML_GET(nvmlDeviceGetPersistenceMode, nvmlEnableState_t, NVML_FEATURE_ENABLED)
SIM_NVML_GET(nvmlDeviceGetDisplayMode, nvmlEnableState_t, NVML_FEATURE_DISABLED)
SIM_NVML_GET(nvmlDeviceGetDisplayActive, nvmlEnableState_t, NVML_FEATURE_DISABLED)
SIM_NVML_GET(nvmlDeviceGetAccountingMode, nvmlEnableState_t, NVML_FEATURE_DISABLED)
SIM_NVML_GET(nvmlDeviceGetAccountingBufferSize, unsigned int, 4000)
SIM_NVML_GET(nvmlDeviceGetPowerManagementMode, nvmlEnableState_t, NVML_FEATURE_ENABLED)
SIM_NVML_GET(nvmlDeviceGetDefaultEccMode, nvmlEnableState_t, NVML_FEATURE_ENABLED)
SIM_NVML_GET(nvmlDeviceGetVirtualizationMode, nvmlGpuVirtualizationMode_t,
	     NVML_GPU_VIRTUALIZATION_MODE_NONE)
SIM_NVML_GET(nvmlDeviceGetCurrPcieLinkGeneration, unsigned int, 5)
SIM_NVML_GET(nvmlDeviceGetMaxPcieLinkGeneration, unsigned int, 5)
SIM_NVML_GET(nvmlDeviceGetGpuMaxPcieLinkGeneration, unsigned int, 5)
SIM_NVML_GET(nvmlDeviceGetCurrPcieLinkWidth, unsigned int, 16)
SIM_NVML_GET(nvmlDeviceGetMaxPcieLinkWidth, unsigned int, 16)
SIM_NVML_GET(nvmlDeviceGetPcieSpeed, unsigned int, 32000)
SIM_NVML_GET(nvmlDeviceGetPcieReplayCounter, unsigned int, 0)
SIM_NVML_GET(nvmlDeviceGetNumFans, unsigned int, 0)
SIM_NVML_GET(nvmlDeviceGetSupportedEventTypes, unsigned long long, NVML_EVENT_XID)

static nvmlReturn_t pair(enum nvml_sym symbol, nvmlDevice_t device, unsigned *a, unsigned *b,
			 unsigned value)
{
	nvmlReturn_t r = sim_nvml_enter_device(symbol, device);

	if (r)
		return r;
	if (!a || !b)
		return NVML_ERROR_INVALID_ARGUMENT;
	*a = *b = value;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGspFirmwareMode(nvmlDevice_t device, unsigned int *enabled,
					  unsigned int *default_mode)
{
	return pair(NVML_SYM_nvmlDeviceGetGspFirmwareMode, device, enabled, default_mode, 1);
}

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, nvmlEnableState_t *current,
				  nvmlEnableState_t *pending)
{
	nvmlReturn_t r = sim_nvml_enter_device(NVML_SYM_nvmlDeviceGetEccMode, device);

	if (r)
		return r;
	if (!current || !pending)
		return NVML_ERROR_INVALID_ARGUMENT;
	*current = *pending = NVML_FEATURE_ENABLED;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGspFirmwareVersion(nvmlDevice_t device, char *version)
{
	nvmlReturn_t r = sim_nvml_enter_device(NVML_SYM_nvmlDeviceGetGspFirmwareVersion, device);

	return r ? r
		 : sim_nvml_text(version, 64, sim_state_profile(sim_nvml.state)->driver_version);
}

SIM_NVML_GET_TEXT(nvmlDeviceGetVbiosVersion, "96.00.A5.00.01")

/* ---- errors that did not happen ---- */

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t type,
					 nvmlEccCounterType_t counter, unsigned long long *count)
{
	nvmlReturn_t r = sim_nvml_enter_device(NVML_SYM_nvmlDeviceGetTotalEccErrors, device);

	if (r)
		return r;
	if (!count || (unsigned)type >= NVML_MEMORY_ERROR_TYPE_COUNT ||
	    (unsigned)counter >= NVML_ECC_COUNTER_TYPE_COUNT)
		return NVML_ERROR_INVALID_ARGUMENT;
	*count = 0;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, nvmlMemoryErrorType_t type,
					     nvmlEccCounterType_t counter,
					     nvmlMemoryLocation_t location,
					     unsigned long long *count)
{
	nvmlReturn_t r = sim_nvml_enter_device(NVML_SYM_nvmlDeviceGetMemoryErrorCounter, device);

	if (r)
		return r;
	if (!count || (unsigned)type >= NVML_MEMORY_ERROR_TYPE_COUNT ||
	    (unsigned)counter >= NVML_ECC_COUNTER_TYPE_COUNT ||
	    (unsigned)location >= NVML_MEMORY_LOCATION_COUNT)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (location != NVML_MEMORY_LOCATION_DRAM && location != NVML_MEMORY_LOCATION_SRAM)
		return NVML_ERROR_NOT_SUPPORTED;
	*count = 0;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *correctable,
				       unsigned int *uncorrectable, unsigned int *pending,
				       unsigned int *failed)
{
	nvmlReturn_t r = sim_nvml_enter_device(NVML_SYM_nvmlDeviceGetRemappedRows, device);

	if (r)
		return r;
	if (!correctable || !uncorrectable || !pending || !failed)
		return NVML_ERROR_INVALID_ARGUMENT;
	*correctable = *uncorrectable = *pending = *failed = 0;
	return NVML_SUCCESS;
}

/* ---- places and links ---- */

nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, nvmlPcieUtilCounter_t counter,
					 unsigned int *kb_per_s)
{
	nvmlReturn_t r = sim_nvml_enter_device(NVML_SYM_nvmlDeviceGetPcieThroughput, device);
	struct sim_nvml_load load;

	if (r)
		return r;
	if (!kb_per_s || (unsigned)counter >= NVML_PCIE_UTIL_COUNT)
		return NVML_ERROR_INVALID_ARGUMENT;
	sim_nvml_load(device, &load);
	*kb_per_s = (unsigned)(device->info->copy_bytes_per_s / 1000 * load.copy_pct / 100);
	return NVML_SUCCESS;
}

static nvmlReturn_t all_ones(enum nvml_sym symbol, nvmlDevice_t device, unsigned size,
			     unsigned long *set, long bits)
{
	nvmlReturn_t r = sim_nvml_enter_device(symbol, device);
	unsigned width = sizeof(*set) * 8;

	if (r)
		return r;
	if (!size || !set)
		return NVML_ERROR_INVALID_ARGUMENT;
	memset(set, 0, size * sizeof(*set));
	for (unsigned i = 0; (long)i < bits && i < size * width; i++)
		set[i / width] |= 1ul << i % width;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned int size, unsigned long *set)
{
	return all_ones(NVML_SYM_nvmlDeviceGetCpuAffinity, device, size, set,
			sysconf(_SC_NPROCESSORS_CONF));
}

nvmlReturn_t nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t device, unsigned int size,
						 unsigned long *set, nvmlAffinityScope_t scope)
{
	if (scope > NVML_AFFINITY_SCOPE_SOCKET)
		set = NULL;
	return all_ones(NVML_SYM_nvmlDeviceGetCpuAffinityWithinScope, device, size, set,
			sysconf(_SC_NPROCESSORS_CONF));
}

nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned int size, unsigned long *set,
					 nvmlAffinityScope_t scope)
{
	if (scope > NVML_AFFINITY_SCOPE_SOCKET)
		set = NULL;
	return all_ones(NVML_SYM_nvmlDeviceGetMemoryAffinity, device, size, set, 1);
}

static nvmlReturn_t two(enum nvml_sym symbol, nvmlDevice_t a, nvmlDevice_t b, const void *out)
{
	nvmlReturn_t r = sim_nvml_enter_device(symbol, a);

	if (!r)
		r = sim_nvml_enter_device(symbol, b);
	return r || out ? r : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceOnSameBoard(nvmlDevice_t a, nvmlDevice_t b, int *same)
{
	nvmlReturn_t r = two(NVML_SYM_nvmlDeviceOnSameBoard, a, b, same);

	if (!r)
		*same = a == b;
	return r;
}

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t a, nvmlDevice_t b,
						 nvmlGpuTopologyLevel_t *level)
{
	nvmlReturn_t r = two(NVML_SYM_nvmlDeviceGetTopologyCommonAncestor, a, b, level);

	if (!r)
		*level = a == b ? NVML_TOPOLOGY_INTERNAL : NVML_TOPOLOGY_NODE;
	return r;
}

nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device, nvmlGpuTopologyLevel_t level,
					      unsigned int *count, nvmlDevice_t *devices)
{
	nvmlReturn_t r = sim_nvml_enter_device(NVML_SYM_nvmlDeviceGetTopologyNearestGpus, device);
	unsigned room, n = 0;

	if (r)
		return r;
	if (!count || (*count && !devices))
		return NVML_ERROR_INVALID_ARGUMENT;
	room = *count;
	for (unsigned i = 0; i < sim_nvml.device_count && level == NVML_TOPOLOGY_NODE; i++) {
		if (i == device->index)
			continue;
		if (n < room)
			devices[n] = &sim_nvml.devices[i];
		n++;
	}
	*count = n;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t a, nvmlDevice_t b, nvmlGpuP2PCapsIndex_t index,
				    nvmlGpuP2PStatus_t *status)
{
	nvmlReturn_t r = two(NVML_SYM_nvmlDeviceGetP2PStatus, a, b, status);

	if (r)
		return r;
	if ((unsigned)index >= NVML_P2P_CAPS_INDEX_UNKNOWN)
		return NVML_ERROR_INVALID_ARGUMENT;
	*status = index == NVML_P2P_CAPS_INDEX_NVLINK ? NVML_P2P_STATUS_NOT_SUPPORTED
						      : NVML_P2P_STATUS_OK;
	return NVML_SUCCESS;
}

/* ---- events: a set can be made and waited for, but nothing ever happens ---- */

#define EVENT_SET_MAGIC 0x65767473u

struct nvmlEventSet_st {
	uint32_t magic;
};

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
	nvmlReturn_t r = sim_nvml_enter(NVML_SYM_nvmlEventSetCreate);
	nvmlEventSet_t made;

	if (r)
		return r;
	if (!set)
		return NVML_ERROR_INVALID_ARGUMENT;
	made = calloc(1, sizeof(*made));
	if (!made)
		return NVML_ERROR_MEMORY;
	made->magic = EVENT_SET_MAGIC;
	*set = made;
	return NVML_SUCCESS;
}

static nvmlReturn_t enter_set(enum nvml_sym symbol, nvmlEventSet_t set)
{
	nvmlReturn_t r = sim_nvml_enter(symbol);

	if (r)
		return r;
	return set && set->magic == EVENT_SET_MAGIC ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
	nvmlReturn_t r = enter_set(NVML_SYM_nvmlEventSetFree, set);

	if (r)
		return r;
	set->magic = 0;
	free(set);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types,
				      nvmlEventSet_t set)
{
	nvmlReturn_t r = sim_nvml_enter_device(NVML_SYM_nvmlDeviceRegisterEvents, device);

	if (!r)
		r = enter_set(NVML_SYM_nvmlDeviceRegisterEvents, set);
	if (r)
		return r;
	return types & ~NVML_EVENT_XID ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}

static nvmlReturn_t wait_for_nothing(enum nvml_sym symbol, nvmlEventSet_t set, const void *data,
				     unsigned timeout_ms)
{
	nvmlReturn_t r = enter_set(symbol, set);
	struct timespec until;
	uint64_t at;

	if (r)
		return r;
	if (!data)
		return NVML_ERROR_INVALID_ARGUMENT;
	at = clock_now_ns() + timeout_ms * NS_PER_MS;
	until.tv_sec = (time_t)(at / NS_PER_S);
	until.tv_nsec = (long)(at % NS_PER_S);
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL))
		;
	return NVML_ERROR_TIMEOUT;
}

nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_v1_t *data, unsigned int timeout_ms)
{
	return wait_for_nothing(NVML_SYM_nvmlEventSetWait, set, data, timeout_ms);
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms)
{
	return wait_for_nothing(NVML_SYM_nvmlEventSetWait_v2, set, data, timeout_ms);
}
