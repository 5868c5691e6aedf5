// SPDX-License-Identifier: Apache-2.0
#ifndef ABI_NVML_TYPES_H
#define ABI_NVML_TYPES_H

/*
 * The types of the NVML interface, as far as the prototypes in nvml.def need them: our own
 * declarations, so that nothing here needs NVIDIA's header to be built.  Names, values and layouts
 * are those of nvml.h of NVML 13; a _vN name is the layout that the exported _vN symbol reads or
 * writes, for ever.  Where nvml.h has forgotten an old layout (nvmlPciInfo_v1_t, _v2_t,
 * nvmlEventData_v1_t) the name is ours.  nvml_layout.c asserts every size and offset.
 *
 * A struct that begins with `version` is checked by the driver: the caller stores
 * NVML_STRUCT(type, number), the size with the version in the top byte; another value is answered
 * with NVML_ERROR_ARGUMENT_VERSION_MISMATCH and nothing is written.
 *
 * No behaviour: declarations only, for any thread, and no headers of ours.  A header of NVIDIA's
 * that declares the same names cannot be included together with this one.
 */

#include <stdint.h>

#define NVML_STRUCT(type, number) ((unsigned int)(sizeof(type) | ((unsigned int)(number) << 24)))

typedef enum nvmlReturn_enum {
#define NVML_RESULT(name, number, text) name = number,
#include "abi/nvml_result.def"
} nvmlReturn_t;

/* Handles: pointers to what only the driver knows. */
typedef struct nvmlDevice_st *nvmlDevice_t;
typedef struct nvmlEventSet_st *nvmlEventSet_t;

#define NVML_VALUE_NOT_AVAILABLE               (-1)
#define NVML_NO_INSTANCE                       0xffffffffu /* a GPU or compute instance id: no MIG */
#define NVML_INIT_FLAG_NO_GPUS                 1u
#define NVML_INIT_FLAG_NO_ATTACH               2u
#define NVML_DEVICE_NAME_V2_BUFFER_SIZE        96
#define NVML_DEVICE_UUID_V2_BUFFER_SIZE        96
#define NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE     32
#define NVML_DEVICE_PCI_BUS_ID_BUFFER_V2_SIZE  16
#define NVML_DEVICE_UUID_ASCII_LEN             41
#define NVML_DEVICE_UUID_BINARY_LEN            16
#define NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE 80

/* Enumerations. */
typedef enum nvmlEnableState_enum {
	NVML_FEATURE_DISABLED = 0,
	NVML_FEATURE_ENABLED = 1,
} nvmlEnableState_t;

typedef enum nvmlBrandType_enum {
	NVML_BRAND_UNKNOWN = 0,
	NVML_BRAND_QUADRO = 1,
	NVML_BRAND_TESLA = 2,
	NVML_BRAND_GEFORCE = 5,
	NVML_BRAND_NVIDIA_RTX = 13,
	NVML_BRAND_NVIDIA = 14,
} nvmlBrandType_t;

typedef enum nvmlClockType_enum {
	NVML_CLOCK_GRAPHICS = 0,
	NVML_CLOCK_SM = 1,
	NVML_CLOCK_MEM = 2,
	NVML_CLOCK_VIDEO = 3,
	NVML_CLOCK_COUNT = 4,
} nvmlClockType_t;

typedef enum nvmlClockId_enum {
	NVML_CLOCK_ID_CURRENT = 0,
	NVML_CLOCK_ID_APP_CLOCK_TARGET = 1,
	NVML_CLOCK_ID_APP_CLOCK_DEFAULT = 2,
	NVML_CLOCK_ID_CUSTOMER_BOOST_MAX = 3,
	NVML_CLOCK_ID_COUNT = 4,
} nvmlClockId_t;

typedef enum nvmlPStates_enum {
	NVML_PSTATE_0 = 0,
	NVML_PSTATE_15 = 15,
	NVML_PSTATE_UNKNOWN = 32,
} nvmlPstates_t;

typedef enum nvmlComputeMode_enum {
	NVML_COMPUTEMODE_DEFAULT = 0,
	NVML_COMPUTEMODE_EXCLUSIVE_THREAD = 1,
	NVML_COMPUTEMODE_PROHIBITED = 2,
	NVML_COMPUTEMODE_EXCLUSIVE_PROCESS = 3,
} nvmlComputeMode_t;

typedef enum nvmlTemperatureSensors_enum {
	NVML_TEMPERATURE_GPU = 0,
	NVML_TEMPERATURE_COUNT = 1,
} nvmlTemperatureSensors_t;

typedef enum nvmlTemperatureThresholds_enum {
	NVML_TEMPERATURE_THRESHOLD_SHUTDOWN = 0,
	NVML_TEMPERATURE_THRESHOLD_SLOWDOWN = 1,
	NVML_TEMPERATURE_THRESHOLD_MEM_MAX = 2,
	NVML_TEMPERATURE_THRESHOLD_GPU_MAX = 3,
	NVML_TEMPERATURE_THRESHOLD_COUNT = 8,
} nvmlTemperatureThresholds_t;

typedef enum nvmlMemoryErrorType_enum {
	NVML_MEMORY_ERROR_TYPE_CORRECTED = 0,
	NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1,
	NVML_MEMORY_ERROR_TYPE_COUNT = 2,
} nvmlMemoryErrorType_t;

typedef enum nvmlEccCounterType_enum {
	NVML_VOLATILE_ECC = 0,
	NVML_AGGREGATE_ECC = 1,
	NVML_ECC_COUNTER_TYPE_COUNT = 2,
} nvmlEccCounterType_t;

typedef enum nvmlMemoryLocation_enum {
	NVML_MEMORY_LOCATION_L1_CACHE = 0,
	NVML_MEMORY_LOCATION_L2_CACHE = 1,
	NVML_MEMORY_LOCATION_DRAM = 2,
	NVML_MEMORY_LOCATION_REGISTER_FILE = 3,
	NVML_MEMORY_LOCATION_TEXTURE_MEMORY = 4,
	NVML_MEMORY_LOCATION_TEXTURE_SHM = 5,
	NVML_MEMORY_LOCATION_CBU = 6,
	NVML_MEMORY_LOCATION_SRAM = 7,
	NVML_MEMORY_LOCATION_COUNT = 8,
} nvmlMemoryLocation_t;

typedef enum nvmlPcieUtilCounter_enum {
	NVML_PCIE_UTIL_TX_BYTES = 0,
	NVML_PCIE_UTIL_RX_BYTES = 1,
	NVML_PCIE_UTIL_COUNT = 2,
} nvmlPcieUtilCounter_t;

typedef enum nvmlInforomObject_enum {
	NVML_INFOROM_OEM = 0,
	NVML_INFOROM_ECC = 1,
	NVML_INFOROM_POWER = 2,
	NVML_INFOROM_DEN = 3,
	NVML_INFOROM_COUNT = 4,
} nvmlInforomObject_t;

typedef enum nvmlRestrictedAPI_enum {
	NVML_RESTRICTED_API_SET_APPLICATION_CLOCKS = 0,
	NVML_RESTRICTED_API_SET_AUTO_BOOSTED_CLOCKS = 1,
	NVML_RESTRICTED_API_COUNT = 2,
} nvmlRestrictedAPI_t;

typedef enum nvmlGpuLevel_enum {
	NVML_TOPOLOGY_INTERNAL = 0,
	NVML_TOPOLOGY_SINGLE = 10,
	NVML_TOPOLOGY_MULTIPLE = 20,
	NVML_TOPOLOGY_HOSTBRIDGE = 30,
	NVML_TOPOLOGY_NODE = 40,
	NVML_TOPOLOGY_SYSTEM = 50,
} nvmlGpuTopologyLevel_t;

typedef enum nvmlGpuP2PStatus_enum {
	NVML_P2P_STATUS_OK = 0,
	NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED = 1,
	NVML_P2P_STATUS_GPU_NOT_SUPPORTED = 2,
	NVML_P2P_STATUS_NOT_SUPPORTED = 5,
	NVML_P2P_STATUS_UNKNOWN = 6,
} nvmlGpuP2PStatus_t;

typedef enum nvmlGpuP2PCapsIndex_enum {
	NVML_P2P_CAPS_INDEX_READ = 0,
	NVML_P2P_CAPS_INDEX_WRITE = 1,
	NVML_P2P_CAPS_INDEX_NVLINK = 2,
	NVML_P2P_CAPS_INDEX_ATOMICS = 3,
	NVML_P2P_CAPS_INDEX_PCI = 4,
	NVML_P2P_CAPS_INDEX_UNKNOWN = 5,
} nvmlGpuP2PCapsIndex_t;

typedef enum nvmlGpuVirtualizationMode {
	NVML_GPU_VIRTUALIZATION_MODE_NONE = 0,
	NVML_GPU_VIRTUALIZATION_MODE_PASSTHROUGH = 1,
	NVML_GPU_VIRTUALIZATION_MODE_VGPU = 2,
} nvmlGpuVirtualizationMode_t;

typedef enum nvmlValueType_enum {
	NVML_VALUE_TYPE_DOUBLE = 0,
	NVML_VALUE_TYPE_UNSIGNED_INT = 1,
	NVML_VALUE_TYPE_UNSIGNED_LONG = 2,
	NVML_VALUE_TYPE_UNSIGNED_LONG_LONG = 3,
	NVML_VALUE_TYPE_SIGNED_LONG_LONG = 4,
	NVML_VALUE_TYPE_SIGNED_INT = 5,
	NVML_VALUE_TYPE_UNSIGNED_SHORT = 6,
} nvmlValueType_t;

typedef unsigned int nvmlDeviceArchitecture_t; /* Turing 6, Ampere 7, Ada 8, Hopper 9 */
typedef unsigned int nvmlBusType_t;
typedef unsigned int nvmlPowerSource_t;
typedef unsigned int nvmlAffinityScope_t;

#define NVML_DEVICE_ARCH_VOLTA     5
#define NVML_DEVICE_ARCH_TURING    6
#define NVML_DEVICE_ARCH_AMPERE    7
#define NVML_DEVICE_ARCH_ADA       8
#define NVML_DEVICE_ARCH_HOPPER    9
#define NVML_DEVICE_ARCH_BLACKWELL 10
#define NVML_DEVICE_ARCH_UNKNOWN   0xffffffffu
#define NVML_BUS_TYPE_PCIE         2
#define NVML_POWER_SOURCE_AC       0
#define NVML_AFFINITY_SCOPE_NODE   0
#define NVML_AFFINITY_SCOPE_SOCKET 1
#define NVML_UUID_TYPE_ASCII       1
#define NVML_UUID_TYPE_BINARY      2

/* field ids of nvmlDeviceGetFieldValues; the power ones are in milliwatts */
#define NVML_FI_DEV_ECC_CURRENT              1
#define NVML_FI_DEV_ECC_PENDING              2
#define NVML_FI_DEV_MEMORY_TEMP              82
#define NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION 83
#define NVML_FI_DEV_POWER_AVERAGE            185
#define NVML_FI_DEV_POWER_INSTANT            186
#define NVML_FI_DEV_POWER_MIN_LIMIT          187
#define NVML_FI_DEV_POWER_MAX_LIMIT          188
#define NVML_FI_DEV_POWER_DEFAULT_LIMIT      189
#define NVML_FI_DEV_POWER_CURRENT_LIMIT      190
#define NVML_FI_DEV_ENERGY                   191
#define NVML_FI_DEV_POWER_REQUESTED_LIMIT    192

#define NVML_EVENT_XID       0x8ull /* nvmlEventTypeXidCriticalError */
#define NVML_CLOCKS_GPU_IDLE 0x1ull /* nvmlClocksEventReasonGpuIdle */

/* Memory.  v1: total = free + used, used includes what the driver reserves.  v2: total = reserved +
 * free + used. */
typedef struct nvmlMemory_st {
	unsigned long long total;
	unsigned long long free;
	unsigned long long used;
} nvmlMemory_t;

typedef struct nvmlMemory_v2_st {
	unsigned int version;
	unsigned long long total;
	unsigned long long reserved;
	unsigned long long free;
	unsigned long long used;
} nvmlMemory_v2_t;
#define NVML_MEMORY_V2 NVML_STRUCT(nvmlMemory_v2_t, 2)

typedef struct nvmlBAR1Memory_st {
	unsigned long long bar1Total;
	unsigned long long bar1Free;
	unsigned long long bar1Used;
} nvmlBAR1Memory_t;

/* Processes.  The array elements of the plain name, and of _v2 and _v3.  (The _v3 of the first 535
 * drivers had one field more; no later one has.)  A figure that is not known is
 * NVML_VALUE_NOT_AVAILABLE. */
typedef struct nvmlProcessInfo_v1_st {
	unsigned int pid;
	unsigned long long usedGpuMemory;
} nvmlProcessInfo_v1_t;

typedef struct nvmlProcessInfo_v2_st {
	unsigned int pid;
	unsigned long long usedGpuMemory;
	unsigned int gpuInstanceId;
	unsigned int computeInstanceId;
} nvmlProcessInfo_v2_t, nvmlProcessInfo_t;

typedef struct nvmlProcessDetail_v1_st {
	unsigned int pid;
	unsigned long long usedGpuMemory;
	unsigned int gpuInstanceId;
	unsigned int computeInstanceId;
	unsigned long long usedGpuCcProtectedMemory;
} nvmlProcessDetail_v1_t;

#define NVML_PROCESS_MODE_COMPUTE  0
#define NVML_PROCESS_MODE_GRAPHICS 1
#define NVML_PROCESS_MODE_MPS      2

typedef struct nvmlProcessDetailList_v1_st {
	unsigned int version;
	unsigned int mode;                /* in: NVML_PROCESS_MODE_* */
	unsigned int numProcArrayEntries; /* in: room; out: number */
	nvmlProcessDetail_v1_t *procArray;
} nvmlProcessDetailList_v1_t, nvmlProcessDetailList_t;
#define NVML_PROCESS_DETAIL_LIST_V1 NVML_STRUCT(nvmlProcessDetailList_v1_t, 1)

typedef struct nvmlProcessUtilizationSample_st {
	unsigned int pid;
	unsigned long long timeStamp; /* microseconds of CLOCK_REALTIME */
	unsigned int smUtil;
	unsigned int memUtil;
	unsigned int encUtil;
	unsigned int decUtil;
} nvmlProcessUtilizationSample_t;

typedef struct nvmlProcessUtilizationInfo_v1_st {
	unsigned long long timeStamp;
	unsigned int pid;
	unsigned int smUtil;
	unsigned int memUtil;
	unsigned int encUtil;
	unsigned int decUtil;
	unsigned int jpgUtil;
	unsigned int ofaUtil;
} nvmlProcessUtilizationInfo_v1_t;

typedef struct nvmlProcessesUtilizationInfo_v1_st {
	unsigned int version;
	unsigned int processSamplesCount; /* in: room; out: number */
	unsigned long long lastSeenTimeStamp;
	nvmlProcessUtilizationInfo_v1_t *procUtilArray;
} nvmlProcessesUtilizationInfo_v1_t, nvmlProcessesUtilizationInfo_t;
#define NVML_PROCESSES_UTILIZATION_V1 NVML_STRUCT(nvmlProcessesUtilizationInfo_v1_t, 1)

typedef struct nvmlUtilization_st {
	unsigned int gpu;
	unsigned int memory;
} nvmlUtilization_t;

/* PCI: the plain call writes the first 32 bytes only, _v2 the old 52, _v3 today's 68. */
typedef struct nvmlPciInfo_v1_st {
	char busId[NVML_DEVICE_PCI_BUS_ID_BUFFER_V2_SIZE];
	unsigned int domain;
	unsigned int bus;
	unsigned int device;
	unsigned int pciDeviceId;
} nvmlPciInfo_v1_t;

typedef struct nvmlPciInfo_v2_st {
	char busId[NVML_DEVICE_PCI_BUS_ID_BUFFER_V2_SIZE];
	unsigned int domain;
	unsigned int bus;
	unsigned int device;
	unsigned int pciDeviceId;
	unsigned int pciSubSystemId;
	unsigned int reserved[4];
} nvmlPciInfo_v2_t;

typedef struct nvmlPciInfo_st {
	char busIdLegacy[NVML_DEVICE_PCI_BUS_ID_BUFFER_V2_SIZE]; /* "0000:83:00.0" */
	unsigned int domain;
	unsigned int bus;
	unsigned int device;
	unsigned int pciDeviceId;
	unsigned int pciSubSystemId;
	char busId[NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE]; /* "00000000:83:00.0" */
} nvmlPciInfo_t;

typedef struct nvmlPciInfoExt_v1_st {
	unsigned int version;
	unsigned int domain;
	unsigned int bus;
	unsigned int device;
	unsigned int pciDeviceId;
	unsigned int pciSubSystemId;
	unsigned int baseClass;
	unsigned int subClass;
	char busId[NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE];
} nvmlPciInfoExt_v1_t, nvmlPciInfoExt_t;
#define NVML_PCI_INFO_EXT_V1 NVML_STRUCT(nvmlPciInfoExt_v1_t, 1)

typedef union nvmlUUIDValue_un {
	char str[NVML_DEVICE_UUID_ASCII_LEN];
	unsigned char bytes[NVML_DEVICE_UUID_BINARY_LEN];
} nvmlUUIDValue_t;

typedef struct nvmlUUID_v1_st {
	unsigned int version;
	unsigned int type;
	nvmlUUIDValue_t value;
} nvmlUUID_v1_t, nvmlUUID_t;
#define NVML_UUID_V1 NVML_STRUCT(nvmlUUID_v1_t, 1)

typedef struct nvmlPdi_v1_st {
	unsigned int version;
	unsigned long long value;
} nvmlPdi_v1_t, nvmlPdi_t;
#define NVML_PDI_V1 NVML_STRUCT(nvmlPdi_v1_t, 1)

/* of a MIG device: its part of the card */
typedef struct nvmlDeviceAttributes_st {
	unsigned int multiprocessorCount;
	unsigned int sharedCopyEngineCount;
	unsigned int sharedDecoderCount;
	unsigned int sharedEncoderCount;
	unsigned int sharedJpegCount;
	unsigned int sharedOfaCount;
	unsigned int gpuInstanceSliceCount;
	unsigned int computeInstanceSliceCount;
	unsigned long long memorySizeMB;
} nvmlDeviceAttributes_t;

typedef struct nvmlTemperature_v1_st {
	unsigned int version;
	nvmlTemperatureSensors_t sensorType;
	int temperature;
} nvmlTemperature_v1_t, nvmlTemperature_t;
#define NVML_TEMPERATURE_V1 NVML_STRUCT(nvmlTemperature_v1_t, 1)

typedef struct nvmlMarginTemperature_v1_st {
	unsigned int version;
	int marginTemperature;
} nvmlMarginTemperature_v1_t, nvmlMarginTemperature_t;
#define NVML_MARGIN_TEMPERATURE_V1 NVML_STRUCT(nvmlMarginTemperature_v1_t, 1)

typedef struct nvmlEccErrorCounts_st {
	unsigned long long l1Cache;
	unsigned long long l2Cache;
	unsigned long long deviceMemory;
	unsigned long long registerFile;
} nvmlEccErrorCounts_t;

typedef struct nvmlRowRemapperHistogramValues_st {
	unsigned int max;
	unsigned int high;
	unsigned int partial;
	unsigned int low;
	unsigned int none;
} nvmlRowRemapperHistogramValues_t;

typedef union nvmlValue_st {
	double dVal;
	int siVal;
	unsigned int uiVal;
	unsigned long ulVal;
	unsigned long long ullVal;
	signed long long sllVal;
	unsigned short usVal;
} nvmlValue_t;

typedef struct nvmlFieldValue_st {
	unsigned int fieldId;
	unsigned int scopeId;
	long long timestamp;
	long long latencyUsec;
	nvmlValueType_t valueType;
	nvmlReturn_t nvmlReturn;
	nvmlValue_t value;
} nvmlFieldValue_t;

typedef struct nvmlEventData_v1_st {
	nvmlDevice_t device;
	unsigned long long eventType;
	unsigned long long eventData;
} nvmlEventData_v1_t;

typedef struct nvmlEventData_st {
	nvmlDevice_t device;
	unsigned long long eventType;
	unsigned long long eventData;
	unsigned int gpuInstanceId;
	unsigned int computeInstanceId;
} nvmlEventData_t;

typedef struct nvmlSystemDriverBranchInfo_v1_st {
	unsigned int version;
	char branch[NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE];
} nvmlSystemDriverBranchInfo_v1_t;
#define NVML_SYSTEM_DRIVER_BRANCH_V1 NVML_STRUCT(nvmlSystemDriverBranchInfo_v1_t, 1)

#endif
