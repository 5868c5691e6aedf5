// SPDX-License-Identifier: Apache-2.0
#include "cli/fields.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fmt.h"
#include "base/str.h"
#include "wire/wire.h"

#define UNKNOWN "–"

static uint64_t get_u64(const struct field *f, const void *row)
{
	uint64_t v;

	memcpy(&v, (const char *)row + f->offset, sizeof(v));
	return v;
}

static uint32_t get_u32(const struct field *f, const void *row)
{
	uint32_t v;

	memcpy(&v, (const char *)row + f->offset, sizeof(v));
	return v;
}

static const char *get_text(const struct field *f, const void *row)
{
	return (const char *)row + f->offset;
}

static bool get_bool(const struct field *f, const void *row)
{
	bool v;

	memcpy(&v, (const char *)row + f->offset, sizeof(v));
	return v;
}

static json_t *get_json(const struct field *f, const void *row)
{
	json_t *v;

	memcpy(&v, (const char *)row + f->offset, sizeof(v));
	return v;
}

static bool is_known(const struct field *f, const void *row)
{
	switch (f->kind) {
	case FIELD_TEXT:
	case FIELD_STATE:
		return get_text(f, row)[0] != '\0';
	case FIELD_U64:
	case FIELD_BYTES:
	case FIELD_SIGNED:
	case FIELD_NS:
		return get_u64(f, row) != WIRE_UNKNOWN_U64;
	case FIELD_ID:
	case FIELD_TIME:
		return get_u64(f, row) != 0;
	case FIELD_U32:
	case FIELD_PERMILLE:
	case FIELD_MILLI:
		return get_u32(f, row) != WIRE_UNKNOWN_U32;
	case FIELD_PID:
		return get_u32(f, row) != 0;
	case FIELD_JSON:
		return get_json(f, row) != NULL;
	case FIELD_BOOL:
		break;
	}
	return true;
}

static void time_text(uint64_t seconds, char *buf, size_t size)
{
	time_t t = (time_t)seconds;
	struct tm tm;

	if (!gmtime_r(&t, &tm) || strftime(buf, size, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
		buf[0] = '\0';
}

static json_t *value_json(const struct field *f, const void *row)
{
	char when[40];

	if (!is_known(f, row))
		return json_null();
	switch (f->kind) {
	case FIELD_TEXT:
	case FIELD_STATE:
		return json_string(get_text(f, row));
	case FIELD_U64:
	case FIELD_BYTES:
	case FIELD_ID:
	case FIELD_SIGNED:
		return json_integer((json_int_t)get_u64(f, row));
	case FIELD_U32:
		return json_integer(get_u32(f, row));
	case FIELD_PID:
		return json_integer((int32_t)get_u32(f, row));
	case FIELD_PERMILLE:
		return out_pct(get_u32(f, row));
	case FIELD_MILLI:
		return json_real(get_u32(f, row) / 1000.0);
	case FIELD_NS:
		return json_real((double)(get_u64(f, row) / NS_PER_MS) / 1000.0);
	case FIELD_TIME:
		time_text(get_u64(f, row), when, sizeof(when));
		return json_string(when);
	case FIELD_BOOL:
		return json_boolean(get_bool(f, row));
	case FIELD_JSON:
		return json_incref(get_json(f, row));
	}
	return json_null();
}

/* a list for people: "1, 2, 3" */
static void list_text(json_t *list, char *buf, size_t size)
{
	size_t i, len = 0;
	json_t *v;

	buf[0] = '\0';
	if (!json_is_array(list)) {
		(void)str_copy(buf, size, "…");
		return;
	}
	json_array_foreach(list, i, v)
	{
		if (json_is_string(v))
			(void)str_print(buf + len, size - len, "%s%s", i ? ", " : "",
					json_string_value(v));
		else
			(void)str_print(buf + len, size - len, "%s%" JSON_INTEGER_FORMAT,
					i ? ", " : "", json_integer_value(v));
		len += strlen(buf + len);
	}
	if (len == 0)
		(void)str_copy(buf, size, "none");
}

static void value_text(const struct field *f, const void *row, char *buf, size_t size)
{
	struct fmt_buf b;
	uint32_t n;

	buf[0] = '\0';
	if (!is_known(f, row)) {
		(void)str_copy(buf, size, UNKNOWN);
		return;
	}
	switch (f->kind) {
	case FIELD_TEXT:
	case FIELD_STATE:
		(void)str_print(buf, size, "%s", get_text(f, row));
		break;
	case FIELD_U64:
	case FIELD_ID:
		(void)str_print(buf, size, "%" PRIu64, get_u64(f, row));
		break;
	case FIELD_BYTES:
		(void)str_copy(buf, size, fmt_size(&b, get_u64(f, row)));
		break;
	case FIELD_SIGNED: {
		int64_t v = (int64_t)get_u64(f, row);

		(void)str_print(buf, size, "%s%s", v < 0 ? "-" : "",
				fmt_size(&b, v < 0 ? 0 - (uint64_t)v : (uint64_t)v));
		break;
	}
	case FIELD_U32:
		(void)str_print(buf, size, "%" PRIu32, get_u32(f, row));
		break;
	case FIELD_PID:
		(void)str_print(buf, size, "%" PRId32, (int32_t)get_u32(f, row));
		break;
	case FIELD_PERMILLE:
		n = get_u32(f, row);
		(void)str_print(buf, size, n % 10 ? "%u.%u %%" : "%u %%", n / 10, n % 10);
		break;
	case FIELD_MILLI:
		(void)str_print(buf, size, "%" PRIu32, get_u32(f, row) / 1000);
		break;
	case FIELD_NS:
		(void)str_copy(buf, size, fmt_duration(&b, get_u64(f, row)));
		break;
	case FIELD_TIME:
		time_text(get_u64(f, row), buf, size);
		break;
	case FIELD_BOOL:
		(void)str_copy(buf, size, get_bool(f, row) ? "yes" : "no");
		break;
	case FIELD_JSON:
		list_text(get_json(f, row), buf, size);
		break;
	}
}

json_t *fields_json(const struct object *o, const void *row)
{
	json_t *item = json_object();

	for (unsigned i = 0; item && i < o->n_fields; i++)
		if (o->fields[i].name && json_object_set_new(item, o->fields[i].name,
							     value_json(&o->fields[i], row)) < 0) {
			json_decref(item);
			return NULL;
		}
	return item;
}

static enum out_color color_of(const char *state)
{
	static const struct {
		const char *begin;
		enum out_color color;
	} all[] = { { "waiting", OUT_YELLOW }, { "failed", OUT_RED },    { "killed", OUT_RED },
		    { "lost", OUT_RED },       { "unmanaged", OUT_DIM }, { "done", OUT_DIM } };

	for (unsigned i = 0; i < ARRAY_SIZE(all); i++)
		if (str_starts_with(state, all[i].begin))
			return all[i].color;
	return OUT_PLAIN;
}

static int add_table_row(struct printer *p, const void *row)
{
	struct out_row *r = out_row(&p->table);

	if (!r)
		return -ENOMEM;
	for (unsigned i = 0; i < p->object->n_fields; i++) {
		const struct field *f = &p->object->fields[i];

		if (!f->column)
			continue;
		value_text(f, row, r->cell[f->column - 1], OUT_CELL);
		if (f->kind == FIELD_STATE)
			r->color[f->column - 1] = color_of(r->cell[f->column - 1]);
	}
	return 0;
}

static void csv_record(const struct object *o, const void *row)
{
	const char *sep = "";

	for (unsigned i = 0; i < o->n_fields; i++) {
		json_t *v;

		if (!o->fields[i].name)
			continue;
		fputs(sep, stdout);
		sep = ",";
		v = value_json(&o->fields[i], row);
		out_csv_value(v);
		json_decref(v);
	}
	putchar('\n');
}

/* once, before the first record or at the end: what fails before prints nothing */
static void csv_header(struct printer *p)
{
	const struct object *o = p->object;
	const char *sep = "";

	if (p->has_header || p->common->no_header)
		return;
	p->has_header = true;
	for (unsigned i = 0; i < o->n_fields; i++) {
		if (!o->fields[i].name)
			continue;
		printf("%s%s", sep, o->fields[i].name);
		sep = ",";
	}
	putchar('\n');
}

void printer_begin(struct printer *p, const struct common *common, const struct object *object)
{
	memset(p, 0, sizeof(*p));
	p->common = common;
	p->object = object;
	if (common->output == OUTPUT_JSON)
		p->items = json_array();
	p->table.no_header = common->no_header;
	p->table.color = common->color;
	for (unsigned i = 0; i < object->n_fields; i++) {
		const struct field *f = &object->fields[i];

		if (!f->column)
			continue;
		p->table.title[f->column - 1] = f->title;
		p->table.right[f->column - 1] = f->right;
		p->table.least[f->column - 1] = f->least;
		if (f->column > p->table.n_columns)
			p->table.n_columns = f->column;
	}
}

int printer_add(struct printer *p, const void *row)
{
	json_t *item;

	switch (p->common->output) {
	case OUTPUT_TABLE:
		return add_table_row(p, row);
	case OUTPUT_CSV:
		csv_header(p);
		csv_record(p->object, row);
		return 0;
	case OUTPUT_JSON:
		break;
	}
	item = fields_json(p->object, row);
	return item && json_array_append_new(p->items, item) == 0 ? 0 : -ENOMEM;
}

int printer_end(struct printer *p)
{
	int r = 0;

	if (p->common->output == OUTPUT_TABLE) {
		out_table_print(&p->table, stdout);
	} else if (p->common->output == OUTPUT_CSV) {
		csv_header(p);
	} else {
		r = out_items(OUTPUT_JSON, p->object->kind, p->items, NULL);
		p->items = NULL;
	}
	printer_drop(p);
	return r;
}

void printer_drop(struct printer *p)
{
	json_decref(p->items);
	p->items = NULL;
	out_table_drop(&p->table);
}

void sheet_print(const struct object *o, const void *row, FILE *to)
{
	unsigned wide = 0;

	for (unsigned i = 0; i < o->n_fields; i++)
		if (o->fields[i].title && is_known(&o->fields[i], row) &&
		    out_width(o->fields[i].title) > wide)
			wide = out_width(o->fields[i].title);
	for (unsigned i = 0; i < o->n_fields; i++) {
		const struct field *f = &o->fields[i];
		char text[2048];

		if (!f->title || !is_known(f, row))
			continue;
		value_text(f, row, text, sizeof(text));
		fprintf(to, "%s%*s  %s\n", f->title, (int)(wide - out_width(f->title)), "", text);
	}
}
