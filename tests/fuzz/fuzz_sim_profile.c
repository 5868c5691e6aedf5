// SPDX-License-Identifier: Apache-2.0
/* Profiles of simulated machines: refused with their result untouched, or whole and in order. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "fuzz.h"
#include "sim/state/profile.h"

static uint64_t rank(const struct sim_device_info *d)
{
	return (uint64_t)d->pci_domain << 16 | d->pci_bus << 8 | d->pci_device;
}

static void check(const struct sim_profile *p)
{
	if (!p->device_count || p->device_count > SIM_DEVICES_MAX ||
	    p->instance_count > SIM_DEVICES_MAX - p->device_count)
		abort();
	for (uint32_t i = 0; i < p->instance_count; i++) {
		const struct sim_device_info *d = &p->devices[p->device_count + i];

		if (!d->is_instance || d->parent >= p->device_count ||
		    rank(&p->devices[d->parent]) != rank(d))
			abort();
	}
	for (uint32_t i = 0; i < p->device_count; i++) {
		const struct sim_device_info *d = &p->devices[i];

		if (!memchr(d->name, '\0', sizeof(d->name)) || !d->name[0])
			abort();
		if (!d->sms || d->memory_bytes <= d->reserved_bytes + d->context_bytes)
			abort();
		if (i && rank(d) <= rank(d - 1))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sim_profile profile, before;
	struct err err = { 0 };

	memset(&profile, 0x5a, sizeof(profile));
	before = profile;
	if (!sim_profile_parse("fuzz", (const char *)data, size, &profile, &err))
		check(&profile);
	else if (memcmp(&profile, &before, sizeof(profile)) || !err.text[0])
		abort();
	return 0;
}
