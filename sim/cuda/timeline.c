// SPDX-License-Identifier: Apache-2.0
#include "sim/cuda/timeline.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/size.h"
#include "base/str.h"

#define SPIN_NS ((uint64_t)60000) /* a sleep may be late by so much; the rest is spun */

struct timeline_shared *timeline_map(const char *dir, unsigned count)
{
	size_t bytes = count * sizeof(struct timeline_shared);
	char path[PATH_MAX];
	AUTO_FD int fd = -1;
	void *map;

	if (!count || !str_print(path, sizeof(path), "%s/timeline", dir))
		return NULL;
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	/* growing only, so it does not matter who comes first or dies in between */
	if (fd < 0 || posix_fallocate(fd, 0, (off_t)bytes) != 0)
		return NULL;
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return map == MAP_FAILED ? NULL : map;
}

static bool slot_is_abandoned(struct timeline_slot *slot, uint64_t owner, uint64_t now_ns)
{
	if (atomic_load(&slot->tail_ns) + TIMELINE_RECLAIM_NS > now_ns)
		return false;
	return kill((pid_t)owner, 0) < 0 && errno == ESRCH;
}

static void raise_used(struct timeline_shared *shared, uint32_t used)
{
	uint32_t seen = atomic_load(&shared->used);

	while (seen < used && !atomic_compare_exchange_weak(&shared->used, &seen, used))
		;
}

static int slot_take(struct timeline_shared *shared)
{
	uint64_t now_ns = clock_now_ns();

	for (int i = 0; i < TIMELINE_GROUPS; i++) {
		struct timeline_slot *slot = &shared->slots[i];
		uint64_t owner = atomic_load(&slot->owner);

		if (owner && !slot_is_abandoned(slot, owner, now_ns))
			continue;
		if (!atomic_compare_exchange_strong(&slot->owner, &owner, (uint64_t)getpid()))
			continue;
		atomic_store(&slot->tail_ns, 0);
		atomic_store(&slot->slice_ns, 0);
		atomic_store(&slot->busy_ns, 0);
		raise_used(shared, (uint32_t)i + 1);
		return i;
	}
	return -1;
}

void timeline_group_init(struct timeline_group *group, struct timeline_shared *shared)
{
	memset(group, 0, sizeof(*group));
	group->shared = shared;
	group->slot = shared ? slot_take(shared) : -1;
}

void timeline_group_fini(struct timeline_group *group)
{
	if (group->shared && group->slot >= 0)
		atomic_store(&group->shared->slots[group->slot].owner, 0);
	group->shared = NULL;
	group->slot = -1;
}

static uint64_t slice_of(struct timeline_slot *slot)
{
	uint64_t slice_ns = atomic_load_explicit(&slot->slice_ns, memory_order_relaxed);

	return slice_ns ? slice_ns : TIMELINE_SLICE_NS;
}

/* how long @duration_ns of work take beside the neighbours that have work now */
static uint64_t stretch(const struct timeline_group *group, uint64_t now_ns, uint64_t duration_ns)
{
	uint64_t own_ns = TIMELINE_SLICE_NS;
	uint64_t round_ns;
	unsigned rivals = 0;
	uint32_t used;

	if (!group->shared)
		return duration_ns;
	used = atomic_load_explicit(&group->shared->used, memory_order_relaxed);
	if (group->slot >= 0)
		own_ns = slice_of(&group->shared->slots[group->slot]);
	round_ns = own_ns;
	for (uint32_t i = 0; i < used && i < TIMELINE_GROUPS; i++) {
		struct timeline_slot *slot = &group->shared->slots[i];

		if ((int)i == group->slot ||
		    !atomic_load_explicit(&slot->owner, memory_order_relaxed) ||
		    atomic_load_explicit(&slot->tail_ns, memory_order_relaxed) <= now_ns)
			continue;
		rivals++;
		round_ns += slice_of(slot);
	}
	if (!rivals)
		return duration_ns;
	round_ns += (rivals + 1) * TIMELINE_SWITCH_NS;
	return (uint64_t)((unsigned __int128)duration_ns * round_ns / own_ns);
}

static void publish(struct timeline_group *group, uint64_t end_ns, uint64_t duration_ns)
{
	struct timeline_slot *slot;

	if (!group->shared || group->slot < 0)
		return;
	slot = &group->shared->slots[group->slot];
	if (atomic_load_explicit(&slot->tail_ns, memory_order_relaxed) < end_ns)
		atomic_store_explicit(&slot->tail_ns, end_ns, memory_order_relaxed);
	atomic_fetch_add_explicit(&slot->busy_ns, duration_ns, memory_order_relaxed);
}

uint64_t timeline_submit(struct timeline_group *group, enum timeline_lane lane, uint64_t now_ns,
			 uint64_t ready_ns, uint64_t duration_ns, uint64_t *ret_start_ns)
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
	if (ret_start_ns)
		*ret_start_ns = start_ns;
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
