// SPDX-License-Identifier: Apache-2.0
#include "daemon/simdir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/paths.h"
#include "base/str.h"
#include "sim/state/profile.h"

#define SIMDIR_DEFAULT     "h200"
#define SIMDIR_PROFILE_MAX (64 * 1024)

/* installed, gathered in build/, and where the build itself puts things */
static const char *const cuda_places[] = {
	"../lib/allot/sim/libcuda.so.1",
	"../sim/libcuda.so.1",
	"../../sim/libcuda.so.1",
	NULL,
};
static const char *const nvml_places[] = {
	"../lib/allot/sim/libnvidia-ml.so.1",
	"../sim/libnvidia-ml.so.1",
	"../../sim/libnvidia-ml.so.1",
	NULL,
};
static const char *const profile_places[] = {
	"../lib/allot/sim/profiles",
	"../sim/profiles",
	"../../sim/profiles",
	"../../../sim/profiles",
};

static int find_profile(const char *profile, char *buf, size_t size, struct err *err)
{
	char place[ARRAY_SIZE(profile_places)][PATHS_MAX];
	static const char *const known[] = { "h200",   "rtx6000ada", "small4g", "four",
					     "h200x2", "mig",        NULL };
	const char *candidates[ARRAY_SIZE(profile_places) + 1] = { NULL }, *near;

	if (strchr(profile, '/') || strstr(profile, ".conf")) {
		if (access(profile, R_OK) < 0)
			return err_set(err, -errno, "cannot read the profile '%s': %s", profile,
				       strerror(errno));
		return str_copy(buf, size, profile) ? 0 : -ENAMETOOLONG;
	}
	for (unsigned i = 0; i < ARRAY_SIZE(profile_places); i++) {
		(void)str_print(place[i], sizeof(place[i]), "%s/%s.conf", profile_places[i],
				profile);
		candidates[i] = place[i];
	}
	if (paths_beside(candidates, buf, size) == 0)
		return 0;
	near = str_nearest(profile, known);
	if (near && strcmp(near, profile) == 0)
		return err_set(err, -ENOENT,
			       "the profile '%s' is not beside allotd: install allot whole",
			       profile);
	return err_set(
		err, -ENOENT,
		"no profile '%.60s'%s%s%s: known are h200, rtx6000ada, small4g, four, h200x2, mig, "
		"or give a file's path",
		profile, near ? ", did you mean '" : "", near ? near : "", near ? "'" : "");
}

/* a link that is there from one moment to the next, whatever was there before */
static int put_link(const char *dir, const char *name, const char *const *places, struct err *err)
{
	char target[PATHS_MAX], path[PATHS_MAX], tmp[PATHS_MAX];

	if (paths_beside(places, target, sizeof(target)) < 0)
		return err_set(err, -ENOENT, "the simulated '%s' is not beside allotd: build it",
			       name);
	if (!str_print(path, sizeof(path), "%s/%s", dir, name) ||
	    !str_print(tmp, sizeof(tmp), "%s/.%s.new", dir, name))
		return err_set(err, -ENAMETOOLONG, "path '%s' is too long", dir);
	if ((unlink(tmp) < 0 && errno != ENOENT) || symlink(target, tmp) < 0 ||
	    rename(tmp, path) < 0)
		return err_set(err, -errno, "cannot link '%s': %s", path, strerror(errno));
	return 0;
}

static int put_profile(const char *dir, const char *from, struct err *err)
{
	AUTO_FREE struct sim_profile *profile = malloc(sizeof(*profile));
	AUTO_FREE char *text = malloc(SIMDIR_PROFILE_MAX);
	char path[PATHS_MAX], tmp[PATHS_MAX];
	ssize_t n;

	if (!text || !profile)
		return err_set(err, -ENOMEM, "no memory");
	n = fd_read_file(AT_FDCWD, from, text, SIMDIR_PROFILE_MAX);
	if (n < 0)
		return err_set(err, (int)n, "cannot read the profile '%s': %s", from,
			       strerror((int)-n));
	/* now, with its line: the simulated driver can only say that it does not start */
	if (sim_profile_parse(from, text, (size_t)n, profile, err) < 0)
		return -EINVAL;
	if (!str_print(path, sizeof(path), "%s/profile.conf", dir) ||
	    !str_print(tmp, sizeof(tmp), "%s/.profile.new", dir))
		return err_set(err, -ENAMETOOLONG, "path '%s' is too long", dir);
	AUTO_FD int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	int r = fd < 0 ? -errno : fd_write_all(fd, text, (size_t)n);

	if (r == 0 && rename(tmp, path) < 0)
		r = -errno;
	return r < 0 ? err_set(err, r, "cannot write '%s': %s", path, strerror(-r)) : 0;
}

/*
 * The service's simulated cards are everybody's, as real ones are: any user's program writes into
 * their state.  Sticky, so that nobody but us replaces the libraries; the files made beforehand,
 * since a sticky folder lets others open only what belongs to its owner (fs.protected_regular).
 */
static int open_to_all(const char *dir, struct err *err)
{
	static const char *const files[] = { "state", "alive", "timeline" };
	int r = chmod(dir, 01777) < 0 ? -errno : 0;

	for (unsigned i = 0; r == 0 && i < ARRAY_SIZE(files); i++) {
		char path[PATHS_MAX];
		AUTO_FD int fd = -1;

		if (!str_print(path, sizeof(path), "%s/%s", dir, files[i]))
			return err_set(err, -ENAMETOOLONG, "path '%s' is too long", dir);
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd < 0 || fchmod(fd, 0666) < 0)
			r = -errno;
	}
	return r < 0 ? err_set(err, r, "cannot open folder '%s' to all: %s", dir, strerror(-r)) : 0;
}

int simdir_make(struct instance *in, const char *profile, char *ret_dir, size_t size,
		struct err *err)
{
	const char *runtime_dir = in->runtime_dir;
	char from[PATHS_MAX];
	struct stat st;
	int r = find_profile(profile ? profile : SIMDIR_DEFAULT, from, sizeof(from), err);

	if (r < 0)
		return r;
	if (!str_print(ret_dir, size, "%s/sim", runtime_dir))
		return err_set(err, -ENAMETOOLONG, "path '%s' is too long", runtime_dir);
	if (mkdir(ret_dir, 0755) < 0 && errno != EEXIST)
		return err_set(err, -errno, "cannot make folder '%s': %s", ret_dir,
			       strerror(errno));
	/* in a shared folder anybody may have made it before us, to hold its lock */
	if (lstat(ret_dir, &st) < 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid())
		return err_set(err, -EPERM,
			       "'%s' is not our folder: remove it, or name another "
			       "--socket",
			       ret_dir);
	r = instance_claim_sim(in, ret_dir, err);
	if (r == 0)
		r = put_link(ret_dir, "libcuda.so.1", cuda_places, err);
	if (r == 0)
		r = put_link(ret_dir, "libnvidia-ml.so.1", nvml_places, err);
	if (r == 0)
		r = put_profile(ret_dir, from, err);
	return r == 0 && in->is_system ? open_to_all(ret_dir, err) : r;
}
