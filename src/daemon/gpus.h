// SPDX-License-Identifier: Apache-2.0
#ifndef DAEMON_GPUS_H
#define DAEMON_GPUS_H

/*
 * The machine's GPUs as allotd knows them: what the sampler saw, given on to the ledger, and their
 * names as people write them.  A GPU's place here is its number in the ledger; it keeps it for
 * ever, also when the GPU falls off the bus.
 *
 * A pid that NVML shows and nobody attached is looked up in /proc: below a keeper it is a process
 * of that job without a connection (detached), else it is unmanaged and only counted.
 *
 * MIG.  An instance is a GPU like any other, with its own number, UUID and ledger; it is found with
 * its card, added whenever it appears and lost whenever it is not there any more, without a
 * restart.  A card in MIG mode keeps its number and is shown, but nothing can be leased of it.
 * Where NVML has no figures for an instance's processes, mig.h says what takes their place.
 *
 * Looking and sampling.  A sample that the ledger takes in costs a look at every account and every
 * credit page.  When several in a row were alike and no program has said anything since, NVML is
 * only looked at (a look), as often as with no job; the first difference, and ten seconds, bring a
 * sample.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"
#include "daemon/sampler_wire.h"
#include "wire/wire.h"

struct daemon;
struct err;
struct gpus;

#define GPUS_STRANGERS_MAX 1024 /* unmanaged processes of one GPU that are listed */

struct stranger {
	int32_t pid;
	bool is_known;
	uint16_t kinds; /* enum sampler_kinds */
	uint64_t bytes;
};

struct gpu {
	struct sampler_gpu last; /* identity, and the last figures */
	bool is_claimed;         /* we are the only allotd that shares it out */
	bool is_seen;            /* in the round of samples that runs */
	bool is_lost;
	uint64_t lost_ns;              /* since when */
	char label[16];                /* for people: "0", "0:1" */
	uint64_t idle_bytes;           /* of an instance: used while nobody was on it */
	uint64_t stored_context_bytes; /* as the store has it */
	uint64_t digest;               /* of what the last sample said */
	unsigned quiet;                /* samples in a row that said the same */
	bool is_look;                  /* the question that is open is only a look */
	bool wants_sample;             /* a look found something new */
	uint64_t begun_ns;             /* the last sample's question */
	uint64_t sampled_ns;           /* the last sample given to the ledger */
	uint64_t seen_ns;              /* the last sample or look */
	struct stranger *strangers;
	unsigned n_strangers;
};

int gpus_new(struct daemon *d, struct gpus **ret);
struct gpus *gpus_free(struct gpus *g);

unsigned gpus_count(const struct gpus *g);
const struct gpu *gpus_at(const struct gpus *g, unsigned number);

/** gpus_find - the number of a GPU, or -ENOENT */
int gpus_find(const struct gpus *g, const struct wire_uuid *uuid);

/**
 * gpus_parse - "--gpu": indices, UUIDs or their unique beginnings, PCI addresses, with commas
 *
 * A MIG instance is CARD:INDEX (as nvidia-smi -L counts them, and containers do), CARD:GI:CI, or
 * its MIG-UUID.
 *
 * Returns how many were named, each once, in ret_numbers; -EINVAL, -ENOENT with a text.
 */
int gpus_parse(const struct gpus *g, const char *text, unsigned ret_numbers[WIRE_MAX_GPUS],
	       struct err *err);

/** gpus_is_instance - is it a MIG instance? */
static inline bool gpus_is_instance(const struct gpu *gpu)
{
	return (gpu->last.known & SAMPLER_INSTANCE) != 0;
}

/** gpus_is_forgotten - an instance that is gone for a while and has no jobs: nobody asks for it */
bool gpus_is_forgotten(const struct gpus *g, unsigned number, uint64_t now_ns);

/** gpus_uuid_prefix - "GPU-" or "MIG-" */
static inline const char *gpus_uuid_prefix(const struct gpu *gpu)
{
	return gpus_is_instance(gpu) ? "MIG-" : "GPU-";
}

/** gpus_config - what the configuration says of this GPU */
struct config_gpu gpus_config(const struct daemon *d, const struct sampler_gpu *gpu);

/** gpus_configure - the configuration is another one: what it says of GPUs holds from now on */
void gpus_configure(struct gpus *g);

/** gpus_driver_version - "" when it is not known */
const char *gpus_driver_version(const struct gpus *g);

/** gpus_remember - NVML does not answer: take the GPUs that were there before, without figures */
void gpus_remember(struct gpus *g);

/**
 * gpus_recall - a GPU of before that NVML does not show now, for a job that still has it
 *
 * It counts as lost until NVML shows it again.  Returns its number; -ENOENT when it was never seen
 * under this driver.
 */
int gpus_recall(struct gpus *g, const struct wire_uuid *uuid);

/** gpus_is_known - has a first sample come, or failed? */
bool gpus_is_known(const struct gpus *g);

/** gpus_due - the bits (sampler's indices) that a question now should name; 0: nothing is due */
uint64_t gpus_due(struct gpus *g, uint64_t now_ns);

/** gpus_due_ns - when gpus_due will say something */
uint64_t gpus_due_ns(struct gpus *g, uint64_t now_ns);

/** gpus_note_activity - a program said something: its figures may move */
void gpus_note_activity(struct gpus *g);

/** gpus_want_all - the next question is due now, and names every GPU */
void gpus_want_all(struct gpus *g);

/** gpus_want - the next question about this GPU is due now */
void gpus_want(struct gpus *g, unsigned number);

/** gpus_begin - the question for these bits goes out now */
void gpus_begin(struct gpus *g, uint64_t bits, uint64_t now_ns);

/* what the sampler answers: struct sampler_ops */
void gpus_on_gpu(void *context, const struct sampler_gpu *gpu, const struct sampler_proc *procs,
		 unsigned n_procs);
void gpus_on_done(void *context, const struct sampler_done *done);

#endif
