// SPDX-License-Identifier: Apache-2.0
#ifndef SIM_CUDA_TIMELINE_H
#define SIM_CUDA_TIMELINE_H

/*
 * When would the device be done?  The one place that knows about time on a device.  Nothing runs:
 * whoever submits work says when it could start and how long it takes by itself, and learns at
 * once when it ends; whoever waits sleeps until then.
 *
 * A device serves groups (the driver's channel groups, one a context).  A group has a slice, as on
 * hardware 2048 us unless somebody sets another.  While several groups have work the device takes
 * turns, a slice each and TIMELINE_SWITCH_NS for every change; so a group with slice s among n busy
 * ones advances at s / (sum of slices + n * switch).  Alone it advances at full speed.  Two groups
 * that keep the device busy get 45 % each, as on the H200 (2048 / (2 * 2048 + 2 * 225)).
 *
 * What is approximated: the speed of a piece of work is settled when it is submitted, by the groups
 * that have work left at that moment.  So work that was already queued when a neighbour arrives is
 * not slowed afterwards, and work queued beside a neighbour is not sped up when that one ends: the
 * error is one queue's depth at each such change, none in the steady state.  That an idle group
 * loses its turn and pays two switches to come back is not modelled here.  Copy engines are not
 * shared between groups.
 *
 * Inside a group work is put on lanes.  Wide kernels (those that fill the card) follow one another
 * on TIMELINE_WIDE, as do copies of one direction; narrow kernels run beside anything.
 *
 * What groups must know of each other lies in a file that all processes of the simulated machine
 * map (struct timeline_slot; zeros are an empty one).  A slot belongs to who holds a kernel lock on
 * its byte of the file, through a mapping that ends with the process and is not inherited by fork:
 * so neither reused pids nor PID namespaces matter, and nobody can leave a slot behind.  There is
 * no other lock: a slot is written by its owner only, but for the tail that a killed owner left,
 * which a neighbour wipes.  Times are CLOCK_MONOTONIC, one clock for all.
 *
 * Calls for one group are serialised by the caller.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define TIMELINE_GROUPS    256
#define TIMELINE_DEVICES   16
#define TIMELINE_SLICE_NS  ((uint64_t)2048000)
#define TIMELINE_SWITCH_NS ((uint64_t)225000)
#define TIMELINE_LOOK_NS                                                        \
	((uint64_t)5000000) /* how often neighbours are checked for being alive \
			     */
#define TIMELINE_PATH_MAX 1024

enum timeline_lane {
	TIMELINE_WIDE,     /* kernels that fill the card */
	TIMELINE_NARROW,   /* kernels that leave room: no queue of their own */
	TIMELINE_COPY_IN,  /* host to device */
	TIMELINE_COPY_OUT, /* device to host */
	TIMELINE_LANE_COUNT,
};

/* what the others see of a group */
struct timeline_slot {
	_Atomic uint64_t tail_ns;  /* when the group's compute work ends */
	_Atomic uint64_t slice_ns; /* 0: the default */
	_Atomic uint64_t busy_ns;  /* device time this group has been given */
};

struct timeline_device {
	_Atomic uint32_t used; /* no slot from here on was ever taken */
	struct timeline_slot slots[TIMELINE_GROUPS];
};

/* struct timeline - the file, mapped for the life of the process */
struct timeline {
	struct timeline_device *devices; /* NULL: every group is alone */
	char path[TIMELINE_PATH_MAX];
};

struct timeline_group {
	const struct timeline *timeline;
	struct timeline_device *device; /* NULL: nobody to share with */
	unsigned device_index;
	int slot;   /* -1: none was free, so neighbours do not see this one */
	void *lock; /* the mapping that keeps the slot's lock */
	uint64_t looked_ns;
	uint64_t lane_tail_ns[TIMELINE_LANE_COUNT];
};

/** timeline_open - the file "timeline" of folder @dir, made when missing; 0 or -errno */
int timeline_open(struct timeline *timeline, const char *dir);

/**
 * timeline_group_init - a new group on a device
 *
 * Never fails: without a slot the group slows itself by its neighbours but they do not see it.
 */
void timeline_group_init(struct timeline_group *group, const struct timeline *timeline,
			 unsigned device_index);

/** timeline_group_fini - give the slot back; a zeroed or finished group is fine */
void timeline_group_fini(struct timeline_group *group);

/**
 * timeline_submit - put work on the device
 * @ready_ns:    the earliest moment it could start
 * @duration_ns: what it takes on an idle device
 *
 * Returns when it ends.  Never blocks.
 */
uint64_t timeline_submit(struct timeline_group *group, enum timeline_lane lane, uint64_t now_ns,
			 uint64_t ready_ns, uint64_t duration_ns);

/** timeline_sleep_until - sleep to an absolute CLOCK_MONOTONIC time; a past one returns at once */
void timeline_sleep_until(uint64_t when_ns);

#endif
