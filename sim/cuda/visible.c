// SPDX-License-Identifier: Apache-2.0
/*
 * Which devices this process sees, in which order. CUDA_DEVICE_ORDER sorts all devices (by speed
 * unless it says PCI_BUS_ID; any other word is an error); CUDA_VISIBLE_DEVICES then picks: by UUIDs
 * or unique beginnings of one, if the list begins with one, else by indices into that order. The
 * first entry that is not of this kind, or picks nothing, ends the list. What follows a whole UUID
 * or the digits of an index is not looked at. A list that names a device twice is an error.
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
#include "base/str.h"
#include "base/visible.h"
#include "sim/cuda/start.h"

#define LIST_SIZE 4096

__attribute__((weak)) const char *sim_devices_getenv(const char *name)
{
	return getenv(name);
}

static CUresult read_order(bool *ret_is_pci)
{
	const char *by = sim_devices_getenv("CUDA_DEVICE_ORDER");

	*ret_is_pci = by && !strcmp(by, "PCI_BUS_ID");
	/* what an empty one does is not recorded */
	return !by || !*by || *ret_is_pci || !strcmp(by, "FASTEST_FIRST")
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_INVALID_DEVICE;
}

static unsigned order_all(bool is_pci, unsigned order[SIM_DEVICES_MAX])
{
	const struct sim_profile *profile = sim_state_profile(sim.state);

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

static bool is_uuid(const char *entry)
{
	return !strncmp(entry, "GPU-", 4) || !strncmp(entry, "MIG-", 4);
}

static bool begins_with(const struct sim_device_info *info, const char *entry)
{
	struct fmt_buf buf;

	fmt_uuid(&buf, "GPU-", info->uuid);
	return !strncasecmp(buf.s + 4, entry + 4, size_min(strlen(buf.s), strlen(entry)) - 4);
}

/* the only device whose UUID begins with @entry, or -1; a card answers to MIG- too */
static int find_uuid(const char *entry, const unsigned *order, unsigned count)
{
	const struct sim_profile *profile = sim_state_profile(sim.state);
	unsigned instances = entry[0] == 'M' ? profile->instance_count : 0;
	int found = -1;

	if (!is_uuid(entry))
		return -1;
	for (unsigned i = 0; i < count + instances; i++) {
		unsigned index = i < count ? order[i] : profile->device_count + i - count;

		if (!begins_with(&profile->devices[index], entry))
			continue;
		if (found >= 0)
			return -1;
		found = (int)index;
	}
	return found;
}

static int find_entry(const char *entry, bool by_uuid, const unsigned *order, unsigned count)
{
	int index;

	if (by_uuid)
		return find_uuid(entry, order, count);
	index = visible_index(entry, strlen(entry));
	return index >= 0 && (unsigned)index < count ? (int)order[index] : -1;
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
static const char *next_entry(char **at)
{
	char *entry = *at, *comma = strchr(entry, ',');

	*at = comma ? comma + 1 : NULL;
	if (comma)
		*comma = '\0';
	return entry;
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
	bool by_uuid = is_uuid(list);
	uint64_t seen = 0;

	while (list) {
		int index = find_entry(next_entry(&list), by_uuid, order, count);

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
	unsigned order[SIM_DEVICES_MAX], count;
	char list[LIST_SIZE];
	CUresult result;
	bool is_pci;

	sim.device_count = 0;
	result = read_order(&is_pci);
	if (result)
		return result;
	count = order_all(is_pci, order);
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
