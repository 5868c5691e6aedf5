// SPDX-License-Identifier: Apache-2.0
/* An NVML library of long ago: one card, four functions, nothing of what came later. */
#include <string.h>

#include "abi/nvml_proto.h"
#include "nvml_fixture.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT pfn_nvmlInit_v2 nvmlInit_v2;
EXPORT pfn_nvmlDeviceGetHandleByIndex_v2 nvmlDeviceGetHandleByIndex_v2;
EXPORT pfn_nvmlDeviceGetUUID nvmlDeviceGetUUID;
EXPORT pfn_nvmlDeviceGetMemoryInfo nvmlDeviceGetMemoryInfo;

nvmlReturn_t nvmlInit_v2(void)
{
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
	*device = (nvmlDevice_t)&nvmlInit_v2;
	return index ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *text, unsigned int length)
{
	(void)device;
	(void)length;
	strcpy(text, FIXTURE_UUID_A);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	(void)device;
	*memory = (nvmlMemory_t){ 100, 60, 40 };
	return NVML_SUCCESS;
}
