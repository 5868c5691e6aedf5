// SPDX-License-Identifier: Apache-2.0
/* What the driver says about a device. */
#include "conform.h"

#include <stdio.h>
#include <string.h>

static void get(void)
{
	POISONED_INT(dev);
	CALL(cuDeviceGet, &dev, 0);
	INT(dev);
	dev = POISON_32;
	CALL(cuDeviceGet, &dev, -1);
	INT(dev);
	CALL(cuDeviceGet, &dev, 4096);
	INT(dev);
	CALL(cuDeviceGet, NULL, 0);
	CALL(cuDeviceGetCount, NULL);
}

static void name(void)
{
	char text[128];
	memset(text, '#', sizeof(text));
	CALL(cuDeviceGetName, text, 128, 0);
	STR(text);
	memset(text, '#', sizeof(text));
	CALL(cuDeviceGetName, text, 7, 0);
	text[10] = 0;
	STR(text);
	memset(text, '#', sizeof(text));
	CALL(cuDeviceGetName, text, 0, 0);
	text[2] = 0;
	STR(text);
	CALL(cuDeviceGetName, text, -1, 0);
	CALL(cuDeviceGetName, NULL, 128, 0);
	CALL(cuDeviceGetName, text, 128, -1);
	CALL(cuDeviceGetName, text, 128, 4096);
}

static void total(void)
{
	POISONED_SIZE(bytes);
	CALL(cuDeviceTotalMem_v2, &bytes, 0);
	SIZE(bytes);
	bytes = POISON_64;
	CALL(cuDeviceTotalMem_v2, &bytes, -1);
	SIZE(bytes);
	CALL(cuDeviceTotalMem_v2, &bytes, 4096);
	SIZE(bytes);
	CALL(cuDeviceTotalMem_v2, NULL, 0);
}

static void capability(void)
{
	POISONED_INT(major);
	POISONED_INT(minor);
	CALL(cuDeviceComputeCapability, &major, &minor, 0);
	INT(major);
	INT(minor);
	CALL(cuDeviceComputeCapability, NULL, &minor, 0);
	CALL(cuDeviceComputeCapability, &major, NULL, 0);
	CALL(cuDeviceComputeCapability, &major, &minor, -1);
}

static void properties(void)
{
	CUdevprop prop;
	memset(&prop, 0, sizeof(prop));
	CALL(cuDeviceGetProperties, &prop, 0);
	INT(prop.maxThreadsPerBlock);
	INT(prop.maxThreadsDim[0]);
	INT(prop.maxThreadsDim[2]);
	INT(prop.maxGridSize[0]);
	INT(prop.sharedMemPerBlock);
	INT(prop.totalConstantMemory);
	INT(prop.SIMDWidth);
	INT(prop.memPitch);
	INT(prop.regsPerBlock);
	INT(prop.textureAlign);
	CALL(cuDeviceGetProperties, NULL, 0);
	CALL(cuDeviceGetProperties, &prop, -1);
}

/* attributes that say where the card sits, or how fast it may run, not what it is */
static bool is_of_the_host(int a)
{
	return a == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID || a == CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID ||
	       a == CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID || a == CU_DEVICE_ATTRIBUTE_NUMA_ID ||
	       a == CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID;
}

static void attributes(void)
{
	char text[40];
	for (int a = 0; a <= 150; a++) {
		int value = POISON_32;
		CUresult r = QUIET(cuDeviceGetAttribute, &value, (CUdevice_attribute)a, 0);
		out_flush();
		out_append("attribute %d → %s", a, result_text(r, text));
		if (r == CUDA_SUCCESS && is_of_the_host(a))
			out_append(" (the host's)");
		else
			INT(value);
	}
}

static void attribute_errors(void)
{
	POISONED_INT(value);
	CALL(cuDeviceGetAttribute, NULL, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0);
	CALL(cuDeviceGetAttribute, &value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, -1);
	INT(value);
	CALL(cuDeviceGetAttribute, &value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 4096);
	INT(value);
	CALL(cuDeviceGetAttribute, &value, (CUdevice_attribute)-1, 0);
	INT(value);
	CALL(cuDeviceGetAttribute, &value, (CUdevice_attribute)100000, 0);
	INT(value);
}

static void uuid(void)
{
	CUuuid a, b;
	char luid[8];
	POISONED_UINT(mask);
	CALL(cuDeviceGetUuid_v2, &a, 0);
	CALL(cuDeviceGetUuid, &b, 0);
	YES(memcmp(&a, &b, sizeof(a)) == 0);
	CALL(cuDeviceGetUuid_v2, NULL, 0);
	CALL(cuDeviceGetUuid_v2, &a, -1);
	CALL(cuDeviceGetUuid_v2, &a, 4096);
	CALL(cuDeviceGetLuid, luid, &mask, 0);
	INT(mask);
}

static void bus_id(void)
{
	char text[32], small[32];
	POISONED_INT(dev);
	memset(text, 0, sizeof(text));
	CALL(cuDeviceGetPCIBusId, text, 32, 0);
	YES(strlen(text) == 12 && text[4] == ':' && text[7] == ':' && text[10] == '.');
	CALL(cuDeviceGetByPCIBusId, &dev, text);
	INT(dev);
	/* the short forms */
	dev = POISON_32;
	CALL(cuDeviceGetByPCIBusId, &dev, text + 5);
	INT(dev);
	text[10] = 0;
	dev = POISON_32;
	CALL(cuDeviceGetByPCIBusId, &dev, text);
	INT(dev);
	dev = POISON_32;
	CALL(cuDeviceGetByPCIBusId, &dev, "nonsense");
	INT(dev);
	CALL(cuDeviceGetByPCIBusId, &dev, "");
	INT(dev);
	CALL(cuDeviceGetByPCIBusId, &dev, "ffff:ff:1f.0");
	INT(dev);
	CALL(cuDeviceGetByPCIBusId, &dev, NULL);
	CALL(cuDeviceGetByPCIBusId, NULL, "0000:00:00.0");
	memset(small, 0, sizeof(small));
	CALL(cuDeviceGetPCIBusId, small, 12, 0);
	INT(strlen(small));
	CALL(cuDeviceGetPCIBusId, small, 13, 0);
	INT(strlen(small));
	CALL(cuDeviceGetPCIBusId, NULL, 13, 0);
	CALL(cuDeviceGetPCIBusId, small, 0, 0);
	CALL(cuDeviceGetPCIBusId, small, 32, -1);
}

static void peer(void)
{
	POISONED_INT(can);
	CALL(cuDeviceCanAccessPeer, &can, 0, 0);
	INT(can);
	CALL(cuDeviceCanAccessPeer, NULL, 0, 0);
	CALL(cuDeviceCanAccessPeer, &can, 0, 4096);
	CALL(cuDeviceGetP2PAttribute, &can, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 0);
	CALL(cuDeviceGetP2PAttribute, NULL, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 0);
	CALL(cuDeviceGetP2PAttribute, &can, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 4096);
}

static void texture_width(void)
{
	POISONED_SIZE(width);
	CALL(cuDeviceGetTexture1DLinearMaxWidth, &width, CU_AD_FORMAT_FLOAT, 1, 0);
	SIZE(width);
	CALL(cuDeviceGetTexture1DLinearMaxWidth, &width, CU_AD_FORMAT_FLOAT, 4, 0);
	SIZE(width);
	CALL(cuDeviceGetTexture1DLinearMaxWidth, &width, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0);
	SIZE(width);
	CALL(cuDeviceGetTexture1DLinearMaxWidth, &width, CU_AD_FORMAT_FLOAT, 3, 0);
	CALL(cuDeviceGetTexture1DLinearMaxWidth, NULL, CU_AD_FORMAT_FLOAT, 1, 0);
}

static void affinity(void)
{
	POISONED_INT(support);
	CALL(cuDeviceGetExecAffinitySupport, &support, CU_EXEC_AFFINITY_TYPE_SM_COUNT, 0);
	INT(support);
	CALL(cuDeviceGetExecAffinitySupport, NULL, CU_EXEC_AFFINITY_TYPE_SM_COUNT, 0);
	CALL(cuDeviceGetExecAffinitySupport, &support, (CUexecAffinityType)77, 0);
}

static void primary_state(void)
{
	POISONED_UINT(flags);
	POISONED_INT(active);
	CALL(cuDevicePrimaryCtxGetState, 0, &flags, &active);
	INT(flags);
	INT(active);
	CALL(cuDevicePrimaryCtxGetState, 0, NULL, &active);
	CALL(cuDevicePrimaryCtxGetState, 0, &flags, NULL);
	CALL(cuDevicePrimaryCtxGetState, -1, &flags, &active);
	CALL(cuDevicePrimaryCtxRelease_v2, 0);
	CALL(cuDevicePrimaryCtxRelease_v2, -1);
	CALL(cuDevicePrimaryCtxReset_v2, 0);
	CALL(cuDevicePrimaryCtxSetFlags_v2, 0, CU_CTX_SCHED_YIELD);
	CALL(cuDevicePrimaryCtxGetState, 0, &flags, &active);
	INT(flags);
	INT(active);
	CALL(cuDevicePrimaryCtxSetFlags_v2, 0, 0x8000);
	CALL(cuDevicePrimaryCtxSetFlags_v2, 0, 7);
	CALL(cuDevicePrimaryCtxSetFlags_v2, -1, 0);
	CALL(cuDevicePrimaryCtxSetFlags_v2, 0, 0);
}

FAMILY(device, { "device", "device.get", INIT, get }, { "device", "device.name", INIT, name },
       { "device", "device.total", INIT, total },
       { "device", "device.capability", INIT, capability },
       { "device", "device.properties", INIT, properties },
       { "device", "device.attributes", INIT, attributes },
       { "device", "device.attribute-errors", INIT, attribute_errors },
       { "device", "device.uuid", INIT, uuid }, { "device", "device.bus-id", INIT, bus_id },
       { "device", "device.peer", INIT, peer },
       { "device", "device.texture-width", INIT, texture_width },
       { "device", "device.affinity", INIT, affinity },
       { "device", "device.primary-state", INIT, primary_state }, );
