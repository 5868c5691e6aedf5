// SPDX-License-Identifier: Apache-2.0
#ifndef SHIM_DEVICES_H
#define SHIM_DEVICES_H

/*
 * Which slot of the lease is a CUDA device?
 *
 * By UUID, since CUDA's order, CUDA_VISIBLE_DEVICES and NVML's order all differ.  Asked once a
 * device, then remembered (a CUdevice is a small ordinal that keeps its meaning for the life of
 * the process); forgotten in a forked child.  Any thread.  Attaches when that has not happened, so
 * it may block for the grace period; calls the driver, holds no lock.
 */

#include "abi/cuda_types.h"
#include "shim/account.h"

/* beside slots 0 … and ACCOUNT_NOWHERE: */
#define DEVICES_OUTSIDE (-2) /* a GPU that exists and is not in the lease */
#define DEVICES_AWAY    (-3) /* allotd is away, and --fail-policy closed: nothing may be taken */

/**
 * devices_slot - the slot of @dev; DEVICES_OUTSIDE, DEVICES_AWAY; ACCOUNT_NOWHERE when the driver
 * does not know such a device, or when the job runs unlimited without allotd
 */
int devices_slot(CUdevice dev);

/**
 * devices_current - the slot of the current context's device, and that context
 * ACCOUNT_NOWHERE (and *ret_ctx NULL) without a context.
 */
int devices_current(CUcontext *ret_ctx);

/** devices_context_ended - some context is gone: its handle may come again on another device */
void devices_context_ended(void);

/** devices_count - how many devices CUDA shows; 0 when it cannot say */
int devices_count(void);

#endif
