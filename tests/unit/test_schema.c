// SPDX-License-Identifier: Apache-2.0
/* daemon/schema: an older state file is taken over whole or not at all, a newer one is left alone
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "daemon/registry.h"
#include "daemon/schema.h"
#include "daemon/store.h"

struct folder {
	char path[64];
	char db[80];
	struct job_spec found[4];
	unsigned n;
};

/* steps of a later day */
static const struct schema_step later[] = {
	{ 1, "the first", "CREATE TABLE things (id INTEGER PRIMARY KEY)" },
	{ 2, "a name", "ALTER TABLE things ADD COLUMN name TEXT NOT NULL DEFAULT 'none'" },
	{ 3, "more", "CREATE TABLE more (x); INSERT INTO more SELECT id FROM things" },
};
/* and such as must fail on their way: the second statement of the second step */
static const struct schema_step broken[] = {
	{ 1, "the first", "CREATE TABLE things (id INTEGER PRIMARY KEY)" },
	{ 2, "trouble", "CREATE TABLE fine (x); ALTER TABLE nowhere ADD COLUMN name TEXT" },
};

static int setup(void **state)
{
	static struct folder f;

	f = (struct folder){ 0 };
	strcpy(f.path, "/tmp/allot-schema-XXXXXX");
	*state = &f;
	if (!mkdtemp(f.path))
		return -1;
	return str_print(f.db, sizeof(f.db), "%s/allot.db", f.path) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st, (void)flag, (void)ftw;
	return remove(path);
}

static int teardown(void **state)
{
	struct folder *f = *state;

	return nftw(f->path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static sqlite3 *open_db(const char *path)
{
	sqlite3 *db;

	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	return db;
}

static void run_sql(sqlite3 *db, const char *sql)
{
	char *message = NULL;

	if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK)
		fail_msg("%s: %s", sql, message);
}

static int64_t ask(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *q;
	int64_t v = -1;

	if (sqlite3_prepare_v2(db, sql, -1, &q, NULL) != SQLITE_OK)
		fail_msg("%s: %s", sql, sqlite3_errmsg(db));
	if (sqlite3_step(q) == SQLITE_ROW)
		v = sqlite3_column_int64(q, 0);
	sqlite3_finalize(q);
	return v;
}

static bool is_there(const struct folder *f, const char *suffix)
{
	char path[128];

	(void)str_print(path, sizeof(path), "%s%s", f->db, suffix);
	return access(path, F_OK) == 0;
}

/* as an allot that knew only the first step left it */
static sqlite3 *old_file(struct folder *f)
{
	sqlite3 *db = open_db(f->db);

	run_sql(db, "PRAGMA journal_mode = WAL; CREATE TABLE things (id INTEGER PRIMARY KEY);"
		    "INSERT INTO things VALUES (1), (2); PRAGMA user_version = 1");
	return db;
}

static void test_new_file(void **state)
{
	struct folder *f = *state;
	sqlite3 *db = open_db(f->db);
	struct err err = { 0 };

	assert_int_equal(schema_check(db, 3, &err), 0);
	assert_int_equal(schema_bring(db, f->db, 0, later, 3, &err), 0);
	assert_int_equal(ask(db, "PRAGMA user_version"), 3);
	assert_int_equal(ask(db, "SELECT count(*) FROM more"), 0);
	assert_false(is_there(f, ".schema-0")); /* nothing to keep */
	sqlite3_close(db);
}

static void test_old_file(void **state)
{
	struct folder *f = *state;
	sqlite3 *db = old_file(f);
	struct err err = { 0 };
	char copy[128];

	assert_int_equal(schema_check(db, 3, &err), 1);
	assert_int_equal(schema_bring(db, f->db, 1, later, 3, &err), 0);
	assert_int_equal(ask(db, "PRAGMA user_version"), 3);
	assert_int_equal(ask(db, "SELECT count(*) FROM things WHERE name = 'none'"), 2);
	assert_int_equal(ask(db, "SELECT count(*) FROM more"), 2);
	sqlite3_close(db);
	/* and as it was beside it */
	(void)str_print(copy, sizeof(copy), "%s.schema-1", f->db);
	db = open_db(copy);
	assert_int_equal(ask(db, "PRAGMA user_version"), 1);
	assert_int_equal(ask(db, "SELECT sum(id) FROM things"), 3);
	sqlite3_close(db);
	assert_false(is_there(f, ".schema-1.part"));
}

static void test_copy_of_another_day(void **state)
{
	struct folder *f = *state;
	sqlite3 *db = old_file(f);
	struct err err = { 0 };
	char path[128];
	int fd;

	/* of an allot that was gone back from, and half a one of an allot that was killed */
	for (unsigned i = 0; i < 2; i++) {
		(void)str_print(path, sizeof(path), "%s.schema-1%s", f->db, i ? ".part" : "");
		fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		assert_int_equal(write(fd, "old", 3), 3);
		close(fd);
	}
	if (schema_bring(db, f->db, 1, later, 3, &err) < 0)
		fail_msg("%s", err.text);
	sqlite3_close(db);
	(void)str_print(path, sizeof(path), "%s.schema-1", f->db);
	db = open_db(path);
	assert_int_equal(ask(db, "SELECT sum(id) FROM things"), 3);
	sqlite3_close(db);
}

static void test_step_fails(void **state)
{
	struct folder *f = *state;
	sqlite3 *db = old_file(f);
	struct err err = { 0 };

	assert_int_equal(schema_bring(db, f->db, 1, broken, 2, &err), -EUCLEAN);
	assert_non_null(strstr(err.text, "step 2 (trouble)"));
	assert_non_null(strstr(err.text, "from schema 1 to 2"));
	assert_int_equal(ask(db, "PRAGMA user_version"), 1);
	assert_int_equal(ask(db, "SELECT count(*) FROM sqlite_schema WHERE name = 'fine'"), 0);
	assert_int_equal(ask(db, "SELECT sum(id) FROM things"), 3);
	sqlite3_close(db);
}

static void with_full_disk(struct folder *f, rlim_t bytes, bool must_fail)
{
	sqlite3 *db = open_db(f->db);
	struct rlimit old, small;
	struct err err = { 0 };
	int r;

	(void)signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	small = old;
	small.rlim_cur = bytes;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	r = schema_bring(db, f->db, 1, later, 3, &err);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	if (must_fail)
		assert_int_equal(r, -EIO);
	else if (r < 0)
		assert_int_equal(r, -EIO);
	assert_int_equal(ask(db, "PRAGMA user_version"), r < 0 ? 1 : 3);
	assert_int_equal(ask(db, "SELECT sum(id) FROM things"), 3);
	assert_false(is_there(f, ".schema-1.part"));
	sqlite3_close(db);
}

/* full at the copy, and at every page of the steps: as it was, and next time it works */
static void test_full_disk(void **state)
{
	struct folder *f = *state;

	sqlite3_close(old_file(f));
	with_full_disk(f, 1, true);
	with_full_disk(f, 4096, true);
	with_full_disk(f, 8192 + 100, true);
	with_full_disk(f, RLIM_INFINITY, false);
}

static void test_newer_is_not_touched(void **state)
{
	struct folder *f = *state;
	sqlite3 *db = old_file(f);
	struct err err = { 0 };
	struct stat before, after;
	struct store *s;
	char wal[96], copy[100];

	/* as a newer allot leaves it when it is killed: half of it in the log */
	run_sql(db, "PRAGMA wal_checkpoint(TRUNCATE); PRAGMA user_version = 4000000");
	(void)str_print(wal, sizeof(wal), "%s-wal", f->db);
	(void)str_print(copy, sizeof(copy), "%s.kept", wal);
	assert_int_equal(link(wal, copy), 0);
	(void)sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	sqlite3_close(db);
	assert_int_equal(access(wal, F_OK), 0);
	assert_int_equal(stat(f->db, &before), 0);
	assert_int_equal(store_open(f->path, "boot", &s, &err), -EPROTONOSUPPORT);
	assert_non_null(strstr(err.text, "newer allot (schema 4000000"));
	assert_non_null(strstr(err.text, "not touched"));
	assert_int_equal(stat(f->db, &after), 0);
	assert_int_equal(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
	assert_int_equal(before.st_size, after.st_size);
	db = open_db(f->db);
	assert_int_equal(ask(db, "PRAGMA user_version"), 4000000);
	run_sql(db, "PRAGMA user_version = -1"); /* no allot writes that */
	sqlite3_close(db);
	assert_int_equal(store_open(f->path, "boot", &s, &err), -EPROTONOSUPPORT);
}

static void load(struct folder *f, const char *file)
{
	static char sql[64 * 1024];
	sqlite3 *db = open_db(f->db);

	assert_true(fd_read_file(AT_FDCWD, file, sql, sizeof(sql)) > 0);
	run_sql(db, sql);
	sqlite3_close(db);
}

static int collect(const struct job_spec *spec, void *context)
{
	struct folder *f = context;

	assert_true(f->n < ARRAY_SIZE(f->found));
	f->found[f->n++] = *spec;
	return 0;
}

/* whatever this allot's schema is: what one of the first held is still there */
static void test_schema_1(void **state)
{
	static const struct wire_uuid gpu = { { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,
						15 } };
	struct folder *f = *state;
	struct err err = { 0 };
	const struct job_spec *a = &f->found[0], *b = &f->found[1];
	uint64_t numbers[4];
	struct store *s;
	sqlite3 *db;

	load(f, DATA "/store-schema-1.sql");
	if (store_open(f->path, "boot", &s, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(store_each_job(s, collect, f), 0);
	assert_int_equal(f->n, 2);
	assert_int_equal(a->id, 7);
	assert_int_equal(a->keeper_start, 987654);
	assert_int_equal(a->request.bytes, 20ull << 30);
	assert_int_equal(a->n_gpus, 1);
	assert_true(a->may_wait);
	assert_string_equal(a->name, "embed");
	assert_int_equal(b->parent, 7);
	assert_int_equal(b->limit.permille, 500);
	assert_int_equal(b->n_gpus, 2);
	assert_int_equal(b->gpus[1].bytes[0], 0xf0);
	assert_int_equal(b->ceilings[1], 1ull << 62);
	assert_true(b->is_ended);
	assert_string_equal(b->command, "./chat --port 80");
	assert_int_equal(store_last_job(s), 12);
	assert_int_equal(store_members(s, 7, numbers, 4), 2);
	assert_int_equal(numbers[1], 2);
	assert_int_equal(store_context_bytes(s, &gpu, "580.159"), 520u << 20);
	assert_int_equal(store_put_job(s, a), 0); /* and it can be written */
	store_close(s);
	assert_int_equal(is_there(f, ".schema-1"), schema_steps_count > 1);
	db = open_db(f->db);
	assert_int_equal(ask(db, "PRAGMA user_version"), schema_steps_count);
	sqlite3_close(db);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_new_file),   TEST(test_old_file),
		TEST(test_step_fails), TEST(test_copy_of_another_day),
		TEST(test_full_disk),  TEST(test_newer_is_not_touched),
		TEST(test_schema_1),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
