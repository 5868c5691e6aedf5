// SPDX-License-Identifier: Apache-2.0
/* From names to functions: cuGetProcAddress in its forms, and the export tables (none). */
#include <string.h>

#include "sim/cuda/sim.h"

/*
 * The addresses of the exported symbols. With -Bsymbolic these are our own; without it whatever the
 * loader bound first, as for any driver that is built so.
 */
#define CU_PASS(symbol, api, since, stream) extern char sim_own_##symbol[] __asm__(#symbol);
#include "abi/cuda.def"

static void *const own[CU_SYM_COUNT] = {
#define CU_PASS(symbol, api, since, stream) sim_own_##symbol,
#include "abi/cuda.def"
};

#define FLAGS_VALID                                      \
	((cuuint64_t)CU_GET_PROC_ADDRESS_LEGACY_STREAM | \
	 (cuuint64_t)CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)

/* the slot, or -1; a version below 0 means the newest */
static int find(const char *symbol, int version, cuuint64_t flags)
{
	enum cuda_stream_kind stream = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
					       ? CUDA_STREAM_PER_THREAD
					       : CUDA_STREAM_LEGACY;

	int slot, newest;

	/* of itself there is but the one form; _v2_ptsz is not in driver 580 (measured) */
	if (!strcmp(symbol, "cuGetProcAddress"))
		stream = CUDA_STREAM_LEGACY;
	slot = cuda_symbol_for(symbol, version < 0 ? SIM_CUDA_VERSION : version, stream);
	newest = cuda_symbol_for(symbol, SIM_CUDA_VERSION, stream);
	/* what has a per-thread variant is not there before that variant was */
	if (slot >= 0 && cuda_symbols[slot].stream != cuda_symbols[newest].stream)
		return -1;
	return slot;
}

static CUresult check(const char *symbol, void **pfn, int version, cuuint64_t flags)
{
	if (!symbol || !pfn || flags & ~FLAGS_VALID || version > SIM_CUDA_VERSION)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

static CUresult get(const char *symbol, void **pfn, int version, cuuint64_t flags)
{
	CUresult result = check(symbol, pfn, version, flags);
	int slot;

	if (result)
		return result;
	slot = find(symbol, version, flags);
	if (slot < 0)
		return CUDA_ERROR_NOT_FOUND;
	*pfn = own[slot];
	return CUDA_SUCCESS;
}

/* the later form tells in the status what it lacks, and then succeeds */
static CUresult get_v2(const char *symbol, void **pfn, int version, cuuint64_t flags,
		       CUdriverProcAddressQueryResult *status)
{
	CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS;
	CUresult result = check(symbol, pfn, version, flags);
	int slot;

	if (result)
		return result;
	slot = find(symbol, version, flags);
	if (slot < 0)
		found = find(symbol, SIM_CUDA_VERSION, flags) >= 0
				? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
				: CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	*pfn = slot < 0 ? NULL : own[slot];
	if (status)
		*status = found;
	return slot < 0 && !status ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}

CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
	return SIM_CALL(cuGetProcAddress, SIM_NO_INIT, get(symbol, pfn, cudaVersion, flags),
			"symbol=%s version=%d flags=%#llx", symbol ? symbol : "NULL", cudaVersion,
			(unsigned long long)flags);
}

CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
			     CUdriverProcAddressQueryResult *symbolStatus)
{
	return SIM_CALL(cuGetProcAddress_v2, SIM_NO_INIT,
			get_v2(symbol, pfn, cudaVersion, flags, symbolStatus),
			"symbol=%s version=%d flags=%#llx", symbol ? symbol : "NULL", cudaVersion,
			(unsigned long long)flags);
}

/* the same for programs built with per-thread default streams */
CUresult cuGetProcAddress_v2_ptsz(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
				  CUdriverProcAddressQueryResult *symbolStatus)
{
	cuuint64_t wanted = flags ? flags : CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

	return SIM_CALL(cuGetProcAddress_v2_ptsz, SIM_NO_INIT,
			get_v2(symbol, pfn, cudaVersion, wanted, symbolStatus),
			"symbol=%s version=%d flags=%#llx", symbol ? symbol : "NULL", cudaVersion,
			(unsigned long long)flags);
}

static CUresult export_table(const void **table, const CUuuid *id)
{
	if (!table || !id)
		return CUDA_ERROR_INVALID_VALUE;
	*table = NULL;
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId)
{
	return SIM_CALL(cuGetExportTable, SIM_NO_INIT, export_table(ppExportTable, pExportTableId),
			"");
}
