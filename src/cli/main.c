// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
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
	const char *names[ARRAY_SIZE(commands) + 1], *near;

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

int main(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "status"; /* bare `allot` shows the cards */
	char *bare[] = { (char *)"status", NULL };

	if (strcmp(verb, "--help") == 0 || strcmp(verb, "-h") == 0 || strcmp(verb, "help") == 0) {
		help(stdout);
		return 0;
	}
	if (strcmp(verb, "--version") == 0)
		verb = "version";
	for (unsigned i = 0; i < ARRAY_SIZE(commands); i++)
		if (strcmp(commands[i]->name, verb) == 0)
			return argc > 1 ? commands[i]->run(argc - 1, argv + 1)
					: commands[i]->run(1, bare);
	return unknown(verb);
}
