// SPDX-License-Identifier: Apache-2.0
#ifndef DAEMON_SERVER_H
#define DAEMON_SERVER_H

/*
 * Puts the daemon together, takes it apart, and gives each message to its handler.
 */

#include <stdbool.h>
#include <sys/types.h>

#include "daemon/settings.h"

struct config;
struct daemon;
struct err;
struct peer;
struct wire_message;

struct server_options {
	bool is_simulated;
	const char *profile; /* of the simulator; NULL: its default */
	bool is_user;        /* a user's own, also when that user is root */
	int ready_fd;        /* taken over; -1: none */
	bool is_foreground;
	struct settings_where where; /* of the configuration */
	struct config *config;       /* as settings_load gave it; copied */
};

/** server_new - locks, folders, socket, store, ledger, loop: all but running; NULL with @err */
struct daemon *server_new(const struct server_options *options, struct err *err);
struct daemon *server_free(struct daemon *d);

/** server_run - until SIGTERM or SIGINT; 0 or -errno */
int server_run(struct daemon *d);

/*
 * Parts of the two above, for who makes loop, store, configuration, sampler and cgroups by himself
 * (tests).
 * server_begin_parts - what lives in memory; server_listen - as peers_new; server_end_parts - both
 * undone, the sampler and the restart too.
 */
int server_begin_parts(struct daemon *d);
int server_listen(struct daemon *d, int listener, uid_t uid_only);
void server_end_parts(struct daemon *d);

/** server_dispatch - handle one request; @fds that are taken become -1 */
void server_dispatch(struct daemon *d, struct peer *peer, const struct wire_message *msg, int *fds,
		     unsigned n_fds);

#endif
