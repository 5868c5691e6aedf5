// SPDX-License-Identifier: Apache-2.0
/* the tables of the verbs: what parsing, help and completion take for granted */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <string.h>

#include "base/str.h"
#include "cli/cmd.h"
#include "cli/complete.h"

static void every_value_is_known_to_completion(void **state)
{
	(void)state;
	for (unsigned i = 0; i < cmd_count; i++)
		for (const struct opt *o = cmd_all[i]->opts; o->name; o++)
			if (o->arg && !complete_values(o->arg))
				fail_msg("allot %s --%s: %s is not in complete.c", cmd_all[i]->name,
					 o->name, o->arg);
	assert_null(complete_values("NO-SUCH"));
}

static void options_are_unique_in_their_verb(void **state)
{
	(void)state;
	for (unsigned i = 0; i < cmd_count; i++)
		for (const struct opt *o = cmd_all[i]->opts; o->name; o++)
			for (const struct opt *p = o + 1; p->name; p++)
				if (strcmp(o->name, p->name) == 0 || o->id == p->id ||
				    (o->letter && o->letter == p->letter))
					fail_msg("allot %s: --%s and --%s collide",
						 cmd_all[i]->name, o->name, p->name);
}

static void every_verb_has_its_words(void **state)
{
	(void)state;
	for (unsigned i = 0; i < cmd_count; i++) {
		const struct cmd *cmd = cmd_all[i];
		bool has_help = false, has_socket = false;

		assert_ptr_equal(cmd_find(cmd->name), cmd);
		assert_non_null(cmd->args);
		assert_true(cmd->summary[strlen(cmd->summary) - 1] != '.');
		for (const struct opt *o = cmd->opts; o->name; o++) {
			has_help = has_help || o->id == OPT_ID_HELP;
			has_socket = has_socket || o->id == OPT_ID_SOCKET;
			assert_true(o->help[0] && o->help[strlen(o->help) - 1] != '.');
		}
		assert_true(has_help && has_socket);
		if (strstr(cmd->args, "JOB"))
			assert_non_null(strstr(cmd->complete, "@jobs"));
	}
	assert_null(cmd_find("no-such"));
	assert_null(cmd_find(""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_value_is_known_to_completion),
		cmocka_unit_test(options_are_unique_in_their_verb),
		cmocka_unit_test(every_verb_has_its_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
