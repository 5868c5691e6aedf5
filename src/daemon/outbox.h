// SPDX-License-Identifier: Apache-2.0
#ifndef DAEMON_OUTBOX_H
#define DAEMON_OUTBOX_H

/*
 * What a connection could not be told yet: packets in order, each with the descriptors that travel
 * with it (duplicates, owned by the outbox).  The ceilings are the caller's: it sees the bytes of
 * one outbox and a sum over all.  One thread; never blocks.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/list.h"

#define OUTBOX_FDS_MAX 4

struct outbox {
	struct list packets;
	size_t bytes;
	size_t *total; /* the sum over all outboxes */
};

void outbox_init(struct outbox *o, size_t *total);
void outbox_fini(struct outbox *o);

bool outbox_is_empty(const struct outbox *o);

/** outbox_send - now and past the outbox: 1 sent, 0 the socket is full, -errno it is broken */
int outbox_send(int sock, const void *buf, size_t len, const int *fds, unsigned n_fds);

/** outbox_put - keep a packet for later; 0, -ENOMEM, -EMFILE */
int outbox_put(struct outbox *o, const void *buf, size_t len, const int *fds, unsigned n_fds);

/** outbox_flush - send what goes: 1 all of it, 0 some is left, -errno the socket is broken */
int outbox_flush(struct outbox *o, int sock);

#endif
