// SPDX-License-Identifier: Apache-2.0
#ifndef DAEMON_SHARES_H
#define DAEMON_SHARES_H

/*
 * What the shims say of memory that their programs share, handed to the ledger (policy/share.h).
 * Each request is answered at once.  Nothing of it is stored: after a restart, exports from before
 * are not known, and NVML settles who has their memory.
 */

#include "daemon/registry.h"

struct peer;
struct wire_message;

void shares_out(struct daemon *d, struct peer *peer, const struct wire_message *msg);
void shares_in(struct daemon *d, struct peer *peer, const struct wire_message *msg);
void shares_close(struct daemon *d, struct peer *peer, const struct wire_message *msg);
void shares_freed(struct daemon *d, struct peer *peer, const struct wire_message *msg);

#endif
