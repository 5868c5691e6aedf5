// SPDX-License-Identifier: Apache-2.0
/* From names to functions: cuGetProcAddress in its forms, and the export tables (none). */
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

static CUresult find(const char *symbol, void **pfn, int version, cuuint64_t flags,
		     CUdriverProcAddressQueryResult *status)
{
	enum cuda_stream_kind stream = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
					       ? CUDA_STREAM_PER_THREAD
					       : CUDA_STREAM_LEGACY;
	CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS;
	int slot;

	if (!symbol || !*symbol || !pfn || (flags & ~FLAGS_VALID) || flags == FLAGS_VALID)
		return CUDA_ERROR_INVALID_VALUE;
	/* what came after the driver's own version is exported only for the shim's sake */
	slot = cuda_symbol_for(symbol, version < SIM_CUDA_VERSION ? version : SIM_CUDA_VERSION,
			       stream);
	if (slot < 0)
		found = cuda_symbol_for(symbol, SIM_CUDA_VERSION, stream) >= 0
				? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
				: CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	*pfn = slot < 0 ? NULL : own[slot];
	if (status)
		*status = found;
	/* with somewhere to say why, the call itself succeeds */
	return slot < 0 && !status ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}

CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
	return SIM_CALL(cuGetProcAddress, SIM_NO_INIT, find(symbol, pfn, cudaVersion, flags, NULL),
			"symbol=%s version=%d flags=%#llx", symbol ? symbol : "NULL", cudaVersion,
			(unsigned long long)flags);
}

CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
			     CUdriverProcAddressQueryResult *symbolStatus)
{
	return SIM_CALL(cuGetProcAddress_v2, SIM_NO_INIT,
			find(symbol, pfn, cudaVersion, flags, symbolStatus),
			"symbol=%s version=%d flags=%#llx", symbol ? symbol : "NULL", cudaVersion,
			(unsigned long long)flags);
}

/* the same for programs built with per-thread default streams */
CUresult cuGetProcAddress_v2_ptsz(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
				  CUdriverProcAddressQueryResult *symbolStatus)
{
	cuuint64_t wanted = flags ? flags : CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

	return SIM_CALL(cuGetProcAddress_v2_ptsz, SIM_NO_INIT,
			find(symbol, pfn, cudaVersion, wanted, symbolStatus),
			"symbol=%s version=%d flags=%#llx", symbol ? symbol : "NULL", cudaVersion,
			(unsigned long long)flags);
}

static CUresult export_table(const void **table, const CUuuid *id)
{
	if (!table || !id)
		return CUDA_ERROR_INVALID_VALUE;
	*table = NULL;
	return CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId)
{
	return SIM_CALL(cuGetExportTable, SIM_NO_INIT, export_table(ppExportTable, pExportTableId),
			"");
}
