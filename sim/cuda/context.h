// SPDX-License-Identifier: Apache-2.0
#ifndef SIM_CUDA_CONTEXT_H
#define SIM_CUDA_CONTEXT_H

/*
 * Between context.c (life), current.c (each thread's stack) and the modules whose objects end with
 * a context. All need sim_lock(), except the stack calls, which touch only the calling thread.
 */

#include "sim/cuda/sim.h"

/** sim_ctx_stack_is_full - no room for one more current context */
bool sim_ctx_stack_is_full(void);
/** sim_ctx_push - any handle; what it is worth shows when it is used */
void sim_ctx_push(CUcontext handle);
/** sim_ctx_pop - NULL when the stack is empty */
CUcontext sim_ctx_pop(void);

/** sim_ctx_lookup - @handle itself, or a destroyed stand-in when it never was a context */
CUcontext sim_ctx_lookup(CUcontext handle);

/** sim_ctx_free_allocs, _arrays - what was allocated in @ctx ends with it */
void sim_ctx_free_allocs(CUcontext ctx);
void sim_ctx_free_arrays(CUcontext ctx);

/** sim_peer_is_enabled - may kernels of @ctx reach the memory of @other? */
bool sim_peer_is_enabled(CUcontext ctx, CUcontext other);
/** sim_peers_end - the access that @ctx has, and that is given to it */
void sim_peers_end(CUcontext ctx);

/** sim_pools_trim - give back all that pools of @device reserve beyond what is used */
void sim_pools_trim(struct sim_device *device);

#endif
