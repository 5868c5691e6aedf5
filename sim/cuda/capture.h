// SPDX-License-Identifier: Apache-2.0
#ifndef SIM_CUDA_CAPTURE_H
#define SIM_CUDA_CAPTURE_H

/*
 * Streams that describe instead of do.  A capture begins on one stream (its origin), adds to one
 * graph, and spreads to other streams through events.  Every stream in it keeps the set of nodes
 * that its next one depends on.
 *
 * What a capture forbids makes it invalid: it stays, and answers 901 to everything, until it is
 * ended.  Ended, its events stay captured ones (907) until they are recorded again.
 *
 * Every thread has a mode, GLOBAL at first.  A call that could hide a dependency ("unsafe": an
 * allocation, a query, a load of code) is refused, and invalidates, when this thread has begun a
 * capture that is not RELAXED, or when, with both modes GLOBAL, any other thread has; unless the
 * thread's own mode is RELAXED.  Needs sim_lock().
 */

#include "sim/cuda/graph.h"

struct capture {
	unsigned long long id;
	CUgraph graph;
	bool owns_graph; /* false: the program's own, of cuStreamBeginCaptureToGraph */
	bool is_invalid;
	CUstreamCaptureMode mode;
	uint64_t thread_id; /* who began it */
	CUstream origin;
	struct list streams; /* CUstream_st.capture_node */
	struct list node;
};

CUresult capture_begin(CUstream stream, CUgraph graph, const CUgraphNode *deps, size_t count,
		       CUstreamCaptureMode mode);
CUresult capture_end(CUstream stream, CUgraph *ret);

/** capture_find - the capture with that id, or NULL when it has ended */
struct capture *capture_find(unsigned long long id);

/** capture_exchange_mode - of this thread */
CUresult capture_exchange_mode(CUstreamCaptureMode *mode);

#endif
