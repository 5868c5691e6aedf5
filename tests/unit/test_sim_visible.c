// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "sim_driver.h"

/* the buses of the four cards, by which they are told apart: A100, T1000, H200, A4000 */
#define A100  0x07
#define T1000 0x0b
#define H200  0x48
#define A4000 0xc1
#define BAD   (-1) /* one of them is named twice, or no such order: INVALID_DEVICE */

struct row {
	const char *visible, *order; /* NULL: not set */
	int bus[5];                  /* in CUDA's order, 0 ends; none: NO_DEVICE */
};

static int look(void *argument)
{
	const struct row *row = argument;
	int expected = 0, count = 0, bus;
	CUresult result;

	if (row->visible)
		setenv("CUDA_VISIBLE_DEVICES", row->visible, 1);
	if (row->order)
		setenv("CUDA_DEVICE_ORDER", row->order, 1);
	while (row->bus[expected])
		expected++;
	result = CU(cuInit)(0);
	if (row->bus[0] == BAD)
		return result != CUDA_ERROR_INVALID_DEVICE;
	if (!expected)
		return result != CUDA_ERROR_NO_DEVICE;
	if (result || CU(cuDeviceGetCount)(&count) || count != expected)
		return 100 + count;
	for (int i = 0; i < count; i++) {
		if (CU(cuDeviceGetAttribute)(&bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, i) ||
		    bus != row->bus[i])
			return 50 + i;
	}
	return CU(cuDeviceGet)(&bus, count) != CUDA_ERROR_INVALID_DEVICE;
}

static void devices_are_picked_as_the_driver_picks(void **unused)
{
	static const struct row rows[] = {
		{ NULL, NULL, { H200, A100, A4000, T1000 } },
		{ NULL, "PCI_BUS_ID", { A100, T1000, H200, A4000 } },
		{ NULL, "FASTEST_FIRST", { H200, A100, A4000, T1000 } },
		{ "", NULL, { 0 } },
		{ "-1", NULL, { 0 } },
		{ "0", NULL, { H200 } },
		{ "0", "PCI_BUS_ID", { A100 } },
		{ "2,0", "PCI_BUS_ID", { H200, A100 } },
		{ "3,1", NULL, { T1000, A100 } },
		{ "1,9,0", NULL, { A100 } },
		{ "1,-1,0", NULL, { A100 } },
		{ "1,x", NULL, { A100 } },
		{ "x,1", NULL, { 0 } },
		{ "1,,2", NULL, { A100 } },
		{ ",1", NULL, { 0 } },
		{ "1,", NULL, { A100 } },
		{ "0,0", NULL, { BAD } },
		{ "GPU-5a,GPU-a1,GPU-5a1b", NULL, { BAD } },
		{ "0,1,GPU-5a", NULL, { H200, A100 } },
		{ "0", "nonsense", { BAD } },
		{ NULL, "pci_bus_id", { BAD } },
		{ "0,x,0", NULL, { H200 } },
		{ "NoDevFiles", NULL, { 0 } },
		{ "GPU-5a1b7c20-3333-4aaa-8333-000000000030", NULL, { H200 } },
		{ "GPU-04000001", NULL, { T1000 } },
		{ "GPU-0", NULL, { 0 } }, /* two begin so */
		{ "GPU-04,GPU-a1", "PCI_BUS_ID", { T1000, A100 } },
		{ "GPU-04,0", "PCI_BUS_ID", { T1000 } },
		{ "MIG-5a1b7c20-3333-4aaa-8333-000000000030", NULL, { H200 } },
		{ "MIG-GPU-5a1b7c20-3333-4aaa-8333-000000000030", NULL, { 0 } },
		{ "GPU-5a1b7c20-3333-4aaa-8333-000000000030x,GPU-a1", NULL, { H200, A100 } },
		{ " GPU-5a1b7c20", NULL, { 0 } },
		{ "GPU-5a1b7c20x", NULL, { 0 } },
		{ "4294967297", NULL, { A100 } },
		{ "+1,1x,0x2", NULL, { BAD } },
		{ "1.5,0x2,+2", NULL, { A100, H200, A4000 } },
		{ "99999999999999999999", NULL, { 0 } },
		{ " 1", NULL, { A100 } },
		{ "1 , 0\t", NULL, { A100, H200 } },
		{ "1 0", NULL, { A100 } },
		{ "GPU-A1", NULL, { A100 } },
		{ "gpu-a1", NULL, { 0 } },
	};

	(void)unused;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct row row = rows[i];
		int code = sim_driver_wait(sim_driver_child(look, &row));

		if (code)
			fail_msg("'%s' in order '%s': %d", row.visible ? row.visible : "(unset)",
				 row.order ? row.order : "(unset)", code);
	}
}

static void a_device_tells_what_it_is(void **unused)
{
	CUdevprop prop;
	char name[64], pci[16], tiny[4];
	size_t total;
	CUuuid uuid;
	int value, dev;

	(void)unused;
	assert_int_equal(CU(cuInit)(0), 0);
	assert_int_equal(CU(cuDeviceGetName)(name, sizeof(name), 0), 0);
	assert_string_equal(name, "NVIDIA H200");
	assert_int_equal(CU(cuDeviceGetName)(tiny, sizeof(tiny), 0), 0);
	assert_string_equal(tiny, "NVI");
	assert_int_equal(CU(cuDeviceTotalMem_v2)(&total, 0), 0);
	assert_int_equal(total, 143771 * MIB - 629824 * KIB);
	assert_int_equal(CU(cuDeviceGetPCIBusId)(pci, sizeof(pci), 0), 0);
	assert_string_equal(pci, "0000:48:00.0");
	assert_int_equal(CU(cuDeviceGetByPCIBusId)(&dev, "0000:C1:00.0"), 0);
	assert_int_equal(dev, 2);
	assert_int_equal(CU(cuDeviceGetByPCIBusId)(&dev, "c1:00.0"), 0);
	assert_int_equal(CU(cuDeviceGetByPCIBusId)(&dev, "nonsense"), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuDeviceGetUuid_v2)(&uuid, 0), 0);
	assert_int_equal((unsigned char)uuid.bytes[15], 0x30);
	assert_int_equal(
		CU(cuDeviceGetAttribute)(&value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0), 0);
	assert_int_equal(value, 132);
	assert_int_equal(CU(cuDeviceGetAttribute)(&value, CU_DEVICE_ATTRIBUTE_MAX, 0),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(CU(cuDeviceGetAttribute)(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 4),
			 CUDA_ERROR_INVALID_DEVICE);
	assert_int_equal(CU(cuDeviceGetProperties)(&prop, 0), 0);
	assert_int_equal(prop.SIMDWidth, 32);
	assert_int_equal(CU(cuDeviceCanAccessPeer)(&value, 0, 0), 0);
	assert_int_equal(value, 0);
	assert_int_equal(CU(cuDeviceCanAccessPeer)(&value, 0, 1), 0);
	assert_int_equal(value, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(devices_are_picked_as_the_driver_picks),
		cmocka_unit_test(a_device_tells_what_it_is),
	};

	sim_driver_setup("four");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
