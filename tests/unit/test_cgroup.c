// SPDX-License-Identifier: Apache-2.0
/* daemon/cgroup and daemon/manager's choice, against folders that look like /proc and a mount */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "daemon/cgroup.h"
#include "daemon/manager.h"

struct world {
	char root[64];
};

static void write_file(const struct world *w, const char *name, const char *text)
{
	char path[256];

	(void)str_print(path, sizeof(path), "%s/%s", w->root, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
	close(fd);
}

static void make_folder(const struct world *w, const char *name)
{
	char path[256];

	(void)str_print(path, sizeof(path), "%s/%s", w->root, name);
	assert_int_equal(mkdir(path, 0700), 0);
}

static int setup(void **state)
{
	static struct world w;

	strcpy(w.root, "/tmp/allot-cgroup-XXXXXX");
	*state = &w;
	if (!mkdtemp(w.root))
		return -1;
	make_folder(&w, "self");
	make_folder(&w, "7");
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st, (void)flag, (void)ftw;
	return remove(path);
}

static int teardown(void **state)
{
	struct world *w = *state;

	return nftw(w->root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static int mount_of(const struct world *w, const char *mountinfo, char *buf, size_t size)
{
	write_file(w, "self/mountinfo", mountinfo);
	return cgroup_mount(w->root, buf, size);
}

static void finds_the_mount(void **state)
{
	static const char hybrid[] =
		"31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
		"40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n"
		"41 31 0:38 / /sys/fs/cgroup/unified rw shared:4 - cgroup2 cgroup2 rw\n";
	static const char odd[] =
		"40 31 0:37 /part /bound rw - cgroup2 cgroup2 rw\n" /* not from the root on */
		"short - cgroup2 x rw\n"
		"41 31 0:38 / /my\\040cgroup\\134s rw,x - cgroup2 cgroup2 rw\n";
	char buf[64], small[8];

	assert_int_equal(mount_of(*state, hybrid, buf, sizeof(buf)), 0);
	assert_string_equal(buf, "/sys/fs/cgroup/unified");
	assert_int_equal(mount_of(*state, odd, buf, sizeof(buf)), 0);
	assert_string_equal(buf, "/my cgroup\\s");
	assert_int_equal(mount_of(*state, "1 2 0:1 / /proc rw - proc proc rw\n", buf, sizeof(buf)),
			 -ENOENT);
	assert_int_equal(mount_of(*state, "", buf, sizeof(buf)), -ENOENT);
	assert_int_equal(mount_of(*state, hybrid, small, sizeof(small)), -EFBIG);
}

static int path_of(const struct world *w, const char *text, char *buf, size_t size)
{
	write_file(w, "7/cgroup", text);
	return cgroup_of(w->root, 7, buf, size);
}

static void reads_where_a_process_is(void **state)
{
	char buf[CGROUP_PATH_MAX], small[8];

	assert_int_equal(path_of(*state, "0::/\n", buf, sizeof(buf)), 0);
	assert_string_equal(buf, "/");
	assert_int_equal(
		path_of(*state, "4:memory:/x\n1:cpu:/\n0::/a.slice/b c.scope\n", buf, sizeof(buf)),
		0);
	assert_string_equal(buf, "/a.slice/b c.scope");
	/* removed under it, outside of our namespace, version 1 alone, cut, none */
	assert_int_equal(path_of(*state, "0::/a (deleted)\n", buf, sizeof(buf)), -ENOENT);
	assert_int_equal(path_of(*state, "0::/../b\n", buf, sizeof(buf)), -EXDEV);
	assert_int_equal(path_of(*state, "0::/..\n", buf, sizeof(buf)), -EXDEV);
	assert_int_equal(path_of(*state, "0::/..mine\n", buf, sizeof(buf)), 0);
	assert_int_equal(path_of(*state, "10::/x\n1:name=systemd:/0::/y\n", buf, sizeof(buf)),
			 -ENOENT);
	assert_int_equal(path_of(*state, "0::/no end", buf, sizeof(buf)), -ENOENT);
	assert_int_equal(path_of(*state, "", buf, sizeof(buf)), -ENOENT);
	assert_int_equal(path_of(*state, "0::/a/long/path\n", small, sizeof(small)), -ENAMETOOLONG);
	assert_int_equal(cgroup_of(((struct world *)*state)->root, 8, buf, sizeof(buf)), -ESRCH);
}

static void inside_means_at_a_slash(void **state)
{
	(void)state;
	assert_true(cgroup_is_inside("/a/job-1", "/a/job-1"));
	assert_true(cgroup_is_inside("/a/job-1/x", "/a/job-1"));
	assert_true(cgroup_is_inside("/a", "/"));
	assert_false(cgroup_is_inside("/a/job-11", "/a/job-1"));
	assert_false(cgroup_is_inside("/a", "/a/job-1"));
	assert_string_equal(cgroup_name("/a/b.scope"), "b.scope");
}

static void sees_limits(void **state)
{
	static const char *const limits[][2] = {
		{ "memory.max", "1073741824\n" }, { "memory.high", "5\n" },
		{ "pids.max", "100\n" },          { "cpu.max", "50000 100000\n" },
		{ "cpuset.cpus", "0-1\n" },       { "io.max", "8:0 rbps=1\n" },
	};
	static const char *const free[][2] = {
		{ "memory.max", "max\n" },     { "memory.high", "max\n" }, { "pids.max", "max\n" },
		{ "cpu.max", "max 100000\n" }, { "cpuset.cpus", "\n" },    { "io.max", "" },
	};
	const struct world *w = *state;

	assert_false(cgroup_is_limited(w->root, "/7")); /* no controller is at work */
	for (unsigned i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		char name[64];

		(void)str_print(name, sizeof(name), "7/%s", limits[i][0]);
		write_file(w, name, limits[i][1]);
		assert_true(cgroup_is_limited(w->root, "/7"));
		write_file(w, name, free[i][1]);
		assert_false(cgroup_is_limited(w->root, "/7"));
	}
}

static void the_slice_stays(void **state)
{
	static const struct {
		const char *path;
		bool is_user;
		const char *slice; /* NULL: the default */
	} cases[] = {
		{ "/user.slice/user-1000.slice/session-2.scope", false, "user-1000.slice" },
		{ "/user.slice/user-1000.slice/user@1000.service/app.slice/x.scope", false,
		  "user-1000.slice" },
		{ "/user.slice/user-1000.slice/user@1000.service/app.slice/x.scope", true,
		  "app.slice" },
		{ "/user.slice/user-1000.slice/session-2.scope", true, NULL },
		{ "/system.slice/x.scope", false, "system.slice" },
		{ "/x.scope", false, NULL },
		{ "/", false, NULL },
		{ "/.slice/x.scope", false, NULL },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char buf[64] = "";

		assert_int_equal(manager_slice(cases[i].path, cases[i].is_user, buf, sizeof(buf)),
				 cases[i].slice != NULL);
		assert_string_equal(buf, cases[i].slice ? cases[i].slice : "");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(finds_the_mount, setup, teardown),
		cmocka_unit_test_setup_teardown(reads_where_a_process_is, setup, teardown),
		cmocka_unit_test(inside_means_at_a_slash),
		cmocka_unit_test_setup_teardown(sees_limits, setup, teardown),
		cmocka_unit_test(the_slice_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
