// SPDX-License-Identifier: Apache-2.0
#include "daemon/schema.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "base/paths.h"
#include "base/str.h"

const struct schema_step schema_steps[] = {
#define SCHEMA(number, what, sql) { number, what, sql },
#include "daemon/schema.def"
};
const unsigned schema_steps_count = ARRAY_SIZE(schema_steps);

/* numbered without a gap: a step's number is its place */
enum {
#define SCHEMA(number, what, sql) SCHEMA_PLACE_##number,
#include "daemon/schema.def"
};
#define SCHEMA(number, what, sql) \
	_Static_assert(SCHEMA_PLACE_##number + 1 == (number), "steps are numbered 1, 2, 3 …");
#include "daemon/schema.def"

static bool exec(sqlite3 *db, const char *sql)
{
	return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK;
}

int schema_error(sqlite3 *db, struct err *err)
{
	switch (sqlite3_errcode(db) & 0xff) {
	case SQLITE_NOTADB:
	case SQLITE_CORRUPT:
	case SQLITE_ERROR: /* tables that are not as they should be */
		return err_set(err, -EUCLEAN, "it is damaged (%s)", sqlite3_errmsg(db));
	default:
		return err_set(err, -EIO, "%s", sqlite3_errmsg(db));
	}
}

static int read_version(sqlite3 *db, int64_t *ret)
{
	sqlite3_stmt *q;
	int code = sqlite3_prepare_v2(db, "PRAGMA user_version", -1, &q, NULL);

	if (code != SQLITE_OK)
		return -EIO;
	code = sqlite3_step(q);
	if (code == SQLITE_ROW)
		*ret = sqlite3_column_int64(q, 0);
	return sqlite3_finalize(q) == SQLITE_OK && code == SQLITE_ROW ? 0 : -EIO;
}

int schema_check(sqlite3 *db, unsigned n, struct err *err)
{
	int64_t version;

	/* exclusive: no shared-memory file, and nobody else has a say here */
	if (!exec(db, "PRAGMA locking_mode = EXCLUSIVE") || read_version(db, &version) < 0)
		return schema_error(db, err);
	if (version >= 0 && version <= (int64_t)n)
		return (int)version;
	/* a log that its allot left behind stays, too, as it is */
	(void)sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	return err_set(err, -EPROTONOSUPPORT,
		       "it was written by a newer allot (schema %lld, this one knows %u); it was "
		       "not touched: start that allot again, or give another folder by --state",
		       (long long)version, n);
}

/* a whole copy beside the file, or none */
static int keep_copy(sqlite3 *db, const char *path, unsigned from, char *copy, size_t size,
		     struct err *err)
{
	char part[PATHS_MAX + 64];
	char *sql;
	int r;

	if (!str_print(copy, size, "%s.schema-%u", path, from) ||
	    !str_print(part, sizeof(part), "%s.part", copy))
		return err_set(err, -ENAMETOOLONG, "path '%s' is too long", path);
	if (unlink(part) < 0 && errno != ENOENT) /* of a copy that was broken off */
		return err_set(err, -errno, "cannot remove '%s': %s", part, strerror(errno));
	sql = sqlite3_mprintf("VACUUM INTO %Q", part);
	if (!sql)
		return err_set(err, -ENOMEM, "no memory");
	r = exec(db, sql) ? 0 : schema_error(db, err);
	sqlite3_free(sql);
	if (r == 0 && rename(part, copy) < 0)
		r = err_set(err, -errno, "cannot name '%s': %s", copy, strerror(errno));
	if (r < 0)
		(void)unlink(part); /* half a copy is none */
	return r;
}

static int take_steps(sqlite3 *db, unsigned from, const struct schema_step *steps, unsigned n,
		      struct err *err)
{
	char sql[64];
	int r;

	if (!exec(db, "BEGIN IMMEDIATE"))
		return schema_error(db, err);
	for (unsigned i = from; i < n; i++) {
		if (exec(db, steps[i].sql))
			continue;
		r = schema_error(db, err);
		(void)exec(db, "ROLLBACK"); /* a full disk has rolled back already */
		return err_prefix(err, r, "step %u (%s)", steps[i].number, steps[i].what);
	}
	(void)str_print(sql, sizeof(sql), "PRAGMA user_version = %u", n);
	if (exec(db, sql) && exec(db, "COMMIT"))
		return 0;
	r = schema_error(db, err);
	(void)exec(db, "ROLLBACK"); /* the same */
	return r;
}

int schema_bring(sqlite3 *db, const char *path, unsigned from, const struct schema_step *steps,
		 unsigned n, struct err *err)
{
	char copy[PATHS_MAX + 32];
	int r = 0;

	if (from == n)
		return 0;
	if (from > 0)
		r = keep_copy(db, path, from, copy, sizeof(copy), err);
	if (r == 0)
		r = take_steps(db, from, steps, n, err);
	if (from == 0)
		return r;
	if (r < 0)
		return err_prefix(err, r, "cannot bring it from schema %u to %u", from, n);
	log_info("state file '%s' brought from schema %u to %u; as it was: '%s'", path, from, n,
		 copy);
	return 0;
}
