// SPDX-License-Identifier: Apache-2.0
/* daemon/store: what is written comes back, also from damaged, newer and unwritable files */
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
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "daemon/registry.h"
#include "daemon/runs.h"
#include "daemon/store.h"

#define MAX_JOBS 8

struct folder {
	char path[64];
	struct job_spec found[MAX_JOBS];
	unsigned n;
	unsigned at;
};

static int setup(void **state)
{
	static struct folder f;

	f = (struct folder){ 0 };
	strcpy(f.path, "/tmp/allot-store-XXXXXX");
	*state = &f;
	return mkdtemp(f.path) ? 0 : -1;
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

static struct store *must_open(struct folder *f, const char *boot)
{
	struct store *s = NULL;
	struct err err = { 0 };

	if (store_open(f->path, boot, &s, &err) < 0)
		fail_msg("%s", err.text);
	return s;
}

static struct job_spec make_job(uint64_t id)
{
	struct job_spec j = { .id = id,
			      .parent = id - 1,
			      .uid = 1000,
			      .gid = 4294967294u,
			      .keeper_pid = 77,
			      .keeper_start = 1ull << 41,
			      .session = 5,
			      .request = { .bytes = 3ull << 40 },
			      .limit = { .permille = 500 },
			      .job_class = 2,
			      .fail_policy = 1,
			      .may_wait = true,
			      .when_full_ns = UINT64_MAX,
			      .compute_min_permille = 100,
			      .compute_max_permille = 900,
			      .n_gpus = 2,
			      .is_ended = true };

	memset(&j.gpus[0], 0xab, sizeof(j.gpus[0]));
	memset(&j.gpus[1], 0x00, sizeof(j.gpus[1]));
	j.ceilings[1] = UINT64_MAX - 1;
	strcpy(j.name, "it's \"a\" name; DROP TABLE jobs");
	strcpy(j.command, "python träin.py");
	return j;
}

/* field by field: what lies between them is nobody's */
static void assert_same(const struct job_spec *a, const struct job_spec *b)
{
#define SAME(field) assert_memory_equal(&a->field, &b->field, sizeof(a->field))
	SAME(id);
	SAME(parent);
	SAME(uid);
	SAME(gid);
	SAME(keeper_pid);
	SAME(keeper_start);
	SAME(session);
	SAME(request);
	SAME(limit);
	SAME(job_class);
	SAME(fail_policy);
	SAME(may_wait);
	SAME(when_full_ns);
	SAME(compute_min_permille);
	SAME(compute_max_permille);
	SAME(n_gpus);
	SAME(gpus);
	SAME(ceilings);
	SAME(is_ended);
	assert_string_equal(a->name, b->name);
	assert_string_equal(a->command, b->command);
}

static int collect(const struct job_spec *spec, void *context)
{
	struct folder *f = context;

	if (f->n < MAX_JOBS)
		f->found[f->n++] = *spec;
	return 0;
}

static void test_comes_back(void **state)
{
	struct folder *f = *state;
	struct store *s = must_open(f, "boot");
	struct job_spec a = make_job(1), b = make_job(INT64_MAX);

	assert_int_equal(store_put_job(s, &b), 0);
	assert_int_equal(store_put_job(s, &a), 0);
	assert_int_equal(store_put_last_job(s, UINT64_MAX), 0);
	store_close(s);
	s = must_open(f, "boot");
	assert_int_equal(store_each_job(s, collect, f), 0);
	assert_int_equal(f->n, 2);
	assert_same(&f->found[0], &a);
	assert_same(&f->found[1], &b);
	assert_true(store_last_job(s) == UINT64_MAX);
	/* a second time, and changed */
	a.is_ended = false;
	a.name[0] = '\0';
	assert_int_equal(store_put_job(s, &a), 0);
	assert_int_equal(store_remove_job(s, b.id), 0);
	assert_int_equal(store_remove_job(s, 12345), 0);
	f->n = 0;
	assert_int_equal(store_each_job(s, collect, f), 0);
	assert_int_equal(f->n, 1);
	assert_same(&f->found[0], &a);
	store_close(s);
}

static int stop_at_once(const struct job_spec *spec, void *context)
{
	(void)spec;
	(*(unsigned *)context)++;
	return -ECANCELED;
}

static void test_walk_can_stop(void **state)
{
	struct folder *f = *state;
	struct store *s = must_open(f, "boot");
	unsigned n = 0;

	for (uint64_t id = 1; id <= 3; id++) {
		struct job_spec j = make_job(id);

		assert_int_equal(store_put_job(s, &j), 0);
	}
	assert_int_equal(store_each_job(s, stop_at_once, &n), -ECANCELED);
	assert_int_equal(n, 1);
	assert_int_equal(store_each_job(s, collect, f), 0); /* and from the beginning again */
	assert_int_equal(f->n, 3);
	store_close(s);
}

static void test_other_boot(void **state)
{
	struct folder *f = *state;
	struct store *s = must_open(f, "first");
	struct job_spec j = make_job(1);
	struct wire_uuid gpu = { { 1, 2, 3 } };

	assert_int_equal(store_put_job(s, &j), 0);
	assert_int_equal(store_put_context_bytes(s, &gpu, "580", 12345), 0);
	store_close(s);
	s = must_open(f, "second");
	assert_int_equal(store_each_job(s, collect, f), 0);
	assert_int_equal(f->n, 0);
	assert_int_equal(store_context_bytes(s, &gpu, "580"), 12345); /* that is still true */
	store_close(s);
}

static int note_run(const struct run_record *run, void *context)
{
	struct run_record *found = context;

	while (found->id)
		found++;
	*found = *run;
	return 0;
}

/* what is kept of ended jobs outlives them, and a boot */
static void test_runs(void **state)
{
	struct run_record run = { .id = 7,
				  .uid = 1000,
				  .keeper_pid = 42,
				  .keeper_start = UINT64_MAX,
				  .queued_s = 1,
				  .started_s = 2,
				  .ended_s = 3,
				  .is_ended = true,
				  .has_status = true,
				  .is_adopted = true,
				  .status = 0x8f00,
				  .name = "n\xc3\xa4me",
				  .command = "it's \"this\"",
				  .log = "/some/where" };
	struct run_record other = { .id = 9 }, found[4] = { 0 };
	struct folder *f = *state;
	struct store *s = must_open(f, "boot-1");

	assert_int_equal(store_put_run(s, &run), 0);
	run.status = 0x0100;
	assert_int_equal(store_put_run(s, &run), 0);
	assert_int_equal(store_put_run(s, &other), 0);
	s = store_close(s);
	s = must_open(f, "boot-2");
	assert_int_equal(store_each_run(s, note_run, found), 0);
	assert_int_equal(found[0].id, 7);
	assert_int_equal(found[0].uid, 1000);
	assert_true(found[0].keeper_start == UINT64_MAX);
	assert_true(found[0].is_ended && found[0].has_status && found[0].is_adopted);
	assert_int_equal(found[0].status, 0x0100);
	assert_string_equal(found[0].name, run.name);
	assert_string_equal(found[0].command, run.command);
	assert_string_equal(found[0].log, run.log);
	assert_int_equal(found[1].id, 9);
	assert_false(found[1].is_ended || found[1].has_status);
	assert_int_equal(found[2].id, 0);
	assert_int_equal(store_remove_run(s, 7), 0);
	memset(found, 0, sizeof(found));
	assert_int_equal(store_each_run(s, note_run, found), 0);
	assert_int_equal(found[0].id, 9);
	assert_int_equal(found[1].id, 0);
	(void)store_close(s);
}

static void test_context_costs(void **state)
{
	struct folder *f = *state;
	struct store *s = must_open(f, "boot");
	struct wire_uuid a = { { 1 } }, b = { { 2 } };

	assert_int_equal(store_context_bytes(s, &a, "580"), 0);
	assert_int_equal(store_put_context_bytes(s, &a, "580", 100), 0);
	assert_int_equal(store_put_context_bytes(s, &a, "615", 200), 0);
	assert_int_equal(store_put_context_bytes(s, &a, "580", 300), 0);
	assert_int_equal(store_context_bytes(s, &a, "580"), 300);
	assert_int_equal(store_context_bytes(s, &a, "615"), 200);
	assert_int_equal(store_context_bytes(s, &b, "580"), 0);
	store_close(s);
}

static void scribble(struct folder *f, off_t at, const char *text)
{
	char path[96];
	int fd;

	(void)str_print(path, sizeof(path), "%s/allot.db", f->path);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, text, strlen(text), at), strlen(text));
	close(fd);
}

static void test_damaged(void **state)
{
	struct folder *f = *state;
	struct store *s;
	struct job_spec j = make_job(1);

	scribble(f, 0,
		 "this was never a database, and it is longer than its header would be: "
		 "one hundred bytes and more");
	s = must_open(f, "boot"); /* put aside, a new one begun */
	assert_int_equal(store_put_job(s, &j), 0);
	store_close(s);
	s = must_open(f, "boot");
	assert_int_equal(store_each_job(s, collect, f), 0);
	assert_int_equal(f->n, 1);
	store_close(s);
}

static void run_sql(struct folder *f, const char *sql)
{
	char path[96];
	sqlite3 *db;

	(void)str_print(path, sizeof(path), "%s/allot.db", f->path);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
}

static void test_newer(void **state)
{
	struct folder *f = *state;
	struct store *s = must_open(f, "boot");
	struct err err = { 0 };

	store_close(s);
	run_sql(f, "PRAGMA user_version = 1000000");
	assert_int_equal(store_open(f->path, "boot", &s, &err), -EPROTONOSUPPORT);
	assert_non_null(strstr(err.text, "newer"));
	assert_non_null(strstr(err.text, f->path));
}

static void test_unreadable_rows(void **state)
{
	struct folder *f = *state;
	struct store *s = must_open(f, "boot");
	struct job_spec a = make_job(1), b = make_job(2), c = make_job(3);

	assert_int_equal(store_put_job(s, &a), 0);
	assert_int_equal(store_put_job(s, &b), 0);
	assert_int_equal(store_put_job(s, &c), 0);
	store_close(s);
	run_sql(f, "UPDATE jobs SET gpus = x'' WHERE id = 1;"
		   "UPDATE jobs SET name = printf('%200s', 'x') WHERE id = 2");
	s = must_open(f, "boot");
	assert_int_equal(store_each_job(s, collect, f), 0);
	assert_int_equal(f->n, 1);
	assert_int_equal(f->found[0].id, 3);
	store_close(s);
}

static void test_no_folder(void **state)
{
	struct store *s;
	struct err err = { 0 };

	(void)state;
	assert_true(store_open("/nonexistent/folder", "boot", &s, &err) < 0);
	assert_non_null(strstr(err.text, "/nonexistent/folder"));
}

static const struct job_spec *next_of(void *context)
{
	struct folder *f = context;

	return f->at < 2 ? &f->found[f->at++] : NULL;
}

static void test_full_disk(void **state)
{
	struct folder *f = *state;
	struct store *s = must_open(f, "boot");
	struct rlimit old, small;
	struct job_spec j = make_job(1);
	int r = 0;

	assert_int_equal(store_put_job(s, &j), 0);
	(void)signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	small = old;
	small.rlim_cur = 1;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	j.id = 2;
	r = store_put_job(s, &j);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_int_equal(r, -EIO);
	assert_true(store_is_behind(s));
	assert_true(store_trouble(s)[0] != '\0');
	/* room again: what is in memory is written whole */
	f->found[0] = make_job(2);
	f->found[1] = make_job(3);
	assert_int_equal(store_rewrite(s, next_of, f), 0);
	assert_false(store_is_behind(s));
	assert_int_equal(store_trouble(s)[0], '\0');
	f->n = 0;
	assert_int_equal(store_each_job(s, collect, f), 0);
	assert_int_equal(f->n, 2);
	assert_int_equal(f->found[0].id, 2);
	store_close(s);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_comes_back), TEST(test_walk_can_stop), TEST(test_other_boot),
		TEST(test_damaged),    TEST(test_runs),          TEST(test_context_costs),
		TEST(test_newer),      TEST(test_no_folder),     TEST(test_unreadable_rows),
		TEST(test_full_disk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
