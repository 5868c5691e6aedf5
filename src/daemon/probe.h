// SPDX-License-Identifier: Apache-2.0
#ifndef DAEMON_PROBE_H
#define DAEMON_PROBE_H

/*
 * What a context costs on a GPU, measured before the first program makes one there.
 *
 * The cost is kept per GPU and driver version (store.h).  Where it is not known, the first job that
 * is admitted to the GPU makes allotd start allot-probe, which makes a context and waits; a sample
 * begun after that shows what it holds, and it ends.  A program's first context that might not fit
 * waits for the figure meanwhile; what the probe holds is charged to the card, and the probe is
 * nobody's process and no unmanaged one.  A GPU that nobody uses is not touched.
 *
 * It is not started without room for a context on the card, and makes none where the compute mode
 * gives the GPU to one process.  One that fails, hangs (killed after ten seconds) or is not seen by
 * NVML leaves things as they are without it: the first context is made by an estimate, measured,
 * and undone when it is too large.  Another attempt comes with a later job.
 *
 * Nothing here blocks.  One thread: the loop's.
 */

#include <stdbool.h>
#include <stdint.h>

struct daemon;
struct probes;
struct sampler_proc;

/** probes_new - a program that is missing is told, and nothing is measured then */
int probes_new(struct daemon *d, struct probes **ret);
struct probes *probes_free(struct probes *all);

/** probe_want - somebody is going to use GPU @gpu */
void probe_want(struct probes *all, unsigned gpu);

/**
 * probe_saw - NVML lists @proc on GPU @gpu, in a sample begun at @begun_ns
 * False: it is no probe of ours.
 */
bool probe_saw(struct probes *all, unsigned gpu, const struct sampler_proc *proc,
	       uint64_t begun_ns);

/** probe_sampled - that was the whole list; @is_known: NVML has one */
void probe_sampled(struct probes *all, unsigned gpu, uint64_t begun_ns, bool is_known);

#endif
