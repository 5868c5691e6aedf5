// SPDX-License-Identifier: Apache-2.0
/* YAML's events to a struct config; every mistake with its place */
#include "config/config.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"
#include "config/gpu_id.h"
#include "config/text.h"
#include "config/value.h"

#define DEPTH_MAX 16 /* nothing here goes deeper than 4; what does is skipped, up to here */
#define KEY_MAX   64
#define GPUS      "gpus"

struct reader {
	yaml_parser_t parser;
	yaml_event_t event; /* the current one */
	bool has_event;
	bool is_over; /* nothing more can be read */
	unsigned depth;
	const char *text;
	size_t len;
	enum config_mode mode;
	struct config *c;
	struct config_report *report;
	unsigned section_lines[16]; /* where each began; 0: not yet */
	unsigned gpus_line;
};

__attribute__((format(printf, 4, 5))) static void mistake_at(struct reader *r, unsigned line,
							     unsigned column, const char *fmt, ...)
{
	struct config_report *report = r->report;
	struct config_mistake *m = &report->at[report->n];
	va_list ap;

	if (report->n == CONFIG_MISTAKES_MAX) {
		report->n_more++;
		return;
	}
	report->n++;
	m->line = line;
	m->column = column;
	va_start(ap, fmt);
	(void)vsnprintf(m->text, sizeof(m->text), fmt, ap); /* cut when too long */
	va_end(ap);
	str_printable(m->text); /* words of the file stand in it */
}

#define mistake(r, mark, ...) \
	mistake_at(r, (unsigned)(mark).line + 1, (unsigned)(mark).column + 1, __VA_ARGS__)

/* ---- events ---- */

static void say_syntax(struct reader *r)
{
	const yaml_parser_t *p = &r->parser;
	unsigned line = (unsigned)p->problem_mark.line + 1;
	unsigned column = (unsigned)p->problem_mark.column + 1;
	int c;

	if (p->error == YAML_MEMORY_ERROR) {
		mistake_at(r, 0, 0, "no memory to read it");
		return;
	}
	if (p->error == YAML_READER_ERROR)
		text_place(r->text, r->len, p->problem_offset, &line, &column);
	c = text_at(r->text, r->len, line, column);
	if (c == '\t')
		mistake_at(r, line, column,
			   "a tab: YAML is indented by blanks; what follows was not read");
	else if (c == '@' || c == '`' || c == '%')
		mistake_at(r, line, column,
			   "a word cannot begin with '%c': put it in quotes; what follows was not "
			   "read",
			   c);
	else
		mistake_at(r, line, column, "this is no YAML: %s; what follows was not read",
			   p->problem ? p->problem : "unknown");
}

/* what YAML has and this file must not have; told once, where it stands */
static void refuse_extras(struct reader *r)
{
	const yaml_event_t *e = &r->event;
	const yaml_char_t *anchor = NULL, *tag = NULL;

	if (e->type == YAML_ALIAS_EVENT) {
		mistake(r, e->start_mark, "an alias (*%s) is not taken: write the value out",
			(const char *)e->data.alias.anchor);
		return;
	}
	if (e->type == YAML_SCALAR_EVENT) {
		anchor = e->data.scalar.anchor;
		tag = e->data.scalar.tag;
	} else if (e->type == YAML_SEQUENCE_START_EVENT) {
		anchor = e->data.sequence_start.anchor;
		tag = e->data.sequence_start.tag;
	} else if (e->type == YAML_MAPPING_START_EVENT) {
		anchor = e->data.mapping_start.anchor;
		tag = e->data.mapping_start.tag;
	}
	if (anchor)
		mistake(r, e->start_mark, "an anchor (&%s) is not taken: write the value out",
			(const char *)anchor);
	if (tag)
		mistake(r, e->start_mark, "a tag (%s) is not taken: leave it out",
			(const char *)tag);
}

/* the next event is the current one; YAML_NO_EVENT: nothing more can be read */
static yaml_event_type_t next(struct reader *r)
{
	if (r->has_event)
		yaml_event_delete(&r->event);
	r->has_event = false;
	if (r->is_over)
		return YAML_NO_EVENT;
	if (!yaml_parser_parse(&r->parser, &r->event)) {
		say_syntax(r);
		r->is_over = true;
		return YAML_NO_EVENT;
	}
	r->has_event = true;
	refuse_extras(r);
	if (r->event.type == YAML_MAPPING_START_EVENT || r->event.type == YAML_SEQUENCE_START_EVENT)
		r->depth++;
	if (r->event.type == YAML_MAPPING_END_EVENT || r->event.type == YAML_SEQUENCE_END_EVENT)
		r->depth--;
	if (r->depth > DEPTH_MAX) {
		mistake(r, r->event.start_mark,
			"nested more than %d deep; what follows was not read", DEPTH_MAX);
		r->is_over = true;
	}
	return r->event.type;
}

/* the rest of the node that the current event begins */
static void skip(struct reader *r)
{
	unsigned outer = r->depth - 1;

	if (r->event.type != YAML_MAPPING_START_EVENT && r->event.type != YAML_SEQUENCE_START_EVENT)
		return;
	while (r->depth > outer && next(r) != YAML_NO_EVENT)
		;
}

/* a plain nothing: "key:" and no more, "~", "null" */
static bool is_null(const yaml_event_t *e)
{
	const char *text = (const char *)e->data.scalar.value;

	return e->type == YAML_SCALAR_EVENT && e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
	       (!*text || strcmp(text, "~") == 0 || strcmp(text, "null") == 0);
}

/* the text of the current scalar; NULL after a mistake was told */
static const char *scalar(struct reader *r, const char *what)
{
	const yaml_event_t *e = &r->event;
	const char *text = (const char *)e->data.scalar.value;

	if (e->type == YAML_ALIAS_EVENT || e->type == YAML_NO_EVENT)
		return NULL; /* told */
	if (e->type != YAML_SCALAR_EVENT) {
		mistake(r, e->start_mark, "%s must be one word or number, not a %s", what,
			e->type == YAML_SEQUENCE_START_EVENT ? "list" : "section");
		return NULL;
	}
	if (is_null(e)) {
		mistake(r, e->start_mark, "%s has no value: give it one, or leave the line out",
			what);
		return NULL;
	}
	if (strlen(text) != e->data.scalar.length) {
		mistake(r, e->start_mark, "%s holds a byte of zero", what);
		return NULL;
	}
	return text;
}

/* the key of the current event into @key; false: it was refused, and its value is skipped */
static bool take_key(struct reader *r, char key[KEY_MAX], yaml_mark_t *ret_mark)
{
	const char *text;

	*ret_mark = r->event.start_mark;
	if (is_null(&r->event)) {
		mistake(r, r->event.start_mark, "a key is missing before the ':'");
		text = NULL;
	} else {
		text = scalar(r, "a key");
	}
	if (text && strcmp(text, "<<") == 0) {
		mistake(r, *ret_mark, "a merge key (<<) is not taken: write the values out");
		text = NULL;
	}
	if (text) {
		(void)str_copy(key, KEY_MAX, text); /* cut: no key of ours is so long */
	} else {
		skip(r);
		if (next(r) != YAML_NO_EVENT)
			skip(r);
	}
	return text != NULL;
}

/* ---- options ---- */

static int find_option(const char *section, const char *name)
{
	for (int i = 0; i < CONFIG_N_OPTIONS; i++)
		if (strcmp(config_options[i].section, section) == 0 &&
		    strcmp(config_options[i].name, name) == 0)
			return i;
	return -ENOENT;
}

/* the nearest name of the section, else where a key of that name does belong */
static void unknown_key(struct reader *r, yaml_mark_t mark, const char *section, const char *key)
{
	const char *names[CONFIG_N_OPTIONS + 3], *near;
	bool is_gpus = strcmp(section, GPUS) == 0;
	unsigned n = 0;

	for (unsigned i = 0; i < CONFIG_N_OPTIONS; i++)
		if (is_gpus ? config_options[i].is_gpu
			    : strcmp(config_options[i].section, section) == 0)
			names[n++] = config_options[i].name;
	if (is_gpus) {
		names[n++] = "id";
		names[n++] = "model";
	}
	names[n] = NULL;
	near = str_nearest(key, names);
	if (near) {
		mistake(r, mark, "unknown key '%s' in '%s': did you mean '%s'?", key, section,
			near);
		return;
	}
	for (unsigned i = 0; i < CONFIG_N_OPTIONS; i++) {
		if (strcmp(config_options[i].name, key) != 0)
			continue;
		mistake(r, mark, "key '%s' does not belong to '%s' but to '%s'", key, section,
			config_options[i].section);
		return;
	}
	mistake(r, mark, "unknown key '%s' in '%s'", key, section);
}

/* does this mode know the option's value?  kill is the machine's service's, too */
static void check_mode(struct reader *r, yaml_mark_t mark, const struct config_option *o,
		       const void *field, const char *what)
{
	bool is_kill = o->type == CONFIG_TYPE_UNMANAGED &&
		       *(const uint32_t *)field == CONFIG_UNMANAGED_KILL;

	if (r->mode == CONFIG_MODE_USER && (is_kill || (o->flags & CONFIG_SYSTEM_ONLY)))
		mistake(r, mark,
			"%s%s is for the machine's service: a user's own allotd cannot do that",
			what, is_kill ? " (kill)" : "");
}

static void read_list(struct reader *r, const struct config_option *o, const char *what,
		      void *field)
{
	struct err err = { 0 };

	while (next(r) != YAML_SEQUENCE_END_EVENT && r->has_event) {
		yaml_mark_t mark = r->event.start_mark;
		const char *text = scalar(r, what);

		if (text && value_read(o, text, field, &err) < 0)
			mistake(r, mark, "%s: %s", what, err.text);
		skip(r);
	}
}

/* the value of an option, the current event, into @field; @r->c's own when it is read */
static void read_value(struct reader *r, const struct config_option *o, const char *what,
		       void *field)
{
	yaml_mark_t mark = r->event.start_mark;
	unsigned before = r->report->n;
	struct err err = { 0 };
	const char *text;

	if (o->type == CONFIG_TYPE_PEOPLE) {
		if (r->event.type == YAML_SEQUENCE_START_EVENT) {
			read_list(r, o, what, field);
		} else {
			mistake(r, mark, "%s must be a list, as in [alice, \"@gpu-admins\"]", what);
			skip(r);
			return;
		}
	} else {
		text = scalar(r, what);
		if (text && value_read(o, text, field, &err) < 0)
			mistake(r, mark, "%s: %s", what, err.text);
		skip(r);
	}
	if (r->report->n == before)
		check_mode(r, mark, o, field, what);
}

static void read_section(struct reader *r, const char *section)
{
	char key[KEY_MAX], what[2 * KEY_MAX];
	yaml_mark_t mark;

	while (next(r) != YAML_MAPPING_END_EVENT && r->has_event) {
		struct config_origin *origin;
		const struct config_option *o;
		void *base;
		int id;

		if (!take_key(r, key, &mark))
			continue;
		id = find_option(section, key);
		if (next(r) == YAML_NO_EVENT)
			return;
		if (id < 0) {
			unknown_key(r, mark, section, key);
			skip(r);
			continue;
		}
		o = &config_options[id];
		origin = &r->c->origin[id];
		(void)str_print(what, sizeof(what), "'%s.%s'", section, key);
		if (origin->line) {
			mistake(r, mark, "%s stands here twice: first in line %u", what,
				origin->line);
			skip(r);
			continue;
		}
		*origin = (struct config_origin){ CONFIG_FROM_FILE, (unsigned)mark.line + 1 };
		base = o->is_gpu ? (void *)&r->c->gpu : (void *)r->c;
		read_value(r, o, what, (char *)base + o->offset);
	}
}

/* ---- the list of GPUs ---- */

static void read_name(struct reader *r, bool is_model, struct config_gpu_entry *e)
{
	yaml_mark_t mark = r->event.start_mark;
	const char *text = scalar(r, is_model ? "'gpus.model'" : "'gpus.id'");
	struct err err = { 0 };

	if (!text) {
		skip(r);
		(void)str_copy(e->name, sizeof(e->name), "?"); /* told; do not tell that it lacks */
		return;
	}
	if (e->name[0])
		mistake(r, mark, "an entry of 'gpus' has one 'id' or one 'model'");
	e->is_model = is_model;
	if (!str_copy(e->name, sizeof(e->name), text))
		mistake(r, mark, "'%.60s…' is too long", text);
	if (!is_model && gpu_id_read(text, &e->id, &err) < 0)
		mistake(r, mark, "'gpus.id': %s", err.text);
}

static void read_entry_option(struct reader *r, yaml_mark_t mark, const char *key,
			      struct config_gpu_entry *e)
{
	int id = find_option("gpu_defaults", key);
	char what[2 * KEY_MAX];

	if (id < 0) {
		unknown_key(r, mark, GPUS, key);
		skip(r);
		return;
	}
	(void)str_print(what, sizeof(what), "'" GPUS ".%s'", key);
	if (e->set & 1u << id) {
		mistake(r, mark, "%s stands in this entry twice: first in line %u", what,
			e->lines[id]);
		skip(r);
		return;
	}
	e->set |= 1u << id;
	e->lines[id] = (unsigned)mark.line + 1;
	read_value(r, &config_options[id], what, (char *)&e->values + config_options[id].offset);
}

static void check_entry(struct reader *r, yaml_mark_t mark, const struct config_gpu_entry *e)
{
	if (!e->name[0])
		mistake(r, mark,
			"this entry of 'gpus' says of no GPU: give it an 'id' or a 'model'");
	else if (!e->set)
		mistake(r, mark, "this entry of 'gpus' says nothing of its GPU");
	for (unsigned i = 0; e->name[0] && i < r->c->n_gpus; i++) {
		const struct config_gpu_entry *other = &r->c->gpus[i];

		if (other->is_model == e->is_model &&
		    (e->is_model ? strcmp(other->name, e->name) == 0
				 : gpu_id_is_same(&other->id, &e->id)))
			mistake(r, mark, "'%s' has an entry already, in line %u", e->name,
				other->line);
	}
}

static void read_entry(struct reader *r)
{
	struct config_gpu_entry e = { 0 };
	yaml_mark_t mark = r->event.start_mark, at;
	unsigned before = r->report->n;
	char key[KEY_MAX];

	e.line = (unsigned)mark.line + 1;
	while (next(r) != YAML_MAPPING_END_EVENT && r->has_event) {
		if (!take_key(r, key, &at))
			continue;
		if (next(r) == YAML_NO_EVENT)
			return;
		if (strcmp(key, "id") == 0 || strcmp(key, "model") == 0)
			read_name(r, key[0] == 'm', &e);
		else
			read_entry_option(r, at, key, &e);
	}
	if (r->report->n == before)
		check_entry(r, mark, &e);
	if (r->c->n_gpus == CONFIG_GPUS_MAX)
		mistake(r, mark, "'gpus' has more than %d entries", CONFIG_GPUS_MAX);
	else
		r->c->gpus[r->c->n_gpus++] = e;
}

static void read_gpus(struct reader *r)
{
	while (next(r) != YAML_SEQUENCE_END_EVENT && r->has_event) {
		if (r->event.type == YAML_MAPPING_START_EVENT) {
			read_entry(r);
			continue;
		}
		if (r->event.type != YAML_ALIAS_EVENT)
			mistake(r, r->event.start_mark,
				"an entry of 'gpus' is a section, as in '- id: 0'");
		skip(r);
	}
}

/* ---- the file ---- */

static void unknown_section(struct reader *r, yaml_mark_t mark, const char *key)
{
	const char *names[ARRAY_SIZE(r->section_lines) + 2], *near;
	unsigned n = 0;

	for (const struct config_section *s = config_sections; s->name; s++)
		names[n++] = s->name;
	names[n++] = GPUS;
	names[n] = NULL;
	near = str_nearest(key, names);
	if (near) {
		mistake(r, mark, "unknown section '%s': did you mean '%s'?", key, near);
		return;
	}
	for (unsigned i = 0; i < CONFIG_N_OPTIONS; i++) {
		if (strcmp(config_options[i].name, key) != 0)
			continue;
		mistake(r, mark, "key '%s' belongs into the section '%s'", key,
			config_options[i].section);
		return;
	}
	mistake(r, mark, "unknown section '%s'", key);
}

/* where the section of that name is noted to begin; NULL: there is none */
static unsigned *section_line(struct reader *r, const char *key)
{
	if (strcmp(key, GPUS) == 0)
		return &r->gpus_line;
	for (unsigned i = 0; config_sections[i].name && i < ARRAY_SIZE(r->section_lines); i++)
		if (strcmp(config_sections[i].name, key) == 0)
			return &r->section_lines[i];
	return NULL;
}

static void read_root(struct reader *r)
{
	char key[KEY_MAX];
	yaml_mark_t mark;

	while (next(r) != YAML_MAPPING_END_EVENT && r->has_event) {
		bool is_gpus;
		unsigned *line;

		if (!take_key(r, key, &mark))
			continue;
		line = section_line(r, key);
		is_gpus = line == &r->gpus_line;
		if (!line)
			unknown_section(r, mark, key);
		else if (*line)
			mistake(r, mark, "section '%s' stands here twice: first in line %u", key,
				*line);
		else
			*line = (unsigned)mark.line + 1;
		if (next(r) == YAML_NO_EVENT)
			return;
		if (!line || is_null(&r->event) || r->event.type == YAML_ALIAS_EVENT) {
			skip(r); /* all of it may be commented out */
		} else if (is_gpus && r->event.type == YAML_SEQUENCE_START_EVENT) {
			read_gpus(r);
		} else if (!is_gpus && r->event.type == YAML_MAPPING_START_EVENT) {
			read_section(r, key);
		} else {
			mistake(r, r->event.start_mark,
				is_gpus ? "'%s' is a list, as in '- id: 0'"
					: "'%s' is a section: its keys stand indented below it",
				key);
			skip(r);
		}
	}
}

static void read_stream(struct reader *r)
{
	yaml_event_type_t t = next(r); /* the stream begins */

	if (t == YAML_STREAM_START_EVENT)
		t = next(r);
	if (t != YAML_DOCUMENT_START_EVENT)
		return; /* an empty file, or told */
	t = next(r);
	if (t == YAML_MAPPING_START_EVENT) {
		read_root(r);
	} else if (t != YAML_NO_EVENT && t != YAML_ALIAS_EVENT && !is_null(&r->event)) {
		mistake(r, r->event.start_mark,
			"the file must consist of sections, as in 'jobs:' and keys below it");
		skip(r);
	}
	if (next(r) == YAML_DOCUMENT_END_EVENT && next(r) == YAML_DOCUMENT_START_EVENT)
		mistake(r, r->event.start_mark,
			"a second document begins here: the file must be one");
}

int config_read_text(const char *text, size_t len, const char *name, enum config_mode mode,
		     struct config *ret, struct config_report *report)
{
	struct reader r = { .text = text, .len = len, .mode = mode, .report = report };
	AUTO_FREE struct config *c = malloc(sizeof(*c));
	unsigned line, column;
	const char *why = text_check(text, len, &line, &column);

	report->n = report->n_more = 0;
	if (why) {
		mistake_at(&r, line, column, "%s", why);
		return -EINVAL;
	}
	if (!c || !yaml_parser_initialize(&r.parser)) {
		mistake_at(&r, 0, 0, "no memory to read it");
		return -ENOMEM;
	}
	config_defaults(c);
	(void)str_copy(c->file, sizeof(c->file), name);
	r.c = c;
	yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, len);
	read_stream(&r);
	if (r.has_event)
		yaml_event_delete(&r.event);
	yaml_parser_delete(&r.parser);
	if (report->n)
		return -EINVAL;
	*ret = *c;
	return 0;
}
