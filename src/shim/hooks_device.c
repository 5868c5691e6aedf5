// SPDX-License-Identifier: Apache-2.0
/*
 * Start, and what the program sees of its cards.
 *
 * cuInit attaches (the driver's folder comes from allotd) but takes no memory: many tools call it
 * and never use a GPU.  Without an allotd, and unless the job is to run open, it fails with
 * CUDA_ERROR_SYSTEM_NOT_READY, and may be tried again.  In it the driver learns which GPUs there
 * are: those of the lease (visible.h).
 *
 * The views: total is the job's limit, free what is left of it; without a limit a ceiling fixed at
 * the job's first question.  The driver is asked first, so errors and NULL arguments are its own,
 * and only then the figures are replaced.  Never more than the driver says the card has.
 */
#include "base/size.h"
#include "shim/attach.h"
#include "shim/devices.h"
#include "shim/guard.h"
#include "shim/hooks.h"
#include "shim/real.h"
#include "shim/visible.h"

CUresult cuInit(unsigned int Flags)
{
	CUresult rc = CUDA_ERROR_SYSTEM_NOT_READY;

	if (!guard_enter())
		return real_cuInit(Flags);
	if (attach_ensure() == 0 || attach_is_open())
		rc = real_cuInit(Flags);
	if (rc == CUDA_SUCCESS)
		visible_check();
	guard_leave();
	return rc;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
	struct wire_viewed seen;
	CUresult rc;
	int slot;

	if (!guard_enter())
		return real_cuDeviceTotalMem_v2(bytes, dev);
	rc = real_cuDeviceTotalMem_v2(bytes, dev);
	slot = rc == CUDA_SUCCESS && bytes ? devices_slot(dev) : ACCOUNT_NOWHERE;
	if (slot >= 0) {
		(void)account_view(slot, &seen);
		if (seen.total_bytes)
			*bytes = size_min(*bytes, seen.total_bytes);
	}
	guard_leave();
	return rc;
}

/* @free_bytes, @total_bytes: the driver's figures; either may be NULL */
static void replace_info(int slot, size_t *free_bytes, size_t *total_bytes)
{
	size_t card_free, card_total;
	struct wire_viewed seen;
	uint64_t total;

	if (real_cuMemGetInfo_v2(&card_free, &card_total) != CUDA_SUCCESS)
		return;
	if (account_view(slot, &seen)) {
		total = size_min(seen.total_bytes, card_total);
	} else if (attach_is_open()) {
		return; /* unlimited while allotd is away */
	} else {
		/* nobody knows what the job's other processes hold: promise only what is there */
		total = seen.total_bytes ? size_min(seen.total_bytes, card_total) : card_total;
		seen.free_bytes = size_min(card_free, total);
	}
	if (total_bytes)
		*total_bytes = total;
	if (free_bytes)
		*free_bytes = size_min(seen.free_bytes, total);
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
	CUcontext ctx;
	CUresult rc;
	int slot;

	if (!guard_enter())
		return real_cuMemGetInfo_v2(free_bytes, total_bytes);
	rc = real_cuMemGetInfo_v2(free_bytes, total_bytes);
	slot = rc == CUDA_SUCCESS ? devices_current(&ctx) : ACCOUNT_NOWHERE;
	if (slot >= 0 && (free_bytes || total_bytes))
		replace_info(slot, free_bytes, total_bytes);
	guard_leave();
	return rc;
}
