// SPDX-License-Identifier: Apache-2.0
#include "sim/cuda/timeline.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/size.h"
#include "base/str.h"

#define SPIN_NS    ((uint64_t)60000) /* a sleep may be late by so much; the rest is spun */
#define LOCK_BYTES 4096              /* mapped to keep a lock; never touched */

static int open_file(const struct timeline *timeline)
{
	return open(timeline->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
}

int timeline_open(struct timeline *timeline, const char *dir)
{
	size_t bytes = TIMELINE_DEVICES * sizeof(struct timeline_device);
	AUTO_FD int fd = -1;
	void *map;
	int r;

	timeline->devices = NULL;
	if (!str_print(timeline->path, sizeof(timeline->path), "%s/timeline", dir))
		return -ENAMETOOLONG;
	fd = open_file(timeline);
	if (fd < 0)
		return -errno;
	/* growing only, so it does not matter who comes first or dies in between */
	r = posix_fallocate(fd, 0, (off_t)bytes);
	if (r)
		return -r;
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	timeline->devices = map;
	return 0;
}

static struct flock lock_of(const struct timeline_group *group, unsigned slot)
{
	return (struct flock){
		.l_type = F_WRLCK,
		.l_whence = SEEK_SET,
		.l_start = (off_t)(group->device_index * TIMELINE_GROUPS + slot),
		.l_len = 1,
	};
}

static void raise_used(struct timeline_device *device, uint32_t used)
{
	uint32_t seen = atomic_load(&device->used);

	while (seen < used && !atomic_compare_exchange_weak(&device->used, &seen, used))
		;
}

/* whoever gets the lock has the slot: nobody alive holds it */
static int slot_take(struct timeline_group *group, int fd)
{
	for (unsigned i = 0; i < TIMELINE_GROUPS; i++) {
		struct timeline_slot *slot = &group->device->slots[i];
		struct flock lock = lock_of(group, i);

		if (fcntl(fd, F_OFD_SETLK, &lock) < 0)
			continue;
		atomic_store(&slot->tail_ns, 0);
		atomic_store(&slot->slice_ns, 0);
		atomic_store(&slot->busy_ns, 0);
		raise_used(group->device, i + 1);
		return (int)i;
	}
	return -1;
}

void timeline_group_init(struct timeline_group *group, const struct timeline *timeline,
			 unsigned device_index)
{
	AUTO_FD int fd = -1;

	memset(group, 0, sizeof(*group));
	group->slot = -1;
	if (!timeline || !timeline->devices || device_index >= TIMELINE_DEVICES)
		return;
	group->timeline = timeline;
	group->device = &timeline->devices[device_index];
	group->device_index = device_index;
	fd = open_file(timeline);
	if (fd < 0)
		return;
	/* the lock lives with the open file, and that with the mapping once the descriptor is
	 * closed */
	group->lock = mmap(NULL, LOCK_BYTES, PROT_NONE, MAP_SHARED, fd, 0);
	if (group->lock == MAP_FAILED) {
		group->lock = NULL;
		return;
	}
	madvise(group->lock, LOCK_BYTES, MADV_DONTFORK);
	group->slot = slot_take(group, fd);
}

void timeline_group_fini(struct timeline_group *group)
{
	if (group->device && group->slot >= 0)
		atomic_store(&group->device->slots[group->slot].tail_ns, 0);
	if (group->lock)
		munmap(group->lock, LOCK_BYTES);
	group->lock = NULL;
	group->device = NULL;
	group->slot = -1;
}

static uint64_t slice_of(struct timeline_slot *slot)
{
	uint64_t slice_ns = atomic_load_explicit(&slot->slice_ns, memory_order_relaxed);

	return slice_ns ? slice_ns : TIMELINE_SLICE_NS;
}

static bool is_rival(const struct timeline_group *group, unsigned slot, uint64_t now_ns)
{
	return (int)slot != group->slot && atomic_load_explicit(&group->device->slots[slot].tail_ns,
								memory_order_relaxed) > now_ns;
}

/* what a killed process had queued is gone with it */
static void wipe_dead(struct timeline_group *group, uint32_t used, uint64_t now_ns)
{
	AUTO_FD int fd = open_file(group->timeline);

	group->looked_ns = now_ns;
	for (uint32_t i = 0; fd >= 0 && i < used; i++) {
		struct flock lock = lock_of(group, i);

		if (is_rival(group, i, now_ns) && !fcntl(fd, F_OFD_GETLK, &lock) &&
		    lock.l_type == F_UNLCK)
			atomic_store(&group->device->slots[i].tail_ns, 0);
	}
}

/* how long @duration_ns of work take beside the neighbours that have work now */
static uint64_t stretch(struct timeline_group *group, uint64_t now_ns, uint64_t duration_ns)
{
	uint64_t own_ns = TIMELINE_SLICE_NS, round_ns;
	unsigned rivals = 0;
	uint32_t used;

	if (!group->device)
		return duration_ns;
	used = atomic_load_explicit(&group->device->used, memory_order_relaxed);
	used = used < TIMELINE_GROUPS ? used : TIMELINE_GROUPS;
	if (group->slot >= 0)
		own_ns = slice_of(&group->device->slots[group->slot]);
	round_ns = own_ns;
	for (uint32_t i = 0; i < used; i++) {
		if (!is_rival(group, i, now_ns))
			continue;
		if (group->looked_ns + TIMELINE_LOOK_NS < now_ns) {
			wipe_dead(group, used, now_ns);
			if (!is_rival(group, i, now_ns))
				continue;
		}
		rivals++;
		round_ns += slice_of(&group->device->slots[i]);
	}
	if (!rivals)
		return duration_ns;
	round_ns += (rivals + 1) * TIMELINE_SWITCH_NS;
	return (uint64_t)((unsigned __int128)duration_ns * round_ns / own_ns);
}

static void publish(struct timeline_group *group, uint64_t end_ns, uint64_t duration_ns)
{
	struct timeline_slot *slot;

	if (!group->device || group->slot < 0)
		return;
	slot = &group->device->slots[group->slot];
	if (atomic_load_explicit(&slot->tail_ns, memory_order_relaxed) < end_ns)
		atomic_store_explicit(&slot->tail_ns, end_ns, memory_order_relaxed);
	atomic_fetch_add_explicit(&slot->busy_ns, duration_ns, memory_order_relaxed);
}

uint64_t timeline_submit(struct timeline_group *group, enum timeline_lane lane, uint64_t now_ns,
			 uint64_t ready_ns, uint64_t duration_ns)
{
	bool compute = lane == TIMELINE_WIDE || lane == TIMELINE_NARROW;
	uint64_t start_ns = size_max(ready_ns, now_ns);
	uint64_t end_ns;

	if (lane != TIMELINE_NARROW)
		start_ns = size_max(start_ns, group->lane_tail_ns[lane]);
	end_ns =
		size_sat_add(start_ns, compute ? stretch(group, now_ns, duration_ns) : duration_ns);
	group->lane_tail_ns[lane] = size_max(group->lane_tail_ns[lane], end_ns);
	if (compute)
		publish(group, end_ns, duration_ns);
	return end_ns;
}

void timeline_sleep_until(uint64_t when_ns)
{
	uint64_t sleep_ns = size_sat_sub(when_ns, SPIN_NS);
	struct timespec ts = {
		.tv_sec = (time_t)(sleep_ns / NS_PER_S),
		.tv_nsec = (long)(sleep_ns % NS_PER_S),
	};

	if (sleep_ns > clock_now_ns()) {
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
			;
	}
	while (clock_now_ns() < when_ns)
		sched_yield();
}
