// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/cmd.h"
#include "cli/complete.h"
#include "wire/wire.h"

#define NAMES_MAX 64

static void help(FILE *to)
{
	fprintf(to, "Usage: allot VERB [options] …\n\n"
		    "Share a GPU: every job gets its part of the card, and waits instead of "
		    "failing.\n\n"
		    "  allot run --vram 20G -- python train.py\n\nVerbs:\n");
	for (unsigned i = 0; i < cmd_count; i++)
		fprintf(to, "  %-10s %s\n", cmd_all[i]->name, cmd_all[i]->summary);
	fprintf(to, "\n'allot VERB --help' shows a verb's options.\n");
}

static int unknown(const char *word)
{
	/* verbs that the interface names and this version has not: no typing errors */
	static const char *const later[] = { "submit", "top",     "queue", "freeze",
					     "thaw",   "suspend", "resume" };
	const char *names[NAMES_MAX + 1] = { 0 }, *near;

	for (unsigned i = 0; i < ARRAY_SIZE(later); i++) {
		if (strcmp(word, later[i]) != 0)
			continue;
		complain(NULL, "verb '%s' is not in this version, see 'allot --help'", word);
		return WIRE_CODE_NOT_SUPPORTED;
	}
	for (unsigned i = 0; i < cmd_count && i < NAMES_MAX; i++)
		names[i] = cmd_all[i]->name;
	near = str_nearest(word, names);
	if (near)
		complain(NULL, "unknown verb '%s': did you mean '%s'?", word, near);
	else
		complain(NULL, "unknown verb '%s', see 'allot --help'", word);
	return WIRE_CODE_USAGE;
}

/* a script that reads half an answer must hear that it is half */
static int finish(int status)
{
	bool failed = ferror(stdout);

	if (fflush(stdout) != 0 || failed) {
		complain(NULL, "cannot write the output: %s", strerror(errno ? errno : EIO));
		return status ? status : WIRE_CODE_FAILED;
	}
	return status;
}

int main(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "status"; /* bare `allot` shows the cards */
	char *bare[] = { (char *)"status", NULL };
	const struct cmd *cmd;

	fd_guard_standard();
	if (strcmp(verb, "__complete") == 0) /* asked by the shells' scripts */
		return complete_words(argc - 2, argv + 2);
	if (strcmp(verb, "--help") == 0 || strcmp(verb, "-h") == 0 || strcmp(verb, "help") == 0) {
		cmd = verb[0] != '-' && argc > 2 ? cmd_find(argv[2]) : NULL;
		if (verb[0] != '-' && argc > 2 && !cmd)
			return unknown(argv[2]);
		if (cmd)
			cmd_help(cmd);
		else
			help(stdout);
		return finish(0);
	}
	if (strcmp(verb, "--version") == 0 || strcmp(verb, "-V") == 0)
		verb = "version";
	/* options without a verb are those of status */
	if (argc > 1 && verb[0] == '-')
		return finish(cmd_status.run(argc, argv));
	cmd = cmd_find(verb);
	if (!cmd)
		return unknown(verb);
	return finish(argc > 1 ? cmd->run(argc - 1, argv + 1) : cmd->run(1, bare));
}
