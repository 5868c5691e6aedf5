// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/cmd.h"

#define OPTS_MAX 48

void complain(const char *verb, const char *fmt, ...)
{
	char line[1024];
	size_t len;
	va_list ap;
	int n = snprintf(line, sizeof(line), "allot%s%s: ", verb ? " " : "", verb ? verb : "");

	len = n < 0 ? 0 : (size_t)n;
	va_start(ap, fmt);
	n = vsnprintf(line + len, sizeof(line) - len - 1, fmt, ap);
	va_end(ap);
	if (n > 0)
		len += (size_t)n < sizeof(line) - len - 1 ? (size_t)n : sizeof(line) - len - 2;
	line[len] = '\0';
	str_printable(line); /* words of others may stand in it */
	len = strlen(line);
	line[len++] = '\n';
	(void)fd_write_all(STDERR_FILENO, line, len); /* nowhere left to complain */
}

void cmd_help(const struct cmd *cmd)
{
	printf("Usage: allot %s %s\n\n%s.\n", cmd->name, cmd->args, cmd->summary);
	if (cmd->text)
		printf("\n%s", cmd->text);
	printf("\nOptions:\n");
	for (const struct opt *o = cmd->opts; o->name; o++) {
		char left[64];

		(void)str_print(left, sizeof(left), "%c%c%s --%s%s%s", o->letter ? '-' : ' ',
				o->letter ? o->letter : ' ', o->letter ? "," : " ", o->name,
				o->arg ? " " : "", o->arg ? o->arg : "");
		printf("  %-32s %s\n", left, o->help);
	}
}

int opts_exit(int r, int usage)
{
	return r == -ECANCELED ? 0 : usage;
}

static bool is_for_later(const char *bare)
{
	/* of the interface, not of this version: no typing errors */
	static const char *const later[] = { "compute", "swappable", "idle-timeout", "time" };

	for (unsigned i = 0; i < ARRAY_SIZE(later); i++)
		if (strcmp(bare, later[i]) == 0)
			return true;
	return false;
}

/* the word that getopt did not like, and what may have been meant */
static void complain_option(const struct cmd *cmd, int argc, char **argv, bool needs_value)
{
	const char *names[OPTS_MAX + 1], *word = argv[optind - 1], *near = NULL;
	char bare[64];
	unsigned n = 0;

	if (needs_value) {
		complain(cmd->name, "option '%s' needs a value, see 'allot %s --help'", word,
			 cmd->name);
		return;
	}
	for (const struct opt *o = cmd->opts; o->name && n < OPTS_MAX; o++)
		names[n++] = o->name;
	names[n] = NULL;
	if (optopt > 0 && optopt < 128 && !str_starts_with(word, "--")) {
		complain(cmd->name, "unknown option '-%c', see 'allot %s --help'", optopt,
			 cmd->name);
		return;
	}
	(void)argc;
	if (str_starts_with(word, "--")) {
		unsigned begins = 0;

		(void)str_copy(bare, sizeof(bare), word + 2);
		bare[strcspn(bare, "=")] = '\0';
		for (unsigned i = 0; i < n; i++)
			begins += str_starts_with(names[i], bare);
		if (begins > 1) {
			complain(cmd->name, "option '%s' may be one of %u: write it out", word,
				 begins);
			return;
		}
		if (strcmp(cmd->name, "run") == 0 && is_for_later(bare)) {
			complain(cmd->name, "option '--%s' is not in this version", bare);
			return;
		}
		near = str_nearest(bare, names);
		for (const struct opt *o = cmd->opts; o->name; o++) {
			if (strcmp(o->name, bare) == 0 && !o->arg) {
				complain(cmd->name, "option '--%s' takes no value", bare);
				return;
			}
		}
	}
	if (near)
		complain(cmd->name, "unknown option '%s': did you mean '--%s'?", word, near);
	else
		complain(cmd->name, "unknown option '%s', see 'allot %s --help'", word, cmd->name);
}

/* the number of a word in a list that NULL ends; -EINVAL */
static int parse_word(const char *s, const char *const *words, const char *what, struct err *err)
{
	for (int i = 0; words[i]; i++)
		if (strcmp(s, words[i]) == 0)
			return i;
	return err_set(err, -EINVAL, "%s '%s' is none of %s, %s, %s", what, s, words[0], words[1],
		       words[2]);
}

static int on_common(int id, const char *value, struct common *common, struct err *err)
{
	static const char *const outputs[] = { "table", "json", "csv", NULL };
	static const char *const colors[] = { "auto", "always", "never", NULL };
	int r;

	switch (id) {
	case OPT_ID_SOCKET:
		if (!*value)
			return err_set(err, -EINVAL, "'' is no path");
		common->socket = value;
		return 0;
	case OPT_ID_OUTPUT:
		r = parse_word(value, outputs, "output", err);
		common->has_output = true;
		common->output = r < 0 ? OUTPUT_TABLE : (enum output)r;
		return r < 0 ? r : 0;
	case OPT_ID_JSON:
		common->has_output = true;
		common->output = OUTPUT_JSON;
		return 0;
	case OPT_ID_NO_HEADER:
		common->no_header = true;
		return 0;
	case OPT_ID_COLOR:
		r = parse_word(value, colors, "color", err);
		common->color = r < 0 ? COLOR_AUTO : (enum color_when)r;
		return r < 0 ? r : 0;
	default:
		return -ENOENT;
	}
}

static const char *name_of(const struct cmd *cmd, int id)
{
	const struct opt *o = cmd->opts;

	while (o->name && o->id != id)
		o++;
	return o->name ? o->name : "";
}

int opts_parse(const struct cmd *cmd, int argc, char **argv, struct common *common,
	       int (*on)(int id, const char *value, void *arg, struct err *err), void *arg)
{
	struct option longs[OPTS_MAX + 1] = { 0 };
	char shorts[2 * OPTS_MAX + 4] = "";
	size_t n = 0, len;

	/* stop at the first word where the rest is a command's; elsewhere they may follow it */
	(void)str_copy(shorts, sizeof(shorts), cmd->has_command ? "+:" : ":");
	len = strlen(shorts);

	for (const struct opt *o = cmd->opts; o->name && n < OPTS_MAX; o++, n++) {
		longs[n] = (struct option){ .name = o->name,
					    .has_arg = o->arg ? required_argument : no_argument,
					    .val = o->id };
		if (!o->letter)
			continue;
		shorts[len++] = o->letter;
		if (o->arg)
			shorts[len++] = ':';
	}
	optind = 1;
	opterr = 0;
	for (;;) {
		struct err err = { 0 };
		int id, c = getopt_long(argc, argv, shorts, longs, NULL);

		if (c == -1)
			return optind;
		if (c == '?' || c == ':') {
			complain_option(cmd, argc, argv, c == ':');
			return -EINVAL;
		}
		id = c;
		for (const struct opt *o = cmd->opts; o->name; o++)
			if (o->letter && o->letter == c)
				id = o->id;
		if (id == OPT_ID_HELP) {
			cmd_help(cmd);
			return -ECANCELED;
		}
		c = on_common(id, optarg, common, &err);
		if (c == -ENOENT && on)
			c = on(id, optarg, arg, &err);
		if (c < 0) {
			complain(cmd->name, "--%s: %s", name_of(cmd, id), err.text);
			return -EINVAL;
		}
	}
}
