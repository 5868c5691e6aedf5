// SPDX-License-Identifier: Apache-2.0
/*
 * Which devices this process sees, in which order. CUDA_DEVICE_ORDER sorts all devices (by speed
 * unless it says PCI_BUS_ID); CUDA_VISIBLE_DEVICES then picks: a list of indices into that order
 * and of UUIDs or unique beginnings of one. The first entry that is none of these ends the list.
 * An empty entry is none of these. A list that names a device twice is an error.
 *
 * MIG, as NVIDIA's user guide has it (not recorded: no card at hand was in that mode): a process
 * sees one instance at most, and beside it no whole card.  A card in MIG mode stands for its first
 * instance, and one without instances is not there; MIG-UUIDs name instances.
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

/* the only instance whose UUID begins with @entry, or -1 */
static int find_instance(const char *entry)
{
	const struct sim_profile *profile = sim_state_profile(sim.state);
	int found = -1;

	for (unsigned i = 0; i < profile->instance_count; i++) {
		struct fmt_buf buf;

		fmt_uuid(&buf, "MIG-", profile->devices[profile->device_count + i].uuid);
		if (strncasecmp(buf.s, entry, strlen(entry)))
			continue;
		if (found >= 0)
			return -1;
		found = (int)(profile->device_count + i);
	}
	return found;
}

/* the only device whose UUID begins with @entry, or -1 */
static int find_uuid(const char *entry, const unsigned *order, unsigned count)
{
	const struct sim_profile *profile = sim_state_profile(sim.state);
	int found = -1;

	if (!strncasecmp(entry, "MIG-", 4))
		return find_instance(entry);
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

/* what stands for device @index: itself, or of a card in MIG mode its first instance; -1: nothing
 */
static int seen_as(unsigned index)
{
	const struct sim_profile *profile = sim_state_profile(sim.state);

	if (!profile->devices[index].mig_mode)
		return (int)index;
	for (unsigned i = 0; i < profile->instance_count; i++)
		if (profile->devices[profile->device_count + i].parent == index)
			return (int)(profile->device_count + i);
	return -1;
}

/* of what was picked only the first instance, if there is one */
static void keep_one_instance(void)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < sim.device_count; i++) {
		int index = seen_as(sim.devices[i].index);

		if (index < 0)
			continue;
		if (sim_state_profile(sim.state)->devices[index].is_instance) {
			sim.device_count = 0;
			add_device((unsigned)index);
			return;
		}
		sim.devices[kept] = sim.devices[i];
		sim.devices[kept].ordinal = (CUdevice)kept;
		list_init(&sim.devices[kept].pools); /* nothing is in them yet */
		list_init(&sim.devices[kept].contexts);
		kept++;
	}
	sim.device_count = kept;
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
	CUresult result;

	sim.device_count = 0;
	if (!visible) {
		for (unsigned i = 0; i < count; i++)
			add_device(order[i]);
		keep_one_instance();
		return sim.device_count ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
	}
	/* a list that is cut is longer than all devices can be named in */
	str_copy(list, sizeof(list), visible);
	result = pick(list, order, count);
	keep_one_instance();
	return result || sim.device_count ? result : CUDA_ERROR_NO_DEVICE;
}
