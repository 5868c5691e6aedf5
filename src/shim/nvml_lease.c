// SPDX-License-Identifier: Apache-2.0
#include "shim/nvml_lease.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "base/fmt.h"
#include "base/parse.h"
#include "base/str.h"
#include "shim/attach.h"
#include "shim/env.h"
#include "shim/nvml_real.h"

/*
 * Handles seen and their UUIDs.  An entry is claimed by its number, filled, and published by its
 * handle; threads may enter the same handle twice, with the same UUID.  When all are taken the
 * driver is asked each time.
 */
#define HANDLES_MAX 64

struct handle {
	_Atomic(nvmlDevice_t) device;
	uint8_t uuid[16];
};

static struct handle handles[HANDLES_MAX];
static atomic_uint n_handles;

static bool recall_uuid(nvmlDevice_t device, uint8_t ret[16])
{
	unsigned n = atomic_load_explicit(&n_handles, memory_order_relaxed);

	for (unsigned i = 0; i < n && i < HANDLES_MAX; i++) {
		if (atomic_load_explicit(&handles[i].device, memory_order_acquire) == device) {
			memcpy(ret, handles[i].uuid, 16);
			return true;
		}
	}
	return false;
}

static void remember_uuid(nvmlDevice_t device, const uint8_t uuid[16])
{
	unsigned i = atomic_load_explicit(&n_handles, memory_order_relaxed);

	do {
		if (i >= HANDLES_MAX)
			return;
	} while (!atomic_compare_exchange_weak(&n_handles, &i, i + 1));
	memcpy(handles[i].uuid, uuid, 16);
	atomic_store_explicit(&handles[i].device, device, memory_order_release);
}

static bool uuid_of(nvmlDevice_t device, uint8_t ret[16])
{
	char text[NVML_DEVICE_UUID_V2_BUFFER_SIZE];

	if (recall_uuid(device, ret))
		return true;
	if (real_nvmlDeviceGetUUID(device, text, sizeof(text)) || parse_uuid(text, ret, NULL))
		return false;
	if (!str_starts_with(text, "MIG-")) /* an instance's handle may become another's */
		remember_uuid(device, ret);
	return true;
}

/* What an attach or call that failed means for the question. */
static enum nvml_lease away(int error)
{
	if (error == -EREMOTEIO || !env_get()->in_job || attach_is_open())
		return NVML_LEASE_PASS;
	return NVML_LEASE_UNKNOWN;
}

static int slot_of(const struct wire_attached *lease, const uint8_t uuid[16])
{
	for (uint32_t i = 0; i < lease->n_gpus; i++)
		if (memcmp(lease->gpus[i].uuid.bytes, uuid, 16) == 0)
			return (int)i;
	return -ENODEV;
}

bool nvml_lease_is_job(void)
{
	int e = attach_ensure();

	return e == 0 || (e != -EREMOTEIO && env_get()->in_job);
}

/* the handle of the instance that @gpu of the lease is */
static bool instance_of(const struct wire_lease_gpu *gpu, nvmlDevice_t *ret)
{
	struct fmt_buf text;

	return (gpu->flags & WIRE_GPU_MIG) &&
	       real_nvmlDeviceGetHandleByUUID(fmt_uuid(&text, "MIG-", gpu->uuid.bytes), ret) ==
		       NVML_SUCCESS;
}

static bool is_card_of(const uint8_t uuid[16], const struct wire_lease_gpu *gpu)
{
	nvmlDevice_t instance, card;
	uint8_t of_card[16];

	return instance_of(gpu, &instance) &&
	       real_nvmlDeviceGetDeviceHandleFromMigDeviceHandle(instance, &card) == NVML_SUCCESS &&
	       uuid_of(card, of_card) && memcmp(of_card, uuid, sizeof(of_card)) == 0;
}

/* The slot of a device in the lease: its own, or of a card that of its instance; -ENODEV. */
static int slot_for(const struct wire_attached *lease, const uint8_t uuid[16])
{
	int slot = lease ? slot_of(lease, uuid) : -ENODEV;

	for (uint32_t i = 0; slot < 0 && lease && i < lease->n_gpus; i++)
		if (is_card_of(uuid, &lease->gpus[i]))
			slot = (int)i;
	return slot;
}

/* The slot of @device in the lease. */
static enum nvml_lease find_slot(nvmlDevice_t device, uint32_t *ret)
{
	const struct wire_attached *lease;
	uint8_t uuid[16];
	int e, slot;

	if (!uuid_of(device, uuid))
		return NVML_LEASE_PASS;
	e = attach_ensure();
	if (e < 0)
		return away(e);
	lease = attach_lease();
	slot = slot_for(lease, uuid);
	if (slot < 0)
		return NVML_LEASE_PASS;
	*ret = (uint32_t)slot;
	return NVML_LEASE_OURS;
}

enum nvml_lease nvml_lease_narrows(void)
{
	int e = attach_ensure();
	const struct wire_attached *lease;

	if (e < 0)
		return away(e);
	lease = attach_lease();
	return lease && lease->n_gpus < lease->system_gpus ? NVML_LEASE_OURS : NVML_LEASE_PASS;
}

bool nvml_lease_has(nvmlDevice_t device)
{
	const struct wire_attached *lease = attach_lease();
	uint8_t uuid[16];

	return !lease || !uuid_of(device, uuid) || slot_for(lease, uuid) >= 0;
}

static void find_ids(uint32_t slot, struct nvml_lease_procs *ret)
{
	const struct wire_attached *lease = attach_lease();
	nvmlDevice_t instance;

	ret->gi = ret->ci = NVML_NO_INSTANCE;
	if (!lease || slot >= lease->n_gpus || !instance_of(&lease->gpus[slot], &instance))
		return;
	if (real_nvmlDeviceGetGpuInstanceId(instance, &ret->gi))
		ret->gi = NVML_NO_INSTANCE;
	if (real_nvmlDeviceGetComputeInstanceId(instance, &ret->ci))
		ret->ci = NVML_NO_INSTANCE;
}

enum nvml_lease nvml_lease_view(nvmlDevice_t device, struct wire_viewed *ret)
{
	struct wire_view ask = { 0 };
	enum nvml_lease l = find_slot(device, &ask.slot);
	int e;

	if (l != NVML_LEASE_OURS)
		return l;
	e = attach_call(WIRE_VIEW, &ask, WIRE_VIEWED, ret, 0, NULL);
	return e < 0 ? away(e) : NVML_LEASE_OURS;
}

/* A list whose connection broke is asked for again from its beginning: what came before is known.
 */
static int take_proc(const void *item, void *arg)
{
	const struct wire_proc *p = item;
	struct nvml_lease_procs *procs = arg;

	if (p->pid <= 0) /* it has no number in our PID namespace */
		return 0;
	for (unsigned i = 0; i < procs->n; i++)
		if (procs->pid[i] == (unsigned)p->pid)
			return 0;
	if (procs->n == NVML_LEASE_PROCS_MAX)
		return 0; /* more than any reader has room for */
	procs->pid[procs->n] = (unsigned)p->pid;
	procs->used_bytes[procs->n++] = p->used_bytes;
	return 0;
}

enum nvml_lease nvml_lease_procs(nvmlDevice_t device, struct nvml_lease_procs *ret)
{
	struct wire_procs ask = { 0 };
	enum nvml_lease l = find_slot(device, &ask.slot);
	int e;

	if (l != NVML_LEASE_OURS)
		return l;
	ret->n = 0;
	find_ids(ask.slot, ret);
	e = attach_list(WIRE_PROCS, &ask, WIRE_PROC, take_proc, ret, NULL);
	return e < 0 ? away(e) : NVML_LEASE_OURS;
}
