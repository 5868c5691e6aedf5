// SPDX-License-Identifier: Apache-2.0
#include "client/find.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/owner.h"
#include "base/paths.h"
#include "base/str.h"
#include "client/packet.h"

/* the program may change its folder, and whoever it starts may have another one */
static bool make_absolute(const char *path, char *buf, size_t size)
{
	char here[PATHS_MAX];

	if (path[0] == '/' || !getcwd(here, sizeof(here)))
		return str_copy(buf, size, path);
	return str_print(buf, size, "%s/%s", strcmp(here, "/") ? here : "", path);
}

int client_find(const char *explicit_socket, struct client_place *ret, struct err *err)
{
	const char *named = explicit_socket ? explicit_socket : secure_getenv("ALLOT_SOCKET");
	struct client_place place = { 0 };
	char user[PATHS_MAX];
	const char *path = user;

	if (named && *named) {
		place.is_explicit = true;
		path = named;
	} else if (access(PATHS_SYSTEM_SOCKET, F_OK) == 0 ||
		   (errno != ENOENT && errno != ENOTDIR)) {
		/* also one whose folder is closed to us: it is there, and connecting tells */
		path = PATHS_SYSTEM_SOCKET;
	} else if (paths_user_socket(user, sizeof(user)) < 0) {
		return err_set(err, -ENAMETOOLONG,
			       "the path of the runtime folder is too long: "
			       "set XDG_RUNTIME_DIR to a shorter one");
	}
	if (!make_absolute(path, place.socket, sizeof(place.socket)))
		return err_set(err, -ENAMETOOLONG, "socket '%s' is longer than %zu bytes", path,
			       sizeof(place.socket) - 1);
	place.is_system = strcmp(place.socket, PATHS_SYSTEM_SOCKET) == 0;
	*ret = place;
	return 0;
}

/*
 * Nobody may play allotd to us: behind the machine's socket stands root, behind a user's own stands
 * that user.  (A folder in /tmp can be made by anybody before us.)  A socket that was named may be
 * anybody's: whoever names it vouches for it.
 */
static int check_owner(const struct client_place *place, int fd, struct err *err)
{
	uid_t wanted = geteuid();
	struct ucred peer;
	socklen_t len = sizeof(peer);

	if (place->is_explicit && !place->is_system)
		return 0;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return err_set(err, -errno, "cannot tell who listens on '%s': %s", place->socket,
			       strerror(errno));
	if (place->is_system ? owner_is_root(peer.uid) : peer.uid == wanted)
		return 0;
	return err_set(err, -EPERM,
		       "uid %u listens on '%s', not uid %u: not spoken to. Remove what stands "
		       "there, or set XDG_RUNTIME_DIR to a folder of your own",
		       peer.uid, place->socket, place->is_system ? 0 : wanted);
}

int client_connect_place(const struct client_place *place, struct err *err)
{
	return client_connect_within(place, PACKET_CONNECT_NS, err);
}

int client_connect_within(const struct client_place *place, uint64_t timeout_ns, struct err *err)
{
	AUTO_FD int fd = packet_connect_within(place->socket, timeout_ns);
	int r;

	switch (fd) {
	case -ENOENT:
	case -ENOTDIR:
	case -ECONNREFUSED:
		r = fd == -ENOTDIR ? -ENOENT : fd;
		if (place->is_explicit || place->is_system)
			return err_set(err, r, "no allotd listens on '%s': start it with '%s%s'",
				       place->socket,
				       place->is_system
					       ? "systemctl start allotd', or as root 'allotd"
					       : "allotd --socket ",
				       place->is_system ? "" : place->socket);
		return err_set(err, r,
			       "no allotd listens on '%s': start it with 'allotd' or use "
			       "'allot run', which starts one",
			       place->socket);
	case -EACCES:
	case -EPERM:
		if (!place->is_explicit && !place->is_system)
			return err_set(err, fd,
				       "socket '%s' may not be opened: is XDG_RUNTIME_DIR another "
				       "user's? Unset it, or set it to a folder of your own",
				       place->socket);
		return err_set(err, fd,
			       "socket '%s' may not be opened: join the group 'allot' or "
			       "ask the machine's owner",
			       place->socket);
	case -ETIMEDOUT:
		return err_set(err, fd, "allotd does not answer on '%s': look at 'allot doctor'",
			       place->socket);
	default:
		if (fd < 0)
			return err_set(err, fd, "cannot connect to '%s': %s", place->socket,
				       strerror(-fd));
		r = check_owner(place, fd, err);
		return r < 0 ? r : TAKE_FD(fd);
	}
}
