// SPDX-License-Identifier: Apache-2.0
#ifndef SIM_CUDA_RANGES_H
#define SIM_CUDA_RANGES_H

/*
 * For the modules that make ranges themselves (host memory, pools, VMM, IPC): enter one into the
 * tree of all ranges and take it out. Needs sim_lock().
 */

#include "sim/cuda/memory.h"

/** range_is_free - nothing of ours overlaps there */
bool range_is_free(CUdeviceptr base, size_t bytes);

/** range_new - only the entry: no mapping, no charge; NULL when there is no memory */
struct sim_alloc *range_new(CUdeviceptr base, size_t bytes, size_t mapped_bytes,
			    enum sim_alloc_kind kind);

/** range_own - let it end with @ctx; NULL: with nobody */
void range_own(struct sim_alloc *alloc, CUcontext ctx);

/** range_free - forget the entry; NULL allowed */
void range_free(struct sim_alloc *alloc);

/** sim_range_end - end a range of any kind in the way its kind ends; NULL allowed */
void sim_range_end(struct sim_alloc *alloc);

/* what each module does in sim_range_end */
void sim_pool_range_end(struct sim_alloc *alloc);
/** sim_pool_mapping - the chunk that holds @alloc: its bytes and base */
size_t sim_pool_mapping(const struct sim_alloc *alloc, CUdeviceptr *ret_base);
void sim_ipc_range_end(struct sim_alloc *alloc);
void sim_external_range_end(struct sim_alloc *alloc);

/** sim_vmm_find - the mapping in a reservation that contains @ptr; false: a hole */
bool sim_vmm_find(CUdeviceptr ptr, struct sim_ptr *ret);

#endif
