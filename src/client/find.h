// SPDX-License-Identifier: Apache-2.0
#ifndef CLIENT_FIND_H
#define CLIENT_FIND_H

/*
 * Which allotd: ALLOT_SOCKET when it is set, else the machine's service when its socket exists,
 * else the user's own.  A system socket that exists but may not be opened is an error (-EACCES):
 * never a silent second daemon.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

struct client_place {
	char socket[108]; /* sun_path's room; from the root, where there is a way to it */
	bool is_system;   /* the machine's service */
	bool is_explicit; /* named by ALLOT_SOCKET or --socket */
};

/**
 * client_find - where the daemon is or would be
 * @explicit_socket: from an option, or NULL
 * Returns 0; -ENAMETOOLONG.
 */
int client_find(const char *explicit_socket, struct client_place *ret, struct err *err);

/** client_connect_place - connect, with a text that says what to do; the socket or -errno */
int client_connect_place(const struct client_place *place, struct err *err);

/** client_connect_within - the same; -ETIMEDOUT when nobody accepts for so long */
int client_connect_within(const struct client_place *place, uint64_t timeout_ns, struct err *err);

#endif
