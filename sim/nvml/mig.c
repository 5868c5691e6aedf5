// SPDX-License-Identifier: Apache-2.0
/*
 * MIG: a card in that mode and its instances, each a device with a handle of its own.
 *
 * As NVIDIA's documents have it; no card at hand was in that mode, so nothing here was recorded.
 * The layout is the profile's and cannot be changed through NVML; the fault word no-instance takes
 * an instance away.  Indices are those of the profile, so a gap stays where one was taken away.
 */
#include <string.h>

#include "base/size.h"
#include "sim/nvml/nvml.h"

#define INSTANCES_MAX 7 /* on one card */

unsigned sim_nvml_devices(void)
{
	const struct sim_profile *p = sim_state_profile(sim_nvml.state);

	return sim_nvml.device_count + p->instance_count;
}

nvmlDevice_t sim_nvml_card(nvmlDevice_t device)
{
	return sim_nvml_is_instance(device) ? &sim_nvml.devices[device->info->parent] : device;
}

SIM_NVML_GET(nvmlDeviceIsMigDeviceHandle, unsigned int, sim_nvml_is_instance(device))

/* a card that cannot do MIG has none; the others as many as there may be */
static unsigned max_instances(nvmlDevice_t device)
{
	return device->info->mig_mode ? INSTANCES_MAX : 0;
}

SIM_NVML_GET(nvmlDeviceGetMaxMigDeviceCount, unsigned int, max_instances(device))

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
	nvmlReturn_t r = sim_nvml_enter_device(NVML_SYM_nvmlDeviceGetMigMode, device);

	if (r)
		return r;
	if (!current || !pending || sim_nvml_is_instance(device))
		return NVML_ERROR_INVALID_ARGUMENT;
	*current = *pending = device->info->mig_mode;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index,
						 nvmlDevice_t *mig)
{
	nvmlReturn_t r =
		sim_nvml_enter_device(NVML_SYM_nvmlDeviceGetMigDeviceHandleByIndex, device);

	if (r)
		return r;
	if (!mig || sim_nvml_is_instance(device) || index >= INSTANCES_MAX)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (unsigned i = sim_nvml.device_count; i < sim_nvml_devices(); i++) {
		nvmlDevice_t one = &sim_nvml.devices[i];

		if (one->info->parent != device->index || one->info->mig_index != index ||
		    sim_nvml_is_gone(i - sim_nvml.device_count))
			continue;
		*mig = one;
		return NVML_SUCCESS;
	}
	return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t mig, nvmlDevice_t *device)
{
	nvmlReturn_t r =
		sim_nvml_enter_device(NVML_SYM_nvmlDeviceGetDeviceHandleFromMigDeviceHandle, mig);

	if (r)
		return r;
	if (!device || !sim_nvml_is_instance(mig))
		return NVML_ERROR_INVALID_ARGUMENT;
	*device = sim_nvml_card(mig);
	return NVML_SUCCESS;
}

static nvmlReturn_t instance_id(enum nvml_sym symbol, nvmlDevice_t device, unsigned *id)
{
	nvmlReturn_t r = sim_nvml_enter_device(symbol, device);

	if (r)
		return r;
	if (!id)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (!sim_nvml_is_instance(device))
		return NVML_ERROR_NOT_SUPPORTED;
	*id = symbol == NVML_SYM_nvmlDeviceGetGpuInstanceId ? device->info->gi : device->info->ci;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int *id)
{
	return instance_id(NVML_SYM_nvmlDeviceGetGpuInstanceId, device, id);
}

nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned int *id)
{
	return instance_id(NVML_SYM_nvmlDeviceGetComputeInstanceId, device, id);
}

nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes)
{
	nvmlReturn_t r = sim_nvml_enter_device(NVML_SYM_nvmlDeviceGetAttributes_v2, device);
	unsigned slices;

	if (r)
		return r;
	if (!attributes)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (!sim_nvml_is_instance(device))
		return NVML_ERROR_NOT_SUPPORTED;
	slices = (unsigned)device->info->mig_profile[0] - '0'; /* "3g.71gb" */
	*attributes = (nvmlDeviceAttributes_t){
		.multiprocessorCount = device->info->sms,
		.sharedCopyEngineCount = slices,
		.gpuInstanceSliceCount = slices,
		.computeInstanceSliceCount = slices,
		.memorySizeMB = device->info->memory_bytes / MIB,
	};
	return NVML_SUCCESS;
}
