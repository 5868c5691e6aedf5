// SPDX-License-Identifier: Apache-2.0
/* The computed time of a simulated device, with the clock as an argument. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "sim/cuda/timeline.h"
#include "sim_driver.h"

#define US ((uint64_t)1000)
#define MS (1000 * US)
#define T0 (1000 * MS)

static struct timeline timeline;

static void one_group_has_the_device(void **unused)
{
	struct timeline_group g;

	(void)unused;
	timeline_group_init(&g, &timeline, 0);
	assert_int_equal(timeline_submit(&g, TIMELINE_WIDE, T0, T0, 10 * US), T0 + 10 * US);
	/* wide kernels queue, narrow ones and copies do not queue behind them */
	assert_int_equal(timeline_submit(&g, TIMELINE_WIDE, T0, T0, 10 * US), T0 + 20 * US);
	assert_int_equal(timeline_submit(&g, TIMELINE_NARROW, T0, T0, 10 * US), T0 + 10 * US);
	assert_int_equal(timeline_submit(&g, TIMELINE_COPY_IN, T0, T0, 7 * US), T0 + 7 * US);
	assert_int_equal(timeline_submit(&g, TIMELINE_COPY_IN, T0, T0, 7 * US), T0 + 14 * US);
	assert_int_equal(timeline_submit(&g, TIMELINE_COPY_OUT, T0, T0, 7 * US), T0 + 7 * US);
	assert_int_equal(timeline_submit(&g, TIMELINE_WIDE, T0, T0 + MS, US), T0 + MS + US);
	assert_int_equal(timeline_submit(&g, TIMELINE_WIDE, T0, T0, UINT64_MAX), UINT64_MAX);
	timeline_group_fini(&g);
	timeline_group_fini(&g);
}

/* two saturating groups with these slices for 1 s of their own clock: shares in permille */
static void run_pair(uint64_t slice_a_ns, uint64_t slice_b_ns, unsigned *ret_a, unsigned *ret_b)
{
	const uint64_t kernel_ns = 100 * US, end_ns = T0 + 1000 * MS, depth_ns = 5 * MS;
	uint64_t tail[2] = { T0, T0 }, done[2] = { 0 };
	struct timeline_group g[2];

	for (int i = 0; i < 2; i++)
		timeline_group_init(&g[i], &timeline, 1);
	atomic_store(&g[0].device->slots[g[0].slot].slice_ns, slice_a_ns);
	atomic_store(&g[1].device->slots[g[1].slot].slice_ns, slice_b_ns);
	for (uint64_t now = T0; now < end_ns; now += 20 * US) {
		for (int i = 0; i < 2; i++) {
			while (tail[i] < now + depth_ns) {
				tail[i] = timeline_submit(&g[i], TIMELINE_WIDE, now, tail[i],
							  kernel_ns);
				done[i] += tail[i] <= end_ns;
			}
		}
	}
	*ret_a = (unsigned)(done[0] * kernel_ns / MS);
	*ret_b = (unsigned)(done[1] * kernel_ns / MS);
	for (int i = 0; i < 2; i++)
		timeline_group_fini(&g[i]);
}

static void shares_follow_the_slices(void **unused)
{
	/* as measured on an H200, in permille of solo */
	static const struct {
		uint64_t slice_a_us, slice_b_us;
		unsigned a, b;
	} rows[] = {
		{ 0, 0, 451, 450 },       { 1000, 9000, 93, 864 },    { 1000, 4000, 183, 756 },
		{ 5000, 5000, 479, 479 }, { 20000, 20000, 495, 495 },
	};

	(void)unused;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		unsigned a, b;

		run_pair(rows[i].slice_a_us * US, rows[i].slice_b_us * US, &a, &b);
		/* shares of the sum within a point, the sum within three */
		if (abs((int)(a * 1000 / (a + b)) -
			(int)(rows[i].a * 1000 / (rows[i].a + rows[i].b))) > 10 ||
		    abs((int)(a + b) - (int)(rows[i].a + rows[i].b)) > 30)
			fail_msg("slices %u:%u us: %u and %u, measured %u and %u",
				 (unsigned)rows[i].slice_a_us, (unsigned)rows[i].slice_b_us, a, b,
				 rows[i].a, rows[i].b);
	}
}

static void an_idle_neighbour_costs_nothing(void **unused)
{
	struct timeline_group a, b;

	(void)unused;
	timeline_group_init(&a, &timeline, 2);
	timeline_group_init(&b, &timeline, 2);
	assert_int_equal(timeline_submit(&a, TIMELINE_WIDE, T0, T0, MS), T0 + MS);
	assert_true(timeline_submit(&b, TIMELINE_WIDE, T0, T0, MS) > T0 + 2 * MS);
	/* when the first is through, the other is alone again */
	assert_int_equal(timeline_submit(&a, TIMELINE_WIDE, T0 + 10 * MS, T0, MS), T0 + 11 * MS);
	/* another device is another matter */
	timeline_group_fini(&b);
	timeline_group_init(&b, &timeline, 3);
	assert_int_equal(timeline_submit(&b, TIMELINE_WIDE, T0 + 10 * MS, T0, MS), T0 + 11 * MS);
	timeline_group_fini(&a);
	timeline_group_fini(&b);
}

static void what_a_killed_process_queued_is_gone(void **unused)
{
	struct timeline_group g;
	int ready[2];
	char byte;
	pid_t pid;

	(void)unused;
	assert_int_equal(pipe(ready), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		timeline_group_init(&g, &timeline, 4);
		(void)timeline_submit(&g, TIMELINE_WIDE, T0, T0, 3600 * 1000 * MS);
		if (write(ready[1], "x", 1) == 1)
			pause();
		_exit(1);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	timeline_group_init(&g, &timeline, 4);
	assert_true(timeline_submit(&g, TIMELINE_WIDE, T0, T0, MS) > T0 + 2 * MS);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(timeline_submit(&g, TIMELINE_NARROW, T0 + 100 * MS, T0, MS),
			 T0 + 101 * MS);
	timeline_group_fini(&g);
	close(ready[0]);
	close(ready[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_group_has_the_device),
		cmocka_unit_test(shares_follow_the_slices),
		cmocka_unit_test(an_idle_neighbour_costs_nothing),
		cmocka_unit_test(what_a_killed_process_queued_is_gone),
	};

	sim_driver_setup(NULL);
	if (timeline_open(&timeline, sim_driver_dir()) < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
