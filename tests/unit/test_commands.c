// SPDX-License-Identifier: Apache-2.0
/* the command lines of processes that answer at once, late, never */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/str.h"
#include "daemon/commands.h"

/* a /proc of our own: a fifo in place of cmdline is a process that does not answer */
static char root[64];

static void path_of(char *buf, size_t size, int pid, const char *name)
{
	assert_true(str_print(buf, size, "%s/%d%s%s", root, pid, *name ? "/" : "", name));
}

static void put(int pid, const char *name, const char *text)
{
	char path[128];
	FILE *f;

	path_of(path, sizeof(path), pid, name);
	f = fopen(path, "we");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static void make(int pid, const char *command)
{
	char path[128];

	path_of(path, sizeof(path), pid, "");
	assert_int_equal(mkdir(path, 0700), 0);
	put(pid, "comm", "prog\n");
	if (command) {
		put(pid, "cmdline", command);
		return;
	}
	path_of(path, sizeof(path), pid, "cmdline");
	assert_int_equal(mkfifo(path, 0600), 0);
}

/* whoever reads the fifo goes on */
static void let_go(int pid)
{
	char path[128];
	int fd;

	path_of(path, sizeof(path), pid, "cmdline");
	fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0)
		close(fd);
}

static void remove_all(void)
{
	static const char *const names[] = { "comm", "cmdline", "" };
	char path[128];

	for (int pid = 1; pid < 20; pid++)
		for (size_t i = 0; i < 3; i++) {
			path_of(path, sizeof(path), pid, names[i]);
			if (*names[i])
				(void)unlink(path);
			else
				(void)rmdir(path);
		}
	(void)rmdir(root);
}

static int set_up(void **state)
{
	(void)state;
	strcpy(root, "/tmp/allot-commands.XXXXXX");
	return mkdtemp(root) ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	remove_all();
	return 0;
}

static void read_as(struct commands *c, int pid, int result, const char *text)
{
	char buf[64];

	/* a busy machine may be late: then only the name is told, which the next time is not */
	for (int i = 0; i < 50 && commands_read(c, root, pid, buf, sizeof(buf)) != result; i++)
		usleep(10000);
	assert_string_equal(buf, text);
}

static void who_answers(void **state)
{
	struct commands *c;

	(void)state;
	make(1, "sleep 60");
	make(2, "");
	assert_int_equal(commands_new(&c), 0);
	read_as(c, 1, 0, "sleep 60");
	read_as(c, 2, 0, "[prog]");
	read_as(c, 3, -ESRCH, "");
	assert_null(commands_free(c));
}

static void who_hangs(void **state)
{
	struct commands *c;
	uint64_t start = clock_now_ns();
	char buf[64];

	(void)state;
	make(1, "good");
	for (int pid = 2; pid < 12; pid++)
		make(pid, NULL);
	assert_int_equal(commands_new(&c), 0);
	/* one that hangs is asked once, and does not keep the next one from answering */
	for (int i = 0; i < 100; i++) {
		assert_int_equal(commands_read(c, root, 2, buf, sizeof(buf)), -EAGAIN);
		assert_string_equal(buf, "[prog]");
	}
	read_as(c, 1, 0, "good");
	/* many of them cost a moment each, until nobody is left to ask */
	for (int i = 0; i < 10; i++)
		for (int pid = 2; pid < 12; pid++)
			assert_int_equal(commands_read(c, root, pid, buf, sizeof(buf)), -EAGAIN);
	assert_int_equal(commands_read(c, root, 1, buf, sizeof(buf)), -EAGAIN);
	assert_true(clock_now_ns() - start < 2 * NS_PER_S);
	/* and when they come back all is well */
	for (int pid = 2; pid < 12; pid++)
		let_go(pid);
	read_as(c, 1, 0, "good");
	assert_null(commands_free(c));
}

static void an_end_while_somebody_hangs(void **state)
{
	struct commands *c;
	char buf[64];

	(void)state;
	make(2, NULL);
	assert_int_equal(commands_new(&c), 0);
	assert_int_equal(commands_read(c, root, 2, buf, sizeof(buf)), -EAGAIN);
	assert_null(commands_free(c)); /* does not wait */
	let_go(2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(who_answers, set_up, tear_down),
		cmocka_unit_test_setup_teardown(who_hangs, set_up, tear_down),
		cmocka_unit_test_setup_teardown(an_end_while_somebody_hangs, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
