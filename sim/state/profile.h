// SPDX-License-Identifier: Apache-2.0
#ifndef SIM_STATE_PROFILE_H
#define SIM_STATE_PROFILE_H

/*
 * What a simulated machine consists of: read from a profile (sim/profiles/NAME.conf).
 *
 *   # comment                      key = value, one a line
 *   driver_version = 580.159.04    before the first section: the machine
 *   [device]                       one section a device
 *   memory = 143771M
 *   mig = 1                        the card is in MIG mode
 *   [instance]                     of the device above: a MIG device with a UUID of its own
 *   profile = 1g.18gb
 *
 * An instance has its card's value of every key that it does not give, except profile, uuid, memory
 * and gi, which it must state; only a card with mig = 1 has any.
 *
 * Every device key not given has the H200's value, except name, uuid, pci and memory, which each
 * section must state. Devices stand in PCI order, whatever their order in the file. The parser is
 * pure, takes any bytes, allocates nothing, and names the line of an error. Any thread.
 */

#include <stddef.h>
#include <stdint.h>

struct err;

#define SIM_DEVICES_MAX 16 /* cards and instances together */

/* struct sim_device_info - the fixed facts of one device; plain data, shared between processes */
struct sim_device_info {
	char name[96];
	uint8_t uuid[16];
	uint32_t pci_domain, pci_bus, pci_device;
	uint32_t pci_device_id, pci_subsystem_id; /* vendor in the low half */
	uint32_t cc_major, cc_minor;
	uint32_t sms;
	uint32_t clock_khz, memory_clock_khz, bus_width_bits;
	uint32_t speed; /* FASTEST_FIRST sorts by it, greatest first */
	uint64_t memory_bytes, reserved_bytes;
	uint64_t l2_bytes;
	/* what a process costs before its own data */
	uint64_t context_bytes, stream_bytes, module_bytes;
	/* what NVML tells */
	uint32_t temperature_c, power_mw, power_limit_mw, idle_power_mw;
	/* how long things take */
	uint64_t launch_ns;  /* the CPU's part of one launch */
	uint64_t kernel_ns;  /* a kernel whose length nobody stated */
	uint64_t switch_ns;  /* between two processes' work */
	uint64_t context_ns; /* making a context */
	uint64_t copy_bytes_per_s, device_copy_bytes_per_s;
	/* MIG: of a card, and of an instance */
	uint32_t mig_mode;
	uint32_t is_instance;
	uint32_t parent; /* the card's place in the list */
	uint32_t mig_index, gi, ci;
	char mig_profile[24]; /* "1g.18gb" */
};

struct sim_profile {
	char driver_version[80];
	uint32_t cuda_version;   /* 13000 is 13.0 */
	uint32_t device_count;   /* cards: they stand first, in PCI order */
	uint32_t instance_count; /* behind them, by card, GPU instance and compute instance */
	uint32_t pad;
	struct sim_device_info devices[SIM_DEVICES_MAX];
};

/**
 * sim_profile_parse - read a profile from memory
 * @name: what errors call the file
 * Returns 0, or -EINVAL with the line in @err; @ret is then unchanged.
 */
int sim_profile_parse(const char *name, const char *text, size_t len, struct sim_profile *ret,
		      struct err *err);

/** sim_profile_load - read the file @path (at most 64 KiB) */
int sim_profile_load(const char *path, struct sim_profile *ret, struct err *err);

/** sim_profile_default - the machine with one H200 */
void sim_profile_default(struct sim_profile *ret);

#endif
