// SPDX-License-Identifier: Apache-2.0
#ifndef DAEMON_SAMPLER_H
#define DAEMON_SAMPLER_H

/*
 * allotd's side of allot-sampler, the child that alone talks to NVML.
 *
 * One question at a time, with a deadline: a child that does not answer in time hangs with the
 * driver; it is killed, the figures count as stale, and a new one is started after a pause that
 * doubles.  The first answer of a child may take longer, for the driver wakes its cards; `done`
 * with NULL comes all the same, so that nobody waits for it in silence.  A child that cannot be
 * killed (in the kernel's hands) is left behind and reaped when it comes to an end; there are never
 * more than a few of those.
 *
 * Nothing here blocks.  One thread: the loop's.
 */

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "daemon/sampler_wire.h"

struct err;
struct sampler;

struct sampler_ops {
	/** gpu - one GPU of the current question, with its processes */
	void (*gpu)(void *context, const struct sampler_gpu *gpu, const struct sampler_proc *procs,
		    unsigned n_procs);
	/** done - the question is answered; @done is NULL when the child died or was too late */
	void (*done)(void *context, const struct sampler_done *done);
};

/** sampler_new - the child is started by the first question */
int sampler_new(sd_event *event, const char *driver_dir, const struct sampler_ops *ops,
		void *context, struct sampler **ret, struct err *err);
struct sampler *sampler_free(struct sampler *s);

/** sampler_is_free - may a question be asked now? (no other one is open, no pause is running) */
bool sampler_is_free(const struct sampler *s);

/** sampler_free_at_ns - when the pause ends; 0: now, or when the open question is answered */
uint64_t sampler_free_at_ns(const struct sampler *s);

/** sampler_ask - look at these GPUs; 0, -EBUSY, -errno (then `done` is not called) */
int sampler_ask(struct sampler *s, uint64_t gpus);

/** sampler_is_opening - is a child still opening NVML? (for the first time, or after a failure) */
bool sampler_is_opening(const struct sampler *s);

/** sampler_trouble - "" or why NVML does not answer */
const char *sampler_trouble(const struct sampler *s);

#endif
