// SPDX-License-Identifier: Apache-2.0
/*
 * An NVML that answers whatever it likes: results, texts without an end, counts beyond the room it
 * was given or growing from one call to the next, figures of any size.  What we make of it has no
 * pid twice, no more of anything than there is room for, and texts that end.
 */
#include "fuzz.h"
#include "fuzz_text.h"
#include "gpu/nvml.c" /* the readers, with a library of our own under them */

static const uint8_t *bytes;
static size_t left;

static void fill(void *to, size_t size)
{
	size_t n = size < left ? size : left;

	if (n)
		memcpy(to, bytes, n);
	memset((char *)to + n, n ? ((char *)to)[n - 1] : 0, size - n);
	bytes += n;
	left -= n;
}

static unsigned number(void)
{
	unsigned v;

	fill(&v, sizeof(v));
	return v;
}

/* mostly success, so that the readers go on */
static nvmlReturn_t result(void)
{
	uint8_t v = 0;

	fill(&v, 1);
	return v < 224 ? NVML_SUCCESS : (nvmlReturn_t)(v == 255 ? 999 : v - 224);
}

#define TEXT(symbol)                                                           \
	static nvmlReturn_t fake_##symbol(nvmlDevice_t d, char *s, unsigned n) \
	{                                                                      \
		(void)d;                                                       \
		fill(s, n);                                                    \
		return result();                                               \
	}
#define NUMBER(symbol)                                                 \
	static nvmlReturn_t fake_##symbol(nvmlDevice_t d, unsigned *v) \
	{                                                              \
		(void)d;                                               \
		*v = number();                                         \
		return result();                                       \
	}
#define STRUCT(symbol, type)                                       \
	static nvmlReturn_t fake_##symbol(nvmlDevice_t d, type *v) \
	{                                                          \
		(void)d;                                           \
		fill(v, sizeof(*v));                               \
		return result();                                   \
	}
#define LIST(symbol, type)                                                      \
	static nvmlReturn_t fake_##symbol(nvmlDevice_t d, unsigned *n, type *v) \
	{                                                                       \
		unsigned said = number(), room = *n;                            \
                                                                                \
		(void)d;                                                        \
		fill(v, (said < room ? said : room) * sizeof(*v));              \
		*n = said;                                                      \
		return result();                                                \
	}

TEXT(nvmlDeviceGetUUID)
TEXT(nvmlDeviceGetName)
NUMBER(nvmlDeviceGetPowerUsage)
NUMBER(nvmlDeviceGetEnforcedPowerLimit)
NUMBER(nvmlDeviceGetGpuInstanceId)
NUMBER(nvmlDeviceGetComputeInstanceId)
STRUCT(nvmlDeviceGetMemoryInfo, nvmlMemory_t)
STRUCT(nvmlDeviceGetMemoryInfo_v2, nvmlMemory_v2_t)
STRUCT(nvmlDeviceGetUtilizationRates, nvmlUtilization_t)
STRUCT(nvmlDeviceGetPciInfo_v3, nvmlPciInfo_t)
STRUCT(nvmlDeviceGetAttributes_v2, nvmlDeviceAttributes_t)
LIST(nvmlDeviceGetComputeRunningProcesses, nvmlProcessInfo_v1_t)
LIST(nvmlDeviceGetComputeRunningProcesses_v3, nvmlProcessInfo_t)

static nvmlReturn_t fake_count(unsigned *n)
{
	*n = number();
	return result();
}

static nvmlReturn_t fake_handle(unsigned index, nvmlDevice_t *device)
{
	(void)index;
	*device = NULL;
	return result();
}

static nvmlReturn_t fake_instance(nvmlDevice_t d, unsigned index, nvmlDevice_t *device)
{
	(void)d;
	return fake_handle(index, device);
}

static nvmlReturn_t fake_temperature(nvmlDevice_t d, nvmlTemperatureSensors_t which, unsigned *v)
{
	(void)which;
	return fake_nvmlDeviceGetPowerUsage(d, v);
}

static nvmlReturn_t fake_mig_mode(nvmlDevice_t d, unsigned *current, unsigned *pending)
{
	(void)d;
	*current = number() & 1;
	*pending = number() & 1;
	return result();
}

static nvmlReturn_t fake_version(char *s, unsigned n)
{
	fill(s, n);
	return result();
}

static nvmlReturn_t fake_init(void)
{
	return NVML_SUCCESS;
}

static void set_up(struct gpu_nvml *nvml, bool is_old)
{
	struct api *api = &nvml->api;

	api->nvmlInit_v2 = fake_init;
	api->nvmlDeviceGetCount_v2 = fake_count;
	api->nvmlDeviceGetHandleByIndex_v2 = fake_handle;
	api->nvmlDeviceGetUUID = fake_nvmlDeviceGetUUID;
	api->nvmlDeviceGetMemoryInfo = fake_nvmlDeviceGetMemoryInfo;
	api->nvmlSystemGetDriverVersion = fake_version;
	api->nvmlDeviceGetName = fake_nvmlDeviceGetName;
	api->nvmlDeviceGetPciInfo_v3 = fake_nvmlDeviceGetPciInfo_v3;
	api->nvmlDeviceGetUtilizationRates = fake_nvmlDeviceGetUtilizationRates;
	api->nvmlDeviceGetTemperature = fake_temperature;
	api->nvmlDeviceGetPowerUsage = fake_nvmlDeviceGetPowerUsage;
	api->nvmlDeviceGetEnforcedPowerLimit = fake_nvmlDeviceGetEnforcedPowerLimit;
	api->nvmlDeviceGetComputeRunningProcesses = fake_nvmlDeviceGetComputeRunningProcesses;
	api->nvmlDeviceGetGraphicsRunningProcesses = fake_nvmlDeviceGetComputeRunningProcesses;
	if (is_old)
		return;
	api->nvmlDeviceGetMemoryInfo_v2 = fake_nvmlDeviceGetMemoryInfo_v2;
	api->nvmlDeviceGetComputeRunningProcesses_v3 = fake_nvmlDeviceGetComputeRunningProcesses_v3;
	api->nvmlDeviceGetGraphicsRunningProcesses_v3 =
		fake_nvmlDeviceGetComputeRunningProcesses_v3;
	api->nvmlDeviceGetMigMode = fake_mig_mode;
	api->nvmlDeviceGetMigDeviceHandleByIndex = fake_instance;
	api->nvmlDeviceGetAttributes_v2 = fake_nvmlDeviceGetAttributes_v2;
	api->nvmlDeviceGetGpuInstanceId = fake_nvmlDeviceGetGpuInstanceId;
	api->nvmlDeviceGetComputeInstanceId = fake_nvmlDeviceGetComputeInstanceId;
}

static void check_text(const char *s, size_t size)
{
	if (!memchr(s, '\0', size))
		abort();
	for (; *s; s++)
		if ((unsigned char)*s < ' ' || *s == 0x7f) /* nothing that steers a terminal */
			abort();
}

static void check(const struct gpu_sample *s)
{
	if (s->n_procs > GPU_PROCS_MAX || s->index >= GPU_MAX)
		abort();
	if ((s->valid & GPU_HAS_NAME) && !memchr(s->name, '\0', sizeof(s->name)))
		abort();
	if (s->valid & GPU_HAS_NAME)
		check_text(s->name, sizeof(s->name));
	if (s->valid & GPU_HAS_PCI)
		check_text(s->pci_bus_id, sizeof(s->pci_bus_id));
	for (unsigned i = 1; i < s->n_procs; i++)
		if (s->procs[i].pid == s->procs[i - 1].pid)
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct gpu_sample sample;
	struct gpu_nvml *nvml = calloc(1, sizeof(*nvml));
	struct err err = { 0 };
	int n;

	if (!nvml)
		return 0;
	bytes = data;
	left = size;
	set_up(nvml, size && *data & 1);
	if (init(nvml, &err) == 0)
		check_text(nvml->driver_version, sizeof(nvml->driver_version));
	choose_lists(nvml);
	for (unsigned round = 0; round < 2; round++) {
		n = gpu_nvml_count(nvml, &err);
		if (n > GPU_MAX)
			abort();
		for (int i = 0; i < n; i++) {
			gpu_nvml_sample_one(nvml, (unsigned)i, &sample);
			check(&sample);
			if (gpu_nvml_sample_instance(nvml, (unsigned)i, (unsigned)i % GPU_INSTANCES,
						     &sample))
				check(&sample);
		}
	}
	free(nvml);
	return 0;
}
