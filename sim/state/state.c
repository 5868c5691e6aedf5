// SPDX-License-Identifier: Apache-2.0
#include "sim/state/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/parse.h"
#include "base/size.h"
#include "base/str.h"
#include "sim/state/layout.h"

#define ALIVE_MAP_BYTES ((size_t)4096)
#define READER_WAIT_NS  20000000

static void read_boot_id(char ret[BOOT_ID_SIZE])
{
	memset(ret, 0, BOOT_ID_SIZE);
	/* without it (no /proc) all boots look alike, which is safe in practice */
	if (fd_read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", ret, BOOT_ID_SIZE) < 0)
		memset(ret, 0, BOOT_ID_SIZE);
}

bool state_path(const struct sim_state *state, const char *file, char *ret, size_t size)
{
	return str_print(ret, size, "%s/%s", state->dir, file);
}

void sim_state_lock(struct sim_state *state)
{
	/* what a dead owner left half-done is at most its own row's number: nothing to repair */
	if (pthread_mutex_lock(&state->shared->lock) == EOWNERDEAD)
		pthread_mutex_consistent(&state->shared->lock);
}

bool state_lock_to_read(struct sim_state *state)
{
	struct timespec until;
	int r;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += READER_WAIT_NS;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	r = pthread_mutex_clocklock(&state->shared->lock, CLOCK_MONOTONIC, &until);
	if (r == EOWNERDEAD)
		pthread_mutex_consistent(&state->shared->lock);
	return !r || r == EOWNERDEAD;
}

void sim_state_unlock(struct sim_state *state)
{
	pthread_mutex_unlock(&state->shared->lock);
}

static bool has_rows(struct sim_state *state)
{
	rows_reap(state);
	for (unsigned i = 0; i < state->shared->rows_end; i++) {
		if (state->shared->rows[i].is_taken)
			return true;
	}
	return false;
}

/* Opening. */

static int init_shared(struct shared *s, const char boot_id[BOOT_ID_SIZE])
{
	pthread_mutexattr_t attr;
	int r;

	memset(s, 0, sizeof(*s));
	s->version = STATE_VERSION;
	s->size = sizeof(*s);
	memcpy(s->boot_id, boot_id, BOOT_ID_SIZE);
	r = pthread_mutexattr_init(&attr);
	if (r)
		return -r;
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	r = pthread_mutex_init(&s->lock, &attr);
	pthread_mutexattr_destroy(&attr);
	if (r)
		return -r;
	atomic_thread_fence(memory_order_release);
	s->magic = STATE_MAGIC;
	return 0;
}

static bool is_current_file(int fd, const char *path)
{
	struct stat by_fd, by_path;

	return !fstat(fd, &by_fd) && !stat(path, &by_path) && by_fd.st_ino == by_path.st_ino &&
	       by_fd.st_dev == by_path.st_dev;
}

/* Returns 1 when the file was of another build or boot and is gone: try again. */
static int map_file(struct sim_state *state, int fd, const char *path)
{
	char boot_id[BOOT_ID_SIZE];
	struct stat st;
	void *map;
	int r = 0;

	if (fstat(fd, &st))
		return -errno;
	if (st.st_size && st.st_size != sizeof(struct shared))
		return unlink(path) && errno != ENOENT ? -errno : 1;
	if (!st.st_size) {
		r = posix_fallocate(fd, 0, sizeof(struct shared));
		if (r)
			return -r;
	}
	map = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	state->shared = map;
	read_boot_id(boot_id);
	if (state->shared->magic != STATE_MAGIC)
		r = init_shared(state->shared, boot_id);
	else if (state->shared->version != STATE_VERSION ||
		 memcmp(state->shared->boot_id, boot_id, BOOT_ID_SIZE))
		r = unlink(path) && errno != ENOENT ? -errno : 1;
	if (r) {
		munmap(map, sizeof(struct shared));
		state->shared = NULL;
	}
	return r;
}

/* Take the profile as it is now, unless somebody lives by the one before. */
static int adopt_profile(struct sim_state *state, struct err *err)
{
	AUTO_FREE struct sim_profile *profile = malloc(sizeof(*profile));
	char path[DIR_SIZE + 16];
	int r;

	if (!profile || !state_path(state, "profile.conf", path, sizeof(path)))
		return err_set(err, -ENOMEM, "out of memory");
	memset(profile, 0, sizeof(*profile));
	if (access(path, F_OK)) {
		sim_profile_default(profile);
	} else {
		r = sim_profile_load(path, profile, err);
		if (r)
			return r;
	}
	sim_state_lock(state);
	if (memcmp(profile, &state->shared->profile, sizeof(*profile)) &&
	    (!state->shared->profile.device_count || !has_rows(state))) {
		state->shared->profile = *profile;
		memset(state->shared->exec, 0, sizeof(state->shared->exec));
	}
	sim_state_unlock(state);
	return 0;
}

static int open_shared(struct sim_state *state, struct err *err)
{
	char path[DIR_SIZE + 16];
	int r = 1;

	if (!state_path(state, "state", path, sizeof(path)))
		return err_set(err, -ENAMETOOLONG, "'%s': path too long", state->dir);
	for (int tries = 0; r == 1 && tries < OPEN_TRIES; tries++) {
		AUTO_FD int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

		if (fd < 0 || flock(fd, LOCK_EX))
			return err_set(err, -errno, "'%s': cannot open: %s", path, strerror(errno));
		if (is_current_file(fd, path))
			r = map_file(state, fd, path);
		if (!r)
			r = adopt_profile(state, err);
		else if (r < 0)
			err_set(err, r, "'%s': cannot map: %s", path, strerror(-r));
		/* explicitly, since a child forked just now shares the descriptor */
		flock(fd, LOCK_UN);
	}
	return r == 1 ? err_set(err, -EBUSY, "'%s': keeps changing", path) : r;
}

int sim_state_open(const char *dir, struct sim_state **ret, struct err *err)
{
	struct sim_state *state = calloc(1, sizeof(*state));
	int r;

	if (!state)
		return err_set(err, -ENOMEM, "out of memory");
	state->row = -1;
	if (!str_copy(state->dir, sizeof(state->dir), dir))
		r = err_set(err, -ENAMETOOLONG, "'%.64s': path too long", dir);
	else
		r = open_shared(state, err);
	if (r) {
		sim_state_close(state);
		return r;
	}
	*ret = state;
	return 0;
}

void sim_state_close(struct sim_state *state)
{
	if (!state)
		return;
	if (state->row >= 0) {
		sim_state_lock(state);
		shares_reap(state->shared, (unsigned)state->row);
		memset(&state->shared->rows[state->row], 0, sizeof(struct row));
		sim_state_unlock(state);
	}
	if (state->alive)
		munmap(state->alive, ALIVE_MAP_BYTES);
	if (state->shared)
		munmap(state->shared, sizeof(struct shared));
	free(state);
}

const struct sim_profile *sim_state_profile(const struct sim_state *state)
{
	return &state->shared->profile;
}

const char *sim_state_dir_path(const struct sim_state *state)
{
	return state->dir;
}

/* Attaching. */

static uint64_t own_start_ticks(void)
{
	char text[1024];
	uint64_t ticks = 0;
	char *at;
	ssize_t n = fd_read_file(AT_FDCWD, "/proc/self/stat", text, sizeof(text));

	at = n > 0 ? strrchr(text, ')') : NULL;
	/* behind the name come a blank and field 3; the start time is field 22 */
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	if (!at)
		return 0;
	at[1 + strcspn(at + 1, " \n")] = '\0';
	(void)parse_u64(at + 1, 0, UINT64_MAX, &ticks, NULL); /* 0 stands for unknown */
	return ticks;
}

static uint64_t own_pid_ns(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) ? 0 : st.st_ino;
}

/* Lock the first free row's byte, held by a mapping alone. */
static int claim_row(struct sim_state *state, int fd)
{
	struct shared *s = state->shared;

	for (unsigned i = 0; i < SIM_PROCS_MAX; i++) {
		struct flock lock = {
			.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)i, .l_len = 1
		};

		if (s->rows[i].is_taken || fcntl(fd, F_OFD_SETLK, &lock))
			continue;
		memset(&s->rows[i], 0, sizeof(s->rows[i]));
		return (int)i;
	}
	return -ENOSPC;
}

int sim_state_attach(struct sim_state *state)
{
	AUTO_FD int fd = -1;
	uint64_t start_ticks = own_start_ticks(), pid_ns = own_pid_ns();
	int row;

	if (state->row >= 0)
		return 0;
	fd = rows_open(state);
	if (fd < 0)
		return fd;
	state->alive = mmap(NULL, ALIVE_MAP_BYTES, PROT_NONE, MAP_SHARED, fd, 0);
	if (state->alive == MAP_FAILED) {
		state->alive = NULL;
		return -errno;
	}
	/* a child must not keep its dead parent's memory */
	madvise(state->alive, ALIVE_MAP_BYTES, MADV_DONTFORK);

	sim_state_lock(state);
	rows_reap(state);
	row = claim_row(state, fd);
	if (row >= 0) {
		struct row *r = &state->shared->rows[row];

		r->pid = (uint64_t)getpid();
		r->pid_ns = pid_ns;
		r->start_ticks = start_ticks;
		r->is_taken = 1;
		state->row = row;
		state->shared->rows_end = size_max(state->shared->rows_end, (uint64_t)row + 1);
	}
	sim_state_unlock(state);
	return row < 0 ? row : 0;
}

int sim_state_row(const struct sim_state *state)
{
	return state->row;
}
