// SPDX-License-Identifier: Apache-2.0
#ifndef SIM_STATE_LAYOUT_H
#define SIM_STATE_LAYOUT_H

/*
 * What the file "state" holds, for the modules of this folder only: state.c opens it and takes
 * rows, rows.c tells who is alive, memory.c counts. A change of the layout is a new STATE_VERSION.
 */

#include <pthread.h>

#include "sim/state/state.h"

#define STATE_MAGIC   UINT64_C(0x746174536d697341)
#define STATE_VERSION 3
#define BOOT_ID_SIZE  40
#define DIR_SIZE      3072
#define OPEN_TRIES    16

struct row_device {
	uint64_t use_bytes[SIM_USE_COUNT];
	uint64_t contexts;
	struct sim_exec_row exec;
};

struct row {
	uint64_t is_taken;
	uint64_t pid, pid_ns, start_ticks;
	struct row_device devices[SIM_DEVICES_MAX];
};

/* share.h; n 0: unused */
#define SIM_SHARES_MAX  1024
#define SIM_HOLDERS_MAX 16

struct holder {
	uint64_t row, count;
	uint64_t opened_bytes, left_bytes; /* of a pool, by an importer */
};

struct share {
	uint64_t id, bytes;
	uint32_t device, is_pool;
	uint32_t is_owned; /* holders[0] is its owner */
	uint32_t n;
	struct holder holders[SIM_HOLDERS_MAX]; /* of an allocation, the first is charged; then the
						   latest first */
};

/* the file "state"; magic is written last */
struct shared {
	_Atomic uint64_t magic;
	uint32_t version, size;
	char boot_id[BOOT_ID_SIZE]; /* a lock held when the machine went down is not freed */
	pthread_mutex_t lock;
	uint64_t rows_end; /* no row at or behind it was ever taken */
	struct sim_profile profile;
	struct sim_exec_shared exec[SIM_DEVICES_MAX];
	struct row rows[SIM_PROCS_MAX];
	uint64_t shares_end; /* no share at or behind it was ever used */
	struct share shares[SIM_SHARES_MAX];
};

struct sim_state {
	struct shared *shared;
	void *alive; /* the mapping that keeps our row's lock; NULL: not attached */
	int row;     /* -1: not attached */
	char dir[DIR_SIZE];
};

/** state_lock_to_read - take the lock, or after a while say false and let the caller go without */
bool state_lock_to_read(struct sim_state *state);

/** state_path - DIR/@file; false when it does not fit */
bool state_path(const struct sim_state *state, const char *file, char *ret, size_t size);

/** rows_open - a descriptor of the file "alive", or -errno */
int rows_open(const struct sim_state *state);

/** shares_reap - @row is about to be wiped: what it held of shares is others'; needs the lock */
void shares_reap(struct shared *s, unsigned row);

/** rows_reap - wipe the rows of the dead; needs the lock */
void rows_reap(struct sim_state *state);

#endif
