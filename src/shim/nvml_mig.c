// SPDX-License-Identifier: Apache-2.0
/*
 * Which MIG instances a job sees on a card: its own, under the index it has there; in the others'
 * places there is nothing, as on a card that was never divided so.  The driver is asked first, so
 * that every error is its own.
 */
#include "shim/guard.h"
#include "shim/nvml_lease.h"
#include "shim/nvml_real.h"

static nvmlReturn_t by_index(nvmlDevice_t device, unsigned int index, nvmlDevice_t *ret)
{
	nvmlDevice_t found = NULL;
	nvmlReturn_t r = real_nvmlDeviceGetMigDeviceHandleByIndex(device, index, &found);

	if (r)
		return r;
	switch (nvml_lease_narrows()) {
	case NVML_LEASE_UNKNOWN:
		return NVML_ERROR_UNKNOWN;
	case NVML_LEASE_OURS:
		if (!nvml_lease_has(found))
			return NVML_ERROR_NOT_FOUND;
		break;
	case NVML_LEASE_PASS:
		break;
	}
	*ret = found;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index,
						 nvmlDevice_t *mig)
{
	nvmlReturn_t r;

	if (!mig || !guard_enter())
		return real_nvmlDeviceGetMigDeviceHandleByIndex(device, index, mig);
	r = by_index(device, index, mig);
	guard_leave();
	return r;
}
