// SPDX-License-Identifier: Apache-2.0
/* cuMemAlloc and its family: codes, growth of what the card shows, running out. */
#include "conform.h"

static void alloc_free(void)
{
	POISONED_PTR(p);
	CALL(cuMemAlloc_v2, &p, 4096);
	NEWPTR(p, 4096);
	YES(p % 512 == 0);
	CALL(cuMemFree_v2, p);
}

static void alloc_errors(void)
{
	POISONED_PTR(p);
	CALL(cuMemAlloc_v2, &p, 0);
	PTR(p);
	CALL(cuMemAlloc_v2, NULL, 4096);
	CALL(cuMemAlloc_v2, NULL, 0);
}

static void free_errors(void)
{
	POISONED_PTR(p);
	uint64_t local = 0;
	CALL(cuMemFree_v2, 0);
	CALL(cuMemFree_v2, 0x1000);
	CALL(cuMemFree_v2, (CUdeviceptr)(uintptr_t)&local);
	CALL(cuMemAlloc_v2, &p, 4096);
	CALL(cuMemFree_v2, p + 256);
	CALL(cuMemFree_v2, p + 1);
	CALL(cuMemFree_v2, p);
	CALL(cuMemFree_v2, p);
}

static void free_other_context(void)
{
	POISONED_PTR(p);
	POISONED(CUcontext, other);
	CALL(cuMemAlloc_v2, &p, 4096);
	CALL(cuCtxCreate_v2, &other, 0, 0);
	CALL(cuMemFree_v2, p);
	CALL(cuMemFree_v2, p);
	CALL(cuCtxDestroy_v2, other);
	CALL(cuCtxSetCurrent, conf_ctx);
	CALL(cuMemFree_v2, p);
}

static void free_no_context(void)
{
	POISONED_PTR(p);
	CALL(cuMemAlloc_v2, &p, 4096);
	CALL(cuCtxSetCurrent, NULL);
	CALL(cuMemFree_v2, p);
	CALL(cuCtxSetCurrent, conf_ctx);
	CALL(cuMemFree_v2, p);
}

static void free_on_thread(void *arg)
{
	CALL(cuMemFree_v2, *(CUdeviceptr *)arg);
	CALL(cuCtxSetCurrent, conf_ctx);
	CALL(cuMemFree_v2, *(CUdeviceptr *)arg);
}

static void free_other_thread(void)
{
	POISONED_PTR(p);
	CALL(cuMemAlloc_v2, &p, 4096);
	on_thread(free_on_thread, &p);
	CALL(cuMemFree_v2, p);
}

static void info_arguments(void)
{
	POISONED_SIZE(free_bytes);
	POISONED_SIZE(total);
	POISONED_SIZE(of_device);
	CALL(cuMemGetInfo_v2, &free_bytes, &total);
	CALL(cuDeviceTotalMem_v2, &of_device, 0);
	YES(total == of_device);
	YES(free_bytes > 0);
	YES(free_bytes < total);
	CALL(cuMemGetInfo_v2, NULL, &total);
	CALL(cuMemGetInfo_v2, &free_bytes, NULL);
	CALL(cuMemGetInfo_v2, NULL, NULL);
}

/* sizes one after the other, all kept: what each adds to what the card has given */
static void growth(void)
{
	static const size_t sizes[] = {
		1,
		1,
		256,
		512,
		4096,
		65536,
		512 * 1024,
		1024 * 1024,
		1024 * 1024,
		1048577,
		2 * 1024 * 1024,
		2097153,
		3 * 1024 * 1024,
		5 * 1024 * 1024,
		8 * 1024 * 1024,
		20 * 1024 * 1024,
		33 * 1024 * 1024,
		64 * 1024 * 1024 + 1,
	};
	enum { N = sizeof(sizes) / sizeof(sizes[0]) };
	CUdeviceptr p[N];
	char text[40];
	for (int i = 0; i < N; i++) {
		p[i] = 0;
		mem_mark();
		CUresult r = QUIET(cuMemAlloc_v2, &p[i], sizes[i]);
		out_line("# %zu: %s, at %% 512 = %d, at %% 2 MiB = %s", sizes[i],
			 result_text(r, text), (int)(p[i] % 512), p[i] % (2 * MIB) ? "not 0" : "0");
		mem_delta("allocated");
	}
	for (int i = 0; i < N; i++) {
		mem_mark();
		QUIET(cuMemFree_v2, p[i]);
		out_line("# free %zu", sizes[i]);
		mem_delta("freed");
	}
}

static void many_small(void)
{
	enum { N = 4096 };
	static CUdeviceptr p[N];
	char text[40];
	CUresult r = CUDA_SUCCESS;
	mem_mark();
	for (int i = 0; i < N && r == CUDA_SUCCESS; i++)
		r = QUIET(cuMemAlloc_v2, &p[i], 1024);
	out_line("# %d of 1024 bytes: %s, step %lld", N, result_text(r, text),
		 (long long)(p[2000] - p[1999]));
	mem_delta("allocated");
	mem_mark();
	for (int i = 0; i < N; i++)
		QUIET(cuMemFree_v2, p[i]);
	mem_delta("freed");
}

static void small_steps(void)
{
	static const size_t sizes[] = { 1, 256, 257, 512, 513, 1000, 4096, 5000, 65537, 262145 };
	CUdeviceptr a, b, first;
	QUIET(cuMemAlloc_v2, &first, 1);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		a = b = 0;
		QUIET(cuMemAlloc_v2, &a, sizes[i]);
		QUIET(cuMemAlloc_v2, &b, sizes[i]);
		out_line("# two of %zu: %lld apart", sizes[i], (long long)(b - a));
		QUIET(cuMemFree_v2, a);
		QUIET(cuMemFree_v2, b);
	}
	QUIET(cuMemFree_v2, first);
}

static void out_of_memory(void)
{
	POISONED_PTR(p);
	size_t total = 0, free_bytes = 0;
	CALL(cuMemGetInfo_v2, &free_bytes, &total);
	CALL(cuMemAlloc_v2, &p, total);
	PTR(p);
	CALL(cuMemAlloc_v2, &p, total * 2);
	PTR(p);
	CALL(cuMemAlloc_v2, &p, (size_t)1 << 50);
	PTR(p);
	CALL(cuMemAlloc_v2, &p, SIZE_MAX);
	PTR(p);
	CALL(cuMemAlloc_v2, &p, SIZE_MAX - 4095);
	PTR(p);
	CALL(cuMemAlloc_v2, &p, (size_t)1 << 63);
	PTR(p);
	/* nothing sticks */
	CALL(cuMemAlloc_v2, &p, 4096);
	NEWPTR(p, 4096);
	CALL(cuMemFree_v2, p);
}

static void whole_free(void)
{
	POISONED_PTR(p);
	POISONED_PTR(q);
	size_t total = 0, free_bytes = 0, after = 0;
	CALL(cuMemGetInfo_v2, &free_bytes, &total);
	CALL(cuMemAlloc_v2, &p, free_bytes + 2 * MIB);
	PTR(p);
	CALL(cuMemAlloc_v2, &p, free_bytes - 1024 * MIB);
	NEWPTR(p, free_bytes);
	CALL(cuMemGetInfo_v2, &after, &total);
	YES(after < 1100 * MIB);
	YES(after > 900 * MIB);
	CALL(cuMemAlloc_v2, &q, 2048 * MIB);
	PTR(q);
	CALL(cuMemAlloc_v2, &q, 4096);
	NEWPTR(q, 4096);
	CALL(cuMemFree_v2, q);
	CALL(cuMemFree_v2, p);
	CALL(cuMemGetInfo_v2, &after, &total);
	YES(after == free_bytes);
}

static void pitch(void)
{
	static const size_t widths[] = { 1, 4, 100, 511, 512, 513, 1000, 4096, 65536, 100000 };
	char text[40];
	for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) {
		CUdeviceptr p = POISON_64;
		size_t row = POISON_64;
		CUresult r = QUIET(cuMemAllocPitch_v2, &p, &row, widths[i], 10, 4);
		out_flush();
		out_append("width %zu → %s", widths[i], result_text(r, text));
		SIZE(row);
		YES(p % 512 == 0);
		QUIET(cuMemFree_v2, p);
	}
}

static void pitch_errors(void)
{
	POISONED_PTR(p);
	POISONED_SIZE(row);
	CALL(cuMemAllocPitch_v2, NULL, &row, 100, 10, 4);
	CALL(cuMemAllocPitch_v2, &p, NULL, 100, 10, 4);
	PTR(p);
	CALL(cuMemAllocPitch_v2, &p, &row, 0, 10, 4);
	PTR(p);
	SIZE(row);
	CALL(cuMemAllocPitch_v2, &p, &row, 100, 0, 4);
	PTR(p);
	SIZE(row);
	for (unsigned int element = 0; element <= 20; element++) {
		char text[40];
		p = POISON_64;
		row = POISON_64;
		CUresult r = QUIET(cuMemAllocPitch_v2, &p, &row, 100, 10, element);
		out_flush();
		out_append("element %u → %s", element, result_text(r, text));
		SIZE(row);
		if (r == CUDA_SUCCESS)
			QUIET(cuMemFree_v2, p);
	}
	p = row = POISON_64;
	CALL(cuMemAllocPitch_v2, &p, &row, (size_t)1 << 40, (size_t)1 << 40, 4);
	PTR(p);
	SIZE(row);
	CALL(cuMemAllocPitch_v2, &p, &row, (size_t)1 << 31, 1000, 4);
	PTR(p);
	SIZE(row);
}

static void managed(void)
{
	POISONED_PTR(p);
	CALL(cuMemAllocManaged, &p, 4096, CU_MEM_ATTACH_GLOBAL);
	NEWPTR(p, 4096);
	volatile uint32_t *host = (uint32_t *)(uintptr_t)p;
	host[0] = 0x1234;
	CALL(cuMemsetD32_v2, p + 4, 0x77, 1);
	CALL(cuCtxSynchronize);
	HEX(host[0]);
	HEX(host[1]);
	CALL(cuMemFree_v2, p);
	CALL(cuMemAllocManaged, &p, 4096, CU_MEM_ATTACH_HOST);
	NEWPTR(p, 4096);
	CALL(cuMemFree_v2, p);
}

static void managed_errors(void)
{
	POISONED_PTR(p);
	CALL(cuMemAllocManaged, &p, 0, CU_MEM_ATTACH_GLOBAL);
	PTR(p);
	CALL(cuMemAllocManaged, NULL, 4096, CU_MEM_ATTACH_GLOBAL);
	CALL(cuMemAllocManaged, &p, 4096, 0);
	PTR(p);
	CALL(cuMemAllocManaged, &p, 4096, CU_MEM_ATTACH_SINGLE);
	PTR(p);
	CALL(cuMemAllocManaged, &p, 4096, 3);
	PTR(p);
	CALL(cuMemAllocManaged, &p, 4096, 0x100);
	PTR(p);
}

static void managed_advice(void)
{
	POISONED_PTR(p);
	CUmemLocation device = { CU_MEM_LOCATION_TYPE_DEVICE, 0 };
	CUmemLocation host = { CU_MEM_LOCATION_TYPE_HOST, 0 };
	CALL(cuMemAllocManaged, &p, 4 * MIB, CU_MEM_ATTACH_GLOBAL);
	NEWPTR(p, 4 * MIB);
	CALL(cuMemAdvise_v2, p, 4 * MIB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device);
	CALL(cuMemPrefetchAsync_v2, p, 4 * MIB, device, 0, NULL);
	CALL(cuStreamSynchronize, NULL);
	int where = POISON_32;
	CALL(cuMemRangeGetAttribute, &where, sizeof(where),
	     CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, p, 4 * MIB);
	INT(where);
	CALL(cuMemPrefetchAsync_v2, p, 4 * MIB, host, 0, NULL);
	CALL(cuMemPrefetchAsync_v2, p, 0, device, 0, NULL);
	CALL(cuMemPrefetchAsync_v2, p, 8 * MIB, device, 0, NULL);
	CALL(cuMemAdvise_v2, p, 0, CU_MEM_ADVISE_SET_READ_MOSTLY, device);
	CALL(cuStreamSynchronize, NULL);
	CALL(cuMemFree_v2, p);
	p = alloc_quiet(4096, 1);
	CALL(cuMemPrefetchAsync_v2, p, 4096, device, 0, NULL);
	CALL(cuMemAdvise_v2, p, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, device);
	CALL(cuMemFree_v2, p);
}

static void managed_growth(void)
{
	POISONED_PTR(p);
	mem_mark();
	CALL(cuMemAllocManaged, &p, 32 * MIB, CU_MEM_ATTACH_GLOBAL);
	mem_delta("managed, untouched");
	CALL(cuMemsetD8_v2, p, 1, 32 * MIB);
	CALL(cuCtxSynchronize);
	mem_delta("managed, set by the device");
	CALL(cuMemFree_v2, p);
	mem_delta("freed");
}

FAMILY(memory, { "memory", "memory.alloc-free", CTX, alloc_free },
       { "memory", "memory.alloc-errors", CTX, alloc_errors },
       { "memory", "memory.free-errors", CTX, free_errors },
       { "memory", "memory.free-no-context", CTX, free_no_context },
       { "memory", "memory.free-other-thread", CTX, free_other_thread },
       { "memory", "memory.info-arguments", CTX, info_arguments },
       { "memory", "memory.pitch", CTX, pitch },
       { "memory", "memory.pitch-errors", CTX, pitch_errors },
       { "memory", "memory.managed", CTX, managed },
       { "memory", "memory.managed-errors", CTX, managed_errors },
       { "memory", "memory.managed-advice", CTX, managed_advice },
       { "memory", "memory.free-other-context", CTX, free_other_context },
       { "memory.card", "memory.growth", CTX | ALONE, growth },
       { "memory.card", "memory.many-small", CTX | ALONE, many_small },
       { "memory.card", "memory.small-steps", CTX | ALONE, small_steps },
       { "memory.card", "memory.out-of-memory", CTX | ALONE, out_of_memory },
       { "memory.card", "memory.whole-free", CTX | ALONE, whole_free },
       { "memory.card", "memory.managed-growth", CTX | ALONE, managed_growth }, );
