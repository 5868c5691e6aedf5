// SPDX-License-Identifier: Apache-2.0
#include "nvml_fixture.h"

#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "sim/state/state.h"

static char dir[64];

static const char profile[] =
	"driver_version = 580.159.04\n"
	"cuda_version = 13000\n"
	"[device]\nname = NVIDIA Card A\nuuid = " FIXTURE_UUID_A "\n"
	"pci = 00000000:83:00.0\nmemory = 8192M\nreserved = 512M\ncompute_capability = 9.0\n"
	"[device]\nname = NVIDIA Card B\nuuid = " FIXTURE_UUID_B "\n"
	"pci = 00000000:C1:00.0\nmemory = 4096M\nreserved = 512M\ncompute_capability = 8.9\n";

static void write_file(const char *name, const char *text)
{
	char path[128];
	int fd;

	assert(str_print(path, sizeof(path), "%s/%s", dir, name));
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert(fd >= 0);
	assert(fd_write_all(fd, text, strlen(text)) == 0);
	close(fd);
}

const char *fixture_make(void)
{
	strcpy(dir, "/tmp/allot-test-nvml-XXXXXX");
	assert(mkdtemp(dir));
	write_file("profile.conf", profile);
	assert(setenv("ALLOT_SIM_DIR", dir, 1) == 0);
	return dir;
}

void fixture_adopt(void)
{
	const char *named = getenv("ALLOT_SIM_DIR");

	assert(named && str_copy(dir, sizeof(dir), named));
}

void fixture_remove(void)
{
	DIR *d = opendir(dir);
	struct dirent *entry;

	while (d && (entry = readdir(d)))
		(void)unlinkat(dirfd(d), entry->d_name, 0); /* fails for . and .., as it should */
	if (d)
		closedir(d);
	(void)rmdir(dir);
}

static void hold(unsigned index, uint64_t bytes, int ready)
{
	struct sim_state *state;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (sim_state_open(dir, &state, NULL) || sim_state_attach(state))
		_exit(1);
	sim_state_count_context(state, index, 1);
	if (sim_state_take(state, index, SIM_USE_ALLOC, bytes))
		_exit(2);
	if (write(ready, "r", 1) != 1)
		_exit(3);
	for (;;)
		pause();
}

pid_t fixture_hold(unsigned index, uint64_t bytes)
{
	int fds[2];
	char c;
	pid_t pid;

	assert(pipe2(fds, O_CLOEXEC) == 0);
	pid = fork();
	assert(pid >= 0);
	if (pid == 0)
		hold(index, bytes, fds[1]);
	close(fds[1]);
	assert(read(fds[0], &c, 1) == 1);
	close(fds[0]);
	return pid;
}

/* The middle process only makes the namespace; its child is number 1 there. */
static void hold_apart(unsigned index, uint64_t bytes, int ready)
{
	pid_t pid;

	if (unshare(CLONE_NEWPID) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWPID) < 0)
		_exit(1);
	pid = fork();
	if (pid == 0)
		hold(index, bytes, ready);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (pid < 0 || write(ready, &pid, sizeof(pid)) != sizeof(pid))
		_exit(2);
	(void)waitpid(pid, NULL, 0);
	_exit(0);
}

pid_t fixture_hold_apart(unsigned index, uint64_t bytes)
{
	int fds[2];
	char buf[sizeof(pid_t) + 1]; /* the number and the holder's "r", in either order */
	pid_t middle, holder;
	size_t got = 0;
	ssize_t n;

	assert(pipe2(fds, O_CLOEXEC) == 0);
	middle = fork();
	assert(middle >= 0);
	if (middle == 0)
		hold_apart(index, bytes, fds[1]);
	close(fds[1]);
	while (got < sizeof(buf) && (n = read(fds[0], buf + got, sizeof(buf) - got)) > 0)
		got += (size_t)n;
	close(fds[0]);
	if (got < sizeof(buf)) {
		(void)waitpid(middle, NULL, 0);
		return -1;
	}
	memcpy(&holder, buf[0] == 'r' && buf[4] == 0 ? buf + 1 : buf, sizeof(holder));
	return holder;
}

void fixture_kill(pid_t pid)
{
	assert(kill(pid, SIGKILL) == 0);
	if (waitpid(pid, NULL, 0) == pid)
		return;
	while (kill(pid, 0) == 0) /* not our child */
		usleep(1000);
}

void fixture_faults(const char *text)
{
	char path[128];

	if (text) {
		write_file("nvml-faults", text);
		return;
	}
	assert(str_print(path, sizeof(path), "%s/nvml-faults", dir));
	(void)unlink(path);
}
