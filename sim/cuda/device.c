// SPDX-License-Identifier: Apache-2.0
/* What a device is: names, numbers, addresses, and who can reach whom. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "sim/cuda/memory.h"

struct sim_device *sim_device(CUdevice ordinal)
{
	if (ordinal < 0 || (unsigned)ordinal >= sim.device_count)
		return NULL;
	return &sim.devices[ordinal];
}

CUresult cuDriverGetVersion(int *driverVersion)
{
	return SIM_CALL(cuDriverGetVersion, SIM_NO_INIT,
			driverVersion ? (*driverVersion = SIM_CUDA_VERSION, CUDA_SUCCESS)
				      : CUDA_ERROR_INVALID_VALUE,
			"");
}

CUresult cuDeviceGetCount(int *count)
{
	return SIM_CALL(cuDeviceGetCount, SIM_INIT,
			count ? (*count = (int)sim.device_count, CUDA_SUCCESS)
			      : CUDA_ERROR_INVALID_VALUE,
			"");
}

static CUresult device_get(CUdevice *device, int ordinal)
{
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device(ordinal))
		return CUDA_ERROR_INVALID_DEVICE;
	*device = ordinal;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	return SIM_CALL(cuDeviceGet, SIM_INIT, device_get(device, ordinal), "ordinal=%d", ordinal);
}

static CUresult device_name(char *name, int len, const struct sim_device *device)
{
	if (!name || len <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	str_copy(name, (size_t)len, device->info->name);
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int len, CUdevice dev)
{
	return SIM_CALL(cuDeviceGetName, SIM_INIT, device_name(name, len, sim_device(dev)),
			"dev=%d", dev);
}

static CUresult device_uuid(CUuuid *uuid, const struct sim_device *device)
{
	if (!uuid)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	_Static_assert(sizeof(uuid->bytes) == sizeof(device->info->uuid), "a UUID has 16 bytes");
	memcpy(uuid->bytes, device->info->uuid, sizeof(uuid->bytes));
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
	return SIM_CALL(cuDeviceGetUuid, SIM_INIT, device_uuid(uuid, sim_device(dev)), "dev=%d",
			dev);
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
	return SIM_CALL(cuDeviceGetUuid_v2, SIM_INIT, device_uuid(uuid, sim_device(dev)), "dev=%d",
			dev);
}

static CUresult device_luid(char *luid, const unsigned int *mask, CUdevice dev)
{
	if (!luid || !mask)
		return CUDA_ERROR_INVALID_VALUE;
	/* LUIDs are Windows' */
	return sim_device(dev) ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetLuid(char *luid, unsigned int *deviceNodeMask, CUdevice dev)
{
	return SIM_CALL(cuDeviceGetLuid, SIM_INIT, device_luid(luid, deviceNodeMask, dev), "dev=%d",
			dev);
}

uint64_t sim_device_total_bytes(const struct sim_device *device)
{
	return size_sat_sub(device->info->memory_bytes, device->info->reserved_bytes);
}

static CUresult device_total(size_t *bytes, const struct sim_device *device)
{
	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	*bytes = sim_device_total_bytes(device);
	return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
	if (bytes) /* first of all, whatever comes of the call */
		*bytes = 0;
	return SIM_CALL(cuDeviceTotalMem_v2, SIM_INIT, device_total(bytes, sim_device(dev)),
			"dev=%d", dev);
}

static CUresult device_cc(int *major, int *minor, const struct sim_device *device)
{
	if (!major || !minor)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	*major = (int)device->info->cc_major;
	*minor = (int)device->info->cc_minor;
	return CUDA_SUCCESS;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
	return SIM_CALL(cuDeviceComputeCapability, SIM_INIT,
			device_cc(major, minor, sim_device(dev)), "dev=%d", dev);
}

static CUresult device_properties(CUdevprop *prop, const struct sim_device *device)
{
	if (!prop)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	*prop = (CUdevprop){
		.maxThreadsPerBlock = 1024,
		.maxThreadsDim = { 1024, 1024, 64 },
		.maxGridSize = { 2147483647, 65535, 65535 },
		.sharedMemPerBlock = 49152,
		.totalConstantMemory = 65536,
		.SIMDWidth = 32,
		.memPitch = 2147483647,
		.regsPerBlock = 65536,
		.clockRate = (int)device->info->clock_khz,
		.textureAlign = 512,
	};
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetProperties(CUdevprop *prop, CUdevice dev)
{
	return SIM_CALL(cuDeviceGetProperties, SIM_INIT, device_properties(prop, sim_device(dev)),
			"dev=%d", dev);
}

/* PCI. */

static CUresult pci_id(char *id, int len, const struct sim_device *device)
{
	char text[32];

	if (!id || len <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	snprintf(text, sizeof(text), "%04X:%02X:%02X.0", device->info->pci_domain,
		 device->info->pci_bus, device->info->pci_device);
	return str_copy(id, (size_t)len, text) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev)
{
	return SIM_CALL(cuDeviceGetPCIBusId, SIM_INIT, pci_id(pciBusId, len, sim_device(dev)),
			"dev=%d", dev);
}

static CUresult by_pci_id(CUdevice *dev, const char *id)
{
	unsigned domain = 0, bus = 0, slot = 0, function = 0;

	if (!dev || !id)
		return CUDA_ERROR_INVALID_VALUE;
	/* [domain]:[bus]:[device].[function], [domain]:[bus]:[device] or [bus]:[device].[function]
	 */
	if (sscanf(id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3) {
		domain = 0;
		if (sscanf(id, "%x:%x.%x", &bus, &slot, &function) != 3)
			return CUDA_ERROR_INVALID_VALUE;
	}
	for (unsigned i = 0; i < sim.device_count; i++) {
		const struct sim_device_info *info = sim.devices[i].info;

		if (info->pci_domain == domain && info->pci_bus == bus &&
		    info->pci_device == slot && !function) {
			*dev = (CUdevice)i;
			return CUDA_SUCCESS;
		}
	}
	return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId)
{
	return SIM_CALL(cuDeviceGetByPCIBusId, SIM_INIT, by_pci_id(dev, pciBusId), "id=%s",
			pciBusId ? pciBusId : "NULL");
}

/* Peers: every card reaches every other, over PCIe. */

static CUresult can_access(int *can, CUdevice dev, CUdevice peer)
{
	if (!can)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device(dev) || !sim_device(peer))
		return CUDA_ERROR_INVALID_DEVICE;
	*can = dev != peer;
	return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev)
{
	return SIM_CALL(cuDeviceCanAccessPeer, SIM_INIT, can_access(canAccessPeer, dev, peerDev),
			"dev=%d peer=%d", dev, peerDev);
}

static CUresult p2p_attribute(int *value, CUdevice_P2PAttribute attrib, CUdevice from, CUdevice to)
{
	if (!value || attrib < CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK ||
	    attrib > CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device(from) || !sim_device(to) || from == to)
		return CUDA_ERROR_INVALID_DEVICE;
	*value = attrib == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED ||
		 attrib == CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib, CUdevice srcDevice,
				 CUdevice dstDevice)
{
	return SIM_CALL(cuDeviceGetP2PAttribute, SIM_INIT,
			p2p_attribute(value, attrib, srcDevice, dstDevice),
			"attrib=%d src=%d dst=%d", (int)attrib, srcDevice, dstDevice);
}

static CUresult exec_affinity(int *pi, CUexecAffinityType type, CUdevice dev)
{
	if (!pi)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	*pi = 0; /* of any type: only under MPS */
	(void)type;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetExecAffinitySupport(int *pi, CUexecAffinityType type, CUdevice dev)
{
	return SIM_CALL(cuDeviceGetExecAffinitySupport, SIM_INIT, exec_affinity(pi, type, dev),
			"type=%d dev=%d", (int)type, dev);
}

static CUresult texture_width(size_t *width, CUarray_format format, unsigned channels, CUdevice dev)
{
	uint64_t element = (uint64_t)sim_format_bytes(format) * channels;

	if (!width || !element || (channels != 1 && channels != 2 && channels != 4))
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	*width = size_min((uint64_t)1 << 30, ((uint64_t)1 << 32) / element);
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t *maxWidthInElements, CUarray_format format,
					    unsigned numChannels, CUdevice dev)
{
	return SIM_CALL(cuDeviceGetTexture1DLinearMaxWidth, SIM_INIT,
			texture_width(maxWidthInElements, format, numChannels, dev),
			"format=%d channels=%u dev=%d", (int)format, numChannels, dev);
}
