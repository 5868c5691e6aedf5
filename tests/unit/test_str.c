// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/list.h"
#include "base/str.h"

static void copies_are_bounded(void **state)
{
	char small[4] = "xyz";

	(void)state;
	assert_true(str_copy(small, sizeof(small), "abc"));
	assert_string_equal(small, "abc");
	assert_false(str_copy(small, sizeof(small), "abcd"));
	assert_string_equal(small, "abc");
	assert_false(str_print(small, sizeof(small), "%d", 12345));
	assert_string_equal(small, "123");
	assert_false(str_is_terminated("abcd", 4));
	assert_true(str_is_terminated("abcd", 5));
}

static void nearest_words(void **state)
{
	static const char *const verbs[] = { "run", "ps", "status", "cancel", "doctor", NULL };

	(void)state;
	assert_string_equal(str_nearest("rn", verbs), "run");
	assert_string_equal(str_nearest("statsu", verbs), "status");
	assert_string_equal(str_nearest("cancle", verbs), "cancel");
	assert_null(str_nearest("frobnicate", verbs));
	assert_int_equal(str_distance("kitten", "sitting"), 3);
}

static void foreign_text_cannot_steer_a_terminal(void **state)
{
	char text[] = "a\033[2Jb\nc\x7f";

	(void)state;
	str_printable(text);
	assert_string_equal(text, "a?[2Jb?c?");
}

/* one job with such a name made `ps -o json` fail for everybody */
static void foreign_text_becomes_utf8(void **state)
{
	static const char *const cases[][2] = {
		{ "plain", "plain" },
		{ "\xc3\xbc \xe5\x90\x8d \xf0\x9f\x98\x80",
		  "\xc3\xbc \xe5\x90\x8d \xf0\x9f\x98\x80" },
		{ "\xff\xfe", "??" },
		{ "cut \xe5\x90", "cut ??" },
		{ "\xc3", "?" },
		{ "\xc0\x80", "??" },           /* too long a form */
		{ "\xed\xa0\x80", "???" },      /* half of a UTF-16 pair */
		{ "\xf4\x90\x80\x80", "????" }, /* beyond Unicode */
		{ "C1 \xc2\x9b"
		  "31m",
		  "C1 ?31m" },
		{ "rtl \xe2\x80\xae"
		  "exe",
		  "rtl ?exe" },
		{ "line \xe2\x80\xa8"
		  "two",
		  "line ?two" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[64];

		assert_true(str_copy(text, sizeof(text), cases[i][0]));
		str_printable(text);
		assert_string_equal(text, cases[i][1]);
	}
}

static void errors_carry_their_place(void **state)
{
	struct err err;

	(void)state;
	assert_int_equal(err_set(&err, -EINVAL, "bad '%s'", "x"), -EINVAL);
	assert_int_equal(err_prefix(&err, -ERANGE, "line %d", 3), -ERANGE);
	assert_string_equal(err.text, "line 3: bad 'x'");
	assert_int_equal(err_set(NULL, -EINVAL, "nobody listens"), -EINVAL);
}

struct item {
	int value;
	struct list link;
};

static void lists_survive_half_built_objects(void **state)
{
	struct list head;
	struct item a = { .value = 1 }, b = { .value = 2 }, unlinked = { 0 }, *it, *tmp;
	int sum = 0;

	(void)state;
	list_init(&head);
	list_del(&unlinked.link);
	list_append(&head, &a.link);
	list_append(&head, &b.link);
	list_for_each (it, &head, link)
		sum = sum * 10 + it->value;
	assert_int_equal(sum, 12);
	list_for_each_safe (it, tmp, &head, link)
		list_del(&it->link);
	assert_true(list_is_empty(&head));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(copies_are_bounded),
		cmocka_unit_test(nearest_words),
		cmocka_unit_test(foreign_text_cannot_steer_a_terminal),
		cmocka_unit_test(foreign_text_becomes_utf8),
		cmocka_unit_test(errors_carry_their_place),
		cmocka_unit_test(lists_survive_half_built_objects),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
