// SPDX-License-Identifier: Apache-2.0
/*
 * A state file that somebody or something has damaged: rows with anything in any column, and files
 * that are none.  A row is refused or is one that the ledger takes or refuses in words; the books
 * hold afterwards.
 * Input: "SQL" and nothing else is a file's beginning; else for each column of the rows of three
 * tables a byte that says what stands in it, and its value.
 */
#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/size.h"
#include "base/str.h"
#include "daemon/jobs.h"
#include "daemon/sampler_wire.h"
#include "fuzz.h"
#include "fuzz_text.h"
#include "policy/ledger.h"

/* every refused row is told, and here there are millions */
#define log_print(level, ...) ((void)(level))
#include "daemon/store.c" /* its file, so that rows can be put behind its back */

#define GPUS 3

static char dir[64];
static struct store *store;
static struct ledger *ledger;
static const uint8_t *bytes;
static size_t left;

static void remove_folder(const char *folder)
{
	DIR *open_dir = opendir(folder);
	struct dirent *d;

	while (open_dir && (d = readdir(open_dir)))
		(void)unlinkat(dirfd(open_dir), d->d_name, 0); /* not "." and ".." */
	if (open_dir)
		closedir(open_dir);
	(void)rmdir(folder);
}

static void clean_up(void)
{
	store_close(store);
	ledger_free(ledger);
	remove_folder(dir);
}

static uint64_t no_credit(void *owner, unsigned slot)
{
	(void)owner, (void)slot;
	return 0;
}

static void begin_all(void)
{
	static const struct credit_ops ops = { .peek = no_credit, .call_back = no_credit };

	(void)str_copy(dir, sizeof(dir),
		       access("/dev/shm", W_OK) ? "/tmp/allot-fuzz-store.XXXXXX"
						: "/dev/shm/allot-fuzz-store.XXXXXX");
	ledger = ledger_new(&ops);
	if (!mkdtemp(dir) || !ledger || store_open(dir, "fuzz", &store, NULL) < 0 ||
	    !exec(store, "PRAGMA synchronous = OFF"))
		abort();
	for (unsigned i = 0; i < GPUS; i++) {
		struct ledger_gpu_spec spec = { .index = i, .total_bytes = (i + 1) * 24 * GIB };

		memset(spec.uuid, (int)i + 1, sizeof(spec.uuid));
		if (ledger_gpu_add(ledger, &spec) != (int)i)
			abort();
	}
	(void)atexit(clean_up);
}

static unsigned take_byte(void)
{
	if (!left)
		return 0;
	left--;
	return *bytes++;
}

static void bind_any(sqlite3_stmt *q, int at)
{
	unsigned kind = take_byte();
	uint64_t v = 0;
	size_t n;

	switch (kind % 8) {
	case 0:
		sqlite3_bind_int64(q, at, (sqlite3_int64)(kind / 8));
		return;
	case 1:
		for (unsigned i = 0; i < 8; i++)
			v = v << 8 | take_byte();
		sqlite3_bind_int64(q, at, (sqlite3_int64)v);
		return;
	case 2:
		sqlite3_bind_int64(q, at, (sqlite3_int64)((uint64_t)1 << (kind / 8)));
		return;
	case 3:
		sqlite3_bind_double(q, at, (double)kind * 1e300);
		return;
	case 4: { /* GPUs that are there, also twice */
		unsigned char uuids[20 * 16];

		for (n = 0; n < kind / 8 && n < 20; n++)
			memset(uuids + n * 16, (int)(take_byte() % (GPUS + 1)) + 1, 16);
		sqlite3_bind_blob(q, at, uuids, (int)(n * 16), SQLITE_TRANSIENT);
		return;
	}
	default:
		n = take_byte() * (kind & 8 ? 8 : 1);
		n = n < left ? n : left;
		if (kind % 8 == 5)
			sqlite3_bind_blob(q, at, n ? bytes : (const void *)"", (int)n,
					  SQLITE_TRANSIENT);
		else
			sqlite3_bind_text(q, at, n ? (const char *)bytes : "", (int)n,
					  SQLITE_TRANSIENT);
		bytes += n;
		left -= n;
	}
}

static void put_row(enum statement which, int columns)
{
	sqlite3_stmt *q = begin(store, which);

	for (int i = 1; i <= columns; i++)
		bind_any(q, i);
	(void)sqlite3_step(q); /* a constraint may not hold */
	(void)sqlite3_reset(q);
}

static void check_text(const char *s, size_t size)
{
	if (!memchr(s, '\0', size))
		abort();
	for (; *s; s++)
		if ((unsigned char)*s < ' ' || *s == 0x7f)
			abort();
}

static int on_job(const struct job_spec *stored, void *context)
{
	struct job job = { .spec = *stored };
	struct ledger_job *lease = NULL;
	struct ledger_job_spec spec;
	struct ledger_event e;
	unsigned *n = context;

	(*n)++;
	check_text(stored->name, sizeof(stored->name));
	check_text(stored->command, sizeof(stored->command));
	if (stored->n_gpus < 1 || stored->n_gpus > WIRE_MAX_GPUS || !stored->id)
		abort();
	jobs_to_ledger(&job, NULL, 0, &spec);
	spec.n_listed = stored->n_gpus;
	for (unsigned i = 0; i < stored->n_gpus; i++)
		spec.listed[i] = (unsigned)(stored->gpus[i].bytes[0] - 1) % (GPUS + 1);
	if (ledger_job_restore(ledger, &spec, NULL, 1, &lease) == 0) {
		for (unsigned i = 0; i < stored->n_gpus; i++)
			(void)ledger_view_restore(lease, i, stored->ceilings[i]);
		if (ledger_check(ledger) || ledger_job_free(ledger, lease, 2) < 0)
			abort();
	}
	while (ledger_poll(ledger, 3, &e))
		;
	if (ledger_check(ledger))
		abort();
	return 0;
}

static void on_gpu(const struct sampler_gpu *gpu, void *context)
{
	unsigned *n = context;

	(*n)++;
	check_text(gpu->pci_bus_id, sizeof(gpu->pci_bus_id));
	check_text(gpu->model, sizeof(gpu->model));
	check_text(gpu->driver_version, sizeof(gpu->driver_version));
	if (gpu->index >= SAMPLER_MAX_GPUS || gpu->reserved_bytes > gpu->total_bytes)
		abort();
}

/* a file that begins so: put aside, or opened */
static void check_file(const uint8_t *data, size_t size)
{
	char folder[96], path[160];
	struct store *s = NULL;
	struct err err = { 0 };
	FILE *f;

	if (!str_print(folder, sizeof(folder), "%s/d", dir) || mkdir(folder, 0700) < 0 ||
	    !str_print(path, sizeof(path), "%s/allot.db", folder))
		abort();
	f = fopen(path, "we");
	if (!f || (size && fwrite(data, 1, size, f) != size))
		abort();
	(void)fclose(f);
	if (store_open(folder, "fuzz", &s, &err) < 0 && !err.text[0])
		abort();
	store_close(s);
	remove_folder(folder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t numbers[16];
	unsigned n = 0;

	if (!store)
		begin_all();
	if (size > 3 && memcmp(data, "SQL", 3) == 0) {
		check_file(data, size);
		return 0;
	}
	bytes = data;
	left = size;
	if (!exec(store, "BEGIN"))
		abort();
	while (left) {
		put_row(PUT_JOB, 22);
		put_row(PUT_GPU, 12);
		put_row(PUT_MEMBERS, 2);
		put_row(PUT_META, 2);
		put_row(PUT_CONTEXT, 3);
	}
	(void)store_each_job(store, on_job, &n);
	(void)store_each_gpu(store, "", on_gpu, &n);
	(void)store_last_job(store);
	if (store_members(store, 1, numbers, 16) > 16)
		abort();
	if (!exec(store, "ROLLBACK"))
		abort();
	return 0;
}
