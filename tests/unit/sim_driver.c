// SPDX-License-Identifier: Apache-2.0
#include "sim_driver.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[64];
static pid_t owner;
static void *library;

static void die(const char *what, const char *which)
{
	fprintf(stderr, "sim_driver: %s '%s'\n", what, which);
	abort();
}

static void clean_up(void)
{
	struct dirent *entry;
	DIR *d;

	if (getpid() != owner)
		return;
	d = opendir(dir);
	while (d && (entry = readdir(d))) {
		if (entry->d_name[0] != '.')
			unlinkat(dirfd(d), entry->d_name, 0);
	}
	if (d)
		closedir(d);
	rmdir(dir);
}

static void copy_profile(const char *profile)
{
	char from[512], to[128], text[8192];
	FILE *in, *out;
	size_t n;

	snprintf(from, sizeof(from), "%s/%s.conf", SIM_PROFILES, profile);
	snprintf(to, sizeof(to), "%s/profile.conf", dir);
	in = fopen(from, "r");
	out = fopen(to, "w");
	if (!in || !out)
		die("cannot copy", from);
	n = fread(text, 1, sizeof(text), in);
	if (fwrite(text, 1, n, out) != n)
		die("cannot write", to);
	fclose(in);
	if (fclose(out))
		die("cannot write", to);
}

void sim_driver_setup(const char *profile)
{
	if (!*dir) {
		strcpy(dir, "/tmp/allot-test-XXXXXX");
		if (!mkdtemp(dir))
			die("cannot make", dir);
		owner = getpid();
		atexit(clean_up);
		setenv("ALLOT_SIM_DIR", dir, 1);
		unsetenv("CUDA_VISIBLE_DEVICES");
		unsetenv("CUDA_DEVICE_ORDER");
	}
	if (profile)
		copy_profile(profile);
}

const char *sim_driver_dir(void)
{
	return dir;
}

void *sim_driver_symbol(const char *name)
{
	const char *path = getenv("SIM_CUDA_LIB");
	void *symbol;

	if (!library) {
		library = dlopen(path ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
		if (!library)
			die("cannot open", path ? path : "libcuda.so.1");
	}
	symbol = dlsym(library, name);
	if (!symbol)
		die("no symbol", name);
	return symbol;
}

pid_t sim_driver_child(int (*run)(void *), void *argument)
{
	pid_t pid = fork();

	if (pid < 0)
		die("cannot", "fork");
	if (!pid)
		_exit(run(argument));
	return pid;
}

int sim_driver_wait(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid)
		die("cannot", "wait");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

CUresult sim_driver_context(void)
{
	CUcontext ctx;
	CUresult result = CU(cuInit)(0);

	if (!result)
		result = CU(cuDevicePrimaryCtxRetain)(&ctx, 0);
	if (!result)
		result = CU(cuCtxSetCurrent)(ctx);
	return result;
}

size_t sim_driver_free_bytes(void)
{
	size_t free_bytes = 0, total;

	if (CU(cuMemGetInfo_v2)(&free_bytes, &total))
		return 0;
	return free_bytes;
}
