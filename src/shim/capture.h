// SPDX-License-Identifier: Apache-2.0
#ifndef SHIM_CAPTURE_H
#define SHIM_CAPTURE_H

/*
 * Is a stream being captured, so that waiting is forbidden?
 *
 * While a thread captures, an allocation of it is answered at once: it may hold what another
 * needs, and the capture must not be disturbed.  A capture of mode GLOBAL binds the other threads
 * of the process as well.  We know the captures that begin and end through our hooks; a capture
 * that ends by the death of its stream is forgotten there.
 *
 * Nothing here calls the driver, except capture_is_active, which asks it about one stream.  The
 * table lies in memory that fork wipes; no malloc.  Any thread.
 */

#include <stdbool.h>
#include <stdint.h>

#include "abi/cuda_types.h"

/** capture_forbids_wait - does this thread capture, or anybody in mode GLOBAL? */
bool capture_forbids_wait(void);

/** capture_any - is any capture under way in this process?  One load */
bool capture_any(void);

/** capture_began, capture_ended - told by the hooks */
void capture_began(CUstream stream, bool per_thread, CUstreamCaptureMode mode);
void capture_ended(CUstream stream, bool per_thread);

/**
 * capture_graph - the graph that @stream is being captured into, if it is
 * @per_thread:  the default stream is the thread's own (the _ptsz entry points)
 * @ret_graph:   NULL where the driver cannot tell
 * False: an ordinary stream.
 */
bool capture_graph(CUstream stream, bool per_thread, CUgraph *ret_graph);

#endif
