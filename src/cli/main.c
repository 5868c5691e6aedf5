// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/cmd.h"
#include "wire/wire.h"

static const struct cmd *const commands[] = {
#define COMMAND(name) &cmd_##name,
#include "cli/commands.def"
};

static void help(FILE *to)
{
	fprintf(to, "Usage: allot VERB [options] …\n\n"
		    "Share a GPU: every job gets its part of the card, and waits instead of "
		    "failing.\n\n"
		    "  allot run --vram 20G -- python train.py\n\nVerbs:\n");
	for (unsigned i = 0; i < ARRAY_SIZE(commands); i++)
		fprintf(to, "  %-9s %s\n", commands[i]->name, commands[i]->summary);
	fprintf(to, "\n'allot VERB --help' shows a verb's options.\n");
}

static int unknown(const char *word)
{
	/* verbs that the interface names and this version has not: no typing errors */
	static const char *const later[] = { "submit", "top",     "queue", "freeze",
					     "thaw",   "suspend", "resume" };
	const char *names[ARRAY_SIZE(commands) + 1], *near;

	for (unsigned i = 0; i < ARRAY_SIZE(later); i++) {
		if (strcmp(word, later[i]) != 0)
			continue;
		complain(NULL, "verb '%s' is not in this version, see 'allot --help'", word);
		return WIRE_CODE_NOT_SUPPORTED;
	}
	for (unsigned i = 0; i < ARRAY_SIZE(commands); i++)
		names[i] = commands[i]->name;
	names[ARRAY_SIZE(commands)] = NULL;
	near = str_nearest(word, names);
	if (near)
		complain(NULL, "unknown verb '%s': did you mean '%s'?", word, near);
	else
		complain(NULL, "unknown verb '%s', see 'allot --help'", word);
	return WIRE_CODE_USAGE;
}

static const struct cmd *find(const char *verb)
{
	for (unsigned i = 0; i < ARRAY_SIZE(commands); i++)
		if (strcmp(commands[i]->name, verb) == 0)
			return commands[i];
	return NULL;
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
	if (strcmp(verb, "--help") == 0 || strcmp(verb, "-h") == 0 || strcmp(verb, "help") == 0) {
		cmd = verb[0] != '-' && argc > 2 ? find(argv[2]) : NULL;
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
	cmd = find(verb);
	if (!cmd)
		return unknown(verb);
	return finish(argc > 1 ? cmd->run(argc - 1, argv + 1) : cmd->run(1, bare));
}
