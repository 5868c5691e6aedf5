// SPDX-License-Identifier: Apache-2.0
/*
 * Says which GPUs it sees, by CUDA and by NVML, on stdout; it knows nothing of allot.
 *
 *   gpu_seen [OPTION…]
 *     --set VALUE      set CUDA_VISIBLE_DEVICES in this process before anything is asked
 *     --unset          remove it
 *     --threads N      N threads call cuInit at once
 *     --pci ADDRESS    look this one up in both
 *     --uuid UUID      look this one up in NVML
 *     --context N      a context on whatever device handle N is
 *
 * Lines: "cuda ORDINAL UUID PCI", "nvml INDEX UUID PCI", "cuda none CODE" when cuInit fails, and
 * for each option that asks something "OPTION cuda|nvml CODE".
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi/cuda_proto.h"
#include "abi/nvml_proto.h"
#include "base/fmt.h"
#include "base/parse.h"

#define THREADS_MAX 64

static void *cuda, *nvml;

#define CU(name) ((pfn_##name *)symbol(cuda, #name))
#define ML(name) ((pfn_##name *)symbol(nvml, #name))

static void *symbol(void *library, const char *name)
{
	void *found = dlsym(library, name);

	if (!found) {
		fprintf(stderr, "no %s\n", name);
		exit(3);
	}
	return found;
}

static void *init(void *ret_code)
{
	*(CUresult *)ret_code = CU(cuInit)(0);
	return NULL;
}

static CUresult init_by_threads(uint64_t n)
{
	CUresult codes[THREADS_MAX] = { 0 };
	pthread_t threads[THREADS_MAX];

	for (uint64_t i = 0; i < n; i++)
		if (pthread_create(&threads[i], NULL, init, &codes[i]) != 0)
			exit(3);
	for (uint64_t i = 0; i < n; i++) {
		pthread_join(threads[i], NULL);
		if (codes[i])
			codes[0] = codes[i];
	}
	return codes[0];
}

static void show_cuda(CUresult r)
{
	int n = 0;

	if (!r)
		r = CU(cuDeviceGetCount)(&n);
	if (r)
		printf("cuda none %d\n", (int)r);
	for (int i = 0; i < n; i++) {
		char pci[32] = "?";
		struct fmt_buf name;
		CUuuid uuid = { 0 };

		(void)CU(cuDeviceGetUuid_v2)(&uuid, i);
		(void)CU(cuDeviceGetPCIBusId)(pci, sizeof(pci), i);
		printf("cuda %d %s %s\n", i, fmt_uuid(&name, "GPU-", (const uint8_t *)uuid.bytes),
		       pci);
	}
}

static void show_nvml(void)
{
	unsigned n = 0, index;
	nvmlReturn_t r = ML(nvmlInit_v2)();

	if (!r)
		r = ML(nvmlDeviceGetCount_v2)(&n);
	if (r)
		printf("nvml none %d\n", (int)r);
	for (unsigned i = 0; i < n; i++) {
		char uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE] = "?";
		nvmlDevice_t device;

		r = ML(nvmlDeviceGetHandleByIndex_v2)(i, &device);
		if (!r)
			r = ML(nvmlDeviceGetUUID)(device, uuid, sizeof(uuid));
		if (!r)
			r = ML(nvmlDeviceGetIndex)(device, &index);
		if (r || index != i)
			printf("nvml %u bad %d\n", i, (int)r);
		else
			printf("nvml %u %s\n", i, uuid);
	}
}

static void ask(const char *option, const char *value)
{
	nvmlDevice_t device;
	uint64_t number;
	CUcontext ctx;
	CUdevice dev;

	if (strcmp(option, "--pci") == 0) {
		printf("--pci cuda %d\n", (int)CU(cuDeviceGetByPCIBusId)(&dev, value));
		printf("--pci nvml %d\n",
		       (int)ML(nvmlDeviceGetHandleByPciBusId_v2)(value, &device));
	} else if (strcmp(option, "--uuid") == 0) {
		printf("--uuid nvml %d\n", (int)ML(nvmlDeviceGetHandleByUUID)(value, &device));
	} else if (parse_u64(value, 0, 1000, &number, NULL) == 0) {
		printf("--context cuda %d\n",
		       (int)CU(cuDevicePrimaryCtxRetain)(&ctx, (CUdevice)number));
	}
}

int main(int argc, char **argv)
{
	uint64_t threads = 0;
	CUresult r = CUDA_SUCCESS;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--unset") == 0)
			unsetenv("CUDA_VISIBLE_DEVICES");
		else if (i + 1 < argc && strcmp(argv[i], "--set") == 0)
			setenv("CUDA_VISIBLE_DEVICES", argv[++i], 1);
		else if (i + 1 < argc && strcmp(argv[i], "--threads") == 0)
			(void)parse_u64(argv[++i], 1, THREADS_MAX, &threads, NULL);
		else
			i++;
	}
	cuda = dlopen("libcuda.so.1", RTLD_NOW);
	nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	if (!cuda || !nvml) {
		fprintf(stderr, "%s\n", dlerror());
		return 3;
	}
	if (threads)
		r = init_by_threads(threads);
	else
		init(&r);
	show_cuda(r);
	show_nvml();
	for (int i = 1; i + 1 < argc; i++)
		if (strcmp(argv[i], "--pci") == 0 || strcmp(argv[i], "--uuid") == 0 ||
		    strcmp(argv[i], "--context") == 0)
			ask(argv[i], argv[i + 1]);
	return 0;
}
