// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "sim/state/state.h"

#define PATH_SIZE 4096

/* the folder of the library that contains @self, by the name under which it was loaded */
static bool own_folder(const void *self, char *ret, size_t size)
{
	Dl_info info;
	char *slash;

	if (!dladdr(self, &info) || !info.dli_fname || !strchr(info.dli_fname, '/'))
		return false;
	if (info.dli_fname[0] == '/') {
		if (!str_copy(ret, size, info.dli_fname))
			return false;
	} else {
		char cwd[PATH_SIZE];

		if (!getcwd(cwd, sizeof(cwd)) ||
		    !str_print(ret, size, "%s/%s", cwd, info.dli_fname))
			return false;
	}
	slash = strrchr(ret, '/');
	*slash = '\0';
	return true;
}

static bool is_sim_folder(const char *dir)
{
	char profile[PATH_SIZE + 16];

	return str_print(profile, sizeof(profile), "%s/profile.conf", dir) &&
	       !access(profile, R_OK) && !access(dir, W_OK | X_OK);
}

bool sim_state_order(const char *path, struct stat *ret)
{
	char dir[PATH_SIZE];
	struct stat folder;
	char *slash;

	memset(ret, 0, sizeof(*ret));
	if (!str_copy(dir, sizeof(dir), path))
		return false;
	slash = strrchr(dir, '/');
	if (!slash)
		return false;
	*slash = '\0';
	if (!stat(dir, &folder) && !lstat(path, ret) && S_ISREG(ret->st_mode) &&
	    ret->st_uid == folder.st_uid)
		return true;
	memset(ret, 0, sizeof(*ret));
	return false;
}

int sim_state_dir(const void *self, char *ret, size_t size, struct err *err)
{
	const char *dir = secure_getenv("ALLOT_SIM_DIR");
	char own[PATH_SIZE], path[PATH_SIZE];
	int r;

	if (dir && *dir) {
		/* relative to where the program first asks */
		if (!str_copy(path, sizeof(path), dir))
			return err_set(err, -ENAMETOOLONG, "ALLOT_SIM_DIR: path too long");
		r = fd_mkdir_parents(path, 0700);
		if (r)
			return err_set(err, r, "ALLOT_SIM_DIR '%.160s': %s", path, strerror(-r));
	} else if (own_folder(self, own, sizeof(own)) && is_sim_folder(own)) {
		memcpy(path, own, sizeof(path));
	} else {
		const char *runtime = secure_getenv("XDG_RUNTIME_DIR");
		bool is_usable = runtime && *runtime == '/' && !access(runtime, W_OK | X_OK);
		bool is_whole = str_print(path, sizeof(path), "%s/allot-sim-%u",
					  is_usable ? runtime : "/tmp", (unsigned)getuid());

		if (!is_whole)
			return err_set(err, -ENAMETOOLONG, "XDG_RUNTIME_DIR: path too long");
		r = fd_mkdir_private(path, err);
		if (r)
			return r;
	}
	return str_copy(ret, size, path)
		       ? 0
		       : err_set(err, -ENAMETOOLONG, "'%.160s': path too long", path);
}
