// SPDX-License-Identifier: Apache-2.0
#include "daemon/shares.h"

#include "base/clock.h"
#include "daemon/daemon.h"
#include "daemon/peers.h"
#include "policy/share.h"

static bool is_program(struct peer *peer, const struct wire_message *msg)
{
	if (peer->process && peer->process->account)
		return true;
	peer_refuse(peer, msg->request_id, WIRE_CODE_USAGE, "%s before ATTACH",
		    wire_name(msg->type));
	return false;
}

static struct ledger_share_key key_of(const struct wire_share_key *key)
{
	return (struct ledger_share_key){ { key->word[0], key->word[1] } };
}

void shares_out(struct daemon *d, struct peer *peer, const struct wire_message *msg)
{
	const struct wire_share_out *m = msg->payload;
	struct ledger_share_key key = key_of(&m->key);
	unsigned flags = 0;
	int r;

	if (!is_program(peer, msg))
		return;
	if (m->flags & WIRE_SHARE_UNSHOWN)
		flags |= SHARE_UNSHOWN;
	if (m->flags & WIRE_SHARE_BY_DESCRIPTOR)
		flags |= SHARE_BY_DESCRIPTOR;
	r = ledger_share_out(d->ledger, peer->process->account, m->slot, &key, m->bytes, flags);
	peer_ok(peer, msg->request_id, r == 0);
}

void shares_in(struct daemon *d, struct peer *peer, const struct wire_message *msg)
{
	const struct wire_share_in *m = msg->payload;
	struct ledger_share_key key = key_of(&m->key);
	struct wire_share_known answer = { .known = WIRE_SHARE_NOT_KNOWN };
	struct ledger_share_orphan orphan;
	int r;

	if (!is_program(peer, msg))
		return;
	r = ledger_share_in(d->ledger, peer->process->account, &key, m->bytes, &orphan);
	if (r == 0) {
		answer.known = WIRE_SHARE_OPEN;
	} else if (r == 1) {
		answer = (struct wire_share_known){ .known = WIRE_SHARE_ORPHAN,
						    .slot = orphan.slot,
						    .bytes = orphan.bytes };
	}
	peer_send(peer, WIRE_SHARE_KNOWN, msg->request_id, &answer);
}

void shares_close(struct daemon *d, struct peer *peer, const struct wire_message *msg)
{
	const struct wire_share_close *m = msg->payload;
	struct ledger_share_key key = key_of(&m->key);

	if (!is_program(peer, msg))
		return;
	ledger_share_close(d->ledger, peer->process->account, &key, m->flags & WIRE_SHARE_ALL,
			   clock_now_ns());
	peer_ok(peer, msg->request_id, 0);
}

void shares_freed(struct daemon *d, struct peer *peer, const struct wire_message *msg)
{
	const struct wire_share_freed *m = msg->payload;
	struct ledger_share_key key = key_of(&m->key);

	if (!is_program(peer, msg))
		return;
	peer_ok(peer, msg->request_id,
		ledger_share_freed(d->ledger, peer->process->account, &key, m->bytes,
				   m->flags & WIRE_SHARE_LAST, clock_now_ns()));
}
