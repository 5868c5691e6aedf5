// SPDX-License-Identifier: Apache-2.0
#include "shim/devices.h"
#include "base/cleanup.h"

#include <stdatomic.h>
#include <string.h>

#include "shim/real.h"
#include "shim/wiped.h"

#define DEVICES_MAX 64 /* ordinals that are remembered; beyond, each question is asked anew */

/* 0: not asked yet; else the answer + KNOWN_BASE */
#define KNOWN_BASE 8

struct devices {
	_Atomic int8_t known[DEVICES_MAX];
};

static void *_Atomic devices_memory;

static int look_up(CUdevice dev)
{
	const struct wire_attached *lease = attach_lease();
	CUuuid uuid;

	/* MIG instances have a UUID of their own, which only _v2 tells (CUDA 11.4) */
	if (real_cuDeviceGetUuid_v2(&uuid, dev) != CUDA_SUCCESS &&
	    real_cuDeviceGetUuid(&uuid, dev) != CUDA_SUCCESS)
		return ACCOUNT_NOWHERE;
	for (uint32_t i = 0; i < lease->n_gpus; i++)
		if (memcmp(uuid.bytes, lease->gpus[i].uuid.bytes, sizeof(uuid.bytes)) == 0)
			return (int)i;
	return DEVICES_OUTSIDE;
}

int devices_slot(CUdevice dev)
{
	struct devices *d = wiped_once(&devices_memory, sizeof(*d));
	bool kept = d && dev >= 0 && dev < DEVICES_MAX;
	int slot = kept ? atomic_load_explicit(&d->known[dev], memory_order_relaxed) : 0;

	if (slot)
		return slot - KNOWN_BASE;
	if (attach_ensure() < 0)
		return attach_is_open() ? ACCOUNT_NOWHERE : DEVICES_AWAY;
	slot = look_up(dev);
	if (kept && slot != ACCOUNT_NOWHERE)
		atomic_store_explicit(&d->known[dev], (int8_t)(slot + KNOWN_BASE),
				      memory_order_relaxed);
	return slot;
}

/*
 * The last context that this thread asked for: most ask for one and the same, and each question to
 * the driver costs a tenth of a small allocation.  Contexts that end make the memory of all
 * threads void, since a handle may come again on another device.
 */
static _Thread_local struct {
	CUcontext ctx;
	unsigned ends;
	int slot;
} last __attribute__((tls_model("initial-exec")));

static _Atomic unsigned context_ends;

void devices_context_ended(void)
{
	atomic_fetch_add(&context_ends, 1);
}

HOT int devices_current(CUcontext *ret_ctx)
{
	unsigned ends = atomic_load_explicit(&context_ends, memory_order_acquire);
	CUdevice dev;
	int slot;

	*ret_ctx = NULL;
	if (real_cuCtxGetCurrent(ret_ctx) != CUDA_SUCCESS || !*ret_ctx)
		return ACCOUNT_NOWHERE;
	if (last.ctx == *ret_ctx && last.ends == ends)
		return last.slot;
	if (real_cuCtxGetDevice(&dev) != CUDA_SUCCESS)
		return ACCOUNT_NOWHERE;
	slot = devices_slot(dev);
	if (slot >= 0) {
		last.ctx = *ret_ctx;
		last.ends = ends;
		last.slot = slot;
	}
	return slot;
}

int devices_count(void)
{
	int n;

	return real_cuDeviceGetCount(&n) == CUDA_SUCCESS && n > 0 ? n : 0;
}
