// SPDX-License-Identifier: Apache-2.0
#include "client/find.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/paths.h"
#include "base/str.h"
#include "client/packet.h"

int client_find(const char *explicit_socket, struct client_place *ret, struct err *err)
{
	const char *named = explicit_socket ? explicit_socket : secure_getenv("ALLOT_SOCKET");
	struct client_place place = { 0 };
	char user[PATHS_MAX];
	const char *path = user;

	if (named && *named) {
		place.is_explicit = true;
		path = named;
	} else if (access(PATHS_SYSTEM_SOCKET, F_OK) == 0) {
		path = PATHS_SYSTEM_SOCKET;
	} else if (paths_user_socket(user, sizeof(user)) < 0) {
		return err_set(err, -ENAMETOOLONG,
			       "the path of the runtime folder is too long: "
			       "set XDG_RUNTIME_DIR to a shorter one");
	}
	if (!str_copy(place.socket, sizeof(place.socket), path))
		return err_set(err, -ENAMETOOLONG, "socket '%s' is longer than %zu bytes", path,
			       sizeof(place.socket) - 1);
	place.is_system = strcmp(place.socket, PATHS_SYSTEM_SOCKET) == 0;
	*ret = place;
	return 0;
}

int client_connect_place(const struct client_place *place, struct err *err)
{
	int fd = packet_connect(place->socket);

	switch (fd) {
	case -ENOENT:
	case -ECONNREFUSED:
		return err_set(err, fd,
			       "no allotd listens on '%s': start it with 'allotd' or use "
			       "'allot run', which starts one",
			       place->socket);
	case -EACCES:
	case -EPERM:
		return err_set(err, fd,
			       "socket '%s' may not be opened: join the group 'allot' or "
			       "ask the machine's owner",
			       place->socket);
	default:
		if (fd < 0)
			return err_set(err, fd, "cannot connect to '%s': %s", place->socket,
				       strerror(-fd));
		return fd;
	}
}
