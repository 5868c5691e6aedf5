// SPDX-License-Identifier: Apache-2.0
#include "base/paths.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"

/* $NAME/allot, or $HOME/FALLBACK/allot */
static int xdg_dir(const char *name, const char *fallback, char *buf, size_t size)
{
	const char *xdg = secure_getenv(name);
	const char *home = secure_getenv("HOME");

	/* a relative path is to be ignored, says the XDG specification */
	if (xdg && xdg[0] == '/')
		return str_print(buf, size, "%s/allot", xdg) ? 0 : -ENAMETOOLONG;
	/* nobody's home: beside the socket, in a folder that is checked to be ours */
	if (!home || home[0] != '/')
		return str_print(buf, size, "/tmp/allot-%u/%s", (unsigned)geteuid(),
				 strrchr(fallback, '/') ? strrchr(fallback, '/') + 1 : fallback)
			       ? 0
			       : -ENAMETOOLONG;
	return str_print(buf, size, "%s/%s/allot", home, fallback) ? 0 : -ENAMETOOLONG;
}

int paths_user_runtime(char *buf, size_t size)
{
	const char *xdg = secure_getenv("XDG_RUNTIME_DIR");

	if (xdg && xdg[0] == '/')
		return str_print(buf, size, "%s/allot", xdg) ? 0 : -ENAMETOOLONG;
	return str_print(buf, size, "/tmp/allot-%u", (unsigned)geteuid()) ? 0 : -ENAMETOOLONG;
}

int paths_user_socket(char *buf, size_t size)
{
	char dir[PATHS_MAX];
	int r = paths_user_runtime(dir, sizeof(dir));

	if (r < 0)
		return r;
	return str_print(buf, size, "%s/allotd.sock", dir) ? 0 : -ENAMETOOLONG;
}

int paths_user_state(char *buf, size_t size)
{
	return xdg_dir("XDG_STATE_HOME", ".local/state", buf, size);
}

int paths_user_config(char *buf, size_t size)
{
	char dir[PATHS_MAX];
	int r = xdg_dir("XDG_CONFIG_HOME", ".config", dir, sizeof(dir));

	if (r < 0)
		return r;
	return str_print(buf, size, "%s/allot.yaml", dir) ? 0 : -ENAMETOOLONG;
}

int paths_self(char *buf, size_t size)
{
	ssize_t n = readlink("/proc/self/exe", buf, size);

	if (n < 0)
		return -errno;
	if ((size_t)n >= size)
		return -ENAMETOOLONG;
	buf[n] = '\0';
	return 0;
}

int paths_beside(const char *const *candidates, char *buf, size_t size)
{
	char self[PATH_MAX], path[2 * PATH_MAX], clean[PATH_MAX];
	int r = paths_self(self, sizeof(self));
	char *slash;

	if (r < 0)
		return r;
	slash = strrchr(self, '/');
	if (!slash)
		return -ENOENT;
	*slash = '\0';
	for (; *candidates; candidates++) {
		if (!str_print(path, sizeof(path), "%s/%s", self, *candidates))
			continue;
		if (realpath(path, clean))
			return str_copy(buf, size, clean) ? 0 : -ENAMETOOLONG;
	}
	return -ENOENT;
}
