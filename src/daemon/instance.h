// SPDX-License-Identifier: Apache-2.0
#ifndef DAEMON_INSTANCE_H
#define DAEMON_INSTANCE_H

/*
 * One allotd for one place: its state folder and its socket are locked with flock, which the
 * kernel gives up with the process, so nothing is left behind by kill -9.  A socket file is
 * replaced only while its lock is ours and nobody answers on it.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/paths.h"
#include "daemon/claim.h"

struct err;

struct instance {
	bool is_system;
	bool is_bound;    /* the socket file is ours to remove */
	char socket[108]; /* sun_path's room */
	char state_dir[PATHS_MAX];
	char runtime_dir[PATHS_MAX]; /* the socket's folder */
	int state_lock;
	int socket_lock;
	int sim_lock;         /* of the folder of the simulated devices */
	struct claims claims; /* of the machine's GPUs */
};

/**
 * instance_init - decide the paths, make the folders, take the locks
 * @socket, @state: from the command line, or NULL for the mode's own
 *
 * @is_user:   a user's own daemon, also when that user is root
 *
 * The mode is the machine's service for root, else the user's own.  -EBUSY: another allotd.
 */
int instance_init(struct instance *in, const char *socket, const char *state, bool is_user,
		  struct err *err);

/**
 * instance_listen - the listening socket; a dead one's file is replaced; -EADDRINUSE when alive
 * @mode, @gid: who may open it, of the machine's service (-1: the group stays); a user's own is
 * that user's alone
 */
int instance_listen(struct instance *in, mode_t mode, gid_t gid, struct err *err);

/** instance_allow - change that later */
int instance_allow(struct instance *in, mode_t mode, gid_t gid, struct err *err);

/**
 * instance_claim_sim - be the only allotd for the simulated devices in the folder @dir
 * Returns 0; -EBUSY when another one does; -errno.
 */
int instance_claim_sim(struct instance *in, const char *dir, struct err *err);

/** instance_fini - take the socket file away and release the locks */
void instance_fini(struct instance *in);

#endif
