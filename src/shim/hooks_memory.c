// SPDX-License-Identifier: Apache-2.0
/*
 * Linear device memory: cuMemAlloc, cuMemAllocPitch, cuMemAllocManaged, cuMemFree.
 *
 * What the host may observe: an allocation over the job's limit fails as on a full card (driver
 * 580.159 then has set the pointer to 0 and the pitch to what it would be); one that the card has
 * no room for yet takes as long as --when-full. Arguments that the driver would refuse go straight
 * to it.
 *
 * Managed memory is charged in full although it may lie in host memory: nothing else bounds it.
 * With several GPUs it is charged to the one that was current when it was made, wherever its pages
 * go: one of them has to bear it, and pages move by themselves.
 * NVML never shows it with its process (wire/page.h), so its amount is told to allotd.
 */
#include "base/cleanup.h"
#include "base/size.h"
#include "shim/guard.h"
#include "shim/hooks.h"
#include "shim/pools.h"
#include "shim/real.h"
#include "shim/reserve.h"
#include "shim/reuse.h"

static HOT CUresult alloc_linear(CUdeviceptr *dptr, size_t bytes)
{
	struct reserve r;
	CUresult rc;

	*dptr = 0;
	if (!reserve_begin(&r, reserve_linear_bytes(bytes)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	do
		rc = real_cuMemAlloc_v2(dptr, bytes);
	while (rc == CUDA_ERROR_OUT_OF_MEMORY && reserve_again(&r));
	if (rc != CUDA_SUCCESS) {
		reserve_undo(&r);
		return rc;
	}
	reserve_keep(&r, BLOCK_LINEAR, *dptr);
	return rc;
}

HOT CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
	CUresult rc;

	if (!dptr || bytesize == 0 || !guard_enter())
		return real_cuMemAlloc_v2(dptr, bytesize);
	rc = alloc_linear(dptr, bytesize);
	guard_leave();
	return rc;
}

static CUresult alloc_managed(CUdeviceptr *dptr, size_t bytes, unsigned int flags)
{
	struct reserve r;
	CUresult rc;

	*dptr = 0;
	if (!reserve_begin(&r, reserve_linear_bytes(bytes)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	do
		rc = real_cuMemAllocManaged(dptr, bytes, flags);
	while (rc == CUDA_ERROR_OUT_OF_MEMORY && reserve_again(&r));
	if (rc != CUDA_SUCCESS) {
		reserve_undo(&r);
		return rc;
	}
	account_mark(&r.charge, CHARGE_MANAGED);
	reserve_keep(&r, BLOCK_LINEAR, *dptr);
	return rc;
}

CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
	CUresult rc;

	if (!dptr || bytesize == 0 || !guard_enter())
		return real_cuMemAllocManaged(dptr, bytesize, flags);
	rc = alloc_managed(dptr, bytesize, flags);
	guard_leave();
	return rc;
}

/* rows begin at multiples of the texture pitch alignment: 512 bytes on every GPU since Kepler */
#define PITCH_STEP 512

static CUresult alloc_pitch(CUdeviceptr *dptr, size_t *pitch, size_t width, size_t height,
			    unsigned int element, uint64_t estimate)
{
	struct reserve r;
	CUresult rc;

	*dptr = 0;
	*pitch = size_round_up(width, PITCH_STEP);
	if (!reserve_begin(&r, reserve_linear_bytes(estimate)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	do
		rc = real_cuMemAllocPitch_v2(dptr, pitch, width, height, element);
	while (rc == CUDA_ERROR_OUT_OF_MEMORY && reserve_again(&r));
	if (rc == CUDA_SUCCESS && !reserve_resize(&r, reserve_linear_bytes(*pitch * height))) {
		(void)real_cuMemFree_v2(*dptr); /* it was just made: nobody can hold it */
		*dptr = 0;
		rc = CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (rc != CUDA_SUCCESS) {
		reserve_undo(&r);
		return rc;
	}
	reserve_keep(&r, BLOCK_LINEAR, *dptr);
	return rc;
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height,
			    unsigned int ElementSizeBytes)
{
	uint64_t bytes = 0;
	CUresult rc;

	/* a product that wraps is the driver's to refuse, too */
	if (!dptr || !pPitch || WidthInBytes == 0 || Height == 0 ||
	    !size_mul(size_round_up(WidthInBytes, PITCH_STEP), Height, &bytes) || !guard_enter())
		return real_cuMemAllocPitch_v2(dptr, pPitch, WidthInBytes, Height,
					       ElementSizeBytes);
	rc = alloc_pitch(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes, bytes);
	guard_leave();
	return rc;
}

HOT CUresult cuMemFree_v2(CUdeviceptr dptr)
{
	struct block *b;
	CUresult rc;

	if (!guard_enter())
		return real_cuMemFree_v2(dptr);
	b = reserve_take_out(BLOCK_LINEAR, dptr);
	rc = real_cuMemFree_v2(dptr);
	reserve_freed(b, rc == CUDA_SUCCESS);
	if (!b && rc == CUDA_SUCCESS)
		pools_freed(); /* perhaps stream-ordered memory; cuMemFree synchronises */
	if (!b && rc == CUDA_SUCCESS && reuse_any())
		reuse_forget(dptr);
	pools_synced();
	guard_leave();
	return rc;
}
