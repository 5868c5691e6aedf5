// SPDX-License-Identifier: Apache-2.0
#ifndef DAEMON_STORE_H
#define DAEMON_STORE_H

/*
 * What a restarted allotd must know: the jobs, and what a context was measured to cost on each GPU
 * under each driver.  SQLite, one file in the state folder, one transaction a change.
 *
 * The truth of a running allotd is in memory.  When the file cannot be written (a full disk), the
 * store says so once, allotd goes on, and everything is written anew as soon as that works again:
 * the caller asks store_is_behind and then calls store_rewrite.
 *
 * A file of an older allot is brought to the tables of this one, with a copy kept (daemon/schema).
 * One of a newer allot is refused and not touched.  A file that SQLite cannot read is put aside
 * under another name and a new one begun.  Jobs of before a reboot are forgotten: none of them can
 * live.
 *
 * One thread.  Changes are a few tens of microseconds; nothing here waits for a lock.
 */

#include <stdbool.h>
#include <stdint.h>

#include "wire/wire.h"

struct err;
struct job_spec;
struct run_record;
struct sampler_gpu;
struct store;

/**
 * store_open - DIR/allot.db
 * @boot_id: of this boot of the machine; jobs of another one are forgotten
 */
int store_open(const char *dir, const char *boot_id, struct store **ret, struct err *err);
struct store *store_close(struct store *s);

/** store_put_job - insert or replace; 0 or -EIO (the store is behind then) */
int store_put_job(struct store *s, const struct job_spec *spec);
int store_remove_job(struct store *s, uint64_t id);

/**
 * store_put_members - the processes of a job, by their numbers
 *
 * Only for a job that loses its keeper and its allotd: otherwise the keeper has them.  Written when
 * there is time, so the last second may be missing.
 */
int store_put_members(struct store *s, uint64_t job, const uint64_t *numbers, unsigned n);

/** store_members - up to @max of them; how many */
unsigned store_members(struct store *s, uint64_t job, uint64_t *ret, unsigned max);

/**
 * store_put_gpu - a GPU as it was seen last, for a start while NVML does not answer
 * @driver_dir: of the driver that showed it; simulated ones do not mix with real ones
 */
int store_put_gpu(struct store *s, const char *driver_dir, const struct sampler_gpu *gpu);

/** store_each_gpu - all of that driver, in the order of their index */
int store_each_gpu(struct store *s, const char *driver_dir,
		   void (*each)(const struct sampler_gpu *gpu, void *context), void *context);

/* a job's own cgroup: scope.h */
struct stored_scope {
	uint64_t job;
	uint64_t id; /* the kernel's, of the folder */
	bool is_unit;
	char name[64];
	char path[512];
};

int store_put_scope(struct store *s, const struct stored_scope *scope);
int store_remove_scope(struct store *s, uint64_t job);

/** store_each_scope - @each may remove the one that it is given */
int store_each_scope(struct store *s, void (*each)(const struct stored_scope *scope, void *context),
		     void *context);

/** store_has_jobs - is there anything to be restored? */
bool store_has_jobs(struct store *s);

/** store_has_job - does a row speak of this job, readable or not? */
bool store_has_job(struct store *s, uint64_t id);

/** store_put_run - insert or replace what is kept of a job beyond its end (runs.h) */
int store_put_run(struct store *s, const struct run_record *run);
int store_remove_run(struct store *s, uint64_t id);

/** store_each_run - all of them, oldest first, as store_each_job */
int store_each_run(struct store *s, int (*each)(const struct run_record *run, void *context),
		   void *context);

/** store_put_last_job - the highest job id ever given */
int store_put_last_job(struct store *s, uint64_t id);
uint64_t store_last_job(struct store *s);

/** store_each_job - all jobs, oldest first; @each returns 0 or a negative errno, which ends it */
int store_each_job(struct store *s, int (*each)(const struct job_spec *spec, void *context),
		   void *context);

/** store_context_bytes - the measured cost of a context; 0 when there is none */
uint64_t store_context_bytes(struct store *s, const struct wire_uuid *gpu, const char *driver);
int store_put_context_bytes(struct store *s, const struct wire_uuid *gpu, const char *driver,
			    uint64_t bytes);

/** store_is_behind - did a change not reach the file? */
bool store_is_behind(const struct store *s);

/**
 * store_rewrite - in one transaction forget all stored jobs and write those that @next gives
 * @next: the next job, NULL after the last
 * Returns 0, and the store is not behind any more; or -EIO, and nothing changed.
 */
int store_rewrite(struct store *s, const struct job_spec *(*next)(void *context), void *context);

/** store_trouble - "" or why the file cannot be written, for people */
const char *store_trouble(const struct store *s);

#endif
