// SPDX-License-Identifier: Apache-2.0
/* The small rules of a guest: guard, fork, what is said and how. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "shim/elf_find.h"
#include "shim/fork.h"
#include "shim/guard.h"
#include "shim/say.h"

static int outer_entered, inner_entered;
static jmp_buf away;

/* as a driver that meets our export: deeper on the stack */
static __attribute__((noinline)) void inner_hook(void)
{
	volatile char room[64] = { 0 };

	inner_entered += guard_enter() ? 1 : 0;
	(void)room;
}

static __attribute__((noinline)) void outer_hook(int leaves)
{
	volatile char room[64] = { 0 };

	if (!guard_enter())
		return;
	outer_entered++;
	inner_hook();
	if (!leaves)
		longjmp(away, 1);
	(void)room;
	guard_leave();
}

static void test_guard(void **state)
{
	(void)state;
	outer_hook(1);
	assert_false(guard_is_inside());
	outer_hook(1);
	assert_int_equal(outer_entered, 2);
	assert_int_equal(inner_entered, 0);
	/* left without guard_leave: the next hook is an outermost one all the same */
	if (setjmp(away) == 0)
		outer_hook(0);
	assert_true(guard_is_inside());
	outer_hook(1);
	assert_int_equal(outer_entered, 4);
	assert_int_equal(inner_entered, 0);
	assert_false(guard_is_inside());
}

static void differs_in(pid_t child, uint64_t parents)
{
	int status;

	if (child == 0) {
		uint64_t mine = fork_generation();

		_exit(mine != parents && mine != 0 && fork_generation() == mine ? 0 : 1);
	}
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void test_fork(void **state)
{
	static volatile uint64_t in_vfork;
	uint64_t mine = fork_generation();
	pid_t child;

	(void)state;
	assert_true(mine != 0);
	assert_true(fork_generation() == mine);
	differs_in(fork(), mine);
	differs_in((pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL), mine);
	assert_true(fork_generation() == mine);
	child = vfork();
	if (child == 0) {
		in_vfork = fork_generation();
		_exit(0);
	}
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_true(in_vfork == mine); /* the same memory, the same process to the driver */
}

/* What comes out on stderr while @talk runs; stderr is a pipe. */
static size_t heard(void (*talk)(void), char *text, size_t size)
{
	int ends[2], before = dup(STDERR_FILENO);
	ssize_t n;

	assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
	assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
	talk();
	n = read(ends[0], text, size - 1);
	text[n > 0 ? n : 0] = '\0';
	(void)dup2(before, STDERR_FILENO);
	(void)close(before);
	(void)close(ends[0]);
	(void)close(ends[1]);
	return n > 0 ? (size_t)n : 0;
}

static void talk_plainly(void)
{
	errno = 77;
	say("%s is %d", "it", 5);
	assert_int_equal(errno, 77);
}

static void talk_at_length(void)
{
	char text[5000];

	memset(text, 'x', sizeof(text) - 1);
	text[10] = '\n';
	text[20] = '\033';
	text[sizeof(text) - 1] = '\0';
	say("%s", text);
}

static void talk_on_and_on(void)
{
	for (int i = 0; i < 1000; i++)
		say_refusal("line %d", i);
}

static void talk_once(void)
{
	static bool said;

	for (int i = 0; i < 3; i++)
		say_once(&said, "once");
}

static void test_say(void **state)
{
	static char text[65536];
	unsigned lines = 0;

	(void)state;
	(void)heard(talk_plainly, text, sizeof(text));
	assert_string_equal(text, "allot: it is 5\n");
	assert_true(heard(talk_at_length, text, sizeof(text)) < 1100);
	assert_ptr_equal(strchr(text, '\n'),
			 text + strlen(text) - 1); /* one line whatever it holds */
	assert_null(strchr(text, '\033'));
	(void)heard(talk_on_and_on, text, sizeof(text));
	for (const char *c = text; *c; c++)
		lines += *c == '\n';
	assert_in_range(lines, 20, 22);
	(void)heard(talk_once, text, sizeof(text));
	assert_string_equal(text, "allot: once\n");
}

/* a reader that is gone, one that does not read, none at all: the host lives on */
static void test_say_to_nobody(void **state)
{
	int ends[2], before = dup(STDERR_FILENO);
	struct sigaction now;
	char full[4096] = { 0 };
	sigset_t pending;

	(void)state;
	assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
	assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
	while (write(ends[1], full, sizeof(full)) > 0)
		;
	say("to a full pipe");
	(void)close(ends[0]);
	(void)close(ends[1]);
	say("to a broken pipe"); /* would be SIGPIPE, and the end */
	(void)sigpending(&pending);
	assert_false(sigismember(&pending, SIGPIPE));
	assert_int_equal(sigaction(SIGPIPE, NULL, &now), 0);
	assert_true(now.sa_handler == SIG_DFL);
	(void)close(STDERR_FILENO);
	say("to a closed one");
	(void)dup2(before, STDERR_FILENO);
	(void)close(before);
}

static void test_elf_find(void **state)
{
	struct link_map *libc = elf_map_of((const void *)getpid);

	(void)state;
	assert_non_null(libc);
	assert_non_null(strstr(libc->l_name, "libc.so"));
	assert_ptr_equal(elf_find(libc, "getenv"), getenv);
	assert_ptr_equal(elf_next("getenv"), getenv);
	assert_null(elf_find(libc, "no_such_function"));
	assert_null(elf_next("no_such_function"));
	assert_null(elf_map_of(&libc)); /* the stack belongs to no library */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_guard),    cmocka_unit_test(test_fork),
		cmocka_unit_test(test_say),      cmocka_unit_test(test_say_to_nobody),
		cmocka_unit_test(test_elf_find),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
