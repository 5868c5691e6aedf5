// SPDX-License-Identifier: Apache-2.0
/*
 * Where captures begin and end, for capture.h.  Everything passes untouched.
 *
 * cuStreamBeginCapture without _v2 has no mode: it is a GLOBAL capture.  A capture also ends when
 * it turns out invalid at its end, and when its stream is destroyed.
 */
#include "shim/capture.h"
#include "shim/guard.h"
#include "shim/hooks.h"
#include "shim/real.h"
#include "shim/reuse.h"

static CUresult began(CUresult rc, CUstream stream, bool per_thread, CUstreamCaptureMode mode)
{
	if (rc == CUDA_SUCCESS)
		capture_began(stream, per_thread, mode);
	guard_leave();
	return rc;
}

CUresult cuStreamBeginCapture(CUstream hStream)
{
	if (!guard_enter())
		return real_cuStreamBeginCapture(hStream);
	return began(real_cuStreamBeginCapture(hStream), hStream, false,
		     CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult cuStreamBeginCapture_ptsz(CUstream hStream)
{
	if (!guard_enter())
		return real_cuStreamBeginCapture_ptsz(hStream);
	return began(real_cuStreamBeginCapture_ptsz(hStream), hStream, true,
		     CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode)
{
	if (!guard_enter())
		return real_cuStreamBeginCapture_v2(hStream, mode);
	return began(real_cuStreamBeginCapture_v2(hStream, mode), hStream, false, mode);
}

CUresult cuStreamBeginCapture_v2_ptsz(CUstream hStream, CUstreamCaptureMode mode)
{
	if (!guard_enter())
		return real_cuStreamBeginCapture_v2_ptsz(hStream, mode);
	return began(real_cuStreamBeginCapture_v2_ptsz(hStream, mode), hStream, true, mode);
}

CUresult cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph,
				     const CUgraphNode *dependencies,
				     const CUgraphEdgeData *dependencyData, size_t numDependencies,
				     CUstreamCaptureMode mode)
{
	if (!guard_enter())
		return real_cuStreamBeginCaptureToGraph(hStream, hGraph, dependencies,
							dependencyData, numDependencies, mode);
	return began(real_cuStreamBeginCaptureToGraph(hStream, hGraph, dependencies, dependencyData,
						      numDependencies, mode),
		     hStream, false, mode);
}

CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream hStream, CUgraph hGraph,
					  const CUgraphNode *dependencies,
					  const CUgraphEdgeData *dependencyData,
					  size_t numDependencies, CUstreamCaptureMode mode)
{
	if (!guard_enter())
		return real_cuStreamBeginCaptureToGraph_ptsz(hStream, hGraph, dependencies,
							     dependencyData, numDependencies, mode);
	return began(real_cuStreamBeginCaptureToGraph_ptsz(hStream, hGraph, dependencies,
							   dependencyData, numDependencies, mode),
		     hStream, true, mode);
}

/* an error may or may not have ended the capture: the driver is asked */
static CUresult ended(CUresult rc, CUstream stream, bool per_thread)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	if (rc != CUDA_SUCCESS &&
	    (per_thread ? real_cuStreamIsCapturing_ptsz(stream, &status)
			: real_cuStreamIsCapturing(stream, &status)) == CUDA_SUCCESS &&
	    status != CU_STREAM_CAPTURE_STATUS_NONE) {
		guard_leave();
		return rc;
	}
	capture_ended(stream, per_thread);
	guard_leave();
	return rc;
}

CUresult cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)
{
	if (!guard_enter())
		return real_cuStreamEndCapture(hStream, phGraph);
	return ended(real_cuStreamEndCapture(hStream, phGraph), hStream, false);
}

CUresult cuStreamEndCapture_ptsz(CUstream hStream, CUgraph *phGraph)
{
	if (!guard_enter())
		return real_cuStreamEndCapture_ptsz(hStream, phGraph);
	return ended(real_cuStreamEndCapture_ptsz(hStream, phGraph), hStream, true);
}

static CUresult destroyed(CUresult rc, CUstream stream)
{
	if (rc == CUDA_SUCCESS) {
		capture_ended(stream, false);
		reuse_stream_gone(stream);
	}
	guard_leave();
	return rc;
}

CUresult cuStreamDestroy(CUstream hStream)
{
	if ((!capture_any() && !reuse_any()) || !guard_enter())
		return real_cuStreamDestroy(hStream);
	return destroyed(real_cuStreamDestroy(hStream), hStream);
}

CUresult cuStreamDestroy_v2(CUstream hStream)
{
	if ((!capture_any() && !reuse_any()) || !guard_enter())
		return real_cuStreamDestroy_v2(hStream);
	return destroyed(real_cuStreamDestroy_v2(hStream), hStream);
}
