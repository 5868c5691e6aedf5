// SPDX-License-Identifier: Apache-2.0
#include "daemon/gpus.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fmt.h"
#include "base/log.h"
#include "base/size.h"
#include "base/str.h"
#include "config/config.h"
#include "daemon/daemon.h"
#include "daemon/mig.h"
#include "daemon/probe.h"
#include "daemon/programs.h"
#include "daemon/sampler.h"
#include "daemon/store.h"
#include "daemon/unmanaged.h"
#include "policy/ledger.h"

#define FORGET_NS     (60 * NS_PER_S) /* after which an instance that is gone is not listed */
#define QUIET_SAMPLES 3               /* alike, before looks take their place */
#define QUIET_ROUNDS  10              /* of looks, before a sample again */

struct gpus {
	struct daemon *daemon;
	struct gpu gpu[LEDGER_MAX_GPUS];
	unsigned n;
	bool is_known;
	bool is_full;      /* and that was said */
	uint64_t begun_ns; /* the last question */
	uint64_t asked;    /* its bits */
	struct ledger_reading *readings;
	unsigned readings_room;
	char driver_version[80];
};

int gpus_new(struct daemon *d, struct gpus **ret)
{
	struct gpus *g = calloc(1, sizeof(*g));

	if (!g)
		return -ENOMEM;
	g->daemon = d;
	*ret = g;
	return 0;
}

struct gpus *gpus_free(struct gpus *g)
{
	if (!g)
		return NULL;
	for (unsigned i = 0; i < g->n; i++)
		free(g->gpu[i].strangers);
	free(g->readings);
	free(g);
	return NULL;
}

unsigned gpus_count(const struct gpus *g)
{
	return g->n;
}

const struct gpu *gpus_at(const struct gpus *g, unsigned number)
{
	return &g->gpu[number];
}

int gpus_find(const struct gpus *g, const struct wire_uuid *uuid)
{
	for (unsigned i = 0; i < g->n; i++)
		if (memcmp(&g->gpu[i].last.uuid, uuid, sizeof(*uuid)) == 0)
			return (int)i;
	return -ENOENT;
}

bool gpus_is_forgotten(const struct gpus *g, unsigned number, uint64_t now_ns)
{
	const struct gpu *gpu = &g->gpu[number];
	struct ledger_gpu_figures f = { 0 };

	if (!gpus_is_instance(gpu) || !gpu->is_lost || now_ns - gpu->lost_ns < FORGET_NS)
		return false;
	(void)ledger_gpu_figures(g->daemon->ledger, number, &f); /* it exists */
	return f.jobs == 0 && f.waiting == 0;
}

const char *gpus_driver_version(const struct gpus *g)
{
	return g->driver_version;
}

bool gpus_is_known(const struct gpus *g)
{
	return g->is_known;
}

/* ---- samples ---- */

static uint64_t round_ns(const struct gpus *g)
{
	return g->daemon->config->daemon_sample_interval;
}

/* with no job: by default what is unmanaged shows within 2 s */
static uint64_t idle_ns(const struct gpus *g)
{
	return round_ns(g) * 19 / 10;
}

/* when to look at this GPU again; *ret_look: a look will do */
static uint64_t due_of(const struct gpus *g, unsigned number, uint64_t now_ns, bool *ret_look)
{
	const struct gpu *gpu = &g->gpu[number];
	uint64_t due = ledger_sample_due_ns(g->daemon->ledger, number, now_ns);
	uint64_t end_ns = gpu->begun_ns + QUIET_ROUNDS * round_ns(g);

	*ret_look = false;
	if (gpu->wants_sample)
		return now_ns;
	/* the ledger's regular round, not something that it is in a hurry about */
	if (due != LEDGER_NEVER && due == gpu->sampled_ns + round_ns(g) &&
	    gpu->quiet >= QUIET_SAMPLES) {
		due = size_min(gpu->seen_ns + idle_ns(g), end_ns);
		*ret_look = now_ns < end_ns;
	}
	return size_min(due, g->begun_ns + idle_ns(g));
}

uint64_t gpus_due_ns(struct gpus *g, uint64_t now_ns)
{
	uint64_t due = g->n ? LEDGER_NEVER : g->begun_ns ? g->begun_ns + idle_ns(g) : now_ns;
	bool is_look;

	for (unsigned i = 0; i < g->n; i++)
		due = size_min(due, due_of(g, i, now_ns, &is_look));
	return due;
}

uint64_t gpus_due(struct gpus *g, uint64_t now_ns)
{
	uint64_t bits = 0;
	bool is_look;

	if (!g->begun_ns || now_ns >= g->begun_ns + idle_ns(g))
		return SAMPLER_ALL;
	for (unsigned i = 0; i < g->n; i++)
		if (!g->gpu[i].is_lost && g->gpu[i].last.index < SAMPLER_MAX_GPUS &&
		    now_ns >= due_of(g, i, now_ns, &is_look))
			bits |= (uint64_t)1 << g->gpu[i].last.index;
	/* one round for all when it will soon be time for that anyway */
	return bits && now_ns >= g->begun_ns + round_ns(g) * 9 / 10 ? SAMPLER_ALL : bits;
}

void gpus_note_activity(struct gpus *g)
{
	for (unsigned i = 0; i < g->n; i++)
		g->gpu[i].quiet = 0;
}

void gpus_want_all(struct gpus *g)
{
	g->begun_ns = 0;
}

void gpus_want(struct gpus *g, unsigned number)
{
	g->gpu[number].wants_sample = true;
}

void gpus_begin(struct gpus *g, uint64_t bits, uint64_t now_ns)
{
	g->asked = bits;
	if (bits == SAMPLER_ALL || !g->begun_ns)
		g->begun_ns = now_ns;
	for (unsigned i = 0; i < g->n; i++) {
		struct gpu *gpu = &g->gpu[i];

		gpu->is_seen = false;
		if (bits != SAMPLER_ALL && !(bits >> (gpu->last.index % SAMPLER_MAX_GPUS) & 1))
			continue;
		(void)due_of(g, i, now_ns, &gpu->is_look); /* only the kind counts here */
		if (gpu->is_look)
			continue;
		gpu->begun_ns = now_ns;
		gpu->wants_sample = false;
		ledger_sample_begin(g->daemon->ledger, i, now_ns);
	}
}

static void put_label(struct gpu *gpu)
{
	const struct sampler_gpu *last = &gpu->last;

	if (gpus_is_instance(gpu))
		(void)str_print(gpu->label, sizeof(gpu->label), "%u:%u", last->index,
				last->mig_index); /* fits: small numbers */
	else
		(void)str_print(gpu->label, sizeof(gpu->label), "%u", last->index);
}

/* an instance is claimed with its card */
static int claim(struct gpus *g, const struct gpu *gpu)
{
	struct daemon *d = g->daemon;
	struct err err;
	int r;

	if (d->is_simulated || gpus_is_instance(gpu))
		return 0;
	r = claims_gpu(&d->instance.claims, gpu->last.uuid.bytes, &err);
	if (d->instance.claims.note[0])
		log_warn("%s", d->instance.claims.note);
	if (r == 0)
		return 0;
	if (err.code != -EBUSY) {
		log_warn("%s, ignoring", err.text);
		return 0;
	}
	log_error("%s", err.text);
	(void)sd_event_exit(d->event, -EBUSY);
	return -EBUSY;
}

struct config_gpu gpus_config(const struct daemon *d, const struct sampler_gpu *gpu)
{
	return config_gpu(d->config, gpu->uuid.bytes, gpu->index, gpu->pci_bus_id, gpu->model);
}

static uint64_t reserve_of(const struct daemon *d, const struct sampler_gpu *gpu)
{
	struct config_amount a = gpus_config(d, gpu).reserve;

	return a.bytes ? a.bytes : gpu->total_bytes / 1000 * a.permille;
}

static void set_policy(struct gpus *g, unsigned number)
{
	unmanaged_set_policy(g->daemon->unmanaged, number,
			     gpus_config(g->daemon, &g->gpu[number].last).unmanaged ==
				     CONFIG_UNMANAGED_KILL);
}

void gpus_configure(struct gpus *g)
{
	uint64_t now = clock_now_ns();

	unmanaged_configured(g->daemon->unmanaged);
	for (unsigned i = 0; i < g->n; i++) {
		ledger_gpu_set_reserve(g->daemon->ledger, i, reserve_of(g->daemon, &g->gpu[i].last),
				       now);
		set_policy(g, i);
	}
}

static int add_gpu(struct gpus *g, const struct sampler_gpu *seen)
{
	struct daemon *d = g->daemon;
	struct gpu *gpu = &g->gpu[g->n];
	struct ledger_gpu_spec spec = { .index = seen->index,
					.total_bytes = seen->total_bytes,
					.reserved_bytes = seen->reserved_bytes,
					.reserve_bytes = reserve_of(d, seen) };
	struct fmt_buf uuid;
	int number;

	if (!seen->total_bytes)
		return -ENODATA;
	if (g->n == LEDGER_MAX_GPUS) {
		if (!g->is_full)
			log_error("more than %d GPUs and MIG instances were seen since allotd "
				  "began: a "
				  "restart of allotd forgets those that are gone (jobs go on)",
				  LEDGER_MAX_GPUS);
		g->is_full = true;
		return -ENOSPC;
	}
	*gpu = (struct gpu){ .last = *seen };
	put_label(gpu);
	number = claim(g, gpu);
	if (number < 0)
		return number;
	memcpy(spec.uuid, seen->uuid.bytes, sizeof(spec.uuid));
	(void)str_copy(spec.label, sizeof(spec.label), gpu->label);
	spec.is_single = gpus_is_instance(gpu);
	spec.context_bytes = store_context_bytes(d->store, &seen->uuid, g->driver_version);
	number = ledger_gpu_add(d->ledger, &spec);
	if (number < 0) {
		log_error("cannot serve GPU %s: %s, ignoring", gpu->label, strerror(-number));
		return number;
	}
	ledger_gpu_closed(d->ledger, (unsigned)number, (seen->known & SAMPLER_MIG_MODE) != 0,
			  clock_now_ns());
	gpu->stored_context_bytes = spec.context_bytes;
	g->n = (unsigned)number + 1;
	log_info("GPU %s: %s, %s%s", gpu->label, seen->model,
		 fmt_uuid(&uuid, gpus_uuid_prefix(gpu), seen->uuid.bytes),
		 seen->known & SAMPLER_MIG_MODE ? ", in MIG mode: its instances are shared out"
						: "");
	set_policy(g, (unsigned)number);
	return number;
}

static void remember_one(const struct sampler_gpu *gpu, void *context)
{
	struct gpus *g = context;

	(void)str_copy(g->driver_version, sizeof(g->driver_version), gpu->driver_version);
	(void)add_gpu(g, gpu); /* it tells */
}

void gpus_remember(struct gpus *g)
{
	struct daemon *d = g->daemon;

	if (store_each_gpu(d->store, d->driver_dir, remember_one, g) == 0 && g->n)
		log_warn("NVML does not answer: serving the %u GPUs of before, unmanaged programs "
			 "are not seen",
			 g->n);
}

struct recalled {
	const struct wire_uuid *uuid;
	struct sampler_gpu gpu;
	bool is_found;
};

static void recall_one(const struct sampler_gpu *gpu, void *context)
{
	struct recalled *wanted = context;

	if (memcmp(&gpu->uuid, wanted->uuid, sizeof(gpu->uuid)) != 0)
		return;
	wanted->gpu = *gpu;
	wanted->is_found = true;
}

static bool readings_reserve(struct gpus *g, unsigned n)
{
	struct ledger_reading *grown;

	if (n <= g->readings_room)
		return true;
	grown = reallocarray(g->readings, n, sizeof(*grown));
	if (!grown)
		return false;
	g->readings = grown;
	g->readings_room = n;
	return true;
}

static void add_stranger(struct gpu *gpu, const struct sampler_proc *p, unsigned n_procs)
{
	unsigned room = n_procs < GPUS_STRANGERS_MAX ? n_procs : GPUS_STRANGERS_MAX;

	if (gpu->n_strangers == 0) {
		struct stranger *fresh = calloc(room, sizeof(*fresh));

		if (!fresh)
			return; /* counted, not listed */
		free(gpu->strangers);
		gpu->strangers = fresh;
	}
	if (gpu->n_strangers < room)
		gpu->strangers[gpu->n_strangers++] = (struct stranger){
			.pid = p->pid,
			.is_known = p->is_known != 0,
			.kinds = p->kinds,
			.bytes = p->bytes,
		};
}

/* whose are they?  Returns how many of nobody's have no figure. */
static unsigned sort_processes(struct gpus *g, unsigned number, const struct sampler_proc *procs,
			       unsigned n_procs, struct ledger_sample *sample)
{
	struct gpu *gpu = &g->gpu[number];
	struct daemon *d = g->daemon;
	unsigned n_unknown = 0;
	size_t n = 0;

	gpu->n_strangers = 0;
	unmanaged_begin(d->unmanaged, number);
	for (unsigned i = 0; i < n_procs; i++) {
		struct process *p = process_by_pid(&d->registry, procs[i].pid);

		if (!p && probe_saw(d->probes, number, &procs[i], gpu->begun_ns)) {
			sample->own_bytes += procs[i].is_known ? procs[i].bytes : 0;
			continue;
		}
		if (!p && !unmanaged_is_known(d->unmanaged, procs[i].pid))
			p = programs_of_pid(d, procs[i].pid, number);

		if (p) {
			g->readings[n++] = (struct ledger_reading){ .process = p->account,
								    .bytes = procs[i].bytes,
								    .known = procs[i].is_known };
			continue;
		}
		if (procs[i].is_known)
			sample->unmanaged_bytes =
				size_sat_add(sample->unmanaged_bytes, procs[i].bytes);
		n_unknown += !procs[i].is_known;
		add_stranger(gpu, &procs[i], n_procs);
		unmanaged_saw(d->unmanaged, number, &procs[i]);
	}
	if (unmanaged_end(d->unmanaged, number, clock_now_ns()))
		gpu->quiet = 0; /* and look soon again, properly */
	sample->readings = g->readings;
	sample->n_readings = n;
	return n_unknown;
}

/* who is on it should hear of it, and at once */
static void tell_jobs(const struct gpus *g, unsigned number)
{
	const struct job *job;

	list_for_each (job, &g->daemon->registry.jobs, node)
		if (job->is_admitted && ledger_job_slot_of(job->lease, number) >= 0)
			log_warn("job %llu (%s) is on GPU %s, which is lost: its next call on it "
				 "fails, nothing more is granted there",
				 (unsigned long long)job->spec.id, job->spec.name,
				 g->gpu[number].label);
}

static void set_lost(struct gpus *g, unsigned number, bool is_lost)
{
	struct gpu *gpu = &g->gpu[number];

	if (gpu->is_lost == is_lost)
		return;
	log_warn("GPU %s %s", gpu->label,
		 !is_lost                ? "is back"
		 : gpus_is_instance(gpu) ? "is gone: its card's MIG layout was changed"
					 : "is lost");
	gpu->is_lost = is_lost;
	gpu->lost_ns = clock_now_ns();
	ledger_gpu_lost(g->daemon->ledger, number, is_lost, clock_now_ns());
	if (is_lost)
		tell_jobs(g, number);
}

/* the mode and the number of a device may have changed since the last sample */
static void note_mig(struct gpus *g, unsigned number, const struct sampler_gpu *seen)
{
	struct gpu *gpu = &g->gpu[number];
	uint32_t changed = (gpu->last.known ^ seen->known) & SAMPLER_MIG_MODE;

	if (!changed && gpu->last.mig_index == seen->mig_index && gpu->last.index == seen->index)
		return;
	gpu->last = *seen;
	put_label(gpu);
	ledger_gpu_label(g->daemon->ledger, number, gpu->label);
	if (!changed)
		return;
	log_info("GPU %s %s MIG mode", gpu->label,
		 seen->known & SAMPLER_MIG_MODE ? "is now in" : "left");
	ledger_gpu_closed(g->daemon->ledger, number, (seen->known & SAMPLER_MIG_MODE) != 0,
			  clock_now_ns());
}

int gpus_recall(struct gpus *g, const struct wire_uuid *uuid)
{
	struct recalled wanted = { .uuid = uuid };
	struct daemon *d = g->daemon;
	int number;

	if (store_each_gpu(d->store, d->driver_dir, recall_one, &wanted) < 0 || !wanted.is_found)
		return -ENOENT;
	number = add_gpu(g, &wanted.gpu);
	if (number >= 0)
		set_lost(g, (unsigned)number, true);
	return number;
}

static uint64_t mix(uint64_t digest, uint64_t v)
{
	return (digest ^ v) * 0x9e3779b97f4a7c15u + (digest >> 29);
}

/* of everything that the ledger would be told */
static uint64_t digest_of(const struct sampler_gpu *seen, const struct sampler_proc *procs,
			  unsigned n_procs)
{
	uint64_t digest = mix(seen->known, seen->total_bytes);

	digest = mix(mix(digest, seen->reserved_bytes), seen->used_bytes);
	for (unsigned i = 0; i < n_procs; i++)
		digest = mix(mix(digest, (uint64_t)procs[i].pid << 16 | procs[i].kinds << 1 |
						 (procs[i].is_known & 1)),
			     procs[i].bytes);
	return digest;
}

/* true when there is nothing new, or somebody has to look again properly */
static bool was_enough(struct gpu *gpu, uint64_t digest, uint64_t now_ns)
{
	bool is_same = digest == gpu->digest;

	gpu->seen_ns = now_ns;
	if (gpu->is_look) {
		gpu->wants_sample = !is_same;
		return true;
	}
	gpu->quiet = is_same ? gpu->quiet + 1 : 0;
	gpu->digest = digest;
	gpu->sampled_ns = now_ns;
	return false;
}

/*
 * A card has the memory that it has: a sample that lacks it, or has quite another, says nothing
 * about memory, and what was known stays (an error-correcting mode may cost a few per cent).
 */
static void keep_memory(const struct gpu *gpu, struct sampler_gpu *seen)
{
	const struct sampler_gpu *last = &gpu->last;

	if ((seen->known & SAMPLER_MEMORY) && seen->total_bytes / 2 <= last->total_bytes &&
	    last->total_bytes / 2 <= seen->total_bytes)
		return;
	seen->known &= ~(uint32_t)SAMPLER_MEMORY;
	seen->total_bytes = last->total_bytes;
	seen->reserved_bytes = last->reserved_bytes;
	seen->used_bytes = last->used_bytes;
}

void gpus_on_gpu(void *context, const struct sampler_gpu *said, const struct sampler_proc *procs,
		 unsigned n_procs)
{
	struct sampler_gpu fresh = *said, *seen = &fresh;
	struct gpus *g = context;
	struct ledger_sample sample = { 0 };
	uint64_t now = clock_now_ns();
	int number = gpus_find(g, &seen->uuid);
	unsigned n_unknown = 0;

	(void)str_copy(g->driver_version, sizeof(g->driver_version), seen->driver_version);
	if (number < 0 && (seen->known & SAMPLER_MEMORY)) {
		number = add_gpu(g, seen);
		if (number >= 0)
			(void)store_put_gpu(g->daemon->store, g->daemon->driver_dir,
					    seen); /* it tells */
	}
	if (number < 0)
		return;
	g->gpu[number].is_seen = true;
	set_lost(g, (unsigned)number, (seen->known & SAMPLER_LOST) != 0);
	if (seen->known & SAMPLER_LOST)
		return;
	keep_memory(&g->gpu[number], seen);
	note_mig(g, (unsigned)number, seen);
	g->gpu[number].last = *seen;
	if (was_enough(&g->gpu[number], digest_of(seen, procs, n_procs), now))
		return;
	sample.total_bytes = seen->total_bytes;
	sample.reserved_bytes = seen->reserved_bytes;
	sample.used_bytes = seen->used_bytes;
	sample.memory_known = (seen->known & SAMPLER_MEMORY) != 0;
	/* a card in MIG mode lists its instances' processes once more: they are theirs */
	sample.processes_known =
		(seen->known & SAMPLER_PROCESSES) != 0 && !(seen->known & SAMPLER_MIG_MODE);
	if (sample.processes_known && readings_reserve(g, n_procs))
		n_unknown = sort_processes(g, (unsigned)number, procs, n_procs, &sample);
	else
		sample.processes_known = false;
	if (!sample.processes_known)
		g->gpu[number].n_strangers = 0;
	else if (gpus_is_instance(&g->gpu[number]))
		mig_share_out(g->daemon, (unsigned)number, &sample, g->readings, n_unknown,
			      &g->gpu[number].idle_bytes);
	ledger_sample(g->daemon->ledger, (unsigned)number, &sample, now);
	probe_sampled(g->daemon->probes, (unsigned)number, g->gpu[number].begun_ns,
		      sample.processes_known);
}

static void store_context_costs(struct gpus *g)
{
	struct daemon *d = g->daemon;

	for (unsigned i = 0; i < g->n; i++) {
		struct gpu *gpu = &g->gpu[i];
		uint64_t bytes = ledger_gpu_context_bytes(d->ledger, i);

		if (!bytes || bytes == gpu->stored_context_bytes || !g->driver_version[0])
			continue;
		gpu->stored_context_bytes =
			bytes; /* a failure is told once; the next change tries */
		(void)store_put_context_bytes(d->store, &gpu->last.uuid, g->driver_version, bytes);
	}
}

void gpus_on_done(void *context, const struct sampler_done *done)
{
	struct gpus *g = context;

	if (done && done->is_ok) {
		for (unsigned i = 0; g->asked == SAMPLER_ALL && i < g->n; i++)
			if (!g->gpu[i].is_seen)
				set_lost(g, i, true);
		store_context_costs(g);
	}
	g->is_known = true;
}
