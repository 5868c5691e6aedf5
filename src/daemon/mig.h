// SPDX-License-Identifier: Apache-2.0
#ifndef DAEMON_MIG_H
#define DAEMON_MIG_H

/*
 * What the processes of a MIG instance use, where NVML does not tell.
 *
 * The memory of an instance as a whole is exact.  Of its processes NVML may give no figure (it
 * lists them as "N/A"); then this is what the ledger is told:
 *
 *   one process alone      exact: what the instance shows, less what it showed while it was idle
 *                          and less what is known of others
 *   several of one job     exact for the job; divided among its processes by what the ledger holds
 *                          against each, the rest in equal parts
 *   several jobs, or a     nothing: each is charged what it took through the shim, and its contexts
 *   stranger among them    at the estimate.  What the instance shows beyond that counts as
 *                          unmanaged there, so nothing is promised twice
 *
 * While a dead process may still hold memory nothing is derived: it would be charged to the living.
 * Compute instances of one GPU instance share its memory, and each shows all of it: what the
 * neighbour holds is unmanaged here.
 */

#include <stdint.h>

struct daemon;
struct ledger_reading;
struct ledger_sample;

/**
 * mig_share_out - fill in figures that are missing in @readings (those of @sample)
 * @n_unknown: processes of nobody without a figure
 * @idle_bytes: what the instance showed while it was idle; kept up to date
 */
void mig_share_out(struct daemon *d, unsigned gpu, const struct ledger_sample *sample,
		   struct ledger_reading *readings, unsigned n_unknown, uint64_t *idle_bytes);

struct mig_part {
	uint64_t held_bytes; /* by the ledger */
	uint64_t bytes;      /* out */
};

/** mig_divide - @total among @n parts as described above; the sum of the parts is @total */
void mig_divide(uint64_t total, struct mig_part *parts, unsigned n);

#endif
