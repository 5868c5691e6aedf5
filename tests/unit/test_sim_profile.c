// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/size.h"
#include "sim/state/profile.h"

#define HEAD "[device]\nname = A\nuuid = GPU-5a1b7c20-2d4e-4f60-8a91-b2c3d4e5f601\n"
#define PCI  "pci = 00000000:0F:00.0\n"
#define INSTANCE                                                     \
	"[instance]\nprofile = 1g.1gb\nmemory = 1G\ncontext = 64M\n" \
	"uuid = MIG-5a1b7c20-2d4e-4f60-8a91-b2c3d4e5f611\n"

static int parse(const char *text, struct sim_profile *profile, struct err *err)
{
	memset(err, 0, sizeof(*err));
	return sim_profile_parse("t", text, strlen(text), profile, err);
}

static void the_default_is_one_h200(void **state)
{
	struct sim_profile p;

	(void)state;
	sim_profile_default(&p);
	assert_int_equal(p.device_count, 1);
	assert_string_equal(p.devices[0].name, "NVIDIA H200");
	assert_int_equal(p.devices[0].memory_bytes, 143771 * MIB);
	assert_int_equal(p.devices[0].reserved_bytes, 629824 * KIB);
	assert_int_equal(p.devices[0].context_bytes, 536128 * KIB);
	assert_int_equal(p.devices[0].pci_bus, 0x0f);
	assert_int_equal(p.devices[0].uuid[15], 0x01);
	assert_string_equal(p.driver_version, "580.159.04");
}

static void every_profile_that_we_ship_can_be_read(void **state)
{
	static const struct {
		const char *name;
		unsigned devices;
	} all[] = { { "h200", 1 }, { "rtx6000ada", 1 }, { "small4g", 1 },
		    { "four", 4 }, { "h200x2", 2 },     { "mig", 2 } };

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		char path[512];
		struct sim_profile p;
		struct err err = { 0 };

		snprintf(path, sizeof(path), "%s/%s.conf", SIM_PROFILES, all[i].name);
		if (sim_profile_load(path, &p, &err))
			fail_msg("%s", err.text);
		assert_int_equal(p.device_count, all[i].devices);
	}
}

static void instances_stand_behind_the_cards(void **state)
{
	struct sim_profile p;
	struct err err;

	(void)state;
	assert_int_equal(parse("[device]\nname = B\npci = 00000000:C1:00.0\nmemory = 4G\n"
			       "uuid = GPU-5a1b7c20-2d4e-4f60-8a91-b2c3d4e5f602\nmig = 1\n" INSTANCE
			       "gi = 9\n[instance]\nprofile = 2g.2gb\nmemory = 2G\ngi = 3\n"
			       "uuid = MIG-5a1b7c20-2d4e-4f60-8a91-b2c3d4e5f622\n" HEAD PCI
			       "memory = 8G\n",
			       &p, &err),
			 0);
	assert_int_equal(p.device_count, 2);
	assert_int_equal(p.instance_count, 2);
	assert_string_equal(p.devices[0].name, "A");
	assert_string_equal(p.devices[2].name, "B MIG 2g.2gb"); /* by their ids */
	assert_int_equal(p.devices[2].parent, 1);
	assert_int_equal(p.devices[2].mig_index, 0);
	assert_int_equal(p.devices[3].mig_index, 1);
	assert_int_equal(p.devices[3].pci_bus, 0xc1);
	assert_int_equal(p.devices[1].mig_mode, 1);
	assert_int_equal(p.devices[3].mig_mode, 0);
}

static void devices_come_in_pci_order(void **state)
{
	struct sim_profile p;
	struct err err;

	(void)state;
	assert_int_equal(parse(HEAD "pci = 00000000:C1:00.0\nmemory = 4G\n[device]\nname = B\n"
				    "uuid = GPU-5a1b7c20-2d4e-4f60-8a91-b2c3d4e5f602\n" PCI
				    "memory = 8G\n",
			       &p, &err),
			 0);
	assert_string_equal(p.devices[0].name, "B");
	assert_string_equal(p.devices[1].name, "A");
	/* what is not stated is the H200's */
	assert_int_equal(p.devices[1].sms, 132);
}

static void what_cannot_be_read_is_refused_with_its_line(void **state)
{
	static const struct {
		const char *text, *error;
	} bad[] = {
		{ "", "t:0: no section '[device]'" },
		{ "\n\nname = X\n", "t:3: unknown key 'name'" },
		{ "[gpu]\n", "t:1: unknown section '[gpu]'" },
		{ HEAD PCI "memory = 4\n", "t:5: not a value for this key: '4'" },
		{ HEAD PCI "memory = 0G\n", "t:5: not a value for this key: '0G'" },
		{ HEAD PCI "memory = 99999999T\n", "t:5: not a value for this key: '99999999T'" },
		{ HEAD PCI, "t:4: the device above has no 'memory'" },
		{ HEAD PCI "memory = 4G\nmemory = 5G\n", "t:6: the second 'memory'" },
		{ HEAD PCI "memory = 4G\nsms = -1\n", "t:6: not a value for this key: '-1'" },
		{ HEAD PCI "memory = 4G\nsms 3\n",
		  "t:6: neither 'key = value' nor '[device]': 'sms 3'" },
		{ HEAD PCI "memory = 1G\n", "t:5: no room beside 'reserved' and 'context' on 'A'" },
		{ HEAD "pci = 0F:00.0\n", "t:4: not a value for this key: '0F:00.0'" },
		{ HEAD "pci = 00000000:0F:20.0\n",
		  "t:4: not a value for this key: '00000000:0F:20.0'" },
		{ HEAD PCI "memory = 4G\nlaunch = 5\n", "t:6: not a value for this key: '5'" },
		{ HEAD PCI "memory = 4G\nlaunch = 18446744073709551615s\n",
		  "t:6: not a value for this key: '18446744073709551615s'" },
		{ HEAD PCI "memory = 4G\ncompute_capability = 9\n",
		  "t:6: not a value for this key: '9'" },
		{ HEAD PCI "memory = 4G\n" HEAD PCI "memory = 4G\n",
		  "t:10: two devices have the PCI address of 'A'" },
		{ HEAD PCI "memory = 4G\n[instance]\n",
		  "t:6: no card with 'mig = 1' above '[instance]'" },
		{ "[instance]\n", "t:1: no card with 'mig = 1' above '[instance]'" },
		{ HEAD PCI "memory = 4G\nmig = 1\n" INSTANCE "gi = 1\nspeed = 3\n",
		  "t:13: unknown key 'speed'" },
		{ HEAD PCI "memory = 4G\nmig = 1\n" INSTANCE,
		  "t:11: the device above has no 'gi'" },
		{ HEAD PCI "memory = 4G\nmig = 1\n" INSTANCE "gi = 1\n" INSTANCE "gi = 1\n",
		  "t:18: two instances have the ids of 'A MIG 1g.1gb'" },
	};
	struct sim_profile p, before;

	(void)state;
	memset(&p, 0x5a, sizeof(p));
	before = p;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct err err;

		assert_true(parse(bad[i].text, &p, &err) < 0);
		assert_string_equal(err.text, bad[i].error);
		assert_memory_equal(&p, &before, sizeof(p));
	}
}

static void long_lines_and_binary_are_refused(void **state)
{
	char text[600];
	struct sim_profile p;
	struct err err = { 0 };

	(void)state;
	memset(text, '#', sizeof(text));
	assert_true(sim_profile_parse("t", text, sizeof(text), &p, &err) < 0);
	assert_true(sim_profile_parse("t", "[dev\0ice]", 9, &p, &err) < 0);
}

static void more_devices_than_fit_are_refused(void **state)
{
	char text[8192];
	size_t n = 0;
	struct sim_profile p;
	struct err err;

	(void)state;
	for (int i = 0; i <= SIM_DEVICES_MAX; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n,
				      "[device]\nname = D\npci = 00000000:%02X:00.0\n"
				      "uuid = GPU-5a1b7c20-2d4e-4f60-8a91-b2c3d4e5f6%02x\n"
				      "memory = 4G\n",
				      i, i);
	assert_true(parse(text, &p, &err) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_default_is_one_h200),
		cmocka_unit_test(every_profile_that_we_ship_can_be_read),
		cmocka_unit_test(instances_stand_behind_the_cards),
		cmocka_unit_test(devices_come_in_pci_order),
		cmocka_unit_test(what_cannot_be_read_is_refused_with_its_line),
		cmocka_unit_test(long_lines_and_binary_are_refused),
		cmocka_unit_test(more_devices_than_fit_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
