// SPDX-License-Identifier: Apache-2.0
/* Whom the policy `kill` never ends: one case for each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/sampler_wire.h"
#include "daemon/unmanaged.h"

#define SINCE 1000

/* an ordinary user's program that came past allot after the policy was set */
static const struct unmanaged_facts usual = {
	.kinds = SAMPLER_PROC_COMPUTE, .is_known = true, .uid = 1000, .start_ticks = SINCE + 1
};

static void check(struct unmanaged_facts f, enum unmanaged_verdict expected)
{
	assert_int_equal(unmanaged_judge(&f, SINCE), expected);
	assert_int_equal(unmanaged_verdict_text(expected)[0] == '\0', expected == UNMANAGED_END);
}

static void a_users_compute_program_is_ended(void **state)
{
	(void)state;
	check(usual, UNMANAGED_END);
}

static void graphics_never(void **state)
{
	struct unmanaged_facts f = usual;

	(void)state;
	f.kinds = SAMPLER_PROC_GRAPHICS;
	check(f, UNMANAGED_SPARE_GRAPHICS);
	f.kinds = SAMPLER_PROC_GRAPHICS | SAMPLER_PROC_COMPUTE; /* C+G */
	check(f, UNMANAGED_SPARE_GRAPHICS);
}

static void what_does_not_compute_never(void **state)
{
	struct unmanaged_facts f = usual;

	(void)state;
	f.kinds = 0;
	check(f, UNMANAGED_SPARE_NO_COMPUTE);
}

static void mps_never(void **state)
{
	struct unmanaged_facts f = usual;

	(void)state;
	f.kinds = SAMPLER_PROC_MPS | SAMPLER_PROC_COMPUTE; /* a client */
	check(f, UNMANAGED_SPARE_MPS);
	f = usual;
	f.is_mps = true; /* server, control */
	check(f, UNMANAGED_SPARE_MPS);
}

static void displays_never(void **state)
{
	struct unmanaged_facts f = usual;

	(void)state;
	f.is_display = true;
	check(f, UNMANAGED_SPARE_DISPLAY);
}

static void allotds_own_never(void **state)
{
	struct unmanaged_facts f = usual;

	(void)state;
	f.is_own = true;
	check(f, UNMANAGED_SPARE_OWN);
}

static void what_ran_before_never(void **state)
{
	struct unmanaged_facts f = usual;

	(void)state;
	f.start_ticks = SINCE;
	check(f, UNMANAGED_SPARE_BEFORE);
	f.start_ticks = 1;
	check(f, UNMANAGED_SPARE_BEFORE);
	assert_int_equal(unmanaged_judge(&f, 0), UNMANAGED_END); /* that left aside */
}

static void the_machines_root_never_but_a_containers(void **state)
{
	struct unmanaged_facts f = usual;

	(void)state;
	f.uid = 0;
	check(f, UNMANAGED_SPARE_ROOT);
	f.is_foreign = true;
	check(f, UNMANAGED_END);
}

static void who_is_not_known_never(void **state)
{
	struct unmanaged_facts f = usual;

	(void)state;
	f.is_known = false;
	check(f, UNMANAGED_SPARE_UNKNOWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_users_compute_program_is_ended),
		cmocka_unit_test(graphics_never),
		cmocka_unit_test(what_does_not_compute_never),
		cmocka_unit_test(mps_never),
		cmocka_unit_test(displays_never),
		cmocka_unit_test(allotds_own_never),
		cmocka_unit_test(what_ran_before_never),
		cmocka_unit_test(the_machines_root_never_but_a_containers),
		cmocka_unit_test(who_is_not_known_never),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
