// SPDX-License-Identifier: Apache-2.0
#ifndef SIM_CUDA_VMM_H
#define SIM_CUDA_VMM_H

/*
 * Physical handles of the virtual-memory calls: between vmm.c (handles) and vmm_map.c (address
 * ranges and what is mapped there). A handle's memory lives until its last reference and its last
 * mapping are gone; only memory on a device, and only its creator's, is charged. Needs sim_lock().
 */

#include "sim/cuda/memory.h"
#include "sim/cuda/va.h"

#define VMM_GRAIN ((size_t)2 << 20)

struct vmm_handle {
	struct list node;
	CUmemGenericAllocationHandle id;
	CUmemAllocationProp prop;
	struct va_phys phys;
	struct sim_device *device; /* NULL: host memory */
	uint64_t charged_bytes;
	uint64_t share_id; /* sim/state/share.h; 0: neither exported nor imported */
	unsigned references, mappings;
};

/** vmm_handle_find - NULL when there is no such handle, or its last reference is released */
struct vmm_handle *vmm_handle_find(CUmemGenericAllocationHandle id);

/** vmm_identify_fd - whose memory @fd is; false when it is none of a simulator's */
bool vmm_identify_fd(int fd, CUmemLocation *location, size_t *bytes);

/** vmm_handle_settle - free it when neither references nor mappings are left */
void vmm_handle_settle(struct vmm_handle *handle);

#endif
