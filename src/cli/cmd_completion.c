// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/cmd.h"
#include "cli/completion_bash.h"
#include "cli/completion_fish.h"
#include "cli/completion_zsh.h"
#include "wire/wire.h"

static const struct opt opts[] = {
	OPT_COMMON,
};

static const struct {
	const char *shell, *script;
} scripts[] = {
	{ "bash", completion_bash },
	{ "zsh", completion_zsh },
	{ "fish", completion_fish },
};

static int run(int argc, char **argv)
{
	struct common common = { 0 };
	int r = opts_parse(&cmd_completion, argc, argv, &common, NULL, NULL);

	if (r < 0)
		return opts_exit(r, WIRE_CODE_USAGE);
	if (argc - r != 1) {
		complain("completion", "for which shell? bash, zsh or fish");
		return WIRE_CODE_USAGE;
	}
	for (unsigned i = 0; i < ARRAY_SIZE(scripts); i++) {
		if (strcmp(argv[r], scripts[i].shell) != 0)
			continue;
		fputs(scripts[i].script, stdout); /* main looks at the end */
		return 0;
	}
	complain("completion", "shell '%s' is none of bash, zsh, fish", argv[r]);
	return WIRE_CODE_USAGE;
}

const struct cmd cmd_completion = {
	.name = "completion",
	.args = "bash|zsh|fish",
	.summary = "A script that completes allot's words in a shell",
	.text = "  bash   eval \"$(allot completion bash)\"          in ~/.bashrc\n"
		"  zsh    eval \"$(allot completion zsh)\"           in ~/.zshrc, after compinit\n"
		"  fish   allot completion fish | source           in "
		"~/.config/fish/config.fish\n\n"
		"An installed allot has them where the shells look by themselves.\n",
	.opts = opts,
	.complete = "bash zsh fish",
	.run = run,
};
