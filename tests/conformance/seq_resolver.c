// SPDX-License-Identifier: Apache-2.0
/*
 * cuGetProcAddress in all forms. One line per name and flags: for each version the exported symbol
 * whose address came back, the code and the status, equal neighbours drawn together.
 */
#include "conform.h"

#include <stdio.h>
#include <string.h>

static const int versions[] = { 0,     1000,  2000,  3010,  3020,  4000,  5000,  6050,
				7000,  8000,  9000,  10000, 10010, 11000, 11010, 11020,
				11030, 11040, 12000, 12020, 12030, 12050, 12080, 13000,
				13010, 13020, 14000, 99999, -1 };
#define VERSION_COUNT (sizeof(versions) / sizeof(versions[0]))

static const char *const alloc_names[] = {
	"cuMemAlloc",
	"cuMemAllocPitch",
	"cuMemAllocManaged",
	"cuMemAllocAsync",
	"cuMemAllocFromPoolAsync",
	"cuMemAllocHost",
	"cuMemHostAlloc",
	"cuMemHostRegister",
	"cuMemFree",
	"cuMemFreeAsync",
	"cuMemGetInfo",
	"cuDeviceTotalMem",
	"cuMemCreate",
	"cuMemRelease",
	"cuMemMap",
	"cuMemMapArrayAsync",
	"cuMemPoolCreate",
	"cuMemGetMemPool",
	"cuArrayCreate",
	"cuArray3DCreate",
	"cuMipmappedArrayCreate",
	"cuIpcOpenMemHandle",
	"cuMulticastBindMem",
	"cuMemGetAddressRange",
	"cuMemAdvise",
	"cuMemPrefetchAsync",
};

static const char *const other_names[] = {
	"cuInit",
	"cuCtxCreate",
	"cuCtxDestroy",
	"cuCtxPushCurrent",
	"cuCtxGetDevice",
	"cuCtxSynchronize",
	"cuDevicePrimaryCtxRelease",
	"cuDeviceGetUuid",
	"cuEventDestroy",
	"cuEventElapsedTime",
	"cuEventRecord",
	"cuStreamCreate",
	"cuStreamDestroy",
	"cuStreamSynchronize",
	"cuStreamGetCtx",
	"cuStreamBeginCapture",
	"cuStreamGetCaptureInfo",
	"cuStreamUpdateCaptureDependencies",
	"cuStreamWaitValue32",
	"cuLaunchKernel",
	"cuLaunchKernelEx",
	"cuLaunchHostFunc",
	"cuMemcpy",
	"cuMemcpyDtoH",
	"cuMemcpyHtoDAsync",
	"cuMemcpyBatchAsync",
	"cuMemsetD32",
	"cuGraphInstantiate",
	"cuGraphAddNode",
	"cuGraphAddKernelNode",
	"cuGraphExecUpdate",
	"cuGraphLaunch",
	"cuModuleGetGlobal",
	"cuLinkCreate",
	"cuGetProcAddress",
	"cuGetErrorName",
	"cuGLCtxCreate",
	"cuGLInit",
};

static const char *const odd_names[] = {
	"cuMemAlloc_v2",
	"cuMemAlloc_v3",
	"cuMemAllocAsync_ptsz",
	"cuMemcpy_ptds",
	"cuLaunchKernel_ptsz",
	"cuCtxCreate_v4",
	"cuGetProcAddress_v2",
	"cuGetProcAddress_v2_ptsz",
	"cuNoSuchCall",
	"cudaMalloc",
	"cumemalloc",
	"CUMEMALLOC",
	" cuMemAlloc",
	"cuMemAlloc ",
	"cu",
	"",
	"cuMemGetAttribute",
	"cuMemGetAttribute_v2",
	"cuDevSmResourceSplit",
	"cuMemcpyWithAttributesAsync",
	"cuMemGetLocationInfo",
	"cuGraphAddNode_v2",
	"cudbgGetAPI",
	"cuEGLInit",
	"cuVDPAUGetDevice",
	"cuGraphicsGLRegisterBuffer",
};

/* one cell of the matrix, as text */
static void ask_v2(const char *name, int version, unsigned int flags, char *cell, size_t size)
{
	char text[40];
	POISONED(void *, pfn);
	CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)POISON_32;
	CUresult r = QUIET(cuGetProcAddress_v2, name, &pfn, version, flags, &status);
	const char *what = (uintptr_t)pfn == POISON_64 ? "untouched" : driver_name_of(pfn);
	if (r == CUDA_SUCCESS && status == CU_GET_PROC_ADDRESS_SUCCESS)
		snprintf(cell, size, "%s", what);
	else if ((int)status == POISON_32)
		snprintf(cell, size, "%s/%s/untouched", what, result_text(r, text));
	else
		snprintf(cell, size, "%s/%s/%d", what, result_text(r, text), (int)status);
}

static void ask_v1(const char *name, int version, unsigned int flags, char *cell, size_t size)
{
	char text[40];
	POISONED(void *, pfn);
	CUresult r = QUIET(cuGetProcAddress, name, &pfn, version, flags);
	const char *what = (uintptr_t)pfn == POISON_64 ? "untouched" : driver_name_of(pfn);
	if (r == CUDA_SUCCESS)
		snprintf(cell, size, "%s", what);
	else
		snprintf(cell, size, "%s/%s", what, result_text(r, text));
}

/* the table has no prototype for this one */
static void ask_ptsz(const char *name, int version, unsigned int flags, char *cell, size_t size)
{
	char text[40];
	POISONED(void *, pfn);
	CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)POISON_32;
	pfn_cuGetProcAddress_v2 *ask = driver_symbol("cuGetProcAddress_v2_ptsz");
	if (!ask) {
		snprintf(cell, size, "no such symbol");
		return;
	}
	CUresult r = ask(name, &pfn, version, flags, &status);
	const char *what = (uintptr_t)pfn == POISON_64 ? "untouched" : driver_name_of(pfn);
	snprintf(cell, size, "%s/%s/%d", what, result_text(r, text), (int)status);
}

typedef void asker(const char *name, int version, unsigned int flags, char *cell, size_t size);

static void matrix_row(const char *name, unsigned int flags, asker *ask)
{
	char cell[200], before[200] = "";
	int from = 0, last = 0;
	out_flush();
	out_append("\"%s\" flags %u:", name, flags);
	for (size_t v = 0; v < VERSION_COUNT; v++) {
		ask(name, versions[v], flags, cell, sizeof(cell));
		if (v > 0 && strcmp(cell, before) != 0) {
			out_append(" [%d..%d] %s", from, last, before);
			from = versions[v];
		} else if (v == 0) {
			from = versions[v];
		}
		last = versions[v];
		snprintf(before, sizeof(before), "%s", cell);
	}
	out_append(" [%d..%d] %s", from, last, before);
	out_flush();
}

static void matrix(const char *const *names, size_t count, unsigned int flags, asker *ask)
{
	for (size_t i = 0; i < count; i++)
		matrix_row(names[i], flags, ask);
}

#define MATRIX(names, flags, ask) matrix(names, sizeof(names) / sizeof(names[0]), flags, ask)

static void v2_default(void)
{
	MATRIX(alloc_names, 0, ask_v2);
	MATRIX(other_names, 0, ask_v2);
}

static void v2_legacy(void)
{
	MATRIX(alloc_names, 1, ask_v2);
	MATRIX(other_names, 1, ask_v2);
}

static void v2_per_thread(void)
{
	MATRIX(alloc_names, 2, ask_v2);
	MATRIX(other_names, 2, ask_v2);
}

static void v2_both_flags(void)
{
	MATRIX(alloc_names, 3, ask_v2);
	MATRIX(alloc_names, 4, ask_v2);
	MATRIX(alloc_names, 0x80000000u, ask_v2);
}

static void v2_odd(void)
{
	for (unsigned int flags = 0; flags <= 3; flags++)
		MATRIX(odd_names, flags, ask_v2);
}

static void v1_default(void)
{
	MATRIX(alloc_names, 0, ask_v1);
	MATRIX(other_names, 0, ask_v1);
}

static void v1_flags(void)
{
	for (unsigned int flags = 1; flags <= 3; flags++)
		MATRIX(alloc_names, flags, ask_v1);
}

static void v1_odd(void)
{
	for (unsigned int flags = 0; flags <= 3; flags++)
		MATRIX(odd_names, flags, ask_v1);
}

static void ptsz(void)
{
	for (unsigned int flags = 0; flags <= 3; flags++) {
		MATRIX(alloc_names, flags, ask_ptsz);
		MATRIX(odd_names, flags, ask_ptsz);
	}
}

static void null_arguments(void)
{
	POISONED(void *, pfn);
	CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)POISON_32;
	CALL(cuGetProcAddress_v2, NULL, &pfn, 12000, 0, &status);
	PTR(pfn);
	INT(status);
	CALL(cuGetProcAddress_v2, "cuMemAlloc", NULL, 12000, 0, &status);
	INT(status);
	CALL(cuGetProcAddress_v2, "cuMemAlloc", &pfn, 12000, 0, NULL);
	YES(pfn == driver_symbol("cuMemAlloc_v2"));
	pfn = (void *)(uintptr_t)POISON_64;
	CALL(cuGetProcAddress_v2, "cuNoSuchCall", &pfn, 12000, 0, NULL);
	PTR(pfn);
	pfn = (void *)(uintptr_t)POISON_64;
	CALL(cuGetProcAddress_v2, NULL, NULL, 12000, 0, NULL);
	CALL(cuGetProcAddress, NULL, &pfn, 12000, 0);
	PTR(pfn);
	CALL(cuGetProcAddress, "cuMemAlloc", NULL, 12000, 0);
	CALL(cuGetProcAddress, "cuNoSuchCall", &pfn, 12000, 0);
	PTR(pfn);
}

static void self_lookup(void)
{
	POISONED(void *, pfn);
	POISONED(void *, inner);
	CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)POISON_32;
	CALL(cuGetProcAddress_v2, "cuGetProcAddress", &pfn, 12000, 0, &status);
	out_append(" %s", driver_name_of(pfn));
	pfn_cuGetProcAddress_v2 *again = pfn;
	if ((uintptr_t)pfn == POISON_64 || !pfn)
		return;
	CUresult r = again("cuMemAlloc", &inner, 12000, 0, &status);
	NOTE("through it: %d %s status %d", (int)r, driver_name_of(inner), (int)status);
	CALL(cuGetProcAddress_v2, "cuGetProcAddress", &pfn, 11030, 0, &status);
	out_append(" %s", driver_name_of(pfn));
	pfn_cuGetProcAddress *old = pfn;
	inner = NULL;
	if (!old)
		return;
	r = old("cuMemAlloc", &inner, 11030, 0);
	NOTE("through the old one: %d %s", (int)r, driver_name_of(inner));
}

static void usable(void)
{
	POISONED_PTR(p);
	POISONED(void *, alloc);
	POISONED(void *, release);
	CALL(cuGetProcAddress_v2, "cuMemAlloc", &alloc, 13000, 0, NULL);
	CALL(cuGetProcAddress_v2, "cuMemFree", &release, 13000, 0, NULL);
	CUresult r = ((pfn_cuMemAlloc_v2 *)alloc)(&p, 4096);
	NOTE("alloc: %d", (int)r);
	r = ((pfn_cuMemFree_v2 *)release)(p);
	NOTE("free: %d", (int)r);
}

static void print_missing(const char *name, const void *address)
{
	if (!address)
		out_line("%s", name);
}

static void missing(void)
{
	driver_for_each(print_missing);
}

static void print_alias(const char *name, const void *address)
{
	const char *other = driver_name_of(address);
	if (address && strcmp(other, name) != 0)
		out_line("%s = %s", name, other);
}

static void aliases(void)
{
	driver_for_each(print_alias);
}

FAMILY(resolver, { "resolver", "resolver.v2-default", 0, v2_default },
       { "resolver", "resolver.v2-legacy", 0, v2_legacy },
       { "resolver", "resolver.v2-per-thread", 0, v2_per_thread },
       { "resolver", "resolver.v2-both-flags", 0, v2_both_flags },
       { "resolver", "resolver.v2-odd", 0, v2_odd },
       { "resolver", "resolver.v1-default", 0, v1_default },
       { "resolver", "resolver.v1-flags", 0, v1_flags },
       { "resolver", "resolver.v1-odd", 0, v1_odd }, { "resolver", "resolver.ptsz", 0, ptsz },
       { "resolver", "resolver.null", 0, null_arguments },
       { "resolver", "resolver.self", 0, self_lookup },
       { "resolver", "resolver.missing", 0, missing },
       { "resolver", "resolver.aliases", 0, aliases },
       { "resolver", "resolver.usable", CTX, usable }, );
