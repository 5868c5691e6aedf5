// SPDX-License-Identifier: Apache-2.0
/* allot config: look a file over, show what holds and why, the defaults, read it again */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"
#include "cli/fields.h"
#include "cli/session.h"
#include "client/find.h"
#include "config/config.h"
#include "wire/wire.h"

enum {
	OPT_SYSTEM = 1,
	OPT_USER,
};

static const struct opt opts[] = {
	{ 0, "system", NULL, "for the machine's service", OPT_SYSTEM },
	{ 0, "user", NULL, "for a user's own allotd", OPT_USER },
	OPT_OUTPUT,
	OPT_COMMON,
};

struct asked {
	struct common common;
	enum config_mode mode;
	const char *file; /* NULL: none was named */
};

static int on_option(int id, const char *value, void *arg, struct err *err)
{
	struct asked *a = arg;

	(void)value, (void)err;
	a->mode = id == OPT_SYSTEM ? CONFIG_MODE_SYSTEM : CONFIG_MODE_USER;
	return 0;
}

/* the file that was named, else the one that allotd would read here */
static int choose_file(struct asked *a, char *path, size_t size)
{
	bool is_system =
		a->mode == CONFIG_MODE_SYSTEM || (a->mode == CONFIG_MODE_ANY && geteuid() == 0);

	if (a->file)
		return str_copy(path, size, a->file) ? 0 : -ENAMETOOLONG;
	a->mode = is_system ? CONFIG_MODE_SYSTEM : CONFIG_MODE_USER;
	return config_default_path(is_system, path, size);
}

/* ---- mistakes ---- */

struct mistake_row {
	char file[PATHS_MAX];
	uint32_t line, column; /* WIRE_UNKNOWN_U32: of the whole file */
	char text[256];
};

static const struct field mistake_fields[] = {
	{ .name = "file", .kind = FIELD_TEXT, .offset = offsetof(struct mistake_row, file) },
	{ .name = "line", .kind = FIELD_U32, .offset = offsetof(struct mistake_row, line) },
	{ .name = "column", .kind = FIELD_U32, .offset = offsetof(struct mistake_row, column) },
	{ .name = "text", .kind = FIELD_TEXT, .offset = offsetof(struct mistake_row, text) },
};
static const struct object mistake_object = OBJECT("MistakeList", mistake_fields);

static int print_mistake_rows(const struct asked *a, const char *path,
			      const struct config_report *report)
{
	struct printer p;
	int r = 0;

	printer_begin(&p, &a->common, &mistake_object);
	for (unsigned i = 0; r == 0 && i < report->n; i++) {
		const struct config_mistake *m = &report->at[i];
		struct mistake_row row = { .line = m->line ? m->line : WIRE_UNKNOWN_U32,
					   .column = m->line ? m->column : WIRE_UNKNOWN_U32 };

		(void)str_copy(row.file, sizeof(row.file), path);
		str_printable(row.file);
		(void)str_copy(row.text, sizeof(row.text), m->text);
		r = printer_add(&p, &row);
	}
	if (r == 0)
		return printer_end(&p);
	printer_drop(&p);
	complain("config", "out of memory");
	return WIRE_CODE_FAILED;
}

/* as compilers write them, so that editors jump there */
static void print_mistakes(const char *path, const struct config_report *report)
{
	char line[PATHS_MAX + 320];

	for (unsigned i = 0; i < report->n; i++) {
		config_mistake_text(path, &report->at[i], line, sizeof(line));
		str_printable(line);
		(void)fprintf(stderr, "%s\n", line); /* nowhere left to complain */
	}
	if (report->n_more)
		complain("config", "and %u mistakes more", report->n_more);
}

/* the exit status for a file that gave no configuration */
static int status_of(int r)
{
	return r == -EINVAL                  ? WIRE_CODE_USAGE
	       : r == -ENOENT                ? WIRE_CODE_NO_SUCH
	       : r == -EPERM || r == -EACCES ? WIRE_CODE_NOT_PERMITTED
					     : WIRE_CODE_FAILED;
}

static int check(struct asked *a)
{
	static struct config c;
	static struct config_report report;
	char path[PATHS_MAX];
	int r = choose_file(a, path, sizeof(path)), status;

	if (r < 0) {
		complain("config", "the path is too long");
		return WIRE_CODE_USAGE;
	}
	r = config_read_file(path, a->mode, &c, &report);
	if (r == -ENOENT && !a->file) {
		report.n = 0;
		if (a->common.output == OUTPUT_TABLE)
			printf("%s is not there: every option is at its default\n", path);
		r = 0;
	} else if (r == 0 && a->common.output == OUTPUT_TABLE) {
		printf("%s: no mistakes\n", path);
	}
	if (a->common.output == OUTPUT_TABLE && r < 0)
		print_mistakes(path, &report);
	status = a->common.output != OUTPUT_TABLE ? print_mistake_rows(a, path, &report) : 0;
	return status ? status : r < 0 ? status_of(r) : 0;
}

/* ---- what holds ---- */

struct option_row {
	char key[128];
	char value[WIRE_VALUE_MAX];
	char usual[WIRE_VALUE_MAX];
	char source[16];
	char from[PATHS_MAX + 32]; /* for people */
	char file[PATHS_MAX];
	uint32_t line; /* WIRE_UNKNOWN_U32: none */
	bool needs_restart;
	char note[WIRE_TEXT_MAX];
};

static const struct field option_fields[] = {
	{ .name = "key",
	  .title = "OPTION",
	  .kind = FIELD_TEXT,
	  .offset = offsetof(struct option_row, key),
	  .column = 1 },
	{ .name = "value",
	  .title = "VALUE",
	  .kind = FIELD_TEXT,
	  .offset = offsetof(struct option_row, value),
	  .column = 2 },
	{ .name = "default", .kind = FIELD_TEXT, .offset = offsetof(struct option_row, usual) },
	{ .name = "source", .kind = FIELD_TEXT, .offset = offsetof(struct option_row, source) },
	{ .title = "FROM",
	  .kind = FIELD_TEXT,
	  .offset = offsetof(struct option_row, from),
	  .column = 3 },
	{ .name = "file", .kind = FIELD_TEXT, .offset = offsetof(struct option_row, file) },
	{ .name = "line", .kind = FIELD_U32, .offset = offsetof(struct option_row, line) },
	{ .name = "needs_restart",
	  .kind = FIELD_BOOL,
	  .offset = offsetof(struct option_row, needs_restart) },
	{ .name = "note",
	  .title = "NOTE",
	  .kind = FIELD_TEXT,
	  .offset = offsetof(struct option_row, note),
	  .column = 4,
	  .least = 8 },
};
static const struct object option_object = OBJECT("OptionList", option_fields);

static void set_origin(struct option_row *row, uint32_t source, const char *file, uint32_t line)
{
	static const char *const names[] = { "default", "file", "flag", "environment" };
	const char *name = source < ARRAY_SIZE(names) ? names[source] : "?";

	row->line = WIRE_UNKNOWN_U32;
	(void)str_copy(row->source, sizeof(row->source), name);
	(void)str_copy(row->from, sizeof(row->from), name);
	if (source != WIRE_CONFIG_FILE)
		return;
	row->line = line;
	(void)str_copy(row->file, sizeof(row->file), file);
	str_printable(row->file);
	(void)str_print(row->from, sizeof(row->from), "%s:%u", row->file, line);
}

static int on_item(const void *item, void *arg)
{
	const struct wire_config_item *m = item;
	struct option_row row = { .needs_restart = (m->flags & WIRE_CONFIG_RESTART) != 0 };

	(void)str_copy(row.key, sizeof(row.key), m->key);
	(void)str_copy(row.value, sizeof(row.value), m->value);
	(void)str_copy(row.usual, sizeof(row.usual), m->usual);
	(void)str_copy(row.note, sizeof(row.note), m->note);
	str_printable(row.key);
	str_printable(row.value);
	str_printable(row.note);
	set_origin(&row, m->source, m->file, m->line);
	return printer_add(arg, &row);
}

struct file_listing {
	const struct config *config;
	struct printer *printer;
	int r;
};

static void on_row(const struct config_row *from, void *arg)
{
	struct file_listing *l = arg;
	struct option_row row = { .needs_restart = (from->flags & CONFIG_RESTART) != 0 };

	(void)str_copy(row.key, sizeof(row.key), from->key);
	(void)str_copy(row.value, sizeof(row.value), from->value);
	(void)str_copy(row.usual, sizeof(row.usual), from->usual);
	set_origin(&row, (uint32_t)from->origin.source, l->config->file, from->origin.line);
	if (l->r == 0)
		l->r = printer_add(l->printer, &row);
}

/* what a file says; @may_be_missing: then the defaults */
static int show_file(struct asked *a, bool may_be_missing)
{
	static struct config c;
	static struct config_report report;
	struct file_listing l = { .config = &c };
	char path[PATHS_MAX];
	struct printer p;
	int r = choose_file(a, path, sizeof(path));

	if (r == 0)
		r = config_read_file(path, a->mode, &c, &report);
	if (r == -ENOENT && may_be_missing) {
		config_defaults(&c);
		r = 0;
	}
	if (r < 0) {
		print_mistakes(path, &report);
		return status_of(r);
	}
	printer_begin(&p, &a->common, &option_object);
	l.printer = &p;
	config_each(&c, on_row, &l);
	if (l.r == 0)
		return printer_end(&p);
	printer_drop(&p);
	complain("config", "out of memory");
	return WIRE_CODE_FAILED;
}

static int show(struct asked *a)
{
	struct client_place place;
	struct wire_config ask = { 0 };
	struct err err = { 0 };
	struct printer p;
	struct client c;
	int r;

	if (a->file)
		return show_file(a, false);
	r = client_find(a->common.socket, &place, &err);
	r = r == 0 ? client_connect_place(&place, &err) : r;
	if (r == -ENOENT || r == -ECONNREFUSED) {
		complain("config", "no allotd runs: this is what one would read");
		return show_file(a, true);
	}
	client_init(&c, r < 0 ? -1 : r);
	printer_begin(&p, &a->common, &option_object);
	if (r >= 0)
		r = client_list(&c, WIRE_CONFIG, &ask, WIRE_CONFIG_ITEM, on_item, &p,
				SESSION_TIMEOUT_NS, &err);
	if (r < 0) {
		printer_drop(&p);
		r = session_failed("config", &c, r, &err);
	} else {
		r = printer_end(&p);
	}
	client_fini(&c);
	return r;
}

/* ---- default, reload ---- */

static void put(const char *text, void *context)
{
	(void)fputs(text, context); /* main sees what could not be written */
}

static int print_default(struct asked *a)
{
	if (a->mode == CONFIG_MODE_ANY)
		a->mode = geteuid() == 0 ? CONFIG_MODE_SYSTEM : CONFIG_MODE_USER;
	config_print_default(a->mode, put, stdout);
	return 0;
}

static int on_reloaded(const void *item, void *arg)
{
	const struct wire_reloaded *m = item;
	char text[WIRE_TEXT_MAX];
	unsigned *n = arg;

	(void)str_copy(text, sizeof(text), m->text);
	str_printable(text);
	(void)fprintf(m->kind == WIRE_RELOADED_MISTAKE ? stderr : stdout, "%s\n", text);
	++*n;
	return 0;
}

static int reload(struct asked *a)
{
	struct wire_reload ask = { 0 };
	struct err err = { 0 };
	struct client c;
	unsigned n = 0;
	int r = session_open("config", &a->common, &c);

	if (r)
		return r;
	r = client_list(&c, WIRE_RELOAD, &ask, WIRE_RELOADED, on_reloaded, &n, SESSION_TIMEOUT_NS,
			&err);
	if (r < 0)
		r = session_failed("config", &c, r, &err);
	else if (n == 0)
		printf("read again: nothing is changed\n");
	client_fini(&c);
	return r;
}

/* ---- */

static const struct {
	const char *word;
	int (*run)(struct asked *a);
	bool takes_file;
} parts[] = {
	{ "check", check, true },
	{ "show", show, true },
	{ "default", print_default, false },
	{ "reload", reload, false },
};

static int choose_part(const char *word)
{
	const char *words[ARRAY_SIZE(parts) + 1] = { NULL }, *near;

	for (unsigned i = 0; i < ARRAY_SIZE(parts); i++) {
		if (word && strcmp(parts[i].word, word) == 0)
			return (int)i;
		words[i] = parts[i].word;
	}
	near = word ? str_nearest(word, words) : NULL;
	complain("config", "%s%s%s: check, show, default or reload%s%s%s",
		 word ? "unknown word '" : "", word ? word : "what", word ? "'" : "",
		 near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
	return -EINVAL;
}

static int run(int argc, char **argv)
{
	struct asked a = { 0 };
	int part = -1;

	/* options may stand before, between and behind the words */
	for (unsigned n = 0;; n++) {
		int r = opts_parse(&cmd_config, argc, argv, &a.common, on_option, &a);

		if (r < 0)
			return opts_exit(r, WIRE_CODE_USAGE);
		argc -= r;
		argv += r;
		if (n == 0)
			part = choose_part(argv[0]);
		if (part < 0)
			return WIRE_CODE_USAGE;
		if (argc == 0)
			return parts[part].run(&a);
		if (n == 0)
			continue;
		if (a.file || !parts[part].takes_file) {
			complain("config", "unexpected word '%s'", argv[0]);
			return WIRE_CODE_USAGE;
		}
		a.file = argv[0];
	}
}

const struct cmd cmd_config = {
	.name = "config",
	.args = "check|show [FILE] | default | reload",
	.summary = "allotd's configuration: find mistakes, show what holds, read it again",
	.text = "  allot config check [FILE]   every mistake with its line and column; needs no "
		"allotd\n"
		"  allot config show [FILE]    each option, its value, and where that comes from\n"
		"  allot config default        a commented file with every default\n"
		"  allot config reload         allotd reads its file again: all of it, or, with a\n"
		"                              mistake, nothing\n\n"
		"Without FILE: /etc/allot/allot.yaml for root, else "
		"$XDG_CONFIG_HOME/allot/allot.yaml.\n"
		"Exit: 0, 2 mistakes, 6 no such file.\n",
	.opts = opts,
	.complete = "check show default reload @files",
	.run = run,
};
