// SPDX-License-Identifier: Apache-2.0
/*
 * What a job sees of a card's memory: the same figures as cuMemGetInfo, in both layouts.
 *
 * The driver answers first, into a copy, so that every error, NULL and version check is its own.
 * v1 has total = free + used.  In v2 total = reserved + free + used: of what is neither free nor
 * the job's (nothing at all under a limit; without one, the driver's reserve and the room that was
 * gone when the job came), at most the driver's own reserve is called reserved, the rest is used.
 */
#include "base/size.h"
#include "shim/guard.h"
#include "shim/nvml_lease.h"
#include "shim/nvml_real.h"

static nvmlReturn_t memory_v1(nvmlDevice_t device, nvmlMemory_t *memory)
{
	nvmlMemory_t real = { 0 };
	struct wire_viewed v;
	nvmlReturn_t r = real_nvmlDeviceGetMemoryInfo(device, memory ? &real : NULL);

	if (r)
		return r;
	switch (nvml_lease_view(device, &v)) {
	case NVML_LEASE_OURS:
		real.total = v.total_bytes;
		real.free = size_min(v.free_bytes, v.total_bytes);
		real.used = real.total - real.free;
		break;
	case NVML_LEASE_PASS:
		break;
	case NVML_LEASE_UNKNOWN:
		return NVML_ERROR_UNKNOWN;
	}
	*memory = real;
	return NVML_SUCCESS;
}

static nvmlReturn_t memory_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
	nvmlMemory_v2_t real = { .version = memory ? memory->version : 0 };
	struct wire_viewed v;
	nvmlReturn_t r = real_nvmlDeviceGetMemoryInfo_v2(device, memory ? &real : NULL);

	if (r)
		return r;
	switch (nvml_lease_view(device, &v)) {
	case NVML_LEASE_OURS:
		real.total = v.total_bytes;
		real.free = size_min(v.free_bytes, v.total_bytes);
		real.reserved =
			size_min(real.reserved, size_sat_sub(real.total - real.free, v.used_bytes));
		real.used = real.total - real.free - real.reserved;
		break;
	case NVML_LEASE_PASS:
		break;
	case NVML_LEASE_UNKNOWN:
		return NVML_ERROR_UNKNOWN;
	}
	*memory = real;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	nvmlReturn_t r;

	if (!guard_enter())
		return real_nvmlDeviceGetMemoryInfo(device, memory);
	r = memory_v1(device, memory);
	guard_leave();
	return r;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
	nvmlReturn_t r;

	if (!guard_enter())
		return real_nvmlDeviceGetMemoryInfo_v2(device, memory);
	r = memory_v2(device, memory);
	guard_leave();
	return r;
}
