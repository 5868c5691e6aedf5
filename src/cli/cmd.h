// SPDX-License-Identifier: Apache-2.0
#ifndef CLI_CMD_H
#define CLI_CMD_H

/*
 * A verb of the command line: its words, its options, its function.  The options table is the one
 * source of parsing, --help, completion (cli/complete.h) and, by a test, the man pages.
 *
 * Exit codes: design of the interface: 0, 1 failed, 2 usage, 3 not supported, 4 not permitted,
 * 5 can never fit, 6 no such object, 7 no daemon; `run` has its own (125 …).
 */

#include <stdbool.h>

struct err;

struct opt {
	char letter;      /* 0: none */
	const char *name; /* long name; NULL ends a table */
	const char *arg;  /* the word for its value in the help; NULL: takes none */
	const char *help;
	int id; /* what the callback gets; unique in its table */
};

struct cmd {
	const char *name;
	const char *args;    /* "[options] -- CMD [ARG...]" */
	const char *summary; /* one line */
	const char *text;    /* the rest of the help; may be NULL */
	const struct opt *opts;
	const char
		*complete; /* its words, for the shells: "check show", "@jobs", "@gpus", "@files" */
	bool has_command;  /* its words are a command: options stand before the first of them */
	int (*run)(int argc, char **argv); /* argv[0] is the verb; returns the exit status */
};

#define COMMAND(name) extern const struct cmd cmd_##name;
#include "cli/commands.def"

/* all of them, in the order of the help */
extern const struct cmd *const cmd_all[];
extern const unsigned cmd_count;

/** cmd_find - NULL: there is no such verb */
const struct cmd *cmd_find(const char *verb);

/** every verb reads these two, they stand in each table */
#define OPT_COMMON                                                                               \
	{ 'h', "help", NULL, "show this help", OPT_ID_HELP },                                    \
		{ 0, "socket", "PATH", "talk to the allotd that listens there", OPT_ID_SOCKET }, \
	{                                                                                        \
		0, NULL, NULL, NULL, 0                                                           \
	}
#define OPT_OUTPUT                                                                        \
	{ 'o', "output", "FORM", "table, json or csv", OPT_ID_OUTPUT },                   \
		{ 0, "json", NULL, "the same as -o json", OPT_ID_JSON },                  \
		{ 0, "no-header", NULL, "table and csv without their first line",         \
		  OPT_ID_NO_HEADER },                                                     \
	{                                                                                 \
		0, "color", "WHEN", "auto (on a terminal), always or never", OPT_ID_COLOR \
	}
enum {
	OPT_ID_HELP = 1000,
	OPT_ID_SOCKET,
	OPT_ID_OUTPUT,
	OPT_ID_JSON,
	OPT_ID_NO_HEADER,
	OPT_ID_COLOR,
};

enum output {
	OUTPUT_TABLE,
	OUTPUT_JSON,
	OUTPUT_CSV,
};

enum color_when {
	COLOR_AUTO,
	COLOR_ALWAYS,
	COLOR_NEVER,
};

/** what the common options say */
struct common {
	const char *socket;
	enum output output;
	bool has_output; /* --output or --json was given */
	bool no_header;
	enum color_when color;
};

/**
 * opts_parse - parse the options of a verb
 * @on: called for each option that is not a common one; 0 or a negative errno with @err filled
 *
 * Returns the index of the first word that is no option; -ECANCELED when --help was printed;
 * -EINVAL when a line on stderr has said what is wrong.
 */
int opts_parse(const struct cmd *cmd, int argc, char **argv, struct common *common,
	       int (*on)(int id, const char *value, void *arg, struct err *err), void *arg);

/** cmd_help - the help of a verb, to stdout */
void cmd_help(const struct cmd *cmd);

/** complain - one line on stderr: "allot run: …" (never through the log: it is no log) */
void complain(const char *verb, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/** opts_exit - the exit status after opts_parse returned @r < 0: 0 for --help, else @usage */
int opts_exit(int r, int usage);

#endif
