// SPDX-License-Identifier: Apache-2.0
#ifndef GPU_NVML_H
#define GPU_NVML_H

/*
 * What NVML says of the machine's GPUs, read through the real (or simulated) library.
 *
 * The library is opened by path or by the loader's choice; our own interposer, should it be in
 * front, is recognised by its file name and passed by.  Every call may hang with the driver for as
 * long as the driver pleases: only allot-sampler, a process made to be abandoned, calls this.
 *
 * Nothing is taken for granted: each figure has a validity bit, and one that NVML does not know
 * (or that a driver lacks) is missing, never 0.  A GPU that fell off the bus is still reported,
 * with GPU_LOST and its identity if it was seen before.  Lists are bounded and say when they were
 * cut.
 *
 * MIG.  A card in MIG mode is a device, and so is each of its instances, which have UUIDs of their
 * own ("MIG-…": drivers since R470; the names before that, "MIG-GPU-UUID/GI/CI", are not known
 * here, so such a driver's instances are not seen).  Exact of an instance: total, reserved and used
 * memory.  What a process uses may be missing (GPU_UNKNOWN_U64), and utilisation, temperature and
 * power are the card's or nobody's.  Compute instances of one GPU instance share its memory: each
 * of them shows all of it.  Mode and layout are read here and never changed.
 *
 * One thread at a time.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct err;
struct gpu_nvml;

#define GPU_MAX         16   /* cards of a machine */
#define GPU_INSTANCES   8    /* MIG instances looked for on a card: the hardware has 7 */
#define GPU_PROCS_MAX   1024 /* processes kept of one GPU */
#define GPU_UNKNOWN_U64 UINT64_MAX
#define GPU_NO_ID       UINT32_MAX

/* validity of the fields of struct gpu_sample */
#define GPU_HAS_UUID        (1u << 0)
#define GPU_HAS_NAME        (1u << 1)
#define GPU_HAS_PCI         (1u << 2)
#define GPU_HAS_TOTAL       (1u << 3)
#define GPU_HAS_RESERVED    (1u << 4)
#define GPU_HAS_USED        (1u << 5) /* used_bytes and free_bytes */
#define GPU_HAS_UTILIZATION (1u << 6)
#define GPU_HAS_TEMPERATURE (1u << 7)
#define GPU_HAS_POWER       (1u << 8)
#define GPU_HAS_PROCS       (1u << 9)
#define GPU_HAS_POWER_LIMIT (1u << 10)

/* flags of struct gpu_sample */
#define GPU_LOST      (1u << 0) /* NVML: GPU is lost, or needs a reset */
#define GPU_PROCS_CUT (1u << 1) /* more than GPU_PROCS_MAX processes */
#define GPU_MIG_MODE  (1u << 2) /* a card whose memory belongs to its instances */
#define GPU_INSTANCE  (1u << 3) /* a MIG device: uuid is a MIG UUID */

/* which lists a process stood in */
#define GPU_PROC_COMPUTE  (1u << 0)
#define GPU_PROC_GRAPHICS (1u << 1)
#define GPU_PROC_MPS      (1u << 2)

struct gpu_proc {
	pid_t pid;           /* as NVML numbers it: the host's, or this PID namespace's */
	uint32_t kinds;      /* GPU_PROC_* */
	uint64_t used_bytes; /* GPU_UNKNOWN_U64: NVML does not tell */
};

struct gpu_sample {
	uint32_t valid;     /* GPU_HAS_* */
	uint32_t flags;     /* GPU_LOST, GPU_PROCS_CUT */
	uint32_t index;     /* NVML's: PCI order; of an instance, its card's */
	uint32_t mig_index; /* of an instance: nvidia-smi's "MIG Dev", CUDA containers' 0:1 */
	uint32_t gi, ci;    /* … its ids; GPU_NO_ID: not known */
	uint32_t utilization_pct;
	uint32_t temperature_c;
	uint32_t power_mw;
	uint32_t power_limit_mw;
	uint32_t n_procs;
	uint64_t at_ns; /* CLOCK_MONOTONIC when reading began */
	uint64_t total_bytes;
	uint64_t reserved_bytes; /* the driver's own */
	uint64_t used_bytes;     /* without the reserve when GPU_HAS_RESERVED, else with it */
	uint64_t free_bytes;
	uint8_t uuid[16];
	char pci_bus_id[16]; /* "0000:83:00.0" */
	char name[96];
	struct gpu_proc procs[GPU_PROCS_MAX]; /* no pid twice */
};

/**
 * gpu_nvml_open - load the library and initialise it
 * @driver_dir: folder with libnvidia-ml.so.1; NULL or "": what the loader picks
 *
 * Returns 0; -ENOENT no library; -ELIBBAD not a usable one; -ENODEV the driver is not loaded;
 * -EACCES; -EIO anything else NVML said.  May hang.
 */
int gpu_nvml_open(const char *driver_dir, struct gpu_nvml **ret, struct err *err);

/** gpu_nvml_close - NULL allowed.  May hang. */
void gpu_nvml_close(struct gpu_nvml *nvml);

/** gpu_nvml_driver_version - "580.159.04", or "" when not known; valid until close */
const char *gpu_nvml_driver_version(const struct gpu_nvml *nvml);

/** gpu_nvml_path - the file of the library in use; valid until close */
const char *gpu_nvml_path(const struct gpu_nvml *nvml);

/** gpu_nvml_count - how many GPUs, at most GPU_MAX; -EIO with NVML's words in @err */
int gpu_nvml_count(struct gpu_nvml *nvml, struct err *err);

/** gpu_nvml_sample_one - all there is to know of GPU @index; what cannot be read is not valid */
void gpu_nvml_sample_one(struct gpu_nvml *nvml, unsigned index, struct gpu_sample *ret);

/**
 * gpu_nvml_sample_instance - the same of MIG instance @mig (0 … GPU_INSTANCES − 1) of that card
 * Returns false when there is none of that index.
 */
bool gpu_nvml_sample_instance(struct gpu_nvml *nvml, unsigned index, unsigned mig,
			      struct gpu_sample *ret);

/**
 * gpu_nvml_sample - every card
 * @out: of @max entries
 * Returns how many were filled; -EIO.  May hang.
 */
int gpu_nvml_sample(struct gpu_nvml *nvml, struct gpu_sample out[], unsigned max, struct err *err);

#endif
