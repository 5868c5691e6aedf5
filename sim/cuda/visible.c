// SPDX-License-Identifier: Apache-2.0
/*
 * Which devices this process sees, in which order. CUDA_DEVICE_ORDER sorts all devices (by speed
 * unless it says PCI_BUS_ID); CUDA_VISIBLE_DEVICES then picks: a list of indices into that order
 * and of UUIDs or unique beginnings of one. The first entry that is none of these ends the list.
 * An empty entry is none of these. A list that names a device twice is an error.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/fmt.h"
#include "base/parse.h"
#include "base/str.h"
#include "sim/cuda/start.h"

#define LIST_SIZE 4096

__attribute__((weak)) const char *sim_devices_getenv(const char *name)
{
	return getenv(name);
}

static unsigned order_all(unsigned order[SIM_DEVICES_MAX])
{
	const struct sim_profile *profile = sim_state_profile(sim.state);
	const char *by = sim_devices_getenv("CUDA_DEVICE_ORDER");
	bool is_pci = by && !strcmp(by, "PCI_BUS_ID");

	for (unsigned i = 0; i < profile->device_count; i++) {
		unsigned at = i;

		while (!is_pci && at &&
		       profile->devices[order[at - 1]].speed < profile->devices[i].speed) {
			order[at] = order[at - 1];
			at--;
		}
		order[at] = i;
	}
	return profile->device_count;
}

/* the only device whose UUID begins with @entry, or -1 */
static int find_uuid(const char *entry, const unsigned *order, unsigned count)
{
	const struct sim_profile *profile = sim_state_profile(sim.state);
	int found = -1;

	if (strncasecmp(entry, "GPU-", 4))
		return -1;
	for (unsigned i = 0; i < count; i++) {
		struct fmt_buf buf;

		fmt_uuid(&buf, "GPU-", profile->devices[order[i]].uuid);
		if (strncasecmp(buf.s, entry, strlen(entry)))
			continue;
		if (found >= 0)
			return -1;
		found = (int)order[i];
	}
	return found;
}

static int find_entry(const char *entry, const unsigned *order, unsigned count)
{
	uint64_t index;

	if (!parse_u64(entry, 0, UINT32_MAX, &index, NULL))
		return index < count ? (int)order[index] : -1;
	return find_uuid(entry, order, count);
}

static void add_device(unsigned index)
{
	struct sim_device *device = &sim.devices[sim.device_count];

	memset(device, 0, sizeof(*device));
	device->ordinal = (CUdevice)sim.device_count++;
	device->index = index;
	device->info = &sim_state_profile(sim.state)->devices[index];
	list_init(&device->pools);
	list_init(&device->contexts);
}

/* the entry that begins at *@at, which moves to the next, or to NULL behind the last */
static void next_entry(char **at, char **ret_entry)
{
	char *entry = *at, *comma = strchr(entry, ','), *end;

	*at = comma ? comma + 1 : NULL;
	if (comma)
		*comma = '\0';
	entry += strspn(entry, " \t");
	for (end = entry + strlen(entry); end > entry && strchr(" \t", end[-1]); end--)
		end[-1] = '\0';
	*ret_entry = entry;
}

static CUresult pick(char *list, const unsigned *order, unsigned count)
{
	uint64_t seen = 0;

	while (list) {
		char *entry;
		int index;

		next_entry(&list, &entry);
		index = find_entry(entry, order, count);
		if (index < 0)
			break;
		if (seen & (uint64_t)1 << index) {
			sim.device_count = 0;
			return CUDA_ERROR_INVALID_DEVICE;
		}
		seen |= (uint64_t)1 << index;
		add_device((unsigned)index);
	}
	return sim.device_count ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

CUresult sim_devices_init(void)
{
	const char *visible = sim_devices_getenv("CUDA_VISIBLE_DEVICES");
	unsigned order[SIM_DEVICES_MAX], count = order_all(order);
	char list[LIST_SIZE];

	sim.device_count = 0;
	if (!visible) {
		for (unsigned i = 0; i < count; i++)
			add_device(order[i]);
		return count ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
	}
	/* a list that is cut is longer than all devices can be named in */
	str_copy(list, sizeof(list), visible);
	return pick(list, order, count);
}
