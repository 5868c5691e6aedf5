// SPDX-License-Identifier: Apache-2.0
/* base/owner: who is believed to be root, from within user namespaces of every kind */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <unistd.h>

#include "base/owner.h"

#define OVERFLOW 65534u
#define MACHINE  "         0          0 4294967295\n"

static void in_the_machines_own_namespace(void **state)
{
	(void)state;
	assert_true(owner_judge(MACHINE, OVERFLOW, 1000, 0));
	assert_true(owner_judge("0 0 4294967295\n", OVERFLOW, 0, 0));
	assert_false(owner_judge(MACHINE, OVERFLOW, 1000, 1000));
	assert_false(owner_judge(MACHINE, OVERFLOW, 1000, OVERFLOW)); /* "nobody" of the machine */
}

static void where_anybody_can_be_0(void **state)
{
	static const char *const maps[] = {
		"         0       1000          1\n", /* unshare --map-root-user */
		"         0          0          1\n", /* the same once more, inside of it */
		"         0       1000          1\n         1     100000      65536\n",
		"         0          0      65536\n", /* cannot be told from the one above */
		"      1000       1000          1\n",
		"", /* nothing is mapped yet */
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(maps) / sizeof(maps[0]); i++) {
		assert_false(owner_judge(maps[i], OVERFLOW, 0, 0));
		assert_false(owner_judge(maps[i], OVERFLOW, 1000, 1000));
		assert_true(owner_judge(maps[i], OVERFLOW, 0, OVERFLOW));
		/* who has no number himself may have made the server, too */
		assert_false(owner_judge(maps[i], OVERFLOW, OVERFLOW, OVERFLOW));
	}
}

static void nearly_the_machines_own(void **state)
{
	static const char *const maps[] = {
		"0 0 4294967294\n",  "0 1 4294967295\n", "1 0 4294967295\n",
		"0 0 42949672955\n", "0 0 4294967295",   "0 0 4294967295\n0 0 1\n",
		"00 0 4294967295\n",
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(maps) / sizeof(maps[0]); i++)
		assert_false(owner_judge(maps[i], OVERFLOW, 1000, 0));
}

static void here(void **state)
{
	(void)state;
	assert_false(owner_is_root(12345));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_the_machines_own_namespace),
		cmocka_unit_test(where_anybody_can_be_0),
		cmocka_unit_test(nearly_the_machines_own),
		cmocka_unit_test(here),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
