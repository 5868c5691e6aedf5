// SPDX-License-Identifier: Apache-2.0
#include "daemon/sight.h"

#include <fcntl.h>
#include <string.h>

#include "base/fd.h"
#include "base/paths.h"
#include "base/str.h"
#include "daemon/daemon.h"
#include "daemon/peers.h"
#include "gpu/proc.h"

#define SIGHT_CHILDREN_MAX 4096 /* bytes of the list; a keeper has few when it says STARTED */

static bool lives_with_us(struct daemon *d, struct peer *peer)
{
	if (peer->sight == PEER_SIGHT_UNKNOWN)
		peer->sight = proc_level(d->proc_root, peer->pid) == 1 ? PEER_SIGHT_OURS
								       : PEER_SIGHT_OTHER;
	return peer->sight == PEER_SIGHT_OURS;
}

pid_t sight_pid(struct daemon *d, struct peer *peer, pid_t pid)
{
	pid_t seen;

	if (pid <= 0 || lives_with_us(d, peer))
		return pid;
	seen = peer->pid > 0 ? proc_pid_as_seen_by(d->proc_root, pid, peer->pid) : 0;
	return seen > 0 ? seen : 0;
}

pid_t sight_child(struct daemon *d, struct peer *peer, pid_t seen)
{
	char path[PATHS_MAX], text[SIGHT_CHILDREN_MAX];
	const char *at = text;

	if (lives_with_us(d, peer))
		return seen;
	if (peer->pid <= 0 ||
	    !str_print(path, sizeof(path), "%s/%d/task/%d/children", d->proc_root, peer->pid,
		       peer->pid) ||
	    fd_read_file(AT_FDCWD, path, text, sizeof(text)) < 0)
		return 0;
	while (*at) {
		pid_t pid = 0;

		for (; *at >= '0' && *at <= '9' && pid < INT32_MAX / 10 - 1; at++)
			pid = pid * 10 + (*at - '0');
		if (pid > 0 && sight_pid(d, peer, pid) == seen)
			return pid;
		at += strcspn(at, " \n");
		at += strspn(at, " \n");
	}
	return 0;
}
