// SPDX-License-Identifier: Apache-2.0
#include "daemon/store.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "base/paths.h"
#include "base/size.h"
#include "base/str.h"
#include "daemon/registry.h"
#include "daemon/runs.h"
#include "daemon/sampler_wire.h"
#include "daemon/schema.h"

enum statement {
	PUT_JOB,
	REMOVE_JOB,
	REMOVE_ALL_JOBS,
	PUT_MEMBERS,
	GET_MEMBERS,
	REMOVE_MEMBERS,
	PUT_GPU,
	EACH_GPU,
	HAS_JOBS,
	HAS_JOB,
	EACH_JOB,
	PUT_CONTEXT,
	GET_CONTEXT,
	PUT_SCOPE,
	REMOVE_SCOPE,
	EACH_SCOPE,
	PUT_RUN,
	REMOVE_RUN,
	EACH_RUN,
	PUT_META,
	GET_META,
	STATEMENT_COUNT,
};

/* columns by name, for those that a later schema appends; in the order of put and read below */
#define JOB_NUMBERS                                                                     \
	"id, parent, uid, gid, keeper_pid, keeper_start, session, request_bytes, "      \
	"request_permille, limit_bytes, limit_permille, class, fail_policy, may_wait, " \
	"when_full_ns, compute_min, compute_max, ended, adopted"
#define RUN_COLUMNS                                                                         \
	"id, uid, keeper_pid, keeper_start, queued, started, ended, is_ended, has_status, " \
	"status, adopted, name, command, log"
#define JOB_REST "gpus, ceilings, name, command"

static const char *const statement_sql[STATEMENT_COUNT] = {
	[PUT_JOB] = "INSERT OR REPLACE INTO jobs (" JOB_NUMBERS ", " JOB_REST ") VALUES "
		    "(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?, ?,?,?,?)",
	[REMOVE_JOB] = "DELETE FROM jobs WHERE id = ?1",
	[REMOVE_ALL_JOBS] = "DELETE FROM jobs",
	[EACH_JOB] = "SELECT " JOB_NUMBERS ", " JOB_REST " FROM jobs ORDER BY id",
	[PUT_MEMBERS] = "INSERT OR REPLACE INTO members (job, numbers) VALUES (?, ?)",
	[GET_MEMBERS] = "SELECT numbers FROM members WHERE job = ?1",
	[REMOVE_MEMBERS] = "DELETE FROM members WHERE job = ?1",
	[PUT_GPU] = "INSERT OR REPLACE INTO gpus (driver_dir, gpu, idx, total_bytes,"
		    " reserved_bytes, pci, model, driver, mig, mig_index, gi, ci)"
		    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
	[EACH_GPU] = "SELECT gpu, idx, total_bytes, reserved_bytes, pci, model, driver, mig,"
		     " mig_index, gi, ci FROM gpus WHERE driver_dir = ?1"
		     " ORDER BY idx, mig & 128, mig_index",
	[HAS_JOBS] = "SELECT count(*) FROM jobs",
	[HAS_JOB] = "SELECT count(*) FROM jobs WHERE id = ?1",
	[PUT_CONTEXT] = "INSERT OR REPLACE INTO contexts (gpu, driver, bytes) VALUES (?, ?, ?)",
	[GET_CONTEXT] = "SELECT bytes FROM contexts WHERE gpu = ?1 AND driver = ?2",
	[PUT_SCOPE] = ("INSERT OR REPLACE INTO scopes (job, id, is_unit, name, path) VALUES"
		       " (?, ?, ?, ?, ?)"),
	[REMOVE_SCOPE] = "DELETE FROM scopes WHERE job = ?1",
	[EACH_SCOPE] = "SELECT job, id, is_unit, name, path FROM scopes ORDER BY job",
	[PUT_RUN] = "INSERT OR REPLACE INTO runs (" RUN_COLUMNS
		    ") VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
	[REMOVE_RUN] = "DELETE FROM runs WHERE id = ?1",
	[EACH_RUN] = "SELECT " RUN_COLUMNS " FROM runs ORDER BY id",
	[PUT_META] = "INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)",
	[GET_META] = "SELECT value FROM meta WHERE key = ?1",
};

/* small: a few hundred rows */
static const char settings_sql[] = "PRAGMA journal_mode = WAL;"
				   "PRAGMA synchronous = NORMAL;"
				   "PRAGMA cache_size = -64;"
				   "PRAGMA temp_store = MEMORY;"
				   "PRAGMA wal_autocheckpoint = 64;"
				   "PRAGMA journal_size_limit = 262144;"
				   "PRAGMA mmap_size = 0;";

#define STORE_MAX_BYTES ((uint64_t)1 << 60)
#define STORE_MAX_JOB   ((uint64_t)INT64_MAX)

struct store {
	sqlite3 *db;
	sqlite3_stmt *statements[STATEMENT_COUNT];
	bool is_behind;
	char trouble[ERR_TEXT_MAX];
};

static bool exec(struct store *s, const char *sql)
{
	return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK;
}

/* 0; -EUCLEAN when the file is damaged; -EPROTONOSUPPORT when it is newer than we are */
static int prepare_file(struct store *s, const char *path, struct err *err)
{
	int from = schema_check(s->db, schema_steps_count, err), r;

	if (from < 0)
		return from;
	if (!exec(s, settings_sql))
		return schema_error(s->db, err);
	r = schema_bring(s->db, path, (unsigned)from, schema_steps, schema_steps_count, err);
	for (unsigned i = 0; r == 0 && i < STATEMENT_COUNT; i++)
		if (sqlite3_prepare_v3(s->db, statement_sql[i], -1, SQLITE_PREPARE_PERSISTENT,
				       &s->statements[i], NULL) != SQLITE_OK)
			r = schema_error(s->db, err);
	return r;
}

static void close_file(struct store *s)
{
	for (unsigned i = 0; i < STATEMENT_COUNT; i++) {
		sqlite3_finalize(s->statements[i]);
		s->statements[i] = NULL;
	}
	sqlite3_close(s->db);
	s->db = NULL;
}

static int open_file(struct store *s, const char *path, struct err *err)
{
	int r;

	if (sqlite3_open_v2(path, &s->db,
			    SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
			    NULL) != SQLITE_OK) {
		r = err_set(err, -EIO, "%s", s->db ? sqlite3_errmsg(s->db) : "no memory");
		close_file(s);
		return r;
	}
	r = prepare_file(s, path, err);
	if (r < 0)
		close_file(s);
	return r;
}

/* the damaged file stays for whoever wants to look at it */
static int put_aside(const char *path, struct err *err)
{
	static const char *const parts[] = { "", "-wal", "-shm" };
	char from[PATHS_MAX + 16], to[PATHS_MAX + 64];

	for (unsigned i = 0; i < ARRAY_SIZE(parts); i++) {
		if (!str_print(from, sizeof(from), "%s%s", path, parts[i]) ||
		    !str_print(to, sizeof(to), "%s.damaged-%lld%s", path, (long long)time(NULL),
			       parts[i]))
			return err_set(err, -ENAMETOOLONG, "path '%s' is too long", path);
		if (rename(from, to) < 0 && errno != ENOENT)
			return err_set(err, -errno, "cannot put '%s' aside: %s", from,
				       strerror(errno));
	}
	return 0;
}

static sqlite3_stmt *begin(struct store *s, enum statement which)
{
	sqlite3_stmt *q = s->statements[which];

	(void)sqlite3_reset(q); /* repeats the error of the run before */
	(void)sqlite3_clear_bindings(q);
	return q;
}

/* run a change; what cannot be written is said once and remembered */
static int finish(struct store *s, sqlite3_stmt *q)
{
	int code = sqlite3_step(q);

	(void)sqlite3_reset(q); /* the same code again */
	if (code == SQLITE_DONE || code == SQLITE_ROW)
		return 0;
	if (!s->is_behind)
		log_error("cannot write the state file: %s; going on without, nothing is lost "
			  "unless allotd ends before this is mended",
			  sqlite3_errmsg(s->db));
	s->is_behind = true;
	(void)str_print(s->trouble, sizeof(s->trouble), "cannot write the state file: %s",
			sqlite3_errmsg(s->db));
	return -EIO;
}

static int put_meta_text(struct store *s, const char *key, const char *value)
{
	sqlite3_stmt *q = begin(s, PUT_META);

	sqlite3_bind_text(q, 1, key, -1, SQLITE_STATIC);
	sqlite3_bind_text(q, 2, value, -1, SQLITE_STATIC);
	return finish(s, q);
}

static void forget_older_boot(struct store *s, const char *boot_id)
{
	sqlite3_stmt *q = begin(s, GET_META);
	bool is_same = false;

	sqlite3_bind_text(q, 1, "boot", -1, SQLITE_STATIC);
	if (sqlite3_step(q) == SQLITE_ROW) {
		const char *stored = (const char *)sqlite3_column_text(q, 0);

		is_same = stored && strcmp(stored, boot_id) == 0;
	}
	(void)sqlite3_reset(q);
	if (is_same)
		return;
	(void)finish(s, begin(s, REMOVE_ALL_JOBS)); /* finish tells */
	(void)put_meta_text(s, "boot", boot_id);
}

int store_open(const char *dir, const char *boot_id, struct store **ret, struct err *err)
{
	struct store *s = calloc(1, sizeof(*s));
	char path[PATHS_MAX];
	int r;

	if (!s)
		return err_set(err, -ENOMEM, "no memory");
	if (!str_print(path, sizeof(path), "%s/allot.db", dir)) {
		free(s);
		return err_set(err, -ENAMETOOLONG, "path '%s' is too long", dir);
	}
	r = open_file(s, path, err);
	if (r == -EUCLEAN) {
		log_error("state file '%s': %s; put aside, beginning a new one", path,
			  err ? err->text : "damaged");
		r = put_aside(path, err);
		if (r == 0)
			r = open_file(s, path, err);
	}
	if (r < 0) {
		free(s);
		return err_prefix(err, r, "state file '%s'", path);
	}
	forget_older_boot(s, boot_id);
	*ret = s;
	return 0;
}

struct store *store_close(struct store *s)
{
	if (s) {
		close_file(s);
		free(s);
	}
	return NULL;
}

/* SQLite's integers are signed; a cast there and back loses nothing */
static void bind_u64(sqlite3_stmt *q, int at, uint64_t v)
{
	sqlite3_bind_int64(q, at, (sqlite3_int64)v);
}

int store_put_job(struct store *s, const struct job_spec *j)
{
	const uint64_t numbers[] = { j->id,
				     j->parent,
				     j->uid,
				     j->gid,
				     (uint64_t)j->keeper_pid,
				     j->keeper_start,
				     (uint64_t)j->session,
				     j->request.bytes,
				     j->request.permille,
				     j->limit.bytes,
				     j->limit.permille,
				     j->job_class,
				     j->fail_policy,
				     j->may_wait,
				     j->when_full_ns,
				     j->compute_min_permille,
				     j->compute_max_permille,
				     j->is_ended,
				     j->is_adopted };
	const int n = (int)ARRAY_SIZE(numbers);
	sqlite3_stmt *q = begin(s, PUT_JOB);

	for (int i = 0; i < n; i++)
		bind_u64(q, i + 1, numbers[i]);
	sqlite3_bind_blob(q, n + 1, j->gpus, (int)(j->n_gpus * sizeof(j->gpus[0])), SQLITE_STATIC);
	sqlite3_bind_blob(q, n + 2, j->ceilings, (int)(j->n_gpus * sizeof(j->ceilings[0])),
			  SQLITE_STATIC);
	sqlite3_bind_text(q, n + 3, j->name, -1, SQLITE_STATIC);
	sqlite3_bind_text(q, n + 4, j->command, -1, SQLITE_STATIC);
	return finish(s, q);
}

int store_remove_job(struct store *s, uint64_t id)
{
	sqlite3_stmt *q = begin(s, REMOVE_JOB);

	bind_u64(q, 1, id);
	if (finish(s, q) < 0)
		return -EIO;
	q = begin(s, REMOVE_MEMBERS);
	bind_u64(q, 1, id);
	return finish(s, q);
}

int store_put_members(struct store *s, uint64_t job, const uint64_t *numbers, unsigned n)
{
	sqlite3_stmt *q = begin(s, PUT_MEMBERS);

	bind_u64(q, 1, job);
	sqlite3_bind_blob(q, 2, n ? (const void *)numbers : "", (int)(n * sizeof(numbers[0])),
			  SQLITE_STATIC);
	return finish(s, q);
}

unsigned store_members(struct store *s, uint64_t job, uint64_t *ret, unsigned max)
{
	sqlite3_stmt *q = begin(s, GET_MEMBERS);
	unsigned n = 0;

	bind_u64(q, 1, job);
	if (sqlite3_step(q) == SQLITE_ROW) {
		const void *numbers = sqlite3_column_blob(q, 0);

		n = (unsigned)sqlite3_column_bytes(q, 0) / (unsigned)sizeof(ret[0]);
		n = n < max ? n : max;
		if (n)
			memcpy(ret, numbers, n * sizeof(ret[0]));
	}
	(void)sqlite3_reset(q); /* nothing found is no error */
	return n;
}

int store_put_gpu(struct store *s, const char *driver_dir, const struct sampler_gpu *gpu)
{
	sqlite3_stmt *q = begin(s, PUT_GPU);

	sqlite3_bind_text(q, 1, driver_dir, -1, SQLITE_STATIC);
	sqlite3_bind_blob(q, 2, &gpu->uuid, sizeof(gpu->uuid), SQLITE_STATIC);
	bind_u64(q, 3, gpu->index);
	bind_u64(q, 4, gpu->total_bytes);
	bind_u64(q, 5, gpu->reserved_bytes);
	sqlite3_bind_text(q, 6, gpu->pci_bus_id, -1, SQLITE_STATIC);
	sqlite3_bind_text(q, 7, gpu->model, -1, SQLITE_STATIC);
	sqlite3_bind_text(q, 8, gpu->driver_version, -1, SQLITE_STATIC);
	bind_u64(q, 9, gpu->known & (SAMPLER_MIG_MODE | SAMPLER_INSTANCE));
	bind_u64(q, 10, gpu->mig_index);
	bind_u64(q, 11, gpu->gi);
	bind_u64(q, 12, gpu->ci);
	return finish(s, q);
}

/* a damaged file may hold anything: each row is judged like a peer's word, and refused as a whole
 */
static bool copy_text(sqlite3_stmt *q, int at, char *buf, size_t size)
{
	const char *text = (const char *)sqlite3_column_text(q, at);

	if (!text || !str_copy(buf, size, text))
		return false;
	str_printable(buf);
	return true;
}

static bool is_sane_gpu(const struct sampler_gpu *gpu)
{
	return gpu->index < SAMPLER_MAX_GPUS && gpu->total_bytes > 0 &&
	       gpu->total_bytes <= STORE_MAX_BYTES && gpu->reserved_bytes <= gpu->total_bytes;
}

static bool is_sane_amount(const struct wire_amount *a)
{
	return a->bytes <= STORE_MAX_BYTES && a->permille <= 1000 && !(a->bytes && a->permille);
}

static bool is_sane_job(const struct job_spec *j)
{
	return j->id > 0 && j->id <= STORE_MAX_JOB && j->parent != j->id && j->keeper_pid > 0 &&
	       j->session >= 0 && is_sane_amount(&j->request) && is_sane_amount(&j->limit) &&
	       j->job_class <= WIRE_CLASS_BATCH && j->fail_policy <= WIRE_FAIL_OPEN &&
	       j->compute_min_permille <= 1000 && j->compute_max_permille <= 1000;
}

int store_each_gpu(struct store *s, const char *driver_dir,
		   void (*each)(const struct sampler_gpu *gpu, void *context), void *context)
{
	sqlite3_stmt *q = begin(s, EACH_GPU);
	int code;

	sqlite3_bind_text(q, 1, driver_dir, -1, SQLITE_STATIC);
	while ((code = sqlite3_step(q)) == SQLITE_ROW) {
		struct sampler_gpu gpu = { .kind = SAMPLER_GPU };
		const void *uuid = sqlite3_column_blob(q, 0);

		if (!uuid || sqlite3_column_bytes(q, 0) != (int)sizeof(gpu.uuid))
			continue;
		memcpy(&gpu.uuid, uuid, sizeof(gpu.uuid));
		gpu.index = (uint32_t)sqlite3_column_int64(q, 1);
		gpu.total_bytes = (uint64_t)sqlite3_column_int64(q, 2);
		gpu.reserved_bytes = (uint64_t)sqlite3_column_int64(q, 3);
		gpu.known = (uint32_t)sqlite3_column_int64(q, 7) &
			    (SAMPLER_MIG_MODE | SAMPLER_INSTANCE);
		gpu.mig_index = (uint32_t)sqlite3_column_int64(q, 8);
		gpu.gi = (uint32_t)sqlite3_column_int64(q, 9);
		gpu.ci = (uint32_t)sqlite3_column_int64(q, 10);
		if (copy_text(q, 4, gpu.pci_bus_id, sizeof(gpu.pci_bus_id)) &&
		    copy_text(q, 5, gpu.model, sizeof(gpu.model)) &&
		    copy_text(q, 6, gpu.driver_version, sizeof(gpu.driver_version)) &&
		    is_sane_gpu(&gpu))
			each(&gpu, context);
	}
	(void)sqlite3_reset(q); /* the same code again */
	return code == SQLITE_DONE ? 0 : -EIO;
}

static bool read_job(sqlite3_stmt *q, struct job_spec *j)
{
	int at = 0;
	const void *gpus, *ceilings;
	size_t n;

	*j = (struct job_spec){ 0 };
	j->id = (uint64_t)sqlite3_column_int64(q, at++);
	j->parent = (uint64_t)sqlite3_column_int64(q, at++);
	j->uid = (uid_t)sqlite3_column_int64(q, at++);
	j->gid = (gid_t)sqlite3_column_int64(q, at++);
	j->keeper_pid = (pid_t)sqlite3_column_int64(q, at++);
	j->keeper_start = (uint64_t)sqlite3_column_int64(q, at++);
	j->session = (pid_t)sqlite3_column_int64(q, at++);
	j->request.bytes = (uint64_t)sqlite3_column_int64(q, at++);
	j->request.permille = (uint32_t)sqlite3_column_int64(q, at++);
	j->limit.bytes = (uint64_t)sqlite3_column_int64(q, at++);
	j->limit.permille = (uint32_t)sqlite3_column_int64(q, at++);
	j->job_class = (uint32_t)sqlite3_column_int64(q, at++);
	j->fail_policy = (uint32_t)sqlite3_column_int64(q, at++);
	j->may_wait = sqlite3_column_int64(q, at++) != 0;
	j->when_full_ns = (uint64_t)sqlite3_column_int64(q, at++);
	j->compute_min_permille = (uint32_t)sqlite3_column_int64(q, at++);
	j->compute_max_permille = (uint32_t)sqlite3_column_int64(q, at++);
	j->is_ended = sqlite3_column_int64(q, at++) != 0;
	j->is_adopted = sqlite3_column_int64(q, at++) != 0;
	gpus = sqlite3_column_blob(q, at);
	n = (size_t)sqlite3_column_bytes(q, at++) / sizeof(j->gpus[0]);
	if (!gpus || n == 0 || n > WIRE_MAX_GPUS)
		return false;
	memcpy(j->gpus, gpus, n * sizeof(j->gpus[0]));
	j->n_gpus = (uint32_t)n;
	ceilings = sqlite3_column_blob(q, at);
	n = (size_t)sqlite3_column_bytes(q, at++);
	if (ceilings)
		memcpy(j->ceilings, ceilings, size_min(n, sizeof(j->ceilings)));
	return copy_text(q, at, j->name, sizeof(j->name)) &&
	       copy_text(q, at + 1, j->command, sizeof(j->command)) && is_sane_job(j);
}

int store_each_job(struct store *s, int (*each)(const struct job_spec *spec, void *context),
		   void *context)
{
	sqlite3_stmt *q = begin(s, EACH_JOB);
	int code, r = 0;

	while (r == 0 && (code = sqlite3_step(q)) == SQLITE_ROW) {
		struct job_spec spec;

		if (read_job(q, &spec))
			r = each(&spec, context);
		else
			log_error("a stored job (%lld) cannot be read, ignoring",
				  (long long)sqlite3_column_int64(q, 0));
	}
	if (r == 0 && code != SQLITE_DONE) {
		log_error("cannot read the stored jobs: %s", sqlite3_errmsg(s->db));
		r = -EIO;
	}
	(void)sqlite3_reset(q); /* the same code again */
	return r;
}

int store_put_scope(struct store *s, const struct stored_scope *scope)
{
	sqlite3_stmt *q = begin(s, PUT_SCOPE);

	bind_u64(q, 1, scope->job);
	bind_u64(q, 2, scope->id);
	bind_u64(q, 3, scope->is_unit);
	sqlite3_bind_text(q, 4, scope->name, -1, SQLITE_STATIC);
	sqlite3_bind_text(q, 5, scope->path, -1, SQLITE_STATIC);
	return finish(s, q);
}

int store_remove_scope(struct store *s, uint64_t job)
{
	sqlite3_stmt *q = begin(s, REMOVE_SCOPE);

	bind_u64(q, 1, job);
	return finish(s, q);
}

int store_each_scope(struct store *s, void (*each)(const struct stored_scope *scope, void *context),
		     void *context)
{
	sqlite3_stmt *q = begin(s, EACH_SCOPE);
	int code;

	while ((code = sqlite3_step(q)) == SQLITE_ROW) {
		struct stored_scope scope = {
			.job = (uint64_t)sqlite3_column_int64(q, 0),
			.id = (uint64_t)sqlite3_column_int64(q, 1),
			.is_unit = sqlite3_column_int64(q, 2) != 0,
		};

		if (copy_text(q, 3, scope.name, sizeof(scope.name)) &&
		    copy_text(q, 4, scope.path, sizeof(scope.path)))
			each(&scope, context);
	}
	(void)sqlite3_reset(q); /* the same code again */
	return code == SQLITE_DONE ? 0 : -EIO;
}

int store_put_run(struct store *s, const struct run_record *run)
{
	const uint64_t numbers[] = { run->id,           run->uid,       (uint64_t)run->keeper_pid,
				     run->keeper_start, run->queued_s,  run->started_s,
				     run->ended_s,      run->is_ended,  run->has_status,
				     run->status,       run->is_adopted };
	const int n = (int)ARRAY_SIZE(numbers);
	sqlite3_stmt *q = begin(s, PUT_RUN);

	for (int i = 0; i < n; i++)
		bind_u64(q, i + 1, numbers[i]);
	sqlite3_bind_text(q, n + 1, run->name, -1, SQLITE_STATIC);
	sqlite3_bind_text(q, n + 2, run->command, -1, SQLITE_STATIC);
	sqlite3_bind_text(q, n + 3, run->log, -1, SQLITE_STATIC);
	return finish(s, q);
}

int store_remove_run(struct store *s, uint64_t id)
{
	sqlite3_stmt *q = begin(s, REMOVE_RUN);

	bind_u64(q, 1, id);
	return finish(s, q);
}

static bool read_run(sqlite3_stmt *q, struct run_record *run)
{
	int at = 0;

	*run = (struct run_record){ 0 };
	run->id = (uint64_t)sqlite3_column_int64(q, at++);
	run->uid = (uid_t)sqlite3_column_int64(q, at++);
	run->keeper_pid = (pid_t)sqlite3_column_int64(q, at++);
	run->keeper_start = (uint64_t)sqlite3_column_int64(q, at++);
	run->queued_s = (uint64_t)sqlite3_column_int64(q, at++);
	run->started_s = (uint64_t)sqlite3_column_int64(q, at++);
	run->ended_s = (uint64_t)sqlite3_column_int64(q, at++);
	run->is_ended = sqlite3_column_int64(q, at++) != 0;
	run->has_status = sqlite3_column_int64(q, at++) != 0;
	run->status = (uint32_t)sqlite3_column_int64(q, at++);
	run->is_adopted = sqlite3_column_int64(q, at++) != 0;
	return run->id && copy_text(q, at, run->name, sizeof(run->name)) &&
	       copy_text(q, at + 1, run->command, sizeof(run->command)) &&
	       copy_text(q, at + 2, run->log, sizeof(run->log));
}

int store_each_run(struct store *s, int (*each)(const struct run_record *run, void *context),
		   void *context)
{
	sqlite3_stmt *q = begin(s, EACH_RUN);
	int code, r = 0;

	while (r == 0 && (code = sqlite3_step(q)) == SQLITE_ROW) {
		struct run_record run;

		if (read_run(q, &run)) /* one that is no run is none */
			r = each(&run, context);
	}
	if (r == 0 && code != SQLITE_DONE) {
		log_error("cannot read what is kept of ended jobs: %s", sqlite3_errmsg(s->db));
		r = -EIO;
	}
	(void)sqlite3_reset(q); /* the same code again */
	return r;
}

int store_put_last_job(struct store *s, uint64_t id)
{
	sqlite3_stmt *q = begin(s, PUT_META);

	sqlite3_bind_text(q, 1, "last-job", -1, SQLITE_STATIC);
	bind_u64(q, 2, id);
	return finish(s, q);
}

static uint64_t get_number(sqlite3_stmt *q)
{
	uint64_t v = 0;

	if (sqlite3_step(q) == SQLITE_ROW)
		v = (uint64_t)sqlite3_column_int64(q, 0);
	(void)sqlite3_reset(q); /* nothing found is no error */
	return v;
}

uint64_t store_last_job(struct store *s)
{
	sqlite3_stmt *q = begin(s, GET_META);

	sqlite3_bind_text(q, 1, "last-job", -1, SQLITE_STATIC);
	return get_number(q);
}

uint64_t store_context_bytes(struct store *s, const struct wire_uuid *gpu, const char *driver)
{
	sqlite3_stmt *q = begin(s, GET_CONTEXT);
	uint64_t bytes;

	sqlite3_bind_blob(q, 1, gpu, sizeof(*gpu), SQLITE_STATIC);
	sqlite3_bind_text(q, 2, driver, -1, SQLITE_STATIC);
	bytes = get_number(q);
	return bytes <= STORE_MAX_BYTES ? bytes : 0;
}

int store_put_context_bytes(struct store *s, const struct wire_uuid *gpu, const char *driver,
			    uint64_t bytes)
{
	sqlite3_stmt *q = begin(s, PUT_CONTEXT);

	sqlite3_bind_blob(q, 1, gpu, sizeof(*gpu), SQLITE_STATIC);
	sqlite3_bind_text(q, 2, driver, -1, SQLITE_STATIC);
	bind_u64(q, 3, bytes);
	return finish(s, q);
}

bool store_has_job(struct store *s, uint64_t id)
{
	sqlite3_stmt *q = begin(s, HAS_JOB);

	bind_u64(q, 1, id);
	return get_number(q) > 0;
}

bool store_has_jobs(struct store *s)
{
	return get_number(begin(s, HAS_JOBS)) > 0;
}

bool store_is_behind(const struct store *s)
{
	return s->is_behind;
}

int store_rewrite(struct store *s, const struct job_spec *(*next)(void *context), void *context)
{
	const struct job_spec *spec;
	int r;

	if (!exec(s, "BEGIN IMMEDIATE"))
		return -EIO;
	r = finish(s, begin(s, REMOVE_ALL_JOBS));
	while (r == 0 && (spec = next(context)))
		r = store_put_job(s, spec);
	if (r < 0 || !exec(s, "COMMIT")) {
		(void)exec(s, "ROLLBACK"); /* a full disk has rolled back already */
		return -EIO;
	}
	if (s->is_behind)
		log_info("the state file can be written again");
	s->is_behind = false;
	s->trouble[0] = '\0';
	return 0;
}

const char *store_trouble(const struct store *s)
{
	return s->trouble;
}
