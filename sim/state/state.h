// SPDX-License-Identifier: Apache-2.0
#ifndef SIM_STATE_STATE_H
#define SIM_STATE_STATE_H

/*
 * What the simulated machine's processes share: which devices there are and who holds how much of
 * their memory. It lives in two files of a private folder, "state" (mapped by all) and "alive".
 *
 * Invariants. A row belongs to one process from attach to death. Used memory is never stored as a
 * sum: it is added up over the rows, under the lock, each time somebody asks, so no death at any
 * instruction can leave it wrong. A row counts exactly while its owner lives: the owner holds a
 * kernel lock on the row's byte of "alive" through a mapping that dies with its address space (not
 * with a descriptor, and not inherited by fork), so neither reused pids nor PID namespaces matter.
 * Rows of the dead are wiped by whoever next takes the lock. The lock is a robust mutex; who only
 * reads does not wait for long, so that a process stopped in the middle holds up no sampler.
 *
 * Devices are numbered as the profile lists them: cards, then MIG instances. What an instance's
 * programs hold is theirs alone; a card in MIG mode shows the sum of its instances.
 *
 * Memory is paged: only counts of bytes contend, there is no fragmentation; what programs allocate
 * comes in whole SIM_PAGE_BYTES.
 *
 * Ownership. sim_state_open gives a handle that the caller closes. Handles are thread-safe. After
 * fork a child must open its own handle; an inherited one may only be dropped, not used.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "sim/state/profile.h"

struct err;
struct sim_state;

#define SIM_PAGE_BYTES ((uint64_t)2 << 20)
#define SIM_PROCS_MAX  1024

/* what a process holds memory for */
enum sim_use {
	SIM_USE_CONTEXT, /* contexts, their streams */
	SIM_USE_MODULE,
	SIM_USE_ALLOC,   /* cuMemAlloc, arrays, VMM handles */
	SIM_USE_POOL,    /* what stream-ordered pools reserve */
	SIM_USE_GRAPH,   /* what graphs reserve */
	SIM_USE_MANAGED, /* what lies on the card of it: NVML shows it with no process */
	SIM_USE_LEFT, /* of a pool whose owner freed it (share.h): shown with no process either */
	SIM_USE_COUNT
};

/*
 * struct sim_exec_shared - the device's timeline, shared between processes. All fields belong to
 * the execution side (sim/cuda streams); they are atomics, or written under sim_state_lock().
 */
struct sim_exec_shared {
	_Atomic uint64_t busy_until_ns; /* CLOCK_MONOTONIC */
	_Atomic uint64_t busy_total_ns; /* ever, for utilisation */
	_Atomic uint64_t copy_total_ns;
	_Atomic uint64_t launches;
	_Atomic uint64_t last_row; /* whose work ran last */
	uint64_t room[11];
};

/* struct sim_exec_row - one process's part on one device; written by that process only */
struct sim_exec_row {
	_Atomic uint64_t busy_total_ns;
	_Atomic uint64_t copy_total_ns;
	_Atomic uint64_t launches;
	_Atomic uint64_t busy_until_ns;
	_Atomic uint64_t work_bytes; /* local memory grown by launches; informative */
	uint64_t room[3];
};

struct sim_memory {
	uint64_t total_bytes;    /* as NVML tells it, the driver's reserve included */
	uint64_t reserved_bytes; /* the driver's own */
	uint64_t used_bytes;     /* all processes together; total = reserved + used + free */
	uint64_t free_bytes;
};

/* struct sim_proc - one process on one device */
struct sim_proc {
	unsigned row;
	pid_t pid;            /* in the process's own PID namespace */
	uint64_t pid_ns;      /* inode of that namespace */
	uint64_t start_ticks; /* /proc/PID/stat, field 22 */
	uint64_t used_bytes;  /* all uses that NVML shows with it, together */
	uint64_t use_bytes[SIM_USE_COUNT];
	unsigned contexts;
	uint64_t busy_total_ns;
};

/**
 * sim_state_dir - the folder that a simulated library uses
 * @self: an address inside the library (dladdr; links are not resolved)
 *
 * ALLOT_SIM_DIR; else the library's own folder when it has a profile.conf and may be written; else
 * $XDG_RUNTIME_DIR/allot-sim-UID or, without such a folder, /tmp/allot-sim-UID, which is made when
 * missing.
 */
int sim_state_dir(const void *self, char *ret, size_t size, struct err *err);

/**
 * sim_state_order - look at a file that gives orders to the simulator
 * @path: in its folder, which others may write to as well (a service's, as real devices are all's)
 *
 * Only what the folder's owner put there counts, and no link.  Returns false, with @ret zeroed, for
 * anything else.
 */
bool sim_state_order(const char *path, struct stat *ret);

/**
 * sim_state_open - map the state in @dir, made from DIR/profile.conf (or the H200) when missing
 *
 * A profile that has changed takes effect when no process is attached. A reader needs no more than
 * this; only a process that uses devices attaches.
 */
int sim_state_open(const char *dir, struct sim_state **ret, struct err *err);

/** sim_state_close - NULL allowed; a row that this handle attached is given up with it */
void sim_state_close(struct sim_state *state);

/** sim_state_attach - take a row for this process; -ENOSPC when SIM_PROCS_MAX are alive */
int sim_state_attach(struct sim_state *state);

/** sim_state_profile - the machine, devices in PCI order; valid until close */
const struct sim_profile *sim_state_profile(const struct sim_state *state);

/** sim_state_dir_path - the folder; valid until close */
const char *sim_state_dir_path(const struct sim_state *state);

/**
 * sim_state_take - hold @bytes more of device @index; -ENOMEM when the card has not that much
 * Needs an attached row. Atomic over all processes.
 */
int sim_state_take(struct sim_state *state, unsigned index, enum sim_use use, uint64_t bytes);

/** sim_state_give - hold @bytes less; more than is held clamps at 0 */
void sim_state_give(struct sim_state *state, unsigned index, enum sim_use use, uint64_t bytes);

/** sim_state_count_context - one context more (+1) or less (-1), for process lists */
void sim_state_count_context(struct sim_state *state, unsigned index, int change);

/** sim_state_memory - the device's memory now, the dead already gone */
void sim_state_memory(struct sim_state *state, unsigned index, struct sim_memory *ret);

/**
 * sim_state_procs - the living processes that have a context or memory on device @index
 * Returns how many there are; at most @max are written to @ret, in row order.
 */
unsigned sim_state_procs(struct sim_state *state, unsigned index, struct sim_proc *ret,
			 unsigned max);

/** sim_state_exec - the shared timeline of device @index; valid until close */
struct sim_exec_shared *sim_state_exec(struct sim_state *state, unsigned index);

/** sim_state_exec_row - this process's own part; NULL when not attached */
struct sim_exec_row *sim_state_exec_row(struct sim_state *state, unsigned index);

/** sim_state_row - this process's row, or -1 when not attached */
int sim_state_row(const struct sim_state *state);

/** sim_state_lock, _unlock - the lock between processes; short, never held while waiting */
void sim_state_lock(struct sim_state *state);
void sim_state_unlock(struct sim_state *state);

#endif
