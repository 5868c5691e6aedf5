// SPDX-License-Identifier: Apache-2.0
/*
 * Which GPUs a job sees in NVML: those of its lease, as on a machine that has no others.
 *
 * Counted and numbered anew, in NVML's own order (that of the PCI addresses); looked up by UUID,
 * PCI address or serial number, what is outside of the lease is not found.  The driver answers
 * first, so that errors and NULL arguments are its own.  A lease of the whole machine is the
 * driver's affair altogether, and so is a handle of a MIG instance, which has a numbering of its
 * own inside its card.
 */
#include "shim/guard.h"
#include "shim/nvml_lease.h"
#include "shim/nvml_real.h"

#define TOPOLOGY_MAX 256 /* devices of a machine */

typedef nvmlReturn_t count_fn(unsigned int *count);
typedef nvmlReturn_t index_fn(unsigned int index, nvmlDevice_t *device);
typedef nvmlReturn_t name_fn(const char *name, nvmlDevice_t *device);

/* walk over the lease's devices; *ret_device is the one with number @wanted among them */
static nvmlReturn_t walk(count_fn *count_of, index_fn *at, unsigned wanted, unsigned *ret_count,
			 nvmlDevice_t *ret_device)
{
	unsigned n, seen = 0;
	nvmlDevice_t device;
	nvmlReturn_t r = count_of(&n);

	if (r)
		return r;
	for (unsigned i = 0; i < n; i++) {
		if (at(i, &device) || !nvml_lease_has(device))
			continue;
		if (seen++ == wanted && ret_device)
			*ret_device = device;
	}
	*ret_count = seen;
	return NVML_SUCCESS;
}

static nvmlReturn_t count(count_fn *real, index_fn *at, unsigned int *ret)
{
	nvmlReturn_t r = real(ret);

	if (r)
		return r;
	switch (nvml_lease_narrows()) {
	case NVML_LEASE_PASS:
		return NVML_SUCCESS;
	case NVML_LEASE_UNKNOWN:
		return NVML_ERROR_UNKNOWN;
	case NVML_LEASE_OURS:
		break;
	}
	return walk(real, at, 0, ret, NULL);
}

static nvmlReturn_t by_index(count_fn *count_of, index_fn *real, unsigned int index,
			     nvmlDevice_t *ret)
{
	nvmlDevice_t device = NULL;
	nvmlReturn_t r;
	unsigned n;

	if (!ret)
		return real(index, ret);
	switch (nvml_lease_narrows()) {
	case NVML_LEASE_PASS:
		return real(index, ret);
	case NVML_LEASE_UNKNOWN:
		r = real(index, &device);
		return r ? r : NVML_ERROR_UNKNOWN;
	case NVML_LEASE_OURS:
		break;
	}
	r = walk(count_of, real, index, &n, &device);
	if (r)
		return r;
	if (index >= n)
		return NVML_ERROR_INVALID_ARGUMENT;
	*ret = device;
	return NVML_SUCCESS;
}

/* what a look-up that the driver answered with SUCCESS becomes */
static nvmlReturn_t found(nvmlDevice_t device, nvmlDevice_t *ret)
{
	switch (nvml_lease_narrows()) {
	case NVML_LEASE_UNKNOWN:
		return NVML_ERROR_UNKNOWN;
	case NVML_LEASE_OURS:
		if (!nvml_lease_has(device))
			return NVML_ERROR_NOT_FOUND;
		break;
	case NVML_LEASE_PASS:
		break;
	}
	*ret = device;
	return NVML_SUCCESS;
}

static nvmlReturn_t by_name(name_fn *real, const char *name, nvmlDevice_t *ret)
{
	nvmlDevice_t device = NULL;
	nvmlReturn_t r = real(name, ret ? &device : NULL);

	return r || !ret ? r : found(device, ret);
}

static nvmlReturn_t index_of(nvmlDevice_t device, unsigned int *ret)
{
	nvmlReturn_t r = real_nvmlDeviceGetIndex(device, ret);
	unsigned n, before = 0;
	nvmlDevice_t at;

	if (r || nvml_lease_narrows() != NVML_LEASE_OURS || !nvml_lease_has(device) ||
	    real_nvmlDeviceGetCount_v2(&n))
		return r;
	for (unsigned i = 0; i < n; i++) {
		if (real_nvmlDeviceGetHandleByIndex_v2(i, &at))
			continue;
		if (at == device) {
			*ret = before;
			break;
		}
		before += nvml_lease_has(at);
	}
	return r;
}

/* a list of handles, less those outside; as NVML: room in, number out, what fits is filled */
static void narrow_list(const nvmlDevice_t *all, unsigned n, unsigned room, unsigned int *ret_count,
			nvmlDevice_t *ret)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < n; i++) {
		if (!nvml_lease_has(all[i]))
			continue;
		if (kept < room)
			ret[kept] = all[i];
		kept++;
	}
	*ret_count = kept;
}

#define COUNT(sym, by_index_sym)                                                         \
	nvmlReturn_t sym(unsigned int *ret)                                              \
	{                                                                                \
		nvmlReturn_t r;                                                          \
                                                                                         \
		if (!guard_enter())                                                      \
			return real_##sym(ret);                                          \
		r = ret ? count(real_##sym, real_##by_index_sym, ret) : real_##sym(ret); \
		guard_leave();                                                           \
		return r;                                                                \
	}

COUNT(nvmlDeviceGetCount, nvmlDeviceGetHandleByIndex)
COUNT(nvmlDeviceGetCount_v2, nvmlDeviceGetHandleByIndex_v2)

#define BY_INDEX(sym, count_sym)                                           \
	nvmlReturn_t sym(unsigned int index, nvmlDevice_t *device)         \
	{                                                                  \
		nvmlReturn_t r;                                            \
                                                                           \
		if (!guard_enter())                                        \
			return real_##sym(index, device);                  \
		r = by_index(real_##count_sym, real_##sym, index, device); \
		guard_leave();                                             \
		return r;                                                  \
	}

BY_INDEX(nvmlDeviceGetHandleByIndex, nvmlDeviceGetCount)
BY_INDEX(nvmlDeviceGetHandleByIndex_v2, nvmlDeviceGetCount_v2)

#define BY_NAME(sym)                                             \
	nvmlReturn_t sym(const char *name, nvmlDevice_t *device) \
	{                                                        \
		nvmlReturn_t r;                                  \
                                                                 \
		if (!guard_enter())                              \
			return real_##sym(name, device);         \
		r = by_name(real_##sym, name, device);           \
		guard_leave();                                   \
		return r;                                        \
	}

BY_NAME(nvmlDeviceGetHandleByUUID)
BY_NAME(nvmlDeviceGetHandleByPciBusId)
BY_NAME(nvmlDeviceGetHandleByPciBusId_v2)
BY_NAME(nvmlDeviceGetHandleBySerial)

nvmlReturn_t nvmlDeviceGetHandleByUUIDV(const nvmlUUID_t *uuid, nvmlDevice_t *device)
{
	nvmlDevice_t it = NULL;
	nvmlReturn_t r;

	if (!guard_enter())
		return real_nvmlDeviceGetHandleByUUIDV(uuid, device);
	r = real_nvmlDeviceGetHandleByUUIDV(uuid, device ? &it : NULL);
	if (!r && device)
		r = found(it, device);
	guard_leave();
	return r;
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *value)
{
	nvmlReturn_t r;

	if (!guard_enter())
		return real_nvmlDeviceGetIndex(device, value);
	r = index_of(device, value);
	guard_leave();
	return r;
}

nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device, nvmlGpuTopologyLevel_t level,
					      unsigned int *count, nvmlDevice_t *devices)
{
	nvmlDevice_t all[TOPOLOGY_MAX];
	unsigned n = TOPOLOGY_MAX, room;
	nvmlReturn_t r;

	if (!guard_enter())
		return real_nvmlDeviceGetTopologyNearestGpus(device, level, count, devices);
	if (!count || (*count && !devices) || nvml_lease_narrows() != NVML_LEASE_OURS) {
		r = real_nvmlDeviceGetTopologyNearestGpus(device, level, count, devices);
	} else {
		room = *count;
		r = real_nvmlDeviceGetTopologyNearestGpus(device, level, &n, all);
		if (!r)
			narrow_list(all, n < TOPOLOGY_MAX ? n : TOPOLOGY_MAX, room, count, devices);
	}
	guard_leave();
	return r;
}

nvmlReturn_t nvmlSystemGetTopologyGpuSet(unsigned int cpu, unsigned int *count,
					 nvmlDevice_t *devices)
{
	nvmlDevice_t all[TOPOLOGY_MAX];
	unsigned n = TOPOLOGY_MAX, room;
	nvmlReturn_t r;

	if (!guard_enter())
		return real_nvmlSystemGetTopologyGpuSet(cpu, count, devices);
	if (!count || (*count && !devices) || nvml_lease_narrows() != NVML_LEASE_OURS) {
		r = real_nvmlSystemGetTopologyGpuSet(cpu, count, devices);
	} else {
		room = *count;
		r = real_nvmlSystemGetTopologyGpuSet(cpu, &n, all);
		if (!r)
			narrow_list(all, n < TOPOLOGY_MAX ? n : TOPOLOGY_MAX, room, count, devices);
	}
	guard_leave();
	return r;
}
