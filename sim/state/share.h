// SPDX-License-Identifier: Apache-2.0
#ifndef SIM_STATE_SHARE_H
#define SIM_STATE_SHARE_H

/*
 * Who is charged for memory that processes share, as the card does it (H200, driver 580.159).
 *
 * One allocation (IPC, a VMM handle): its owner while it holds it, then whoever has it open, in
 * order.  A pool: what its owner returns or leaves behind stays on the card as far as an importer
 * has pieces of it open, shown with no process, until that importer is gone.
 *
 * A share has an id that owner and importers know (the memory's inode, the handle's random word).
 * Holders are rows; whoever wipes a row passes on what it held.  Calls take the state's lock.
 */

#include "sim/state/state.h"

/** sim_state_share - we hold @bytes of device @index, charged to us already, and others may open it
 *  @is_pool: nothing is charged by this; again with the same id: no change.  0 or -ENOSPC */
int sim_state_share(struct sim_state *state, unsigned index, uint64_t id, uint64_t bytes,
		    bool is_pool);

/** sim_state_open - we have it open, once more; @bytes of a pool.  -ENOENT: nobody holds it */
int sim_state_open_share(struct sim_state *state, uint64_t id, uint64_t bytes);

/**
 * sim_state_close_share - we hold or have it open once less
 * True: what we were charged for it is the next one's, or nobody's: it must not be given again.
 */
bool sim_state_close_share(struct sim_state *state, uint64_t id);

/** sim_state_pool_shrank - our pool returned @bytes, which are uncharged by the caller */
void sim_state_pool_shrank(struct sim_state *state, uint64_t id, uint64_t bytes);

/** sim_state_close_pool - an imported pool was destroyed */
void sim_state_close_pool(struct sim_state *state, uint64_t id);

#endif
