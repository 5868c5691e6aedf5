// SPDX-License-Identifier: Apache-2.0
#ifndef POLICY_SHARE_H
#define POLICY_SHARE_H

/*
 * Memory that processes share: who pays for it when its owner is gone.
 *
 * A share is a piece of one process's memory that others may open: one allocation (CUDA IPC, a VMM
 * handle) or a whole pool.  It has a key of 128 bits that owner and importer come to know by
 * themselves (shim/share.h).  The ledger keeps who exported it and who has it open, in order.
 *
 *   The owner pays as long as it holds the memory: it is part of what it was granted, and importers
 *   pay nothing.  When the owner frees it, or dies, while others have it open, the memory stays on
 *   the card: its charge then moves, in one step, to the one who opened it last, as NVML does it
 * (to itself, if it has it open), and from that one, when it closes or dies, to the one before. The
 * last close ends it.  So it is charged exactly once while it exists, whatever the order, across
 * jobs too.  An heir's job may come to be over its limit by that: then its free memory reads 0 and
 * its next ask is refused; nothing is killed.
 *
 *   inherited   of an account: what came to it so; charged beside granted and overhead
 *
 * What NVML shows (H200, driver 580.159): the owner alone, while it holds the memory; after that
 * the importer, for IPC and VMM handles.  So what is inherited is compared with NVML like what
 * is held, and cut where NVML does not show it (another importer got it, or it was gone already).
 * Memory of a pool that its owner freed is shown with nobody, only with the card, until the
 * importers are gone (SHARE_UNSHOWN): it is added to the importer's figure, else it would be
 * taken for a stranger's.
 *
 * What is not known here is NVML's to settle: exports from before a restart of allotd, owners
 * outside of every job, descriptors without a mark, more than LEDGER_MAX_SHARES.  Then the
 * importer's figure rises when the owner is gone, and becomes overhead within a second.
 *
 * What only a descriptor keeps (SHARE_BY_DESCRIPTOR) is on the card and nobody's, subtracted like a
 * stranger's; who imports it then takes it like an allocation, or is refused, and owns it.
 *
 * Nothing a tenant says here lets it hold more: a lie moves a charge to a process that had said
 * that it opens the share, and what the owner really holds NVML shows.
 */

#include "policy/ledger.h"

#define LEDGER_MAX_SHARES 8192 /* exports and imports of one process */

struct ledger_share_key {
	uint64_t word[2];
};

#define LEDGER_MAX_ORPHANS 1024 /* shares that perhaps only a descriptor keeps */

/* NVML does not show it with an importer; bytes are the importers' */
#define SHARE_UNSHOWN (1u << 0)
/* others may import it when its owner is gone */
#define SHARE_BY_DESCRIPTOR (1u << 1)

/**
 * ledger_share_out - @p lets others open @bytes of its memory in @slot
 * Again with the same key: @bytes are replaced.  Returns 0; -EINVAL, -EEXIST (somebody else's key),
 * -ENOSPC, -ENOMEM.
 */
int ledger_share_out(struct ledger *l, struct ledger_process *p, unsigned slot,
		     const struct ledger_share_key *key, uint64_t bytes, unsigned flags);

struct ledger_share_orphan {
	unsigned slot;
	uint64_t bytes;
};

/**
 * ledger_share_in - @p opens it, once more
 * @bytes: of an unshown share: how much more of it was opened
 * Before the driver is asked to.  Returns 0; 1 when it has no owner and nobody has it open: who
 * opens it takes *ret_orphan of its lease, and says ledger_share_out; -ENOENT (nothing is known of
 * it), -ENOSPC, -ENOMEM.
 */
int ledger_share_in(struct ledger *l, struct ledger_process *p, const struct ledger_share_key *key,
		    uint64_t bytes, struct ledger_share_orphan *ret_orphan);

/** ledger_share_close - … closed it (@all: as often as it was opened), or could not open it */
void ledger_share_close(struct ledger *l, struct ledger_process *p,
			const struct ledger_share_key *key, bool all, uint64_t now_ns);

/**
 * ledger_share_freed - its owner has freed @bytes of it
 * @last: and shares no more of it
 * Returns how many of them stay on the card and are an importer's now: those were taken from what
 * @p was granted, and must not go back to its credit.
 */
uint64_t ledger_share_freed(struct ledger *l, struct ledger_process *p,
			    const struct ledger_share_key *key, uint64_t bytes, bool last,
			    uint64_t now_ns);

#endif
