// SPDX-License-Identifier: Apache-2.0
#include "sim/state/state.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/size.h"
#include "base/str.h"

#define STATE_MAGIC   UINT64_C(0x746174536d697341)
#define STATE_VERSION 1
#define BOOT_ID_SIZE  40
#define DIR_SIZE      3072
#define OPEN_TRIES    16

struct row_device {
	uint64_t use_bytes[SIM_USE_COUNT];
	uint64_t contexts;
	struct sim_exec_row exec;
};

struct row {
	uint64_t is_taken;
	uint64_t pid, pid_ns, start_ticks;
	struct row_device devices[SIM_DEVICES_MAX];
};

/* the file "state"; magic is written last */
struct shared {
	_Atomic uint64_t magic;
	uint32_t version, size;
	char boot_id[BOOT_ID_SIZE]; /* a lock held when the machine went down is not freed */
	pthread_mutex_t lock;
	uint64_t rows_end; /* no row at or behind it was ever taken */
	struct sim_profile profile;
	struct sim_exec_shared exec[SIM_DEVICES_MAX];
	struct row rows[SIM_PROCS_MAX];
};

struct sim_state {
	struct shared *shared;
	void *alive; /* the mapping that keeps our row's lock; NULL: not attached */
	int row;     /* -1: not attached */
	char dir[DIR_SIZE];
};

#define ALIVE_MAP_BYTES ((size_t)4096)

static void read_boot_id(char ret[BOOT_ID_SIZE])
{
	memset(ret, 0, BOOT_ID_SIZE);
	/* without it (no /proc) all boots look alike, which is safe in practice */
	if (fd_read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", ret, BOOT_ID_SIZE) < 0)
		memset(ret, 0, BOOT_ID_SIZE);
}

static bool path_print(const struct sim_state *state, const char *file, char *ret, size_t size)
{
	return str_print(ret, size, "%s/%s", state->dir, file);
}

void sim_state_lock(struct sim_state *state)
{
	/* what a dead owner left half-done is at most its own row's number: nothing to repair */
	if (pthread_mutex_lock(&state->shared->lock) == EOWNERDEAD)
		pthread_mutex_consistent(&state->shared->lock);
}

void sim_state_unlock(struct sim_state *state)
{
	pthread_mutex_unlock(&state->shared->lock);
}

/* Who is alive. */

static int open_alive(const struct sim_state *state)
{
	char path[DIR_SIZE + 16];
	int fd;

	if (!path_print(state, "alive", path, sizeof(path)))
		return -ENAMETOOLONG;
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	return fd < 0 ? -errno : fd;
}

static bool row_is_alive(int alive_fd, unsigned row)
{
	struct flock lock = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)row, .l_len = 1
	};

	return fcntl(alive_fd, F_OFD_GETLK, &lock) || lock.l_type != F_UNLCK;
}

/* Wipe the rows of the dead. Without a descriptor to look with nobody is taken for dead. */
static void reap(struct sim_state *state)
{
	struct shared *s = state->shared;
	AUTO_FD int fd = open_alive(state);

	if (fd < 0)
		return;
	for (unsigned i = 0; i < s->rows_end; i++) {
		if (!s->rows[i].is_taken || (int)i == state->row || row_is_alive(fd, i))
			continue;
		memset(&s->rows[i], 0, sizeof(s->rows[i]));
	}
}

static bool has_rows(struct sim_state *state)
{
	reap(state);
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

	if (!profile || !path_print(state, "profile.conf", path, sizeof(path)))
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

	if (!path_print(state, "state", path, sizeof(path)))
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
	char *at;
	ssize_t n = fd_read_file(AT_FDCWD, "/proc/self/stat", text, sizeof(text));

	at = n > 0 ? strrchr(text, ')') : NULL;
	/* behind the name come a blank and field 3; the start time is field 22 */
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at + 1, NULL, 10) : 0;
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
	fd = open_alive(state);
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
	reap(state);
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

/* Memory. */

static uint64_t row_used(const struct row *row, unsigned index)
{
	uint64_t used = 0;

	for (unsigned use = 0; use < SIM_USE_COUNT; use++)
		used = size_sat_add(used, row->devices[index].use_bytes[use]);
	return used;
}

static uint64_t used_by_all(const struct shared *s, unsigned index)
{
	uint64_t used = 0;

	for (unsigned i = 0; i < s->rows_end; i++) {
		if (s->rows[i].is_taken)
			used = size_sat_add(used, row_used(&s->rows[i], index));
	}
	return used;
}

static bool fits(const struct shared *s, unsigned index, uint64_t bytes)
{
	const struct sim_device_info *info = &s->profile.devices[index];
	uint64_t usable = size_sat_sub(info->memory_bytes, info->reserved_bytes);

	usable -= usable % SIM_PAGE_BYTES;
	return size_sat_add(used_by_all(s, index), bytes) <= usable;
}

int sim_state_take(struct sim_state *state, unsigned index, enum sim_use use, uint64_t bytes)
{
	struct shared *s = state->shared;
	bool is_room;

	if (state->row < 0 || index >= s->profile.device_count)
		return -EINVAL;
	sim_state_lock(state);
	is_room = fits(s, index, bytes);
	if (!is_room) {
		reap(state);
		is_room = fits(s, index, bytes);
	}
	if (is_room)
		s->rows[state->row].devices[index].use_bytes[use] += bytes;
	sim_state_unlock(state);
	return is_room ? 0 : -ENOMEM;
}

void sim_state_give(struct sim_state *state, unsigned index, enum sim_use use, uint64_t bytes)
{
	uint64_t *held;

	if (state->row < 0 || index >= state->shared->profile.device_count)
		return;
	sim_state_lock(state);
	held = &state->shared->rows[state->row].devices[index].use_bytes[use];
	*held = size_sat_sub(*held, bytes);
	sim_state_unlock(state);
}

void sim_state_count_context(struct sim_state *state, unsigned index, int change)
{
	uint64_t *contexts;

	if (state->row < 0 || index >= state->shared->profile.device_count)
		return;
	sim_state_lock(state);
	contexts = &state->shared->rows[state->row].devices[index].contexts;
	if (change > 0)
		++*contexts;
	else
		*contexts = size_sat_sub(*contexts, 1);
	sim_state_unlock(state);
}

void sim_state_memory(struct sim_state *state, unsigned index, struct sim_memory *ret)
{
	const struct sim_device_info *info = &state->shared->profile.devices[index];
	uint64_t used;

	sim_state_lock(state);
	reap(state);
	used = used_by_all(state->shared, index);
	sim_state_unlock(state);
	ret->total_bytes = info->memory_bytes;
	ret->reserved_bytes = info->reserved_bytes;
	ret->used_bytes = used;
	ret->free_bytes =
		size_sat_sub(size_sat_sub(info->memory_bytes, info->reserved_bytes), used);
}

unsigned sim_state_procs(struct sim_state *state, unsigned index, struct sim_proc *ret,
			 unsigned max)
{
	struct shared *s = state->shared;
	unsigned count = 0;

	sim_state_lock(state);
	reap(state);
	for (unsigned i = 0; i < s->rows_end; i++) {
		const struct row *row = &s->rows[i];
		const struct row_device *device = &row->devices[index];
		uint64_t used = row_used(row, index);

		if (!row->is_taken || (!used && !device->contexts))
			continue;
		if (count < max) {
			struct sim_proc *p = &ret[count];

			p->row = i;
			p->pid = (pid_t)row->pid;
			p->pid_ns = row->pid_ns;
			p->start_ticks = row->start_ticks;
			p->used_bytes = used;
			memcpy(p->use_bytes, device->use_bytes, sizeof(p->use_bytes));
			p->contexts = (unsigned)device->contexts;
			p->busy_total_ns = device->exec.busy_total_ns;
		}
		count++;
	}
	sim_state_unlock(state);
	return count;
}

struct sim_exec_shared *sim_state_exec(struct sim_state *state, unsigned index)
{
	return &state->shared->exec[index];
}

struct sim_exec_row *sim_state_exec_row(struct sim_state *state, unsigned index)
{
	return state->row < 0 ? NULL : &state->shared->rows[state->row].devices[index].exec;
}
