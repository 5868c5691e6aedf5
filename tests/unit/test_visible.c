// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "base/str.h"
#include "base/visible.h"

/* three of a lease; the last two begin alike, and the last is an instance */
#define A "GPU-a1000001-1111-4aaa-8111-000000000010"
#define B "GPU-5a1b7c20-3333-4aaa-8333-000000000030"
#define C "GPU-5a1b7c21-3333-4aaa-8333-000000000031"
#define M "MIG-5a1b7c22-3333-4aaa-8333-000000000032"

struct row {
	const char *list; /* NULL: not set */
	const char *picked;
};

static const struct row rows[] = {
	{ NULL, "0123" },
	/* nothing */
	{ "", "" },
	{ " ", "" },
	{ ",", "" },
	{ "-1", "" },
	{ "NoDevFiles", "" },
	{ "none", "" },
	{ "void", "" },
	{ "all", "" },
	/* indices */
	{ "0", "0" },
	{ "3", "3" },
	{ "4", "" },
	{ "2,0", "20" },
	{ "0,1,2,3", "0123" },
	{ "3,2,1,0", "3210" },
	{ "00", "0" },
	{ "01", "1" },
	{ "+1", "1" },
	{ "+-1", "" },
	{ "- 1", "" },
	{ "+", "" },
	{ "0x1", "0" },
	{ "1.0", "1" },
	{ "1a", "1" },
	{ "1e0", "1" },
	{ "2147483648", "" },
	{ "4294967295", "" },
	{ "4294967296", "0" },
	{ "4294967297", "1" },
	{ "-4294967294", "2" },
	{ "18446744073709551617", "" },
	{ "-18446744073709551617", "0" },
	{ "99999999999999999999999999999999999999999999999999999999999999999999999999", "" },
	{ "00000000000000000000000000000000000000000000000000000000000000000000000002", "2" },
	/* the first that is none ends the list */
	{ "0,9,1", "0" },
	{ "0,2,-1,1", "02" },
	{ "9,0", "" },
	{ "0,x,1", "0" },
	{ "0,,1", "0" },
	{ ",0", "" },
	{ "0,", "0" },
	{ "0;1", "0" },
	{ "0 1", "0" },
	{ "0 1,2", "02" },
	/* blanks */
	{ " 1", "1" },
	{ "1 ", "1" },
	{ "1 , 0", "10" },
	{ "\t1\t,\t0\t", "10" },
	{ "0, ", "0" },
	{ "\n1", "1" },
	{ " " A, "" },
	{ B ", " A, "1" },
	{ B " ," A, "10" },
	/* names */
	{ A, "0" },
	{ B "," A, "10" },
	{ "GPU-a1000001", "0" },
	{ "GPU-a", "0" },
	{ "GPU-A1000001-1111-4AAA-8111-000000000010", "0" },
	{ "gpu-a1000001", "" },
	{ "Gpu-a1000001", "" },
	{ "GPU-5a1b7c2", "" },
	{ "GPU-5a1b7c20", "1" },
	{ "GPU-5a1b7c20,GPU-5a1b7c21", "12" },
	{ "GPU-5a1b7c21", "2" },
	{ "GPU-5a1b7c22", "" },
	{ "GPU-", "" },
	{ "GPU", "" },
	{ "a1000001-1111-4aaa-8111-000000000010", "" },
	{ A "0", "0" },
	{ A "x,GPU-5a1b7c20", "01" },
	{ "GPU-a1000001111", "" },
	{ "GPU-a1000001x", "" },
	{ "GPU-ffffffff," A, "" },
	{ A ",GPU-ffffffff," B, "0" },
	{ M, "3" },
	{ "MIG-5a1b7c22", "3" },
	{ "mig-5a1b7c22", "" },
	{ "GPU-5a1b7c22-3333-4aaa-8333-000000000032", "" },
	{ "MIG-5a1b7c20-3333-4aaa-8333-000000000030", "1" },
	{ "MIG-", "" },
	{ "MIG-" A, "" },
	{ "MIG-" A "/1/0", "" },
	/* not one with the other: the first decides */
	{ "1," A, "1" },
	{ A ",1", "0" },
	{ "GPU-5a1b7c21,0", "2" },
	{ A "," M ",1", "03" },
	{ "x," A, "" },
	/* named twice stays named twice */
	{ "0,0", "00" },
	{ A "," A, "00" },
	{ "GPU-a," A, "00" },
	{ "0," A, "0" },
	{ "0,9,0", "0" },
	{ "0,1,2,3,0", "01230" },
	{ "0,1,2,3,0,1,2,3", "01230" },
};

static void the_lists(void **state)
{
	static const char *const names[] = { A, B, C, M };
	struct visible_device devices[4] = { 0 };

	(void)state;
	for (int i = 0; i < 4; i++) {
		assert_int_equal(parse_uuid(names[i], devices[i].uuid, NULL), 0);
		devices[i].is_mig = names[i][0] == 'M';
	}
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		unsigned ret[5], n = visible_pick(rows[i].list, devices, 4, ret);
		char picked[6] = "";

		for (unsigned k = 0; k < n && k < 5; k++)
			picked[k] = (char)('0' + ret[k]);
		if (n > 5 || strcmp(picked, rows[i].picked) != 0)
			fail_msg("'%s': '%s', not '%s'", rows[i].list, picked, rows[i].picked);
	}
}

static void of_no_device_there_is_none(void **state)
{
	unsigned ret[1];

	(void)state;
	assert_int_equal(visible_pick(NULL, NULL, 0, ret), 0);
	assert_int_equal(visible_pick("0", NULL, 0, ret), 0);
	assert_int_equal(visible_pick("GPU-", NULL, 0, ret), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_lists),
		cmocka_unit_test(of_no_device_there_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
