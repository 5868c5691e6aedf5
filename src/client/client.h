// SPDX-License-Identifier: Apache-2.0
#ifndef CLIENT_CLIENT_H
#define CLIENT_CLIENT_H

/*
 * A program's blocking conversation with allotd: ask, and read the answer or the list.  One
 * thread.  Refusals (ERROR) become an errno and the daemon's own words; `code` keeps the exit
 * class.
 */

#include <stdint.h>

#include "base/clock.h"
#include "client/packet.h"

struct err;

#define CLIENT_ANSWER_NS (1600 * NS_PER_MS) /* a person hears within two seconds what is wrong */

struct client {
	int sock;
	uint32_t next_id;
	unsigned code; /* enum wire_code of the last refusal */
	struct packet in;
};

/** client_init - take over a connected socket */
void client_init(struct client *c, int sock);
void client_fini(struct client *c);

/**
 * client_ask - send a request
 * Returns 0, -errno.
 */
int client_ask(struct client *c, unsigned type, const void *payload, struct err *err);

/**
 * client_answer - the next message of the answer, in c->in.msg
 * @timeout_ns: PACKET_FOREVER or a limit
 *
 * Returns the message's type; an ERROR gives -EREMOTEIO with its text in @err and its class in
 * c->code; -ETIMEDOUT; -ECONNRESET.
 */
int client_answer(struct client *c, uint64_t timeout_ns, struct err *err);

/** client_call - ask, and copy the one answer, which must be of @answer_type, to @ret */
int client_call(struct client *c, unsigned type, const void *payload, unsigned answer_type,
		void *ret, uint64_t timeout_ns, struct err *err);

/**
 * client_list - ask, and give each item of @item_type to @each until END
 * @each: returns 0 to go on, or a negative errno, which ends the call
 * @timeout_ns: for the whole list
 */
int client_list(struct client *c, unsigned type, const void *payload, unsigned item_type,
		int (*each)(const void *item, void *arg), void *arg, uint64_t timeout_ns,
		struct err *err);

/** client_other_version - what to say when packet_recv answered -EPROTONOSUPPORT; returns that */
int client_other_version(const struct packet *in, struct err *err);

/** client_exit_code - the exit status of allot(1) for a failed call */
int client_exit_code(const struct client *c, int r);

#endif
