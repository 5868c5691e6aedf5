// SPDX-License-Identifier: Apache-2.0
/* Which devices there are, and who they are. */
#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "base/fmt.h"
#include "base/parse.h"
#include "base/str.h"
#include "sim/nvml/nvml.h"

static nvmlReturn_t count_devices(enum nvml_sym symbol, unsigned int *count)
{
	nvmlReturn_t r = sim_nvml_enter(symbol);

	if (r)
		return r;
	if (!count)
		return NVML_ERROR_INVALID_ARGUMENT;
	*count = sim_nvml.device_count;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount(unsigned int *count)
{
	return count_devices(NVML_SYM_nvmlDeviceGetCount, count);
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
	return count_devices(NVML_SYM_nvmlDeviceGetCount_v2, count);
}

static nvmlReturn_t give(unsigned index, nvmlDevice_t *device)
{
	nvmlDevice_t found = &sim_nvml.devices[index];

	if (sim_nvml_is_lost(sim_nvml_card(found)->index))
		return NVML_ERROR_GPU_IS_LOST;
	if (sim_nvml_is_instance(found) && sim_nvml_is_gone(index - sim_nvml.device_count))
		return NVML_ERROR_NOT_FOUND;
	*device = found;
	return NVML_SUCCESS;
}

static nvmlReturn_t by_index(enum nvml_sym symbol, unsigned int index, nvmlDevice_t *device)
{
	nvmlReturn_t r = sim_nvml_enter(symbol);

	if (r)
		return r;
	if (!device || index >= sim_nvml.device_count)
		return NVML_ERROR_INVALID_ARGUMENT;
	return give(index, device);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device)
{
	return by_index(NVML_SYM_nvmlDeviceGetHandleByIndex, index, device);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
	return by_index(NVML_SYM_nvmlDeviceGetHandleByIndex_v2, index, device);
}

/* One hexadecimal number at *@at, which moves behind it; false when there is none. */
static bool read_hex(const char **at, unsigned *ret)
{
	const char *begin = *at;
	unsigned value = 0;

	for (; isxdigit((unsigned char)**at); (*at)++) {
		int c = tolower((unsigned char)**at);

		if (*at - begin == 8)
			return false;
		value = value << 4 | (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
	}
	*ret = value;
	return *at != begin;
}

/* "00000000:83:00.0", "0000:83:00.0", "83:00.0", with or without the function */
static bool read_bus_id(const char *s, unsigned *domain, unsigned *bus, unsigned *device)
{
	unsigned part[3], n = 0;

	do {
		if (n)
			s++;
		if (n == 3 || !read_hex(&s, &part[n++]))
			return false;
	} while (*s == ':');
	if (n < 2 || (*s && *s != '.'))
		return false;
	*domain = n == 3 ? part[0] : 0;
	*bus = part[n - 2];
	*device = part[n - 1];
	return true;
}

static nvmlReturn_t by_bus_id(enum nvml_sym symbol, const char *bus_id, nvmlDevice_t *device)
{
	nvmlReturn_t r = sim_nvml_enter(symbol);
	unsigned domain, bus, dev;

	if (r)
		return r;
	if (!bus_id || !device || !read_bus_id(bus_id, &domain, &bus, &dev))
		return NVML_ERROR_INVALID_ARGUMENT;
	for (unsigned i = 0; i < sim_nvml.device_count; i++) {
		const struct sim_device_info *info = sim_nvml.devices[i].info;

		if (info->pci_domain == domain && info->pci_bus == bus && info->pci_device == dev)
			return give(i, device);
	}
	return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *bus_id, nvmlDevice_t *device)
{
	return by_bus_id(NVML_SYM_nvmlDeviceGetHandleByPciBusId, bus_id, device);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *device)
{
	return by_bus_id(NVML_SYM_nvmlDeviceGetHandleByPciBusId_v2, bus_id, device);
}

static nvmlReturn_t by_uuid(const uint8_t uuid[16], nvmlDevice_t *device)
{
	for (unsigned i = 0; i < sim_nvml_devices(); i++)
		if (!memcmp(sim_nvml.devices[i].info->uuid, uuid, 16))
			return give(i, device);
	return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
	nvmlReturn_t r = sim_nvml_enter(NVML_SYM_nvmlDeviceGetHandleByUUID);
	uint8_t bytes[16];

	if (r)
		return r;
	if (!uuid || !device)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (parse_uuid(uuid, bytes, NULL))
		return NVML_ERROR_NOT_FOUND;
	return by_uuid(bytes, device);
}

nvmlReturn_t nvmlDeviceGetHandleByUUIDV(const nvmlUUID_t *uuid, nvmlDevice_t *device)
{
	nvmlReturn_t r = sim_nvml_enter(NVML_SYM_nvmlDeviceGetHandleByUUIDV);
	uint8_t bytes[16];

	if (r)
		return r;
	if (!uuid || !device)
		return NVML_ERROR_INVALID_ARGUMENT;
	r = sim_nvml_version(uuid->version, NVML_UUID_V1);
	if (r)
		return r;
	if (uuid->type == NVML_UUID_TYPE_BINARY)
		return by_uuid(uuid->value.bytes, device);
	if (uuid->type != NVML_UUID_TYPE_ASCII ||
	    !str_is_terminated(uuid->value.str, sizeof(uuid->value.str)))
		return NVML_ERROR_INVALID_ARGUMENT;
	if (parse_uuid(uuid->value.str, bytes, NULL))
		return NVML_ERROR_NOT_FOUND;
	return by_uuid(bytes, device);
}

struct text {
	char s[64];
};

static const char *serial(nvmlDevice_t device, struct text *t)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < 5; i++)
		n = n << 8 | device->info->uuid[i];
	(void)str_print(t->s, sizeof(t->s), "%013llu", (unsigned long long)n); /* fits */
	return t->s;
}

nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *wanted, nvmlDevice_t *device)
{
	nvmlReturn_t r = sim_nvml_enter(NVML_SYM_nvmlDeviceGetHandleBySerial);
	struct text t;

	if (r)
		return r;
	if (!wanted || !device)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (unsigned i = 0; i < sim_nvml.device_count; i++)
		if (!strcmp(serial(&sim_nvml.devices[i], &t), wanted))
			return give(i, device);
	return NVML_ERROR_NOT_FOUND;
}

SIM_NVML_GET_TEXT(nvmlDeviceGetName, device->info->name)
SIM_NVML_GET_TEXT(nvmlDeviceGetUUID,
		  fmt_uuid(&(struct fmt_buf){ "" }, sim_nvml_is_instance(device) ? "MIG-" : "GPU-",
			   device->info->uuid))
SIM_NVML_GET_TEXT(nvmlDeviceGetSerial, serial(device, &(struct text){ "" }))
SIM_NVML_GET(nvmlDeviceGetIndex, unsigned int,
	     sim_nvml_is_instance(device) ? device->info->mig_index : device->index)
SIM_NVML_GET(nvmlDeviceGetMinorNumber, unsigned int, sim_nvml_card(device)->index)
SIM_NVML_GET(nvmlDeviceGetBoardId, unsigned int,
	     device->info->pci_domain << 16 | device->info->pci_bus << 8 | device->info->pci_device)
SIM_NVML_GET(nvmlDeviceGetMultiGpuBoard, unsigned int, 0)
SIM_NVML_GET(nvmlDeviceGetBusType, nvmlBusType_t, NVML_BUS_TYPE_PCIE)
SIM_NVML_GET(nvmlDeviceGetMemoryBusWidth, unsigned int, device->info->bus_width_bits)

static nvmlDeviceArchitecture_t architecture(nvmlDevice_t device)
{
	switch (device->info->cc_major * 10 + device->info->cc_minor) {
	case 70:
	case 72:
		return NVML_DEVICE_ARCH_VOLTA;
	case 75:
		return NVML_DEVICE_ARCH_TURING;
	case 80:
	case 86:
	case 87:
		return NVML_DEVICE_ARCH_AMPERE;
	case 89:
		return NVML_DEVICE_ARCH_ADA;
	case 90:
		return NVML_DEVICE_ARCH_HOPPER;
	case 100:
	case 103:
	case 120:
		return NVML_DEVICE_ARCH_BLACKWELL;
	default:
		return NVML_DEVICE_ARCH_UNKNOWN;
	}
}

/* a graphics architecture has 128 cores a multiprocessor since 8.6, a data centre one 64 or 128 */
static unsigned cores(nvmlDevice_t device)
{
	unsigned cc = device->info->cc_major * 10 + device->info->cc_minor;

	return device->info->sms * (cc >= 86 ? 128 : 64);
}

static nvmlBrandType_t brand(nvmlDevice_t device)
{
	if (strstr(device->info->name, "GeForce"))
		return NVML_BRAND_GEFORCE;
	return strstr(device->info->name, "RTX") ? NVML_BRAND_NVIDIA_RTX : NVML_BRAND_NVIDIA;
}

SIM_NVML_GET(nvmlDeviceGetArchitecture, nvmlDeviceArchitecture_t, architecture(device))
SIM_NVML_GET(nvmlDeviceGetNumGpuCores, unsigned int, cores(device))
SIM_NVML_GET(nvmlDeviceGetBrand, nvmlBrandType_t, brand(device))

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
	nvmlReturn_t r = sim_nvml_enter_device(NVML_SYM_nvmlDeviceGetCudaComputeCapability, device);

	if (r)
		return r;
	if (!major || !minor)
		return NVML_ERROR_INVALID_ARGUMENT;
	*major = (int)device->info->cc_major;
	*minor = (int)device->info->cc_minor;
	return NVML_SUCCESS;
}

/* the H200's; the other simulated boards have no ids of their own */
#define PCI_DEVICE_ID    0x233510deu
#define PCI_SUBSYSTEM_ID 0x18bf10deu

static void short_bus_id(nvmlDevice_t device, char buf[16])
{
	(void)str_print(buf, 16, "%04X:%02X:%02X.0", device->info->pci_domain & 0xffffu,
			device->info->pci_bus & 0xffu, device->info->pci_device & 0x1fu);
}

static void long_bus_id(nvmlDevice_t device, char buf[32])
{
	(void)str_print(buf, 32, "%08X:%02X:%02X.0", device->info->pci_domain,
			device->info->pci_bus & 0xffu, device->info->pci_device & 0x1fu);
}

nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_v1_t *pci)
{
	nvmlReturn_t r = sim_nvml_enter_device(NVML_SYM_nvmlDeviceGetPciInfo, device);

	if (r)
		return r;
	if (!pci)
		return NVML_ERROR_INVALID_ARGUMENT;
	*pci = (nvmlPciInfo_v1_t){ .domain = device->info->pci_domain,
				   .bus = device->info->pci_bus,
				   .device = device->info->pci_device,
				   .pciDeviceId = PCI_DEVICE_ID };
	short_bus_id(device, pci->busId);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_v2_t *pci)
{
	nvmlReturn_t r = sim_nvml_enter_device(NVML_SYM_nvmlDeviceGetPciInfo_v2, device);

	if (r)
		return r;
	if (!pci)
		return NVML_ERROR_INVALID_ARGUMENT;
	*pci = (nvmlPciInfo_v2_t){ .domain = device->info->pci_domain,
				   .bus = device->info->pci_bus,
				   .device = device->info->pci_device,
				   .pciDeviceId = PCI_DEVICE_ID,
				   .pciSubSystemId = PCI_SUBSYSTEM_ID };
	short_bus_id(device, pci->busId);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
	nvmlReturn_t r = sim_nvml_enter_device(NVML_SYM_nvmlDeviceGetPciInfo_v3, device);

	if (r)
		return r;
	if (!pci)
		return NVML_ERROR_INVALID_ARGUMENT;
	*pci = (nvmlPciInfo_t){ .domain = device->info->pci_domain,
				.bus = device->info->pci_bus,
				.device = device->info->pci_device,
				.pciDeviceId = PCI_DEVICE_ID,
				.pciSubSystemId = PCI_SUBSYSTEM_ID };
	short_bus_id(device, pci->busIdLegacy);
	long_bus_id(device, pci->busId);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t device, nvmlPciInfoExt_t *pci)
{
	nvmlReturn_t r = sim_nvml_enter_device(NVML_SYM_nvmlDeviceGetPciInfoExt, device);

	if (r)
		return r;
	if (!pci)
		return NVML_ERROR_INVALID_ARGUMENT;
	r = sim_nvml_version(pci->version, NVML_PCI_INFO_EXT_V1);
	if (r)
		return r;
	*pci = (nvmlPciInfoExt_t){ .version = NVML_PCI_INFO_EXT_V1,
				   .domain = device->info->pci_domain,
				   .bus = device->info->pci_bus,
				   .device = device->info->pci_device,
				   .pciDeviceId = PCI_DEVICE_ID,
				   .pciSubSystemId = PCI_SUBSYSTEM_ID,
				   .baseClass = 3,
				   .subClass = 2 };
	long_bus_id(device, pci->busId);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPdi(nvmlDevice_t device, nvmlPdi_t *pdi)
{
	nvmlReturn_t r = sim_nvml_enter_device(NVML_SYM_nvmlDeviceGetPdi, device);

	if (r)
		return r;
	if (!pdi)
		return NVML_ERROR_INVALID_ARGUMENT;
	r = sim_nvml_version(pdi->version, NVML_PDI_V1);
	if (r)
		return r;
	memcpy(&pdi->value, device->info->uuid + 8, sizeof(pdi->value));
	return NVML_SUCCESS;
}
