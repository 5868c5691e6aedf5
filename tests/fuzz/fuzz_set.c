// SPDX-License-Identifier: Apache-2.0
/*
 * `allot set JOB KEY=VALUE`, and `--gpu`: what allotd reads as text from people. A change is
 * carried out or refused with a text, from inside a job it never widens anything, and the ledger's
 * sums hold. Input: "KEY=VALUE"; a first byte '!' asks from inside; "gpu=" is a list of GPUs.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/size.h"
#include "base/str.h"
#include "config/config.h"
#include "daemon/change.h"
#include "daemon/daemon.h"
#include "daemon/gpus.h"
#include "daemon/server.h"
#include "daemon/store.h"
#include "fuzz.h"
#include "fuzz_text.h"
#include "gpu/proc.h"
#include "policy/ledger.h"

#define GPUS    4
#define REQUEST (10 * GIB)
#define LIMIT   (20 * GIB)

static struct daemon d = { .is_simulated = true };
static struct store *store;
static char dir[64];

static void clean_up(void)
{
	static const char *const files[] = { "allot.db", "allot.db-wal", "allot.db-shm",
					     "allot.db-journal" };
	char path[96];

	server_end_parts(&d);
	sd_event_unref(d.event);
	store_close(store);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (str_print(path, sizeof(path), "%s/%s", dir, files[i]))
			(void)unlink(path);
	(void)rmdir(dir);
}

static void begin(void)
{
	static struct config config;

	config_defaults(&config);
	d.config = d.config_next = &config;
	(void)str_copy(dir, sizeof(dir), "/tmp/allot-fuzz-set.XXXXXX");
	d.proc_root = PROC_ROOT;
	d.ready_fd = -1;
	registry_init(&d.registry);
	if (!mkdtemp(dir) || store_open(dir, "fuzz", &store, NULL) < 0 ||
	    sd_event_new(&d.event) < 0)
		abort();
	d.store = store;
	if (server_begin_parts(&d) < 0)
		abort();
	(void)atexit(clean_up);
	for (uint32_t i = 0; i < GPUS; i++) {
		struct sampler_gpu gpu = { .kind = SAMPLER_GPU,
					   .known = SAMPLER_MEMORY,
					   .index = i,
					   .total_bytes = (i + 1) * 24 * GIB };

		memset(gpu.uuid.bytes, (int)(0x11 * (i / 2 + 1)), sizeof(gpu.uuid.bytes));
		gpu.uuid.bytes[15] = (uint8_t)i;
		(void)str_print(gpu.pci_bus_id, sizeof(gpu.pci_bus_id), "0000:%02x:00.0", i + 1);
		gpus_on_gpu(d.gpus, &gpu, NULL, 0);
	}
	if (gpus_count(d.gpus) != GPUS)
		abort();
}

static void check_gpus(const char *text)
{
	unsigned numbers[WIRE_MAX_GPUS];
	struct err err = { 0 };
	int n = gpus_parse(d.gpus, text, numbers, &err);

	if (n == 0 || n > GPUS || (n < 0 && !err.text[0]))
		abort();
	for (int i = 0; i < n; i++)
		for (int k = 0; k <= i; k++)
			if (numbers[i] >= GPUS || (k < i && numbers[k] == numbers[i]))
				abort();
}

static void check_change(const char *key, const char *value, bool from_inside)
{
	struct job job = { .spec = { .name = "fuzz", .job_class = LEDGER_CLASS_NORMAL },
			   .is_admitted = true };
	struct ledger_job_spec spec = { .id = 1,
					.name = "fuzz",
					.request.bytes = REQUEST,
					.limit.bytes = LIMIT,
					.job_class = LEDGER_CLASS_NORMAL,
					.admit_deadline_ns = LEDGER_NEVER,
					.n_gpus = 1,
					.n_listed = 1 };
	struct ledger_job_figures f;
	struct ledger_event e;
	struct err err = { 0 };
	enum wire_code code;

	if (ledger_admit(d.ledger, &spec, &job, clock_now_ns(), &job.lease, NULL) !=
	    LEDGER_ADMITTED)
		abort();
	code = change_job(&d, &job, key, value, from_inside, &err);
	if (ledger_job_figures(d.ledger, job.lease, 0, &f) < 0 || ledger_check(d.ledger))
		abort();
	if (code ? !err.text[0] || f.request_bytes != REQUEST || f.limit_bytes != LIMIT
		 : from_inside && (f.request_bytes > REQUEST || f.limit_bytes > LIMIT))
		abort();
	if (!memchr(job.spec.name, '\0', sizeof(job.spec.name)))
		abort();
	if (ledger_job_free(d.ledger, job.lease, clock_now_ns()) < 0)
		abort();
	while (ledger_poll(d.ledger, clock_now_ns(), &e))
		;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	bool from_inside = size && *data == '!';
	char *key, *value;

	if (!d.ledger)
		begin();
	data += from_inside;
	size -= from_inside;
	key = fuzz_next_text(&data, &size, '=');
	value = fuzz_text(data, size);
	if (strcmp(key, "gpu") == 0)
		check_gpus(value);
	else
		check_change(key, value, from_inside);
	free(key);
	free(value);
	return 0;
}
