// SPDX-License-Identifier: Apache-2.0
#ifndef DAEMON_SAMPLER_WIRE_H
#define DAEMON_SAMPLER_WIRE_H

/*
 * Between allotd and its child allot-sampler: SOCK_SEQPACKET on descriptor 3 of the child, both
 * of the same build, so the layout needs no version.  A request is answered by one GPU message for
 * each card that was asked for (all of them when `gpus` has every bit) and for each of its MIG
 * instances, each followed by its processes in PROCS messages, and by one DONE.
 */

#include <stdint.h>

#include "wire/wire.h"

#define SAMPLER_FD        3
#define SAMPLER_MAX_GPUS  64
#define SAMPLER_PROCS     64    /* in one message */
#define SAMPLER_MAX_PROCS 16384 /* of one GPU that allotd looks at */
#define SAMPLER_ALL       UINT64_MAX

enum sampler_kind {
	SAMPLER_GPU = 1,
	SAMPLER_PROCS_OF_GPU = 2,
	SAMPLER_DONE = 3,
};

enum sampler_known {
	SAMPLER_MEMORY = 1u << 0,    /* total, reserved, used */
	SAMPLER_PROCESSES = 1u << 1, /* the list is complete */
	SAMPLER_UTILIZATION = 1u << 2,
	SAMPLER_TEMPERATURE = 1u << 3,
	SAMPLER_POWER = 1u << 4,
	SAMPLER_LOST = 1u << 5, /* fell off the bus */
	/* what it is */
	SAMPLER_MIG_MODE = 1u << 6, /* a card: its memory belongs to its instances */
	SAMPLER_INSTANCE = 1u << 7, /* a MIG instance: uuid is a MIG UUID, index its card's */
};

/* of a process: which of NVML's lists it stood in; both is nvidia-smi's C+G */
enum sampler_kinds {
	SAMPLER_PROC_COMPUTE = 1u << 0,
	SAMPLER_PROC_GRAPHICS = 1u << 1,
	SAMPLER_PROC_MPS = 1u << 2,
};

struct sampler_request {
	uint64_t sequence;
	uint64_t gpus; /* bit i: the GPU of index i */
};

struct sampler_gpu {
	uint64_t sequence;
	uint32_t kind;
	uint32_t known; /* enum sampler_known */
	uint32_t index; /* PCI order, as nvidia-smi */
	uint32_t n_processes;
	struct wire_uuid uuid;
	uint64_t total_bytes;
	uint64_t reserved_bytes; /* by the driver */
	uint64_t used_bytes;     /* without the reserved */
	uint32_t utilization_pct;
	uint32_t temperature_c;
	uint32_t power_mw;
	uint32_t mig_index; /* of an instance, by nvidia-smi; else 0 */
	uint32_t gi, ci;    /* … its ids; WIRE_UNKNOWN_U32: not known, or a card */
	char pci_bus_id[16];
	char model[WIRE_NAME_MAX];
	char driver_version[80];
};

struct sampler_proc {
	int32_t pid;
	uint16_t is_known; /* NVML has a figure */
	uint16_t kinds;    /* enum sampler_kinds */
	uint64_t bytes;
};

struct sampler_procs {
	uint64_t sequence;
	uint32_t kind;
	uint32_t index;
	uint32_t n;
	uint32_t pad;
	struct sampler_proc procs[SAMPLER_PROCS];
};

struct sampler_done {
	uint64_t sequence;
	uint32_t kind;
	uint32_t is_ok;  /* NVML answered */
	uint32_t n_gpus; /* of the machine */
	uint32_t pad;
	char text[WIRE_TEXT_MAX]; /* why not */
};

/* kind and sequence stand at the same place in all three */
struct sampler_head {
	uint64_t sequence;
	uint32_t kind;
};

#endif
