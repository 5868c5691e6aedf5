// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/cleanup.h"
#include "cli/cmd.h"

const struct cmd *const cmd_all[] = {
#define COMMAND(name) &cmd_##name,
#include "cli/commands.def"
};
const unsigned cmd_count = ARRAY_SIZE(cmd_all);

const struct cmd *cmd_find(const char *verb)
{
	for (unsigned i = 0; i < cmd_count; i++)
		if (strcmp(cmd_all[i]->name, verb) == 0)
			return cmd_all[i];
	return NULL;
}
