// SPDX-License-Identifier: Apache-2.0
#ifndef SHIM_NVML_LEASE_H
#define SHIM_NVML_LEASE_H

/*
 * Is the device that a program asks about a part of its job's lease, and what does it see of it?
 *
 * Devices are matched by UUID, asked of the driver once a handle and remembered.  What a program
 * sees is allotd's answer to VIEW and PROCS; nothing of it is kept here.
 *
 * Devices outside of the lease are not shown (nvml_devices.c).  Of a card in MIG mode a job sees
 * the instance that it has, and no other (nvml_mig.c); the card's own handle stands for that
 * instance: monitors and frameworks ask the handle of index 0 for memory and processes, and the
 * whole card's would be the neighbours'.
 *
 * Outside a job, and on a device that is not in the lease and was got at all the same, the driver's
 * own answer stands.  When allotd is away for longer than the lease allows:
 * under --fail-policy open the driver's answer stands too; under closed the question is answered
 * NVML_ERROR_UNKNOWN.  That is harmless: every monitor copes with it, and the alternative, the
 * whole card's figures, would make a program plan with memory that it will not get.
 *
 * Any thread; blocks as attach_call does; errno is kept.
 */

#include <stdbool.h>
#include <stdint.h>

#include "abi/nvml_types.h"
#include "wire/wire.h"

enum nvml_lease {
	NVML_LEASE_OURS,    /* answered: use it */
	NVML_LEASE_PASS,    /* the driver's answer stands */
	NVML_LEASE_UNKNOWN, /* allotd is away: NVML_ERROR_UNKNOWN */
};

/**
 * nvml_lease_narrows - is the lease only a part of the machine, so that devices must be left out?
 * OURS: yes; PASS: no, or nobody says so
 */
enum nvml_lease nvml_lease_narrows(void);

/** nvml_lease_has - is @device in the lease?  Also yes where that cannot be told.  Attached only */
bool nvml_lease_has(nvmlDevice_t device);

/** nvml_lease_view - total, free and used of @device as its job sees it; filled if OURS */
enum nvml_lease nvml_lease_view(nvmlDevice_t device, struct wire_viewed *ret);

/** nvml_lease_is_job - is this a process of a job (also while allotd is away)? */
bool nvml_lease_is_job(void);

#define NVML_LEASE_PROCS_MAX 1024

/* struct nvml_lease_procs - the job's processes on one device; no pid twice */
struct nvml_lease_procs {
	unsigned n;
	unsigned gi, ci;                    /* of the instance they are on; NVML_NO_INSTANCE */
	unsigned pid[NVML_LEASE_PROCS_MAX]; /* in our own PID namespace */
	uint64_t used_bytes[NVML_LEASE_PROCS_MAX];
};

/** nvml_lease_procs - what PROCS says; filled if OURS */
enum nvml_lease nvml_lease_procs(nvmlDevice_t device, struct nvml_lease_procs *ret);

#endif
