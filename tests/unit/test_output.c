// SPDX-License-Identifier: Apache-2.0
/* the bounded log of a job in the background */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "keeper/output.h"

#define MAX (64u << 10)

struct fixture {
	char dir[64], path[96], older[100];
	struct output o;
	int out, err; /* our own, which a rotation takes over */
};

static int open_log(const char *path)
{
	return open(path, O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
}

static int begin(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	strcpy(f->dir, "/tmp/allot-output-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	(void)str_print(f->path, sizeof(f->path), "%s/x.log", f->dir);
	(void)str_print(f->older, sizeof(f->older), "%s.1", f->path);
	f->out = dup(STDOUT_FILENO);
	f->err = dup(STDERR_FILENO);
	assert_int_equal(output_init(&f->o, open_log(f->path), f->path, MAX), 0);
	*state = f;
	return 0;
}

static int end(void **state)
{
	struct fixture *f = *state;

	output_started(&f->o);
	output_finish(&f->o);
	close(f->o.file);
	(void)dup2(f->out, STDOUT_FILENO);
	(void)dup2(f->err, STDERR_FILENO);
	close(f->out);
	close(f->err);
	(void)unlink(f->path);
	(void)unlink(f->older);
	(void)rmdir(f->dir);
	free(f);
	return 0;
}

static void say(struct fixture *f, const char *text)
{
	assert_int_equal(write(f->o.writer, text, strlen(text)), (ssize_t)strlen(text));
	output_read(&f->o);
}

static off_t size_of(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 ? st.st_size : -1;
}

static char *text_of(const char *path)
{
	static char text[2 * MAX];
	ssize_t n = fd_read_file(AT_FDCWD, path, text, sizeof(text));

	assert_true(n >= 0);
	return text;
}

static void what_is_said_is_written(void **state)
{
	struct fixture *f = *state;

	say(f, "one\n");
	say(f, "two\n");
	assert_string_equal(text_of(f->path), "one\ntwo\n");
	assert_int_equal(size_of(f->older), -1);
}

static void files_change_at_a_line_and_keep_their_bound(void **state)
{
	struct fixture *f = *state;
	char line[32];

	for (unsigned i = 0; i < 20000; i++) {
		(void)str_print(line, sizeof(line), "line %u\n", i);
		say(f, line);
	}
	assert_true(size_of(f->path) + size_of(f->older) <= MAX);
	assert_true(size_of(f->older) > MAX / 2 - 32);
	assert_true(str_starts_with(text_of(f->older), "line "));
	assert_true(str_starts_with(text_of(f->path), "line "));
	assert_non_null(strstr(text_of(f->path), "line 19999\n"));
	assert_int_equal(size_of(f->path), (off_t)f->o.size);
}

static void what_cannot_be_written_is_counted_and_told(void **state)
{
	struct fixture *f = *state;
	struct rlimit before, small;

	say(f, "kept\n");
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	small = before;
	small.rlim_cur = 5;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	say(f, "lost 1\n");
	say(f, "lost 2\n");
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	say(f, "there again\n");
	assert_string_equal(text_of(f->path),
			    "kept\n"
			    "allot: 14 bytes of output are missing here: File too "
			    "large\n"
			    "there again\n");
	assert_int_equal(f->o.lost, 0);
}

static void a_file_moved_away_by_hand_is_emptied_in_place(void **state)
{
	struct fixture *f = *state;
	char moved[128], line[1024];

	(void)str_print(moved, sizeof(moved), "%s/moved", f->dir);
	assert_int_equal(rename(f->path, moved), 0);
	memset(line, 'x', sizeof(line) - 2);
	line[sizeof(line) - 2] = '\n';
	line[sizeof(line) - 1] = '\0';
	for (unsigned i = 0; i < 200; i++)
		say(f, line);
	assert_true(size_of(moved) <= MAX / 2);
	assert_int_equal(size_of(f->path), -1); /* nothing is put where somebody took it away */
	(void)unlink(moved);
}

static void a_link_in_its_place_is_not_followed(void **state)
{
	struct fixture *f = *state;
	char target[128], line[1024];

	(void)str_print(target, sizeof(target), "%s/target", f->dir);
	assert_int_equal(unlink(f->path), 0);
	assert_int_equal(symlink(target, f->path), 0);
	memset(line, 'x', sizeof(line) - 1);
	line[sizeof(line) - 1] = '\0';
	for (unsigned i = 0; i < 200; i++)
		say(f, line);
	assert_int_equal(size_of(target), -1);
}

static void the_end_drains_the_pipe(void **state)
{
	struct fixture *f = *state;
	int i;

	for (i = 0; i < 1000; i++)
		assert_int_equal(write(f->o.writer, "0123456789\n", 11), 11);
	output_started(&f->o);
	output_finish(&f->o);
	assert_int_equal(size_of(f->path), 11000);
	assert_int_equal(f->o.reader, -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_said_is_written, begin, end),
		cmocka_unit_test_setup_teardown(files_change_at_a_line_and_keep_their_bound, begin,
						end),
		cmocka_unit_test_setup_teardown(what_cannot_be_written_is_counted_and_told, begin,
						end),
		cmocka_unit_test_setup_teardown(a_file_moved_away_by_hand_is_emptied_in_place,
						begin, end),
		cmocka_unit_test_setup_teardown(a_link_in_its_place_is_not_followed, begin, end),
		cmocka_unit_test_setup_teardown(the_end_drains_the_pipe, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
