// SPDX-License-Identifier: Apache-2.0
#ifndef SHIM_PHYSICAL_H
#define SHIM_PHYSICAL_H

/* Between hooks_vmm.c and hooks_share.c: handles whose memory is another process's. */

#include "abi/cuda_types.h"
#include "shim/blocks.h"

/**
 * physical_imported - @handle is of memory that was imported, known as @share
 * @h, @memory, @share: records of ours, taken over.  When its last handle and mapping are gone,
 * that is told (shim/share.h).
 * @charge: what it costs us, when it was nobody's; CHARGE_NONE: it is somebody else's
 */
void physical_imported(CUmemGenericAllocationHandle handle, struct block *h, struct block *memory,
		       struct block *share, struct charge charge);

#endif
