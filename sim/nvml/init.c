// SPDX-License-Identifier: Apache-2.0
/* Initialisation, the machine as a whole, and what every call does first. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "sim/nvml/nvml.h"

struct sim_nvml sim_nvml = { .lock = PTHREAD_MUTEX_INITIALIZER };

static nvmlReturn_t open_state(void)
{
	struct sim_state *state;
	const struct sim_profile *profile;

	if (sim_state_dir(&sim_nvml, sim_nvml.dir, sizeof(sim_nvml.dir), NULL) < 0 ||
	    sim_state_open(sim_nvml.dir, &state, NULL) < 0)
		return NVML_ERROR_DRIVER_NOT_LOADED;
	/* A child of fork abandons what it inherited: another process's lock may be in it. */
	sim_nvml.state = state;
	sim_nvml.opened_by = getpid();
	profile = sim_state_profile(state);
	sim_nvml.device_count = profile->device_count;
	for (unsigned i = 0; i < SIM_DEVICES_MAX; i++) {
		sim_nvml.devices[i].index = i;
		sim_nvml.devices[i].info = &profile->devices[i];
	}
	return NVML_SUCCESS;
}

static nvmlReturn_t init(enum nvml_sym symbol)
{
	nvmlReturn_t r = NVML_SUCCESS;

	pthread_mutex_lock(&sim_nvml.lock);
	if (!sim_nvml.state || sim_nvml.opened_by != getpid())
		r = open_state();
	pthread_mutex_unlock(&sim_nvml.lock);
	if (!r)
		r = sim_nvml_fault(symbol);
	if (r)
		return r;
	pthread_mutex_lock(&sim_nvml.lock);
	sim_nvml.init_count++;
	pthread_mutex_unlock(&sim_nvml.lock);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlInit(void)
{
	return init(NVML_SYM_nvmlInit);
}

nvmlReturn_t nvmlInit_v2(void)
{
	return init(NVML_SYM_nvmlInit_v2);
}

nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
	(void)flags; /* there are GPUs, and attaching them costs nothing here */
	return init(NVML_SYM_nvmlInitWithFlags);
}

nvmlReturn_t nvmlShutdown(void)
{
	nvmlReturn_t r = sim_nvml_enter(NVML_SYM_nvmlShutdown);

	if (r)
		return r;
	pthread_mutex_lock(&sim_nvml.lock);
	if (!sim_nvml.init_count) {
		r = NVML_ERROR_UNINITIALIZED;
	} else if (--sim_nvml.init_count == 0) {
		sim_state_close(sim_nvml.state);
		sim_nvml.state = NULL;
	}
	pthread_mutex_unlock(&sim_nvml.lock);
	return r;
}

nvmlReturn_t sim_nvml_enter(enum nvml_sym symbol)
{
	nvmlReturn_t r = NVML_SUCCESS;

	pthread_mutex_lock(&sim_nvml.lock);
	if (!sim_nvml.init_count)
		r = NVML_ERROR_UNINITIALIZED;
	else if (sim_nvml.opened_by != getpid())
		r = open_state();
	pthread_mutex_unlock(&sim_nvml.lock);
	return r ? r : sim_nvml_fault(symbol);
}

nvmlReturn_t sim_nvml_enter_device(enum nvml_sym symbol, nvmlDevice_t device)
{
	nvmlReturn_t r = sim_nvml_enter(symbol);
	uintptr_t offset = (uintptr_t)device - (uintptr_t)sim_nvml.devices;

	if (r)
		return r;
	if (offset % sizeof(*device) || offset / sizeof(*device) >= sim_nvml_devices())
		return NVML_ERROR_INVALID_ARGUMENT;
	if (sim_nvml_is_instance(device) && sim_nvml_is_gone(device->index - sim_nvml.device_count))
		return NVML_ERROR_INVALID_ARGUMENT;
	return sim_nvml_is_lost(sim_nvml_card(device)->index) ? NVML_ERROR_GPU_IS_LOST
							      : NVML_SUCCESS;
}

nvmlReturn_t sim_nvml_text(char *buf, unsigned length, const char *text)
{
	if (!buf)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (strlen(text) >= length)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	memcpy(buf, text, strlen(text) + 1);
	return NVML_SUCCESS;
}

const char *nvmlErrorString(nvmlReturn_t result)
{
	return nvml_result_text(result);
}

/* nvidia-smi asks for private tables; there are none to give */
nvmlReturn_t nvmlInternalGetExportTable(const void **table, const void *id)
{
	nvmlReturn_t r = sim_nvml_enter(NVML_SYM_nvmlInternalGetExportTable);

	if (r)
		return r;
	if (!table || !id)
		return NVML_ERROR_INVALID_ARGUMENT;
	*table = NULL;
	return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
	nvmlReturn_t r = sim_nvml_enter(NVML_SYM_nvmlSystemGetDriverVersion);

	return r ? r
		 : sim_nvml_text(version, length,
				 sim_state_profile(sim_nvml.state)->driver_version);
}

/* "13.580.159.04": the interface's version before the driver's */
nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
	nvmlReturn_t r = sim_nvml_enter(NVML_SYM_nvmlSystemGetNVMLVersion);
	const struct sim_profile *profile;
	char text[96];

	if (r)
		return r;
	profile = sim_state_profile(sim_nvml.state);
	if (!str_print(text, sizeof(text), "%u.%s", profile->cuda_version / 1000,
		       profile->driver_version))
		return NVML_ERROR_UNKNOWN;
	return sim_nvml_text(version, length, text);
}

static nvmlReturn_t cuda_version(enum nvml_sym symbol, int *version)
{
	nvmlReturn_t r = sim_nvml_enter(symbol);

	if (r)
		return r;
	if (!version)
		return NVML_ERROR_INVALID_ARGUMENT;
	*version = (int)sim_state_profile(sim_nvml.state)->cuda_version;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
	return cuda_version(NVML_SYM_nvmlSystemGetCudaDriverVersion, version);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
	return cuda_version(NVML_SYM_nvmlSystemGetCudaDriverVersion_v2, version);
}

/* the process's first argument, cut to what fits, as the real library does */
nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length)
{
	nvmlReturn_t r = sim_nvml_enter(NVML_SYM_nvmlSystemGetProcessName);
	char path[40], text[4096];
	ssize_t n;

	if (r)
		return r;
	if (!name || !length)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (!str_print(path, sizeof(path), "/proc/%u/cmdline", pid))
		return NVML_ERROR_UNKNOWN;
	n = fd_read_file(AT_FDCWD, path, text, sizeof(text));
	if (n == -EACCES || n == -EPERM)
		return NVML_ERROR_NO_PERMISSION;
	if (n <= 0 && n != -EFBIG)
		return NVML_ERROR_NOT_FOUND;
	text[sizeof(text) - 1] = '\0';
	(void)str_copy(name, length, text); /* cut on purpose */
	return NVML_SUCCESS;
}

static nvmlReturn_t none(enum nvml_sym symbol, unsigned int *count)
{
	nvmlReturn_t r = sim_nvml_enter(symbol);

	if (r)
		return r;
	if (!count)
		return NVML_ERROR_INVALID_ARGUMENT;
	*count = 0;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlUnitGetCount(unsigned int *count)
{
	return none(NVML_SYM_nvmlUnitGetCount, count);
}

nvmlReturn_t nvmlGetExcludedDeviceCount(unsigned int *count)
{
	return none(NVML_SYM_nvmlGetExcludedDeviceCount, count);
}

nvmlReturn_t nvmlGetBlacklistDeviceCount(unsigned int *count)
{
	return none(NVML_SYM_nvmlGetBlacklistDeviceCount, count);
}

nvmlReturn_t nvmlSystemGetHicVersion(unsigned int *count, void *entries)
{
	(void)entries;
	return none(NVML_SYM_nvmlSystemGetHicVersion, count);
}

/* all devices hang on all CPUs of a simulated machine */
nvmlReturn_t nvmlSystemGetTopologyGpuSet(unsigned int cpu, unsigned int *count,
					 nvmlDevice_t *devices)
{
	nvmlReturn_t r = sim_nvml_enter(NVML_SYM_nvmlSystemGetTopologyGpuSet);
	unsigned room;

	if (r)
		return r;
	if (!count || (long)cpu >= sysconf(_SC_NPROCESSORS_CONF) || (*count && !devices))
		return NVML_ERROR_INVALID_ARGUMENT;
	room = *count;
	*count = sim_nvml.device_count;
	for (unsigned i = 0; i < room && i < sim_nvml.device_count; i++)
		devices[i] = &sim_nvml.devices[i];
	return NVML_SUCCESS;
}
