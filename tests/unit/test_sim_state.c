// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/rand.h"
#include "base/size.h"
#include "sim/state/state.h"
#include "sim_driver.h"

#define FREE (143771 * MIB - 629824 * KIB)
#define CARD (FREE - FREE % SIM_PAGE_BYTES) /* what whole pages can fill */

static struct sim_state *open_it(void)
{
	struct sim_state *state = NULL;
	struct err err = { 0 };

	if (sim_state_open(sim_driver_dir(), &state, &err)) {
		fprintf(stderr, "%s\n", err.text);
		abort();
	}
	return state;
}

static uint64_t used(struct sim_state *state)
{
	struct sim_memory memory;

	sim_state_memory(state, 0, &memory);
	return memory.used_bytes;
}

static void a_reader_sees_what_is_taken_and_given(void **unused)
{
	struct sim_state *reader = open_it(), *holder = open_it();
	struct sim_proc proc;
	struct sim_memory memory;

	(void)unused;
	assert_int_equal(sim_state_take(holder, 0, SIM_USE_ALLOC, SIM_PAGE_BYTES), -EINVAL);
	assert_int_equal(sim_state_attach(holder), 0);
	assert_int_equal(sim_state_take(holder, 0, SIM_USE_ALLOC, 10 * SIM_PAGE_BYTES), 0);
	assert_int_equal(sim_state_take(holder, 0, SIM_USE_CONTEXT, SIM_PAGE_BYTES), 0);
	sim_state_memory(reader, 0, &memory);
	assert_int_equal(memory.used_bytes, 11 * SIM_PAGE_BYTES);
	assert_int_equal(memory.free_bytes, FREE - 11 * SIM_PAGE_BYTES);
	assert_int_equal(memory.total_bytes,
			 memory.free_bytes + memory.used_bytes + memory.reserved_bytes);
	assert_int_equal(sim_state_procs(reader, 0, &proc, 1), 1);
	assert_int_equal(proc.pid, getpid());
	assert_int_equal(proc.used_bytes, 11 * SIM_PAGE_BYTES);
	assert_int_equal(proc.use_bytes[SIM_USE_CONTEXT], SIM_PAGE_BYTES);
	assert_true(proc.start_ticks > 0);
	sim_state_give(holder, 0, SIM_USE_ALLOC, 100 * SIM_PAGE_BYTES);
	assert_int_equal(used(reader), SIM_PAGE_BYTES);
	sim_state_close(holder);
	assert_int_equal(used(reader), 0);
	assert_int_equal(sim_state_procs(reader, 0, NULL, 0), 0);
	sim_state_close(reader);
}

static void a_full_card_refuses_and_keeps_the_count(void **unused)
{
	struct sim_state *state = open_it();

	(void)unused;
	assert_int_equal(sim_state_attach(state), 0);
	assert_int_equal(sim_state_take(state, 0, SIM_USE_ALLOC, CARD + SIM_PAGE_BYTES), -ENOMEM);
	assert_int_equal(sim_state_take(state, 0, SIM_USE_ALLOC, UINT64_MAX), -ENOMEM);
	assert_int_equal(sim_state_take(state, 0, SIM_USE_ALLOC, CARD), 0);
	assert_int_equal(sim_state_take(state, 0, SIM_USE_POOL, SIM_PAGE_BYTES), -ENOMEM);
	assert_int_equal(used(state), CARD);
	sim_state_close(state);
}

/* takes and gives for ever; the parent kills it at no particular instruction */
static int churn(void *unused)
{
	struct sim_state *state = open_it();
	struct rand_state r = { (uint64_t)getpid() };

	(void)unused;
	if (sim_state_attach(state))
		return 1;
	for (;;) {
		uint64_t bytes = (1 + rand_below(&r, 64)) * SIM_PAGE_BYTES;

		if (!sim_state_take(state, 0, SIM_USE_ALLOC, bytes) && rand_below(&r, 8))
			sim_state_give(state, 0, SIM_USE_ALLOC, bytes);
	}
}

static void killed_holders_leave_nothing_and_block_nobody(void **unused)
{
	struct sim_state *reader = open_it();
	struct rand_state r = { 7 };

	(void)unused;
	for (int round = 0; round < 8; round++) {
		pid_t pids[6];

		for (int i = 0; i < 6; i++)
			pids[i] = sim_driver_child(churn, NULL);
		usleep((useconds_t)(5000 + rand_below(&r, 10000)));
		assert_true(used(reader) <= CARD);
		for (int i = 0; i < 6; i++)
			kill(pids[i], SIGKILL);
		for (int i = 0; i < 6; i++)
			assert_int_equal(sim_driver_wait(pids[i]), 128 + SIGKILL);
		assert_int_equal(used(reader), 0);
	}
	sim_state_close(reader);
}

struct budget {
	_Atomic uint64_t over, taken;
};

/* never more than the card, as seen by each of four at each step */
static int random_steps(void *argument)
{
	struct budget *budget = argument;
	struct sim_state *state = open_it();
	struct rand_state r = { (uint64_t)getpid() };
	uint64_t held = 0;

	if (sim_state_attach(state))
		return 1;
	for (int i = 0; i < 2000; i++) {
		uint64_t bytes = (1 + rand_below(&r, 8192)) * SIM_PAGE_BYTES;

		if (rand_below(&r, 2) && !sim_state_take(state, 0, SIM_USE_ALLOC, bytes)) {
			/* before this addition or after it: nobody can have more than the card */
			if (atomic_fetch_add(&budget->taken, bytes) + bytes > CARD)
				budget->over++;
			held += bytes;
		} else if (held >= bytes) {
			budget->taken -= bytes;
			sim_state_give(state, 0, SIM_USE_ALLOC, bytes);
			held -= bytes;
		}
	}
	budget->taken -= held;
	sim_state_give(state, 0, SIM_USE_ALLOC, held);
	return 0;
}

static void four_processes_never_exceed_the_card(void **unused)
{
	struct budget *budget =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct sim_state *reader = open_it();
	pid_t pids[4];

	(void)unused;
	assert_ptr_not_equal(budget, MAP_FAILED);
	for (int i = 0; i < 4; i++)
		pids[i] = sim_driver_child(random_steps, budget);
	for (int i = 0; i < 4; i++)
		assert_int_equal(sim_driver_wait(pids[i]), 0);
	assert_int_equal(budget->over, 0);
	assert_int_equal(used(reader), 0);
	sim_state_close(reader);
	munmap(budget, 4096);
}

static int hold_and_fork(void *pipe_fd)
{
	struct sim_state *state = open_it();
	int fd = *(int *)pipe_fd;

	if (sim_state_attach(state) || sim_state_take(state, 0, SIM_USE_ALLOC, 4 * SIM_PAGE_BYTES))
		return 1;
	if (!fork()) {
		/* closes everything, as daemons do, and outlives its parent */
		for (int i = 0; i < 64; i++) {
			if (i != fd)
				close(i);
		}
		sleep(5);
		_exit(0);
	}
	/* so does the holder, which must not lose its memory by it */
	for (int i = 3; i < 64; i++) {
		if (i != fd)
			close(i);
	}
	if (write(fd, "x", 1) != 1)
		return 1;
	pause();
	return 0;
}

static void a_child_does_not_keep_its_dead_parents_memory(void **unused)
{
	struct sim_state *reader = open_it();
	int fds[2];
	char byte;
	pid_t pid;

	(void)unused;
	assert_int_equal(pipe(fds), 0);
	pid = sim_driver_child(hold_and_fork, &fds[1]);
	assert_int_equal(read(fds[0], &byte, 1), 1);
	assert_int_equal(used(reader), 4 * SIM_PAGE_BYTES);
	kill(pid, SIGKILL);
	sim_driver_wait(pid);
	assert_int_equal(used(reader), 0);
	close(fds[0]);
	close(fds[1]);
	sim_state_close(reader);
}

static int stop_inside(void *unused)
{
	struct sim_state *state = open_it();

	(void)unused;
	if (sim_state_attach(state) || sim_state_take(state, 0, SIM_USE_ALLOC, SIM_PAGE_BYTES))
		return 1;
	sim_state_lock(state);
	raise(SIGSTOP);
	sim_state_unlock(state);
	return 0;
}

static void who_is_stopped_with_the_lock_holds_up_no_reader(void **unused)
{
	struct sim_state *reader = open_it();
	pid_t pid = sim_driver_child(stop_inside, NULL);
	int status;

	(void)unused;
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
	assert_int_equal(used(reader), SIM_PAGE_BYTES);
	kill(pid, SIGKILL);
	assert_int_equal(sim_driver_wait(pid), 128 + SIGKILL);
	assert_int_equal(used(reader), 0);
	sim_state_close(reader);
}

static void a_new_profile_counts_once_nobody_is_attached(void **unused)
{
	struct sim_state *holder = open_it(), *other;

	(void)unused;
	assert_int_equal(sim_state_attach(holder), 0);
	sim_driver_setup("small4g");
	other = open_it();
	assert_int_equal(sim_state_profile(other)->devices[0].memory_bytes, 143771 * MIB);
	sim_state_close(other);
	sim_state_close(holder);
	other = open_it();
	assert_int_equal(sim_state_profile(other)->devices[0].memory_bytes, 4096 * MIB);
	sim_state_close(other);
}

static void a_damaged_file_is_made_anew(void **unused)
{
	char path[128];
	struct sim_state *state;
	FILE *f;

	(void)unused;
	snprintf(path, sizeof(path), "%s/state", sim_driver_dir());
	f = fopen(path, "w");
	assert_non_null(f);
	fputs("not a state", f);
	fclose(f);
	state = open_it();
	assert_int_equal(used(state), 0);
	sim_state_close(state);
}

static void a_bad_profile_is_an_error_with_its_line(void **unused)
{
	char path[128];
	struct sim_state *state = NULL;
	struct err err = { 0 };
	FILE *f;

	(void)unused;
	snprintf(path, sizeof(path), "%s/profile.conf", sim_driver_dir());
	f = fopen(path, "w");
	assert_non_null(f);
	fputs("[device]\nmemory = lots\n", f);
	fclose(f);
	assert_true(sim_state_open(sim_driver_dir(), &state, &err) < 0);
	assert_null(state);
	assert_non_null(strstr(err.text, "profile.conf:2:"));
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_reader_sees_what_is_taken_and_given),
		cmocka_unit_test(a_full_card_refuses_and_keeps_the_count),
		cmocka_unit_test(killed_holders_leave_nothing_and_block_nobody),
		cmocka_unit_test(four_processes_never_exceed_the_card),
		cmocka_unit_test(a_child_does_not_keep_its_dead_parents_memory),
		cmocka_unit_test(who_is_stopped_with_the_lock_holds_up_no_reader),
		cmocka_unit_test(a_new_profile_counts_once_nobody_is_attached),
		cmocka_unit_test(a_damaged_file_is_made_anew),
		cmocka_unit_test(a_bad_profile_is_an_error_with_its_line),
	};

	sim_driver_setup(NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
