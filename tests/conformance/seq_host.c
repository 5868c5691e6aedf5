// SPDX-License-Identifier: Apache-2.0
/* Pinned and registered host memory. */
#include "conform.h"

#include <stdlib.h>

static void alloc(void)
{
	POISONED(void *, host);
	POISONED_PTR(device);
	POISONED_UINT(flags);
	CALL(cuMemHostAlloc, &host, 4096, 0);
	NEWPTR(host, 4096);
	CALL(cuMemHostGetFlags, &flags, host);
	HEX(flags);
	CALL(cuMemHostGetDevicePointer_v2, &device, host, 0);
	YES(device == (CUdeviceptr)(uintptr_t)host);
	CALL(cuMemHostGetDevicePointer_v2, &device, (char *)host + 100, 0);
	PTR(device);
	CALL(cuMemHostGetDevicePointer_v2, &device, host, 1);
	CALL(cuMemHostGetDevicePointer_v2, NULL, host, 0);
	CALL(cuMemFreeHost, host);
	CALL(cuMemFreeHost, host);
	CALL(cuMemHostGetFlags, &flags, host);
}

static void alloc_flags(void)
{
	static const unsigned int all[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 16, 0x100, 0xffffffffu };
	char text[40];
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		POISONED(void *, host);
		POISONED_UINT(flags);
		CUresult r = QUIET(cuMemHostAlloc, &host, 4096, all[i]);
		out_flush();
		out_append("flags 0x%x → %s", all[i], result_text(r, text));
		if (r == CUDA_SUCCESS) {
			QUIET(cuMemHostGetFlags, &flags, host);
			HEX(flags);
			QUIET(cuMemFreeHost, host);
		} else {
			PTR(host);
		}
	}
}

static void alloc_errors(void)
{
	POISONED(void *, host);
	CALL(cuMemHostAlloc, &host, 0, 0);
	PTR(host);
	CALL(cuMemHostAlloc, NULL, 4096, 0);
	CALL(cuMemAllocHost_v2, &host, 0);
	PTR(host);
	CALL(cuMemAllocHost_v2, NULL, 4096);
	CALL(cuMemHostAlloc, &host, (size_t)1 << 50, 0);
	PTR(host);
	CALL(cuMemHostAlloc, &host, SIZE_MAX, 0);
	PTR(host);
	CALL(cuMemFreeHost, NULL);
	CALL(cuMemFreeHost, &host);
}

static void alloc_host(void)
{
	POISONED(void *, host);
	POISONED_UINT(flags);
	CALL(cuMemAllocHost_v2, &host, 4096);
	NEWPTR(host, 4096);
	CALL(cuMemHostGetFlags, &flags, host);
	HEX(flags);
	CALL(cuMemHostGetFlags, NULL, host);
	CALL(cuMemHostGetFlags, &flags, NULL);
	CALL(cuMemFreeHost, (char *)host + 64);
	CALL(cuMemFree_v2, (CUdeviceptr)(uintptr_t)host);
	CALL(cuMemFreeHost, host);
}

static void device_as_host(void)
{
	POISONED_UINT(flags);
	CUdeviceptr p = alloc_quiet(4096, 0);
	CALL(cuMemFreeHost, (void *)(uintptr_t)p);
	CALL(cuMemHostGetFlags, &flags, (void *)(uintptr_t)p);
	CALL(cuMemHostUnregister, (void *)(uintptr_t)p);
	CALL(cuMemFree_v2, p);
}

static void registering(void)
{
	char *host = aligned_alloc(4096, 16384);
	POISONED_UINT(flags);
	POISONED_PTR(device);
	if (!host)
		abort();
	CALL(cuMemHostRegister_v2, host, 16384, CU_MEMHOSTREGISTER_DEVICEMAP);
	CALL(cuMemHostGetFlags, &flags, host);
	HEX(flags);
	CALL(cuMemHostGetDevicePointer_v2, &device, host, 0);
	YES(device == (CUdeviceptr)(uintptr_t)host);
	CALL(cuMemHostRegister_v2, host, 16384, 0);
	CALL(cuMemHostRegister_v2, host + 4096, 4096, 0);
	CALL(cuMemHostUnregister, host + 4096);
	CALL(cuMemFreeHost, host);
	CALL(cuMemHostUnregister, host);
	CALL(cuMemHostUnregister, host);
	free(host);
}

static void register_errors(void)
{
	char *host = aligned_alloc(4096, 16384);
	if (!host)
		abort();
	CALL(cuMemHostRegister_v2, NULL, 4096, 0);
	CALL(cuMemHostRegister_v2, host, 0, 0);
	CALL(cuMemHostRegister_v2, host, 4096, 0x100);
	CALL(cuMemHostUnregister, NULL);
	CALL(cuMemHostUnregister, host);
	CALL(cuMemHostRegister_v2, host + 100, 1000, 0);
	CALL(cuMemHostUnregister, host + 100);
	CALL(cuMemHostRegister_v2, (void *)0x10000, 4096, 0);
	CALL(cuMemHostRegister_v2, host, 4096, CU_MEMHOSTREGISTER_READ_ONLY);
	CALL(cuMemHostUnregister, host);
	free(host);
}

static void pinned_copy(void)
{
	POISONED(void *, memory);
	CUdeviceptr p = alloc_quiet(4096, 0x42);
	CALL(cuMemHostAlloc, &memory, 4096, 0);
	uint32_t *host = memory;
	host[0] = 0;
	CALL(cuMemcpyDtoHAsync_v2, memory, p, 4096, NULL);
	CALL(cuStreamSynchronize, NULL);
	HEX(host[0]);
	HEX(host[1023]);
	CALL(cuMemsetD32_v2, (CUdeviceptr)(uintptr_t)memory, 0x99, 1024);
	CALL(cuCtxSynchronize);
	HEX(host[5]);
	CALL(cuMemFreeHost, memory);
	CALL(cuMemFree_v2, p);
}

static void kernel_on_pinned(void)
{
	POISONED(void *, memory);
	CALL(cuMemHostAlloc, &memory, 4096, CU_MEMHOSTALLOC_DEVICEMAP);
	uint32_t *host = memory;
	host[0] = 1;
	CUresult r = fill_quiet((CUdeviceptr)(uintptr_t)memory, 0x55, 1024, NULL);
	NOTE("launch: %d", (int)r);
	CALL(cuCtxSynchronize);
	HEX(host[0]);
	HEX(host[1023]);
	CALL(cuMemFreeHost, memory);
}

static void card_growth(void)
{
	POISONED(void *, host);
	mem_mark();
	CALL(cuMemHostAlloc, &host, 16 * MIB, 0);
	mem_delta("pinned host memory");
	CALL(cuMemFreeHost, host);
	mem_delta("freed");
}

FAMILY(host, { "host", "host.alloc", CTX, alloc }, { "host", "host.alloc-flags", CTX, alloc_flags },
       { "host", "host.alloc-errors", CTX, alloc_errors },
       { "host", "host.alloc-host", CTX, alloc_host },
       { "host", "host.device-as-host", CTX, device_as_host },
       { "host", "host.register", CTX, registering },
       { "host", "host.register-errors", CTX, register_errors },
       { "host", "host.pinned-copy", CTX, pinned_copy },
       { "host", "host.kernel-on-pinned", KERNELS, kernel_on_pinned },
       { "memory.card", "host.card-growth", CTX | ALONE, card_growth }, );
