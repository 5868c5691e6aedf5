// SPDX-License-Identifier: Apache-2.0
/*
 * The calls in which the host waits for the GPU.
 *
 * A pool returns memory to the card in one of these, some time after a stream-ordered free; the
 * account follows, so that others get the memory now and not with the next allocation.  Costs one
 * load on a call that waits anyway, as long as nothing was freed.
 */
#include "shim/guard.h"
#include "shim/hooks.h"
#include "shim/pools.h"
#include "shim/real.h"

CUresult cuStreamSynchronize(CUstream hStream)
{
	CUresult rc;

	if (!guard_enter())
		return real_cuStreamSynchronize(hStream);
	rc = real_cuStreamSynchronize(hStream);
	pools_synced();
	guard_leave();
	return rc;
}

CUresult cuStreamSynchronize_ptsz(CUstream hStream)
{
	CUresult rc;

	if (!guard_enter())
		return real_cuStreamSynchronize_ptsz(hStream);
	rc = real_cuStreamSynchronize_ptsz(hStream);
	pools_synced();
	guard_leave();
	return rc;
}

CUresult cuEventSynchronize(CUevent hEvent)
{
	CUresult rc;

	if (!guard_enter())
		return real_cuEventSynchronize(hEvent);
	rc = real_cuEventSynchronize(hEvent);
	pools_synced();
	guard_leave();
	return rc;
}

CUresult cuCtxSynchronize(void)
{
	CUresult rc;

	if (!guard_enter())
		return real_cuCtxSynchronize();
	rc = real_cuCtxSynchronize();
	pools_synced();
	guard_leave();
	return rc;
}

CUresult cuCtxSynchronize_v2(CUcontext ctx)
{
	CUresult rc;

	if (!guard_enter())
		return real_cuCtxSynchronize_v2(ctx);
	rc = real_cuCtxSynchronize_v2(ctx);
	pools_synced();
	guard_leave();
	return rc;
}
